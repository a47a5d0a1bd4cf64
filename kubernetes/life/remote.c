#include "kubernetes/life/remote.h"

#include <errno.h>
#include <string.h>

#include "runtime/base/cleanup.h"
#include "runtime/base/clock.h"

#define STEP_MS   UINT64_C(10000)
#define NS_PER_MS UINT64_C(1000000)

/* kube_exec_request.output */
static ssize_t take(void *arg, int stream, const void *data, size_t len) {
        struct remote *r = arg;
        size_t n = len;

        if (stream == 2) {
                n = len < REMOTE_ERR_MAX - r->errors.len ? len : REMOTE_ERR_MAX - r->errors.len;
                return buf_add(&r->errors, data, n) < 0 ? -ENOMEM : (ssize_t) len;
        }
        if (r->taken == r->out.len)
                r->taken = r->out.len = 0;
        n = len < REMOTE_OUT_MAX - r->out.len ? len : REMOTE_OUT_MAX - r->out.len;
        return n > 0 && buf_add(&r->out, data, n) < 0 ? -ENOMEM : (ssize_t) n;
}

int remote_open(struct remote *r, const struct remote_pod *pod, const char *const *argv, bool has_stdin,
                uint64_t deadline_ns, struct error *err) {
        const struct kube_exec_request request = { .ns = pod->ns,
                                                   .pod = pod->pod,
                                                   .container = pod->container,
                                                   .argv = argv,
                                                   .has_stdin = has_stdin,
                                                   .output = take,
                                                   .arg = r };

        r->deadline_ns = deadline_ns;
        return kube_exec_open(pod->kube, &request, &r->exec, err);
}

/* Who runs the command may be slow on purpose, or go on for ever. */
static int step(struct remote *r) {
        const uint64_t now = clock_ns();

        if (now >= r->deadline_ns)
                return error_set(&r->err, -ETIME, "it takes too long: see kubernetes.copy_timeout");
        return kube_exec_step(r->exec,
                              r->deadline_ns - now < STEP_MS * NS_PER_MS
                                      ? (int) ((r->deadline_ns - now) / NS_PER_MS + 1)
                                      : (int) STEP_MS,
                              &r->ended, &r->err);
}

int remote_write(void *arg, const void *data, size_t len) {
        struct remote *r = arg;
        const char *p = data;

        while (len > 0) {
                const ssize_t n = kube_exec_send(r->exec, p, len);
                int k;

                if (n > 0) {
                        p += n;
                        len -= (size_t) n;
                        continue;
                }
                if (n != -EAGAIN)
                        return (int) n;
                if (r->taken < r->out.len) /* nobody reads it meanwhile */
                        r->taken = r->out.len;
                k = step(r);
                if (k < 0)
                        return k;
                if (r->ended)
                        return -EPIPE;
        }
        return 0;
}

ssize_t remote_read(void *arg, const void **ret) {
        struct remote *r = arg;
        size_t n;

        while (r->taken == r->out.len && !r->ended) {
                const int k = step(r);

                if (k < 0)
                        return k;
        }
        n = r->out.len - r->taken;
        *ret = r->out.data + r->taken;
        r->taken = r->out.len;
        return (ssize_t) n;
}

int remote_finish(struct remote *r, struct kube_exec_end *ret, struct error *err) {
        int k = r->ended ? 0 : kube_exec_close_stdin(r->exec);

        if (k == -EPIPE)
                k = 0;
        while (k == 0 && !r->ended) {
                r->taken = r->out.len;
                k = step(r);
        }
        if (k < 0) {
                if (err)
                        *err = r->err;
                return r->err.code ? k : error_set(err, k, "%s", strerror(-k));
        }
        *ret = *kube_exec_result(r->exec);
        return 0;
}

void remote_deinit(struct remote *r) {
        r->exec = kube_exec_free(r->exec);
        buf_deinit(&r->out);
        buf_deinit(&r->errors);
}
