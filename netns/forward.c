/*
 * DOC: theory of operation
 *
 * One plain HTTP exchange: the request's head written anew, its body as it comes, up to its end and no
 * further; the answer's head written anew, its body as it comes. Nothing waits for a body to be whole, so
 * server-sent events and chunks pass as they are sent. Bytes go through one buffer per direction, which is
 * filled again only when it is empty: a slow reader holds no more than that. Both sides are told that the
 * connection closes afterwards.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "netns/conn.h"
#include "runtime/base/cleanup.h"

enum { READ_BYTES = 32768 };

static void on_event(struct loop_watch *watch, uint32_t events);

struct forward *forward_free(struct forward *f) {
        if (!f)
                return NULL;
        buf_deinit(&f->to_server);
        buf_deinit(&f->to_client);
        buf_deinit(&f->answer);
        free(f);
        return NULL;
}

/* Sends what is pending. Return: 0 (all gone), -EAGAIN, -errno. */
static int flush(struct forward *f, int fd, struct buf *pending, size_t *sent) {
        while (*sent < pending->len) {
                const ssize_t n = send(fd, pending->data + *sent, pending->len - *sent, MSG_NOSIGNAL);

                if (n < 0)
                        return -errno;
                *sent += (size_t) n;
                f->progress = true;
        }
        pending->len = *sent = 0;
        return 0;
}

/* The body's part of @len bytes goes to @out. Return: 0, -EINVAL, -ENOMEM. */
static int pass(struct http_body *body, const char *data, size_t len, struct buf *out) {
        size_t used = 0;
        const int r = http_body_feed(body, data, len, &used);

        return r < 0 || used == 0 ? r : buf_add(out, data, used);
}

/* Client to server. Return: 0, or why the exchange cannot go on. */
static int pump_up(struct conn *conn) {
        struct forward *f = conn->forward;
        char data[READ_BYTES];

        for (;;) {
                ssize_t n;
                int r = flush(f, conn->tunnel.ends[SERVER].fd, &f->to_server, &f->sent_server);

                if (r < 0)
                        /* a server may answer and close before it has read everything */
                        return r == -EAGAIN || r == -EPIPE || r == -ECONNRESET ? 0 : r;
                if (http_body_done(&f->up))
                        return 0;
                n = recv(conn->tunnel.ends[CLIENT].fd, data, sizeof(data), 0);
                if (n < 0)
                        return errno == EAGAIN ? 0 : -errno;
                if (n == 0)
                        return -ECONNABORTED;
                f->progress = true;
                r = pass(&f->up, data, (size_t) n, &f->to_server);
                if (r < 0)
                        return r;
        }
}

/* The answer's head, when it is whole. Return: 0, -EAGAIN, -EINVAL, -ENOMEM. */
static int take_answer(struct conn *conn) {
        struct forward *f = conn->forward;
        static const struct http_text head = { "HEAD", 4 }, other = { "GET", 3 };
        AUTO_FREE struct http_response *p = calloc(1, sizeof(*p));
        size_t used = 0;
        int r;

        if (!p)
                return -ENOMEM;
        r = http_response_parse(f->answer.data, f->answer.len, f->head ? head : other, p, &used, NULL);
        if (r < 0)
                return r == -E2BIG ? -EINVAL : r;
        if (p->status == 101 && !(f->upgrade && p->head.upgrade))
                return -EINVAL;
        r = http_response_write(p, &f->to_client);
        if (r < 0)
                return r;
        f->answer.len -= used;
        memmove(f->answer.data, f->answer.data + used, f->answer.len);
        if (p->status < 200 && p->status != 101)
                return f->answer.len > 0 ? take_answer(conn) : -EAGAIN; /* a word before the answer */
        f->answered = true;
        f->upgrade = p->status == 101;
        http_body_init(&f->down, &p->head);
        if (f->upgrade)
                return buf_add(&f->to_client, f->answer.data, f->answer.len);
        return f->answer.len > 0 ? pass(&f->down, f->answer.data, f->answer.len, &f->to_client) : 0;
}

static int take_bytes(struct conn *conn, const char *data, size_t len) {
        struct forward *f = conn->forward;
        int r;

        if (f->answered)
                return pass(&f->down, data, len, &f->to_client);
        r = buf_add(&f->answer, data, len);
        if (r == 0)
                r = take_answer(conn);
        return r == -EAGAIN ? 0 : r;
}

static bool down_complete(const struct forward *f) {
        return f->answered && !f->upgrade && (http_body_done(&f->down) || f->server_eof);
}

/* Server to client. Return: 0, or why the exchange cannot go on. */
static int pump_down(struct conn *conn) {
        struct forward *f = conn->forward;
        char data[READ_BYTES];

        for (;;) {
                ssize_t n;
                int r = flush(f, conn->tunnel.ends[CLIENT].fd, &f->to_client, &f->sent_client);

                if (r < 0)
                        return r == -EAGAIN ? 0 : r;
                if (down_complete(f) || (f->answered && f->upgrade))
                        return 0;
                n = recv(conn->tunnel.ends[SERVER].fd, data, sizeof(data), 0);
                if (n < 0)
                        return errno != EAGAIN ? -errno : f->server_gone ? -ECONNRESET : 0;
                if (n == 0 && (!f->answered || f->down.framing != HTTP_TO_EOF))
                        return -ECONNRESET; /* cut off */
                f->progress = true;
                f->server_eof = n == 0;
                r = n > 0 ? take_bytes(conn, data, (size_t) n) : 0;
                if (r < 0)
                        return r;
        }
}

static void fail(struct conn *conn, int error) {
        struct forward *f = conn->forward;

        if (f->answered || f->to_client.len > 0 || error == -ECONNABORTED)
                (void) conn_free(conn); /* the client sees that it was cut off */
        else if (error == -EINVAL)
                conn_answer(conn, 502, "a malformed answer of the server, or a malformed body");
        else
                conn_answer(conn, 502, "the server closed the connection without an answer");
}

/* After a 101 was sent: nothing is pending towards the client, what is towards the server goes first. */
static void become_tunnel(struct conn *conn) {
        struct forward *f = conn->forward;
        const size_t left = f->to_server.len - f->sent_server;

        conn->in.len = 0;
        if (f->server_gone)
                (void) conn_free(conn);
        else if (left > 0 && buf_add(&conn->in, f->to_server.data + f->sent_server, left) < 0)
                (void) conn_free(conn);
        else
                conn_tunnel(conn);
}

static void step(struct conn *conn) {
        struct forward *f = conn->forward;
        struct loop *loop = conn->proxy->loop;
        uint32_t client = 0, server = 0;
        int r;

        f->progress = false;
        r = pump_up(conn);
        if (r == 0)
                r = pump_down(conn);
        if (r < 0) {
                fail(conn, r);
                return;
        }
        if (f->to_client.len == 0 && f->answered && f->upgrade) {
                become_tunnel(conn);
                return;
        }
        if (f->to_client.len == 0 && down_complete(f)) {
                conn_linger(conn);
                return;
        }
        if (f->to_server.len > 0)
                server |= EPOLLOUT;
        else if (!http_body_done(&f->up))
                client |= EPOLLIN;
        if (f->to_client.len > 0)
                client |= EPOLLOUT;
        else
                server |= EPOLLIN;
        if (!f->client_eof && http_body_done(&f->up))
                client |= EPOLLRDHUP;
        loop_set(loop, &conn->tunnel.ends[CLIENT].watch, client);
        /* one that is broken says so for ever; what it has sent is read when the client takes it */
        if (f->server_gone)
                loop_remove(loop, &conn->tunnel.ends[SERVER].watch);
        else
                loop_set(loop, &conn->tunnel.ends[SERVER].watch, server);
        if (f->progress)
                conn_moved(conn);
}

static void on_event(struct loop_watch *watch, uint32_t events) {
        struct conn *conn = (struct conn *) ((struct tunnel_end *) watch)->tunnel;
        const bool from_client = watch == &conn->tunnel.ends[CLIENT].watch;

        if (from_client && (events & (EPOLLERR | EPOLLHUP))) {
                (void) conn_free(conn);
                return;
        }
        if (events & (EPOLLERR | EPOLLHUP))
                conn->forward->server_gone = true;
        if (from_client && (events & EPOLLRDHUP)) {
                conn->forward->client_eof = true; /* half closed, or killed: only a write would tell */
                conn_moved(conn);
        }
        step(conn);
}

/* The head to send on, and the part of the body that came with it. */
static int begin(struct conn *conn, struct forward *f) {
        struct http_request parsed, *q = &parsed;
        size_t used;
        int r;

        r = http_request_parse(conn->in.data, conn->in.len, conn->plain ? conn->port : 0, q, &used, NULL);
        if (r < 0) /* it was read before */
                return r;
        f->head = http_text_is(q->method, "HEAD");
        f->upgrade = q->head.upgrade;
        http_body_init(&f->up, &q->head);
        r = http_request_write(q, &f->to_server);
        if (r == 0 && conn->in.len > used)
                r = pass(&f->up, conn->in.data + used, conn->in.len - used, &f->to_server);
        return r;
}

void forward_start(struct conn *conn) {
        int r;

        conn->forward = calloc(1, sizeof(*conn->forward));
        r = conn->forward ? begin(conn, conn->forward) : -ENOMEM;
        if (r == -EINVAL)
                blocked_note(conn->proxy->log, conn->host.name, conn->port, "a malformed body", NULL);
        if (r < 0) {
                conn_answer(conn, r == -EINVAL ? 400 : 502,
                            r == -EINVAL ? "a malformed body" : "out of memory");
                return;
        }
        buf_deinit(&conn->in);
        conn->state = CONN_FORWARD;
        conn->tunnel.ends[CLIENT].watch.fn = on_event;
        conn->tunnel.ends[SERVER].watch.fn = on_event;
        conn_moved(conn);
        step(conn);
}
