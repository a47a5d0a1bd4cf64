/*
 * probe-kit.h - what the probes share: the facts of the host, trying something in a child, naming the cause
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "drivers/native/probe.h"
#include "runtime/base/ctx.h"

/** struct probe_host - what files say about this host; read once, never a verdict by itself */
struct probe_host {
        const struct ctx *ctx;         /* borrowed */
        long long max_user_namespaces; /* the three: value of the sysctl, -1: no such file */
        long long unprivileged_clone;
        long long apparmor_restrict;
        long long seccomp_mode; /* of /proc/self/status: 2: a filter is in force; -1: unknown */
        bool selinux;           /* enforcing */
        bool no_proc;           /* /proc is not mounted */
        bool chrooted;          /* "/" is not where a mount begins */
        bool unmapped;          /* the caller's uid is none of its user namespace */
        bool no_setfcap;        /* CAP_SETFCAP is not in the bounding set */
        bool proc_masked;       /* something is mounted on parts of /proc */
        bool wsl;
        bool virtual_machine;
        char container[32];     /* "docker", "podman", "kubernetes", ..., "" */
        const char *mark;       /* the file or variable that says so; NULL: "container" */
        const char *stray_mark; /* such a file where no container can be; NULL: none */
};

/** struct probe_result - what an attempt found */
struct probe_result {
        int code;       /* 0 or the negative errno of the step that failed */
        bool fact;      /* @step says it all: @code is not a system call's */
        char step[96];  /* "fsopen(\"fuse\")" */
        char note[128]; /* evidence when it worked, or what else is worth knowing */
};

/** probe_try - does the real thing; fills @ret with result_note() or result_failed() */
typedef void probe_try(const struct probe_host *host, struct probe_result *ret);

enum { PROBE_CHILD_MS = 6000 }; /* an attempt that takes longer is killed and counts as -ETIMEDOUT */

/** probe_host_read() - fill @ret from /proc, /sys and the environment; what cannot be read stays unknown */
void probe_host_read(const struct ctx *ctx, struct probe_host *ret);

/** probe_read_text() - the first line of a small file into @buf. Return: 0 or -errno. */
int probe_read_text(const char *path, char *buf, size_t size);

/** probe_read_number() - the number in a small file, -1 when there is none */
long long probe_read_number(const char *path);

/**
 * probe_child() - run @try in a child made by clone(@flags), wait, and never longer than PROBE_CHILD_MS
 * @flags: CLONE_NEW* flags, 0: a plain child; with CLONE_NEWUSER the caller's ids are mapped to themselves
 * @try:   NULL: the namespaces alone are the test
 * Forks. The child and all it made are gone on return.
 */
void probe_child(const struct probe_host *host, uint64_t flags, probe_try *try, struct probe_result *ret);

/**
 * probe_idle_child() - a child in a user namespace of its own that does nothing until it is killed
 * For probes that map ids from outside. Forks. Return: pid, or -errno of clone.
 */
int probe_idle_child(void);

/** result_failed() - @code (negative) happened in the step @fmt */
void result_failed(struct probe_result *r, int code, const char *fmt, ...)
        __attribute__((format(printf, 3, 4)));

/** result_fact() - @fmt is the whole story; @code only chooses the remedy and is not shown */
void result_fact(struct probe_result *r, int code, const char *fmt, ...)
        __attribute__((format(printf, 3, 4)));

/** result_note() - it worked; evidence */
void result_note(struct probe_result *r, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/** probe_errno_name() - "EPERM" for -EPERM; static */
const char *probe_errno_name(int code);

/**
 * probe_blame() - who says no, when @step in a user namespace ended with @code
 * @step: as result_failed() has it; "" when it is not known
 * @cause, @remedy: static or inside @host; "" when nothing is known
 */
void probe_blame(const struct probe_host *host, const char *step, int code, const char **ret_cause,
                 const char **ret_remedy);

enum { PROBE_NAME_MAX = 64 };

/** probe_place_open() - the nearest directory that there is on the way to @path. Return: descriptor or
 * -errno. */
int probe_place_open(const char *path) __attribute__((warn_unused_result));

/**
 * probe_place_make() - a directory for a probe in @dir, which probe_sweep() leaves alone while it is open
 * @name: it got
 * Return: descriptor, -errno.
 */
int probe_place_make(int dir, char name[PROBE_NAME_MAX]) __attribute__((warn_unused_result));

/** probe_place_remove() - remove it with what a probe put there */
void probe_place_remove(int dir, const char *name);

/**
 * probe_store() - the row of an engine that keeps its images in @place, by @driver; both as somebody says
 * @place: absolute; need not be there yet
 */
void probe_store(const char *driver, const char *place, struct probe_result *ret);

/* the attempts, by file; each is a row of the table in probe.c */
probe_try try_user_namespace, try_loopback, try_nftables, try_uid_ranges;         /* probe-namespace.c */
probe_try try_fuse_device, try_fuse_mount, try_mount_api, try_tmpfs, try_overlay; /* probe-mount.c */
probe_try try_proc, try_pivot_root, try_openat2, try_idmap;                       /* probe-mount.c */
probe_try try_kernel, try_environment, try_linkage, try_programs, try_state_dir,
        try_devices;                                                              /* probe-system.c */
probe_try try_time_namespace, try_nesting, try_fuse_features, try_seccomp_notify; /* probe-feature.c */
probe_try try_docker, try_podman, try_podman_runtime, try_podman_limits, try_docker_daemon,
        try_docker_storage, try_podman_service;          /* probe-service.c */
probe_try try_podman_storage;                            /* probe-storage.c */
probe_try try_kubernetes_context, try_kubernetes_server; /* probe-service.c */
probe_try try_seccomp, try_landlock, try_cgroup;         /* probe-system.c */
probe_try try_limits;                                    /* probe-limits.c */
