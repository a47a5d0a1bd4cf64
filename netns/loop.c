#include "netns/loop.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/epoll.h>

#include "runtime/base/cleanup.h"
#include "runtime/base/clock.h"

enum { BATCH = 256 };

struct loop {
        int epoll_fd;
        struct epoll_event batch[BATCH];
        int n, at; /* events of the batch, and the one that is being handled */
        uint64_t now;
        struct loop_queue *queues;
};

int loop_new(struct loop **ret) {
        struct loop *loop = calloc(1, sizeof(*loop));

        if (!loop)
                return -ENOMEM;
        loop->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
        if (loop->epoll_fd < 0) {
                const int r = -errno;

                free(loop);
                return r;
        }
        loop->now = clock_ns();
        *ret = loop;
        return 0;
}

struct loop *loop_free(struct loop *loop) {
        if (loop)
                (void) fd_close(loop->epoll_fd);
        free(loop);
        return NULL;
}

int loop_add(struct loop *loop, struct loop_watch *watch, int fd, uint32_t events, loop_fn fn) {
        struct epoll_event e = { .events = events, .data.ptr = watch };

        if (epoll_ctl(loop->epoll_fd, EPOLL_CTL_ADD, fd, &e) < 0)
                return -errno;
        *watch = (struct loop_watch){ .fn = fn, .fd = fd, .events = events, .active = true };
        return 0;
}

void loop_set(struct loop *loop, struct loop_watch *watch, uint32_t events) {
        struct epoll_event e = { .events = events, .data.ptr = watch };

        if (!watch->active || watch->events == events)
                return;
        /* cannot fail: the descriptor is in the set */
        (void) epoll_ctl(loop->epoll_fd, EPOLL_CTL_MOD, watch->fd, &e);
        watch->events = events;
}

/* Events that were fetched already are for nobody. */
static void deactivate(struct loop *loop, struct loop_watch *watch) {
        watch->active = false;
        for (int i = loop->at; i < loop->n; i++) {
                if (loop->batch[i].data.ptr == watch)
                        loop->batch[i].data.ptr = NULL;
        }
}

void loop_move(struct loop *loop, struct loop_watch *from, struct loop_watch *to, uint32_t events,
               loop_fn fn) {
        struct epoll_event e = { .events = events, .data.ptr = to };

        *to = (struct loop_watch){ .fn = fn, .fd = from->fd, .events = events, .active = true };
        (void) epoll_ctl(loop->epoll_fd, EPOLL_CTL_MOD, to->fd, &e); /* as in loop_set() */
        deactivate(loop, from);
}

void loop_remove(struct loop *loop, struct loop_watch *watch) {
        if (!watch->active)
                return;
        (void) epoll_ctl(loop->epoll_fd, EPOLL_CTL_DEL, watch->fd, NULL);
        deactivate(loop, watch);
}

void loop_close(struct loop *loop, struct loop_watch *watch) {
        if (!watch->active)
                return;
        deactivate(loop, watch);
        watch->fd = fd_close(watch->fd);
}

void loop_cancel(struct loop_timer *timer) {
        struct loop_queue *queue = timer->queue;

        if (!queue)
                return;
        if (timer->before)
                timer->before->after = timer->after;
        else
                queue->first = timer->after;
        if (timer->after)
                timer->after->before = timer->before;
        else
                queue->last = timer->before;
        timer->queue = NULL;
}

void loop_start(struct loop *loop, struct loop_timer *timer, struct loop_queue *queue, loop_timer_fn fn) {
        loop_cancel(timer);
        if (!queue->known) {
                queue->known = true;
                queue->next = loop->queues;
                loop->queues = queue;
        }
        *timer = (struct loop_timer){
                .fn = fn, .due = loop->now + queue->ns, .before = queue->last, .queue = queue
        };
        if (queue->last)
                queue->last->after = timer;
        else
                queue->first = timer;
        queue->last = timer;
}

uint64_t loop_now(const struct loop *loop) {
        return loop->now;
}

unsigned int loop_ready(const struct loop *loop) {
        return loop->n > 1 ? (unsigned int) loop->n : 1;
}

static int wait_ms(const struct loop *loop, int max_ms) {
        uint64_t due = UINT64_MAX;
        uint64_t ms;

        for (const struct loop_queue *q = loop->queues; q; q = q->next) {
                if (q->first && q->first->due < due)
                        due = q->first->due;
        }
        if (due == UINT64_MAX)
                return max_ms;
        ms = due > loop->now ? (due - loop->now + 999999) / 1000000 : 0;
        return max_ms >= 0 && (uint64_t) max_ms < ms ? max_ms : (int) (ms < 3600000 ? ms : 3600000);
}

static void run_timers(struct loop *loop) {
        for (struct loop_queue *q = loop->queues; q; q = q->next) {
                /* what a callback starts anew is due later than now */
                while (q->first && q->first->due <= loop->now) {
                        struct loop_timer *timer = q->first;

                        loop_cancel(timer);
                        timer->fn(timer);
                }
        }
}

int loop_turn(struct loop *loop, int max_ms) {
        const int n = epoll_wait(loop->epoll_fd, loop->batch, BATCH, wait_ms(loop, max_ms));

        if (n < 0 && errno != EINTR)
                return -errno;
        loop->now = clock_ns();
        loop->n = n > 0 ? n : 0;
        for (loop->at = 0; loop->at < loop->n; loop->at++) {
                const struct epoll_event e = loop->batch[loop->at];
                struct loop_watch *watch = e.data.ptr;

                if (watch)
                        watch->fn(watch, e.events);
        }
        loop->n = 0;
        run_timers(loop);
        return 0;
}
