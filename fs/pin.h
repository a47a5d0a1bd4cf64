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
        int fd;          /* O_PATH, owned */
        char *path;      /* the absolute path as it was given, owned; for messages and re-checks only */
        char *real;      /* the same place without symlinks at the time, owned; for messages only */
        uint64_t mnt_id; /* STATX_MNT_ID (unique since Linux 6.8; before, as long as @fd is open) */
        uint64_t dev, ino;
        uint64_t dir_dev, dir_ino; /* of the directory in which it was found */
        int64_t btime_ns;          /* 0: not known */
        mode_t type;               /* S_IFMT bits: a directory or a regular file */
        uid_t owner;
};

enum { PIN_TEXT_MAX = 256 };

/** struct pin_change - what a source was and what its path leads to now; for messages and events */
struct pin_change {
        char was[PIN_TEXT_MAX], now[PIN_TEXT_MAX];
};

/**
 * struct pin_memo - what the refused places of this host turned out to be, so that many pins made at one time
 * look each up once
 */
struct pin_memo;

/** pin_memo_new() - an empty one. Return: owned, free with pin_memo_free(); NULL: out of memory. */
struct pin_memo *pin_memo_new(void) __attribute__((warn_unused_result));
/** pin_memo_free() - accepts NULL. Return: NULL. */
struct pin_memo *pin_memo_free(struct pin_memo *memo);

/** struct pin_policy - what may be pinned */
struct pin_policy {
        const char *home;      /* caller's home, borrowed, NULL allowed */
        const char *own_home;  /* the one of his passwd entry, whatever HOME says; borrowed, NULL allowed */
        const char *state_dir; /* cofferdam's state, refused; borrowed, NULL allowed */
        const char *beneath;   /* what is reached over a symlink has to be below this directory (absolute,
                                  without   symlinks); NULL: the operator wrote the path, follow */
        const char *const *allowed; /* absolute paths allowed by name although refused (--allow-sensitive) */
        size_t n_allowed;
        bool seeding;          /* the source is copied once, not served */
        struct pin_memo *memo; /* borrowed; NULL: every place is looked up every time */
};

/** enum pin_base - what a row of pin_refused() is relative to */
enum pin_base {
        PIN_BASE_ROOT,
        PIN_BASE_HOME /* the caller's by HOME and by passwd, root's, and those below /home */,
        PIN_BASE_COUNT
};

/** struct pin_refusal - one row of the list of sources that are refused */
struct pin_refusal {
        enum pin_base base;
        const char *path; /* relative to the base */
        const char *why;  /* what it holds */
        bool seed;        /* not refused as the source of a seed, which is a copy */
};

/** pin_refused() - the list of refused sources (docs: guard(7)). @ret_n: how many. Return: static table. */
const struct pin_refusal *pin_refused(size_t *ret_n);

/**
 * pin_open() - resolve the absolute @path component by component (no magic links) and decide on what was
 * reached
 * @ret: caller frees with pin_deinit(); written on success only
 * Refused on the pinned inode and on its path: sockets, devices, FIFOs (always); kernel file systems (procfs,
 * sysfs, ...) and what pin_refused() lists, equal to or inside, unless @policy allows it by name: an entry of
 * @allowed that is @path, or that lies in (or is) the listed place and contains @path. A parent of a listed
 * place is not refused; pin_hidden() hides its children. Blocks (file system).
 * Return: 0, -EINVAL (not absolute), -ENOENT, -EACCES, -ELOOP (symlink leaves or loops), -EPERM (refused: the
 * message names the reason and remedy), -errno.
 */
int pin_open(const char *path, const struct pin_policy *policy, struct pin *ret, struct error *err)
        __attribute__((warn_unused_result));

/**
 * pin_check() - resolve the path again, component by component, and compare mount, device, inode, birth time,
 * type and owner
 * @ret: filled when it differs or is gone
 * Blocks (file system). Return: 0 same, -ESTALE (differs or is gone), another -errno (-EACCES, -EMFILE, ...):
 * it could not be told.
 */
int pin_check(const struct pin *pin, struct pin_change *ret) __attribute__((warn_unused_result));

/**
 * pin_reopen() - open the place of a pin that was made by another process, perhaps before the host was
 * started again
 * @pin: @path, @dev, @ino, @type; @btime_ns 0 and @owner (uid_t) -1: not known. The mount is not compared.
 * @ret: filled when it differs or is gone
 * Blocks (file system). Return: O_PATH descriptor (owned), -ESTALE (differs or is gone), -errno.
 */
int pin_reopen(const struct pin *pin, struct pin_change *ret) __attribute__((warn_unused_result));

/**
 * pin_follow() - let the pin of a file follow an editor, which puts a new file in the place of the old one
 * The new one must be a regular file with a single link, by the same owner, at the same place without
 * symlinks, in the same directory of the same mount, and not be refused by @policy. @pin->fd keeps its number
 * and stands for the new file then. Blocks (file system).
 * Return: 0, -ESTALE (something else is there, or nothing), -errno; @pin is unchanged on failure.
 */
int pin_follow(struct pin *pin, const struct pin_policy *policy) __attribute__((warn_unused_result));

/**
 * pin_hidden() - refused places below a pinned directory, relative to it, as rule patterns anchored with '/'
 * @ret: array of @ret_n strings and a final NULL, owned (free each and the array); empty when there are none
 * Return: 0, -ENOMEM.
 */
int pin_hidden(const struct pin *pin, const struct pin_policy *policy, char ***ret, size_t *ret_n)
        __attribute__((warn_unused_result));

/** pin_deinit() - close and free; accepts PIN_INIT */
void pin_deinit(struct pin *pin);
static inline void auto_pin_memo(struct pin_memo **p) {
        *p = pin_memo_free(*p);
}
#define AUTO_PIN_MEMO __attribute__((cleanup(auto_pin_memo)))
#define PIN_INIT \
        { .fd = -1 }
#define AUTO_PIN __attribute__((cleanup(pin_deinit)))
