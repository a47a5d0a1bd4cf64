#include <dirent.h>
#include <errno.h>
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

#include "runtime/base/buf.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/file.h"
#include "runtime/base/json.h"
#include "runtime/spec/doc.h"
#include "runtime/spec/keys.h"
#include "runtime/spec/resolve.h"

static const struct spec_env_view view = { .home = "/home/op", .cwd = "/w" };

static const char *asset(const char *name, char path[static 512]) {
        const char *root = getenv("SOURCE_ROOT");

        (void) snprintf(path, 512, "%s/tests/assets/spec/%s", root ? root : ".", name);
        return path;
}

static struct spec *new_spec(void) {
        struct spec *spec = NULL;

        assert_int_equal(spec_new(&spec, NULL), 0);
        return spec;
}

static int merge(struct spec *spec, const char *name, const char *text, struct error *err) {
        return spec_merge_bytes(spec, name, text, strlen(text), TIER_FLAG, &view, err);
}

static void assert_contains(const char *text, const char *part) {
        if (!strstr(text, part))
                fail_msg("'%s' does not contain '%s'", text, part);
}

static void spec_new_is_what_the_table_says(void **state) {
        AUTO_SPEC struct spec *spec = new_spec();

        (void) state;
        assert_int_equal(spec->version, 1);
        assert_int_equal(spec->mode, MODE_AUTO);
        assert_string_equal(spec->driver, "auto");
        assert_int_equal(spec->isolation, ISOLATION_STRICT);
        assert_int_equal(spec->network.mode, NETWORK_NONE);
        assert_int_equal(spec->home.size, 1ULL << 30);
        assert_int_equal(spec->tmp.size, 512ULL << 20);
        assert_true(spec->guard.defaults && spec->home.toolchains && spec->security.no_new_privs);
        assert_false(spec->keep || spec->host_root || spec->security.nested_userns);
        assert_null(spec->workspace.source);
        for (size_t i = 0; i < spec_key_count(); i++)
                assert_int_equal(spec->tier_of[i], TIER_BUILTIN);
}

static void spec_merge_reads_every_key(void **state) {
        AUTO_SPEC struct spec *spec = new_spec();
        struct error err = { 0 };
        char path[512];

        (void) state;
        if (spec_merge_file(spec, asset("full.yaml", path), TIER_FLAG, &view, &err) < 0)
                fail_msg("%s", err.msg);
        assert_string_equal(spec->driver, "native");
        assert_int_equal(spec->isolation, ISOLATION_DEGRADE);
        assert_string_equal(spec->name, "build-1.2_x");
        assert_string_equal(spec->user, "1000:1000");
        assert_true(spec->keep && spec->host_root);
        assert_false(spec->guard.defaults || spec->home.toolchains);
        assert_int_equal(spec->host_state, HOST_STATE_NONE);
        assert_string_equal(spec->workspace.source, "/w/project/../project");
        assert_string_equal(spec->workspace.target, "/workspace");
        assert_int_equal(spec->workspace.mode, WORKSPACE_RO);
        assert_int_equal(spec->workspace.engine, ENGINE_FUSE);
        assert_int_equal(spec->home.size, 2ULL << 30);
        assert_int_equal(spec->tmp.size, 65536);
        assert_int_equal(spec->network.mode, NETWORK_OPEN);
        assert_int_equal(spec->n_allow_sensitive, 1);
        assert_string_equal(spec->allow_sensitive[0], "/home/op/.ssh/config");
        assert_int_equal(spec_validate(spec, &view, &err), 0);
        assert_int_equal(spec->tier_of[key_index(key_find(SECTION_TMP, "size"))], TIER_FLAG);
}

static void spec_merge_reads_lists(void **state) {
        AUTO_SPEC struct spec *spec = new_spec();
        char path[512];

        (void) state;
        assert_int_equal(spec_merge_file(spec, asset("full.yaml", path), TIER_FLAG, &view, NULL), 0);
        assert_int_equal(spec->guard.n_rules, 2);
        assert_string_equal(spec->guard.rules[0].path, ".git/hooks/**");
        assert_int_equal(spec->guard.rules[0].action, GUARD_HOLD);
        assert_non_null(strstr(spec->guard.rules[0].from, "full."));
        assert_non_null(strchr(spec->guard.rules[0].from, ':'));
        assert_int_equal(spec->guard.rules[1].action, GUARD_HIDE);
        assert_int_equal(spec->home.n_seeds, 3);
        assert_string_equal(spec->home.seeds[0].from, "/home/op/.gitconfig");
        assert_null(spec->home.seeds[0].to);
        assert_int_equal(spec->home.seeds[0].mode, 0600);
        assert_string_equal(spec->home.seeds[1].from, "/etc/motd");
        assert_string_equal(spec->home.seeds[1].to, "/home/op/motd");
        assert_int_equal(spec->home.seeds[2].mode, 0640);
        assert_int_equal(spec->n_mounts, 4);
        assert_true(spec->mounts[0].readonly);
        assert_false(spec->mounts[1].readonly);
        assert_int_equal(spec->mounts[2].type, MOUNT_TMPFS);
        assert_int_equal(spec->mounts[2].size, 1 << 20);
        assert_int_equal(spec->mounts[3].type, MOUNT_CACHE);
        assert_string_equal(spec->mounts[3].target, "/home/op/.npm");
        assert_false(spec->mounts[3].readonly || spec->mounts[3].shared);
        assert_int_equal(spec->n_env, 4);
        assert_string_equal(spec->env[1].value, "");
        assert_string_equal(spec->env[2].value, "007");
        assert_null(spec->env[3].value);
}

static void spec_merge_refuses_bad_files(void **state) {
        static const struct {
                const char *file;
                int r;
                const char *want;
        } cases[] = {
                { "should-fail-alias.yaml", -EINVAL, ":2: env: aliases" },
                { "should-fail-anchor.yaml", -EINVAL, ":1: env: anchors" },
                { "should-fail-bare-duration.yaml", -EINVAL,
                  "limits.timeout: '30' has no unit: write '30s' for seconds or '30m' for minutes" },
                { "should-fail-bare-size.json", -EINVAL, "write '4096Mi' for mebibytes or '4096B'" },
                { "should-fail-bare-size.yaml", -EINVAL,
                  ":2: home.size: '512' has no unit: write '512Mi' for mebibytes or '512B' for bytes" },
                { "should-fail-escaped-nul.yaml", -EINVAL, ":2: env.A: contains a NUL character" },
                { "should-fail-bool-null.yaml", -EINVAL, ":1: keep: has no value" },
                { "should-fail-bool-number.json", -EINVAL, "keep: '1' must be true or false" },
                { "should-fail-bool-quoted.yaml", -EINVAL,
                  ":1: keep: 'true' must be true or false, without quotes" },
                { "should-fail-comment.json", -EINVAL, ":1: JSON: ',' or the end" },
                { "should-fail-cpus.yaml", -EINVAL, "limits.cpus: '-1' must be a number such as 2" },
                { "should-fail-duplicate-key-escaped.json", -EINVAL, ":1: tmp.size: duplicate key" },
                { "should-fail-duplicate-key.json", -EINVAL, ":2: tmp.size: duplicate key, first on line 1" },
                { "should-fail-duplicate-key.yaml", -EINVAL, ":3: network: duplicate key, first on line 1" },
                { "should-fail-duplicate-variable.yaml", -EINVAL,
                  ":3: env.A: duplicate key, first on line 2" },
                { "should-fail-empty.json", -EINVAL, "should-fail-empty.json: is empty" },
                { "should-fail-empty.yaml", -EINVAL, "is empty" },
                { "should-fail-blank.json", -EINVAL, ":2: JSON: the file ends too early" },
                { "should-fail-enum-case.yaml", -EINVAL, "unknown value 'Auto', did you mean 'auto'?" },
                { "should-fail-enum.yaml", -EINVAL,
                  "network.mode: unknown value 'opne', did you mean 'open'? (none, allowlist, denylist, "
                  "open)" },
                { "should-fail-env-is-text.yaml", -EINVAL, "env: must be a mapping" },
                { "should-fail-env-list-name.yaml", -EINVAL, "env[0]: '' must not be empty" },
                { "should-fail-env-name-empty.yaml", -EINVAL, "must not be empty" },
                { "should-fail-env-name-newline.yaml", -EINVAL, "env.A\\nB: 'A\\nB' must not contain" },
                { "should-fail-env-name.yaml", -EINVAL, "'A=B' must not contain '='" },
                { "should-fail-env-nested.yaml", -EINVAL, "env.A: must be a single value, not a list" },
                { "should-fail-env-newline.yaml", -EINVAL, ":2: env.TOKEN: the value must be one line" },
                { "should-fail-invalid-utf8.yaml", -EINVAL, ":2: not a text file in UTF-8" },
                { "should-fail-leading-zero.json", -EINVAL, "neither a number nor" },
                { "should-fail-list-as-key.yaml", -EINVAL, ":1: a key must be text" },
                { "should-fail-list-is-map.yaml", -EINVAL, "mounts: must be a list" },
                { "should-fail-list-is-text.yaml", -EINVAL, "mounts: must be a list" },
                { "should-fail-lone-surrogate.json", -EINVAL, "half a surrogate pair" },
                { "should-fail-merge-key.yaml", -EINVAL, "env.<<: must be a single value" },
                { "should-fail-mount-bare-size.yaml", -EINVAL, "'1024' has no unit" },
                { "should-fail-mount-bind-size.yaml", -EINVAL, "a mount of type bind has no 'size'" },
                { "should-fail-mount-dotdot.yaml", -EINVAL, "must be an absolute path without '..'" },
                { "should-fail-mount-empty-field.yaml", -EINVAL, "unknown field ''" },
                { "should-fail-mount-map-no-type.yaml", -EINVAL, "mounts[0]: a mount needs 'type'" },
                { "should-fail-mount-newline.yaml", -EINVAL, "on one line" },
                { "should-fail-mount-no-target.yaml", -EINVAL, "a mount of type bind needs 'target'" },
                { "should-fail-mount-no-type.yaml", -EINVAL, "mounts[0]: a mount needs 'type=bind'" },
                { "should-fail-mount-relative.yaml", -EINVAL, "must be an absolute path without '..'" },
                { "should-fail-mount-ro-twice.yaml", -EINVAL, "field 'readonly' is given twice" },
                { "should-fail-mount-tmpfs-source.yaml", -EINVAL, "a mount of type tmpfs has no 'source'" },
                { "should-fail-mount-twice.yaml", -EINVAL, "field 'source' is given twice" },
                { "should-fail-mount-unknown-field.yaml", -EINVAL,
                  "unknown field 'sorce', did you mean 'source'?" },
                { "should-fail-name-long.yaml", -EINVAL, "name: too long: at most 64 bytes" },
                { "should-fail-name-newline.yaml", -EINVAL, "name: 'a\\nb' must be 1 to 64 letters" },
                { "should-fail-name.yaml", -EINVAL, "name: '../x' must be 1 to 64 letters" },
                { "should-fail-nan.json", -EINVAL, "neither a number nor" },
                { "should-fail-nul-key.json", -EINVAL, "contains a NUL character" },
                { "should-fail-nul.json", -EINVAL, "contains a NUL character" },
                { "should-fail-path-empty.yaml", -EINVAL, "workspace.source: must not be empty" },
                { "should-fail-pids-zero.yaml", -EINVAL, "limits.pids: '0' must be a number from 2" },
                { "should-fail-raw-nul.yaml", -EINVAL, ":1: not a text file in UTF-8" },
                { "should-fail-root-is-list.json", -EINVAL, ":1: must be a mapping of keys" },
                { "should-fail-root-is-list.yaml", -EINVAL, ":1: must be a mapping of keys" },
                { "should-fail-root-is-text.yaml", -EINVAL, ":1: must be a mapping of keys" },
                { "should-fail-rule-newline.yaml", -EINVAL, "guard.rules[0].path: 'a\\nb' must be one line" },
                { "should-fail-rule-no-do.yaml", -EINVAL, "guard.rules[0]: a rule needs 'do'" },
                { "should-fail-rule-no-path.yaml", -EINVAL, "guard.rules[0]: a rule needs 'path'" },
                { "should-fail-rule-text.yaml", -EINVAL, "guard.rules[0]: must be a mapping" },
                { "should-fail-scalar-is-list.yaml", -EINVAL, "mode: must be a single value, not a list" },
                { "should-fail-scalar-is-map.yaml", -EINVAL, "user: must be a single value, not a mapping" },
                { "should-fail-second-document.yaml", -EINVAL, ":2: a second document" },
                { "should-fail-section-is-text.yaml", -EINVAL, ":1: network: must be a mapping" },
                { "should-fail-seed-mode-plain.yaml", -EINVAL,
                  "home.seed[0].mode: '600' must be permissions in octal" },
                { "should-fail-seed-mode-setuid.yaml", -EINVAL, "at most 0777" },
                { "should-fail-seed-no-from.yaml", -EINVAL, "home.seed[0]: a seed needs 'from'" },
                { "should-fail-seed-other-home.yaml", -EINVAL, "only the caller's own home" },
                { "should-fail-seed-two-colons.yaml", -EINVAL, "must be PATH or PATH:TARGET" },
                { "should-fail-single-quotes.json", -EINVAL, "a key in quotes was expected" },
                { "should-fail-size-above.yaml", -EINVAL, "must be from 65536 to 4398046511104 bytes" },
                { "should-fail-size-below.yaml", -EINVAL,
                  "tmp.size: '65535B' must be from 65536 to 4398046511104 bytes" },
                { "should-fail-size-negative.yaml", -EINVAL, "must be a size such as 512Mi" },
                { "should-fail-size-word.yaml", -EINVAL, "must be a size such as 512Mi" },
                { "should-fail-syntax.yaml", -EINVAL, ": YAML: " },
                { "should-fail-tab.yaml", -EINVAL, ":2: YAML: " },
                { "should-fail-tag-directive.yaml", -EINVAL, "%TAG is not supported" },
                { "should-fail-tag.yaml", -EINVAL, ":1: mode: tags" },
                { "should-fail-target-relative.yaml", -EINVAL,
                  "workspace.target: 'work' must be an absolute path" },
                { "should-fail-text-after.json", -EINVAL, "text after the end" },
                { "should-fail-trailing-comma.json", -EINVAL, "a key in quotes was expected" },
                { "should-fail-unfinished-string.json", -EINVAL,
                  ":1: JSON: a string must be closed on its line" },
                { "should-fail-unfinished.json", -EINVAL, "the file ends too early" },
                { "should-fail-unknown-field-of-rule.yaml", -EINVAL,
                  ":3: guard.rules[0].pth: unknown key of a rule, did you mean 'path'?" },
                { "should-fail-unknown-key-far.yaml", -EINVAL,
                  ":2: zzzzzzzz: unknown key: see cofferdam.yaml(5)" },
                { "should-fail-unknown-key.json", -EINVAL,
                  ":2: workspcae: unknown key, did you mean 'workspace'?" },
                { "should-fail-unknown-key.yaml", -EINVAL,
                  ":2: network.mdoe: unknown key, did you mean 'network.mode'?" },
                { "should-fail-user-injection.yaml", -EINVAL, "user: 'root\\nevil' must be UID" },
                { "should-fail-user-no-id.yaml", -EINVAL, "user: '4294967295' must be UID" },
                { "should-fail-user.yaml", -EINVAL, "user: '1000:' must be UID" },
                { "should-fail-utf16.yaml", -EINVAL, ":1: not a text file in UTF-8" },
                { "should-fail-version-2.yaml", -EINVAL, ":1: version: '2' must be 1" },
        };
        AUTO_DIR DIR *dir = NULL;
        size_t files = 0;
        char path[512];

        (void) state;
        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
                AUTO_SPEC struct spec *spec = new_spec();
                struct error err = { 0 };
                const int r = spec_merge_file(spec, asset(cases[i].file, path), TIER_FLAG, &view, &err);

                if (r != cases[i].r)
                        fail_msg("%s: %d, not %d: %s", cases[i].file, r, cases[i].r, err.msg);
                assert_int_equal(err.code, r);
                assert_contains(err.msg, cases[i].want);
                assert_contains(err.msg, cases[i].file);
                assert_null(strchr(err.msg, '\n'));
                assert_null(strstr(err.msg, "hunter")); /* a variable's value */
                for (size_t k = 0; k < spec_key_count(); k++)
                        assert_int_equal(spec->tier_of[k], TIER_BUILTIN); /* unchanged */
        }
        dir = opendir(asset(".", path));
        assert_non_null(dir);
        for (const struct dirent *d = readdir(dir); d; d = readdir(dir))
                files += strncmp(d->d_name, "should-fail-", 12) == 0;
        assert_int_equal(files, ARRAY_SIZE(cases)); /* every file has its row */
}

/* Files that are no text: never waited for, never followed far. */
static void spec_merge_reads_regular_files_only(void **state) {
        static const struct {
                const char *path;
                int r;
                const char *want;
        } cases[] = {
                { "/dev/zero", -EINVAL, "/dev/zero: not a regular file" },
                { "/", -EINVAL, "/: not a regular file" },
                { "/nonexistent.yaml", -ENOENT, "/nonexistent.yaml: cannot read: No such file" },
                { "/dev/null/x", -ENOTDIR, "cannot read" },
        };
        AUTO_SPEC struct spec *spec = new_spec();
        struct error err = { 0 };
        char fifo[] = "/tmp/spec-fifo-XXXXXX";

        (void) state;
        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
                assert_int_equal(spec_merge_file(spec, cases[i].path, TIER_FLAG, &view, &err), cases[i].r);
                assert_contains(err.msg, cases[i].want);
        }
        assert_non_null(mkdtemp(fifo));
        {
                char path[64];

                (void) snprintf(path, sizeof(path), "%s/f", fifo);
                assert_int_equal(mkfifo(path, 0600), 0);
                assert_int_equal(spec_merge_file(spec, path, TIER_FLAG, &view, &err), -EINVAL);
                assert_int_equal(unlink(path), 0);
        }
        assert_int_equal(rmdir(fifo), 0);
}

/* @unit with @i in the place of "%zu" */
static void add_unit(struct buf *text, const char *unit, size_t i) {
        const char *place = strstr(unit, "%zu");

        if (!place) {
                assert_int_equal(buf_str(text, unit), 0);
                return;
        }
        assert_int_equal(buf_add(text, unit, (size_t) (place - unit)), 0);
        assert_int_equal(buf_fmt(text, "%zu%s", i, place + 3), 0);
}

/* @unit repeated @n times between @head and @tail */
static int merge_many(const char *name, const char *head, const char *unit, size_t n, const char *tail,
                      struct error *err) {
        AUTO_SPEC struct spec *spec = new_spec();
        AUTO_BUF struct buf text = { 0 };

        assert_int_equal(buf_str(&text, head), 0);
        for (size_t i = 0; i < n; i++)
                add_unit(&text, unit, i);
        assert_int_equal(buf_str(&text, tail), 0);
        return spec_merge_bytes(spec, name, buf_cstr(&text), text.len, TIER_FLAG, &view, err);
}

static void spec_merge_keeps_its_limits(void **state) {
        static const struct {
                const char *name, *head, *unit, *tail;
                size_t max;
                int beyond;
                const char *want;
        } cases[] = {
                { "s.yaml", "", "#", "", DOC_FILE_MAX, -EFBIG, "s.yaml: larger than 1024 KiB" },
                { "s.json", "{}", " ", "", DOC_FILE_MAX - 2, -EFBIG, "s.json: larger than 1024 KiB" },
                { "s.yaml", "env:\n", " A%zu: 1\n", "", DOC_KEYS_MAX, -E2BIG,
                  ":4098: env: more than 4096 keys in one mapping" },
                { "s.yaml", "env:\n", " - A%zu=1\n", "", 4096, -E2BIG, "env[4096]: more than 4096 items" },
                { "s.yaml", "guard: {rules: [", "{path: a%zu, do: hold},", "]}", 1024, -E2BIG,
                  "guard.rules[1024]: more than 1024 items" },
                { "s.yaml", "mounts: [", "'type=tmpfs,target=/m%zu',", "]", 256, -E2BIG,
                  "mounts[256]: more than 256 items" },
                { "s.yaml", "home: {seed: [", "/s%zu,", "]}", 256, -E2BIG,
                  "home.seed[256]: more than 256 items" },
                { "s.yaml", "allow_sensitive: [", "/s%zu,", "]", 64, -E2BIG,
                  "allow_sensitive[64]: more than 64 items" },
                { "s.yaml", "name: ", "a", "\n", 64, -EINVAL, "name: too long: at most 64 bytes" },
                { "s.yaml", "env: {", "A", ": 1}", 256, -EINVAL, "too long: at most 256 bytes" },
                { "s.yaml", "env: {A: '", "x", "'}", 131072 - 3, -EINVAL, "variable 'A' is too long" },
                { "s.yaml", "workspace: {source: /", "x", "}", 4094, -EINVAL,
                  "must be a path below 4096 bytes" },
                { "s.yaml", "workspace: {target: /", "x", "}", 4094, -EINVAL,
                  "must be a path below 4096 bytes" },
        };

        (void) state;
        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
                struct error err = { 0 };
                int r = merge_many(cases[i].name, cases[i].head, cases[i].unit, cases[i].max, cases[i].tail,
                                   &err);

                if (r != 0)
                        fail_msg("%s at its limit: %s", cases[i].head, err.msg);
                r = merge_many(cases[i].name, cases[i].head, cases[i].unit, cases[i].max + 1, cases[i].tail,
                               &err);
                if (r != cases[i].beyond)
                        fail_msg("%s beyond its limit: %d %s", cases[i].head, r, err.msg);
                assert_contains(err.msg, cases[i].want);
        }
}

/* No list holds so many: at the limit it is the wrong form, and only behind it too many. */
static void spec_merge_bounds_values(void **state) {
        struct error err = { 0 };

        (void) state;
        assert_int_equal(merge_many("s.yaml", "kubernetes: [", "1,", DOC_COUNT_MAX - 2, "]", &err), -EINVAL);
        assert_contains(err.msg, "kubernetes: must be a mapping");
        assert_int_equal(merge_many("s.yaml", "kubernetes: [", "1,", DOC_COUNT_MAX - 1, "]", &err), -E2BIG);
        assert_contains(err.msg, "kubernetes[19998]: more than 20000 values in one document");
}

/* @open and @close around a value, @n times each: the wrong form for kubernetes, which is said of what was
 * read */
static int merge_deep(const char *name, const char *head, char open, char close, size_t n, const char *tail,
                      struct error *err) {
        AUTO_SPEC struct spec *spec = new_spec();
        AUTO_BUF struct buf text = { 0 };

        assert_int_equal(buf_str(&text, head), 0);
        for (size_t i = 0; i < n; i++)
                assert_int_equal(buf_add(&text, &open, 1), 0);
        for (size_t i = 0; i < n; i++)
                assert_int_equal(buf_add(&text, &close, 1), 0);
        assert_int_equal(buf_str(&text, tail), 0);
        return spec_merge_bytes(spec, name, buf_cstr(&text), text.len, TIER_FLAG, &view, err);
}

static void spec_merge_bounds_depth(void **state) {
        struct error err = { 0 };

        (void) state;
        assert_int_equal(merge_deep("d.yaml", "kubernetes: ", '[', ']', DOC_DEPTH_MAX - 1, "", &err),
                         -EINVAL);
        assert_int_equal(merge_deep("d.yaml", "kubernetes: ", '[', ']', DOC_DEPTH_MAX, "", &err), -E2BIG);
        assert_string_equal(err.msg, "d.yaml:1: more than 64 lists and mappings inside each other");
        assert_int_equal(merge_deep("d.json", "{\"kubernetes\": ", '[', ']', DOC_DEPTH_MAX - 1, "}", &err),
                         -EINVAL);
        assert_int_equal(merge_deep("d.json", "{\"kubernetes\": ", '[', ']', DOC_DEPTH_MAX, "}", &err),
                         -E2BIG);
        assert_int_equal(merge_deep("d.yaml", "", '[', '[', DOC_FILE_MAX / 2, "", &err), -E2BIG);
        assert_int_equal(merge_deep("d.json", "", '[', '[', DOC_FILE_MAX / 2, "", &err), -E2BIG);
        assert_string_equal(err.msg, "d.json:1: more than 64 lists and mappings inside each other");
}

static void spec_merge_adds_lists_and_replaces_scalars(void **state) {
        AUTO_SPEC struct spec *spec = new_spec();

        (void) state;
        assert_int_equal(merge(spec, "a.yaml",
                               "name: a\nenv: {A: 1, B: 2}\nguard: {rules: [{path: x, do: hold}]}", NULL),
                         0);
        assert_int_equal(merge(spec, "b.json",
                               "{\"name\":\"b\",\"env\":{\"B\":\"\\ud83d\\ude00\",\"C\":null},"
                               "\"guard\":{\"rules\":[{\"path\":\"y\",\"do\":\"allow\"}]}}",
                               NULL),
                         0);
        assert_string_equal(spec->name, "b");
        assert_int_equal(spec->n_env, 3);
        assert_string_equal(spec->env[1].value, "\xf0\x9f\x98\x80");
        assert_null(spec->env[2].value);
        assert_int_equal(spec->guard.n_rules, 2);
        assert_string_equal(spec->guard.rules[1].path, "y");
}

static void spec_merge_accepts_nothing_said(void **state) {
        static const char *const texts[] = { "",
                                             "# only\n",
                                             "---\n",
                                             "~\n",
                                             "network:\n",
                                             "mounts:\nenv:\nhome: {seed: }\n",
                                             "\xef\xbb\xbfmode: auto\n",
                                             "%YAML 1.1\n---\nmode: auto\n...\n" };

        (void) state;
        for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
                AUTO_SPEC struct spec *spec = new_spec();
                struct error err = { 0 };

                if (merge(spec, "n.yaml", texts[i], &err) < 0)
                        fail_msg("%zu: %s", i, err.msg);
        }
}

static void spec_merge_respects_tiers(void **state) {
        static const struct {
                const char *text;
                const char *want; /* NULL: the workflow may */
        } cases[] = {
                { "driver: noop", "driver: 'noop' is for the operator to say, not for a workflow" },
                { "mode: none", "mode: 'none' is for the operator" },
                { "security: {no_new_privs: true}", "security.no_new_privs: only the operator may set this" },
                { "security: {seccomp: /x}", "security.seccomp: only the operator may set this" },
                { "allow_sensitive: [~/.ssh]",
                  "allow_sensitive: only the operator may set this, not the workflow" },
                { "workspace: {bypass: [x]}", "workspace.bypass: only the operator may set this" },
                { "env: {AWS_SECRET_ACCESS_KEY: }", "only the operator may pass one on" },
                { "env: [AWS_SECRET_ACCESS_KEY]", "only the operator may pass one on" },
                { "driver: native", NULL },
                { "env: {A: x}", NULL },
                { "mounts: ['type=bind,src=/a,dst=/b']", NULL },
                { "home: {seed: [~/.gitconfig]}", NULL },
                { "network: {mode: open}", NULL },
        };

        (void) state;
        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
                for (enum spec_tier tier = TIER_CONFIG; tier < TIER_COUNT; tier++) {
                        const bool refused = cases[i].want && tier == TIER_WORKFLOW;
                        AUTO_SPEC struct spec *spec = new_spec();
                        struct error err = { 0 };
                        const int r = spec_merge_bytes(spec, "w.yaml", cases[i].text, strlen(cases[i].text),
                                                       tier, &view, &err);

                        if (r != (refused ? -EPERM : 0))
                                fail_msg("%s as %s: %d %s", cases[i].text, spec_tier_name(tier), r, err.msg);
                        if (refused)
                                assert_contains(err.msg, cases[i].want);
                }
        }
}

static void spec_validate_refuses_what_it_cannot_do(void **state) {
        static const struct {
                const char *text, *key;
        } cases[] = {
                { "security: {no_new_privs: false}", "security.no_new_privs" },
        };

        (void) state;
        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
                AUTO_SPEC struct spec *spec = new_spec();
                struct error err = { 0 };
                char want[128];

                (void) snprintf(want, sizeof(want),
                                "CAPABILITY_UNSUPPORTED: %s (flag): not in this version: ", cases[i].key);
                if (merge(spec, "u.yaml", cases[i].text, &err) < 0)
                        fail_msg("%s", err.msg);
                if (spec_validate(spec, &view, &err) != -ENOTSUP)
                        fail_msg("'%s' is not refused", cases[i].text);
                assert_contains(err.msg, want);
        }
}

static void spec_reads_secrets_in_each_form(void **state) {
        static const struct {
                const char *text, *from, *inject, *hosts;
        } good[] = {
                { "secrets: [{name: T, from: {env: T}, hosts: [a.example, \"*.b.example\"]}]", "env:T",
                  "bearer", "a.example,*.b.example" },
                { "secrets: [{name: T, from: \"file:/k\", hosts: a.example, inject: {basic: {username: u}}}]",
                  "file:/k", "basic:u", "a.example" },
                { "secrets: [{name: T, from: {file: /k}, hosts: [a.example], inject: {header: X-A}}]",
                  "file:/k", "header:X-A", "a.example" },
                { "secrets: [\"T=env:T,inject=x_api_key,host=a.example,host=b.example\"]", "env:T",
                  "x_api_key", "a.example,b.example" },
        };
        static const struct {
                const char *text, *want;
        } bad[] = {
                { "secrets: {name: T}", "secrets: must be a list" },
                { "secrets: [{from: {env: T}, hosts: [a.example]}]", "a secret needs 'name'" },
                { "secrets: [{name: T, hosts: [a.example]}]", "a secret needs 'from'" },
                { "secrets: [{name: T, from: {env: T}}]", "a secret needs 'hosts'" },
                { "secrets: [{name: T, from: {env: T}, hosts: []}]", "must be host names" },
                { "secrets: [{name: T, from: {env: T}, hosts: [[a.example]]}]", "must be a list of texts" },
                { "secrets: [{name: T, from: {env: T}, hosts: [\"a.example,b.example\"]}]",
                  "must be a list of texts" },
                { "secrets: [{name: T, from: {env: T, file: /k}, hosts: [a.example]}]",
                  "or a mapping of one key" },
                { "secrets: [{name: T, from: [env], hosts: [a.example]}]", "or a mapping of one key" },
                { "secrets: [{name: T, from: {url: x}, hosts: [a.example]}]", "must be env:VARIABLE" },
                { "secrets: [{name: T, from: {env: T}, hosts: [a.example], inject: {basic: {user: u}}}]",
                  "or a mapping of one key" },
                { "secrets: [{name: T, from: {env: T}, hosts: [a.example], value: x}]",
                  "unknown key of a secret" },
        };

        (void) state;
        for (size_t i = 0; i < ARRAY_SIZE(good); i++) {
                AUTO_SPEC struct spec *spec = new_spec();
                struct error err = { 0 };

                if (merge(spec, "u.yaml", good[i].text, &err) < 0)
                        fail_msg("%s", err.msg);
                assert_int_equal(spec_validate(spec, &view, &err), 0);
                assert_int_equal(spec->n_secrets, 1);
                assert_string_equal(spec->secrets[0].name, "T");
                assert_string_equal(spec->secrets[0].from, good[i].from);
                assert_string_equal(spec->secrets[0].inject, good[i].inject);
                assert_string_equal(spec->secrets[0].hosts, good[i].hosts);
                assert_string_equal(spec->secrets[0].as, "proxied");
        }
        for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
                AUTO_SPEC struct spec *spec = new_spec();
                struct error err = { 0 };

                if (merge(spec, "u.yaml", bad[i].text, &err) != -EINVAL)
                        fail_msg("'%s' is not refused", bad[i].text);
                assert_contains(err.msg, bad[i].want);
        }
}

static void spec_validate_checks_across_keys(void **state) {
        static const struct {
                const char *text, *want;
        } cases[] = {
                { "mode: inline", "mode: 'inline' needs image, build, rootfs or host_root" },
                { "{image: a, rootfs: /b}", "rootfs: cannot be together with 'image'" },
                { "{image: a, host_root: true}", "host_root: cannot be together with 'image'" },
                { "{image: a, build: {context: .}}", "build: cannot be together with 'image'" },
                { "workspace: {source: /}", "workspace: '/' cannot be the workspace" },
                { "workspace: {source: /./}", "workspace: '/' cannot be the workspace" },
                { "workspace: {source: \"~\"}",
                  "workspace.source: '/home/op' would shadow the home directory" },
                { "workspace: {source: /home}", "would shadow the home directory" },
                { "workspace: {source: /tmp}", "would shadow /tmp" },
                { "workspace: {source: /proc/1}", "would shadow /proc" },
                { "workspace: {source: /tmp/x}", NULL },
                { "workspace: {source: /home/op/x}", NULL },
                { "workspace: {source: /home/op, target: /workspace}", NULL },
                { "workspace: {target: /}", "workspace.target: '/' would shadow the root" },
                { "workspace: {target: /dev/x}", "would shadow /dev" },
                { "mounts: ['type=tmpfs,dst=/']", "mounts[0].target: '/' would shadow the root" },
                { "mounts: ['type=tmpfs,dst=/home']", "would shadow the home directory" },
                { "mounts: ['type=tmpfs,dst=~/']", "would shadow the home directory" },
                { "mounts: ['type=tmpfs,dst=/tmp/']", "would shadow /tmp" },
                { "mounts: ['type=tmpfs,dst=/proc']", "would shadow /proc" },
                { "mounts: ['type=tmpfs,dst=/sys/fs/cgroup']", "would shadow /sys" },
                { "mounts: ['type=tmpfs,dst=/dev/shm']", "would shadow /dev" },
                { "mounts: ['type=tmpfs,dst=/device']", NULL },
                { "mounts: ['type=tmpfs,dst=~/.cache']", NULL },
                { "mounts: ['type=tmpfs,dst=/a', 'type=bind,src=/x,dst=/b', 'type=tmpfs,dst=//a/.']",
                  "mounts[0].target: '/a' is also the target of a later mount" },
                { "{workspace: {source: /p}, mounts: ['type=tmpfs,dst=/p']}",
                  "'/p' is also the target of the workspace" },
                { "home: {seed: [/etc/motd]}", "home.seed[0]: '/etc/motd' is not below the home: say where" },
                { "home: {seed: ['/etc/motd:/etc/motd']}",
                  "home.seed[0].to: '/etc/motd' is not below the home '/home/op'" },
                { "home: {seed: ['/etc/motd:~/']}", "is not below the home" },
                { "home: {seed: ['~/../x/y']}", "has '..': say where it goes with 'to'" },
                { "home: {seed: ['~/../x/y:~/y']}", NULL },
                { "home: {seed: [~/..data]}", NULL },
        };

        (void) state;
        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
                AUTO_SPEC struct spec *spec = new_spec();
                struct error err = { 0 };
                int r;

                r = merge(spec, "v.yaml", cases[i].text, &err);
                if (r == 0)
                        r = spec_validate(spec, &view, &err);
                if (cases[i].want) {
                        if (r != -EINVAL)
                                fail_msg("%s: %d", cases[i].text, r);
                        assert_contains(err.msg, cases[i].want);
                } else if (r != 0) {
                        fail_msg("%s: %s", cases[i].text, err.msg);
                }
        }
}

static void spec_paths_need_what_they_name(void **state) {
        static const struct spec_env_view bare = { 0 };
        static const struct {
                const char *text, *want;
        } cases[] = {
                { "workspace: {source: ~/x}", "there is no home directory" },
                { "workspace: {source: x}", "the current directory is gone" },
                { "home: {seed: ['/a:~/b']}", "there is no home directory" },
        };

        (void) state;
        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
                AUTO_SPEC struct spec *spec = new_spec();
                struct error err = { 0 };

                assert_int_equal(spec_merge_bytes(spec, "p.yaml", cases[i].text, strlen(cases[i].text),
                                                  TIER_FLAG, &bare, &err),
                                 -EINVAL);
                assert_contains(err.msg, cases[i].want);
        }
}

static void spec_copy_is_deep_and_dumps_alike(void **state) {
        AUTO_SPEC struct spec *spec = new_spec(), *copy = NULL;
        AUTO_JSON json_t *a = NULL, *b = NULL;
        AUTO_FREE char *text = NULL;
        char path[512];

        (void) state;
        assert_int_equal(spec_merge_file(spec, asset("full.yaml", path), TIER_WORKFLOW, &view, NULL), -EPERM);
        assert_int_equal(spec_merge_file(spec, asset("full.yaml", path), TIER_CONFIG, &view, NULL), 0);
        assert_int_equal(merge(spec, "s.yaml", "env: {TOKEN: hunter2}", NULL), 0);
        assert_int_equal(spec_copy(spec, &copy, NULL), 0);
        a = spec_dump(spec);
        spec = spec_free(spec);
        b = spec_dump(copy);
        assert_non_null(a);
        assert_true(json_equal(a, b));
        text = json_dumps(b, 0);
        assert_contains(text, "{\"name\": \"TOKEN\", \"tier\": \"flag\"}");
        assert_contains(text, "{\"value\": \"open\", \"tier\": \"config\"}");
        assert_null(strstr(text, "hunter2"));
}

int main(void) {
        static const struct CMUnitTest tests[] = {
                cmocka_unit_test(spec_new_is_what_the_table_says),
                cmocka_unit_test(spec_merge_reads_every_key),
                cmocka_unit_test(spec_merge_reads_lists),
                cmocka_unit_test(spec_merge_refuses_bad_files),
                cmocka_unit_test(spec_merge_reads_regular_files_only),
                cmocka_unit_test(spec_merge_keeps_its_limits),
                cmocka_unit_test(spec_merge_bounds_depth),
                cmocka_unit_test(spec_merge_bounds_values),
                cmocka_unit_test(spec_merge_adds_lists_and_replaces_scalars),
                cmocka_unit_test(spec_merge_accepts_nothing_said),
                cmocka_unit_test(spec_merge_respects_tiers),
                cmocka_unit_test(spec_validate_refuses_what_it_cannot_do),
                cmocka_unit_test(spec_reads_secrets_in_each_form),
                cmocka_unit_test(spec_validate_checks_across_keys),
                cmocka_unit_test(spec_paths_need_what_they_name),
                cmocka_unit_test(spec_copy_is_deep_and_dumps_alike),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
