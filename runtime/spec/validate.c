#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/cleanup.h"
#include "runtime/base/escape.h"
#include "runtime/base/path.h"
#include "runtime/spec/keys.h"
#include "runtime/spec/value.h"

static bool is_given(const struct spec *spec, enum section section, const char *name) {
        return spec->tier_of[key_index(key_find(section, name))] != TIER_BUILTIN;
}

/* The root of the sandbox is said once or not at all; "inline" wants it said. */
static int validate_root(const struct spec *spec, struct error *err) {
        const struct {
                const char *name;
                bool given;
        } roots[] = {
                { "image", is_given(spec, SECTION_ROOT, "image") },
                { "build", is_given(spec, SECTION_BUILD, "dockerfile") ||
                                   is_given(spec, SECTION_BUILD, "context") ||
                                   is_given(spec, SECTION_BUILD, "args") },
                { "rootfs", is_given(spec, SECTION_ROOT, "rootfs") },
                { "host_root", spec->host_root },
        };
        const char *first = NULL;

        for (size_t i = 0; i < ARRAY_SIZE(roots); i++) {
                if (!roots[i].given)
                        continue;
                if (first)
                        return error_set(err, -EINVAL,
                                         "%s: cannot be together with '%s': leave one of them out",
                                         roots[i].name, first);
                first = roots[i].name;
        }
        if (spec->mode == MODE_INLINE && !first)
                return error_set(err, -EINVAL, "mode: 'inline' needs image, build, rootfs or host_root");
        if (spec->mode == MODE_INLINE && spec->isolation == ISOLATION_DEGRADE)
                return error_set(
                        err, -EINVAL,
                        "mode: 'inline' is exactly this or nothing: leave out isolation: degrade, or "
                        "use mode: auto");
        return 0;
}

const char *spec_shadowed(const char *target, const struct spec_env_view *view) {
        static const char *const kernel[] = { "/proc", "/sys", "/dev" };

        if (strcmp(target, "/") == 0)
                return "the root";
        if (strcmp(target, "/tmp") == 0)
                return "/tmp";
        if (view->home && path_below(view->home, target))
                return "the home directory";
        for (size_t i = 0; i < ARRAY_SIZE(kernel); i++)
                if (path_below(target, kernel[i]))
                        return kernel[i];
        return NULL;
}

static int validate_target(const char *key, const char *target, const char *remedy,
                           const struct spec_env_view *view, struct error *err) {
        const char *what;

        what = spec_shadowed(target, view);
        return what ? error_set(err, -EINVAL, "%s: '%s' would shadow %s: %s", key, ESC(target), what, remedy)
                    : 0;
}

static int validate_workspace(const struct spec *spec, const struct spec_env_view *view, struct error *err) {
        const char *source = spec->workspace.source, *target = spec->workspace.target;

        if (source && strcmp(source, "/") == 0)
                return error_set(err, -EINVAL,
                                 "workspace: '/' cannot be the workspace: name a directory with --workspace");
        if (target)
                return validate_target("workspace.target", target, "choose another path, such as /workspace",
                                       view, err);
        if (source && !value_has_dotdot(source)) /* else only the host can say where it is */
                return validate_target("workspace.source", source,
                                       "give it another path inside with --workspace-target /workspace", view,
                                       err);
        return 0;
}

/* Keys of the workspace that some modes have no use for: said and not done would be worse than an error. */
static int validate_mode(const struct spec *spec, struct error *err) {
        const enum workspace_mode mode = spec->workspace.mode;

        if (mode != WORKSPACE_STAGED && is_given(spec, SECTION_WORKSPACE, "land"))
                return error_set(err, -EINVAL,
                                 "workspace.land: is for mode 'staged': set workspace.mode too");
        if (spec->workspace.engine == ENGINE_OVERLAY && mode != WORKSPACE_STAGED && mode != WORKSPACE_COW)
                return error_set(err, -EINVAL,
                                 "workspace.engine: 'overlay' is for mode 'staged' or 'cow': use 'auto'");
        return 0;
}

/* Whoever writes one '*' means more than the names of one label that it matches. */
static bool allows_star(const struct spec *spec) {
        for (size_t i = 0; i < spec->network.n_rules; i++)
                if (spec->network.rules[i][strspn(spec->network.rules[i], "*")] == '\0')
                        return true;
        return false;
}

/* Rules that nobody would apply: said later, or by the same, than the mode that has no use for them. */
static int validate_network(const struct spec *spec, struct error *err) {
        static const char *const names[] = { "preset", "rules", "transparent" };
        const enum spec_tier mode = spec->tier_of[key_index(key_find(SECTION_NETWORK, "mode"))];

        if (spec->network.mode == NETWORK_ALLOWLIST || spec->network.mode == NETWORK_DENYLIST)
                return 0;
        for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
                const enum spec_tier tier = spec->tier_of[key_index(key_find(SECTION_NETWORK, names[i]))];

                if (i == 2 && !spec->network.transparent)
                        continue;                           /* so it is */
                if (tier > TIER_REPOSITORY && tier >= mode) /* a repository's rules only deny */
                        return error_set(
                                err, -EINVAL,
                                "network.%s: is for mode 'allowlist' or 'denylist': set network.mode "
                                "(--network) too%s",
                                names[i],
                                allows_star(spec) ? "; or --network open, to allow everything" : "");
        }
        return 0;
}

static const char *mount_target_of(const struct spec *spec, size_t i) {
        return i < spec->n_mounts
                       ? spec->mounts[i].target
                       : (spec->workspace.target ? spec->workspace.target : spec->workspace.source);
}

/* The workspace counts as the last mount. */
static int validate_unique(const struct spec *spec, size_t i, struct error *err) {
        const char *target = mount_target_of(spec, i);

        for (size_t j = i + 1; j <= spec->n_mounts; j++) {
                const char *other = mount_target_of(spec, j);

                if (other && strcmp(target, other) == 0)
                        return error_set(err, -EINVAL, "mounts[%zu].target: '%s' is also the target of %s", i,
                                         ESC(target), j < spec->n_mounts ? "a later mount" : "the workspace");
        }
        return 0;
}

static int validate_mounts(const struct spec *spec, const struct spec_env_view *view, struct error *err) {
        for (size_t i = 0; i < spec->n_mounts; i++) {
                char key[48];
                int r;

                (void) snprintf(key, sizeof(key), "mounts[%zu].target", i);
                r = validate_target(key, spec->mounts[i].target, "choose another target", view, err);
                if (r == 0)
                        r = validate_unique(spec, i, err);
                if (r < 0)
                        return r;
        }
        return 0;
}

/* Where a seed goes: below the home, not the home itself. */
static int validate_seed(const struct spec_seed *seed, size_t i, const char *home, struct error *err) {
        const char *below;

        if (!home)
                return error_set(err, -EINVAL, "home.seed[%zu]: there is no home directory", i);
        if (!seed->to && value_has_dotdot(seed->from))
                return error_set(err, -EINVAL, "home.seed[%zu]: '%s' has '..': say where it goes with 'to'",
                                 i, ESC(seed->from));
        below = path_below(seed->to ? seed->to : seed->from, home);
        if (below && *below)
                return 0;
        if (!seed->to)
                return error_set(err, -EINVAL,
                                 "home.seed[%zu]: '%s' is not below the home: say where it goes with 'to'", i,
                                 ESC(seed->from));
        return error_set(err, -EINVAL, "home.seed[%zu].to: '%s' is not below the home '%s'", i, ESC(seed->to),
                         ESC(home));
}

static int validate_seeds(const struct spec *spec, const struct spec_env_view *view, struct error *err) {
        for (size_t i = 0; i < spec->home.n_seeds; i++) {
                int r;

                r = validate_seed(&spec->home.seeds[i], i, view->home, err);
                if (r < 0)
                        return r;
        }
        return 0;
}

/* NULL: none */
static const char *secret_variable(const struct spec_secret *secret) {
        return secret->env ? secret->env : secret_is(secret, "file") ? NULL : secret->name;
}

/* A token comes with a second variable for its relay. */
static bool is_url_of(const char *a, const struct spec_secret *secret, const char *b) {
        const size_t n = strlen(b);

        return secret_is(secret, "proxied") && strncmp(a, b, n) == 0 && strcmp(a + n, "_URL") == 0;
}

/* Variables that the sandbox gets anyway, or with model_auth. */
static bool variable_is_set(const struct spec *spec, const char *name) {
        static const char *const names[] = { "HOME", "LOGNAME", "PATH", "SHELL", "TMPDIR", "USER" };
        static const char *const model[] = {
                "ANTHROPIC_API_KEY",       "ANTHROPIC_AUTH_TOKEN",
                "ANTHROPIC_BASE_URL",      "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC",
                "CLAUDE_CODE_OAUTH_TOKEN", "IRONFLOW_CLAUDE_CREDENTIALS"
        };
        bool found = strncmp(name, "GIT_CONFIG_", 11) == 0 || strncmp(name, "LD_", 3) == 0;

        for (size_t i = 0; i < ARRAY_SIZE(names); i++)
                found = found || strcmp(name, names[i]) == 0;
        for (size_t i = 0; spec->model_auth == MODEL_AUTH_PROXIED && i < ARRAY_SIZE(model); i++)
                found = found || strcmp(name, model[i]) == 0;
        return found;
}

/* Two secrets in one place. */
static int validate_pair(const struct spec *spec, size_t i, size_t j, struct error *err) {
        const struct spec_secret *one = &spec->secrets[i], *other = &spec->secrets[j];
        const char *a = secret_variable(one), *b = secret_variable(other);
        const bool files = j < i && secret_is(one, "file") && secret_is(other, "file");

        if (a && b && ((j < i && strcmp(a, b) == 0) || is_url_of(a, other, b)))
                return error_set(err, -EINVAL,
                                 "secrets[%zu]: variable '%s' is already that of secrets[%zu]: name another "
                                 "with 'env'",
                                 i, a, j);
        if (files && (strcmp(one->name, other->name) == 0 ||
                      (one->path && other->path && strcmp(one->path, other->path) == 0)))
                return error_set(err, -EINVAL, "secrets[%zu]: is the same file as secrets[%zu]", i, j);
        return 0;
}

/* A variable that has a meaning of its own; two secrets in one; "A_URL" is one that A takes, too. */
static int validate_secrets(const struct spec *spec, struct error *err) {
        int r = 0;

        for (size_t i = 0; i < spec->n_secrets; i++) {
                const char *name = secret_variable(&spec->secrets[i]);

                if (name && variable_is_set(spec, name))
                        return error_set(err, -EINVAL,
                                         "secrets[%zu]: variable '%s' is already set for the sandbox: name "
                                         "another with 'env'",
                                         i, name);
        }
        for (size_t i = 0; i < spec->n_secrets; i++)
                for (size_t j = 0; r == 0 && j < spec->n_secrets; j++)
                        r = validate_pair(spec, i, j, err);
        return r;
}

static int unsupported(const struct spec *spec, const struct key *key, const char *value, const char *instead,
                       struct error *err) {
        char path[KEY_PATH_LEN];

        return error_set(err, -ENOTSUP, "CAPABILITY_UNSUPPORTED: %s%s%s%s (%s): not in this version: %s",
                         key_path(key, path), value ? " '" : "", value ? value : "", value ? "'" : "",
                         spec_tier_name(spec->tier_of[key_index(key)]), instead);
}

/* The word a key of KEY_ENUM or KEY_WORD holds. */
static const struct word *word_of(const struct spec *spec, const struct key *key) {
        unsigned int v;
        char *text;
        int found;

        if (key->type == KEY_ENUM) {
                memcpy(&v, (const char *) spec + key->offset, sizeof(v));
                return &key->words[v];
        }
        memcpy(&text, (const char *) spec + key->offset, sizeof(text));
        found = text ? word_find(key->words, text) : -1;
        return found >= 0 ? &key->words[found] : NULL;
}

/* Keys and words that the table marks as beyond this version. */
static int validate_supported(const struct spec *spec, struct error *err) {
        const struct key *mounts = key_find(SECTION_ROOT, "mounts");
        const struct word *types = key_find(ITEM_MOUNT, "type")->words;

        for (size_t i = 0; i < spec_key_count(); i++) {
                const struct key *key = &spec_keys[i];
                const struct word *word =
                        key->words && key->offset != KEY_NO_STORE ? word_of(spec, key) : NULL;

                if (word && word->instead)
                        return unsupported(spec, key, word->name, word->instead, err);
                if (key->instead && spec->tier_of[i] != TIER_BUILTIN && !value_is_default(spec, key))
                        return unsupported(spec, key, NULL, key->instead, err);
        }
        for (size_t i = 0; i < spec->n_mounts; i++)
                if (types[spec->mounts[i].type].instead)
                        return unsupported(spec, mounts, types[spec->mounts[i].type].name,
                                           types[spec->mounts[i].type].instead, err);
        return 0;
}

int spec_validate(const struct spec *spec, const struct spec_env_view *view, struct error *err) {
        int r;

        r = validate_root(spec, err);
        if (r == 0)
                r = validate_workspace(spec, view, err);
        if (r == 0)
                r = validate_mode(spec, err);
        if (r == 0)
                r = validate_network(spec, err);
        if (r == 0)
                r = validate_mounts(spec, view, err);
        if (r == 0)
                r = validate_seeds(spec, view, err);
        if (r == 0)
                r = validate_secrets(spec, err);
        if (r == 0)
                r = validate_supported(spec, err);
        return r;
}
