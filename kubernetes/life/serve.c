#include "kubernetes/life/serve.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kubernetes/command.h"
#include "kubernetes/life/exec.h"
#include "kubernetes/life/run.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/fdpass.h"
#include "runtime/base/sys.h"

/** struct child - one command */
struct child {
        uint32_t op, id; /* @id 0: free */
        pid_t pid;
        int result_fd, signal_fd; /* owned */
        int master_fd;            /* of its terminal until it is handed over, owned; -1 */
        bool started;
};

struct serve {
        struct child children[SERVE_COMMANDS_MAX];
        const char *const *env;
};

static void reply(const struct serve_reply *r, int fd) {
        (void) !fdpass_send(RUN_SOCK, r, sizeof(*r), &fd, fd >= 0 ? 1 : 0);
}

static void refuse(const struct serve_order *order, int error, const char *text) {
        struct serve_reply r = {
                .op = order->op, .id = order->id, .ended = 1, .exit_code = 125, .error = error
        };

        (void) snprintf(r.text, sizeof(r.text), "%s: %s", text, strerror(error));
        reply(&r, -1);
}

/* In the child: @fds become 0 to 5. */
static int become(const char *word, const int fds[6], bool tty, const char *const *env) {
        const char *const argv[] = { "cofferdam-kubernetes", word, NULL };
        int high[6];

        (void) setsid();
        for (int i = 0; i < 6; i++) {
                high[i] = fcntl(fds[i], F_DUPFD_CLOEXEC, 10);
                if (high[i] < 0)
                        return errno;
        }
        for (int i = 0; i < 6; i++)
                if (dup2(high[i], i) < 0)
                        return errno;
        if (tty && ioctl(0, TIOCSCTTY, 0) < 0)
                return errno;
        (void) sys_close_range(6, ~0U, CLOSE_RANGE_CLOEXEC);
        (void) execve("/proc/self/exe", (char **) (uintptr_t) argv, (char **) (uintptr_t) env);
        return errno;
}

/* @ret_slave: owned. Return: master, owned, or -errno. */
static int open_terminal(const struct serve_order *order, int *ret_slave) {
        AUTO_FD int master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
        int unlock = 0, slave;

        if (master < 0 || ioctl(master, TIOCSPTLCK, &unlock) < 0)
                return -errno;
        slave = ioctl(master, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
        if (slave < 0)
                return -errno;
        if (order->size.ws_row && order->size.ws_col)
                (void) ioctl(master, TIOCSWINSZ, &order->size);
        *ret_slave = slave;
        return TAKE_FD(master);
}

static struct child *free_child(struct serve *s) {
        for (size_t i = 0; i < SERVE_COMMANDS_MAX; i++)
                if (s->children[i].id == 0)
                        return &s->children[i];
        return NULL;
}

static int spawn(struct serve *s, struct child *child, const struct serve_order *order, int order_fd,
                 const int stdio[3]) {
        AUTO_FD int null = open("/dev/null", O_RDWR | O_CLOEXEC);
        AUTO_FD int result_r = -1, result_w = -1, signal_r = -1, signal_w = -1, master = -1, slave = -1;
        const char *word = order->op == SERVE_SECRET ? "secret" : "exec";
        int pair[2], fds[6];
        pid_t pid;

        if (null < 0 || pipe2(pair, O_CLOEXEC) < 0)
                return -errno;
        result_r = pair[0];
        result_w = pair[1];
        if (pipe2(pair, O_CLOEXEC) < 0)
                return -errno;
        signal_r = pair[0];
        signal_w = pair[1];
        if (order->tty) {
                master = open_terminal(order, &slave);
                if (master < 0)
                        return master;
        }
        for (int i = 0; i < 3; i++)
                fds[i] = order->tty ? slave : stdio[i] >= 0 ? stdio[i] : null;
        fds[EXEC_ORDER] = order_fd;
        fds[EXEC_RESULT] = result_w;
        fds[EXEC_SIGNALS] = signal_r;
        pid = fork();
        if (pid < 0)
                return -errno;
        if (pid == 0) {
                const struct exec_report report = { .ended = true,
                                                    .error = become(word, fds, order->tty, s->env) };

                _exit(write(result_w, &report, sizeof(report)) > 0 ? 1 : 2);
        }
        *child = (struct child){ .op = order->op,
                                 .id = order->id,
                                 .pid = pid,
                                 .result_fd = TAKE_FD(result_r),
                                 .signal_fd = TAKE_FD(signal_w),
                                 .master_fd = TAKE_FD(master) };
        return 0;
}

static void on_exec(struct serve *s, const struct serve_order *order, const int *fds, size_t n) {
        struct child *child = free_child(s);
        int stdio[3] = { -1, -1, -1 };
        size_t k = 1;
        int r;

        for (int i = 0; i < 3; i++)
                if (order->stdio[i] && k < n)
                        stdio[i] = fds[k++];
        if (n == 0 || !child) {
                refuse(order, n == 0 ? EPROTO : EAGAIN, "start the command");
                return;
        }
        r = spawn(s, child, order, fds[0], stdio);
        if (r < 0)
                refuse(order, -r, "start the command");
}

static void on_signal(struct serve *s, const struct serve_order *order) {
        const struct exec_signal sig = { order->signal, order->group };

        for (size_t i = 0; i < SERVE_COMMANDS_MAX; i++)
                if (s->children[i].op == SERVE_EXEC && s->children[i].id == order->id)
                        (void) !write(s->children[i].signal_fd, &sig, sizeof(sig));
}

/* Return: whether there is somebody to serve */
static bool on_message(struct serve *s) {
        struct serve_order order;
        int fds[FDPASS_MAX];
        size_t len, n = 0;
        const int r = fdpass_recv(RUN_SOCK, &order, sizeof(order), &len, fds, FDPASS_MAX, &n);

        if (r == -EAGAIN || r == -EMSGSIZE)
                return true;
        if (r < 0)
                return false;
        if (len == sizeof(order) && order.id != 0 && (order.op == SERVE_EXEC || order.op == SERVE_SECRET))
                on_exec(s, &order, fds, n);
        else if (len == sizeof(order) && order.id != 0 && order.op == SERVE_SIGNAL)
                on_signal(s, &order);
        while (n > 0)
                (void) close(fds[--n]);
        return true;
}

static void child_end(struct child *child, const struct exec_report *report) {
        struct serve_reply r = { .op = child->op,
                                 .id = child->id,
                                 .ended = 1,
                                 .pid = child->pid,
                                 .exit_code = report->error ? 125 : report->exit_code,
                                 .error = report->error };

        memcpy(r.text, report->text, sizeof(r.text));
        r.text[sizeof(r.text) - 1] = '\0';
        while (waitpid(child->pid, NULL, 0) < 0 && errno == EINTR)
                ;
        reply(&r, -1);
        child->result_fd = fd_close(child->result_fd);
        child->signal_fd = fd_close(child->signal_fd);
        child->master_fd = fd_close(child->master_fd);
        child->id = 0;
}

static void on_report(struct child *child) {
        struct exec_report report = { .ended = true, .error = EIO, .text = "its process here was killed" };
        const ssize_t n = read(child->result_fd, &report, sizeof(report));

        if (n < 0 && errno == EINTR)
                return;
        if (n == (ssize_t) sizeof(report) && report.started && !report.ended) {
                const struct serve_reply r = { .id = child->id, .pid = child->pid };

                reply(&r, child->master_fd);
                child->master_fd = fd_close(child->master_fd);
                child->started = true;
                return;
        }
        child_end(child, &report);
}

int command_serve(int argc, char **argv, const char *const *environ_) {
        struct serve s = { .env = environ_ };

        (void) argc;
        (void) argv;
        for (size_t i = 0; i < SERVE_COMMANDS_MAX; i++)
                s.children[i] = (struct child){ .result_fd = -1, .signal_fd = -1, .master_fd = -1 };
        for (int sig = 1; sig < 32; sig++)
                if (sig == SIGINT || sig == SIGTERM || sig == SIGHUP || sig == SIGQUIT)
                        (void) signal(sig, SIG_IGN);
        for (;;) {
                struct pollfd fds[SERVE_COMMANDS_MAX + 1] = { { .fd = RUN_SOCK, .events = POLLIN } };

                for (size_t i = 0; i < SERVE_COMMANDS_MAX; i++)
                        fds[i + 1] = (struct pollfd){ .fd = s.children[i].id ? s.children[i].result_fd : -1,
                                                      .events = POLLIN };
                if (poll(fds, SERVE_COMMANDS_MAX + 1, -1) < 0 && errno != EINTR)
                        return CODE_FAILED;
                for (size_t i = 0; i < SERVE_COMMANDS_MAX; i++)
                        if (fds[i + 1].fd >= 0 && fds[i + 1].revents)
                                on_report(&s.children[i]);
                if (fds[0].revents && !on_message(&s))
                        break;
        }
        for (size_t i = 0; i < SERVE_COMMANDS_MAX; i++)
                if (s.children[i].id)
                        (void) kill(s.children[i].pid, SIGKILL);
        return CODE_OK;
}
