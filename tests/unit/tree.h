/*
 * tree.h - a temporary directory tree for tests; include after cmocka.h
 */
#pragma once

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/base/cleanup.h"
#include "runtime/base/file.h"

/** struct tree - a directory below TMPDIR, removed by tree_deinit() */
struct tree {
        char path[128];
        int fd;
};

/*
 * This host cannot do what a test needs: said, and a failure where everything must work. (cmocka's skip()
 * prints "not ok", which a TAP reader counts as a failure.)
 */
static inline void tree_cannot(const char *what) {
        print_message("# skipped: cannot %s here\n", what);
        if (getenv("COFFERDAM_MUST_WORK"))
                fail_msg("cannot %s, and COFFERDAM_MUST_WORK is set", what);
}

static inline void tree_init_at(struct tree *t, const char *base) {
        (void) snprintf(t->path, sizeof(t->path), "%s/cofferdam-test-XXXXXX", base);
        assert_non_null(mkdtemp(t->path));
        t->fd = open(t->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        assert_true(t->fd >= 0);
}

static inline void tree_init(struct tree *t) {
        const char *tmp = getenv("TMPDIR");

        tree_init_at(t, tmp ? tmp : "/tmp");
}

/* Removes everything below @dir_fd, which is consumed. */
static inline void tree_empty(int dir_fd) {
        DIR *d = fdopendir(dir_fd);

        assert_non_null(d);
        for (struct dirent *e; (e = readdir(d));) {
                int sub;

                if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
                        continue;
                if (unlinkat(dirfd(d), e->d_name, 0) == 0)
                        continue;
                (void) !fchmodat(dirfd(d), e->d_name, 0700, 0);
                sub = openat(dirfd(d), e->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
                if (sub >= 0)
                        tree_empty(sub);
                (void) unlinkat(dirfd(d), e->d_name, AT_REMOVEDIR);
        }
        (void) closedir(d);
}

static inline void tree_deinit(struct tree *t) {
        tree_empty(t->fd);
        assert_int_equal(rmdir(t->path), 0);
}

static inline int tree_open(const struct tree *t, const char *path, int flags) {
        const int fd = openat(t->fd, path, flags | O_CLOEXEC, 0600);

        assert_true(fd >= 0);
        return fd;
}

static inline void tree_dir(const struct tree *t, const char *path) {
        assert_int_equal(mkdirat(t->fd, path, 0755), 0);
}

static inline void tree_file(const struct tree *t, const char *path, const char *text, mode_t mode) {
        AUTO_FD int fd = tree_open(t, path, O_WRONLY | O_CREAT | O_TRUNC);

        assert_int_equal(write_all(fd, text, strlen(text)), 0);
        assert_int_equal(fchmod(fd, mode), 0);
}

/* Whether @path holds exactly @text. */
static inline void tree_expect(const struct tree *t, const char *path, const char *text) {
        AUTO_BUF struct buf got = { 0 };

        assert_int_equal(file_read_at(t->fd, path, 1 << 20, &got), 0);
        assert_string_equal(buf_cstr(&got), text);
}

static inline bool tree_has(const struct tree *t, const char *path) {
        struct stat st;

        return fstatat(t->fd, path, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

static inline bool tree_same_content(const struct tree *t, const char *a, const char *b) {
        AUTO_BUF struct buf x = { 0 }, y = { 0 };

        assert_int_equal(file_read_at(t->fd, a, 16 << 20, &x), 0);
        assert_int_equal(file_read_at(t->fd, b, 16 << 20, &y), 0);
        return x.len == y.len && memcmp(buf_cstr(&x), buf_cstr(&y), x.len) == 0;
}

/* Appends one entry "path=content ", "path@target " or "path/ " and what is below it. */
static inline void tree_list_below(int dir_fd, const char *prefix, char *out, size_t size);

static inline void tree_list_entry(int dir_fd, const char *prefix, const char *name, char *out, size_t size) {
        char path[1024], text[1024] = { 0 };
        struct stat st;
        size_t n = strlen(out);
        int fd;

        (void) snprintf(path, sizeof(path), "%s%s", prefix, name);
        if (fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0) {
                (void) snprintf(out + n, size - n, "%s? ", path);
        } else if (S_ISDIR(st.st_mode)) {
                (void) snprintf(out + n, size - n, "%s/ ", path);
                (void) strncat(path, "/", sizeof(path) - strlen(path) - 1);
                fd = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
                tree_list_below(fd, path, out, size);
        } else if (S_ISLNK(st.st_mode)) {
                (void) !readlinkat(dir_fd, name, text, sizeof(text) - 1);
                (void) snprintf(out + n, size - n, "%s@%s ", path, text);
        } else if (S_ISREG(st.st_mode)) {
                fd = openat(dir_fd, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
                (void) !read(fd, text, sizeof(text) - 1);
                (void) close(fd);
                (void) snprintf(out + n, size - n, "%s=%s ", path, text);
        } else {
                (void) snprintf(out + n, size - n, "%s! ", path);
        }
}

static inline int tree_by_name(const void *a, const void *b) {
        return strcmp(*(char *const *) a, *(char *const *) b);
}

static inline void tree_list_below(int dir_fd, const char *prefix, char *out, size_t size) {
        char *names[256];
        size_t n = 0;
        DIR *d = dir_fd < 0 ? NULL : fdopendir(dir_fd);

        if (!d)
                return;
        for (struct dirent *e; (e = readdir(d)) && n < ARRAY_SIZE(names);)
                if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
                        names[n++] = strdup(e->d_name);
        qsort(names, n, sizeof(names[0]), tree_by_name);
        for (size_t i = 0; i < n; i++) {
                tree_list_entry(dir_fd, prefix, names[i], out, size);
                free(names[i]);
        }
        (void) closedir(d);
}

/* The whole tree below @path as one line, sorted. */
static inline void tree_list(const struct tree *t, const char *path, char *out, size_t size) {
        out[0] = '\0';
        tree_list_below(openat(t->fd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC), "", out, size);
}

static inline size_t tree_count(const struct tree *t, const char *path) {
        char list[65536];
        size_t n = 0;

        tree_list(t, path, list, sizeof(list));
        for (const char *p = list; *p; p++)
                n += *p == ' ';
        return n;
}
