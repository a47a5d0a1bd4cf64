#include "drivers/oci/cli.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/base/cleanup.h"
#include "runtime/base/clock.h"
#include "runtime/base/execpath.h"
#include "runtime/base/sys.h"

enum { FIRST_FREE_FD = 3, END_MS = 2000 /* a killed process is gone by then */ };

static const uint64_t ns_per_ms = 1000000;
static const char default_path[] = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

static void add_text(struct cli_args *args, struct buf *word, int r) {
        if (r == 0 && args->n >= CLI_ARGS_MAX)
                r = -E2BIG;
        if (r == 0 && args->failed == 0) {
                char *text = word->data ? buf_take(word) : strdup("");

                args->v[args->n] = text;
                args->n += text != NULL;
                r = text ? 0 : -ENOMEM;
        }
        if (args->failed == 0)
                args->failed = r;
}

__attribute__((format(printf, 2, 0))) static int format(struct buf *word, const char *fmt, va_list ap) {
        char *text = NULL;
        const int n = vasprintf(&text, fmt, ap);
        const int r = n < 0 ? -ENOMEM : buf_add(word, text, (size_t) n);

        free(n < 0 ? NULL : text);
        return r;
}

void cli_add(struct cli_args *args, const char *fmt, ...) {
        AUTO_BUF struct buf word = { 0 };
        va_list ap;
        int r;

        va_start(ap, fmt);
        r = format(&word, fmt, ap);
        va_end(ap);
        add_text(args, &word, r);
}

void cli_add_pair(struct cli_args *args, const char *option, const char *fmt, ...) {
        AUTO_BUF struct buf word = { 0 };
        va_list ap;
        int r;

        cli_add(args, "%s", option);
        va_start(ap, fmt);
        r = format(&word, fmt, ap);
        va_end(ap);
        add_text(args, &word, r);
}

void cli_args_deinit(struct cli_args *args) {
        for (size_t i = 0; i < args->n; i++)
                free(args->v[i]);
        *args = (struct cli_args){ .n = 0 };
}

void cli_result_deinit(struct cli_result *result) {
        buf_deinit(&result->out);
}

/* ---- the child ---- */

/*
 * For programs in Go that start, ask and end: their threads hinder each other, and a collection of garbage,
 * of which there is less than memory for it, is done in vain (docs/benchmarks.md).
 */
static const struct {
        const char *name, *text;
} narrow[] = {
        { "GOMAXPROCS", "GOMAXPROCS=1" }, { "GOGC", "GOGC=400" }, /* none below 16 MiB */
};

/* The caller's variables, but messages are in English. Return: owned vector of borrowed strings, or NULL. */
static char **make_env(const struct ctx *ctx, bool wide) {
        static char lc_all[] = "LC_ALL=C", lang[] = "LANG=C";
        size_t n = 0, k = 0;
        char **env;

        while (ctx->environ && ctx->environ[n])
                n++;
        env = calloc(n + 3 + ARRAY_SIZE(narrow), sizeof(*env));
        if (!env)
                return NULL;
        for (size_t i = 0; i < n; i++)
                if (strncmp(ctx->environ[i], "LC_ALL=", 7) != 0 && strncmp(ctx->environ[i], "LANG=", 5) != 0)
                        env[k++] = (char *) (uintptr_t) ctx->environ[i];
        env[k++] = lc_all;
        env[k++] = lang;
        for (size_t i = 0; !wide && i < ARRAY_SIZE(narrow); i++)
                if (!ctx_getenv(ctx, narrow[i].name))
                        env[k++] = (char *) (uintptr_t) narrow[i].text;
        return env;
}

/* A group of its own: what ends our group by a signal does not end a container half-way. */
_Noreturn static void child(char *const argv[], char *const env[], const char *path, const int stdio[3],
                            int status_fd) {
        const struct sigaction action = { .sa_handler = SIG_DFL };
        sigset_t none;
        int e = 0;

        (void) setpgid(0, 0);
        for (int sig = 1; sig < NSIG; sig++)
                (void) sigaction(sig, &action, NULL);
        (void) sigemptyset(&none);
        (void) sigprocmask(SIG_SETMASK, &none, NULL);
        for (int i = 0; i < 3 && e == 0; i++)
                e = dup2(stdio[i], i) < 0 ? errno : 0;
        if (e == 0 && (dup2(status_fd, FIRST_FREE_FD) < 0 || fcntl(FIRST_FREE_FD, F_SETFD, FD_CLOEXEC) < 0))
                e = errno;
        if (e == 0 && (sys_close_range(FIRST_FREE_FD + 1, ~0U, 0) < 0 || chdir("/") < 0))
                e = errno;
        if (e == 0)
                e = exec_in_path(argv, env, path);
        (void) !write(FIRST_FREE_FD, &e, sizeof(e));
        _exit(127);
}

/* ---- the caller ---- */

/** struct call - a call that runs; descriptors owned, -1: closed */
struct call {
        pid_t pid;
        int pidfd, out, err, status;
        int exec_errno; /* 0: it is executed */
        int end_fd;     /* borrowed; not -1: the time begins when it has something to tell */
};

static int pipe_above(int ret[2]) {
        int raw[2];

        if (pipe2(raw, O_CLOEXEC) < 0)
                return -errno;
        for (int i = 0; i < 2; i++) {
                ret[i] = fcntl(raw[i], F_DUPFD_CLOEXEC, FIRST_FREE_FD + 1);
                (void) fd_close(raw[i]);
        }
        return ret[0] < 0 || ret[1] < 0 ? -EMFILE : 0;
}

/* @merged: both of its streams are one, that of errors */
static int call_start(const struct ctx *ctx, const struct cli_args *args, bool merged, struct call *call) {
        AUTO_FD int null = open("/dev/null", O_RDWR | O_CLOEXEC), out = -1, err = -1, status = -1;
        AUTO_FREE char **env = make_env(ctx, args->wide || merged);
        const char *path = ctx_getenv(ctx, "PATH");
        int pair[3][2] = { { -1, -1 }, { -1, -1 }, { -1, -1 } }, r = 0;

        for (int i = 0; r == 0 && i < 3; i++)
                r = pipe_above(pair[i]);
        call->out = pair[0][0];
        call->err = pair[1][0];
        call->status = pair[2][0];
        out = pair[0][1];
        err = pair[1][1];
        status = pair[2][1];
        if (r == 0 && (null < 0 || !env))
                r = null < 0 ? -EMFILE : -ENOMEM;
        if (r < 0)
                return r;
        call->pid = sys_clone(0, &call->pidfd);
        if (call->pid == 0)
                child(args->v, env, path ? path : default_path,
                      (const int[]){ null, merged ? err : out, err }, status);
        if (call->pid < 0)
                return call->pid;
        (void) setpgid(call->pid, call->pid); /* whoever is first */
        return 0;
}

static void keep_tail(char tail[CLI_ERR_KEEP + 1], const char *data, size_t n) {
        const size_t have = strlen(tail);
        size_t drop;

        if (n > CLI_ERR_KEEP) {
                data += n - CLI_ERR_KEEP;
                n = CLI_ERR_KEEP;
        }
        drop = have + n > CLI_ERR_KEEP ? have + n - CLI_ERR_KEEP : 0;
        memmove(tail, tail + drop, have - drop);
        memcpy(tail + have - drop, data, n);
        tail[have - drop + n] = '\0';
        for (size_t i = have - drop; i < have - drop + n; i++)
                if (!tail[i])
                        tail[i] = ' ';
}

/* Reads what is there of one stream. Return: 0, -EFBIG, -ENOMEM. */
static int call_read(struct call *call, int *fd, struct cli_result *ret) {
        char part[16384];
        const ssize_t n = read(*fd, part, sizeof(part));

        if (n <= 0) {
                *fd = fd_close(*fd);
                return 0;
        }
        if (fd == &call->status)
                memcpy(&call->exec_errno, part, sizeof(call->exec_errno));
        else if (fd == &call->err)
                keep_tail(ret->err, part, (size_t) n);
        else
                return buf_add(&ret->out, part, (size_t) n) < 0 ? -EFBIG : 0;
        return 0;
}

/*
 * Until the process has ended, not its streams: an engine leaves a monitor behind that may hold them. What
 * was written before the end is read all the same.
 */
static int call_wait(struct call *call, int timeout_ms, struct cli_result *ret) {
        uint64_t end_ns = clock_ns() + (uint64_t) timeout_ms * ns_per_ms;
        bool ended = false;
        int r = 0;

        while (r == 0) {
                int *const streams[] = { &call->out, &call->err, &call->status };
                struct pollfd fds[5] = { { .fd = ended ? -1 : call->pidfd, .events = POLLIN },
                                         [4] = { .fd = call->end_fd, .events = POLLIN } };
                const uint64_t now = clock_ns();
                int n;

                for (int i = 0; i < 3; i++)
                        fds[i + 1] = (struct pollfd){ .fd = *streams[i], .events = POLLIN };
                if (now >= end_ns && call->end_fd < 0)
                        return -ETIMEDOUT;
                n = poll(fds, 5, ended ? 0 : call->end_fd >= 0 ? -1 : (int) ((end_ns - now) / ns_per_ms) + 1);
                if (n < 0 && errno != EINTR)
                        return -errno;
                if (n == 0 && ended)
                        return 0;
                for (int i = 0; n > 0 && r == 0 && i < 3; i++)
                        if (fds[i + 1].revents)
                                r = call_read(call, streams[i], ret);
                ended = ended || (n > 0 && fds[0].revents);
                if (n > 0 && fds[4].revents) {
                        call->end_fd = -1;
                        end_ns = clock_ns() + (uint64_t) timeout_ms * ns_per_ms;
                        ret->err[0] = '\0';
                }
        }
        return r;
}

/* Return: exit status, 128 + signal. */
static int call_end(struct call *call, bool kill_it) {
        struct pollfd fd = { .fd = call->pidfd, .events = POLLIN };
        int status = 0;

        if (call->pid > 0) {
                if (kill_it && kill(-call->pid, SIGKILL) < 0)
                        (void) sys_pidfd_send_signal(call->pidfd, SIGKILL);
                if (poll(&fd, 1, END_MS) > 0)
                        while (waitpid(call->pid, &status, 0) < 0 && errno == EINTR)
                                ;
        }
        (void) fd_close(call->pidfd);
        (void) fd_close(call->out);
        (void) fd_close(call->err);
        (void) fd_close(call->status);
        return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

/** struct way - how a call differs from others */
struct way {
        bool merged; /* both of its streams are one, that of errors */
        int end_fd;  /* of struct call */
};

static int run(const struct ctx *ctx, const struct cli_args *args, int timeout_ms, const struct way *way,
               struct cli_result *ret, struct error *err) {
        struct call call = { .pidfd = -1, .out = -1, .err = -1, .status = -1, .end_fd = way->end_fd };
        const char *const word = args->n > 1 ? args->v[1] : "";
        size_t n;
        int r;

        if (args->failed || args->n == 0)
                return error_set(err, args->failed ? args->failed : -EINVAL, "command line of %s: %s",
                                 args->n ? args->v[0] : "?", strerror(-args->failed));
        ret->out.max = CLI_OUT_MAX;
        r = call_start(ctx, args, way->merged, &call);
        if (r == 0)
                r = call_wait(&call, timeout_ms, ret);
        ret->exit_code = call_end(&call, r < 0);
        for (n = strlen(ret->err); n > 0 && (ret->err[n - 1] == '\n' || ret->err[n - 1] == ' '); n--)
                ret->err[n - 1] = '\0';
        if (r == 0 && call.exec_errno)
                r = -call.exec_errno;
        if (r == -ETIMEDOUT)
                return error_set(err, r, "'%s %s' did not end within %d s", args->v[0], word,
                                 timeout_ms / 1000);
        if (r == -EFBIG)
                return error_set(err, r, "'%s %s' said more than %d MiB", args->v[0], word,
                                 CLI_OUT_MAX >> 20);
        return r < 0 ? error_set(err, r, "execute '%s %s': %s", args->v[0], word, strerror(-r)) : 0;
}

int cli_run(const struct ctx *ctx, const struct cli_args *args, int timeout_ms, struct cli_result *ret,
            struct error *err) {
        return run(ctx, args, timeout_ms, &(struct way){ .end_fd = -1 }, ret, err);
}

int cli_run_merged(const struct ctx *ctx, const struct cli_args *args, int timeout_ms, struct cli_result *ret,
                   struct error *err) {
        return run(ctx, args, timeout_ms, &(struct way){ .merged = true, .end_fd = -1 }, ret, err);
}

int cli_run_attached(const struct ctx *ctx, const struct cli_args *args, int end_fd, int timeout_ms,
                     struct cli_result *ret, struct error *err) {
        return run(ctx, args, timeout_ms, &(struct way){ .end_fd = end_fd }, ret, err);
}
