/*
 * fuzz-manifest.c - the grammars of a plan, volumes, tolerations, quantities, labels,
 * paths; and what passes makes a pod of valid names whose every string survives YAML
 */
#include <stdlib.h>
#include <string.h>

#include "kubernetes/manifest/manifest.h"
#include "kubernetes/manifest/names.h"
#include "kubernetes/manifest/read.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/json.h"
#include "tests/fuzz/fuzz.h"

static void check(bool holds) {
        if (!holds)
                __builtin_trap();
}

static void label(const char *text) {
        char once[KUBE_LABEL_MAX + 1], twice[KUBE_LABEL_MAX + 1];

        (void) kube_label_value(text, once);
        check(*once && kube_label_value_valid(once));
        check(strcmp(kube_label_value(once, twice), once) == 0); /* a valid value stays */
        if (kube_dns_label_valid(text))
                check(kube_name_valid(text) && kube_label_value_valid(text));
        if (kube_label_key_valid(text))
                check(strlen(text) <= 253 + 1 + 63);
}

static void quantity(const char *text) {
        uint64_t milli = 0;

        if (kube_quantity(text, &milli) == 0)
                check(strspn(text, "0123456789.") > 0);
}

static void path(const char *text) {
        if (kube_sub_path_valid(text))
                check(*text != '/' && !strstr(text, "//") && !kube_path_has_dots(text));
        if (!kube_subdir_check(text) && *text)
                check(kube_sub_path_valid(text));
        check(kube_path_same(text, text) && kube_path_below(text, "/"));
}

/* A plan with whatever @text becomes in it; a volume by reference. */
static void plan_with(const char *text, const struct kube_volume *volume) {
        static const char *const command[] = { "true" };
        AUTO_KUBE_PLAN struct kube_plan plan = { 0 };
        const struct kube_pair env = { "V", text };
        AUTO_JSON json_t *pod = NULL, *all = NULL;
        AUTO_BUF struct buf yaml = { 0 };

        kube_plan_init(&plan);
        plan.name = "p";
        plan.image = "i";
        plan.run_id = text;
        plan.command = command;
        plan.n_command = 1;
        plan.env = &env;
        plan.n_env = 1;
        plan.volumes = volume;
        plan.n_volumes = volume ? 1 : 0;
        if (kube_tolerations_add(&plan, text, NULL) == 0)
                check(plan.n_tolerations > 0);
        if (kube_plan_check(&plan, NULL) < 0)
                return;
        check(!volume || volume->target[0] == '/');
        pod = kube_pod(&plan);
        check(pod != NULL);
        all = json_pack("[O]", pod);
        check(all && kube_yaml(all, &yaml) == 0 && yaml.len > 0);
}

static void volume(const char *text) {
        AUTO_FREE char *copy = strdup(text);
        struct kube_volume v;

        if (copy && kube_volume_parse(copy, &v, NULL) == 0) {
                check(v.target && v.kind < KUBE_VOL_COUNT && (v.kind != KUBE_VOL_SCRATCH || !v.source));
                plan_with("x", &v);
        }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        AUTO_FREE char *text = NULL;

        if (size > 4096)
                return 0;
        text = strndup((const char *) data, size);
        if (!text)
                return 0;
        label(text);
        quantity(text);
        path(text);
        volume(text);
        plan_with(text, NULL);
        return 0;
}
