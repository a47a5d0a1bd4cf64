/*
 * DOC: theory of operation
 *
 * Attacker: everything the archive says. It may hold any name any number of times, links before what goes
 * through them, sizes without end.
 *
 * A path is made canonical (member.h), then its parent directory is opened in the upper, one component after
 * the other, following nothing: a link that the archive made is not gone through, and the host's own links
 * are in the lower, which is only read, likewise without following. So the decision about a name is made on
 * the directory it lands in. hooks, config and credentials of git are left out by the canonical path.
 *
 * A file is compared with the host's version while it arrives and becomes a file of the upper at the first
 * difference: an export of an unchanged workspace writes nothing.
 *
 * What was sent and did not come back is deleted - a whiteout, which apply still judges. A directory is
 * deleted as a whole only if all below it was sent and none of it is excluded.
 */
#include "kubernetes/workspace/landing.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fs/layer.h"
#include "kubernetes/workspace/member.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/escape.h"
#include "runtime/base/file.h"
#include "runtime/base/path.h"
#include "runtime/base/sys.h"

#define TEMP_NAME LAYER_TEMP_PREFIX "landing"

enum { COPY_CHUNK = 64 * 1024 };

/** struct place - where a member lands */
struct place {
        char *path;        /* canonical, owned */
        const char *name;  /* last component, in @path */
        int dir_fd;        /* its directory in the upper, O_PATH, owned; -1: not made yet */
        int lower_dir_fd;  /* the host's directory of that path, owned; -1: there is none */
        struct stat lower; /* of the host's object */
        bool has_lower;
};
#define PLACE_INIT \
        { .dir_fd = -1, .lower_dir_fd = -1 }

/** struct new_dir - a directory whose time is set last */
struct new_dir {
        char *path; /* owned */
        struct timespec mtime;
};

struct landing {
        struct landing_options opt;
        struct landing_counts counts;
        struct paths seen;
        struct new_dir *dirs; /* owned */
        size_t n_dirs, cap_dirs;
        /* the file that arrives */
        struct place at;
        mode_t mode;
        struct timespec mtime;
        uint64_t size, done; /* bytes that are there */
        int same_fd;         /* the host's version as long as nothing differs; -1 */
        struct stat same;    /* of it when it was opened */
        int temp_fd;         /* new version; -1: not begun */
};

static void place_deinit(struct place *p) {
        free(p->path);
        p->dir_fd = fd_close(p->dir_fd);
        p->lower_dir_fd = fd_close(p->lower_dir_fd);
        *p = (struct place) PLACE_INIT;
}
#define AUTO_PLACE __attribute__((cleanup(place_deinit)))

int landing_new(const struct landing_options *opt, struct landing **ret) {
        struct landing *l = calloc(1, sizeof(*l));

        if (!l)
                return -ENOMEM;
        l->opt = *opt;
        l->at = (struct place) PLACE_INIT;
        l->same_fd = l->temp_fd = -1;
        *ret = l;
        return 0;
}

static void drop_temp(struct landing *l) {
        if (l->temp_fd < 0)
                return;
        l->temp_fd = fd_close(l->temp_fd);
        (void) unlinkat(l->opt.upper_fd, TEMP_NAME, 0);
}

struct landing *landing_free(struct landing *l) {
        if (!l)
                return NULL;
        drop_temp(l);
        l->same_fd = fd_close(l->same_fd);
        place_deinit(&l->at);
        paths_deinit(&l->seen);
        for (size_t i = 0; i < l->n_dirs; i++)
                free(l->dirs[i].path);
        free(l->dirs);
        free(l);
        return NULL;
}

static void tell_skipped(struct landing *l, const char *path, const char *why) {
        l->counts.skipped++;
        if (l->opt.skipped)
                l->opt.skipped(l->opt.arg, path, why);
}

static int failed(int r, const char *path, struct error *err) {
        return error_set(err, r, "export '%s': %s", ESC(path), strerror(-r));
}

static int count_member(struct landing *l, struct error *err) {
        if (++l->counts.members > l->opt.limits.members_max)
                return error_set(err, -E2BIG, "export: more than %" PRIu64 " files and directories",
                                 l->opt.limits.members_max);
        return 0;
}

/* The host's object of that path, looked at without following. */
static void look_below(const struct landing *l, struct place *p) {
        const size_t dir_len = (size_t) (p->name - p->path);
        char dir[MEMBER_PATH_MAX + 1];

        memcpy(dir, p->path, dir_len);
        dir[dir_len > 0 ? dir_len - 1 : 0] = '\0';
        p->lower_dir_fd =
                open_beneath(l->opt.lower_fd, *dir ? dir : ".", O_PATH | O_DIRECTORY | O_NOFOLLOW, 0);
        if (p->lower_dir_fd < 0) {
                p->lower_dir_fd = -1;
                return;
        }
        p->has_lower = fstatat(p->lower_dir_fd, p->name, &p->lower, AT_SYMLINK_NOFOLLOW) == 0;
}

/* Return: 1 (it may land), 0 (refused, and told), -errno */
static int place_init(struct landing *l, const char *raw, struct place *p, struct error *err) {
        const char *why = NULL;
        int r;

        r = count_member(l, err);
        if (r < 0)
                return r;
        r = member_path(raw, &p->path, &why);
        if (r == -ENOMEM)
                return failed(r, raw, err);
        if (r < 0) {
                tell_skipped(l, raw, why);
                return 0;
        }
        p->name = path_basename(p->path);
        if (!*p->path)
                return 0; /* the workspace itself */
        if (member_excluded(p->path))
                why = "configuration, hooks and credentials of git stay in the sandbox";
        if (why) {
                tell_skipped(l, raw, why);
                return 0;
        }
        r = paths_add(&l->seen, p->path);
        if (r < 0)
                return failed(r, p->path, err);
        look_below(l, p);
        return 1;
}

int landing_skip(struct landing *l, const char *raw, const char *why, struct error *err) {
        AUTO_PLACE struct place p = PLACE_INIT;
        const int r = place_init(l, raw, &p, err); /* the name is there: the host's version of it stays */

        if (r == 1)
                tell_skipped(l, raw, why);
        return r < 0 ? r : 0;
}

/* Opens the directory of @p in the upper. Return: as place_init(). */
static int place_open(struct landing *l, struct place *p, struct error *err) {
        const size_t dir_len = (size_t) (p->name - p->path);
        char dir[MEMBER_PATH_MAX + 1];
        int r;

        memcpy(dir, p->path, dir_len);
        dir[dir_len > 0 ? dir_len - 1 : 0] = '\0';
        r = layer_open_dir(l->opt.upper_fd, l->opt.lower_fd, dir);
        if (r == -ELOOP || r == -ENOTDIR) {
                tell_skipped(l, p->path, "its directory is none: it leads through a link or a file");
                return 0;
        }
        if (r < 0)
                return failed(r, p->path, err);
        p->dir_fd = r;
        return 1;
}

/* Makes room for a member in the upper. Return: as place_init(): a directory that came earlier stays. */
static int clear_name(struct landing *l, struct place *p, struct error *err) {
        if (unlinkat(p->dir_fd, p->name, 0) == 0 || errno == ENOENT)
                return 1;
        if (errno != EISDIR && errno != EPERM)
                return failed(-errno, p->path, err);
        tell_skipped(l, p->path, "the archive has a directory of that name");
        return 0;
}

static int claim(struct place *p, struct error *err) {
        struct layer_origin origin = { 0 };
        int r;

        if (p->has_lower)
                origin = layer_origin_of(&p->lower);
        r = layer_claim(p->dir_fd, p->name, &origin);
        return r < 0 ? failed(r, p->path, err) : 0;
}

/* ---- directories ---- */

static int remember_dir(struct landing *l, const struct place *p, const struct stat *st) {
        if (l->n_dirs == l->cap_dirs) {
                const size_t cap = l->cap_dirs ? 2 * l->cap_dirs : 64;
                struct new_dir *dirs = reallocarray(l->dirs, cap, sizeof(*dirs));

                if (!dirs)
                        return -ENOMEM;
                l->dirs = dirs;
                l->cap_dirs = cap;
        }
        l->dirs[l->n_dirs].path = strdup(p->path);
        if (!l->dirs[l->n_dirs].path)
                return -ENOMEM;
        l->dirs[l->n_dirs++].mtime = st->st_mtim;
        return 0;
}

/* A directory that the host lacks, or in the place of something else. */
static int make_dir(struct landing *l, struct place *p, const struct stat *st, struct error *err) {
        const mode_t mode = (st->st_mode & 0777) | S_IRWXU;
        struct stat now;
        int r;

        if (fstatat(p->dir_fd, p->name, &now, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(now.st_mode))
                return 0; /* it came earlier, or something in it did */
        r = clear_name(l, p, err);
        if (r <= 0)
                return r;
        if (mkdirat(p->dir_fd, p->name, 0700) < 0 ||
            fchmodat(p->dir_fd, p->name, mode, 0) < 0) /* just made by us, in a directory of ours */
                return failed(-errno, p->path, err);
        r = p->has_lower ? layer_set_opaque(p->dir_fd, p->name) : 0;
        if (r < 0)
                return failed(r, p->path, err);
        r = claim(p, err);
        if (r == 0) {
                l->counts.changed++;
                r = remember_dir(l, p, st);
        }
        return r;
}

int landing_dir(struct landing *l, const char *raw, const struct stat *st, struct error *err) {
        AUTO_PLACE struct place p = PLACE_INIT;
        int r;

        r = place_init(l, raw, &p, err);
        if (r <= 0 || (p.has_lower && S_ISDIR(p.lower.st_mode)))
                return r < 0 ? r : 0;
        r = place_open(l, &p, err);
        return r <= 0 ? r : make_dir(l, &p, st, err);
}

/* ---- links ---- */

static bool same_link(const struct place *p, const char *target) {
        char now[PATH_MAX];
        ssize_t n;

        if (!p->has_lower || !S_ISLNK(p->lower.st_mode))
                return false;
        n = readlinkat(p->lower_dir_fd, p->name, now, sizeof(now));
        return n > 0 && (size_t) n == strlen(target) && memcmp(now, target, (size_t) n) == 0;
}

int landing_link(struct landing *l, const char *raw, const char *target, struct error *err) {
        AUTO_PLACE struct place p = PLACE_INIT;
        int r;

        r = place_init(l, raw, &p, err);
        if (r <= 0)
                return r;
        if (!*target || strlen(target) >= PATH_MAX) {
                tell_skipped(l, p.path, "a link to nothing, or to a name that is too long");
                return 0;
        }
        if (!same_link(&p, target) && !member_link_stays(p.path, target, l->opt.root)) {
                tell_skipped(l, p.path, "a link that leaves the workspace");
                return 0;
        }
        if (same_link(&p, target))
                return 0;
        r = place_open(l, &p, err);
        if (r == 1)
                r = clear_name(l, &p, err);
        if (r <= 0)
                return r;
        if (symlinkat(target, p.dir_fd, p.name) < 0)
                return failed(-errno, p.path, err);
        l->counts.changed++;
        return claim(&p, err);
}

/* ---- files ---- */

static void file_reset(struct landing *l) {
        drop_temp(l);
        l->same_fd = fd_close(l->same_fd);
        place_deinit(&l->at);
        l->done = 0;
}

int landing_file(struct landing *l, const char *raw, const struct stat *st, bool *ret_wanted,
                 struct error *err) {
        int r;

        file_reset(l);
        *ret_wanted = false;
        r = place_init(l, raw, &l->at, err);
        if (r <= 0)
                return r;
        if (st->st_size < 0 || (uint64_t) st->st_size > l->opt.limits.bytes_max - l->counts.bytes)
                return error_set(err, -E2BIG, "export '%s': more than %" PRIu64 " bytes", ESC(l->at.path),
                                 l->opt.limits.bytes_max);
        l->counts.bytes += (uint64_t) st->st_size;
        l->size = (uint64_t) st->st_size;
        l->mode = st->st_mode & 0777;
        l->mtime = st->st_mtim;
        if (l->at.has_lower && S_ISREG(l->at.lower.st_mode) && l->at.lower.st_size == st->st_size &&
            ((l->at.lower.st_mode ^ st->st_mode) & S_IXUSR) == 0)
                l->same_fd = open_beneath(l->at.lower_dir_fd, l->at.name, O_RDONLY | O_NONBLOCK, 0);
        if (l->same_fd < 0 || fstat(l->same_fd, &l->same) < 0)
                l->same_fd = fd_close(l->same_fd);
        *ret_wanted = true;
        return 0;
}

/* The host's version changed while it was compared: what was taken from it may be neither version. */
static bool host_wrote(const struct landing *l) {
        struct stat now;

        return fstat(l->same_fd, &now) < 0 || now.st_size != l->same.st_size ||
               now.st_ctim.tv_sec != l->same.st_ctim.tv_sec || now.st_ctim.tv_nsec != l->same.st_ctim.tv_nsec;
}

/* The first @len bytes are those of the host's version. */
static int copy_same(struct landing *l, uint64_t len) {
        char chunk[COPY_CHUNK];
        uint64_t at = 0;

        while (at < len) {
                const size_t want = len - at < sizeof(chunk) ? (size_t) (len - at) : sizeof(chunk);
                const ssize_t n = pread(l->same_fd, chunk, want, (off_t) at);

                if (n <= 0)
                        return n < 0 ? -errno : -EAGAIN;
                if (pwrite(l->temp_fd, chunk, (size_t) n, (off_t) at) != n)
                        return errno ? -errno : -EIO;
                at += (uint64_t) n;
        }
        return host_wrote(l) ? -EAGAIN : 0;
}

/* From now on there is a new version. */
static int begin_new(struct landing *l, struct error *err) {
        int r = 0;

        l->temp_fd =
                openat(l->opt.upper_fd, TEMP_NAME, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
        if (l->temp_fd < 0)
                return failed(-errno, l->at.path, err);
        if (l->same_fd >= 0)
                r = copy_same(l, l->done);
        l->same_fd = fd_close(l->same_fd);
        return r < 0 ? failed(r, l->at.path, err) : 0;
}

/* Whether the host's version goes on like this. */
static bool same_data(const struct landing *l, uint64_t offset, const char *data, size_t len) {
        char chunk[COPY_CHUNK];

        while (len > 0) {
                const ssize_t n =
                        pread(l->same_fd, chunk, len < sizeof(chunk) ? len : sizeof(chunk), (off_t) offset);

                if (n <= 0 || memcmp(chunk, data, (size_t) n) != 0)
                        return false;
                data += n;
                offset += (uint64_t) n;
                len -= (size_t) n;
        }
        return true;
}

static bool same_hole(const struct landing *l, uint64_t from, uint64_t to) {
        static const char zeros[COPY_CHUNK];

        for (; from < to; from += sizeof(zeros))
                if (!same_data(l, from, zeros,
                               to - from < sizeof(zeros) ? (size_t) (to - from) : sizeof(zeros)))
                        return false;
        return true;
}

int landing_data(struct landing *l, uint64_t offset, const void *data, size_t len, struct error *err) {
        const char *p = data;
        int r;

        if (offset < l->done || offset > l->size || len > l->size - offset)
                return error_set(err, -EBADMSG, "export '%s': its data is outside of it", ESC(l->at.path));
        if (l->same_fd >= 0 && same_hole(l, l->done, offset) && same_data(l, offset, p, len)) {
                l->done = offset + len;
                return 0;
        }
        if (l->temp_fd < 0) {
                r = begin_new(l, err);
                if (r < 0)
                        return r;
        }
        for (l->done = offset; len > 0;) {
                const ssize_t n = pwrite(l->temp_fd, p, len, (off_t) l->done);

                if (n < 0 && errno == EINTR)
                        continue;
                if (n <= 0)
                        return failed(n < 0 ? -errno : -EIO, l->at.path, err);
                p += n;
                l->done += (uint64_t) n;
                len -= (size_t) n;
        }
        return 0;
}

/* The new version takes its place. */
static int publish(struct landing *l, struct error *err) {
        const struct timespec times[2] = { l->mtime, l->mtime };
        struct place *p = &l->at;
        int r;

        r = place_open(l, p, err);
        if (r == 1)
                r = clear_name(l, p, err);
        if (r <= 0)
                return r;
        if (ftruncate(l->temp_fd, (off_t) l->size) < 0 || fchmod(l->temp_fd, S_IRUSR | S_IWUSR) < 0 ||
            renameat2(l->opt.upper_fd, TEMP_NAME, p->dir_fd, p->name, RENAME_NOREPLACE) < 0)
                return failed(-errno, p->path, err);
        r = claim(p, err);
        (void) fchmod(l->temp_fd, l->mode);
        (void) futimens(l->temp_fd, times);
        l->temp_fd = fd_close(l->temp_fd);
        l->counts.changed++;
        return r;
}

int landing_file_end(struct landing *l, struct error *err) {
        int r = 0;

        if (l->temp_fd < 0 && l->same_fd >= 0 && same_hole(l, l->done, l->size) && !host_wrote(l)) {
                file_reset(l); /* nothing differs */
                return 0;
        }
        if (l->temp_fd < 0)
                r = begin_new(l, err);
        if (r == 0)
                r = publish(l, err);
        file_reset(l);
        return r;
}

/* ---- the end ---- */

/* What is excluded did not come back and is there nonetheless. */
static int see_kept(struct landing *l) {
        const struct paths *sent = l->opt.sent, *kept = l->opt.kept;
        int r = 0;

        for (size_t i = 0; r == 0 && i < sent->n; i++)
                if (member_excluded(sent->v[i]))
                        r = paths_add(&l->seen, sent->v[i]);
        for (size_t i = 0; r == 0 && kept && i < kept->n; i++)
                r = paths_add(&l->seen, kept->v[i]);
        paths_seal(&l->seen);
        return r;
}

/* A directory without an entry of its own is there when something in it is. */
static bool is_seen(const struct landing *l, const char *path) {
        return paths_has(&l->seen, path) || paths_has_below(&l->seen, path);
}

static int delete_one(struct landing *l, const char *path, struct error *err) {
        AUTO_PLACE struct place p = PLACE_INIT;
        struct layer_origin origin;
        int r;

        p.path = strdup(path);
        if (!p.path)
                return failed(-ENOMEM, path, err);
        p.name = path_basename(p.path);
        look_below(l, &p);
        if (!p.has_lower)
                return 0; /* the host has it no more either */
        r = place_open(l, &p, err);
        if (r <= 0)
                return r;
        origin = layer_origin_of(&p.lower);
        r = layer_whiteout(p.dir_fd, p.name, &origin);
        if (r < 0 && r != -EEXIST)
                return failed(r, path, err);
        l->counts.deleted += r == 0;
        return 0;
}

/* Whether the directory of @path, or one above it, did not come back either: then its deletion says it all */
static bool parent_gone(const struct landing *l, const char *path) {
        const char *slash = strrchr(path, '/');
        char dir[MEMBER_PATH_MAX + 1];

        if (!slash)
                return false;
        if (slash - path > MEMBER_PATH_MAX)
                return true;
        memcpy(dir, path, (size_t) (slash - path));
        dir[slash - path] = '\0';
        return !is_seen(l, dir) && paths_has(l->opt.sent, dir);
}

static int delete_missing(struct landing *l, struct error *err) {
        const struct paths *sent = l->opt.sent;
        int r = see_kept(l);

        if (r < 0)
                return error_set(err, r, "remember what came back: %s", strerror(-r));
        for (size_t i = 0; r == 0 && i < sent->n; i++)
                if (!is_seen(l, sent->v[i]) && !parent_gone(l, sent->v[i]))
                        r = delete_one(l, sent->v[i], err);
        return r;
}

int landing_finish(struct landing *l, struct landing_counts *ret, struct error *err) {
        int r = l->opt.sent ? delete_missing(l, err) : 0;

        for (size_t i = l->n_dirs; r == 0 && i-- > 0;) {
                const struct stat st = { .st_atim = l->dirs[i].mtime, .st_mtim = l->dirs[i].mtime };
                AUTO_FD int fd = open_beneath(l->opt.upper_fd, l->dirs[i].path, O_PATH | O_DIRECTORY, 0);

                if (fd >= 0)
                        layer_set_times(fd, &st);
        }
        if (r == 0)
                *ret = l->counts;
        return r;
}
