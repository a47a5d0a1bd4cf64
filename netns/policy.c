/*
 * DOC: theory of operation
 *
 * The rules of names are a trie of labels read from the right, kept flat: one hash table whose keys are whole
 * suffixes ("com", "example.com"), so that a lookup hashes the host once from its end and asks the table at
 * each dot. An entry has one chain of rules per kind of pattern, the last rule first; address ranges are
 * entries of the same table, asked for once per prefix length that occurs. A decision costs labels + 1
 * (names) or lengths (addresses) lookups, however many rules there are; only rules that differ in nothing but
 * their port share a chain.
 *
 * The rules are the operator's. The host is the attacker's, and looking it up changes nothing.
 */
#include "netns/policy.h"

#include <assert.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#include "netns/preset.h"
#include "netns/rule.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/escape.h"

enum { KEY_NET_LEN = 17, BITS_COUNT = 129 };
enum { PORT_SOME = 0 /* stands for the ports that no rule names */, PORT_WORDS = 65536 / 64 };

struct rule {
        char *text;         /* owned */
        const char *preset; /* static, NULL */
        enum rule_kind kind;
        bool deny, raw;
        int port;
        int before; /* the rule before it in its chain */
};

struct entry {
        uint64_t hash;
        char *key; /* owned; NULL: free */
        size_t len;
        bool net;
        int last[RULE_KIND_COUNT]; /* the chains */
};

struct policy {
        enum network_mode mode;
        struct rule *rules;
        size_t n_rules, cap_rules;
        struct entry *table;
        size_t size, used; /* size: a power of two, at least twice @used */
        bool has_bits[BITS_COUNT];
        uint64_t ports[PORT_WORDS]; /* that an allowing rule names, as bits */
        uint64_t heard[PORT_WORDS]; /* those of names whose connections say so themselves */
        bool heard_any;
};

/* --- the table ------------------------------------------------------------------------------------------ */

static const uint64_t hash_start = 0xcbf29ce484222325U;

/* FNV-1a */
static uint64_t hash_byte(uint64_t h, char c) {
        return (h ^ (unsigned char) c) * 0x100000001b3U;
}

/* From the end to the start, so that the hash of a suffix is a step on the way to that of the whole. */
static uint64_t hash_back(const char *key, size_t len) {
        uint64_t h = hash_start;

        while (len > 0)
                h = hash_byte(h, key[--len]);
        return h;
}

/* The entry of the key, or the free one where it belongs; never full. */
static struct entry *table_slot(const struct policy *policy, uint64_t hash, const char *key, size_t len,
                                bool net) {
        size_t i = (hash ^ hash >> 32) & (policy->size - 1);

        for (;; i = (i + 1) & (policy->size - 1)) {
                struct entry *e = &policy->table[i];

                if (!e->key ||
                    (e->hash == hash && e->len == len && e->net == net && memcmp(e->key, key, len) == 0))
                        return e;
        }
}

static int table_grow(struct policy *policy, struct error *err) {
        struct policy bigger = { .size = policy->size * 2 };

        if (policy->used * 2 < policy->size)
                return 0;
        bigger.table = calloc(bigger.size, sizeof(*bigger.table));
        if (!bigger.table)
                return error_set(err, -ENOMEM, "out of memory");
        for (size_t i = 0; i < policy->size; i++) {
                const struct entry *e = &policy->table[i];

                if (e->key)
                        *table_slot(&bigger, e->hash, e->key, e->len, e->net) = *e;
        }
        free(policy->table);
        policy->table = bigger.table;
        policy->size = bigger.size;
        return 0;
}

static int table_add(struct policy *policy, const char *key, size_t len, bool net, struct entry **ret,
                     struct error *err) {
        const uint64_t hash = hash_back(key, len);
        struct entry *e;
        char *copy;
        int r;

        r = table_grow(policy, err);
        if (r < 0)
                return r;
        e = table_slot(policy, hash, key, len, net);
        if (!e->key) {
                copy = malloc(len + 1);
                if (!copy)
                        return error_set(err, -ENOMEM, "out of memory");
                memcpy(copy, key, len);
                copy[len] = '\0';
                *e = (struct entry){ .hash = hash, .key = copy, .len = len, .net = net };
                for (size_t i = 0; i < RULE_KIND_COUNT; i++)
                        e->last[i] = POLICY_NO_RULE;
                policy->used++;
        }
        *ret = e;
        return 0;
}

static void set_bit(uint64_t *bits, uint16_t i) {
        bits[i / 64] |= 1ULL << (i % 64);
}

static bool has_bit(const uint64_t *bits, uint16_t i) {
        return bits[i / 64] >> (i % 64) & 1;
}

static void note_ports(struct policy *policy, const struct net_rule *rule) {
        const bool heard = rule->kind != RULE_NET && !rule->raw;

        if (rule->deny)
                return;
        if (rule->port > 0)
                set_bit(policy->ports, (uint16_t) rule->port);
        if (heard && rule->port > 0)
                set_bit(policy->heard, (uint16_t) rule->port);
        if (heard && rule->port == RULE_PORT_USUAL) {
                set_bit(policy->heard, 80);
                set_bit(policy->heard, 443);
        }
        policy->heard_any = policy->heard_any || (heard && rule->port == RULE_PORT_ANY);
}

static void net_key(const struct cidr *net, char out[KEY_NET_LEN]) {
        out[0] = (char) net->bits;
        memcpy(out + 1, net->addr.b, sizeof(net->addr.b));
}

/* --- compiling ------------------------------------------------------------------------------------------ */

static int push_rule(struct policy *policy, const struct net_rule *parsed, const char *text,
                     const char *preset, struct error *err) {
        char key[KEY_NET_LEN];
        const bool net = parsed->kind == RULE_NET;
        struct entry *entry;
        struct rule rule = { .preset = preset,
                             .kind = parsed->kind,
                             .deny = parsed->deny,
                             .raw = parsed->raw,
                             .port = parsed->port };
        int r;

        if (net)
                net_key(&parsed->net, key);
        r = table_add(policy, net ? key : parsed->name, net ? KEY_NET_LEN : strlen(parsed->name), net, &entry,
                      err);
        if (r < 0)
                return r;
        rule.text = strdup(text);
        if (!rule.text)
                return error_set(err, -ENOMEM, "out of memory");
        rule.before = entry->last[rule.kind];
        entry->last[rule.kind] = (int) policy->n_rules;
        policy->rules[policy->n_rules++] = rule;
        note_ports(policy, parsed);
        if (net)
                policy->has_bits[parsed->net.bits] = true;
        return 0;
}

static int add_rule(struct policy *policy, const char *text, const char *preset, struct error *err) {
        struct net_rule parsed;
        size_t at = 0;
        int r;

        if (policy->n_rules == POLICY_RULES_MAX)
                return error_set(err, -E2BIG, "more than %d network rules", POLICY_RULES_MAX);
        if (policy->n_rules == policy->cap_rules) {
                const size_t cap = policy->cap_rules ? policy->cap_rules * 2 : 64;
                struct rule *rules = reallocarray(policy->rules, cap, sizeof(*rules));

                if (!rules)
                        return error_set(err, -ENOMEM, "out of memory");
                policy->rules = rules;
                policy->cap_rules = cap;
        }
        r = rule_parse(text, &parsed, &at, err);
        if (r == -EINVAL)
                return error_wrap(err, r, "'%s', byte %zu", ESC(text), at + 1);
        return r < 0 ? r : push_rule(policy, &parsed, text, preset, err);
}

static int add_presets(struct policy *policy, const char *names, struct error *err) {
        for (;;) {
                const size_t len = strcspn(names, ",");
                const struct preset *preset = preset_find(names, len);
                char name[64] = { 0 };

                if (!preset) {
                        memcpy(name, names, len < sizeof(name) ? len : sizeof(name) - 1);
                        return error_set(err, -EINVAL, "network.preset: no preset '%s': there are %s%s",
                                         ESC(name), preset_names(),
                                         *names == '!' ? " (none can be negated)" : "");
                }
                for (const char *const *rule = preset->rules; *rule; rule++) {
                        const int r = add_rule(policy, *rule, preset->name, err);

                        if (r < 0)
                                return error_wrap(err, r, "preset '%s'", preset->name);
                }
                if (!names[len])
                        return 0;
                names += len + 1;
        }
}

int policy_new(enum network_mode mode, const char *preset, const char *const *rules, size_t n,
               struct policy **ret, struct error *err) {
        AUTO_POLICY struct policy *policy = calloc(1, sizeof(*policy));
        int r = 0;

        if (!policy)
                return error_set(err, -ENOMEM, "out of memory");
        policy->mode = mode;
        policy->table = calloc(64, sizeof(*policy->table));
        if (!policy->table)
                return error_set(err, -ENOMEM, "out of memory");
        policy->size = 64;
        if (preset)
                r = add_presets(policy, preset, err);
        for (size_t i = 0; r == 0 && i < n; i++) {
                r = add_rule(policy, rules[i], NULL, err);
                if (r == -EINVAL)
                        (void) error_wrap(err, r, "network.rules[%zu]", i);
        }
        if (r < 0)
                return r;
        *ret = TAKE_PTR(policy);
        return 0;
}

struct policy *policy_free(struct policy *policy) {
        if (!policy)
                return NULL;
        for (size_t i = 0; i < policy->n_rules; i++)
                free(policy->rules[i].text);
        for (size_t i = 0; i < policy->size; i++)
                free(policy->table[i].key);
        free(policy->rules);
        free(policy->table);
        free(policy);
        return NULL;
}

/* --- deciding ------------------------------------------------------------------------------------------- */

/* PORT_NAMED: what allows has to name the host and the port */
enum port_match { PORT_EXACT, PORT_USUAL_IS_ANY, PORT_IGNORED, PORT_NAMED };

static bool port_fits(const struct rule *rule, uint16_t port, enum port_match how) {
        if (how == PORT_NAMED && !rule->deny)
                return rule->kind == RULE_EXACT && rule->port == port;
        if (rule->port == RULE_PORT_ANY || how == PORT_IGNORED)
                return true;
        if (rule->port == RULE_PORT_USUAL)
                return how == PORT_USUAL_IS_ANY || port == 80 || port == 443;
        return rule->port == port;
}

/* The later one of @best and the last rule of the chain from @last that is about @port. */
static int later(const struct policy *policy, int best, int last, uint16_t port, enum port_match how) {
        for (int i = last; i > best; i = policy->rules[i].before) {
                if (port_fits(&policy->rules[i], port, how))
                        return i;
        }
        return best;
}

/* As later(), of rules that deny. */
static int later_denying(const struct policy *policy, int best, int last, uint16_t port,
                         enum port_match how) {
        for (int i = last; i > best; i = policy->rules[i].before) {
                if (policy->rules[i].deny && port_fits(&policy->rules[i], port, how))
                        return i;
        }
        return best;
}

static int match_name(const struct policy *policy, const char *name, uint16_t port, enum port_match how) {
        const size_t len = strlen(name);
        uint64_t hash = hash_start;
        size_t start = len, dot = len; /* the suffix asked for, and what is before it ends here */
        int best = POLICY_NO_RULE;

        for (;;) {
                const struct entry *e = table_slot(policy, hash, name + start, len - start, false);
                const bool one_more = start > 0 && !memrchr(name, '.', dot);

                if (e->key) {
                        best = later(policy, best, e->last[RULE_DEEP], port, how);
                        if (start == 0)
                                best = later(policy, best, e->last[RULE_EXACT], port, how);
                        if (one_more)
                                best = later(policy, best, e->last[RULE_ONE], port, how);
                }
                if (start == 0)
                        return best;
                if (start < len)
                        hash = hash_byte(hash, name[--start]); /* the dot */
                while (start > 0 && name[start - 1] != '.')
                        hash = hash_byte(hash, name[--start]);
                dot = start > 0 ? start - 1 : 0;
        }
}

/* The shortest prefix of an allowing rule that names @addr: that of its special range, so that a range which
 * only holds that one does not. 0: an ordinary address. rule_parse() lets none name the host's loopback. */
static unsigned int bits_naming(const struct addr *addr) {
        unsigned int bits = 0;

        (void) addr_special(addr, &bits);
        return bits;
}

/* The last rule of ranges about @addr that denies, or allows with a prefix of at least @least. */
static int match_addr(const struct policy *policy, const struct addr *addr, uint16_t port,
                      enum port_match how, unsigned int least) {
        int best = POLICY_NO_RULE;

        for (unsigned int bits = 0; bits < BITS_COUNT; bits++) {
                const struct entry *e;
                struct cidr net;
                char key[KEY_NET_LEN];

                if (!policy->has_bits[bits])
                        continue;
                net = (struct cidr){ .addr = addr_mask(addr, bits), .bits = bits };
                net_key(&net, key);
                e = table_slot(policy, hash_back(key, sizeof(key)), key, sizeof(key), true);
                if (e->key && bits < least)
                        best = later_denying(policy, best, e->last[RULE_NET], port, how);
                else if (e->key)
                        best = later(policy, best, e->last[RULE_NET], port, how);
        }
        return best;
}

/* Rules "**", which are about addresses too. */
static int match_all(const struct policy *policy, uint16_t port, enum port_match how) {
        const struct entry *e = table_slot(policy, hash_start, "", 0, false);

        return e->key ? later(policy, POLICY_NO_RULE, e->last[RULE_DEEP], port, how) : POLICY_NO_RULE;
}

static bool allows(const struct policy *policy, int rule) {
        return rule != POLICY_NO_RULE && !policy->rules[rule].deny;
}

/* @rule decided, or none did and @anywhere is the last rule about the host on whatever port. */
static struct policy_verdict verdict(const struct policy *policy, int rule, int anywhere) {
        struct policy_verdict v = { .reason = POLICY_OK, .rule = rule };

        if (rule != POLICY_NO_RULE) {
                v.reason = policy->rules[rule].deny ? POLICY_RULE : POLICY_OK;
                v.raw = policy->rules[rule].raw || policy->mode != NETWORK_ALLOWLIST;
        } else if (policy->mode == NETWORK_ALLOWLIST) {
                v.reason = allows(policy, anywhere) ? POLICY_PORT : POLICY_NO_MATCH;
                v.rule = v.reason == POLICY_PORT ? anywhere : POLICY_NO_RULE;
        } else {
                v.raw = true; /* what is not denied is not looked into */
        }
        return v;
}

static struct policy_verdict decide_addr(const struct policy *policy, const struct addr *addr,
                                         uint16_t port) {
        const int net = match_addr(policy, addr, port, PORT_EXACT, 0);
        const int all = match_all(policy, port, PORT_EXACT);
        const int rule = net > all ? net : all;
        const int anywhere =
                rule == POLICY_NO_RULE ? match_addr(policy, addr, port, PORT_IGNORED, 0) : POLICY_NO_RULE;
        struct policy_verdict v = verdict(policy, rule, anywhere);

        v.special = addr_special(addr, NULL);
        if (v.special && v.reason == POLICY_OK &&
            !allows(policy, match_addr(policy, addr, port, PORT_EXACT, bits_naming(addr))))
                v.reason = POLICY_ADDRESS;
        return v;
}

static struct policy_verdict decide_alias(const struct policy *policy, const char *name, uint16_t port) {
        struct policy_verdict v = { .reason = POLICY_ADDRESS,
                                    .rule = match_name(policy, name, port, PORT_NAMED),
                                    .special = "the loopback of the host" };

        if (v.rule == POLICY_NO_RULE)
                return v;
        v.reason = policy->rules[v.rule].deny ? POLICY_RULE : POLICY_OK;
        v.alias = v.raw =
                v.reason == POLICY_OK; /* no other site is behind that port: nothing to agree with */
        return v;
}

struct policy_verdict policy_host(const struct policy *policy, const struct host *host, uint16_t port) {
        int rule;

        if (policy->mode == NETWORK_NONE)
                return (struct policy_verdict){ .reason = POLICY_NO_MATCH, .rule = POLICY_NO_RULE };
        if (host->kind == HOST_ADDR)
                return decide_addr(policy, &host->addr, port);
        if (host_is_alias(host) && policy->mode != NETWORK_OPEN)
                return decide_alias(policy, host->name, port);
        rule = match_name(policy, host->name, port, PORT_EXACT);
        return verdict(policy, rule,
                       rule == POLICY_NO_RULE ? match_name(policy, host->name, port, PORT_IGNORED) : rule);
}

/* 127.0.0.1 and ::1, the addresses of HOST_ALIAS */
static bool is_own(const struct addr *addr) {
        const struct addr own[] = { addr_from_ipv4(INADDR_LOOPBACK), { { [15] = 1 } } };

        return memcmp(addr, &own[0], sizeof(*addr)) == 0 || memcmp(addr, &own[1], sizeof(*addr)) == 0;
}

struct policy_verdict policy_dial(const struct policy *policy, const struct policy_verdict *name,
                                  const struct addr *addr, uint16_t port) {
        const bool alias = name->alias && is_own(addr);
        const int net = match_addr(policy, addr, port, PORT_USUAL_IS_ANY, alias ? 0 : bits_naming(addr));
        struct policy_verdict v = *name;

        assert(name->reason == POLICY_OK);
        v.special = alias ? NULL : addr_special(addr, NULL);
        if (v.special ? !allows(policy, net) : net > name->rule && !allows(policy, net)) {
                v.reason = v.special && net == POLICY_NO_RULE ? POLICY_ADDRESS : POLICY_RULE;
                v.rule = net == POLICY_NO_RULE ? name->rule : net;
        }
        return v;
}

size_t policy_ports(const struct policy *policy, uint16_t end, uint16_t *out, size_t max) {
        size_t n = 0;

        for (uint16_t port = 1; port < end && n < max; port++)
                if (port == 80 || port == 443 || has_bit(policy->ports, port))
                        out[n++] = port;
        return n;
}

bool policy_somewhere(const struct policy *policy, const struct host *host, struct policy_verdict *ret) {
        static const uint16_t usual[] = { PORT_SOME, 80, 443 };

        for (size_t i = 0; i < ARRAY_SIZE(usual); i++) {
                *ret = policy_host(policy, host, usual[i]);
                if (ret->reason == POLICY_OK)
                        return true;
        }
        for (size_t word = 0; word < PORT_WORDS; word++)
                for (uint64_t bits = policy->ports[word]; bits; bits &= bits - 1) {
                        const struct policy_verdict v = policy_host(
                                policy, host, (uint16_t) (word * 64 + (size_t) __builtin_ctzll(bits)));

                        if (v.reason != POLICY_OK)
                                continue;
                        *ret = v;
                        return true;
                }
        return false;
}

bool policy_hears(const struct policy *policy, uint16_t port) {
        return policy->mode == NETWORK_ALLOWLIST && (policy->heard_any || has_bit(policy->heard, port));
}

/* --- saying why ----------------------------------------------------------------------------------------- */

const char *policy_rule_text(const struct policy *policy, int rule) {
        return rule == POLICY_NO_RULE ? "(no rule)" : policy->rules[rule].text;
}

const char *policy_rule_preset(const struct policy *policy, int rule) {
        return rule == POLICY_NO_RULE ? NULL : policy->rules[rule].preset;
}

const char *policy_reason_text(const struct policy_verdict *v) {
        static const char *const texts[] = {
                [POLICY_OK] = "allowed",
                [POLICY_NO_MATCH] = "no rule allows it",
                [POLICY_PORT] = "the rule allows other ports",
                [POLICY_RULE] = "a rule denies it",
                [POLICY_ADDRESS] = "it leads to an address that no rule names",
        };
        static_assert(ARRAY_SIZE(texts) == POLICY_REASON_COUNT, "texts[] and enum differ");

        return texts[v->reason];
}

int policy_next_idle(const struct policy *policy, int start) {
        bool denied = policy->mode != NETWORK_DENYLIST;

        for (int i = 0; i < (int) policy->n_rules; i++) {
                const struct rule *rule = &policy->rules[i];

                denied = denied || rule->deny;
                if (i >= start && !denied && rule->kind != RULE_NET)
                        return i;
        }
        return -1;
}
