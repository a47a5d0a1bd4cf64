/*
 * DOC: theory of operation
 *
 * One walk of the upper. Per directory the names are read and sorted, each is looked up in the upper and, by
 * the same name, in the lower directory of the same path (-1 where there is none). Below an opaque directory
 * the lower names that the upper lacks are deletions too. Renamed directories (moves.h) are read before: the
 * walk goes on below one with the lower directory it stands for, and what they took away is no deletion at
 * its old place.
 *
 * Conflict: the record of the lower object made when the work first touched the path (layer.h) does not fit
 * what is there now. Deletions without a record are judged by time: a lower object changed after the deletion
 * is a conflict. Uppers that overlayfs wrote have no records: there the time decides of all.
 *
 * An attacker chose the names, the depth and the contents. Descriptors: two per level; memory: the names of
 * the directories on the way down.
 */
#include "fs/diff.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "fs/layer.h"
#include "fs/moves.h"
#include "fs/names.h"
#include "fs/pathfd.h"
#include "fs/same.h"
#include "runtime/base/buf.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/escape.h"
#include "runtime/base/sys.h"

struct walk {
        const struct diff_layers *layers;
        change_fn fn;
        void *arg;
        struct buf path;  /* of the object looked at */
        struct buf lower; /* where the lower has it; while nothing was renamed: empty, and the path counts */
        struct moves moves;
        bool taken; /* the lower object looked at is shown elsewhere */
        unsigned depth;
        struct error *err;
};

/** struct level - one directory on the way down */
struct level {
        int upper_fd;
        int lower_fd;           /* -1: none, or not a directory */
        const char *lower_path; /* while something was renamed */
        bool opaque;            /* it, or a directory above, hides the lower one */
        bool conflict;
        int64_t hidden_since_ns;
};

static int walk_level(struct walk *w, const struct level *level);

char change_letter(enum change_kind kind) {
        static const char letters[CHANGE_KIND_COUNT] = { [CHANGE_ADDED] = 'A',
                                                         [CHANGE_MODIFIED] = 'M',
                                                         [CHANGE_DELETED] = 'D',
                                                         [CHANGE_RENAMED] = 'R',
                                                         [CHANGE_TYPE] = 'T' };

        return letters[kind];
}

static int64_t ctime_ns(const struct stat *st) {
        return st->st_ctim.tv_sec * 1000000000 + st->st_ctim.tv_nsec;
}

static int64_t mtime_ns(const struct stat *st) {
        return st->st_mtim.tv_sec * 1000000000 + st->st_mtim.tv_nsec;
}

static int64_t born_ns(int fd, const char *name, int flags) {
        struct statx stx = { 0 };

        if (statx(fd, name, flags | AT_SYMLINK_NOFOLLOW, STATX_BTIME, &stx) < 0 ||
            !(stx.stx_mask & STATX_BTIME))
                return 0;
        return stx.stx_btime.tv_sec * 1000000000 + stx.stx_btime.tv_nsec;
}

int64_t diff_born(int dir_fd, const char *name) {
        return born_ns(dir_fd, name, 0);
}

int64_t diff_hidden_since(int upper_fd) {
        return born_ns(upper_fd, "", AT_EMPTY_PATH);
}

/* Whether the lower object changed after the upper one was made. */
static bool is_newer(int dir_fd, const char *name, const struct stat *lower) {
        return ctime_ns(lower) > born_ns(dir_fd, name, 0);
}

/* Whether the host changed @name since the work first touched it. @lower: NULL when there is none now. */
static bool is_conflict(const struct walk *w, const struct level *level, const char *name,
                        const struct stat *lower) {
        struct layer_origin origin = { 0 };

        if (w->taken)
                return false; /* what may land here is seen when the rename has */
        if (layer_origin_at(level->upper_fd, name, &origin) < 0)
                return true;
        if (origin.ino == 0 && w->layers->kernel)
                return lower && is_newer(level->upper_fd, name, lower);
        if (!lower)
                return origin.ino != 0;
        return origin.ino == 0 || !layer_origin_same(&origin, lower);
}

static bool is_deletion_conflict(const struct level *level, const char *name, const struct stat *whiteout,
                                 const struct stat *lower) {
        struct layer_origin origin = { 0 };

        if (layer_origin_at(level->upper_fd, name, &origin) < 0)
                return true;
        if (origin.ino != 0)
                return !layer_origin_same(&origin, lower);
        return ctime_ns(lower) > mtime_ns(whiteout);
}

bool diff_dir_mode_changed(int dir_fd, const char *name, bool kernel, const struct stat *upper,
                           const struct stat *lower, bool *ret_conflict) {
        struct layer_origin origin = { 0 };
        const mode_t mode = upper->st_mode & 01777;
        int r;

        *ret_conflict = false;
        if (mode == (lower->st_mode & 01777))
                return false;
        r = layer_origin_at(dir_fd, name, &origin);
        if (r < 0 || origin.ino == 0) {
                *ret_conflict = r < 0 || !kernel || is_newer(dir_fd, name, lower);
                return true;
        }
        *ret_conflict = origin.ino != lower->st_ino || origin.mode != lower->st_mode;
        /* layer_open_dir() adds u+rwx, which the kernel does not */
        return mode != (origin.mode & 01777) && (kernel || mode != ((origin.mode & 01777) | 0700));
}

static int emit(struct walk *w, const struct level *level, struct change c) {
        c.path = buf_cstr(&w->path);
        c.lower_path = w->moves.n > 0 ? buf_cstr(&w->lower) : c.path;
        c.upper_dir = level->upper_fd;
        c.lower_dir = level->lower_fd;
        c.conflict = c.conflict || level->conflict;
        if (c.kind == CHANGE_DELETED) {
                c.mode = c.lower->st_mode;
        } else {
                c.mode = c.upper->st_mode;
                c.size = S_ISDIR(c.mode) ? 0 : (uint64_t) c.upper->st_size;
        }
        return w->fn(&c, w->arg);
}

/* Opens the lower directory @name in @dir_fd. Return: descriptor, -1: there is none, -errno with a message.
 */
static int open_lower(struct walk *w, int dir_fd, const char *name, bool *ret_conflict) {
        const int fd = open_beneath(dir_fd, name, O_RDONLY | O_DIRECTORY, 0);

        if (fd == -EACCES)
                *ret_conflict = true;
        else if (fd < 0 && fd != -ENOENT && fd != -ENOTDIR && fd != -ELOOP)
                return error_set(w->err, fd, "read '%s' of the host: %s", ESC(buf_cstr(&w->path)),
                                 strerror(-fd));
        return fd < 0 ? -1 : fd;
}

/*
 * Goes down into the upper directory @name.
 * @next:  what is known of it; its lower_fd, when there is one, is consumed
 */
static int descend(struct walk *w, const struct level *level, const char *name, struct level next) {
        AUTO_FD int lower = next.lower_fd, upper = -1;
        AUTO_FREE char *lower_path = w->moves.n > 0 ? strdup(buf_cstr(&w->lower)) : NULL;
        int r;

        (void) lower; /* owned here: closed at the end */
        upper = open_beneath(level->upper_fd, name, O_RDONLY | O_DIRECTORY, 0);
        if (upper == -ENOENT) /* as in visit_hidden() */
                return 0;
        if (upper < 0)
                return error_set(w->err, upper, "read '%s' of the run: %s", ESC(buf_cstr(&w->path)),
                                 strerror(-upper));
        if (w->depth >= DIFF_DEPTH_MAX)
                return error_set(w->err, -ELOOP, "'%s': more than %d levels of directories",
                                 ESC(buf_cstr(&w->path)), DIFF_DEPTH_MAX);
        if (w->moves.n > 0 && !lower_path)
                return error_set(w->err, -ENOMEM, "out of memory");
        next.upper_fd = upper;
        next.lower_path = lower_path;
        next.hidden_since_ns = next.opaque ? diff_hidden_since(w->layers->upper_fd) : 0;
        w->depth++;
        r = walk_level(w, &next);
        w->depth--;
        return r;
}

/* Whether we may look into the upper directory; said, not a reason to show nothing at all, when not. */
static bool is_closed(const struct level *level, const char *name, struct change *c) {
        if (faccessat(level->upper_fd, name, R_OK | X_OK, AT_EACCESS | AT_SYMLINK_NOFOLLOW) == 0)
                return false;
        c->conflict = true;
        c->error = -errno;
        return true;
}

/* The lower directory of a move. Return: descriptor, -1: it is not there any more. */
static int open_source(const struct walk *w, const char *from, struct stat *ret_st) {
        const char *name;
        AUTO_FD int parent = pathfd_open_parent(w->layers->lower_fd, from, &name);
        AUTO_FD int fd = parent < 0 ? -1 : open_beneath(parent, name, O_RDONLY | O_DIRECTORY, 0);

        if (fd < 0 || fstat(fd, ret_st) < 0)
                return -1;
        return TAKE_FD(fd);
}

/* Whether the lower object at the new place of a renamed directory is one that the work never saw. */
static bool is_taken(const struct walk *w, const struct level *level, const char *name,
                     const struct stat *lower, const struct stat *source) {
        struct layer_origin origin = { 0 };

        if (!lower)
                return false;
        if (layer_origin_at(level->upper_fd, name, &origin) < 0)
                return true;
        if (origin.ino == 0 || origin.ino == source->st_ino)
                return !w->layers->kernel || is_newer(level->upper_fd, name, lower);
        return !layer_origin_same(&origin, lower);
}

static int visit_moved(struct walk *w, const struct level *level, const char *name, const struct move *move,
                       const struct stat *upper, const struct stat *lower) {
        struct stat source = { 0 };
        struct change c = { .kind = CHANGE_RENAMED, .upper = upper, .from = move->from };
        struct level next = { .lower_fd = open_source(w, move->from, &source) };
        int r;

        c.conflict = next.lower_fd < 0 || is_taken(w, level, name, lower, &source);
        c.lower = next.lower_fd < 0 ? NULL : &source;
        w->lower.len = 0;
        r = buf_str(&w->lower, move->from);
        if (r < 0 || is_closed(level, name, &c)) {
                (void) fd_close(next.lower_fd);
                return r < 0 ? r : emit(w, level, c);
        }
        next.conflict = level->conflict || c.conflict;
        r = emit(w, level, c);
        if (r == 0 && c.lower && (upper->st_mode & 01777) != (source.st_mode & 01777) &&
            (upper->st_mode & 01777) != ((source.st_mode & 01777) | 0700)) {
                c.kind = CHANGE_MODIFIED;
                c.from = NULL;
                r = emit(w, level, c);
        }
        if (r == 0)
                return descend(w, level, name, next);
        (void) fd_close(next.lower_fd);
        return r;
}

static int visit_dir(struct walk *w, const struct level *level, const char *name, bool opaque,
                     const struct stat *upper, const struct stat *lower) {
        const bool merged = lower && S_ISDIR(lower->st_mode);
        struct change c = { .upper = upper, .lower = lower };
        struct level next = { .lower_fd = -1, .opaque = opaque || level->opaque };
        bool report = true;
        int r = 0;

        if (merged) {
                c.kind = CHANGE_MODIFIED;
                report = diff_dir_mode_changed(level->upper_fd, name, w->layers->kernel, upper, lower,
                                               &c.conflict);
        } else {
                c.kind = lower ? CHANGE_TYPE : CHANGE_ADDED;
                c.conflict = is_conflict(w, level, name, lower);
        }
        if (is_closed(level, name, &c))
                return emit(w, level, c);
        if (report)
                r = emit(w, level, c);
        if (r < 0)
                return r;
        next.conflict = level->conflict || (!merged && c.conflict);
        if (merged) {
                r = open_lower(w, level->lower_fd, name, &next.conflict);
                next.lower_fd = r < -1 ? -1 : r;
        }
        /* no record says what the work saw when it made the directory anew */
        if (merged && opaque && w->layers->kernel && is_newer(level->upper_fd, name, lower))
                next.conflict = true;
        return r < -1 ? r : descend(w, level, name, next);
}

static int visit_file(struct walk *w, const struct level *level, const char *name, const struct stat *upper,
                      const struct stat *lower) {
        struct change c = { .upper = upper, .lower = lower };

        if (!lower)
                c.kind = CHANGE_ADDED;
        else if ((lower->st_mode & S_IFMT) == (upper->st_mode & S_IFMT))
                c.kind = CHANGE_MODIFIED;
        else
                c.kind = CHANGE_TYPE;
        if (lower && same_object(level->upper_fd, upper, level->lower_fd, lower, name))
                return 0;
        c.conflict = is_conflict(w, level, name, lower);
        return emit(w, level, c);
}

static int visit_whiteout(struct walk *w, const struct level *level, const char *name,
                          const struct stat *upper, const struct stat *lower) {
        struct change c = { .kind = CHANGE_DELETED, .upper = upper, .lower = lower };

        if (!lower)
                return 0;
        c.conflict = is_deletion_conflict(level, name, upper, lower);
        return emit(w, level, c);
}

/* A name of the lower that an opaque directory hides. */
static int visit_hidden(struct walk *w, const struct level *level, const struct stat *lower) {
        struct change c = { .kind = CHANGE_DELETED, .lower = lower };

        if (!lower || !level->opaque) /* gone between two calls: the run is alive */
                return 0;
        c.conflict = ctime_ns(lower) > level->hidden_since_ns;
        return emit(w, level, c);
}

static int find_lower_path(struct walk *w, const struct level *level, const char *name) {
        w->lower.len = 0;
        return buf_fmt(&w->lower, "%s%s%s", level->lower_path, *level->lower_path ? "/" : "", name);
}

static int visit(struct walk *w, const struct level *level, const char *name) {
        enum layer_kind kind = LAYER_ABSENT;
        struct stat upper, lower_buf;
        const struct stat *lower = NULL;
        int r;

        r = layer_lookup(level->upper_fd, name, &kind, &upper);
        if (r < 0)
                return error_set(w->err, r, "read '%s' of the run: %s", ESC(buf_cstr(&w->path)),
                                 strerror(-r));
        if (level->lower_fd >= 0) {
                if (fstatat(level->lower_fd, name, &lower_buf, AT_SYMLINK_NOFOLLOW) == 0)
                        lower = &lower_buf;
                else if (errno != ENOENT)
                        return error_set(w->err, -errno, "look at '%s' of the host: %s",
                                         ESC(buf_cstr(&w->path)), strerror(errno));
        }
        if (w->moves.n > 0) {
                const struct move *move =
                        kind == LAYER_DIR ? moves_find(&w->moves, buf_cstr(&w->path)) : NULL;

                if (move)
                        return visit_moved(w, level, name, move, &upper, lower);
                r = find_lower_path(w, level, name);
                if (r < 0)
                        return r;
                w->taken = moves_takes(&w->moves, buf_cstr(&w->lower));
                if (w->taken)
                        lower = NULL;
        }
        if (kind == LAYER_ABSENT)
                return visit_hidden(w, level, lower);
        if (kind == LAYER_WHITEOUT)
                return visit_whiteout(w, level, name, &upper, lower);
        if (kind == LAYER_FILE)
                return visit_file(w, level, name, &upper, lower);
        return visit_dir(w, level, name, kind == LAYER_OPAQUE_DIR, &upper, lower);
}

/* The names to look at: those of the upper, and in an opaque directory the lower ones it hides. */
static int list(const struct level *level, struct names *names) {
        AUTO_NAMES struct names hidden = { 0 };
        size_t n;
        int r;

        r = names_read(level->upper_fd, names);
        if (r < 0 || !level->opaque || level->lower_fd < 0)
                return r;
        n = names->n;
        r = names_read(level->lower_fd, &hidden);
        for (size_t i = 0; r == 0 && i < hidden.n; i++)
                if (!names_has(names, n, hidden.v[i])) /* the first n only: what is added is not sorted */
                        r = names_add(names, hidden.v[i]);
        names_sort(names);
        return r;
}

static bool is_ours(const char *name) {
        return strncmp(name, LAYER_TEMP_PREFIX, strlen(LAYER_TEMP_PREFIX)) == 0;
}

static int walk_level(struct walk *w, const struct level *level) {
        const size_t base = w->path.len;
        AUTO_NAMES struct names names = { 0 };
        int r;

        r = list(level, &names);
        if (r < 0)
                return error_set(w->err, r, "list '%s' of the run: %s", ESC(buf_cstr(&w->path)),
                                 strerror(-r));
        for (size_t i = 0; i < names.n; i++) {
                if (is_ours(names.v[i]))
                        continue;
                r = base > 0 ? buf_add(&w->path, "/", 1) : 0;
                if (r == 0)
                        r = buf_str(&w->path, names.v[i]);
                if (r < 0)
                        return error_set(w->err, r, "a path is too long");
                r = visit(w, level, names.v[i]);
                if (r < 0)
                        return r;
                w->path.len = base;
                w->path.data[base] = '\0';
        }
        return 0;
}

int diff_walk(const struct diff_layers *layers, change_fn fn, void *arg, struct error *err) {
        struct walk w = { .layers = layers, .fn = fn, .arg = arg, .err = err };
        const struct level top = { .upper_fd = layers->upper_fd,
                                   .lower_fd = layers->lower_fd,
                                   .lower_path = "" };
        int r;

        r = moves_read(layers->upper_fd, &w.moves);
        if (r < 0)
                r = error_set(err, r, "read the directories that the run renamed: %s", strerror(-r));
        else
                r = walk_level(&w, &top);
        buf_deinit(&w.path);
        buf_deinit(&w.lower);
        moves_deinit(&w.moves);
        return r;
}
