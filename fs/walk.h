/*
 * walk.h - a host path resolved by ourselves, one component at a time
 */
#pragma once

#include <stdint.h>
#include <sys/types.h>

enum { WALK_LINKS_MAX = 40 /* as the kernel's */ };

/** struct walk_id - which object a descriptor stands for */
struct walk_id {
        uint64_t mnt_id; /* unique since Linux 6.8, else reused after unmount */
        uint64_t dev, ino;
        int64_t btime_ns; /* 0: not known */
        mode_t mode;
        uid_t owner;
        uint32_t links; /* hard links */
};

/** struct walk - where a path led */
struct walk {
        int fd;         /* O_PATH, owned; never a symlink */
        int dir_fd;     /* O_PATH, owned: the directory in which it was found; of "/" itself */
        char *real;     /* the same place without symlinks, owned */
        unsigned links; /* symlinks followed */
};

/**
 * walk_path() - resolve the absolute @path; every component is opened without following and looked at through
 * its descriptor, so no name is looked up twice
 * Links on procfs (all that a kernel can make magic) are not followed. A directory that an automounter
 * answers for is mounted, as by any open(2). Blocks (file system).
 * @ret: caller frees with walk_deinit(); written on success only
 * Return: 0, -EINVAL (not absolute), -ENOENT, -ENOTDIR, -EACCES, -ELOOP, -ENAMETOOLONG, -errno.
 */
int walk_path(const char *path, struct walk *ret) __attribute__((warn_unused_result));

/** walk_identify() - the identity of @fd (O_PATH allowed). Return: 0 or -errno. */
int walk_identify(int fd, struct walk_id *ret) __attribute__((warn_unused_result));

void walk_deinit(struct walk *walk);
#define WALK_INIT \
        { .fd = -1, .dir_fd = -1 }
#define AUTO_WALK __attribute__((cleanup(walk_deinit)))
