#include "runtime/run/client.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "runtime/base/cleanup.h"
#include "runtime/run/terminal.h"

/* What is forwarded; @group: a terminal would send it to the whole foreground group. */
static const struct {
        int sig;
        bool group;
} forwarded[] = {
        { SIGINT, true },   { SIGQUIT, true },  { SIGHUP, true },
        { SIGTERM, false }, { SIGUSR1, false }, { SIGUSR2, false },
};

static sigset_t client_signals(void) {
        sigset_t set;

        (void) sigemptyset(&set);
        for (size_t i = 0; i < ARRAY_SIZE(forwarded); i++)
                (void) sigaddset(&set, forwarded[i].sig);
        (void) sigaddset(&set, SIGWINCH);
        (void) sigaddset(&set, SIGCONT);
        return set;
}

int client_block_signals(void) {
        const sigset_t set = client_signals();

        return sigprocmask(SIG_BLOCK, &set, NULL) < 0 ? -errno : 0;
}

struct client {
        int sock, signal_fd, in_fd, out_fd;
        struct terminal terminal; /* pty_fd -1: no relay */
        unsigned int interrupts;
        bool over;
        struct run_msg last;
};

static void forward(struct client *c, int sig, bool group) {
        const struct run_msg msg = {
                .type = sig == SIGINT && ++c->interrupts > 1 ? RUN_MSG_KILL : RUN_MSG_SIGNAL,
                .signal = sig,
                .code = group,
        };

        (void) run_msg_send(c->sock, &msg, -1); /* a dead supervisor shows as end of file */
}

static void on_signal(struct client *c) {
        struct signalfd_siginfo info;

        if (read(c->signal_fd, &info, sizeof(info)) != sizeof(info))
                return;
        for (size_t i = 0; i < ARRAY_SIZE(forwarded); i++)
                if ((uint32_t) forwarded[i].sig == info.ssi_signo)
                        forward(c, forwarded[i].sig, forwarded[i].group);
        if (c->terminal.pty_fd >= 0 && info.ssi_signo == SIGWINCH)
                terminal_resize(&c->terminal);
        if (c->terminal.pty_fd >= 0 && info.ssi_signo == SIGCONT)
                terminal_resume(&c->terminal);
}

static int on_message(struct client *c) {
        struct run_msg msg;
        AUTO_FD int fd = -1;
        int r;

        r = run_msg_recv(c->sock, &msg, &fd);
        if (r < 0)
                return r;
        if (msg.type == RUN_MSG_STARTED && fd >= 0 && c->terminal.pty_fd < 0)
                terminal_init(&c->terminal, c->in_fd, c->out_fd, TAKE_FD(fd));
        if (msg.type == RUN_MSG_EXIT || msg.type == RUN_MSG_ERROR) {
                c->last = msg;
                c->over = true;
        }
        return 0;
}

static int loop(struct client *c) {
        while (!c->over) {
                struct pollfd fds[5] = { { .fd = c->sock, .events = POLLIN },
                                         { .fd = c->signal_fd, .events = POLLIN } };
                int r;

                terminal_poll(&c->terminal, fds + 2);
                if (poll(fds, ARRAY_SIZE(fds), -1) < 0) {
                        if (errno == EINTR)
                                continue;
                        return -errno;
                }
                if (fds[1].revents)
                        on_signal(c);
                terminal_dispatch(&c->terminal, fds + 2);
                r = fds[0].revents ? on_message(c) : 0;
                if (r < 0)
                        return r;
        }
        return 0;
}

int client_wait(int sock, int in_fd, int out_fd, struct run_msg *ret, struct error *err) {
        const sigset_t set = client_signals();
        struct client c = { .sock = sock, .in_fd = in_fd, .out_fd = out_fd, .terminal = { .pty_fd = -1 } };
        AUTO_FD int signal_fd = -1;
        int r;

        signal_fd = signalfd(-1, &set, SFD_CLOEXEC);
        if (signal_fd < 0)
                return error_set(err, -errno, "signalfd: %s", strerror(errno));
        c.signal_fd = signal_fd;
        r = loop(&c);
        if (r == 0 && c.last.type == RUN_MSG_EXIT)
                terminal_drain(&c.terminal);
        terminal_deinit(&c.terminal);
        if (r < 0)
                return error_set(err, r, "the supervisor of the run died: %s", strerror(-r));
        *ret = c.last;
        return 0;
}
