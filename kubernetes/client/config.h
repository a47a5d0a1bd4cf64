/*
 * config.h - what is in a configuration: for the client only, everybody else has kubeconfig.h
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "kubernetes/client/kubeconfig.h"
#include "runtime/base/buf.h"

enum { KUBE_ARGS_MAX = 128 }; /* arguments of a credential plugin, its variables, groups */

/** struct kube_strings - owned strings; @v is NULL-terminated */
struct kube_strings {
        char *v[KUBE_ARGS_MAX + 1];
        size_t n;
};

/** struct kube_plugin - a program that prints an ExecCredential; @command NULL: none */
struct kube_plugin {
        char *command, *api_version, *hint;
        struct kube_strings args, env; /* @env: "NAME=VALUE" */
        bool cluster_info, always_asks;
        /* what it said last */
        bool valid;
        int64_t expires; /* unix seconds; INT64_MAX: it did not say */
        char *token;
        struct buf cert, key; /* PEM */
};

/** struct kube_config - all owned; NULL or empty: not given */
struct kube_config {
        const char *const *environ_; /* borrowed */
        char *origin, *server, *tls_name, *ns, *proxy;
        bool insecure, in_cluster;
        struct buf ca, cert, key; /* PEM */
        char *token, *token_file, *user, *password;
        char *as, *as_uid;
        struct kube_strings as_groups;
        struct kube_plugin plugin;
};

/** struct kube_credential - what one request is sent with; borrowed from the configuration but @authorization
 */
struct kube_credential {
        char *authorization;          /* the header's value; owned, NULL: none */
        const struct buf *cert, *key; /* PEM; empty: none */
};

/**
 * kube_credential_get() - runs the plugin when there is one whose last word has expired, reads token files
 * @again: the server did not take what it said last: ask anew
 * Blocks, at most KUBE_PLUGIN_MS; forks. Return: 0, -ENOENT (no such program or file), -EACCES (the plugin
 * failed, or said nothing of use), -ETIMEDOUT, -EFBIG, -ENOMEM.
 */
int kube_credential_get(struct kube_config *config, bool again, struct kube_credential *ret,
                        struct error *err) __attribute__((warn_unused_result));

/** kube_credential_renewable() - whether asking again could give another one */
bool kube_credential_renewable(const struct kube_config *config);

/** kube_strings_add() - a copy of @s. Return: 0, -E2BIG, -ENOMEM. */
int kube_strings_add(struct kube_strings *list, const char *s) __attribute__((warn_unused_result));

/** kube_strings_deinit() - free what is held */
void kube_strings_deinit(struct kube_strings *list);
