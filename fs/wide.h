/*
 * wide.h - an object of the upper whose mode the work closed to its owner, opened up for a moment
 *
 * What we keep in user attributes can be read by whoever may read the object only. Who looks at the object
 * meanwhile sees the wider mode; two that open up objects of one directory wait for each other, so that none
 * takes the wider mode for the one to restore.
 */
#pragma once

#include <sys/stat.h>

/** struct wide - while it lives the object has the rights; WIDE_INIT is empty */
struct wide {
        int fd;        /* O_PATH, owned */
        int lock_fd;   /* the directory, locked; owned; -1: nothing had to be changed, or it cannot be read */
        char proc[32]; /* a path to the object itself */
        struct stat st;
        mode_t added;
};
#define WIDE_INIT \
        { .fd = -1, .lock_fd = -1 }

/**
 * wide_init() - give the owner @rights to @name in the upper directory @dir_fd
 * @name: no symlink. Needs /proc. Return: 0, -EPERM (not ours), -ELOOP (a symlink), -errno.
 */
int wide_init(struct wide *ret, int dir_fd, const char *name, mode_t rights)
        __attribute__((warn_unused_result));

/** wide_deinit() - the mode is as before */
void wide_deinit(struct wide *w);
#define AUTO_WIDE __attribute__((cleanup(wide_deinit)))
