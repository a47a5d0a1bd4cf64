/*
 * fdpass.h - one message with descriptors over a unix SOCK_SEQPACKET socket
 */
#pragma once

#include <stddef.h>

enum { FDPASS_MAX = 8 };

/** fdpass_pair() - a connected SOCK_SEQPACKET pair, close-on-exec. Return: 0 or -errno. */
int fdpass_pair(int ret_fds[2]) __attribute__((warn_unused_result));

/**
 * fdpass_send() - send @len bytes and @n descriptors (0..FDPASS_MAX) as one message
 * Blocks unless the socket is non-blocking; no SIGPIPE. Return: 0, -EPIPE (peer gone), -EMSGSIZE, -errno.
 */
int fdpass_send(int sock, const void *data, size_t len, const int *fds, size_t n)
        __attribute__((warn_unused_result));

/**
 * fdpass_recv() - receive one message
 * @size:    room in @data; a longer message is -EMSGSIZE (its descriptors are closed)
 * @ret_len: bytes received
 * @fds:     room for @max descriptors, close-on-exec, owned by the caller; more than @max is -EMSGSIZE
 * @ret_n:   descriptors received; NULL when @max is 0
 * Blocks unless the socket is non-blocking. Return: 0, -ECONNRESET (peer closed), -EAGAIN, -EMSGSIZE, -errno.
 */
int fdpass_recv(int sock, void *data, size_t size, size_t *ret_len, int *fds, size_t max, size_t *ret_n)
        __attribute__((warn_unused_result));
