/* what is in files and what is known about them: size, times, holes, attributes, files without names */
#include <fcntl.h>
#include <linux/falloc.h>
#include <linux/fs.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "transcript.h"

enum { TICK_US = 12000 /* the clock of a file system may have the pace of the timer */ };

static void topic_truncate(void) {
        static const off_t sizes[] = { 0, 1, 6, 7, 8, 4095, 4096, 4097, 1 << 20, (off_t) 1 << 33 };

        for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
                int fd;

                scene("truncate %jd", (intmax_t) sizes[i]);
                file("f", "content", 0644);
                file("g", "content", 0644);
                CALL(truncate("f", sizes[i]));
                show("f");
                show_text("f");
                fd = OPEN(open("g", O_RDWR));
                CALL(ftruncate(fd, sizes[i]));
                show_fd(fd);
                CALL(ftruncate(fd, 3));
                CALL(ftruncate(fd, 10));
                show_text("g");
                shut(fd);
        }
        scene("truncate odd");
        file("f", "content", 0644);
        CALL(truncate("f", -1));
        CALL(truncate("f", (off_t) 1 << 62));
        CALL(truncate("none", 0));
        CALL(truncate("f/x", 0));
        CALL(truncate("", 0));
        for (int flags = O_RDONLY; flags <= O_RDWR; flags++) {
                const int fd = OPEN(open("f", flags));

                CALL(ftruncate(fd, -1));
                CALL(ftruncate(fd, 3));
                shut(fd);
        }
        show_text("f");
}

/* ---- times ---- */

static void show_times(const char *path) {
        struct stat st;

        if (calls_run() && lstat(path, &st) == 0)
                note("%s atime=%jd.%09ld mtime=%jd.%09ld", path, (intmax_t) st.st_atim.tv_sec,
                     st.st_atim.tv_nsec, (intmax_t) st.st_mtim.tv_sec, st.st_mtim.tv_nsec);
}

static void topic_utimens(void) {
        static const struct timespec values[] = {
                { 0, 0 },          { 1, 999999999 },  { 1000000000, 123456789 }, { -1, 5 },
                { 0, UTIME_OMIT }, { 4294967296, 7 }, { 15032385535, 1 },        { 99999999999, 0 },
                { 5, -1 },         { 5, 1000000000 }, { -99999999999, 0 },
        };
        const size_t n = sizeof(values) / sizeof(values[0]);

        for (size_t i = 0; i < n; i++) {
                const struct timespec both[2] = { values[i], values[(i + 1) % n] };
                const struct timespec a[2] = { values[i], { .tv_nsec = UTIME_OMIT } };
                const struct timespec m[2] = { { .tv_nsec = UTIME_OMIT }, values[i] };
                const struct timespec first[2] = { { 7, 7 }, { 8, 8 } };
                int fd;

                scene("utimens %zu", i);
                file("f", "f", 0644);
                dir("d", 0755);
                sym("f", "l");
                CALL(utimensat(AT_FDCWD, "f", first, 0));
                CALL(utimensat(AT_FDCWD, "f", both, 0));
                show_times("f");
                CALL(utimensat(AT_FDCWD, "d", first, 0));
                CALL(utimensat(AT_FDCWD, "d", a, 0));
                show_times("d");
                CALL(utimensat(AT_FDCWD, "l", first, AT_SYMLINK_NOFOLLOW));
                CALL(utimensat(AT_FDCWD, "l", m, AT_SYMLINK_NOFOLLOW));
                show_times("l");
                fd = OPEN(open("f", O_RDONLY));
                CALL(futimens(fd, both));
                shut(fd);
                show_times("f");
        }
        scene("utimens modes");
        file("f", "f", 0);
        CALL(utimensat(AT_FDCWD, "f", NULL, 0));
        CALL(utimensat(AT_FDCWD, "f", values, 0));
        show_times("f");
        CALL(utimensat(AT_FDCWD, "none", NULL, 0));
        CALL(utimensat(AT_FDCWD, "f/x", NULL, 0));
        CALL(utimensat(AT_FDCWD, "f", NULL, 0x80));
}

/** struct act - a call, and the names whose times it may change: "f" and the directory "d" it is in */
struct act {
        const char *name;
        int (*run)(int fd);
};

static int act_read(int fd) {
        char c;
        return (int) pread(fd, &c, 1, 0);
}
static int act_read_none(int fd) {
        char c;
        return (int) pread(fd, &c, 0, 0);
}
static int act_write(int fd) {
        return (int) pwrite(fd, "x", 1, 0);
}
static int act_write_none(int fd) {
        return (int) pwrite(fd, "x", 0, 0);
}
static int act_grow(int fd) {
        return ftruncate(fd, 100);
}
static int act_same_size(int fd) {
        return ftruncate(fd, 7);
}
static int act_truncate(int fd) {
        (void) fd;
        return truncate("d/f", 3);
}
static int act_truncate_same(int fd) {
        (void) fd;
        return truncate("d/f", 7);
}
static int act_chmod(int fd) {
        return fchmod(fd, 0600);
}
static int act_chmod_same(int fd) {
        (void) fd;
        return chmod("d/f", 0644);
}
static int act_chown(int fd) {
        return fchown(fd, getuid(), getgid());
}
static int act_chown_none(int fd) {
        return fchown(fd, (uid_t) -1, (gid_t) -1);
}
static int act_link(int fd) {
        (void) fd;
        return link("d/f", "d/g");
}
static int act_rename(int fd) {
        (void) fd;
        return rename("d/f", "d/g");
}
static int act_rename_out(int fd) {
        (void) fd;
        return rename("d/f", "g");
}
static int act_unlink(int fd) {
        (void) fd;
        return unlink("d/f");
}
static int act_unlink_other(int fd) {
        (void) fd;
        return unlink("d/other");
}
static int act_create(int fd) {
        (void) fd;
        shut(open("d/new", O_CREAT | O_RDWR, 0644));
        return 0;
}
static int act_mkdir(int fd) {
        (void) fd;
        return mkdir("d/new", 0755);
}
static int act_rmdir(int fd) {
        (void) fd;
        return rmdir("d/sub");
}
static int act_symlink(int fd) {
        (void) fd;
        return symlink("x", "d/new");
}
static int act_mkfifo(int fd) {
        (void) fd;
        return mkfifo("d/new", 0644);
}
static int act_xattr(int fd) {
        return fsetxattr(fd, "user.a", "1", 1, 0);
}
static int act_punch(int fd) {
        return fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096);
}
static int act_allocate(int fd) {
        return fallocate(fd, 0, 0, 8192);
}
static int act_trunc(int fd) {
        (void) fd;
        shut(open("d/f", O_WRONLY | O_TRUNC));
        return 0;
}
static int act_open(int fd) {
        (void) fd;
        shut(open("d/f", O_RDWR));
        return 0;
}
static int act_over(int fd) {
        (void) fd;
        return rename("d/other", "d/f");
}
static int act_mmap(int fd) {
        char *p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

        if (p == MAP_FAILED)
                return -1;
        p[0] = 'm';
        return msync(p, 4096, MS_SYNC) | munmap(p, 4096);
}

static const struct act acts[] = {
#define A(f) \
        { #f, act_##f }
        A(read),     A(read_none),     A(write),      A(write_none), A(grow),         A(same_size),
        A(truncate), A(truncate_same), A(chmod),      A(chmod_same), A(chown),        A(chown_none),
        A(link),     A(rename),        A(rename_out), A(unlink),     A(unlink_other), A(create),
        A(mkdir),    A(rmdir),         A(symlink),    A(mkfifo),     A(xattr),        A(punch),
        A(allocate), A(trunc),         A(open),       A(over),       A(mmap),
#undef A
};

static const char *same(struct timespec a, struct timespec b) {
        return a.tv_sec == b.tv_sec && a.tv_nsec == b.tv_nsec                           ? "="
               : a.tv_sec > b.tv_sec || (a.tv_sec == b.tv_sec && a.tv_nsec > b.tv_nsec) ? "-"
                                                                                        : "+";
}

static void show_change(const char *what, const struct stat *a, const struct stat *b) {
        note("%s: atime%s mtime%s ctime%s nlink=%ju", what, same(a->st_atim, b->st_atim),
             same(a->st_mtim, b->st_mtim), same(a->st_ctim, b->st_ctim), (uintmax_t) b->st_nlink);
}

static void topic_times(void) {
        for (size_t i = 0; i < sizeof(acts) / sizeof(acts[0]); i++) {
                struct stat f0, f1, d0, d1;
                int fd;

                scene("times %s", acts[i].name);
                dir("d", 0755);
                file("d/f", "content", 0644);
                file("d/other", "other", 0644);
                dir("d/sub", 0755);
                if (!calls_run())
                        continue;
                fd = open("d/f", O_RDWR | O_CLOEXEC);
                (void) usleep(TICK_US);
                if (fstat(fd, &f0) < 0 || stat("d", &d0) < 0)
                        note("stat failed");
                CALL(acts[i].run(fd));
                if (fstat(fd, &f1) < 0 || stat("d", &d1) < 0)
                        note("stat failed");
                show_change("f", &f0, &f1);
                show_change("d", &d0, &d1);
                shut(fd);
        }
}

/* ---- content ---- */

static void topic_append(void) {
        int a, b;

        scene("append");
        file("f", "0", 0644);
        a = OPEN(open("f", O_WRONLY | O_APPEND));
        b = OPEN(open("f", O_RDWR));
        CALL(write(a, "a", 1));
        CALL(write(b, "b", 1));
        CALL(write(a, "a", 1));
        show_text("f");
        CALL(pwrite(a, "P", 1, 0));
        show_text("f");
        CALL(lseek(a, 0, SEEK_CUR));
        CALL(fcntl(a, F_SETFL, 0));
        CALL(pwrite(a, "Q", 1, 0));
        CALL(fcntl(b, F_SETFL, O_APPEND));
        CALL(write(b, "R", 1));
        show_text("f");
        CALL(ftruncate(a, 0));
        CALL(write(b, "S", 1));
        show_text("f");
        shut(a);
        shut(b);
        for (int flags = O_RDONLY; flags <= O_RDWR; flags++) {
                const int fd = OPEN(open("f", flags));
                char c;

                CALL(read(fd, &c, 1));
                CALL(write(fd, "w", 1));
                CALL(pread(fd, &c, 1, -1));
                CALL(pwrite(fd, "w", 1, -1));
                CALL(lseek(fd, -1, SEEK_SET));
                CALL(lseek(fd, 5, SEEK_END));
                CALL(read(fd, &c, 1));
                CALL(lseek(fd, 0, 99));
                shut(fd);
        }
}

/* one line, however many there are */
static void extents(int fd) {
        char text[256] = "";
        size_t used = 0;
        off_t at = 0;

        while (used < sizeof(text)) {
                const off_t data = lseek(fd, at, SEEK_DATA),
                            hole = lseek(fd, data < 0 ? at : data, SEEK_HOLE);

                used += (size_t) snprintf(text + used, sizeof(text) - used, "%jd-%jd ", (intmax_t) data,
                                          (intmax_t) hole);
                if (data < 0 || hole < 0)
                        break;
                at = hole;
        }
        note("extents %s", text);
}

static void topic_holes(void) {
        static const struct {
                const char *name;
                int mode;
                off_t off, len;
        } cases[] = {
                { "grow", 0, 0, 1 << 20 },
                { "keep", FALLOC_FL_KEEP_SIZE, 0, 1 << 20 },
                { "punch", FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 4096, 8192 },
                { "punch odd", FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 100, 20000 },
                { "punch past the end", FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 1 << 20, 4096 },
                { "punch and grow", FALLOC_FL_PUNCH_HOLE, 4096, 8192 },
                { "zero", FALLOC_FL_ZERO_RANGE, 4096, 1 << 17 },
                { "zero keep", FALLOC_FL_ZERO_RANGE | FALLOC_FL_KEEP_SIZE, 4096, 1 << 17 },
                { "collapse", FALLOC_FL_COLLAPSE_RANGE, 4096, 4096 },
                { "insert", FALLOC_FL_INSERT_RANGE, 4096, 4096 },
                { "negative", 0, -1, 10 },
                { "nothing", 0, 0, 0 },
                { "too far", 0, INT64_MAX - 5, 10 },
                { "unknown", 0x1000, 0, 10 },
        };

        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                static char data[65536];
                int fd;

                scene("holes %s", cases[i].name);
                if (!calls_run())
                        continue;
                memset(data, 'd', sizeof(data));
                fd = OPEN(open("f", O_CREAT | O_RDWR, 0644));
                CALL(write(fd, data, sizeof(data)));
                CALL(fsync(fd));
                CALL(fallocate(fd, cases[i].mode, cases[i].off, cases[i].len));
                show_fd(fd);
                extents(fd);
                CALL(pread(fd, data, 16384, 0));
                note("%d %d %d", data[99], data[4096], data[12287]);
                shut(fd);
                fd = OPEN(open("f", O_RDONLY));
                CALL(fallocate(fd, cases[i].mode, cases[i].off, cases[i].len));
                shut(fd);
        }
        scene("holes sparse");
        if (calls_run()) {
                const int fd = OPEN(open("f", O_CREAT | O_RDWR, 0644));

                CALL(pwrite(fd, "x", 1, 1 << 20));
                CALL(pwrite(fd, "x", 1, (off_t) 1 << 32));
                extents(fd);
                CALL(lseek(fd, (off_t) 1 << 40, SEEK_DATA));
                CALL(lseek(fd, -5, SEEK_HOLE));
                show_fd(fd);
                shut(fd);
        }
}

static void topic_copy(void) {
        loff_t from = 1, to = 2;
        int a, b, ro;

        scene("copy_file_range");
        file("a", "0123456789", 0644);
        file("b", "abcdefghij", 0644);
        dir("d", 0755);
        a = OPEN(open("a", O_RDWR));
        b = OPEN(open("b", O_RDWR));
        ro = OPEN(open("b", O_RDONLY));
        CALL(copy_file_range(a, &from, b, &to, 3, 0));
        show_text("b");
        note("from %jd to %jd", (intmax_t) from, (intmax_t) to);
        CALL(copy_file_range(a, NULL, b, NULL, 100, 0));
        CALL(lseek(a, 0, SEEK_CUR));
        CALL(copy_file_range(a, NULL, b, NULL, 100, 0));
        show_text("b");
        from = 0;
        to = 5;
        CALL(copy_file_range(a, &from, a, &to, 5, 0));
        show_text("a");
        from = 0;
        to = 2;
        CALL(copy_file_range(a, &from, a, &to, 5, 0));
        CALL(copy_file_range(a, &from, ro, &to, 5, 0));
        CALL(copy_file_range(a, &from, b, &to, 5, 1));
        CALL(fcntl(b, F_SETFL, O_APPEND));
        CALL(copy_file_range(a, &from, b, &to, 5, 0));
        CALL(fcntl(b, F_SETFL, 0));
        CALL(lseek(a, 0, SEEK_SET));
        CALL(lseek(b, 0, SEEK_SET));
        CALL(sendfile(b, a, NULL, 4));
        show_text("b");
        shut(a);
        shut(b);
        shut(ro);
}

static void topic_mmap(void) {
        static const int opens[] = { O_RDONLY, O_WRONLY, O_RDWR };
        static const int prots[] = { PROT_READ, PROT_READ | PROT_WRITE, PROT_READ | PROT_EXEC };
        static const int flags[] = { MAP_SHARED, MAP_PRIVATE };

        for (size_t o = 0; o < 3; o++) {
                for (size_t p = 0; p < 3; p++) {
                        for (size_t f = 0; f < 2; f++) {
                                char *m;
                                int fd;

                                scene("mmap %d %d %d", opens[o], prots[p], flags[f]);
                                file("f", "content", 0644);
                                if (!calls_run())
                                        continue;
                                fd = OPEN(open("f", opens[o]));
                                m = mmap(NULL, 4096, prots[p], flags[f], fd, 0);
                                note("%s", m == MAP_FAILED ? strerrorname_np(errno) : "mapped");
                                if (m != MAP_FAILED && (prots[p] & PROT_WRITE)) {
                                        memcpy(m, "CONT", 4);
                                        m[100] = 'x'; /* past the end: goes nowhere */
                                        CALL(msync(m, 4096, MS_SYNC));
                                }
                                if (m != MAP_FAILED)
                                        (void) munmap(m, 4096);
                                show_text("f");
                                show("f");
                                shut(fd);
                        }
                }
        }
}

/* ---- attributes ---- */

static void topic_xattr(void) {
        static char big[70000];
        char buf[64] = "";
        ssize_t n;
        int fd;

        scene("xattr");
        file("f", "f", 0644);
        dir("d", 0755);
        sym("f", "l");
        fifo("p", 0644);
        memset(big, 'b', sizeof(big));
        CALL(setxattr("f", "user.a", "value", 5, 0));
        CALL(setxattr("f", "user.a", "value", 5, XATTR_CREATE));
        CALL(setxattr("f", "user.b", "value", 5, XATTR_REPLACE));
        CALL(setxattr("f", "user.b", "", 0, 0));
        CALL(getxattr("f", "user.a", buf, sizeof(buf)));
        note("%s", buf);
        CALL(getxattr("f", "user.a", buf, 2));
        CALL(getxattr("f", "user.a", NULL, 0));
        CALL(getxattr("f", "user.b", buf, sizeof(buf)));
        n = calls_run() ? listxattr("f", buf, sizeof(buf)) : 0;
        note("list %zd", n);
        CALL(listxattr("f", buf, 3));
        CALL(listxattr("f", NULL, 0));
        CALL(removexattr("f", "user.c"));
        CALL(removexattr("f", "user.a"));
        CALL(setxattr("d", "user.a", "1", 1, 0));
        CALL(lsetxattr("l", "user.a", "1", 1, 0));
        CALL(lgetxattr("l", "user.a", buf, sizeof(buf)));
        CALL(setxattr("p", "user.a", "1", 1, 0));
        CALL(setxattr("f", "user.", "1", 1, 0));
        CALL(setxattr("f", "user", "1", 1, 0));
        CALL(setxattr("f", "", "1", 1, 0));
        CALL(setxattr("f", "none.a", "1", 1, 0));
        CALL(getxattr("f", "none.a", buf, sizeof(buf)));
        CALL(setxattr("f", "trusted.a", "1", 1, 0));
        CALL(getxattr("f", "trusted.a", buf, sizeof(buf)));
        CALL(setxattr("f", "security.capability", "1", 1, 0));
        CALL(getxattr("f", "security.capability", buf, sizeof(buf)));
        CALL(setxattr("f", "user.a", big, sizeof(big), 0));
        CALL(setxattr("f", "user.a", "1", 1, 8));
        fd = OPEN(open("f", O_RDONLY));
        CALL(fsetxattr(fd, "user.f", "1", 1, 0));
        CALL(fgetxattr(fd, "user.f", buf, sizeof(buf)));
        CALL(unlink("f"));
        CALL(fsetxattr(fd, "user.g", "1", 1, 0));
        CALL(fgetxattr(fd, "user.g", buf, sizeof(buf)));
        CALL(fremovexattr(fd, "user.g"));
        shut(fd);
        scene("xattr rights");
        file("r", "f", 0400);
        file("w", "f", 0200);
        CALL(setxattr("r", "user.a", "1", 1, 0));
        CALL(setxattr("w", "user.a", "1", 1, 0));
        CALL(getxattr("w", "user.a", buf, sizeof(buf)));
        CALL(listxattr("w", buf, sizeof(buf)));
        memset(big, 'n', 255);
        memcpy(big, "user.", 5);
        big[255] = '\0';
        CALL(setxattr("w", big, "1", 1, 0));
        big[255] = 'n';
        big[256] = '\0';
        CALL(setxattr("w", big, "1", 1, 0));
}

/* ---- files without names ---- */

static void topic_unlinked(void) {
        char buf[8], path[64];
        int fd, ro;

        scene("unlinked");
        file("f", "content", 0644);
        dir("d", 0755);
        fd = OPEN(open("f", O_RDWR));
        ro = OPEN(open("f", O_RDONLY));
        CALL(unlink("f"));
        show_fd(fd);
        show_names(".");
        CALL(pread(ro, buf, 4, 0));
        CALL(pwrite(fd, "X", 1, 0));
        CALL(pread(ro, buf, 1, 0));
        note("%.1s", buf);
        CALL(ftruncate(fd, 3));
        show_fd(ro);
        CALL(fchmod(fd, 0600));
        CALL(fchmod(ro, 0640));
        CALL(futimens(ro, NULL));
        CALL(fchown(ro, getuid(), getgid()));
        show_fd(fd);
        (void) snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
        CALL(linkat(AT_FDCWD, path, AT_FDCWD, "again", AT_SYMLINK_FOLLOW));
        TRY(open(path, O_RDONLY));
        TRY(open(path, O_RDWR));
        CALL(truncate(path, 1));
        CALL(chmod(path, 0644));
        show_fd(fd);
        CALL(fsync(fd));
        TRY(open("f", O_CREAT | O_EXCL | O_RDWR, 0600));
        show("f");
        show_fd(fd);
        shut(fd);
        shut(ro);
        fd = OPEN(open("d", O_RDONLY | O_DIRECTORY));
        CALL(rmdir("d"));
        show_fd(fd);
        TRY(openat(fd, "x", O_CREAT | O_RDWR, 0644));
        CALL(mkdirat(fd, "x", 0755));
        CALL(faccessat(fd, ".", F_OK, 0));
        CALL(faccessat(fd, "..", F_OK, 0));
        CALL(fchmod(fd, 0700));
        CALL(mkdir("d", 0755));
        TRY(openat(fd, "x", O_CREAT | O_RDWR, 0644));
        show_names("d");
        shut(fd);
}

static void topic_rename_over(void) {
        char buf[8] = "";
        int old, new;

        scene("rename over open");
        file("f", "old", 0644);
        file("g", "new", 0600);
        old = OPEN(open("f", O_RDWR));
        new = OPEN(open("g", O_RDWR));
        CALL(rename("g", "f"));
        show_fd(old);
        show_fd(new);
        CALL(pread(old, buf, 3, 0));
        note("%s", buf);
        CALL(pwrite(old, "OLD", 3, 0));
        CALL(pwrite(new, "NEW", 3, 0));
        show_text("f");
        CALL(pread(old, buf, 3, 0));
        note("%s", buf);
        CALL(ftruncate(old, 0));
        show("f");
        CALL(fchmod(old, 0777));
        show("f");
        shut(old);
        shut(new);
        show_text("f");
        scene("exchange open");
        file("f", "old", 0644);
        file("g", "new", 0600);
        old = OPEN(open("f", O_RDWR));
        new = OPEN(open("g", O_RDWR));
        CALL(renameat2(AT_FDCWD, "f", AT_FDCWD, "g", RENAME_EXCHANGE));
        CALL(pwrite(old, "OLD", 3, 0));
        CALL(pwrite(new, "NEW", 3, 0));
        show_text("f");
        show_text("g");
        show_fd(old);
        show_fd(new);
        shut(old);
        shut(new);
}

static void topic_tmpfile(void) {
        int fd;

        scene("O_TMPFILE");
        dir("d", 0755);
        fd = OPEN(open("d", O_TMPFILE | O_RDWR, 0644));
        shut(fd);
        TRY(open("d", O_TMPFILE | O_RDONLY, 0644));
        TRY(open("none", O_TMPFILE | O_RDWR, 0644));
        scene("mkstemp");
        if (calls_run()) {
                char name[] = "tXXXXXX";

                fd = OPEN(mkstemp(name));
                show_fd(fd);
                CALL(unlink(name));
                show_fd(fd);
                shut(fd);
        }
}

static void topic_statfs(void) {
        struct statvfs st = { 0 };

        scene("statfs");
        file("f", "f", 0644);
        CALL(statvfs("f", &st));
        /* what changes while others work is compared in steps */
        if (calls_run())
                note("bsize=%lu frsize=%lu blocks=%ju files=%ju namemax=%lu free=%d", st.f_bsize, st.f_frsize,
                     (uintmax_t) st.f_blocks, (uintmax_t) st.f_files, st.f_namemax,
                     st.f_bavail > 0 && st.f_bavail <= st.f_bfree);
}

/* ---- running ---- */

static int copy_self(const char *to) {
        const int in = open("/proc/self/exe", O_RDONLY | O_CLOEXEC),
                  out = open(to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0755);
        off_t left = in < 0 ? 0 : lseek(in, 0, SEEK_END), off = 0;

        while (in >= 0 && out >= 0 && off < left)
                if (sendfile(out, in, &off, (size_t) (left - off)) <= 0)
                        break;
        shut(in);
        shut(out);
        return off == left && left > 0 ? 0 : -1;
}

/* one that runs until its standard input ends: "calls wait" */
static pid_t start(int *ret_pipe) {
        char *argv[] = { (char[]){ "prog" }, (char[]){ "wait" }, NULL };
        int in[2], out[2];
        pid_t pid;
        char c;

        if (pipe2(in, O_CLOEXEC) < 0 || pipe2(out, O_CLOEXEC) < 0)
                return -1;
        pid = fork();
        if (pid == 0) {
                if (dup2(in[0], 0) == 0 && dup2(out[1], 1) == 1)
                        (void) execv("prog", argv);
                _exit(errno == ETXTBSY ? 26 : 1);
        }
        shut(in[0]);
        shut(out[1]);
        (void) !read(out[0], &c, 1); /* it runs, or could not */
        shut(out[0]);
        *ret_pipe = in[1];
        return pid;
}

static int finish(pid_t pid, int pipe_fd) {
        int status = 0;

        shut(pipe_fd);
        return pid > 0 && waitpid(pid, &status, 0) == pid ? status : -1;
}

static void runs(void) {
        int pipe_fd = -1, fd;
        pid_t pid = start(&pipe_fd);

        TRY(open("prog", O_WRONLY));
        TRY(open("prog", O_RDWR | O_TRUNC));
        TRY(open("prog", O_RDONLY));
        CALL(truncate("prog", 0));
        CALL(chmod("prog", 0700));
        CALL(rename("prog", "prog2"));
        TRY(open("prog2", O_WRONLY));
        CALL(rename("prog2", "prog"));
        CALL(finish(pid, pipe_fd));
        fd = OPEN(open("prog", O_RDWR));
        pid = start(&pipe_fd);
        CALL(finish(pid, pipe_fd));
        shut(fd);
        pid = start(&pipe_fd);
        CALL(unlink("prog"));
        CALL(finish(pid, pipe_fd));
}

static void topic_running(void) {
        scene("running");
        if (calls_run())
                runs();
        else if (copy_self("prog") < 0)
                perror("prog");
        scene("running odd");
        CALL(execl("none", "none", (char *) NULL));
        CALL(execl(".", ".", (char *) NULL));
}

const struct topic topics_files[] = {
        { "truncate", topic_truncate }, { "utimens", topic_utimens },
        { "times", topic_times },       { "append", topic_append },
        { "holes", topic_holes },       { "copy", topic_copy },
        { "mmap", topic_mmap },         { "xattr", topic_xattr },
        { "unlinked", topic_unlinked }, { "rename-over", topic_rename_over },
        { "tmpfile", topic_tmpfile },   { "statfs", topic_statfs },
        { "running", topic_running },   { 0 },
};
