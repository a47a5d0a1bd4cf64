/*
 * doctor.h - what a cluster can do for runs, as rows of `cofferdam doctor --target kubernetes`
 */
#pragma once

#include <jansson.h>

#include "kubernetes/client/client.h"

/** struct kube_doctor - what to look at; borrowed */
struct kube_doctor {
        const char *ns;         /* NULL: the namespace of the configuration */
        const char *spread_key; /* a label of nodes; NULL: not looked at */
        const char
                *probe_image; /* with sh and nc, for two pods that prove a NetworkPolicy; NULL: not proved */
};

/**
 * kube_doctor_rows() - {key, state: "ok" "degraded" "missing", evidence, effect, remedy}...
 * @ret: array, new reference; rows that need another one which is missing are not in it
 * Makes nothing in the cluster but with @probe_image, and removes that again. Return: 0, -ECANCELED, -ENOMEM.
 */
int kube_doctor_rows(struct kube *kube, const struct kube_doctor *what, json_t **ret, struct error *err)
        __attribute__((warn_unused_result));

/** command_doctor() - doctor [--namespace NS] [--spread-key KEY] [--prove-network IMAGE]: the rows as JSON */
int command_doctor(int argc, char **argv, const char *const *environ_);
