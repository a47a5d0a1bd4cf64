/*
 * proto.h - what the supervisor and the sandbox's pid 1 say to each other: fixed-size SOCK_SEQPACKET messages
 *
 * Both ends are one program of one version. The supervisor still checks each event: pid 1 lives next to the
 * work.
 */
#pragma once

#include <stdint.h>

enum proto_op {
        PROTO_EXEC,   /* descriptors: the block (block.h), then those of stdio that are open */
        PROTO_SIGNAL, /* to command id */
        PROTO_OP_COUNT
};

enum proto_flag {
        PROTO_STDIN = 1 << 0,
        PROTO_STDOUT = 1 << 1,
        PROTO_STDERR = 1 << 2,
        PROTO_TTY = 1 << 3,
        PROTO_GROUP = 1 << 4, /* signal: to the process group */
};

enum {
        PROTO_TEXT_MAX = 512,
        PROTO_STAGE_MAX = 16,
        PROTO_COMMANDS_MAX = 64,        /* at a time */
        PROTO_FUSE_DEVICE = 0x7fffffff, /* to the file server, in place of a region: it is /dev/fuse */
};

/** struct proto_request - supervisor to pid 1 */
struct proto_request {
        uint32_t op; /* enum proto_op */
        uint32_t id;
        uint32_t flags; /* enum proto_flag */
        int32_t signal;
        uint32_t argc, envc;
        uint32_t block_len;
        uint16_t rows, cols, xpixel, ypixel;
};

enum proto_event_type {
        PROTO_SEED_FILE, /* a file of seed number id was copied: bytes, text: 64 digits of its sha256, then
                            its path below the seed, cut where the message ends; "" when the seed is the file
                          */
        PROTO_SEEDED,    /* seed number id, a directory, was copied: code files, bytes */
        PROTO_OVERLAY,   /* region number id has an overlay: what mnt_forget() wants comes along */
        PROTO_SECRETS,   /* the directory of the secrets, to write in, comes along */
        PROTO_READY,     /* the sandbox is built, commands can come */
        PROTO_FAILED,    /* building it failed: stage, code, text; pid 1 ends */
        PROTO_STARTED,   /* a command runs; with tty: the pty's master comes along */
        PROTO_FINISHED,  /* it ended */
        PROTO_EVENT_COUNT
};

/** struct proto_event - pid 1 to supervisor */
struct proto_event {
        uint32_t type; /* enum proto_event_type */
        uint32_t id;
        int32_t code; /* failed: negative errno; finished: exit code */
        int32_t signal;
        int32_t exec_errno;
        union {
                uint64_t max_rss_bytes; /* finished */
                uint64_t bytes;         /* seeded */
        };
        char stage[PROTO_STAGE_MAX];
        char text[PROTO_TEXT_MAX];
};
