/*
 * confine.h - what the process that unpacks may still do
 */
#pragma once

#include "runtime/base/error.h"

/**
 * confine_unpack() - from now on this process can read open descriptors and change what is below @dir_fd; for
 * good No capability but those over files, no network, no program, no name outside of the directory, no
 * device but 0:0. Return: 0 or -errno with a message.
 */
int confine_unpack(int archive_fd, int dir_fd, struct error *err) __attribute__((warn_unused_result));
