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

/**
 * secret_make() - @object with the values, owned by the pod @pod_name with @pod_uid
 * @object: a Secret without data, filled
 * @files: [{"name","len"}], in the order of the values
 * @values_fd: the values, one behind the other; read from its beginning
 * @ret: as the server has it, new reference
 * Return: 0, -EINVAL (@files and @values_fd do not fit), or as client.h says.
 */
int secret_make(struct kube *kube, const char *ns, json_t *object, const json_t *files, int values_fd,
                const char *pod_name, const char *pod_uid, json_t **ret, struct error *err)
        __attribute__((warn_unused_result));

/** secret_link() - the links that lead to @files with a "path", inside. Return: 0, -EIO, as remote.h. */
int secret_link(const struct remote_pod *pod, const json_t *files, struct error *err)
        __attribute__((warn_unused_result));
