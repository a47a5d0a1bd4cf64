/*
 * server.h - the service: its listeners, its limits, and the clients that are connected
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "auth/metrics.h"
#include "auth/registry.h"
#include "auth/stream.h"
#include "auth/upstream.h"
#include "netns/loop.h"
#include "runtime/base/error.h"

struct conn;
struct server;

/** enum listener_role - what a listener serves */
enum listener_role { LISTENER_RELAY = 1, LISTENER_ADMIN = 2, LISTENER_BOTH = 3 };

enum { SERVER_LISTENERS_MAX = 2, SERVER_BODY_BYTES_MAX = 32 << 20 };

/** struct listener - where clients come from; @watch is first: events come with it */
struct listener {
        struct loop_watch watch;
        struct server *server;
        enum listener_role role;
        const struct stream_tls *tls;
};

/** struct server_conf - limits and places; strings borrowed while the server lives */
struct server_conf {
        const char *admin_key;
        const char *model_host;   /* api.anthropic.com, or what --upstream says */
        const char *model_prefix; /* before the path; "" or "/prefix" */
        uint16_t model_port;
        uint64_t idle_ms;     /* a server or a client that is waited for, in the middle of something */
        uint64_t head_ms;     /* a client that has begun to send a head */
        uint64_t keep_ms;     /* a client that may send another request */
        size_t max_clients;   /* 0: what the limit of descriptors allows */
        size_t max_per_token; /* requests at once */
};

/** struct server - @conns and counts are kept by conn.c */
struct server {
        struct loop *loop;
        struct server_conf conf;
        struct registry *registry; /* borrowed */
        struct upstream *upstream; /* borrowed */
        struct metrics *metrics;   /* owned */
        struct loop_queue head_queue, keep_queue, idle_queue, linger_queue, pause_queue, purge_queue;
        struct loop_timer pause, purge;
        struct loop_watch registry_watch;
        struct listener listeners[SERVER_LISTENERS_MAX];
        size_t n_listeners;
        struct conn *conns;
        size_t n_conns;
        bool draining; /* no new requests */
};

/** server_init() - @server: zeroed by the caller; @registry, @upstream: borrowed. Return: 0, -ENOMEM, -errno.
 */
int server_init(struct server *server, struct loop *loop, const struct server_conf *conf,
                struct registry *registry, struct upstream *upstream) __attribute__((warn_unused_result));
void server_deinit(struct server *server);

/** server_listen_consume() - @fd: listening, non-blocking; @tls: borrowed, NULL: in clear. Return: 0, -errno.
 */
int server_listen_consume(struct server *server, int fd, enum listener_role role,
                          const struct stream_tls *tls) __attribute__((warn_unused_result));

/** server_drain() - take no new clients, close those that ask for nothing, let requests finish */
void server_drain(struct server *server);

/** server_token_uses() - how many requests run on the token with an ID */
size_t server_token_uses(const struct server *server, const char *id);
