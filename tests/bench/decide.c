/*
 * decide.c - what a decision costs with 10 and with N rules: decide [N]
 *
 * The same hosts are asked of both policies, in turn: names that the rules of both hold, names below them,
 * names that none holds, and addresses. Prints nanoseconds per decision, canonicalisation included as in the
 * proxy, and the ratio of the medians.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "netns/policy.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/clock.h"
#include "runtime/base/parse.h"

enum { FEW = 10, ROUNDS = 41, ASKED = 20000, HOSTS = 40 };

static void make_rule(size_t i, char *out, size_t size) {
        if (i % 5 == 4)
                (void) snprintf(out, size, "%zu.%zu.%zu.0/24", 11 + i % 80, i / 80 % 256, i % 256);
        else if (i % 5 == 3)
                (void) snprintf(out, size, "!host-%zu.sub.example.com", i);
        else
                (void) snprintf(out, size, "%s-%zu.example.net",
                                i % 5 == 0   ? "host"
                                : i % 5 == 1 ? "**.zone"
                                             : "*.one",
                                i);
}

static struct policy *make_policy(size_t n) {
        char(*texts)[64] = calloc(n, sizeof(*texts));
        const char **rules = calloc(n, sizeof(*rules));
        struct policy *policy = NULL;
        struct error err = { 0 };

        if (!texts || !rules)
                exit(1);
        for (size_t i = 0; i < n; i++) {
                make_rule(i, texts[i], sizeof(texts[i]));
                rules[i] = texts[i];
        }
        if (policy_new(NETWORK_ALLOWLIST, NULL, rules, n, &policy, &err) < 0) {
                (void) fprintf(stderr, "%s\n", err.msg);
                exit(1);
        }
        free(texts);
        free(rules);
        return policy;
}

/* Hosts about which both policies say the same, from the rules that both have. */
static void make_host(size_t i, char *out, size_t size) {
        static const char *const labels[] = { "host", "a.b.zone", "a.one", "nowhere" };

        if (i % 5 == 4)
                (void) snprintf(out, size, "93.184.216.%zu", i);
        else
                (void) snprintf(out, size, "%s-%zu.example.net", labels[i % 5], i % FEW);
}

static double one_round(const struct policy *policy, char (*hosts)[64], size_t *allowed) {
        const uint64_t start = clock_ns();

        for (size_t i = 0; i < ASKED; i++) {
                const char *s = hosts[i % HOSTS];
                struct host host;

                if (host_parse(s, strlen(s), &host, NULL) == 0)
                        *allowed += policy_host(policy, &host, 443).reason == POLICY_OK;
        }
        return (double) (clock_ns() - start) / ASKED;
}

static int compare(const void *a, const void *b) {
        const double x = *(const double *) a, y = *(const double *) b;

        return (x > y) - (x < y);
}

int main(int argc, char **argv) {
        uint64_t many = 10000;
        AUTO_POLICY struct policy *small = make_policy(FEW);
        AUTO_POLICY struct policy *large = NULL;
        static char hosts[HOSTS][64];
        double few_ns[ROUNDS], many_ns[ROUNDS];
        size_t few_allowed = 0, many_allowed = 0;

        if (argc > 1 && parse_u64(argv[1], FEW, POLICY_RULES_MAX, &many) < 0)
                return 2;
        large = make_policy(many);
        for (size_t i = 0; i < HOSTS; i++)
                make_host(i, hosts[i], sizeof(hosts[i]));
        for (size_t i = 0; i < ROUNDS; i++) {
                few_ns[i] = one_round(small, hosts, &few_allowed);
                many_ns[i] = one_round(large, hosts, &many_allowed);
        }
        qsort(few_ns, ROUNDS, sizeof(*few_ns), compare);
        qsort(many_ns, ROUNDS, sizeof(*many_ns), compare);
        printf("rules ns/decision\n%5d %.0f\n%5llu %.0f\nratio %.2f\n", FEW, few_ns[ROUNDS / 2],
               (unsigned long long) many, many_ns[ROUNDS / 2], many_ns[ROUNDS / 2] / few_ns[ROUNDS / 2]);
        return few_allowed == many_allowed && few_allowed > 0 ? 0 : 1;
}
