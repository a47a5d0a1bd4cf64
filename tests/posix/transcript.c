#include "transcript.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

enum { OTHER_ID = 4242, NAMES_MAX = 4096, TEXT_SHOWN = 60 };

const char *const thing_names[THING_COUNT] = {
        [THING_NONE] = "none", [THING_FILE] = "file",         [THING_DIR] = "dir",
        [THING_FULL] = "full", [THING_FIFO] = "fifo",         [THING_SOCK] = "sock",
        [THING_LINK] = "link", [THING_DANGLING] = "dangling", [THING_LOOP] = "loop",
};

static struct {
        bool making;
        int root_fd, scenes;
        char scene[64];
} state;

void transcript_begin(bool making, int root_fd) {
        state.making = making;
        state.root_fd = root_fd;
        state.scenes = 0;
}

bool calls_run(void) {
        return !state.making;
}

static void die(const char *what) {
        (void) fprintf(stderr, "%s: %s: %s\n", state.scene, what, strerror(errno));
        exit(1);
}

static void must(int r, const char *what) {
        if (r < 0)
                die(what);
}

void scene(const char *fmt, ...) {
        char name[24];
        va_list ap;

        va_start(ap, fmt);
        (void) vsnprintf(state.scene, sizeof(state.scene), fmt, ap);
        va_end(ap);
        (void) snprintf(name, sizeof(name), "s%d", state.scenes++);
        must(fchdir(state.root_fd), "fchdir");
        (void) umask(0);
        if (state.making)
                must(mkdir(name, 0755), name);
        must(chdir(name), name);
        (void) umask(022);
}

static void say(int line, const char *what, const char *result) {
        printf("%s\t%d\t%s\t%s\n", state.scene, line, what, result);
}

long said(const char *what, int line, long result) {
        char text[32];
        const int e = errno;

        (void) snprintf(text, sizeof(text), "%ld", result);
        say(line, what, result == -1 && e ? strerrorname_np(e) : text);
        errno = e;
        return result;
}

int said_fd(const char *what, int line, int fd) {
        const int e = errno;

        say(line, what, fd < 0 ? strerrorname_np(e) : "fd");
        errno = e;
        return fd;
}

void note(const char *fmt, ...) {
        char text[512];
        va_list ap;

        if (state.making)
                return;
        va_start(ap, fmt);
        (void) vsnprintf(text, sizeof(text), fmt, ap);
        va_end(ap);
        say(0, "note", text);
}

void shut(int fd) {
        if (fd >= 0)
                (void) close(fd);
}

static void show_stat(const char *what, int r, const struct stat *st) {
        char text[128];

        if (r < 0)
                (void) snprintf(text, sizeof(text), "%s", strerrorname_np(errno));
        else /* the size of a directory says how it is stored */
                (void) snprintf(text, sizeof(text), "mode=%06o nlink=%ju size=%jd uid=%u gid=%u", st->st_mode,
                                (uintmax_t) st->st_nlink, S_ISDIR(st->st_mode) ? 0 : (intmax_t) st->st_size,
                                st->st_uid, st->st_gid);
        say(0, what, text);
}

void show(const char *path) {
        char what[128];
        struct stat st;

        if (state.making)
                return;
        (void) snprintf(what, sizeof(what), "lstat %.60s", path);
        show_stat(what, lstat(path, &st), &st);
}

void show_fd(int fd) {
        struct stat st;

        if (!state.making)
                show_stat("fstat", fstat(fd, &st), &st); /* EBADF for none: as many lines either way */
}

void show_text(const char *path) {
        char text[TEXT_SHOWN + 1], what[128];
        ssize_t n;
        int fd;

        if (state.making)
                return;
        fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
        n = fd < 0 ? -1 : read(fd, text, TEXT_SHOWN);
        (void) snprintf(what, sizeof(what), "text %.60s", path);
        for (ssize_t i = 0; i < n; i++)
                if (text[i] < ' ' || text[i] > '~')
                        text[i] = '.';
        text[n < 0 ? 0 : n] = '\0';
        say(0, what, n < 0 ? strerrorname_np(errno) : text);
        shut(fd);
}

static int by_name(const void *a, const void *b) {
        return strcmp(*(char *const *) a, *(char *const *) b);
}

void show_names(const char *path) {
        static char *names[NAMES_MAX];
        DIR *d = state.making ? NULL : opendir(path);
        char text[512] = "";
        size_t n = 0, used = 0;
        struct dirent *e;

        if (state.making)
                return;
        errno = 0;
        while (d && n < NAMES_MAX && (e = readdir(d)))
                names[n++] = strdup(e->d_name);
        if (errno)
                used = (size_t) snprintf(text, sizeof(text), "%s ", strerrorname_np(errno));
        if (n)
                qsort(names, n, sizeof(*names), by_name);
        for (size_t i = 0; i < n; i++) {
                if (used < sizeof(text))
                        used += (size_t) snprintf(text + used, sizeof(text) - used, "%s ", names[i]);
                free(names[i]);
        }
        say(0, path, d ? text : strerrorname_np(errno));
        if (d)
                (void) closedir(d);
}

/* ---- fixtures ---- */

void file(const char *path, const char *text, mode_t mode) {
        int fd;

        if (!state.making)
                return;
        fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
        must(fd, path);
        if (write(fd, text, strlen(text)) != (ssize_t) strlen(text))
                die(path);
        must(fchmod(fd, mode), path);
        shut(fd);
}

void dir(const char *path, mode_t mode) {
        if (!state.making)
                return;
        must(mkdir(path, 0700), path);
        must(chmod(path, mode), path);
}

void full(const char *path) {
        char name[256];

        dir(path, 0755);
        (void) snprintf(name, sizeof(name), "%s/in", path);
        file(name, "inside", 0644);
}

void fifo(const char *path, mode_t mode) {
        if (state.making)
                must(mkfifo(path, mode), path);
}

void sock(const char *path) {
        if (state.making) /* as bind(2) makes it, but for the length of the path */
                must(mknod(path, S_IFSOCK | 0755, 0), path);
}

void sym(const char *target, const char *path) {
        if (state.making)
                must(symlink(target, path), path);
}

void hard(const char *old, const char *path) {
        if (state.making)
                must(link(old, path), path);
}

void mode(const char *path, mode_t mode) {
        if (state.making)
                must(chmod(path, mode), path);
}

void foreign(const char *path) {
        if (state.making)
                (void) !lchown(path, OTHER_ID, OTHER_ID);
}

void make(enum thing thing, const char *path) {
        char target[256];

        (void) snprintf(target, sizeof(target), "%s.target", path);
        switch (thing) {
        case THING_FILE:
                file(path, "content", 0644);
                break;
        case THING_DIR:
                dir(path, 0755);
                break;
        case THING_FULL:
                full(path);
                break;
        case THING_FIFO:
                fifo(path, 0644);
                break;
        case THING_SOCK:
                sock(path);
                break;
        case THING_LINK:
                file(target, "target", 0644);
                sym(target, path);
                break;
        case THING_DANGLING:
                sym(target, path);
                break;
        case THING_LOOP:
                sym(path, path);
                break;
        case THING_NONE:
        case THING_COUNT:
                break;
        }
}
