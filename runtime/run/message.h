/*
 * message.h - what the caller's process and the supervisor say to each other: fixed-size SOCK_SEQPACKET
 * messages
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "runtime/base/error.h"
#include "runtime/run/state.h"

enum run_msg_type {
        /* supervisor to caller */
        RUN_MSG_STARTED, /* the command runs; with tty: the pty's master comes along */
        RUN_MSG_EXIT,    /* everything is over: code, signal, held */
        RUN_MSG_ERROR,   /* the run failed before or around the command: code, failure_code, text */
        /* caller to supervisor */
        RUN_MSG_SIGNAL, /* forward @signal, to the process group when @code is 1 */
        RUN_MSG_KILL,   /* end the run now */
        RUN_MSG_TYPE_COUNT
};

/** struct run_msg - one message; unused fields are zero */
struct run_msg {
        uint32_t type; /* enum run_msg_type */
        int32_t code;  /* exit code */
        int32_t signal;
        int32_t exec_errno; /* why the command could not be executed */
        uint32_t held;      /* changes that the run keeps for review */
        char run_id[RUN_ID_LEN + 1];
        char failure_code[32]; /* docs/man/cofferdam-events.7 */
        char text[ERROR_MSG_MAX];
};

/**
 * run_msg_send() - @fd: a descriptor to pass along, -1: none
 * Return: 0 or -errno.
 */
int run_msg_send(int sock, const struct run_msg *msg, int fd);

/**
 * run_msg_recv() - receive and check one message: size, type, terminated strings
 * @ret_fd: descriptor that came along or -1, owned; NULL: none is allowed
 * Return: 0, -ECONNRESET (peer gone), -EPROTO, -EAGAIN, -errno.
 */
int run_msg_recv(int sock, struct run_msg *ret, int *ret_fd) __attribute__((warn_unused_result));
