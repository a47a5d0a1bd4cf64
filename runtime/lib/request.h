/*
 * request.h - what the library asks the program: named strings, one after the other, in a memory file
 *
 * Both sides are of one version and one user. The program reads it before it does anything else.
 */
#pragma once

#include <stdbool.h>

#include "runtime/base/buf.h"
#include "runtime/base/ctx.h"
#include "runtime/base/error.h"
#include "runtime/spec/spec.h"

/** the first word of the program's command line then: no verb, and nothing for people */
#define LIBRARY_WORD "@library"

enum { REQUEST_MAX_BYTES = 64 << 20 };

/* descriptors of the program: the streams of the command or the report are 0, 1 and 2 */
enum { REQUEST_SOCK_FD = 3, REQUEST_TEXT_FD = 4, REQUEST_FDS = 5 };

/** struct request - being written; zero is empty. Names: the table in request.c */
struct request {
        struct buf text; /* NAME NUL VALUE NUL ... */
};

/** request_add() - Return: 0, -ENOMEM, -E2BIG. */
int request_add(struct request *r, const char *name, const char *value) __attribute__((warn_unused_result));
/** request_append() - all of @part behind @r. Return: as request_add(). */
int request_append(struct request *r, const struct request *part) __attribute__((warn_unused_result));
/** request_fd() - a memory file that holds it, to be read from its beginning. Return: owned descriptor,
 * -errno.
 */
int request_fd(const struct request *r) __attribute__((warn_unused_result));
void request_deinit(struct request *r);
#define AUTO_REQUEST __attribute__((cleanup(request_deinit)))

/** struct strings - a list, NULL-terminated unless it is empty; strings borrowed */
struct strings {
        const char **v; /* owned */
        size_t n;
};

/** struct asked - a request that was read */
struct asked {
        char *data;      /* owned; all strings are in it */
        char *state_dir; /* owned, when the request names none */
        char uid_text[16];
        struct ctx ctx;
        const char *version, *op;
        struct strings env;      /* of the context */
        struct strings said;     /* name, value, name, value: text-name, text, set-name, set */
        struct strings args;     /* of the command or verb */
        struct strings exec_env; /* added to the command's */
        const char *run, *exec_cwd, *rows, *cols;
        const char *closed; /* digits of the streams that are closed in the command */
        const char *tty, *program;
};

/**
 * asked_parse() - read @len bytes
 * @data: copied
 * @ret: caller frees with asked_deinit(), also after a failure; not moved, as ctx points into it
 * Return: 0, -EPROTO (an unknown name, no value, no final NUL), -ENOMEM.
 */
int asked_parse(const char *data, size_t len, struct asked *ret) __attribute__((warn_unused_result));
/** asked_spec() - resolve what was said. Return: as spec_resolve(). */
int asked_spec(const struct asked *asked, struct spec **ret, struct error *err)
        __attribute__((warn_unused_result));
void asked_deinit(struct asked *asked);
#define AUTO_ASKED __attribute__((cleanup(asked_deinit)))
