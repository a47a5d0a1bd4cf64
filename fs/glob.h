/*
 * glob.h - patterns for one path component, bytewise, without locale and without exponential cost
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "runtime/base/error.h"

/**
 * glob_check() - whether @len bytes of @pat are a pattern for one component
 * @ret_literal: no wildcard in it
 * Return: 0, -EINVAL (message: the reason without the pattern): unclosed '[', empty class, "[:alpha:]", range
 * backwards, lone '\' at the end.
 */
int glob_check(const char *pat, size_t len, bool *ret_literal, struct error *err)
        __attribute__((warn_unused_result));

/** glob_unescape() - @pat (a literal as glob_check() says) without its backslashes. @out: room for @len
 * bytes. Return: bytes written. */
size_t glob_unescape(const char *pat, size_t len, char *out);

/**
 * glob_match() - whether the whole name matches a pattern that passed glob_check()
 * Cost: at most name length times pattern length steps.
 */
bool glob_match(const char *pat, size_t pat_len, const char *name, size_t name_len);

/** glob_class_end() - length of the class that begins at @pat ('['), with both brackets; 0: it is not closed
 */
size_t glob_class_end(const char *pat, size_t len);
