/*
 * suggest.h - the nearest known name, for "unknown option '--netwrok': did you mean '--network'?"
 */
#pragma once

#include <stddef.h>

/**
 * suggest_name() - the entry of @names nearest to @word
 * @names: array of @n strings, NULL entries are passed over
 *
 * Return: borrowed from @names; NULL when none is near (distance above a third of the length, at least 2).
 */
const char *suggest_name(const char *word, const char *const *names, size_t n);
