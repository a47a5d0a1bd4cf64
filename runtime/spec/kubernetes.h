/*
 * kubernetes.h - section "kubernetes" of the specification; what its texts mean: kubernetes/manifest/read.h
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/spec/tier.h"

/** struct spec_env - one variable for the command; @value NULL: taken from the caller's environment at plan
 * time */
struct spec_env {
        char *name;
        char *value;
        enum spec_tier tier;
};

/** struct spec_kubernetes - all pointers owned, NULL = not given */
struct spec_kubernetes {
        char *kubeconfig; /* absolute host path */
        char *context, *ns;
        bool sandboxed, allow_writable_root;
        char *home_size, *tmp_size, *workspace_size; /* quantities */
        uint64_t deadline_margin_ms, active_deadline_ms;
        uint64_t run_as_user;
        char *service_account, *runtime_class, *egress_profile;
        char **env_from_secret; /* "NAME=SECRET/KEY" */
        size_t n_env_from_secret;
        char *credentials_secret; /* "SECRET/KEY" */
        char **volumes;           /* "type=pvc,source=NAME,target=PATH" */
        size_t n_volumes;
        char **profiles; /* "CONFIGMAP[:SUBDIR]" */
        size_t n_profiles;
        struct spec_env *presets; /* name to ConfigMap */
        size_t n_presets;
        char *managed_settings; /* a name of @presets */
        char *sessions_volume;
        char *environment_volume; /* absolute path inside */
        char *environment_size, *environment_storage_class, *resume_environment;
        uint64_t environment_ttl_ms;
        struct spec_env *node_selector, *labels;
        size_t n_node_selector, n_labels;
        char **tolerations; /* "KEY[=VALUE]:EFFECT[,...]" */
        size_t n_tolerations;
        char *spread_key, *cpu_request, *memory_request, *disk_request;
        char *image_pull_policy;
        char **image_pull_secrets;
        size_t n_image_pull_secrets;
        char *managed_by, *label_domain;
        char *run_id, *root_run_id, *step;
        char *owner_pod; /* "NAME/UID" */
        uint64_t previous_attempt_timeout_ms;
        uint64_t start_timeout_ms;
        uint64_t copy_timeout_ms; /* each way; 0: the default */
        bool network_policy;
};
