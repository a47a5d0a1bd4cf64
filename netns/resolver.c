#include "netns/resolver.h"

#include <ares.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/stat.h>

#include "runtime/base/cleanup.h"

enum {
        TRY_MS = 2000, /* the first try; c-ares doubles it */
        TRIES = 3,
        TICK_NS = 250 * 1000 * 1000, /* how often c-ares may look at its time limits */
};

/* a socket of c-ares */
struct ares_watch {
        struct loop_watch watch;
        struct resolver *resolver;
        struct ares_watch *next;
};

struct lookup {
        struct resolver *resolver; /* NULL: the resolver is going */
        struct lookup *before, *after;
        lookup_fn fn; /* NULL: cancelled */
        void *arg;
        struct loop_timer done; /* runs once the answer is there */
        struct addr addrs[RESOLVER_ADDRS_MAX];
        size_t n;
        const char *why;
};

struct resolver {
        struct loop *loop;
        ares_channel channel;
        char *path;
        struct timespec changed; /* of @path when the channel was made */
        struct ares_watch *watches;
        struct lookup *lookups;
        size_t asked; /* lookups that c-ares still works on */
        struct loop_queue tick_queue, done_queue;
        struct loop_timer tick;
};

static void on_socket(struct loop_watch *watch, uint32_t events) {
        struct ares_watch *w = (struct ares_watch *) watch; /* its first member */
        const int fd = watch->fd;
        const bool broken = events & (EPOLLERR | EPOLLHUP);

        /* may remove and free the watch */
        ares_process_fd(w->resolver->channel, events & EPOLLIN || broken ? fd : ARES_SOCKET_BAD,
                        events & EPOLLOUT || broken ? fd : ARES_SOCKET_BAD);
}

/* c-ares says what it waits for on @fd; with neither the socket is about to be closed. */
static void on_sock_state(void *data, ares_socket_t fd, int readable, int writable) {
        struct resolver *resolver = data;
        struct ares_watch **at = &resolver->watches;
        const uint32_t events = (readable ? (uint32_t) EPOLLIN : 0) | (writable ? (uint32_t) EPOLLOUT : 0);
        struct ares_watch *w;

        while (*at && (*at)->watch.fd != fd)
                at = &(*at)->next;
        w = *at;
        if (w && events) {
                loop_set(resolver->loop, &w->watch, events);
        } else if (w) {
                loop_remove(resolver->loop, &w->watch);
                *at = w->next;
                free(w);
        } else if (events) {
                w = calloc(1, sizeof(*w));
                if (!w || loop_add(resolver->loop, &w->watch, fd, events, on_socket) < 0) {
                        free(w); /* the query ends by its time limit */
                        return;
                }
                w->resolver = resolver;
                w->next = resolver->watches;
                resolver->watches = w;
        }
}

static struct timespec changed_at(const char *path) {
        struct stat st = { 0 };

        (void) stat(path, &st);
        return st.st_mtim;
}

static int open_channel(struct resolver *resolver, ares_channel *ret) {
        struct ares_options options = {
                .flags = ARES_FLAG_NOSEARCH | ARES_FLAG_NOALIASES | ARES_FLAG_EDNS,
                .timeout = TRY_MS,
                .tries = TRIES,
                .ednspsz = 1232, /* no fragments: DNS flag day 2020 */
                .sock_state_cb = on_sock_state,
                .sock_state_cb_data = resolver,
                .resolvconf_path = resolver->path,
                .lookups = (char[]){ "fb" }, /* the hosts file, then DNS */
        };

        return ares_init_options(ret, &options,
                                 ARES_OPT_FLAGS | ARES_OPT_TIMEOUTMS | ARES_OPT_TRIES | ARES_OPT_EDNSPSZ |
                                         ARES_OPT_SOCK_STATE_CB | ARES_OPT_RESOLVCONF | ARES_OPT_LOOKUPS);
}

int resolver_new(struct loop *loop, const char *resolv_conf, struct resolver **ret, struct error *err) {
        struct resolver *resolver = calloc(1, sizeof(*resolver));
        int r;

        if (!resolver)
                return error_set(err, -ENOMEM, "out of memory");
        resolver->loop = loop;
        resolver->tick_queue.ns = TICK_NS;
        resolver->path = strdup(resolv_conf ? resolv_conf : "/etc/resolv.conf");
        if (!resolver->path) {
                free(resolver);
                return error_set(err, -ENOMEM, "out of memory");
        }
        resolver->changed = changed_at(resolver->path);
        r = open_channel(resolver, &resolver->channel);
        if (r != ARES_SUCCESS) {
                free(resolver->path);
                free(resolver);
                return error_set(err, -EIO, "resolver: %s", ares_strerror(r));
        }
        *ret = resolver;
        return 0;
}

static void lookup_free(struct lookup *lookup) {
        struct resolver *resolver = lookup->resolver;

        loop_cancel(&lookup->done);
        if (resolver && lookup->before)
                lookup->before->after = lookup->after;
        else if (resolver)
                resolver->lookups = lookup->after;
        if (lookup->after)
                lookup->after->before = lookup->before;
        free(lookup);
}

struct resolver *resolver_free(struct resolver *resolver) {
        if (!resolver)
                return NULL;
        for (struct lookup *l = resolver->lookups; l; l = l->after)
                l->fn = NULL;
        ares_destroy(resolver->channel); /* answers everything with ARES_EDESTRUCTION */
        while (resolver->lookups)
                lookup_free(resolver->lookups);
        loop_cancel(&resolver->tick);
        free(resolver->path);
        free(resolver);
        return NULL;
}

/* A laptop that moves gets another resolv.conf; lookups under way keep the old one. */
static void follow_configuration(struct resolver *resolver) {
        const struct timespec now = changed_at(resolver->path);
        ares_channel channel;

        if (resolver->asked > 0 ||
            (now.tv_sec == resolver->changed.tv_sec && now.tv_nsec == resolver->changed.tv_nsec))
                return;
        if (open_channel(resolver, &channel) != ARES_SUCCESS)
                return;
        ares_destroy(resolver->channel);
        resolver->channel = channel;
        resolver->changed = now;
}

static void on_tick(struct loop_timer *timer) {
        struct resolver *resolver =
                (struct resolver *) (void *) ((char *) timer - offsetof(struct resolver, tick));

        ares_process_fd(resolver->channel, ARES_SOCKET_BAD, ARES_SOCKET_BAD);
        if (resolver->asked > 0)
                loop_start(resolver->loop, &resolver->tick, &resolver->tick_queue, on_tick);
}

static void on_done(struct loop_timer *timer) {
        struct lookup *lookup = (struct lookup *) (void *) ((char *) timer - offsetof(struct lookup, done));

        if (lookup->fn)
                lookup->fn(lookup->arg, lookup->addrs, lookup->n, lookup->why);
        lookup_free(lookup);
}

static void on_answer(void *arg, int status, int timeouts, struct ares_addrinfo *result) {
        struct lookup *lookup = arg;
        struct resolver *resolver = lookup->resolver;

        (void) timeouts;
        resolver->asked--;
        for (const struct ares_addrinfo_node *node = result ? result->nodes : NULL;
             node && lookup->n < RESOLVER_ADDRS_MAX; node = node->ai_next) {
                if (addr_from_sock(node->ai_addr, &lookup->addrs[lookup->n]) == 0)
                        lookup->n++;
        }
        if (result)
                ares_freeaddrinfo(result);
        if (lookup->n == 0)
                lookup->why = status == ARES_ENODATA || status == ARES_ENOTFOUND || status == ARES_SUCCESS
                                      ? "the name does not exist or has no address"
                              : status == ARES_ETIMEOUT ? "the name servers do not answer"
                                                        : "the name servers cannot answer";
        /* an answer may be there at once, while the caller has no lookup to cancel yet */
        loop_start(resolver->loop, &lookup->done, &resolver->done_queue, on_done);
}

int resolver_lookup(struct resolver *resolver, const char *name, lookup_fn fn, void *arg,
                    struct lookup **ret) {
        static const struct ares_addrinfo_hints hints = { .ai_flags = ARES_AI_NOSORT,
                                                          .ai_family = AF_UNSPEC };
        struct lookup *lookup = calloc(1, sizeof(*lookup));

        if (!lookup)
                return -ENOMEM;
        follow_configuration(resolver);
        lookup->resolver = resolver;
        lookup->fn = fn;
        lookup->arg = arg;
        lookup->after = resolver->lookups;
        if (lookup->after)
                lookup->after->before = lookup;
        resolver->lookups = lookup;
        resolver->asked++;
        ares_getaddrinfo(resolver->channel, name, NULL, &hints, on_answer, lookup);
        if (resolver->asked > 0 && !resolver->tick.queue)
                loop_start(resolver->loop, &resolver->tick, &resolver->tick_queue, on_tick);
        *ret = lookup;
        return 0;
}

void lookup_cancel(struct lookup *lookup) {
        if (lookup)
                lookup->fn = NULL; /* c-ares cannot end a single query: its answer is dropped */
}
