#include "runtime/agent/launch/program.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/base/cleanup.h"
#include "runtime/base/clock.h"
#include "runtime/base/escape.h"
#include "runtime/base/file.h"
#include "runtime/base/sys.h"

enum { NS_PER_MS = 1000000, FIRST_FREE_FD = 3, EXEC_FAILED = 127 };

static bool others_write(const struct stat *st) {
        return (st->st_uid != geteuid() && st->st_uid != 0) || (st->st_mode & (S_IWGRP | S_IWOTH));
}

int program_is_outside(const char *path, char *const *writable, struct error *err) {
        for (; *writable; writable++) {
                if (file_goes_through(path, *writable))
                        return error_set(
                                err, -EPERM,
                                "'%s': it, or a link to it, lies in the workspace or a mount that the "
                                "sandbox writes to ('%s'): "
                                "move it out",
                                ESC(path), ESC(*writable));
        }
        return 0;
}

int program_check(const char *path, char *const *writable, struct error *err) {
        AUTO_FREE char *real = NULL;
        struct stat st;

        if (*path != '/')
                return error_set(err, -EINVAL, "'%s': want the absolute path of a program", ESC(path));
        real = realpath(path, NULL);
        if (!real || stat(real, &st) < 0)
                return error_set(err, -errno, "'%s': %s", ESC(path), strerror(errno));
        if (!S_ISREG(st.st_mode) || access(real, X_OK) < 0)
                return error_set(err, -EACCES, "'%s': no program: chmod +x", ESC(path));
        if (others_write(&st))
                return error_set(err, -EPERM, "'%s': others can change it: chown it to you, chmod go-w",
                                 ESC(path));
        return program_is_outside(path, writable, err);
}

/* @fds: of the child, for 0, 1 and 2. Signals are those of a program that was started afresh. */
static _Noreturn void child(const struct program *p, const int fds[3]) {
        const struct sigaction plain = { .sa_handler = SIG_DFL };
        sigset_t none;

        for (int sig = 1; sig < NSIG; sig++)
                (void) sigaction(sig, &plain, NULL);
        (void) sigemptyset(&none);
        (void) sigprocmask(SIG_SETMASK, &none, NULL);
        (void) prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
        (void) setpgid(0, 0);
        for (int i = 0; i < 3; i++) /* all three are above 2 */
                if (dup2(fds[i], i) < 0)
                        _exit(EXEC_FAILED);
        if (sys_close_range(FIRST_FREE_FD, ~0U, 0) < 0 || chdir("/") < 0)
                _exit(EXEC_FAILED);
        (void) umask(022);
        (void) execve(p->argv[0], (char *const *) (uintptr_t) p->argv, (char *const *) (uintptr_t) p->env);
        _exit(EXEC_FAILED);
}

static pid_t start(const struct program *p, const int theirs[3], struct error *err) {
        int high[3] = { -1, -1, -1 };
        pid_t pid = -1;
        bool ok = true;

        for (int i = 0; i < 3; i++) {
                high[i] = fcntl(theirs[i], F_DUPFD_CLOEXEC, FIRST_FREE_FD);
                ok = ok && high[i] >= 0;
        }
        if (ok)
                pid = fork();
        if (pid == 0)
                child(p, high);
        if (pid < 0)
                (void) error_set(err, -errno, "start '%s': %s", ESC(p->argv[0]), strerror(errno));
        else
                (void) setpgid(pid, pid); /* whoever of the two comes first */
        for (int i = 0; i < 3; i++)
                (void) fd_close(high[i]);
        return pid < 0 ? (pid_t) -EAGAIN : pid;
}

static int make_pipe(int fds[2], struct error *err) {
        return pipe2(fds, O_CLOEXEC) < 0 ? error_set(err, -errno, "pipe: %s", strerror(errno)) : 0;
}

/** struct call - one that is being answered */
struct call {
        pid_t pid;
        int in_fd, out_fd, err_fd; /* ours; owned */
        struct buf request;
        size_t written;
        struct buf *out;
        struct buf text; /* standard error */
};

static void call_deinit(struct call *c) {
        (void) fd_close(c->in_fd);
        (void) fd_close(c->out_fd);
        (void) fd_close(c->err_fd);
        buf_deinit(&c->request);
        buf_deinit(&c->text);
}

static int call_start(const struct program *p, struct call *c, struct error *err) {
        int in[2] = { -1, -1 }, out[2] = { -1, -1 }, text[2] = { -1, -1 };
        int r;

        r = make_pipe(in, err);
        if (r == 0)
                r = make_pipe(out, err);
        if (r == 0)
                r = make_pipe(text, err);
        c->in_fd = in[1];
        c->out_fd = out[0];
        c->err_fd = text[0];
        if (r == 0) {
                c->pid = start(p, (int[3]){ in[0], out[1], text[1] }, err);
                r = c->pid < 0 ? (int) c->pid : 0;
        }
        (void) fd_close(in[0]);
        (void) fd_close(out[1]);
        (void) fd_close(text[1]);
        if (r == 0)
                (void) fcntl(c->in_fd, F_SETFL, O_NONBLOCK);
        return r;
}

/* Gives it more of the request; one that does not want it may say what it has to say all the same. */
static void feed(struct call *c) {
        const ssize_t n = write(c->in_fd, c->request.data + c->written, c->request.len - c->written);

        if (n < 0 && (errno == EAGAIN || errno == EINTR))
                return;
        c->written += n > 0 ? (size_t) n : 0;
        if (n < 0 || c->written == c->request.len)
                c->in_fd = fd_close(c->in_fd);
}

/* Return: 0, -E2BIG, -ENOMEM. */
static int take(int *fd, struct buf *out, size_t max, bool cut) {
        char bytes[8192];
        const ssize_t n = read(*fd, bytes, sizeof(bytes));
        size_t room = max - out->len;

        if (n < 0 && (errno == EAGAIN || errno == EINTR))
                return 0;
        if (n <= 0) {
                *fd = fd_close(*fd);
                return 0;
        }
        if ((size_t) n > room && !cut)
                return -E2BIG;
        return buf_add(out, bytes, (size_t) n < room ? (size_t) n : room);
}

/* Return: 0 (it has closed its output), -ETIMEDOUT, -ECANCELED, -E2BIG, -ENOMEM, -errno. */
static int converse(struct call *c, uint64_t end, const int cancel_fds[2]) {
        int r = 0;

        while (r == 0 && c->out_fd >= 0) {
                struct pollfd fds[5] = { { .fd = c->in_fd, .events = POLLOUT },
                                         { .fd = c->out_fd, .events = POLLIN },
                                         { .fd = c->err_fd, .events = POLLIN },
                                         { .fd = cancel_fds[0], .events = POLLIN },
                                         { .fd = cancel_fds[1], .events = POLLIN } };
                const uint64_t now = clock_ns();

                if (now >= end)
                        return -ETIMEDOUT;
                if (poll(fds, ARRAY_SIZE(fds), (int) ((end - now) / NS_PER_MS) + 1) < 0)
                        r = errno == EINTR ? 0 : -errno;
                else if (fds[3].revents || fds[4].revents)
                        r = -ECANCELED;
                if (r == 0 && fds[0].revents)
                        feed(c);
                if (r == 0 && fds[2].revents)
                        r = take(&c->err_fd, &c->text, PROGRAM_ERROR_MAX, true);
                if (r == 0 && fds[1].revents)
                        r = take(&c->out_fd, c->out, PROGRAM_OUTPUT_MAX, false);
        }
        return r;
}

/* @cancel_fds: as program_call()
 * Return: its wait status when it ended by itself in time, -1: it was killed. */
static int reap(pid_t pid, uint64_t end, const int cancel_fds[2]) {
        AUTO_FD int pidfd = sys_pidfd_open(pid);
        struct pollfd fds[3] = { { .fd = pidfd, .events = POLLIN },
                                 { .fd = cancel_fds[0], .events = POLLIN },
                                 { .fd = cancel_fds[1], .events = POLLIN } };
        const uint64_t now = clock_ns();
        bool ended = false;
        int status = 0;

        if (pidfd >= 0)
                ended = poll(fds, ARRAY_SIZE(fds), now < end ? (int) ((end - now) / NS_PER_MS) + 1 : 0) > 0 &&
                        fds[0].revents;
        (void) kill(-pid, SIGKILL); /* what it started goes with it */
        while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
                ;
        return ended ? status : -1;
}

static int describe(const struct program *p, const struct call *c, int r, int status, struct error *err) {
        const char *name = p->argv[0], *text = buf_cstr(&c->text);

        if (r == -ETIMEDOUT || (r == 0 && status < 0))
                return error_set(err, -ETIMEDOUT, "'%s' did not answer within %u ms and was killed",
                                 ESC(name), p->timeout_ms);
        if (r == -ECANCELED)
                return error_set(err, r, "'%s' was given up: the task is over", ESC(name));
        if (r == -E2BIG)
                return error_set(err, r, "'%s' wrote more than %d bytes and was killed", ESC(name),
                                 PROGRAM_OUTPUT_MAX);
        if (r < 0)
                return error_set(err, r, "'%s': %s", ESC(name), strerror(-r));
        if (WIFSIGNALED(status))
                return error_set(err, -EIO, "'%s' was killed by signal %d: %s", ESC(name), WTERMSIG(status),
                                 ESC(text));
        if (WEXITSTATUS(status) != 0)
                return error_set(err, -EIO, "'%s' failed with exit code %d: %s", ESC(name),
                                 WEXITSTATUS(status), ESC(text));
        return 0;
}

int program_call(const struct program *program, const json_t *request, const int cancel_fds[2],
                 struct buf *out, struct error *err) {
        const uint64_t end = clock_ns() + (uint64_t) program->timeout_ms * NS_PER_MS;
        CLEANUP(call_deinit)
        struct call c = { .pid = -1, .in_fd = -1, .out_fd = -1, .err_fd = -1, .out = out };
        AUTO_FREE char *text = json_dumps(request, JSON_COMPACT | JSON_ENCODE_ANY);
        int r, status;

        if (!text || buf_str(&c.request, text) < 0 || buf_str(&c.request, "\n") < 0)
                return error_set(err, -ENOMEM, "out of memory");
        r = call_start(program, &c, err);
        if (r < 0)
                return r;
        r = converse(&c, end, cancel_fds);
        status = reap(c.pid, r == 0 ? end : 0, cancel_fds);
        return describe(program, &c, r, status, err);
}

pid_t program_spawn(const struct program *program, int ret_fds[2], struct error *err) {
        AUTO_FD int null = open("/dev/null", O_RDWR | O_CLOEXEC);
        int in[2] = { -1, -1 }, out[2] = { -1, -1 };
        pid_t pid = -1;
        int r;

        r = null < 0 ? error_set(err, -errno, "/dev/null: %s", strerror(errno)) : make_pipe(in, err);
        if (r == 0)
                r = make_pipe(out, err);
        if (r == 0)
                pid = start(program, (int[3]){ in[0], out[1], null }, err);
        (void) fd_close(in[0]);
        (void) fd_close(out[1]);
        if (r < 0 || pid < 0) {
                (void) fd_close(in[1]);
                (void) fd_close(out[0]);
                return r < 0 ? (pid_t) r : pid;
        }
        ret_fds[0] = in[1];
        ret_fds[1] = out[0];
        return pid;
}

void program_end(pid_t pid, int fds[2], unsigned int ms) {
        for (int i = 0; i < 2; i++)
                fds[i] = fd_close(fds[i]);
        if (pid > 0)
                (void) reap(pid, clock_ns() + (uint64_t) ms * NS_PER_MS, (int[2]){ -1, -1 });
}
