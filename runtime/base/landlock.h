/*
 * landlock.h - which files a helper process of ours may open, whatever it is talked into
 *
 * Landlock judges the object that is opened, created, renamed or removed by the directories above it; it has
 * nothing to say about stat(2), chmod(2) and attributes.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/** enum landlock_use - what may be done with an object and everything below it */
enum landlock_use {
        LANDLOCK_READ,
        LANDLOCK_CHANGE,
        LANDLOCK_DEVICE,
        LANDLOCK_RUN,
        LANDLOCK_WORK,
        LANDLOCK_LAYER,
        LANDLOCK_USE_COUNT
};

/** struct landlock_place - an object by descriptor, O_PATH will do; -1: the entry is ignored */
struct landlock_place {
        int fd; /* borrowed */
        enum landlock_use use;
};

/**
 * landlock_confine() - from now on nothing outside @places can be opened or changed; sets no_new_privs
 * CHANGE makes, renames and removes what is no device, LAYER character devices too; DEVICE opens a device
 * node for reading, writing and ioctl; RUN is READ for programs too, WORK is CHANGE for programs too, nothing
 * else is executed. Where the kernel can, TCP, abstract sockets and signals to processes outside are refused
 * as well.
 * @connects: TCP connections to anywhere stay possible
 * Return: 0, -ENOTSUP (before Linux 5.19, which could not rename between directories, or switched off),
 * -errno.
 */
int landlock_confine(const struct landlock_place *places, size_t n, bool connects)
        __attribute__((warn_unused_result));
