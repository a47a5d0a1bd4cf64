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
        int own_out_fd;    /* out_fd opened again without blocking, owned; -1: there is none */
        int pty_fd;        /* master of the sandbox's pty, owned; -1: closed */
        bool in_tty;       /* in_fd is a terminal */
        bool background;   /* and a shell gave it to another job: neither read nor changed */
        bool raw;          /* in_fd is in raw mode */
        bool in_open;
        bool line_open; /* the last byte that came in did not end a line */
        bool closed;    /* nobody has the other side open at the moment */
        bool finished;  /* the command has ended: only what it said matters */
        struct termios saved;
        struct relay_buf up, down; /* caller to pty, pty to caller */
};
#define TERMINAL_INIT \
        { .in_fd = -1, .out_fd = -1, .own_out_fd = -1, .pty_fd = -1 }

/**
 * terminal_init() - start relaying: raw mode on @in_fd when it is a terminal and we are in the foreground
 * @pty_fd: consumed
 */
void terminal_init(struct terminal *t, int in_fd, int out_fd, int pty_fd);

/** terminal_suspend() - before this process stops: the caller's modes again */
void terminal_suspend(struct terminal *t);

/** terminal_resume() - after SIGCONT: raw mode again, size copied */
void terminal_resume(struct terminal *t);

/** terminal_resize() - copy the caller's window size to the pty (the kernel then sends SIGWINCH inside) */
void terminal_resize(struct terminal *t);

/**
 * terminal_poll() - fill three entries for poll(2): caller's input, caller's output, pty; fd -1 where nothing
 * is wanted
 * Return: how long to wait, in ms; -1: without limit.
 */
int terminal_poll(const struct terminal *t, struct pollfd fds[3]);

/** terminal_dispatch() - move bytes as poll(2) allowed. @timed_out: it returned 0 */
void terminal_dispatch(struct terminal *t, const struct pollfd fds[3], bool timed_out);

/** terminal_finish() - the command has ended: take no more input */
void terminal_finish(struct terminal *t);

/** terminal_holds() - whether output may still come out of the pty or waits for the caller */
bool terminal_holds(const struct terminal *t);

/** terminal_deinit() - restore the caller's terminal, close the pty; accepts TERMINAL_INIT */
void terminal_deinit(struct terminal *t);
