#include "fs/settle.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fs/hosttree.h"
#include "fs/layer.h"
#include "fs/moves.h"
#include "fs/names.h"
#include "fs/same.h"
#include "fs/transaction.h"
#include "runtime/base/buf.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/escape.h"
#include "runtime/base/sys.h"

struct finish {
        const struct apply_options *opt;
        struct buf path;
        size_t refused;
};

static int open_dir(int dir_fd, const char *name) {
        return open_beneath(dir_fd, name, O_RDONLY | O_DIRECTORY, 0);
}

/* Whether the directory cannot be entered here, which diff_walk() reports. */
static bool is_closed(int r) {
        return r == -EACCES || r == -ENOENT || r == -ENOTDIR || r == -ELOOP;
}

static int flatten(int upper_fd, int lower_fd, bool opaque, int64_t since_ns, unsigned depth);

static int flatten_child(int upper_fd, int lower_fd, const char *name, bool opaque, int64_t since_ns,
                         unsigned depth) {
        enum layer_kind kind = LAYER_ABSENT;
        AUTO_FD int upper = -1, lower = -1;
        int r;

        r = layer_lookup(upper_fd, name, &kind, NULL);
        if (r < 0 || (kind != LAYER_DIR && kind != LAYER_OPAQUE_DIR))
                return r;
        if (moves_is(upper_fd, name)) /* its lower one is elsewhere */
                return 0;
        upper = open_dir(upper_fd, name);
        lower = open_dir(lower_fd, name);
        if (upper < 0 || lower < 0) /* nothing below to hide */
                return is_closed(upper < 0 ? upper : lower) ? 0 : upper < 0 ? upper : lower;
        if (kind == LAYER_OPAQUE_DIR) { /* it stands for no lower one: relocate_all() was cut off */
                r = moves_set(upper, NULL);
                if (r < 0)
                        return r;
        }
        return flatten(upper, lower, opaque || kind == LAYER_OPAQUE_DIR, since_ns, depth + 1);
}

/* Children first: an opaque parent hides for them until they hide for themselves. */
static int flatten(int upper_fd, int lower_fd, bool opaque, int64_t since_ns, unsigned depth) {
        AUTO_NAMES struct names upper = { 0 }, lower = { 0 }, hidden = { 0 };
        int r;

        if (depth > DIFF_DEPTH_MAX)
                return -ELOOP;
        r = names_read(upper_fd, &upper);
        for (size_t i = 0; r == 0 && i < upper.n; i++)
                r = flatten_child(upper_fd, lower_fd, upper.v[i], opaque, since_ns, depth);
        if (r < 0 || !opaque)
                return r;
        r = names_read(lower_fd, &lower);
        for (size_t i = 0; r == 0 && i < lower.n; i++)
                if (!names_has(&upper, upper.n, lower.v[i]))
                        r = names_add(&hidden, lower.v[i]);
        return r < 0 ? r : layer_clear_opaque(upper_fd, hidden.v, hidden.n, since_ns);
}

int settle_flatten(int upper_fd, int lower_fd, struct error *err) {
        const int r = flatten(upper_fd, lower_fd, false, diff_hidden_since(upper_fd), 0);

        return r < 0 ? error_set(err, r, "prepare the upper of the run: %s", strerror(-r)) : 0;
}

static void step(const struct finish *f, const char *what) {
        if (f->opt->step)
                f->opt->step(what, f->opt->step_arg);
}

static int set_mode(int lower_dir, const char *name, mode_t mode) {
        struct stat st;
        AUTO_FD int fd = open_dir(lower_dir, name);

        if (fd < 0)
                return fd;
        if (fstat(fd, &st) < 0)
                return -errno;
        return fchmod(fd, mode | (st.st_mode & S_ISGID)) < 0 ? -errno : 0;
}

/* Records that the upper directory stands for the lower one as it is now. */
static int adopt(int upper_dir, int lower_dir, const char *name) {
        struct layer_origin origin;
        struct stat st;

        if (fstatat(lower_dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
                return -errno;
        origin = layer_origin_of(&st);
        return layer_claim(upper_dir, name, &origin);
}

/* Lands the mode of a directory when the work changed it. @ret: whether the upper has nothing more to say. */
static int finish_mode(struct finish *f, int upper_dir, int lower_dir, const char *name,
                       const struct stat *upper, bool *ret) {
        struct change c = { .kind = CHANGE_MODIFIED,
                            .path = buf_cstr(&f->path),
                            .lower_path = buf_cstr(&f->path),
                            .again = true,
                            .mode = upper->st_mode,
                            .upper = upper,
                            .upper_dir = upper_dir,
                            .lower_dir = lower_dir };
        enum apply_choice choice;
        struct stat lower;

        *ret = true;
        if (fstatat(lower_dir, name, &lower, AT_SYMLINK_NOFOLLOW) < 0 ||
            !diff_dir_mode_changed(upper_dir, name, f->opt->kernel, upper, &lower, &c.conflict))
                return 0;
        choice = apply_choose(f->opt, &c);
        if (choice == APPLY_LEAVE ||
            (c.conflict && choice != APPLY_FORCE)) { /* counted and reported from the diff */
                *ret = false;
                return 0;
        }
        c.conflict = false;
        step(f, "chmod");
        c.error = set_mode(lower_dir, name, upper->st_mode & 01777);
        *ret = c.error == 0;
        f->refused += c.error != 0;
        if (c.error == 0)
                (void) !adopt(upper_dir, lower_dir, name);
        return f->opt->report ? f->opt->report(&c, f->opt->arg) : 0;
}

static int finish_level(struct finish *f, int upper_fd, int lower_fd, unsigned depth);

static int finish_dir(struct finish *f, int upper_dir, int lower_dir, const char *name, const struct stat *st,
                      unsigned depth) {
        AUTO_FD int upper = open_dir(upper_dir, name);
        AUTO_FD int lower = open_dir(lower_dir, name);
        bool done = false;
        int r;

        if (upper < 0 || lower < 0)
                return is_closed(upper < 0 ? upper : lower) ? 0 : upper < 0 ? upper : lower;
        /* the work may have closed it: opened for as long as it takes */
        if ((st->st_mode & 0700) != 0700 && fchmod(upper, (st->st_mode & 07777) | 0700) < 0)
                return -errno;
        r = finish_level(f, upper, lower, depth + 1);
        if (r == 0)
                r = finish_mode(f, upper_dir, lower_dir, name, st, &done);
        if (done)
                step(f, "rmdir");
        if (r == 0 && done && unlinkat(upper_dir, name, AT_REMOVEDIR) == 0)
                return 0;
        if (r == 0 && done && errno != ENOTEMPTY && errno != EEXIST)
                r = -errno;
        if ((st->st_mode & 0700) != 0700)
                (void) !fchmod(upper, st->st_mode & 07777);
        return r;
}

static int drop(const struct finish *f, int upper_dir, const char *name) {
        step(f, "drop");
        return unlinkat(upper_dir, name, 0) < 0 ? -errno : 0;
}

static int finish_entry(struct finish *f, int upper_dir, int lower_dir, const char *name, unsigned depth) {
        enum layer_kind kind = LAYER_ABSENT;
        struct stat upper, lower;
        bool exists;
        int r;

        if (strncmp(name, LAYER_TEMP_PREFIX, strlen(LAYER_TEMP_PREFIX)) == 0)
                return hosttree_remove(upper_dir, name); /* of a guard that was killed */
        r = layer_lookup(upper_dir, name, &kind, &upper);
        if (r < 0)
                return r;
        exists = fstatat(lower_dir, name, &lower, AT_SYMLINK_NOFOLLOW) == 0;
        if (!exists && errno != ENOENT)
                return errno == EACCES ? 0 : -errno;
        if (kind == LAYER_WHITEOUT)
                return exists ? 0 : drop(f, upper_dir, name);
        if (kind == LAYER_DIR && moves_is(upper_dir, name))
                return 0;
        if (kind == LAYER_DIR)
                return exists ? finish_dir(f, upper_dir, lower_dir, name, &upper, depth) : 0;
        if (kind == LAYER_FILE && exists && same_object(upper_dir, &upper, lower_dir, &lower, name))
                return drop(f, upper_dir, name);
        return 0;
}

static int finish_level(struct finish *f, int upper_fd, int lower_fd, unsigned depth) {
        const size_t base = f->path.len;
        AUTO_NAMES struct names names = { 0 };
        int r;

        if (depth > DIFF_DEPTH_MAX)
                return -ELOOP;
        r = names_read(upper_fd, &names);
        for (size_t i = 0; r == 0 && i < names.n; i++) {
                r = base > 0 ? buf_add(&f->path, "/", 1) : 0;
                if (r == 0)
                        r = buf_str(&f->path, names.v[i]);
                if (r == 0)
                        r = finish_entry(f, upper_fd, lower_fd, names.v[i], depth);
                f->path.len = base;
                if (f->path.data)
                        f->path.data[base] = '\0';
        }
        return r;
}

int settle_finish(const struct apply_options *opt, size_t *ret_refused, struct error *err) {
        struct finish f = { .opt = opt };
        int r;

        r = finish_level(&f, opt->upper_fd, opt->lower_fd, 0);
        buf_deinit(&f.path);
        *ret_refused += f.refused;
        return r < 0 ? error_set(err, r, "tidy the upper of the run: %s", strerror(-r)) : 0;
}
