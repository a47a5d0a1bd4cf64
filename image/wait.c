/*
 * DOC: theory of operation
 *
 * flock(2) knows no timeout. A timer interrupts it, again and again: a tick that comes before the call blocks
 * is followed by another.
 */
#include "image/wait.h"

#include <errno.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/time.h>

#include "runtime/base/clock.h"

enum { TICK_MS = 1000 };

static const uint64_t ns_of_ms = 1000000;

static void on_tick(int sig) {
        (void) sig;
}

static struct itimerval every(uint64_t ms) {
        const struct timeval t = { .tv_sec = (time_t) (ms / 1000),
                                   .tv_usec = (suseconds_t) (ms % 1000 * 1000) };

        return (struct itimerval){ .it_interval = t, .it_value = t };
}

static int ticking(int fd, int how, const struct lock_wait *w) {
        uint64_t since = clock_ns();
        bool told = false;

        while (flock(fd, how) < 0) {
                if (errno != EINTR)
                        return -errno;
                if (w->moved && w->moved(w->arg))
                        since = clock_ns();
                if (clock_ns() - since >= w->max_ms * ns_of_ms)
                        return -EAGAIN;
                if (!told && w->tell)
                        w->tell(w->arg);
                told = true;
        }
        return 0;
}

int lock_wait(int fd, int how, const struct lock_wait *wait) {
        const struct sigaction tick = { .sa_handler = on_tick }; /* without SA_RESTART */
        const struct itimerval timer = every(wait->max_ms < TICK_MS ? wait->max_ms : TICK_MS);
        struct itimerval old_timer;
        struct sigaction old;
        int r;

        if (flock(fd, how | LOCK_NB) == 0)
                return 0;
        if (errno != EWOULDBLOCK || wait->max_ms == 0)
                return -errno;
        if (sigaction(SIGALRM, &tick, &old) < 0)
                return -errno;
        if (setitimer(ITIMER_REAL, &timer, &old_timer) < 0) {
                r = -errno;
        } else {
                r = ticking(fd, how, wait);
                (void) setitimer(ITIMER_REAL, &old_timer, NULL);
        }
        (void) sigaction(SIGALRM, &old, NULL);
        return r;
}
