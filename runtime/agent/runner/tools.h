/*
 * tools.h - tools that run where the files are
 *
 * Inputs are checked against docs/schema/tools/NAME.json before a tool sees them. Paths are resolved below
 * the work directory by openat2(2) and never leave it. A failure is an answer to the model, not an error of
 * ours.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <sys/types.h>

#include "runtime/agent/runner/children.h"
#include "runtime/agent/runner/http.h"
#include "runtime/base/buf.h"

enum {
        TOOL_TEXT_MAX = 128 * 1024,       /* bytes of a result's text; more is cut with a marker */
        TOOL_FILE_MAX = 16 * 1024 * 1024, /* bytes of a file that is edited or read whole */
        TOOL_IMAGE_MAX = 3 * 1024 * 1024 + 768 * 1024, /* base64 of it fits into what the API takes, 5 MiB */
        TOOL_PATH_MAX = 4095,
        TOOL_KEEP_MAX = 64,
};

struct shell;

/** struct tool_env - what tools work on */
struct tool_env {
        struct wire *wire;
        struct http_net net;
        int work_fd;               /* the work directory */
        const char *work_dir;      /* absolute */
        char *const *environ;      /* of processes that tools start: without credentials of the model */
        struct shell *shell;       /* owned; NULL: not started */
        pid_t keep[TOOL_KEEP_MAX]; /* servers, which outlive a command */
        size_t n_keep;
        bool readonly;         /* tools that write refuse */
        json_t *output_schema; /* borrowed; NULL: none */
        json_t *output;        /* owned: what structured_output was given */
        uint64_t bash_ms_max;  /* 0: 600 s */
};

/** struct tool_result - the answer to one call */
struct tool_result {
        json_t *content; /* owned: a string, or an array of blocks */
        bool error;
};

/**
 * tool_run() - run the tool @name
 * Return: 0 (also when the tool failed: see @ret), -ENOENT (no such tool here), -EPIPE (the launcher is
 * gone), -ENOMEM.
 */
int tool_run(struct tool_env *env, const char *name, const json_t *input, struct tool_result *ret)
        __attribute__((warn_unused_result));

/** tool_here() - whether @name runs here */
bool tool_here(const char *name);
/** tool_names() - all of them, NULL-terminated, static */
const char *const *tool_names(void);
/** tool_schema() - {"name", "description", "input_schema"} of @name. Return: new reference; NULL: none, out
 * of memory. */
json_t *tool_schema(const char *name);
/** tool_env_deinit() - end what tools have started and free what they keep */
void tool_env_deinit(struct tool_env *env);

/* --- for tools ------------------------------------------------------------------------------------------ */

/** tool_text() - answer with @text, cut at TOOL_TEXT_MAX. Return: 0, -ENOMEM. */
int tool_text(struct tool_result *ret, const char *text, size_t len) __attribute__((warn_unused_result));
/** tool_fail() - answer with what went wrong. Return: 0, -ENOMEM. */
int tool_fail(struct tool_result *ret, const char *fmt, ...)
        __attribute__((format(printf, 2, 3), warn_unused_result));

/** arg_str() - a text of the input; @or when it is not there. @or NULL allowed. Borrowed. */
const char *arg_str(const json_t *input, const char *name, const char * or);
/** arg_int() - a whole number of the input */
json_int_t arg_int(const json_t *input, const char *name, json_int_t or);
/** arg_bool() - a truth of the input */
bool arg_bool(const json_t *input, const char *name, bool or);

/**
 * work_path() - the part of @path below the work directory; "." for itself
 * @err: says why it is none: a NUL, too long, absolute and elsewhere
 * Return: borrowed from @path, NULL: it is none.
 */
const char *work_path(const struct tool_env *env, const char *path, struct error *err);
/**
 * work_open() - open below the work directory; links that lead out of it are refused
 * @flags: open(2); O_NONBLOCK and O_CLOEXEC are added
 * Return: descriptor, -errno with its sentence in @err.
 */
int work_open(const struct tool_env *env, const char *path, int flags, mode_t mode, struct error *err)
        __attribute__((warn_unused_result));
/** work_read() - a regular file of at most @max bytes. Return: 0, -errno with its sentence. */
int work_read(const struct tool_env *env, const char *path, size_t max, struct buf *out, struct error *err)
        __attribute__((warn_unused_result));
/**
 * work_write() - put @data in place of the file, which is made if it is not there, with its directories. One
 * that is a link or has other names is written in place, any other is replaced in one step; its mode stays.
 * Return: 0, -errno with its sentence.
 */
int work_write(const struct tool_env *env, const char *path, const void *data, size_t len, struct error *err)
        __attribute__((warn_unused_result));
/** is_binary() - whether a NUL is in the first 8 KiB */
bool is_binary(const char *data, size_t len);

/** base64_add() - append @len bytes as base64. Return: 0, -ENOMEM, -E2BIG. */
int base64_add(struct buf *out, const void *data, size_t len) __attribute__((warn_unused_result));

/** struct shell is private to tools/bash.c */
struct shell *shell_free(struct shell *s, const pid_t *keep, size_t n_keep);
/** shell_pid() - 0: none */
pid_t shell_pid(const struct shell *s);

typedef int tool_fn(struct tool_env *env, const json_t *input, struct tool_result *ret);
tool_fn tool_bash, tool_diagnostic_shell, tool_repl;
tool_fn tool_read_file, tool_write_file, tool_file_edit, tool_notebook_edit, tool_read_image, tool_skill;
tool_fn tool_glob, tool_grep, tool_workspace_grep;
tool_fn tool_web_fetch, tool_remote_trigger, tool_sleep, tool_structured_output, tool_send_user_message,
        tool_agent;
