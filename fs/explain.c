#include "fs/explain.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fs/admit.h"
#include "fs/judge.h"
#include "fs/layer.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/file.h"
#include "runtime/base/sys.h"

/** struct pair - a directory in both layers, -1 where it is not; owned */
struct pair {
        int lower, upper;
};

static void pair_deinit(struct pair *p) {
        p->lower = fd_close(p->lower);
        p->upper = fd_close(p->upper);
}

void explanation_deinit(struct explanation *e) {
        free(e->link);
        buf_deinit(&e->reason);
        *e = (struct explanation){ 0 };
}

static int dup_or_none(int fd) {
        return fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, 3);
}

/* Goes down by one name; what the upper hides or replaces is not looked for in the lower. */
static int descend(const struct explain_region *region, struct pair *at, const char *name) {
        AUTO_FREE char *redirect = NULL;
        struct pair next = { -1, -1 };
        enum layer_kind kind = LAYER_ABSENT;
        int r = at->upper < 0 ? 0 : layer_lookup(at->upper, name, &kind, NULL);

        if (r < 0)
                return r;
        if (kind == LAYER_DIR || kind == LAYER_OPAQUE_DIR)
                next.upper = open_beneath(at->upper, name, O_PATH | O_DIRECTORY, 0);
        if (kind == LAYER_DIR && layer_get_redirect(at->upper, name, &redirect) < 0)
                redirect = NULL;
        if (redirect && region->lower_fd >= 0) /* renamed: the host has it elsewhere */
                next.lower = *redirect == '/'
                                     ? open_beneath(region->lower_fd, redirect + 1, O_PATH | O_DIRECTORY, 0)
                                     : open_beneath(at->lower, redirect, O_PATH | O_DIRECTORY, 0);
        else if ((kind == LAYER_DIR || kind == LAYER_ABSENT) && at->lower >= 0)
                next.lower = open_beneath(at->lower, name, O_PATH | O_DIRECTORY, 0);
        pair_deinit(at);
        at->lower = next.lower < 0 ? -1 : next.lower;
        at->upper = next.upper < 0 ? -1 : next.upper;
        return 0;
}

static int read_link(int dir_fd, const char *name, char **ret) {
        char target[PATH_MAX];
        const ssize_t n = readlinkat(dir_fd, name, target, sizeof(target) - 1);

        if (n < 0)
                return -errno;
        target[n] = '\0';
        *ret = strdup(target);
        return *ret ? 0 : -ENOMEM;
}

/* The object @name of the directory @at. @ret_dir: where it is, borrowed from @at; -1: nowhere */
static int find(const struct pair *at, const char *name, struct explanation *e, int *ret_dir) {
        enum layer_kind kind = LAYER_ABSENT;
        struct stat st;
        int r = at->upper < 0 ? 0 : layer_lookup(at->upper, name, &kind, &st);

        *ret_dir = -1;
        if (r < 0 || kind == LAYER_WHITEOUT)
                return r;
        e->held = kind != LAYER_ABSENT;
        *ret_dir = e->held ? at->upper : at->lower;
        if (!e->held && (at->lower < 0 || fstatat(at->lower, name, &st, AT_SYMLINK_NOFOLLOW) < 0)) {
                *ret_dir = -1;
                return 0;
        }
        e->type = st.st_mode & S_IFMT;
        if (kind == LAYER_DIR) /* shown with the host's */
                e->held = at->lower < 0 || fstatat(at->lower, name, &st, AT_SYMLINK_NOFOLLOW) < 0;
        return S_ISLNK(e->type) ? read_link(*ret_dir, name, &e->link) : 0;
}

static int read_at(int dir_fd, const char *name, struct buf *out) {
        AUTO_FD int fd =
                dir_fd < 0 ? -ENOENT : open_beneath(dir_fd, name, O_RDONLY | O_NONBLOCK | O_NOCTTY, 0);

        return fd < 0 ? TAKE(fd, -1) : file_read(fd, JUDGE_MAX_BYTES, out);
}

/* Asks the judge about the content that is there. */
static int judge(const struct explain_region *region, const char *path, const struct pair *at, int dir,
                 const char *name, struct explanation *e) {
        AUTO_BUF struct buf full = { 0 };
        AUTO_BUF struct buf data = { 0 };
        AUTO_BUF struct buf old = { 0 };
        const char *base = region->rules ? rules_base(region->rules) : NULL;
        const struct rules_verdict v = explain_verdict(region, path, S_IFREG);
        int r;

        if (region->kind == REGION_COW || v.action != GUARD_HOLD ||
            !rules_is_builtin(region->rules, v.rule) || (e->type && !S_ISREG(e->type)))
                return 0;
        r = base ? buf_fmt(&full, "%s/%s", base, path) : buf_str(&full, path);
        if (r < 0 || !judge_applies(buf_cstr(&full)))
                return r;
        e->judged = true;
        if (!e->type)
                return 0;
        r = read_at(dir, name, &data);
        if (r < 0)
                return r == -EFBIG ? buf_str(&e->reason, "too long to be judged") : r;
        if (e->held)
                (void) read_at(at->lower, name, &old);
        e->lands = judge_change(region->host_root, buf_cstr(&full), buf_cstr(&old), old.len, buf_cstr(&data),
                                data.len, &e->reason);
        e->goes = judge_removal(region->host_root, buf_cstr(&full), buf_cstr(&data), data.len);
        return 0;
}

int explain_look(const struct explain_region *region, const char *path, struct explanation *ret) {
        CLEANUP(pair_deinit)
        struct pair at = { dup_or_none(region->lower_fd), dup_or_none(region->upper_fd) };
        AUTO_FREE char *copy = strdup(path);
        char *name = copy, *slash;
        int dir, r = 0;

        *ret = (struct explanation){ .type = region->is_file ? S_IFREG : S_IFDIR };
        if (!copy)
                return -ENOMEM;
        if (!*name)
                return 0;
        while (r == 0 && (slash = strchr(name, '/'))) {
                *slash = '\0';
                r = descend(region, &at, name);
                name = slash + 1;
        }
        ret->type = 0;
        if (r == 0)
                r = find(&at, name, ret, &dir);
        return r < 0 ? r : judge(region, path, &at, dir, name, ret);
}

struct rules_verdict explain_verdict(const struct explain_region *region, const char *path, mode_t type) {
        if (!region->rules)
                return (struct rules_verdict){ .action = GUARD_ALLOW, .rule = -1 };
        return rules_path(region->rules, path, type ? type : S_IFREG);
}

/* --- operations -------------------------------------------------------------------------------------- */

/** struct op - @needs: the name has to be visible; @type: of what is made, 0: of what is there */
static const struct op {
        bool needs;
        mode_t type;
        bool files, dirs; /* for which of them it makes sense */
} ops[EXPLAIN_OP_COUNT] = {
        [EXPLAIN_READ] = { true, 0, true, true },           [EXPLAIN_WRITE] = { true, 0, true, false },
        [EXPLAIN_CREATE] = { false, S_IFREG, true, false }, [EXPLAIN_MKDIR] = { false, S_IFDIR, false, true },
        [EXPLAIN_SYMLINK] = { false, S_IFLNK, true, true }, [EXPLAIN_UNLINK] = { true, 0, true, true },
        [EXPLAIN_RENAME] = { true, 0, true, true },         [EXPLAIN_RENAME_TO] = { false, 0, true, true },
        [EXPLAIN_LINK] = { true, 0, true, false },          [EXPLAIN_CHMOD] = { true, 0, true, true },
};

bool explain_applies(const struct explanation *e, enum explain_op op) {
        if (!e->type)
                return true;
        return S_ISDIR(e->type) ? ops[op].dirs : ops[op].files;
}

/* What becomes of a change that is held. */
static enum explain_result held(const struct explain_region *region, const struct explanation *e,
                                enum explain_op op, int *ret_errno) {
        const bool copies = region_kind_copies(region->kind);
        const bool goes = op == EXPLAIN_UNLINK || op == EXPLAIN_RENAME || op == EXPLAIN_LINK;

        /* it would lead around the rule */
        if ((op == EXPLAIN_RENAME && !copies) || (op == EXPLAIN_LINK && !region->kernel)) {
                *ret_errno = op == EXPLAIN_LINK ? EPERM : EXDEV;
                return EXPLAIN_REFUSED;
        }
        if (!e->judged || op == EXPLAIN_MKDIR || op == EXPLAIN_SYMLINK || (copies && goes))
                return EXPLAIN_HELD;
        if (op == EXPLAIN_UNLINK && e->type)
                return e->goes ? EXPLAIN_HOST : EXPLAIN_HELD;
        return EXPLAIN_JUDGED;
}

enum explain_result explain_op(const struct explain_region *region, const char *path,
                               const struct explanation *e, enum explain_op op, int *ret_errno) {
        const struct rules_verdict v = explain_verdict(region, path, ops[op].type ? ops[op].type : e->type);
        int r;

        *ret_errno = 0;
        if (ops[op].needs && v.action == GUARD_HIDE) {
                *ret_errno = ENOENT;
                return EXPLAIN_REFUSED;
        }
        if (op == EXPLAIN_READ)
                return EXPLAIN_YES;
        r = admit_change(region->kind,
                         (region->rules || region_kind_copies(region->kind)) && !region->is_file, v.action);
        if (r >= 0 && region->kernel && op == EXPLAIN_RENAME && S_ISDIR(e->type) && !e->held) {
                *ret_errno = EXDEV; /* overlayfs renames no directory that the host has */
                return EXPLAIN_REFUSED;
        }
        if (r == ADMIT_LOWER)
                return EXPLAIN_HOST;
        if (r >= 0)
                return r == ADMIT_UPPER ? EXPLAIN_UPPER : held(region, e, op, ret_errno);
        *ret_errno = -r;
        return EXPLAIN_REFUSED;
}
