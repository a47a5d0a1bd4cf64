/*
 * landing.h - what came back from a copy of the workspace, written into an upper as fs/layer.h describes it
 *
 * Only what differs from the host's version is kept, so the upper then holds the changes of the run: diff,
 * apply and the landing of the run judge them like those of any other driver. Nothing is written outside the
 * upper, whatever the archive says: every parent is opened there component by component without following.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include "kubernetes/workspace/paths.h"
#include "runtime/base/error.h"

struct landing;

/** struct landing_limits - bounds of one export; a member that reaches one ends it */
struct landing_limits {
        uint64_t bytes_max;   /* of all files together, holes included */
        uint64_t members_max; /* of all kinds, refused ones included */
};

/** LANDING_LIMITS_DEFAULT - 64 GiB, two million members */
#define LANDING_LIMITS_DEFAULT ((struct landing_limits){ 64ULL << 30, 2000000 })

/** struct landing_options - everything borrowed until landing_free() */
struct landing_options {
        int upper_fd;     /* an empty directory */
        int lower_fd;     /* the host's workspace, open for reading */
        const char *root; /* its absolute path when that is the path inside, too; else NULL */
        struct landing_limits limits;
        const struct paths *sent; /* sealed: what the copy held at the start; NULL: nothing is deleted */
        const struct paths *kept; /* what was there and not sent: it is not deleted; NULL: nothing */
        /* a member that was passed over; @path: as the archive has it, hostile bytes */
        void (*skipped)(void *arg, const char *path, const char *why);
        void *arg;
};

/** struct landing_counts - what there was */
struct landing_counts {
        uint64_t members, bytes;
        uint64_t changed, deleted; /* paths that the upper now holds */
        uint64_t skipped;          /* refused members */
};

/** landing_new() - @ret: freed by landing_free(). Return: 0, -ENOMEM. */
int landing_new(const struct landing_options *opt, struct landing **ret) __attribute__((warn_unused_result));
struct landing *landing_free(struct landing *landing);

/**
 * landing_dir() / landing_link() - a directory or symbolic link called @raw by the archive
 * A refused one is told to skipped() and is no failure. Return: 0, -E2BIG (a limit), -ENOSPC, -errno.
 */
int landing_dir(struct landing *landing, const char *raw, const struct stat *st, struct error *err)
        __attribute__((warn_unused_result));
int landing_link(struct landing *landing, const char *raw, const char *target, struct error *err)
        __attribute__((warn_unused_result));

/**
 * landing_file() - a regular file begins; landing_data() brings it, landing_file_end() puts it in its place
 * @st: mode, size and modification time count
 * @ret_wanted: false: it is refused, its data need not be read; neither of the others is to be called then
 * Return: as landing_dir().
 */
int landing_file(struct landing *landing, const char *raw, const struct stat *st, bool *ret_wanted,
                 struct error *err) __attribute__((warn_unused_result));
int landing_data(struct landing *landing, uint64_t offset, const void *data, size_t len, struct error *err)
        __attribute__((warn_unused_result));
int landing_file_end(struct landing *landing, struct error *err) __attribute__((warn_unused_result));

/** landing_skip() - a member of a kind that never lands; what the host has of that name stays. Return: as
 * landing_dir(). */
int landing_skip(struct landing *landing, const char *raw, const char *why, struct error *err)
        __attribute__((warn_unused_result));

/**
 * landing_finish() - the archive was whole: record what was sent and did not come back as deleted, set the
 * times of directories
 * Not to be called for an archive that may be cut short. Return: 0, -errno with a message.
 */
int landing_finish(struct landing *landing, struct landing_counts *ret, struct error *err)
        __attribute__((warn_unused_result));

static inline void auto_landing(struct landing **p) {
        *p = landing_free(*p);
}
#define AUTO_LANDING __attribute__((cleanup(auto_landing)))
