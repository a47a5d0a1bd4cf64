/*
 * cli.h - calls of a container engine's command line: bounded in time, in a process group of their own, in
 * the C locale
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "runtime/base/buf.h"
#include "runtime/base/ctx.h"
#include "runtime/base/error.h"

enum { CLI_ARGS_MAX = 1024, CLI_OUT_MAX = 1 << 20, CLI_ERR_KEEP = 4096 };

/** struct cli_args - a command line that grows; zero is empty. cli_args_deinit() is due. */
struct cli_args {
        char *v[CLI_ARGS_MAX + 1]; /* NULL-terminated, owned */
        size_t n;
        int failed; /* -ENOMEM or -E2BIG of the first word that was not taken; 0: none */
        bool wide;  /* it computes: on all the processors it likes, where others have one */
};

/** cli_add() - append one word. A failure is kept and told by cli_run(). */
void cli_add(struct cli_args *args, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/** cli_add_pair() - append an option and its value */
void cli_add_pair(struct cli_args *args, const char *option, const char *fmt, ...)
        __attribute__((format(printf, 3, 4)));

void cli_args_deinit(struct cli_args *args);
#define AUTO_CLI_ARGS __attribute__((cleanup(cli_args_deinit)))

/** struct cli_result - how a call ended; cli_result_deinit() is due */
struct cli_result {
        int exit_code;              /* 128 + signal when it was killed */
        struct buf out;             /* at most CLI_OUT_MAX bytes; more is -EFBIG */
        char err[CLI_ERR_KEEP + 1]; /* the last of what it said on stderr, without final newlines */
};
void cli_result_deinit(struct cli_result *result);
#define AUTO_CLI_RESULT __attribute__((cleanup(cli_result_deinit)))

/**
 * cli_run() - execute a command line and wait for its end
 * @args: v[0] is looked up in the caller's PATH
 * @timeout_ms: then its process group is killed
 * @ret: after { 0 }; filled also on failure, as far as it went
 * Whatever it exits with is no failure of this function. It has no stdin, works in "/", and with the caller's
 * environment but for LC_ALL, LANG and, where they are not set, GOMAXPROCS and GOGC. Blocks, forks.
 * Return: 0, -ENOENT (no such program), -EACCES, -ETIMEDOUT, -EFBIG, -ENOMEM, -errno, each with a message.
 */
int cli_run(const struct ctx *ctx, const struct cli_args *args, int timeout_ms, struct cli_result *ret,
            struct error *err) __attribute__((warn_unused_result));

/** cli_run_merged() - cli_run() of a call that says much, of which the last is kept: both streams are one */
int cli_run_merged(const struct ctx *ctx, const struct cli_args *args, int timeout_ms, struct cli_result *ret,
                   struct error *err) __attribute__((warn_unused_result));

/**
 * cli_run_attached() - cli_run() of a call that lasts as long as what it makes
 * @end_fd: has something to read, or its peer is gone, when it is to end: from then on it has @timeout_ms,
 * and what it said before on stderr is forgotten. Borrowed, nothing is read.
 */
int cli_run_attached(const struct ctx *ctx, const struct cli_args *args, int end_fd, int timeout_ms,
                     struct cli_result *ret, struct error *err) __attribute__((warn_unused_result));
