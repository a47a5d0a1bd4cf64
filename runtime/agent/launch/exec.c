#include "runtime/agent/launch/exec.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "runtime/base/cleanup.h"
#include "runtime/base/clock.h"
#include "runtime/base/fdpass.h"
#include "runtime/run/control.h"
#include "runtime/run/order.h"

enum { EXIT_AROUND = 125, NS_PER_MS = 1000000 };

struct pipe_pair {
        int ours, theirs; /* owned */
};

/* @write: our end is the one that is written. */
static int open_pipe(bool write, struct pipe_pair *ret) {
        int fds[2];

        if (pipe2(fds, O_CLOEXEC) < 0)
                return -errno;
        *ret = (struct pipe_pair){ .ours = fds[write], .theirs = fds[!write] };
        return 0;
}

static int send_order(const char *const *argv, const int theirs[3], int sock, struct error *err) {
        const struct exec_order order = { .argv = argv, .stdio = { theirs[0], theirs[1], theirs[2] } };
        const struct exec_request command = { .argv = argv, .stdio = { theirs[0], theirs[1], theirs[2] } };
        int fds[RUN_MSG_FDS_MAX];
        struct run_msg msg;
        size_t n = 0;
        int r;

        r = order_message(&order, &command, &msg, fds, &n, err);
        if (r < 0)
                return r;
        r = fdpass_send(sock, &msg, sizeof(msg), fds, n);
        (void) fd_close(fds[0]);
        if (r < 0 && r != -EPIPE) /* refused: why stands in what it said before it hung up */
                return error_set(err, r, "hand the command to the run: %s", strerror(-r));
        return 0;
}

int launch_command_start(const struct run_dir *dir, const char *const *argv, struct launch_command *ret,
                         struct error *err) {
        struct pipe_pair pipes[3] = { { -1, -1 }, { -1, -1 }, { -1, -1 } };
        int r = 0;

        *ret = (struct launch_command) LAUNCH_COMMAND_INIT;
        for (int i = 0; i < 3 && r == 0; i++)
                r = open_pipe(i == 0, &pipes[i]);
        if (r < 0)
                (void) error_set(err, r, "pipes to the command: %s", strerror(-r));
        ret->in_fd = pipes[0].ours;
        ret->out_fd = pipes[1].ours;
        ret->err_fd = pipes[2].ours;
        if (r == 0 && fcntl(ret->err_fd, F_SETFL, O_NONBLOCK) < 0)
                r = error_set(err, -errno, "pipe: %s", strerror(errno));
        if (r == 0)
                r = ret->sock = control_connect(dir, err);
        if (r >= 0)
                r = send_order(argv, (int[3]){ pipes[0].theirs, pipes[1].theirs, pipes[2].theirs }, ret->sock,
                               err);
        for (int i = 0; i < 3; i++)
                (void) fd_close(pipes[i].theirs);
        return r;
}

void launch_command_signal(struct launch_command *c, int sig) {
        const struct run_msg msg = { .type = sig == SIGKILL ? RUN_MSG_KILL : RUN_MSG_SIGNAL, .signal = sig };

        if (!c->over)
                (void) run_msg_send(c->sock, &msg, -1);
}

static void lost(struct launch_command *c, int r) {
        c->end = (struct run_msg){ .type = RUN_MSG_ERROR, .code = EXIT_AROUND };
        (void) snprintf(c->end.failure_code, sizeof(c->end.failure_code), "SANDBOX_DRIVER_UNAVAILABLE");
        (void) snprintf(c->end.text, sizeof(c->end.text), "the supervisor of the run is gone: %s",
                        strerror(-r));
        c->over = true;
}

void launch_command_heard(struct launch_command *c) {
        struct run_msg msg;
        AUTO_FD int pty = -1;
        const int r = run_msg_recv(c->sock, &msg, &pty);

        if (r == -EAGAIN)
                return;
        if (r < 0) {
                lost(c, r);
        } else if (msg.type == RUN_MSG_EXIT || msg.type == RUN_MSG_ERROR) {
                c->end = msg;
                c->over = true;
        }
}

void launch_command_said(struct launch_command *c) {
        char bytes[4096];
        const ssize_t n = read(c->err_fd, bytes, sizeof(bytes));

        if (n < 0 && (errno == EAGAIN || errno == EINTR))
                return;
        if (n <= 0 || buf_add(&c->text, bytes, (size_t) n) < 0) {
                c->err_fd = fd_close(c->err_fd);
                return;
        }
        if (c->text.len > LAUNCH_STDERR_MAX) {
                const size_t over = c->text.len - LAUNCH_STDERR_MAX;

                memmove(c->text.data, c->text.data + over, LAUNCH_STDERR_MAX);
                c->text.len = LAUNCH_STDERR_MAX;
                c->text.data[c->text.len] = '\0';
                c->dropped += over;
        }
}

bool launch_command_wait(struct launch_command *c, unsigned int ms) {
        const uint64_t end = clock_ns() + (uint64_t) ms * NS_PER_MS;

        while (!c->over) {
                struct pollfd fds[2] = { { .fd = c->sock, .events = POLLIN },
                                         { .fd = c->err_fd, .events = POLLIN } };
                const uint64_t now = clock_ns();

                if (now >= end ||
                    (poll(fds, ARRAY_SIZE(fds), (int) ((end - now) / NS_PER_MS) + 1) < 0 && errno != EINTR))
                        return false;
                if (fds[1].revents)
                        launch_command_said(c);
                if (fds[0].revents)
                        launch_command_heard(c);
        }
        return true;
}

void launch_command_deinit(struct launch_command *c) {
        c->sock = fd_close(c->sock);
        c->in_fd = fd_close(c->in_fd);
        c->out_fd = fd_close(c->out_fd);
        c->err_fd = fd_close(c->err_fd);
        buf_deinit(&c->text);
}
