/*
 * order.h - what a run's process is told by the driver: one JSON object, made by drivers/kubernetes
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "runtime/base/error.h"

/** struct order - strings and objects borrowed from @json */
struct order {
        json_t *json;                    /* owned */
        const char *context;             /* of the kubeconfig; NULL: the current one */
        const char *file;                /* kubeconfig; NULL: where kubectl looks */
        const char *ns;                  /* NULL: the context's */
        const char *managed_by, *domain; /* NULL: the defaults */
        json_t *objects; /* [{"kind":"Secret","object":{..}}] to be made before the pod, in order */
        json_t *pod;     /* the Pod */
        const char *pod_name, *container;
        json_t *secret;           /* the Secret of the run's files, without them; NULL: none */
        json_t *secret_files;     /* [{"name","len","path"?}], see secret.h */
        const char *extend_claim; /* environment that is used again; NULL: none */
        json_t *extend_patch;
        const char *owner_name, *owner_uid; /* NULL: none */
        const char *previous;               /* labels of an earlier attempt; NULL: there can be none */
        const char *what;                   /* that attempt, for messages */
        int64_t now_s;                      /* at which the objects were dated */
        uint64_t previous_ms, ready_ms, copy_ms;
        const char *workspace; /* path inside; NULL: nothing is copied */
        bool same_path;        /* it is also the host's */
        bool comes_back;       /* else nothing of it is wanted */
        json_t *rules;         /* of the workspace, see rules-json.h */
        uint64_t bytes_max;    /* of the export, 0: the default */
};

/** order_read() - from the descriptor @fd (a memfd, read from its beginning). Return: 0, -EINVAL, -errno. */
int order_read(int fd, struct order *ret, struct error *err) __attribute__((warn_unused_result));
void order_deinit(struct order *order);
#define AUTO_ORDER __attribute__((cleanup(order_deinit)))

/** order_date() - move the expiry of everything in it to @now_s. Return: 0, -ENOMEM. */
int order_date(struct order *order, int64_t now_s) __attribute__((warn_unused_result));
