/*
 * DOC: theory of operation
 *
 * A call is made, queued, answered by a thread that may block (at once when the place is memory), moved to
 * the list of answers, and told to its callback by registry_dispatch(). All lists are under one lock; places
 * are used outside of it unless they do not block. A call that has no answer after REGISTRY_ANSWER_MS is
 * answered REGISTRY_UNAVAILABLE by the clock of registry_dispatch() and loses its job; the thread that has
 * the job frees it whenever it is done.
 *
 * Watches: one more thread asks the place about all watched tokens at once every REGISTRY_POLL_MS, and at
 * once after a revocation by this process. Polling needs no order of notices and misses none when the
 * connection breaks; it costs one query a tick, and only while streams run (docs/adr/035). A dead watch is
 * told once.
 */
#include "auth/registry.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <time.h>

#include "auth/registry-backend.h"
#include "runtime/base/clock.h"

enum { THREADS_MAX = 8, TICK_MS = 100 };

enum op { OP_PUT, OP_GET, OP_REVOKE, OP_REVOKE_RUN, OP_PURGE };

/* what a thread works on, alone; @call NULL: nobody waits for it any more */
struct job {
        struct job *next; /* of the queue */
        bool running;
        enum op op;
        char key[GRANT_TEXT_MAX + 1]; /* ID or run */
        struct grant *grant;
        struct registry_answer answer;
        struct registry_call *call;
};

struct registry_call {
        struct registry_call *next; /* of the answers */
        struct job *job;
        registry_done_fn done; /* NULL: forgotten */
        void *data;
        uint64_t deadline_ms;
        enum registry_result result; /* when there is no job left to say it */
        struct registry_call *pending_next, **pending_prev;
};

struct registry_watch {
        struct registry_watch *next, **prev;
        char id[TOKEN_ID_LEN + 1];
        uint64_t expires_at;
        uint64_t seen_ms; /* when it was last known to live, or made */
        uint64_t round;   /* the question it was part of */
        registry_dead_fn dead;
        void *data;
        enum registry_result why; /* REGISTRY_OK: lives */
        bool told;
};

struct registry {
        const struct registry_ops *ops;
        void *place;
        void *session; /* of a place that does not block */
        uint64_t (*now)(void);
        int wake_fd, timer_fd, poll_fd, stop_fd;
        bool ticking;
        pthread_t threads[THREADS_MAX + 1];
        size_t n_threads;
        size_t n_started; /* threads that have taken a number */

        pthread_mutex_t lock;
        pthread_cond_t work, look;
        bool stop, look_now;
        struct job *queue, **queue_end;
        struct registry_call *answers, **answers_end;
        struct registry_call *pending, **pending_end; /* without an answer, oldest first */
        size_t n_calls;
        struct registry_watch *watches;
        size_t n_watches;
        uint64_t round;
        char trouble[REGISTRY_TROUBLE_MAX];
};

static struct job *job_free(struct job *job) {
        if (job) {
                (void) grant_free(job->grant);
                (void) grant_free(job->answer.grant);
        }
        free(job);
        return NULL;
}

static struct registry_call *call_free(struct registry_call *call) {
        if (call)
                (void) job_free(call->job);
        free(call);
        return NULL;
}

static struct job *take_job(struct registry *registry) {
        struct job *job = registry->queue;

        if (!job)
                return NULL;
        registry->queue = job->next;
        if (!registry->queue)
                registry->queue_end = &registry->queue;
        job->running = true;
        return job;
}

static void unqueue(struct registry *registry, const struct job *job) {
        for (struct job **at = &registry->queue; *at; at = &(*at)->next)
                if (*at == job) {
                        *at = job->next;
                        if (!*at)
                                registry->queue_end = at;
                        return;
                }
}

static struct registry_call *take_answer(struct registry *registry) {
        struct registry_call *call = registry->answers;

        if (!call)
                return NULL;
        registry->answers = call->next;
        if (!registry->answers)
                registry->answers_end = &registry->answers;
        return call;
}

static uint64_t wall_clock(void) {
        struct timespec ts = { 0 };

        (void) clock_gettime(CLOCK_REALTIME, &ts);
        return ts.tv_sec > 0 ? (uint64_t) ts.tv_sec : 0;
}

static uint64_t monotonic_ms(void) {
        return clock_ns() / 1000000;
}

/* with the lock */
static void wake(struct registry *registry) {
        const uint64_t one = 1;

        (void) !write(registry->wake_fd, &one, sizeof(one));
}

/*
 * The clock runs only while something may become due. It is not stopped with each request that ends, but when
 * it ticks for nothing (@may_stop). With the lock.
 */
static void tick_or_stop(struct registry *registry, bool may_stop) {
        const bool wanted = registry->pending || registry->watches;
        struct itimerspec every = { 0 };

        if (wanted == registry->ticking || (!wanted && !may_stop))
                return;
        registry->ticking = wanted;
        if (wanted)
                every.it_value.tv_nsec = every.it_interval.tv_nsec = TICK_MS * 1000000L;
        (void) timerfd_settime(registry->timer_fd, 0, &every, NULL);
}

static void tick(struct registry *registry) {
        tick_or_stop(registry, false);
}

static void answer(struct registry *registry, struct registry_call *call) {
        *call->pending_prev = call->pending_next;
        if (call->pending_next)
                call->pending_next->pending_prev = call->pending_prev;
        else
                registry->pending_end = call->pending_prev;
        call->next = NULL;
        *registry->answers_end = call;
        registry->answers_end = &call->next;
        wake(registry);
        tick(registry);
}

/* with the lock */
static void note(struct registry *registry, const char *trouble) {
        (void) snprintf(registry->trouble, sizeof(registry->trouble), "%s", trouble);
}

static void perform(const struct registry_ops *ops, void *session, struct job *job, uint64_t now) {
        struct registry_answer *a = &job->answer;

        switch (job->op) {
        case OP_PUT:
                a->result = ops->put(session, job->grant);
                break;
        case OP_GET:
                a->result = ops->get(session, job->key, now, &a->grant);
                break;
        case OP_REVOKE:
                a->result = ops->revoke(session, job->key, now, &a->count);
                break;
        case OP_REVOKE_RUN:
                a->result = ops->revoke_run(session, job->key, now, &a->count);
                break;
        case OP_PURGE:
                a->result = ops->purge(session, now, &a->count);
                break;
        }
}

static void bury(struct registry *registry, struct registry_watch *watch, enum registry_result why) {
        if (watch->why != REGISTRY_OK)
                return;
        watch->why = why;
        wake(registry);
}

/* the watched tokens that still live, as a question; with the lock. Return: NULL when there is none. */
static struct registry_asked *question(struct registry *registry, size_t *ret_n) {
        struct registry_asked *asked;
        size_t n = 0;

        if (registry->n_watches == 0)
                return NULL;
        asked = calloc(registry->n_watches, sizeof(*asked));
        if (!asked)
                return NULL; /* the next round will do */
        registry->round++;
        for (struct registry_watch *w = registry->watches; w; w = w->next) {
                if (w->why != REGISTRY_OK)
                        continue;
                w->round = registry->round;
                memcpy(asked[n++].id, w->id, sizeof(w->id));
        }
        *ret_n = n;
        return asked;
}

static int by_id(const void *a, const void *b) {
        const struct registry_asked *x = a, *y = b;

        return memcmp(x->id, y->id, sizeof(x->id));
}

/* with the lock; watches made since the question was put are not judged by its answer */
static void judge(struct registry *registry, struct registry_asked *asked, size_t n,
                  enum registry_result result) {
        const uint64_t now = monotonic_ms();

        qsort(asked, n, sizeof(*asked), by_id);
        for (struct registry_watch *w = registry->watches; w; w = w->next) {
                struct registry_asked key;
                const struct registry_asked *found;

                if (w->round != registry->round || w->why != REGISTRY_OK)
                        continue;
                memcpy(key.id, w->id, sizeof(key.id));
                found = bsearch(&key, asked, n, sizeof(*asked), by_id);
                if (result == REGISTRY_OK && found && found->why == REGISTRY_OK)
                        w->seen_ms = now;
                else if (result == REGISTRY_OK)
                        bury(registry, w, found ? found->why : REGISTRY_REVOKED);
                else if (now - w->seen_ms >= REGISTRY_BLIND_MS)
                        bury(registry, w, REGISTRY_UNAVAILABLE);
        }
}

/* with the lock, which a place that blocks is asked without */
static void look(struct registry *registry, void *session) {
        AUTO_FREE struct registry_asked *asked = NULL;
        enum registry_result result;
        size_t n = 0;

        asked = question(registry, &n);
        if (!asked || n == 0)
                return;
        if (registry->ops->threads > 0)
                (void) pthread_mutex_unlock(&registry->lock);
        result = registry->ops->alive(session, asked, n);
        if (registry->ops->threads > 0)
                (void) pthread_mutex_lock(&registry->lock);
        judge(registry, asked, n, result);
}

static bool kills(const struct job *job) {
        return (job->op == OP_REVOKE || job->op == OP_REVOKE_RUN) && job->answer.result == REGISTRY_OK;
}

static void in_ms(struct timespec *ts, uint64_t ms) {
        const uint64_t at = clock_ns() + ms * 1000000;

        ts->tv_sec = (time_t) (at / 1000000000);
        ts->tv_nsec = (long) (at % 1000000000);
}

static void looker(struct registry *registry, void *session) {
        while (!registry->stop) {
                struct timespec until;

                in_ms(&until, REGISTRY_POLL_MS);
                registry->look_now = false;
                look(registry, session);
                while (!registry->stop && !registry->look_now &&
                       pthread_cond_timedwait(&registry->look, &registry->lock, &until) == 0)
                        continue;
        }
}

static void worker(struct registry *registry, void *session) {
        while (!registry->stop) {
                struct job *job = take_job(registry);

                if (!job) {
                        (void) pthread_cond_wait(&registry->work, &registry->lock);
                        continue;
                }
                (void) pthread_mutex_unlock(&registry->lock);
                perform(registry->ops, session, job, registry->now());
                (void) pthread_mutex_lock(&registry->lock);
                note(registry, registry->ops->trouble(session));
                if (kills(job)) {
                        registry->look_now = true;
                        (void) pthread_cond_signal(&registry->look);
                }
                if (job->call)
                        answer(registry, job->call);
                else
                        (void) job_free(job);
        }
}

static void *thread(void *arg) {
        struct registry *registry = arg;
        void *session = registry->ops->session(registry->place, registry->stop_fd);
        size_t number;

        (void) pthread_mutex_lock(&registry->lock);
        number = registry->n_started++;
        if (session && number == 0)
                looker(registry, session);
        else if (session)
                worker(registry, session);
        (void) pthread_mutex_unlock(&registry->lock);
        if (session)
                registry->ops->session_free(session);
        return NULL;
}

/* signals are the business of the caller's threads */
static int start_threads(struct registry *registry) {
        sigset_t all, before;
        int r = 0;

        (void) sigfillset(&all);
        (void) pthread_sigmask(SIG_SETMASK, &all, &before);
        for (size_t i = 0; i <= registry->ops->threads && r == 0; i++) {
                r = -pthread_create(&registry->threads[i], NULL, thread, registry);
                registry->n_threads += r == 0;
        }
        (void) pthread_sigmask(SIG_SETMASK, &before, NULL);
        return r;
}

static int open_fds(struct registry *registry) {
        struct epoll_event event = { .events = EPOLLIN };

        registry->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        registry->stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        registry->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
        registry->poll_fd = epoll_create1(EPOLL_CLOEXEC);
        if (registry->wake_fd < 0 || registry->stop_fd < 0 || registry->timer_fd < 0 ||
            registry->poll_fd < 0 ||
            epoll_ctl(registry->poll_fd, EPOLL_CTL_ADD, registry->wake_fd, &event) < 0 ||
            epoll_ctl(registry->poll_fd, EPOLL_CTL_ADD, registry->timer_fd, &event) < 0)
                return -errno;
        return 0;
}

static int init_locks(struct registry *registry) {
        pthread_condattr_t attr;
        int r;

        r = pthread_condattr_init(&attr);
        if (r == 0)
                r = pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
        if (r == 0)
                r = pthread_mutex_init(&registry->lock, NULL);
        if (r == 0)
                r = pthread_cond_init(&registry->work, NULL);
        if (r == 0)
                r = pthread_cond_init(&registry->look, &attr);
        return -r;
}

static int open_place(struct registry *registry, const struct registry_conf *conf, struct error *err) {
        if (conf->database_url) {
                registry->ops = &registry_postgres_ops;
                return registry_postgres_new(conf, &registry->place, err);
        }
        registry->ops = &registry_memory_ops;
        registry->place = registry_memory_new();
        if (!registry->place)
                return error_set(err, -ENOMEM, "out of memory");
        registry->session = registry->ops->session(registry->place, -1);
        return 0;
}

int registry_open(const struct registry_conf *conf, struct registry **ret, struct error *err) {
        AUTO_REGISTRY struct registry *registry = NULL;
        int r;

        assert(conf && ret);
        registry = calloc(1, sizeof(*registry));
        if (!registry)
                return error_set(err, -ENOMEM, "out of memory");
        registry->now = conf->now ? conf->now : wall_clock;
        registry->wake_fd = registry->timer_fd = registry->poll_fd = registry->stop_fd = -1;
        registry->queue_end = &registry->queue;
        registry->answers_end = &registry->answers;
        registry->pending_end = &registry->pending;
        r = init_locks(registry);
        if (r == 0)
                r = open_fds(registry);
        if (r < 0)
                return error_set(err, r, "token registry: %s", strerror(-r));
        r = open_place(registry, conf, err);
        if (r < 0)
                return r;
        assert(registry->ops->threads <= THREADS_MAX);
        r = registry->ops->threads > 0 ? start_threads(registry) : 0;
        if (r < 0)
                return error_set(err, r, "token registry: cannot start threads: %s", strerror(-r));
        *ret = TAKE_PTR(registry);
        return 0;
}

static void stop_threads(struct registry *registry) {
        const uint64_t one = 1;

        (void) pthread_mutex_lock(&registry->lock);
        registry->stop = true;
        (void) !write(registry->stop_fd, &one, sizeof(one));
        (void) pthread_cond_broadcast(&registry->work);
        (void) pthread_cond_broadcast(&registry->look);
        (void) pthread_mutex_unlock(&registry->lock);
        for (size_t i = 0; i < registry->n_threads; i++)
                (void) pthread_join(registry->threads[i], NULL);
}

struct registry *registry_close(struct registry *registry) {
        struct registry_call *call;

        if (!registry)
                return NULL;
        if (registry->n_threads > 0)
                stop_threads(registry);
        while ((call = take_answer(registry)))
                (void) call_free(call);
        while ((call = registry->pending)) {
                registry->pending = call->pending_next;
                (void) call_free(call);
        }
        while (registry->watches) {
                struct registry_watch *w = registry->watches;

                registry->watches = w->next;
                free(w);
        }
        if (registry->place)
                registry->ops->free(registry->place);
        (void) fd_close(registry->wake_fd);
        (void) fd_close(registry->timer_fd);
        (void) fd_close(registry->poll_fd);
        (void) fd_close(registry->stop_fd);
        free(registry);
        return NULL;
}

int registry_fd(const struct registry *registry) {
        return registry->poll_fd;
}

/* with the lock: what the clock ends */
static void overdue(struct registry *registry) {
        const uint64_t now_ms = monotonic_ms(), now = registry->now();

        while (registry->pending && registry->pending->deadline_ms <= now_ms) {
                struct registry_call *call = registry->pending;

                call->job->call = NULL;
                if (!call->job->running) {
                        unqueue(registry, call->job);
                        (void) job_free(call->job);
                }
                call->job = NULL;
                call->result = REGISTRY_UNAVAILABLE;
                note(registry, "the database took too long to answer");
                answer(registry, call);
        }
        for (struct registry_watch *w = registry->watches; w; w = w->next)
                if (w->expires_at <= now)
                        bury(registry, w, REGISTRY_EXPIRED);
}

static void tell_answers(struct registry *registry) {
        struct registry_call *call;

        while ((call = take_answer(registry))) {
                const registry_done_fn done = call->done;
                struct registry_answer none = { .result = call->result };

                registry->n_calls--;
                (void) pthread_mutex_unlock(&registry->lock);
                if (done)
                        done(call->data, call->job ? &call->job->answer : &none);
                (void) call_free(call);
                (void) pthread_mutex_lock(&registry->lock);
        }
}

static struct registry_watch *untold(struct registry *registry) {
        for (struct registry_watch *w = registry->watches; w; w = w->next)
                if (w->why != REGISTRY_OK && !w->told)
                        return w;
        return NULL;
}

void registry_dispatch(struct registry *registry) {
        struct registry_watch *w;
        uint64_t n;

        (void) pthread_mutex_lock(&registry->lock);
        (void) !read(registry->wake_fd, &n, sizeof(n));
        if (read(registry->timer_fd, &n, sizeof(n)) > 0)
                tick_or_stop(registry, true);
        overdue(registry);
        tell_answers(registry);
        while ((w = untold(registry))) {
                w->told = true;
                (void) pthread_mutex_unlock(&registry->lock);
                w->dead(w->data, w->why);
                (void) pthread_mutex_lock(&registry->lock);
        }
        (void) pthread_mutex_unlock(&registry->lock);
}

/* with the lock */
static void pend(struct registry *registry, struct registry_call *call) {
        call->deadline_ms = monotonic_ms() + REGISTRY_ANSWER_MS;
        call->pending_prev = registry->pending_end;
        *registry->pending_end = call;
        registry->pending_end = &call->pending_next;
        registry->n_calls++;
        tick(registry);
}

static void submit(struct registry *registry, struct registry_call *call) {
        struct job *job = call->job;

        (void) pthread_mutex_lock(&registry->lock);
        pend(registry, call);
        if (registry->n_calls > REGISTRY_CALLS_MAX) {
                job->answer.result = REGISTRY_UNAVAILABLE;
                answer(registry, call);
        } else if (registry->ops->threads == 0) {
                perform(registry->ops, registry->session, job, registry->now());
                answer(registry, call);
                if (kills(job))
                        look(registry, registry->session);
        } else {
                *registry->queue_end = job;
                registry->queue_end = &job->next;
                (void) pthread_cond_signal(&registry->work);
        }
        (void) pthread_mutex_unlock(&registry->lock);
}

/* consumes @grant, always */
static struct registry_call *ask(struct registry *registry, struct job job, registry_done_fn done,
                                 void *data) {
        struct registry_call *call = calloc(1, sizeof(*call));

        if (call)
                call->job = malloc(sizeof(job));
        if (!call || !call->job) {
                (void) grant_free(job.grant);
                free(call);
                return NULL;
        }
        *call->job = job;
        call->job->call = call;
        call->done = done;
        call->data = data;
        submit(registry, call);
        return call;
}

struct registry_call *registry_put(struct registry *registry, struct grant *grant, registry_done_fn done,
                                   void *data) {
        assert(token_id_valid(grant->id) && grant->run && grant->step && grant->credential);
        return ask(registry, (struct job){ .op = OP_PUT, .grant = grant }, done, data);
}

static struct registry_call *by_key(struct registry *registry, enum op op, const char *key,
                                    registry_done_fn done, void *data) {
        struct job job = { .op = op };

        (void) snprintf(job.key, sizeof(job.key), "%s", key);
        return ask(registry, job, done, data);
}

struct registry_call *registry_get(struct registry *registry, const char *id, registry_done_fn done,
                                   void *data) {
        assert(token_id_valid(id));
        return by_key(registry, OP_GET, id, done, data);
}

struct registry_call *registry_revoke(struct registry *registry, const char *id, registry_done_fn done,
                                      void *data) {
        assert(token_id_valid(id));
        return by_key(registry, OP_REVOKE, id, done, data);
}

struct registry_call *registry_revoke_run(struct registry *registry, const char *run, registry_done_fn done,
                                          void *data) {
        assert(strlen(run) <= GRANT_TEXT_MAX);
        return by_key(registry, OP_REVOKE_RUN, run, done, data);
}

struct registry_call *registry_purge(struct registry *registry, registry_done_fn done, void *data) {
        return by_key(registry, OP_PURGE, "", done, data);
}

void registry_forget(struct registry *registry, struct registry_call *call) {
        if (!call)
                return;
        (void) pthread_mutex_lock(&registry->lock);
        call->done = NULL;
        (void) pthread_mutex_unlock(&registry->lock);
}

struct registry_watch *registry_watch(struct registry *registry, const char *id, uint64_t expires_at,
                                      registry_dead_fn dead, void *data) {
        struct registry_watch *w = calloc(1, sizeof(*w));

        assert(token_id_valid(id) && dead);
        if (!w)
                return NULL;
        memcpy(w->id, id, sizeof(w->id));
        w->expires_at = expires_at;
        w->seen_ms = monotonic_ms();
        w->dead = dead;
        w->data = data;
        (void) pthread_mutex_lock(&registry->lock);
        w->prev = &registry->watches;
        w->next = registry->watches;
        if (w->next)
                w->next->prev = &w->next;
        registry->watches = w;
        registry->n_watches++;
        tick(registry);
        if (registry->ops->threads == 0)
                look(registry, registry->session);
        (void) pthread_mutex_unlock(&registry->lock);
        return w;
}

struct registry_watch *registry_unwatch(struct registry *registry, struct registry_watch *w) {
        if (!w)
                return NULL;
        (void) pthread_mutex_lock(&registry->lock);
        *w->prev = w->next;
        if (w->next)
                w->next->prev = w->prev;
        registry->n_watches--;
        tick(registry);
        (void) pthread_mutex_unlock(&registry->lock);
        free(w);
        return NULL;
}

void registry_trouble(struct registry *registry, char ret[REGISTRY_TROUBLE_MAX]) {
        (void) pthread_mutex_lock(&registry->lock);
        memcpy(ret, registry->trouble, sizeof(registry->trouble));
        (void) pthread_mutex_unlock(&registry->lock);
}

uint64_t registry_count(struct registry *registry) {
        uint64_t n;

        (void) pthread_mutex_lock(&registry->lock);
        n = registry->ops->count(registry->place);
        (void) pthread_mutex_unlock(&registry->lock);
        return n;
}
