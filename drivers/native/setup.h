/*
 * setup.h - building the sandbox: shared by the supervisor's side (native.c) and the child's (sandbox.c,
 * init.c)
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "drivers/native/plan.h"
#include "drivers/native/proto.h"
#include "drivers/native/seccomp.h"
#include "runtime/base/trace.h"

enum { OS_DIRS_MAX = 32 };

/** struct setup - what the child needs to build the sandbox; everything borrowed from the parent by fork */
struct setup {
        const struct driver_plan *plan;
        const char *run_id;
        int sock;               /* SOCK_SEQPACKET to the supervisor */
        int fuse_sock;          /* SOCK_SEQPACKET to fsd: takes the FUSE descriptor */
        int os_fd[OS_DIRS_MAX]; /* idmapped clones of os_dirs() that root made; -1: the child clones */
        bool mask;              /* root without idmapped clones: hide its files by name */
        struct seccomp_program filter;
        struct trace trace;
        /* made by the stages */
        int host_fd; /* "/" of the host */
        int root_fd; /* the new root */
        int fuse_fd; /* the FUSE mount */
};

/**
 * sandbox_main() - the child: build the sandbox, then serve commands
 * Runs in the namespaces that clone(2) made. Never returns.
 */
_Noreturn void sandbox_main(struct setup *setup);

/** init_serve() - pid 1: reap, start commands, until the supervisor goes. Never returns. */
_Noreturn void init_serve(int sock);

/** landlock_can_scope() - whether landlock_scope() will work on this kernel */
bool landlock_can_scope(void);

/**
 * landlock_scope() - no signals and abstract sockets beyond the sandbox (Linux 6.12); needs no_new_privs
 * Return: 0, -ENOTSUP (an older kernel), -errno.
 */
int landlock_scope(void);

/** confine_caps() - drop every capability from every set. Return: 0 or -errno. */
int confine_caps(void);

/**
 * confine_memory() - overwrite the environment and arguments that this process inherited
 * @title: what ps(1) shows after the program's name; at most 15 bytes
 * /proc/PID/cmdline can be read by everyone who sees the process, whatever its dumpable flag says.
 */
void confine_memory(const char *title);

/**
 * confine_fds() - close every descriptor but 0..2 and @keep
 * @keep: @n descriptors in any order; negative ones are ignored
 */
void confine_fds(const int *keep, size_t n);

/** rootmap_clones() - for a root caller: clones of os_dirs() on which no file belongs to uid 0
 * @ret_fd: OS_DIRS_MAX entries, all set; owned by the caller
 * Return: 0, or -errno: the host cannot (all entries are -1 then).
 */
int rootmap_clones(int *ret_fd);

/** struct seed_result - what was copied */
struct seed_result {
        uint64_t bytes;
        unsigned int files;
        char sha256[65]; /* of a seed that is a file, in hex; "" for a directory */
};

/** seed_copy() - copy a seed to its target below @root_fd. Return: 0, -EFBIG, -E2BIG, -errno. */
int seed_copy(int root_fd, const struct native_seed *seed, struct seed_result *ret, struct error *err);
