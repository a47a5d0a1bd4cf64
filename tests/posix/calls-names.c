/* names that appear, change and go: open, link, unlink, rename, mkdir, rmdir, mkfifo, mknod, symlink */
#include <fcntl.h>
#include <linux/fs.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "transcript.h"

#define EACH_THING(t)              \
        enum thing t = THING_NONE; \
        (t) < THING_COUNT;         \
        (t)++

static const struct {
        const char *name;
        int flags;
} opens[] = {
#define F(flags) \
        { #flags, flags }
        F(O_RDONLY | O_NONBLOCK),
        F(O_WRONLY | O_NONBLOCK),
        F(O_RDWR | O_NONBLOCK),
        F(O_RDONLY | O_NONBLOCK | O_CREAT),
        F(O_RDWR | O_NONBLOCK | O_CREAT),
        F(O_RDWR | O_CREAT | O_EXCL),
        F(O_RDONLY | O_CREAT | O_EXCL),
        F(O_RDWR | O_NONBLOCK | O_CREAT | O_TRUNC),
        F(O_RDWR | O_NONBLOCK | O_TRUNC),
        F(O_RDONLY | O_NONBLOCK | O_TRUNC),
        F(O_WRONLY | O_NONBLOCK | O_APPEND | O_TRUNC),
        F(O_WRONLY | O_NONBLOCK | O_APPEND),
        F(O_RDONLY | O_DIRECTORY),
        F(O_WRONLY | O_DIRECTORY),
        F(O_RDONLY | O_DIRECTORY | O_CREAT),
        F(O_RDONLY | O_NOFOLLOW | O_NONBLOCK),
        F(O_RDWR | O_NOFOLLOW | O_CREAT | O_NONBLOCK),
        F(O_RDONLY | O_DIRECTORY | O_NOFOLLOW),
        F(O_PATH),
        F(O_PATH | O_NOFOLLOW),
        F(O_PATH | O_DIRECTORY),
        F(O_RDWR | O_SYNC | O_NONBLOCK),
        F(O_RDONLY | O_NOATIME | O_NONBLOCK),
        F(O_WRONLY | O_RDWR | O_NONBLOCK),
        F(O_RDONLY | O_NONBLOCK | O_NOCTTY),
#undef F
};

static void topic_open(void) {
        for (EACH_THING(t)) {
                for (size_t i = 0; i < sizeof(opens) / sizeof(opens[0]); i++) {
                        int fd;

                        scene("open %s %s", thing_names[t], opens[i].name);
                        make(t, "x");
                        fd = OPEN(open("x", opens[i].flags, 0666));
                        show_fd(fd);
                        if (t != THING_FIFO) {
                                CALL(write(fd, "ab", 2));
                                CALL(lseek(fd, 0, SEEK_CUR));
                        }
                        shut(fd);
                        show("x");
                        show("x.target");
                        show_text("x");
                }
        }
}

static void topic_slashes(void) {
        static const char *const ends[] = { "/", "/.", "/..", "/y", "//", "/../x", "/./" };

        for (EACH_THING(t)) {
                for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
                        char p[16];
                        struct stat st;

                        (void) snprintf(p, sizeof(p), "x%s", ends[i]);
                        scene("slashes %s %s", thing_names[t], p);
                        make(t, "x");
                        file("f", "f", 0644);
                        dir("d", 0755);
                        CALL(stat(p, &st));
                        CALL(lstat(p, &st));
                        TRY(open(p, O_RDONLY | O_NONBLOCK));
                        TRY(open(p, O_RDWR | O_CREAT | O_NONBLOCK, 0644));
                        CALL(mkfifo(p, 0644));
                        CALL(symlink("f", p));
                        CALL(link("f", p));
                        CALL(link(p, "hard"));
                        CALL(rename("f", p));
                        CALL(rename(p, "moved"));
                        CALL(rename("d", p));
                        CALL(truncate(p, 3));
                        CALL(unlink(p));
                        CALL(rmdir(p));
                        CALL(mkdir(p, 0755));
                        show_names(".");
                }
        }
}

/* every call that takes a name, on everything that may be there */
static void look_at(const char *p) {
        char buf[64];
        struct stat st;
        struct statfs fs;

        CALL(stat(p, &st));
        CALL(access(p, R_OK | W_OK));
        CALL(access(p, X_OK));
        CALL(faccessat(AT_FDCWD, p, W_OK, AT_EACCESS));
        CALL(readlink(p, buf, sizeof(buf)));
        CALL(chdir(p));
        CALL(statfs(p, &fs));
        CALL(listxattr(p, buf, 0) > 0);
        CALL(llistxattr(p, buf, 0) > 0);
        CALL(getxattr(p, "user.none", buf, sizeof(buf)));
}

static void topic_look(void) {
        for (EACH_THING(t)) {
                scene("look %s", thing_names[t]);
                make(t, "x");
                look_at("x");
        }
        scene("look below");
        file("f", "f", 0644);
        look_at("f/y");
        look_at("none/y");
        look_at("");
}

static void topic_change(void) {
        const struct timespec times[2] = { { 1, 1 }, { 2, 999999999 } };

        for (EACH_THING(t)) {
                scene("change %s", thing_names[t]);
                make(t, "x");
                CALL(chmod("x", 0600));
                show("x");
                CALL(fchmodat(AT_FDCWD, "x", 0640, AT_SYMLINK_NOFOLLOW));
                show("x");
                CALL(chown("x", getuid(), getgid()));
                CALL(lchown("x", (uid_t) -1, (gid_t) -1));
                CALL(truncate("x", 3));
                CALL(truncate("x", -1));
                CALL(utimensat(AT_FDCWD, "x", times, 0));
                CALL(utimensat(AT_FDCWD, "x", times, AT_SYMLINK_NOFOLLOW));
                CALL(setxattr("x", "user.a", "1", 1, 0));
                CALL(lsetxattr("x", "user.b", "1", 1, 0));
                CALL(removexattr("x", "user.a"));
                show("x");
                show("x.target");
        }
}

static void topic_make(void) {
        for (EACH_THING(t)) {
                scene("make %s", thing_names[t]);
                for (const char *name = "abcdefghi"; *name; name++) {
                        char p[2] = { *name, '\0' };

                        make(t, p);
                }
                CALL(mkdir("a", 0777));
                CALL(mkfifo("b", 0666));
                CALL(mknod("c", S_IFREG | 0666, 0));
                CALL(mknod("d", S_IFSOCK | 0666, 0));
                CALL(symlink("target", "e"));
                CALL(mknod("f", S_IFIFO | 0666, 0));
                CALL(mknod("g", S_IFCHR | 0666, makedev(1, 3)));
                CALL(mknod("h", S_IFBLK | 0666, makedev(7, 0)));
                CALL(mknod("i", S_IFDIR | 0777, 0));
                show_names(".");
                for (const char *name = "abcdefghi"; *name; name++) {
                        char p[2] = { *name, '\0' };

                        show(p);
                }
        }
        scene("make odd");
        file("f", "f", 0644);
        CALL(mkdir("none/x", 0777));
        CALL(mkdir("f/x", 0777));
        CALL(mkdir("new/", 0777));
        CALL(mkdir(".", 0777));
        CALL(mkdir("..", 0777));
        CALL(mkdir("", 0777));
        CALL(mkdir("bits", 07777));
        show("bits");
        CALL(symlink("", "empty"));
        CALL(symlink("x", ""));
        CALL(mkfifo("f/x", 0666));
        CALL(mknod("x", 0666, 0));
        show("x");
        CALL(mknod("y", S_IFLNK | 0777, 0));
        CALL(mknod("suid", S_IFREG | 04755, 0));
        show("suid");
        TRY(open("suid2", O_CREAT | O_RDWR, 06755));
        show("suid2");
}

static void topic_remove(void) {
        for (EACH_THING(t)) {
                scene("remove %s", thing_names[t]);
                make(t, "x");
                make(t, "y");
                CALL(rmdir("x"));
                CALL(unlink("x"));
                CALL(unlinkat(AT_FDCWD, "y", 0));
                CALL(unlinkat(AT_FDCWD, "y", AT_REMOVEDIR));
                CALL(unlinkat(AT_FDCWD, "y", 0x10000));
                show_names(".");
                TRY(open("x", O_CREAT | O_EXCL | O_RDWR, 0644));
                show("x");
        }
        scene("remove odd");
        full("d");
        file("f", "f", 0644);
        CALL(unlink("."));
        CALL(unlink(".."));
        CALL(unlink(""));
        CALL(unlink("f/x"));
        CALL(rmdir("."));
        CALL(rmdir(".."));
        CALL(rmdir("d/."));
        CALL(rmdir("d/.."));
        CALL(rmdir("d/in"));
        CALL(unlink("d/in"));
        CALL(rmdir("d"));
        CALL(mkdir("d", 0755));
        show_names("d");
}

static const struct {
        const char *name;
        unsigned int flags;
} rename_kinds[] = {
        { "plain", 0 },
        { "noreplace", RENAME_NOREPLACE },
        { "exchange", RENAME_EXCHANGE },
        { "both", RENAME_NOREPLACE | RENAME_EXCHANGE },
        { "unknown", 1 << 7 },
};

static void rename_one(const char *to, unsigned int flags) {
        CALL(renameat2(AT_FDCWD, "x", AT_FDCWD, to, flags));
        show("x");
        show(to);
        show_text(to);
        show_names(".");
        show_names("d");
}

static void topic_rename(void) {
        for (size_t k = 0; k < sizeof(rename_kinds) / sizeof(rename_kinds[0]); k++) {
                for (EACH_THING(a)) {
                        for (EACH_THING(b)) {
                                scene("rename %s %s to %s", rename_kinds[k].name, thing_names[a],
                                      thing_names[b]);
                                dir("d", 0755);
                                make(a, "x");
                                make(b, "y");
                                rename_one("y", rename_kinds[k].flags);
                        }
                }
        }
        for (EACH_THING(a)) {
                scene("rename across %s", thing_names[a]);
                dir("d", 0755);
                make(a, "x");
                rename_one("d/y", 0);
                show("d");
                show(".");
                CALL(rename("d/y", "x"));
                show("d");
                show(".");
        }
}

static void topic_rename_odd(void) {
        scene("rename odd");
        full("d");
        dir("d/sub", 0755);
        full("e");
        file("f", "f", 0644);
        hard("f", "g");
        sym("f", "l");
        CALL(rename("d", "d/sub/x"));
        CALL(rename("d", "d/x"));
        CALL(rename("d/sub", "d"));
        CALL(renameat2(AT_FDCWD, "d", AT_FDCWD, "d/sub", RENAME_EXCHANGE));
        CALL(rename("d", "d"));
        CALL(rename("f", "f"));
        CALL(rename("f", "g"));
        show_names(".");
        CALL(rename(".", "x"));
        CALL(rename("..", "x"));
        CALL(rename("d/.", "x"));
        CALL(rename("d/..", "x"));
        CALL(rename("f", "."));
        CALL(rename("f", ".."));
        CALL(rename("d", "e"));
        CALL(rename("f", "none/x"));
        CALL(rename("none/x", "f"));
        CALL(rename("f/x", "y"));
        CALL(rename("f", "g/x"));
        CALL(rename("f", ""));
        CALL(rename("", "f"));
        CALL(rename("l", "f"));
        show_names(".");
        show("f");
        CALL(renameat2(AT_FDCWD, "g", AT_FDCWD, "w", RENAME_WHITEOUT));
        show_names(".");
}

/* files below a directory that moves, open and not */
static void topic_rename_tree(void) {
        int fd, dfd;

        scene("rename tree");
        full("a");
        dir("a/b", 0755);
        file("a/b/f", "deep", 0644);
        dir("c", 0755);
        fd = OPEN(open("a/b/f", O_RDWR));
        dfd = OPEN(open("a/b", O_RDONLY | O_DIRECTORY));
        CALL(rename("a", "c"));
        show_text("c/b/f");
        show("a");
        CALL(pwrite(fd, "DEEP", 4, 0));
        show_text("c/b/f");
        TRY(openat(dfd, "new", O_CREAT | O_RDWR, 0644));
        show_names("c/b");
        CALL(rename("c/b", "b"));
        show_names("c");
        CALL(rename("b/f", "c/f"));
        show_text("c/f");
        CALL(mkdir("a", 0755));
        show_names("a");
        CALL(rename("a", "b"));
        CALL(unlink("b/new"));
        CALL(rename("a", "b"));
        show_names(".");
        CALL(faccessat(dfd, "new", F_OK, 0));
        TRY(openat(dfd, "newer", O_CREAT | O_RDWR, 0644));
        show_fd(dfd);
        shut(fd);
        shut(dfd);
}

static void topic_link(void) {
        for (EACH_THING(a)) {
                for (EACH_THING(b)) {
                        scene("link %s to %s", thing_names[a], thing_names[b]);
                        make(a, "x");
                        make(b, "y");
                        CALL(link("x", "y"));
                        CALL(linkat(AT_FDCWD, "x", AT_FDCWD, "z", AT_SYMLINK_FOLLOW));
                        show("x");
                        show("y");
                        show("z");
                        show_names(".");
                }
        }
        scene("link odd");
        file("f", "text", 0644);
        dir("d", 0755);
        CALL(link("f", "d/f"));
        CALL(link("f", "none/f"));
        CALL(link("f/x", "g"));
        CALL(link(".", "g"));
        CALL(link("f", ""));
        CALL(link("", "g"));
        CALL(linkat(AT_FDCWD, "", AT_FDCWD, "g", AT_EMPTY_PATH));
        CALL(linkat(AT_FDCWD, "f", AT_FDCWD, "g", 0x40000));
        show("f");
        CALL(truncate("d/f", 2));
        show("f");
        show_text("f");
        CALL(chmod("f", 0600));
        show("d/f");
        CALL(unlink("f"));
        show("d/f");
        CALL(rename("d/f", "f"));
        show("f");
        CALL(link("f", "d/f"));
        CALL(rename("d/f", "f"));
        show_names("d");
        show_names(".");
}

static void topic_symlink(void) {
        char buf[16] = "";
        struct stat st;

        scene("symlink");
        file("f", "text", 0644);
        dir("d", 0755);
        sym("../f", "d/up");
        sym("d", "ld");
        sym("/", "root");
        CALL(symlink("f", "l"));
        CALL(readlink("l", buf, sizeof(buf)));
        note("target %.1s", buf);
        CALL(readlink("d/up", buf, 2));
        note("cut %.2s", buf);
        CALL(readlink("d/up", buf, 0));
        CALL(readlink("f", buf, sizeof(buf)));
        CALL(lstat("l", &st));
        note("size %jd mode %o", (intmax_t) st.st_size, st.st_mode);
        show_text("d/up");
        show_text("ld/up");
        TRY(open("ld/up", O_RDWR));
        TRY(open("ld", O_RDONLY | O_DIRECTORY));
        TRY(open("ld", O_RDONLY | O_DIRECTORY | O_NOFOLLOW));
        TRY(open("ld/", O_RDONLY | O_DIRECTORY | O_NOFOLLOW));
        CALL(mkdir("ld/new", 0755));
        CALL(rename("ld/new", "ld2"));
        CALL(unlink("ld/"));
        CALL(rmdir("ld"));
        CALL(rename("f", "ld/f"));
        show_text("d/f");
        CALL(symlink("f", "dang"));
        TRY(open("dang", O_CREAT | O_EXCL | O_RDWR, 0644));
        TRY(open("dang", O_CREAT | O_RDWR, 0644));
        show("f");
        CALL(stat("root", &st));
        show_names(".");
        show_names("d");
}

static void topic_nlink(void) {
        scene("nlink");
        dir("d", 0755);
        dir("d/a", 0755);
        dir("e", 0755);
        show("d");
        CALL(mkdir("d/b", 0755));
        show("d");
        CALL(rmdir("d/a"));
        show("d");
        CALL(rename("d/b", "e/b"));
        show("d");
        show("e");
        CALL(mkdir("d/x", 0755));
        CALL(rename("d/x", "e/b"));
        show("d");
        show("e");
        CALL(rmdir("e/b"));
        show("e");
}

const struct topic topics_names[] = {
        { "open", topic_open },
        { "slashes", topic_slashes },
        { "look", topic_look },
        { "change", topic_change },
        { "make", topic_make },
        { "remove", topic_remove },
        { "rename", topic_rename },
        { "rename-odd", topic_rename_odd },
        { "rename-tree", topic_rename_tree },
        { "link", topic_link },
        { "symlink", topic_symlink },
        { "nlink", topic_nlink },
        { 0 },
};
