#include "runtime/run/exposed.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <fts.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "runtime/base/buf.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/escape.h"
#include "runtime/base/file.h"
#include "runtime/base/path.h"
#include "runtime/spec/secretrules.h"

enum { VALUE_BYTES_MAX = 64 * 1024, MODEL_KEY_BYTES = 32, ISSUER_BYTES = 32 };

static const char oauth_name[] = "CLAUDE_CODE_OAUTH_TOKEN", key_name[] = "ANTHROPIC_API_KEY",
                  issuer_name[] = "IRONFLOW_AUTH_PROXY_ADMIN_KEY";

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
                        r = error_set(err, -EINVAL, "the variable '%s' is not set, or empty",
                                      secret->from + 4);
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
        ret->issuer = set_env(ctx, issuer_name);
        if (spec->model_auth == MODEL_AUTH_PROXIED)
                r = read_model(ctx, ret, err);
        for (size_t i = 0; r == 0 && i < spec->n_secrets; i++)
                r = read_secret(ctx, &spec->secrets[i], &ret->values[i], err);
        return r;
}

static void erase(const struct ctx *ctx, const char *name) {
        char *value = (char *) (uintptr_t) ctx_getenv(ctx, name); /* where /proc/PID/environ reads it */

        if (value)
                explicit_bzero(value, strlen(value));
}

void credentials_erase(const struct ctx *ctx, const struct spec *spec) {
        for (size_t i = 0; i < spec->n_secrets; i++)
                if (strncmp(spec->secrets[i].from, "env:", 4) == 0)
                        erase(ctx, spec->secrets[i].from + 4);
        if (spec->model_auth == MODEL_AUTH_PROXIED) {
                erase(ctx, oauth_name);
                erase(ctx, key_name);
        }
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
        if (c->issuer && strlen(c->issuer) >= ISSUER_BYTES && memmem(text, len, c->issuer, strlen(c->issuer)))
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

/* Whether there is something like a key of the model's API, the caller's or another one. */
static bool has_model_key(const char *text, size_t len) {
        static const char start[] = "sk-ant-";
        const char *end = text + len, *at = text;

        while ((at = memmem(at, (size_t) (end - at), start, strlen(start)))) {
                const char *from = at += strlen(start);

                while (at < end && (*at == '-' || *at == '_' || isalnum((unsigned char) *at)))
                        at++;
                if (at - from >= MODEL_KEY_BYTES)
                        return true;
        }
        return false;
}

static int refuse_file(const char *path, const char *why, const char *remedy, struct error *err) {
        return error_set(err, -EPERM, "the sandbox must not receive '%s': %s: %s", ESC(path), why, remedy);
}

/* Files above @max are not looked at: a copy of a seed refuses them. */
static int check_file(const char *path, size_t max, const char *remedy, const struct credentials *c,
                      struct error *err) {
        AUTO_BUF struct buf text = { .max = max };
        struct stat st;
        int r = 0;

        if (stat(path, &st) < 0 || !S_ISREG(st.st_mode) || (uint64_t) st.st_size > max ||
            file_read_at(AT_FDCWD, path, max, &text) < 0 || !text.data)
                return 0; /* whoever copies it says why it cannot */
        if (holds(c, text.data, text.len))
                r = refuse_file(path, "it holds a credential that stays outside", remedy, err);
        else if (c->model && has_model_key(text.data, text.len))
                r = refuse_file(path, "it holds a key of the model, for which a token stands", remedy, err);
        explicit_bzero(text.data, text.len);
        return r;
}

static int check_entry(const FTSENT *entry, const char *name, size_t max, const struct credentials *c,
                       struct error *err) {
        static const char remedy[] = "leave the seed out";

        if (entry->fts_info != FTS_F)
                return 0;
        if (c->model && strcmp(name, ".credentials.json") == 0)
                return refuse_file(entry->fts_path, "a token takes the place of credentials", remedy, err);
        return check_file(entry->fts_path, max, remedy, c, err);
}

/* A file or all below a directory, as far as it would be copied. */
static int check_seed(const struct spec *spec, const struct spec_seed *seed, const struct credentials *c,
                      struct error *err) {
        const char *to = seed->to ? seed->to : seed->from, *slash = strrchr(to, '/');
        char *const paths[] = { seed->from, NULL };
        FTS *tree = fts_open(paths, FTS_PHYSICAL | FTS_COMFOLLOW | FTS_NOCHDIR, NULL);
        uint64_t files = 0, bytes = 0;
        FTSENT *entry;
        int r = 0;

        if (!tree)
                return error_set(err, -errno, "read the seed '%s': %s", ESC(seed->from), strerror(errno));
        while (r == 0 && files <= spec->home.seed_files && bytes <= spec->home.seed_max &&
               (entry = fts_read(tree))) {
                const bool top = entry->fts_level == FTS_ROOTLEVEL;

                files += entry->fts_info == FTS_F;
                bytes += entry->fts_info == FTS_F ? (uint64_t) entry->fts_statp->st_size : 0;
                r = check_entry(entry, top && slash ? slash + 1 : entry->fts_name, spec->home.seed_max, c,
                                err);
        }
        (void) fts_close(tree);
        return r;
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
                r = check_file(path, BUF_MAX_DEFAULT, "use --host-state none", c, err);
        }
        for (size_t i = 0; r == 0 && i < spec->home.n_seeds; i++)
                r = check_seed(spec, &spec->home.seeds[i], c, err);
        for (size_t i = 0; r == 0 && i < spec->n_mounts; i++)
                if (spec->mounts[i].source)
                        r = check_file(spec->mounts[i].source, BUF_MAX_DEFAULT, "leave the mount out", c,
                                       err);
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
