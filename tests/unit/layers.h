/*
 * layers.h - a lower and an upper, changed as the guard changes them; include after cmocka.h
 */
#pragma once

#include <time.h>

#include "fs/layer.h"
#include "tests/unit/tree.h"

/** struct layers - lower/, upper/ and run/ in a temporary directory */
struct layers {
        struct tree tree;
        int lower_fd, upper_fd, run_fd;
};

static inline void layers_open(struct layers *l) {
        tree_dir(&l->tree, "lower");
        tree_dir(&l->tree, "upper");
        tree_dir(&l->tree, "run");
        l->lower_fd = tree_open(&l->tree, "lower", O_RDONLY | O_DIRECTORY);
        l->upper_fd = tree_open(&l->tree, "upper", O_RDONLY | O_DIRECTORY);
        l->run_fd = tree_open(&l->tree, "run", O_RDONLY | O_DIRECTORY);
}

static inline void layers_init(struct layers *l) {
        tree_init(&l->tree);
        layers_open(l);
}

/* On a tmpfs where there is one with user attributes: hundreds of transactions sync in no time there. */
static inline void layers_init_fast(struct layers *l) {
        AUTO_FD int shm = open("/dev/shm", O_PATH | O_DIRECTORY | O_CLOEXEC);

        if (shm < 0 || layer_usable(shm, NULL) < 0)
                tree_init(&l->tree);
        else
                tree_init_at(&l->tree, "/dev/shm");
        layers_open(l);
}

static inline void layers_deinit(struct layers *l) {
        (void) close(l->lower_fd);
        (void) close(l->upper_fd);
        (void) close(l->run_fd);
        tree_deinit(&l->tree);
}

static inline int layers_setup(void **state) {
        struct layers *l = calloc(1, sizeof(*l));

        assert_non_null(l);
        layers_init(l);
        *state = l;
        return 0;
}

static inline int layers_teardown(void **state) {
        layers_deinit(*state);
        free(*state);
        return 0;
}

/* Waits until file times tell before from after (the kernel's coarse clock: 10 ms at most). */
static inline void layers_tick(void) {
        (void) nanosleep(&(struct timespec){ 0, 12000000 }, NULL);
}

/* The run begins: what the lower has now is older than the upper. */
static inline void layers_begin(struct layers *l) {
        layers_tick();
        (void) close(l->upper_fd);
        assert_int_equal(unlinkat(l->tree.fd, "upper", AT_REMOVEDIR), 0);
        tree_dir(&l->tree, "upper");
        l->upper_fd = tree_open(&l->tree, "upper", O_RDONLY | O_DIRECTORY);
}

/* Open the directory @dir of the upper, made as needed. */
static inline int layers_dir(const struct layers *l, const char *dir) {
        const int fd = layer_open_dir(l->upper_fd, l->lower_fd, dir);

        assert_true(fd >= 0);
        return fd;
}

static inline void layers_mkdir(const struct layers *l, const char *dir) {
        (void) close(layers_dir(l, dir));
}

/* The work creates @dir/@name. */
static inline void layers_add(const struct layers *l, const char *dir, const char *name, const char *text) {
        AUTO_FD int d = layers_dir(l, dir);
        AUTO_FD int fd = openat(d, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

        assert_true(fd >= 0);
        assert_int_equal(write_all(fd, text, strlen(text)), 0);
}

static inline int layers_lower_parent(const struct layers *l, const char *dir) {
        const int fd = openat(l->lower_fd, *dir ? dir : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

        assert_true(fd >= 0);
        return fd;
}

/* The work rewrites the lower file @dir/@name. */
static inline void layers_modify(const struct layers *l, const char *dir, const char *name,
                                 const char *text) {
        AUTO_FD int d = layers_dir(l, dir);
        AUTO_FD int from = layers_lower_parent(l, dir);
        AUTO_FD int lower = openat(from, name, O_RDONLY | O_CLOEXEC);
        AUTO_FD int fd = -1;

        assert_int_equal(layer_copy_up(lower, d, name, false), 0);
        fd = openat(d, name, O_WRONLY | O_TRUNC | O_CLOEXEC);
        assert_true(fd >= 0);
        assert_int_equal(write_all(fd, text, strlen(text)), 0);
}

/* The work removes the lower object @dir/@name. */
static inline void layers_delete(const struct layers *l, const char *dir, const char *name) {
        AUTO_FD int d = layers_dir(l, dir);
        AUTO_FD int from = layers_lower_parent(l, dir);
        struct layer_origin origin;
        struct stat st;

        assert_int_equal(fstatat(from, name, &st, AT_SYMLINK_NOFOLLOW), 0);
        origin = layer_origin_of(&st);
        assert_int_equal(layer_whiteout(d, name, &origin), 0);
}

/* The work replaces the lower object @name by a directory. */
static inline void layers_mkdir_over(const struct layers *l, const char *name) {
        struct layer_origin origin;
        struct stat st;

        assert_int_equal(fstatat(l->lower_fd, name, &st, AT_SYMLINK_NOFOLLOW), 0);
        origin = layer_origin_of(&st);
        assert_int_equal(mkdirat(l->upper_fd, name, 0755), 0);
        assert_int_equal(layer_claim(l->upper_fd, name, &origin), 0);
}
