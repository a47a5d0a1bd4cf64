/*
 * unpack.h - a tar stream of a sandbox's copy, read into a landing; the stream is hostile
 */
#pragma once

#include <sys/types.h>

#include "kubernetes/workspace/landing.h"

/**
 * unpack_source - where the archive comes from
 * @ret: receives bytes that live until the next call. Return: how many; 0: the end; -errno, which ends it.
 */
typedef ssize_t (*unpack_source)(void *arg, const void **ret);

/**
 * unpack_stream() - read the archive of @source to its end
 * Files, directories and symbolic links land; hard links, devices, FIFOs and sockets are skipped, and so is
 * what cannot be named. No compression is understood: a bomb has to be sent. Names are taken as UTF-8 or as
 * the bytes they are in the locale C.UTF-8, which the caller has set. Blocks.
 * Return: 0, -EBADMSG (no archive, or cut in the middle of a member), -EAGAIN (the host's own version changed
 * while it was compared), what @source returned, or as the functions of landing.h, with a message.
 */
int unpack_stream(unpack_source source, void *arg, struct landing *landing, struct error *err)
        __attribute__((warn_unused_result));
