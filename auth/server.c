#include "auth/server.h"

#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include "auth/conn.h"
#include "auth/journal.h"
#include "runtime/base/cleanup.h"

enum {
        ACCEPTS = 64,         /* at a time, before others get their turn */
        RESERVED_FDS = 64,    /* of the process, the registry and connections that are kept */
        FDS_PER_CLIENT = 3,   /* itself, its server's, and what looks names up */
        CLIENTS_DEFAULT = 256 /* when the limit of descriptors cannot be read */
};

static size_t client_limit(void) {
        struct rlimit limit;

        if (getrlimit(RLIMIT_NOFILE, &limit) < 0 || limit.rlim_cur < 4L * RESERVED_FDS)
                return CLIENTS_DEFAULT / FDS_PER_CLIENT;
        return (size_t) (limit.rlim_cur < 65536 ? limit.rlim_cur - RESERVED_FDS : 65536) / FDS_PER_CLIENT;
}

/* --- the registry -----------------------------------------------------------------------------------------
 */

static void on_registry(struct loop_watch *watch, uint32_t events) {
        struct server *server =
                (struct server *) (void *) ((char *) watch - offsetof(struct server, registry_watch));

        (void) events;
        registry_dispatch(server->registry);
}

static void on_purged(void *data, struct registry_answer *answer) {
        (void) data;
        if (answer->result == REGISTRY_OK && answer->count > 0)
                journal_say(JOURNAL_INFO, "expired auth proxy tokens purged",
                            json_pack("{s:I}", "count", (json_int_t) answer->count));
}

static void on_purge(struct loop_timer *timer) {
        struct server *server = (struct server *) (void *) ((char *) timer - offsetof(struct server, purge));

        if (!registry_purge(server->registry, on_purged, server))
                journal_say(JOURNAL_ERROR, "expired tokens are not purged: out of memory", NULL);
        loop_start(server->loop, timer, &server->purge_queue, on_purge);
}

/* --- clients ----------------------------------------------------------------------------------------------
 */

static void set_listeners(struct server *server, uint32_t events) {
        for (size_t i = 0; i < server->n_listeners; i++)
                loop_set(server->loop, &server->listeners[i].watch, events);
}

static void on_pause_over(struct loop_timer *timer) {
        struct server *server = (struct server *) (void *) ((char *) timer - offsetof(struct server, pause));

        if (!server->draining)
                set_listeners(server, EPOLLIN);
}

static void rest(struct server *server) {
        set_listeners(server, 0);
        loop_start(server->loop, &server->pause, &server->pause_queue, on_pause_over);
}

/* Ends the client that asks for nothing the longest. Return: whether there was one. */
static bool make_room(struct server *server) {
        struct loop_timer *oldest = server->keep_queue.first   ? server->keep_queue.first
                                    : server->head_queue.first ? server->head_queue.first
                                                               : server->linger_queue.first;

        if (!oldest)
                return false;
        (void) conn_free((struct conn *) (void *) ((char *) oldest - offsetof(struct conn, timer)));
        return true;
}

static void on_client(struct loop_watch *watch, uint32_t events) {
        struct listener *listener = (struct listener *) (void *) watch;
        struct server *server = listener->server;

        (void) events;
        for (int i = 0; i < ACCEPTS; i++) {
                int fd;

                if (server->n_conns >= server->conf.max_clients && !make_room(server)) {
                        rest(server);
                        return;
                }
                fd = accept4(watch->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
                if (fd < 0 && (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)) {
                        if (!make_room(server))
                                rest(server);
                        return;
                }
                if (fd < 0)
                        return; /* none left, or one that went away again */
                if (conn_new_consume(listener, fd) < 0)
                        (void) fd_close(fd);
        }
}

int server_listen_consume(struct server *server, int fd, enum listener_role role,
                          const struct stream_tls *tls) {
        struct listener *listener = &server->listeners[server->n_listeners];
        int r;

        if (server->n_listeners == SERVER_LISTENERS_MAX)
                return -E2BIG;
        listener->server = server;
        listener->role = role;
        listener->tls = tls;
        r = loop_add(server->loop, &listener->watch, fd, EPOLLIN, on_client);
        if (r == 0)
                server->n_listeners++;
        return r;
}

void server_drain(struct server *server) {
        server->draining = true;
        for (size_t i = 0; i < server->n_listeners; i++)
                loop_close(server->loop, &server->listeners[i].watch);
        for (struct conn *conn = server->conns, *next; conn; conn = next) {
                next = conn->after;
                if (conn_is_idle(conn))
                        (void) conn_free(conn);
        }
}

/* --- life -------------------------------------------------------------------------------------------------
 */

int server_init(struct server *server, struct loop *loop, const struct server_conf *conf,
                struct registry *registry, struct upstream *upstream) {
        int r;

        (void) signal(SIGPIPE, SIG_IGN);
        *server = (struct server){ .loop = loop, .conf = *conf, .registry = registry, .upstream = upstream };
        if (!server->conf.max_clients)
                server->conf.max_clients = client_limit();
        server->head_queue.ns = conf->head_ms * 1000000U;
        server->keep_queue.ns = conf->keep_ms * 1000000U;
        server->idle_queue.ns = conf->idle_ms * 1000000U;
        server->linger_queue.ns = 2000 * 1000000ULL;
        server->pause_queue.ns = 100 * 1000000ULL;
        server->purge_queue.ns = 60000 * 1000000ULL;
        server->metrics = metrics_new();
        if (!server->metrics)
                return -ENOMEM;
        r = loop_add(loop, &server->registry_watch, registry_fd(registry), EPOLLIN, on_registry);
        if (r == 0)
                loop_start(loop, &server->purge, &server->purge_queue, on_purge);
        return r;
}

void server_deinit(struct server *server) {
        if (!server->loop)
                return;
        while (server->conns)
                (void) conn_free(server->conns);
        for (size_t i = 0; i < server->n_listeners; i++)
                loop_close(server->loop, &server->listeners[i].watch);
        loop_cancel(&server->pause);
        loop_cancel(&server->purge);
        loop_remove(server->loop, &server->registry_watch);
        server->metrics = metrics_free(server->metrics);
}
