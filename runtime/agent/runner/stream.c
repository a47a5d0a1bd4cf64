#include "runtime/agent/runner/stream.h"

#include <ares.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "runtime/base/cleanup.h"
#include "runtime/base/clock.h"

enum { ADDRESSES_MAX = 8, LOOKUP_STEP_MS = 250 };

/** struct places - where a name leads */
struct places {
        struct sockaddr_storage addr[ADDRESSES_MAX];
        socklen_t len[ADDRESSES_MAX];
        size_t n;
        int status;
        bool done;
};

void stream_close(struct stream *s) {
        s->tls = tls_free(s->tls);
        s->fd = fd_close(s->fd);
}

int stream_wait(struct stream *s, short events, uint64_t deadline_ns) {
        struct pollfd p = { .fd = s->fd, .events = events };
        const int r = wire_poll(s->wire, &p, 1, deadline_ns);

        return r > 0 ? 0 : r == 0 ? -ETIMEDOUT : r;
}

/* --- names ---------------------------------------------------------------------------------------------- */

static void found(void *arg, int status, int timeouts, struct ares_addrinfo *info) {
        struct places *p = arg;

        (void) timeouts;
        p->status = status;
        p->done = true;
        for (struct ares_addrinfo_node *n = info ? info->nodes : NULL; n && p->n < ADDRESSES_MAX;
             n = n->ai_next) {
                if ((size_t) n->ai_addrlen > sizeof(p->addr[0]))
                        continue;
                memcpy(&p->addr[p->n], n->ai_addr, (size_t) n->ai_addrlen);
                p->len[p->n++] = (socklen_t) n->ai_addrlen;
        }
        ares_freeaddrinfo(info);
}

/* One round of the lookup: waits for its sockets for a moment, so that c-ares sees its own timeouts. */
static int lookup_step(struct wire *w, ares_channel channel, uint64_t deadline_ns) {
        ares_socket_t socks[ARES_GETSOCK_MAXNUM];
        const int mask = ares_getsock(channel, socks, ARES_GETSOCK_MAXNUM);
        struct pollfd fds[ARES_GETSOCK_MAXNUM];
        const uint64_t step = clock_ns() + LOOKUP_STEP_MS * 1000000ULL;
        size_t n = 0;
        int r;

        for (unsigned int i = 0; i < ARES_GETSOCK_MAXNUM; i++) {
                const short events = (short) ((ARES_GETSOCK_READABLE(mask, i) ? POLLIN : 0) |
                                              (ARES_GETSOCK_WRITABLE(mask, i) ? POLLOUT : 0));
                if (events)
                        fds[n++] = (struct pollfd){ .fd = socks[i], .events = events };
        }
        r = wire_poll(w, fds, n, step < deadline_ns ? step : deadline_ns);
        if (r < 0)
                return r;
        for (size_t i = 0; i < n; i++)
                ares_process_fd(channel, fds[i].revents & ~POLLOUT ? fds[i].fd : ARES_SOCKET_BAD,
                                fds[i].revents & POLLOUT ? fds[i].fd : ARES_SOCKET_BAD);
        ares_process_fd(channel, ARES_SOCKET_BAD, ARES_SOCKET_BAD);
        return clock_ns() < deadline_ns ? 0 : -ETIMEDOUT;
}

static int lookup(struct wire *w, const char *name, uint16_t port, uint64_t deadline_ns, struct places *ret,
                  struct error *err) {
        const struct ares_addrinfo_hints hints = { .ai_family = AF_UNSPEC,
                                                   .ai_socktype = SOCK_STREAM,
                                                   .ai_flags = ARES_AI_NUMERICSERV };
        ares_channel channel;
        char service[8];
        int r = 0;

        if (ares_library_init(ARES_LIB_INIT_ALL) != ARES_SUCCESS || ares_init(&channel) != ARES_SUCCESS)
                return error_set(err, -ENOMEM, "look up '%s': out of memory", name);
        (void) snprintf(service, sizeof(service), "%u", port);
        ares_getaddrinfo(channel, name, service, &hints, found, ret);
        while (r == 0 && !ret->done)
                r = lookup_step(w, channel, deadline_ns);
        ares_destroy(channel);
        if (r < 0)
                return error_set(err, r, "look up '%s': %s", name, strerror(-r));
        if (ret->n == 0)
                return error_set(err, -ENOENT, "look up '%s': %s", name, ares_strerror(ret->status));
        return 0;
}

/* --- connections ---------------------------------------------------------------------------------------- */

static int connect_one(struct stream *s, const struct sockaddr_storage *addr, socklen_t len,
                       uint64_t deadline_ns) {
        int e = 0, r;
        socklen_t size = sizeof(e);

        s->fd = socket(addr->ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (s->fd < 0)
                return -errno;
        if (connect(s->fd, (const struct sockaddr *) addr, len) == 0)
                return 0;
        if (errno != EINPROGRESS)
                return -errno;
        r = stream_wait(s, POLLOUT, deadline_ns);
        if (r < 0)
                return r;
        return getsockopt(s->fd, SOL_SOCKET, SO_ERROR, &e, &size) < 0 ? -errno : -e;
}

int stream_connect(struct stream *s, const struct host *host, uint16_t port, uint64_t deadline_ns,
                   struct error *err) {
        struct places places = { 0 };
        int r = 0;

        if (host->kind == HOST_ADDR) {
                places.len[0] = addr_to_sock(&host->addr, port, &places.addr[0]);
                places.n = 1;
        } else
                r = lookup(s->wire, host->name, port, deadline_ns, &places, err);
        if (r < 0)
                return r;
        for (size_t i = 0; i < places.n; i++) {
                r = connect_one(s, &places.addr[i], places.len[i], deadline_ns);
                if (r == 0)
                        return 0;
                s->fd = fd_close(s->fd);
                if (r == -EPIPE || r == -ETIMEDOUT)
                        break;
        }
        return error_set(err, r, "connect to '%s' port %u: %s", host->name, port, strerror(-r));
}

ssize_t stream_read(struct stream *s, void *buf, size_t size, uint64_t deadline_ns) {
        for (;;) {
                ssize_t n;
                int r;

                if (s->tls)
                        return tls_read(s, buf, size, deadline_ns);
                n = recv(s->fd, buf, size, 0);
                if (n >= 0)
                        return n;
                if (errno != EAGAIN && errno != EINTR)
                        return -errno;
                r = stream_wait(s, POLLIN, deadline_ns);
                if (r < 0)
                        return r;
        }
}

int stream_write(struct stream *s, const void *data, size_t len, uint64_t deadline_ns) {
        const char *at = data;

        while (len > 0) {
                ssize_t n = s->tls ? tls_write(s, at, len, deadline_ns) : send(s->fd, at, len, MSG_NOSIGNAL);

                if (n < 0 && s->tls)
                        return (int) n;
                if (n < 0 && errno != EAGAIN && errno != EINTR)
                        return errno == EPIPE ? -ECONNRESET : -errno; /* -EPIPE is the launcher's */
                if (n < 0) {
                        const int r = stream_wait(s, POLLOUT, deadline_ns);

                        if (r < 0)
                                return r;
                        continue;
                }
                at += n;
                len -= (size_t) n;
        }
        return 0;
}
