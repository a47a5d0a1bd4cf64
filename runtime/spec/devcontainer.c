/*
 * DOC: theory of operation
 *
 * The file is hostile: it is the repository's. Comments are blanked (jsonc.c), the rest is read as any JSON
 * (doc.c), and what has a counterpart goes through the key table (merge.c) as a repository's value, which
 * narrow.c then judges like one of .cofferdam.yaml. The container's own names (user, workspaceFolder) are
 * vouched for here; repository_settle() takes them back when the root is not the repository's. Nothing of the
 * file is ever executed on the host: initializeCommand is named and dropped.
 */
#include "runtime/spec/devcontainer.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/buf.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/escape.h"
#include "runtime/base/path.h"
#include "runtime/spec/jsonc.h"
#include "runtime/spec/merge.h"
#include "runtime/spec/refuse.h"

/** struct reading - a file on its way into a specification */
struct reading {
        struct spec *spec;
        const struct devcontainer *from;
        const struct doc *root;
        struct source src;
        struct error *err;
};

static int no_memory(const struct reading *d) {
        return error_set(d->err, -ENOMEM, "out of memory");
}

static int unusable(const struct reading *d, const struct doc *node, const char *why) {
        return source_error(&d->src, node, d->err, -EINVAL, "%s", why);
}

static int drop(struct reading *d, const struct doc *node, const char *reason, const char *remedy) {
        return refusal_add(d->spec, REFUSAL_KEY, &d->src, node, NULL, reason, remedy) < 0 ? no_memory(d) : 0;
}

/* The text of @node with the host's variables in place. */
static int text_of(const struct reading *d, const struct doc *node, char **ret) {
        int r;

        if (node->kind != DOC_SCALAR || !node->quoted)
                return unusable(d, node, "must be a string");
        r = devcontainer_expand(d->from, node->text, ret);
        if (r == -E2BIG)
                return unusable(d, node, "too long with its variables");
        return r < 0 ? no_memory(d) : 0;
}

/* @text as the value of a key, at the place of @node. */
static int say(struct reading *d, enum section section, const char *key, const struct doc *node, char *text) {
        struct doc one = *node;

        one.kind = DOC_SCALAR;
        one.quoted = true;
        one.text = text;
        return merge_key(d->spec, key_find(section, key), &one, &d->src, d->err);
}

/* The same for a key that a repository may not set but here. */
static int vouch(struct reading *d, enum section section, const char *key, const struct doc *node,
                 char *text) {
        int r;

        d->src.vouched = true;
        r = say(d, section, key, node, text);
        d->src.vouched = false;
        return r;
}

static int read_image(struct reading *d, const struct doc *node) {
        AUTO_FREE char *text = NULL;
        int r = text_of(d, node, &text);

        return r < 0 ? r : say(d, SECTION_ROOT, "image", node, text);
}

/* One variable, or build argument: "NAME": "value". */
static int read_variable(struct reading *d, const struct key *key, const struct doc *node) {
        AUTO_FREE char *text = NULL;
        struct doc map = { .kind = DOC_MAP, .line = node->line, .parent = node->parent, .n = 1 };
        struct doc one = *node;
        int r;

        if (doc_is_null(node))
                return drop(d, node, "a variable cannot be unset", "leave it out");
        r = text_of(d, node, &text);
        if (r < 0)
                return r;
        one.text = text;
        one.next = NULL;
        map.first = map.last = &one;
        return merge_key(d->spec, key, &map, &d->src, d->err);
}

static int read_variables(struct reading *d, enum section section, const char *name, const struct doc *node) {
        int r = 0;

        if (node->kind != DOC_MAP)
                return unusable(d, node, "must be an object of names and values");
        for (const struct doc *c = node->first; r == 0 && c; c = c->next)
                r = read_variable(d, key_find(section, name), c);
        return r;
}

static int read_env(struct reading *d, const struct doc *node) {
        return read_variables(d, SECTION_ROOT, "env", node);
}

/* A path of the file, relative to its directory. */
static int read_path(struct reading *d, const char *key, const struct doc *node, const char *fallback) {
        AUTO_FREE char *text = NULL, *path = NULL;
        int r = 0;

        if (node->kind == DOC_MAP)
                text = strdup(fallback);
        else
                r = text_of(d, node, &text);
        if (r == 0 && !text)
                return no_memory(d);
        if (r < 0)
                return r;
        if (!*text || path_normalize(d->from->dir, text, &path) < 0)
                return unusable(d, node, "must be a path");
        return say(d, SECTION_BUILD, key, node, path);
}

static int read_build(struct reading *d, const struct doc *node) {
        const struct doc *file, *context, *args, *target;
        AUTO_FREE char *text = NULL;
        int r;

        if (node->kind != DOC_MAP)
                return unusable(d, node, "must be an object");
        file = doc_child(node, "dockerfile");
        context = doc_child(node, "context");
        args = doc_child(node, "args");
        target = doc_child(node, "target");
        if (!file)
                return unusable(d, node, "needs 'dockerfile'");
        r = read_path(d, "dockerfile", file, "");
        if (r == 0)
                r = read_path(d, "context", context ? context : node, ".");
        if (r == 0 && args)
                r = read_variables(d, SECTION_BUILD, "args", args);
        if (r == 0 && target)
                r = text_of(d, target, &text);
        if (r == 0 && target)
                r = say(d, SECTION_BUILD, "target", target, text);
        if (r == 0 && doc_child(node, "options"))
                r = drop(d, doc_child(node, "options"), "options of an engine are not passed on",
                         "build the image yourself and use --image");
        return r;
}

/* "dockerFile" and "context" of older files */
static int read_dockerfile(struct reading *d, const struct doc *node) {
        const struct doc *context = doc_child(d->root, "context");
        int r = read_path(d, "dockerfile", node, "");

        if (r == 0)
                r = read_path(d, "context", context ? context : d->root, ".");
        return r;
}

static int read_user(struct reading *d, const struct doc *node) {
        AUTO_FREE char *text = NULL;
        int r = 0;

        if (strcmp(node->name, "containerUser") == 0 && doc_child(d->root, "remoteUser"))
                return 0;
        r = text_of(d, node, &text);
        if (r < 0)
                return r;
        if (strcmp(text, "root") == 0 || strspn(text, "0") == strcspn(text, ":"))
                return drop(d, node, "a repository does not choose root", "--user 0:0");
        return vouch(d, SECTION_ROOT, "user", node, text);
}

/* --- mounts ----------------------------------------------------------------------------------------- */

/** struct mount - the fields of a mount, whichever way it is written; owned */
struct mount {
        char *type, *source, *target;
        bool readonly;
};

static void mount_deinit(struct mount *m) {
        free(m->type);
        free(m->source);
        free(m->target);
}

/* Return: 1: a field that is not known. */
static int mount_field(struct mount *m, const char *name, const char *value) {
        const struct {
                const char *name;
                char **place; /* NULL: of no consequence here */
        } fields[] = {
                { "type", &m->type },          { "source", &m->source }, { "src", &m->source },
                { "target", &m->target },      { "dst", &m->target },    { "consistency", NULL },
                { "destination", &m->target }, { "external", NULL },
        };

        if (strcmp(name, "readonly") == 0 || strcmp(name, "ro") == 0) {
                m->readonly = true; /* also "readonly=false": a repository's always are */
                return 0;
        }
        for (size_t i = 0; i < ARRAY_SIZE(fields); i++) {
                if (strcmp(fields[i].name, name) != 0)
                        continue;
                if (!fields[i].place)
                        return 0;
                free(*fields[i].place);
                *fields[i].place = strdup(value);
                return *fields[i].place ? 0 : -ENOMEM;
        }
        return 1;
}

static char *trim(char *text) {
        size_t n;

        text += strspn(text, " \t");
        n = strlen(text);
        while (n > 0 && strchr(" \t", text[n - 1]))
                text[--n] = '\0';
        return text;
}

/* "type=bind,source=/a,target=/b" */
static int mount_text(const struct reading *d, const struct doc *node, struct mount *m) {
        AUTO_FREE char *text = NULL;
        char *rest;
        int r = text_of(d, node, &text);

        if (r < 0)
                return r;
        if (strpbrk(text, "\"\r\n"))
                return 1;
        for (rest = text; r == 0 && rest;) {
                char *field = trim(strsep(&rest, ",")), *value = strchr(field, '=');

                if (value)
                        *value++ = '\0';
                r = mount_field(m, trim(field), value ? trim(value) : "");
        }
        return r;
}

static int mount_object(const struct reading *d, const struct doc *node, struct mount *m) {
        int r = 0;

        for (const struct doc *c = node->first; r == 0 && c; c = c->next) {
                AUTO_FREE char *text = NULL;

                if (c->kind == DOC_SCALAR && !c->quoted)
                        continue; /* "external": true */
                r = text_of(d, c, &text);
                if (r == 0)
                        r = mount_field(m, c->name, text);
        }
        return r;
}

/* Return: 1: it is none that can be read; -errno with a message. */
static int mount_read(const struct reading *d, const struct doc *node, struct mount *m) {
        const int r = node->kind == DOC_MAP ? mount_object(d, node, m) : mount_text(d, node, m);

        return r == -ENOMEM ? no_memory(d) : r;
}

static int read_mount(struct reading *d, const struct doc *node) {
        CLEANUP(mount_deinit) struct mount m = { 0 };
        struct doc fields[] = { { .name = (char[]){ "type" } },
                                { .name = (char[]){ "target" } },
                                { .name = (char[]){ "source" } } };
        struct doc item = *node, list = { .kind = DOC_LIST, .line = node->line, .n = 1 };
        size_t n;
        int r = mount_read(d, node, &m);

        if (r < 0)
                return r;
        if (r == 1 || !m.target)
                return drop(d, node, "a mount that cannot be read", "--mount");
        if (!m.type || (strcmp(m.type, "bind") != 0 && strcmp(m.type, "tmpfs") != 0))
                return drop(d, node, "a repository may have mounts of type bind and tmpfs",
                            "--mount, or --cache");
        fields[0].text = m.type;
        fields[1].text = m.target;
        fields[2].text = m.source;
        n = strcmp(m.type, "bind") == 0 && m.source ? 3 : 2;
        for (size_t i = 0; i < n; i++) {
                fields[i].quoted = true;
                fields[i].line = node->line;
                fields[i].parent = &item;
                fields[i].next = i + 1 < n ? &fields[i + 1] : NULL;
        }
        item.kind = DOC_MAP;
        item.n = n;
        item.first = &fields[0];
        item.last = &fields[n - 1];
        item.next = NULL;
        list.first = list.last = &item;
        return merge_key(d->spec, key_find(SECTION_ROOT, "mounts"), &list, &d->src, d->err);
}

static int read_mounts(struct reading *d, const struct doc *node) {
        int r = 0;

        if (node->kind != DOC_LIST)
                return unusable(d, node, "must be a list");
        for (const struct doc *c = node->first; r == 0 && c; c = c->next)
                r = read_mount(d, c);
        return r;
}

static int read_folder(struct reading *d, const struct doc *node) {
        AUTO_FREE char *text = NULL;
        int r = text_of(d, node, &text);

        if (r < 0)
                return r;
        if (*text != '/')
                return unusable(d, node, "must be an absolute path");
        return vouch(d, SECTION_WORKSPACE, "target", node, text);
}

/* The workspace, at another path; anything else is a mount that a repository does not choose. After
 * workspaceFolder. */
static int read_workspace_mount(struct reading *d, const struct doc *node) {
        CLEANUP(mount_deinit) struct mount m = { 0 };
        AUTO_FREE char *source = NULL;
        int r;

        if (node->kind == DOC_SCALAR && node->quoted && !*node->text)
                return drop(d, node, "the workspace is always mounted", "--workspace DIR");
        r = mount_read(d, node, &m);
        if (r < 0)
                return r;
        if (r == 0 && m.source && path_normalize(d->from->workspace, m.source, &source) == -ENOMEM)
                return no_memory(d);
        if (r == 1 || !source || !m.target || !m.type || strcmp(m.type, "bind") != 0 ||
            strcmp(source, d->from->workspace) != 0)
                return drop(d, node, "the workspace is the directory that was given, bound",
                            "--workspace DIR");
        return vouch(d, SECTION_WORKSPACE, "target", node, m.target);
}

/* --- commands --------------------------------------------------------------------------------------- */

static int quote(const char *word, struct buf *out) {
        int r = buf_str(out, "'");

        for (; r == 0 && *word; word++)
                r = *word == '\'' ? buf_str(out, "'\\''") : buf_add(out, word, 1);
        return r == 0 ? buf_str(out, "'") : r;
}

/* "text for a shell", or ["program", "argument"] */
static int add_command(const struct reading *d, const struct doc *node, struct buf *out) {
        AUTO_FREE char *text = NULL;
        int r = 0;

        if (node->kind == DOC_MAP)
                return unusable(d, node, "must be a string or a list of strings");
        if (node->kind == DOC_SCALAR) {
                r = text_of(d, node, &text);
                return r < 0 ? r : buf_str(out, text) < 0 ? no_memory(d) : 0;
        }
        for (const struct doc *c = node->first; r == 0 && c; c = c->next) {
                AUTO_FREE char *word = NULL;

                r = text_of(d, c, &word);
                if (r == 0 && ((c != node->first && buf_str(out, " ") < 0) || quote(word, out) < 0))
                        r = no_memory(d);
        }
        return r;
}

static int read_post_create(struct reading *d, const struct doc *node) {
        AUTO_BUF struct buf out = { 0 };
        int r = 0;

        if (node->kind != DOC_MAP)
                r = add_command(d, node, &out);
        for (const struct doc *c = node->kind == DOC_MAP ? node->first : NULL; r == 0 && c; c = c->next) {
                if (buf_str(&out, c == node->first ? "(\n" : " &&\n(\n") < 0)
                        return no_memory(d);
                r = add_command(d, c, &out);
                if (r == 0 && buf_str(&out, "\n)") < 0)
                        r = no_memory(d);
        }
        if (r < 0 || out.len == 0)
                return r;
        return say(d, SECTION_ROOT, "post_create", node, out.data);
}

/* --- what makes a file unusable ----------------------------------------------------------------------- */

static bool is_option(const char *arg, const char *name, const char **ret_value) {
        const size_t n = strlen(name);

        *ret_value = arg[0] && strncmp(arg, name, n) == 0 && arg[n] == '=' ? arg + n + 1 : NULL;
        return *ret_value || strcmp(arg, name) == 0;
}

static bool is_host_namespace(const char *arg, const char *next) {
        static const char *const names[] = { "--pid", "--net",    "--network", "--ipc",
                                             "--uts", "--userns", "--cgroupns" };
        const char *value;

        for (size_t i = 0; i < ARRAY_SIZE(names); i++)
                if (is_option(arg, names[i], &value) && strcmp(value ? value : next, "host") == 0)
                        return true;
        return false;
}

static int read_run_args(struct reading *d, const struct doc *node) {
        const char *value;
        int r = 0;

        if (node->kind != DOC_LIST)
                return unusable(d, node, "must be a list");
        for (const struct doc *c = node->first; c; c = c->next) {
                const bool text = c->kind == DOC_SCALAR && c->quoted;
                const char *next = c->next && c->next->kind == DOC_SCALAR ? c->next->text : "";

                if (!text)
                        return unusable(d, c, "must be a string");
                if (is_option(c->text, "--privileged", &value) && !(value && strcmp(value, "false") == 0))
                        return unusable(d, c, "asks for a privileged container");
                if (is_host_namespace(c->text, next))
                        return unusable(d, c, "asks for a namespace of the host");
        }
        for (const struct doc *c = node->first; r == 0 && c; c = c->next)
                if (c->text[0] == '-')
                        r = drop(d, c, "options of an engine are not passed on",
                                 "the key of a specification that says the same: cofferdam.yaml(5)");
        return r;
}

static int read_privileged(struct reading *d, const struct doc *node) {
        return node->kind == DOC_SCALAR && strcmp(node->text, "false") == 0
                       ? 0
                       : unusable(d, node, "asks for a privileged container");
}

static int read_compose(struct reading *d, const struct doc *node) {
        return unusable(d, node, "compose files are not read: name an image, or a dockerfile with 'build'");
}

#define PATIENCE "postCreateCommand, or post_create in .cofferdam.yaml"
#define LATER    "only postCreateCommand is run"

/* In the order in which they are applied. @reason: it is named and dropped; without @read and @reason it is
 * for editors only. */
static const struct {
        const char *name;
        int (*read)(struct reading *d, const struct doc *node);
        const char *reason, *remedy;
} properties[] = {
        { "privileged", read_privileged, NULL, NULL },
        { "runArgs", read_run_args, NULL, NULL },
        { "dockerComposeFile", read_compose, NULL, NULL },
        { "image", read_image, NULL, NULL },
        { "build", read_build, NULL, NULL },
        { "dockerFile", read_dockerfile, NULL, NULL },
        { "context", NULL, NULL, NULL },
        { "remoteEnv", read_env, NULL, NULL },
        { "containerEnv", read_env, NULL, NULL }, /* wins */
        { "mounts", read_mounts, NULL, NULL },
        { "remoteUser", read_user, NULL, NULL },
        { "containerUser", read_user, NULL, NULL },
        { "workspaceFolder", read_folder, NULL, NULL },
        { "workspaceMount", read_workspace_mount, NULL, NULL },
        { "postCreateCommand", read_post_create, NULL, NULL },
        { "initializeCommand", NULL, "commands of a repository are never run on the host", PATIENCE },
        { "onCreateCommand", NULL, LATER, PATIENCE },
        { "updateContentCommand", NULL, LATER, PATIENCE },
        { "postStartCommand", NULL, LATER, PATIENCE },
        { "postAttachCommand", NULL, LATER, PATIENCE },
        { "features", NULL, "features are not supported", "an image that has them" },
        { "capAdd", NULL, "capabilities are not added", "an image or --user that does without" },
        { "securityOpt", NULL, "security options are not passed on",
          "security in a specification of your own" },
        { "forwardPorts", NULL, "ports are not forwarded", "--network open" },
        { "appPort", NULL, "ports are not forwarded", "--network open" },
        { "secrets", NULL, "a repository does not ask for credentials", "--secret" },
        { "init", NULL, NULL, NULL }, /* there always is one */
        { "$schema", NULL, NULL, NULL },
        { "name", NULL, NULL, NULL },
        { "customizations", NULL, NULL, NULL },
        { "settings", NULL, NULL, NULL },
        { "extensions", NULL, NULL, NULL },
        { "hostRequirements", NULL, NULL, NULL },
        { "portsAttributes", NULL, NULL, NULL },
        { "otherPortsAttributes", NULL, NULL, NULL },
        { "overrideCommand", NULL, NULL, NULL },
        { "overrideFeatureInstallOrder", NULL, NULL, NULL },
        { "shutdownAction", NULL, NULL, NULL },
        { "updateRemoteUserUID", NULL, NULL, NULL },
        { "userEnvProbe", NULL, NULL, NULL },
        { "waitFor", NULL, NULL, NULL },
};

static bool is_known(const char *name) {
        for (size_t i = 0; i < ARRAY_SIZE(properties); i++)
                if (strcmp(properties[i].name, name) == 0)
                        return true;
        return false;
}

static int check_root(const struct reading *d) {
        const bool image = doc_child(d->root, "image") != NULL,
                   build = doc_child(d->root, "build") || doc_child(d->root, "dockerFile");

        if (doc_child(d->root, "dockerComposeFile"))
                return 0; /* has its own words */
        if (image && build)
                return unusable(d, d->root, "has both 'image' and 'build'");
        return image || build ? 0 : unusable(d, d->root, "has neither 'image' nor 'build'");
}

static int read_all(struct reading *d) {
        int r;

        if (d->root->kind != DOC_MAP)
                return unusable(d, d->root, "must be an object");
        r = check_root(d);
        for (size_t i = 0; r == 0 && i < ARRAY_SIZE(properties); i++) {
                const struct doc *node = doc_child(d->root, properties[i].name);

                if (!node || doc_is_null(node))
                        continue;
                if (properties[i].read)
                        r = properties[i].read(d, node);
                else if (properties[i].reason)
                        r = drop(d, node, properties[i].reason, properties[i].remedy);
        }
        for (const struct doc *c = d->root->first; r == 0 && c; c = c->next)
                if (!is_known(c->name))
                        r = drop(d, c, "no property that is known here",
                                 ".cofferdam.yaml: cofferdam.yaml(5)");
        return r;
}

int devcontainer_merge(struct spec *spec, const struct devcontainer *from, char *data, size_t len,
                       struct error *err) {
        const struct spec_env_view view = { .home = from->ctx->home, .cwd = from->workspace };
        AUTO_DOC struct doc *root = NULL;
        struct reading d = { .spec = spec,
                             .from = from,
                             .src = { .tier = TIER_REPOSITORY, .file = from->file, .view = &view },
                             .err = err };
        int r;

        r = jsonc_plain(from->file, data, len, err);
        if (r == 0)
                r = doc_parse(from->file, data, len, true, &root, err);
        if (r < 0)
                return r;
        if (!root)
                return error_set(err, -EINVAL, "%s: is empty", ESC(from->file));
        d.root = root;
        return read_all(&d);
}
