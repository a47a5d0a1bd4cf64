#include "runtime/spec/secretrules.h"

#include <assert.h>
#include <ctype.h>
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "runtime/base/cleanup.h"

enum { HOST_MAX = 253, LABEL_MAX = 63 };

static const char alnum[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";

/* the locale has no say here */
static bool is_alnum(char c) {
        return c && strchr(alnum, c);
}

static bool is_digit(char c) {
        return c >= '0' && c <= '9';
}

static bool is_token(char c) { /* RFC 9110, 5.6.2 */
        return is_alnum(c) || (c && strchr("!#$%&'*+-.^_`|~", c));
}

static bool all_of(const char *s, size_t max, bool (*good)(char)) {
        size_t n = 0;

        for (; s[n]; n++)
                if (n >= max || !good(s[n]))
                        return false;
        return n > 0;
}

static bool in_name(char c) {
        return is_alnum(c) || (c && strchr("_.-", c));
}

bool secret_name_valid(const char *name) {
        return all_of(name, SECRET_NAME_MAX, in_name);
}

static bool in_env(char c) {
        return is_alnum(c) || c == '_';
}

bool secret_env_valid(const char *name) {
        return !is_digit(name[0]) && all_of(name, SECRET_ENV_MAX, in_env);
}

static bool visible(char c) {
        return c > ' ' && c < 127;
}

bool secret_value_valid(const char *value) {
        return all_of(value, SIZE_MAX, visible);
}

static bool in_user(char c) {
        return c >= ' ' && c < 127 && c != ':';
}

bool secret_user_valid(const char *user) {
        return all_of(user, SECRET_USER_MAX, in_user);
}

static bool listed(const char *const *names, size_t n, const char *name, size_t len) {
        for (size_t i = 0; i < n; i++)
                if (strlen(names[i]) == len && strncasecmp(names[i], name, len) == 0)
                        return true;
        return false;
}

bool header_is_hop_by_hop(const char *name, size_t len) {
        static const char *const names[] = { "connection",
                                             "keep-alive",
                                             "proxy-authenticate",
                                             "proxy-authorization",
                                             "proxy-connection",
                                             "te",
                                             "trailer",
                                             "transfer-encoding",
                                             "upgrade" };

        return listed(names, ARRAY_SIZE(names), name, len);
}

const char *secret_header_refused(const char *name) {
        static const char *const managed[] = { "host", "content-length", "cookie", "accept-encoding",
                                               "expect" };
        const size_t len = strlen(name);

        if (!all_of(name, SECRET_HEADER_MAX, is_token))
                return "not the name of a header";
        if (header_is_hop_by_hop(name, len) || listed(managed, ARRAY_SIZE(managed), name, len))
                return "managed by the proxy";
        return NULL;
}

/* the labels of a DNS name, two at least, the last one no number (which kills IPv4) */
static bool dns_name(const char *s, size_t len) {
        size_t labels = 0, start = 0;
        bool digits = false;

        if (len == 0 || len > HOST_MAX)
                return false;
        for (size_t i = 0; i <= len; i++) {
                if (i < len && s[i] != '.') {
                        if (!is_alnum(s[i]) && s[i] != '-')
                                return false;
                        digits = (i == start || digits) && is_digit(s[i]);
                        continue;
                }
                if (i == start || i - start > LABEL_MAX || s[start] == '-' || s[i - 1] == '-')
                        return false;
                labels++;
                start = i + 1;
        }
        return labels >= 2 && !digits;
}

int secret_host_canonical(const char *host, char **ret) {
        size_t len;
        char *s;

        assert(host && ret);
        host += strspn(host, " \t");
        len = strlen(host);
        while (len > 0 && (host[len - 1] == ' ' || host[len - 1] == '\t'))
                len--;
        if (len > 2 && memcmp(host, "*.", 2) == 0 ? !dns_name(host + 2, len - 2) : !dns_name(host, len))
                return -EINVAL;
        s = strndup(host, len);
        if (!s)
                return -ENOMEM;
        for (char *c = s; *c; c++)
                if (*c >= 'A' && *c <= 'Z')
                        *c = (char) (*c - 'A' + 'a');
        *ret = s;
        return 0;
}

bool secret_host_matches(const char *entry, const char *host, size_t len) {
        size_t tail;

        if (!dns_name(host, len))
                return false;
        if (entry[0] != '*')
                return strlen(entry) == len && strncasecmp(entry, host, len) == 0;
        tail = strlen(entry + 1); /* with its dot */
        return len > tail && strncasecmp(host + len - tail, entry + 1, tail) == 0;
}
