/*
 * setup.h - building the sandbox: shared by the supervisor's side (native.c) and the child's (sandbox.c,
 * init.c)
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "drivers/driver.h"
#include "drivers/native/plan.h"
#include "drivers/native/proto.h"
#include "drivers/native/seccomp.h"
#include "runtime/base/trace.h"

enum { OS_DIRS_MAX = 32 };

/** struct uppers - the directories that take the work's changes, by region; owned, -1: none */
struct uppers {
        int upper[PLAN_REGIONS_MAX];
        int work[PLAN_REGIONS_MAX];   /* overlayfs's own */
        int memory[PLAN_REGIONS_MAX]; /* the tmpfs that both are in; its end would detach them */
};

/** uppers_init(), uppers_deinit() - nothing; close everything */
void uppers_init(struct uppers *uppers);
void uppers_deinit(struct uppers *uppers);

/**
 * uppers_make() - the directories of a run, each taken for this run alone
 * @upper_fd, @run_fd: see struct start_request; borrowed
 * @ret: after uppers_init(); what was made stays in it also on failure
 * Return: 0, -EBUSY (another run has one of them), -errno.
 */
int uppers_make(const struct driver_plan *plan, int upper_fd, int run_fd, struct uppers *ret)
        __attribute__((warn_unused_result));

/** upper_take() - "@index" in @dir, made when missing. Return: owned, -EBUSY (somebody writes to it), -errno.
 */
int upper_take(const struct native_id *id, int dir, size_t index) __attribute__((warn_unused_result));

/** uppers_enter() - in the child: what overlayfs is given becomes a directory of this mount namespace.
 * Return: 0, -ESTALE (its path leads somewhere else now), -errno. */
int uppers_enter(const struct driver_plan *plan, struct uppers *uppers) __attribute__((warn_unused_result));

/**
 * uppers_in_memory() - in the child, as the user who works: a tmpfs for each region that asks for one
 * @fuse_sock: takes those the file server writes to: the region's index as uint32_t and the descriptor
 * Return: 0 or -errno.
 */
int uppers_in_memory(const struct driver_plan *plan, struct uppers *uppers, int fuse_sock)
        __attribute__((warn_unused_result));

/** region_keeps() - whether changes of the region can stay in an upper */
bool region_keeps(const struct native_region *region);

/**
 * host_reopen() - the directory or file @fd by its path, in the mount namespace of the caller
 * @path: absolute, without symlinks
 * Return: O_PATH descriptor, owned; -ESTALE (it is another one), -ELOOP, -errno.
 */
int host_reopen(int fd, const char *path) __attribute__((warn_unused_result));

/** struct sockets - unix sockets of the host that would be seen inside: absolute paths there; owned */
struct sockets {
        char **paths;
        size_t n;
};

/**
 * sockets_list() - those that are bound now (sockets.c)
 * To be called in the host's network namespace. @ret: caller frees with sockets_free()
 * Return: 0, -E2BIG, -ENOMEM, -errno with a message.
 */
int sockets_list(const struct driver_plan *plan, struct sockets *ret, struct error *err)
        __attribute__((warn_unused_result));
void sockets_free(struct sockets *list);

/** struct setup - what the child needs to build the sandbox; everything borrowed from the parent by fork */
struct setup {
        const struct driver_plan *plan;
        const char *run_id;
        int sock;                      /* SOCK_SEQPACKET to the supervisor */
        int fuse_sock;                 /* SOCK_SEQPACKET to fsd: takes the FUSE descriptor */
        int net_sock;                  /* for net_listen(); -1: nobody wants them */
        int relay_sock;                /* for net_relay(); -1: nobody wants it */
        int layer_fd[ROOT_LAYERS_MAX]; /* of plan->root */
        int os_fd[OS_DIRS_MAX];        /* idmapped clones of os_dirs() that root made; -1: the child clones */
        bool mask;                     /* root without idmapped clones: hide its files by name */
        struct uppers uppers;
        struct sockets sockets; /* to cover */
        const struct limits *limits;
        const struct file_secret *secrets;
        size_t n_secrets;
        struct seccomp_program filter;
        struct trace trace;
        /* made by the stages */
        const char *explain; /* what failed, for probe_explain(); NULL: what the stage is called; static */
        int host_fd;         /* "/" of the host */
        int proc_fd;         /* "/proc" of the host, until the sandbox's own is there */
        int root_fd;         /* the new root */
        int fuse_dev;        /* /dev/fuse, opened earlier; -1: stage_fuse() does */
        int fuse_fd;         /* the FUSE mount */
        int sealed_fd;       /* what pid 1 executes before it serves; -1: it goes on as it is */
};

/**
 * stage_fuse(), stage_places(), stage_files(), stage_secrets() - stages of sandbox.c that furnish a container
 * too: the guard's file system; home, temporary directories and regions; files of ours and seeds. Each says
 * there what it must. Return: 0 or -errno with a message.
 */
int stage_fuse(struct setup *s, struct error *err) __attribute__((warn_unused_result));
int stage_places(struct setup *s, struct error *err) __attribute__((warn_unused_result));
int stage_files(struct setup *s, struct error *err) __attribute__((warn_unused_result));
int stage_secrets(struct setup *s, struct error *err) __attribute__((warn_unused_result));

/** setup_put_file() - a file of ours at its target, over what is there. Return: 0 (also when there is no
 * place for it), -errno. */
int setup_put_file(const struct setup *s, const struct native_file *file) __attribute__((warn_unused_result));

/** setup_give_up() - tell the supervisor that @stage failed, and end this process. Never returns. */
_Noreturn void setup_give_up(const struct setup *s, const char *stage, const struct error *err);

/** signals_reset() - what whoever started us ignored (nohup, a shell without job control) is not ignored
 * inside */
void signals_reset(void);

/** hide() - cover the file or directory @path below the new root. Return: 0 (also when there is none),
 * -errno. */
int hide(const struct setup *s, const char *path) __attribute__((warn_unused_result));

/** stage_sockets() - cover the host's sockets. Must: come after what shows them. Return: 0 or -errno with a
 * message. */
int stage_sockets(struct setup *s, struct error *err) __attribute__((warn_unused_result));

/**
 * sandbox_main() - the child: build the sandbox, then serve commands
 * Runs in the namespaces that clone(2) made. Never returns.
 */
_Noreturn void sandbox_main(struct setup *setup);

/**
 * init_serve() - pid 1: reap, start commands, until the supervisor goes
 * @profile: what the commands live under besides pid 1's own filter; len 0: nothing
 * @env: variables of the root, which each command has where it is not given others; NULL: none
 * Never returns.
 */
_Noreturn void init_serve(int sock, const struct profile_program *profile, char *const *env);

/** landlock_can_scope() - whether the @scope of landlock_work() will work on this kernel */
bool landlock_can_scope(void);

/**
 * landlock_work() - what landlock keeps from the work; in the new root, needs no_new_privs
 * @programs: nothing is executed that is not below "/" (Linux 5.19)
 * @scope: no signals and abstract sockets beyond the sandbox (Linux 6.12); an older kernel does without
 * Return: 0, -ENOTSUP (an older kernel has no @programs), -errno.
 */
int landlock_work(bool programs, bool scope) __attribute__((warn_unused_result));

/**
 * sealed_copy() - a copy in memory of the executable of this process, which nobody can change
 * @ret_fd: untouched when no process with our ids could change the executable itself
 * Return: 0, -errno of memfd_create(2) and of copying.
 */
int sealed_copy(int *ret_fd) __attribute__((warn_unused_result));

/** sealed_exec() - go on as native_init() in @copy_fd. Return: -errno when that failed. */
int sealed_exec(int copy_fd, int sock, const struct profile_program *profile)
        __attribute__((warn_unused_result));

/** confine_caps() - drop every capability from every set. Return: 0 or -errno. */
int confine_caps(void);

/**
 * confine_memory() - overwrite the environment and arguments that this process inherited
 * @title: what ps(1) shows after the program's name; at most 15 bytes
 * /proc/PID/cmdline can be read by everyone who sees the process, whatever its dumpable flag says.
 */
void confine_memory(const char *title);

/** struct confine_helper - a helper process of the supervisor's, from its first line; borrowed */
struct confine_helper {
        const struct native_id *id; /* who it works as */
        pid_t parent;               /* the supervisor */
        int death_signal;           /* when that is gone */
        const char *title;          /* as for confine_memory() */
        const int *keep;            /* as for confine_fds() */
        size_t n_keep;
};

/**
 * confine_helper() - work as the caller, without capabilities, and end with the supervisor
 * A group of its own: when it is stopped and its parent dies, the kernel continues it. Its standard
 * descriptors (a pipe's reader must see its end) and its environment are gone. Return: 0, -ESRCH (the
 * supervisor is), -errno.
 */
int confine_helper(const struct confine_helper *helper) __attribute__((warn_unused_result));

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
        uint64_t files;
};

/** struct seed_file - one file of it */
struct seed_file {
        const char *path; /* relative to the seed; "" when the seed is a file; borrowed */
        uint64_t bytes;
        char sha256[65]; /* hex */
};

/** seed_file_fn - called for each file that was copied. Return: 0, or what seed_copy() shall return. */
typedef int (*seed_file_fn)(const struct seed_file *file, void *arg);

/** seed_copy() - copy a seed to its target below @root_fd; @proc_fd: a /proc that knows this process. Return:
 * 0, -EFBIG, -E2BIG, -errno. */
int seed_copy(int root_fd, int proc_fd, const struct native_seed *seed, seed_file_fn on_file, void *arg,
              struct seed_result *ret, struct error *err);
