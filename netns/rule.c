#include "netns/rule.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>

#include "runtime/base/escape.h"
#include "runtime/base/parse.h"

/* the part of the text that is still to be read */
struct part {
        const char *text; /* the whole rule */
        const char *s, *end;
        size_t at; /* what an error is about */
};

static size_t left(const struct part *p) {
        return (size_t) (p->end - p->s);
}

static bool cut_suffix(struct part *p, const char *suffix) {
        const size_t n = strlen(suffix);

        if (left(p) < n || memcmp(p->end - n, suffix, n) != 0)
                return false;
        p->end -= n;
        return true;
}

static int cut_port(struct part *p, int *ret, struct error *err) {
        const char *colon = memrchr(p->s, ':', left(p)), *bracket = memrchr(p->s, ']', left(p));
        char digits[8] = { 0 };
        uint64_t port;
        size_t n;

        *ret = RULE_PORT_USUAL;
        if (!colon || (bracket ? colon < bracket : memchr(p->s, ':', left(p)) != colon))
                return 0; /* none, or bare IPv6 */
        p->at = (size_t) (colon + 1 - p->text);
        n = (size_t) (p->end - colon - 1);
        p->end = colon;
        if (n == 1 && colon[1] == '*') {
                *ret = RULE_PORT_ANY;
                return 0;
        }
        if (n > 0 && n < sizeof(digits)) {
                memcpy(digits, colon + 1, n);
                if (parse_u64(digits, 1, UINT16_MAX, &port) == 0) {
                        *ret = (int) port;
                        return 0;
                }
        }
        return error_set(err, -EINVAL, "a port is a number from 1 to 65535, or '*' for all");
}

/* A URL or a path: names the host that was probably meant. */
static int refuse_url(struct part *p, struct error *err) {
        const char *scheme = memmem(p->s, left(p), "://", 3);
        const char *host = scheme ? scheme + 3 : p->s;
        const size_t n = strcspn(host, "/?#");
        const char *user = memrchr(host, '@', n);
        char name[256] = { 0 };

        if (user) {
                p->at = (size_t) (host - p->text);
                return error_set(err, -EINVAL, "a rule has no user: write the host after the '@' alone");
        }
        p->at = scheme ? (size_t) (scheme - p->text) : (size_t) (host + n - p->text);
        memcpy(name, host, n < sizeof(name) ? n : sizeof(name) - 1);
        return error_set(err, -EINVAL, "a rule is a host, not a URL or a path: write '%s'", ESC(name));
}

/* Of the host's own addresses only ports are opened, and by the name they have inside. */
static int refuse_own(const struct net_rule *rule, struct error *err) {
        unsigned int bits = 0;

        (void) addr_special(&rule->net.addr, &bits);
        if (rule->deny || !addr_is_host(&rule->net.addr) || rule->net.bits < bits)
                return 0;
        return error_set(err, -EINVAL,
                         "that is the loopback of the host, which is opened port by port and by name: write "
                         "'" HOST_ALIAS ":%d'",
                         rule->port > 0 ? rule->port : 8080);
}

static int parse_net(struct part *p, struct net_rule *rule, struct error *err) {
        char text[ADDR_TEXT_MAX + 8], fixed[ADDR_TEXT_MAX];
        size_t n = 0;
        int r;

        for (const char *s = p->s; s < p->end && n + 1 < sizeof(text); s++) {
                if (*s != '[' && *s != ']')
                        text[n++] = *s;
        }
        text[n] = '\0';
        r = cidr_parse(text, n, &rule->net);
        if (r == -EDOM) {
                const size_t len = strcspn(text, "/");
                uint64_t bits = 0;
                struct addr a;

                if (addr_parse(text, len, &a) == 0 && parse_u64(text + len + 1, 0, 128, &bits) == 0) {
                        a = addr_mask(&a, (unsigned int) bits + (memchr(text, ':', len) ? 0 : 96));
                        return error_set(err, -EINVAL, "bits are set beyond the prefix: write '%s/%u'",
                                         addr_text(&a, fixed), (unsigned int) bits);
                }
        }
        if (r == -ERANGE)
                return error_set(err, -EINVAL, "a prefix has at most 32 bits (IPv4) or 128 bits (IPv6)");
        if (r < 0)
                return error_set(err, -EINVAL, "not an address range such as 10.0.0.0/8 or [fd00::]/8");
        rule->kind = RULE_NET;
        return refuse_own(rule, err);
}

/* "fd00::/8:443", which could be read in two ways. */
static bool is_bare_net(const struct part *p, struct addr *ret) {
        const char *slash = memchr(p->s, '/', left(p));

        return slash && memchr(slash, ':', (size_t) (p->end - slash)) &&
               memchr(p->s, ':', (size_t) (slash - p->s)) &&
               addr_parse(p->s, (size_t) (slash - p->s), ret) == 0;
}

static int refuse_bare_net(struct part *p, const struct addr *a, struct error *err) {
        const char *slash = memchr(p->s, '/', left(p));
        char text[ADDR_TEXT_MAX], rest[32] = { 0 };
        const size_t n = (size_t) (p->end - slash);

        memcpy(rest, slash, n < sizeof(rest) ? n : sizeof(rest) - 1);
        p->at = (size_t) ((const char *) memchr(slash, ':', n) - p->text);
        return error_set(err, -EINVAL, "an IPv6 range with a port has brackets: write '[%s]%s'",
                         addr_text(a, text), ESC(rest));
}

/* Reads the wildcard at the start and refuses every other. */
static int cut_wildcard(struct part *p, struct net_rule *rule, struct error *err) {
        const char *star;
        size_t n = 0;

        while (n < left(p) && p->s[n] == '*')
                n++;
        star = memchr(p->s + n, '*', left(p) - n);
        if (star) {
                p->at = (size_t) (star - p->text);
                return error_set(err, -EINVAL,
                                 n ? "one wildcard is all a rule has"
                                   : "a wildcard stands for whole labels at the start: write "
                                     "'*.host' or '**.host'");
        }
        if (n == 0)
                return 0;
        if (n > 2)
                return error_set(err, -EINVAL, "write '*' (one label) or '**' (any number)");
        rule->kind = n == 1 ? RULE_ONE : RULE_DEEP;
        p->s += n;
        p->at += n;
        if (left(p) == 0)
                return 0;
        if (*p->s != '.' || left(p) == 1)
                return error_set(err, -EINVAL, "a wildcard stands for whole labels: write '%.*s.host'",
                                 (int) n, "**");
        p->s++;
        p->at++;
        return 0;
}

/* Where a name is wrong, as far as one byte of ASCII says; else its start. */
static size_t wrong_byte(const char *s, size_t len) {
        for (size_t i = 0; i < len && !memchr(s, ':', len); i++) {
                const unsigned char c = (unsigned char) s[i];

                if (c == '.' ? i == 0 || s[i - 1] == '.' : c < 0x80 && !isalnum(c) && c != '-' && c != '_')
                        return i;
        }
        return 0;
}

static int parse_host(struct part *p, struct net_rule *rule, struct error *err) {
        struct host host;
        int r;

        rule->kind = RULE_EXACT;
        r = cut_wildcard(p, rule, err);
        if (r < 0 || (left(p) == 0 && rule->kind != RULE_EXACT))
                return r;
        r = host_parse(p->s, left(p), &host, err);
        if (r < 0) {
                p->at += wrong_byte(p->s, left(p));
                return r;
        }
        if (host.kind == HOST_NAME) {
                if (host_is_alias(&host) && rule->kind == RULE_EXACT && !rule->deny && rule->port <= 0)
                        return error_set(err, -EINVAL,
                                         "that is the loopback of the host, which is opened port by port: "
                                         "write '" HOST_ALIAS ":8080'");
                memcpy(rule->name, host.name, sizeof(rule->name));
                return 0;
        }
        if (rule->kind != RULE_EXACT)
                return error_set(err, -EINVAL, "an address has no labels: write a range such as 10.0.0.0/8");
        rule->kind = RULE_NET;
        rule->net = (struct cidr){ .addr = host.addr, .bits = 128 };
        return refuse_own(rule, err);
}

static void trim(struct part *p) {
        while (left(p) > 0 && strchr(" \t", *p->s))
                p->s++;
        while (left(p) > 0 && strchr(" \t", p->end[-1]))
                p->end--;
        p->at = (size_t) (p->s - p->text);
}

static int parse_part(struct part *p, struct net_rule *rule, struct error *err) {
        struct addr bare;
        int r;

        if (left(p) == 0)
                return error_set(err, -EINVAL, "an empty rule: write a host");
        if (*p->s == '!') {
                rule->deny = true;
                p->s++;
                p->at++;
        }
        if (left(p) == 0)
                return error_set(err, -EINVAL, "'!' alone: write the host that is denied after it");
        if (*p->s == '!')
                return error_set(err, -EINVAL, "two '!': write one to deny, none to allow");
        if (memmem(p->s, left(p), "://", 3))
                return refuse_url(p, err);
        if (is_bare_net(p, &bare))
                return refuse_bare_net(p, &bare, err);
        rule->raw = cut_suffix(p, "/tcp");
        r = cut_port(p, &rule->port, err);
        if (r < 0)
                return r;
        if (rule->raw && rule->port == RULE_PORT_USUAL) {
                p->at = (size_t) (p->end - p->text);
                return error_set(err, -EINVAL,
                                 "'/tcp' needs a port: write 'host:22/tcp', or 'host:*/tcp' for all");
        }
        p->at = (size_t) (p->s - p->text);
        if (!memchr(p->s, '/', left(p)))
                return parse_host(p, rule, err);
        if (strspn(p->s, "0123456789abcdefABCDEF.:[]/") < left(p))
                return refuse_url(p, err);
        return parse_net(p, rule, err);
}

int rule_parse(const char *text, struct net_rule *ret, size_t *ret_at, struct error *err) {
        struct part p = { .text = text, .s = text, .end = text + strlen(text) };
        struct net_rule rule = { .kind = RULE_EXACT };
        int r;

        trim(&p);
        r = parse_part(&p, &rule, err);
        if (r < 0) {
                *ret_at = p.at;
                return r;
        }
        if (rule.deny && rule.port == RULE_PORT_USUAL)
                rule.port = RULE_PORT_ANY;
        *ret = rule;
        return 0;
}
