/*
 * library.h - what the parts of libcofferdam share
 */
#pragma once

#include "runtime/base/cleanup.h"
#include "runtime/lib/cofferdam.h"
#include "runtime/lib/request.h"
#include "runtime/run/message.h"
#include "runtime/run/state.h"

/** struct cofferdam - a context */
struct cofferdam {
        struct request said; /* of the caller: "home", "env", ... */
        struct error err;    /* of the last function that failed */
        char failure_code[32];
        char *program; /* owned */
};

/** struct cofferdam_spec - documents and keys, in order */
struct cofferdam_spec {
        struct cofferdam *c;
        struct request said;
};

/** struct cofferdam_command - a command line and its surroundings */
struct cofferdam_command {
        struct cofferdam *c;
        struct request said; /* "arg", "exec-env", "exec-cwd" */
        int stdio[3];        /* borrowed */
        bool set[3];         /* by the caller; else /dev/null */
        bool tty, detach;
        bool exec_only; /* it has what only exec can do */
        unsigned int rows, cols;
};

/** struct cofferdam_run - a run */
struct cofferdam_run {
        struct cofferdam *c;
        struct run_dir dir;
};

/** struct cofferdam_exec - a command that was started */
struct cofferdam_exec {
        struct cofferdam *c;
        int sock;   /* to the supervisor or to our program, owned */
        int pty_fd; /* owned; -1: none */
        bool started, ended;
        uint32_t id;
        char run_id[RUN_ID_LEN + 1];
        struct run_msg last; /* once it has ended */
};

/** context_failed() - @r with what was put in c->err. @failure_code: NULL: none. Return: @r. */
int context_failed(struct cofferdam *c, int r, const char *failure_code);
/** context_memory() - context_failed() for want of memory, or of a string that is too long. Return: @r. */
int context_memory(struct cofferdam *c, int r);
/** context_asked() - the context as the engine wants it. @ret: see asked_parse(). Return: 0 or -errno, noted.
 */
int context_asked(struct cofferdam *c, const struct request *more, struct asked *ret)
        __attribute__((warn_unused_result));

/**
 * engine_ask() - execute the program
 * @request: "op" and what belongs to it; the context is added
 * @stdio: the streams that it gets, borrowed; -1: closed in the command
 * Return: owned socket, or -errno, noted in the context.
 */
int engine_ask(struct cofferdam *c, const struct request *request, const int stdio[3])
        __attribute__((warn_unused_result));

/**
 * engine_verb() - execute the program for a report
 * @words: the command line of a verb, NULL-terminated
 * @out: what it prints
 * Return: its exit code, 0 or 1; -errno, noted with what it says on standard error.
 */
int engine_verb(struct cofferdam *c, const char *const *words, struct buf *out)
        __attribute__((warn_unused_result));
