/*
 * read.h - from the specification of a run to a plan
 */
#pragma once

#include "kubernetes/manifest/plan.h"
#include "runtime/spec/spec.h"

enum {
        KUBE_RUN_MS =
                24 * 3600 * 1000, /* of a run without limits.timeout: what is left of it may be reaped then */
        KUBE_UNIQUE_LEN = 64,
};

/** struct kube_read - what a specification does not say; all borrowed until the plan is gone */
struct kube_read {
        const char *const *environ; /* of the caller, for variables without a value */
        const char *ns;        /* of the context, when kubernetes.namespace is not given; NULL: "default" */
        const char *name;      /* of the pod */
        const char *run_id;    /* when kubernetes.run_id is not given; NULL: none */
        const char *cwd;       /* the workspace when none is named; absolute */
        const char *new_claim; /* name for a claim of environment_volume that is to be made */
        int64_t now_s;
};

/** kube_unique() - "<prefix>-<milliseconds in hex>-<8 hex digits>"; @prefix at most 32 bytes. Return: @ret.
 */
const char *kube_unique(const char *prefix, int64_t now_ms, uint32_t random,
                        char ret[static KUBE_UNIQUE_LEN]);

/**
 * kube_plan_read() - fill a plan from @spec; KUBE_IDLE_SCRIPT is its command
 * @ret: a plan of its own, which the caller frees with kube_plan_deinit() also on failure; it borrows from
 * @spec and @from, and has not passed kube_plan_check() Return: 0, -EINVAL, -ENOTSUP (what a pod cannot be),
 * -ENOMEM.
 */
int kube_plan_read(const struct spec *spec, const struct kube_read *from, struct kube_plan *ret,
                   struct error *err) __attribute__((warn_unused_result));

/**
 * kube_volume_parse() - "type=pvc,source=NAME,target=PATH,readonly" and so on
 * @text: cut up in place; the result points into it
 * Return: 0, -EINVAL.
 */
int kube_volume_parse(char *text, struct kube_volume *ret, struct error *err)
        __attribute__((warn_unused_result));

/** kube_secret_parse() - "NAME=SECRET/KEY", cut up in place. Return: 0, -EINVAL. */
int kube_secret_parse(char *text, struct kube_secret_env *ret, struct error *err)
        __attribute__((warn_unused_result));

/**
 * kube_tolerations_add() - the tolerations of "KEY[=VALUE]:EFFECT[,...]", behind those that @plan has
 * Return: 0, -EINVAL, -ENOMEM.
 */
int kube_tolerations_add(struct kube_plan *plan, const char *text, struct error *err)
        __attribute__((warn_unused_result));

/** kube_plan_array() - @n zeroed elements of @size bytes, freed with the plan; NULL: no memory. @n may be 0.
 */
void *kube_plan_array(struct kube_plan *plan, size_t n, size_t size) __attribute__((warn_unused_result));

/** kube_plan_dup() - a copy of @text, freed with the plan; NULL: no memory */
char *kube_plan_dup(struct kube_plan *plan, const char *text) __attribute__((warn_unused_result));

/** kube_plan_split() - @text ("A<sep>B") in two, copies that are freed with the plan. Return: 0, -EINVAL (no
 * @sep, or an empty part), -ENOMEM. */
int kube_plan_split(struct kube_plan *plan, const char *text, char sep, const char **ret_a,
                    const char **ret_b) __attribute__((warn_unused_result));
