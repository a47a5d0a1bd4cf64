/*
 * request.h - the shape of a message from /dev/fuse
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/**
 * request_check() - whether a message is as long as it says, and all that its operation reads is in it
 * @msg: @len bytes as read; aligned for struct fuse_in_header
 * libfuse takes the lengths and the NULs at the end of names from the message as they are: the kernel put
 * them there. This is the check of that; what a name or a number means is checked where it is used.
 * Operations that are not known pass: libfuse answers them with ENOSYS. Return: 0, -EINVAL.
 */
int request_check(const void *msg, size_t len) __attribute__((warn_unused_result));

/** request_wants_reply() - whether the kernel waits for an answer to a message whose header is complete */
bool request_wants_reply(const void *msg);
