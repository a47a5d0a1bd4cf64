#include "netns/dial.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "runtime/base/cleanup.h"

enum { ATTEMPTS_MAX = 8 }; /* addresses of a name that are tried */

struct attempt {
        struct loop_watch watch; /* first: on_connected() gets it */
        struct dial *dial;
        struct addr addr;
};

struct dial {
        struct dialer *dialer;
        dial_fn fn;
        void *arg;
        uint16_t port;
        struct policy_verdict verdict;
        struct lookup *lookup;
        struct loop_timer next;
        struct attempt attempts[ATTEMPTS_MAX];
        size_t n, tried, failed;
        int error; /* of the last attempt that failed */
};

static void auto_dial(struct dial **dial) {
        dial_cancel(*dial);
        *dial = NULL;
}

int dial_take(const struct dialer *dialer, const struct dial_result *result, struct loop_watch *watch,
              uint32_t events, loop_fn fn) {
        if (!result->watch->active)
                return loop_add(dialer->loop, watch, result->watch->fd, events, fn);
        /* level-triggered: what a server sends early is still there when its turn comes */
        loop_move(dialer->loop, result->watch, watch, events, fn);
        return 0;
}

void dial_cancel(struct dial *dial) {
        if (!dial)
                return;
        lookup_cancel(dial->lookup);
        loop_cancel(&dial->next);
        for (size_t i = 0; i < dial->n; i++)
                loop_close(dial->dialer->loop, &dial->attempts[i].watch);
        free(dial);
}

static void finish(struct dial *dial, struct dial_result result) {
        dial->fn(dial->arg, &result);
        dial_cancel(dial);
}

static void fail(struct dial *dial) {
        const char *why = dial->error == ECONNREFUSED                                 ? "connection refused"
                          : dial->error == ETIMEDOUT                                  ? "connection timed out"
                          : dial->error == ENETUNREACH || dial->error == EHOSTUNREACH ? "no route to the host"
                          : dial->error == EMFILE || dial->error == ENFILE            ? "out of descriptors"
                          : dial->error == EADDRNOTAVAIL                              ? "out of local ports"
                                                                                      : "cannot connect";

        finish(dial,
               (struct dial_result){ .end = DIAL_FAILED, .why = why, .late = dial->error == ETIMEDOUT });
}

static void try_next(struct dial *dial);

static void on_next(struct loop_timer *timer) {
        try_next((struct dial *) (void *) ((char *) timer - offsetof(struct dial, next)));
}

static void attempt_failed(struct attempt *attempt, int error) {
        struct dial *dial = attempt->dial;

        loop_close(dial->dialer->loop, &attempt->watch);
        dial->error = error;
        dial->failed++;
        if (dial->tried < dial->n)
                try_next(dial);
        else if (dial->failed == dial->n)
                fail(dial);
}

/*
 * A handshake with this host itself is over when connect(2) returns, although that says EINPROGRESS: asking
 * a second time costs less than to wait for an event, and next to nothing where the host is another. Return:
 * 0, -EINPROGRESS, -errno.
 */
static int connect_to(const struct addr *addr, uint16_t port, int *ret_fd) {
        struct sockaddr_storage ss;
        const socklen_t len = addr_to_sock(addr, port, &ss);
        const struct sockaddr *sa = (const struct sockaddr *) &ss;
        AUTO_FD int fd = socket(ss.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        int r = 0;

        if (fd < 0)
                return -errno;
        (void) setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){ 1 }, sizeof(int));
        if (connect(fd, sa, len) < 0)
                r = -errno;
        if (r == -EINPROGRESS)
                r = connect(fd, sa, len) < 0 && errno != EISCONN ? -errno : 0;
        if (r == -EALREADY)
                r = -EINPROGRESS;
        if (r == 0 || r == -EINPROGRESS)
                *ret_fd = TAKE_FD(fd);
        return r;
}

/* Hands the connection over; it is not watched yet when it took no waiting. */
static void connected(struct attempt *attempt) {
        finish(attempt->dial,
               (struct dial_result){ .end = DIAL_OK, .watch = &attempt->watch, .addr = attempt->addr });
}

static void on_connected(struct loop_watch *watch, uint32_t events) {
        struct attempt *attempt = (struct attempt *) watch;
        socklen_t len = sizeof(int);
        int error = 0;

        if ((events & (EPOLLERR | EPOLLHUP)) && getsockopt(watch->fd, SOL_SOCKET, SO_ERROR, &error, &len) < 0)
                error = errno;
        if (error)
                attempt_failed(attempt, error);
        else
                connected(attempt);
}

static void try_next(struct dial *dial) {
        struct attempt *attempt = &dial->attempts[dial->tried++];
        AUTO_FD int fd = -1;
        int r;

        if (dial->tried < dial->n)
                loop_start(dial->dialer->loop, &dial->next, &dial->dialer->next_queue, on_next);
        else
                loop_cancel(&dial->next);
        r = connect_to(&attempt->addr, dial->port, &fd);
        if (r == 0) {
                attempt->watch.fd = TAKE_FD(fd);
                connected(attempt);
                return;
        }
        if (r == -EINPROGRESS)
                r = loop_add(dial->dialer->loop, &attempt->watch, fd, EPOLLOUT, on_connected);
        if (r < 0)
                attempt_failed(attempt, -r);
        else
                (void) TAKE_FD(fd); /* the watch has it */
}

/* Keeps what may be dialled, IPv6 and IPv4 in turn, IPv6 first (RFC 8305); of the host itself IPv4, where
 * most of its servers are. */
static void choose(struct dial *dial, const struct addr *addrs, size_t n, struct dial_result *ret_refused) {
        bool used[RESOLVER_ADDRS_MAX] = { false };
        bool v4 = dial->verdict.alias;

        for (size_t i = 0; i < n; i++) {
                const struct policy_verdict v =
                        policy_dial(dial->dialer->policy, &dial->verdict, &addrs[i], dial->port);

                if (v.reason == POLICY_OK)
                        continue;
                used[i] = true;
                if (ret_refused->verdict.reason == POLICY_OK) {
                        ret_refused->verdict = v;
                        ret_refused->addr = addrs[i];
                }
        }
        for (size_t misses = 0; misses < 2 && dial->n < ATTEMPTS_MAX; v4 = !v4) {
                size_t i = 0;

                while (i < n && (used[i] || addr_is_ipv4(&addrs[i]) != v4))
                        i++;
                misses = i < n ? 0 : misses + 1;
                if (i == n)
                        continue;
                used[i] = true;
                dial->attempts[dial->n++] = (struct attempt){ .dial = dial, .addr = addrs[i] };
        }
}

static void on_addrs(void *arg, const struct addr *addrs, size_t n, const char *why) {
        struct dial *dial = arg;
        struct dial_result result = { .end = DIAL_NO_NAME, .why = why, .late = why == resolver_late };

        dial->lookup = NULL;
        if (n > 0)
                choose(dial, addrs, n, &result);
        if (dial->n > 0) {
                try_next(dial);
                return;
        }
        if (n > 0) {
                result.end = DIAL_REFUSED;
                result.why = policy_reason_text(&result.verdict);
        }
        finish(dial, result);
}

/* HOST_ALIAS: nobody is asked who that is. */
static void on_own(struct loop_timer *timer) {
        const struct addr own[] = { addr_from_ipv4(INADDR_LOOPBACK), { { [15] = 1 } } };

        on_addrs((char *) timer - offsetof(struct dial, next), own, ARRAY_SIZE(own), NULL);
}

int dial_start(struct dialer *dialer, const struct host *host, uint16_t port,
               const struct policy_verdict *verdict, dial_fn fn, void *arg, struct dial **ret) {
        CLEANUP(auto_dial) struct dial *dial = calloc(1, sizeof(*dial));
        int r;

        if (!dial)
                return -ENOMEM;
        dial->dialer = dialer;
        dial->fn = fn;
        dial->arg = arg;
        dial->port = port;
        dial->verdict = *verdict;
        if (host->kind == HOST_ADDR) {
                dial->attempts[dial->n++] = (struct attempt){ .dial = dial, .addr = host->addr };
                loop_start(dialer->loop, &dial->next, &dialer->now_queue, on_next); /* decided as the host */
        } else if (verdict->alias) {
                loop_start(dialer->loop, &dial->next, &dialer->now_queue, on_own);
        } else {
                r = resolver_lookup(dialer->resolver, host->name, on_addrs, dial, &dial->lookup);
                if (r < 0)
                        return r;
        }
        *ret = TAKE_PTR(dial);
        return 0;
}
