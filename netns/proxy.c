/*
 * DOC: theory of operation
 *
 * One process, one thread, one epoll set. A connection is decided before anything is dialled, by the
 * canonical host (host.h) of a strictly read head (http.h); then each address of the name is decided, and
 * dialled as it is (dial.h). A tunnel that is not allowed for any protocol has to begin with a ClientHello
 * for the very name (hello.h), or, to port 80, to be HTTP for it, which is read request by request.
 *
 * What the work controls: every byte from the client, the names it asks for, with them what name servers are
 * asked, and how fast it reads. What bounds it: the number of clients (at the limit the client that has been
 * about to send a request the longest makes room), the size of heads, a time limit for each step that is
 * waited for, pipes (tunnel.h), and one request a connection. It can exhaust its own proxy only: each run has
 * one.
 */
#include "netns/proxy.h"

#include <assert.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "netns/conn.h"
#include "runtime/base/cleanup.h"

enum {
        ACCEPTS = 64,          /* at a time, before others get their turn */
        RESERVED_FDS = 192,    /* of the process, c-ares, pipes and questions over TCP */
        CLIENTS_DEFAULT = 512, /* when the limit of descriptors cannot be read */
        HEAD_MS = 10000,
        WHOM_MS = 500, /* until a client that was led here by an address alone says whom it wants */
        DIAL_MS = 15000,
        IDLE_MS = 2 * 3600 * 1000,
        HALF_MS = 5 * 60 * 1000,
        REPORT_MS = 10000,
};
/* of silence, before its rest is waited for with an eye on the server */
#define QUIET_NS (60U * UINT64_C(1000000000))

static uint64_t ns_of(uint64_t ms, uint64_t fallback) {
        return (ms ? ms : fallback) * 1000000U;
}

static size_t client_limit(void) {
        struct rlimit limit;

        if (getrlimit(RLIMIT_NOFILE, &limit) < 0 || limit.rlim_cur < 4L * RESERVED_FDS)
                return CLIENTS_DEFAULT;
        return (size_t) (limit.rlim_cur < 2000000 ? limit.rlim_cur - RESERVED_FDS : 2000000) / 2;
}

int proxy_new(struct loop *loop, const struct proxy_config *config, struct proxy **ret, struct error *err) {
        struct proxy *proxy = calloc(1, sizeof(*proxy));
        int r;

        if (!proxy)
                return error_set(err, -ENOMEM, "out of memory");
        /* splice(2) to a socket that was closed raises it, and has no flag against that */
        (void) signal(SIGPIPE, SIG_IGN);
        proxy->loop = loop;
        proxy->config = *config;
        proxy->max_clients = config->max_clients ? config->max_clients : client_limit();
        proxy->head_queue.ns = ns_of(config->head_ms, HEAD_MS);
        proxy->dial_queue.ns = ns_of(config->dial_ms, DIAL_MS);
        proxy->idle_queue.ns = ns_of(config->idle_ms, IDLE_MS);
        proxy->quiet_queue.ns = proxy->idle_queue.ns / 2 < QUIET_NS ? proxy->idle_queue.ns / 2 : QUIET_NS;
        proxy->idle_queue.ns -= proxy->quiet_queue.ns;
        proxy->half_queue.ns = ns_of(config->half_ms, HALF_MS);
        proxy->linger_queue.ns = ns_of(2000, 0);
        proxy->whom_queue.ns = ns_of(WHOM_MS, 0);
        proxy->asker_queue.ns = ns_of(HEAD_MS, 0);
        proxy->pause_queue.ns = ns_of(100, 0);
        proxy->dialer = (struct dialer){ .loop = loop, .policy = config->policy };
        proxy->dialer.next_queue.ns = ns_of(250, 0);
        r = resolver_new(loop,
                         &(struct resolver_config){ .path = config->resolv_conf,
                                                    .changed = config->resolv_changed,
                                                    .arg = config->arg },
                         &proxy->dialer.resolver, err);
        if (r == 0)
                r = blocked_new(loop, ns_of(config->report_ms, REPORT_MS), config->blocked, config->arg,
                                &proxy->log);
        if (r < 0) {
                (void) proxy_free(proxy);
                return r;
        }
        *ret = proxy;
        return 0;
}

struct proxy *proxy_free(struct proxy *proxy) {
        if (!proxy)
                return NULL;
        while (proxy->conns)
                (void) conn_free(proxy->conns);
        askers_free(proxy);
        loop_cancel(&proxy->pause);
        for (size_t i = 0; i < proxy->n_listeners; i++) {
                loop_remove(proxy->loop, &proxy->listeners[i].watch);
                (void) fd_close(proxy->listeners[i].watch.fd);
        }
        (void) resolver_free(proxy->dialer.resolver);
        (void) blocked_free(proxy->log);
        (void) names_free(proxy->names);
        pipes_deinit(&proxy->pipes);
        free(proxy);
        return NULL;
}

static void set_listeners(struct proxy *proxy, uint32_t events) {
        for (size_t i = 0; i < proxy->n_listeners; i++)
                loop_set(proxy->loop, &proxy->listeners[i].watch, events);
}

static void on_pause_over(struct loop_timer *timer) {
        struct proxy *proxy = (struct proxy *) (void *) ((char *) timer - offsetof(struct proxy, pause));

        set_listeners(proxy, EPOLLIN);
}

/* Frees the client that has been expected to send a request the longest, or else the one whose tunnel has
 * been silent the longest. Return: whether there was one. */
static bool make_room(struct proxy *proxy) {
        const struct loop_queue *const queues[] = { &proxy->head_queue, &proxy->linger_queue,
                                                    &proxy->whom_queue, &proxy->half_queue,
                                                    &proxy->idle_queue, &proxy->quiet_queue };

        for (size_t i = 0; i < ARRAY_SIZE(queues); i++) {
                struct loop_timer *oldest = queues[i]->first;

                if (!oldest)
                        continue;
                (void) conn_free((struct conn *) (void *) ((char *) oldest - offsetof(struct conn, timer)));
                return true;
        }
        return false;
}

static void rest(struct proxy *proxy) {
        set_listeners(proxy, 0);
        loop_start(proxy->loop, &proxy->pause, &proxy->pause_queue, on_pause_over);
}

/* Takes over @fd, or closes it. */
static void serve(struct listener *listener, int fd) {
        struct proxy *proxy = listener->proxy;
        int r;

        if (listener->kind == PROXY_DNS_TCP)
                r = asker_new_consume(proxy, NULL, fd);
        else if (listener->kind == PROXY_CLIENTS)
                r = conn_new_consume(proxy, fd);
        else
                r = lead_consume(listener, fd);
        if (r < 0)
                (void) fd_close(fd);
        else
                proxy->accepted++;
}

static void on_client(struct loop_watch *watch, uint32_t events) {
        struct listener *listener = (struct listener *) watch;
        struct proxy *proxy = listener->proxy;

        (void) events;
        for (int i = 0; i < ACCEPTS; i++) {
                int fd;

                if (proxy->n_clients >= proxy->max_clients) {
                        if (i > 0) /* whether another one waits is not known yet */
                                return;
                        if (!make_room(proxy)) {
                                rest(proxy);
                                return;
                        }
                }
                fd = accept4(watch->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
                if (fd < 0 && (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)) {
                        if (!make_room(proxy))
                                rest(proxy);
                        return;
                }
                if (fd < 0)
                        return; /* none left, or one that went away again */
                serve(listener, fd);
        }
}

static int sock_of(int fd, uint16_t *ret_port, sa_family_t *ret_family) {
        struct sockaddr_storage ss;
        socklen_t len = sizeof(ss);

        if (getsockname(fd, (struct sockaddr *) &ss, &len) < 0)
                return -errno;
        *ret_family = ss.ss_family;
        *ret_port = ntohs(((const struct sockaddr_in *) &ss)->sin_port); /* at the same place in both */
        return 0;
}

/* What the stub resolver needs to know of a way here. */
static int add_way(struct proxy *proxy, enum proxy_socket kind, int fd) {
        char self[HOST_NAME_BYTES_MAX + 1] = "";
        sa_family_t family = AF_UNSPEC;
        uint16_t port = 0;
        int r;

        if (!proxy->names && gethostname(self, sizeof(self) - 1) == 0)
                (void) (host_parse(self, strlen(self), &proxy->self, NULL) < 0); /* then nobody asks for it */
        r = proxy->names ? 0 : names_new(&proxy->names);
        if (r == 0)
                r = sock_of(fd, &port, &family);
        if (r == 0 && kind == PROXY_LED && proxy->n_ports == PROXY_PORTS_MAX)
                r = -E2BIG;
        if (r < 0)
                return r;
        if (kind == PROXY_LED)
                proxy->ports[proxy->n_ports++] = port;
        proxy->redirected = proxy->redirected || kind == PROXY_REDIRECTED;
        proxy->six = proxy->six || (kind == PROXY_REDIRECTED && family == AF_INET6);
        return 0;
}

int proxy_add_consume(struct proxy *proxy, enum proxy_socket kind, int fd) {
        static const loop_fn events[] = {
                [PROXY_CLIENTS] = on_client,    [PROXY_LED] = on_client,
                [PROXY_REDIRECTED] = on_client, [PROXY_DNS] = stub_event,
                [PROXY_DNS_TCP] = on_client,    [PROXY_UDP_LOG] = lead_refused_event,
        };
        struct listener *listener = &proxy->listeners[proxy->n_listeners];
        int r;

        static_assert(ARRAY_SIZE(events) == PROXY_SOCKET_COUNT, "events[] and enum proxy_socket differ");
        if (proxy->n_listeners == PROXY_LISTENERS_MAX)
                return -E2BIG;
        r = kind == PROXY_CLIENTS ? 0 : add_way(proxy, kind, fd);
        if (r < 0)
                return r;
        /* clients inherit it */
        (void) setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){ 1 }, sizeof(int));
        listener->proxy = proxy;
        listener->kind = kind;
        r = loop_add(proxy->loop, &listener->watch, fd, EPOLLIN, events[kind]);
        if (r == 0)
                proxy->n_listeners++;
        return r;
}

void proxy_set_policy(struct proxy *proxy, const struct policy *policy) {
        proxy->config.policy = policy;
        proxy->dialer.policy = policy;
        for (struct conn *conn = proxy->conns, *next; conn; conn = next) {
                next = conn->after;
                conn_recheck(conn);
        }
}

void proxy_set_resolv_conf(struct proxy *proxy, int fd) {
        resolver_set_config(proxy->dialer.resolver, fd);
}

struct proxy_stats proxy_stats(const struct proxy *proxy) {
        return (struct proxy_stats){ .clients = proxy->n_clients,
                                     .accepted = proxy->accepted,
                                     .blocked = blocked_total(proxy->log) };
}
