/*
 * credential.h - what a token stands for: a credential, how it is put into a request, and where it may go
 *
 * The JSON is the wire format of the admin API: {"kind": "oauth_token" or "api_key", "value": V} for the
 * model, and
 * {"name": N, "value": V, "injection": I, "hosts": [H, ...]} for any other secret, where I is "bearer",
 * "private_token", "x_api_key", {"header": NAME} or {"basic": {"username": U}}.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "runtime/base/cleanup.h"
#include "runtime/base/error.h"

enum { CREDENTIAL_VALUE_MAX = 64 * 1024, CREDENTIAL_HOSTS_MAX = 256 };

enum credential_kind {
        CREDENTIAL_MODEL_OAUTH,   /* relayed to /v1/ as "authorization: Bearer" with the beta flag */
        CREDENTIAL_MODEL_API_KEY, /* relayed to /v1/ as "x-api-key" */
        CREDENTIAL_SECRET,        /* relayed to /r/<host>/ */
        CREDENTIAL_KIND_COUNT
};

enum credential_inject {
        INJECT_BEARER,        /* authorization: Bearer VALUE */
        INJECT_BASIC,         /* authorization: Basic base64(ARG:VALUE) */
        INJECT_PRIVATE_TOKEN, /* private-token: VALUE */
        INJECT_X_API_KEY,     /* x-api-key: VALUE */
        INJECT_HEADER,        /* ARG: VALUE */
        INJECT_COUNT
};

/**
 * struct credential - owned by whoever made it; the value is overwritten when it is freed
 * @kind:   what it is for
 * @name:   name of a secret, 1 to 64 characters of [A-Za-z0-9_.-]; NULL for the model
 * @value:  printable ASCII without space, not empty; never in a log, an event or an error
 * @inject: how a secret is put into the request; INJECT_COUNT for the model
 * @arg:    user name (INJECT_BASIC) or name of the header in lower case (INJECT_HEADER); NULL otherwise
 * @hosts:  lower case host names or "*.domain", @n_hosts of them; NULL for the model
 */
struct credential {
        enum credential_kind kind;
        char *name;
        char *value;
        enum credential_inject inject;
        char *arg;
        char **hosts;
        size_t n_hosts;
};

/**
 * credential_parse() - from the JSON of the admin API
 * @json: borrowed, hostile
 * @ret:  caller frees with credential_free()
 * @err:  names the field, never a value
 *
 * Return: 0, -EINVAL (both shapes mixed, an unknown field, a rule broken), -ENOMEM.
 */
int credential_parse(const json_t *json, struct credential **ret, struct error *err)
        __attribute__((warn_unused_result));

/** credential_json() - the JSON credential_parse() reads. Return: new reference, NULL when out of memory. */
json_t *credential_json(const struct credential *credential) __attribute__((warn_unused_result));

/** credential_dup() - a copy of its own. Return: owned, NULL when out of memory. */
struct credential *credential_dup(const struct credential *credential) __attribute__((warn_unused_result));

/** credential_free() - NULL allowed; overwrites the value. Return: NULL. */
struct credential *credential_free(struct credential *credential);
DEFINE_AUTO(struct credential, credential, credential_free)
#define AUTO_CREDENTIAL CLEANUP(auto_credential)

/**
 * credential_allows() - whether a secret may be sent to a host
 * @host: borrowed, hostile, need not end with NUL; any case. A name that is not a DNS host name of two labels
 * or more (an address, a name with a port) is never allowed. "*.domain" matches below the domain at any
 * depth, never the domain itself.
 */
bool credential_allows(const struct credential *credential, const char *host, size_t len);
