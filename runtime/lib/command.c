/* Command lines, and commands that run. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/base/clock.h"
#include "runtime/base/fdpass.h"
#include "runtime/lib/library.h"
#include "runtime/run/control.h"
#include "runtime/run/order.h"

enum { NS_PER_MS = 1000000 };

static int invalid(struct cofferdam *c, const char *text) {
        (void) error_set(&c->err, -EINVAL, "%s", text);
        return context_failed(c, -EINVAL, NULL);
}

int cofferdam_command_new(struct cofferdam *c, const char *const *argv, struct cofferdam_command **ret) {
        struct cofferdam_command *command;
        int r = 0;

        if (!argv || !argv[0])
                return invalid(c, "a command has a name at least");
        command = calloc(1, sizeof(*command));
        if (!command)
                return context_memory(c, -ENOMEM);
        command->c = c;
        for (; r == 0 && *argv; argv++)
                r = request_add(&command->said, "arg", *argv);
        if (r < 0) {
                cofferdam_command_free(command);
                return context_memory(c, r);
        }
        *ret = command;
        return 0;
}

void cofferdam_command_free(struct cofferdam_command *command) {
        if (!command)
                return;
        request_deinit(&command->said);
        free(command);
}

static int say(struct cofferdam_command *command, const char *name, const char *value) {
        const int r = request_add(&command->said, name, value);

        command->exec_only = true;
        return r < 0 ? context_memory(command->c, r) : 0;
}

int cofferdam_command_env(struct cofferdam_command *command, const char *variable) {
        if (*variable == '=' || !strchr(variable, '='))
                return invalid(command->c, "a variable is NAME=VALUE");
        return say(command, "exec-env", variable);
}

int cofferdam_command_cwd(struct cofferdam_command *command, const char *path) {
        if (*path != '/')
                return invalid(command->c, "the directory of a command is an absolute path");
        return say(command, "exec-cwd", path);
}

int cofferdam_command_stdio(struct cofferdam_command *command, int stream, int fd) {
        if (stream < 0 || stream > 2 || fd < -1)
                return invalid(command->c, "a command has the streams 0, 1 and 2");
        command->stdio[stream] = fd;
        command->set[stream] = true;
        return 0;
}

int cofferdam_command_tty(struct cofferdam_command *command, unsigned int rows, unsigned int cols) {
        if (rows > UINT16_MAX || cols > UINT16_MAX)
                return invalid(command->c, "a terminal has at most 65535 rows and columns");
        command->tty = true;
        command->rows = rows;
        command->cols = cols;
        return 0;
}

int cofferdam_command_detach(struct cofferdam_command *command) {
        command->detach = command->exec_only = true;
        return 0;
}

/* ---- starting ---- */

static bool is_terminal(const int stdio[3], int stream) {
        return stdio[stream] >= 0 && isatty(stdio[stream]);
}

static bool is_file(int fd) {
        struct stat st;

        return fd >= 0 && fstat(fd, &st) == 0 && !S_ISFIFO(st.st_mode) && !S_ISSOCK(st.st_mode) &&
               !S_ISCHR(st.st_mode);
}

/* The streams, with @null where none was said. */
static int streams_of(const struct cofferdam_command *command, int null, int ret[3]) {
        for (int i = 0; i < 3; i++)
                ret[i] = command->tty ? -1 : command->set[i] ? command->stdio[i] : null;
        if (is_terminal(ret, 0) && is_terminal(ret, 1))
                return invalid(command->c, "the caller's terminal would be the command's: give it one of its "
                                           "own with cofferdam_command_tty()");
        return 0;
}

static int exec_new(struct cofferdam *c, struct cofferdam_exec **ret) {
        struct cofferdam_exec *exec = calloc(1, sizeof(*exec));

        if (!exec)
                return context_memory(c, -ENOMEM);
        exec->c = c;
        exec->sock = exec->pty_fd = -1;
        *ret = exec;
        return 0;
}

/* Asks the program for @op with @command. Return: owned socket or -errno, noted. */
static int ask(const struct cofferdam_command *command, const char *op, const struct request *more,
               const int stdio[3]) {
        struct cofferdam *c = command->c;
        AUTO_REQUEST struct request request = { 0 };
        char rows[16], cols[16];
        int r;

        (void) snprintf(rows, sizeof(rows), "%u", command->rows);
        (void) snprintf(cols, sizeof(cols), "%u", command->cols);
        r = request_add(&request, "op", op);
        if (r == 0)
                r = request_append(&request, more);
        if (r == 0)
                r = request_append(&request, &command->said);
        if (r == 0 && command->tty)
                r = request_add(&request, "tty", "on");
        if (r == 0)
                r = request_add(&request, "rows", rows);
        if (r == 0)
                r = request_add(&request, "cols", cols);
        return r < 0 ? context_memory(c, r) : engine_ask(c, &request, stdio);
}

int cofferdam_run_command(struct cofferdam *c, const struct cofferdam_spec *spec,
                          const struct cofferdam_command *command, struct cofferdam_exec **ret) {
        AUTO_FD int null = open("/dev/null", O_RDWR | O_CLOEXEC);
        struct cofferdam_exec *exec;
        int stdio[3];
        int r;

        if (command->exec_only)
                return invalid(c, "variables and directory of a run are keys of its specification, and it is "
                                  "never detached");
        r = streams_of(command, null, stdio);
        if (r == 0)
                r = exec_new(c, &exec);
        if (r < 0)
                return r;
        exec->sock = ask(command, "run", &spec->said, stdio);
        if (exec->sock < 0) {
                r = exec->sock;
                cofferdam_exec_free(exec);
                return r;
        }
        *ret = exec;
        return 0;
}

int cofferdam_verb(struct cofferdam *c, const struct cofferdam_command *command,
                   struct cofferdam_exec **ret) {
        AUTO_FD int null = open("/dev/null", O_RDWR | O_CLOEXEC);
        AUTO_REQUEST struct request none = { 0 };
        struct cofferdam_exec *exec;
        int stdio[3];
        int r;

        if (command->exec_only || command->tty)
                return invalid(c, "a verb has words and streams and nothing else");
        for (int i = 0; i < 3; i++)
                stdio[i] = command->set[i] ? command->stdio[i] : null;
        r = exec_new(c, &exec);
        if (r < 0)
                return r;
        exec->sock = ask(command, "stream", &none, stdio);
        if (exec->sock < 0) {
                r = exec->sock;
                cofferdam_exec_free(exec);
                return r;
        }
        *ret = exec;
        return 0;
}

/* Hands the command to the supervisor. Return: owned socket or -errno, noted. */
static int order(struct cofferdam_run *run, const struct cofferdam_command *command, const int stdio[3]) {
        struct cofferdam *c = command->c;
        struct exec_request request = { .tty = command->tty,
                                        .winsize = { .ws_row = (unsigned short) command->rows,
                                                     .ws_col = (unsigned short) command->cols },
                                        .stdio = { stdio[0], stdio[1], stdio[2] } };
        AUTO_ASKED struct asked asked = { 0 };
        AUTO_FD int sock = -1, block = -1;
        struct exec_order order = { .detach = command->detach };
        struct run_msg msg;
        int fds[RUN_MSG_FDS_MAX];
        size_t n;
        int r;

        r = context_asked(c, &command->said, &asked);
        if (r < 0)
                return r;
        order.argv = asked.args.v;
        order.env = asked.exec_env.v;
        order.cwd = asked.exec_cwd;
        r = order_message(&order, &request, &msg, fds, &n, &c->err);
        if (r < 0)
                return context_failed(c, r, "SANDBOX_SETUP_FAILED");
        block = fds[0];
        sock = control_connect(&run->dir, &c->err);
        if (sock < 0)
                return context_failed(c, sock, "SANDBOX_DRIVER_UNAVAILABLE");
        r = fdpass_send(sock, &msg, sizeof(msg), fds, n);
        if (r < 0 && r != -EPIPE) { /* refused: why stands in what it said before it hung up */
                (void) error_set(&c->err, r, "hand the command to run %s: %s", run->dir.id, strerror(-r));
                return context_failed(c, r, "SANDBOX_SETUP_FAILED");
        }
        return TAKE_FD(sock);
}

int cofferdam_exec(struct cofferdam_run *run, const struct cofferdam_command *command,
                   struct cofferdam_exec **ret) {
        AUTO_FD int null = open("/dev/null", O_RDWR | O_CLOEXEC);
        AUTO_REQUEST struct request more = { 0 };
        struct cofferdam *c = run->c;
        struct cofferdam_exec *exec;
        int stdio[3];
        int r;

        r = streams_of(command, null, stdio);
        if (r == 0)
                r = exec_new(c, &exec);
        if (r < 0)
                return r;
        memcpy(exec->run_id, run->dir.id, sizeof(exec->run_id));
        if (!command->detach && (is_file(stdio[0]) || is_file(stdio[1]) || is_file(stdio[2]))) {
                r = request_add(&more, "run", run->dir.id);
                exec->sock = r < 0 ? context_memory(c, r) : ask(command, "exec", &more, stdio);
        } else {
                exec->sock = order(run, command, stdio);
        }
        if (exec->sock < 0) {
                r = exec->sock;
                cofferdam_exec_free(exec);
                return r;
        }
        *ret = exec;
        return 0;
}

/* ---- waiting ---- */

/* Takes one message, which is there. */
static int on_message(struct cofferdam_exec *exec) {
        struct cofferdam *c = exec->c;
        struct run_msg msg;
        AUTO_FD int fd = -1;
        int r;

        r = run_msg_recv(exec->sock, &msg, &fd);
        if (r ==
            -ECONNRESET) /* it ended with a signal of ours unread: the kernel tells that before its words */
                r = run_msg_recv(exec->sock, &msg, &fd);
        if (r < 0) {
                (void) error_set(&c->err, r, "run %s ended before the command did: %s", exec->run_id,
                                 strerror(-r));
                return context_failed(c, r, "SANDBOX_DRIVER_UNAVAILABLE");
        }
        if (msg.run_id[0])
                memcpy(exec->run_id, msg.run_id, sizeof(exec->run_id));
        if (msg.id != 0)
                exec->id = msg.id;
        if (msg.type == RUN_MSG_STARTED) {
                exec->started = true;
                if (fd >= 0 && exec->pty_fd < 0)
                        exec->pty_fd = TAKE_FD(fd);
        } else if (msg.type == RUN_MSG_EXIT || msg.type == RUN_MSG_ERROR || msg.type == RUN_MSG_READY) {
                exec->last = msg;
                exec->ended = true;
        }
        return 0;
}

/* Until @done says so. */
static int wait_until(struct cofferdam_exec *exec, const bool *started, int timeout_ms) {
        const uint64_t until = timeout_ms < 0 ? 0 : clock_ns() + (uint64_t) timeout_ms * NS_PER_MS;

        while (!exec->ended && !(started && *started)) {
                struct pollfd fd = { .fd = exec->sock, .events = POLLIN };
                const uint64_t now = clock_ns();
                int left = -1, n, r;

                if (timeout_ms >= 0)
                        left = now >= until ? 0 : (int) ((until - now + NS_PER_MS - 1) / NS_PER_MS);
                n = poll(&fd, 1, left);
                if (n < 0 && errno == EINTR)
                        continue;
                if (n == 0) {
                        (void) error_set(&exec->c->err, -ETIMEDOUT, "the command still runs");
                        return context_failed(exec->c, -ETIMEDOUT, NULL);
                }
                r = on_message(exec);
                if (r < 0)
                        return r;
        }
        return 0;
}

int cofferdam_exec_started(struct cofferdam_exec *exec, int timeout_ms) {
        int r;

        r = wait_until(exec, &exec->started, timeout_ms);
        if (r < 0 || exec->started)
                return r;
        (void) error_set(&exec->c->err, -ESRCH, "%s", exec->last.text[0] ? exec->last.text : "it has ended");
        return context_failed(exec->c, -ESRCH, exec->last.failure_code);
}

int cofferdam_exec_wait(struct cofferdam_exec *exec, int timeout_ms, struct cofferdam_result *ret) {
        const struct run_msg *last = &exec->last;
        struct cofferdam_result result;
        int r;

        r = wait_until(exec, NULL, timeout_ms);
        if (r < 0)
                return r;
        result = (struct cofferdam_result){ .size = ret->size,
                                            .exit_code = last->code,
                                            .signal = last->signal,
                                            .oom = strcmp(last->failure_code, "OUT_OF_MEMORY") == 0,
                                            .exec_errno = last->exec_errno,
                                            .held = last->held };
        (void) snprintf(result.failure_code, sizeof(result.failure_code), "%s", last->failure_code);
        (void) snprintf(result.text, sizeof(result.text), "%.*s", (int) sizeof(result.text) - 1, last->text);
        memcpy(ret, &result, ret->size < sizeof(result) ? ret->size : sizeof(result));
        return 0;
}

int cofferdam_exec_fd(const struct cofferdam_exec *exec) {
        return exec->sock;
}

int cofferdam_exec_pty(const struct cofferdam_exec *exec) {
        return exec->pty_fd;
}

uint32_t cofferdam_exec_number(const struct cofferdam_exec *exec) {
        return exec->id;
}

const char *cofferdam_exec_run_id(const struct cofferdam_exec *exec) {
        return exec->run_id;
}

int cofferdam_exec_signal(struct cofferdam_exec *exec, int signal, int group) {
        const struct run_msg msg = { .type = RUN_MSG_SIGNAL, .signal = signal, .code = group != 0 };
        int r;

        r = exec->ended ? -ESRCH : run_msg_send(exec->sock, &msg, -1);
        if (r == 0)
                return 0;
        r = r == -EPIPE ? -ESRCH : r;
        (void) error_set(&exec->c->err, r, "signal %d: %s", signal, strerror(-r));
        return context_failed(exec->c, r, NULL);
}

void cofferdam_exec_free(struct cofferdam_exec *exec) {
        if (!exec)
                return;
        (void) fd_close(exec->sock);
        (void) fd_close(exec->pty_fd);
        free(exec);
}
