/*
 * parts.h - what the parts of the launcher share: session.c (the conversation), offer.c (what
 * is advertised), serve.c (calls), events.c (what is written down)
 */
#pragma once

#include "runtime/agent/envelope.h"
#include "runtime/agent/launch/exec.h"
#include "runtime/agent/launch/gate.h"
#include "runtime/agent/launch/launch.h"
#include "runtime/agent/launch/mcp.h"
#include "runtime/agent/launch/tools.h"
#include "runtime/agent/protocol.h"
#include "runtime/run/tell.h"

enum {
        LAUNCH_CALLS_MAX = 100000,     /* of one task; ids are remembered */
        LAUNCH_EVENTS_MAX = 64 << 20,  /* bytes of events of one task; what is more is counted */
        LAUNCH_RELAYED_MAX = 32 << 20, /* of it for what the runner says: its noise hides nothing of ours */
        LAUNCH_TURNS_MAX = 128 << 20,  /* bytes of snapshots of one task; what is more is counted */
        LAUNCH_DRAIN_MAX = 1 << 20,    /* bytes read after the end of the runner: what a pipe may hold */
        LAUNCH_LOGGED_MAX = 20,        /* refusals that are logged one by one */
        LAUNCH_HELLO_MS = 10000,       /* a runner that says no hello until then is of protocol 1 */
        LAUNCH_END_MS = 5000,          /* between its result, or a signal, and its end */
};

/** struct meter - what the model has used, as the runner says */
struct meter {
        json_int_t steps, input, output, cache_read, cache_creation;
};

/** struct launch - one task */
struct launch {
        const struct launch_order *order;
        struct teller teller;
        struct launch_command command;
        struct channel channel;
        struct gate gate;
        struct launch_state state;
        struct mcp_server *servers; /* owned */
        size_t n_servers;
        struct hello hello;
        int protocol;     /* that is spoken */
        bool said_hello;  /* the runner has */
        json_t *seen;     /* ids of calls; owned */
        json_t *result;   /* the data of its result; NULL: none yet; owned */
        json_t *question; /* that the node pauses with; NULL: none; owned */
        struct meter meter;
        size_t turns; /* snapshots written */
        uint64_t turn_bytes, relayed_bytes;
        uint64_t event_bytes;
        uint64_t refused, ignored, dropped; /* calls; envelopes; events and captures */
        bool deaf;         /* the runner has closed its input: nothing is carried out for it any more */
        int signal;        /* that ends the task; 0: none */
        uint64_t patience; /* with a signal: when the runner is waited for no more, clock_ns() */
        uint64_t drain_ns, drain_bytes; /* waited and read since the end of the runner */
};

/* ---- offer.c ---- */

/** offer_make() - fill the gate for this runner, starting the operator's servers that are named
 * @ret_servers: servers that the runner is to start, for its task; new reference; NULL: none
 * Return: 0, -ENOTSUP, -EINVAL, -EPERM, ... with a message. */
int offer_make(struct launch *l, json_t **ret_servers, struct error *err) __attribute__((warn_unused_result));

/** offer_env() - environment of a program of the operator's; NULL-terminated, owned with its strings by
 * offer_env_free(); NULL: out of memory */
char **offer_env(const struct ctx *ctx, json_t *more) __attribute__((warn_unused_result));
char **offer_env_free(char **env);

/* ---- serve.c ---- */

/** serve_call() - a tool_call: carried out or refused, and answered. Return: 0, -errno (the channel is
 * broken). */
int serve_call(struct launch *l, const struct envelope *e, struct error *err)
        __attribute__((warn_unused_result));

/** serve_question() - an ask_user: answered. Return: as serve_call(). */
int serve_question(struct launch *l, const struct envelope *e, struct error *err)
        __attribute__((warn_unused_result));

/* ---- events.c ---- */

/** launch_event() - one of the launcher's own. @data: consumed; NULL: out of memory */
void launch_event(struct launch *l, const char *type, json_t *data);

/** launch_refused() - say that a call was refused. @name: as the runner said it; NULL: nothing that is a text
 */
void launch_refused(struct launch *l, const char *id, const char *name, const char *reason);

/** launch_relay() - an event from inside: counted, cut to what events.jsonl may hold, marked as the runner's
 * word */
void launch_relay(struct launch *l, const json_t *data);

/** launch_tokens() - all of @m; at most INT64_MAX */
json_int_t launch_tokens(const struct meter *m);

/** launch_keep() - a session_capture */
void launch_keep(struct launch *l, const json_t *data);
