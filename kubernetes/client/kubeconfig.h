/*
 * kubeconfig.h - which cluster, and as whom: kubeconfig files, or the service account of the pod we are in
 *
 * Files are the operator's, and still read with bounds. No secret is ever part of a message.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "runtime/base/cleanup.h"
#include "runtime/base/error.h"

struct kube_config; /* opaque */

enum {
        KUBE_CONFIG_BYTES_MAX = 1 << 20, /* of one file, and of the output of a credential plugin */
        KUBE_CONFIG_FILES_MAX = 32,      /* in $KUBECONFIG */
        KUBE_PLUGIN_MS = 60000,          /* a credential plugin takes longer: it is killed */
};

/**
 * struct kube_config_from - where to look; everything borrowed until kube_config_load() returns, but
 * @environ, which must live as long as the configuration
 * @environ: of the caller: KUBECONFIG, HOME, KUBERNETES_SERVICE_HOST and _PORT, and what plugins are given
 * @file:    this one file in place of $KUBECONFIG and ~/.kube/config; NULL: those
 * @text:    YAML in place of any file; NULL: files
 * @context: NULL: current-context
 * @in_cluster: nothing but the service account
 * @account_dir: NULL: /var/run/secrets/kubernetes.io/serviceaccount
 */
struct kube_config_from {
        const char *const *environ;
        const char *file;
        const char *text;
        const char *context;
        bool in_cluster;
        const char *account_dir;
};

/**
 * kube_config_load() - read the configuration; nothing is connected to, no plugin is run
 * @ret: caller frees with kube_config_free()
 *
 * Order: @text, @file, the files of $KUBECONFIG (as kubectl: the first that sets a value wins, missing ones
 * are passed over), ~/.kube/config; when those name no cluster at all, the service account. Return: 0,
 * -ENOENT (no configuration anywhere, or @file is missing), -EINVAL (a file or its meaning; the message names
 * file and line or entry), -E2BIG, -EACCES and others of open(2), -ENOMEM.
 */
int kube_config_load(const struct kube_config_from *from, struct kube_config **ret, struct error *err)
        __attribute__((warn_unused_result));

/** kube_config_free() - Return: NULL. */
struct kube_config *kube_config_free(struct kube_config *config);
DEFINE_AUTO(struct kube_config, kube_config, kube_config_free)
#define AUTO_KUBE_CONFIG CLEANUP(auto_kube_config)

/** kube_config_namespace() - of the context or of the service account; "default" when they name none.
 * Borrowed. */
const char *kube_config_namespace(const struct kube_config *config);

/** kube_config_origin() - for people: "context 'x' of FILE", "in-cluster service account". Borrowed. */
const char *kube_config_origin(const struct kube_config *config);

/** kube_config_server() - "https://host:port[/path]" without a final slash. Borrowed. */
const char *kube_config_server(const struct kube_config *config);

/** kube_config_in_cluster() - whether it is the service account of a pod */
bool kube_config_in_cluster(const struct kube_config *config);
