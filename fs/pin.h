/*
 * pin.h - bind sources resolved once into a descriptor, and the list of sources that are refused
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "runtime/base/error.h"

/** struct pin - a host object that was resolved once; all later access starts at @fd */
struct pin {
        int fd;     /* O_PATH, owned */
        char *path; /* absolute path that was resolved, owned; for messages and re-checks, never walked for
                       access */
        uint64_t mnt_id; /* STATX_MNT_ID (unique since Linux 6.8) */
        uint64_t dev, ino;
        int64_t btime_ns; /* 0: not known */
        mode_t type;      /* S_IFMT bits */
        uid_t owner;
};

/** struct pin_policy - what may be pinned */
struct pin_policy {
        const char *home;      /* caller's home, borrowed, NULL allowed */
        const char *state_dir; /* cofferdam's state, refused; borrowed, NULL allowed */
        const char *beneath;   /* symlinks may not leave this directory; NULL: the operator wrote the path,
                                  follow */
        const char *const *allowed; /* paths allowed by name although refused (allow_sensitive) */
        size_t n_allowed;
};

/**
 * pin_open() - resolve @path component by component (openat2, no magic links) and decide on what was reached
 * @ret: caller frees with pin_deinit()
 * Refused on the pinned inode and on its path: sockets, devices, FIFOs; /proc /sys /dev /boot and the
 * credential, agent and container-engine paths of guard(7), equal to or inside. A parent of one is not
 * refused; its children are hidden by pin_hidden(). Return: 0, -ENOENT, -EACCES, -ELOOP (symlink leaves),
 * -EPERM (refused: the message names the reason and remedy), -errno.
 */
int pin_open(const char *path, const struct pin_policy *policy, struct pin *ret, struct error *err)
        __attribute__((warn_unused_result));

/** pin_check() - resolve the path again and compare. Return: 0 same, -ESTALE (differs; message says was and
 * now). */
int pin_check(const struct pin *pin, struct error *err) __attribute__((warn_unused_result));

/**
 * pin_hidden() - refused paths below a pinned directory, relative to it, as rule patterns anchored with '/'
 * @ret: NULL-terminated array, owned (free each and the array); empty array when there are none
 * Return: 0, -ENOMEM.
 */
int pin_hidden(const struct pin *pin, const struct pin_policy *policy, char ***ret, size_t *ret_n)
        __attribute__((warn_unused_result));

void pin_deinit(struct pin *pin);
#define PIN_INIT \
        { .fd = -1 }
#define AUTO_PIN __attribute__((cleanup(pin_deinit)))
