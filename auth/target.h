/*
 * target.h - what a request asks for, and whether a token may have it
 *
 * There are two targets: the model API, and /r/<host>/<path>, a host that a secret is for. Both are decided
 * on the bytes of the request line, which are then sent on unchanged: nothing is decoded, joined or
 * shortened in between.
 */
#pragma once

#include <stdbool.h>

#include "auth/registry.h"
#include "netns/http.h"

/** enum relay_result - how a request to the relay ended, as far as this side decides it */
enum relay_result {
        RELAY_OK,
        RELAY_BAD_REQUEST, /* no HTTP that is passed on */
        RELAY_HEAD_SIZE,   /* a limit of netns/http.h */
        RELAY_TWO_TOKENS,  /* one of the places of a token is there twice */
        RELAY_EXPECT,      /* an expectation other than 100-continue */
        RELAY_PROXY_FORM,  /* a URL with a host, or CONNECT */
        RELAY_NO_TOKEN,
        RELAY_UNKNOWN,
        RELAY_EXPIRED,
        RELAY_REVOKED,
        RELAY_UNAVAILABLE, /* the registry does not answer */
        RELAY_SOURCE,      /* the token is bound to another address */
        RELAY_MODEL_TOKEN, /* a secret's token for the model */
        RELAY_MODEL_PATH,
        RELAY_MODEL_METHOD,
        RELAY_SECRET_TOKEN, /* the model's token for a host */
        RELAY_HOST,
        RELAY_PATH,
        RELAY_METHOD,
        RELAY_TOO_LARGE,
        RELAY_BUSY, /* a limit on requests at once */
        RELAY_MODEL_UPSTREAM,
        RELAY_UPSTREAM,
        RELAY_FAILED, /* this side could not send it: out of memory */
        RELAY_RESULT_COUNT
};

/** struct relay_answer - what the client is told about a result, and the metric's name for it */
struct relay_answer {
        unsigned int status;
        const char *kind;    /* as the model API names kinds of errors */
        const char *message; /* the same for all tokens that are not good: which it was is in the log only */
        const char *metric;
};

/** relay_answer_of() - @result: not RELAY_OK for status, kind and message. Return: static. */
const struct relay_answer *relay_answer_of(enum relay_result result);

/** struct target - a request's path taken apart; borrowed from the request */
struct target {
        bool secret;            /* /r/<host>/<path> */
        struct http_text host;  /* of a secret, as it was written: hostile */
        struct http_text path;  /* begins with '/' */
        struct http_text query; /* with its '?'; empty: none */
};

/** target_split() - @path: of a request in origin form, with its query */
void target_split(struct http_text path, struct target *ret);

/**
 * target_path_clean() - whether every server reads a path alike
 * Letters, digits and "/_.-" only, no empty segment but the last, no segment "." or "..".
 */
bool target_path_clean(struct http_text path);

/**
 * target_judge() - may the holder of a grant have a target?
 * Return: RELAY_OK, or the first of RELAY_MODEL_TOKEN..RELAY_METHOD that is against it.
 */
enum relay_result target_judge(const struct target *target, struct http_text method,
                               const struct credential *credential);
