/*
 * plan.h - what is to be made in a cluster, as plain values; manifest.h makes the objects of it
 *
 * Who fills one: plan_spec() (from the specification of a run, for the driver and `cofferdam manifest`), and
 * the verbs pod and job (from their options). All pointers are borrowed and outlive the plan, but for those
 * that kube_plan_own() made; a zeroed struct with the defaults of kube_plan_init() is the start. Nothing in
 * it has been looked up in a cluster. kube_plan_check() comes before everything else: what it passes can be
 * made.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/base/error.h"

/* paths that the official image and the seed's users know; nothing of a caller may be mounted over them */
#define KUBE_HOME             "/home/claude"
#define KUBE_TMP              "/tmp"
#define KUBE_MANAGED_SETTINGS "/etc/claude-code"
#define KUBE_PROFILES         "/etc/ironflow/claude-profile"
#define KUBE_STDIN_DIR        "/run/ironflow" /* with the file "stdin" of pod run */
#define KUBE_CREDENTIALS_ENV  "IRONFLOW_CLAUDE_CREDENTIALS"
#define KUBE_RUN_SECRET       "%s-secrets" /* with the pod's name */
#define KUBE_DEFAULT_DOMAIN   "ironflow.io"
#define KUBE_DEFAULT_MANAGER  "ironflow"
#define KUBE_LABEL_MANAGED_BY "app.kubernetes.io/managed-by"
#define KUBE_LABEL_COMPONENT  "app.kubernetes.io/component"
/* for /bin/sh -c: a container that commands are executed in; it reaps what they leave and ends at SIGTERM */
#define KUBE_IDLE_SCRIPT "trap 'exit 0' TERM INT; while :; do sleep 3600 & wait $!; done"

enum {
        KUBE_UID = 10001,             /* user, group and fsGroup of a sandboxed pod */
        KUBE_STDIN_MAX = 255 * 1024,  /* bytes of pod run's stdin */
        KUBE_ARG_MAX = 120 * 1024,    /* bytes of one argument before it has to go another way */
        KUBE_TIMEOUT_MS = 300 * 1000, /* of an agent's pod and of pod run */
        KUBE_JOB_TIMEOUT_MS = 600 * 1000,
        KUBE_MARGIN_MS = 60 * 1000,
};

/** enum kube_component - value of app.kubernetes.io/component; kube_component_name() */
enum kube_component {
        KUBE_RUNNER,      /* claude-runner: the pod of a run */
        KUBE_PROMPT,      /* prompt-data: a ConfigMap or Secret of a run */
        KUBE_POD_RUN,     /* pod-run */
        KUBE_JOB_RUN,     /* job-run: a Job and its pods */
        KUBE_ENVIRONMENT, /* environment: a claim that outlives its pods */
        KUBE_COMPONENT_COUNT
};

/** enum kube_switch - a field that is left out, or written as it is said */
enum kube_switch { KUBE_UNSET, KUBE_FALSE, KUBE_TRUE };

/** struct kube_pair - a variable, a label or a selector */
struct kube_pair {
        const char *name;
        const char *value;
};

/** struct kube_secret_env - a variable whose value the kubelet takes from a Secret */
struct kube_secret_env {
        const char *name;
        const char *secret; /* the Secret's name */
        const char *key;
};

enum kube_volume_kind {
        KUBE_VOL_CLAIM,     /* @source: a claim that exists */
        KUBE_VOL_CONFIGMAP, /* @source: a ConfigMap that exists; always read-only */
        KUBE_VOL_SECRET, /* @source: a Secret that exists; files get mode 0400 (and fsGroup's 0440); read-only
                          */
        KUBE_VOL_SCRATCH,  /* an emptyDir of @size; with @storage_class a claim made and deleted with the pod
                            */
        KUBE_VOL_HOST_DIR, /* @source: a directory of the node; never in a sandboxed pod */
        KUBE_VOL_COUNT
};

/** struct kube_volume - a volume and its one mount */
struct kube_volume {
        enum kube_volume_kind kind;
        const char *name;     /* of the volume (DNS label); NULL: "vol-<i>" */
        const char *source;   /* see the kinds */
        const char *target;   /* absolute path inside */
        const char *sub_path; /* NULL, or a relative path in the volume without empty, "." and ".." parts */
        const char *key;      /* ConfigMap, Secret: only this key; NULL: all */
        const char *size;     /* quantity, KUBE_VOL_SCRATCH only and needed there */
        const char *storage_class; /* KUBE_VOL_SCRATCH only; NULL: emptyDir */
        bool readonly;
};

/** struct kube_profile - a ConfigMap whose keys are copied into ~/.claude/@subdir before the command starts
 */
struct kube_profile {
        const char *configmap;
        const char *subdir; /* "": ~/.claude itself */
};

/** struct kube_toleration - see kube_tolerations_parse() */
struct kube_toleration {
        const char *key;    /* "": every key, with Exists only */
        const char *value;  /* NULL: Exists */
        const char *effect; /* NoSchedule, PreferNoSchedule or NoExecute; NULL: every effect */
        int64_t seconds;    /* NoExecute: how long; -1: for ever */
};

/** struct kube_resources - quantities as Kubernetes writes them ("500m", "2Gi"); NULL: left out */
struct kube_resources {
        const char *cpu_request, *cpu_limit;
        const char *memory_request, *memory_limit;
        const char *disk_request, *disk_limit; /* ephemeral-storage */
};

/** struct kube_environment - the claim that outlives its pods; @path NULL: none */
struct kube_environment {
        const char *path;          /* where it is mounted: absolute, not "/" */
        const char *size;          /* quantity, "10Gi" by default */
        const char *storage_class; /* NULL: the cluster's default */
        uint64_t ttl_ms;           /* 7 days by default */
        const char *claim;         /* name of the claim to mount: the resumed one, or that to be made */
        bool resumed;              /* @claim exists: kube_claim() is not called */
};

/** struct kube_plan - one pod, or one Job with its pod, and what goes with it */
struct kube_plan {
        /* --- who it is --- */
        enum kube_component component;
        const char *ns;                  /* namespace */
        const char *name;                /* of the pod or Job, kube_name_valid() */
        const char *container;           /* its one container */
        const char *run_id;              /* raw: labels get kube_label_value() of it; NULL: no label */
        const char *root_run_id;         /* NULL: as @run_id */
        const char *step;                /* raw; NULL: no label */
        const char *egress_profile;      /* NULL: no label */
        const char *managed_by, *domain; /* KUBE_DEFAULT_MANAGER and KUBE_DEFAULT_DOMAIN, or what was said */
        const struct kube_pair *labels;  /* of the caller; none of the reserved keys */
        size_t n_labels;
        const char *owner_name, *owner_uid; /* pod that owns all that is made; NULL: none */

        /* --- how long --- */
        int64_t now_s; /* unix seconds at which the objects are made (after waiting for an old attempt) */
        uint64_t timeout_ms;  /* of the run; a service's lifetime */
        uint64_t margin_ms;   /* expiry and deadline come this long after @timeout_ms */
        uint64_t deadline_ms; /* activeDeadlineSeconds outright; 0: sandboxed: timeout + margin, else none */
        uint32_t grace_s;     /* terminationGracePeriodSeconds */

        /* --- the container --- */
        const char *image;
        const char *pull_policy; /* Always, IfNotPresent (default), Never */
        const char *const *pull_secrets;
        size_t n_pull_secrets;
        const char *const
                *command; /* argv; profiles and credentials are put in place before it is executed */
        size_t n_command;
        const char *working_dir; /* NULL: the image's */
        const struct kube_pair *env;
        size_t n_env;
        const struct kube_secret_env *secret_env;
        size_t n_secret_env;
        const char *credentials_secret, *credentials_key; /* for ~/.claude/.credentials.json; NULL: none */
        const char *stdin_data; /* pod run: text that the container finds in KUBE_STDIN_DIR "/stdin" and is
                                   fed to @command; NULL: none */

        /* --- its walls; each relaxation is an error when !sandboxed --- */
        bool sandboxed;
        int64_t run_as_user;              /* sandboxed: 0: KUBE_UID. else: 0: left out */
        int64_t run_as_group, fs_group;   /* 0: as @run_as_user when that is set */
        bool writable_root;               /* relaxation */
        const char *home_size;            /* relaxation; NULL: 1Gi */
        const char *tmp_size;             /* relaxation; NULL: 512Mi */
        bool margin_given;                /* relaxation: @margin_ms was said */
        const char *service_account;      /* its token is mounted; NULL: none is (sandboxed), the namespace's
                                             default */
        enum kube_switch automount_token; /* unsandboxed only */
        enum kube_switch privilege_escalation; /* unsandboxed only */
        const char *fs_group_change_policy;    /* OnRootMismatch (default with an fsGroup) or Always */
        const char *runtime_class;             /* NULL: the cluster's default */

        /* --- files --- */
        const char *workspace;      /* path of an emptyDir for the work, NULL: none */
        const char *workspace_size; /* quantity, 10Gi by default */
        const struct kube_volume *volumes;
        size_t n_volumes;
        const struct kube_profile *profiles;
        size_t n_profiles;
        const char *managed_settings; /* ConfigMap with managed-settings.json; NULL: the image's */
        const char *run_secret; /* Secret of the run, which is made when the pod is there and goes with it,
                                   for the files of SECRET_DIR; NULL: none */
        const char *sessions_claim; /* claim for ~/.claude/projects; sandboxed only; NULL: none */
        struct kube_environment environment;

        /* --- where --- */
        struct kube_resources resources;
        const struct kube_pair *node_selector;
        size_t n_node_selector;
        const struct kube_toleration *tolerations;
        size_t n_tolerations;
        const char *spread_key; /* topology key of a soft spread over runs; NULL: none */

        /* --- a policy of the run's own, made before the pod --- */
        bool network_policy;   /* egress to DNS and, when given, to @egress_ip only; no ingress */
        const char *egress_ip; /* address of the proxy, IPv4 or IPv6; NULL: none */
        uint16_t egress_port;  /* of it; 0: all */

        char **owned; /* strings of kube_plan_own(), freed by kube_plan_deinit() */
        size_t n_owned;
};

/** kube_plan_init() - the defaults: sandboxed, namespace "default", label values and domain of ironflow */
void kube_plan_init(struct kube_plan *plan);

/** kube_plan_own() - have @text (consumed, also on failure) freed with the plan. Return: @text, NULL: no
 * memory or @text was NULL. */
const char *kube_plan_own(struct kube_plan *plan, char *text) __attribute__((warn_unused_result));

/** kube_plan_deinit() - frees what the plan owns; NULL-safe for a zeroed plan */
void kube_plan_deinit(struct kube_plan *plan);

/**
 * kube_plan_check() - everything that can be known before a request is made
 * @err: names the key, never the value of a secret
 * Return: 0, -EINVAL.
 */
int kube_plan_check(const struct kube_plan *plan, struct error *err) __attribute__((warn_unused_result));

#define AUTO_KUBE_PLAN __attribute__((cleanup(kube_plan_deinit)))
