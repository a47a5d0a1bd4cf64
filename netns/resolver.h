/*
 * resolver.h - names to addresses through the host's resolv.conf and hosts file, without blocking
 */
#pragma once

#include <stddef.h>

#include "netns/host.h"
#include "netns/loop.h"
#include "runtime/base/error.h"

struct resolver;
struct lookup;

enum {
        RESOLVER_ADDRS_MAX = 32,    /* more are not looked at */
        RESOLVER_QUERIES_MAX = 512, /* names that are asked for at the same time */
};

/**
 * lookup_fn - the end of a lookup; never called from within resolver_lookup() itself
 * @n:   addresses in the order in which they came
 * @why: NULL, or why there are none: a phrase, static
 */
typedef void (*lookup_fn)(void *arg, const struct addr *addrs, size_t n, const char *why);

/** resolver_late - the @why of a lookup_fn that says that nobody answered in time; compared by its address */
extern const char resolver_late[];

/** resolver_config_fn - the configuration is another one now: wants resolver_set_config() with its text */
typedef void (*resolver_config_fn)(void *arg);

/** struct resolver_config - what to read, and who reads it */
struct resolver_config {
        const char *path;           /* NULL: /etc/resolv.conf; /etc/hosts is read at each lookup */
        resolver_config_fn changed; /* NULL: @path is read again by this process */
        void *arg;                  /* of @changed */
};

/**
 * resolver_new() - read the configuration of the host
 * @loop:   borrowed, outlives the resolver
 * @config: copied
 * @ret:    caller frees with resolver_free(), which ends lookups without a call
 * Return: 0, -ENOMEM, -EIO (message).
 */
int resolver_new(struct loop *loop, const struct resolver_config *config, struct resolver **ret,
                 struct error *err) __attribute__((warn_unused_result));
struct resolver *resolver_free(struct resolver *resolver);

/**
 * resolver_set_config() - ask as the text in @fd says from now on, also for what is under way
 * @fd: borrowed; a file of any kind in the form of resolv.conf, read from its start
 */
void resolver_set_config(struct resolver *resolver, int fd);

/**
 * resolver_lookup() - ask for A and AAAA of @name, which is looked up as it is (no search list)
 * One question for all who ask at the same time.
 * @ret: the lookup, for lookup_cancel(); owned by the resolver, gone when @fn is called
 * Return: 0, -EINVAL (longer than a name can be), -EAGAIN (RESOLVER_QUERIES_MAX), -ENOMEM.
 */
int resolver_lookup(struct resolver *resolver, const char *name, lookup_fn fn, void *arg, struct lookup **ret)
        __attribute__((warn_unused_result));

/** lookup_cancel() - @fn will not be called; NULL-safe */
void lookup_cancel(struct lookup *lookup);
