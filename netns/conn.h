/*
 * conn.h - one client of the proxy, from its first byte to its last
 *
 *   HEAD -> DIAL -> [HELLO -> ANSWER ->] TUNNEL  CONNECT
 *   HEAD -> DIAL -> FORWARD [-> TUNNEL]          plain HTTP; a WebSocket becomes a tunnel
 *   CONNECT to port 80 -> HEAD                   plain HTTP again, for the connected host only
 *   ANSWER -> HELLO                              the server wants another ClientHello
 *   any of them -> LINGER                        an answer of ours, or the end of a forwarded one
 *   [WHOM ->] DIAL -> [HELLO -> ANSWER ->] TUNNEL  led here (lead.c)
 *
 * A connection has one request: what the client sends behind it is not read.
 */
#pragma once

#include "netns/dial.h"
#include "netns/hello.h"
#include "netns/http-body.h"
#include "netns/http.h"
#include "netns/names.h"
#include "netns/proxy.h"
#include "netns/tunnel.h"
#include "runtime/base/buf.h"

/** enum conn_state - see above */
enum conn_state {
        CONN_HEAD,
        CONN_WHOM,
        CONN_DIAL,
        CONN_HELLO,
        CONN_ANSWER,
        CONN_FORWARD,
        CONN_TUNNEL,
        CONN_LINGER,
};

enum { CLIENT, SERVER }; /* ends of the tunnel */

/** struct forward - a plain HTTP exchange; gone when the connection becomes a tunnel */
struct forward {
        struct buf to_server, to_client; /* written but not sent yet */
        size_t sent_server, sent_client; /* bytes of them that are sent */
        struct buf answer;               /* head of the response so far */
        struct http_body up, down;
        bool head; /* HEAD was asked for: the answer has no body */
        bool answered, upgrade, server_eof;
        bool client_eof;  /* the client has sent everything, or is gone */
        bool server_gone; /* its connection is broken: it sends what was received before, and nothing more */
        bool progress;    /* bytes moved in this turn */
};

/** struct conn - a client */
struct conn {
        struct tunnel tunnel; /* first: tunnel_fn gets it; owns both sockets from the start */
        struct proxy *proxy;
        struct conn *before, *after; /* of the proxy's list */
        struct loop_timer timer;
        enum conn_state state;
        bool plain;                    /* HTTP inside of a tunnel */
        bool led;                      /* it knows of no proxy, and asked for nothing */
        struct policy_verdict verdict; /* of @host */
        struct host host;              /* once a head was read */
        uint16_t port;
        struct host *said; /* owned; what a client that was led here by an address has said, NULL: nothing */
        struct addr addr;  /* dialled */
        struct buf in;     /* read from the client and not used yet */
        struct dial *dial;
        enum http_form form; /* of the request */
        bool probed;         /* the server's host is asked whether it is there */
        size_t head_used;    /* bytes of @in that are its head */
        size_t hellos;       /* ClientHellos that were passed on */
        struct hello_answer answer;
        struct forward *forward; /* owned */
};

/** struct listener - a socket that clients connect to */
struct listener {
        struct loop_watch watch; /* first: events come with it */
        struct proxy *proxy;
        enum proxy_socket kind;
};

/** struct proxy - shared by all connections */
struct proxy {
        struct loop *loop;
        struct proxy_config config;
        struct dialer dialer;
        struct pipes pipes;
        struct blocked_log *log;
        struct listener listeners[PROXY_LISTENERS_MAX];
        size_t n_listeners, max_clients, n_clients;
        struct loop_queue head_queue, dial_queue, quiet_queue, idle_queue, half_queue, linger_queue,
                pause_queue;
        struct loop_queue whom_queue, asker_queue;
        struct loop_timer pause; /* listeners rest while descriptors are short */
        uint64_t accepted;
        struct names *names;             /* NULL: there is no stub resolver */
        struct host self;                /* the name of the machine, which is the sandbox's too; "": none */
        uint16_t ports[PROXY_PORTS_MAX]; /* of PROXY_LED */
        size_t n_ports;
        bool redirected, six; /* there is a PROXY_REDIRECTED; one of IPv6 */
        struct asker *askers;
        size_t n_askers;
        struct conn *conns;
};

/** conn_new_consume() - serve the accepted socket @fd. Return: 0, -ENOMEM, -errno. */
int conn_new_consume(struct proxy *proxy, int fd) __attribute__((warn_unused_result));

/**
 * lead_consume() - serve the socket @fd, whose client has connected to somewhere else as far as it knows
 * One that is refused is reset. Return: 0, -EINVAL (it has not: it found our listener), -ENOMEM, -errno.
 */
int lead_consume(struct listener *listener, int fd) __attribute__((warn_unused_result));

/** lead_take() - CONN_WHOM: there are bytes in @conn->in */
void lead_take(struct conn *conn);

/** lead_refused_event() - loop_fn of a listener of PROXY_UDP_LOG */
void lead_refused_event(struct loop_watch *watch, uint32_t events);

/** stub_event() - loop_fn of a listener of PROXY_DNS */
void stub_event(struct loop_watch *watch, uint32_t events);

/** stub_answer() - the answer to a question. @out: room for DNS_MESSAGE_MAX. Return: bytes, 0: none is due.
 */
size_t stub_answer(struct proxy *proxy, const uint8_t *data, size_t len, uint8_t *out);

/** asker_new_consume() - answer questions over TCP on the socket @fd. @to: whom it asked; NULL: the stub.
 * Return: 0, -ENOMEM, -errno. */
int asker_new_consume(struct proxy *proxy, const struct addr *to, int fd) __attribute__((warn_unused_result));

/** askers_free() - close all of them */
void askers_free(struct proxy *proxy);

/** conn_dial() - decide and connect, or refuse */
void conn_dial(struct conn *conn);

/** conn_wait() - for no longer than @queue says from now on */
void conn_wait(struct conn *conn, struct loop_queue *queue);

/** conn_refuse_verdict() - conn_refuse() for the reason in @v */
void conn_refuse_verdict(struct conn *conn, const struct policy_verdict *v);

/** conn_free() - close everything of it at once. Return: NULL. */
struct conn *conn_free(struct conn *conn);

/** conn_answer() - send an answer of our own with status @status, then LINGER. @why: X-Cofferdam-Reason. */
void conn_answer(struct conn *conn, unsigned int status, const char *why);

/** conn_refuse() - report the refusal of @conn's host and answer 403, or end the tunnel that stands already
 */
void conn_refuse(struct conn *conn, const char *why, const char *rule);

/** conn_linger() - nothing more is sent: wait for the client to close, so that it reads what was sent */
void conn_linger(struct conn *conn);

/** conn_tunnel() - from here on bytes pass untouched */
void conn_tunnel(struct conn *conn);

/** conn_recheck() - ask the policy again, which has changed; may free @conn */
void conn_recheck(struct conn *conn);

/** conn_moved() - a byte has passed: wait for the next one, in CONN_FORWARD and CONN_TUNNEL */
void conn_moved(struct conn *conn);

/** forward_start() - send the request at the start of @conn->in on to the connected server; from then on
 * FORWARD */
void forward_start(struct conn *conn);

/** forward_free() - NULL-safe. Return: NULL. */
struct forward *forward_free(struct forward *forward);
