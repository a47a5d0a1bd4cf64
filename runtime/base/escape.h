/*
 * escape.h - outsider strings made fit for one line of a log, a message or JSON
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/**
 * escape_str() - @s with control bytes, backslash and invalid UTF-8 as \n, \t or \xNN, in the caller's buffer
 * @s:    NUL-terminated, any bytes
 * @out:  receives the text, always terminated; "..." at the end says that it was cut
 * @size: bytes of @out, at least 8
 *
 * Async-signal-safe. Return: @out.
 */
const char *escape_str(const char *s, char *out, size_t size);

/** ESC() - escape_str() into a scratch buffer that lives until the end of the enclosing block. */
#define ESC(s) escape_str((s), (char[256]){ 0 }, 256)

/** utf8_valid() - whether @len bytes are UTF-8 (RFC 3629: no surrogates, nothing above U+10FFFF, shortest
 * form) */
bool utf8_valid(const char *s, size_t len);
