#include "kubernetes/life/secret.h"

#include <errno.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kubernetes/command.h"
#include "kubernetes/life/exec.h"
#include "kubernetes/life/run.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/escape.h"
#include "runtime/base/file.h"
#include "runtime/base/json.h"
#include "runtime/spec/spec.h"

enum { ORDER_BYTES_MAX = 64 << 10, LINK_MS = 20000, LINK_ERRORS_MAX = 4096 };

/* @data of a Secret, as base64. Return: 0, -ENOMEM. */
static int put_value(json_t *data, const char *name, const void *value, size_t len) {
        char *text = malloc((len + 2) / 3 * 4 + 1);
        int n, r;

        if (!text)
                return -ENOMEM;
        n = EVP_EncodeBlock((unsigned char *) text, value, (int) len);
        r = json_object_set_new(data, name, json_stringn(text, (size_t) n));
        OPENSSL_cleanse(text, (size_t) n);
        free(text);
        return r < 0 ? -ENOMEM : 0;
}

static void forget(struct buf *values) {
        if (values->data)
                OPENSSL_cleanse(values->data, values->len);
}

static int read_values(int fd, struct buf *ret, struct error *err) {
        const int r = lseek(fd, 0, SEEK_SET) < 0 ? -errno : file_read(fd, SECRET_BYTES_MAX, ret);

        return r < 0 ? error_set(err, r, "read the secrets: %s", strerror(-r)) : 0;
}

/* What was refused, without the server's words: a request with values was what it was about. */
static int refused(const struct kube *kube, int r, const char *verb, const char *name,
                   const struct error *why, struct error *err) {
        const int http = kube_failure(kube)->http;

        if (r == -EPERM)
                return error_set(err, r,
                                 "%s Secret '%s': HTTP 403: it takes the right to %s secrets, see the Role "
                                 "ironflow-worker-secrets of images/kubernetes/rbac.yaml, and room in the "
                                 "namespace's quota",
                                 verb, name, verb);
        if (http >= 400)
                return error_set(err, r, "%s Secret '%s': HTTP %d%s", verb, name, http,
                                 http == 404 ? ": it is gone"
                                 : http == 422
                                         ? ": the files of a run are at most 1 MiB together in a cluster"
                                         : "");
        return error_set(err, r, "%s Secret '%s': %s", verb, name,
                         r == -EBADMSG || r == -EEXIST ? strerror(-r) : why->msg);
}

static int fill(json_t *object, const json_t *files, const struct buf *values) {
        json_t *data = json_object();
        size_t i, at = 0;
        const json_t *row;

        if (json_object_set_new(object, "data", data) < 0)
                return -ENOMEM;
        json_array_foreach(files, i, row) {
                const char *name = json_string_value(json_object_get(row, "name"));
                const json_int_t len = json_integer_value(json_object_get(row, "len"));

                if (!name || len <= 0 || (uint64_t) len > values->len - at)
                        return -EINVAL;
                if (put_value(data, name, values->data + at, (size_t) len) < 0)
                        return -ENOMEM;
                at += (size_t) len;
        }
        return 0;
}

int secret_make(struct kube *kube, const struct secret_request *request, json_t **ret, struct error *err) {
        AUTO_BUF struct buf values = { 0 };
        json_t *meta = json_object_get(request->object, "metadata");
        const char *name = json_string_value(json_object_get(meta, "name"));
        struct error why = { 0 };
        int r = read_values(request->values_fd, &values, err);

        if (r == 0) {
                r = fill(request->object, request->files, &values);
                /* it alone: with a further owner, the Secret would outlive the pod */
                if (r == 0 &&
                    json_object_set_new(meta, "ownerReferences",
                                        json_pack("[{s:s,s:s,s:s,s:s,s:b,s:b}]", "apiVersion", "v1", "kind",
                                                  "Pod", "name", request->pod_name, "uid", request->pod_uid,
                                                  "controller", 0, "blockOwnerDeletion", 0)) < 0)
                        r = -ENOMEM;
                if (r < 0)
                        (void) error_set(err, r, "secrets of the run: %s", strerror(-r));
        }
        forget(&values);
        if (r < 0)
                return r;
        r = kube_create(kube, KUBE_SECRET, request->ns, request->object, ret, &why);
        (void) json_object_del(request->object, "data");
        return r < 0 ? refused(kube, r, "create", name, &why, err) : 0;
}

int secret_link(const struct remote_pod *pod, const json_t *files, struct error *err) {
        static const char script[] = "while [ $# -gt 0 ]; do mkdir -p -- \"$(dirname -- \"$1\")\" && "
                                     "ln -s -- \"" SECRET_DIR "/$2\" \"$1\" || exit 1; shift 2; done";
        const char *argv[4 + 2 * SECRETS_MAX + 1] = { "sh", "-c", script, "sh" };
        const struct kube_exec_request request = {
                .ns = pod->ns, .pod = pod->pod, .container = pod->container, .argv = argv
        };
        AUTO_BUF struct buf errors = { 0 };
        struct kube_exec_end end = { 0 };
        size_t i, n = 4;
        const json_t *row;
        int r;

        json_array_foreach(files, i, row) {
                const char *path = json_string_value(json_object_get(row, "path"));

                if (!path || n + 2 >= ARRAY_SIZE(argv))
                        continue;
                argv[n++] = path;
                argv[n++] = json_string_value(json_object_get(row, "name"));
        }
        if (n == 4)
                return 0;
        r = kube_exec_collect(pod->kube, &request, NULL, LINK_ERRORS_MAX, LINK_MS, NULL, &errors, &end, err);
        if (r < 0)
                return error_wrap(err, r, "links to secrets");
        return end.exit_code == 0
                       ? 0
                       : error_set(err, -EIO, "links to secrets: sh inside the sandbox ended with %d: %s",
                                   end.exit_code, ESC(buf_cstr(&errors)));
}

/* ---- the process that replaces one ---- */

/* Return: 0, -errno. */
static int replace(const char *const *env, struct error *err) {
        AUTO_BUF struct buf text = { 0 }, value = { 0 };
        AUTO_JSON json_t *order = NULL;
        AUTO_JSON json_t *data = json_object();
        AUTO_JSON json_t *patch = json_pack("{s:O*}", "data", data);
        AUTO_KUBE struct kube *kube = NULL;
        struct kube_config_from from = { .environ = env };
        struct kube_config *config = NULL;
        const char *ns = NULL, *secret, *key;
        struct error why = { 0 };
        int r;

        if (lseek(EXEC_ORDER, 0, SEEK_SET) < 0 || file_read(EXEC_ORDER, ORDER_BYTES_MAX, &text) < 0)
                return error_set(err, -EIO, "order: it cannot be read");
        order = json_loadb(buf_cstr(&text), text.len, 0, NULL);
        if (!order || json_unpack(order, "{s?s,s?s,s?s,s:s,s:s}", "context", &from.context, "file",
                                  &from.file, "ns", &ns, "secret", &secret, "key", &key) < 0)
                return error_set(err, -EINVAL, "order: it is not one");
        r = read_values(STDIN_FILENO, &value, err);
        if (r == 0 && (!data || !patch || put_value(data, key, value.data, value.len) < 0))
                r = error_set(err, -ENOMEM, "out of memory");
        forget(&value);
        if (r == 0)
                r = kube_config_load(&from, &config, err);
        if (r < 0)
                return r;
        r = kube_open_consume(config, &kube, err);
        if (r < 0) {
                (void) kube_config_free(config);
                return r;
        }
        r = kube_patch(kube, KUBE_SECRET, ns, secret, patch, NULL, &why);
        return r < 0 ? refused(kube, r, "patch", secret, &why, err) : 0;
}

int command_secret(int argc, char **argv, const char *const *environ_) {
        struct exec_report report = { .ended = true };
        struct error err = { 0 };
        int r;

        (void) argc;
        (void) argv;
        r = replace(environ_, &err);
        return exec_tell(&report, r, &err);
}
