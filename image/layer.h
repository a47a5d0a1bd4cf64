/*
 * layer.h - a layer's tar archive becomes a directory in the form that overlayfs takes
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "runtime/spec/ref.h"

enum { LAYER_PATH_MAX = 4095, LAYER_DEPTH_MAX = 256, LAYER_ENTRIES_MAX = 4000000, LAYER_XATTR_MAX = 65536 };

/** struct layer_limits - what a layer may take */
struct layer_limits {
        uint64_t bytes;   /* of all files */
        uint64_t entries; /* of the archive */
};

/** layer_fits() - whether an archive of @size bytes, compressed or not, may hold a layer within @limits */
bool layer_fits(const struct layer_limits *limits, uint64_t size);

/** struct layer_request - what layer_apply() does */
struct layer_request {
        int archive_fd;  /* tar, also compressed by gzip or zstd; read from its position on */
        int dir_fd;      /* an empty directory; O_RDONLY */
        bool owners;     /* files belong to whom the archive says, else to this process */
        uint32_t id_max; /* the highest id that can be given, with @owners */
        struct layer_limits limits;
};

/** struct layer_result - what it was */
struct layer_result {
        char diff_id[DIGEST_TEXT_LEN + 1]; /* of the archive, uncompressed */
        uint64_t bytes;                    /* of its files */
        uint64_t entries;
        uint64_t devices; /* that were left out */
};

/**
 * layer_apply() - unpack
 *
 * Nothing outside @dir_fd is touched, whatever the archive says: every parent is opened beneath it without
 * following a link, and what is made is made in that descriptor. A later entry of a name replaces an earlier
 * one. What removes a name of the layers below becomes a device 0:0 and "user.overlay.opaque". Devices are
 * left out. Blocks. Return: 0, -EBADMSG (no archive, or a damaged one), -EPERM (a name or link that leads
 * outside), -EFBIG (more than the limits), -EOVERFLOW (an owner that cannot be given), -ENOSPC and others of
 * the file system.
 */
int layer_apply(const struct layer_request *request, struct layer_result *ret, struct error *err)
        __attribute__((warn_unused_result));

/**
 * layer_name() - where an entry belongs
 * @name: foreign, NUL-terminated
 * @out:  at least LAYER_PATH_MAX + 1 bytes: relative, without "." and empty parts; "" is the root
 * Return: 0, -EPERM (".." in it), -ENAMETOOLONG.
 */
int layer_name(const char *name, char *out) __attribute__((warn_unused_result));
