/*
 * buf.h - a growing string with a ceiling
 */
#pragma once

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

/**
 * struct buf - bytes, always followed by a NUL that does not count
 * @data: owned; NULL while empty
 * @len:  bytes in use
 * @cap:  bytes allocated
 * @max:  ceiling of @len in bytes, 0 = BUF_MAX_DEFAULT
 */
struct buf {
        char *data;
        size_t len;
        size_t cap;
        size_t max;
};

enum { BUF_MAX_DEFAULT = 64 << 20 };

/**
 * buf_add() - append @len bytes
 * Return: 0, -ENOMEM, or -E2BIG (ceiling reached; the buffer is unchanged).
 */
int buf_add(struct buf *b, const void *data, size_t len) __attribute__((warn_unused_result));

/** buf_str() - append a C string. Return: as buf_add(). */
int buf_str(struct buf *b, const char *s) __attribute__((warn_unused_result));

/** buf_fmt() - append formatted text. Return: as buf_add(). */
int buf_fmt(struct buf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3), warn_unused_result));

/** buf_cstr() - the content as a C string, borrowed; "" while empty. */
const char *buf_cstr(const struct buf *b);

/** buf_take() - the content as an owned C string, NULL when nothing was ever added; @b is empty afterwards.
 */
char *buf_take(struct buf *b);

/** buf_deinit() - free the content; keeps errno. */
void buf_deinit(struct buf *b);

#define AUTO_BUF __attribute__((cleanup(buf_deinit)))
