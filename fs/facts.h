/*
 * facts.h - what a host object is: its attributes and the identity by which it is recognised
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

/** struct facts - one statx(2) */
struct facts {
        struct stat st;
        int64_t btime_ns; /* birth time; 0: the file system has none */
        /* what stat(2) inside shows the number of: the lower object that this one is a copy of; ino 0: itself
         */
        uint64_t shown_dev, shown_ino;
        bool loose; /* the attributes may be old ones: the server of the file system was not asked */
};

/**
 * facts_at() - look at @name in @dir_fd without following a link; "" is the object open as @dir_fd itself
 * A file system that is mounted at @name is not asked: the one of @dir_fd may be all right when that one does
 * not answer. A file system of the kernel (procfs and the like) that is mounted there is not shown.
 * Return: 0, -EACCES (that), -errno.
 */
int facts_at(int dir_fd, const char *name, struct facts *ret) __attribute__((warn_unused_result));

/** facts_same() - whether both describe one object: device, inode, type, and birth time where it is known */
bool facts_same(const struct facts *a, const struct facts *b);
