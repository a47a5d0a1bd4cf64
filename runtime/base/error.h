/*
 * error.h - caller-owned error messages, no heap
 *
 * A function that fails returns a negative errno and describes the failure in the caller's struct error.
 * The origin calls error_set(); a caller that knows more (which file, which key) adds it with error_wrap().
 */
#pragma once

enum { ERROR_MSG_MAX = 1024 };

/**
 * struct error - the message chain of one failure
 * @code: negative errno of the root cause, 0 = none
 * @msg:  "outermost: ...: root cause", one line, cut at the end when it is too long
 */
struct error {
        int code;
        char msg[ERROR_MSG_MAX];
};

/**
 * error_set() - describe a failure at its origin
 * @err:  borrowed, NULL allowed
 * @code: negative errno
 * @fmt:  printf format of one line without a final newline; quote outsider strings with escape_str()
 *
 * Keeps errno. Return: @code.
 */
int error_set(struct error *err, int code, const char *fmt, ...) __attribute__((format(printf, 3, 4), cold));

/**
 * error_wrap() - put "fmt: " in front of a message
 * @err:  borrowed, NULL allowed
 * @r:    the negative errno to hand on; the root code in @err is kept
 * @fmt:  printf format
 *
 * Keeps errno. Return: @r, unchanged.
 */
int error_wrap(struct error *err, int r, const char *fmt, ...) __attribute__((format(printf, 3, 4), cold));
