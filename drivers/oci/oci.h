/*
 * oci.h - a container engine makes the sandbox: docker and podman, one driver with two command lines
 *
 * The engine makes namespaces, root, limits and the rest of a hardened container around our own pid 1. What
 * the native driver mounts in a sandbox of its own is mounted in the container by a process that enters it,
 * and commands travel as they do there: DOC in launch.c.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "drivers/driver.h"
#include "drivers/native/cgroup.h"
#include "drivers/oci/cli.h"
#include "runtime/base/buf.h"
#include "runtime/spec/spec.h"

struct native_id; /* drivers/native/plan.h */
struct setup;     /* drivers/native/setup.h */

extern const struct driver_ops driver_podman, driver_docker;

/* where things are in every container */
#define OCI_DIR    "/run/cofferdam" /* a tmpfs of the engine's; read-only once a command runs */
#define OCI_FUSE   OCI_DIR "/fuse"  /* the guard's file system, while parts of it are taken */
#define OCI_ASIDE  OCI_DIR "/aside" /* the same of what holds secrets */
#define OCI_CTL    OCI_DIR "/ctl"   /* of the run's directory, read-only */
#define OCI_INIT   OCI_CTL "/init"  /* this program */
#define OCI_SOCKET OCI_CTL "/socket"

#define OCI_MANAGED_LABEL "app.kubernetes.io/managed-by"
#define OCI_MANAGED_BY    "cofferdam"
#define OCI_STATE_LABEL   "cofferdam.io/state" /* whose runs: the state directory */
#define OCI_RUN_LABEL     "ironflow.io/run-id"
#define OCI_ROOT_LABEL    "ironflow.io/root-run-id"
#define OCI_STEP_LABEL    "ironflow.io/step"
#define OCI_EXPIRES_LABEL "ironflow.io/expires-at" /* seconds since 1970; gc does not go by it */

enum { OCI_PIDS = 4096 /* without limits.pids */ };

/** OCI_WORD - the first word for oci_inside(); nobody types it */
#define OCI_WORD "@container"
/** OCI_PASSWD_WORD - the same for oci_passwd() */
#define OCI_PASSWD_WORD    "@passwd"
#define OCI_PASSWD_PROGRAM "/.cofferdam"

#define OCI_NAME          "cofferdam-"
#define OCI_ACCOUNTS_NAME "accounts-" /* after that, of a container that is no run's */

/** struct oci - what the plan of a run in a container holds besides the native one; owned by that */
struct oci {
        const char *program; /* "podman", "docker"; static */
        char *image;         /* as it was asked for */
        char *image_id;      /* what that was when the run was planned */
        char *user;          /* "NAME|UID[:NAME|GID]", as said or as the image has it; NULL: the caller */
        struct buf passwd, group; /* account files of the image, when there is a user */
        char *state_dir;          /* whose runs the container is one of */
        char *step, *root_run;    /* of the workflow, as labels say them; NULL: the run has no other root */
        uint64_t life_s; /* from its start until nobody can want the container any more; 0: for ever */
        bool outside; /* nobody of ours may enter it: no guard, binds of the engine's; isolation: degrade */
        bool has_volumes; /* the image asks for some */
        bool rootless;    /* podman of a user: the container is in a user namespace of the caller's */
};

/** struct container - one that runs; OCI_CONTAINER_INIT is none */
struct container {
        pid_t pid;                     /* of its first process, as this process counts */
        int pidfd;                     /* of the same; owned */
        int conn;                      /* to it; owned */
        pid_t caller;                  /* of the engine */
        int caller_pidfd, caller_sock; /* owned */
};
#define OCI_CONTAINER_INIT \
        { .pidfd = -1, .conn = -1, .caller_pidfd = -1, .caller_sock = -1 }

/** oci_free() - NULL-safe. Return: NULL. */
struct oci *oci_free(struct oci *oci);

/**
 * container_start() - make the container of a run and wait until its first process has called
 * @ret: after OCI_CONTAINER_INIT; container_remove() is due in any case
 * Pulls the image when it is not there. Blocks for as long as the engine takes, within bounds. Forks.
 * Return: 0, DRIVER_HOST_LACKS (no engine), DRIVER_NO_IMAGE, -ETIMEDOUT, DRIVER_FULL, -errno, with a message.
 */
int container_start(const struct driver_plan *plan, const struct start_request *req, struct container *ret,
                    struct error *err) __attribute__((warn_unused_result));

/** container_end() - say that its end is near and no accident; idempotent */
void container_end(struct container *container);

/** container_remove() - end it and wait until the engine has forgotten it; idempotent. Executes nothing
 * itself. */
void container_remove(struct container *container);

/**
 * inject_start() - fork the process that enters the container, mounts what the plan says, and hands the
 * first process its socket
 * @s: what it needs; its sock gets what went wrong, as from pid 1 of a native sandbox
 * Return: 0 or -errno.
 */
int inject_start(struct setup *s, const struct container *container, pid_t *ret_pid, int *ret_pidfd,
                 struct error *err) __attribute__((warn_unused_result));

/** oci_remove() - force the container @name away; none is fine. Forks, blocks at most half a minute. Return:
 * 0, DRIVER_HOST_LACKS, -errno. */
int oci_remove(const struct ctx *ctx, const char *program, const char *name)
        __attribute__((warn_unused_result));

/** oci_reap() - oci_remove() of the container of a run that died, as far as that goes */
void oci_reap(const struct ctx *ctx, const char *program, const char *run_id);

/** oci_state_dir() - make the state directory, before there is a run. Return: 0, -ENOENT (there is no place),
 * -errno. */
int oci_state_dir(const struct ctx *ctx) __attribute__((warn_unused_result));

/**
 * oci_hold() - have oci_sweep() leave alone what no run owns yet: until the descriptor is closed
 * Blocks while somebody sweeps. Return: descriptor; -errno: there is nothing to hold.
 */
int oci_hold(const struct ctx *ctx, const char *program);

/** oci_sweep() - see struct driver_ops */
int oci_sweep(const struct ctx *ctx, const char *program, const struct driver_sweep *sweep,
              struct error *err);

/** inject_nothing() - what is left of it for a container that nobody may enter. Return: 0, -errno. */
int inject_nothing(const struct setup *s, const struct container *container, struct error *err)
        __attribute__((warn_unused_result));

/** oci_inside() - the first process of a container. Never returns. */
_Noreturn void oci_inside(void);

/**
 * oci_args() - the words that make the container of a run
 * @run_dir, @exe: absolute paths of its directory and of this program
 * Return: 0, -EINVAL (a path that no engine can be told), -errno.
 */
int oci_args(const struct driver_plan *plan, const struct start_request *req, const char *run_dir,
             const char *exe, struct cli_args *ret, struct error *err) __attribute__((warn_unused_result));

/** oci_harden() - what is the same for every container of ours */
void oci_harden(struct cli_args *args, const char *program);

/** oci_label() - whose a container is */
void oci_label(struct cli_args *args, const char *state_dir);

/** oci_bind() - show @source read-only at @target. Return: 0, -EINVAL (the engine cannot be told of a path).
 */
int oci_bind(struct cli_args *args, const char *program, const char *source, const char *target,
             struct error *err) __attribute__((warn_unused_result));

/** oci_failure() - the code of what an engine said on stderr. Return: DRIVER_HOST_LACKS, DRIVER_NO_IMAGE,
 * -EEXIST (name in use), -ESRCH (no such container), DRIVER_FULL, -EIO. */
int oci_failure(const char *text) __attribute__((warn_unused_result));

/** oci_words() - the line of it that says what happened, without "Error: ". Borrowed from @text. */
const char *oci_words(const char *text);

/**
 * oci_call() - cli_run() of a command that has to succeed
 * @ret_out: what it said on stdout; owned, NULL: not wanted
 * Return: 0, what oci_failure() makes of its words, as cli_run(); with a message, which is that of doctor's
 * row where one says why.
 */
int oci_call(const struct ctx *ctx, const struct cli_args *args, int timeout_ms, struct buf *ret_out,
             struct error *err) __attribute__((warn_unused_result));

/**
 * oci_ended() - the same of a call that was made and ended otherwise than by success
 * @r: what cli_run() returned
 */
int oci_ended(const struct ctx *ctx, const struct cli_args *args, int r, const struct cli_result *result,
              struct error *err) __attribute__((warn_unused_result));

/**
 * image_resolve() - find the image, pull it when it is not there, and who works in it
 * @user: as the specification says it; NULL: as the image does, else the caller
 * @oci: gets image_id and the user
 * Blocks for as long as a pull takes, within bounds. Return: 0, DRIVER_NO_IMAGE, DRIVER_HOST_LACKS, -errno.
 */
int image_resolve(const struct ctx *ctx, const char *user, struct oci *oci, struct error *err)
        __attribute__((warn_unused_result));

/** oci_passwd() - print the account files of this root, passwd, NUL, group, and end: so an image says who its
 * users are */
_Noreturn void oci_passwd(void);

enum { OCI_ORDER_FDS = 4 };

/** struct oci_order - the injecting process to the first one; descriptors: the control socket, a profile */
struct oci_order {
        char version[32];
        uint64_t open_files, file_size_bytes; /* of each process; 0: as they are */
        struct cgroup_limits weak;            /* what the engine does not keep: by other means */
        uint32_t profile_bytes;               /* 0: none, and no second descriptor */
        uint32_t listen; /* it makes the sockets of the egress proxy, and one more descriptor takes them */
        uint32_t relay;  /* the same of the relay of tokens */
};
