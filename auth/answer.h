/*
 * answer.h - answers of the service itself
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "runtime/base/buf.h"

/** struct answer - what is said; strings borrowed */
struct answer {
        unsigned int status;
        const char *type; /* of the body; NULL: no body */
        const char *body;
        size_t body_len;
        const char *allow; /* 405: the methods that there are; NULL: none to name */
};

/** answer_write() - append head and body. @head_only: the request was HEAD; @keep: the connection stays open.
 * Return: 0, -ENOMEM, -E2BIG. */
int answer_write(struct buf *out, const struct answer *answer, bool head_only, bool keep)
        __attribute__((warn_unused_result));

/** answer_error() - the JSON that clients of the model API read errors from. Return: owned, free(); NULL when
 * out of memory. */
char *answer_error(const char *kind, const char *message) __attribute__((warn_unused_result));

/** answer_reason() - the phrase for a status, static, "" for one that is seldom */
const char *answer_reason(unsigned int status);
