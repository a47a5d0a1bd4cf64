/*
 * supervise.h - what the parts of the supervisor share: supervisor.c (the life of a run), commands.c (the
 * commands and who waits for them), output.c (what detached commands say)
 */
#pragma once

#include <jansson.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>

#include "drivers/driver.h"
#include "runtime/run/message.h"
#include "runtime/run/output.h"
#include "runtime/run/record.h"
#include "runtime/run/supervisor.h"

/* slots: more than commands, so that a full house can still be stopped and listed */
enum { COMMANDS_MAX = 64, SLOTS_MAX = 80, EXIT_AROUND = 125, EXIT_OVERTIME = 124 };

/** enum client_state - what the other side of a slot is */
enum client_state {
        CLIENT_FREE,   /* nobody, no command */
        CLIENT_NEW,    /* has said nothing yet */
        CLIENT_EXEC,   /* waits for its command; the command may outlive it */
        CLIENT_STOP,   /* waits for the end of the run */
        CLIENT_NET,    /* waits for the network to have its rules */
        CLIENT_SECRET, /* waits for its secret to be replaced */
        CLIENT_TELL,   /* has events to write */
        CLIENT_OWNER   /* its end is the end of the run; its command is the run's */
};

/** struct slot - a client, or a command, or both */
struct slot {
        enum client_state state;
        int fd;      /* of the client, owned unless it is the owner's; -1: none */
        uint32_t id; /* of the command, from 1; 0: none */
        pid_t pid;   /* as the sandbox counts; 0: not started yet */
        uint64_t since_ns;
        struct output out; /* of a detached command */
        uint32_t refresh;  /* of refreshed(); 0: none */
        char name[72];     /* argv[0]; of a secret */
};

/** struct supervisor - one run */
struct supervisor {
        const struct supervisor_args *args;
        struct sandbox *sandbox;
        struct slot slots[SLOTS_MAX];
        struct slot *owner;      /* NULL: the run lives on without one */
        uint32_t last_id;        /* of commands */
        uint32_t last_refresh;   /* of secrets */
        uint32_t post_create_id; /* while it runs; 0: it does not */
        int stdio[3];            /* the caller's, for the first commands, owned; -1: none */
        int listen_fd;           /* control socket, -1: none */
        int spare_fd;            /* given up to refuse a client when there is no descriptor left */
        uint64_t peak_memory_bytes;
        struct run_msg final; /* what whoever waits for the end is told */
        uint32_t held, denied;
        uint64_t blocked;     /* connections */
        bool left;            /* something outside that only reap() ends */
        json_t *network_next; /* preset and rules that the egress process was sent; NULL: nothing; owned */
        uint64_t started_ns;
        uint64_t deadline_ns; /* of the run, or of the grace once it ends; 0: none */
        struct record record;
        json_t *seeds; /* what was copied into the home; NULL: nothing; owned */
        struct trace trace;
        bool ending; /* SIGTERM was sent: when the last command is gone, or at the deadline, it is over */
        bool over;
        bool is_ready; /* without a command: its owner was told */
        bool ended;    /* the caller's command has, by itself */
        bool failed;   /* a command has */
};

/** supervisor_fail() - the run fails with @failure_code and is over; the first reason counts */
void supervisor_fail(struct supervisor *s, int code, const char *failure_code, const char *text);

/** supervisor_end() - SIGTERM to every command, @grace_ms of patience, then the end */
void supervisor_end(struct supervisor *s, uint64_t grace_ms);

/** supervisor_let_go() - the owner knows of the run: it lives on without one */
void supervisor_let_go(struct supervisor *s);

/** supervisor_post_created() - post_create has ended */
void supervisor_post_created(struct supervisor *s, const struct exec_result *result);

/** commands_init() / commands_deinit() - no clients, no commands; close those that are left */
void commands_init(struct supervisor *s);
void commands_deinit(struct supervisor *s);

/** commands_adopt() - a slot for the client @fd. Return: NULL when all are taken. */
struct slot *commands_adopt(struct supervisor *s, int fd, enum client_state state);

/** commands_note() - number the command that is about to start in @slot and remember its name. Return: id. */
uint32_t commands_note(struct supervisor *s, struct slot *slot, const char *const *argv);

/** commands_announce() - the exec_started event of the command in @slot */
void commands_announce(struct supervisor *s, const struct slot *slot, const char *const *argv);

/** commands_started() / commands_finished() - what the driver says of them */
void commands_started(struct supervisor *s, uint32_t id, pid_t pid, int pty_fd);
void commands_finished(struct supervisor *s, const struct exec_result *result);

/** commands_signal() - to every command's process group */
void commands_signal(struct supervisor *s, int sig);

/** commands_count() - how many run */
size_t commands_count(const struct supervisor *s);

/** commands_poll() - fill @fds (room for COMMANDS_POLL_MAX): clients, output of detached commands, the
 * control socket. Return: count. */
enum { COMMANDS_POLL_MAX = SLOTS_MAX * (1 + OUTPUT_STREAMS) + 1 };
size_t commands_poll(const struct supervisor *s, struct pollfd *fds);
/** commands_dispatch() - handle what poll(2) reported in the same @fds */
void commands_dispatch(struct supervisor *s, const struct pollfd *fds);

/** commands_refreshed() - the secret of the client with the number @id was replaced. @why: it was not; NULL:
 * it was */
void commands_refreshed(struct supervisor *s, uint32_t id, const char *why);

/** commands_network_changed() - tell the client that waits for it. @why: it was refused; NULL: it is done */
void commands_network_changed(struct supervisor *s, const char *why);

/**
 * network_shown() - a copy of an object with the rules of a network that fits into an event
 * Rules that are too many for one are left out; "rules_left_out" is how many.
 * Return: the caller's; NULL: out of memory, or @network is NULL.
 */
json_t *network_shown(json_t *network);

/**
 * network_change() - send the egress process other rules; network_answer() when it has answered
 * @block: of RUN_MSG_NET
 * Return: 0, -ENOTSUP (the run has no rules), -EBUSY, -EINVAL, -errno, each with a message.
 */
int network_change(struct supervisor *s, const struct block *block, struct error *err)
        __attribute__((warn_unused_result));
void network_answer(struct supervisor *s, const struct egress_notice *notice);

/** commands_farewell() - the run's last message to everyone who still waits */
void commands_farewell(struct supervisor *s);
