/*
 * terminal.h - the caller's terminal on one side, the sandbox's pty on the other
 */
#pragma once

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <termios.h>

enum { RELAY_BUF_BYTES = 16384 };

/** struct relay_buf - bytes on their way in one direction */
struct relay_buf {
        char data[RELAY_BUF_BYTES];
        size_t start, end;
};

/** struct terminal - a relay; embedded, made with terminal_init() */
struct terminal {
        int in_fd, out_fd; /* the caller's, borrowed */
        int pty_fd;        /* master of the sandbox's pty, owned; -1: closed */
        bool raw;          /* in_fd is a terminal in raw mode */
        bool in_open;
        struct termios saved;
        struct relay_buf up, down; /* caller to pty, pty to caller */
};

/**
 * terminal_init() - start relaying: raw mode on @in_fd when it is a terminal and we are in the foreground
 * @pty_fd: consumed
 */
void terminal_init(struct terminal *t, int in_fd, int out_fd, int pty_fd);

/** terminal_resume() - after SIGCONT: raw mode again, size copied */
void terminal_resume(struct terminal *t);

/** terminal_resize() - copy the caller's window size to the pty (the kernel then sends SIGWINCH inside) */
void terminal_resize(struct terminal *t);

/** terminal_poll() - fill three entries for poll(2): caller's input, caller's output, pty; fd -1 where
 * nothing is wanted */
void terminal_poll(const struct terminal *t, struct pollfd fds[3]);
/** terminal_dispatch() - move bytes as poll(2) allowed */
void terminal_dispatch(struct terminal *t, const struct pollfd fds[3]);

/** terminal_drain() - after the command ended: pass on what the pty still holds until its last user is gone.
 * Blocks. */
void terminal_drain(struct terminal *t);

/** terminal_deinit() - restore the caller's terminal, close the pty; accepts a zeroed struct with pty_fd -1
 */
void terminal_deinit(struct terminal *t);
