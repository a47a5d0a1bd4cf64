/*
 * policy.h - which hosts and addresses the work may reach
 *
 * A rule is [!]PATTERN[:PORT|:*][/tcp]:
 *   host        that name                       1.2.3.4, [::1]    that address
 *   *.host      exactly one label before it     10.0.0.0/8        those addresses ([fd00::]/8:443 with a
 * port)
 *   **.host     it and everything below it      *                 names of one label
 *   **          everything but addresses that no public name resolves to (addr_special())
 * '!' denies. Without a port an allowing rule is about 80 and 443, a denying one about every port. "/tcp"
 * permits protocols other than TLS and HTTP and needs a port. Rules are read in order, presets first, and the
 * last one that matches decides; when none does, an allowlist denies and a denylist allows.
 *
 * HOST_ALIAS is the loopback of the host, and only a rule HOST_ALIAS:PORT allows a port of it; nothing else
 * does, not "**", not an empty denylist, and no address: 127.0.0.1 in a rule that allows is refused, and
 * ranges leave it out. Rules that deny hold for it as for any name.
 *
 * A range names a special address (private, link-local, ...) when it lies in the special range around it:
 * 10.0.0.0/8 names 10.1.2.3, 0.0.0.0/0 does not.
 *
 * A name is decided twice: as a name, and then by each address it resolves to, before that address is
 * dialled.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "netns/host.h"
#include "runtime/base/error.h"
#include "runtime/spec/spec.h"

enum { POLICY_RULES_MAX = 32768, POLICY_NO_RULE = -1 };

/** enum policy_reason - why something is refused; POLICY_OK: it is not */
enum policy_reason {
        POLICY_OK,
        POLICY_NO_MATCH, /* no rule is about it */
        POLICY_PORT,     /* a rule allows the host on other ports */
        POLICY_RULE,     /* a rule denies it */
        POLICY_ADDRESS,  /* addr_special() and no rule names the address */
        POLICY_REASON_COUNT,
};

/** struct policy_verdict - a decision and what it rests on */
struct policy_verdict {
        enum policy_reason reason;
        bool raw;   /* allowed for any protocol */
        bool alias; /* it was HOST_ALIAS, and its port is allowed: 127.0.0.1 and ::1 may be dialled */
        int rule;   /* the rule that decided, POLICY_NO_RULE */
        const char *special; /* POLICY_ADDRESS: what kind of address, static */
};

struct policy;

/**
 * policy_new() - compile a policy
 * @mode:   NETWORK_NONE allows nothing, whatever the rules say
 * @preset: names of presets with commas between them, NULL: none
 * @rules:  @n texts, borrowed during the call
 * @ret:    caller frees with policy_free()
 * Return: 0, -EINVAL (which rule, at which byte, why and what to write), -E2BIG (POLICY_RULES_MAX), -ENOMEM.
 */
int policy_new(enum network_mode mode, const char *preset, const char *const *rules, size_t n,
               struct policy **ret, struct error *err) __attribute__((warn_unused_result));
struct policy *policy_free(struct policy *policy);

/** policy_host() - may the work connect to @host on @port? For HOST_ADDR this is the whole decision. */
struct policy_verdict policy_host(const struct policy *policy, const struct host *host, uint16_t port);

/**
 * policy_dial() - may @addr be dialled for a name?
 * @name: what policy_host() said of the name: POLICY_OK
 * A rule without a port names its addresses for every port here: the port was decided with the name.
 */
struct policy_verdict policy_dial(const struct policy *policy, const struct policy_verdict *name,
                                  const struct addr *addr, uint16_t port);

/**
 * policy_somewhere() - may the work connect to @host on any port?
 * @ret: what policy_host() says of a port that it may, else of 443
 */
bool policy_somewhere(const struct policy *policy, const struct host *host, struct policy_verdict *ret);

/**
 * policy_hears() - whether a connection to @port may be allowed by the name that it carries itself (SNI,
 * Host) An allowlist only: a denylist does not look into what it does not deny.
 */
bool policy_hears(const struct policy *policy, uint16_t port);

/**
 * policy_ports() - the ports below @end that some rule allows: 80, 443, and those that allowing rules name
 * @out: at most @max, the lowest first. Return: how many.
 */
size_t policy_ports(const struct policy *policy, uint16_t end, uint16_t *out, size_t max);

/** policy_rule_text() - rule @rule as it was written, borrowed; "(no rule)" for POLICY_NO_RULE */
const char *policy_rule_text(const struct policy *policy, int rule);

/** policy_rule_preset() - the preset that rule @rule is of, borrowed; NULL: it is the caller's own */
const char *policy_rule_preset(const struct policy *policy, int rule);

/** policy_reason_text() - a phrase for people and events, such as "no rule allows it" */
const char *policy_reason_text(const struct policy_verdict *verdict);

/**
 * policy_next_idle() - the first rule from @start on that changes nothing: an allowing rule of a denylist
 * before which nothing is denied, which is usually a '!' forgotten Return: its number, or -1.
 */
int policy_next_idle(const struct policy *policy, int start);

#define AUTO_POLICY __attribute__((cleanup(auto_policy)))
static inline void auto_policy(struct policy **p) {
        *p = policy_free(*p);
}
