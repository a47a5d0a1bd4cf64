/*
 * DOC: theory of operation
 *
 * The upper is private to the caller (the run directory is 0700); its names, contents and modes were chosen
 * by the work, its "user.overlay.*" attributes were not. Every access starts at a
 * directory descriptor, takes one component and follows nothing.
 *
 * Files appear by linkat(2) of an unnamed file (O_TMPFILE), so a crash leaves the old state or the new one;
 * where the file system has no O_TMPFILE, by renameat2(2) of a temporary name that readers pass over.
 */
#include "fs/layer.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "fs/copy.h"
#include "fs/wide.h"
#include "runtime/base/buf.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/sys.h"

#define XATTR_WHITEOUT COPY_XATTR_OVERLAY "whiteout"
#define XATTR_OPAQUE   COPY_XATTR_OVERLAY "opaque"
#define XATTR_REDIRECT COPY_XATTR_OVERLAY "redirect"
#define XATTR_ORIGIN   COPY_XATTR_OURS "origin"
#define XATTR_LINK     COPY_XATTR_OURS "link."
#define XATTR_NUMBER   COPY_XATTR_OURS "number"

/** struct origin_record - the origin xattr; host byte order, an upper never leaves its machine */
struct origin_record {
        char magic[4]; /* "cfo1" */
        uint32_t mode;
        uint64_t dev, ino, size;
        int64_t mtime_ns, ctime_ns;
};
static_assert(sizeof(struct origin_record) == 48, "origin_record has no padding");

/** struct temp - a regular file that is not there yet; name[0] == 0: it has no name at all */
struct temp {
        int fd;
        int dir_fd;
        char name[48];
};

static void temp_deinit(struct temp *t) {
        const int saved = errno;

        if (t->name[0])
                (void) unlinkat(t->dir_fd, t->name, 0);
        t->fd = fd_close(t->fd);
        errno = saved;
}
#define AUTO_TEMP __attribute__((cleanup(temp_deinit)))

static int temp_name(char out[48]) {
        uint64_t salt = 0;

        if (getrandom(&salt, sizeof(salt), 0) < 0)
                return -errno;
        (void) snprintf(out, 48, LAYER_TEMP_PREFIX "%016llx", (unsigned long long) salt);
        return 0;
}

static int temp_init(struct temp *t, int dir_fd) {
        int r;

        t->dir_fd = dir_fd;
        t->fd = openat(dir_fd, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
        if (t->fd >= 0)
                return 0;
        if (errno != EOPNOTSUPP && errno != EISDIR && errno != ENOENT && errno != EINVAL)
                return -errno;
        r = temp_name(t->name);
        if (r < 0)
                return r;
        t->fd = openat(dir_fd, t->name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
        if (t->fd < 0) {
                r = -errno;
                t->name[0] = '\0';
                return r;
        }
        return 0;
}

/* Gives the file its name. Return: 0, -EEXIST, -errno. */
static int temp_publish(struct temp *t, const char *name) {
        char proc[32];

        if (t->name[0]) {
                if (renameat2(t->dir_fd, t->name, t->dir_fd, name, RENAME_NOREPLACE) < 0)
                        return -errno;
                t->name[0] = '\0';
                return 0;
        }
        if (linkat(t->fd, "", t->dir_fd, name, AT_EMPTY_PATH) == 0)
                return 0;
        if (errno != ENOENT && errno != EPERM)
                return -errno;
        /* Linux before 6.10 wants CAP_DAC_READ_SEARCH for AT_EMPTY_PATH */
        (void) snprintf(proc, sizeof(proc), "/proc/self/fd/%d", t->fd);
        return linkat(AT_FDCWD, proc, t->dir_fd, name, AT_SYMLINK_FOLLOW) < 0 ? -errno : 0;
}

struct layer_origin layer_origin_of(const struct stat *st) {
        return (struct layer_origin){
                .dev = st->st_dev,
                .ino = st->st_ino,
                .size = (uint64_t) st->st_size,
                .mtime_ns = st->st_mtim.tv_sec * 1000000000 + st->st_mtim.tv_nsec,
                .ctime_ns = st->st_ctim.tv_sec * 1000000000 + st->st_ctim.tv_nsec,
                .mode = st->st_mode,
        };
}

bool layer_origin_same(const struct layer_origin *origin, const struct stat *st) {
        const struct layer_origin now = layer_origin_of(st);

        if (origin->ino != now.ino || (origin->mode & S_IFMT) != (now.mode & S_IFMT))
                return false;
        if (S_ISDIR(now.mode))
                return true;
        return origin->size == now.size && origin->mtime_ns == now.mtime_ns &&
               origin->ctime_ns == now.ctime_ns && origin->mode == now.mode;
}

static int set_record(int fd, const char *attr, const struct layer_origin *origin) {
        const struct origin_record rec = {
                .magic = { 'c', 'f', 'o', '1' },
                .mode = origin->mode,
                .dev = origin->dev,
                .ino = origin->ino,
                .size = origin->size,
                .mtime_ns = origin->mtime_ns,
                .ctime_ns = origin->ctime_ns,
        };

        if (origin->ino == 0)
                return fremovexattr(fd, attr) < 0 && errno != ENODATA ? -errno : 0;
        return fsetxattr(fd, attr, &rec, sizeof(rec), 0) < 0 ? -errno : 0;
}

enum { RECORD_NONE = 1 };

/* Return: 0 (@ret->ino 0: no record), RECORD_NONE (one that says so), -errno */
static int read_record(const struct origin_record *rec, ssize_t n, struct layer_origin *ret) {
        if (n == -ENODATA) {
                *ret = (struct layer_origin){ 0 };
                return 0;
        }
        if (n < 0)
                return n == -ERANGE ? -EBADMSG : (int) n;
        if (n == sizeof(*rec) && memcmp(rec->magic, "cfo0", 4) == 0) {
                *ret = (struct layer_origin){ 0 };
                return RECORD_NONE;
        }
        if (n != sizeof(*rec) || memcmp(rec->magic, "cfo1", 4) != 0 || rec->ino == 0 || rec->size > INT64_MAX)
                return -EBADMSG;
        *ret = (struct layer_origin){
                .dev = rec->dev,
                .ino = rec->ino,
                .size = rec->size,
                .mtime_ns = rec->mtime_ns,
                .ctime_ns = rec->ctime_ns,
                .mode = rec->mode,
        };
        return 0;
}

static int get_record(int fd, const char *attr, struct layer_origin *ret) {
        struct origin_record rec;
        const ssize_t n = fgetxattr(fd, attr, &rec, sizeof(rec));

        return read_record(&rec, n < 0 ? -errno : n, ret);
}

int layer_set_origin(int fd, const struct layer_origin *origin) {
        return set_record(fd, XATTR_ORIGIN, origin);
}

int layer_get_origin(int fd, struct layer_origin *ret) {
        const int r = get_record(fd, XATTR_ORIGIN, ret);

        return r == RECORD_NONE ? 0 : r;
}

/*
 * Symlinks have no user attributes: the directory carries their records, under a hash of the name. It has
 * room for few; one that does not fit is left out, and apply then takes the path for a conflict.
 */
static void name_attr(const char *prefix, const char *name, char out[64]) {
        uint64_t h = 0xcbf29ce484222325U; /* FNV-1a; names that meet only make a false conflict */

        for (const char *p = name; *p; p++)
                h = (h ^ (unsigned char) *p) * 0x100000001b3U;
        (void) snprintf(out, 64, "%s%016llx", prefix, (unsigned long long) h);
}

static void link_attr(const char *name, char out[64]) {
        name_attr(XATTR_LINK, name, out);
}

/* Opens the pinned object, never another one. Only regular files and directories. */
static int wide_open_read(const struct wide *w) {
        const int fd = open(w->proc, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);

        return fd < 0 ? -errno : fd;
}

/* Opens the directory itself for its attributes, whatever its mode. */
static int open_self(struct wide *w, int dir_fd) {
        const int r = wide_init(w, dir_fd, ".", S_IRUSR | S_IWUSR);

        return r < 0 ? r : wide_open_read(w);
}

/* What the directory says of one of the names of a file whose own record is about another name. An empty
 * record says "none". */
static int claim_name(int dir_fd, const char *name, const struct layer_origin *lower, bool said) {
        static const struct origin_record none = { .magic = { 'c', 'f', 'o', '0' } };
        char attr[64];
        AUTO_WIDE struct wide w = WIDE_INIT;
        AUTO_FD int fd = open_self(&w, dir_fd);

        if (fd < 0)
                return TAKE(fd, -1);
        link_attr(name, attr);
        if (!said)
                return fremovexattr(fd, attr) < 0 && errno != ENODATA ? -errno : 0;
        if (lower->ino)
                return set_record(fd, attr, lower);
        return fsetxattr(fd, attr, &none, sizeof(none), 0) < 0 ? -errno : 0;
}

static int claim_link(int dir_fd, const char *name, const struct layer_origin *lower) {
        char attr[64];
        AUTO_WIDE struct wide w = WIDE_INIT;
        AUTO_FD int fd = open_self(&w, dir_fd);
        int r;

        if (fd < 0)
                return TAKE(fd, -1);
        link_attr(name, attr);
        r = set_record(fd, attr, lower);
        return r == -ENOSPC || r == -EDQUOT || r == -E2BIG ? 0 : r;
}

static int origin_of_link(int dir_fd, const char *name, struct layer_origin *ret) {
        char attr[64];
        AUTO_WIDE struct wide w = WIDE_INIT;
        AUTO_FD int fd = open_self(&w, dir_fd);

        if (fd < 0)
                return TAKE(fd, -1);
        link_attr(name, attr);
        return get_record(fd, attr, ret);
}

/* Opens @name for its attributes. Return: descriptor; -ELOOP for a symlink, -ENXIO for a socket. */
static int open_attrs(int dir_fd, const char *name) {
        const int fd = openat(dir_fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);

        return fd < 0 ? -errno : fd;
}

static bool can_carry_origin(const struct stat *st) {
        return S_ISREG(st->st_mode) || S_ISDIR(st->st_mode);
}

static bool same_record(const struct layer_origin *a, const struct layer_origin *b) {
        return a->dev == b->dev && a->ino == b->ino && a->size == b->size && a->mtime_ns == b->mtime_ns &&
               a->ctime_ns == b->ctime_ns && a->mode == b->mode;
}

/* Of a file with several names the directory carries what is true of one name only. */
/* Of a file with several names the directory carries what is true of one name only. */
static int claim(const struct wide *w, int dir_fd, const char *name, const struct layer_origin *lower) {
        AUTO_FD int fd = wide_open_read(w);
        struct layer_origin own;
        int r;

        if (fd < 0)
                return TAKE(fd, -1);
        if (S_ISDIR(w->st.st_mode) || w->st.st_nlink == 1)
                return layer_set_origin(fd, lower);
        r = layer_get_origin(fd, &own);
        return r < 0 ? r : claim_name(dir_fd, name, lower, !same_record(&own, lower));
}

int layer_claim(int dir_fd, const char *name, const struct layer_origin *lower) {
        AUTO_WIDE struct wide w = WIDE_INIT;
        struct stat st;
        int r;

        if (fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
                return -errno;
        if (!can_carry_origin(&st))
                return claim_link(dir_fd, name, lower);
        r = wide_init(&w, dir_fd, name, S_IRUSR | S_IWUSR);
        return r < 0 ? r : claim(&w, dir_fd, name, lower);
}

int layer_open_read(int dir_fd, const char *name) {
        AUTO_WIDE struct wide w = WIDE_INIT;
        AUTO_FD int fd = open_attrs(dir_fd, name);
        int r;

        if (fd != -EACCES)
                return TAKE_FD(fd);
        r = wide_init(&w, dir_fd, name, S_IRUSR);
        if (r < 0)
                return r;
        return S_ISREG(w.st.st_mode) ? wide_open_read(&w) : -EINVAL;
}

/* Reads an attribute of a file or directory, whatever its mode. Return: bytes, -errno. */
static ssize_t get_attr(int dir_fd, const char *name, const char *attr, void *value, size_t size) {
        AUTO_WIDE struct wide w = WIDE_INIT;
        AUTO_FD int fd = open_attrs(dir_fd, name);
        ssize_t n;

        if (fd >= 0) {
                n = fgetxattr(fd, attr, value, size);
                return n < 0 ? -errno : n;
        }
        if (fd != -EACCES)
                return TAKE(fd, -1);
        n = wide_init(&w, dir_fd, name, S_IRUSR);
        if (n < 0)
                return n;
        n = getxattr(w.proc, attr, value, size);
        return n < 0 ? -errno : n;
}

static int origin_of_file(int dir_fd, const char *name, struct layer_origin *ret) {
        struct origin_record rec;
        const ssize_t n = get_attr(dir_fd, name, XATTR_ORIGIN, &rec, sizeof(rec));
        const int r = read_record(&rec, n, ret);

        return r == RECORD_NONE ? 0 : r;
}

int layer_origin_at(int dir_fd, const char *name, struct layer_origin *ret) {
        struct stat st;

        if (fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
                return -errno;
        if (!can_carry_origin(&st) || (S_ISREG(st.st_mode) && st.st_nlink > 1)) {
                const int r = origin_of_link(dir_fd, name, ret);

                if (r == RECORD_NONE)
                        return 0;
                if (r < 0 || ret->ino || !can_carry_origin(&st))
                        return r;
        }
        return origin_of_file(dir_fd, name, ret);
}

/** struct number_record - the number xattr; host byte order */
struct number_record {
        char magic[8]; /* "cofnum1" */
        uint64_t dev, ino;
};

/* where the record is: on the object, or on its directory under a name of its own */
static int number_place(int dir_fd, const char *name, char attr[64], const char **ret) {
        struct stat st;

        if (fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
                return -errno;
        *ret = can_carry_origin(&st) ? name : ".";
        if (can_carry_origin(&st))
                (void) snprintf(attr, 64, "%s", XATTR_NUMBER);
        else
                name_attr(XATTR_NUMBER ".", name, attr);
        return 0;
}

int layer_set_number(int dir_fd, const char *name, uint64_t dev, uint64_t ino) {
        const struct number_record rec = { .magic = "cofnum1", .dev = dev, .ino = ino };
        AUTO_WIDE struct wide w = WIDE_INIT;
        const char *where;
        char attr[64];
        int r = number_place(dir_fd, name, attr, &where);

        if (r == 0)
                r = wide_init(&w, dir_fd, where, S_IRUSR | S_IWUSR);
        if (r < 0)
                return r;
        r = ino ? setxattr(w.proc, attr, &rec, sizeof(rec), 0) : removexattr(w.proc, attr);
        if (r == 0 || errno == ENODATA)
                return 0;
        /* a directory has room for a few: the others change their number */
        return *where == '.' && (errno == ENOSPC || errno == EDQUOT || errno == E2BIG) ? 0 : -errno;
}

int layer_get_number(int dir_fd, const char *name, uint64_t *ret_dev, uint64_t *ret_ino) {
        struct number_record rec;
        const char *where;
        char attr[64];
        ssize_t n = number_place(dir_fd, name, attr, &where);

        *ret_dev = *ret_ino = 0;
        if (n == 0)
                n = get_attr(dir_fd, where, attr, &rec, sizeof(rec));
        if (n == -ENODATA || n == -ERANGE || n == -EOPNOTSUPP || n == -EPERM)
                return 0;
        if (n < 0)
                return (int) n;
        if (n == sizeof(rec) && memcmp(rec.magic, "cofnum1", sizeof(rec.magic)) == 0) {
                *ret_dev = rec.dev;
                *ret_ino = rec.ino;
        }
        return 0;
}

/* Reads the opaque mark of a directory open as @fd: 'x', 'y' or 0. Return: 0 or -errno. */
static int get_opaque(int fd, char *ret) {
        char value = 0;
        const ssize_t n = fgetxattr(fd, XATTR_OPAQUE, &value, 1);

        if (n < 0 && errno != ENODATA && errno != ERANGE && errno != EOPNOTSUPP)
                return -errno;
        if (n != 1)
                value = 0;
        *ret = value;
        return 0;
}

static int kind_of_dir(int dir_fd, const char *name, enum layer_kind *ret) {
        char mark = 0;
        const ssize_t n = get_attr(dir_fd, name, XATTR_OPAQUE, &mark, 1);

        if (n < 0 && n != -ENODATA && n != -ERANGE && n != -EOPNOTSUPP && n != -EPERM)
                return (int) n;
        *ret = n == 1 && mark == 'y' ? LAYER_OPAQUE_DIR : LAYER_DIR;
        return 0;
}

static int kind_of_empty(int dir_fd, const char *name, enum layer_kind *ret) {
        AUTO_FD int fd = open_attrs(dir_fd, name);

        /* a whiteout is 0600 and ours: what cannot be read is none */
        if (fd < 0 && fd != -EACCES)
                return fd;
        *ret = fd >= 0 && fgetxattr(fd, XATTR_WHITEOUT, NULL, 0) >= 0 ? LAYER_WHITEOUT : LAYER_FILE;
        return 0;
}

int layer_lookup(int dir_fd, const char *name, enum layer_kind *ret, struct stat *st) {
        struct stat buf;
        enum layer_kind kind = LAYER_FILE;
        int r = 0;

        if (fstatat(dir_fd, name, &buf, AT_SYMLINK_NOFOLLOW) < 0) {
                if (errno != ENOENT)
                        return -errno;
                *ret = LAYER_ABSENT;
                return 0;
        }
        if (S_ISDIR(buf.st_mode))
                r = kind_of_dir(dir_fd, name, &kind);
        else if (S_ISREG(buf.st_mode) && buf.st_size == 0)
                r = kind_of_empty(dir_fd, name, &kind);
        else if (S_ISCHR(buf.st_mode) && buf.st_rdev == makedev(0, 0))
                kind = LAYER_WHITEOUT;
        if (r < 0)
                return r;
        *ret = kind;
        if (st)
                *st = buf;
        return 0;
}

static int open_dir_component(int dir_fd, const char *name) {
        return open_beneath(dir_fd, name, O_PATH | O_DIRECTORY, 0);
}

int layer_dress_dir(int fd, int lower_fd) {
        struct layer_origin origin;
        struct stat st;
        int r;

        if (lower_fd < 0)
                return 0;
        if (fstat(lower_fd, &st) < 0)
                return -errno;
        origin = layer_origin_of(&st);
        r = layer_set_origin(fd, &origin);
        if (r < 0)
                return r;
        return fchmod(fd, (st.st_mode & 01777) | 0700) < 0 ? -errno : 0;
}

/* Makes the directory @name under a temporary name and renames it: never seen half dressed. */
static int make_dir(int dir_fd, const char *name, int lower_fd) {
        char tmp[48];
        AUTO_FD int fd = -1;
        int r;

        r = temp_name(tmp);
        if (r < 0)
                return r;
        if (mkdirat(dir_fd, tmp, 0700) < 0)
                return -errno;
        fd = openat(dir_fd, tmp, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        r = fd < 0 ? -errno : layer_dress_dir(fd, lower_fd);
        if (r == 0 && renameat2(dir_fd, tmp, dir_fd, name, RENAME_NOREPLACE) < 0)
                r = -errno;
        if (r < 0)
                (void) unlinkat(dir_fd, tmp, AT_REMOVEDIR);
        return r == -EEXIST ? 0 : r; /* another thread was first */
}

/* Opens or makes one component. */
static int step_dir(int dir_fd, int lower_fd, const char *name) {
        int r = open_dir_component(dir_fd, name);

        if (r != -ENOENT)
                return r;
        r = make_dir(dir_fd, name, lower_fd);
        return r < 0 ? r : open_dir_component(dir_fd, name);
}

static bool is_component(const char *name, size_t len) {
        return len > 0 && len <= NAME_MAX && !(len == 1 && name[0] == '.') &&
               !(len == 2 && name[0] == '.' && name[1] == '.');
}

int layer_open_dir(int upper_fd, int lower_fd, const char *path) {
        AUTO_FD int fd = -1;
        AUTO_FD int lower = -1;

        fd = openat(upper_fd, ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (fd < 0)
                return -errno;
        if (lower_fd >= 0)
                lower = fcntl(lower_fd, F_DUPFD_CLOEXEC, 3);
        while (*path) {
                const size_t n = strcspn(path, "/");
                char name[NAME_MAX + 1];
                int next;

                if (!is_component(path, n))
                        return n > NAME_MAX ? -ENAMETOOLONG : -EINVAL;
                memcpy(name, path, n);
                name[n] = '\0';
                if (lower >= 0) {
                        next = open_dir_component(lower, name);
                        (void) fd_close(TAKE_FD(lower));
                        lower = next < 0 ? -1 : next;
                }
                next = step_dir(fd, lower, name);
                if (next < 0)
                        return next;
                (void) fd_close(TAKE_FD(fd));
                fd = next;
                path += n;
                if (*path == '/' && *++path == '\0')
                        return -EINVAL;
        }
        return TAKE_FD(fd);
}

void layer_set_times(int dir_fd, const struct stat *st) {
        const struct timespec times[2] = { st->st_atim, st->st_mtim };

        (void) !utimensat(dir_fd, "", times, AT_EMPTY_PATH);
}

int layer_set_opaque(int dir_fd, const char *name) {
        AUTO_WIDE struct wide w = WIDE_INIT;
        const int r = wide_init(&w, dir_fd, name, S_IRUSR | S_IWUSR);

        if (r < 0 || !S_ISDIR(w.st.st_mode))
                return r < 0 ? r : -ENOTDIR;
        return setxattr(w.proc, XATTR_OPAQUE, "y", 1, 0) < 0 ? -errno : 0;
}

int layer_set_redirect(int dir_fd, const char *name, const char *path) {
        AUTO_WIDE struct wide w = WIDE_INIT;
        AUTO_BUF struct buf value = { 0 };
        int r = wide_init(&w, dir_fd, name, S_IRUSR | S_IWUSR);

        if (r < 0 || !S_ISDIR(w.st.st_mode))
                return r < 0 ? r : -ENOTDIR;
        if (!path)
                return removexattr(w.proc, XATTR_REDIRECT) < 0 && errno != ENODATA ? -errno : 0;
        r = buf_fmt(&value, "/%s", path);
        if (r < 0)
                return r;
        return setxattr(w.proc, XATTR_REDIRECT, value.data, value.len, 0) < 0 ? -errno : 0;
}

static bool is_redirect(const char *path) {
        if (*path != '/')
                return is_component(path, strcspn(path, "/")) && !strchr(path, '/');
        while (*path == '/') {
                const size_t n = strcspn(++path, "/");

                if (!is_component(path, n))
                        return false;
                path += n;
        }
        return *path == '\0';
}

int layer_get_redirect(int dir_fd, const char *name, char **ret) {
        char value[XATTR_SIZE_MAX + 1];
        const ssize_t n = get_attr(dir_fd, name, XATTR_REDIRECT, value, sizeof(value) - 1);

        *ret = NULL;
        if (n < 0)
                return n == -ENODATA || n == -EOPNOTSUPP ? 0 : (int) n;
        value[n] = '\0';
        if (strlen(value) != (size_t) n || !is_redirect(value))
                return -EBADMSG;
        *ret = strdup(value);
        return *ret ? 0 : -ENOMEM;
}

/* Marks the directory as one that holds whiteouts. @ret: whether it is opaque and needs none. */
static int mark_dir(int dir_fd, bool *ret) {
        char mark = 0;
        AUTO_WIDE struct wide w = WIDE_INIT;
        AUTO_FD int fd = open_self(&w, dir_fd);
        int r = fd < 0 ? fd : get_opaque(fd, &mark);

        if (r < 0)
                return r;
        *ret = mark == 'y';
        if (mark == 0 && fsetxattr(fd, XATTR_OPAQUE, "x", 1, 0) < 0)
                return -errno;
        return 0;
}

/* Makes a whiteout whatever the directory is. @since_ns: its modification time, 0: now */
static int make_whiteout(int dir_fd, const char *name, const struct layer_origin *lower, int64_t since_ns) {
        const struct timespec since = { since_ns / 1000000000, since_ns % 1000000000 };
        AUTO_TEMP struct temp t = { .fd = -1 };
        int r;

        r = temp_init(&t, dir_fd);
        if (r < 0)
                return r;
        if (fsetxattr(t.fd, XATTR_WHITEOUT, "y", 1, 0) < 0)
                return -errno;
        if (lower) {
                r = layer_set_origin(t.fd, lower);
                if (r < 0)
                        return r;
        }
        if (fchmod(t.fd, 0600) < 0)
                return -errno;
        if (since_ns > 0 && futimens(t.fd, (const struct timespec[]){ since, since }) < 0)
                return -errno;
        return temp_publish(&t, name);
}

int layer_whiteout(int dir_fd, const char *name, const struct layer_origin *lower) {
        bool opaque = false;
        int r;

        r = mark_dir(dir_fd, &opaque);
        return r < 0 || opaque ? r : make_whiteout(dir_fd, name, lower, 0);
}

int layer_needs_whiteouts(int dir_fd, bool *ret) {
        bool opaque = false;
        const int r = mark_dir(dir_fd, &opaque);

        *ret = !opaque;
        return r;
}

int layer_cover(int dir_fd, const char *name, const struct layer_origin *lower) {
        bool opaque = false;
        char tmp[48];
        int r;

        r = mark_dir(dir_fd, &opaque);
        if (r == 0 && opaque)
                return unlinkat(dir_fd, name, 0) < 0 ? -errno : 0;
        if (r == 0)
                r = temp_name(tmp);
        if (r == 0)
                r = make_whiteout(dir_fd, tmp, lower, 0);
        if (r == 0 && renameat(dir_fd, tmp, dir_fd, name) < 0) {
                r = -errno;
                (void) unlinkat(dir_fd, tmp, 0);
        }
        return r;
}

int layer_clear_opaque(int dir_fd, char *const *hidden, size_t n, int64_t since_ns) {
        AUTO_FD int fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

        if (fd < 0)
                return -errno;
        for (size_t i = 0; i < n; i++) {
                const int r = make_whiteout(fd, hidden[i], NULL, since_ns);

                if (r < 0 && r != -EEXIST)
                        return r;
        }
        return fsetxattr(fd, XATTR_OPAQUE, "x", 1, 0) < 0 ? -errno : 0;
}

int layer_unwhiteout(int dir_fd, const char *name, struct layer_origin *ret) {
        struct layer_origin origin = { 0 };
        enum layer_kind kind = LAYER_ABSENT;
        int r;

        r = layer_lookup(dir_fd, name, &kind, NULL);
        if (r < 0)
                return r;
        if (kind == LAYER_WHITEOUT) {
                r = layer_origin_at(dir_fd, name, &origin);
                if (r < 0)
                        return r;
                if (unlinkat(dir_fd, name, 0) < 0)
                        return -errno;
        }
        if (ret)
                *ret = origin;
        return 0;
}

/* Makes the new file @t like the lower one. */
static int fill(struct temp *t, int lower_fd, const struct stat *st, bool with_data) {
        const struct layer_origin origin = layer_origin_of(st);
        int r = 0;

        if (with_data)
                r = copy_data(lower_fd, t->fd, (uint64_t) st->st_size);
        if (r == 0)
                r = copy_xattrs(lower_fd, t->fd);
        if (r == 0)
                r = layer_set_origin(t->fd, &origin);
        if (r < 0)
                return r;
        if (fchmod(t->fd, st->st_mode & 01777) < 0)
                return -errno;
        return copy_times(st, t->fd);
}

static int copy_up_file(int lower_fd, const struct stat *st, int dir_fd, const char *name, bool with_data) {
        AUTO_TEMP struct temp t = { .fd = -1 };
        int r = temp_init(&t, dir_fd);

        if (r == 0)
                r = fill(&t, lower_fd, st, with_data);
        return r < 0 ? r : temp_publish(&t, name);
}

int layer_copy_nameless(int lower_fd, int upper_fd) {
        AUTO_TEMP struct temp t = { .fd = -1 };
        struct stat st;
        int r;

        if (fstat(lower_fd, &st) < 0)
                return -errno;
        r = temp_init(&t, upper_fd);
        if (r == 0)
                r = fill(&t, lower_fd, &st, true);
        return r < 0 ? r : TAKE_FD(t.fd);
}

static int copy_up_special(const struct stat *st, int dir_fd, const char *name) {
        const struct timespec times[2] = { st->st_atim, st->st_mtim };
        const struct layer_origin origin = layer_origin_of(st);

        if (mknodat(dir_fd, name, (st->st_mode & S_IFMT) | 0600, 0) < 0)
                return -errno;
        if (fchmodat(dir_fd, name, st->st_mode & 01777, 0) < 0 ||
            utimensat(dir_fd, name, times, AT_SYMLINK_NOFOLLOW) < 0)
                return -errno;
        return claim_link(dir_fd, name, &origin);
}

int layer_copy_attrs(int fd, int lower_fd) {
        AUTO_FD int lower = openat(lower_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        struct layer_origin origin;
        struct stat st;
        int r = 0;

        if (fstat(lower_fd, &st) < 0)
                return -errno;
        origin = layer_origin_of(&st);
        if (lower >= 0) /* else nobody can read its attributes */
                r = copy_xattrs(lower, fd);
        if (r == 0)
                r = layer_set_origin(fd, &origin);
        if (r < 0)
                return r;
        if (fchmod(fd, st.st_mode & 03777) < 0)
                return -errno;
        return copy_times(&st, fd);
}

int layer_copy_up_dir(int lower_fd, int dir_fd, const char *name) {
        AUTO_WIDE struct wide w = WIDE_INIT;
        AUTO_FD int fd = -1;
        char tmp[48];
        int r;

        r = temp_name(tmp);
        if (r == 0)
                r = wide_init(&w, dir_fd, ".", S_IRWXU);
        if (r < 0)
                return r;
        r = mkdirat(dir_fd, tmp, 0700) < 0 ? -errno : 0;
        if (r == 0) {
                fd = openat(dir_fd, tmp, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
                r = fd < 0 ? -errno : layer_copy_attrs(fd, lower_fd);
                if (r == 0 && renameat2(dir_fd, tmp, dir_fd, name, RENAME_NOREPLACE) < 0)
                        r = -errno;
                if (r < 0)
                        (void) unlinkat(dir_fd, tmp, AT_REMOVEDIR);
        }
        layer_set_times(dir_fd, &w.st);
        return r;
}

static int copy_up_symlink(int lower_fd, const struct stat *st, int dir_fd, const char *name) {
        const struct timespec times[2] = { st->st_atim, st->st_mtim };
        const struct layer_origin origin = layer_origin_of(st);
        char target[PATH_MAX];
        const ssize_t n = readlinkat(lower_fd, "", target, sizeof(target) - 1);

        if (n < 0)
                return -errno;
        target[n] = '\0';
        if (symlinkat(target, dir_fd, name) < 0)
                return -errno;
        if (utimensat(dir_fd, name, times, AT_SYMLINK_NOFOLLOW) < 0)
                return -errno;
        return claim_link(dir_fd, name, &origin);
}

int layer_copy_up(int lower_fd, int dir_fd, const char *name, bool with_data) {
        struct stat st;

        if (fstat(lower_fd, &st) < 0)
                return -errno;
        if (S_ISREG(st.st_mode))
                return copy_up_file(lower_fd, &st, dir_fd, name, with_data);
        if (S_ISLNK(st.st_mode))
                return copy_up_symlink(lower_fd, &st, dir_fd, name);
        if (S_ISFIFO(st.st_mode) || S_ISSOCK(st.st_mode))
                return copy_up_special(&st, dir_fd, name);
        return -EINVAL;
}

int layer_copy_up_quietly(int lower_fd, int dir_fd, const char *name, bool with_data) {
        AUTO_WIDE struct wide w = WIDE_INIT;
        int r = wide_init(&w, dir_fd, ".", S_IRWXU);

        if (r < 0)
                return r;
        r = layer_copy_up(lower_fd, dir_fd, name, with_data);
        layer_set_times(dir_fd, &w.st);
        return r;
}

int layer_link_known(int dir_fd, const char *name, int new_dir, const char *new_name) {
        AUTO_WIDE struct wide w = WIDE_INIT;
        int r = wide_init(&w, new_dir, ".", S_IRWXU);

        if (r < 0)
                return r;
        r = linkat(dir_fd, name, new_dir, new_name, 0) < 0 ? -errno : 0;
        layer_set_times(new_dir, &w.st);
        return r;
}

int layer_usable(int upper_fd, struct error *err) {
        const struct layer_origin probe = { .ino = 1 }, none = { 0 };
        AUTO_FD int fd = openat(upper_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        int r;

        /* on the directory itself: a file would have to be made and removed */
        r = fd < 0 ? -errno : layer_set_origin(fd, &probe);
        if (r == 0)
                r = layer_set_origin(fd, &none);
        if (r == -EOPNOTSUPP || r == -EPERM || r == -ENOSYS)
                return error_set(
                        err, -EOPNOTSUPP,
                        "the file system of the state directory has no user extended attributes: "
                        "set XDG_STATE_HOME to a directory on ext4, xfs, btrfs or tmpfs (Linux 6.6)");
        if (r < 0)
                return error_set(err, r, "mark the run's upper directory: %s", strerror(-r));
        return 0;
}
