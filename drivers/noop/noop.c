/*
 * DOC: theory of operation
 *
 * The supervisor itself starts the commands: fork, a session of their own, exec. It is the reaper of all
 * their descendants (PR_SET_CHILD_SUBREAPER), so stop() finds and kills what has left its session too. One
 * epoll descriptor stands for all commands in the supervisor's poll(2).
 */
#include "drivers/noop/noop.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "drivers/noop/fence.h"
#include "runtime/base/block.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/execpath.h"
#include "runtime/base/file.h"
#include "runtime/base/json.h"
#include "runtime/base/sys.h"
#include "runtime/spec/keys.h"

enum { COMMANDS_MAX = 64, PIDS_MAX_BYTES = 1 << 20, JSON_STRING_MAX = 4096 };

struct driver_plan {
        const struct ctx *ctx;
        char *workspace; /* owned */
        char **env;      /* NULL-terminated; vector and strings owned */
        size_t n_env;
        struct fence *fence; /* what commands are kept from; NULL: nothing. Owned */
        char *why;           /* with a fence: why there is no more than that; owned */
};

struct command {
        uint32_t id; /* 0: free */
        pid_t pid;
        int pidfd; /* owned */
};

struct sandbox {
        const struct driver_plan *plan;
        const struct sandbox_callbacks *callbacks;
        void *arg;
        int epoll_fd; /* owned */
        struct command commands[COMMANDS_MAX];
};

/* ---- plan ---- */

/* What only isolation could keep is not taken silently. */
static int check(const struct spec *spec, struct error *err) {
        const struct {
                bool asked;
                const char *key;
        } rows[] = {
                { spec->n_mounts > 0, "mounts" },
                { spec->home.n_seeds > 0, "home.seed" },
                { spec->user != NULL, "user" },
                { spec->image != NULL, "image" },
                { spec->build.dockerfile || spec->build.context, "build" },
                { spec->rootfs != NULL, "rootfs" },
                { spec->guard.n_rules > 0, "guard.rules" },
                { spec->workspace.mode != WORKSPACE_DIRECT, "workspace.mode" },
                { spec->limits.memory > 0, "limits.memory" },
                { spec->limits.cpus != NULL, "limits.cpus" },
                { spec->limits.pids > 0, "limits.pids" },
                { spec->limits.disk > 0, "limits.disk" },
                /* the built-in "none" is what nobody asked for */
                { spec->network.mode != NETWORK_OPEN &&
                          spec->tier_of[key_index(key_find(SECTION_NETWORK, "mode"))] != TIER_BUILTIN,
                  "network.mode" },
        };

        for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
                if (rows[i].asked)
                        return error_set(err, -ENOTSUP,
                                         "CAPABILITY_UNSUPPORTED: %s: driver 'noop' runs commands on the "
                                         "host as they are",
                                         rows[i].key);
        return 0;
}

static struct driver_plan *noop_plan_free(struct driver_plan *plan) {
        if (!plan)
                return NULL;
        for (size_t i = 0; i < plan->n_env; i++)
                free(plan->env[i]);
        free((void *) plan->env);
        plan->fence = fence_free(plan->fence);
        free(plan->why);
        free(plan->workspace);
        free(plan);
        return NULL;
}

static bool same_name(const char *entry, const char *name) {
        const size_t n = strlen(name);

        return strncmp(entry, name, n) == 0 && entry[n] == '=';
}

/* The caller's own environment, with what the specification sets. */
static int fill_env(struct driver_plan *plan, const struct spec *spec) {
        size_t n = 0;

        const char *const *from = plan->fence ? NULL : plan->ctx->environ; /* a fence has its own */

        while (from && from[n])
                n++;
        plan->env = calloc(n + spec->n_env + 1, sizeof(char *));
        if (!plan->env)
                return -ENOMEM;
        for (size_t i = 0; i < n; i++) {
                bool replaced = false;

                for (size_t k = 0; k < spec->n_env; k++)
                        replaced |= spec->env[k].value && same_name(from[i], spec->env[k].name);
                if (replaced)
                        continue;
                plan->env[plan->n_env] = strdup(from[i]);
                if (!plan->env[plan->n_env++])
                        return -ENOMEM;
        }
        for (size_t k = 0; k < spec->n_env; k++) {
                if (!spec->env[k].value)
                        continue;
                if (asprintf(&plan->env[plan->n_env], "%s=%s", spec->env[k].name, spec->env[k].value) < 0)
                        return -ENOMEM;
                plan->n_env++;
        }
        return 0;
}

static int make_plan(const struct ctx *ctx, const struct spec *spec, bool fenced, struct driver_plan **ret,
                     struct error *err) {
        const char *source = spec->workspace.source ? spec->workspace.source : ctx->cwd;
        struct driver_plan *plan;
        int r;

        r = check(spec, err);
        if (r < 0)
                return r;
        plan = calloc(1, sizeof(*plan));
        if (!plan || !source || !(plan->workspace = strdup(source)) ||
            (fenced && !(plan->why = strdup(err ? err->msg : "")))) {
                (void) noop_plan_free(plan);
                return source ? error_set(err, -ENOMEM, "out of memory")
                              : error_set(err, -ENOENT, "no workspace: the current directory was deleted");
        }
        plan->ctx = ctx;
        r = fenced ? fence_new(ctx, spec, plan->workspace, &plan->fence, err) : 0;
        if (r < 0) {
                (void) noop_plan_free(plan);
                return r;
        }
        r = fill_env(plan, spec);
        if (r < 0) {
                (void) noop_plan_free(plan);
                return error_set(err, r, "out of memory");
        }
        *ret = plan;
        return 0;
}

static int noop_plan(const struct ctx *ctx, const struct spec *spec, struct driver_plan **ret,
                     struct error *err) {
        return make_plan(ctx, spec, false, ret, err);
}

/* @err: comes with what another driver said */
static int fenced_plan(const struct ctx *ctx, const struct spec *spec, struct driver_plan **ret,
                       struct error *err) {
        return make_plan(ctx, spec, true, ret, err);
}

static json_t *noop_describe(const struct driver_plan *plan) {
        return json_pack("{s:o,s:[],s:{s:s},s:{s:o,s:I,s:I},s:[{s:s,s:s,s:s}],s:{s:s,s:s}}", "workspace",
                         json_from_bytes(plan->workspace, JSON_STRING_MAX), "regions", "mechanisms",
                         "isolation", "none", "user", "name",
                         json_from_bytes(plan->ctx->user_name, JSON_STRING_MAX), "uid",
                         (json_int_t) plan->ctx->uid, "gid", (json_int_t) plan->ctx->gid, "degraded",
                         "wanted", "isolation", "got", "none: commands run on the host", "reason",
                         "driver 'noop', or mode 'none', was asked for", "skipped", "reason",
                         "the operator asked for it", "remedy", "leave out --driver noop and --mode none");
}

static json_t *fenced_describe(const struct driver_plan *plan) {
        static const char got[] =
                "landlock and seccomp alone: no guard, no namespaces, names and processes of the "
                "host can be seen";

        return json_pack("{s:o,s:[],s:{s:s,s:s,s:s},s:{s:o,s:I,s:I},s:[{s:s,s:s,s:o}],s:{s:o,s:s}}",
                         "workspace", json_from_bytes(plan->workspace, JSON_STRING_MAX), "regions",
                         "mechanisms", "isolation", "landlock", "guard", "none", "network", "none", "user",
                         "name", json_from_bytes(plan->ctx->user_name, JSON_STRING_MAX), "uid",
                         (json_int_t) plan->ctx->uid, "gid", (json_int_t) plan->ctx->gid, "degraded",
                         "wanted", "sandbox", "got", got, "reason",
                         json_from_bytes(plan->why, JSON_STRING_MAX), "skipped", "reason",
                         json_from_bytes(plan->why, JSON_STRING_MAX), "remedy",
                         "'cofferdam doctor' says what is missing and what to do about it");
}

/* ---- commands ---- */

static const char *path_of(char *const *env) {
        for (; *env; env++)
                if (same_name(*env, "PATH"))
                        return *env + 5;
        return "/bin:/usr/bin"; /* as execvp(3) */
}

/* In the child. Return: errno, negative that of the working directory. */
static int become(const struct exec_request *req, const struct driver_plan *plan, char *const *env, int tty) {
        int fds[3];
        sigset_t none;

        (void) setsid();
        for (int i = 0; i < 3; i++) {
                const int from = tty >= 0 && (i < 2 || req->stdio[i] < 0) ? tty : req->stdio[i];

                fds[i] = from < 0 ? -1 : fcntl(from, F_DUPFD_CLOEXEC, 3);
        }
        for (int i = 0; i < 3; i++) {
                if (fds[i] < 0)
                        (void) close(i);
                else if (dup2(fds[i], i) < 0)
                        return errno;
        }
        if (tty >= 0 && ioctl(0, TIOCSCTTY, 0) < 0)
                return errno;
        for (int sig = 1; sig < NSIG; sig++)
                (void) signal(sig, SIG_DFL);
        (void) sigemptyset(&none);
        (void) sigprocmask(SIG_SETMASK, &none, NULL);
        (void) umask(022);
        if (sys_close_range(3, ~0U, CLOSE_RANGE_CLOEXEC) < 0 && plan->fence)
                return errno; /* what the caller left open would be open behind the fence */
        if (chdir(req->cwd ? req->cwd : plan->workspace) < 0)
                return -errno;
        if (plan->fence) {
                const int r = fence_enter(plan->fence);

                if (r < 0)
                        return -r;
        }
        return exec_in_path((char *const *) (uintptr_t) req->argv, env, path_of(env));
}

/* The plan's environment with the request's additions; the vector is owned, the strings are not. */
static char **env_of(const struct driver_plan *plan, const struct exec_request *req) {
        size_t n = 0, k = 0;
        char **env;

        char *const *fenced = plan->fence ? fence_env(plan->fence) : NULL;
        size_t m = 0;

        while (req->env && req->env[n])
                n++;
        while (fenced && fenced[m])
                m++;
        env = calloc(plan->n_env + n + m + 1, sizeof(char *));
        for (size_t i = 0; env && i < plan->n_env; i++) {
                bool replaced = false;

                for (size_t j = 0; j < n; j++) {
                        const size_t len = strcspn(req->env[j], "=") + 1;

                        replaced |= strncmp(plan->env[i], req->env[j], len) == 0;
                }
                if (!replaced)
                        env[k++] = plan->env[i];
        }
        for (size_t j = 0; env && j < n; j++)
                env[k++] = (char *) (uintptr_t) req->env[j];
        for (size_t i = 0; env && i < m; i++) /* behind the others: the first of a name counts */
                env[k++] = fenced[i];
        return env;
}

static void tell_failed(const struct sandbox *sb, uint32_t id, int error) {
        const struct exec_result result = { .id = id,
                                            .exit_code = error == ENOENT ? 127 : 126,
                                            .exec_errno = error };

        sb->callbacks->exec_finished(sb->arg, &result);
}

/* A pty. @ret_slave: owned. Return: its master, owned, or -errno. */
static int open_terminal(const struct exec_request *req, int *ret_slave) {
        AUTO_FD int master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
        int unlock = 0, slave;

        if (master < 0 || ioctl(master, TIOCSPTLCK, &unlock) < 0)
                return -errno;
        slave = ioctl(master, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
        if (slave < 0)
                return -errno;
        if (req->winsize.ws_row && req->winsize.ws_col)
                (void) ioctl(master, TIOCSWINSZ, &req->winsize);
        *ret_slave = slave;
        return TAKE_FD(master);
}

/* Forks; @ret_error: 0, or why the child could not execute (it is gone then). Return: pid or -errno. */
static pid_t spawn(const struct sandbox *sb, const struct exec_request *req, int tty, int *ret_error) {
        AUTO_FREE char **env = env_of(sb->plan, req);
        AUTO_FD int told = -1, tell = -1;
        int pair[2], error = 0;
        pid_t pid;

        if (!env)
                return -ENOMEM;
        if (pipe2(pair, O_CLOEXEC) < 0)
                return -errno;
        told = pair[0];
        tell = pair[1];
        pid = fork();
        if (pid < 0)
                return -errno;
        if (pid == 0) {
                error = become(req, sb->plan, env, tty);
                _exit(write(tell, &error, sizeof(error)) == sizeof(error) ? 126 : 125);
        }
        tell = fd_close(tell);
        if (read(told, &error, sizeof(error)) == sizeof(error))
                while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
                        ;
        *ret_error = error;
        return pid;
}

static struct command *free_command(struct sandbox *sb) {
        for (size_t i = 0; i < COMMANDS_MAX; i++)
                if (sb->commands[i].id == 0)
                        return &sb->commands[i];
        return NULL;
}

static int noop_exec(struct sandbox *sb, const struct exec_request *req, struct error *err) {
        struct command *command = free_command(sb);
        AUTO_FD int master = -1, slave = -1;
        struct epoll_event event = { .events = EPOLLIN };
        int error = 0;
        pid_t pid;

        if (!command)
                return error_set(err, -EAGAIN, "64 commands run already");
        if (req->tty) {
                master = open_terminal(req, &slave);
                if (master < 0)
                        return error_set(err, master, "terminal: %s", strerror(-master));
        }
        pid = spawn(sb, req, slave, &error);
        if (pid < 0)
                return error_set(err, pid, "start the command: %s", strerror(-pid));
        if (error) {
                tell_failed(sb, req->id, error);
                return 0;
        }
        *command = (struct command){ req->id, pid, sys_pidfd_open(pid) };
        event.data.ptr = command;
        if (command->pidfd < 0 || epoll_ctl(sb->epoll_fd, EPOLL_CTL_ADD, command->pidfd, &event) < 0) {
                (void) kill(pid, SIGKILL);
                return error_set(err, -errno, "watch the command: %s", strerror(errno));
        }
        sb->callbacks->exec_started(sb->arg, req->id, pid, TAKE_FD(master));
        return 0;
}

static int noop_signal(struct sandbox *sb, uint32_t id, int sig, bool group) {
        for (size_t i = 0; id != 0 && i < COMMANDS_MAX; i++)
                if (sb->commands[i].id == id)
                        return kill(group ? -sb->commands[i].pid : sb->commands[i].pid, sig) < 0 ? -errno : 0;
        return -ESRCH;
}

static size_t noop_poll(struct sandbox *sb, struct pollfd *fds) {
        fds[0] = (struct pollfd){ .fd = sb->epoll_fd, .events = POLLIN };
        return 1;
}

/* The command has ended: its result. */
static void reap(struct sandbox *sb, struct command *command) {
        struct exec_result result = { .id = command->id };
        struct rusage usage = { 0 };
        int status = 0;

        if (wait4(command->pid, &status, WNOHANG, &usage) != command->pid)
                return;
        result.signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
        result.exit_code = result.signal ? 128 + result.signal : WEXITSTATUS(status);
        result.max_rss_bytes = (uint64_t) usage.ru_maxrss * 1024;
        command->pidfd = fd_close(command->pidfd); /* leaves the epoll set with it */
        command->id = 0;
        sb->callbacks->exec_finished(sb->arg, &result);
}

static void noop_dispatch(struct sandbox *sb, const struct pollfd *fds, size_t n) {
        struct epoll_event events[COMMANDS_MAX];
        int k;

        if (n == 0 || !fds[0].revents)
                return;
        k = epoll_wait(sb->epoll_fd, events, COMMANDS_MAX, 0);
        for (int i = 0; i < k; i++)
                reap(sb, events[i].data.ptr);
}

/* ---- start and stop ---- */

static int noop_probe(const struct ctx *ctx, const struct spec *spec, struct error *err) {
        (void) ctx;
        (void) spec;
        (void) err;
        return 0;
}

static struct sandbox *noop_stop(struct sandbox *sb);

static int noop_start(const struct driver_plan *plan, const struct start_request *req, struct sandbox **ret,
                      struct error *err) {
        struct sandbox *sb = calloc(1, sizeof(*sb));
        int r = 0;

        if (!sb)
                return error_set(err, -ENOMEM, "out of memory");
        *sb = (struct sandbox){ .plan = plan, .callbacks = req->callbacks, .arg = req->arg };
        sb->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
        if (sb->epoll_fd < 0 || prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) < 0)
                r = error_set(err, -errno, "start: %s", strerror(errno));
        if (r == 0 && plan->fence) {
                r = fence_open(plan->fence, req->run_fd);
                if (r < 0)
                        (void) error_set(err, r, "home and temporary directory of the run: %s", strerror(-r));
        }
        if (r == 0 && req->meanwhile)
                r = req->meanwhile(req->arg, err);
        if (r == 0 && req->first)
                r = noop_exec(sb, req->first, err);
        if (r < 0) {
                (void) noop_stop(sb);
                return r;
        }
        *ret = sb;
        return 0;
}

/* Kills every child; their children become ours, until there are none. */
static void kill_descendants(void) {
        for (;;) {
                AUTO_BUF struct buf text = { 0 };
                bool any = false;
                char *end;

                if (file_read_at(AT_FDCWD, "/proc/thread-self/children", PIDS_MAX_BYTES, &text) < 0)
                        return;
                for (const char *p = buf_cstr(&text); *p; p = end + (*end == ' ')) {
                        const long pid = strtol(p, &end, 10);

                        if (end == p || pid <= 0)
                                break;
                        any = true;
                        (void) kill((pid_t) pid, SIGKILL);
                }
                if (!any || waitpid(-1, NULL, 0) < 0)
                        return;
                while (waitpid(-1, NULL, WNOHANG) > 0)
                        ;
        }
}

static struct sandbox *noop_stop(struct sandbox *sb) {
        if (!sb)
                return NULL;
        kill_descendants();
        for (size_t i = 0; i < COMMANDS_MAX; i++)
                if (sb->commands[i].id)
                        (void) fd_close(sb->commands[i].pidfd);
        (void) fd_close(sb->epoll_fd);
        free(sb);
        return NULL;
}

const struct driver_ops driver_noop = {
        .name = "noop",
        .starts_here = true,
        .probe = noop_probe,
        .plan = noop_plan,
        .plan_free = noop_plan_free,
        .describe = noop_describe,
        .start = noop_start,
        .exec = noop_exec,
        .signal = noop_signal,
        .poll = noop_poll,
        .dispatch = noop_dispatch,
        .stop = noop_stop,
};

const struct driver_ops driver_landlock = {
        .name = "landlock",
        .starts_here = true,
        .probe = noop_probe,
        .plan = fenced_plan,
        .plan_free = noop_plan_free,
        .describe = fenced_describe,
        .start = noop_start,
        .exec = noop_exec,
        .signal = noop_signal,
        .poll = noop_poll,
        .dispatch = noop_dispatch,
        .stop = noop_stop,
};
