/*
 * secretrules.h - what a secret that a relay injects may be called, hold, and be sent to
 *
 * The rules of the wire format (names, hosts, headers), said once for the specification and for the service.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

enum { SECRET_NAME_MAX = 64, SECRET_ENV_MAX = 256, SECRET_USER_MAX = 256, SECRET_HEADER_MAX = 128 };

/** secret_name_valid() - 1 to SECRET_NAME_MAX of [A-Za-z0-9_.-] */
bool secret_name_valid(const char *name);

/** secret_env_valid() - [A-Za-z_][A-Za-z0-9_]*, up to SECRET_ENV_MAX */
bool secret_env_valid(const char *name);

/** secret_value_valid() - printable ASCII without space, not empty: what a header can carry */
bool secret_value_valid(const char *value);

/** secret_user_valid() - user name of HTTP Basic: printable ASCII without ':', not empty */
bool secret_user_valid(const char *user);

/**
 * secret_header_refused() - why a header cannot carry a secret
 * Return: static text, NULL when it can.
 */
const char *secret_header_refused(const char *name);

/** header_is_hop_by_hop() - Connection and its kind, which end at each hop (RFC 9110, 7.6.1); any case */
bool header_is_hop_by_hop(const char *name, size_t len);

/**
 * secret_host_canonical() - an entry of a host list: a DNS name of two labels or more, or "*." and such a
 * name
 * @host: any case, blanks around it are dropped
 * @ret:  out, lower case, owned by the caller; written on success only
 *
 * Return: 0, -EINVAL, -ENOMEM.
 */
int secret_host_canonical(const char *host, char **ret) __attribute__((warn_unused_result));

/**
 * secret_host_matches() - whether a host of a request is one an entry names
 * @entry: of secret_host_canonical(); "*.domain" matches below the domain at any depth, never the domain
 * itself
 * @host:  hostile, @len bytes; anything that is no DNS name of two labels or more never matches
 */
bool secret_host_matches(const char *entry, const char *host, size_t len);
