#include "runtime/run/exposed.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "runtime/base/buf.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/escape.h"
#include "runtime/base/file.h"
#include "runtime/base/path.h"
#include "runtime/spec/secretrules.h"

enum { VALUE_BYTES_MAX = 64 * 1024 };

static const char oauth_name[] = "CLAUDE_CODE_OAUTH_TOKEN", key_name[] = "ANTHROPIC_API_KEY";

bool credentials_wanted(const struct spec *spec) {
        return spec->n_secrets > 0 || spec->model_auth == MODEL_AUTH_PROXIED;
}

static char *forget(char *text) {
        if (text)
                explicit_bzero(text, strlen(text));
        free(text);
        return NULL;
}

void credentials_deinit(struct credentials *c) {
        c->model = forget(c->model);
        for (size_t i = 0; i < c->n; i++)
                c->values[i] = forget(c->values[i]);
        free(c->values);
        c->values = NULL;
        c->n = 0;
}

static const char *set_env(const struct ctx *ctx, const char *name) {
        const char *value = ctx_getenv(ctx, name);

        return value && *value ? value : NULL;
}

/* The first line of a file. */
static int read_file(const char *path, struct buf *ret, struct error *err) {
        const int r = file_read_at(AT_FDCWD, path, VALUE_BYTES_MAX, ret);

        if (r < 0)
                return error_set(err, r, "read '%s': %s", ESC(path), strerror(-r));
        if (ret->data)
                ret->data[strcspn(ret->data, "\r\n")] = '\0';
        return 0;
}

static int read_secret(const struct ctx *ctx, const struct spec_secret *secret, char **ret,
                       struct error *err) {
        AUTO_BUF struct buf file = { 0 };
        const char *value = NULL;
        int r = 0;

        if (strncmp(secret->from, "file:", 5) == 0) {
                r = read_file(secret->from + 5, &file, err);
                value = buf_cstr(&file);
        } else {
                value = set_env(ctx, secret->from + 4);
                if (!value)
                        r = error_set(err, -EINVAL, "the variable '%s' is not set", secret->from + 4);
        }
        if (r == 0 && !secret_value_valid(value))
                r = error_set(err, -EINVAL, "it is empty or holds characters a header cannot carry");
        if (r < 0)
                return error_wrap(err, r, "secret '%s'", secret->name);
        *ret = strdup(value);
        if (file.data)
                explicit_bzero(file.data, file.len);
        return *ret ? 0 : error_set(err, -ENOMEM, "out of memory");
}

static int read_model(const struct ctx *ctx, struct credentials *ret, struct error *err) {
        const char *oauth = set_env(ctx, oauth_name), *key = set_env(ctx, key_name);

        if (!oauth && !key)
                return error_set(err, -EINVAL, "model_auth: no credential: set %s or %s", oauth_name,
                                 key_name);
        ret->model_oauth = oauth != NULL;
        ret->model = strdup(oauth ? oauth : key);
        if (!ret->model)
                return error_set(err, -ENOMEM, "out of memory");
        return secret_value_valid(ret->model)
                       ? 0
                       : error_set(err, -EINVAL, "model_auth: %s holds characters a header cannot carry",
                                   oauth ? oauth_name : key_name);
}

int credentials_read(const struct ctx *ctx, const struct spec *spec, struct credentials *ret,
                     struct error *err) {
        int r = 0;

        ret->values = calloc(spec->n_secrets + 1, sizeof(*ret->values));
        if (!ret->values)
                return error_set(err, -ENOMEM, "out of memory");
        ret->n = spec->n_secrets;
        if (spec->model_auth == MODEL_AUTH_PROXIED)
                r = read_model(ctx, ret, err);
        for (size_t i = 0; r == 0 && i < spec->n_secrets; i++)
                r = read_secret(ctx, &spec->secrets[i], &ret->values[i], err);
        return r;
}

/* ---- what else would bring one inside ---- */

bool exposed_name(const char *name) {
        static const char *const names[] = { "CLAUDE_CODE_OAUTH_TOKEN", "ANTHROPIC_API_KEY",
                                             "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_BASE_URL",
                                             "IRONFLOW_CLAUDE_CREDENTIALS" };

        for (size_t i = 0; i < ARRAY_SIZE(names); i++)
                if (strcmp(names[i], name) == 0)
                        return true;
        return false;
}

static bool holds(const struct credentials *c, const char *text, size_t len) {
        if (c->model && memmem(text, len, c->model, strlen(c->model)))
                return true;
        for (size_t i = 0; i < c->n; i++)
                if (c->values[i] && memmem(text, len, c->values[i], strlen(c->values[i])))
                        return true;
        return false;
}

/* Whether a token takes the place of the variable @name. */
static bool taken(const struct spec *spec, const char *name) {
        for (size_t i = 0; i < spec->n_secrets; i++) {
                const char *env = spec->secrets[i].env ? spec->secrets[i].env : spec->secrets[i].name;
                const size_t n = strlen(env);

                if (strncmp(name, env, n) == 0 && (!name[n] || strcmp(name + n, "_URL") == 0))
                        return true;
        }
        return false;
}

static bool sets_git(const struct spec *spec) {
        for (size_t i = 0; i < spec->n_secrets; i++)
                if (strncmp(spec->secrets[i].inject, "basic:", 6) == 0)
                        return true;
        return false;
}

static int check_variable(const struct spec *spec, const struct credentials *c, const char *name,
                          const char *value, struct error *err) {
        static const char remedy[] = "leave it out: a token takes its place";
        const bool model = spec->model_auth == MODEL_AUTH_PROXIED;

        if ((model && exposed_name(name)) || taken(spec, name))
                return error_set(err, -EPERM, "the sandbox must not receive the variable '%s': %s", ESC(name),
                                 remedy);
        if ((model && strncmp(value, "sk-ant", 6) == 0) || holds(c, value, strlen(value)))
                return error_set(
                        err, -EPERM,
                        "the sandbox must not receive the variable '%s': it holds a credential that stays "
                        "outside: leave it out",
                        ESC(name));
        if (strncmp(name, "GIT_CONFIG_", 11) == 0 && sets_git(spec))
                return error_set(
                        err, -EINVAL,
                        "a basic secret sets the git configuration: the sandbox must not receive '%s'",
                        ESC(name));
        return 0;
}

static int check_file(const char *path, const struct credentials *c, struct error *err) {
        AUTO_BUF struct buf text = { 0 };
        struct stat st;

        if (stat(path, &st) < 0 || !S_ISREG(st.st_mode) ||
            file_read_at(AT_FDCWD, path, BUF_MAX_DEFAULT, &text) < 0)
                return 0; /* whoever copies it says why it cannot */
        if (!holds(c, text.data ? text.data : "", text.len))
                return 0;
        return error_set(
                err, -EPERM,
                "the sandbox must not receive '%s': it holds a credential that stays outside: leave the "
                "seed out, or use --host-state none",
                ESC(path));
}

static int check_files(const struct ctx *ctx, const struct spec *spec, const struct credentials *c,
                       struct error *err) {
        static const char *const shown[] = { ".claude.json", ".gitconfig" };
        int r = 0;

        for (size_t i = 0;
             r == 0 && ctx->home && spec->host_state == HOST_STATE_AUTO && i < ARRAY_SIZE(shown); i++) {
                AUTO_FREE char *path = NULL;

                if (path_join(ctx->home, shown[i], &path) < 0)
                        return error_set(err, -ENOMEM, "out of memory");
                r = check_file(path, c, err);
        }
        for (size_t i = 0; r == 0 && i < spec->home.n_seeds; i++) {
                const char *to = spec->home.seeds[i].to ? spec->home.seeds[i].to : spec->home.seeds[i].from;
                const char *name = strrchr(to, '/');

                if (c->model && name && strcmp(name, "/.credentials.json") == 0)
                        return error_set(
                                err, -EPERM,
                                "the sandbox must not receive '%s': a token takes the place of credentials: "
                                "leave the seed out",
                                ESC(spec->home.seeds[i].from));
                r = check_file(spec->home.seeds[i].from, c, err);
        }
        return r;
}

int exposed_check(const struct ctx *ctx, const struct spec *spec, const struct credentials *c,
                  struct error *err) {
        int r = 0;

        for (size_t i = 0; r == 0 && i < spec->n_env; i++) {
                const char *value =
                        spec->env[i].value ? spec->env[i].value : ctx_getenv(ctx, spec->env[i].name);

                if (value)
                        r = check_variable(spec, c, spec->env[i].name, value, err);
        }
        return r == 0 ? check_files(ctx, spec, c, err) : r;
}
