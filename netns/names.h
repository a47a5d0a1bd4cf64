/*
 * names.h - addresses that stand for names inside a sandbox, and lead nowhere else
 *
 * The stub resolver answers with one; when the work connects to it, the proxy knows what it asked for.
 */
#pragma once

#include <stdint.h>

#include "netns/addr.h"
#include "netns/host.h"

/* 198.18.0.0/15, which RFC 2544 keeps for measurements between devices: no host has one of them */
#define NAMES_NET     0xc6120000U
#define NAMES_NETMASK 0xfffe0000U
enum { NAMES_MAX = 8192 };

struct names;

/** names_new() - @ret: caller frees with names_free(). Return: 0, -ENOMEM. */
int names_new(struct names **ret) __attribute__((warn_unused_result));
struct names *names_free(struct names *names);

/**
 * names_address() - the address of @name, the same while the name is among the latest NAMES_MAX
 * @name: of HOST_NAME
 * An address goes to another name when more are asked for. Whoever still uses it is decided by that name, and
 * a TLS connection still carries its own. Return: 0, -ENOMEM.
 */
int names_address(struct names *names, const struct host *name, struct addr *ret)
        __attribute__((warn_unused_result));

/** names_find() - the name that @addr stands for. Return: borrowed until the next call of names_address();
 * NULL: none. */
const struct host *names_find(const struct names *names, const struct addr *addr);
