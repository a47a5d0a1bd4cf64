/*
 * cleanup.h - owners of things: AUTO_* locals close what they hold, ownership leaves by TAKE_*
 *
 * Closers accept the empty value, keep errno and return the empty value.
 */
#pragma once

#include <dirent.h>
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))

#define CLEANUP(fn) __attribute__((cleanup(fn)))

/** TAKE() - the value of @lv, which becomes @empty: ownership moves to the reader. */
#define TAKE(lv, empty)                       \
        __extension__({                       \
                __typeof__(lv) _taken = (lv); \
                (lv) = (empty);               \
                _taken;                       \
        })
#define TAKE_PTR(p) TAKE(p, NULL)
#define TAKE_FD(fd) TAKE(fd, -1)

/** DEFINE_AUTO() - a cleanup function auto_<name> for a pointer type freed by @free_fn (NULL-safe). */
#define DEFINE_AUTO(type, name, free_fn)           \
        static inline void auto_##name(type **p) { \
                const int saved = errno;           \
                                                   \
                (void) free_fn(*p);                \
                *p = NULL;                         \
                errno = saved;                     \
        }

/** fd_close() - close @fd unless it is negative; keeps errno. Return: -1. */
static inline int fd_close(int fd) {
        const int saved = errno;

        if (fd >= 0)
                (void) close(fd);
        errno = saved;
        return -1;
}

static inline void auto_fd(int *fd) {
        *fd = fd_close(*fd);
}

static inline void auto_free(void *p) {
        void **pp = p;

        free(*pp); /* free() keeps errno (POSIX.1-2024, glibc 2.33) */
        *pp = NULL;
}

static inline void auto_file(FILE **f) {
        const int saved = errno;

        if (*f)
                (void) fclose(*f);
        *f = NULL;
        errno = saved;
}

static inline void auto_dir(DIR **d) {
        const int saved = errno;

        if (*d)
                (void) closedir(*d);
        *d = NULL;
        errno = saved;
}

#define AUTO_FD   CLEANUP(auto_fd)
#define AUTO_FREE CLEANUP(auto_free)
#define AUTO_FILE CLEANUP(auto_file)
#define AUTO_DIR  CLEANUP(auto_dir)
