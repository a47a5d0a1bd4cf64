/* lengths, depths and odd bytes */
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "transcript.h"

enum { CHAIN = 45, DEPTH = 40 };

static char *filled(char *buf, int c, size_t n) {
        memset(buf, c, n);
        buf[n] = '\0';
        return buf;
}

static void topic_names(void) {
        static const size_t lengths[] = { 1, 254, 255, 256, 300, 4095, 4096 };
        static char name[5000], more[5000];

        for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
                struct stat st;

                scene("name of %zu", lengths[i]);
                file("f", "f", 0644);
                (void) filled(name, 'n', lengths[i]);
                (void) filled(more, 'm', lengths[i]);
                TRY(open(name, O_CREAT | O_EXCL | O_RDWR, 0644));
                CALL(stat(name, &st));
                CALL(rename(name, more));
                CALL(rename("f", more));
                CALL(link(more, name));
                CALL(access(name, F_OK));
                CALL(truncate(name, 3));
                CALL(chmod(name, 0600));
                CALL(unlink(name));
                CALL(mkdir(name, 0755));
                CALL(rmdir(name));
                CALL(symlink(name, "l"));
                CALL(stat("l", &st));
                CALL(symlink("x", name));
                CALL(unlink(name));
                CALL(mkfifo(name, 0644));
                CALL(mkdir(strcat(name, "/x"), 0755));
                CALL(unlink(more));
                show_names("f");
        }
}

static void topic_bytes(void) {
        scene("bytes");
        if (!calls_run())
                return;
        for (int c = 1; c < 256; c++) {
                char name[3] = { (char) c, c == '.' ? '.' : '\0', '\0' };
                const int fd = open(name, O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0644);

                note("byte %d %s", c, fd < 0 ? strerrorname_np(errno) : "made");
                shut(fd);
        }
        for (int c = 1; c < 256; c++) {
                char name[256];

                (void) filled(name, c, 255);
                if (c == '/')
                        continue;
                note("255 of %d %s", c, mkdir(name, 0755) < 0 ? strerrorname_np(errno) : "made");
        }
        {
                DIR *d = opendir(".");
                unsigned long n = 0, sum = 0;
                struct dirent *e;

                while (d && (e = readdir(d))) {
                        n++;
                        for (const char *p = e->d_name; *p; p++)
                                sum += (unsigned char) *p;
                }
                note("%lu names, sum %lu", n, sum);
                if (d)
                        (void) closedir(d);
        }
}

/* a path of @len bytes that leads to "f" */
static char *path_of(char *buf, size_t len) {
        size_t n = 0;

        while (n + 3 < len) {
                memcpy(buf + n, "./", 2);
                n += 2;
        }
        while (n + 1 < len)
                buf[n++] = '/';
        if (n && buf[0] == '/')
                buf[0] = '.';
        buf[n++] = 'f';
        buf[n] = '\0';
        return buf;
}

static void topic_paths(void) {
        static const size_t lengths[] = { 4000, 4094, 4095, 4096, 5000 };
        static char path[6000], target[6000];

        for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
                char buf[16];
                struct stat st;

                scene("path of %zu", lengths[i]);
                file("f", "f", 0644);
                dir("d", 0755);
                (void) path_of(path, lengths[i]);
                CALL(stat(path, &st));
                TRY(open(path, O_RDWR));
                TRY(open(path, O_RDWR | O_CREAT | O_EXCL, 0644));
                CALL(chmod(path, 0600));
                CALL(link(path, "g"));
                CALL(rename(path, "f2"));
                CALL(rename("f2", path));
                CALL(truncate(path, 1));
                CALL(unlink(path));
                CALL(mkdir(path, 0755));
                CALL(rmdir(path));
                CALL(symlink("x", path));
                CALL(readlink(path, buf, sizeof(buf)));
                CALL(symlink(path_of(target, lengths[i]), "long"));
                CALL(lstat("long", &st));
                note("size %jd", (intmax_t) st.st_size);
                CALL(stat("long", &st));
                CALL(symlink(filled(target, 't', lengths[i]), "long2"));
        }
}

static void topic_loops(void) {
        static const int lengths[] = { 1, 10, 19, 41, 45 };

        scene("chains");
        file("l0", "end", 0644);
        for (int i = 1; i <= CHAIN; i++) {
                char to[8], name[8];

                (void) snprintf(to, sizeof(to), "l%d", i - 1);
                (void) snprintf(name, sizeof(name), "l%d", i);
                sym(to, name);
        }
        /* the kernel counts a link again when it starts over: near its limit of 40 that shows now and then */
        for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
                char name[8];

                (void) snprintf(name, sizeof(name), "l%d", lengths[i]);
                TRY(open(name, O_RDONLY));
                TRY(open(name, O_RDWR | O_CREAT, 0644));
                CALL(access(name, F_OK));
        }
        scene("loops");
        sym("b", "a");
        sym("a", "b");
        file("f", "f", 0644);
        TRY(open("a", O_RDONLY));
        TRY(open("a", O_CREAT | O_RDWR, 0644));
        TRY(open("a/x", O_RDONLY));
        CALL(mkdir("a/x", 0755));
        CALL(mkdir("a", 0755));
        CALL(rmdir("a/x"));
        CALL(unlink("a/x"));
        CALL(rename("a/x", "y"));
        CALL(rename("f", "a/x"));
        CALL(link("a/x", "y"));
        CALL(link("a", "y"));
        CALL(linkat(AT_FDCWD, "a", AT_FDCWD, "z", AT_SYMLINK_FOLLOW));
        CALL(symlink("x", "a/x"));
        CALL(chmod("a", 0644));
        CALL(truncate("a", 0));
        CALL(chdir("a"));
        CALL(mkfifo("a/x", 0644));
        show_names(".");
}

static void topic_depth(void) {
        static char path[8192];
        int at;

        scene("depth");
        if (!calls_run())
                return;
        at = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        for (int i = 0; i < DEPTH; i++) {
                char name[200];
                int next;

                (void) filled(name, 'a' + i % 26, 190);
                if (mkdirat(at, name, 0755) < 0)
                        note("level %d %s", i, strerrorname_np(errno));
                next = openat(at, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
                if (next < 0)
                        note("level %d %s", i, strerrorname_np(errno));
                shut(at);
                at = next;
        }
        TRY(openat(at, "f", O_CREAT | O_RDWR, 0644));
        CALL(fchdir(at));
        show("f");
        CALL(rename("f", "g"));
        CALL(link("g", "h"));
        CALL(chmod("g", 0600));
        CALL(truncate("g", 5));
        show("h");
        CALL(getcwd(path, sizeof(path)) ? 0 : -1);
        TRY(open("../g", O_RDONLY));
        CALL(unlink("g"));
        show_names(".");
        shut(at);
}

const struct topic topics_limits[] = {
        { "names", topic_names }, { "bytes", topic_bytes }, { "paths", topic_paths },
        { "loops", topic_loops }, { "depth", topic_depth }, { 0 },
};
