/*
 * registry.h - who holds which token: in memory, or in PostgreSQL where several proxies share it
 *
 * Nothing here blocks: a call is handed in and its answer arrives at a callback that registry_dispatch()
 * calls. Questions to a database are put by threads of the registry; so the caller may be one loop, and a
 * slow database delays the answers and nothing else. All functions may be called from any thread; callbacks
 * run in the thread that calls registry_dispatch(), one at a time, never from within another function of the
 * registry.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "auth/credential.h"
#include "auth/token.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/error.h"

struct registry;
struct registry_call;
struct registry_watch;

enum {
        GRANT_TEXT_MAX = 256,      /* bytes of a run or a step */
        REGISTRY_CALLS_MAX = 4096, /* calls without an answer; more are answered REGISTRY_UNAVAILABLE */
        REGISTRY_ANSWER_MS = 5000, /* a database that takes longer is REGISTRY_UNAVAILABLE */
        REGISTRY_POLL_MS = 300,    /* how often a database is asked whether watched tokens still live */
        REGISTRY_BLIND_MS = 30000, /* a watched token counts as dead when nobody could be asked for so long */
        REGISTRY_TROUBLE_MAX = 128,
};

enum registry_result {
        REGISTRY_OK,
        REGISTRY_UNKNOWN, /* never issued, or forgotten since its expiry */
        REGISTRY_REVOKED,
        REGISTRY_EXPIRED,     /* from the very second of its expiry on */
        REGISTRY_UNAVAILABLE, /* the database does not answer, or its content opens with no key */
        REGISTRY_RESULT_COUNT
};

/**
 * struct grant - what a token stands for; owned by whoever made it
 * @id:         ID of the token (token.h)
 * @run:        run it was issued for, 1 to GRANT_TEXT_MAX bytes
 * @step:       step of the run, likewise
 * @group:      what else it is revoked by, as if it were its run; likewise, NULL: nothing
 * @source:     canonical address of the only client that may use it (inet_ntop), NULL: any
 * @expires_at: seconds since 1970; the token is dead from that second on
 * @credential: what it is exchanged for; owned
 */
struct grant {
        char id[TOKEN_ID_LEN + 1];
        char *run;
        char *step;
        char *group;
        char *source;
        uint64_t expires_at;
        struct credential *credential;
};

/** grant_free() - with its credential; NULL allowed. Return: NULL. */
struct grant *grant_free(struct grant *grant);
DEFINE_AUTO(struct grant, grant, grant_free)
#define AUTO_GRANT CLEANUP(auto_grant)

/**
 * struct registry_answer - given to a callback for as long as it runs
 * @result: how it went
 * @count:  registry_revoke(), registry_revoke_run(), registry_purge(): how many tokens; else 0
 * @grant:  registry_get() and REGISTRY_OK: what the token stands for, to be taken with TAKE_PTR() or freed
 * after the callback; else NULL
 */
struct registry_answer {
        enum registry_result result;
        uint64_t count;
        struct grant *grant;
};

/** registry_done_fn - the one answer of a call; @data as it was handed in. */
typedef void (*registry_done_fn)(void *data, struct registry_answer *answer);

/**
 * registry_dead_fn - the token of a watch is dead; called once at most
 * @why: REGISTRY_REVOKED, REGISTRY_EXPIRED, or REGISTRY_UNAVAILABLE after REGISTRY_BLIND_MS without an answer
 */
typedef void (*registry_dead_fn)(void *data, enum registry_result why);

/**
 * struct registry_conf - how to keep tokens
 * @database_url: of PostgreSQL, libpq's form; NULL: in memory. Never in a log or an error.
 * @keys:         value of IRONFLOW_SECRET_KEYS (seal.h); must be set when @database_url is
 * @active_key:   value of IRONFLOW_SECRET_ACTIVE_KEY_VERSION (seal_activate()); NULL: the first key seals
 * @now:          seconds since 1970, NULL: the clock. For tests; called from any thread.
 */
struct registry_conf {
        const char *database_url;
        const char *keys;
        const char *active_key;
        uint64_t (*now)(void);
};

/**
 * registry_open() - make a registry; with a database: read the keys, connect, bring its tables up to date
 * @conf: borrowed during the call
 * @ret:  owned by the caller, registry_close()
 * @err:  one line that names the setting and the remedy, never its value
 *
 * Blocks, REGISTRY_ANSWER_MS at most per attempt; starts threads. Return: 0, -EINVAL (a setting),
 * -ECONNREFUSED (no database), -EPROTO (tables of a newer version), -ENOMEM.
 */
int registry_open(const struct registry_conf *conf, struct registry **ret, struct error *err)
        __attribute__((warn_unused_result));

/** registry_close() - ends threads; calls and watches are forgotten without a callback. NULL allowed. Return:
 * NULL. */
struct registry *registry_close(struct registry *registry);
DEFINE_AUTO(struct registry, registry, registry_close)
#define AUTO_REGISTRY CLEANUP(auto_registry)

/** registry_fd() - borrowed; readable (poll, epoll, level-triggered) when registry_dispatch() has something
 * to do. */
int registry_fd(const struct registry *registry);

/** registry_dispatch() - call the callbacks of answers and of dead tokens; does not block. */
void registry_dispatch(struct registry *registry);

/**
 * registry_put() - remember a grant under grant->id; answers REGISTRY_OK or REGISTRY_UNAVAILABLE
 * @grant: consumed, always
 * @done:  called once, unless registry_forget() was called before
 *
 * Return (as the four below): a handle for registry_forget(), valid until @done is called; NULL when out of
 * memory: then @done is not called.
 */
struct registry_call *registry_put(struct registry *registry, struct grant *grant, registry_done_fn done,
                                   void *data) __attribute__((warn_unused_result));

/** registry_get() - what a token stands for; any result. @id: token_id() of what the client presents. */
struct registry_call *registry_get(struct registry *registry, const char *id, registry_done_fn done,
                                   void *data) __attribute__((warn_unused_result));

/** registry_revoke() - one token; count 0: unknown, expired or revoked already. The credential is erased. */
struct registry_call *registry_revoke(struct registry *registry, const char *id, registry_done_fn done,
                                      void *data) __attribute__((warn_unused_result));

/** registry_revoke_run() - all live tokens of a run or group; count may be 0. @run: up to GRANT_TEXT_MAX
 * bytes. */
struct registry_call *registry_revoke_run(struct registry *registry, const char *run, registry_done_fn done,
                                          void *data) __attribute__((warn_unused_result));

/** registry_purge() - erase what has expired; count: tokens that had not been revoked. To be called every
 * minute. */
struct registry_call *registry_purge(struct registry *registry, registry_done_fn done, void *data)
        __attribute__((warn_unused_result));

/** registry_forget() - the answer is not wanted any more; what was asked for still happens. NULL allowed. */
void registry_forget(struct registry *registry, struct registry_call *call);

/**
 * registry_watch() - be told when a token dies while a stream runs on it
 * @id:         of a grant that registry_get() gave. A token that died between the answer and the watch is
 * told of.
 * @expires_at: of the grant
 * @dead:       called once, at most REGISTRY_POLL_MS and a round trip after the token was revoked by
 * whichever proxy
 *
 * Return: handle for registry_unwatch(), valid until then also when @dead was called; NULL when out of
 * memory.
 */
struct registry_watch *registry_watch(struct registry *registry, const char *id, uint64_t expires_at,
                                      registry_dead_fn dead, void *data) __attribute__((warn_unused_result));

/** registry_unwatch() - the stream is over; @dead is not called after this. NULL allowed. Return: NULL. */
struct registry_watch *registry_unwatch(struct registry *registry, struct registry_watch *watch);

/**
 * registry_trouble() - what is wrong with the database, for a log line when it changes
 * @ret: out, one line that names no host, user or value; "" while its last answer was good
 */
void registry_trouble(struct registry *registry, char ret[REGISTRY_TROUBLE_MAX]);

/** registry_count() - grants held in memory, live or not; 0 with a database. For tests and health. */
uint64_t registry_count(struct registry *registry);
