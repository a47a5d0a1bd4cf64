/*
 * make-name.c - makes one name in one way, for tests that want every way tried
 *
 * Usage: make-name WAY PATH. The content is one line read from stdin. Prints "made" or "refused: ERRNO".
 */
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "runtime/base/cleanup.h"
#include "runtime/base/file.h"

#define PLAIN "make-name.plain" /* a name no rule speaks of, in the current directory */

/** struct content - what the new file shall hold */
struct content {
        char text[4096];
        size_t len;
};

static int fill(int fd, const struct content *c) {
        AUTO_FD int owned = fd;

        if (owned < 0)
                return -errno;
        return write_all(owned, c->text, c->len);
}

static int plain_file(const struct content *c) {
        return fill(open(PLAIN, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0755), c);
}

static int by_create(const char *path, const struct content *c) {
        return fill(open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0755), c);
}

static int by_overwrite(const char *path, const struct content *c) {
        return fill(open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0755), c);
}

static int by_append(const char *path, const struct content *c) {
        return fill(open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0755), c);
}

static int by_rename(const char *path, const struct content *c) {
        const int r = plain_file(c);

        return r < 0 ? r : rename(PLAIN, path) < 0 ? -errno : 0;
}

static int by_link(const char *path, const struct content *c) {
        int r = plain_file(c);

        (void) unlink(path);
        r = r < 0 ? r : link(PLAIN, path) < 0 ? -errno : 0;
        (void) unlink(PLAIN);
        return r;
}

static int by_symlink(const char *path, const struct content *c) {
        (void) c;
        (void) unlink(path);
        return symlink("/usr/bin/env", path) < 0 ? -errno : 0;
}

/* linkat(2) of an unnamed file, as tools do that want a file to appear whole */
static int by_tmpfile(const char *path, const struct content *c) {
        char dir[PATH_MAX], proc[64];
        AUTO_FD int fd = -1;
        int r;

        (void) snprintf(dir, sizeof(dir), "%s", path);
        fd = open(dirname(dir), O_TMPFILE | O_WRONLY | O_CLOEXEC, 0755);
        if (fd < 0)
                return -errno;
        r = write_all(fd, c->text, c->len);
        if (r < 0)
                return r;
        (void) unlink(path);
        (void) snprintf(proc, sizeof(proc), "/proc/self/fd/%d", fd);
        return linkat(AT_FDCWD, proc, AT_FDCWD, path, AT_SYMLINK_FOLLOW) < 0 ? -errno : 0;
}

/* a whole directory is renamed into place, with the name already in it */
static int by_directory(const char *path, const struct content *c) {
        char parent[PATH_MAX], name[PATH_MAX], inner[PATH_MAX + sizeof(PLAIN) + 8];
        int r;

        (void) snprintf(parent, sizeof(parent), "%s", path);
        (void) snprintf(name, sizeof(name), "%s", path);
        if (mkdir(PLAIN ".d", 0755) < 0)
                return -errno;
        (void) snprintf(inner, sizeof(inner), "%s/%s", PLAIN ".d", basename(name));
        r = by_create(inner, c);
        if (r == 0 && rename(PLAIN ".d", dirname(parent)) < 0)
                r = -errno;
        (void) unlink(inner);
        (void) rmdir(PLAIN ".d");
        return r;
}

static int by_mkfifo(const char *path, const struct content *c) {
        (void) c;
        (void) unlink(path);
        return mkfifo(path, 0644) < 0 ? -errno : 0;
}

static int by_socket(const char *path, const struct content *c) {
        struct sockaddr_un addr = { .sun_family = AF_UNIX };
        AUTO_FD int fd = -1;

        (void) c;
        if (strlen(path) >= sizeof(addr.sun_path))
                return -ENAMETOOLONG;
        memcpy(addr.sun_path, path, strlen(path) + 1);
        (void) unlink(path);
        fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (fd < 0)
                return -errno;
        return bind(fd, (const struct sockaddr *) &addr, sizeof(addr)) < 0 ? -errno : 0;
}

static const struct {
        const char *name;
        int (*make)(const char *path, const struct content *c);
} ways[] = {
        { "create", by_create },   { "overwrite", by_overwrite }, { "append", by_append },
        { "rename", by_rename },   { "link", by_link },           { "symlink", by_symlink },
        { "tmpfile", by_tmpfile }, { "directory", by_directory }, { "mkfifo", by_mkfifo },
        { "socket", by_socket },
};

static int usage(void) {
        (void) fprintf(stderr, "usage: make-name WAY PATH <CONTENT; ways:");
        for (size_t i = 0; i < ARRAY_SIZE(ways); i++)
                (void) fprintf(stderr, " %s", ways[i].name);
        (void) fputc('\n', stderr);
        return 2;
}

int main(int argc, char **argv) {
        struct content c = { .len = 0 };
        int r;

        if (argc != 3)
                return usage();
        c.len = fread(c.text, 1, sizeof(c.text), stdin);
        for (size_t i = 0; i < ARRAY_SIZE(ways); i++) {
                if (strcmp(argv[1], ways[i].name) != 0)
                        continue;
                r = ways[i].make(argv[2], &c);
                if (r == 0)
                        puts("made");
                else
                        printf("refused: %s\n", strerrorname_np(-r));
                return r < 0;
        }
        return usage();
}
