/*
 * DOC: theory of operation
 *
 * Two buffers between the caller's descriptors and the master of the sandbox's pty. Nothing here may block:
 * the client reads its signals in the same loop. The caller's descriptors are shared with others, so they are
 * not made non-blocking; instead a terminal is opened a second time, and what is not one gets at most
 * PIPE_BUF bytes after poll(2) said that it takes some.
 *
 * The caller's terminal belongs to its shell. While that has given it to another job it is neither read (the
 * shell's input would be taken, and SIGTTIN stop us) nor changed; that it came back is only told to a job
 * that was stopped, so it is looked at now and then.
 */
#include "runtime/run/terminal.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "runtime/base/cleanup.h"
#include "runtime/base/file.h"

enum { DRAIN_STEP_MS = 2000, BACKGROUND_STEP_MS = 200, CLOSED_STEP_MS = 50, END_OF_FILE = 4 };

/* A terminal that does not control us is nobody's to give. */
static bool in_foreground(const struct terminal *t) {
        const pid_t group = tcgetpgrp(t->in_fd);

        return group < 0 ? errno == ENOTTY : group == getpgrp();
}

/* Follows the caller's shell: takes the terminal when it is ours, leaves it alone when it is not. */
static void attend(struct terminal *t) {
        struct termios raw;

        t->background = t->in_tty && !in_foreground(t);
        if (t->background)
                t->raw = false; /* the shell has put its own modes in place */
        if (!t->in_tty || t->background || t->raw || t->finished || tcgetattr(t->in_fd, &t->saved) < 0)
                return;
        raw = t->saved;
        cfmakeraw(&raw);
        t->raw = tcsetattr(t->in_fd, TCSADRAIN, &raw) == 0;
        terminal_resize(t);
}

/* Return: @fd, a terminal, opened again; -1: it is none, or belongs to another user. */
static int open_again(int fd) {
        char path[32];

        if (fd < 0 || !isatty(fd))
                return -1;
        (void) snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
        return open(path, O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
}

/* There is no more input: the terminal inside says so with its end-of-file character, which only ends a line
 * that has begun. */
static void input_ended(struct terminal *t) {
        struct termios modes;
        const char end =
                tcgetattr(t->pty_fd, &modes) == 0 && modes.c_cc[VEOF] ? (char) modes.c_cc[VEOF] : END_OF_FILE;

        t->in_open = false;
        t->up.data[0] = t->up.data[1] = end;
        t->up.start = 0;
        t->up.end = t->line_open ? 2 : 1;
}

void terminal_init(struct terminal *t, int in_fd, int out_fd, int pty_fd) {
        *t = (struct terminal){ .in_fd = in_fd,
                                .out_fd = out_fd,
                                .own_out_fd = open_again(out_fd),
                                .pty_fd = pty_fd,
                                .in_tty = in_fd >= 0 && isatty(in_fd),
                                .in_open = in_fd >= 0 };
        (void) fcntl(pty_fd, F_SETFL, O_NONBLOCK);
        attend(t);
        terminal_resize(t);
        if (in_fd < 0)
                input_ended(t);
}

void terminal_suspend(struct terminal *t) {
        if (t->raw && in_foreground(t))
                (void) tcsetattr(t->in_fd, TCSADRAIN, &t->saved);
        t->raw = false;
}

void terminal_resume(struct terminal *t) {
        if (t->pty_fd < 0)
                return;
        t->raw = false; /* who stopped us has put its own modes in place */
        attend(t);
        terminal_resize(t);
}

void terminal_resize(struct terminal *t) {
        struct winsize size;

        if (t->pty_fd < 0)
                return;
        if ((t->out_fd >= 0 && ioctl(t->out_fd, TIOCGWINSZ, &size) == 0) ||
            (t->in_fd >= 0 && ioctl(t->in_fd, TIOCGWINSZ, &size) == 0))
                (void) ioctl(t->pty_fd, TIOCSWINSZ, &size);
}

static bool has_data(const struct relay_buf *b) {
        return b->start < b->end;
}

int terminal_poll(const struct terminal *t, struct pollfd fds[3]) {
        const bool pty = t->pty_fd >= 0 && !t->closed;
        short wanted = 0;

        if (pty && !has_data(&t->down))
                wanted |= POLLIN;
        if (pty && has_data(&t->up))
                wanted |= POLLOUT;
        fds[0] = (struct pollfd){ .fd = pty && t->in_open && !t->background && !has_data(&t->up) ? t->in_fd
                                                                                                 : -1,
                                  .events = POLLIN };
        fds[1] = (struct pollfd){ .fd = has_data(&t->down) ? t->out_fd : -1, .events = POLLOUT };
        fds[2] = (struct pollfd){ .fd = wanted ? t->pty_fd : -1, .events = wanted };
        if (t->finished && !has_data(&t->down))
                return DRAIN_STEP_MS;
        if (t->pty_fd >= 0 && t->closed)
                return CLOSED_STEP_MS;
        return pty && t->in_open && t->background ? BACKGROUND_STEP_MS : -1;
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

/* Writes what it can, at most @max bytes. Returns false when the other side is gone. */
static bool drain(struct relay_buf *b, int fd, size_t max) {
        const size_t len = b->end - b->start;
        const ssize_t n = write(fd, b->data + b->start, len < max ? len : max);

        if (n < 0)
                return errno == EAGAIN || errno == EINTR;
        b->start += (size_t) n;
        return true;
}

static void take_input(struct terminal *t) {
        attend(t);
        if (t->background)
                return;
        if (!fill(&t->up, t->in_fd))
                input_ended(t);
        else if (has_data(&t->up))
                t->line_open = t->up.data[t->up.end - 1] != '\n';
}

/* Nobody sees what the command says any more: it loses its terminal, as it would have lost the caller's. */
static void output_gone(struct terminal *t) {
        t->down.start = t->down.end = 0;
        t->pty_fd = fd_close(t->pty_fd);
}

static void give_output(struct terminal *t) {
        if (t->own_out_fd >= 0 ? !drain(&t->down, t->own_out_fd, RELAY_BUF_BYTES)
                               : !drain(&t->down, t->out_fd, PIPE_BUF))
                output_gone(t);
}

/*
 * The other side is closed, for now or for good: a command closes its descriptors just before it ends, and
 * may open /dev/tty again. Closing ours earlier than it ends would hang the terminal up and kill it with
 * SIGHUP.
 */
static void other_side_closed(struct terminal *t) {
        t->closed = !t->finished;
        if (t->finished)
                t->pty_fd = fd_close(t->pty_fd);
}

void terminal_dispatch(struct terminal *t, const struct pollfd fds[3], bool timed_out) {
        if (t->pty_fd >= 0 && t->background)
                attend(t);
        if (fds[0].fd >= 0 && fds[0].revents)
                take_input(t);
        if (fds[1].fd >= 0 && fds[1].revents)
                give_output(t);
        if (t->pty_fd < 0)
                return;
        if (timed_out)
                t->closed = false; /* look again */
        if ((fds[2].revents & POLLOUT) && !drain(&t->up, t->pty_fd, RELAY_BUF_BYTES))
                t->up.start = t->up.end = 0;
        if ((fds[2].revents & (POLLIN | POLLHUP | POLLERR)) && !has_data(&t->down) &&
            !fill(&t->down, t->pty_fd))
                other_side_closed(t);
        else if (timed_out && t->finished && !has_data(&t->down))
                t->pty_fd = fd_close(t->pty_fd); /* somebody keeps the other side open, and says nothing */
        if (t->out_fd < 0)
                t->down.start = t->down.end = 0; /* closed by the caller: there is nobody to read */
}

void terminal_finish(struct terminal *t) {
        t->finished = true;
        t->closed = false;
        t->in_open = false;
        t->up.start = t->up.end = 0;
}

bool terminal_holds(const struct terminal *t) {
        return t->pty_fd >= 0 || has_data(&t->down);
}

void terminal_deinit(struct terminal *t) {
        terminal_suspend(t);
        t->pty_fd = fd_close(t->pty_fd);
        t->own_out_fd = fd_close(t->own_out_fd);
}
