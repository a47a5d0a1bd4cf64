#include "netns/conn.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "netns/auth.h"
#include "runtime/base/cleanup.h"

enum {
        READ_BYTES = 16384,
        ANSWER_MAX = 1024,
        PROBE_S = 60, /* of silence until a server's host is asked whether it is there */
        PROBES = 5,   /* half as far apart, until it is not */
};

/* how a client is told that a tunnel to a TLS port is not for it: handshake alerts of RFC 8446, 6.2 */
enum { ALERT_UNRECOGNIZED_NAME = 112, ALERT_HANDSHAKE_FAILURE = 40 };

static void on_timeout(struct loop_timer *timer);
static void on_client_event(struct loop_watch *watch, uint32_t events);
static void follow(struct conn *conn);
static void take_head(struct conn *conn);

static struct conn *conn_of(struct loop_watch *watch) {
        return (struct conn *) ((struct tunnel_end *) watch)->tunnel; /* first members */
}

int conn_new_consume(struct proxy *proxy, int fd) {
        struct conn *conn = calloc(1, sizeof(*conn));
        int r;

        if (!conn)
                return -ENOMEM;
        tunnel_init(&conn->tunnel, proxy->loop, &proxy->pipes);
        r = loop_add(proxy->loop, &conn->tunnel.ends[CLIENT].watch, fd, EPOLLIN, on_client_event);
        if (r < 0) {
                free(conn);
                return r;
        }
        conn->tunnel.ends[CLIENT].fd = fd;
        conn->proxy = proxy;
        conn->in.max = HTTP_HEAD_BYTES_MAX + HELLO_WIRE_MAX;
        conn->after = proxy->conns;
        if (conn->after)
                conn->after->before = conn;
        proxy->conns = conn;
        proxy->n_clients++;
        loop_start(proxy->loop, &conn->timer, &proxy->head_queue, on_timeout);
        return 0;
}

void conn_wait(struct conn *conn, struct loop_queue *queue) {
        loop_start(conn->proxy->loop, &conn->timer, queue, on_timeout);
}

/* Whoever knows of no proxy cannot read an answer of one: the connection is refused as a host would. */
static void reset(struct conn *conn) {
        const struct linger now = { .l_onoff = 1 };

        (void) setsockopt(conn->tunnel.ends[CLIENT].fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
        (void) conn_free(conn);
}

/* What only the time before a tunnel needs. */
static void drop_request(struct conn *conn) {
        dial_cancel(TAKE_PTR(conn->dial));
        conn->forward = forward_free(conn->forward);
        buf_deinit(&conn->in);
}

struct conn *conn_free(struct conn *conn) {
        struct proxy *proxy = conn->proxy;

        drop_request(conn);
        free(conn->said);
        loop_cancel(&conn->timer);
        tunnel_deinit(&conn->tunnel);
        if (conn->before)
                conn->before->after = conn->after;
        else
                proxy->conns = conn->after;
        if (conn->after)
                conn->after->before = conn->before;
        proxy->n_clients--;
        free(conn);
        return NULL;
}

static void on_timeout(struct loop_timer *timer) {
        struct conn *conn = (struct conn *) (void *) ((char *) timer - offsetof(struct conn, timer));

        if (conn->state == CONN_HEAD)
                conn_answer(conn, 408, "no request in time");
        else if (conn->state == CONN_WHOM)
                conn_refuse_verdict(conn, &conn->verdict);
        else if (conn->state == CONN_DIAL)
                conn_answer(conn, 504, "no connection in time");
        else if (conn->state == CONN_FORWARD && !conn->forward->answered)
                conn_answer(conn, 504, "no answer in time");
        else
                (void) conn_free(conn);
}

/* --- the end -------------------------------------------------------------------------------------------- */

static void on_linger_event(struct loop_watch *watch, uint32_t events) {
        char scrap[READ_BYTES];

        if ((events & EPOLLERR) || recv(watch->fd, scrap, sizeof(scrap), 0) == 0)
                (void) conn_free(conn_of(watch));
}

void conn_linger(struct conn *conn) {
        struct tunnel_end *server = &conn->tunnel.ends[SERVER], *client = &conn->tunnel.ends[CLIENT];

        drop_request(conn);
        if (server->watch.active)
                loop_close(conn->proxy->loop, &server->watch);
        else
                (void) fd_close(server->fd);
        server->fd = -1;
        conn->state = CONN_LINGER;
        (void) shutdown(client->fd, SHUT_WR);
        client->watch.fn = on_linger_event;
        loop_set(conn->proxy->loop, &client->watch, EPOLLIN);
        loop_start(conn->proxy->loop, &conn->timer, &conn->proxy->linger_queue, on_timeout);
}

static const char *status_text(unsigned int status) {
        static const struct {
                unsigned int status;
                const char *text;
        } texts[] = {
                { 400, "Bad Request" },
                { 403, "Forbidden" },
                { 407, "Proxy Authentication Required" },
                { 408, "Request Timeout" },
                { 421, "Misdirected Request" },
                { 502, "Bad Gateway" },
                { 504, "Gateway Timeout" },
        };

        for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
                if (texts[i].status == status)
                        return texts[i].text;
        }
        return "Error";
}

void conn_answer(struct conn *conn, unsigned int status, const char *why) {
        char text[ANSWER_MAX];
        char reason[256];
        int n;

        if (conn->led && !conn->plain) {
                reset(conn);
                return;
        }
        (void) snprintf(reason, sizeof(reason), "%s", why);
        for (char *c = reason; *c; c++) {
                if ((unsigned char) *c < 0x20 || (unsigned char) *c > 0x7e)
                        *c = '?'; /* a header has one line */
        }
        n = snprintf(
                text, sizeof(text),
                "HTTP/1.1 %u %s\r\n%sX-Cofferdam-Reason: %s\r\nContent-Type: text/plain\r\nContent-Length: "
                "%zu\r\nConnection: close\r\n\r\ncofferdam: %s\n",
                status, status_text(status),
                status == 407 ? "Proxy-Authenticate: Basic realm=\"cofferdam\"\r\n" : "", reason,
                strlen(reason) + 12, reason);
        /* a client that has no room for one answer does not get it */
        (void) send(conn->tunnel.ends[CLIENT].fd, text, (size_t) n, MSG_NOSIGNAL);
        conn_linger(conn);
}

/* A client that was led here has sent a ClientHello, and waits for an answer to that. */
static bool begins_with_tls(const struct conn *conn) {
        return conn->led && conn->state != CONN_TUNNEL && conn->in.len > 0 && conn->in.data[0] == 22;
}

static void send_alert(struct conn *conn, uint8_t description) {
        const uint8_t alert[] = { 21, 3, 3, 0, 2, 2, description };

        (void) send(conn->tunnel.ends[CLIENT].fd, alert, sizeof(alert), MSG_NOSIGNAL);
        conn_linger(conn);
}

void conn_refuse(struct conn *conn, const char *why, const char *rule) {
        blocked_note(conn->proxy->log, conn->host.name, conn->port, why, rule);
        if (conn->state == CONN_HELLO || begins_with_tls(conn))
                send_alert(conn, ALERT_UNRECOGNIZED_NAME);
        else if (conn->state == CONN_TUNNEL)
                (void) conn_free(conn);
        else
                conn_answer(conn, 403, why);
}

void conn_refuse_verdict(struct conn *conn, const struct policy_verdict *v) {
        const struct policy *policy = conn->proxy->config.policy;
        char why[BLOCKED_TEXT_MAX];

        (void) snprintf(why, sizeof(why), "%s%s%s", policy_reason_text(v),
                        v->reason == POLICY_ADDRESS ? ": " : "",
                        v->reason == POLICY_ADDRESS ? v->special : "");
        conn_refuse(conn, why, v->rule == POLICY_NO_RULE ? NULL : policy_rule_text(policy, v->rule));
}

/* --- tunnels -------------------------------------------------------------------------------------------- */

static void on_tunnel_ended(struct tunnel *tunnel, int error) {
        (void) error;
        (void) conn_free((struct conn *) tunnel);
}

/*
 * A server whose host was switched off or whose network is gone says nothing any more, and nobody would know:
 * the kernel asks it, so that both ends are told and the descriptors come back. Only once nothing was said
 * for a while, since it takes four calls. The client's end is in a sandbox on this host and ends with it.
 */
static void on_quiet(struct loop_timer *timer) {
        struct conn *conn = (struct conn *) (void *) ((char *) timer - offsetof(struct conn, timer));
        const int fd = conn->tunnel.ends[SERVER].fd;

        if (!conn->probed) {
                (void) setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &(int){ PROBE_S }, sizeof(int));
                (void) setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &(int){ PROBE_S / 2 }, sizeof(int));
                (void) setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &(int){ PROBES }, sizeof(int));
                (void) setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &(int){ 1 }, sizeof(int));
        }
        conn->probed = true;
        loop_start(conn->proxy->loop, timer, &conn->proxy->idle_queue, on_timeout);
}

void conn_moved(struct conn *conn) {
        struct proxy *proxy = conn->proxy;

        if (conn->state == CONN_FORWARD && conn->forward->client_eof)
                loop_start(proxy->loop, &conn->timer, &proxy->half_queue, on_timeout);
        else
                loop_start(proxy->loop, &conn->timer, &proxy->quiet_queue, on_quiet);
}

static void on_tunnel_moved(struct tunnel *tunnel) {
        conn_moved((struct conn *) tunnel);
}

void conn_tunnel(struct conn *conn) {
        int r = 0;

        if (conn->in.len > 0)
                r = tunnel_send(&conn->tunnel, &conn->tunnel.ends[SERVER], conn->in.data, conn->in.len);
        if (r < 0) {
                (void) conn_free(conn);
                return;
        }
        drop_request(conn);
        conn->state = CONN_TUNNEL;
        conn_moved(conn);
        tunnel_start(&conn->tunnel, on_tunnel_ended, on_tunnel_moved);
}

static bool led_by_address(const struct conn *conn) {
        return conn->led && conn->host.kind == HOST_ADDR;
}

/*
 * Whether a connection to the host of @conn may say that it is for @said: for that host only. Who was led
 * here by an address that is allowed was not asked for a name: it may say any that no rule denies.
 */
static bool may_say(const struct conn *conn, const struct host *said) {
        if (strcmp(said->name, conn->host.name) == 0)
                return true;
        return led_by_address(conn) &&
               policy_host(conn->proxy->config.policy, said, conn->port).reason != POLICY_RULE;
}

/* Remembers it for a policy that comes later: nothing else says what the connection is for. */
static int note_said(struct conn *conn, const struct host *said) {
        if (!led_by_address(conn))
                return 0;
        if (!conn->said)
                conn->said = malloc(sizeof(*conn->said));
        if (!conn->said)
                return -ENOMEM;
        *conn->said = *said;
        return 0;
}

static void refuse_said(struct conn *conn, const struct host *said, const char *why) {
        const struct policy_verdict v = policy_host(conn->proxy->config.policy, said, conn->port);

        if (!led_by_address(conn)) {
                conn_refuse(conn, why, NULL);
                return;
        }
        conn->host = *said;
        conn_refuse_verdict(conn, &v);
}

/* Passes the first @len bytes of @conn->in on, and forgets them. Return: 0, -errno. */
static int pass_on(struct conn *conn, size_t len) {
        struct buf *in = &conn->in;
        int r;

        if (len == 0)
                return 0;
        r = tunnel_send(&conn->tunnel, &conn->tunnel.ends[SERVER], in->data, len);
        in->len -= len;
        memmove(in->data, in->data + len, in->len);
        return r;
}

/* Return: whether a whole ClientHello was passed on; else more is needed, or it was refused. */
static bool pass_hello(struct conn *conn) {
        struct hello hello;
        struct error err = { 0 };
        int r;

        r = hello_parse((const uint8_t *) conn->in.data, conn->in.len, &hello, &err);
        if (r == -EAGAIN)
                return false;
        if (r < 0)
                conn_refuse(conn, err.msg, NULL);
        else if (hello.encrypted)
                conn_refuse(conn, "the server name is encrypted (ECH)", NULL);
        else if (!hello.has_name && conn->host.kind == HOST_NAME)
                conn_refuse(conn, "no server name (SNI)", NULL);
        else if (hello.has_name && !may_say(conn, &hello.host))
                refuse_said(conn, &hello.host, "the server name (SNI) is not the name that was asked for");
        else if ((hello.has_name && note_said(conn, &hello.host) < 0) || pass_on(conn, hello.wire_len) < 0)
                (void) conn_free(conn);
        else
                return true;
        return false;
}

/* The first bytes of a tunnel say whom it is really for; so does a ClientHello that the server asked for. */
static void take_hello(struct conn *conn) {
        do {
                const bool first = conn->hellos == 0;

                if (!first &&
                    pass_on(conn, hello_skip_others((const uint8_t *) conn->in.data, conn->in.len)) < 0) {
                        (void) conn_free(conn);
                        return;
                }
                if (conn->in.len == 0 || (!first && hello_is_other((uint8_t) conn->in.data[0])))
                        return;
                if (first && (conn->led || conn->port == 80) && conn->in.data[0] != 22) {
                        conn->plain = true;
                        conn->state = CONN_HEAD;
                        take_head(conn);
                        return;
                }
                if (!pass_hello(conn))
                        return;
                conn->hellos++;
        } while (conn->hellos <= conn->answer.retries);
        conn->state = CONN_ANSWER;
        follow(conn);
}

/* What the server says goes to the client as it comes. Return: 0, or what ends the connection. */
static int read_answer(struct conn *conn) {
        char data[READ_BYTES];
        const ssize_t n = recv(conn->tunnel.ends[SERVER].fd, data, sizeof(data), 0);

        if (n < 0)
                return errno == EAGAIN ? 0 : -errno;
        if (n == 0)
                conn->answer.settled = true; /* the tunnel sees it again */
        hello_answer_feed(&conn->answer, (const uint8_t *) data, (size_t) n);
        return tunnel_send(&conn->tunnel, &conn->tunnel.ends[CLIENT], data, (size_t) n);
}

static void on_answer(struct loop_watch *watch, uint32_t events) {
        struct conn *conn = conn_of(watch);
        int r = 0;

        if (events & EPOLLOUT)
                r = tunnel_flush(&conn->tunnel.ends[SERVER]);
        if (r == -ENOBUFS)
                r = 0;
        if (r == 0 && !conn->answer.settled)
                r = read_answer(conn);
        else if (events & EPOLLERR)
                r = -ECONNRESET;
        if (r < 0)
                (void) conn_free(conn);
        else
                follow(conn);
}

/*
 * The server answers, or asks for another ClientHello (RFC 8446, 4.1.4), which may say another name and is
 * held to the same. What the client has sent behind its hello waits until then: whether a hello is in it
 * depends on the answer.
 */
static void follow(struct conn *conn) {
        struct tunnel_end *server = &conn->tunnel.ends[SERVER];
        const bool asked = conn->hellos <= conn->answer.retries;

        if (!asked && conn->answer.settled) {
                conn_tunnel(conn);
                return;
        }
        server->watch.fn = on_answer;
        loop_set(conn->proxy->loop, &server->watch,
                 (conn->answer.settled ? 0 : EPOLLIN) | (tunnel_pending(server) ? EPOLLOUT : 0));
        if (!asked) {
                conn_moved(conn);
        } else if (conn->state == CONN_ANSWER) {
                conn->state = CONN_HELLO;
                conn_wait(conn, &conn->proxy->head_queue);
                loop_set(conn->proxy->loop, &conn->tunnel.ends[CLIENT].watch, EPOLLIN);
                take_hello(conn);
        }
}

/* --- connecting ----------------------------------------------------------------------------------------- */

static void on_server_waits(struct loop_watch *watch, uint32_t events) {
        /* bytes of a server that speaks first are taken once the client has said whom it wants */
        if (events & EPOLLERR)
                (void) conn_free(conn_of(watch));
}

static void connected(struct conn *conn) {
        static const char established[] = "HTTP/1.1 200 Connection Established\r\n\r\n";
        struct tunnel_end *client = &conn->tunnel.ends[CLIENT];

        if (conn->form != HTTP_CONNECT) {
                forward_start(conn);
                return;
        }
        if (!conn->led && send(client->fd, established, sizeof(established) - 1, MSG_NOSIGNAL) !=
                                  (ssize_t) sizeof(established) - 1) {
                (void) conn_free(conn);
                return;
        }
        /* nobody has told a client that was led here of a proxy: all it sends belongs to the tunnel.
         * Else: what came behind the head belongs to the tunnel */
        conn->in.len -= conn->head_used;
        if (conn->in.len > 0)
                memmove(conn->in.data, conn->in.data + conn->head_used, conn->in.len);
        if (conn->verdict.raw) {
                conn_tunnel(conn);
                return;
        }
        conn->state = CONN_HELLO;
        loop_start(conn->proxy->loop, &conn->timer, &conn->proxy->head_queue, on_timeout);
        loop_set(conn->proxy->loop, &client->watch, EPOLLIN);
        take_hello(conn);
}

static void on_dialled(void *arg, const struct dial_result *result) {
        struct conn *conn = arg;
        struct tunnel_end *server = &conn->tunnel.ends[SERVER];

        conn->dial = NULL;
        if (result->end == DIAL_REFUSED) {
                conn_refuse_verdict(conn, &result->verdict);
                return;
        }
        if (result->end != DIAL_OK) {
                conn_answer(conn, result->late ? 504 : 502, result->why);
                return;
        }
        conn->addr = result->addr;
        server->fd = result->watch->fd;
        if (dial_take(&conn->proxy->dialer, result, &server->watch, conn->verdict.raw ? EPOLLIN : 0,
                      on_server_waits) < 0)
                conn_answer(conn, 502, "out of memory");
        else
                connected(conn);
}

/* Decides and connects; again when the policy has changed meanwhile. */
void conn_dial(struct conn *conn) {
        int r;

        dial_cancel(TAKE_PTR(conn->dial));
        conn->verdict = policy_host(conn->proxy->config.policy, &conn->host, conn->port);
        if (conn->verdict.reason != POLICY_OK) {
                conn_refuse_verdict(conn, &conn->verdict);
                return;
        }
        r = dial_start(&conn->proxy->dialer, &conn->host, conn->port, &conn->verdict, on_dialled, conn,
                       &conn->dial);
        if (r < 0) {
                conn_answer(conn, 502, r == -EAGAIN ? "too many names are being looked up" : "out of memory");
                return;
        }
        conn->state = CONN_DIAL;
        loop_start(conn->proxy->loop, &conn->timer, &conn->proxy->dial_queue, on_timeout);
}

/* Whether it is connected to a server. */
static bool stands(const struct conn *conn) {
        return conn->state == CONN_TUNNEL || conn->state == CONN_FORWARD || conn->state == CONN_HELLO ||
               conn->state == CONN_ANSWER || (conn->state == CONN_HEAD && conn->plain);
}

void conn_recheck(struct conn *conn) {
        struct policy_verdict v;

        if (conn->state == CONN_WHOM) /* the number of a rule of the old policy is none of the new */
                conn->verdict = policy_host(conn->proxy->config.policy, &conn->host, conn->port);
        if (conn->state == CONN_DIAL || (conn->state == CONN_WHOM && conn->verdict.reason == POLICY_OK)) {
                conn_dial(conn); /* which may free it */
                return;
        }
        if (!stands(conn))
                return;
        v = policy_host(conn->proxy->config.policy, &conn->host, conn->port);
        if (v.reason == POLICY_OK && conn->host.kind == HOST_NAME)
                v = policy_dial(conn->proxy->config.policy, &v, &conn->addr, conn->port);
        if (v.reason == POLICY_OK && conn->said && !may_say(conn, conn->said)) {
                v = policy_host(conn->proxy->config.policy, conn->said, conn->port);
                conn->host = *conn->said;
        }
        if (v.reason != POLICY_OK) {
                if (conn->state != CONN_HEAD)
                        conn->state = CONN_TUNNEL; /* it is too late for an answer */
                conn_refuse_verdict(conn, &v);
        }
}

/* --- the head ------------------------------------------------------------------------------------------- */

/* One that is not understood names no host: the reason has to say it. */
static void refuse_request(struct conn *conn, unsigned int status, const char *why) {
        blocked_note(conn->proxy->log, conn->plain ? conn->host.name : "", conn->plain ? conn->port : 0, why,
                     NULL);
        conn_answer(conn, status, why);
}

/* A request inside of a CONNECT to port 80: for that host, on the connection that stands. */
static void take_plain(struct conn *conn, const struct http_request *q) {
        if (q->form != HTTP_ORIGIN) {
                refuse_request(conn, 400, "a proxy's request inside of a tunnel");
                return;
        }
        if (q->port == conn->port && !may_say(conn, &q->host) && led_by_address(conn)) {
                refuse_said(conn, &q->host, NULL);
                return;
        }
        if (!may_say(conn, &q->host) || q->port != conn->port) {
                blocked_note(conn->proxy->log, q->host.name, q->port,
                             "Host is not the name that was asked for", NULL);
                conn_answer(conn, 403, "Host is not the name that was asked for");
                return;
        }
        if (note_said(conn, &q->host) < 0) {
                conn_answer(conn, 502, "out of memory");
                return;
        }
        conn->form = q->form;
        connected(conn);
}

static void take_head(struct conn *conn) {
        const char *token = conn->proxy->config.token;
        struct http_request q; /* large, and only kept as bytes: an idle tunnel should be small */
        struct error err = { 0 };
        int r;

        r = http_request_parse(conn->in.data, conn->in.len, conn->plain ? conn->port : 0, &q,
                               &conn->head_used, &err);
        if (r == -EAGAIN)
                return;
        if (r < 0) {
                refuse_request(conn, 400, err.msg);
        } else if (conn->plain) {
                take_plain(conn, &q);
        } else if (token && !auth_check(token, q.authorization)) {
                refuse_request(conn, 407, "the proxy token is missing or wrong");
        } else {
                conn->host = q.host;
                conn->port = q.port;
                conn->form = q.form;
                conn_dial(conn);
        }
}

/* Whoever leaves without a word has tried all the same. */
static void gone(struct conn *conn) {
        if (conn->state == CONN_WHOM)
                conn_refuse_verdict(conn, &conn->verdict);
        else
                (void) conn_free(conn);
}

static void on_client_event(struct loop_watch *watch, uint32_t events) {
        struct conn *conn = conn_of(watch);
        char data[READ_BYTES];
        ssize_t n;

        if (events & EPOLLERR || (conn->state == CONN_ANSWER && events & EPOLLHUP)) {
                gone(conn);
                return;
        }
        if (conn->state == CONN_ANSWER) { /* it waits in the socket */
                loop_set(conn->proxy->loop, watch, 0);
                return;
        }
        n = recv(watch->fd, data, sizeof(data), 0);
        if (n < 0 && errno == EAGAIN)
                return;
        if (n == 0 && conn->state == CONN_DIAL) { /* half closed: the tunnel sees it again */
                loop_set(conn->proxy->loop, watch, 0);
                return;
        }
        if (n <= 0 || buf_add(&conn->in, data, (size_t) n) < 0) {
                gone(conn);
                return;
        }
        if (conn->state == CONN_DIAL) /* more than one read waits in the socket */
                loop_set(conn->proxy->loop, watch, 0);
        else if (conn->state == CONN_HELLO)
                take_hello(conn);
        else if (conn->state == CONN_WHOM)
                lead_take(conn);
        else if (memchr(data, '\n', (size_t) n) || conn->in.len >= HTTP_HEAD_BYTES_MAX)
                take_head(conn); /* only a new line can make a head whole: reading stays linear */
}
