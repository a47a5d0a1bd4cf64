/*
 * cow-model - random file system calls in a directory served copy-on-write and in a plain one
 *
 *   cow-model prepare SEED DIR DIR    the same random tree in both
 *   cow-model run SEED OPS DIR MODEL [NUMBERS]
 *
 * Few names, so that files, directories and links meet at every name; descriptors that outlive their names.
 * Each call has to give the same result or errno in both, and at the start, at the end and every now and then
 * both trees have to be the same: types, modes, contents, attributes, link counts, which names are one file.
 * In DIR the numbers of files are looked at too: a change does not change them, two files never have the
 * same, readdir(3) and stat(2) agree, and with NUMBERS, a file, they are those of the run before. Prints the
 * last calls and exits 1 when something differs.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

enum { FDS = 8, LOG = 40, LINE = 200, COMPARE_EVERY = 2500, TREE_MAX = 8192, BYTES = 20000, DEPTH = 4 };

/** struct seen - one name of the tree under test */
struct seen {
        char path[96];
        uint64_t ino, model_ino;
        bool dir;
};

/** struct model - one run */
struct model {
        uint64_t random;
        int root[2]; /* under test, model */
        int fds[FDS][2];
        char log[LOG][LINE];
        unsigned long n;
        struct seen *seen;
        size_t n_seen;
        const char *numbers;
        unsigned long seed;
};

static uint64_t next(struct model *m) {
        m->random ^= m->random << 13;
        m->random ^= m->random >> 7;
        m->random ^= m->random << 17;
        return m->random * 0x2545f4914f6cdd1dU >> 11;
}

static unsigned int pick(struct model *m, unsigned int n) {
        return (unsigned int) (next(m) % n);
}

static _Noreturn void fail(struct model *m, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static _Noreturn void fail(struct model *m, const char *fmt, ...) {
        va_list ap;

        for (unsigned long i = m->n >= LOG ? m->n - LOG + 1 : 0; i <= m->n; i++)
                (void) fprintf(stderr, "%lu %s\n", i, m->log[i % LOG]);
        (void) fprintf(stderr, "cow-model: seed %lu, step %lu: ", m->seed, m->n);
        va_start(ap, fmt);
        (void) vfprintf(stderr, fmt, ap);
        va_end(ap);
        (void) fputc('\n', stderr);
        exit(1);
}

/* a path of one to DEPTH names */
static void make_path(struct model *m, char out[64]) {
        static const char *const names[] = { "a", "b", "c", "dd", "e", ".f" };
        const unsigned int weight = pick(m, 10);
        const unsigned int depth = weight < 3 ? 1 : weight < 7 ? 2 : weight < 9 ? 3 : DEPTH;
        size_t at = 0;

        for (unsigned int i = 0; i < depth; i++)
                at += (size_t) snprintf(out + at, 64 - at, "%s%s", i ? "/" : "", names[pick(m, 6)]);
}

/* ---- comparing trees ---- */

static void read_names(int fd, char *out, size_t size, struct model *m, const char *path, uint64_t *inos) {
        char *names[256];
        const int copy = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        DIR *d = copy < 0 ? NULL : fdopendir(copy);
        size_t n = 0, at = 0;

        *out = '\0';
        if (!d) {
                (void) snprintf(out, size, "errno %d", errno);
                return;
        }
        for (const struct dirent *e; (e = readdir(d));) {
                if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
                        continue;
                if (n == 256)
                        fail(m, "%s: too many entries", path);
                names[n] = strdup(e->d_name);
                for (size_t i = n++; i > 0 && strcmp(names[i], names[i - 1]) < 0; i--) {
                        char *t = names[i];

                        names[i] = names[i - 1];
                        names[i - 1] = t;
                }
        }
        for (size_t i = 0; i < n; i++) {
                at += (size_t) snprintf(out + at, size - at, "%s/", names[i]);
                free(names[i]);
        }
        if (inos) {
                rewinddir(d);
                for (const struct dirent *e; (e = readdir(d));) {
                        struct stat st;

                        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
                                continue;
                        if (fstatat(fd, e->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 && st.st_ino != e->d_ino)
                                fail(m, "%s/%s: readdir says inode %lu, stat %lu", path, e->d_name,
                                     (unsigned long) e->d_ino, (unsigned long) st.st_ino);
                }
        }
        (void) closedir(d);
}

static void compare_content(struct model *m, const int dirs[2], const char *name, const char *path,
                            const struct stat st[2]) {
        static char a[BYTES], b[BYTES];
        const int x = openat(dirs[0], name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC), ex = errno,
                  y = openat(dirs[1], name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC), ey = errno;
        ssize_t n;

        if ((x < 0) != (y < 0) || (x < 0 && ex != ey))
                fail(m, "%s: opening it: %d and %d", path, x < 0 ? ex : 0, y < 0 ? ey : 0);
        if (x < 0)
                return;
        if (st[0].st_size != st[1].st_size)
                fail(m, "%s: size %ld instead of %ld", path, (long) st[0].st_size, (long) st[1].st_size);
        n = read(x, a, sizeof(a));
        if (n != read(y, b, sizeof(b)) || n < 0 || memcmp(a, b, (size_t) n) != 0)
                fail(m, "%s: content", path);
        (void) close(x);
        (void) close(y);
}

static void compare_attrs(struct model *m, const char *const paths[2], const char *path) {
        static char a[4096], b[4096];
        ssize_t n = lgetxattr(paths[0], "user.a", a, sizeof(a)), en = errno;
        ssize_t k = lgetxattr(paths[1], "user.a", b, sizeof(b)), ek = errno;

        if (n != k || (n < 0 && en != ek) || (n > 0 && memcmp(a, b, (size_t) n) != 0))
                fail(m, "%s: attribute: %zd (%zd) instead of %zd (%zd)", path, n, en, k, ek);
        n = llistxattr(paths[0], a, sizeof(a));
        k = llistxattr(paths[1], b, sizeof(b));
        if (n > 0 && (size_t) n > strlen(a) + 1)
                fail(m, "%s: the work sees our attributes", path);
        if (n >= 0 && k >= 0 && n != k)
                fail(m, "%s: %zd bytes of attribute names instead of %zd", path, n, k);
}

static void remember(struct model *m, const char *path, const struct stat st[2]) {
        struct seen *s = &m->seen[m->n_seen++];

        if (m->n_seen == TREE_MAX)
                fail(m, "the tree is too large");
        (void) snprintf(s->path, sizeof(s->path), "%s", path);
        s->ino = st[0].st_ino;
        s->model_ino = st[1].st_ino;
        s->dir = S_ISDIR(st[0].st_mode);
}

static void compare_dir(struct model *m, const int dirs[2], const char *path);

static void compare_entry(struct model *m, const int dirs[2], const char *name, const char *path) {
        char proc[2][64 + sizeof(((struct seen *) 0)->path)];
        const char *paths[2] = { proc[0], proc[1] };
        struct stat st[2];
        int r[2], e[2];

        for (int i = 0; i < 2; i++) {
                r[i] = fstatat(dirs[i], name, &st[i], AT_SYMLINK_NOFOLLOW);
                e[i] = errno;
                (void) snprintf(proc[i], sizeof(proc[i]), "/proc/self/fd/%d/%.90s", dirs[i], name);
        }
        if (r[0] != r[1] || (r[0] < 0 && e[0] != e[1]))
                fail(m, "%s: stat: %d (%d) instead of %d (%d)", path, r[0], e[0], r[1], e[1]);
        if (r[0] < 0)
                return;
        if (st[0].st_mode != st[1].st_mode)
                fail(m, "%s: mode %o instead of %o", path, st[0].st_mode, st[1].st_mode);
        if (!S_ISDIR(st[0].st_mode) && st[0].st_nlink != st[1].st_nlink)
                fail(m, "%s: %lu links instead of %lu", path, (unsigned long) st[0].st_nlink,
                     (unsigned long) st[1].st_nlink);
        remember(m, path, st);
        compare_attrs(m, paths, path);
        if (S_ISREG(st[0].st_mode)) {
                compare_content(m, dirs, name, path, st);
        } else if (S_ISLNK(st[0].st_mode)) {
                char a[PATH_MAX] = { 0 }, b[PATH_MAX] = { 0 };

                if (readlinkat(dirs[0], name, a, sizeof(a) - 1) < 0 ||
                    readlinkat(dirs[1], name, b, sizeof(b) - 1) < 0 || strcmp(a, b) != 0)
                        fail(m, "%s: target '%s' instead of '%s'", path, a, b);
        } else if (S_ISDIR(st[0].st_mode)) {
                const int x = openat(dirs[0], name, O_RDONLY | O_DIRECTORY | O_CLOEXEC),
                          y = openat(dirs[1], name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

                if ((x < 0) != (y < 0))
                        fail(m, "%s: opening the directory", path);
                if (x >= 0)
                        compare_dir(m, (const int[]){ x, y }, path);
                (void) close(x);
                (void) close(y);
        }
}

static void compare_dir(struct model *m, const int dirs[2], const char *path) {
        char a[2048], b[2048], child[96];
        uint64_t unused = 0;

        read_names(dirs[0], a, sizeof(a), m, path, &unused);
        read_names(dirs[1], b, sizeof(b), m, path, NULL);
        if (strcmp(a, b) != 0)
                fail(m, "%s: holds %s instead of %s", path, a, b);
        if (strncmp(a, "errno", 5) == 0)
                return;
        for (char *at = a, *end; *at; at = end + 1) {
                end = strchr(at, '/');
                *end = '\0';
                (void) snprintf(child, sizeof(child), "%.60s/%.30s", path, at);
                compare_entry(m, dirs, at, child);
        }
}

/* same number exactly where it is one file in the model */
static void compare_numbers(struct model *m) {
        for (size_t i = 0; i < m->n_seen; i++)
                for (size_t k = i + 1; k < m->n_seen; k++) {
                        const struct seen *a = &m->seen[i], *b = &m->seen[k];

                        if ((a->ino == b->ino) != (a->model_ino == b->model_ino))
                                fail(m, "%s and %s: inodes %lu and %lu, in the model %lu and %lu", a->path,
                                     b->path, (unsigned long) a->ino, (unsigned long) b->ino,
                                     (unsigned long) a->model_ino, (unsigned long) b->model_ino);
                }
}

static void compare(struct model *m) {
        struct stat st[2];

        for (int i = 0; i < 2; i++)
                if (fstat(m->root[i], &st[i]) < 0)
                        fail(m, "stat of the root");
        if (st[0].st_mode != st[1].st_mode)
                fail(m, "root: mode %o instead of %o", st[0].st_mode, st[1].st_mode);
        m->n_seen = 0;
        compare_dir(m, m->root, ".");
        compare_numbers(m);
}

static void check_numbers(struct model *m) {
        FILE *f = m->numbers ? fopen(m->numbers, "re") : NULL;
        char line[160], *path;
        unsigned long ino;
        size_t i = 0;

        if (!f)
                return;
        while (fgets(line, sizeof(line), f)) {
                ino = strtoul(line, &path, 10);
                path += *path == ' ';
                path[strcspn(path, "\n")] = '\0';
                if (i >= m->n_seen || strcmp(m->seen[i].path, path) != 0)
                        fail(m, "%s is not where it was", path);
                if (m->seen[i].ino != ino)
                        fail(m, "%s: inode %lu was %lu before", path, (unsigned long) m->seen[i].ino, ino);
                i++;
        }
        (void) fclose(f);
}

static void save_numbers(struct model *m) {
        FILE *f = m->numbers ? fopen(m->numbers, "we") : NULL;

        if (!f)
                return;
        for (size_t i = 0; i < m->n_seen; i++)
                (void) fprintf(f, "%lu %s\n", (unsigned long) m->seen[i].ino, m->seen[i].path);
        (void) fclose(f);
}

/* ---- calls ---- */

enum op {
        OP_CREATE,
        OP_WRITE,
        OP_WRITE2,
        OP_APPEND,
        OP_TRUNCATE,
        OP_UNLINK,
        OP_UNLINK2,
        OP_RMDIR,
        OP_RENAME,
        OP_RENAME2,
        OP_RENAME3,
        OP_NOREPLACE,
        OP_EXCHANGE,
        OP_LINK,
        OP_SYMLINK,
        OP_MKDIR,
        OP_MKDIR2,
        OP_MKFIFO,
        OP_CHMOD,
        OP_UTIME,
        OP_SETXATTR,
        OP_REMOVEXATTR,
        OP_STAT,
        OP_READ,
        OP_OPEN,
        OP_FD_WRITE,
        OP_FD_READ,
        OP_FD_TRUNCATE,
        OP_FD_STAT,
        OP_FD_CHMOD,
        OP_FD_PUNCH,
        OP_FD_CLOSE,
        OP_COUNT
};
static const char *const op_names[] = {
        "create", "write",    "write",   "append",      "truncate", "unlink",      "unlink",   "rmdir",
        "rename", "rename",   "rename",  "noreplace",   "exchange", "link",        "symlink",  "mkdir",
        "mkdir",  "mkfifo",   "chmod",   "utime",       "setxattr", "removexattr", "stat",     "read",
        "open",   "fd write", "fd read", "fd truncate", "fd stat",  "fd chmod",    "fd punch", "fd close",
};

/** struct call - one call, made twice */
struct call {
        enum op op;
        char p[64], q[64];
        unsigned int k, slot;
        mode_t mode;
        int flags;
};

static long sum(const char *data, ssize_t n) {
        unsigned long h = 5381;

        for (ssize_t i = 0; i < n; i++)
                h = h * 33 + (unsigned char) data[i];
        return n < 0 ? n : (long) (h >> 2);
}

static long write_file(int fd, unsigned int k) {
        char data[3000];
        long r;

        if (fd < 0)
                return -errno;
        memset(data, (int) ('A' + k % 26), sizeof(data));
        r = pwrite(fd, data, k % sizeof(data), k % 7000);
        r = r < 0 ? -errno : r;
        (void) close(fd);
        return r;
}

static long read_file(int fd, unsigned int off) {
        static char data[BYTES];
        const ssize_t n = pread(fd, data, sizeof(data), off);

        return n < 0 ? -errno : sum(data, n);
}

static long shape(const struct stat *st) {
        return (long) st->st_mode * 100003 +
               (S_ISDIR(st->st_mode) ? 0 : (long) st->st_nlink * 1009 + st->st_size);
}

static long set_time(int root, const char *path, unsigned int k) {
        const struct timespec times[2] = { { 1, k }, { 2 + k % 5, k } };
        struct stat st;

        if (utimensat(root, path, times, AT_SYMLINK_NOFOLLOW) < 0)
                return -errno;
        return fstatat(root, path, &st, AT_SYMLINK_NOFOLLOW) < 0 ? -errno
                                                                 : st.st_mtim.tv_nsec + st.st_mtim.tv_sec;
}

static long with_attr(int root, const struct call *c) {
        char path[128];
        int r;

        (void) snprintf(path, sizeof(path), "/proc/self/fd/%d/%.60s", root, c->p);
        if (c->op == OP_SETXATTR)
                r = lsetxattr(path, "user.a", c->q, strlen(c->q), 0);
        else
                r = lremovexattr(path, "user.a");
        return r < 0 ? -errno : r;
}

static long on_fd(struct model *m, const struct call *c, int which) {
        const int fd = m->fds[c->slot][which];
        char data[2000];
        struct stat st;
        long r = 0;

        memset(data, (int) ('a' + c->k % 26), sizeof(data));
        if (c->op == OP_FD_WRITE)
                r = pwrite(fd, data, c->k % sizeof(data), c->k % 5000);
        else if (c->op == OP_FD_READ)
                return read_file(fd, c->k % 100);
        else if (c->op == OP_FD_TRUNCATE)
                r = ftruncate(fd, c->k % 9000);
        else if (c->op == OP_FD_CHMOD)
                r = fstat(fd, &st) < 0 || !S_ISREG(st.st_mode)
                            ? 0
                            : fchmod(fd, c->mode); /* not of one that was removed */
        else if (c->op == OP_FD_PUNCH)
                r = fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, c->k % 4096, 1 + c->k % 5000);
        else if (c->op == OP_FD_STAT)
                return fstat(fd, &st) < 0 ? -errno : shape(&st);
        else
                r = close(fd);
        return r < 0 ? -errno : r;
}

static long result_of(int r) {
        return r < 0 ? -errno : r;
}

static long on_path(struct model *m, const struct call *c, int which) {
        const int root = m->root[which];
        char target[PATH_MAX];
        struct stat st;
        long r;

        switch (c->op) {
        case OP_CREATE:
                return write_file(
                        openat(root, c->p, O_CREAT | O_WRONLY | O_NONBLOCK | O_CLOEXEC | c->flags, c->mode),
                        c->k);
        case OP_WRITE:
        case OP_WRITE2:
                return write_file(
                        openat(root, c->p, O_WRONLY | (c->flags & O_TRUNC) | O_NONBLOCK | O_CLOEXEC), c->k);
        case OP_APPEND:
                return write_file(
                        openat(root, c->p, O_WRONLY | O_APPEND | O_CREAT | O_NONBLOCK | O_CLOEXEC, c->mode),
                        c->k);
        case OP_TRUNCATE:
                (void) snprintf(target, sizeof(target), "/proc/self/fd/%d/%.60s", root, c->p);
                return result_of(truncate(target, c->k % 9000));
        case OP_UNLINK:
        case OP_UNLINK2:
                return result_of(unlinkat(root, c->p, 0));
        case OP_RMDIR:
                return result_of(unlinkat(root, c->p, AT_REMOVEDIR));
        case OP_RENAME:
        case OP_RENAME2:
        case OP_RENAME3:
                return result_of(renameat(root, c->p, root, c->q));
        case OP_NOREPLACE:
                return result_of(renameat2(root, c->p, root, c->q, RENAME_NOREPLACE));
        case OP_EXCHANGE:
                return result_of(renameat2(root, c->p, root, c->q, RENAME_EXCHANGE));
        case OP_LINK:
                return result_of(linkat(root, c->p, root, c->q, 0));
        case OP_SYMLINK:
                return result_of(symlinkat(c->p, root, c->q));
        case OP_MKDIR:
        case OP_MKDIR2:
                return result_of(mkdirat(root, c->p, c->mode | 0700));
        case OP_MKFIFO:
                return result_of(mkfifoat(root, c->p, c->mode));
        case OP_CHMOD:
                return result_of(fchmodat(root, c->p, c->mode, 0));
        case OP_UTIME:
                return set_time(root, c->p, c->k);
        case OP_SETXATTR:
        case OP_REMOVEXATTR:
                return with_attr(root, c);
        case OP_STAT:
                r = fstatat(root, c->p, &st, AT_SYMLINK_NOFOLLOW);
                return r < 0 ? -errno : shape(&st);
        case OP_READ:
                r = openat(root, c->p, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
                if (r < 0)
                        return -errno;
                {
                        const long s = read_file((int) r, 0);

                        (void) close((int) r);
                        return s;
                }
        case OP_OPEN:
        case OP_FD_WRITE:
        case OP_FD_READ:
        case OP_FD_TRUNCATE:
        case OP_FD_STAT:
        case OP_FD_CHMOD:
        case OP_FD_PUNCH:
        case OP_FD_CLOSE:
        case OP_COUNT:
                break;
        }
        return -ENOSYS;
}

static void open_both(struct model *m, const struct call *c) {
        int fd[2], e[2];

        for (int i = 0; i < 2; i++) {
                fd[i] = openat(m->root[i], c->p, c->flags | O_NONBLOCK | O_CLOEXEC, c->mode);
                e[i] = errno;
        }
        (void) snprintf(m->log[m->n % LOG], LINE, "open %s %x: %d %d", c->p, (unsigned int) c->flags,
                        fd[0] < 0 ? -e[0] : 0, fd[1] < 0 ? -e[1] : 0);
        if ((fd[0] < 0) != (fd[1] < 0) || (fd[0] < 0 && e[0] != e[1]))
                fail(m, "open %s", c->p);
        if (fd[0] < 0)
                return;
        for (int i = 0; i < 2; i++) {
                (void) close(m->fds[c->slot][i]);
                m->fds[c->slot][i] = fd[i];
        }
}

static bool keeps_number(enum op op) {
        return op == OP_WRITE || op == OP_WRITE2 || op == OP_APPEND || op == OP_TRUNCATE || op == OP_CHMOD ||
               op == OP_UTIME || op == OP_SETXATTR || op == OP_REMOVEXATTR;
}

static bool moves(enum op op) {
        return op == OP_RENAME || op == OP_RENAME2 || op == OP_RENAME3 || op == OP_NOREPLACE;
}

static void twice(struct model *m, const struct call *c) {
        struct stat before = { 0 }, after = { 0 };
        const bool known = fstatat(m->root[0], c->p, &before, AT_SYMLINK_NOFOLLOW) == 0;
        long r[2];

        for (int i = 0; i < 2; i++)
                r[i] = c->op >= OP_FD_WRITE ? on_fd(m, c, i) : on_path(m, c, i);
        (void) snprintf(m->log[m->n % LOG], LINE, "%s %s %s %u %o slot %u: %ld %ld", op_names[c->op], c->p,
                        c->q, c->k, c->mode, c->slot, r[0], r[1]);
        /* the server has no descriptor of an open FIFO, and may not get into its directory any more */
        if (c->op == OP_FD_STAT && r[0] == -ESTALE && fstat(m->fds[c->slot][1], &after) == 0 &&
            S_ISFIFO(after.st_mode))
                return;
        if (r[0] != r[1])
                fail(m, "%s: %ld instead of %ld", op_names[c->op], r[0], r[1]);
        if (known && keeps_number(c->op) && !S_ISLNK(before.st_mode) &&
            fstatat(m->root[0], c->p, &after, AT_SYMLINK_NOFOLLOW) == 0 && before.st_ino != after.st_ino)
                fail(m, "%s: inode %lu was %lu before", c->p, (unsigned long) after.st_ino,
                     (unsigned long) before.st_ino);
        if (known && moves(c->op) && r[0] == 0 && strcmp(c->p, c->q) != 0 &&
            fstatat(m->root[0], c->q, &after, AT_SYMLINK_NOFOLLOW) == 0 && before.st_ino != after.st_ino)
                fail(m, "%s: inode %lu was %lu before", c->q, (unsigned long) after.st_ino,
                     (unsigned long) before.st_ino);
        if (c->op == OP_FD_CLOSE)
                m->fds[c->slot][0] = m->fds[c->slot][1] = -1;
}

static void step(struct model *m) {
        static const mode_t usual[] = { 0755, 0700, 0644, 0775, 0711, 0600, 0666, 0750 };
        static const mode_t odd[] = { 0, 0444, 0555, 0200, 0100, 0311, 01777, 0040 };
        static const int flags[] = { 0, O_EXCL, O_TRUNC, 0 };
        static const int open_flags[] = { O_RDONLY, O_RDWR, O_WRONLY, O_RDWR | O_CREAT };
        struct call c = { .op = (enum op) pick(m, OP_COUNT), .k = pick(m, 1U << 30), .slot = pick(m, FDS) };

        make_path(m, c.p);
        make_path(m, c.q);
        c.mode = pick(m, 30) ? usual[pick(m, 8)] : odd[pick(m, 8)];
        if (pick(m, 3) && c.op != OP_CHMOD && c.op != OP_FD_CHMOD)
                c.mode |= 0600;
        if (c.op == OP_CHMOD && pick(m, 8))
                c.mode |= 0700;
        c.flags = flags[pick(m, 4)];
        if (c.op == OP_OPEN) {
                c.flags = open_flags[pick(m, 4)];
                open_both(m, &c);
        } else {
                twice(m, &c);
        }
        m->n++;
}

/* what nobody may search any more would end the test in EACCES everywhere */
static void open_up(int dir, const char *name) {
        const int fd = openat(dir, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        struct stat st;
        DIR *d;
        int list;

        if (fd < 0)
                return;
        if (fstat(fd, &st) == 0 && (st.st_mode & 0700) != 0700)
                (void) !fchmodat(dir, name, (st.st_mode & 07777) | 0700, 0);
        list = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        d = list < 0 ? NULL : fdopendir(list);
        for (const struct dirent *e; d && (e = readdir(d));)
                if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
                        open_up(fd, e->d_name);
        if (d)
                (void) closedir(d);
        (void) close(fd);
}

static int run(struct model *m, unsigned long ops) {
        for (int i = 0; i < FDS; i++)
                m->fds[i][0] = m->fds[i][1] = -1;
        compare(m);
        check_numbers(m);
        while (m->n < ops) {
                step(m);
                if (m->n % COMPARE_EVERY == 0) {
                        compare(m);
                        for (int i = 0; i < 2; i++)
                                open_up(m->root[i], ".");
                }
        }
        for (int i = 0; i < 2; i++)
                open_up(m->root[i], ".");
        compare(m);
        save_numbers(m);
        return 0;
}

/* the tree to begin with: made by the same calls, results do not matter */
static int prepare(struct model *m) {
        static const enum op ops[] = { OP_CREATE,   OP_MKDIR, OP_SYMLINK, OP_MKFIFO,
                                       OP_SETXATTR, OP_CHMOD, OP_UTIME };

        for (int i = 0; i < 400; i++) {
                struct call c = { .op = ops[pick(m, i < 100 ? 2 : 7)], .k = pick(m, 1U << 30), .mode = 0755 };

                make_path(m, c.p);
                make_path(m, c.q);
                for (int k = 0; k < 2; k++)
                        (void) on_path(m, &c, k);
        }
        return 0;
}

int main(int argc, char **argv) {
        struct model m = { 0 };
        const bool preparing = argc == 5 && strcmp(argv[1], "prepare") == 0;

        if (!preparing && !(argc >= 6 && strcmp(argv[1], "run") == 0)) {
                (void) fprintf(stderr,
                               "usage: cow-model prepare SEED DIR DIR | run SEED OPS DIR MODEL [NUMBERS]\n");
                return 2;
        }
        (void) umask(0);
        m.seed = strtoul(argv[2], NULL, 10);
        m.random = m.seed * 0x9e3779b97f4a7c15U + 0x1234567;
        m.seen = calloc(TREE_MAX + 1, sizeof(*m.seen));
        m.numbers = !preparing && argc > 6 ? argv[6] : NULL;
        for (int i = 0; i < 2; i++) {
                m.root[i] = open(argv[preparing ? 3 + i : 4 + i], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
                if (m.root[i] < 0 || !m.seen) {
                        perror("cow-model");
                        return 2;
                }
        }
        return preparing ? prepare(&m) : run(&m, strtoul(argv[3], NULL, 10));
}
