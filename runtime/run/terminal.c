#include "runtime/run/terminal.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "runtime/base/cleanup.h"
#include "runtime/base/file.h"

enum { DRAIN_STEP_MS = 2000 };

static void raw_mode(struct terminal *t) {
        struct termios raw = t->saved;

        /* in the background, tcsetattr would stop us with SIGTTOU: the shell owns the terminal then */
        if (tcgetpgrp(t->in_fd) != getpgrp())
                return;
        cfmakeraw(&raw);
        t->raw = tcsetattr(t->in_fd, TCSADRAIN, &raw) == 0;
}

void terminal_init(struct terminal *t, int in_fd, int out_fd, int pty_fd) {
        *t = (struct terminal){ .in_fd = in_fd, .out_fd = out_fd, .pty_fd = pty_fd, .in_open = in_fd >= 0 };
        (void) fcntl(pty_fd, F_SETFL, O_NONBLOCK);
        if (in_fd >= 0 && tcgetattr(in_fd, &t->saved) == 0)
                raw_mode(t);
        terminal_resize(t);
}

void terminal_resume(struct terminal *t) {
        if (t->in_fd >= 0 && isatty(t->in_fd))
                raw_mode(t);
        terminal_resize(t);
}

void terminal_resize(struct terminal *t) {
        struct winsize size;

        if ((t->out_fd >= 0 && ioctl(t->out_fd, TIOCGWINSZ, &size) == 0) ||
            (t->in_fd >= 0 && ioctl(t->in_fd, TIOCGWINSZ, &size) == 0))
                (void) ioctl(t->pty_fd, TIOCSWINSZ, &size);
}

static bool has_data(const struct relay_buf *b) {
        return b->start < b->end;
}

void terminal_poll(const struct terminal *t, struct pollfd fds[3]) {
        const bool pty = t->pty_fd >= 0;
        short wanted = 0;

        if (pty && !has_data(&t->down))
                wanted |= POLLIN;
        if (pty && has_data(&t->up))
                wanted |= POLLOUT;
        fds[0] = (struct pollfd){ .fd = pty && t->in_open && !has_data(&t->up) ? t->in_fd : -1,
                                  .events = POLLIN };
        fds[1] = (struct pollfd){ .fd = has_data(&t->down) ? t->out_fd : -1, .events = POLLOUT };
        fds[2] = (struct pollfd){ .fd = wanted ? t->pty_fd : -1, .events = wanted };
}

/* Reads into an empty buffer. Returns false at end of file or error. */
static bool fill(struct relay_buf *b, int fd) {
        const ssize_t n = read(fd, b->data, sizeof(b->data));

        if (n < 0)
                return errno == EAGAIN || errno == EINTR;
        b->start = 0;
        b->end = (size_t) n;
        return n > 0;
}

/* Writes what it can. Returns false when the other side is gone. */
static bool drain(struct relay_buf *b, int fd) {
        const ssize_t n = write(fd, b->data + b->start, b->end - b->start);

        if (n < 0)
                return errno == EAGAIN || errno == EINTR;
        b->start += (size_t) n;
        return true;
}

static void input_ended(struct terminal *t) {
        t->in_open = false;
        /* a pipe has ended, the terminal inside says so with its end-of-file character */
        t->up.data[0] = 4;
        t->up.start = 0;
        t->up.end = 1;
}

void terminal_dispatch(struct terminal *t, const struct pollfd fds[3]) {
        if (fds[0].fd >= 0 && fds[0].revents && !fill(&t->up, t->in_fd))
                input_ended(t);
        if (fds[1].fd >= 0 && fds[1].revents && !drain(&t->down, t->out_fd))
                t->down.start = t->down.end = 0; /* nobody reads: the command goes on */
        if (fds[2].fd < 0)
                return;
        if ((fds[2].revents & POLLOUT) && !drain(&t->up, t->pty_fd))
                t->up.start = t->up.end = 0;
        if ((fds[2].revents & (POLLIN | POLLHUP | POLLERR)) && !has_data(&t->down) &&
            !fill(&t->down, t->pty_fd))
                t->pty_fd = fd_close(t->pty_fd);
}

void terminal_drain(struct terminal *t) {
        while (t->pty_fd >= 0 || has_data(&t->down)) {
                struct pollfd fds[3];

                t->in_open = false;
                t->up.start = t->up.end = 0;
                terminal_poll(t, fds);
                if (poll(fds, 3, DRAIN_STEP_MS) <= 0)
                        return;
                terminal_dispatch(t, fds);
        }
}

void terminal_deinit(struct terminal *t) {
        if (t->raw)
                (void) tcsetattr(t->in_fd, TCSADRAIN, &t->saved);
        t->raw = false;
        t->pty_fd = fd_close(t->pty_fd);
}
