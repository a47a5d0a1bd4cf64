/*
 * fuzz-policy.c - network rules, and hosts decided by them, against a matcher that reads the rules one by one
 *
 * Input: rules, one a line, then an empty line, then a host with or without a port.
 */
#include <stdlib.h>
#include <string.h>

#include "netns/policy.h"
#include "netns/rule.h"
#include "runtime/base/cleanup.h"
#include "tests/fuzz/fuzz.h"

enum { INPUT_MAX = 8192, RULES_MAX = 32 };

static void check(bool holds) {
        if (!holds)
                __builtin_trap();
}

static bool ends_with_label(const char *name, const char *suffix, size_t *ret_before) {
        const size_t n = strlen(name), m = strlen(suffix);

        if (n <= m || strcmp(name + n - m, suffix) != 0 || (m > 0 && name[n - m - 1] != '.'))
                return false;
        *ret_before = m > 0 ? n - m - 1 : n;
        return true;
}

static bool matches(const struct net_rule *rule, const struct host *host) {
        size_t before;

        if (host->kind == HOST_ADDR)
                return rule->kind == RULE_NET ? cidr_has(&rule->net, &host->addr)
                                              : rule->kind == RULE_DEEP && !*rule->name;
        switch (rule->kind) {
        case RULE_EXACT:
                return strcmp(rule->name, host->name) == 0;
        case RULE_ONE:
                return ends_with_label(host->name, rule->name, &before) && !memchr(host->name, '.', before);
        case RULE_DEEP:
                return strcmp(rule->name, host->name) == 0 ||
                       ends_with_label(host->name, rule->name, &before);
        case RULE_NET:
        case RULE_KIND_COUNT:
                return false;
        }
        return false;
}

/* Of the host's loopback each port has to be named by what allows it. */
static bool fits_port(const struct net_rule *rule, const struct host *host, uint16_t port) {
        if (host_is_alias(host) && !rule->deny)
                return rule->kind == RULE_EXACT && rule->port == port;
        return rule->port == RULE_PORT_ANY || rule->port == port ||
               (rule->port == RULE_PORT_USUAL && (port == 80 || port == 443));
}

static int model(const struct net_rule *rules, int n, const struct host *host, uint16_t port) {
        for (int i = n - 1; i >= 0; i--) {
                if (fits_port(&rules[i], host, port) && matches(&rules[i], host))
                        return i;
        }
        return POLICY_NO_RULE;
}

static void decide(const char *const *texts, const struct net_rule *rules, int n, enum network_mode mode,
                   const char *s) {
        AUTO_POLICY struct policy *policy = NULL;
        struct policy_verdict v;
        struct host host;
        uint16_t port;
        int want;

        check(policy_new(mode, NULL, texts, (size_t) n, &policy, NULL) == 0);
        if (host_parse_authority(s, strlen(s), 443, &host, &port, NULL) < 0)
                return;
        v = policy_host(policy, &host, port);
        want = model(rules, n, &host, port);
        check(v.reason < POLICY_REASON_COUNT && *policy_reason_text(&v));
        if (v.reason == POLICY_PORT)
                check(want == POLICY_NO_RULE && mode == NETWORK_ALLOWLIST && v.rule >= 0 &&
                      !rules[v.rule].deny);
        else
                check(v.rule == want);
        if (want != POLICY_NO_RULE && rules[want].deny)
                check(v.reason == POLICY_RULE);
        if (host_is_alias(&host))
                check((v.reason == POLICY_OK) == (want != POLICY_NO_RULE && !rules[want].deny));
        if (host.kind == HOST_ADDR && addr_special(&host.addr, NULL) && v.reason == POLICY_OK)
                check(want != POLICY_NO_RULE);
        if (v.reason == POLICY_OK)
                (void) policy_dial(policy, &v, &(struct addr){ .b = { 0xfe, 0x80 } }, port);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        AUTO_FREE char *text = NULL;
        const char *texts[RULES_MAX];
        static struct net_rule rules[RULES_MAX];
        char *s;
        int n = 0;

        if (size > INPUT_MAX)
                return 0;
        text = strndup((const char *) data, size);
        if (!text)
                return 0;
        for (s = text; *s && *s != '\n' && n < RULES_MAX;) {
                char *end = s + strcspn(s, "\n");
                struct error err = { 0 };
                size_t at = 0;

                if (*end)
                        *end++ = '\0';
                if (rule_parse(s, &rules[n], &at, &err) == 0)
                        texts[n++] = s;
                else
                        check(at <= strlen(s) && *err.msg);
                s = end;
        }
        s += *s == '\n';
        decide(texts, rules, n, NETWORK_ALLOWLIST, s);
        decide(texts, rules, n, NETWORK_DENYLIST, s);
        return 0;
}
