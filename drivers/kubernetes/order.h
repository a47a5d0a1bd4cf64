/*
 * order.h - what the processes of cofferdam-kubernetes are told; the other side: kubernetes/life/order.h
 */
#pragma once

#include <jansson.h>

#include "drivers/copied.h"
#include "drivers/driver.h"
#include "kubernetes/manifest/read.h"

/** struct kube_names - what a run is called in the cluster; made when it is planned */
struct kube_names {
        char pod[KUBE_UNIQUE_LEN];
        char claim[KUBE_UNIQUE_LEN];
};

/** kube_names_make() - new ones */
void kube_names_make(struct kube_names *ret);

/**
 * order_of_run() - everything that is made for the run, dated now
 * @run_id: NULL: only to check the specification
 * @env, @n_env: "NAME=value" for every command of the pod, tokens: whoever may read pods reads them
 * Return: 0 and @ret (new reference), -EINVAL, -ENOTSUP, -ENOMEM.
 */
struct kube_run_order {
        const struct ctx *ctx;
        const struct spec *spec;
        const struct copied *copied;
        const struct kube_names *names;
        const char *run_id;
        const char *const *env;
        size_t n_env;
        const struct file_secret *secrets; /* while the run starts */
        size_t n_secrets;
};
int order_of_run(const struct kube_run_order *of, json_t **ret, struct error *err)
        __attribute__((warn_unused_result));

/** order_of_command() - @req as kubernetes/life/exec.h takes it; new reference, NULL: no memory */
json_t *order_of_command(const struct kube_run_order *of, const struct exec_request *req);

/** order_of_secret() - that of the run called @name, as kubernetes/life/serve.h says; new reference, NULL: no
 * memory */
json_t *order_of_secret(const struct kube_run_order *of, const char *name);

/** order_values_fd() - a memory file with the secrets that are files, one behind the other, for
 * kubernetes/life/secret.h. Return: owned descriptor, -E2BIG (a Secret of a cluster has room for 1 MiB),
 * -errno. */
int order_values_fd(const struct kube_run_order *of, struct error *err) __attribute__((warn_unused_result));

/** order_fd() - a memory file with @order. Return: owned descriptor or -errno. */
int order_fd(const json_t *order) __attribute__((warn_unused_result));
