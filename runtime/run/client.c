#include "runtime/run/client.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "runtime/base/cleanup.h"
#include "runtime/run/terminal.h"

enum { INTERRUPTS_KILL_RUN = 2, INTERRUPTS_KILL_SUPERVISOR = 3, EXIT_AROUND = 125 };

/* What is forwarded; @group: a terminal would send it to the whole foreground group. */
static const struct {
        int sig;
        bool group;
} forwarded[] = {
        { SIGINT, true },   { SIGQUIT, true },  { SIGHUP, true },  { SIGTERM, false },
        { SIGUSR1, false }, { SIGUSR2, false }, { SIGCONT, true },
};

/* A blocked signal is queued although it is ignored, and nohup(1) means what it says. */
static void add_unless_ignored(sigset_t *set, int sig) {
        struct sigaction action;

        if (sigaction(sig, NULL, &action) < 0 || action.sa_handler != SIG_IGN)
                (void) sigaddset(set, sig);
}

static sigset_t client_signals(void) {
        sigset_t set;

        (void) sigemptyset(&set);
        for (size_t i = 0; i < ARRAY_SIZE(forwarded); i++)
                add_unless_ignored(&set, forwarded[i].sig);
        add_unless_ignored(&set, SIGTSTP);
        (void) sigaddset(&set, SIGWINCH);
        (void) sigaddset(&set, SIGCONT);
        return set;
}

int client_block_signals(void) {
        const sigset_t set = client_signals();
        const struct sigaction ignore = { .sa_handler = SIG_IGN };

        /* RLIMIT_FSIZE: EFBIG is an answer, dying is not */
        if (sigaction(SIGXFSZ, &ignore, NULL) < 0)
                return -errno;
        return sigprocmask(SIG_BLOCK, &set, NULL) < 0 ? -errno : 0;
}

struct client {
        pid_t supervisor;
        int sock, signal_fd, in_fd, out_fd;
        struct terminal terminal; /* pty_fd -1: no relay */
        struct relay *relay;
        unsigned int interrupts;
        bool over;      /* the run: what the terminal still holds is passed on */
        bool impatient; /* and not even that is waited for */
        struct run_msg last;
};

static void forward(struct client *c, int sig, bool group) {
        const struct run_msg msg = {
                .type = c->interrupts >= INTERRUPTS_KILL_RUN ? RUN_MSG_KILL : RUN_MSG_SIGNAL,
                .signal = sig,
                .code = group,
        };

        (void) run_msg_send(c->sock, &msg, -1); /* a dead supervisor shows as end of file */
}

/* Ctrl-Z where the command has no terminal of its own: it stops, then we do, and go on together. */
static void suspend(struct client *c) {
        const struct timespec now = { 0 };
        sigset_t stop, cont;

        (void) sigemptyset(&stop);
        (void) sigaddset(&stop, SIGTSTP);
        (void) sigemptyset(&cont);
        (void) sigaddset(&cont, SIGCONT);
        forward(c, SIGSTOP, true);
        terminal_suspend(&c->terminal);
        (void) raise(SIGTSTP);
        (void) sigprocmask(SIG_UNBLOCK, &stop, NULL); /* here we stop, unless nobody could continue us */
        (void) sigprocmask(SIG_BLOCK, &stop, NULL);
        (void) sigtimedwait(&cont, NULL, &now); /* forwarded here, not a second time */
        terminal_resume(&c->terminal);
        forward(c, SIGCONT, true);
}

/* A third one means it: not even the supervisor answers. */
static void count_interrupt(struct client *c) {
        if (++c->interrupts < INTERRUPTS_KILL_SUPERVISOR)
                return;
        if (c->supervisor > 0)
                (void) kill(c->supervisor, SIGKILL);
        else
                (void) shutdown(c->sock, SHUT_RDWR); /* a run of its own lives on; its command sees us go */
}

static void on_signal(struct client *c) {
        struct signalfd_siginfo info;

        if (read(c->signal_fd, &info, sizeof(info)) != sizeof(info))
                return;
        if (info.ssi_signo == SIGINT)
                count_interrupt(c);
        for (size_t i = 0; i < ARRAY_SIZE(forwarded); i++)
                if ((uint32_t) forwarded[i].sig == info.ssi_signo) {
                        forward(c, forwarded[i].sig, forwarded[i].group);
                        c->impatient |= c->over && info.ssi_signo != SIGCONT;
                }
        if (info.ssi_signo == SIGTSTP)
                suspend(c);
        if (info.ssi_signo == SIGWINCH)
                terminal_resize(&c->terminal);
        if (info.ssi_signo == SIGCONT)
                terminal_resume(&c->terminal);
}

static int on_message(struct client *c) {
        struct run_msg msg;
        AUTO_FD int fd = -1;
        int r;

        r = run_msg_recv(c->sock, &msg, &fd);
        if (r ==
            -ECONNRESET) /* it ended with a signal of ours unread: the kernel tells that before its words */
                r = run_msg_recv(c->sock, &msg, &fd);
        if (r < 0)
                return r;
        if (msg.type == RUN_MSG_STARTED && fd >= 0 && c->terminal.pty_fd < 0)
                terminal_init(&c->terminal, c->in_fd, c->out_fd, TAKE_FD(fd));
        if (msg.type == RUN_MSG_EXIT || msg.type == RUN_MSG_ERROR || msg.type == RUN_MSG_READY) {
                c->last = msg;
                c->over = true;
                terminal_finish(&c->terminal);
        }
        return 0;
}

static int loop(struct client *c) {
        while (!c->over || (terminal_holds(&c->terminal) && !c->impatient)) {
                struct pollfd fds[5 + RELAY_STREAMS] = { { .fd = c->over ? -1 : c->sock, .events = POLLIN },
                                                         { .fd = c->signal_fd, .events = POLLIN } };
                const int relay_ms = relay_poll(c->relay, fds + 5);
                const int terminal_ms = terminal_poll(&c->terminal, fds + 2);
                int n, r;

                n = poll(fds, ARRAY_SIZE(fds), terminal_ms >= 0 ? terminal_ms : relay_ms);
                if (n < 0) {
                        if (errno == EINTR)
                                continue;
                        return -errno;
                }
                if (fds[1].revents)
                        on_signal(c);
                terminal_dispatch(&c->terminal, fds + 2, n == 0 && terminal_ms >= 0);
                relay_dispatch(c->relay, fds + 5);
                r = fds[0].revents ? on_message(c) : 0;
                if (r < 0)
                        return r;
        }
        return 0;
}

void client_tell_lost(const struct relay *relay, struct run_msg *ret) {
        struct error err = { 0 };

        if (ret->type != RUN_MSG_EXIT || relay_error(relay, &err) == 0)
                return;
        ret->type = RUN_MSG_ERROR;
        if (ret->code == 0)
                ret->code = EXIT_AROUND;
        (void) snprintf(ret->text, sizeof(ret->text), "%s", err.msg);
        (void) snprintf(ret->failure_code, sizeof(ret->failure_code), "SANDBOX_SETUP_FAILED");
}

int client_wait(pid_t supervisor, int sock, int in_fd, int out_fd, struct relay *relay, struct run_msg *ret,
                struct error *err) {
        const struct sigaction ignore = { .sa_handler = SIG_IGN };
        const sigset_t set = client_signals();
        struct client c = { .supervisor = supervisor,
                            .sock = sock,
                            .in_fd = in_fd,
                            .out_fd = out_fd,
                            .terminal = TERMINAL_INIT,
                            .relay = relay };
        AUTO_FD int signal_fd = -1;
        int r;

        (void) sigaction(SIGPIPE, &ignore, NULL); /* or the terminal would stay raw */
        signal_fd = signalfd(-1, &set, SFD_CLOEXEC);
        if (signal_fd < 0)
                return error_set(err, -errno, "signalfd: %s", strerror(errno));
        c.signal_fd = signal_fd;
        r = loop(&c);
        terminal_deinit(&c.terminal);
        relay_drain(relay);
        if (r < 0)
                return error_set(err, r, "the supervisor of the run %s: %s",
                                 c.supervisor > 0 ? "died" : "ended before the command did", strerror(-r));
        *ret = c.last;
        client_tell_lost(relay, ret);
        return 0;
}
