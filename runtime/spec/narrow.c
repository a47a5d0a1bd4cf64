#include "runtime/spec/narrow.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "runtime/base/cleanup.h"
#include "runtime/spec/check.h"
#include "runtime/spec/refuse.h"

/* "NAME*": all that begin so; "*NAME": all that end so, in any case */
static const char *const denied[] = {
        "PATH",          "LD_*",
        "*_PROXY",       "ANTHROPIC_*",
        "CLAUDE_*",      "OPENAI_*",
        "GIT_*",         "BASH_ENV",
        "NODE_OPTIONS",  "ENV",
        "PYTHONSTARTUP", "PERL5OPT",
        "RUBYOPT",       "JAVA_TOOL_OPTIONS",
        "SSL_CERT_*",    "COFFERDAM_*",
        "ITERION_*",     "NODE_EXTRA_CA_CERTS",
        "BUILDKIT_*", /* as an argument of a build: who reads the Dockerfile */
};
/* who commits, and no more of git */
static const char *const identity[] = { "GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_NAME",
                                        "GIT_COMMITTER_EMAIL" };

static bool matches(const char *pattern, const char *name) {
        const size_t n = strlen(pattern), len = strlen(name);

        if (*pattern == '*')
                return len >= n - 1 && strcasecmp(name + len - (n - 1), pattern + 1) == 0;
        if (pattern[n - 1] == '*')
                return strncmp(name, pattern, n - 1) == 0;
        return strcmp(name, pattern) == 0;
}

bool narrow_env_denied(const char *name) {
        for (size_t i = 0; i < ARRAY_SIZE(identity); i++)
                if (strcmp(identity[i], name) == 0)
                        return false;
        for (size_t i = 0; i < ARRAY_SIZE(denied); i++)
                if (matches(denied[i], name))
                        return true;
        return false;
}

static int no(struct spec *spec, enum refusal_kind kind, const struct source *src, const struct doc *node,
              const char *reason, const char *remedy, struct error *err) {
        return refusal_add(spec, kind, src, node, NULL, reason, remedy) < 0
                       ? error_set(err, -ENOMEM, "out of memory")
                       : 1;
}

int narrow_key(struct spec *spec, const struct key *key, const struct doc *node, const struct source *src,
               struct error *err) {
        char remedy[160], path[KEY_PATH_LEN];

        if (key->check == check_image && node->kind == DOC_SCALAR && image_names_file(node->text))
                return no(spec, REFUSAL_KEY, src, node, "a repository's image has to come from a registry",
                          "--image", err);
        if (key->trust == TRUST_REPOSITORY || key->type == KEY_HOSTS)
                return 0;
        if (key->flag)
                (void) snprintf(remedy, sizeof(remedy), "--%s, or %s in a specification of your own",
                                key->flag, key_path(key, path));
        else
                (void) snprintf(remedy, sizeof(remedy), "%s in a specification of your own",
                                key_path(key, path));
        return no(spec, REFUSAL_KEY, src, node, "a repository may only narrow its sandbox", remedy, err);
}

static int narrow_env(struct spec *spec, const struct spec_env *env, const struct doc *node,
                      const struct source *src, struct error *err) {
        if (!env->name)
                return 0; /* the check of the item says so */
        if (!env->value)
                return no(spec, REFUSAL_ENV, src, node,
                          "only the operator may pass a variable on from the caller's environment",
                          "--env NAME", err);
        if (narrow_env_denied(env->name))
                return no(spec, REFUSAL_ENV, src, node, "programs take orders or credentials from it",
                          "--env NAME=VALUE", err);
        return 0;
}

static int narrow_mount(struct spec *spec, struct spec_mount *mount, const struct doc *node,
                        const struct source *src, struct error *err) {
        if (mount->type == MOUNT_TMPFS)
                return 0;
        if (mount->type != MOUNT_BIND)
                return no(spec, REFUSAL_KEY, src, node, "a repository may have mounts of type bind and tmpfs",
                          "--mount, or --cache", err);
        mount->readonly = true; /* writes go through the workspace, where the guard is */
        return 0;
}

int narrow_item(struct spec *spec, const struct key *key, void *item, const struct doc *node,
                const struct source *src, struct error *err) {
        const struct spec_rule *rule = item;
        char *const *host = item;

        if (key->type == KEY_ENV)
                return narrow_env(spec, item, node, src, err);
        if (key->type == KEY_MOUNTS)
                return narrow_mount(spec, item, node, src, err);
        if (key->type == KEY_RULES && rule->path && rule->action == GUARD_ALLOW)
                return no(spec, REFUSAL_KEY, src, node, "a repository's rule may not allow",
                          "--allow-write GLOB", err);
        if (key->type == KEY_HOSTS && *host && **host != '!')
                return no(spec, REFUSAL_KEY, src, node, "a repository's rule may only deny: '!HOST'",
                          "--allow RULE", err);
        return 0;
}
