/*
 * serve.h - the process that starts the commands of a run: what drivers/kubernetes and it say to each other
 *
 * The supervisor cannot execute anything once the sandbox is ready, so this process, which it started before,
 * does. Messages are whole structs on RUN_SOCK (SOCK_SEQPACKET); the end of the socket ends every command.
 */
#pragma once

#include <stdint.h>
#include <sys/ioctl.h>

enum serve_op { SERVE_EXEC, SERVE_SIGNAL, SERVE_SECRET, SERVE_OP_COUNT };

/** struct serve_order - to it. SERVE_EXEC comes with descriptors: the order of exec.h, then those of @stdio;
 * SERVE_SECRET with {"context","file","ns","secret","key"}, and the new value as stdin */
struct serve_order {
        uint32_t op; /* enum serve_op */
        uint32_t id;
        int32_t signal, group;
        uint8_t stdio[3]; /* 1: there is a descriptor for it */
        uint8_t tty;
        struct winsize size;
};

/** struct serve_reply - from it: the command runs (with the master of its terminal), or has ended */
struct serve_reply {
        uint32_t op; /* of the order */
        uint32_t id;
        uint32_t ended;
        int32_t pid; /* of the process here that stands for it */
        int32_t exit_code;
        int32_t error; /* 0, or the errno with which it was refused or lost */
        char text[512];
};

enum { SERVE_COMMANDS_MAX = 80 };
