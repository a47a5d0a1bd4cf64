/*
 * resolver.h - names to addresses through the host's resolv.conf and hosts file, without blocking
 */
#pragma once

#include <stddef.h>

#include "netns/addr.h"
#include "netns/loop.h"
#include "runtime/base/error.h"

struct resolver;
struct lookup;

enum { RESOLVER_ADDRS_MAX = 32 }; /* more are not looked at */

/**
 * lookup_fn - the end of a lookup; never called from within resolver_lookup() itself
 * @n:   addresses in the order in which they came
 * @why: NULL, or why there are none: a phrase, static
 */
typedef void (*lookup_fn)(void *arg, const struct addr *addrs, size_t n, const char *why);

/**
 * resolver_new() - read the configuration of the host
 * @loop:        borrowed, outlives the resolver
 * @resolv_conf: NULL: /etc/resolv.conf; read again when it changes; /etc/hosts is read at each lookup
 * @ret:         caller frees with resolver_free(), which ends lookups without a call
 * Return: 0, -ENOMEM, -EIO (message).
 */
int resolver_new(struct loop *loop, const char *resolv_conf, struct resolver **ret, struct error *err)
        __attribute__((warn_unused_result));
struct resolver *resolver_free(struct resolver *resolver);

/**
 * resolver_lookup() - ask for A and AAAA of @name, which is looked up as it is (no search list)
 * @ret: the lookup, for lookup_cancel(); owned by the resolver, gone once @fn was called
 * Return: 0, -ENOMEM.
 */
int resolver_lookup(struct resolver *resolver, const char *name, lookup_fn fn, void *arg, struct lookup **ret)
        __attribute__((warn_unused_result));

/** lookup_cancel() - @fn will not be called; NULL-safe */
void lookup_cancel(struct lookup *lookup);
