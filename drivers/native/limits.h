/*
 * limits.h - what the work may use, by the strongest means the host has: a control group, else rlimits
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>

#include "drivers/native/cgroup.h"
#include "runtime/spec/spec.h"

/** struct native_limits - what is wanted; 0: no limit */
struct native_limits {
        struct cgroup_limits group;
        uint64_t open_files, file_size; /* of one process; bytes */
        bool degrade;                   /* weaker means will do */
        bool no_cgroup;                 /* the host has none: nobody tries */
        const char *engine;             /* which container engine limits the group; static, NULL: we do */
};

/** struct limits - how it is enforced in one sandbox; embedded */
struct limits {
        const struct native_limits *wanted; /* borrowed */
        struct cgroup cgroup;
        bool weak_memory; /* rlimit of each process's data */
        bool weak_pids;   /* rlimit of the user's processes in the sandbox */
        bool weak_cpus;   /* fewer processors */
        char why[ERROR_MSG_MAX];
};
#define LIMITS_INIT \
        { .cgroup = CGROUP_INIT }

/** limits_plan() - from the specification. Return: 0, -EINVAL (above what the caller has), with a message. */
int limits_plan(const struct spec *spec, struct native_limits *ret, struct error *err)
        __attribute__((warn_unused_result));

/**
 * limits_open() - choose the means; makes control groups
 * @ret: after LIMITS_INIT; limits_close() is due in any case
 * Return: 0, -ENOTSUP with cause and remedy, -errno.
 */
int limits_open(const struct native_limits *wanted, const char *run_id, struct limits *ret, struct error *err)
        __attribute__((warn_unused_result));

/** limits_inherit() - in the sandbox's first process: what its children inherit. Return: 0 or -errno with a
 * message. */
int limits_inherit(const struct limits *limits, struct error *err) __attribute__((warn_unused_result));

/** limits_report() - "limits", "cgroups" and "degraded" for the state of the run; new reference, NULL:
 * nothing is limited */
json_t *limits_report(const struct limits *limits) __attribute__((warn_unused_result));

/** limits_close() - remove the control groups, which must be empty or about to be; accepts LIMITS_INIT */
void limits_close(struct limits *limits);

/** limits_reap() - remove the groups of a run that died before it could report them */
void limits_reap(const char *run_id);
