/*
 * driver.h - what every driver can do; the engine (runtime/run/engine.c) knows nothing else of them
 *
 * plan() runs in the caller's process and has no side effect on the host. start(), exec(), dispatch() and
 * stop() run in the supervisor, a process of its own without threads.
 */
#pragma once

#include <errno.h>
#include <jansson.h>
#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/ioctl.h>

#include "fs/guard.h"
#include "netns/egress.h"
#include "runtime/base/ctx.h"
#include "runtime/base/error.h"
#include "runtime/base/trace.h"
#include "runtime/spec/spec.h"

struct driver_plan; /* defined by each driver */
struct sandbox;     /* defined by each driver */

/* of plan() and start(): this host cannot, and the message is that of the doctor's row that says so */
#define DRIVER_HOST_LACKS (-ENOPKG)

/* of start(): the image of the root cannot be had */
#define DRIVER_NO_IMAGE (-ENOMEDIUM)
/* of start(): where the sandbox is kept, no room is left */
#define DRIVER_FULL (-EDQUOT)

/** struct exec_request - one command; everything borrowed until exec() returns */
struct exec_request {
        uint32_t id; /* chosen by the caller, comes back in the callbacks */
        const char *const
                *argv; /* NULL-terminated; argv[0] is looked up in the sandbox's PATH when it has no slash */
        const char *const *env; /* NULL-terminated, added to the plan's or in place of them; NULL: none */
        const char *cwd;        /* absolute path inside; NULL: the workspace */
        bool tty;               /* give the command a terminal of the sandbox's own devpts */
        struct winsize winsize; /* of the new terminal */
        int stdio[3]; /* descriptors for 0, 1, 2; -1: closed in the command as it was in the caller; with tty
                         the third counts only, and -1 is the terminal */
};

/** struct exec_result - how a command ended */
struct exec_result {
        uint32_t id;
        int exit_code;  /* 0..255, or 126 and 127 when it could not be executed; 128 + signal when killed */
        int signal;     /* 0 or the number that killed it */
        int exec_errno; /* 0, or why execve failed (exit_code is 126 or 127 then); negative: why the working
                           directory could not be entered */
        uint64_t max_rss_bytes;
        bool oom;         /* the kernel killed for the memory limit while it ran */
        const char *lost; /* NULL, or why nobody knows how it ended; escaped, borrowed */
        uint64_t memory_limit_bytes, memory_peak_bytes; /* of the whole sandbox; 0: none, not known */
};

/** struct seed_report - a host file or directory that was copied into the home; borrowed */
struct seed_report {
        const char *source, *target;
        bool is_dir;
        uint32_t files;
        uint64_t bytes;
        const char *sha256; /* hex; "" for a directory */
};

/** struct sandbox_callbacks - what dispatch() reports; all called from the supervisor's loop */
struct sandbox_callbacks {
        void (*seeded)(void *arg, const struct seed_report *report); /* called by start(); NULL: not wanted */
        /* @pid: as the sandbox counts; @pty_fd: master, owned by the callee; -1 without tty */
        void (*exec_started)(void *arg, uint32_t id, pid_t pid, int pty_fd);
        void (*exec_finished)(void *arg, const struct exec_result *result);
        void (*notice)(void *arg, const struct guard_notice *notice);
        void (*network)(void *arg, const struct egress_notice *notice);
        void (*lost)(void *arg, const char *failure_code,
                     const char *reason); /* the sandbox is unusable: stop it */
        /* an event of cofferdam-events(7) of the driver's own; consumes @data; also called by stop() */
        void (*event)(void *arg, const char *type, json_t *data);
        /* what came of a refresh_file() that goes on: NULL, or why it failed */
        void (*refreshed)(void *arg, uint32_t id, const char *why);
        void (*left)(
                void *arg); /* called by stop(): something of the run is left, and reap() has to end it */
};

/** struct file_secret - a credential that is a file inside: SECRET_DIR/@name, for who works to read and
 * nobody inside to write; borrowed. A driver puts it into memory, outside of what lands on the host, and into
 * no command line and no environment. */
struct file_secret {
        const char *name;
        const char *path; /* where a link leads to it; absolute, NULL: nowhere */
        int fd;           /* a file in memory that holds it */
        size_t len;
        uint32_t id; /* refresh_file(): for refreshed() */
};

/** struct start_request - what start() gets besides the plan; borrowed */
struct start_request {
        const char *run_id;
        int upper_fd;   /* directory for the uppers of this run ("0" is region 0's), -1: none */
        int run_fd;     /* the run's directory, for what is needed only while it lives; -1: none */
        int relay_sock; /* SOCK_SEQPACKET: 'L' goes there with a socket that listens on DRIVER_RELAY_PORT
                           inside; -1:  nobody wants one, as when own_loopback() says no */
        const struct file_secret *secrets;
        size_t n_secrets;
        const char *const *env; /* "NAME=value" of the run's tokens, for drivers whose sandbox others execute
                                   in; never a credential itself, which comes with each command */
        size_t n_env;
        int keep_fds[5]; /* descriptors that helper processes must not hold (control sockets): closed in them
                          */
        size_t n_keep_fds;
        bool cache_shared;  /* where the plan says that the run is the only writer, it is not */
        struct trace trace; /* of the supervisor */
        const struct exec_request
                *first; /* command that starts the moment the sandbox is ready; NULL: none */
        /* called once while the sandbox builds itself on the other core: time for the caller's own chores;
         * NULL: none. Return: 0, or -errno, which ends the start. */
        int (*meanwhile)(void *arg, struct error *err);
        const struct sandbox_callbacks *callbacks;
        void *arg;
};

/* where the work finds the relay of its tokens, on a loopback of its own */
enum { DRIVER_RELAY_PORT = 3129 };

/** struct driver_sweep - who knows which runs live, and hears of what is removed */
struct driver_sweep {
        bool (*lives)(void *arg, const char *run_id);
        void (*removed)(void *arg, const char *run_id);
        void *arg;
};

enum { SANDBOX_POLL_MAX = 8 };

/** struct driver_ops - the vtable */
struct driver_ops {
        const char *name;
        /** own_loopback() - whether the sandbox has a loopback that is not the host's; NULL: it has not */
        bool (*own_loopback)(const struct driver_plan *plan);
        bool elsewhere;   /* commands run on another machine, from which nothing of this one's loopback is
                             reached */
        bool starts_here; /* commands are the supervisor's own children, so it cannot be confined */

        /**
         * probe() - can it serve @spec here, for a choice among drivers; the native one is always ready to
         * try Forks. Return: 0, or -errno with cause and remedy in @err (the same text as doctor's row).
         */
        int (*probe)(const struct ctx *ctx, const struct spec *spec, struct error *err);

        /**
         * plan() - resolve @spec against this host: pins, toolchains, seeds, environment, the image
         * An image that is not there is pulled; apart from that nothing is changed.
         * @ret: caller frees with plan_free()
         * Return: 0, -EINVAL (spec), -EPERM (refused source), -ENOTSUP (more than is possible was asked for),
         * DRIVER_HOST_LACKS, -ENOENT..., each with a message.
         */
        int (*plan)(const struct ctx *ctx, const struct spec *spec, struct driver_plan **ret,
                    struct error *err);
        struct driver_plan *(*plan_free)(struct driver_plan *plan); /* NULL-safe, returns NULL */

        /** describe() - regions, toolchains, mechanisms, rungs for spec.json and inspect; new reference,
         * NULL: no memory */
        json_t *(*describe)(const struct driver_plan *plan);

        /**
         * start() - build the sandbox and wait until commands can run in it; undoes everything on failure
         * Forks. Return: 0, DRIVER_HOST_LACKS or -errno with a message that names step and remedy.
         */
        int (*start)(const struct driver_plan *plan, const struct start_request *req, struct sandbox **ret,
                     struct error *err);

        /** report() - what start() found and decided: "limits", "degraded" and the like, for state and
         * inspect; new reference, NULL: nothing. The function may be NULL. */
        json_t *(*report)(const struct sandbox *sandbox);

        /** reap() - remove what a run that died left outside its directory. @plan: describe() with report()
         * as in its state; borrowed. Idempotent, may block. Return: 0; -errno with a message: something may
         * be left that only another call with @plan can find. The function may be NULL. */
        int (*reap)(const struct ctx *ctx, const json_t *plan, const char *run_id, struct error *err);

        /**
         * sweep() - remove what carries our marks, is of a run of this caller's, and belongs to none that
         * lives Blocks. Return: 0, -errno with a message. The function may be NULL.
         */
        int (*sweep)(const struct ctx *ctx, const struct driver_sweep *sweep, struct error *err);

        /** exec() - start a command; the result comes through the callbacks. Return: 0 or -errno. */
        int (*exec)(struct sandbox *sandbox, const struct exec_request *req, struct error *err);

        /** signal() - send @sig to command @id: to its process group when @group. Return: 0, -ESRCH, -errno.
         */
        int (*signal)(struct sandbox *sandbox, uint32_t id, int sig, bool group);

        /** set_network() - have other rules decide about the network; answered by the callback for notices.
         * NULL: there are none. Return: 0, -E2BIG, -errno. */
        int (*set_network)(struct sandbox *sandbox, const char *preset, const char *const *rules, size_t n,
                           struct error *err);

        /** refresh_file() - replace the content of a secret that start() made a file of: who reads it has the
         * old or the new one, whole. NULL: the driver makes no such files. Return: 0, -EINPROGRESS
         * (refreshed() tells, unless the run ends first), -ENOSPC, -errno. */
        int (*refresh_file)(struct sandbox *sandbox, const struct file_secret *secret, struct error *err);

        /** poll() - fill @fds (room for SANDBOX_POLL_MAX) with what the loop waits for. Return: count. */
        size_t (*poll)(struct sandbox *sandbox, struct pollfd *fds);
        /** dispatch() - handle what poll(2) reported in the same @fds; calls the callbacks */
        void (*dispatch)(struct sandbox *sandbox, const struct pollfd *fds, size_t n);

        /** stop() - end everything of the sandbox and wait until it is gone; NULL-safe, idempotent, frees.
         * Return: NULL. */
        struct sandbox *(*stop)(struct sandbox *sandbox);
};

/** driver_find() - the driver called @name, "auto" is the first; NULL when there is none of that name */
const struct driver_ops *driver_find(const char *name);

/**
 * driver_choose() - who serves @spec when nobody was named: the first whose probe() says so
 * Forks. Return: NULL with the message of the first that can serve such a specification at all.
 */
const struct driver_ops *driver_choose(const struct ctx *ctx, const struct spec *spec, struct error *err);

/** driver_failure() - the failure code (cofferdam-events(7)) of what plan() or start() returned. Static. */
const char *driver_failure(int r);

/** driver_at() - the driver number @i; NULL: there are no more */
const struct driver_ops *driver_at(size_t i);

/** driver_names() - all names, for messages. @ret_n: how many. Static. */
const char *const *driver_names(size_t *ret_n);
