/*
 * cgroup.h - a control group of the sandbox's own: version 2 where it is delegated to the caller, version 1
 * for root
 *
 * With version 2 the group is made beside the caller's (a systemd user session delegates the directory
 * above), or below it when nothing but this run is in it (a scope or service with Delegate=yes). A group is
 * never used twice: one that was killed kills whoever is cloned into it later (Linux 6.18).
 */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "runtime/base/error.h"

/* in the order of struct cgroup's version 1 directories */
enum cgroup_controller { CGROUP_MEMORY, CGROUP_PIDS, CGROUP_CPU, CGROUP_CONTROLLER_COUNT };

/** struct cgroup_limits - what is wanted; 0: no limit */
struct cgroup_limits {
        uint64_t memory_bytes;
        uint64_t pids;
        uint64_t cpu_milli; /* thousandths of a processor */
};

/** struct cgroup - the groups of one sandbox; embedded */
struct cgroup {
        unsigned int version; /* 0: none */
        struct {
                int parent_fd, fd;       /* owned, -1: none */
                char path[512];          /* for reports */
        } dirs[CGROUP_CONTROLLER_COUNT]; /* version 2: the first only */
        char name[64];
};
#define CGROUP_DIR_INIT \
        { .parent_fd = -1, .fd = -1 }
#define CGROUP_INIT                                                           \
        {                                                                     \
                .dirs = { CGROUP_DIR_INIT, CGROUP_DIR_INIT, CGROUP_DIR_INIT } \
        }

/** struct cgroup_usage - what the kernel counted */
struct cgroup_usage {
        uint64_t peak_bytes; /* 0: not known */
        uint64_t oom_kills;
};

/**
 * cgroup_make() - make groups with these limits
 * @root: "/sys/fs/cgroup"; tests give their own
 * @self: content of /proc/self/cgroup
 * @run_id: for the name
 * Return: 0, -ENOTSUP with a message that says why no group can be used, -errno.
 */
int cgroup_make(const char *root, const char *self, const struct cgroup_limits *limits, const char *run_id,
                struct cgroup *ret, struct error *err) __attribute__((warn_unused_result));

/**
 * cgroup_watch() - somebody else's memory group, for cgroup_usage()
 * @self: content of /proc/PID/cgroup of a process in it
 * Return: 0, -ENOENT (it is in none), -errno.
 */
int cgroup_watch(const char *root, const char *self, struct cgroup *ret) __attribute__((warn_unused_result));

/** cgroup_enter() - move the process @pid with its future children in. Return: 0 or -errno. */
int cgroup_enter(const struct cgroup *cg, pid_t pid) __attribute__((warn_unused_result));

/** cgroup_usage() - the counters; all 0 without a memory group */
struct cgroup_usage cgroup_usage(const struct cgroup *cg);

/** cgroup_remove() - remove the groups, which must be empty or about to be; accepts CGROUP_INIT */
void cgroup_remove(struct cgroup *cg);

/** cgroup_reap() - remove the group at @path (a report's) of a run that died. Return: 0, -ENOENT, -EBUSY,
 * -errno. */
int cgroup_reap(const char *path) __attribute__((warn_unused_result));

/**
 * cgroup_reap_run() - remove the groups of a run that died before it could report them
 * They are looked for where cgroup_make() makes them for a caller in the same group.
 */
void cgroup_reap_run(const char *root, const char *self, const char *run_id);
