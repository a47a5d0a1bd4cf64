/*
 * The grammars of names and quantities, and what a plan may not be. The objects themselves are compared with
 * files, by tests/integration/kube-manifest.sh.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "kubernetes/manifest/manifest.h"
#include "kubernetes/manifest/names.h"
#include "kubernetes/manifest/read.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/json.h"

static void label_value_of_any_text(void **state) {
        static const struct {
                const char *text;
                char fill;
                size_t n;
                const char *want; /* behind @n times @fill */
        } cases[] = {
                { "investigate", 0, 0, "investigate" },
                { "fix bug/42", 0, 0, "fix-bug-42-b8a85051" },
                { "a b", 0, 0, "a-b-10a3f9f2" },
                { "a/b", 0, 0, "a-b-3a8e75c1" },
                { "--step--", 0, 0, "step-71e79947" },
                { "", 0, 0, "unnamed-811c9dc5" },
                { "日本語", 0, 0, "unnamed-805f5ce7" },
                { "Résumé / step #3", 0, 0, "R-sum----step--3-5b317249" },
                { "_a", 0, 0, "a-500b729d" },
                { "a.", 0, 0, "a-01248e26" },
                { NULL, 'x', 63, "" },
                { NULL, 'x', 64, "-d19b1ac5" },
                { NULL, 'x', 200, "-b3e4b6e5" },
        };

        (void) state;
        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
                char text[256] = { 0 }, want[256] = { 0 }, got[KUBE_LABEL_MAX + 1];

                memset(text, cases[i].fill, cases[i].n);
                memset(want, cases[i].fill, cases[i].n <= 63 ? cases[i].n : 54);
                (void) snprintf(want + strlen(want), 32, "%s", cases[i].want);
                assert_string_equal(kube_label_value(cases[i].text ? cases[i].text : text, got), want);
                assert_true(kube_label_value_valid(got));
        }
}

static void quantity_is_read(void **state) {
        static const struct {
                const char *text;
                int want;
                uint64_t milli;
        } cases[] = {
                { "1", 0, 1000 },
                { "500m", 0, 500 },
                { "1.5", 0, 1500 },
                { ".5", 0, 500 },
                { "0.0001", 0, 1 },
                { "2Gi", 0, 2147483648000 },
                { "1.5Ki", 0, 1536000 },
                { "3M", 0, 3000000000 },
                { "1e3", 0, 1000000 },
                { "5E2", 0, 500000 },
                { "0", 0, 0 },
                { "", -EINVAL, 0 },
                { "-1", -EINVAL, 0 },
                { "1gi", -EINVAL, 0 },
                { "1 Gi", -EINVAL, 0 },
                { "1e", -EINVAL, 0 },
                { ".", -EINVAL, 0 },
                { "1Gi2", -EINVAL, 0 },
                { "0x10", -EINVAL, 0 },
                { "9999999999Pi", -ERANGE, 0 },
                { "1000000000000000000000", -ERANGE, 0 },
        };

        (void) state;
        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
                uint64_t milli = 0;

                if (kube_quantity(cases[i].text, &milli) != cases[i].want || milli != cases[i].milli)
                        fail_msg("'%s': %llu", cases[i].text, (unsigned long long) milli);
        }
}

static void tolerations_are_read(void **state) {
        AUTO_KUBE_PLAN struct kube_plan plan = { 0 };
        static const char *const bad[] = { "a",
                                           "a:",
                                           ":NoSchedule",
                                           "a=b:",
                                           "a:Nope",
                                           "a b:NoExecute",
                                           "a:NoExecute,",
                                           "=b:NoSchedule",
                                           "a=b c:NoSchedule",
                                           "",
                                           "," };

        (void) state;
        assert_int_equal(kube_tolerations_add(&plan, "dedicated=worker:NoSchedule, gpu:NoExecute", NULL), 0);
        assert_int_equal(kube_tolerations_add(&plan, "nvidia.com/gpu=:PreferNoSchedule", NULL), 0);
        assert_int_equal(plan.n_tolerations, 3);
        assert_string_equal(plan.tolerations[0].value, "worker");
        assert_null(plan.tolerations[1].value);
        assert_string_equal(plan.tolerations[1].effect, "NoExecute");
        assert_string_equal(plan.tolerations[2].key, "nvidia.com/gpu");
        assert_string_equal(plan.tolerations[2].value, "");
        for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
                struct error err = { 0 };

                if (kube_tolerations_add(&plan, bad[i], &err) != -EINVAL || !err.msg[0])
                        fail_msg("'%s' is taken", bad[i]);
        }
}

static void volume_is_read(void **state) {
        static const struct {
                const char *text, *want; /* of the message; NULL: good */
        } cases[] = {
                { "type=pvc,source=repos,target=/data,readonly", NULL },
                { "type=secret,src=s,dst=/s,key=token", NULL },
                { "type=scratch,target=/cache,size=1Gi,class=fast,name=cache", NULL },
                { "source=a,target=/b", "needs 'type'" },
                { "type=pvc,source=a", "needs 'target'" },
                { "type=nfs,source=a,target=/b", "want pvc" },
                { "type=pvc,source=a,target=/b,size=1Gi", "has no 'size'" },
                { "type=scratch,source=a,target=/b,size=1Gi", "has no 'source'" },
                { "type=pvc,source=a,target=/b,key=k", "has no 'key'" },
                { "type=pvc,source=a,source=b,target=/b", "twice" },
                { "type=pvc,source=a,target=/b,tragte=/c", "unknown field" },
                { "type=pvc,source=,target=/b", "needs a value" },
                { "type=pvc,source=a,target=/b,readonly=maybe", "true or false" },
        };

        (void) state;
        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
                AUTO_FREE char *text = strdup(cases[i].text);
                struct kube_volume v;
                struct error err = { 0 };
                const int r = kube_volume_parse(text, &v, &err);

                if (r != (cases[i].want ? -EINVAL : 0) || (cases[i].want && !strstr(err.msg, cases[i].want)))
                        fail_msg("'%s': %d %s", cases[i].text, r, err.msg);
        }
}

static void subdir_of_a_profile(void **state) {
        static const char *const good[] = { "", "rules", "a/b.c/d_e-f", "..a" }, *const bad[] = {
                "/a", "a//b", "a/", ".", "..", "a/../b", "a/./b", "a b", "é"
        };

        (void) state;
        for (size_t i = 0; i < ARRAY_SIZE(good); i++)
                assert_null(kube_subdir_check(good[i]));
        for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
                assert_non_null(kube_subdir_check(bad[i]));
}

/* --- what a plan may not be --- */

static const char *const command[] = { "true" };
static const struct kube_volume reserved = { .kind = KUBE_VOL_CLAIM, .source = "c", .target = "/tmp/" };
static const struct kube_volume relative = {
        .kind = KUBE_VOL_CLAIM, .source = "c", .target = "data", .readonly = true
};
static const struct kube_volume profile_dir = { .kind = KUBE_VOL_CLAIM,
                                                .source = "c",
                                                .target = KUBE_PROFILES "/9" };
static const struct kube_volume bad_sub = {
        .kind = KUBE_VOL_CLAIM, .source = "c", .target = "/d", .sub_path = "a/../b"
};
static const struct kube_volume host = { .kind = KUBE_VOL_HOST_DIR, .source = "/etc", .target = "/d" };
static const struct kube_volume no_claim = { .kind = KUBE_VOL_CLAIM, .source = " ", .target = "/d" };
static const struct kube_volume sizeless = { .kind = KUBE_VOL_SCRATCH, .target = "/d" };
static const struct kube_volume twice[] = { { .kind = KUBE_VOL_CLAIM, .source = "c", .target = "/d" },
                                            { .kind = KUBE_VOL_CLAIM, .source = "e", .target = "//d/" } };
static const struct kube_volume over_sessions = { .kind = KUBE_VOL_CLAIM,
                                                  .source = "c",
                                                  .target = KUBE_HOME "/.claude/projects" };
static const struct kube_pair reserved_label = { KUBE_LABEL_MANAGED_BY, "me" },
                              own_label = { "ironflow.io/step", "me" }, bad_label = { "a b", "c" },
                              plain_key = { "ANTHROPIC_API_KEY", "x" },
                              plain_value = { "OTHER", "sk-ant-123" },
                              plain_json = { KUBE_CREDENTIALS_ENV, "{}" };
static const struct kube_secret_env empty_key = { "A", "s", "" }, plain_twice = { "OTHER", "s", "k" };
static const struct kube_profile in_projects = { "c", "projects/x" };
static const struct kube_profile same_dir[] = { { "a", "rules" }, { "b", "rules" } };

static void set_bare(struct kube_plan *p) {
        p->sandboxed = false;
}

/* One mistake each; the check must name it. */
#define WITH(name, ...)                         \
        static void name(struct kube_plan *p) { \
                __VA_ARGS__;                    \
        }
WITH(with_ns, p->ns = "A")
WITH(with_name, p->name = "a_b")
WITH(with_label, p->labels = &reserved_label; p->n_labels = 1)
WITH(with_own_label, p->labels = &own_label; p->n_labels = 1)
WITH(with_bad_label, p->labels = &bad_label; p->n_labels = 1)
WITH(with_plain_key, p->env = &plain_key; p->n_env = 1)
WITH(with_plain_value, p->env = &plain_value; p->n_env = 1)
WITH(with_plain_json, p->env = &plain_json; p->n_env = 1)
WITH(with_empty_key, p->secret_env = &empty_key; p->n_secret_env = 1)
WITH(with_twice_env, set_bare(p); p->env = &plain_value; p->n_env = 1; p->secret_env = &plain_twice;
     p->n_secret_env = 1)
WITH(with_reserved, p->volumes = &reserved; p->n_volumes = 1)
WITH(with_relative, p->volumes = &relative; p->n_volumes = 1)
WITH(with_profile_dir, p->volumes = &profile_dir; p->n_volumes = 1)
WITH(with_bad_sub, p->volumes = &bad_sub; p->n_volumes = 1)
WITH(with_host, p->volumes = &host; p->n_volumes = 1)
WITH(with_no_claim, p->volumes = &no_claim; p->n_volumes = 1)
WITH(with_sizeless, p->volumes = &sizeless; p->n_volumes = 1)
WITH(with_twice, p->volumes = twice; p->n_volumes = 2)
WITH(with_sessions, p->sessions_claim = "s"; p->volumes = &over_sessions; p->n_volumes = 1)
WITH(with_projects, p->sessions_claim = "s"; p->profiles = &in_projects; p->n_profiles = 1)
WITH(with_same_dir, p->profiles = same_dir; p->n_profiles = 2)
WITH(with_blank_class, p->runtime_class = " ")
WITH(with_owner, p->owner_name = "a")
WITH(with_spread, p->spread_key = "zone")
WITH(with_cpu, p->resources.cpu_limit = "2Gi")
WITH(with_memory, p->resources.memory_limit = "500m")
WITH(with_zero, p->resources.memory_limit = "0")
WITH(with_request, p->resources.memory_limit = "1Gi"; p->resources.memory_request = "2Gi")
WITH(with_user, p->run_as_user = -1)
WITH(with_root, set_bare(p); p->writable_root = true)
WITH(with_home, set_bare(p); p->home_size = "2Gi")
WITH(with_tmp, set_bare(p); p->tmp_size = "2Gi")
WITH(with_margin, set_bare(p); p->margin_given = true)
WITH(with_bare_user, set_bare(p); p->run_as_user = 5)
WITH(with_bare_sessions, set_bare(p); p->sessions_claim = "s")
WITH(with_automount, p->automount_token = KUBE_TRUE)
WITH(with_environment, p->environment.path = "//"; p->environment.claim = "c")
WITH(with_ttl, p->environment.path = "/w"; p->environment.claim = "c"; p->environment.ttl_ms = 0)
WITH(with_resume, p->environment.resumed = true)
WITH(with_no_image, p->image = "")
WITH(with_policy, p->pull_policy = "Sometimes")
WITH(with_egress, p->egress_ip = "proxy")

static void plan_is_refused(void **state) {
        static const struct {
                void (*with)(struct kube_plan *p);
                const char *want;
        } cases[] = {
                { with_ns, "namespace 'A'" },
                { with_name, "name 'a_b'" },
                { with_label, "pod label 'app.kubernetes.io/managed-by' is reserved: ironflow sets it" },
                { with_own_label, "pod label 'ironflow.io/step' is reserved" },
                { with_bad_label, "pod label 'a b'" },
                { with_plain_key, "refuses ANTHROPIC_API_KEY as a plain variable: use env_from_secret" },
                { with_plain_value, "plain variable OTHER" },
                { with_plain_json, "credentials_secret" },
                { with_empty_key, "needs a non-empty name, secret and key, got name=A secret=s key=" },
                { with_twice_env, "plain and from a Secret" },
                { with_reserved, "volume cannot be mounted at reserved path '/tmp/'" },
                { with_relative, "read-only volume mount_path must be absolute, got 'data'" },
                { with_profile_dir, "reserved path '/etc/ironflow/claude-profile/9'" },
                { with_bad_sub, "sub_path 'a/../b' must be relative, without empty, '.' or '..' segments" },
                { with_host, "no directory of the node" },
                { with_no_claim, "pvc volume needs a non-empty claim_name" },
                { with_sizeless, "needs a size" },
                { with_twice, "duplicate volume mount path '//d/'" },
                { with_sessions, "that of the sessions" },
                { with_projects, "would hide the sessions" },
                { with_same_dir, "claude profile subdir 'rules' is already mapped to ConfigMap 'a'" },
                { with_blank_class, "runtime class must not be empty" },
                { with_owner, "owner pod needs a non-empty name and uid" },
                { with_spread, "would match no node" },
                { with_cpu, "cpu_limit: '2Gi' has a suffix of bytes" },
                { with_memory, "memory_limit: '500m' is thousandths of a byte" },
                { with_zero, "memory_limit: must not be zero" },
                { with_request, "memory_request: '2Gi' is above memory_limit '1Gi'" },
                { with_user, "run_as_user must be greater than 0" },
                { with_root, "allow_writable_root requires a sandboxed pod" },
                { with_home, "home_size requires a sandboxed pod" },
                { with_tmp, "tmp_size requires a sandboxed pod" },
                { with_margin, "deadline_margin requires a sandboxed pod" },
                { with_bare_user, "run_as_user requires a sandboxed pod" },
                { with_bare_sessions, "sessions_volume requires a sandboxed pod" },
                { with_automount, "not sandboxed" },
                { with_environment, "path must be absolute and not '/'" },
                { with_ttl, "ttl must be greater than zero" },
                { with_resume, "resume_environment needs environment_volume" },
                { with_no_image, "image:" },
                { with_policy, "image_pull_policy 'Sometimes'" },
                { with_egress, "'proxy' is not an address" },
        };

        (void) state;
        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
                struct kube_plan plan;
                struct error err = { 0 };

                kube_plan_init(&plan);
                plan.name = "p";
                plan.image = "i";
                plan.command = command;
                plan.n_command = 1;
                if (kube_plan_check(&plan, &err) != 0)
                        fail_msg("the plan without a mistake: %s", err.msg);
                cases[i].with(&plan);
                if (kube_plan_check(&plan, &err) != -EINVAL || !strstr(err.msg, cases[i].want))
                        fail_msg("want '%s', got '%s'", cases[i].want, err.msg);
                assert_null(strstr(err.msg, "sk-ant")); /* the value of a secret is in no message */
        }
}

static void environment_id_is_checked(void **state) {
        char longest[256];

        (void) state;
        memset(longest, 'a', sizeof(longest));
        longest[253] = '\0';
        assert_int_equal(kube_environment_id_check(longest, NULL), 0);
        longest[253] = 'a';
        longest[254] = '\0';
        assert_int_equal(kube_environment_id_check(longest, NULL), -EINVAL);
        assert_int_equal(kube_environment_id_check("", NULL), -EINVAL);
        assert_int_equal(kube_environment_id_check("A", NULL), -EINVAL);
        assert_int_equal(kube_environment_id_check("a.b", NULL), -EINVAL);
}

/* expiry saturates, a deadline under a second is one, and an explicit one wins */
static void times_of_a_plan(void **state) {
        struct kube_plan plan;

        (void) state;
        kube_plan_init(&plan);
        plan.now_s = 1000;
        assert_int_equal(kube_expires_at(&plan), 1360);
        assert_int_equal(kube_deadline_s(&plan), 360);
        plan.deadline_ms = 500;
        assert_int_equal(kube_deadline_s(&plan), 1);
        plan.deadline_ms = 0;
        plan.sandboxed = false;
        assert_int_equal(kube_deadline_s(&plan), 0);
        plan.now_s = INT64_MAX;
        assert_true(kube_expires_at(&plan) == INT64_MAX);
}

/* --- memory --- */

static size_t allocations, fail_at; /* of jansson; 0: none fails */

static void *failing_malloc(size_t size) {
        return ++allocations == fail_at ? NULL : malloc(size);
}

static json_t *pod_and_more(const struct kube_plan *plan) {
        AUTO_JSON json_t *pod = kube_pod(plan), *job = kube_job(plan), *claim = kube_claim(plan),
                         *policy = kube_network_policy(plan), *admin = kube_admin(plan, true);

        return pod && job && claim && policy && admin
                       ? json_pack("[O, O, O, O, O]", pod, job, claim, policy, admin)
                       : NULL;
}

/* Whichever allocation fails: nothing comes, and never an object that lacks a wall. Red when make_put()
 * forgets. */
static void objects_are_whole_or_not_there(void **state) {
        static const struct kube_volume volumes[] = {
                { .kind = KUBE_VOL_SCRATCH, .target = "/a", .size = "1Gi", .storage_class = "c" },
                { .kind = KUBE_VOL_SECRET, .target = "/b", .source = "s", .key = "k" },
                { .kind = KUBE_VOL_CONFIGMAP, .target = "/c", .source = "s" },
        };
        static const struct kube_secret_env secret = { "A", "s", "k" };
        static const struct kube_toleration toleration = { "a", NULL, "NoExecute", 5 };
        struct kube_plan plan;
        AUTO_JSON json_t *whole = NULL;
        size_t n, failures = 0;

        (void) state;
        kube_plan_init(&plan);
        plan.name = "p";
        plan.image = "i";
        plan.run_id = plan.step = "r";
        plan.command = command;
        plan.n_command = 1;
        plan.volumes = volumes;
        plan.n_volumes = ARRAY_SIZE(volumes);
        plan.secret_env = &secret;
        plan.n_secret_env = 1;
        plan.profiles = same_dir;
        plan.n_profiles = 1;
        plan.tolerations = &toleration;
        plan.n_tolerations = 1;
        plan.sessions_claim = "s";
        plan.managed_settings = "m";
        plan.environment.path = "/w";
        plan.environment.claim = "c";
        plan.owner_name = plan.owner_uid = "o";
        plan.spread_key = "a/b";
        plan.egress_ip = "::1";
        plan.egress_port = 1;
        assert_int_equal(kube_plan_check(&plan, NULL), 0);
        json_set_alloc_funcs(failing_malloc, free);
        allocations = fail_at = 0;
        whole = pod_and_more(&plan);
        assert_non_null(whole);
        n = allocations;
        for (size_t i = 1; i <= n; i++) {
                json_t *got;

                allocations = 0;
                fail_at = i;
                got = pod_and_more(&plan);
                fail_at = 0;
                if (got && !json_equal(got, whole))
                        fail_msg("allocation %zu of %zu: something is left out", i, n);
                failures += !got;
                json_decref(got);
        }
        assert_true(failures > n / 2);
        json_set_alloc_funcs(malloc, free);
}

int main(void) {
        static const struct CMUnitTest tests[] = {
                cmocka_unit_test(label_value_of_any_text),
                cmocka_unit_test(quantity_is_read),
                cmocka_unit_test(tolerations_are_read),
                cmocka_unit_test(volume_is_read),
                cmocka_unit_test(subdir_of_a_profile),
                cmocka_unit_test(plan_is_refused),
                cmocka_unit_test(environment_id_is_checked),
                cmocka_unit_test(times_of_a_plan),
                cmocka_unit_test(objects_are_whole_or_not_there),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
