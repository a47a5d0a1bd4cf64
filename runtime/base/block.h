/*
 * block.h - a command as it travels between processes: working directory, arguments and environment as
 * NUL-terminated strings, one after the other, in a memory file
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "runtime/base/buf.h"

enum { BLOCK_MAX_BYTES = 8 << 20 }; /* the kernel takes 6 MiB of arguments and environment at most */

/** struct block - the strings of one, split; made by block_read() */
struct block {
        char *data;      /* owned */
        char **vector;   /* owned: argv, NULL, env, NULL */
        const char *cwd; /* borrowed from @data, as all that follows */
        char **argv, **env;
};

/** struct block_size - what the receiver must be told beside the memory file */
struct block_size {
        uint32_t argc, envc;
        uint32_t bytes;
};

/** block_put() - append the strings of @vector (NULL-terminated; NULL: none) with their NULs, counting them
 * in @n. Return: 0, -ENOMEM, -E2BIG. */
int block_put(struct buf *b, const char *const *vector, uint32_t *n) __attribute__((warn_unused_result));

/** block_fd() - a memory file that holds @b. Return: owned descriptor or -errno. */
int block_fd(const struct buf *b) __attribute__((warn_unused_result));

/**
 * block_read() - read and split a block; every number and byte of it is checked
 * @fd:  read from its beginning, borrowed; one that shrinks or grows meanwhile is refused or cut
 * @ret: caller frees with block_deinit(), also after a failure
 * Return: 0, -EPROTO (no argument, sizes that do not fit, no final NUL), -ENOMEM.
 */
int block_read(int fd, const struct block_size *size, struct block *ret) __attribute__((warn_unused_result));

void block_deinit(struct block *block);
#define AUTO_BLOCK __attribute__((cleanup(block_deinit)))
