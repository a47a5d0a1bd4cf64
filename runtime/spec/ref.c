#include "runtime/spec/ref.h"

#include <assert.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/cleanup.h"
#include "runtime/base/escape.h"
#include "runtime/base/parse.h"

static const char scheme[] = "docker://", algorithm[] = "sha256:", default_registry[] = "docker.io";

static bool is_lower(char c) {
        return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

static bool is_word(char c) {
        return is_lower(c) || (c >= 'A' && c <= 'Z') || c == '_';
}

bool digest_valid(const char *s) {
        const size_t n = sizeof(algorithm) - 1;

        return strncmp(s, algorithm, n) == 0 && strspn(s + n, "0123456789abcdef") == DIGEST_HEX_LEN &&
               s[n + DIGEST_HEX_LEN] == '\0';
}

static bool tag_valid(const char *s) {
        const size_t n = strlen(s);

        if (n == 0 || n > REF_TAG_MAX || !is_word(*s))
                return false;
        for (; *s; s++)
                if (!is_word(*s) && *s != '.' && *s != '-')
                        return false;
        return true;
}

/* One part of a path: words of lower case, joined by one '.', one or two '_', or any number of '-'. */
static bool part_valid(const char *s, size_t n) {
        size_t i = 0;

        while (i < n && is_lower(s[i])) {
                size_t sep;

                while (i < n && is_lower(s[i]))
                        i++;
                if (i == n)
                        return true;
                sep = strspn(s + i, s[i] == '-' ? "-" : s[i] == '_' ? "_" : s[i] == '.' ? "." : "");
                if (sep == 0 || (s[i] == '.' && sep > 1) || (s[i] == '_' && sep > 2))
                        return false;
                i += sep;
        }
        return false;
}

static bool repo_valid(const char *s) {
        for (;;) {
                const size_t n = strcspn(s, "/");

                if (!part_valid(s, n))
                        return false;
                if (!s[n])
                        return true;
                s += n + 1;
        }
}

/* HOST or [IPv6], and a port. */
static bool registry_valid(const char *s) {
        const char *end = *s == '[' ? strchr(s, ']') : NULL;
        uint64_t port;
        size_t n;

        if (*s == '[') {
                if (!end || strspn(s + 1, "0123456789abcdefABCDEF:.") != (size_t) (end - s) - 1)
                        return false;
                s = end + 1;
        } else {
                n = strcspn(s, ":");
                for (size_t i = 0; i < n; i++)
                        if ((!is_word(s[i]) && s[i] != '.' && s[i] != '-') || s[i] == '_')
                                return false;
                if (n == 0 || *s == '-' || *s == '.')
                        return false;
                s += n;
        }
        return *s == '\0' || (*s == ':' && parse_u64(s + 1, 1, 65535, &port) == 0);
}

/* Whether the first part is a host, as docker tells it from a path. */
static bool is_host(const char *s, size_t n) {
        return memchr(s, '.', n) || memchr(s, ':', n) || (n == 9 && memcmp(s, "localhost", n) == 0);
}

static int put(char **slot, const char *s, size_t n) {
        *slot = strndup(s, n);
        return *slot ? 0 : -ENOMEM;
}

static int put_names(struct ref *ref, const char *name) {
        const size_t n = strcspn(name, "/");
        const bool host = name[n] == '/' && is_host(name, n);
        const char *const path = host ? name + n + 1 : name;
        int r;

        r = host ? put(&ref->registry, name, n)
                 : put(&ref->registry, default_registry, strlen(default_registry));
        if (r == 0 && strcmp(ref->registry, "index.docker.io") == 0)
                memcpy(ref->registry, default_registry, sizeof(default_registry)); /* which is shorter */
        if (r < 0)
                return r;
        if (strcmp(ref->registry, default_registry) == 0 && !strchr(path, '/'))
                return asprintf(&ref->repo, "library/%s", path) < 0 ? -ENOMEM : 0;
        return put(&ref->repo, path, strlen(path));
}

/* Takes "@digest" and ":tag" off the end of @name. */
static int split(struct ref *ref, char *name) {
        char *const at = strchr(name, '@');
        char *slash, *colon;
        int r = 0;

        if (at) {
                *at = '\0';
                r = put(&ref->digest, at + 1, strlen(at + 1));
        }
        slash = strrchr(name, '/');
        colon = strchr(slash ? slash : name, ':');
        if (colon)
                *colon = '\0';
        if (r == 0 && colon)
                r = put(&ref->tag, colon + 1, strlen(colon + 1));
        else if (r == 0 && !at)
                r = put(&ref->tag, "latest", 6);
        return r < 0 ? r : put_names(ref, name);
}

static size_t len_of(const char *s) {
        return s ? strlen(s) + 1 : 0;
}

static_assert(REF_TEXT_MAX == 512, "as the message says");

static const char *fault(const struct ref *ref) {
        /* what stands for a part that was left out counts too: the name in full is read again */
        if (len_of(ref->registry) + len_of(ref->repo) + len_of(ref->tag) + len_of(ref->digest) - 1 >
            REF_TEXT_MAX)
                return "is longer, in full, than 512 bytes";
        if (!registry_valid(ref->registry))
                return "has a malformed host";
        if (!repo_valid(ref->repo))
                return "has a path that is not words of lower case, joined by '.', '_', '-' and '/'";
        if (ref->tag && !tag_valid(ref->tag))
                return "has a tag that is not at most 128 letters, digits, '_', '.' and '-'";
        if (ref->digest && !digest_valid(ref->digest))
                return "has a digest that is not 'sha256:' and 64 digits of lower case";
        return NULL;
}

/* The parts of @text, whatever they hold. */
static int take_apart(const char *text, struct ref *ret) {
        AUTO_FREE char *name =
                strdup(strncmp(text, scheme, strlen(scheme)) == 0 ? text + strlen(scheme) : text);

        return name ? split(ret, name) : -ENOMEM;
}

const char *ref_wrong(const char *text) {
        AUTO_REF struct ref ref = { 0 };

        return take_apart(text, &ref) < 0 ? "cannot be read: out of memory" : fault(&ref);
}

int ref_parse(const char *text, struct ref *ret, struct error *err) {
        AUTO_REF struct ref ref = { 0 };
        const char *why;

        if (take_apart(text, &ref) < 0)
                return error_set(err, -ENOMEM, "out of memory");
        why = fault(&ref);
        if (why)
                return error_set(err, -EINVAL, "image '%s' %s", ESC(text), why);
        if (asprintf(&ref.text, "%s/%s%s%s%s%s", ref.registry, ref.repo, ref.tag ? ":" : "",
                     ref.tag ? ref.tag : "", ref.digest ? "@" : "", ref.digest ? ref.digest : "") < 0) {
                ref.text = NULL;
                return error_set(err, -ENOMEM, "out of memory");
        }
        *ret = ref;
        ref = (struct ref){ 0 };
        return 0;
}

void ref_deinit(struct ref *ref) {
        free(ref->registry);
        free(ref->repo);
        free(ref->tag);
        free(ref->digest);
        free(ref->text);
        *ref = (struct ref){ 0 };
}
