/*
 * tokens.h - a run's side of its keeper (keeper.h): tokens in place of credentials
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <sys/types.h>

#include "runtime/base/ctx.h"
#include "runtime/base/error.h"
#include "runtime/spec/spec.h"

/** struct tokens - what the keeper said; the end of the last copy of @sock is the end of the tokens */
struct tokens {
        int sock;         /* -1: none */
        pid_t keeper;     /* a child of the process that called tokens_start(), 0: none */
        json_t *said;     /* of keeper_main(), owned */
        const char **env; /* "NAME=value", NULL-terminated; owned vector of borrowed strings */
        size_t n_opaque;  /* the first of them: tokens; behind those the values themselves (tokens_add_env())
                           */
};
#define TOKENS_INIT \
        { .sock = -1 }

/** struct tokens_order - what tokens_start() needs; borrowed */
struct tokens_order {
        const struct ctx *ctx;
        const struct spec *spec;
        const char *run_id;
        int run_dir_fd;
        bool own_loopback; /* of the sandbox */
        bool elsewhere;    /* the sandbox is on another machine */
};

/**
 * tokens_start() - fork the keeper and wait until it has the tokens, 30 seconds at most
 * @ret: after TOKENS_INIT; tokens_deinit() is due in any case
 * @ret_failure: a failure code, when it fails
 * Return: 0, -EINVAL, -EPERM (a credential would come inside), -EIO and others, each with a message.
 */
int tokens_start(const struct tokens_order *order, struct tokens *ret, const char **ret_failure,
                 struct error *err) __attribute__((warn_unused_result));
void tokens_deinit(struct tokens *tokens);
#define AUTO_TOKENS __attribute__((cleanup(tokens_deinit)))

/** tokens_add_env() - @n variables more for every command, credentials themselves, once; borrowed. Return: 0,
 * -ENOMEM. */
int tokens_add_env(struct tokens *tokens, char *const *env, size_t n) __attribute__((warn_unused_result));

/** tokens_forbid() - the first of @env ("NAME=value", NULL-terminated) that may not come beside them; NULL:
 * none */
const char *tokens_forbid(const struct tokens *tokens, char *const *env);

/** tokens_each() - call @fn for each token. @id: the first characters of its ID, which is no secret */
void tokens_each(const struct tokens *tokens,
                 void (*fn)(void *arg, size_t i, const char *name, const char *id), void *arg);

enum { TOKENS_RESULTS_MAX = 128 };

/**
 * tokens_end() - have them revoked; waits as long as the keeper may take, 5 seconds and a little
 * @done: out, for each token '1': it is revoked; '0': it is not, or nobody knows
 */
void tokens_end(struct tokens *tokens, char done[TOKENS_RESULTS_MAX]);

/**
 * tokens_after() - when the run is over, in the process that called tokens_start(): revoke them if the keeper
 * was killed before it could
 */
void tokens_after(const struct tokens *tokens, const struct tokens_order *order);
