/*
 * host.h - the one form of a host that rules are matched with and that is then looked up and dialled
 *
 * Every place where a host is read (request line, Host, SNI, DNS question, rule, command line) goes through
 * here, so no two places can take one spelling for two hosts. What has no such form is refused.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "netns/addr.h"
#include "runtime/base/error.h"

enum { HOST_NAME_BYTES_MAX = 253, HOST_LABEL_BYTES_MAX = 63 };

/* the name inside for the loopback of the host, as containers have it; never looked up */
#define HOST_ALIAS "host.docker.internal"

enum host_kind { HOST_NAME, HOST_ADDR };

/** struct host - a canonical host; the value has no pointers and may be copied and compared by @name */
struct host {
        enum host_kind kind;
        char name[HOST_NAME_BYTES_MAX + 1]; /* lower case A-labels without a final dot, or addr_text() */
        struct addr addr;                   /* HOST_ADDR only */
};

/**
 * host_parse() - canonicalise one host without a port
 * @s:   @len bytes from anyone: may hold NUL, may be UTF-8
 * @ret: written on success only
 *
 * Names: letters, digits, '-' and '_' (not '-' at the ends of a label), any case, one final dot; UTF-8
 * becomes A-labels (IDNA 2008 with the mapping of UTS 46), and A-labels have to be well-formed. A name whose
 * last label is a number is an IPv4 address in a spelling of inet_aton(3) (decimal, octal, hexadecimal, one
 * to four parts) or nothing. IPv6 with or without brackets; a zone is refused; a mapped address is the IPv4
 * address.
 *
 * Return: 0, -EINVAL with the reason in @err (without the host), -ENOMEM.
 */
int host_parse(const char *s, size_t len, struct host *ret, struct error *err)
        __attribute__((warn_unused_result));

/** host_is_alias() - whether @host is HOST_ALIAS */
bool host_is_alias(const struct host *host);

/**
 * host_parse_authority() - "host", "host:port", "[v6]", "[v6]:port"
 * @default_port: when there is none; 0: a port is required
 * @ret_port:     1..65535
 *
 * IPv6 needs its brackets here; userinfo is refused. Return: as host_parse().
 */
int host_parse_authority(const char *s, size_t len, uint16_t default_port, struct host *ret,
                         uint16_t *ret_port, struct error *err) __attribute__((warn_unused_result));
