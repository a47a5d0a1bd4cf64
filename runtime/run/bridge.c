#include "runtime/run/bridge.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "netns/tunnel.h"
#include "runtime/base/cleanup.h"
#include "runtime/run/service.h"

enum { CONNECT_MS = 1000 };

struct carried {
        struct tunnel tunnel; /* first: it comes with callbacks */
        struct bridge *bridge;
        struct carried *next, **prev;
};

struct bridge {
        struct loop_watch watch; /* first: events come with it */
        struct loop *loop;
        struct pipes pipes;
        const char *place;
        int listen_fd;
        struct carried *tunnels;
        size_t n_tunnels;
};

int bridge_new(struct loop *loop, const char *place, struct bridge **ret) {
        struct bridge *bridge = calloc(1, sizeof(*bridge));

        if (!bridge)
                return -ENOMEM;
        bridge->loop = loop;
        bridge->place = place;
        bridge->listen_fd = -1;
        *ret = bridge;
        return 0;
}

static void drop(struct carried *c) {
        struct bridge *bridge = c->bridge;

        tunnel_deinit(&c->tunnel);
        *c->prev = c->next;
        if (c->next)
                c->next->prev = c->prev;
        free(c);
        bridge->n_tunnels--;
        if (bridge->watch.active)
                loop_set(bridge->loop, &bridge->watch, EPOLLIN);
}

struct bridge *bridge_free(struct bridge *bridge) {
        if (!bridge)
                return NULL;
        while (bridge->tunnels)
                drop(bridge->tunnels);
        if (bridge->watch.active)
                loop_close(bridge->loop, &bridge->watch);
        pipes_deinit(&bridge->pipes);
        free(bridge);
        return NULL;
}

static void on_ended(struct tunnel *tunnel, int error) {
        (void) error;
        drop((struct carried *) tunnel);
}

static void on_moved(struct tunnel *tunnel) {
        (void) tunnel; /* how long nothing may move is for the service to say */
}

static void on_early(struct loop_watch *watch, uint32_t events) {
        (void) watch;
        (void) events;
}

static int watch_end(struct bridge *bridge, struct tunnel_end *end, int fd) {
        const int flags = fcntl(fd, F_GETFL);

        if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0)
                return -errno;
        end->fd = fd;
        return loop_add(bridge->loop, &end->watch, fd, EPOLLIN | EPOLLRDHUP, on_early);
}

static void carry(struct bridge *bridge, int client) {
        AUTO_FD int from = client, to = -1;
        struct carried *c;

        to = service_connect(bridge->place, CONNECT_MS);
        c = to >= 0 ? calloc(1, sizeof(*c)) : NULL;
        if (!c)
                return;
        c->bridge = bridge;
        c->prev = &bridge->tunnels;
        c->next = bridge->tunnels;
        if (c->next)
                c->next->prev = &c->next;
        bridge->tunnels = c;
        bridge->n_tunnels++;
        tunnel_init(&c->tunnel, bridge->loop, &bridge->pipes);
        if (watch_end(bridge, &c->tunnel.ends[0], TAKE_FD(from)) < 0 ||
            watch_end(bridge, &c->tunnel.ends[1], TAKE_FD(to)) < 0) {
                drop(c);
                return;
        }
        tunnel_start(&c->tunnel, on_ended, on_moved);
}

/* As many as there is room for; the others wait in the socket's queue. */
static void on_connection(struct loop_watch *watch, uint32_t events) {
        struct bridge *bridge = (struct bridge *) watch;

        (void) events;
        while (bridge->n_tunnels < BRIDGE_TUNNELS_MAX) {
                const int fd = accept4(watch->fd, NULL, NULL, SOCK_CLOEXEC);

                if (fd < 0)
                        return;
                carry(bridge, fd);
        }
        loop_set(bridge->loop, watch, 0);
}

int bridge_listen_consume(struct bridge *bridge, int fd) {
        int r;

        if (bridge->watch.active)
                return -EBUSY;
        r = fcntl(fd, F_SETFL, O_NONBLOCK) < 0 ? -errno : 0;
        return r < 0 ? r : loop_add(bridge->loop, &bridge->watch, fd, EPOLLIN, on_connection);
}
