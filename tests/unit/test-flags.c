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
#include "runtime/spec/keys.h"
#include "runtime/spec/resolve.h"

enum { WORDS_MAX = 64 };

/* What a verb's own options were told. */
struct told {
        int flips;
        char last[32];
        bool brief;
};

static int set_flip(void *arg, const char *value, struct error *err) {
        (void) err;
        assert_null(value);
        ((struct told *) arg)->flips++;
        return 0;
}

static int set_events(void *arg, const char *value, struct error *err) {
        if (strcmp(value, "bad") == 0)
                return error_set(err, -ENOENT, "no such place");
        (void) snprintf(((struct told *) arg)->last, sizeof(((struct told *) arg)->last), "%s", value);
        return 0;
}

static const struct flag_option own[] = {
        { "tty", 't', NULL, set_flip, "a terminal" },
        { "interactive", 'i', NULL, set_flip, "standard input" },
        { "events", 0, "FILE", set_events, "where events go" },
        { "brief", 'B', NULL, NULL, "say little", offsetof(struct told, brief) },
};
static const struct flag_set run_set = { "cofferdam run [OPTIONS]", "Run.", own, ARRAY_SIZE(own), true };
static const struct flag_set bare_set = { "cofferdam ps [OPTIONS]", "List.", own, ARRAY_SIZE(own), false };

static char *work; /* a directory of this test program */

static int setup(void **state) {
        static char path[] = "/tmp/spec-flags-XXXXXX";

        (void) state;
        work = mkdtemp(path);
        return work ? 0 : -1;
}

static int teardown(void **state) {
        char path[128];

        (void) state;
        (void) snprintf(path, sizeof(path), "%s/config.yaml", work);
        (void) unlink(path);
        (void) snprintf(path, sizeof(path), "%s/file.yaml", work);
        (void) unlink(path);
        return rmdir(work);
}

static void put_file(const char *name, const char *text, mode_t mode) {
        AUTO_FD int dir = open(work, O_PATH | O_DIRECTORY | O_CLOEXEC);

        assert_int_equal(file_replace_at(dir, name, text, strlen(text), mode, false), 0);
}

/* @line split at blanks, "argv[0]" first */
struct words {
        char text[1024];
        char *argv[WORDS_MAX];
        int argc;
};

static void split(struct words *w, const char *line) {
        char *rest = w->text;

        (void) snprintf(w->text, sizeof(w->text), "run %s", line);
        while (rest && w->argc < WORDS_MAX - 1)
                w->argv[w->argc++] = strsep(&rest, " ");
        assert_null(rest);
}

static int parse(const struct flag_set *set, const char *line, struct told *told, struct flags **ret,
                 struct words *w, struct error *err) {
        split(w, line);
        return flags_parse(set, w->argc, w->argv, told, ret, err);
}

static void assert_contains(const char *text, const char *part) {
        if (!strstr(text, part))
                fail_msg("'%s' does not contain '%s'", text, part);
}

static void flags_parse_refuses(void **state) {
        static const struct {
                const char *line, *want;
        } cases[] = {
                { "--netwrok none", "unknown option '--netwrok': did you mean '--network'?" },
                { "--evnets x", "unknown option '--evnets': did you mean '--events'?" },
                { "--hodl x", "did you mean '--hold'?" },
                { "--sepc x", "did you mean '--spec'?" },
                { "--zzzzzzzzzz", "unknown option '--zzzzzzzzzz': see --help" },
                { "--no-network", "unknown option '--no-network'" },
                { "--no-tty", "unknown option '--no-tty'" },
                { "--no-keep=true", "option '--no-keep' takes no value" },
                { "--netw none", "unknown option '--netw'" },
                { "--a\x01"
                  "b",
                  "unknown option '--a\\x01b'" },
                { "--aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
                  "unknown option '--aaaaaaaaaaaa" },
                { "-x", "unknown option '-x'" },
                { "-tx", "unknown option '-x'" },
                { "--network", "option '--network' needs a value: MODE" },
                { "-e", "option '-e' needs a value: NAME[=VALUE]" },
                { "-ite", "option '-e' needs a value" },
                { "--events", "option '--events' needs a value: FILE" },
                { "--events bad", "option '--events': no such place" },
                { "--tty=yes", "option '--tty' takes no value" },
                { "--help=x", "option '--help' takes no value" },
                { "--tier root", "option '--tier': 'root' must be operator or workflow" },
                { "--=x", "unknown option '--'" },
        };

        (void) state;
        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
                AUTO_FLAGS struct flags *flags = NULL;
                struct told told = { 0 };
                struct words w = { 0 };
                struct error err = { 0 };
                const int r = parse(&run_set, cases[i].line, &told, &flags, &w, &err);

                if (r != (strstr(cases[i].line, "bad") ? -ENOENT : -EINVAL))
                        fail_msg("'%s': %d %s", cases[i].line, r, err.msg);
                assert_null(flags);
                assert_contains(err.msg, cases[i].want);
        }
}

static void flags_parse_stops_where_the_command_begins(void **state) {
        static const struct {
                const char *line;
                int next, flips;
        } cases[] = {
                { "", 2, 0 },
                { "ls -t", 1, 0 },
                { "-t ls -t", 2, 1 },
                { "-it -- -t", 3, 2 },
                { "-t -", 2, 1 },
                { "--network none -t ls", 4, 1 },
                { "-e -- ls", 3, 0 },
                { "-eA=b -w=/x -w /y -i ls", 6, 1 },
                { "--tty --interactive --events=e --events e2 x", 6, 2 },
                { "--keep --no-keep --keep=false x", 4, 0 },
        };

        (void) state;
        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
                AUTO_FLAGS struct flags *flags = NULL;
                struct told told = { 0 };
                struct words w = { 0 };

                assert_int_equal(parse(&run_set, cases[i].line, &told, &flags, &w, NULL), 0);
                if (i > 0)
                        assert_int_equal(flags->next, cases[i].next);
                assert_int_equal(told.flips, cases[i].flips);
        }
}

static void flags_parse_turns_bools_on(void **state) {
        static const struct {
                const char *line;
                int want;
                bool brief;
        } cases[] = {
                { "x --brief", 0, false },
                { "--brief x", 0, true },
                { "-B x", 0, true },
                { "-tB -B x", 0, true },
                { "--brief=yes x", -EINVAL, false },
                { "--no-brief x", -EINVAL, false },
        };

        (void) state;
        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
                AUTO_FLAGS struct flags *flags = NULL;
                struct told told = { .last = "as before" };
                struct words w = { 0 };

                assert_int_equal(parse(&bare_set, cases[i].line, &told, &flags, &w, NULL), cases[i].want);
                assert_int_equal(told.brief, cases[i].brief);
                assert_string_equal(told.last, "as before");
        }
}

static void flags_parse_knows_help_and_bare_sets(void **state) {
        AUTO_FLAGS struct flags *help = NULL, *none = NULL, *bare = NULL;
        struct told told = { 0 };
        struct words w = { 0 }, w2 = { 0 }, w3 = { 0 };
        struct error err = { 0 };

        (void) state;
        assert_int_equal(parse(&run_set, "-t --help --rubbish", &told, &help, &w, NULL), 0);
        assert_true(help->help);
        assert_int_equal(parse(&bare_set, "--network none", &told, &none, &w2, &err), -EINVAL);
        assert_string_equal(err.msg, "unknown option '--network': see --help");
        assert_int_equal(parse(&bare_set, "-t --events x y", &told, &bare, &w3, NULL), 0);
        assert_int_equal(bare->next, 4);
}

/* every option once: a name or letter that two tables use would be silently dead */
struct seen {
        char names[160][64];
        char letters[160];
        size_t n;
};

static void see(void *arg, const char *name, char letter, const char *metavar) {
        struct seen *seen = arg;

        (void) metavar;
        for (size_t i = 0; i < seen->n; i++) {
                if (strcmp(seen->names[i], name) == 0 || (letter && seen->letters[i] == letter))
                        fail_msg("--%s is there twice, or its letter is", name);
        }
        assert_true(seen->n < 160);
        seen->letters[seen->n] = letter;
        (void) snprintf(seen->names[seen->n++], 64, "%s", name);
}

static void flags_names_are_unique(void **state) {
        struct seen seen = { 0 };

        (void) state;
        flags_names(&run_set, see, &seen);
        assert_true(seen.n > 40);
}

static void flags_help_fits_the_terminal(void **state) {
        AUTO_BUF struct buf text = { 0 };
        char *rest, *line;

        (void) state;
        assert_int_equal(flags_help(&run_set, &text), 0);
        assert_contains(buf_cstr(&text), "  -w, --workspace DIR ");
        assert_contains(buf_cstr(&text), "      --[no-]toolchains ");
        assert_contains(buf_cstr(&text), "--rootfs DIR");
        for (rest = text.data; rest;) {
                line = strsep(&rest, "\n");
                if (strlen(line) > 80)
                        fail_msg("longer than 80 columns: %s", line);
        }
}

static int resolve_in(const struct ctx *ctx, const char *line, struct spec **ret, struct error *err) {
        AUTO_FLAGS struct flags *flags = NULL;
        struct told told = { 0 };
        struct words w = { 0 };
        int r;

        r = parse(&run_set, line, &told, &flags, &w, err);
        return r < 0 ? r : spec_resolve(ctx, flags, ret, err);
}

static int resolve(const char *line, struct spec **ret, struct error *err) {
        const struct ctx ctx = { .home = "/home/op", .cwd = "/w" };

        return resolve_in(&ctx, line, ret, err);
}

static void spec_resolve_refuses_bad_values(void **state) {
        static const struct {
                const char *line;
                int r;
                const char *want;
        } cases[] = {
                { "--network opne", -EINVAL, "--network: unknown value 'opne', did you mean 'open'?" },
                { "--network=", -EINVAL, "--network: unknown value ''" },
                { "--allow example.org", -EINVAL,
                  "network.rules: is for mode 'allowlist' or 'denylist': set network.mode (--network) too" },
                { "--preset default --network open", -EINVAL, "network.preset: is for mode 'allowlist'" },
                { "--transparent --network open", -EINVAL, "network.transparent: is for mode 'allowlist'" },
                { "--transparent", -EINVAL, "network.transparent: is for mode 'allowlist'" },
                { "--network allowlist --allow !a.example", -EINVAL,
                  "--allow: '!a.example': write it without '!', with --deny in place of --allow" },
                { "--network allowlist --deny !a.example", -EINVAL,
                  "--deny: '!a.example': write it without '!', with --deny" },
                { "--network allowlist --allow=", -EINVAL, "--allow: must not be empty" },
                { "--secret T=env:T", -EINVAL, "--secret: a secret needs 'hosts'" },
                { "--secret T", -EINVAL, "--secret: 'T': want NAME=env:VARIABLE or NAME=file:PATH first" },
                { "--secret T=T,host=a.example", -EINVAL, "--secret: 'T' must be env:VARIABLE" },
                { "--secret T=file:rel,host=a.example", -EINVAL,
                  "must be env:VARIABLE, or file: and an absolute" },
                { "--secret T=env:T,host=a.example,host=*", -EINVAL, "must be host names or *.domain" },
                { "--secret T=env:T,host=https://a.example", -EINVAL, "must be host names or *.domain" },
                { "--secret T=env:T,host=a.example,inject=cookie", -EINVAL, "'cookie' must be bearer" },
                { "--secret T=env:T,host=a.example,inject=header:Host", -EINVAL, "must name a header" },
                { "--secret T=env:T,host=a.example,inject=basic:a:b", -EINVAL, "must have a user name" },
                { "--allow *", -EINVAL, "or --network open, to allow everything" },
                { "--auth-proxy unix:ADMIN", -EINVAL, "absolute path behind 'unix:', such as" },
                { "--secret T=env:T,host=a.example,as=socket", -EINVAL, "unknown value 'socket'" },
                { "--secret T=env:T,host=a.example,as=env", -EINVAL, "are for 'as: proxied'" },
                { "--secret T=env:T,host=a.example,more=x", -EINVAL, "'more': want NAME=env:VARIABLE" },
                { "--secret a.b=env:T,host=a.example", -EINVAL, "'a.b' cannot be a variable" },
                { "--secret PATH=env:T,host=a.example", -EINVAL, "'PATH' is already set" },
                { "--secret T=env:T,env=GIT_CONFIG_COUNT,host=a.example", -EINVAL,
                  "'GIT_CONFIG_COUNT' is already set" },
                { "--model-auth proxied --secret ANTHROPIC_API_KEY=env:T,host=a.example", -EINVAL,
                  "is already set" },
                { "--secret T=env:T,host=a.example --secret T=env:U,host=b.example", -EINVAL,
                  "secrets[1]: variable 'T' is already that of secrets[0]" },
                { "--secret T=env:T,host=a.example --secret T_URL=env:U,host=b.example", -EINVAL,
                  "secrets[1]: variable 'T_URL' is already that of secrets[0]" },
                { "--auth-proxy https://auth.example", -EINVAL, "must be http://HOST:PORT or unix:" },
                { "--auth-proxy http://127.0.0.1:80/x", -EINVAL, "must be http://HOST:PORT or unix:" },
                { "--model-auth yes", -EINVAL, "unknown value 'yes'" },
                { "--memory 4", -EINVAL,
                  "--memory: '4' has no unit: write '4Mi' for mebibytes or '4B' for bytes" },
                { "--timeout 90", -EINVAL,
                  "--timeout: '90' has no unit: write '90s' for seconds or '90m' for minutes" },
                { "--home-size 1", -EINVAL, "--home-size: '1' has no unit" },
                { "--keep=maybe", -EINVAL, "--keep: 'maybe' must be true or false" },
                { "--user -1", -EINVAL, "--user: '-1' must be UID" },
                { "--user a:b", -EINVAL, "must be UID" },
                { "--user 1:4294967295", -EINVAL, "must be UID" },
                { "--name .x", -EINVAL, "--name: '.x' must be 1 to 64" },
                { "--name=", -EINVAL, "--name: '' must be" },
                { "--name caf\xe9", -EINVAL, "--name: is not valid UTF-8" },
                { "-w \xff", -EINVAL, "--workspace: is not valid UTF-8" },
                { "-w /", -EINVAL, "workspace: '/' cannot be the workspace" },
                { "--workspace-target w", -EINVAL, "--workspace-target: 'w' must be an absolute path" },
                { "-e =x", -EINVAL, "--env: '' must not be empty" },
                { "-e A\x01=x", -EINVAL, "must not contain '=', blanks or control" },
                { "-e TOKEN=hunter2\nx", -EINVAL, "variable 'TOKEN': --env: the value must be one line" },
                { "--seed /a:/b:/c", -EINVAL, "--seed: '/a:/b:/c' must be PATH or PATH:TARGET" },
                { "--seed /etc/motd", -EINVAL, "is not below the home: say where it goes" },
                { "--cache :shared", -EINVAL, "--cache: must not be empty" },
                { "--bypass /abs", -EINVAL, "--bypass: '/abs' must be a relative path" },
                { "--bypass a/../b", -EINVAL, "--bypass: 'a/../b' must be a relative path" },
                { "--bypass a//b", -EINVAL, "must be a relative path" },
                { "--bypass .", -EINVAL, "must be a relative path" },
                { "--bypass=", -EINVAL, "must be a relative path" },
                { "--land stop", -EINVAL, "workspace.land: is for mode 'staged'" },
                { "--engine overlay", -EINVAL, "workspace.engine: 'overlay' is for mode 'staged' or 'cow'" },
                { "--mount type=bind,src=/a,dst=/b,upper=tmpfs", -EINVAL, "type bind has no 'upper'" },
                { "--mount type=overlay,src=/a,dst=/b,shared", -EINVAL, "type overlay has no 'shared'" },
                { "--mount type=overlay,src=/a,dst=/b,size=1Mi", -EINVAL,
                  "a mount of type overlay has a 'size' with upper=tmpfs only" },
                { "--mount type=cache,src=/a,shared,ro", -EINVAL,
                  "a cache is one of readonly, shared and upper=tmpfs" },
                { "--mount type=cache,src=/a,shared,upper=tmpfs", -EINVAL,
                  "a cache is one of readonly, shared and upper=tmpfs" },
                { "--mount type=cache,src=/a,upper=ram", -EINVAL, "unknown value 'ram'" },
                { "--cache=", -EINVAL, "--cache: must not be empty" },
                { "--mount /a:/b", -EINVAL, "--mount: unknown field '/a:/b'" },
                { "--mount type=bind,source=/a,target=/b,bind-propagation=shared", -EINVAL,
                  "unknown field 'bind-propagation'" },
                { "--mount type=volume,source=a,target=/b", -EINVAL, "unknown value 'volume'" },
                { "--mount type", -EINVAL, "field 'type' needs a value: type=.." },
                { "--mount=", -EINVAL, "--mount: unknown field ''" },
                { "--mount type=bind,src=/a,dst=/b,ro=maybe", -EINVAL, "'maybe' must be true or false" },
                { "--hold=", -EINVAL, "--hold: '' must not be empty" },
                { "--env-file /nonexistent", -ENOENT, "--env-file: /nonexistent: No such file" },
                { "--env-file /dev/zero", -EINVAL, "--env-file: /dev/zero: not a regular file" },
                { "-s /nonexistent.yaml", -ENOENT, "/nonexistent.yaml: cannot read" },
                { "--mode inline", -EINVAL, "mode: 'inline' needs" },
                { "--cache /e:x", -EINVAL, "--cache: 'x' is none of shared, tmpfs and ro" },
                { "--mode inline --host-root --isolation degrade", -EINVAL, "leave out isolation: degrade" },
        };

        (void) state;
        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
                AUTO_SPEC struct spec *spec = NULL;
                struct error err = { 0 };
                const int r = resolve(cases[i].line, &spec, &err);

                if (r != cases[i].r)
                        fail_msg("'%s': %d %s", cases[i].line, r, err.msg);
                assert_null(spec);
                assert_contains(err.msg, cases[i].want);
                assert_null(strstr(err.msg, "hunter2"));
        }
}

static void spec_resolve_reads_every_option(void **state) {
        AUTO_SPEC struct spec *spec = NULL;
        struct error err = { 0 };

        (void) state;
        if (resolve("-d native --isolation=strict --name n.1 -u 1000:100 --keep --host-state none -w sub "
                    "--workspace-target /t --workspace-mode ro --hold a --allow-write b --hide c --protect d "
                    "--no-guard-defaults --home-size 2Gi --tmp-size 1Mi --toolchains=false --network open -e "
                    "A=b=c -eB "
                    "--host-root --mode inline",
                    &spec, &err) < 0)
                fail_msg("%s", err.msg);
        assert_string_equal(spec->driver, "native");
        assert_string_equal(spec->workspace.source, "/w/sub");
        assert_string_equal(spec->workspace.target, "/t");
        assert_int_equal(spec->guard.n_rules, 4);
        for (size_t i = 0; i < 4; i++) {
                static const struct spec_rule want[] = { { .path = NULL, .action = GUARD_HOLD },
                                                         { .action = GUARD_ALLOW },
                                                         { .action = GUARD_HIDE },
                                                         { .action = GUARD_PROTECT } };

                assert_int_equal(spec->guard.rules[i].action, want[i].action);
                assert_int_equal(spec->guard.rules[i].path[0], "abcd"[i]);
                assert_int_equal(spec->guard.rules[i].tier, TIER_FLAG);
        }
        assert_false(spec->guard.defaults || spec->home.toolchains);
        assert_int_equal(spec->home.size, 2ULL << 30);
        assert_int_equal(spec->tmp.size, 1 << 20);
        assert_int_equal(spec->mode, MODE_INLINE);
        assert_string_equal(spec->env[0].value, "b=c");
        assert_null(spec->env[1].value);
}

static void spec_resolve_reads_mounts_and_seeds(void **state) {
        AUTO_SPEC struct spec *spec = NULL;

        (void) state;
        assert_int_equal(resolve("--mount type=bind,src=/a,dst=/b,ro --mount "
                                 "readonly=false,destination=/c,source=~/x,type=bind "
                                 "--mount type=tmpfs,target=/s,size=2Mi --cache ~/.npm --seed ~/.gitconfig "
                                 "--seed /etc/motd:~/motd",
                                 &spec, NULL),
                         0);
        assert_int_equal(spec->n_mounts, 4);
        assert_true(spec->mounts[0].readonly);
        assert_false(spec->mounts[1].readonly);
        assert_string_equal(spec->mounts[1].source, "/home/op/x");
        assert_int_equal(spec->mounts[2].size, 2 << 20);
        assert_string_equal(spec->mounts[3].target, "/home/op/.npm");
        assert_string_equal(spec->home.seeds[1].to, "/home/op/motd");
        assert_string_equal(spec->workspace.source, "/w");
}

static void spec_resolve_reads_where_changes_go(void **state) {
        AUTO_SPEC struct spec *spec = NULL;

        (void) state;
        assert_int_equal(resolve("--cache /a --cache /b:shared --cache /c:tmpfs --cache /d:ro --cache /e:x/y "
                                 "--mount type=overlay,src=/f,dst=/g,upper=tmpfs,size=1Mi "
                                 "--workspace-mode cow --engine overlay --bypass a/.b --bypass ..c",
                                 &spec, NULL),
                         0);
        assert_int_equal(spec->n_mounts, 6);
        for (size_t i = 0; i < 5; i++) {
                assert_int_equal(spec->mounts[i].type, MOUNT_CACHE);
                assert_string_equal(spec->mounts[i].source, spec->mounts[i].target);
                assert_int_equal(spec->mounts[i].shared, i == 1);
                assert_int_equal(spec->mounts[i].upper, i == 2 ? MOUNT_UPPER_TMPFS : MOUNT_UPPER_DISK);
                assert_int_equal(spec->mounts[i].readonly, i == 3);
        }
        assert_string_equal(spec->mounts[1].source, "/b");
        assert_string_equal(spec->mounts[4].source, "/e:x/y");
        assert_int_equal(spec->mounts[5].size, 1 << 20);
        assert_int_equal(spec->mounts[5].upper, MOUNT_UPPER_TMPFS);
        assert_int_equal(spec->workspace.n_bypass, 2);
        assert_string_equal(spec->workspace.bypass[0], "a/.b");
        assert_string_equal(spec->workspace.bypass[1], "..c");
        assert_int_equal(spec->workspace.mode, WORKSPACE_COW);
        assert_int_equal(spec->workspace.engine, ENGINE_OVERLAY);
}

static void spec_resolve_needs_a_directory(void **state) {
        const struct ctx ctx = { .home = "/home/op" };
        AUTO_SPEC struct spec *spec = NULL, *named = NULL;
        struct error err = { 0 };

        (void) state;
        assert_int_equal(resolve_in(&ctx, "", &spec, &err), -ESTALE);
        assert_contains(err.msg, "the current directory is gone: name one with --workspace");
        assert_int_equal(resolve_in(&ctx, "-w /x", &named, NULL), 0);
}

/* the tiers, lowest first; each row adds one and says what wins */
static void spec_resolve_respects_precedence(void **state) {
        static const char *const none[] = { NULL };
        static const char *const variables[] = { "COFFERDAM_NETWORK=open", "COFFERDAM_TMP_SIZE=3Mi",
                                                 "COFFERDAM_KEEP=1",       "COFFERDAM_DRIVER=",
                                                 "COFFERDAM_NO_SUCH=1",    NULL };
        const struct {
                const char *const *environ;
                const char *line;
                uint64_t tmp;
                enum spec_tier tier;
        } cases[] = {
                { none, "", 1 << 20, TIER_CONFIG },
                { variables, "", 3 << 20, TIER_ENVIRONMENT },
                { variables, "--tier workflow -s FILE", 4 << 20, TIER_WORKFLOW },
                { variables, "-s FILE", 4 << 20, TIER_FLAG },
                { variables, "--tmp-size 5Mi --tier workflow -s FILE", 5 << 20, TIER_FLAG },
                { variables, "-s FILE --tmp-size 5Mi", 5 << 20, TIER_FLAG },
                { none, "--tmp-size 5Mi --tmp-size 6Mi", 6 << 20, TIER_FLAG },
        };
        char file[128];

        (void) state;
        put_file("config.yaml", "tmp: {size: 1Mi}\nname: config\nguard: {rules: [{path: c, do: hold}]}\n",
                 0600);
        put_file("file.yaml", "tmp: {size: 4Mi}\nguard: {rules: [{path: f, do: hold}]}\n", 0644);
        (void) snprintf(file, sizeof(file), "%s/file.yaml", work);
        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
                const struct ctx ctx = { .uid = geteuid(),
                                         .home = "/home/op",
                                         .cwd = "/w",
                                         .config_dir = work,
                                         .environ = cases[i].environ };
                const char *at = strstr(cases[i].line, "FILE");
                AUTO_SPEC struct spec *spec = NULL;
                struct error err = { 0 };
                char line[256];

                (void) snprintf(line, sizeof(line), "%.*s%s%s",
                                at ? (int) (at - cases[i].line) : (int) strlen(cases[i].line), cases[i].line,
                                at ? file : "", at ? at + 4 : "");
                if (resolve_in(&ctx, line, &spec, &err) < 0)
                        fail_msg("'%s': %s", line, err.msg);
                assert_int_equal(spec->tmp.size, cases[i].tmp);
                assert_int_equal(spec->tier_of[key_index(key_find(SECTION_TMP, "size"))], cases[i].tier);
                assert_string_equal(spec->name, "config");
                assert_int_equal(spec->guard.n_rules, at ? 2 : 1); /* lists add up */
                assert_int_equal(spec->keep, cases[i].environ == variables);
        }
}

static void spec_resolve_honours_other_names(void **state) {
        static const struct {
                const char *variables[4];
                const char *line;
                enum spec_mode mode;
                int r;
                const char *want;
        } cases[] = {
                { { "ITERION_SANDBOX_DEFAULT= None ", NULL }, "", MODE_NONE, 0, NULL },
                { { "ITERION_SANDBOX_DEFAULT=none", "COFFERDAM_MODE=auto", NULL }, "", MODE_AUTO, 0, NULL },
                { { "ITERION_SANDBOX_OVERRIDE=none", "COFFERDAM_MODE=auto", NULL }, "", MODE_NONE, 0, NULL },
                { { "ITERION_SANDBOX_OVERRIDE=none", NULL }, "--mode auto", MODE_AUTO, 0, NULL },
                { { "ITERION_SANDBOX_DEFAULT=sometimes", NULL },
                  "",
                  0,
                  -EINVAL,
                  "ITERION_SANDBOX_DEFAULT: unknown value 'sometimes'" },
                { { "ITERION_SANDBOX_HOST_STATE=never", NULL },
                  "",
                  0,
                  -EINVAL,
                  "ITERION_SANDBOX_HOST_STATE: unknown value" },
                { { "ITERION_SANDBOX_DEFAULT_IMAGE=debian:12", NULL },
                  "--host-root",
                  0,
                  -EINVAL,
                  "host_root: cannot be together with 'image'" },
                { { "COFFERDAM_NETWORK=x", NULL }, "", 0, -EINVAL, "COFFERDAM_NETWORK: unknown value 'x'" },
                { { "COFFERDAM_HOME_SIZE=5", NULL }, "", 0, -EINVAL, "COFFERDAM_HOME_SIZE: '5' has no unit" },
        };

        (void) state;
        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
                const struct ctx ctx = { .home = "/home/op", .cwd = "/w", .environ = cases[i].variables };
                AUTO_SPEC struct spec *spec = NULL;
                struct error err = { 0 };

                assert_int_equal(resolve_in(&ctx, cases[i].line, &spec, &err), cases[i].r);
                if (cases[i].want)
                        assert_contains(err.msg, cases[i].want);
                else
                        assert_int_equal(spec->mode, cases[i].mode);
        }
}

/* "--mode auto" leaves a workflow alone that names its own root */
static void spec_resolve_yields_to_a_workflow(void **state) {
        const struct ctx ctx = { .home = "/home/op", .cwd = "/w" };
        AUTO_SPEC struct spec *plain = NULL, *rooted = NULL;
        struct error err = { 0 };
        char line[256];

        (void) state;
        put_file("file.yaml", "{mode: inline, host_root: true}", 0600);
        (void) snprintf(line, sizeof(line), "--tier workflow --mode auto -s %s/file.yaml", work);
        assert_int_equal(resolve_in(&ctx, line, &plain, NULL), 0);
        assert_int_equal(plain->mode, MODE_AUTO);
        put_file("file.yaml", "{mode: inline, image: x, host_root: true}", 0600);
        assert_int_equal(resolve_in(&ctx, line, &rooted, &err), -EINVAL);
        assert_contains(err.msg, "host_root: cannot be together with 'image'");
        put_file("file.yaml", "{mode: inline, image: x}", 0600);
        assert_int_equal(resolve_in(&ctx, line, &rooted, &err), 0);
        assert_int_equal(rooted->mode, MODE_INLINE);
        assert_string_equal(rooted->image, "x");
}

static void spec_resolve_distrusts_a_config_of_others(void **state) {
        const struct ctx ctx = { .uid = geteuid(), .home = "/home/op", .cwd = "/w", .config_dir = work };
        const struct ctx other = {
                .uid = geteuid() + 1, .home = "/home/op", .cwd = "/w", .config_dir = work
        };
        const struct ctx missing = { .home = "/home/op", .cwd = "/w", .config_dir = "/nonexistent" };
        AUTO_SPEC struct spec *spec = NULL;
        struct error err = { 0 };

        (void) state;
        put_file("config.yaml", "keep: true\n", 0666);
        assert_int_equal(resolve_in(&ctx, "", &spec, &err), -EPERM);
        assert_contains(err.msg,
                        "/config.yaml: must belong to the caller or root and not be writable by others");
        put_file("config.yaml", "keep: true\n", 0600);
        if (geteuid() != 0)
                assert_int_equal(resolve_in(&other, "", &spec, &err), -EPERM);
        put_file("config.yaml", "kep: true\n", 0600);
        assert_int_equal(resolve_in(&ctx, "", &spec, &err), -EINVAL);
        assert_contains(err.msg, "config.yaml:1: kep: unknown key, did you mean 'keep'?");
        assert_int_equal(resolve_in(&missing, "", &spec, NULL), 0);
}

static void env_file_is_read_as_docker_does(void **state) {
        static const struct {
                const char *text;
                const char *want; /* NULL: good */
        } cases[] = {
                { "\xef\xbb\xbf# comment\n\n  A=1\r\nB= two words \nC\nD='x'#y\nA=2", NULL },
                { "A=1\n=x\n", "file.yaml:2: --env-file: '' must not be empty" },
                { "A B=1\n", "'A B' must not contain" },
                { "A=\xff\n", "not a text file in UTF-8" },
        };

        (void) state;
        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
                AUTO_SPEC struct spec *spec = NULL;
                struct error err = { 0 };
                char line[256];
                int r;

                put_file("file.yaml", cases[i].text, 0600);
                (void) snprintf(line, sizeof(line), "--env-file %s/file.yaml", work);
                r = resolve(line, &spec, &err);
                assert_int_equal(r, cases[i].want ? -EINVAL : 0);
                if (cases[i].want) {
                        assert_contains(err.msg, cases[i].want);
                        continue;
                }
                assert_int_equal(spec->n_env, 4);
                assert_string_equal(spec->env[0].value, "2");
                assert_string_equal(spec->env[1].value, " two words ");
                assert_null(spec->env[2].value);
                assert_string_equal(spec->env[3].value, "'x'#y");
        }
}

static void flags_parse_takes_a_megabyte(void **state) {
        enum { N = 4097 };
        AUTO_FREE char **argv = calloc(2 * N + 2, sizeof(*argv));
        AUTO_FREE char *text = calloc(N, 256);
        AUTO_FLAGS struct flags *flags = NULL, *less = NULL;
        AUTO_SPEC struct spec *spec = NULL;
        const struct ctx ctx = { .home = "/home/op", .cwd = "/w" };
        char run[] = "run", e[] = "-e";
        struct told told = { 0 };
        struct error err = { 0 };

        (void) state;
        assert_true(argv && text);
        argv[0] = run;
        for (size_t i = 0; i < N; i++) {
                argv[1 + 2 * i] = e;
                argv[2 + 2 * i] = text + 256 * i;
                (void) snprintf(argv[2 + 2 * i], 256, "V%zu=%0240d", i, 0);
        }
        assert_int_equal(flags_parse(&run_set, 2 * N + 1, argv, &told, &flags, &err), 0);
        assert_int_equal(spec_resolve(&ctx, flags, &spec, &err), -E2BIG);
        assert_contains(err.msg, "--env: more than 4096 items");
        assert_int_equal(flags_parse(&run_set, 2 * N - 1, argv, &told, &less, &err), 0);
        assert_int_equal(spec_resolve(&ctx, less, &spec, &err), 0);
        assert_int_equal(spec->n_env, 4096);
}

int main(void) {
        static const struct CMUnitTest tests[] = {
                cmocka_unit_test(flags_parse_refuses),
                cmocka_unit_test(flags_parse_stops_where_the_command_begins),
                cmocka_unit_test(flags_parse_turns_bools_on),
                cmocka_unit_test(flags_parse_knows_help_and_bare_sets),
                cmocka_unit_test(flags_names_are_unique),
                cmocka_unit_test(flags_help_fits_the_terminal),
                cmocka_unit_test(spec_resolve_refuses_bad_values),
                cmocka_unit_test(spec_resolve_reads_every_option),
                cmocka_unit_test(spec_resolve_reads_mounts_and_seeds),
                cmocka_unit_test(spec_resolve_reads_where_changes_go),
                cmocka_unit_test(spec_resolve_needs_a_directory),
                cmocka_unit_test(spec_resolve_respects_precedence),
                cmocka_unit_test(spec_resolve_honours_other_names),
                cmocka_unit_test(spec_resolve_yields_to_a_workflow),
                cmocka_unit_test(spec_resolve_distrusts_a_config_of_others),
                cmocka_unit_test(env_file_is_read_as_docker_does),
                cmocka_unit_test(flags_parse_takes_a_megabyte),
        };

        return cmocka_run_group_tests(tests, setup, teardown);
}
