/*
 * listen.h - the places where the service is reached: host:port or unix:PATH
 */
#pragma once

#include <stdbool.h>

#include "runtime/base/error.h"

enum { LISTEN_TEXT_MAX = 160 };

/**
 * listen_open() - make a listening socket
 * @where:    "ADDRESS:PORT", "localhost:PORT", ":PORT" (every address) or "unix:PATH"; port 0: any that is
 *            free
 * @ret_fd:   owned, non-blocking
 * @ret_text: where it is reached, with the port that it got
 *
 * A socket file that nobody listens on any more is replaced; a new one is the user's alone (0600).
 *
 * Return: 0, -EINVAL, -EADDRINUSE, -EACCES, -errno.
 */
int listen_open(const char *where, int *ret_fd, char ret_text[LISTEN_TEXT_MAX], struct error *err)
        __attribute__((warn_unused_result));

/** listen_is_unix() - the path of "unix:PATH", borrowed; NULL: @where is no such place */
const char *listen_is_unix(const char *where);
