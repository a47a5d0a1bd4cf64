/*
 * message.h - what a client (run, start, exec, stop) and the supervisor say to each other: fixed-size
 * SOCK_SEQPACKET messages
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/base/block.h"
#include "runtime/base/error.h"
#include "runtime/run/state.h"

enum run_msg_type {
        /* supervisor to client */
        RUN_MSG_READY,   /* commands can be started (to the client of 'start' only, who sends it back) */
        RUN_MSG_STARTED, /* the command runs, its number is @id; with a terminal: the pty's master comes along
                          */
        RUN_MSG_EXIT,    /* the command, or the run, is over: code, signal, held */
        RUN_MSG_ERROR,   /* it failed before or around the command: code, failure_code, text */
        RUN_MSG_COMMAND, /* answer to a list: one running command: id, code: its pid inside, text: argv[0] */
        /* client to supervisor */
        RUN_MSG_EXEC,   /* start a command: flags, size, rows, cols; a block (block.h) and the streams come
                           along */
        RUN_MSG_SIGNAL, /* forward @signal, to the process group when @code is 1 */
        RUN_MSG_KILL,   /* end the command, or the run, now */
        RUN_MSG_STOP,   /* end the run: SIGTERM, @code seconds of grace, SIGKILL; answered by EXIT or ERROR */
        RUN_MSG_LIST,   /* name the running commands; answered by COMMAND for each and an EXIT */
        RUN_MSG_NET,    /* change the rules of the network: a block comes along: presets in place of a
                           directory, "add" or "replace", rules; answered by EXIT or ERROR */
        RUN_MSG_SECRET, /* replace the content of the secret @text, a file, by the descriptor that comes
                           along; answered by EXIT or ERROR */
        RUN_MSG_EVENT,  /* write an event of the client's (tell.h): a block comes along: type, data as JSON;
                           answered by EXIT or ERROR, and the client may send the next */
        RUN_MSG_TYPE_COUNT
};

enum run_msg_flag {
        RUN_EXEC_STDIN = 1 << 0,
        RUN_EXEC_STDOUT = 1 << 1,
        RUN_EXEC_STDERR = 1 << 2,
        RUN_EXEC_TTY = 1 << 3,
        RUN_EXEC_DETACH = 1 << 4, /* nobody waits; what it says goes to the run's logs */
        RUN_END_LINGERS = 1 << 5, /* the run is over; the supervisor stays for a reader of --events */
};

enum { RUN_MSG_FDS_MAX = 4 }; /* a block and three streams */

/** struct run_msg - one message; unused fields are zero */
struct run_msg {
        uint32_t type; /* enum run_msg_type */
        int32_t code;  /* exit code */
        int32_t signal;
        int32_t exec_errno;     /* why the command could not be executed; negative: its working directory */
        uint32_t held;          /* changes that the run keeps for review */
        uint32_t id;            /* of a command */
        uint32_t flags;         /* enum run_msg_flag */
        struct block_size size; /* of the block */
        uint16_t rows, cols;    /* of a new terminal */
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

/**
 * run_msg_recv_fds() - run_msg_recv() with several descriptors
 * @fds: room for RUN_MSG_FDS_MAX, owned by the caller
 */
int run_msg_recv_fds(int sock, struct run_msg *ret, int fds[RUN_MSG_FDS_MAX], size_t *ret_n)
        __attribute__((warn_unused_result));
