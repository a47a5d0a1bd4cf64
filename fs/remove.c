/* names that go: unlink, rmdir */
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "fs/judge.h"
#include "fs/layer.h"
#include "fs/ops.h"
#include "fs/reply.h"
#include "fs/spot.h"
#include "fs/tree.h"
#include "fs/upper.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/file.h"
#include "runtime/base/sys.h"

/* what is gone from the upper would come back from the lower */
static int cover_lower(struct spot *spot) {
        struct layer_origin origin;
        struct facts lower;
        int dir;

        if (!spot_in_lower(spot, &lower))
                return 0;
        dir = spot_upper_dir(spot);
        if (dir < 0)
                return dir;
        origin = layer_origin_of(&lower.st);
        return layer_whiteout(dir, spot->name, &origin);
}

/*
 * A file that the judge would let land is removed from the host too: its absence says no more to the host's
 * tools than an empty one would, or than itself. Held deletions would leave torn repositories behind,
 * wherever the work made one and removed it again.
 */
static bool may_go(const struct spot *spot, const struct facts *facts, enum node_layer layer) {
        const char *root = spot->server->hosts[spot->parent->region];
        const struct rules_verdict v = spot_verdict(spot, S_IFREG);
        AUTO_BUF struct buf path = { 0 };
        AUTO_BUF struct buf full = { 0 };
        AUTO_BUF struct buf data = { 0 };
        AUTO_FD int fd = -1;

        if (!S_ISREG(facts->st.st_mode) || v.action != GUARD_HOLD || spot->lower < 0 ||
            region_kind_copies(spot->region->kind) || !rules_is_builtin(spot->region->rules, v.rule))
                return false;
        if (spot_path(spot, &path) < 0 || upper_judge_path(spot->region, buf_cstr(&path), &full) < 0 ||
            !judge_applies(buf_cstr(&full)))
                return false;
        fd = open_beneath(layer == NODE_UPPER ? spot->upper : spot->lower, spot->name, O_RDONLY | O_NONBLOCK,
                          0);
        if (fd < 0 || file_read(fd, JUDGE_MAX_BYTES, &data) < 0)
                data.len = 0; /* then nothing may speak against it */
        return judge_removal(root, buf_cstr(&full), buf_cstr(&data), data.len);
}

/* where everything goes to the upper: in its place at once */
static int unlink_copied(struct spot *spot, enum node_layer layer) {
        struct layer_origin origin = { 0 };
        struct facts lower;
        int dir, r = 0;

        if (!spot_in_lower(spot, &lower))
                return unlinkat(spot->upper, spot->name, 0) < 0 ? -errno : 0;
        dir = spot_upper_dir(spot);
        if (dir < 0)
                return dir;
        quota_note(spot->server, spot->parent->region, 1);
        if (layer == NODE_UPPER)
                r = layer_origin_at(dir, spot->name, &origin);
        if (r < 0 || origin.ino == 0)
                origin = layer_origin_of(&lower.st);
        return layer == NODE_UPPER ? layer_cover(dir, spot->name, &origin)
                                   : layer_whiteout(dir, spot->name, &origin);
}

/* the tree is held for writing: for a moment the lower shows through */
static int unlink_held(struct spot *spot, const struct facts *facts, enum node_layer layer) {
        struct facts lower;

        if (may_go(spot, facts, layer) && spot_in_lower(spot, &lower) && S_ISREG(lower.st.st_mode) &&
            unlinkat(spot->lower, spot->name, 0) < 0)
                return -errno;
        if (layer == NODE_UPPER && unlinkat(spot->upper, spot->name, 0) < 0)
                return -errno;
        return cover_lower(spot);
}

static int remove_dir(struct spot *spot, int where) {
        int r = tree_is_empty(spot);

        if (r <= 0)
                return r < 0 ? r : -ENOTEMPTY;
        if (where == SPOT_LOWER && (spot->kind == LAYER_DIR || spot->kind == LAYER_ABSENT)) {
                r = unlinkat(spot->lower, spot->name, AT_REMOVEDIR) < 0 ? -errno : 0;
                /* the host keeps what is held in it, and so the directory */
                if (r < 0 && ((r != -ENOTEMPTY && r != -EEXIST) || spot->kind == LAYER_ABSENT))
                        return r;
        }
        if (spot->kind != LAYER_ABSENT) {
                r = tree_purge_upper(spot);
                if (r < 0)
                        return r;
        }
        return cover_lower(spot);
}

enum { NEEDS_WRITE = 1 };

/* Return: 0, NEEDS_WRITE (again, with the tree held for writing), -errno */
static int unname(struct server *s, fuse_ino_t parent, const char *name, bool dir, bool exclusive) {
        AUTO_SPOT struct spot spot = SPOT_INIT;
        enum node_layer layer;
        struct facts facts;
        int where, r = spot_open(s, parent, name, &spot);

        if (r == 0)
                r = spot_look(&spot, &facts, &layer);
        if (r < 0)
                return r;
        if (dir != S_ISDIR(facts.st.st_mode))
                return dir ? -ENOTDIR : -EISDIR;
        r = where = spot_admit(&spot, facts.st.st_mode, dir ? "rmdir" : "unlink");
        if (r < 0)
                return r;
        spot_keep(&spot, &facts, layer);
        if (where == SPOT_LOWER && spot.kind == LAYER_ABSENT) {
                r = unlinkat(spot.lower, name, dir ? AT_REMOVEDIR : 0) < 0 ? -errno : 0;
        } else {
                if (!exclusive)
                        return NEEDS_WRITE;
                if (dir)
                        r = remove_dir(&spot, where);
                else
                        r = region_kind_copies(spot.region->kind) ? unlink_copied(&spot, layer)
                                                                  : unlink_held(&spot, &facts, layer);
        }
        if (r == 0) {
                spot_gone(&spot, &facts);
                quota_freed(s);
        }
        return r;
}

static void op_unname(fuse_req_t req, fuse_ino_t parent, const char *name, bool dir) {
        struct server *s = fuse_req_userdata(req);
        int r = -EROFS;

        if (parent != NODE_ROOT_ID) {
                const uint64_t parts = holds_of_entry(s, parent, name);
                AUTO_TREE struct tree_hold hold = holds_read(s, parts);

                r = unname(s, parent, name, dir, false);
                if (r == NEEDS_WRITE) {
                        auto_tree(&hold);
                        hold = holds_write(s, parts);
                        r = unname(s, parent, name, dir, true);
                }
        }
        reply_error(req, r);
}

void op_unlink(fuse_req_t req, fuse_ino_t parent, const char *name) {
        op_unname(req, parent, name, false);
}

void op_rmdir(fuse_req_t req, fuse_ino_t parent, const char *name) {
        op_unname(req, parent, name, true);
}
