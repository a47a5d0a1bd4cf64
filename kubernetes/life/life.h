/*
 * life.h - what is made for a run in a cluster, and how it goes away again: shared by the driver and the
 * verbs
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kubernetes/client/client.h"
#include "kubernetes/manifest/plan.h"

/** struct life - where to look, and whom to tell; everything borrowed */
struct life {
        struct kube *kube;
        const char *ns;         /* NULL: the namespace of the configuration */
        const char *managed_by; /* value of app.kubernetes.io/managed-by; NULL: KUBE_DEFAULT_MANAGER */
        const char *domain;     /* of the labels of a run; NULL: KUBE_DEFAULT_DOMAIN */
        void (*warn)(void *arg, const char *text); /* what goes on with less than was meant; NULL: nobody */
        void *arg;
};

/** life_warn() - tell it */
void life_warn(const struct life *life, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* ---- failure.c: what a pod says about itself; pure ---- */

enum life_state {
        LIFE_WAITING, /* not running yet */
        LIFE_RUNNING,
        LIFE_ENDED,  /* Succeeded, Failed, or being deleted: see @code of struct life_verdict */
        LIFE_BROKEN, /* it will never run: image, configuration, crash */
};

enum { LIFE_TEXT_MAX = 512 };

/** struct life_verdict - the state, and why it is one that ends a run */
struct life_verdict {
        enum life_state state;
        const char *code;         /* failure code of events.md; NULL: none */
        char text[LIFE_TEXT_MAX]; /* one line, escaped; what it waits for when it waits */
};

/** life_look() - what the Pod object @pod says; its strings are the cluster's and may be anything */
void life_look(const json_t *pod, struct life_verdict *ret);

/** life_look_gone() - what @pod, as it was last, says of why it is gone; NULL: nothing is known of it */
void life_look_gone(const json_t *pod, struct life_verdict *ret);

/** life_capacity() - @verdict of a pod that still waits when its time is over: SANDBOX_CAPACITY when no node
 * took it, else SANDBOX_SETUP_TIMEOUT */
void life_capacity(const json_t *pod, struct life_verdict *verdict);

/* ---- cleanup.c ---- */

/**
 * life_end() - delete all objects that @select names and wait until the pods are gone
 * Jobs go first, with their pods; pods are deleted by uid, at their own pace, and waited for, so that nothing
 * of them runs any more; then ConfigMaps, Secrets and NetworkPolicies. A right that is missing on anything
 * but pods skips that kind with a warning.
 * @labels: selector. It is narrowed to objects that are managed by us
 * @owner_uid: only objects with an owner of this uid; NULL: any
 * @jobs: Jobs too
 * @mine: a pod that was just made: pods alone are ended, and of those only what was made before it
 * @what: for messages: "the previous attempt of step S of run R"
 * Return: 0, -ETIMEDOUT ("pods of WHAT still terminating after .."), or as client.h says.
 */
struct life_select {
        const char *labels;
        const char *owner_uid;
        const char *name; /* only this one and those called so with "-.." behind it; NULL: any */
        bool jobs;
        const json_t *mine; /* NULL: none */
        const char *what;
};
int life_end(const struct life *life, const struct life_select *select, uint64_t timeout_ms,
             struct error *err) __attribute__((warn_unused_result));

/**
 * life_be_alone() - life_end() of what @select->mine may not run beside; never do two of them get 0 that were
 * made at the same time, and look afterwards
 * Return: 0, -EBUSY (one was made after it: that one goes on), or as life_end().
 */
int life_be_alone(const struct life *life, const struct life_select *select, uint64_t timeout_ms,
                  struct error *err) __attribute__((warn_unused_result));

/**
 * life_release_run() - end everything of the run @run_id, and of runs below it
 * Return: as life_end().
 */
int life_release_run(const struct life *life, const char *run_id, uint64_t timeout_ms, struct error *err)
        __attribute__((warn_unused_result));

/**
 * life_check_owner() - that the owner pod is there, in this namespace, and is the one that is meant: with an
 * owner that does not exist the cluster deletes at once what is made
 * Return: 0, -EINVAL (empty name or uid), -ENOENT, -ESTALE (another uid), or as client.h says.
 */
int life_check_owner(const struct life *life, const char *name, const char *uid, struct error *err)
        __attribute__((warn_unused_result));

/** life_release_owned() - life_end() of everything that the pod @name with @uid owns. Return: as both. */
int life_release_owned(const struct life *life, const char *name, const char *uid, uint64_t timeout_ms,
                       struct error *err) __attribute__((warn_unused_result));

/**
 * life_release_pod() - end what was made under the name of the pod @name: the pod, and the ConfigMaps,
 * Secrets and NetworkPolicies called NAME or NAME-.. Return: as life_end().
 */
int life_release_pod(const struct life *life, const char *name, uint64_t timeout_ms, struct error *err)
        __attribute__((warn_unused_result));

/* ---- reap.c ---- */

/** enum life_reaped - why an object may go */
enum life_reaped { LIFE_KEEP, LIFE_DEADLINE, LIFE_EXPIRED };

/**
 * life_reap_pod() / life_reap_other() - whether a pod, or another object, may go at @now_s
 * A pod whose deadline killed it goes without an annotation; nothing else does. A pod of a Job is the Job's.
 */
enum life_reaped life_reap_pod(const json_t *pod, const char *domain, int64_t now_s);
enum life_reaped life_reap_other(const json_t *object, const char *domain, int64_t now_s);

/** struct life_report - what one pass deleted */
struct life_report {
        uint64_t jobs, pods, configmaps, secrets, policies, claims;
        uint64_t failed; /* could not be deleted: warnings */
};

/**
 * life_reap() - one pass over everything that is managed by us in the namespace
 * @reaped: told of each; NULL: nobody
 * Return: 0, or as client.h says when pods or ConfigMaps cannot be listed.
 */
int life_reap(const struct life *life, int64_t now_s,
              void (*reaped)(void *arg, const char *kind, const char *name, const char *reason), void *arg,
              struct life_report *ret, struct error *err) __attribute__((warn_unused_result));
