#include "auth/options.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "auth/target.h"
#include "auth/token.h"
#include "netns/host.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/escape.h"
#include "runtime/base/parse.h"
#include "runtime/spec/flags.h"

enum {
        ADMIN_KEY_BYTES_MIN = 32,
        ADMIN_KEY_BYTES_MAX = 1024,
        CLIENTS_MAX = 65536,
        TOKEN_REQUESTS_MAX = 65536
};

static const char model_host[] = "api.anthropic.com", default_listen[] = "127.0.0.1:8080";

static int replace(char **slot, const char *value, struct error *err) {
        char *copy = strdup(value);

        if (!copy)
                return error_set(err, -ENOMEM, "out of memory");
        free(*slot);
        *slot = copy;
        return 0;
}

static int set_text(char **slot, const char *value, struct error *err) {
        return *value ? replace(slot, value, err) : error_set(err, -EINVAL, "must not be empty");
}

/* --- options ----------------------------------------------------------------------------------------------
 */

static int set_listen(void *arg, const char *value, struct error *err) {
        return set_text(&((struct options *) arg)->listen, value, err);
}

static int set_admin_listen(void *arg, const char *value, struct error *err) {
        return set_text(&((struct options *) arg)->admin_listen, value, err);
}

static int set_tls_cert(void *arg, const char *value, struct error *err) {
        return set_text(&((struct options *) arg)->tls_cert, value, err);
}

static int set_tls_key(void *arg, const char *value, struct error *err) {
        return set_text(&((struct options *) arg)->tls_key, value, err);
}

static int set_ca_file(void *arg, const char *value, struct error *err) {
        return set_text(&((struct options *) arg)->ca_file, value, err);
}

static int set_database_url(void *arg, const char *value, struct error *err) {
        return replace(&((struct options *) arg)->database_url, value, err);
}

static int set_place(struct options *o, const struct host *host, struct error *err) {
        char text[sizeof(host->name) + 2];
        const bool v6 = host->kind == HOST_ADDR && !addr_is_ipv4(&host->addr);

        (void) snprintf(text, sizeof(text), v6 ? "[%s]" : "%s", host->name);
        return replace(&o->model_host, text, err);
}

/* https://host[:port][/prefix] */
static int set_upstream(void *arg, const char *value, struct error *err) {
        struct options *o = arg;
        static const char scheme[] = "https://";
        const char *authority = value + sizeof(scheme) - 1, *path;
        struct host host;
        size_t n;
        int r;

        if (strncasecmp(value, scheme, sizeof(scheme) - 1) != 0)
                return error_set(err, -EINVAL, "'%s': want https://HOST[:PORT][/PATH]", ESC(value));
        path = authority + strcspn(authority, "/");
        r = host_parse_authority(authority, (size_t) (path - authority), 443, &host, &o->model_port, err);
        if (r < 0)
                return error_wrap(err, r, "'%s'", ESC(value));
        n = strlen(path);
        if (n > 0 && path[n - 1] == '/')
                n--;
        if (n > 0 && !target_path_clean((struct http_text){ path, n }))
                return error_set(err, -EINVAL, "'%s': a path of letters, digits and '_.-' only", ESC(value));
        r = set_place(o, &host, err);
        if (r == 0)
                r = replace(&o->model_prefix, path, err);
        if (r == 0)
                o->model_prefix[n] = '\0';
        return r;
}

static int parse_net(const char *value, struct cidr *ret) {
        const size_t len = strlen(value);
        struct addr addr;

        if (strchr(value, '/'))
                return cidr_parse(value, len, ret);
        if (addr_parse(value, len, &addr) < 0)
                return -EINVAL;
        *ret = (struct cidr){ .addr = addr, .bits = 128 };
        return 0;
}

static int set_allow_address(void *arg, const char *value, struct error *err) {
        struct upstream_conf *conf = &((struct options *) arg)->upstream;

        if (conf->n_nets == UPSTREAM_NETS_MAX)
                return error_set(err, -EINVAL, "more than %d of them", UPSTREAM_NETS_MAX);
        if (parse_net(value, &conf->nets[conf->n_nets]) < 0)
                return error_set(err, -EINVAL, "'%s': want an address, or a range such as 10.1.0.0/16",
                                 ESC(value));
        conf->n_nets++;
        return 0;
}

/* HOST=ADDRESS:PORT */
static int set_route(void *arg, const char *value, struct error *err) {
        struct upstream_conf *conf = &((struct options *) arg)->upstream;
        const char *sign = strchr(value, '=');
        struct host host, place;
        uint16_t port;

        if (conf->n_routes == UPSTREAM_ROUTES_MAX)
                return error_set(err, -EINVAL, "more than %d of them", UPSTREAM_ROUTES_MAX);
        if (!sign || host_parse(value, (size_t) (sign - value), &host, NULL) < 0 || host.kind != HOST_NAME ||
            host_parse_authority(sign + 1, strlen(sign + 1), 443, &place, &port, NULL) < 0 ||
            place.kind != HOST_ADDR)
                return error_set(err, -EINVAL, "'%s': want HOST=ADDRESS[:PORT]", ESC(value));
        conf->routes[conf->n_routes] = (struct upstream_route){ .addr = place.addr, .port = port };
        memcpy(conf->routes[conf->n_routes].host, host.name, sizeof(host.name));
        conf->n_routes++;
        return 0;
}

static int set_duration(uint64_t *slot, const char *value, struct error *err) {
        if (parse_duration_ms(value, 100, 24 * 3600 * 1000, slot) < 0)
                return error_set(err, -EINVAL, "'%s': want a time of 100ms to 24h, such as 10m", ESC(value));
        return 0;
}

static int set_idle(void *arg, const char *value, struct error *err) {
        return set_duration(&((struct options *) arg)->idle_ms, value, err);
}

static int set_drain(void *arg, const char *value, struct error *err) {
        return set_duration(&((struct options *) arg)->drain_ms, value, err);
}

static int set_count(uint64_t *slot, const char *value, uint64_t max, struct error *err) {
        if (parse_u64(value, 1, max, slot) < 0)
                return error_set(err, -EINVAL, "'%s': want a number of 1 to %llu", ESC(value),
                                 (unsigned long long) max);
        return 0;
}

static int set_max_clients(void *arg, const char *value, struct error *err) {
        return set_count(&((struct options *) arg)->max_clients, value, CLIENTS_MAX, err);
}

static int set_max_per_token(void *arg, const char *value, struct error *err) {
        return set_count(&((struct options *) arg)->max_per_token, value, TOKEN_REQUESTS_MAX, err);
}

static const struct flag_option table[] = {
        { "listen", 0, "PLACE", set_listen, "Where sandboxes reach it: ADDRESS:PORT or unix:PATH" },
        { "admin-listen", 0, "PLACE", set_admin_listen,
          "Where tokens are issued and metrics read; without it, at the same place" },
        { "upstream", 0, "URL", set_upstream, "The model API: https://HOST[:PORT][/PATH]" },
        { "tls-cert", 0, "FILE", set_tls_cert, "Speak TLS, with this certificate chain" },
        { "tls-key", 0, "FILE", set_tls_key, "The key of that certificate" },
        { "ca-file", 0, "FILE", set_ca_file, "Trust these authorities for servers, instead of the system's" },
        { "database-url", 0, "URL", set_database_url,
          "Keep tokens in PostgreSQL, so that several proxies share them" },
        { "allow-address", 0, "CIDR", set_allow_address,
          "Private addresses that a server may have; more than once" },
        { "route", 0, "HOST=ADDRESS", set_route,
          "An address with a port that stands for a host; more than once" },
        { "idle-timeout", 0, "TIME", set_idle, "How long nothing may move in a request" },
        { "drain-timeout", 0, "TIME", set_drain, "How long requests may go on after SIGTERM" },
        { "max-clients", 0, "N", set_max_clients, "Connections at once" },
        { "max-per-token", 0, "N", set_max_per_token, "Requests at once with one token" },
};

static const struct flag_set set = {
        .usage = "cofferdam auth-proxy [OPTIONS]",
        .summary =
                "Hold credentials, and relay requests that present a token with the credential in its place.",
        .options = table,
        .n_options = ARRAY_SIZE(table),
};

int options_help(struct buf *out) {
        return flags_help(&set, out);
}

/* --- environment ------------------------------------------------------------------------------------------
 */

/* The value of @name, or NULL. */
static char *variable(char **env, const char *name) {
        const size_t n = strlen(name);

        for (; *env; env++) {
                if (strncmp(*env, name, n) == 0 && (*env)[n] == '=')
                        return *env + n + 1;
        }
        return NULL;
}

/* Takes @name into @slot without blanks around it, and erases it from what /proc shows. Empty is not set. */
static int take_secret(char **env, const char *name, char **slot, struct error *err) {
        char *value = variable(env, name);
        size_t n;
        int r = 0;

        if (!value)
                return 0;
        n = strlen(value);
        if (strspn(value, " \t\r\n") < n) {
                const char *s = value + strspn(value, " \t\r\n");

                r = replace(slot, s, err);
                for (size_t len = r == 0 ? strlen(*slot) : 0;
                     len > 0 && isspace((unsigned char) (*slot)[len - 1]);)
                        (*slot)[--len] = '\0';
        }
        token_clear(value, n);
        return r;
}

static int take_keys(char **env, struct options *o, struct error *err) {
        char *single = NULL;
        int r;

        r = take_secret(env, "IRONFLOW_SECRET_KEYS", &o->secret_keys, err);
        if (r == 0)
                r = take_secret(env, "IRONFLOW_SECRET_KEY", &single, err);
        if (r == 0)
                r = take_secret(env, "IRONFLOW_SECRET_ACTIVE_KEY_VERSION", &o->active_key, err);
        if (r == 0 && single && !o->secret_keys) {
                const size_t size = strlen(single) + 3;

                o->secret_keys = calloc(1, size);
                if (o->secret_keys)
                        (void) snprintf(o->secret_keys, size, "1:%s", single);
                else
                        r = error_set(err, -ENOMEM, "out of memory");
        }
        token_clear(single, single ? strlen(single) : 0);
        free(single);
        return r;
}

static int take_environment(char **env, struct options *o, struct error *err) {
        const char *listen = variable(env, "IRONFLOW_AUTH_PROXY_LISTEN");
        const char *notify = variable(env, "NOTIFY_SOCKET");
        int r;

        r = take_secret(env, "IRONFLOW_AUTH_PROXY_ADMIN_KEY", &o->admin_key, err);
        if (r == 0)
                r = take_secret(env, "IRONFLOW_AUTH_PROXY_DATABASE_URL", &o->database_url, err);
        if (r == 0)
                r = take_keys(env, o, err);
        if (r == 0 && listen && *listen)
                r = replace(&o->listen, listen, err);
        if (r == 0 && notify && *notify)
                r = replace(&o->notify_socket, notify, err);
        return r;
}

static int defaults(struct options *o, struct error *err) {
        int r;

        o->idle_ms = 600000;
        o->drain_ms = 25000;
        o->max_per_token = 256;
        o->model_port = 443;
        o->upstream.connect_ms = 10000;
        r = replace(&o->listen, default_listen, err);
        if (r == 0)
                r = replace(&o->model_host, model_host, err);
        return r == 0 ? replace(&o->model_prefix, "", err) : r;
}

/* --- together ---------------------------------------------------------------------------------------------
 */

static int check_key(const char *key, struct error *err) {
        const size_t n = key ? strlen(key) : 0;

        if (n < ADMIN_KEY_BYTES_MIN || n > ADMIN_KEY_BYTES_MAX)
                return error_set(
                        err, -EINVAL,
                        "IRONFLOW_AUTH_PROXY_ADMIN_KEY: want %d to %d characters, such as the output of "
                        "'openssl rand -hex 32'",
                        ADMIN_KEY_BYTES_MIN, ADMIN_KEY_BYTES_MAX);
        for (size_t i = 0; i < n; i++) {
                if ((unsigned char) key[i] <= 0x20 || (unsigned char) key[i] >= 0x7f)
                        return error_set(
                                err, -EINVAL,
                                "IRONFLOW_AUTH_PROXY_ADMIN_KEY: holds characters a header cannot carry");
        }
        return 0;
}

static int check(const struct options *o, struct error *err) {
        if (!o->tls_cert != !o->tls_key)
                return error_set(err, -EINVAL, "--tls-cert and --tls-key: one needs the other");
        if (o->database_url && !o->secret_keys)
                return error_set(
                        err, -EINVAL,
                        "IRONFLOW_AUTH_PROXY_DATABASE_URL is set but no encryption key is configured: "
                        "set IRONFLOW_SECRET_KEYS (or IRONFLOW_SECRET_KEY)");
        return check_key(o->admin_key, err);
}

static void wipe_arguments(int argc, char **argv) {
        static const char name[] = "--database-url";
        const size_t n = sizeof(name) - 1;

        for (int i = 1; i < argc; i++) {
                if (strcmp(argv[i], name) == 0 && i + 1 < argc)
                        token_clear(argv[i + 1], strlen(argv[i + 1]));
                else if (strncmp(argv[i], name, n) == 0 && argv[i][n] == '=')
                        token_clear(argv[i] + n + 1, strlen(argv[i] + n + 1));
        }
}

static void blank_is_memory(struct options *o) {
        if (o->database_url && strspn(o->database_url, " \t\r\n") == strlen(o->database_url)) {
                free(o->database_url);
                o->database_url = NULL;
        }
}

int options_parse(int argc, char **argv, char **env, struct options *ret, struct error *err) {
        struct flags *flags = NULL;
        int r;

        r = defaults(ret, err);
        if (r == 0)
                r = take_environment(env, ret, err);
        if (r == 0)
                r = flags_parse(&set, argc, argv, ret, &flags, err);
        if (r == 0) {
                ret->help = flags->help;
                if (!ret->help && flags->next < argc)
                        r = error_set(err, -EINVAL, "unexpected argument '%s'", ESC(argv[flags->next]));
        }
        wipe_arguments(argc, argv);
        blank_is_memory(ret);
        ret->upstream.ca_file = ret->ca_file;
        if (r == 0 && !ret->help)
                r = check(ret, err);
        (void) flags_free(flags);
        return r;
}

static void free_secret(char *s) {
        token_clear(s, s ? strlen(s) : 0);
        free(s);
}

void options_deinit(struct options *o) {
        free(o->listen);
        free(o->admin_listen);
        free(o->tls_cert);
        free(o->tls_key);
        free(o->ca_file);
        free(o->notify_socket);
        free(o->model_host);
        free(o->model_prefix);
        free_secret(o->database_url);
        free_secret(o->secret_keys);
        free_secret(o->active_key);
        free_secret(o->admin_key);
        *o = (struct options){ 0 };
}
