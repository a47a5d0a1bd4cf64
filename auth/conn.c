/*
 * DOC: theory of operation
 *
 * A client's request is read by netns/http.c: one strict reading of its head or none. Then admin.c or relay.c
 * has it. They take the body with conn_body() as far as it was received, and put the answer into @out, which
 * is sent as the client reads. Nothing is read ahead of what somebody wants: a client that sends faster than
 * a server takes waits in its own kernel.
 *
 * What a client controls: every byte and when it comes. What bounds it: CONN_IN_BYTES and CONN_OUT_BYTES, the
 * number of clients, and a timer: for a head in all, for anything else from one byte to the next.
 *
 * A client that closes its side while it is being answered has gone: what runs for it ends.
 */
#include "auth/conn.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "auth/admin.h"
#include "auth/relay.h"
#include "runtime/base/cleanup.h"

enum { HTTPS_PORT = 443, BUFFER_KEPT_BYTES = 4096 };

static void on_event(struct loop_watch *watch, uint32_t events);

/* --- timers -----------------------------------------------------------------------------------------------
 */

static void on_late(struct loop_timer *timer) {
        struct conn *conn = (struct conn *) (void *) ((char *) timer - offsetof(struct conn, timer));

        if (conn->state == CONN_RELAY && relay_late(conn->relay))
                return;
        (void) conn_free(conn);
}

void conn_moved(struct conn *conn) {
        struct server *server = conn->server;

        if (conn->state == CONN_LINGER)
                return;
        if (conn->state == CONN_HEAD && conn->out.len == 0 && conn->in_len > 0) {
                if (conn->timer.queue != &server->head_queue)
                        loop_start(server->loop, &conn->timer, &server->head_queue, on_late);
                return;
        }
        loop_start(server->loop, &conn->timer,
                   conn->state == CONN_HEAD && conn->out.len == 0 ? &server->keep_queue : &server->idle_queue,
                   on_late);
}

/* --- life -------------------------------------------------------------------------------------------------
 */

int conn_new_consume(struct listener *listener, int fd) {
        struct server *server = listener->server;
        struct conn *conn = calloc(1, sizeof(*conn));
        struct sockaddr_storage ss = { 0 };
        socklen_t len = sizeof(ss);
        int r;

        if (!conn)
                return -ENOMEM;
        conn->server = server;
        conn->role = listener->role;
        conn->has_peer = getpeername(fd, (struct sockaddr *) &ss, &len) == 0 &&
                         addr_from_sock((const struct sockaddr *) &ss, &conn->peer) == 0;
        r = stream_init(&conn->stream, fd, listener->tls);
        if (r == 0)
                r = loop_add(server->loop, &conn->watch, fd, EPOLLIN | EPOLLRDHUP, on_event);
        if (r < 0) {
                stream_deinit(&conn->stream);
                free(conn);
                return r;
        }
        conn->after = server->conns;
        if (conn->after)
                conn->after->before = conn;
        server->conns = conn;
        server->n_conns++;
        /* a client that says nothing has as long as one that has begun */
        loop_start(server->loop, &conn->timer, &server->head_queue, on_late);
        return 0;
}

static void end_request(struct conn *conn) {
        conn->relay = relay_free(conn->relay);
        conn->admin = admin_free(conn->admin);
}

struct conn *conn_free(struct conn *conn) {
        struct server *server = conn->server;

        end_request(conn);
        loop_cancel(&conn->timer);
        stream_deinit(&conn->stream);
        loop_close(server->loop, &conn->watch);
        if (conn->before)
                conn->before->after = conn->after;
        else
                server->conns = conn->after;
        if (conn->after)
                conn->after->before = conn->before;
        server->n_conns--;
        free(conn->in);
        buf_deinit(&conn->out);
        free(conn);
        return NULL;
}

bool conn_out_full(const struct conn *conn) {
        return conn->out.len - conn->out_at >= CONN_OUT_BYTES;
}

bool conn_is_idle(const struct conn *conn) {
        return conn->state == CONN_HEAD && conn->in_len == 0 && conn->out.len == 0;
}

/* --- sending ----------------------------------------------------------------------------------------------
 */

/* Return: false: the client is gone, and @conn with it. */
static bool send_out(struct conn *conn) {
        while (conn->out_at < conn->out.len) {
                const ssize_t n = stream_write(&conn->stream, conn->out.data + conn->out_at,
                                               conn->out.len - conn->out_at);

                if (n == -EAGAIN || n == -EINTR)
                        return true;
                if (n <= 0) {
                        (void) conn_free(conn);
                        return false;
                }
                conn->out_at += (size_t) n;
                conn_moved(conn);
        }
        conn->out.len = conn->out_at = 0;
        if (conn->out.cap > BUFFER_KEPT_BYTES)
                buf_deinit(&conn->out);
        return true;
}

static bool wants_read(const struct conn *conn) {
        const size_t kept = conn->state == CONN_HEAD ? 0 : conn->head_len;

        switch (conn->state) {
        case CONN_HEAD:
        case CONN_LINGER:
                return true;
        case CONN_ADMIN:
        case CONN_RELAY:
                return !http_body_done(&conn->body) && (conn->in_len < CONN_IN_BYTES || conn->in_at > kept) &&
                       (conn->state == CONN_ADMIN || relay_wants_body(conn->relay));
        case CONN_ASKED:
        case CONN_ANSWER:
                return false;
        }
        return false;
}

bool conn_update(struct conn *conn) {
        uint32_t events;

        if (!send_out(conn))
                return false;
        if (conn->state == CONN_RELAY && !conn_out_full(conn))
                relay_drained(conn->relay);
        events = stream_events(&conn->stream, wants_read(conn), conn->out.len > 0);
        if (conn->state == CONN_ANSWER)
                events &= ~(uint32_t) EPOLLRDHUP; /* all of the answer is here: it may have closed its side */
        if (conn->again || (wants_read(conn) && stream_pending(&conn->stream)))
                events |= EPOLLOUT; /* there is something to do that the descriptor does not tell of */
        /* what is not wanted any more is left until it comes: mostly the next thing that is wanted comes
         * first */
        if (!conn->unwanted && (conn->watch.events & ~(uint32_t) EPOLLIN) == events)
                return true;
        conn->unwanted = false;
        loop_set(conn->server->loop, &conn->watch, events);
        return true;
}

/* --- the end of an answer ---------------------------------------------------------------------------------
 */

static void linger(struct conn *conn) {
        conn->state = CONN_LINGER;
        conn->in_len = 0;
        stream_shutdown(&conn->stream);
        loop_start(conn->server->loop, &conn->timer, &conn->server->linger_queue, on_late);
}

/* The bytes behind this request are the start of the next. */
static void next_request(struct conn *conn) {
        const size_t left = conn->in_len - conn->in_at;

        if (left > 0)
                memmove(conn->in, conn->in + conn->in_at, left);
        conn->in_len = left;
        if (left == 0 &&
            conn->body_bytes > BUFFER_KEPT_BYTES) { /* more of it was touched than an idle client is worth */
                free(conn->in);
                conn->in = NULL;
        }
        conn->head_len = conn->in_at = 0;
        conn->body_bytes = 0;
        conn->expects = false;
        conn->state = CONN_HEAD;
        loop_cancel(&conn->timer);
        conn_moved(conn);
}

bool conn_body_here(const struct conn *conn) {
        return http_body_done(&conn->body) ||
               (conn->body.framing == HTTP_LENGTH && conn->body.left <= conn->in_len - conn->in_at);
}

/* The answer was sent. What of the request nobody wanted to know is passed over, when it is here. */
static void answered(struct conn *conn) {
        if (conn->keep && !http_body_done(&conn->body) && conn_body_here(conn)) {
                conn->in_at += conn->body.left;
                conn->body.left = 0;
        }
        if (conn->keep && http_body_done(&conn->body) && !conn->server->draining)
                next_request(conn);
        else
                linger(conn);
}

static void go_on(struct conn *conn);

void conn_finish(struct conn *conn) {
        end_request(conn);
        conn->state = CONN_ANSWER;
        conn_moved(conn);
        go_on(conn);
}

void conn_answer(struct conn *conn, const struct answer *answer) {
        const bool head_only = conn->head_len > 0 && conn->request.method.len == 4 &&
                               memcmp(conn->request.method.s, "HEAD", 4) == 0;

        if (!conn_body_here(conn) || conn->server->draining)
                conn->keep = false;
        if (answer_write(&conn->out, answer, head_only, conn->keep) < 0)
                conn->keep = false;
        conn_finish(conn);
}

void conn_refuse(struct conn *conn, unsigned int status, const char *kind, const char *message, bool close) {
        AUTO_FREE char *body = answer_error(kind, message);
        const struct answer answer = { .status = status,
                                       .type = "application/json",
                                       .body = body ? body : "",
                                       .body_len = body ? strlen(body) : 0 };

        if (close)
                conn->keep = false;
        conn_answer(conn, &answer);
}

/* --- a request --------------------------------------------------------------------------------------------
 */

static void refuse(struct conn *conn, enum relay_result result) {
        const struct relay_answer *a = relay_answer_of(result);

        conn_refuse(conn, a->status, a->kind, a->message, true);
}

/* Whether a head that was refused asks for another server: "https://..." is a target that is not parsed. */
static bool names_server(const struct conn *conn) {
        const char *space = memchr(conn->in, ' ', conn->in_len);
        const size_t left = space ? conn->in_len - (size_t) (space + 1 - conn->in) : 0;
        const char *end = left > 0 ? memchr(space + 1, ' ', left) : NULL;

        return end && end > space + 1 && space[1] != '/' && space[1] != '*' &&
               !memchr(conn->in, '\n', (size_t) (end - conn->in));
}

static const struct http_header *find_header(const struct http_head *head, const char *name) {
        for (size_t i = 0; i < head->n_headers; i++) {
                if (http_text_is(head->headers[i].name, name))
                        return &head->headers[i];
        }
        return NULL;
}

static void begin(struct conn *conn) {
        const struct http_request *q = &conn->request;
        const struct http_header *expect = find_header(&q->head, "Expect");

        http_body_init(&conn->body, &q->head);
        conn->in_at = conn->head_len;
        conn->keep = q->head.minor == 1 && !http_header_is_hop(&q->head, (struct http_text){ "close", 5 });
        conn->expects = expect && q->head.minor == 1 && http_text_is(expect->value, "100-continue");
        loop_start(conn->server->loop, &conn->timer, &conn->server->idle_queue, on_late);
        if (q->form != HTTP_ORIGIN)
                refuse(conn, RELAY_PROXY_FORM);
        else if (expect && !conn->expects && q->head.minor == 1)
                refuse(conn, RELAY_EXPECT);
        else if ((conn->role & LISTENER_ADMIN) && admin_is_for(q->path))
                admin_start(conn);
        else if (conn->role & LISTENER_RELAY)
                relay_start(conn);
        else
                conn_refuse(conn, 404, "not_found_error", "no such endpoint", false);
}

/* Does nothing unless there is a whole head; @conn may be gone afterwards. */
static void read_head(struct conn *conn) {
        size_t used = 0;
        int r;

        if (conn->in_len == 0)
                return;
        r = http_request_parse(conn->in, conn->in_len, HTTPS_PORT, &conn->request, &used, NULL);
        if (r == -EAGAIN)
                return;
        if (r < 0) {
                conn->body = (struct http_body){ .framing = HTTP_TO_EOF };
                refuse(conn, r == -E2BIG          ? RELAY_HEAD_SIZE
                             : names_server(conn) ? RELAY_PROXY_FORM
                                                  : RELAY_BAD_REQUEST);
                return;
        }
        conn->head_len = used;
        begin(conn);
}

/*
 * As far as can be gone without another event; @conn may be gone afterwards. A request that came with the one
 * before waits for an event, so that a thousand of them are no thousand calls deep.
 */
static void go_on(struct conn *conn) {
        if (!send_out(conn))
                return;
        if (conn->state == CONN_ANSWER && conn->out.len == 0) {
                answered(conn);
                conn->again = conn->state == CONN_HEAD && conn->in_len > 0;
                (void) conn_update(conn);
                return;
        }
        if (conn_update(conn) && conn->state == CONN_HEAD && conn->out.len == 0)
                read_head(conn);
}

/* --- receiving --------------------------------------------------------------------------------------------
 */

static void make_space(struct conn *conn) {
        const size_t left = conn->in_len - conn->in_at;

        if (conn->state == CONN_HEAD || conn->in_at == conn->head_len)
                return;
        memmove(conn->in + conn->head_len, conn->in + conn->in_at, left);
        conn->in_at = conn->head_len;
        conn->in_len = conn->head_len + left;
}

/* Return: bytes, 0 at the end of file, -EAGAIN, -errno. */
static ssize_t receive(struct conn *conn) {
        ssize_t n;

        if (!conn->in)
                conn->in = malloc(CONN_IN_BYTES);
        if (!conn->in)
                return -ENOMEM;
        if (conn->state == CONN_LINGER) {
                conn->in_len = conn->head_len = conn->in_at = 0;
        } else {
                make_space(conn);
                if (conn->in_len == CONN_IN_BYTES)
                        return -EAGAIN;
        }
        n = stream_read(&conn->stream, conn->in + conn->in_len, CONN_IN_BYTES - conn->in_len);
        if (n > 0 && conn->state != CONN_LINGER)
                conn->in_len += (size_t) n;
        return n == -EINTR ? -EAGAIN : n;
}

/* Bytes have come. @conn may be gone afterwards. */
static void received(struct conn *conn) {
        switch (conn->state) {
        case CONN_HEAD:
                go_on(conn);
                return;
        case CONN_ADMIN:
                admin_body(conn);
                return;
        case CONN_RELAY:
                relay_body(conn->relay);
                (void) conn_update(conn);
                return;
        case CONN_ASKED:
        case CONN_ANSWER:
        case CONN_LINGER:
                (void) conn_update(conn);
                return;
        }
}

/* Once for each event: who sends without end gets its turn like everyone else. */
static void on_readable(struct conn *conn) {
        const ssize_t n = receive(conn);

        if (n == -EAGAIN) {
                (void) conn_update(conn);
        } else if (n <= 0) {
                (void) conn_free(conn);
        } else {
                conn_moved(conn);
                received(conn);
        }
}

static void on_event(struct loop_watch *watch, uint32_t events) {
        struct conn *conn = (struct conn *) (void *) watch;

        if (events & EPOLLERR) {
                (void) conn_free(conn);
                return;
        }
        if (conn->again || conn->state == CONN_ANSWER) {
                conn->again = false;
                conn->unwanted = true;
                go_on(conn);
                return;
        }
        if (conn->out.len > 0 && (events & (EPOLLOUT | EPOLLIN)) && !conn_update(conn))
                return;
        if (wants_read(conn)) {
                on_readable(conn);
        } else if (events & (EPOLLRDHUP | EPOLLHUP)) {
                (void) conn_free(conn);
        } else {
                conn->unwanted = true;
                (void) conn_update(conn);
        }
}

ssize_t conn_body(struct conn *conn, char *data, size_t len, uint64_t max) {
        while (!http_body_done(&conn->body)) {
                const size_t there = conn->in_len - conn->in_at;
                const char *from = conn->in + conn->in_at;
                size_t used = 0;
                bool is_data = false;
                int r;

                if (there == 0)
                        return -EAGAIN;
                r = http_body_split(&conn->body, from, there < len ? there : len, &used, &is_data);
                if (r < 0)
                        return r;
                if (is_data && used > 0)
                        memcpy(data, from, used);
                conn->in_at += used;
                if (!is_data)
                        continue;
                conn->body_bytes += used;
                if (conn->body_bytes > max)
                        return -EFBIG;
                return (ssize_t) used;
        }
        return 0;
}

int conn_continue(struct conn *conn) {
        if (!conn->expects || http_body_done(&conn->body) || conn->in_len > conn->in_at)
                return 0;
        conn->expects = false;
        return buf_str(&conn->out, "HTTP/1.1 100 Continue\r\n\r\n");
}
