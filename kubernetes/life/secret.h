/*
 * secret.h - the Secret of a run: its files in SECRET_DIR
 *
 * It is made behind the pod, whose it is from the beginning: whatever ends the pod ends it, and nobody has to
 * be allowed to list Secrets. The kubelet starts no container before it is there. Values come as files in
 * memory, and what a server says to a request with values in it is not repeated.
 */
#pragma once

#include <jansson.h>

#include "kubernetes/client/client.h"
#include "kubernetes/life/remote.h"

enum { SECRET_BYTES_MAX = 1 << 20 }; /* of all values of a Secret, as the server has it */

/** struct secret_request - a Secret to make */
struct secret_request {
        const char *ns;
        json_t *object;                 /* a Secret without data; filled, and emptied again */
        const json_t *files;            /* [{"name","len"}], in the order of the values */
        int values_fd;                  /* the values, one behind the other; read from its beginning */
        const char *pod_name, *pod_uid; /* whose it is */
};

/**
 * secret_make() - a Secret with its values
 * @ret: as the server has it, new reference
 * Return: 0, -EINVAL (the files and the values do not fit), or as client.h says.
 */
int secret_make(struct kube *kube, const struct secret_request *request, json_t **ret, struct error *err)
        __attribute__((warn_unused_result));

/** secret_link() - the links that lead to @files with a "path", inside. Return: 0, -EIO, as remote.h. */
int secret_link(const struct remote_pod *pod, const json_t *files, struct error *err)
        __attribute__((warn_unused_result));
