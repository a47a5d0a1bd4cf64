/*
 * digest.h - sha256, as "sha256:HEX"
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "runtime/spec/ref.h"

struct digest;

/** digest_new() - start one. Return: NULL: out of memory. */
struct digest *digest_new(void) __attribute__((warn_unused_result));
/** digest_add() - more bytes. Return: 0, -EIO. */
int digest_add(struct digest *d, const void *data, size_t len) __attribute__((warn_unused_result));
/** digest_end() - what they have; nothing can be added after that. Return: 0, -EIO. */
int digest_end(struct digest *d, char ret[static DIGEST_TEXT_LEN + 1]) __attribute__((warn_unused_result));
/** digest_free() - accepts NULL. Return: NULL. */
struct digest *digest_free(struct digest *d);

/** digest_bytes() - that of @len bytes. Return: 0, -ENOMEM, -EIO. */
int digest_bytes(const void *data, size_t len, char ret[static DIGEST_TEXT_LEN + 1])
        __attribute__((warn_unused_result));

/** digest_file() - that of a file from its start; @ret_size: bytes it has. Blocks. Return: 0, -ENOMEM, -errno
 * of read(2). */
int digest_file(int fd, char ret[static DIGEST_TEXT_LEN + 1], uint64_t *ret_size)
        __attribute__((warn_unused_result));

static inline void auto_digest(struct digest **p) {
        *p = digest_free(*p);
}
#define AUTO_DIGEST __attribute__((cleanup(auto_digest)))
