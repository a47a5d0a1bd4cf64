/*
 * DOC: theory of operation
 *
 * This program is static and speaks no TLS: cofferdam-kubernetes does, in processes that are started with the
 * sandbox, while the supervisor can still execute something:
 *
 *   life   makes the pod, watches it, brings the workspace back and ends everything (kubernetes/life/run.c)
 *   serve  starts a process for each command (kubernetes/life/serve.c)
 *
 * Both live as long as their sockets: when the supervisor is killed, life ends the pod.
 *
 * The workspace is a copy. What came back lies in the upper of region 0 as if the file server had put it
 * there, so that landing, diff and apply are those of every driver.
 */
#include "drivers/kubernetes/kubernetes.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "drivers/kubernetes/order.h"
#include "kubernetes/life/run.h"
#include "kubernetes/life/serve.h"
#include "netns/policy.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/clock.h"
#include "runtime/base/escape.h"
#include "runtime/base/fdpass.h"
#include "runtime/base/json.h"
#include "runtime/base/libexec.h"
#include "runtime/base/sys.h"

#define PROGRAM "cofferdam-kubernetes"
#define HOUR_NS UINT64_C(3600000000000)

enum {
        SKIPPED_MAX = 100,
        SKIPPED_PATH_MAX = 512,
        RELEASE_MS = 600000, /* for the process that ends what a dead run left */
        RELEASE_SAID_MAX = 1024,
        END_MS = 10000, /* from the end of its socket to that of a helper, which is killed then */
        COPY_MS = 1800000,
        UNDO_MS = 900000, /* for everything at the end but the copy */
        HOUR_MS = 3600000,
};

struct driver_plan {
        const struct ctx *ctx;
        const struct spec *spec; /* outlives the plan */
        struct copied copied;
        struct kube_names names;
        bool ran; /* report() */
};

/** struct helper - a process of cofferdam-kubernetes */
struct helper {
        pid_t pid;
        int sock; /* owned, -1 */
};

struct sandbox {
        const struct driver_plan *plan;
        const struct sandbox_callbacks *callbacks;
        void *arg;
        struct kube_run_order of;
        struct helper life, serve;
        json_t *ready;   /* what life said, owned */
        json_t *skipped; /* paths that did not come back, the first of them, owned */
        bool lost;
};

bool kubernetes_is_inside(const struct ctx *ctx) {
        bool host = false;

        for (const char *const *e = ctx->environ; e && *e; e++)
                host |= strncmp(*e, "KUBERNETES_SERVICE_HOST=", 24) == 0 && (*e)[24];
        return host && access("/var/run/secrets/kubernetes.io/serviceaccount/token", R_OK) == 0;
}

/* ---- plan ---- */

static int has_program(struct error *err) {
        const int r = libexec_check(PROGRAM);

        return r < 0 ? error_set(err, DRIVER_HOST_LACKS,
                                 "driver 'kubernetes' needs " PROGRAM
                                 ", which is not installed: install it, or build with -Dkubernetes=enabled")
                     : 0;
}

static int kubernetes_probe(const struct ctx *ctx, const struct spec *spec, struct error *err) {
        (void) ctx;
        (void) spec;
        return has_program(err) < 0 ? -ENOTSUP : 0;
}

static struct driver_plan *kubernetes_plan_free(struct driver_plan *plan) {
        if (!plan)
                return NULL;
        copied_deinit(&plan->copied);
        free(plan);
        return NULL;
}

static int kubernetes_plan(const struct ctx *ctx, const struct spec *spec, struct driver_plan **ret,
                           struct error *err) {
        struct driver_plan *plan = calloc(1, sizeof(*plan));
        struct kube_run_order of = { .ctx = ctx, .spec = spec };
        AUTO_JSON json_t *order = NULL;
        struct policy *policy = NULL;
        int r;

        if (!plan)
                return error_set(err, -ENOMEM, "out of memory");
        *plan = (struct driver_plan){ .ctx = ctx, .spec = spec, .copied = COPIED_INIT };
        kube_names_make(&plan->names);
        of.copied = &plan->copied;
        of.names = &plan->names;
        r = has_program(err);
        if (r == 0) /* that it can be read: a pod has no proxy that would go by it */
                r = policy_new(spec->network.mode, spec->network.preset,
                               (const char *const *) spec->network.rules, spec->network.n_rules, &policy,
                               err);
        (void) policy_free(policy);
        if (r == 0)
                r = copied_init(ctx, spec, &plan->copied, err);
        if (r == 0)
                r = order_of_run(&of, &order, err);
        if (r < 0) {
                (void) kubernetes_plan_free(plan);
                return r;
        }
        *ret = plan;
        return 0;
}

static json_t *kubernetes_describe(const struct driver_plan *plan) {
        const struct spec_kubernetes *k = &plan->spec->kubernetes;

        return json_pack("{s:s,s:[O],s:{s:s,s:s,s:s},s:{s:s,s:s*,s:s*,s:s*,s:s*,s:s*}}", "workspace",
                         plan->copied.target, "regions", plan->copied.row, "mechanisms", "isolation",
                         k->sandboxed ? "pod, sandboxed" : "pod", "guard", "copy, judged when it lands",
                         "network", "the cluster's", "kubernetes", "pod", plan->names.pod, "namespace", k->ns,
                         "context", k->context, "kubeconfig", k->kubeconfig, "managed_by", k->managed_by,
                         "domain", k->label_domain);
}

/* ---- processes ---- */

/* In the child. Return: errno */
static int become(const char *word, const int *fds, size_t n, const char *const *env) {
        char *argv[] = { (char *) (uintptr_t) PROGRAM, (char *) (uintptr_t) word, NULL };
        int high[8];
        sigset_t none;

        for (size_t i = 0; i < n; i++) {
                high[i] = fds[i] < 0 ? -1 : fcntl(fds[i], F_DUPFD_CLOEXEC, 16);
                if (fds[i] >= 0 && high[i] < 0)
                        return errno;
        }
        for (size_t i = 0; i < n; i++)
                if (high[i] < 0)
                        (void) close(RUN_SOCK + (int) i);
                else if (dup2(high[i], RUN_SOCK + (int) i) < 0)
                        return errno;
        (void) sys_close_range(RUN_SOCK + (unsigned int) n, ~0U, CLOSE_RANGE_CLOEXEC);
        (void) sigemptyset(&none);
        (void) sigprocmask(SIG_SETMASK, &none, NULL);
        (void) setsid();
        return -libexec_exec(PROGRAM, argv, (char **) (uintptr_t) env);
}

/* @fds: [0] is left for the socket */
static int helper_start(struct helper *h, const struct ctx *ctx, const char *word, int *fds, size_t n,
                        struct error *err) {
        int pair[2];
        int r = fdpass_pair(pair);

        if (r < 0)
                return error_set(err, r, "socket to " PROGRAM ": %s", strerror(-r));
        fds[0] = pair[1];
        h->pid = fork();
        if (h->pid < 0) {
                (void) close(pair[0]);
                (void) close(pair[1]);
                return error_set(err, -errno, "fork: %s", strerror(errno));
        }
        if (h->pid == 0)
                _exit(become(word, fds, n, ctx->environ) == ENOENT ? 127 : 126);
        (void) close(pair[1]);
        h->sock = pair[0];
        return 0;
}

/* Somebody may have stopped it: it could not end. */
static void helper_continue(const struct helper *h) {
        if (h->pid > 0)
                (void) kill(h->pid, SIGCONT);
}

/* Return: as of waitpid(2) */
static int helper_end(struct helper *h) {
        struct pollfd end = { .fd = -1, .events = POLLIN };
        int status = 0;

        h->sock = fd_close(h->sock);
        if (h->pid > 0)
                end.fd = sys_pidfd_open(h->pid);
        if (end.fd >= 0 && poll(&end, 1, END_MS) == 0 && kill(h->pid, SIGKILL) < 0) {
                status = SIGKILL; /* it hangs, or was stopped, and is out of reach */
                h->pid = 0;
        }
        (void) fd_close(end.fd);
        while (h->pid > 0 && waitpid(h->pid, &status, 0) < 0 && errno == EINTR)
                ;
        h->pid = 0;
        return status;
}

/* Return: 0 and @ret (new reference), -EAGAIN, -ECONNRESET (its process ended), -ETIMEDOUT (@deadline_ns; 0:
 * it is known that there is something) */
static int life_hear(const struct sandbox *sb, uint64_t deadline_ns, json_t **ret) {
        struct pollfd p = { .fd = sb->life.sock, .events = POLLIN };
        AUTO_FREE char *text = malloc(RUN_TEXT_MAX);
        const uint64_t now = deadline_ns ? clock_ns() : 0;
        size_t len;
        int r;

        if (!text)
                return -ENOMEM;
        if (deadline_ns && now >= deadline_ns)
                return -ETIMEDOUT;
        if (deadline_ns &&
            poll(&p, 1, deadline_ns - now < HOUR_NS ? (int) ((deadline_ns - now) / 1000000 + 1) : HOUR_MS) <=
                    0)
                return -EAGAIN;
        r = fdpass_recv(sb->life.sock, text, RUN_TEXT_MAX, &len, NULL, 0, NULL);
        if (r < 0)
                return r == -EMSGSIZE ? -EAGAIN : r;
        *ret = json_loadb(text, len, 0, NULL);
        return *ret ? 0 : -EAGAIN;
}

static const char *text_of(const json_t *message, const char *key) {
        const char *text = json_string_value(json_object_get(message, key));

        return text ? text : "";
}

static void notice_skipped(struct sandbox *sb, const json_t *message) {
        struct guard_notice notice = { .type = NOTICE_DENIED };
        const char *path = text_of(message, "path");

        if (json_array_size(sb->skipped) < SKIPPED_MAX)
                (void) json_array_append_new(sb->skipped, json_from_bytes(path, SKIPPED_PATH_MAX));
        (void) snprintf(notice.op, sizeof(notice.op), "export");
        (void) snprintf(notice.rule, sizeof(notice.rule), "%s", text_of(message, "why"));
        (void) snprintf(notice.path, sizeof(notice.path), "%s", path);
        sb->callbacks->notice(sb->arg, &notice);
}

static void tell_export(const struct sandbox *sb, const char *type, const json_t *message) {
        sb->callbacks->event(
                sb->arg, type,
                json_pack("{s:O*,s:O*,s:O*,s:O*,s:O*,s:O*,s:O}", "files", json_object_get(message, "files"),
                          "bytes", json_object_get(message, "bytes"), "changed",
                          json_object_get(message, "changed"), "deleted", json_object_get(message, "deleted"),
                          "head", json_object_get(message, "head"), "reason",
                          json_object_get(message, "text"), "skipped", sb->skipped));
}

/* What may come at any time. */
static void life_say(struct sandbox *sb, const json_t *message) {
        const char *t = text_of(message, "t");

        if (strcmp(t, "warn") == 0)
                sb->callbacks->event(sb->arg, "sandbox_degraded",
                                     json_pack("{s:s,s:s,s:s}", "wanted", "the cluster's part of the run",
                                               "got", "not all of it", "reason", text_of(message, "text")));
        else if (strcmp(t, "skipped") == 0)
                notice_skipped(sb, message);
        else if (strcmp(t, "exported") == 0)
                tell_export(sb, "workspace_exported", message);
        else if (strcmp(t, "lost") == 0) {
                sb->lost = true;
                if (strcmp(text_of(message, "code"), "WORKSPACE_EXPORT_FAILED") == 0)
                        tell_export(sb, "sandbox_workspace_export_failed", message);
                sb->callbacks->lost(sb->arg, text_of(message, "code"), text_of(message, "text"));
        }
}

/* ---- start ---- */

/* Until life says that commands can run. @owner_fd: whose end is the end of the start, -1 */
static int wait_ready(struct sandbox *sb, int owner_fd, struct trace *trace, struct error *err) {
        for (;;) {
                AUTO_JSON json_t *message = NULL;
                struct pollfd fds[2] = { { .fd = sb->life.sock, .events = POLLIN }, { .fd = owner_fd } };
                int r;

                if (poll(fds, 2, -1) < 0 && errno != EINTR)
                        return error_set(err, -errno, "poll: %s", strerror(errno));
                if (fds[1].revents & (POLLHUP | POLLERR)) /* nobody waits for it any more */
                        return error_set(err, -ECANCELED, "stopped before the pod ran");
                if (!fds[0].revents)
                        continue;
                r = life_hear(sb, 0, &message);
                if (r == -EAGAIN)
                        continue;
                if (r < 0)
                        return error_set(err, -EIO, PROGRAM " ended before the pod ran");
                if (strcmp(text_of(message, "t"), "phase") == 0)
                        trace_step(trace, text_of(message, "name"));
                else if (strcmp(text_of(message, "t"), "ready") == 0) {
                        sb->ready = TAKE_PTR(message);
                        return 0;
                } else if (strcmp(text_of(message, "t"), "failed") == 0) {
                        sb->callbacks->lost(sb->arg, text_of(message, "code"), text_of(message, "text"));
                        return error_set(err, -EIO, "%s", text_of(message, "text"));
                } else
                        life_say(sb, message);
        }
}

static int start_life(struct sandbox *sb, const struct start_request *req, struct error *err) {
        const struct copied *copied = &sb->plan->copied;
        AUTO_JSON json_t *order = NULL;
        AUTO_FD int order_file = -1, lower = -1, secrets = -1;
        int fds[5];
        int r;

        r = order_of_run(&sb->of, &order, err);
        if (r < 0)
                return r;
        order_file = order_fd(order);
        if (order_file < 0)
                return error_set(err, order_file, "order of the run: %s", strerror(-order_file));
        if (sb->of.n_secrets > 0 && (secrets = order_values_fd(&sb->of, err)) < 0)
                return secrets;
        lower = open_beneath(copied->pin.fd, ".", O_RDONLY | O_DIRECTORY, 0);
        if (lower < 0)
                return error_set(err, lower, "workspace '%s': %s", ESC(copied->pin.path), strerror(-lower));
        fds[1] = order_file;
        fds[2] = copied->comes_back ? req->upper_fd : -1;
        fds[3] = lower;
        fds[4] = secrets;
        r = helper_start(&sb->life, sb->plan->ctx, "life", fds, 5, err);
        return r < 0 ? r : helper_start(&sb->serve, sb->plan->ctx, "serve", fds, 1, err);
}

static struct sandbox *kubernetes_stop(struct sandbox *sb);
static int kubernetes_exec(struct sandbox *sb, const struct exec_request *req, struct error *err);

static int kubernetes_start(const struct driver_plan *plan, const struct start_request *req,
                            struct sandbox **ret, struct error *err) {
        struct sandbox *sb = calloc(1, sizeof(*sb));
        struct trace trace = req->trace;
        int r;

        if (!sb)
                return error_set(err, -ENOMEM, "out of memory");
        *sb = (struct sandbox){ .plan = plan,
                                .callbacks = req->callbacks,
                                .arg = req->arg,
                                .of = { .ctx = plan->ctx,
                                        .spec = plan->spec,
                                        .copied = &plan->copied,
                                        .names = &plan->names,
                                        .run_id = req->run_id,
                                        .env = req->env,
                                        .n_env = req->n_env,
                                        .secrets = req->secrets,
                                        .n_secrets = req->n_secrets },
                                .life = { .sock = -1 },
                                .serve = { .sock = -1 },
                                .skipped = json_array() };
        r = sb->skipped ? start_life(sb, req, err) : error_set(err, -ENOMEM, "out of memory");
        if (r == 0 && req->meanwhile)
                r = req->meanwhile(req->arg, err);
        if (r == 0)
                r = wait_ready(sb, req->n_keep_fds > 0 ? req->keep_fds[0] : -1, &trace, err);
        if (r == 0 && req->first)
                r = kubernetes_exec(sb, req->first, err);
        if (r < 0) {
                (void) kubernetes_stop(sb);
                return r;
        }
        *ret = sb;
        return 0;
}

/* What was asked for and a pod does not have. */
static json_t *degraded(const struct spec *spec) {
        const struct {
                bool is;
                const char *wanted, *got, *reason;
        } rows[] = {
                { spec->network.mode != NETWORK_OPEN && !spec->kubernetes.network_policy, "network.mode",
                  "what the cluster lets a pod reach",
                  "policies are the administrator's, see images/kubernetes; kubernetes.network_policy asks "
                  "for "
                  "one of the run's own" },
                { spec->network.n_rules > 0, "network.rules", "none of them",
                  "a pod has no proxy of the run's: FQDN policies are the administrator's" },
                { spec->limits.pids > 0, "limits.pids", "the limit of the node", "a pod cannot set it" },
                { spec->limits.open_files > 0, "limits.open_files", "the limit of the node",
                  "a pod cannot set it" },
                { spec->limits.file_size > 0, "limits.file_size", "none", "a pod cannot set it" },
                { spec->home.n_seeds > 0, "home.seeds", "none of them",
                  "a pod has no files of this host: use kubernetes.claude_profiles or kubernetes.volumes" },
        };
        json_t *list = json_array();

        for (size_t i = 0; list && i < ARRAY_SIZE(rows); i++)
                if (rows[i].is)
                        (void) json_array_append_new(list,
                                                     json_pack("{s:s,s:s,s:s}", "wanted", rows[i].wanted,
                                                               "got", rows[i].got, "reason", rows[i].reason));
        return list;
}

static json_t *kubernetes_report(const struct sandbox *sb) {
        const struct spec_kubernetes *k = &sb->plan->spec->kubernetes;
        const char *claim = k->resume_environment ? k->resume_environment : sb->plan->names.claim;

        return json_pack("{s:{s:s,s:s,s:s,s:s},s:s*,s:o*}", "pod", "name", text_of(sb->ready, "pod"), "uid",
                         text_of(sb->ready, "uid"), "namespace", text_of(sb->ready, "namespace"), "node",
                         text_of(sb->ready, "node"), "environment_id", k->environment_volume ? claim : NULL,
                         "degraded", degraded(sb->plan->spec));
}

/* ---- commands ---- */

static int kubernetes_exec(struct sandbox *sb, const struct exec_request *req, struct error *err) {
        AUTO_JSON json_t *command = order_of_command(&sb->of, req);
        struct serve_order order = { .op = SERVE_EXEC, .id = req->id, .tty = req->tty, .size = req->winsize };
        AUTO_FD int file = -1;
        int fds[4];
        size_t n = 1;
        int r;

        if (!command)
                return error_set(err, -EINVAL, "the command: an argument or a variable is not UTF-8");
        file = order_fd(command);
        if (file < 0)
                return error_set(err, file, "the command: %s", strerror(-file));
        fds[0] = file;
        for (int i = 0; i < 3; i++)
                if (!req->tty && req->stdio[i] >= 0) {
                        order.stdio[i] = 1;
                        fds[n++] = req->stdio[i];
                }
        r = fdpass_send(sb->serve.sock, &order, sizeof(order), fds, n);
        return r < 0 ? error_set(err, r, "start the command: %s", strerror(-r)) : 0;
}

static int kubernetes_signal(struct sandbox *sb, uint32_t id, int sig, bool group) {
        const struct serve_order order = { .op = SERVE_SIGNAL, .id = id, .signal = sig, .group = group };

        return fdpass_send(sb->serve.sock, &order, sizeof(order), NULL, 0);
}

/* The kubelet brings it in when it looks at its pods the next time: within a minute or two. */
static int kubernetes_refresh(struct sandbox *sb, const struct file_secret *secret, struct error *err) {
        const struct serve_order order = { .op = SERVE_SECRET, .id = secret->id, .stdio = { 1 } };
        AUTO_JSON json_t *which = order_of_secret(&sb->of, secret->name);
        AUTO_FD int file = order_fd(which);
        int r = file < 0 ? file
                         : fdpass_send(sb->serve.sock, &order, sizeof(order), (int[]){ file, secret->fd }, 2);

        return r < 0 ? error_set(err, r, "replace it: %s", strerror(-r)) : -EINPROGRESS;
}

static size_t kubernetes_poll(struct sandbox *sb, struct pollfd *fds) {
        fds[0] = (struct pollfd){ .fd = sb->life.sock, .events = POLLIN };
        fds[1] = (struct pollfd){ .fd = sb->serve.sock, .events = POLLIN };
        return 2;
}

static void on_life(struct sandbox *sb) {
        AUTO_JSON json_t *message = NULL;
        const int r = life_hear(sb, 0, &message);

        if (r == 0)
                life_say(sb, message);
        else if (r != -EAGAIN && !sb->lost) {
                sb->lost = true;
                sb->callbacks->lost(sb->arg, "SANDBOX_SETUP_FAILED",
                                    PROGRAM " was killed: 'cofferdam gc' ends its pod");
        }
}

static void on_serve(struct sandbox *sb) {
        struct serve_reply reply;
        char lost[1024], why[768];
        int fd = -1;
        size_t len, n = 0;
        const int r = fdpass_recv(sb->serve.sock, &reply, sizeof(reply), &len, &fd, 1, &n);

        if (r == -EAGAIN || r == -EMSGSIZE)
                return;
        if (r < 0 || len != sizeof(reply)) {
                if (!sb->lost)
                        sb->callbacks->lost(sb->arg, "SANDBOX_SETUP_FAILED", PROGRAM " was killed");
                sb->lost = true;
                return;
        }
        reply.text[sizeof(reply.text) - 1] = '\0';
        if (reply.op == SERVE_SECRET) {
                sb->callbacks->refreshed(sb->arg, reply.id, reply.error ? reply.text : NULL);
                return;
        }
        if (!reply.ended) {
                sb->callbacks->exec_started(sb->arg, reply.id, reply.pid, n ? fd : -1);
                return;
        }
        if (n)
                (void) close(fd);
        (void) snprintf(lost, sizeof(lost), "the command was lost: %s: it may have gone on in the pod",
                        escape_str(*reply.text ? reply.text : strerror(reply.error), why, sizeof(why)));
        sb->callbacks->exec_finished(sb->arg, &(struct exec_result){ .id = reply.id,
                                                                     .exit_code = reply.exit_code & 255,
                                                                     .lost = reply.error ? lost : NULL });
}

static void kubernetes_dispatch(struct sandbox *sb, const struct pollfd *fds, size_t n) {
        if (n > 1 && fds[1].revents)
                on_serve(sb);
        if (n > 0 && fds[0].revents && !sb->lost)
                on_life(sb);
}

/* ---- the end ---- */

static struct sandbox *kubernetes_stop(struct sandbox *sb) {
        const uint64_t copy_ms = sb ? sb->plan->spec->kubernetes.copy_timeout_ms : 0;
        const uint64_t deadline_ns =
                clock_ns() + ((copy_ms ? copy_ms : COPY_MS) + UNDO_MS) * UINT64_C(1000000);
        int status;

        if (!sb)
                return NULL;
        helper_continue(&sb->serve);
        helper_continue(&sb->life);
        (void) helper_end(&sb->serve);
        if (sb->life.sock >= 0 && fdpass_send(sb->life.sock, "stop", 4, NULL, 0) == 0)
                for (;;) { /* it brings the workspace back; its own bounds are narrower */
                        AUTO_JSON json_t *message = NULL;
                        const int r = life_hear(sb, deadline_ns, &message);

                        if (r == 0)
                                life_say(sb, message);
                        else if (r != -EAGAIN)
                                break;
                }
        status = helper_end(&sb->life);
        if (WIFSIGNALED(status) && !sb->lost)
                sb->callbacks->lost(sb->arg, "WORKSPACE_EXPORT_FAILED",
                                    PROGRAM " was killed before all of the workspace came back");
        if (status != 0) /* what it said, or could not say: its pod is there */
                sb->callbacks->left(sb->arg);
        json_decref(sb->ready);
        json_decref(sb->skipped);
        free(sb);
        return NULL;
}

/* Reads lines until the end. @ret: the last one, without "cofferdam: ". Return: whether there was an end. */
static bool last_line(int fd, uint64_t deadline, char ret[RELEASE_SAID_MAX]) {
        static const char prefix[] = "cofferdam: ";
        char text[2 * RELEASE_SAID_MAX];
        size_t len = 0;

        for (;;) {
                struct pollfd p = { .fd = fd, .events = POLLIN };
                const uint64_t now = clock_ns();
                char *end;
                ssize_t n;

                if (now >= deadline || poll(&p, 1, (int) ((deadline - now) / 1000000 + 1)) == 0)
                        return false;
                n = read(fd, text + len, sizeof(text) - 1 - len);
                if (n == 0)
                        return true;
                len += n > 0 ? (size_t) n : 0;
                text[len] = '\0';
                while ((end = strchr(text, '\n')) || len == sizeof(text) - 1) {
                        const size_t line = end ? (size_t) (end - text) : len;
                        const size_t skip = strncmp(text, prefix, strlen(prefix)) == 0 ? strlen(prefix) : 0;
                        const size_t said =
                                line - skip < RELEASE_SAID_MAX ? line - skip : RELEASE_SAID_MAX - 1;

                        memcpy(ret, text + skip, said);
                        ret[said] = '\0';
                        len -= line + (end != NULL);
                        memmove(text, text + line + (end != NULL), len + 1);
                }
        }
}

/* Executes @argv and waits for it. @said: its last words. Return: as of waitpid(2), or -errno. */
static int run_helper(const struct ctx *ctx, char **argv, char said[RELEASE_SAID_MAX]) {
        AUTO_FD int out = -1, in = -1;
        int pair[2], status;
        pid_t pid;

        if (pipe2(pair, O_CLOEXEC) < 0)
                return -errno;
        out = pair[0];
        in = pair[1];
        pid = fork();
        if (pid < 0)
                return -errno;
        if (pid == 0) {
                if (dup2(in, STDERR_FILENO) == STDERR_FILENO)
                        (void) !libexec_exec(PROGRAM, argv, (char **) (uintptr_t) ctx->environ);
                _exit(127);
        }
        in = fd_close(in);
        if (!last_line(out, clock_ns() + RELEASE_MS * UINT64_C(1000000), said))
                (void) kill(pid, SIGKILL); /* it hangs, or was stopped */
        while (waitpid(pid, &status, 0) < 0)
                if (errno != EINTR)
                        return -errno;
        return status;
}

/* What a run that died left in the cluster. */
static int kubernetes_reap(const struct ctx *ctx, const json_t *plan, const char *run_id, struct error *err) {
        static const char *const keys[][2] = { { "namespace", "--namespace" },
                                               { "context", "--context" },
                                               { "kubeconfig", "--kubeconfig" },
                                               { "managed_by", "--managed-by" },
                                               { "domain", "--domain" } };
        const json_t *k = json_object_get(plan, "kubernetes");
        char *argv[16] = { (char *) (uintptr_t) PROGRAM, (char *) (uintptr_t) "release",
                           (char *) (uintptr_t) "--pod", (char *) (uintptr_t) text_of(k, "pod") };
        char said[RELEASE_SAID_MAX] = "";
        size_t n = 4;
        int status;

        (void) run_id;
        if (!*text_of(k, "pod"))
                return 0;
        for (size_t i = 0; i < ARRAY_SIZE(keys); i++)
                if (*text_of(k, keys[i][0])) {
                        argv[n++] = (char *) (uintptr_t) keys[i][1];
                        argv[n++] = (char *) (uintptr_t) text_of(k, keys[i][0]);
                }
        status = run_helper(ctx, argv, said);
        return status == 0 ? 0
                           : error_set(err, -EIO, "its pod '%s' may be there: %s", text_of(k, "pod"),
                                       *said                 ? said
                                       : WIFSIGNALED(status) ? PROGRAM " did not end"
                                                             : PROGRAM " could not be executed");
}

const struct driver_ops driver_kubernetes = {
        .name = "kubernetes",
        .elsewhere = true,
        .probe = kubernetes_probe,
        .plan = kubernetes_plan,
        .plan_free = kubernetes_plan_free,
        .describe = kubernetes_describe,
        .start = kubernetes_start,
        .report = kubernetes_report,
        .reap = kubernetes_reap,
        .exec = kubernetes_exec,
        .signal = kubernetes_signal,
        .refresh_file = kubernetes_refresh,
        .poll = kubernetes_poll,
        .dispatch = kubernetes_dispatch,
        .stop = kubernetes_stop,
};
