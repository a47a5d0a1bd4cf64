#include "auth/credential.h"

#include <assert.h>
#include <errno.h>
#include <stdint.h>
#include <string.h>

#include "auth/token.h"
#include "runtime/base/json.h"
#include "runtime/spec/secretrules.h"

/* the injections that have no argument */
static const char *const inject_words[INJECT_COUNT] = {
        [INJECT_BEARER] = "bearer",
        [INJECT_PRIVATE_TOKEN] = "private_token",
        [INJECT_X_API_KEY] = "x_api_key",
};

static const char *const kind_words[CREDENTIAL_KIND_COUNT] = {
        [CREDENTIAL_MODEL_OAUTH] = "oauth_token",
        [CREDENTIAL_MODEL_API_KEY] = "api_key",
};

struct credential *credential_free(struct credential *credential) {
        if (!credential)
                return NULL;
        if (credential->value)
                token_clear(credential->value, strlen(credential->value));
        free(credential->value);
        free(credential->name);
        free(credential->arg);
        for (size_t i = 0; i < credential->n_hosts; i++)
                free(credential->hosts[i]);
        free(credential->hosts);
        free(credential);
        return NULL;
}

/* the only fields of an object are @names; NULL when so, else one that is not */
static const char *unknown_field(const json_t *json, const char *const *names, size_t n) {
        const char *key;
        json_t *value;

        json_object_foreach((json_t *) (uintptr_t) json, key, value) {
                bool known = false;

                for (size_t i = 0; i < n && !known; i++)
                        known = strcmp(names[i], key) == 0;
                if (!known)
                        return key;
        }
        return NULL;
}

/* a string without NUL inside, or NULL */
static const char *text_of(const json_t *json, const char *field) {
        const json_t *value = json_object_get(json, field);
        const char *s = json_string_value(value);

        return s && strlen(s) == json_string_length(value) ? s : NULL;
}

static int keep(char **to, const char *s, struct error *err) {
        *to = strdup(s);
        return *to ? 0 : error_set(err, -ENOMEM, "out of memory");
}

static int parse_value(const json_t *json, struct credential *c, const char *what, struct error *err) {
        const char *value = text_of(json, "value");

        if (!value || !*value)
                return error_set(err, -EINVAL, "%s is empty", what);
        if (strlen(value) > CREDENTIAL_VALUE_MAX)
                return error_set(err, -EINVAL, "%s is longer than %d bytes", what, CREDENTIAL_VALUE_MAX);
        if (!secret_value_valid(value))
                return error_set(err, -EINVAL, "%s holds characters a header cannot carry", what);
        return keep(&c->value, value, err);
}

static int parse_header(const json_t *json, struct credential *c, struct error *err) {
        const char *name = json_string_value(json);
        const char *refused = name ? secret_header_refused(name) : "not a string";
        int r;

        if (refused && strcmp(refused, "managed by the proxy") == 0)
                return error_set(err, -EINVAL, "injection header \"%s\" is managed by the proxy", name);
        if (refused)
                return error_set(err, -EINVAL, "injection header: %s", refused);
        c->inject = INJECT_HEADER;
        r = keep(&c->arg, name, err);
        if (r < 0)
                return r;
        for (char *s = c->arg; *s; s++)
                if (*s >= 'A' && *s <= 'Z')
                        *s = (char) (*s - 'A' + 'a');
        return 0;
}

static int parse_basic(const json_t *json, struct credential *c, struct error *err) {
        static const char *const fields[] = { "username" };
        const char *user = text_of(json, "username");

        if (!user || unknown_field(json, fields, ARRAY_SIZE(fields)) || !secret_user_valid(user))
                return error_set(err, -EINVAL, "basic username must be printable ASCII without ':'");
        c->inject = INJECT_BASIC;
        return keep(&c->arg, user, err);
}

static int parse_injection(const json_t *json, struct credential *c, struct error *err) {
        const json_t *header = json_object_get(json, "header"), *basic = json_object_get(json, "basic");

        for (size_t i = 0; json_is_string(json) && i < ARRAY_SIZE(inject_words); i++)
                if (inject_words[i] && strcmp(inject_words[i], json_string_value(json)) == 0) {
                        c->inject = (enum credential_inject) i;
                        return 0;
                }
        if (json_object_size(json) == 1 && header)
                return parse_header(header, c, err);
        if (json_object_size(json) == 1 && basic)
                return parse_basic(basic, c, err);
        return error_set(err, -EINVAL,
                         "injection is none of bearer, private_token, x_api_key, header, basic");
}

static int parse_hosts(const json_t *json, struct credential *c, struct error *err) {
        const size_t n = json_array_size(json);

        if (n == 0)
                return error_set(err, -EINVAL, "secret %s has an empty host allowlist", c->name);
        if (n > CREDENTIAL_HOSTS_MAX)
                return error_set(err, -EINVAL, "secret %s has more than %d hosts", c->name,
                                 CREDENTIAL_HOSTS_MAX);
        c->hosts = calloc(n, sizeof(*c->hosts));
        if (!c->hosts)
                return error_set(err, -ENOMEM, "out of memory");
        for (; c->n_hosts < n; c->n_hosts++) {
                const json_t *host = json_array_get(json, c->n_hosts);
                const char *s = json_string_value(host);
                const int r = s && strlen(s) == json_string_length(host)
                                      ? secret_host_canonical(s, &c->hosts[c->n_hosts])
                                      : -EINVAL;

                if (r < 0)
                        return error_set(
                                err, r,
                                "host %zu must be a host name or *.domain, without scheme, port or path",
                                c->n_hosts + 1);
        }
        return 0;
}

static int parse_secret(const json_t *json, struct credential *c, struct error *err) {
        static const char *const fields[] = { "name", "value", "injection", "hosts" };
        const char *name = text_of(json, "name");
        char what[SECRET_NAME_MAX + sizeof("secret ")];
        int r;

        if (unknown_field(json, fields, ARRAY_SIZE(fields)))
                return error_set(err, -EINVAL, "a credential with an unknown field");
        if (!name || !secret_name_valid(name))
                return error_set(err, -EINVAL, "secret name must be 1 to %d characters of [A-Za-z0-9_.-]",
                                 SECRET_NAME_MAX);
        c->kind = CREDENTIAL_SECRET;
        (void) snprintf(what, sizeof(what), "secret %s", name);
        r = keep(&c->name, name, err);
        if (r == 0)
                r = parse_value(json, c, what, err);
        if (r == 0)
                r = parse_injection(json_object_get(json, "injection"), c, err);
        if (r == 0)
                r = parse_hosts(json_object_get(json, "hosts"), c, err);
        return r;
}

static int parse_model(const json_t *json, struct credential *c, struct error *err) {
        static const char *const fields[] = { "kind", "value" };
        const char *kind = text_of(json, "kind");

        if (unknown_field(json, fields, ARRAY_SIZE(fields)))
                return error_set(err, -EINVAL, "a credential with an unknown field");
        c->inject = INJECT_COUNT;
        for (size_t i = 0; kind && i < ARRAY_SIZE(kind_words); i++)
                if (kind_words[i] && strcmp(kind_words[i], kind) == 0) {
                        c->kind = (enum credential_kind) i;
                        return parse_value(json, c, "credential", err);
                }
        return error_set(err, -EINVAL, "kind is neither oauth_token nor api_key");
}

int credential_parse(const json_t *json, struct credential **ret, struct error *err) {
        AUTO_CREDENTIAL struct credential *c = NULL;
        int r;

        assert(ret);
        if (!json_is_object(json))
                return error_set(err, -EINVAL, "credential is not an object");
        c = calloc(1, sizeof(*c));
        if (!c)
                return error_set(err, -ENOMEM, "out of memory");
        r = json_object_get(json, "kind") ? parse_model(json, c, err) : parse_secret(json, c, err);
        if (r < 0)
                return r;
        *ret = TAKE_PTR(c);
        return 0;
}

static json_t *injection_json(const struct credential *c) {
        switch (c->inject) {
        case INJECT_HEADER:
                return json_pack("{s:s}", "header", c->arg);
        case INJECT_BASIC:
                return json_pack("{s:{s:s}}", "basic", "username", c->arg);
        case INJECT_BEARER:
        case INJECT_PRIVATE_TOKEN:
        case INJECT_X_API_KEY:
                return json_string(inject_words[c->inject]);
        case INJECT_COUNT:
                break;
        }
        return NULL;
}

json_t *credential_json(const struct credential *c) {
        AUTO_JSON json_t *hosts = NULL;

        if (c->kind != CREDENTIAL_SECRET)
                return json_pack("{s:s, s:s}", "kind", kind_words[c->kind], "value", c->value);
        hosts = json_array();
        for (size_t i = 0; i < c->n_hosts; i++)
                if (json_array_append_new(hosts, json_string(c->hosts[i])) < 0)
                        return NULL;
        return json_pack("{s:s, s:s, s:o, s:O}", "name", c->name, "value", c->value, "injection",
                         injection_json(c), "hosts", hosts);
}

/* NULL stays NULL */
static bool copy(char **to, const char *from) {
        *to = from ? strdup(from) : NULL;
        return *to || !from;
}

struct credential *credential_dup(const struct credential *credential) {
        AUTO_CREDENTIAL struct credential *c = calloc(1, sizeof(*c));

        if (!c)
                return NULL;
        c->kind = credential->kind;
        c->inject = credential->inject;
        c->hosts = credential->n_hosts ? calloc(credential->n_hosts, sizeof(*c->hosts)) : NULL;
        if ((credential->n_hosts && !c->hosts) || !copy(&c->name, credential->name) ||
            !copy(&c->value, credential->value) || !copy(&c->arg, credential->arg))
                return NULL;
        for (; c->n_hosts < credential->n_hosts; c->n_hosts++)
                if (!copy(&c->hosts[c->n_hosts], credential->hosts[c->n_hosts]))
                        return NULL;
        return TAKE_PTR(c);
}

bool credential_allows(const struct credential *credential, const char *host, size_t len) {
        for (size_t i = 0; i < credential->n_hosts; i++)
                if (secret_host_matches(credential->hosts[i], host, len))
                        return true;
        return false;
}
