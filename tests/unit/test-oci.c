#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "drivers/native/parts.h"
#include "drivers/native/plan.h"
#include "drivers/oci/dockerfile.h"
#include "drivers/oci/oci.h"
#include "drivers/oci/triggers.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/clock.h"

static const char *const env[] = { "PATH=/usr/bin:/bin", "LC_ALL=de_DE.UTF-8", "LANG=de_DE", "KEPT=yes",
                                   NULL };
static const struct ctx ctx = { .environ = env };

/* `sh -c @script`, with a bound of @ms */
static int shell(const char *script, int ms, struct cli_result *ret, struct error *err) {
        AUTO_CLI_ARGS struct cli_args args = { .n = 0 };

        cli_add(&args, "sh");
        cli_add_pair(&args, "-c", "%s", script);
        return cli_run(&ctx, &args, ms, ret, err);
}

static void cli_run_keeps_streams_apart(void **state) {
        AUTO_CLI_RESULT struct cli_result result = { 0 };

        (void) state;
        assert_int_equal(shell("echo out; echo err >&2; echo; exit 7", 60000, &result, NULL), 0);
        assert_int_equal(result.exit_code, 7);
        assert_string_equal(buf_cstr(&result.out), "out\n\n");
        assert_string_equal(result.err, "err");
}

/* what it says is English wherever the caller is; the rest of the environment is the caller's */
static void cli_run_sets_the_locale(void **state) {
        AUTO_CLI_RESULT struct cli_result result = { 0 };

        (void) state;
        assert_int_equal(shell("echo $LC_ALL $LANG $KEPT $PWD; cat", 60000, &result, NULL), 0);
        assert_string_equal(buf_cstr(&result.out), "C C yes /\n");
}

/* red without setpgid(): a signal to our group would end an engine half-way */
static void cli_run_has_a_group_of_its_own(void **state) {
        AUTO_CLI_RESULT struct cli_result result = { 0 };
        char ours[32];

        (void) state;
        (void) snprintf(ours, sizeof(ours), "%d\n", getpgrp());
        assert_int_equal(shell("cut -d' ' -f5 /proc/$$/stat", 60000, &result, NULL), 0);
        assert_string_not_equal(buf_cstr(&result.out), ours);
}

/* red without the kill of the group: the second sleep would hold the pipe, and the test */
static void cli_run_is_bounded(void **state) {
        AUTO_CLI_RESULT struct cli_result result = { 0 };
        struct error err = { 0 };

        (void) state;
        assert_int_equal(shell("trap '' TERM; sleep 1000 & echo $!; sleep 1000", 300, &result, &err),
                         -ETIMEDOUT);
        assert_non_null(strstr(err.msg, "did not end within"));
        assert_int_equal(result.exit_code, 128 + SIGKILL);
        assert_true(waitpid(-1, NULL, WNOHANG) < 0); /* no child is left */
}

/* a monitor that outlives the command holds its streams; nobody waits for that */
static void cli_run_waits_for_no_heir(void **state) {
        AUTO_CLI_RESULT struct cli_result result = { 0 };

        (void) state;
        assert_int_equal(shell("sleep 90 & echo id", 60000, &result, NULL), 0);
        assert_string_equal(buf_cstr(&result.out), "id\n");
}

static void cli_run_keeps_the_last_words(void **state) {
        AUTO_CLI_RESULT struct cli_result result = { 0 };

        (void) state;
        assert_int_equal(shell("head -c 100000 /dev/zero | tr '\\0' x >&2; printf 'the end' >&2", 60000,
                               &result, NULL),
                         0);
        assert_int_equal(strlen(result.err), CLI_ERR_KEEP);
        assert_string_equal(result.err + CLI_ERR_KEEP - 7, "the end");
}

static void cli_run_refuses_a_flood(void **state) {
        AUTO_CLI_RESULT struct cli_result exact = { 0 }, more = { 0 };
        char script[96];

        (void) state;
        (void) snprintf(script, sizeof(script), "head -c %d /dev/zero", CLI_OUT_MAX);
        assert_int_equal(shell(script, 60000, &exact, NULL), 0);
        (void) snprintf(script, sizeof(script), "head -c %d /dev/zero", CLI_OUT_MAX + 1);
        assert_int_equal(shell(script, 60000, &more, NULL), -EFBIG);
}

static void cli_run_says_what_is_missing(void **state) {
        AUTO_CLI_ARGS struct cli_args none = { .n = 0 }, many = { .n = 0 };
        AUTO_CLI_RESULT struct cli_result result = { 0 };
        struct error err = { 0 };

        (void) state;
        cli_add(&none, "no-such-engine");
        assert_int_equal(cli_run(&ctx, &none, 10000, &result, &err), -ENOENT);
        assert_non_null(strstr(err.msg, "no-such-engine"));
        for (int i = 0; i <= CLI_ARGS_MAX; i++)
                cli_add(&many, "x");
        assert_int_equal(many.n, CLI_ARGS_MAX);
        assert_int_equal(cli_run(&ctx, &many, 10000, &result, &err), -E2BIG);
}

/* ---- what engines say ---- */

static void oci_failure_knows_both_engines(void **state) {
        static const struct {
                const char *text;
                int want;
        } cases[] = {
                { "docker: Error response from daemon: Conflict. The container name \"/cofferdam-1\" is "
                  "already in use "
                  "by container \"x\".",
                  -EEXIST },
                { "Error: creating container storage: the container name \"cofferdam-1\" is already in use "
                  "by x. You "
                  "have to remove that container",
                  -EEXIST },
                { "Cannot connect to the Docker daemon at unix:///x. Is the docker daemon running?",
                  DRIVER_HOST_LACKS },
                { "docker: permission denied while trying to connect to the Docker daemon socket",
                  DRIVER_HOST_LACKS },
                { "Error: No such image: x:1", DRIVER_NO_IMAGE },
                { "Error: x:1: image not known", DRIVER_NO_IMAGE },
                { "Error: short-name \"x\" did not resolve to an alias and no unqualified-search registries "
                  "are "
                  "defined",
                  DRIVER_NO_IMAGE },
                { "manifest for x:2 not found: manifest unknown", DRIVER_NO_IMAGE },
                { "Error: mkdir /var/lib/x: no space left on device", DRIVER_FULL },
                { "Error: No such container: cofferdam-1", -ESRCH },
                { "Error: no container with name or ID \"x\" found: no such container", -ESRCH },
                { "Error: runc: create failed", -EIO },
                { "", -EIO },
        };

        (void) state;
        for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
                if (oci_failure(cases[i].text) != cases[i].want)
                        fail_msg("'%s': %d", cases[i].text, oci_failure(cases[i].text));
        assert_string_equal(oci_words("warning\nError: it is so"), "it is so");
        assert_string_equal(oci_words(""), "");
}

/* ---- the words that make a container ---- */

/* A plan with a workspace at @target, and a tmpfs at /tmp. */
static int args_of(const char *program, const char *target, const char *run_dir, struct cli_args *ret) {
        struct oci oci = { .program = program,
                           .image_id = (char *) (uintptr_t) "id",
                           .state_dir = (char *) (uintptr_t) "/state",
                           .step = (char *) (uintptr_t) "run" };
        static struct driver_plan plan;
        const struct start_request req = { .run_id = "0123456789ab" };

        plan = (struct driver_plan){ .oci = &oci,
                                     .id = { .inside_uid = 1000, .inside_gid = 1001 },
                                     .limits = { .engine = program,
                                                 .group = { .memory_bytes = 4096, .cpu_milli = 1500 } },
                                     .n_regions = 1,
                                     .n_tmpfs = 1 };
        plan.regions[0].target = (char *) (uintptr_t) target;
        plan.tmpfs[0].target = (char *) (uintptr_t) "/tmp";
        places_sort(&plan);
        return oci_args(&plan, &req, run_dir, "/usr/bin/cofferdam", ret, NULL);
}

static bool has(const struct cli_args *args, const char *option, const char *value) {
        for (size_t i = 0; i + (value ? 1 : 0) < args->n; i++)
                if (strcmp(args->v[i], option) == 0 && (!value || strcmp(args->v[i + 1], value) == 0))
                        return true;
        return false;
}

/* each line is a wall: red without the option in args.c */
/* Each line is red without its branch in dockerfile.c; the fine ones are what repositories have. */
static void dockerfile_of_a_repository(void **state) {
        static const char *const no[] = {
                "FROM dir:/h",
                "from  oci-archive:h",
                "FROM --platform=$BUILDPLATFORM tarball:/h",
                "FROM di\\\nr:/h",
                "FROM a\n# comment\nONBUILD  COPY --from=dir:/h /a /b",
                "FROM \"dir:/h\"",
                "ARG B=dir:/h\nFROM $B",
                "ARG B=r\nFROM di${B}:/h",
                "FROM docker://r.example/a",
                "\302\240FROM dir:/h",
                "# escape=`\nFROM di`\nr:/h",
                "FROM a\nCOPY --from=oci:/h /a /b",
                "FROM a\nCOPY --chown=1 --from=$X /a /b",
                "FROM a\nCOPY --fr$X /a /b",
                "FROM a\nADD http://127.0.0.1/a /b",
                "FROM a\nADD --chown=1:1 https://r.example/a /b",
                "FROM a\nADD $X /b",
                "FROM a\nADD [\"http\\u003a//a\", \"/b\"]",
                "FROM a\nADD git@r.example:a.git /b",
                "FROM a\nRUN --network=host true",
                "FROM a\nRUN --net\\\n\n#\nwork=host true",
                "FROM a\nRUN --security=insecure true",
                "FROM a\nRUN --$X true",
                "FROM a\nRUN --mount=type=cache,id=../../h,target=/c true",
                "FROM a\nRUN --mount=type=bind,from=dir:/h,target=/c true",
                "FROM a\nRUN --mount=type=bind,SRC=l,target=/c true",
                "FROM a\nRUN --mount=type=cache,\"id\"=/h true",
                "FROM a\r\nRUN \\\r\n --network=host true",
                "# syntax=evil/frontend\nFROM a",
                "//syntax = evil/frontend\nFROM a",
        };
        static const char *const yes[] = {
                "# syntax=docker/dockerfile:1\n# Add http://x: not us\nARG V=12\nFROM debian:${V} AS base\n",
                "FROM --platform=$BUILDPLATFORM r.example:5000/${A}/b@sha256:abc\n",
                "FROM a\nCOPY --from=base --chown=$U:$U /a /b\nCOPY $F /x\nADD --chown=1:1 a.tar /b\n",
                "FROM a\nRUN --mount=type=cache,target=/c apt-get \\\n # why\n git && ls --network=host\n",
                "FROM a\nRUN [\"ls\"]\nENV A=dir:/h\nCMD add http://x\nFROM scratch",
                "",
        };
        char *many = calloc(1, 4096);
        struct error err = { 0 };

        (void) state;
        for (size_t i = 0; i < ARRAY_SIZE(no); i++)
                if (dockerfile_check(no[i], strlen(no[i]), &err) != -EPERM)
                        fail_msg("taken: %s", no[i]);
        for (size_t i = 0; i < ARRAY_SIZE(yes); i++)
                if (dockerfile_check(yes[i], strlen(yes[i]), &err) != 0)
                        fail_msg("refused: %s: %s", yes[i], err.msg);
        assert_int_equal(dockerfile_check("FROM a\0RUN --network=host x", 28, &err), -EPERM);
        for (size_t i = 0; i < 1500; i += 2)
                memcpy(many + i, "\\\n", 2);
        assert_int_equal(dockerfile_check(many, strlen(many), &err), -E2BIG);
        free(many);
}

static int add_base(const char *image, void *arg, struct error *err) {
        struct buf *out = arg;

        (void) err;
        return buf_fmt(out, "%s ", image);
}

/* A name that an engine could build on and that is not said here is one whose triggers nobody looks at. */
static void dockerfile_says_its_bases(void **state) {
        static const struct {
                const char *text, *want; /* NULL: refused */
        } cases[] = {
                { "FROM a", "a " },
                { "# x\n from --platform=$BUILDPLATFORM r.example:5000/b/c:1 as x\nFROM X\nFROM "
                  "scratch",
                  "r.example:5000/b/c:1 " },
                { "ARG V=1\nFROM a:$V", "a:2 " },
                { "ARG V\nFROM a:${V}", "a:2 " },
                { "ARG A=x V='3'\nARG A=\"y\"\nFROM $A/b", "x/b y/b " },
                { "ARG A=x\nFROM $A/$V", "x/2 " },
                { "RUN x \\\nARG A=x\nFROM b/a$A:1", "b/ax:1 b/a:1 " },
                { "ARG A=x\nFROM $A$V", "x2 x 2 " },
                { "FROM a\\\nb AS x", "ab " },
                { "RUN x \\\n FROM b", "b " },
                { "RUN true\\\nFROM b AS e.example/c\nFROM e.example/c", "b e.example/c " },
                { "FROM a\nONBUILD FROM c", "a " },
                { "# From the docs\nARG F=\"-O2 -std=c11\"\nARG A=x\n  # FROM b\nFROM $A", "x " },
                { "FROM a:$NONE", NULL },
                { "ARG A=x\nARG \"A\"=b\nFROM $A", NULL },
                { "ARG A=x\nARG \"A=b\"\nFROM $A", NULL },
                { "ARG A=x\nARG \\A=b\nFROM $A", NULL },
                { "ARG A=x\nARG X=1\xc2\xa0"
                  "A=b\nFROM $A",
                  NULL },
                { "ARG BUILD\"PLAT\"FORM=linux/arm64\nFROM --platform=$BUILDPLATFORM a", NULL },
                { "FROM a:${V:-3}", NULL },
                { "ARG A=$V\nFROM $A", NULL },
                { "ARG A=a\\ b\nFROM $A", NULL },
                { "ARG TARGETARCH=x\nFROM a:$TARGETARCH", NULL },
                { "ARG http_proxy=x\nFROM a:$http_proxy", NULL },
                { "ARG A=oci:/x\nFROM $A", NULL },
                { "ARG A=dir\nFROM $A:/x", NULL },
                { "FROM --platform=linux/arm64 a", NULL },
                { "ARG BUILDPLATFORM=linux/arm64\nFROM --platform=$BUILDPLATFORM a", NULL },
                { "FROM --x a", NULL },
                { "FROM -v", NULL },
                { "ARG A=1\nARG A=3\nFROM a$A$A$A$A", NULL }, /* 81 names */
                { "FROM $V$V$V$V$V", NULL },
        };
        const struct spec_env args[] = { { .name = (char *) (uintptr_t) "V",
                                           .value = (char *) (uintptr_t) "2" } };

        (void) state;
        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
                AUTO_BUF struct buf out = { 0 };
                struct error err = { 0 };
                const int r = dockerfile_bases(cases[i].text, args, 1, add_base, &out, &err);

                if (r != (cases[i].want ? 0 : -EPERM) ||
                    (cases[i].want && strcmp(buf_cstr(&out), cases[i].want) != 0))
                        fail_msg("%s: %d '%s': %s", cases[i].text, r, buf_cstr(&out), err.msg);
        }
}

/* By whatever Go takes for the key. */
static void triggers_are_seen(void **state) {
        static const char *const yes[] = {
                "{\"config\":{\"OnBuild\":[\"RUN x\"]}}",
                "{\"onbuild\" :\n[ \"\"]}",
                "{\"config\":{\"OnBuild\":null},\"CONFIG\":{\"\\u004fN\\u0062uild\":[\"RUN x\"]}}",
                "{\"OnBuild\":\"x\"}",
        };
        static const char *const no[] = {
                "",
                "{\"config\":{\"OnBuild\":null}}",
                "{\"OnBuild\": [ ]}",
                "{\"created_by\":\"/bin/sh -c #(nop) ONBUILD RUN x\"}",
                "{\"Labels\":{\"a\":\"\\\"onbuild\\\":[1]\"}}",
                "{\"Labels\":{\"a\":\"onbuild\"}}",
                "\"\\u00",
        };

        (void) state;
        for (size_t i = 0; i < ARRAY_SIZE(yes); i++)
                if (!triggers_in(yes[i]))
                        fail_msg("not seen: %s", yes[i]);
        for (size_t i = 0; i < ARRAY_SIZE(no); i++)
                if (triggers_in(no[i]))
                        fail_msg("seen: %s", no[i]);
}

static void oci_args_harden(void **state) {
        static const char *const programs[] = { "podman", "docker" };
        static const struct {
                const char *option, *value;
        } want[] = {
                { "--read-only", NULL },
                { "--cap-drop", "ALL" },
                { "--security-opt", "no-new-privileges" },
                { "--pids-limit", "4096" },
                { "--memory", "4096" },
                { "--memory-swap", "4096" },
                { "--cpus", "1.500" },
                { "--user", "1000:1001" },
                { "--network", "none" },
                { "--name", "cofferdam-0123456789ab" },
                { "--label", "ironflow.io/run-id=0123456789ab" },
                { "--label", "app.kubernetes.io/managed-by=cofferdam" },
                { "--label", "cofferdam.io/state=/state" },
                { "--label", "ironflow.io/root-run-id=0123456789ab" },
                { "--label", "ironflow.io/step=run" },
                { "--pull", "never" },
                { "--entrypoint", OCI_INIT },
                { "--no-healthcheck", NULL },
                { "--init=false", NULL },
                { "--cgroupns", "private" },
                { "--ipc", "private" },
        };

        (void) state;
        for (size_t p = 0; p < ARRAY_SIZE(programs); p++) {
                AUTO_CLI_ARGS struct cli_args args = { .n = 0 };

                assert_int_equal(args_of(programs[p], "/w", "/run dir", &args), 0);
                for (size_t i = 0; i < ARRAY_SIZE(want); i++)
                        if (!has(&args, want[i].option, want[i].value))
                                fail_msg("%s: no %s", programs[p], want[i].option);
                assert_false(has(&args, "--privileged", NULL));
                assert_string_equal(args.v[args.n - 1], OCI_WORD);
                assert_string_equal(args.v[args.n - 3], "--");
        }
}

/* No path is told in a way that an engine would take apart. */
static void oci_args_tell_paths_whole(void **state) {
        static const struct {
                const char *target, *option, *value; /* NULL: it is refused */
        } cases[] = {
                { "/w", "--tmpfs", "/w:rw,nosuid,nodev,size=64k,mode=0755,notmpcopyup" },
                { "/a,b", "--tmpfs", "/a,b:rw,nosuid,nodev,size=64k,mode=0755,notmpcopyup" },
                { "/a:b", "--mount", "type=tmpfs,destination=/a:b,tmpfs-size=65536,notmpcopyup" },
                { "/a,readonly=false:b", NULL, NULL },
                { "/a\nb", NULL, NULL },
                { "/a\"b", NULL, NULL },
                { "/a\\b", NULL, NULL },
                { "/a\x7f", NULL, NULL },
                { "/TYPE=BIND", "--tmpfs", "/TYPE=BIND:rw,nosuid,nodev,size=64k,mode=0755,notmpcopyup" },
        };

        (void) state;
        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
                AUTO_CLI_ARGS struct cli_args args = { .n = 0 };

                assert_int_equal(args_of("podman", cases[i].target, "/r", &args),
                                 cases[i].option ? 0 : -EINVAL);
                if (cases[i].option && !has(&args, cases[i].option, cases[i].value))
                        fail_msg("'%s'", cases[i].target);
        }
}

static void oci_args_tell_the_run_directory_whole(void **state) {
        static const struct {
                const char *dir, *option, *value;
        } cases[] = {
                { "/r", "--mount", "type=bind,source=/r/ctl,target=" OCI_CTL ",readonly" },
                { "/r:1", "--mount", "type=bind,source=/r:1/ctl,target=" OCI_CTL ",readonly" },
                { "/r,1", "--volume", "/r,1/ctl:" OCI_CTL ":ro" },
                { "/r,1:2", NULL, NULL },
        };

        (void) state;
        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
                AUTO_CLI_ARGS struct cli_args args = { .n = 0 };

                assert_int_equal(args_of("docker", "/w", cases[i].dir, &args), cases[i].option ? 0 : -EINVAL);
                if (cases[i].option && !has(&args, cases[i].option, cases[i].value))
                        fail_msg("'%s'", cases[i].dir);
        }
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(cli_run_keeps_streams_apart),
                cmocka_unit_test(cli_run_sets_the_locale),
                cmocka_unit_test(cli_run_has_a_group_of_its_own),
                cmocka_unit_test(cli_run_is_bounded),
                cmocka_unit_test(cli_run_waits_for_no_heir),
                cmocka_unit_test(cli_run_keeps_the_last_words),
                cmocka_unit_test(cli_run_refuses_a_flood),
                cmocka_unit_test(cli_run_says_what_is_missing),
                cmocka_unit_test(oci_failure_knows_both_engines),
                cmocka_unit_test(dockerfile_of_a_repository),
                cmocka_unit_test(dockerfile_says_its_bases),
                cmocka_unit_test(triggers_are_seen),
                cmocka_unit_test(oci_args_harden),
                cmocka_unit_test(oci_args_tell_paths_whole),
                cmocka_unit_test(oci_args_tell_the_run_directory_whole),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
