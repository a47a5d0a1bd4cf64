/*
 * confine.h - what the process that unpacks may still do
 */
#pragma once

#include "runtime/base/error.h"

enum { CONFINE_MEMORY_BYTES = 512 << 20 };

/**
 * confine_unpack() - from now on this process can read open descriptors and change what is below @dir_fd
 * For good: no capability but those over files, no network, no program, no name outside of the directory, no
 * device but 0:0, no more memory than CONFINE_MEMORY_BYTES. Return: 0 or -errno with a message.
 */
int confine_unpack(int archive_fd, int dir_fd, struct error *err) __attribute__((warn_unused_result));
