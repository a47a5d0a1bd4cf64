/*
 * service.h - the service that holds credentials (cofferdam-auth-proxy), as its clients reach it
 *
 * A place is "unix:PATH" or "http://HOST:PORT" with a host that is this machine: what travels is not
 * encrypted. Everything here blocks, within the times that are given.
 */
#pragma once

#include <jansson.h>
#include <stdint.h>

#include "runtime/base/error.h"

enum { SERVICE_TOKEN_MAX = 256, SERVICE_ID_MAX = 128 };

/**
 * service_connect() - a stream to @place
 * @wait_ms: for the connection, and for each read and write after it
 * Return: owned, close-on-exec, blocking; -EINVAL (no place of this machine), -ECONNREFUSED, -errno.
 */
int service_connect(const char *place, unsigned int wait_ms) __attribute__((warn_unused_result));

/** struct service - where tokens are issued; borrowed strings */
struct service {
        const char *place;
        const char *key; /* of the administrator; never shown */
        unsigned int wait_ms;
};

/** struct service_token - what was issued; the token is to be cleared when it was handed on */
struct service_token {
        char token[SERVICE_TOKEN_MAX];
        char id[SERVICE_ID_MAX];
};

/**
 * service_issue() - POST /admin/v1/tokens
 * @request: {run_id, step, expires_at, credential}; borrowed
 * @err: one line: the status and the service's own words, without the request
 * Return: 0, -EACCES (the key), -EPROTO (another answer), -ECONNREFUSED, -ETIMEDOUT, -ENOMEM, -errno.
 */
int service_issue(const struct service *service, const json_t *request, struct service_token *ret,
                  struct error *err) __attribute__((warn_unused_result));

/** service_revoke() - DELETE of one token, which may be gone already. Return: as service_issue(). */
int service_revoke(const struct service *service, const char *id, struct error *err)
        __attribute__((warn_unused_result));

/** service_revoke_run() - DELETE of all tokens of a run. Return: as service_issue(). */
int service_revoke_run(const struct service *service, const char *run, struct error *err)
        __attribute__((warn_unused_result));
