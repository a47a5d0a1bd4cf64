/*
 * rule.h - the text of one network rule taken apart (policy.h has the grammar)
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "netns/addr.h"
#include "netns/host.h"
#include "runtime/base/error.h"

/** enum rule_kind - what the pattern is: @name, one label and @name, @name and below, or @net */
enum rule_kind { RULE_EXACT, RULE_ONE, RULE_DEEP, RULE_NET, RULE_KIND_COUNT };

enum { RULE_PORT_ANY = -1, RULE_PORT_USUAL = 0 }; /* USUAL: 80 and 443 */

/** struct net_rule - a rule without its text */
struct net_rule {
        enum rule_kind kind;
        bool deny, raw;
        int port;                           /* RULE_PORT_*, or 1..65535 */
        char name[HOST_NAME_BYTES_MAX + 1]; /* "" for "*" and "**" */
        struct cidr net;                    /* RULE_NET */
};

/**
 * rule_parse() - read one rule
 * @ret_at: -EINVAL: offset of the byte in @text that the message is about
 * Return: 0, -EINVAL (message: the reason and what to write instead, without the rule), -ENOMEM.
 */
int rule_parse(const char *text, struct net_rule *ret, size_t *ret_at, struct error *err)
        __attribute__((warn_unused_result));
