/*
 * DOC: theory of operation
 *
 *   supervisor ── fork ── caller ── CLI run ──► engine ──► container: pid 1 = this program (inside.c)
 *       │  ◄──── connects to <run>/ctl/socket, which is bound into it ────────────────┘
 *       └── fork ── injecting process (inject.c): enters, mounts, hands pid 1 the control socket, ends
 *
 * The engine is told of two binds, a user and limits, and of no path of the run's. Its command line is called
 * to make the container; nothing of a command goes through it, so that a command costs what it costs in a
 * native sandbox, and an engine that dies takes no command with it that it does not run.
 *
 * One call makes and removes the container of a run that is for one command: it stays attached, and ends when
 * the engine has removed what it made (--rm), as the engine's own `run` does. Only where it says otherwise,
 * or was ended by somebody, does the caller call `rm`. A run that stays is --detach, since the engine's
 * client takes 30 MB while it waits: its caller calls `rm` at the end.
 *
 * Nothing is left whoever dies: without the supervisor pid 1 ends, and with it the container, which the
 * engine removes, and the caller sees to that. Without caller and engine, what is left is a name, which gc
 * finds by its labels.
 *
 * The supervisor executes nothing once commands run (runtime/run/confine.c): hence the caller.
 */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "drivers/native/plan.h"
#include "drivers/native/probe.h"
#include "drivers/native/setup.h"
#include "drivers/oci/oci.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/escape.h"
#include "runtime/base/fdpass.h"
#include "runtime/base/sys.h"

enum {
        RUN_MS = 120000, /* make a container of an image that is there, until pid 1 calls */
        REMOVE_MS = 10000,
        ENGINE_FAILED = 125, /* exit status of `run` for what is not the container's */
        WORD_MS = 20000,     /* from pid 1's end to the engine's word on it */
        REMOVE_TRIES = 3,
        REMOVE_WAIT_MS = 20,
        REMOVE_WAITS = 50,
        END_ALL_MS = REMOVE_MS + REMOVE_TRIES * REMOVE_MS + 2000,
};

/* ---- removal ---- */

static int remove_once(const struct ctx *ctx, const char *program, const char *name) {
        AUTO_CLI_ARGS struct cli_args args = { .n = 0 };
        AUTO_CLI_RESULT struct cli_result result = { 0 };
        int r;

        cli_add(&args, "%s", program);
        cli_add(&args, "rm");
        cli_add(&args, "--force");
        cli_add(&args, "--volumes");
        if (strcmp(program, "podman") == 0)
                cli_add_pair(&args, "--time", "0");
        cli_add(&args, "%s", name);
        r = cli_run(ctx, &args, REMOVE_MS, &result, NULL);
        if (r < 0)
                return r;
        if (strcasestr(result.err, "already in progress"))
                return -EAGAIN;
        r = result.exit_code == 0 ? 0 : oci_failure(result.err);
        return r == -ESRCH ? 0 : r;
}

int oci_remove(const struct ctx *ctx, const char *program, const char *name) {
        int r = -EAGAIN, tries = 0, waits = 0;

        while (r < 0 && r != DRIVER_HOST_LACKS && tries < REMOVE_TRIES && waits < REMOVE_WAITS) {
                if (tries + waits > 0)
                        (void) poll(NULL, 0, REMOVE_WAIT_MS);
                r = remove_once(ctx, program, name);
                if (r == -EAGAIN) /* the engine removes it itself at this moment */
                        waits++;
                else
                        tries++;
        }
        return r;
}

void oci_reap(const struct ctx *ctx, const char *program, const char *run_id) {
        char name[96];

        (void) snprintf(name, sizeof(name), "cofferdam-%s", run_id);
        (void) !oci_remove(ctx, program, name); /* gc comes again */
}

/* Engines that were never used are not asked: podman of a user leaves a process behind. */
static int mark_used(const struct ctx *ctx, const char *program, bool make) {
        AUTO_FREE char *path = NULL;
        int fd;

        if (!ctx->state_dir || asprintf(&path, "%s/used-%s", ctx->state_dir, program) < 0)
                return -ENOENT;
        fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | (make ? O_CREAT : 0), 0600);
        return fd < 0 ? -errno : fd;
}

int oci_state_dir(const struct ctx *ctx) {
        AUTO_FREE char *path = ctx->state_dir ? strdup(ctx->state_dir) : NULL;

        if (!path)
                return ctx->state_dir ? -ENOMEM : -ENOENT;
        for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
                *slash = '\0';
                (void) mkdir(path, 0700); /* the last one says what is wrong */
                *slash = '/';
        }
        return mkdir(path, 0700) < 0 && errno != EEXIST ? -errno : 0;
}

int oci_hold(const struct ctx *ctx, const char *program) {
        AUTO_FD int fd = -1;
        int r;

        r = oci_state_dir(ctx);
        if (r < 0)
                return r;
        fd = mark_used(ctx, program, true);
        if (fd < 0)
                return fd;
        do
                r = flock(fd, LOCK_SH);
        while (r < 0 && errno == EINTR);
        return r < 0 ? -errno : TAKE_FD(fd);
}

/* The names of the containers that are of runs of this state directory, one a line. */
static int list_ours(const struct ctx *ctx, const char *program, struct cli_result *ret, struct error *err) {
        AUTO_CLI_ARGS struct cli_args args = { .n = 0 };
        int r;

        cli_add(&args, "%s", program);
        cli_add(&args, "ps");
        cli_add(&args, "--all");
        cli_add_pair(&args, "--filter", "label=" OCI_MANAGED_LABEL "=" OCI_MANAGED_BY);
        cli_add_pair(&args, "--filter", "label=" OCI_STATE_LABEL "=%s", ctx->state_dir);
        cli_add_pair(&args, "--format", "{{.Names}}");
        r = cli_run(ctx, &args, REMOVE_MS, ret, err);
        if (r < 0 || ret->exit_code == 0)
                return r;
        return error_set(err, -EIO, "%s ps: %s", program, ESC(oci_words(ret->err)));
}

int oci_sweep(const struct ctx *ctx, const char *program, const struct driver_sweep *sweep,
              struct error *err) {
        static const char prefix[] = OCI_NAME, accounts[] = OCI_ACCOUNTS_NAME;
        AUTO_CLI_RESULT struct cli_result result = { 0 };
        AUTO_FD int used = mark_used(ctx, program, false);
        char *name, *rest = NULL;
        bool in_use;
        int r;

        if (used < 0)
                return 0;
        in_use = flock(used, LOCK_EX | LOCK_NB) < 0; /* by oci_hold() */
        r = list_ours(ctx, program, &result, err);
        if (r < 0 || !result.out.data)
                return r;
        for (name = strtok_r(result.out.data, "\n", &rest); name; name = strtok_r(NULL, "\n", &rest)) {
                const char *const id = name + sizeof(prefix) - 1;

                if (strncmp(name, prefix, sizeof(prefix) - 1) != 0 ||
                    (strncmp(id, accounts, sizeof(accounts) - 1) == 0 ? in_use
                                                                      : sweep->lives(sweep->arg, id)))
                        continue;
                if (oci_remove(ctx, program, name) == 0)
                        sweep->removed(sweep->arg, id);
        }
        return 0;
}

/* ---- the caller ---- */

/** struct caller - what it needs; borrowed */
struct caller {
        const struct ctx *ctx;
        const struct cli_args *args;
        const char *program, *name, *run_id;
        int sock; /* to the supervisor, whose end is the order to end */
        bool detached;
};

/** struct word - the caller to the supervisor, once at most: the call ended before its time */
struct word {
        int code;
        char text[ERROR_MSG_MAX];
};

/* Whether the container @name is one of this run, which has none that lives. */
static bool is_stale(const struct caller *c) {
        AUTO_CLI_ARGS struct cli_args args = { .n = 0 };
        AUTO_CLI_RESULT struct cli_result result = { 0 };
        char want[128];

        cli_add(&args, "%s", c->program);
        cli_add(&args, "inspect");
        cli_add_pair(&args, "--format", "{{index .Config.Labels \"" OCI_RUN_LABEL "\"}}");
        cli_add(&args, "%s", c->name);
        (void) snprintf(want, sizeof(want), "%s\n", c->run_id);
        return cli_run(c->ctx, &args, REMOVE_MS, &result, NULL) == 0 && result.exit_code == 0 &&
               strcmp(buf_cstr(&result.out), want) == 0;
}

/* Whether the supervisor wants no container any more, or is gone. */
static bool is_over(const struct caller *c) {
        struct pollfd fd = { .fd = c->sock, .events = POLLIN };

        return poll(&fd, 1, 0) > 0;
}

/*
 * run, until it ends. @ret_removed: the container was made, has ended, and the engine has removed it and has
 * nothing to say of that. Return: 0: it ended as it should, or when it should; -errno as oci_call().
 */
static int call_run(const struct caller *c, bool *ret_removed, struct error *err) {
        AUTO_CLI_RESULT struct cli_result result = { 0 };
        const int r = cli_run_attached(c->ctx, c->args, c->sock, REMOVE_MS, &result, err);

        *ret_removed = r == 0 && !c->detached && result.exit_code != ENGINE_FAILED && !result.err[0];
        if (r == 0 && (is_over(c) || (c->detached && result.exit_code == 0)))
                return 0;
        return *ret_removed
                       ? error_set(err, -ECONNRESET, "the container's first process died: exit status %d",
                                   result.exit_code)
                       : oci_ended(c->ctx, c->args, r, &result, err);
}

/* The same with one remedy for a name that is taken. */
static int make(const struct caller *c, bool *ret_removed, struct error *err) {
        int r = call_run(c, ret_removed, err);

        if (r != -EEXIST || !is_stale(c) || oci_remove(c->ctx, c->program, c->name) < 0)
                return r;
        return call_run(c, ret_removed, err);
}

_Noreturn static void caller_main(struct caller *c) {
        AUTO_FD int null = open("/dev/null", O_RDWR | O_CLOEXEC);
        struct error err = { 0 };
        struct word word = { 0 };
        bool removed = false;
        size_t len;
        char none;

        (void) setpgid(0, 0);
        (void) prctl(PR_SET_NAME, "cofferdam-oci", 0, 0, 0);
        for (int i = 0; null >= 0 && i < 3; i++)
                (void) dup2(null, i);
        confine_fds(&c->sock, 1);
        word.code = make(c, &removed, &err);
        if (word.code < 0) {
                (void) snprintf(word.text, sizeof(word.text), "%s", err.msg);
                (void) !fdpass_send(c->sock, &word, sizeof(word), NULL, 0);
        }
        while (fdpass_recv(c->sock, &none, sizeof(none), &len, NULL, 0, NULL) >= 0)
                ; /* the end of file is all there is */
        _exit(!removed && word.code != -EEXIST && oci_remove(c->ctx, c->program, c->name) < 0);
}

static int caller_start(struct caller *c, struct container *ret, struct error *err) {
        AUTO_FD int theirs = -1;
        int pair[2], r;

        r = fdpass_pair(pair);
        if (r < 0)
                return error_set(err, r, "socketpair: %s", strerror(-r));
        ret->caller_sock = pair[0];
        c->sock = theirs = pair[1];
        ret->caller = sys_clone(0, &ret->caller_pidfd);
        if (ret->caller == 0)
                caller_main(c);
        if (ret->caller > 0)
                return 0;
        r = ret->caller;
        ret->caller = 0;
        return error_set(err, r, "start the process that calls the engine: %s", strerror(-r));
}

void container_end(struct container *c) {
        if (c->caller > 0)
                (void) shutdown(c->caller_sock, SHUT_WR);
}

void container_remove(struct container *c) {
        struct pollfd fd = { .fd = c->caller_pidfd, .events = POLLIN };

        c->conn = fd_close(c->conn);
        c->pidfd = fd_close(c->pidfd);
        if (c->caller <= 0)
                return;
        container_end(c);
        if (poll(&fd, 1, END_ALL_MS) <= 0)
                (void) sys_pidfd_send_signal(c->caller_pidfd, SIGKILL);
        while (waitpid(c->caller, NULL, 0) < 0 && errno == EINTR)
                ;
        c->caller = 0;
        c->caller_pidfd = fd_close(c->caller_pidfd);
        c->caller_sock = fd_close(c->caller_sock);
}

/* ---- the socket that pid 1 calls ---- */

/* <run>/ctl with an empty place for the program and a socket that everyone inside may call. @ret_dir: owned
 */
static int make_ctl(int run_fd, int *ret_dir) {
        struct sockaddr_un addr = { .sun_family = AF_UNIX };
        AUTO_FD int dir = -1, point = -1, sock = -1;

        if (mkdirat(run_fd, "ctl", 0755) < 0 && errno != EEXIST)
                return -errno;
        dir = open_beneath(run_fd, "ctl", O_RDONLY | O_DIRECTORY, 0);
        if (dir < 0)
                return dir;
        point = openat(dir, "init", O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
        sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
        if (fchmod(dir, 0755) < 0 || point < 0 || sock < 0)
                return -errno;
        (void) snprintf(addr.sun_path, sizeof(addr.sun_path), "/proc/self/fd/%d/socket", dir);
        if (bind(sock, (const struct sockaddr *) &addr, sizeof(addr)) < 0 ||
            fchmodat(dir, "socket", 0666, 0) < 0 || listen(sock, 1) < 0)
                return -errno;
        *ret_dir = TAKE_FD(dir);
        return TAKE_FD(sock);
}

/* What the caller says of the call that ended. Return: its code, -ETIMEDOUT, with a message. */
static int hear_caller(const struct container *c, int timeout_ms, struct error *err) {
        struct pollfd fd = { .fd = c->caller_sock, .events = POLLIN };
        struct word word;
        size_t len;

        if (poll(&fd, 1, timeout_ms) <= 0 ||
            fdpass_recv(c->caller_sock, &word, sizeof(word), &len, NULL, 0, NULL) < 0 || len != sizeof(word))
                return error_set(err, -ECONNRESET, "the container's first process died");
        word.text[sizeof(word.text) - 1] = '\0';
        return error_set(err, word.code, "%s", word.text);
}

/* Waits for pid 1, and takes hold of it while its connection says that it lives. */
static int await_call(int sock, struct container *c, struct error *err) {
        struct pollfd fds[2] = { { .fd = sock, .events = POLLIN },
                                 { .fd = c->caller_sock, .events = POLLIN } };
        struct ucred peer;
        socklen_t size = sizeof(peer);
        int r;

        do
                r = poll(fds, 2, RUN_MS);
        while (r < 0 && errno == EINTR);
        if (r == 0)
                return error_set(err, -ETIMEDOUT, "the container's first process did not call within %d s",
                                 RUN_MS / 1000);
        if (!fds[0].revents)
                return hear_caller(c, 0, err);
        c->conn = accept4(sock, NULL, NULL, SOCK_CLOEXEC);
        if (c->conn < 0 || getsockopt(c->conn, SOL_SOCKET, SO_PEERCRED, &peer, &size) < 0)
                return error_set(err, -errno, "call of the container's first process: %s", strerror(errno));
        if (peer.pid <= 0)
                return error_set(err, -ENOTSUP,
                                 "the engine's containers are in a process ID namespace that is not seen "
                                 "here: run cofferdam where the engine runs");
        c->pidfd = sys_pidfd_open(peer.pid);
        if (c->pidfd < 0)
                return error_set(err, c->pidfd, "the container's first process: %s", strerror(-c->pidfd));
        fds[0].fd = c->conn;
        do
                r = poll(fds, 1, 0);
        while (r < 0 && errno == EINTR);
        if (r != 0) /* it has nothing to say: it is gone */
                return hear_caller(c, WORD_MS, err);
        c->pid = peer.pid;
        return 0;
}

/* ---- the start ---- */

static int link_of(const char *link, char *ret, size_t size) {
        const ssize_t n = readlink(link, ret, size - 1);

        if (n < 0)
                return -errno;
        ret[n] = '\0';
        return (size_t) n == size - 1 ? -ENAMETOOLONG : 0;
}

int container_start(const struct driver_plan *plan, const struct start_request *req, struct container *c,
                    struct error *err) {
        const char *const run_id = req->run_id;
        const int run_fd = req->run_fd;
        AUTO_CLI_ARGS struct cli_args args = { .n = 0 };
        char link[32], run_dir[PATH_MAX], exe[PATH_MAX], name[96];
        struct caller caller = { .ctx = plan->ctx,
                                 .args = &args,
                                 .program = plan->oci->program,
                                 .name = name,
                                 .run_id = run_id,
                                 .detached = !req->first };
        AUTO_FD int sock = -1, ctl = -1, used = -1;
        int r;

        (void) snprintf(link, sizeof(link), "/proc/self/fd/%d", run_fd);
        (void) snprintf(name, sizeof(name), "cofferdam-%s", run_id);
        r = link_of(link, run_dir, sizeof(run_dir));
        if (r == 0)
                r = link_of("/proc/self/exe", exe, sizeof(exe));
        if (r < 0)
                return error_set(err, r, "paths of the run's directory and of this program: %s",
                                 strerror(-r));
        r = oci_args(plan, req, run_dir, exe, &args, err);
        if (r < 0)
                return r;
        if (plan->oci->outside && req->n_secrets > 0)
                return error_set(
                        err, -ENOTSUP,
                        "CAPABILITY_UNSUPPORTED: secrets: driver 'docker' of a user has no place for "
                        "files: use --driver podman");
        sock = make_ctl(run_fd, &ctl);
        if (sock < 0)
                return error_set(err, sock, "socket for the container: %s", strerror(-sock));
        used = mark_used(plan->ctx, plan->oci->program, true); /* without it gc would miss what is left */
        r = caller_start(&caller, c, err);
        if (r == 0)
                r = await_call(sock, c, err);
        (void) unlinkat(ctl, "socket", 0); /* nobody else is to call */
        return r;
}
