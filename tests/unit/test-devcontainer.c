/* devcontainer.json and .cofferdam.yaml: what they mean, and what a repository does not get */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "runtime/base/cleanup.h"
#include "runtime/base/file.h"
#include "runtime/base/json.h"
#include "runtime/spec/devcontainer.h"
#include "runtime/spec/jsonc.h"
#include "runtime/spec/keys.h"
#include "runtime/spec/narrow.h"
#include "runtime/spec/refuse.h"
#include "runtime/spec/repository.h"

static const char *const environment[] = { "HOME=/home/op", "LC_ALL=C.UTF-8", "GITHUB_TOKEN=secret", NULL };
static const struct ctx ctx = { .home = "/home/op", .cwd = "/w", .environ = environment };
static const struct spec_env_view view = { .home = "/home/op", .cwd = "/w" };
static const struct devcontainer place = {
        .file = "dc.json", .dir = "/w/.devcontainer", .workspace = "/w", .ctx = &ctx
};

static struct spec *new_spec(void) {
        struct spec *spec = NULL;

        assert_int_equal(spec_new(&spec, NULL), 0);
        return spec;
}

static int read_text(struct spec *spec, const char *text, struct error *err) {
        AUTO_FREE char *copy = strdup(text);

        assert_non_null(copy);
        return devcontainer_merge(spec, &place, copy, strlen(copy), err);
}

static struct spec *read_ok(const char *text) {
        struct spec *spec = new_spec();
        struct error err = { 0 };

        if (read_text(spec, text, &err) != 0)
                fail_msg("%s: %s", text, err.msg);
        return spec;
}

static const char *env_of(const struct spec *spec, const char *name) {
        for (size_t i = 0; i < spec->n_env; i++)
                if (strcmp(spec->env[i].name, name) == 0)
                        return spec->env[i].value;
        return NULL;
}

static const struct spec_refusal *refusal_of(const struct spec *spec, const char *key) {
        for (size_t i = 0; i < spec->n_refused; i++)
                if (strcmp(spec->refused[i].key, key) == 0)
                        return &spec->refused[i];
        return NULL;
}

/* "": it is not refused */
static const char *reason_of(const struct spec *spec, const char *key) {
        const struct spec_refusal *one = refusal_of(spec, key);

        return one ? one->reason : "";
}

static void jsonc_plain_leaves_json(void **state) {
        static const struct {
                const char *from, *to;
        } cases[] = {
                { "{\"a\": 1} // x", "{\"a\": 1}     " },
                { "/* a\nb */[1,]", "    \n    [1 ]" },
                { "{\"a\": \"//no /* no */ ,]\",\n}", "{\"a\": \"//no /* no */ ,]\" \n}" },
                { "[1, // c\n ]", "[1      \n ]" },
                { "[1, /* ] */ 2]", "[1,         2]" },
                { "\"a\\\" // b\"", "\"a\\\" // b\"" },
                { "[,]", "[ ]" }, /* wrong in both, and said so by neither of them alone */
                { "/", "/" },
                { "\"open", "\"open" },
                { "\"open\\", "\"open\\" },
                { "//", "  " },
                { "\xef\xbb\xbf{}", "   {}" },
                { "{}\xef\xbb\xbf", "{}\xef\xbb\xbf" },
                { "", "" },
        };
        struct error err = { 0 };
        char open_ended[] = "{\n /* x";

        (void) state;
        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
                AUTO_FREE char *text = strdup(cases[i].from);

                assert_non_null(text);
                assert_int_equal(jsonc_plain("f", text, strlen(text), &err), 0);
                assert_string_equal(text, cases[i].to);
        }
        assert_int_equal(jsonc_plain("f", open_ended, strlen(open_ended), &err), -EINVAL);
        assert_string_equal(err.msg, "f:2: JSON: a comment without an end");
}

static void devcontainer_expand_knows_the_hosts_variables(void **state) {
        static const struct {
                const char *from, *to;
        } cases[] = {
                { "${localEnv:HOME}/x", "/home/op/x" },
                { "${localEnv:LC_ALL}", "C.UTF-8" },
                { "${localEnv:GITHUB_TOKEN}", "" },          /* not on the list */
                { "${localEnv:GITHUB_TOKEN:none}", "none" }, /* as if it were not set */
                { "${localEnv:LANG:de}", "de" },             /* on the list, not set */
                { "${localEnv:XDG_CACHE_HOME:a:b}", "a:b" },
                { "${localWorkspaceFolder}/a", "/w/a" },
                { "${localWorkspaceFolderBasename}", "w" },
                { "${containerEnv:PATH}:/x", "${containerEnv:PATH}:/x" },
                { "${containerWorkspaceFolder}", "${containerWorkspaceFolder}" },
                { "$HOME $ ${", "$HOME $ ${" },
                { "", "" },
        };

        (void) state;
        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
                AUTO_FREE char *text = NULL;

                assert_int_equal(devcontainer_expand(&place, cases[i].from, &text), 0);
                assert_string_equal(text, cases[i].to);
        }
}

static void devcontainer_means_what_its_users_expect(void **state) {
        AUTO_SPEC struct spec *spec =
                read_ok("{ // comments and a trailing comma\n"
                        "\"image\": \"reg.example/base:1\",\n"
                        "\"containerEnv\": {\"A\": \"container\", \"H\": \"${localEnv:HOME}\"},\n"
                        "\"remoteEnv\": {\"A\": \"remote\", \"R\": \"r\"},\n"
                        "\"mounts\": [\"source=${localWorkspaceFolder}/c, target=/c "
                        ",type=bind,consistency=cached\",\n"
                        "             {\"type\": \"tmpfs\", \"target\": \"/t\"}],\n"
                        "\"remoteUser\": \"dev\", \"containerUser\": \"other\",\n"
                        "\"workspaceFolder\": \"/ws/${localWorkspaceFolderBasename}\",\n"
                        "\"postCreateCommand\": \"echo ${localWorkspaceFolder}\",\n"
                        "\"customizations\": {\"vscode\": {\"extensions\": [\"x\"]}},\n"
                        "}\n");

        (void) state;
        assert_string_equal(spec->image, "reg.example/base:1");
        assert_string_equal(env_of(spec, "A"), "container"); /* wins */
        assert_string_equal(env_of(spec, "R"), "r");
        assert_string_equal(env_of(spec, "H"), "/home/op");
        assert_int_equal(spec->n_mounts, 2);
        assert_string_equal(spec->mounts[0].source, "/w/c");
        assert_string_equal(spec->mounts[0].target, "/c");
        assert_true(spec->mounts[0].readonly); /* writes go through the workspace */
        assert_int_equal(spec->mounts[1].type, MOUNT_TMPFS);
        assert_string_equal(spec->user, "dev");
        assert_string_equal(spec->workspace.target, "/ws/w");
        assert_string_equal(spec->post_create, "echo /w");
        assert_int_equal(spec->n_refused, 0);
        assert_int_equal(spec->tier_of[key_index(key_find(SECTION_ROOT, "image"))], TIER_REPOSITORY);
}

static void devcontainer_builds(void **state) {
        AUTO_SPEC struct spec *spec = read_ok("{\"build\": {\"dockerfile\": \"D\", \"context\": \"..\", "
                                              "\"args\": {\"V\": \"${localEnv:HOME}\"}, \"target\": \"t\"}}"),
                              *old = read_ok("{\"dockerFile\": \"sub/D\"}");

        (void) state;
        assert_string_equal(spec->build.dockerfile, "/w/.devcontainer/D");
        assert_string_equal(spec->build.context, "/w");
        assert_string_equal(spec->build.target, "t");
        assert_int_equal(spec->build.n_args, 1);
        assert_string_equal(spec->build.args[0].value, "/home/op");
        assert_string_equal(old->build.dockerfile, "/w/.devcontainer/sub/D");
        assert_string_equal(old->build.context, "/w/.devcontainer");
}

static void devcontainer_quotes_commands(void **state) {
        static const struct {
                const char *json, *want;
        } cases[] = {
                { "\"npm ci && make\"", "npm ci && make" },
                { "[\"echo\", \"it's\", \"a b\", \"$HOME\"]", "'echo' 'it'\\''s' 'a b' '$HOME'" },
                { "{\"a\": \"x\", \"b\": [\"y\", \"z\"]}", "(\nx\n) &&\n(\n'y' 'z'\n)" },
        };

        (void) state;
        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
                AUTO_SPEC struct spec *spec = NULL;
                char text[256];

                (void) snprintf(text, sizeof(text), "{\"image\": \"i\", \"postCreateCommand\": %s}",
                                cases[i].json);
                spec = read_ok(text);
                assert_string_equal(spec->post_create, cases[i].want);
        }
}

/* each is named, with what to do; nothing of it is in the specification */
static void devcontainer_names_what_it_drops(void **state) {
        static const struct {
                const char *json, *key, *reason;
        } cases[] = {
                { "\"containerEnv\": {\"PATH\": \"/evil\"}", "containerEnv.PATH", "orders" },
                { "\"remoteEnv\": {\"ANTHROPIC_BASE_URL\": \"http://x\"}", "remoteEnv.ANTHROPIC_BASE_URL",
                  "credentials" },
                { "\"remoteEnv\": {\"https_proxy\": \"x\"}", "remoteEnv.https_proxy", "orders" },
                { "\"remoteEnv\": {\"A\": null}", "remoteEnv.A", "unset" },
                { "\"initializeCommand\": \"touch /tmp/x\"", "initializeCommand", "never run on the host" },
                { "\"onCreateCommand\": \"x\"", "onCreateCommand", "only postCreateCommand" },
                { "\"features\": {\"f\": {}}", "features", "not supported" },
                { "\"forwardPorts\": [1]", "forwardPorts", "not forwarded" },
                { "\"runArgs\": [\"--cap-add\", \"SYS_ADMIN\"]", "runArgs[0]", "not passed on" },
                { "\"runArgs\": [\"-v\", \"/:/host\"]", "runArgs[0]", "not passed on" },
                { "\"mounts\": [\"type=volume,source=v,target=/v\"]", "mounts[0]", "bind and tmpfs" },
                { "\"mounts\": [\"source=/etc,target=/e\"]", "mounts[0]", "bind and tmpfs" },
                { "\"mounts\": [\"type=BIND,source=/etc,target=/e\"]", "mounts[0]", "bind and tmpfs" },
                { "\"mounts\": [\"TYPE=bind,SOURCE=/etc,target=/e\"]", "mounts[0]", "cannot be read" },
                { "\"mounts\": [\"type=bind,\\\"source=/etc\\\",target=/e\"]", "mounts[0]",
                  "cannot be read" },
                { "\"remoteUser\": \"root\"", "remoteUser", "root" },
                { "\"remoteUser\": \"0:5\"", "remoteUser", "root" },
                { "\"workspaceMount\": \"source=/etc,target=/x,type=bind\"", "workspaceMount",
                  "the directory that was given" },
                { "\"secrets\": {\"T\": {}}", "secrets", "credentials" },
                { "\"noSuchThing\": 1", "noSuchThing", "no property" },
        };

        (void) state;
        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
                AUTO_SPEC struct spec *spec = NULL;
                const struct spec_refusal *one;
                char text[512];

                (void) snprintf(text, sizeof(text), "{\n\"image\": \"i\", %s}", cases[i].json);
                spec = read_ok(text);
                one = refusal_of(spec, cases[i].key);
                if (!one || !strstr(one->reason, cases[i].reason))
                        fail_msg("%s: %s", cases[i].json, one ? one->reason : "not named");
                assert_string_equal(one->from, "dc.json:2");
                assert_true(*one->remedy);
                assert_string_equal(spec->image, "i"); /* the rest goes on */
                assert_true(spec->n_env == 0 && spec->n_mounts == 0 && !spec->user && !spec->post_create &&
                            !spec->workspace.target);
        }
}

static void devcontainer_is_unusable(void **state) {
        static const struct {
                const char *text, *why;
        } cases[] = {
                { "{\"image\": \"i\", \"runArgs\": [\"--privileged\"]}",
                  "runArgs[0]: asks for a privileged" },
                { "{\"image\": \"i\", \"privileged\": true}", "privileged: asks for a privileged" },
                { "{\"image\": \"i\", \"runArgs\": [\"--network=host\"]}", "namespace of the host" },
                { "{\"image\": \"i\", \"runArgs\": [\"--pid\", \"host\"]}", "namespace of the host" },
                { "{\"image\": \"i\", \"runArgs\": [\"--userns=host\"]}", "namespace of the host" },
                { "{}", "neither 'image' nor 'build'" },
                { "{\"image\": \"i\", \"build\": {\"dockerfile\": \"D\"}}", "both 'image' and 'build'" },
                { "{\"build\": {\"context\": \".\"}}", "build: needs 'dockerfile'" },
                { "{\"image\": \"i\", \"workspaceFolder\": \"rel\"}", "must be an absolute path" },
                { "{\"dockerComposeFile\": \"c.yml\", \"service\": \"s\"}", "compose files" },
                { "{\"image\": \"-v /:/x\"}", "image: " },
                { "{\"image\": 5}", "must be a string" },
                { "{'image': 'i'}", "JSON" },
                { "{image: \"i\"}", "JSON" },
                { "", "JSON" },
                { "{\"image\": \"i\", \"image\": \"j\"}", "duplicate key" },
                { "{\"image\": \"i\", \"containerEnv\": {\"A\": \"a\\nb\"}}", "must be one line" },
        };

        (void) state;
        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
                AUTO_SPEC struct spec *spec = new_spec();
                struct error err = { 0 };

                if (read_text(spec, cases[i].text, &err) != -EINVAL || !strstr(err.msg, cases[i].why))
                        fail_msg("%s: '%s'", cases[i].text, err.msg);
        }
}

static void narrow_env_denied_follows_the_list(void **state) {
        static const char *const yes[] = { "PATH",
                                           "LD_PRELOAD",
                                           "HTTPS_PROXY",
                                           "no_proxy",
                                           "GIT_SSH_COMMAND",
                                           "GIT_CONFIG_COUNT",
                                           "NODE_OPTIONS",
                                           "BASH_ENV",
                                           "ENV",
                                           "OPENAI_API_KEY",
                                           "SSL_CERT_FILE",
                                           "NODE_EXTRA_CA_CERTS",
                                           "BUILDKIT_SYNTAX",
                                           "COFFERDAM_MODE",
                                           "ITERION_HOME",
                                           "PYTHONSTARTUP",
                                           "PERL5OPT",
                                           "RUBYOPT",
                                           "JAVA_TOOL_OPTIONS",
                                           "CLAUDE_CONFIG_DIR" };
        static const char *const no[] = { "GIT_AUTHOR_NAME", "GIT_COMMITTER_EMAIL", "HOME",  "NODE_ENV",
                                          "PATHX",           "ENVIRONMENT",         "PROXY", "LDFLAGS" };

        (void) state;
        for (size_t i = 0; i < ARRAY_SIZE(yes); i++)
                assert_true(narrow_env_denied(yes[i]));
        for (size_t i = 0; i < ARRAY_SIZE(no); i++)
                assert_false(narrow_env_denied(no[i]));
}

/* Every key that is not a repository's own: dropped and named, by table, so that a new key is judged too. */
static void repository_sets_no_key_of_others(void **state) {
        AUTO_SPEC struct spec *spec = new_spec();
        struct error err = { 0 };

        (void) state;
        for (size_t i = 0; i < spec_key_count(); i++) {
                const struct key *key = &spec_keys[i];
                const bool list = key->type >= KEY_RULES && key->type < KEY_TREE;
                char path[KEY_PATH_LEN], text[128];
                const char *section = section_name(key->section);

                if (key->trust == TRUST_REPOSITORY || key->type == KEY_HOSTS)
                        continue;
                (void) snprintf(text, sizeof(text), *section ? "%s: {%s: %s}\n" : "%s%s: %s\n", section,
                                key->name, list ? "[x]" : "x");
                assert_int_equal(
                        spec_merge_bytes(spec, "r.yaml", text, strlen(text), TIER_REPOSITORY, &view, &err),
                        0);
                if (!refusal_of(spec, key_path(key, path)))
                        fail_msg("%s is not refused", path);
                assert_int_equal(spec->tier_of[i], TIER_BUILTIN);
        }
        assert_true(spec->n_refused > 30);
}

/* Red without image_names_file() in narrow_key(). */
static void repository_image_is_no_file(void **state) {
        static const char *const no[] = { "docker-archive:/h/a.tar",
                                          "oci:/h/layout",
                                          "oci-archive:h.tar",
                                          "dir:h",
                                          "tarball:/h/a.tar",
                                          "docker://r.example/i",
                                          "docker-daemon:i:1",
                                          "containers-storage:i",
                                          "sif:x",
                                          "ostree:x",
                                          "/h/layout",
                                          "./layout" };
        static const char *const yes[] = { "debian:12", "docker:24", "localhost:5000/a:1", "r.example/oci:1",
                                           "dir" };

        (void) state;
        for (size_t i = 0; i < ARRAY_SIZE(no) + ARRAY_SIZE(yes); i++) {
                const bool good = i >= ARRAY_SIZE(no);
                AUTO_SPEC struct spec *spec = new_spec();
                struct error err = { 0 };
                char text[128];

                (void) snprintf(text, sizeof(text), "image: \"%s\"\n",
                                good ? yes[i - ARRAY_SIZE(no)] : no[i]);
                assert_int_equal(
                        spec_merge_bytes(spec, "r.yaml", text, strlen(text), TIER_REPOSITORY, &view, &err),
                        0);
                if (good != (refusal_of(spec, "image") == NULL) || good != (spec->image != NULL))
                        fail_msg("%s", text);
        }
}

static void repository_refusals_are_bounded(void **state) {
        AUTO_SPEC struct spec *spec = new_spec();
        AUTO_BUF struct buf text = { 0 };

        (void) state;
        assert_int_equal(buf_str(&text, "env:\n"), 0);
        for (unsigned i = 0; i < 2 * REFUSALS_MAX; i++)
                assert_int_equal(buf_fmt(&text, "  LD_%u: x\n", i), 0);
        assert_int_equal(spec_merge_bytes(spec, "r.yaml", text.data, text.len, TIER_REPOSITORY, &view, NULL),
                         0);
        assert_int_equal(spec->n_refused, REFUSALS_MAX);
        assert_string_equal(spec->refused[REFUSALS_MAX - 1].key, "...");
        assert_int_equal(spec->n_env, 0);
}

/* --- files -------------------------------------------------------------------------------------------- */

struct tree {
        char path[64];
        int fd;
};

static void tree_init(struct tree *t) {
        (void) snprintf(t->path, sizeof(t->path), "/tmp/test-devcontainer.XXXXXX");
        assert_non_null(mkdtemp(t->path));
        t->fd = open(t->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        assert_true(t->fd >= 0);
        assert_int_equal(mkdirat(t->fd, ".devcontainer", 0755), 0);
        assert_int_equal(mkdirat(t->fd, "sub", 0755), 0);
        assert_int_equal(symlinkat("/etc", t->fd, "link"), 0);
}

static void tree_deinit(struct tree *t) {
        static const char *const files[] = { ".devcontainer/devcontainer.json", ".cofferdam.yaml", "link",
                                             ".devcontainer.json" };

        for (size_t i = 0; i < ARRAY_SIZE(files); i++)
                (void) unlinkat(t->fd, files[i], 0);
        (void) unlinkat(t->fd, ".devcontainer", AT_REMOVEDIR);
        (void) unlinkat(t->fd, "sub", AT_REMOVEDIR);
        (void) rmdir(t->path);
        t->fd = fd_close(t->fd);
}

static void put(const struct tree *t, const char *path, const char *text) {
        AUTO_FD int fd = openat(t->fd, path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

        assert_true(fd >= 0);
        assert_int_equal(write_all(fd, text, strlen(text)), 0);
}

/* The repository's word, then @more in @tier, settled. */
static struct spec *settled(const struct tree *t, enum spec_tier tier, const char *more) {
        struct spec *spec = new_spec();
        struct error err = { 0 };

        if (repository_read(spec, &ctx, t->path, &err) < 0 ||
            spec_merge_bytes(spec, "more.yaml", more, strlen(more), tier, &view, &err) < 0)
                fail_msg("%s", err.msg);
        free(spec->workspace.source);
        spec->workspace.source = strdup(t->path);
        assert_int_equal(repository_settle(spec, t->path, &view, &err), 0);
        if (spec_validate(spec, &view, &err) == -EINVAL)
                fail_msg("%s", err.msg);
        return spec;
}

#define IMAGE "{\"image\": \"reg.example/i\", \"remoteUser\": \"dev\", \"workspaceFolder\": \"/ws\"}"

static void repository_yields_to_everyone(void **state) {
        CLEANUP(tree_deinit) struct tree t;
        AUTO_SPEC struct spec *own = NULL, *image = NULL, *host = NULL, *none = NULL, *env = NULL;

        (void) state;
        tree_init(&t);
        put(&t, ".devcontainer/devcontainer.json", IMAGE);
        put(&t, ".cofferdam.yaml", "env: {A: repo, B: repo}\n");
        own = settled(&t, TIER_WORKFLOW, "env: {A: workflow}\n");
        assert_string_equal(own->image, "reg.example/i");
        assert_string_equal(own->user, "dev");
        assert_string_equal(own->workspace.target, "/ws");
        assert_string_equal(env_of(own, "A"), "workflow");
        assert_string_equal(env_of(own, "B"), "repo");
        image = settled(&t, TIER_WORKFLOW, "image: other\n");
        assert_string_equal(image->image, "other");
        assert_true(!image->user && !image->workspace.target); /* names of another container */
        host = settled(&t, TIER_FLAG, "host_root: true\n");
        assert_null(host->image);
        put(&t, ".cofferdam.yaml",
            "{env: {A: repo, B: repo}, guard: {rules: [{path: a, do: hold}]}, mounts: "
            "[\"type=tmpfs,target=/t\"]}");
        none = settled(&t, TIER_FLAG, "mode: none\n");
        assert_true(!none->image && none->n_mounts == 0 && none->guard.n_rules == 0);
        env = settled(&t, TIER_CONFIG, "user: \"5:5\"\n");
        assert_string_equal(env->user, "5:5");
}

/* whose Dockerfile is not looked at, and who has the network; red without the items in unset_build() */
static void repository_adds_nothing_to_a_build_of_others(void **state) {
        CLEANUP(tree_deinit) struct tree t;
        AUTO_SPEC struct spec *mixed = NULL, *own = NULL;

        (void) state;
        tree_init(&t);
        put(&t, ".cofferdam.yaml",
            "build: {context: sub, target: t, args: {BASE: evil.example/x, WHO: repo, BUILDKIT_SYNTAX: "
            "evil.example/f}}\n");
        mixed = settled(&t, TIER_WORKFLOW, "build: {context: /elsewhere, args: {WHO: workflow}}\n");
        assert_string_equal(mixed->build.context, "/elsewhere");
        assert_null(mixed->build.target);
        assert_int_equal(mixed->build.n_args, 1);
        assert_string_equal(mixed->build.args[0].name, "WHO");
        assert_string_equal(mixed->build.args[0].value, "workflow");
        own = settled(&t, TIER_WORKFLOW, "{}");
        assert_int_equal(own->build.n_args, 2); /* who reads the Dockerfile is nobody's to say there */
        assert_string_equal(own->build.args[0].name, "BASE");
        assert_non_null(strstr(reason_of(own, "build.args.BUILDKIT_SYNTAX"), "orders"));
}

static void repository_own_file_wins_over_devcontainer(void **state) {
        CLEANUP(tree_deinit) struct tree t;
        AUTO_SPEC struct spec *spec = NULL;

        (void) state;
        tree_init(&t);
        put(&t, ".devcontainer/devcontainer.json", "{\"build\": {\"dockerfile\": \"devcontainer.json\"}}");
        put(&t, ".cofferdam.yaml", "image: mine\n");
        spec = settled(&t, TIER_FLAG, "{}");
        assert_string_equal(spec->image, "mine");
        assert_null(spec->build.dockerfile);
}

static void repository_unusable_file_is_named(void **state) {
        CLEANUP(tree_deinit) struct tree t;
        AUTO_SPEC struct spec *spec = NULL, *link = NULL;

        (void) state;
        tree_init(&t);
        put(&t, ".devcontainer/devcontainer.json",
            "{\"image\": \"i\", \"containerEnv\": {\"A\": \"1\"}, \"runArgs\": [\"--privileged\"]}");
        put(&t, ".devcontainer.json", IMAGE); /* the first that is there counts */
        spec = settled(&t, TIER_FLAG, "{}");
        assert_non_null(strstr(reason_of(spec, "devcontainer.json"), "privileged"));
        assert_true(!spec->image && spec->n_env == 0);
        assert_int_equal(unlinkat(t.fd, ".devcontainer/devcontainer.json", 0), 0);
        assert_int_equal(symlinkat("/etc/passwd", t.fd, ".devcontainer/devcontainer.json"), 0);
        link = settled(&t, TIER_FLAG, "{}");
        assert_non_null(strstr(reason_of(link, "devcontainer.json"), "symbolic link"));
}

/* by name and by link */
static void repository_stays_in_its_workspace(void **state) {
        static const struct {
                const char *yaml, *key;
        } cases[] = {
                { "mounts: [\"type=bind,source=/etc,target=/x\"]", "mounts" },
                { "mounts: [\"type=bind,source=link,target=/x\"]", "mounts" },
                { "mounts: [\"type=bind,source=link/ssh,target=/x\"]", "mounts" },
                { "mounts: [\"type=bind,source=sub/../..,target=/x\"]", "mounts" },
                { "mounts: [\"type=bind,source=~/.ssh,target=/x\"]", "mounts" },
                { "mounts: [\"type=bind,source=nosuch,target=/x\"]", "mounts" },
                { "mounts: [\"type=bind,source=sub,target=/tmp\"]", "mounts" },
                { "mounts: [\"type=bind,source=sub,target=/home\"]", "mounts" },
                { "mounts: [\"type=bind,source=sub,target=/x\", \"type=tmpfs,target=/x\"]", "mounts" },
                { "{mounts: [\"type=bind,source=sub,target=/x\"], guard: {rules: [{path: s, do: hide}]}}",
                  "mounts" },
                { "build: {dockerfile: /etc/passwd}", "build" },
                { "build: {dockerfile: .cofferdam.yaml, context: ..}", "build" },
                { "build: {dockerfile: .cofferdam.yaml, context: link}", "build" },
                { "build: {dockerfile: link/passwd}", "build" },
                { "build: {target: t}", "build" },
                { "{build: {dockerfile: .cofferdam.yaml}, guard: {rules: [{path: s, do: hide}]}}", "build" },
        };

        (void) state;
        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
                CLEANUP(tree_deinit) struct tree t;
                AUTO_SPEC struct spec *spec = NULL;

                tree_init(&t);
                put(&t, ".cofferdam.yaml", cases[i].yaml);
                spec = settled(&t, TIER_FLAG, "{}");
                if (!refusal_of(spec, cases[i].key))
                        fail_msg("%s is not refused", cases[i].yaml);
                assert_true(spec->n_mounts == (i == 8) && !spec->build.dockerfile && !spec->build.target);
        }
}

static void repository_completes_a_network(void **state) {
        CLEANUP(tree_deinit) struct tree t;
        AUTO_SPEC struct spec *silent = NULL, *rules = NULL, *preset = NULL, *open = NULL, *deny = NULL;

        (void) state;
        tree_init(&t);
        put(&t, ".devcontainer/devcontainer.json", IMAGE);
        silent = settled(&t, TIER_WORKFLOW, "{}");
        assert_int_equal(silent->network.mode, NETWORK_NONE); /* narrower than what others default to */
        rules = settled(&t, TIER_WORKFLOW, "network: {rules: [a.example]}\n");
        assert_int_equal(rules->network.mode, NETWORK_ALLOWLIST);
        assert_string_equal(rules->network.preset, "default");
        assert_int_equal(rules->n_refused, 1);
        assert_int_equal(rules->refused[0].kind, REFUSAL_NETWORK);
        preset = settled(&t, TIER_WORKFLOW, "network: {preset: code-hosts}\n");
        assert_int_equal(preset->network.mode, NETWORK_ALLOWLIST);
        assert_string_equal(preset->network.preset, "code-hosts");
        assert_int_equal(preset->n_refused, 0);
        open = settled(&t, TIER_WORKFLOW, "network: {mode: open}\n");
        assert_int_equal(open->network.mode, NETWORK_OPEN);
        put(&t, ".cofferdam.yaml", "network: {rules: [\"!evil.example\", ok.example], mode: open}\n");
        deny = settled(&t, TIER_WORKFLOW, "{}");
        assert_int_equal(deny->network.mode, NETWORK_NONE);
        assert_int_equal(deny->network.n_rules, 1);
        assert_string_equal(deny->network.rules[0], "!evil.example");
}

static void repository_without_root_is_for_auto(void **state) {
        CLEANUP(tree_deinit) struct tree t;
        AUTO_SPEC struct spec *spec = NULL, *strict = NULL, *less = NULL, *no = NULL;

        (void) state;
        tree_init(&t);
        put(&t, ".devcontainer/devcontainer.json", IMAGE);
        spec = settled(&t, TIER_FLAG, "env: {A: b}\n");
        assert_int_equal(repository_without_root(spec, "because", &less, NULL), 0);
        assert_non_null(less);
        assert_true(!less->image && !less->user && !less->workspace.target);
        assert_string_equal(env_of(less, "A"), "b");
        assert_string_equal(reason_of(less, "image"), "because");
        strict = settled(&t, TIER_FLAG, "isolation: strict\n");
        assert_int_equal(repository_without_root(strict, "because", &no, NULL), 0);
        assert_null(no);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(jsonc_plain_leaves_json),
                cmocka_unit_test(devcontainer_expand_knows_the_hosts_variables),
                cmocka_unit_test(devcontainer_means_what_its_users_expect),
                cmocka_unit_test(devcontainer_builds),
                cmocka_unit_test(devcontainer_quotes_commands),
                cmocka_unit_test(devcontainer_names_what_it_drops),
                cmocka_unit_test(devcontainer_is_unusable),
                cmocka_unit_test(narrow_env_denied_follows_the_list),
                cmocka_unit_test(repository_sets_no_key_of_others),
                cmocka_unit_test(repository_image_is_no_file),
                cmocka_unit_test(repository_refusals_are_bounded),
                cmocka_unit_test(repository_yields_to_everyone),
                cmocka_unit_test(repository_adds_nothing_to_a_build_of_others),
                cmocka_unit_test(repository_own_file_wins_over_devcontainer),
                cmocka_unit_test(repository_unusable_file_is_named),
                cmocka_unit_test(repository_stays_in_its_workspace),
                cmocka_unit_test(repository_completes_a_network),
                cmocka_unit_test(repository_without_root_is_for_auto),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
