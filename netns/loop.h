/*
 * loop.h - one epoll set and timers, for processes that do nothing else
 *
 * Watches and timers are embedded in what they are about. Both may be removed, and their owner freed, from
 * any callback: what is removed is not called any more, also not for events that were fetched already.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct loop;
struct loop_watch;
struct loop_timer;

/** loop_fn - @events: EPOLLIN, EPOLLOUT, EPOLLHUP, EPOLLERR, EPOLLRDHUP as they came */
typedef void (*loop_fn)(struct loop_watch *watch, uint32_t events);
typedef void (*loop_timer_fn)(struct loop_timer *timer);

/** struct loop_watch - a descriptor; zeroed: not watched */
struct loop_watch {
        loop_fn fn;
        int fd;          /* borrowed */
        uint32_t events; /* what is waited for */
        bool active;
};

/** struct loop_queue - timers that all take equally long; the owner sets @ns and zeroes the rest */
struct loop_queue {
        uint64_t ns;
        struct loop_timer *first, *last;
        struct loop_queue *next; /* of the loop */
        bool known;
};

/** struct loop_timer - a timer; zeroed: not running */
struct loop_timer {
        loop_timer_fn fn;
        uint64_t due; /* clock_ns() */
        struct loop_timer *before, *after;
        struct loop_queue *queue; /* NULL: not running */
};

/** loop_new() - @ret: caller frees with loop_free(). Return: 0 or -errno. */
int loop_new(struct loop **ret) __attribute__((warn_unused_result));
struct loop *loop_free(struct loop *loop);

/** loop_add() - watch @fd. Return: 0 or -errno of epoll_ctl(2). */
int loop_add(struct loop *loop, struct loop_watch *watch, int fd, uint32_t events, loop_fn fn)
        __attribute__((warn_unused_result));

/** loop_set() - wait for @events from now on; no system call when nothing changes */
void loop_set(struct loop *loop, struct loop_watch *watch, uint32_t events);

/** loop_move() - watch the descriptor of @from, which is active, as @to from now on; @from is not watched any
 * more */
void loop_move(struct loop *loop, struct loop_watch *from, struct loop_watch *to, uint32_t events,
               loop_fn fn);

/** loop_remove() - accepts one that is not watched */
void loop_remove(struct loop *loop, struct loop_watch *watch);

/**
 * loop_close() - remove, and close the descriptor; accepts one that is not watched
 * Spares a system call: epoll forgets a descriptor that is closed. No copy of it may be open, also not in a
 * child.
 */
void loop_close(struct loop *loop, struct loop_watch *watch);

/** loop_start() - (re)start @timer: it fires once, @queue->ns from now. O(1). */
void loop_start(struct loop *loop, struct loop_timer *timer, struct loop_queue *queue, loop_timer_fn fn);

/** loop_cancel() - accepts a timer that is not running */
void loop_cancel(struct loop_timer *timer);

/** loop_now() - clock_ns() of the latest return from waiting */
uint64_t loop_now(const struct loop *loop);

/** loop_ready() - how many descriptors had events in this turn; at least 1 */
unsigned int loop_ready(const struct loop *loop);

/**
 * loop_turn() - wait for events, a timer, or @max_ms (-1: for ever), and run what is due
 * Blocks. Return: 0 or -errno of epoll_wait(2); a signal is no error.
 */
int loop_turn(struct loop *loop, int max_ms) __attribute__((warn_unused_result));
