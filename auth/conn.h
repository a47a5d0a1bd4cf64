/*
 * conn.h - one client: its requests one after the other, and the bytes of their answers
 */
#pragma once

#include "auth/answer.h"
#include "auth/server.h"
#include "netns/http-body.h"
#include "netns/http.h"

struct admin_call;
struct relay;

enum {
        CONN_IN_BYTES = HTTP_HEAD_BYTES_MAX + 16384, /* a head, and what of its body came with it */
        CONN_OUT_BYTES = 65536, /* more of an answer is not taken from a server until the client reads */
};

/** enum conn_state - what happens to the request at hand */
enum conn_state {
        CONN_HEAD,   /* it is waited for */
        CONN_ADMIN,  /* its body is collected (admin.c) */
        CONN_ASKED,  /* the registry is asked (admin.c) */
        CONN_RELAY,  /* relay.c has it */
        CONN_ANSWER, /* its answer is being sent */
        CONN_LINGER, /* the connection ends; the client may still be sending */
};

/** struct conn - fields are for conn.c, relay.c and admin.c; @watch is first: events come with it */
struct conn {
        struct loop_watch watch;
        struct loop_timer timer;
        struct server *server;
        struct conn *before, *after;
        enum listener_role role;
        struct stream stream;
        struct addr peer;
        bool has_peer; /* not of a unix socket */
        enum conn_state state;

        char *in;                       /* CONN_IN_BYTES, owned; NULL: nothing received */
        size_t in_len, head_len, in_at; /* received; of the head; of the body that was taken */
        struct http_request request;    /* borrows from @in, until the next one */
        struct http_body body;
        uint64_t body_bytes; /* data of the body so far */
        bool expects;        /* waits for 100 before it sends the body */

        struct buf out;
        size_t out_at; /* sent */
        bool keep;     /* another request may follow */
        bool unwanted; /* bytes came that are not read yet */
        bool again;    /* another request is in @in */

        struct relay *relay;      /* CONN_RELAY, owned */
        struct admin_call *admin; /* CONN_ADMIN, CONN_ASKED, owned */
};

/** conn_new_consume() - a client that was accepted. Return: 0, -ENOMEM, -errno: @fd is the caller's. */
int conn_new_consume(struct listener *listener, int fd) __attribute__((warn_unused_result));

/** conn_free() - cut it: whatever was on its way ends. Return: NULL. */
struct conn *conn_free(struct conn *conn);

/**
 * conn_body() - data of the request's body that was received, without its framing
 * Return: bytes, 0 at the end, -EAGAIN: none now, -EFBIG (more than @max in all), -EINVAL (no body).
 */
ssize_t conn_body(struct conn *conn, char *data, size_t len, uint64_t max)
        __attribute__((warn_unused_result));

/** conn_body_here() - all of the request's body was taken or is received */
bool conn_body_here(const struct conn *conn);

/** conn_continue() - the body is wanted: say so to a client that waits to be told. Return: 0, -ENOMEM. */
int conn_continue(struct conn *conn) __attribute__((warn_unused_result));

/** conn_answer() - the whole answer of the request at hand; @conn may be gone afterwards */
void conn_answer(struct conn *conn, const struct answer *answer);

/** conn_refuse() - conn_answer() with an error. @close: the connection ends with it */
void conn_refuse(struct conn *conn, unsigned int status, const char *kind, const char *message, bool close);

/** conn_finish() - everything of the answer is in @out; @conn may be gone afterwards */
void conn_finish(struct conn *conn);

/** conn_update() - send what there is, wait for what is missing; false: @conn is gone */
bool conn_update(struct conn *conn);

/** conn_moved() - something happened for the request: the time that it may take nothing starts anew */
void conn_moved(struct conn *conn);

/** conn_out_full() - whether the client has to read first */
bool conn_out_full(const struct conn *conn);

/** conn_is_idle() - nothing was asked and not answered */
bool conn_is_idle(const struct conn *conn);
