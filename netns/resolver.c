/*
 * DOC: theory of operation
 *
 * A name is asked for once at a time: whoever looks it up meanwhile waits for the same answer. What can be
 * under way is bounded, since a client that has gone away cannot take its question back (c-ares knows no
 * such thing): at most RESOLVER_QUERIES_MAX.
 *
 * The configuration is read again when the file is another one, whether it was written to or replaced.
 * Questions under way are then asked anew, at the new name servers. A process that may not open the file
 * any more asks for its text instead (resolver_config_fn).
 */
#include "netns/resolver.h"

#include <ares.h>
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/stat.h>

#include "runtime/base/cleanup.h"

enum {
        TRY_MS = 2000, /* the first try; c-ares doubles it */
        TRIES = 3,
        TICK_NS = 250 * 1000 * 1000,  /* how often c-ares may look at its time limits */
        WANT_NS = 1000 * 1000 * 1000, /* how often a text is asked for that does not come */
};

/* a socket of c-ares */
struct ares_watch {
        struct loop_watch watch;
        struct resolver *resolver;
        struct ares_watch *next;
};

/* a name that is asked for */
struct query {
        struct resolver *resolver;
        struct query *before, *after;
        struct lookup *lookups; /* who waits for it; NULL: nobody any more */
        struct loop_timer done; /* runs once the answer is there */
        struct addr addrs[RESOLVER_ADDRS_MAX];
        size_t n;
        const char *why;
        bool again; /* the name servers are others now */
        char name[HOST_NAME_BYTES_MAX + 1];
};

struct lookup {
        struct query *query;
        struct lookup *before, *after;
        lookup_fn fn;
        void *arg;
};

/* what tells a file from the one that took its place */
struct stamp {
        dev_t dev;
        ino_t ino;
        struct timespec changed;
};

struct resolver {
        struct loop *loop;
        ares_channel channel;
        char *path;
        struct stamp stamp;        /* of @path when the channel was made */
        resolver_config_fn config; /* NULL: @path is read */
        void *config_arg;
        struct stamp wanted; /* of @path when its text was asked for last */
        uint64_t wanted_ns;  /* when that was */
        struct ares_watch *watches;
        struct query *queries;
        size_t n_queries;
        bool going, moving; /* c-ares ends all questions: for good, to ask them anew */
        size_t asked;       /* queries that c-ares still works on */
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

static struct stamp stamp_of(const char *path) {
        struct stat st = { 0 };

        (void) stat(path, &st);
        return (struct stamp){ st.st_dev, st.st_ino, st.st_mtim };
}

static bool stamp_equal(const struct stamp *a, const struct stamp *b) {
        return a->dev == b->dev && a->ino == b->ino && a->changed.tv_sec == b->changed.tv_sec &&
               a->changed.tv_nsec == b->changed.tv_nsec;
}

/* @path: the file, or a copy of its text */
static int open_channel(struct resolver *resolver, char *path, ares_channel *ret) {
        struct ares_options options = {
                .flags = ARES_FLAG_NOSEARCH | ARES_FLAG_NOALIASES | ARES_FLAG_EDNS,
                .timeout = TRY_MS,
                .tries = TRIES,
                .ednspsz = 1232, /* no fragments: DNS flag day 2020 */
                .sock_state_cb = on_sock_state,
                .sock_state_cb_data = resolver,
                .resolvconf_path = path,
                .lookups = (char[]){ "fb" }, /* the hosts file, then DNS */
        };

        return ares_init_options(ret, &options,
                                 ARES_OPT_FLAGS | ARES_OPT_TIMEOUTMS | ARES_OPT_TRIES | ARES_OPT_EDNSPSZ |
                                         ARES_OPT_SOCK_STATE_CB | ARES_OPT_RESOLVCONF | ARES_OPT_LOOKUPS);
}

int resolver_new(struct loop *loop, const struct resolver_config *config, struct resolver **ret,
                 struct error *err) {
        struct resolver *resolver = calloc(1, sizeof(*resolver));
        int r;

        if (!resolver)
                return error_set(err, -ENOMEM, "out of memory");
        resolver->loop = loop;
        resolver->config = config->changed;
        resolver->config_arg = config->arg;
        resolver->tick_queue.ns = TICK_NS;
        resolver->path = strdup(config->path ? config->path : "/etc/resolv.conf");
        if (!resolver->path) {
                free(resolver);
                return error_set(err, -ENOMEM, "out of memory");
        }
        resolver->stamp = stamp_of(resolver->path);
        r = open_channel(resolver, resolver->path, &resolver->channel);
        if (r != ARES_SUCCESS) {
                free(resolver->path);
                free(resolver);
                return error_set(err, -EIO, "resolver: %s", ares_strerror(r));
        }
        *ret = resolver;
        return 0;
}

static void lookup_free(struct lookup *lookup) {
        if (lookup->before)
                lookup->before->after = lookup->after;
        else
                lookup->query->lookups = lookup->after;
        if (lookup->after)
                lookup->after->before = lookup->before;
        free(lookup);
}

/* Nobody finds it any more; whoever waits for it still does. */
static void query_remove(struct query *query) {
        struct resolver *resolver = query->resolver;

        loop_cancel(&query->done);
        if (query->before)
                query->before->after = query->after;
        else
                resolver->queries = query->after;
        if (query->after)
                query->after->before = query->before;
        resolver->n_queries--;
}

static void query_free(struct query *query) {
        while (query->lookups)
                lookup_free(query->lookups);
        free(query);
}

struct resolver *resolver_free(struct resolver *resolver) {
        if (!resolver)
                return NULL;
        resolver->going = true;
        ares_destroy(resolver->channel); /* answers everything with ARES_EDESTRUCTION */
        while (resolver->queries) {
                struct query *query = resolver->queries;

                query_remove(query);
                query_free(query);
        }
        loop_cancel(&resolver->tick);
        free(resolver->path);
        free(resolver);
        return NULL;
}

/* --- questions ------------------------------------------------------------------------------------------ */

static void on_done(struct loop_timer *timer) {
        struct query *query = (struct query *) (void *) ((char *) timer - offsetof(struct query, done));

        query_remove(query);
        while (query->lookups) {
                const lookup_fn fn = query->lookups->fn;
                void *arg = query->lookups->arg;

                lookup_free(query->lookups);
                fn(arg, query->addrs, query->n, query->why);
        }
        free(query);
}

const char resolver_late[] = "the name servers do not answer";

static const char *why_none(int status) {
        if (status == ARES_ENODATA || status == ARES_ENOTFOUND || status == ARES_SUCCESS)
                return "the name does not exist or has no address";
        return status == ARES_ETIMEOUT ? resolver_late : "the name servers cannot answer";
}

static void on_answer(void *arg, int status, int timeouts, struct ares_addrinfo *result) {
        struct query *query = arg;
        struct resolver *resolver = query->resolver;

        (void) timeouts;
        resolver->asked--;
        if (status == ARES_EDESTRUCTION && (resolver->going || resolver->moving)) {
                query->again = true;
                return;
        }
        for (const struct ares_addrinfo_node *node = result ? result->nodes : NULL;
             node && query->n < RESOLVER_ADDRS_MAX; node = node->ai_next) {
                if (addr_from_sock(node->ai_addr, &query->addrs[query->n]) == 0)
                        query->n++;
        }
        if (result)
                ares_freeaddrinfo(result);
        if (query->n == 0)
                query->why = why_none(status);
        /* an answer may be there at once, while the caller has no lookup to cancel yet */
        loop_start(resolver->loop, &query->done, &resolver->done_queue, on_done);
}

static void ask(struct query *query) {
        static const struct ares_addrinfo_hints hints = { .ai_flags = ARES_AI_NOSORT,
                                                          .ai_family = AF_UNSPEC };

        query->again = false;
        query->resolver->asked++;
        ares_getaddrinfo(query->resolver->channel, query->name, NULL, &hints, on_answer, query);
}

/* --- the configuration ---------------------------------------------------------------------------------- */

/* The old channel stays when the new one cannot be made: old name servers are better than none. */
static void reconfigure(struct resolver *resolver, char *path) {
        ares_channel channel;

        if (open_channel(resolver, path, &channel) != ARES_SUCCESS)
                return;
        resolver->moving = true;
        ares_destroy(resolver->channel);
        resolver->moving = false;
        resolver->channel = channel;
        for (struct query *q = resolver->queries; q; q = q->after)
                if (q->again)
                        ask(q);
}

static void follow_configuration(struct resolver *resolver) {
        const struct stamp now = stamp_of(resolver->path);

        /* without a file it is about to be replaced */
        if (now.ino == 0 || stamp_equal(&now, &resolver->stamp))
                return;
        if (!resolver->config) {
                resolver->stamp = now;
                reconfigure(resolver, resolver->path);
                return;
        }
        if (stamp_equal(&now, &resolver->wanted) && loop_now(resolver->loop) - resolver->wanted_ns < WANT_NS)
                return;
        resolver->wanted = now;
        resolver->wanted_ns = loop_now(resolver->loop);
        resolver->config(resolver->config_arg);
}

void resolver_set_config(struct resolver *resolver, int fd) {
        char path[32];

        resolver->stamp = resolver->wanted;
        (void) snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
        reconfigure(resolver, path);
}

static void on_tick(struct loop_timer *timer) {
        struct resolver *resolver =
                (struct resolver *) (void *) ((char *) timer - offsetof(struct resolver, tick));

        follow_configuration(resolver);
        ares_process_fd(resolver->channel, ARES_SOCKET_BAD, ARES_SOCKET_BAD);
        if (resolver->asked > 0)
                loop_start(resolver->loop, &resolver->tick, &resolver->tick_queue, on_tick);
}

/* --- lookups -------------------------------------------------------------------------------------------- */

static struct query *find(const struct resolver *resolver, const char *name) {
        struct query *q = resolver->queries;

        while (q && strcmp(q->name, name) != 0)
                q = q->after;
        return q;
}

/* Return: 0, -EINVAL (no name), -EAGAIN (QUERIES_MAX), -ENOMEM. */
static int query_new(struct resolver *resolver, const char *name, struct query **ret) {
        struct query *query;

        if (strlen(name) > HOST_NAME_BYTES_MAX)
                return -EINVAL;
        if (resolver->n_queries == RESOLVER_QUERIES_MAX)
                return -EAGAIN;
        query = calloc(1, sizeof(*query));
        if (!query)
                return -ENOMEM;
        query->resolver = resolver;
        (void) snprintf(query->name, sizeof(query->name), "%s", name);
        query->after = resolver->queries;
        if (query->after)
                query->after->before = query;
        resolver->queries = query;
        resolver->n_queries++;
        *ret = query;
        return 0;
}

int resolver_lookup(struct resolver *resolver, const char *name, lookup_fn fn, void *arg,
                    struct lookup **ret) {
        struct query *query;
        struct lookup *lookup;
        bool is_new = false;
        int r;

        follow_configuration(resolver);
        lookup = calloc(1, sizeof(*lookup));
        if (!lookup)
                return -ENOMEM;
        query = find(resolver, name);
        if (!query) {
                r = query_new(resolver, name, &query);
                if (r < 0) {
                        free(lookup);
                        return r;
                }
                is_new = true;
        }
        *lookup = (struct lookup){ .query = query, .after = query->lookups, .fn = fn, .arg = arg };
        if (lookup->after)
                lookup->after->before = lookup;
        query->lookups = lookup;
        if (is_new)
                ask(query);
        if (resolver->asked > 0 && !resolver->tick.queue)
                loop_start(resolver->loop, &resolver->tick, &resolver->tick_queue, on_tick);
        *ret = lookup;
        return 0;
}

void lookup_cancel(struct lookup *lookup) {
        if (lookup)
                lookup_free(lookup); /* the query goes on: its answer is for whoever waits, or nobody */
}
