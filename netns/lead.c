/*
 * DOC: theory of operation
 *
 * Connections of programs that know of no proxy: they have connected to an address, and a listener of ours
 * got them. An address that stands for a name (names.h) is that name. Any other is decided as an address;
 * when no rule allows that, and a rule of names could, the client is heard out: the name in its ClientHello
 * or its Host is decided, and that name is looked up and dialled. The client's address is not: it may be
 * anyone's, whatever name is said. Who says nothing for WHOM_MS is refused, and told about under the address.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/netfilter_ipv4.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "netns/conn.h"
#include "netns/hello.h"
#include "netns/udplog.h"
#include "runtime/base/cleanup.h"

enum { DNS_PORT = 53, PACKETS = 64 /* at a time, before others get their turn */ };

static int read_sock(const struct sockaddr_storage *ss, struct addr *ret, uint16_t *ret_port) {
        *ret_port = ntohs(((const struct sockaddr_in *) ss)->sin_port); /* at the same place in both */
        return addr_from_sock((const struct sockaddr *) ss, ret);
}

/* Where the client of @fd connected to. Return: 0, -EINVAL (to our listener itself), -errno. */
static int target(const struct listener *listener, int fd, struct addr *ret, uint16_t *ret_port) {
        struct sockaddr_storage here = { 0 }, there = { 0 };
        socklen_t len = sizeof(here);
        struct addr addr;
        uint16_t port = 0;
        int r;

        if (getsockname(fd, (struct sockaddr *) &here, &len) < 0)
                return -errno;
        if (listener->kind != PROXY_REDIRECTED)
                return read_sock(&here, ret, ret_port);
        len = here.ss_family == AF_INET6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);
        /* SO_ORIGINAL_DST and IP6T_SO_ORIGINAL_DST are one number */
        if (getsockopt(fd, here.ss_family == AF_INET6 ? SOL_IPV6 : SOL_IP, SO_ORIGINAL_DST, &there, &len) < 0)
                return -errno;
        r = read_sock(&here, &addr, &port);
        if (r == 0)
                r = read_sock(&there, ret, ret_port);
        if (r == 0 && port == *ret_port && memcmp(&addr, ret, sizeof(addr)) == 0)
                r = -EINVAL;
        return r;
}

/* The name that @addr stands for, or the address itself. */
static struct host host_at(const struct proxy *proxy, const struct addr *addr) {
        const struct host *name = names_find(proxy->names, addr, loop_now(proxy->loop));
        struct host host = { .kind = HOST_ADDR, .addr = *addr };
        char text[ADDR_TEXT_MAX];

        if (name)
                return *name;
        addr_text(addr, text);
        memcpy(host.name, text, sizeof(text));
        return host;
}

/* Whether a name that the client says can still allow what @v refuses. */
static bool can_say(const struct conn *conn, const struct policy_verdict *v) {
        return conn->host.kind == HOST_ADDR && v->reason != POLICY_OK && v->reason != POLICY_RULE &&
               policy_hears(conn->proxy->config.policy, conn->port);
}

int lead_consume(struct listener *listener, int fd) {
        struct proxy *proxy = listener->proxy;
        struct policy_verdict v;
        struct conn *conn;
        struct addr addr;
        struct host host;
        uint16_t port = 0;
        int r;

        r = target(listener, fd, &addr, &port);
        if (r < 0)
                return r;
        host = host_at(proxy, &addr);
        v = policy_host(proxy->config.policy, &host, port);
        /* whoever asks a name server of its own choice gets our answers */
        if (listener->kind == PROXY_REDIRECTED && port == DNS_PORT && host.kind == HOST_ADDR &&
            v.reason != POLICY_OK)
                return asker_new_consume(proxy, &addr, fd);
        r = conn_new_consume(proxy, fd);
        if (r < 0)
                return r;
        conn = proxy->conns; /* the newest is the first */
        conn->led = true;
        conn->form = HTTP_CONNECT;
        conn->host = host;
        conn->port = port;
        conn->verdict = v;
        if (!can_say(conn, &v)) {
                conn_dial(conn);
                return 0;
        }
        conn->state = CONN_WHOM;
        conn_wait(conn, &proxy->whom_queue);
        return 0;
}

static void take_tls(struct conn *conn) {
        struct error err = { 0 };
        struct hello hello;
        int r;

        r = hello_parse((const uint8_t *) conn->in.data, conn->in.len, &hello, &err);
        if (r == -EAGAIN)
                return;
        if (r < 0) {
                conn_refuse(conn, err.msg, NULL);
        } else if (!hello.has_name) {
                conn_refuse_verdict(conn, &conn->verdict);
        } else {
                conn->host = hello.host;
                if (hello.encrypted)
                        conn_refuse(conn, "the server name is encrypted (ECH)", NULL);
                else
                        conn_dial(conn);
        }
}

static void take_http(struct conn *conn) {
        struct error err = { 0 };
        struct http_request q;
        size_t used = 0;
        int r;

        r = http_request_parse(conn->in.data, conn->in.len, conn->port, &q, &used, &err);
        if (r == -EAGAIN)
                return;
        conn->plain = r == 0; /* it can read an answer */
        if (r < 0 || q.form != HTTP_ORIGIN || q.port != conn->port || q.host.kind != HOST_NAME) {
                conn_refuse_verdict(conn, &conn->verdict);
                return;
        }
        conn->host = q.host;
        conn_dial(conn);
}

void lead_take(struct conn *conn) {
        /* it speaks: from here on it is as slow as any other */
        if (conn->timer.queue == &conn->proxy->whom_queue)
                conn_wait(conn, &conn->proxy->head_queue);
        if (conn->in.data[0] == 22)
                take_tls(conn);
        else
                take_http(conn);
}

/* --- what is no TCP ------------------------------------------------------------------------------------- */

static void on_packet(void *arg, const struct udplog_packet *packet) {
        struct proxy *proxy = arg;
        const struct host host = host_at(proxy, &packet->to);

        blocked_note(proxy->log, host.name, packet->port,
                     packet->protocol == IPPROTO_UDP ? "UDP: only names are asked for by it"
                                                     : "a protocol other than TCP",
                     NULL);
}

void lead_refused_event(struct loop_watch *watch, uint32_t events) {
        struct proxy *proxy = ((struct listener *) watch)->proxy;
        uint8_t data[UDPLOG_BYTES_MAX];

        (void) events;
        for (int i = 0; i < PACKETS; i++) {
                const ssize_t n = recv(watch->fd, data, sizeof(data), MSG_DONTWAIT);

                if (n < 0)
                        return;
                udplog_parse(data, (size_t) n, on_packet, proxy);
        }
}
