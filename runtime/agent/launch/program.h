/*
 * program.h - a program of the operator, on the host, for one request: JSON on its standard input, JSON
 * or text on its standard output; no shell, a time limit, and the whole group of it ends with the call
 */
#pragma once

#include <jansson.h>
#include <stddef.h>

#include "runtime/base/buf.h"
#include "runtime/base/error.h"

enum {
        PROGRAM_OUTPUT_MAX = 4 << 20, /* bytes; one that writes more is killed */
        PROGRAM_TIMEOUT_MS = 60000,   /* unless the operator says otherwise */
        PROGRAM_TIMEOUT_MAX_MS = 3600000,
        PROGRAM_ERROR_MAX = 4096, /* bytes kept of its standard error */
};

/** struct program - what to execute; borrowed */
struct program {
        const char *const *argv; /* NULL-terminated; argv[0] is an absolute path */
        const char *const *env;  /* NULL-terminated, all of it */
        unsigned int timeout_ms;
};

/**
 * program_is_outside() - whether neither @path nor a link on its way lies below one of @writable
 * @writable: as for program_check()
 * Return: 0, or -EPERM with a message that names the remedy.
 */
int program_is_outside(const char *path, char *const *writable, struct error *err)
        __attribute__((warn_unused_result));

/**
 * program_check() - whether @path may be executed for the operator: absolute, a regular file that can be
 * executed and that nobody but its owner, who is the caller or root, can change, outside all of @writable
 * @writable: physical paths that a sandbox may write below; NULL-terminated
 * Return: 0, -EPERM, -ENOENT, -EACCES, -EINVAL, with a message that names the remedy.
 */
int program_check(const char *path, char *const *writable, struct error *err)
        __attribute__((warn_unused_result));

/**
 * program_call() - execute it, give it @request and a newline, take what it says until it closes its output
 * @cancel_fds: gives up when one of these becomes readable; -1: none
 * @out: receives its output
 * It starts in "/", with standard error apart, default signals and no descriptor of ours.
 * Forks; blocks. Return: 0, -ETIMEDOUT, -ECANCELED, -E2BIG (too much output), -EIO (it exited with another
 * code than 0, or a signal), -ENOMEM, -errno, with a message that has the end of its standard error.
 */
int program_call(const struct program *program, const json_t *request, const int cancel_fds[2],
                 struct buf *out, struct error *err) __attribute__((warn_unused_result));

/**
 * program_spawn() - execute it and leave it, for a server that is spoken to for longer
 * @ret_fds: our ends of its standard input and output, owned, close-on-exec; its standard error is /dev/null
 * Return: its process, which is the leader of a group and dies with this one; -errno with a message.
 */
pid_t program_spawn(const struct program *program, int ret_fds[2], struct error *err)
        __attribute__((warn_unused_result));

/** program_end() - close @fds, wait @ms, kill the group, reap. */
void program_end(pid_t pid, int fds[2], unsigned int ms);
