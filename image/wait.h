/*
 * wait.h - a lock that somebody else has: waited for with a bound, and not in silence
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* as long as whoever has it does not get on; shorter than what a run gives to its image */
enum { LOCK_WAIT_DEFAULT_S = 300 };

/** struct lock_wait - how long, and who is told; all borrowed */
struct lock_wait {
        uint64_t max_ms;
        void (*tell)(void *arg); /* once, after a second */
        bool (*moved)(
                void *arg); /* whether who has it got on since the last call: the time starts anew; NULL */
        void *arg;          /* of both */
};

/**
 * lock_wait() - flock(2)
 * @how: LOCK_SH or LOCK_EX
 * Blocks. Uses SIGALRM and the real timer of the process, and leaves them as they were found.
 * Return: 0, -EAGAIN (somebody else has it still), -errno.
 */
int lock_wait(int fd, int how, const struct lock_wait *wait) __attribute__((warn_unused_result));
