#include "fs/relocate.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fs/journal.h"
#include "fs/layer.h"
#include "fs/moves.h"
#include "fs/names.h"
#include "fs/pathfd.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/path.h"
#include "runtime/base/sys.h"

enum { PASSES_MAX = 16 }; /* longest chain of renames, each onto the place that the next one leaves */

enum fate { FATE_OPEN, FATE_DONE, FATE_COPY };

/** struct relocation - one directory */
struct relocation {
        char *path, *from; /* owned */
        struct layer_origin lower, upper;
        bool force;
        enum fate fate;
};

struct relocate {
        struct transaction *t;
        struct relocation *v;
        size_t n, cap;
};

static void relocate_deinit(struct relocate *w) {
        for (size_t i = 0; i < w->n; i++) {
                free(w->v[i].path);
                free(w->v[i].from);
        }
        free(w->v);
}

static int collect(const struct change *c, void *arg) {
        struct relocate *w = arg;
        struct relocation one = { .upper =
                                          c->upper ? layer_origin_of(c->upper) : (struct layer_origin){ 0 } };
        struct change first = *c;
        enum apply_choice choice;

        first.again = true;
        if (c->kind != CHANGE_RENAMED || c->error != 0)
                return 0;
        choice = apply_choose(w->t->opt, &first);
        if (choice == APPLY_LEAVE || (c->conflict && choice != APPLY_FORCE))
                return 0;
        if (w->n == w->cap) {
                const size_t cap = w->cap ? w->cap * 2 : 16;
                struct relocation *v = reallocarray(w->v, cap, sizeof(*v));

                if (!v)
                        return -ENOMEM;
                w->v = v;
                w->cap = cap;
        }
        if (c->lower)
                one.lower = layer_origin_of(c->lower);
        one.force = choice == APPLY_FORCE;
        one.fate = c->conflict ? FATE_COPY : FATE_OPEN;
        one.path = strdup(c->path);
        one.from = strdup(c->from);
        w->v[w->n++] = one;
        return one.path && one.from ? 0 : -ENOMEM;
}

/* ---- renaming on the host ---- */

/* Makes the directory @path on the host when it is one of the work's making. Return: 0, also when it cannot
 * be made; what transaction_push() gave. */
static int make_parent(const struct relocate *w, const char *path) {
        const struct apply_options *opt = w->t->opt;
        const char *name;
        AUTO_FD int upper = pathfd_open_parent(opt->upper_fd, path, &name);
        AUTO_FD int lower = pathfd_open_parent(opt->lower_fd, path, &name);
        struct change c = { .kind = CHANGE_ADDED, .path = path, .lower_path = path, .again = true };
        struct journal_entry e = { .op = JOURNAL_MKDIR };
        struct stat st, there;

        if (upper < 0 || lower < 0 || fstatat(lower, name, &there, AT_SYMLINK_NOFOLLOW) == 0 ||
            fstatat(upper, name, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISDIR(st.st_mode))
                return 0;
        c.upper = &st;
        c.mode = st.st_mode;
        c.upper_dir = upper;
        c.lower_dir = lower;
        if (apply_choose(opt, &c) == APPLY_LEAVE)
                return 0;
        e.upper = layer_origin_of(&st);
        e.path = strdup(path);
        return e.path ? transaction_push(w->t, CHANGE_ADDED, &e, false, true) : -ENOMEM;
}

static int make_parents(const struct relocate *w, const char *path) {
        AUTO_FREE char *part = strdup(path);
        int r = 0;

        if (!part)
                return -ENOMEM;
        for (char *slash = strchr(part, '/'); r == 0 && slash; slash = strchr(slash + 1, '/')) {
                *slash = '\0';
                r = make_parent(w, part);
                *slash = '/';
        }
        return r;
}

enum way { WAY_FREE, WAY_TAKEN, WAY_NONE, WAY_COPY };

/* Whether the directory can be renamed on the host now. */
static enum way look_at_way(const struct relocate *w, const struct relocation *m) {
        const int root = w->t->opt->lower_fd;
        const char *name, *old;
        AUTO_FD int to = pathfd_open_parent(root, m->path, &name);
        AUTO_FD int from = pathfd_open_parent(root, m->from, &old);
        struct stat a, b;

        if (to < 0 || from < 0)
                return WAY_NONE;
        if (fstatat(to, name, &a, AT_SYMLINK_NOFOLLOW) == 0)
                return WAY_TAKEN;
        if (fstat(to, &a) < 0 || fstatat(from, old, &b, AT_SYMLINK_NOFOLLOW) < 0)
                return WAY_NONE;
        return a.st_dev == b.st_dev ? WAY_FREE : WAY_COPY;
}

/* What lay below @m's old place is below its new one now. */
static int follow(const struct relocate *w, const struct relocation *m) {
        for (size_t i = 0; i < w->n; i++) {
                const char *rest = path_below(w->v[i].from, m->from);
                AUTO_BUF struct buf path = { 0 };
                int r;

                if (&w->v[i] == m || !rest || !*rest)
                        continue;
                r = buf_fmt(&path, "%s/%s", m->path, rest);
                if (r < 0)
                        return r;
                free(w->v[i].from);
                w->v[i].from = buf_take(&path);
        }
        return 0;
}

/* The upper object at @path stands for nothing any more, when it stood for the directory @lower. */
static void forget_at(int upper_fd, const char *path, const struct layer_origin *lower) {
        struct layer_origin origin = { 0 };
        const char *name;
        AUTO_FD int dir = pathfd_open_parent(upper_fd, path, &name);

        if (dir >= 0 && layer_origin_at(dir, name, &origin) == 0 && origin.ino == lower->ino)
                (void) !layer_claim(dir, name, &(struct layer_origin){ 0 });
}

/* What the work put in the place of a directory that is gone from there replaces nothing. Below a directory
 * that was renamed itself, the place is where that one is seen. */
static void forget_place(const struct relocate *w, const char *from, const struct layer_origin *lower) {
        forget_at(w->t->opt->upper_fd, from, lower);
        for (size_t i = 0; i < w->n; i++) {
                const char *rest = path_below(from, w->v[i].from);
                AUTO_BUF struct buf path = { 0 };

                if (rest && *rest && buf_fmt(&path, "%s/%s", w->v[i].path, rest) == 0)
                        forget_at(w->t->opt->upper_fd, buf_cstr(&path), lower);
        }
}

/* Return: 1: there was something to do, 0, what transaction_push() gave. */
static int try_rename(const struct relocate *w, struct relocation *m) {
        struct journal_entry e = { .op = JOURNAL_RENAME, .lower = m->lower, .upper = m->upper };
        const size_t refused = w->t->refused;
        enum way way;
        int r;

        r = make_parents(w, m->path);
        if (r < 0)
                return r;
        way = look_at_way(w, m);
        if (way == WAY_TAKEN || way == WAY_NONE)
                return 0;
        if (way == WAY_COPY) {
                m->fate = FATE_COPY;
                return 1;
        }
        e.path = strdup(m->path);
        e.from = strdup(m->from);
        r = e.path && e.from ? transaction_push(w->t, CHANGE_RENAMED, &e, m->force, true) : -ENOMEM;
        free(e.path);
        free(e.from);
        if (r < 0)
                return r;
        m->fate = FATE_DONE;
        if (w->t->refused != refused)
                return 1;
        forget_place(w, m->from, &m->lower);
        r = follow(w, m);
        return r < 0 ? r : 1;
}

static int rename_all(const struct relocate *w) {
        bool busy = true;

        for (unsigned pass = 0; busy && pass < PASSES_MAX; pass++) {
                busy = false;
                for (size_t i = 0; i < w->n; i++) {
                        const int r = w->v[i].fate == FATE_OPEN ? try_rename(w, &w->v[i]) : 0;

                        if (r < 0)
                                return r;
                        busy = busy || r > 0;
                }
        }
        return 0;
}

/* ---- copying into the upper ---- */

static const struct layer_origin nothing;

/** struct copying - directories of one level: the upper's, the lower one it stands for, and the lower one
 * whose place it takes (-1: none) */
struct copying {
        int upper, lower, place;
        int64_t since_ns; /* when the work removed what was at the place */
        const char *lower_path;
        const struct moves *moves;
        unsigned depth;
};

static int copy_level(const struct copying *c);

static int copy_below(const struct copying *c, const char *name, const char *lower_path) {
        AUTO_FD int upper = open_beneath(c->upper, name, O_RDONLY | O_DIRECTORY, 0);
        AUTO_FD int lower = open_beneath(c->lower, name, O_RDONLY | O_DIRECTORY, 0);
        AUTO_FD int place = c->place < 0 ? -1 : open_beneath(c->place, name, O_RDONLY | O_DIRECTORY, 0);
        struct copying below = *c;

        if (upper < 0 || lower < 0)
                return upper < 0 ? upper : lower;
        below.upper = upper;
        below.lower = lower;
        below.place = place < 0 ? -1 : place;
        below.lower_path = lower_path;
        below.depth++;
        return copy_level(&below);
}

/* The upper has nothing of that name: it gets what the lower has. */
static int copy_new(const struct copying *c, const char *name, const struct stat *st) {
        AUTO_FD int from = -1, made = -1;
        int r;

        if (!S_ISDIR(st->st_mode)) {
                from = openat(c->lower, name,
                              (S_ISLNK(st->st_mode) ? O_PATH : O_RDONLY | O_NONBLOCK | O_NOCTTY) |
                                      O_NOFOLLOW | O_CLOEXEC);
                return from < 0 ? -errno : layer_copy_up(from, c->upper, name, true);
        }
        from = open_beneath(c->lower, name, O_RDONLY | O_DIRECTORY, 0);
        if (from < 0)
                return from;
        if (mkdirat(c->upper, name, 0700) < 0)
                return -errno;
        made = open_beneath(c->upper, name, O_RDONLY | O_DIRECTORY, 0);
        r = made < 0 ? made : layer_dress_dir(made, from);
        return r;
}

/* Records what is at the place, when it is what the work removed from there. */
static int claim_place(const struct copying *c, const char *name) {
        struct layer_origin origin;
        struct stat st;

        if (c->place < 0 || fstatat(c->place, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
                return layer_claim(c->upper, name, &nothing);
        origin = layer_origin_of(&st);
        return layer_claim(c->upper, name, origin.ctime_ns > c->since_ns ? &nothing : &origin);
}

/* The record goes when it still holds: what it stands for will be gone. Else it stays, and says a conflict.
 */
static int release(const struct copying *c, const char *name, const struct stat *lower) {
        struct layer_origin origin = { 0 };
        const int r = layer_origin_at(c->upper, name, &origin);

        return r == 0 && layer_origin_same(&origin, lower) ? claim_place(c, name) : 0;
}

static int copy_entry(const struct copying *c, const char *name, const char *lower_path) {
        enum layer_kind kind = LAYER_ABSENT;
        struct stat lower, upper;
        int r;

        if (fstatat(c->lower, name, &lower, AT_SYMLINK_NOFOLLOW) < 0)
                return errno == ENOENT ? 0 : -errno;
        r = layer_lookup(c->upper, name, &kind, &upper);
        if (r < 0)
                return r;
        if (kind == LAYER_ABSENT) {
                r = copy_new(c, name, &lower);
                kind = LAYER_DIR;
        }
        if (r == 0 && kind != LAYER_WHITEOUT)
                r = release(c, name, &lower);
        if (r < 0 || !S_ISDIR(lower.st_mode) || kind != LAYER_DIR)
                return r;
        return copy_below(c, name, lower_path);
}

static int copy_level(const struct copying *c) {
        AUTO_NAMES struct names names = { 0 };
        int r;

        if (c->depth > DIFF_DEPTH_MAX)
                return -ELOOP;
        r = names_read(c->lower, &names);
        for (size_t i = 0; r == 0 && i < names.n; i++) {
                AUTO_BUF struct buf path = { 0 };

                r = buf_fmt(&path, "%s/%s", c->lower_path, names.v[i]);
                if (r == 0 && !moves_takes(c->moves, buf_cstr(&path)))
                        r = copy_entry(c, names.v[i], buf_cstr(&path));
        }
        return r;
}

/* Redirects below @path that count from their parent's place shall not depend on it any more. */
static int pin_redirects(int upper_fd, const struct moves *moves, const char *path) {
        int r = 0;

        for (size_t i = 0; r == 0 && i < moves->n; i++) {
                const char *rest = path_below(moves->v[i].path, path), *name;
                AUTO_FD int parent = -1, fd = -1;

                if (!rest || !*rest)
                        continue;
                parent = pathfd_open_parent(upper_fd, moves->v[i].path, &name);
                fd = parent < 0 ? parent : open_beneath(parent, name, O_RDONLY | O_DIRECTORY, 0);
                r = fd < 0 ? fd : moves_set(fd, moves->v[i].from);
        }
        return r;
}

/* Whether the upper directory took the place of what the host still has there, which the work removed. */
static bool is_replaced(int upper, int place, const char *name) {
        struct layer_origin origin = { 0 };
        struct stat st;

        return place >= 0 && layer_origin_at(upper, name, &origin) == 0 && origin.ino != 0 &&
               fstatat(place, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && layer_origin_same(&origin, &st);
}

/* Shows the same before and after, and wherever it is cut off. */
static int copy_tree(const struct relocate *w, const struct relocation *m) {
        const struct apply_options *opt = w->t->opt;
        AUTO_MOVES struct moves moves = { 0 };
        const char *name, *old;
        AUTO_FD int dir = pathfd_open_parent(opt->upper_fd, m->path, &name);
        AUTO_FD int from = pathfd_open_parent(opt->lower_fd, m->from, &old);
        AUTO_FD int lower = from < 0 ? from : open_beneath(from, old, O_RDONLY | O_DIRECTORY, 0);
        AUTO_FD int upper = dir < 0 ? dir : open_beneath(dir, name, O_RDONLY | O_DIRECTORY, 0);
        AUTO_FD int to = pathfd_open_parent(opt->lower_fd, m->path, &name);
        AUTO_FD int place = to < 0 ? to : open_beneath(to, name, O_RDONLY | O_DIRECTORY, 0);
        struct copying c = {
                .upper = upper, .lower = lower, .place = place, .lower_path = m->from, .moves = &moves
        };
        int r;

        if (upper < 0)
                return upper;
        c.since_ns = diff_hidden_since(opt->upper_fd);
        r = moves_read(opt->upper_fd, &moves);
        if (r == 0)
                r = pin_redirects(opt->upper_fd, &moves, m->path);
        if (r == 0 && lower >= 0)
                r = copy_level(&c);
        if (r == 0)
                r = layer_set_opaque(dir, name);
        if (r == 0)
                r = moves_set(upper, NULL);
        /* a directory at the place is the one that is_taken() of the diff knows */
        return r < 0 || place >= 0 || is_replaced(dir, to, name) ? r : layer_claim(dir, name, &nothing);
}

/* What cannot be copied stays as it is, and the diff says so. */
static int copy_all(const struct relocate *w) {
        for (size_t i = 0; i < w->n; i++) {
                const struct relocation *m = &w->v[i];
                struct change c = {
                        .kind = CHANGE_RENAMED, .path = m->path, .from = m->from, .mode = S_IFDIR
                };
                int r;

                if (m->fate == FATE_DONE || (m->fate == FATE_OPEN && look_at_way(w, m) == WAY_NONE))
                        continue;
                r = copy_tree(w, m);
                if (r < 0)
                        r = transaction_refuse(w->t, &c, r);
                if (r < 0)
                        return r;
        }
        return 0;
}

int relocate_all(struct transaction *t) {
        const struct apply_options *opt = t->opt;
        const struct diff_layers layers = { opt->upper_fd, opt->lower_fd, opt->kernel };
        AUTO_MOVES struct moves moves = { 0 };
        struct relocate w = { .t = t };
        int r;

        r = moves_read(opt->upper_fd, &moves);
        if (r < 0)
                return error_set(t->err, r, "read the directories that the run renamed: %s", strerror(-r));
        if (moves.n == 0)
                return 0; /* as most often: no walk */
        r = diff_walk(&layers, collect, &w, t->err);
        if (r == 0)
                r = rename_all(&w);
        if (r == 0)
                r = copy_all(&w);
        relocate_deinit(&w);
        return r;
}
