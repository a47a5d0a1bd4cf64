/*
 * manifest.h - the objects of a plan, as the API takes them; pure: no clock, no request, no environment
 *
 * The plan has passed kube_plan_check(). Each function returns a new reference, NULL when out of memory.
 */
#pragma once

#include <jansson.h>

#include "kubernetes/manifest/plan.h"
#include "runtime/base/buf.h"

/** kube_component_name() - "claude-runner", ...; static */
const char *kube_component_name(enum kube_component component);

/** kube_pod() - the Pod, with its one container */
json_t *kube_pod(const struct kube_plan *plan) __attribute__((warn_unused_result));

/** kube_job() - the Job of @plan.component KUBE_JOB_RUN; backoffLimit 0 */
json_t *kube_job(const struct kube_plan *plan) __attribute__((warn_unused_result));

/** kube_claim() - the PersistentVolumeClaim of @plan.environment, which is not resumed */
json_t *kube_claim(const struct kube_plan *plan) __attribute__((warn_unused_result));

/** kube_claim_extend() - merge patch that pushes the expiry of a resumed claim */
json_t *kube_claim_extend(const struct kube_plan *plan) __attribute__((warn_unused_result));

/** kube_network_policy() - the NetworkPolicy of the run, called as its pod */
json_t *kube_network_policy(const struct kube_plan *plan) __attribute__((warn_unused_result));

/**
 * kube_data() - a ConfigMap or Secret of the run: labels, expiry, owner
 * @kind: "ConfigMap" or "Secret"
 * @name: of the object
 * @data: text, UTF-8 for a ConfigMap; a Secret gets it as stringData
 */
json_t *kube_data(const struct kube_plan *plan, const char *kind, const char *name,
                  const struct kube_pair *data, size_t n_data) __attribute__((warn_unused_result));

/** kube_expires_at() - unix seconds at which all but the claim may be reaped: now + timeout + margin */
int64_t kube_expires_at(const struct kube_plan *plan);

/** kube_deadline_s() - activeDeadlineSeconds, 0: none */
int64_t kube_deadline_s(const struct kube_plan *plan);

/** kube_key() - "<domain>/<name>"; @ret: at least KUBE_KEY_LEN. Return: @ret. */
enum { KUBE_KEY_LEN = 320 };
const char *kube_key(const struct kube_plan *plan, const char *name, char ret[static KUBE_KEY_LEN]);

/**
 * kube_selector() - the labelSelector of this run's objects, "k=v,k=v"
 * @with_step: those of the same step only; needs run_id and step
 * @root: by the root run's label instead of the run's
 * Return: owned text, NULL: no memory.
 */
char *kube_selector(const struct kube_plan *plan, bool with_step, bool root)
        __attribute__((warn_unused_result));

/**
 * kube_admin() - what an administrator applies once for the namespace of @plan
 * @auth_proxy: agents reach the auth proxy and not the API of their model
 * Return: array: Namespace with PodSecurity labels, Roles and RoleBindings, ResourceQuota, LimitRange,
 * NetworkPolicies and CiliumNetworkPolicies.
 */
json_t *kube_admin(const struct kube_plan *plan, bool auth_proxy) __attribute__((warn_unused_result));

/**
 * kube_yaml() - append @objects as documents of one YAML stream
 * @objects: array
 * Return: 0, -ENOMEM, -E2BIG.
 */
int kube_yaml(const json_t *objects, struct buf *out) __attribute__((warn_unused_result));
