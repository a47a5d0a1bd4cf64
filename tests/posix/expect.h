/*
 * expect.h - what holds on every file system that keeps POSIX, said and checked
 */
#pragma once

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/** struct check - a named function; a table of them ends with an empty one */
struct check {
        const char *name;
        void (*run)(void);
};

/* a child that fails ends with 9, which its parent notices */
#define EXPECT(cond)                                                                                  \
        do {                                                                                          \
                if (!(cond)) {                                                                        \
                        (void) fprintf(stderr, "%s:%d: %s: not so (%s)\n", __func__, __LINE__, #cond, \
                                       strerror(errno));                                              \
                        _exit(9);                                                                     \
                }                                                                                     \
        } while (0)

/** expect_fails() - whether a call returned -1 with errno @want */
static inline int expect_fails(long r, int want) {
        return r == -1 && errno == want;
}
