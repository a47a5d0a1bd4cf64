/*
 * DOC: theory of operation
 *
 * One walk over the names of lower and upper together. The upper decides where it has something; a renamed
 * directory is looked for in the lower where it was (moves.h). A name is absent when a rule hides it where it
 * is seen, or where the lower has it.
 *
 * An attacker chose names, modes, links and contents of both, and may change the lower meanwhile: what is
 * opened is looked at again by descriptor.
 */
#include "fs/export.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fs/layer.h"
#include "fs/moves.h"
#include "fs/names.h"
#include "fs/pathfd.h"
#include "fs/rules.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/escape.h"
#include "runtime/base/sys.h"

struct walk {
        const struct export_options *opt;
        struct moves moves;
        struct buf path;
        unsigned depth;
        struct error *err;
};

/** struct level - one directory */
struct level {
        int upper_fd, lower_fd; /* -1: none */
        const char *lower_path; /* where the lower has it */
};

/** struct found - what a name stands for */
struct found {
        int dir_fd; /* that holds it, borrowed; -1: nothing */
        bool in_upper, opaque;
        struct stat st;
};

static int walk_level(struct walk *w, const struct level *level);

static int find(const struct level *level, const char *name, struct found *ret) {
        enum layer_kind kind = LAYER_ABSENT;
        int r = 0;

        *ret = (struct found){ .dir_fd = -1 };
        if (level->upper_fd >= 0)
                r = layer_lookup(level->upper_fd, name, &kind, &ret->st);
        if (r < 0 || kind == LAYER_WHITEOUT)
                return r;
        if (kind != LAYER_ABSENT) {
                ret->dir_fd = level->upper_fd;
                ret->in_upper = true;
                ret->opaque = kind == LAYER_OPAQUE_DIR;
                return 0;
        }
        if (level->lower_fd < 0)
                return 0;
        if (fstatat(level->lower_fd, name, &ret->st, AT_SYMLINK_NOFOLLOW) < 0)
                return errno == ENOENT ? 0 : -errno;
        ret->dir_fd = level->lower_fd;
        return 0;
}

static bool is_hidden(const struct walk *w, const char *path, mode_t mode) {
        return w->opt->rules && rules_path(w->opt->rules, path, mode & S_IFMT).action == GUARD_HIDE;
}

static int skip(const struct walk *w, int error) {
        return w->opt->skip(buf_cstr(&w->path), error, w->opt->arg);
}

static int put_file(const struct walk *w, struct found *f, const char *name) {
        struct export_entry e = { .path = buf_cstr(&w->path) };
        AUTO_FD int fd = -1;

        if (f->in_upper)
                fd = layer_open_read(f->dir_fd, name);
        else
                fd = open_beneath(f->dir_fd, name, O_RDONLY | O_NONBLOCK | O_NOCTTY, 0);
        if (fd < 0)
                return skip(w, fd);
        if (fstat(fd, &e.st) < 0 || !S_ISREG(e.st.st_mode))
                return skip(w, -ESTALE);
        e.st.st_mode &= ~(mode_t) (S_ISUID | S_ISGID);
        e.fd = fd;
        return w->opt->put(&e, w->opt->arg);
}

static int put_link(const struct walk *w, const struct found *f, const char *name) {
        char target[PATH_MAX];
        struct export_entry e = { .path = buf_cstr(&w->path), .st = f->st, .fd = -1, .link = target };
        const ssize_t n = readlinkat(f->dir_fd, name, target, sizeof(target) - 1);

        if (n < 0)
                return skip(w, -errno);
        target[n] = '\0';
        return w->opt->put(&e, w->opt->arg);
}

/* Opens a directory of either side. Return: descriptor, -1: none, or -errno below that. */
static int open_side(int dir_fd, const char *name) {
        const int fd = dir_fd < 0 ? -ENOENT : open_beneath(dir_fd, name, O_RDONLY | O_DIRECTORY, 0);

        return fd == -ENOENT || fd == -ENOTDIR || fd == -ELOOP ? -1 : fd;
}

static int open_lower(const struct walk *w, const struct level *level, const char *name,
                      const struct move *move) {
        const char *old;
        AUTO_FD int parent = -1;

        if (!move)
                return open_side(level->lower_fd, name);
        parent = w->opt->layers.lower_fd < 0 ? -1
                                             : pathfd_open_parent(w->opt->layers.lower_fd, move->from, &old);
        return parent < 0 ? -1 : open_side(parent, old);
}

static int put_dir(struct walk *w, const struct level *level, const struct found *f, const char *name,
                   const char *lower_path) {
        const struct move *move =
                f->in_upper && !f->opaque ? moves_find(&w->moves, buf_cstr(&w->path)) : NULL;
        struct export_entry e = { .path = buf_cstr(&w->path), .st = f->st, .fd = -1 };
        AUTO_FD int upper = f->in_upper ? open_side(level->upper_fd, name) : -1;
        AUTO_FD int lower = f->opaque ? -1 : open_lower(w, level, name, move);
        const struct level next = { upper < 0 ? -1 : upper, lower < 0 ? -1 : lower,
                                    move ? move->from : lower_path };
        int r;

        if (upper < -1 || (lower < -1 && !f->in_upper))
                return skip(w, upper < -1 ? upper : lower);
        if (w->depth >= DIFF_DEPTH_MAX)
                return error_set(w->err, -ELOOP, "'%s': more than %d levels of directories",
                                 ESC(buf_cstr(&w->path)), DIFF_DEPTH_MAX);
        e.st.st_mode &= ~(mode_t) (S_ISUID | S_ISGID);
        r = w->opt->put(&e, w->opt->arg);
        w->depth++;
        if (r == 0)
                r = walk_level(w, &next);
        w->depth--;
        e.path = buf_cstr(&w->path);
        return r < 0 || !w->opt->leave ? r : w->opt->leave(&e, w->opt->arg);
}

static int visit(struct walk *w, const struct level *level, const char *name) {
        AUTO_BUF struct buf lower_path = { 0 };
        struct found f;
        int r;

        r = find(level, name, &f);
        if (r == 0)
                r = buf_fmt(&lower_path, "%s%s%s", level->lower_path, *level->lower_path ? "/" : "", name);
        if (r < 0)
                return skip(w, r);
        if (f.dir_fd < 0 || is_hidden(w, buf_cstr(&w->path), f.st.st_mode) ||
            (!f.in_upper && is_hidden(w, buf_cstr(&lower_path), f.st.st_mode)))
                return 0;
        if (S_ISDIR(f.st.st_mode))
                return put_dir(w, level, &f, name, buf_cstr(&lower_path));
        if (S_ISREG(f.st.st_mode))
                return put_file(w, &f, name);
        return S_ISLNK(f.st.st_mode) ? put_link(w, &f, name) : skip(w, 0);
}

static int list(const struct level *level, struct names *names) {
        AUTO_NAMES struct names lower = { 0 };
        size_t n;
        int r = 0;

        if (level->upper_fd >= 0)
                r = names_read(level->upper_fd, names);
        n = names->n;
        if (r == 0 && level->lower_fd >= 0)
                r = names_read(level->lower_fd, &lower);
        for (size_t i = 0; r == 0 && i < lower.n; i++)
                if (!names_has(names, n, lower.v[i]))
                        r = names_add(names, lower.v[i]);
        names_sort(names);
        return r;
}

static int walk_level(struct walk *w, const struct level *level) {
        const size_t base = w->path.len;
        AUTO_NAMES struct names names = { 0 };
        int r;

        r = list(level, &names);
        if (r < 0)
                return error_set(w->err, r, "list '%s': %s", ESC(buf_cstr(&w->path)), strerror(-r));
        for (size_t i = 0; r == 0 && i < names.n; i++) {
                if (strncmp(names.v[i], LAYER_TEMP_PREFIX, strlen(LAYER_TEMP_PREFIX)) == 0)
                        continue;
                r = buf_fmt(&w->path, "%s%s", base > 0 ? "/" : "", names.v[i]);
                if (r == 0)
                        r = visit(w, level, names.v[i]);
                w->path.len = base;
                if (w->path.data)
                        w->path.data[base] = '\0';
        }
        return r;
}

int export_walk(const struct export_options *opt, struct error *err) {
        struct walk w = { .opt = opt, .err = err };
        const struct level top = { opt->layers.upper_fd, opt->layers.lower_fd, "" };
        int r = 0;

        if (opt->layers.upper_fd >= 0)
                r = moves_read(opt->layers.upper_fd, &w.moves);
        if (r < 0)
                (void) error_set(err, r, "read the directories that the run renamed: %s", strerror(-r));
        else
                r = walk_level(&w, &top);
        buf_deinit(&w.path);
        moves_deinit(&w.moves);
        return r;
}
