#include "fs/verdict.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "fs/judge.h"
#include "fs/names.h"
#include "fs/pathfd.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/path.h"
#include "runtime/base/sys.h"

/** struct tally - the strictest so far */
struct tally {
        const struct explain_region *region;
        struct verdict *ret;
        struct buf path, other; /* of the object looked at: in two places, or @other empty */
        unsigned left;          /* objects that may still be looked at */
};

/* They are in the order of their strength. */
static_assert(GUARD_ALLOW < GUARD_HOLD && GUARD_HOLD < GUARD_PROTECT && GUARD_PROTECT < GUARD_HIDE,
              "enum guard_do is not in order");

static void take(struct tally *t, enum guard_do action, const char *rule, const char *reason) {
        if (action <= t->ret->action)
                return;
        t->ret->action = action;
        (void) snprintf(t->ret->rule, sizeof(t->ret->rule), "%s", rule);
        (void) snprintf(t->ret->reason, sizeof(t->ret->reason), "%s", reason);
}

static void look(struct tally *t, const char *path, mode_t mode) {
        const struct rules_verdict v = rules_path(t->region->rules, path, mode & S_IFMT);

        if (v.action != GUARD_ALLOW)
                take(t, v.action, rules_text(t->region->rules, v.rule), "");
}

/* ---- all that goes with a directory ---- */

static int look_below(struct tally *t, int dir_fd, unsigned depth);

static int look_entry(struct tally *t, int dir_fd, const char *name, unsigned depth) {
        struct stat st;
        AUTO_FD int fd = -1;

        if (fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
                return errno == ENOENT ? 0 : -errno;
        look(t, buf_cstr(&t->path), st.st_mode);
        if (t->other.len > 0)
                look(t, buf_cstr(&t->other), st.st_mode);
        if (!S_ISDIR(st.st_mode))
                return 0;
        fd = open_beneath(dir_fd, name, O_RDONLY | O_DIRECTORY, 0);
        return fd == -ENOENT ? 0 : fd < 0 ? fd : look_below(t, fd, depth + 1);
}

static void cut(struct buf *path, size_t len) {
        path->len = len;
        if (path->data)
                path->data[len] = '\0';
}

static int look_below(struct tally *t, int dir_fd, unsigned depth) {
        const size_t len = t->path.len, other_len = t->other.len;
        AUTO_NAMES struct names names = { 0 };
        int r;

        r = depth > DIFF_DEPTH_MAX ? -ELOOP : names_read(dir_fd, &names);
        for (size_t i = 0; r == 0 && i < names.n && t->ret->action < GUARD_PROTECT; i++) {
                if (t->left-- == 0) {
                        take(t, GUARD_HOLD, "(limit)", "too much to look at");
                        t->left = 1;
                        return 0;
                }
                r = buf_fmt(&t->path, "/%s", names.v[i]);
                if (r == 0 && other_len > 0)
                        r = buf_fmt(&t->other, "/%s", names.v[i]);
                if (r == 0)
                        r = look_entry(t, dir_fd, names.v[i], depth);
                cut(&t->path, len);
                cut(&t->other, other_len);
        }
        return r;
}

/* What the lower has below @c goes or moves with it. */
static int look_at_tree(struct tally *t, const struct change *c) {
        const char *name, *from = c->from ? c->from : c->lower_path;
        AUTO_FD int parent = pathfd_open_parent(t->region->lower_fd, c->lower_path, &name);
        AUTO_FD int fd = parent < 0 ? parent : open_beneath(parent, name, O_RDONLY | O_DIRECTORY, 0);
        int r;

        if (fd == -ENOENT || fd == -ENOTDIR || fd == -ELOOP)
                return 0;
        r = fd < 0 ? fd : buf_str(&t->path, c->path);
        if (r == 0 && strcmp(from, c->path) != 0)
                r = buf_str(&t->other, from);
        if (r == 0 && t->other.len > 0)
                look(t, from, S_IFDIR);
        r = r < 0 ? r : look_below(t, fd, 0);
        if (r == -EACCES || r == -ELOOP) { /* not to be looked at is not allowed */
                take(t, GUARD_HOLD, "(limit)", "cannot be looked at");
                r = 0;
        }
        return r;
}

/* ---- contents ---- */

/* A regular file that a rule holds: it may be harmless. */
static int judge_file(struct tally *t, const char *path) {
        CLEANUP(explanation_deinit) struct explanation e = { 0 };
        const int r = explain_look(t->region, path, &e);

        if (r < 0 || !e.judged)
                return r;
        if (e.lands)
                *t->ret = (struct verdict){ .action = GUARD_ALLOW };
        else
                (void) snprintf(t->ret->reason, sizeof(t->ret->reason), "%s", buf_cstr(&e.reason));
        return 0;
}

static int judge_target(struct tally *t, const struct change *c) {
        char target[PATH_MAX];
        const ssize_t n = readlinkat(c->upper_dir, path_basename(c->path), target, sizeof(target) - 1);

        if (n < 0)
                return -errno;
        target[n] = '\0';
        if (!judge_link(target))
                take(t, GUARD_HOLD, "(link)", "leads into a git directory");
        return 0;
}

int verdict_change(const struct explain_region *region, const struct change *c, struct verdict *ret) {
        struct tally t = { .region = region, .ret = ret, .left = VERDICT_WALK_MAX };
        const bool gone = c->kind == CHANGE_DELETED;
        int r = 0;

        *ret = (struct verdict){ .action = GUARD_ALLOW };
        if (!region->rules)
                return 0;
        look(&t, c->path, c->mode);
        if (c->lower)
                look(&t, c->path, c->lower->st_mode);
        if (ret->action == GUARD_HOLD && S_ISREG(c->mode) && !gone && c->kind != CHANGE_TYPE)
                r = judge_file(&t, c->path);
        else if (ret->action == GUARD_ALLOW && S_ISLNK(c->mode) && !gone)
                r = judge_target(&t, c);
        if (r == 0 && (c->kind == CHANGE_RENAMED ||
                       ((gone || c->kind == CHANGE_TYPE) && c->lower && S_ISDIR(c->lower->st_mode))))
                r = look_at_tree(&t, c);
        buf_deinit(&t.path);
        buf_deinit(&t.other);
        return r;
}
