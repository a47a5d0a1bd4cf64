#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "drivers/native/net.h"
#include "drivers/native/parts.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/path.h"

static const char default_path[] = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/* The caller's variables that pass; a name that ends in '*' is a prefix. Everything else needs --env. */
static const char *const passed[] = {
        "TERM", "COLORTERM", "NO_COLOR", "LANG", "LANGUAGE", "LC_*", "TZ", "CI",
};

bool env_passes(const char *entry) {
        for (size_t i = 0; i < ARRAY_SIZE(passed); i++) {
                const size_t n = strcspn(passed[i], "*");

                if (strncmp(entry, passed[i], n) == 0 && (passed[i][n] == '*' || entry[n] == '='))
                        return strchr(entry, '=') != NULL;
        }
        return false;
}

/* Takes over @entry ("NAME=value"). */
static int put_entry(struct driver_plan *plan, char *entry) {
        const size_t name = strcspn(entry, "=") + 1;
        char **grown;

        for (size_t i = 0; i < plan->n_env; i++)
                if (strncmp(plan->env[i], entry, name) == 0) {
                        free(plan->env[i]);
                        plan->env[i] = entry;
                        return 0;
                }
        if (plan->n_env >= PLAN_ENV_MAX) {
                free(entry);
                return -E2BIG;
        }
        grown = reallocarray(plan->env, plan->n_env + 2, sizeof(*grown));
        if (!grown) {
                free(entry);
                return -ENOMEM;
        }
        plan->env = grown;
        plan->env[plan->n_env++] = entry;
        plan->env[plan->n_env] = NULL;
        return 0;
}

int env_put(struct driver_plan *plan, const char *name, const char *value) {
        AUTO_BUF struct buf b = { 0 };
        int r;

        r = buf_str(&b, name);
        if (r == 0)
                r = buf_add(&b, "=", 1);
        if (r == 0)
                r = buf_str(&b, value);
        return r < 0 ? r : put_entry(plan, buf_take(&b));
}

/* Whether the absolute path is a directory inside: part of the host's root that is shown, or of a region. */
static bool dir_inside(const struct driver_plan *plan, const char *path) {
        const struct native_region *region = region_find(plan, path);
        struct stat st;
        int r;

        if (region)
                r = fstatat(region->pin.fd, path_below(path, region->target), &st, AT_EMPTY_PATH);
        else if (os_shows(path))
                r = stat(path, &st);
        else
                return false;
        return r == 0 && S_ISDIR(st.st_mode);
}

int path_filter(const struct driver_plan *plan, const char *path, struct buf *out) {
        while (*path) {
                const size_t n = strcspn(path, ":");
                AUTO_FREE char *entry = strndup(path, n), *norm = NULL;
                int r = 0;

                if (!entry)
                        return -ENOMEM;
                if (*entry == '/' && path_normalize(NULL, entry, &norm) == 0 && dir_inside(plan, norm)) {
                        if (out->len > 0)
                                r = buf_add(out, ":", 1);
                        if (r == 0)
                                r = buf_str(out, entry);
                }
                if (r < 0)
                        return r;
                path += n + (path[n] == ':');
        }
        return 0;
}

/* The value of a variable of the plan; NULL: it is not set. */
static const char *env_get(const struct driver_plan *plan, const char *name) {
        const size_t n = strlen(name);

        for (size_t i = 0; i < plan->n_env; i++)
                if (strncmp(plan->env[i], name, n) == 0 && plan->env[i][n] == '=')
                        return plan->env[i] + n + 1;
        return NULL;
}

static int put_path(struct driver_plan *plan) {
        const char *path = ctx_getenv(plan->ctx, "PATH");
        AUTO_BUF struct buf b = { 0 };
        int r;

        if (plan->oci) /* the image's, or what the engine takes for it */
                return 0;
        if (plan->root)
                return env_get(plan, "PATH") ? 0 : env_put(plan, "PATH", default_path);
        r = path_filter(plan, path ? path : default_path, &b);
        if (r < 0)
                return r;
        return env_put(plan, "PATH", b.len > 0 ? buf_cstr(&b) : default_path);
}

static int put_passed(struct driver_plan *plan) {
        for (const char *const *e = plan->ctx->environ; e && *e; e++) {
                char *copy;
                int r;

                if (!env_passes(*e))
                        continue;
                copy = strdup(*e);
                r = copy ? put_entry(plan, copy) : -ENOMEM;
                if (r < 0)
                        return r;
        }
        return 0;
}

static int put_spec(struct driver_plan *plan, const struct spec *spec) {
        for (size_t i = 0; i < spec->n_env; i++) {
                const char *value = spec->env[i].value;
                int r;

                if (!value)
                        value = ctx_getenv(plan->ctx, spec->env[i].name);
                if (!value)
                        continue; /* "-e NAME" of a variable that is not set: as docker and podman do */
                r = env_put(plan, spec->env[i].name, value);
                if (r < 0)
                        return r;
        }
        return 0;
}

/* Where the proxy is. No IPv6 spelling of the loopback: many programs take "[::1]" for a bad pattern. */
static int put_proxy(struct driver_plan *plan) {
        static const char *const names[] = { "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY",
                                             "http_proxy", "https_proxy", "all_proxy" };
        int r = 0;

        for (size_t i = 0; r == 0 && net_wanted(plan) && i < ARRAY_SIZE(names); i++)
                r = env_put(plan, names[i], NET_PROXY_URL);
        if (r == 0 && net_wanted(plan))
                r = env_put(plan, "NODE_USE_ENV_PROXY", "1"); /* or fetch() of node heeds none of them */
        return r;
}

static bool list_has(const struct buf *list, const char *item, size_t len) {
        const char *p = list->len > 0 ? list->data : "";

        for (;;) {
                const size_t n = strcspn(p, ",");

                if (n == len && memcmp(p, item, len) == 0)
                        return true;
                if (!p[n])
                        return false;
                p += n + 1;
        }
}

/* Adds what @text lists and @list has not. */
static int list_add(struct buf *list, const char *text) {
        int r = 0;

        while (text && *text && r == 0) {
                const size_t n = strcspn(text, ", ");

                if (n > 0 && !list_has(list, text, n))
                        r = buf_fmt(list, "%s%.*s", list->len > 0 ? "," : "", (int) n, text);
                text += n + (text[n] != '\0');
        }
        return r;
}

/* After the specification's own variables, which may say more: both spellings get all of it, in order. */
static int put_no_proxy(struct driver_plan *plan) {
        static const char *const names[] = { "NO_PROXY", "no_proxy" };
        AUTO_BUF struct buf value = { 0 };
        int r = 0;

        if (!net_wanted(plan))
                return 0;
        for (size_t i = 0; r == 0 && i < ARRAY_SIZE(names); i++)
                r = list_add(&value, env_get(plan, names[i]));
        if (r == 0)
                r = list_add(&value, "localhost,127.0.0.1,0.0.0.0");
        for (size_t i = 0; r == 0 && i < ARRAY_SIZE(names); i++)
                r = env_put(plan, names[i], buf_cstr(&value));
        return r;
}

int env_build(struct driver_plan *plan, const struct spec *spec, struct error *err) {
        const struct {
                const char *name, *value;
        } built[] = {
                { "HOME", plan->id.home },   { "USER", plan->id.name }, { "LOGNAME", plan->id.name },
                { "SHELL", plan->id.shell }, { "TMPDIR", "/tmp" },      { "COFFERDAM", "1" },
        };
        int r = plan->root ? root_env(plan) : 0;

        for (size_t i = 0; r == 0 && i < ARRAY_SIZE(built); i++)
                r = env_put(plan, built[i].name, built[i].value);
        if (r == 0)
                r = put_path(plan);
        if (r == 0)
                r = put_passed(plan);
        if (r == 0)
                r = put_proxy(plan);
        if (r == 0)
                r = put_spec(plan, spec);
        if (r == 0)
                r = put_no_proxy(plan);
        if (r < 0)
                return error_set(err, r, "environment: %s", strerror(-r));
        return 0;
}
