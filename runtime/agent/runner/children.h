/*
 * children.h - processes that the runner starts, and what they leave behind
 *
 * The runner is the reaper of its descendants (PR_SET_CHILD_SUBREAPER), so that what a command leaves behind
 * can be found and ended, wherever it moved.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "runtime/agent/runner/wire.h"
#include "runtime/base/buf.h"

enum { CHILD_FDS_MAX = 10 };

/** children_adopt() - become the reaper. Return: 0, -errno of prctl(2). */
int children_adopt(void) __attribute__((warn_unused_result));

/** struct child - a process in a session of its own */
struct child {
        pid_t pid;  /* 0: none */
        int pidfd;  /* owned; readable when it has ended */
        int status; /* of waitpid(2), once child_ended() */
        bool ended;
};

/**
 * child_start() - execute a program in a new session, with no signal ignored or blocked
 * @argv:  argv[0] is looked for in PATH of @env
 * @env:   NULL-terminated
 * @dir_fd: its working directory, borrowed
 * @fds:   @fds[n] becomes descriptor n, -1: /dev/null; all others are closed
 * @n_fds: 3..CHILD_FDS_MAX
 * Forks. Return: 0, -ENOENT (no such program), -EACCES, -errno.
 */
int child_start(struct child *c, char *const argv[], char *const env[], int dir_fd, const int *fds,
                size_t n_fds) __attribute__((warn_unused_result));

/** child_ended() - whether it has; then @status is set and it is no zombie */
bool child_ended(struct child *c);

/**
 * child_end() - SIGTERM to its session's group, @grace_ms, then SIGKILL to it and to all its descendants
 * @keep: processes that are left alone with all of theirs, @n_keep of them
 * Orphans of any child that is not kept are ended too: nobody can tell whose they were.
 */
void child_end(struct child *c, unsigned int grace_ms, const pid_t *keep, size_t n_keep);

/** children_reap() - take the status of orphans that ended; never that of a struct child */
void children_reap(const pid_t *own, size_t n_own);

/** child_status_text() - "exit status 1", "signal 9 (Killed)" */
const char *child_status_text(int status, char out[64]);

/** struct output - the first and the last bytes of what a process says */
struct output {
        struct buf head, tail; /* tail is a ring in @tail.data */
        size_t at;             /* next place in the ring */
        uint64_t total;
};
enum { OUTPUT_HALF = 48 * 1024 };

/** output_add() - Return: 0, -ENOMEM. */
int output_add(struct output *o, const char *bytes, size_t len) __attribute__((warn_unused_result));
/** output_text() - all of it, with a marker for what was cut, into @out. Return: 0, -ENOMEM. */
int output_text(const struct output *o, struct buf *out) __attribute__((warn_unused_result));
/** output_deinit() - frees it */
void output_deinit(struct output *o);
#define AUTO_OUTPUT CLEANUP(output_deinit)

/** struct once - a program that is run to its end */
struct once {
        char *const *argv, *const *env;
        int dir_fd;
        const struct buf *input; /* NULL: /dev/null */
        uint64_t timeout_ms;
        const pid_t *keep;
        size_t n_keep;
};
/**
 * once_run() - run it, its output and errors together into @out; what it left in its group is ended with it
 * @ret_timeout: whether it was ended because of its time
 * Return: 0 with @ret_status of waitpid(2); as child_start(), -EPIPE (the launcher is gone).
 */
int once_run(struct wire *w, const struct once *once, struct output *out, int *ret_status, bool *ret_timeout)
        __attribute__((warn_unused_result));
