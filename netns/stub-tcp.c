/*
 * Questions to the stub resolver over TCP (RFC 7766): each has its length in front. An asker is small and is
 * given ten seconds for each question; when there are too many, the one that has been silent longest goes.
 */
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "netns/conn.h"
#include "netns/dns.h"
#include "runtime/base/cleanup.h"

enum { ASKERS_MAX = 64, PREFIX = 2, DNS_PORT = 53 };

struct asker {
        struct loop_watch watch; /* first: events come with it */
        struct proxy *proxy;
        struct asker *before, *after; /* of the proxy's list */
        struct loop_timer timer;
        struct addr to; /* whom it asked */
        bool led;       /* @to is set, and it has asked nothing yet */
        size_t len;
        uint8_t data[PREFIX + DNS_QUESTION_MAX];
};

static void asker_free(struct asker *asker) {
        struct proxy *proxy = asker->proxy;

        loop_cancel(&asker->timer);
        loop_close(proxy->loop, &asker->watch);
        if (asker->before)
                asker->before->after = asker->after;
        else
                proxy->askers = asker->after;
        if (asker->after)
                asker->after->before = asker->before;
        proxy->n_askers--;
        free(asker);
}

void askers_free(struct proxy *proxy) {
        while (proxy->askers)
                asker_free(proxy->askers);
}

static struct asker *asker_at(struct loop_timer *timer) {
        return (struct asker *) (void *) ((char *) timer - offsetof(struct asker, timer));
}

static void on_silent(struct loop_timer *timer) {
        asker_free(asker_at(timer));
}

/* Answers the first question when it is whole. Return: its bytes, 0: it is not; -EPROTO, -errno. */
static ssize_t take(struct asker *asker) {
        const size_t len = asker->len < PREFIX ? 0 : (size_t) asker->data[0] << 8 | asker->data[1];
        uint8_t out[PREFIX + DNS_MESSAGE_MAX];
        size_t n;

        if (len > DNS_QUESTION_MAX)
                return -EPROTO;
        if (asker->len < PREFIX || asker->len - PREFIX < len)
                return 0;
        n = stub_answer(asker->proxy, asker->data + PREFIX, len, out + PREFIX);
        if (n == 0)
                return -EPROTO;
        out[0] = (uint8_t) (n >> 8);
        out[1] = (uint8_t) n;
        /* who has no room for an answer has asked more than it reads */
        if (send(asker->watch.fd, out, PREFIX + n, MSG_NOSIGNAL | MSG_DONTWAIT) != (ssize_t) (PREFIX + n))
                return -EPROTO;
        return (ssize_t) (PREFIX + len);
}

static void on_asked(struct loop_watch *watch, uint32_t events) {
        struct asker *asker = (struct asker *) watch;
        char to[ADDR_TEXT_MAX];
        ssize_t n, used;

        (void) events;
        n = recv(watch->fd, asker->data + asker->len, sizeof(asker->data) - asker->len, MSG_DONTWAIT);
        if (n < 0 && errno == EAGAIN)
                return;
        if (n <= 0) {
                asker_free(asker);
                return;
        }
        asker->len += (size_t) n;
        while ((used = take(asker)) > 0) {
                asker->led = false;
                asker->len -= (size_t) used;
                memmove(asker->data, asker->data + used, asker->len);
                loop_start(asker->proxy->loop, &asker->timer, &asker->proxy->asker_queue, on_silent);
        }
        if (used < 0) {
                if (asker->led)
                        blocked_note(asker->proxy->log, addr_text(&asker->to, to), DNS_PORT,
                                     "not a question to a name server", NULL);
                asker_free(asker);
        }
}

int asker_new_consume(struct proxy *proxy, const struct addr *to, int fd) {
        AUTO_FREE struct asker *asker = calloc(1, sizeof(*asker));
        int r;

        if (!asker)
                return -ENOMEM;
        if (proxy->n_askers == ASKERS_MAX && proxy->asker_queue.first)
                asker_free(asker_at(proxy->asker_queue.first));
        r = loop_add(proxy->loop, &asker->watch, fd, EPOLLIN, on_asked);
        if (r < 0)
                return r;
        asker->proxy = proxy;
        asker->led = to != NULL;
        if (to)
                asker->to = *to;
        asker->after = proxy->askers;
        if (asker->after)
                asker->after->before = asker;
        proxy->askers = asker;
        proxy->n_askers++;
        loop_start(proxy->loop, &asker->timer, &proxy->asker_queue, on_silent);
        (void) TAKE_PTR(asker);
        return 0;
}
