/* who may do what: modes, owners, sticky directories, set-id bits, umask, access */
#include <fcntl.h>
#include <linux/fs.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "transcript.h"

enum { OTHER = 4242 };

static void in_directory(void) {
        char buf[16];

        show("d/f");
        TRY(open("d/f", O_RDONLY));
        TRY(open("d/f", O_WRONLY));
        TRY(open("d/new", O_CREAT | O_RDWR, 0644));
        TRY(open("d/none", O_RDONLY));
        TRY(open("d", O_RDONLY | O_DIRECTORY));
        TRY(open("d", O_PATH | O_DIRECTORY));
        CALL(readlink("d/l", buf, sizeof(buf)));
        CALL(mkdir("d/dir", 0755));
        CALL(symlink("x", "d/link"));
        CALL(mkfifo("d/fifo", 0644));
        CALL(link("g", "d/g"));
        CALL(link("d/f", "hard"));
        CALL(rename("g", "d/h"));
        CALL(rename("d/f", "d/f2"));
        CALL(rename("d/f2", "f"));
        CALL(renameat2(AT_FDCWD, "d/l", AT_FDCWD, "g", RENAME_EXCHANGE));
        CALL(chmod("d/l2", 0600));
        CALL(truncate("d/l2", 1));
        CALL(unlink("d/l2"));
        CALL(rmdir("d/sub"));
        CALL(rename("d/sub", "sub"));
        CALL(access("d/f", F_OK));
        CALL(chdir("d"));
}

static void topic_directories(void) {
        for (mode_t bits = 0; bits < 8; bits++) {
                scene("directory %o", bits);
                dir("d", 0755);
                file("d/f", "f", 0644);
                file("d/l2", "l", 0644);
                sym("f", "d/l");
                dir("d/sub", 0755);
                file("g", "g", 0644);
                mode("d", bits << 6);
                show("d");
                in_directory();
                CALL(chmod("d", 0700));
                show_names("d");
        }
}

static void topic_modes(void) {
        for (mode_t bits = 0; bits < 8; bits++) {
                scene("mode %o", bits);
                file("f", "#!/bin/true\n", bits << 6);
                dir("d", 0755);
                CALL(access("f", R_OK));
                CALL(access("f", W_OK));
                CALL(access("f", X_OK));
                CALL(access("f", R_OK | W_OK | X_OK));
                CALL(faccessat(AT_FDCWD, "f", X_OK, AT_EACCESS));
                CALL(access("f", 8));
                TRY(open("f", O_RDONLY));
                TRY(open("f", O_WRONLY));
                TRY(open("f", O_RDWR));
                TRY(open("f", O_RDONLY | O_TRUNC));
                TRY(open("f", O_WRONLY | O_CREAT, 0666));
                TRY(open("f", O_PATH));
                CALL(truncate("f", 3));
                CALL(utimensat(AT_FDCWD, "f", NULL, 0));
                CALL(link("f", "d/f"));
                CALL(rename("d/f", "d/g"));
                CALL(chmod("f", 0644));
                show("f");
                show("d/g");
        }
}

static void topic_foreign(void) {
        static const mode_t modes[] = { 0600, 0640, 0644, 0646, 0666, 0602, 0606, 0777, 0711 };
        const struct timespec now[2] = { { .tv_nsec = UTIME_NOW }, { .tv_nsec = UTIME_NOW } };
        const struct timespec some[2] = { { .tv_sec = 5 }, { .tv_nsec = UTIME_NOW } };
        const struct timespec omit[2] = { { .tv_nsec = UTIME_OMIT }, { .tv_nsec = UTIME_OMIT } };

        for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
                scene("foreign file %o", modes[i]);
                file("f", "text", modes[i]);
                foreign("f");
                CALL(access("f", R_OK));
                CALL(access("f", W_OK));
                CALL(access("f", X_OK));
                TRY(open("f", O_RDONLY));
                TRY(open("f", O_WRONLY));
                TRY(open("f", O_RDONLY | O_NOATIME));
                CALL(chmod("f", 0777));
                CALL(chown("f", getuid(), getgid()));
                CALL(utimensat(AT_FDCWD, "f", now, 0));
                CALL(utimensat(AT_FDCWD, "f", some, 0));
                CALL(utimensat(AT_FDCWD, "f", omit, 0));
                CALL(truncate("f", 2));
                CALL(link("f", "hard"));
                CALL(rename("f", "g"));
                CALL(unlink("g"));
                show_names(".");
        }
        for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
                scene("foreign directory %o", modes[i] | 0111);
                dir("d", 0755);
                file("d/f", "f", 0644);
                dir("d/sub", 0755);
                mode("d", modes[i] | 0111);
                foreign("d");
                TRY(open("d/f", O_RDWR));
                TRY(open("d/new", O_CREAT | O_RDWR, 0644));
                CALL(mkdir("d/new2", 0755));
                CALL(rename("d/f", "d/f2"));
                CALL(unlink("d/f"));
                CALL(unlink("d/f2"));
                CALL(rmdir("d/sub"));
                CALL(chmod("d", 0777));
                CALL(rmdir("d"));
                show("d");
        }
}

static void sticky_calls(const char *name) {
        char to[32], p[32];

        (void) snprintf(to, sizeof(to), "d/%s2", name);
        (void) snprintf(p, sizeof(p), "d/%s", name);
        CALL(rename("new", p));
        CALL(renameat2(AT_FDCWD, p, AT_FDCWD, "d/other", RENAME_EXCHANGE));
        CALL(rename(p, to));
        CALL(rename(to, "moved"));
        CALL(unlink(p));
        CALL(unlink(to));
        CALL(rmdir(p));
        CALL(rmdir(to));
        show_names("d");
}

static void topic_sticky(void) {
        static const struct {
                const char *name;
                bool dir_foreign, file_foreign;
                mode_t mode;
        } cases[] = {
                { "own in own", false, false, 01777 },    { "own in foreign", true, false, 01777 },
                { "foreign in own", false, true, 01777 }, { "foreign in foreign", true, true, 01777 },
                { "not sticky", true, true, 0777 },       { "sticky, not for writing", true, false, 01755 },
        };

        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                for (enum thing t = THING_FILE; t <= THING_DANGLING; t++) {
                        scene("sticky %s %s", cases[i].name, thing_names[t]);
                        dir("d", 0755);
                        make(t, "d/x");
                        file("d/other", "other", 0644);
                        file("new", "new", 0644);
                        if (cases[i].file_foreign)
                                foreign("d/x");
                        mode("d", cases[i].mode);
                        if (cases[i].dir_foreign)
                                foreign("d");
                        sticky_calls("x");
                }
        }
        scene("sticky on files");
        file("f", "f", 0644);
        CALL(chmod("f", 01644));
        show("f");
        CALL(mkdir("d", 01777));
        show("d");
        CALL(chmod("d", 0777));
        show("d");
}

static void topic_chmod(void) {
        static const mode_t modes[] = {
                0, 0777, 01777, 0444, 0200, 0111, 02755, 04755, 06777, 07777, 010644
        };

        for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
                int fd;

                scene("chmod %o", modes[i]);
                file("f", "f", 0600);
                file("g", "g", 0600);
                dir("d", 0700);
                fifo("p", 0600);
                CALL(chmod("f", modes[i]));
                show("f");
                fd = OPEN(open("g", O_RDWR));
                CALL(fchmod(fd, modes[i]));
                show_fd(fd);
                CALL(pwrite(fd, "x", 1, 0));
                show_fd(fd);
                shut(fd);
                CALL(chmod("d", modes[i]));
                show("d");
                CALL(chmod("p", modes[i]));
                show("p");
                fd = OPEN(open("f", O_PATH));
                CALL(fchmod(fd, 0600));
                shut(fd);
        }
}

static void topic_chown(void) {
        scene("chown");
        file("f", "f", 0644);
        dir("d", 0755);
        sym("f", "l");
        CALL(chown("f", getuid(), getgid()));
        CALL(chown("f", (uid_t) -1, (gid_t) -1));
        CALL(chown("f", getuid(), (gid_t) -1));
        CALL(chown("f", OTHER, (gid_t) -1));
        CALL(chown("f", (uid_t) -1, OTHER));
        CALL(chown("d", getuid(), getgid()));
        CALL(lchown("l", getuid(), getgid()));
        CALL(lchown("l", OTHER, OTHER));
        CALL(chown("none", getuid(), getgid()));
        CALL(chown("f/x", getuid(), getgid()));
        show("f");
        show("l");
}

static void set_id_calls(int fd, char *map) {
        const loff_t zero = 0;
        loff_t from = zero, to = 1;

        show("f");
        CALL(pwrite(fd, "x", 1, 0));
        show("f");
        CALL(ftruncate(fd, 3));
        show("f");
        CALL(fallocate(fd, 0, 0, 100));
        show("f");
        CALL(copy_file_range(fd, &from, fd, &to, 1, 0));
        show("f");
        if (map)
                map[0] = 'm';
        show("f");
}

/* the bits were set outside; whoever writes takes them away */
static void topic_set_id(void) {
        static const mode_t modes[] = { 04755, 02755, 06755, 02745, 06711, 04644 };

        for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
                for (int how = 0; how < 6; how++) {
                        int fd = -1;
                        char *map = NULL;

                        scene("set-id %o %d", modes[i], how);
                        file("f", "content", 0755);
                        mode("f", modes[i]);
                        show("f");
                        if (how == 0)
                                CALL(chown("f", getuid(), getgid()));
                        else if (how == 1)
                                CALL(truncate("f", 1));
                        else if (how == 2)
                                TRY(open("f", O_WRONLY | O_TRUNC));
                        else if (how == 3)
                                CALL(chown("f", (uid_t) -1, (gid_t) -1));
                        else if (how == 4)
                                fd = OPEN(open("f", O_RDWR | O_APPEND));
                        else
                                fd = OPEN(open("f", O_RDWR));
                        if (fd >= 0 && how == 5)
                                map = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
                        if (fd >= 0)
                                set_id_calls(fd, map == MAP_FAILED ? NULL : map);
                        shut(fd);
                        show("f");
                }
        }
        scene("set-gid directory");
        dir("d", 02775);
        CALL(mkdir("d/sub", 0755));
        show("d/sub");
        TRY(open("d/f", O_CREAT | O_RDWR, 0644));
        show("d/f");
        CALL(chmod("d", 0775));
        show("d");
        CALL(chmod("d", 02770));
        show("d");
}

static void topic_umask(void) {
        static const mode_t masks[] = { 0, 022, 077, 0777, 0111 };

        for (size_t i = 0; i < sizeof(masks) / sizeof(masks[0]); i++) {
                scene("umask %o", masks[i]);
                (void) umask(masks[i]);
                TRY(open("f", O_CREAT | O_RDWR, 0777));
                TRY(open("g", O_CREAT | O_WRONLY | O_EXCL, 0666));
                CALL(mkdir("d", 0777));
                CALL(mkfifo("p", 0666));
                CALL(mknod("n", S_IFREG | 0666, 0));
                CALL(symlink("f", "l"));
                show("f");
                show("g");
                show("d");
                show("p");
                show("n");
                show("l");
                (void) umask(022);
        }
        scene("created without rights");
        for (mode_t bits = 0; bits < 8; bits++) {
                char name[8];
                int fd;

                (void) snprintf(name, sizeof(name), "f%o", bits);
                fd = OPEN(open(name, O_CREAT | O_EXCL | O_RDWR, bits << 6));
                CALL(write(fd, "text", 4));
                CALL(ftruncate(fd, 2));
                show_fd(fd);
                shut(fd);
                TRY(open(name, O_RDWR));
                show(name);
        }
}

const struct topic topics_rights[] = {
        { "directories", topic_directories }, { "modes", topic_modes }, { "foreign", topic_foreign },
        { "sticky", topic_sticky },           { "chmod", topic_chmod }, { "chown", topic_chown },
        { "set-id", topic_set_id },           { "umask", topic_umask }, { 0 },
};
