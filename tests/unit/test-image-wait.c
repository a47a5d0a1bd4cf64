#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/time.h>
#include <unistd.h>

#include <cmocka.h>

#include "image/registry.h"
#include "image/wait.h"
#include "runtime/base/cleanup.h"

/** struct other - who has the lock, as a wait sees it */
struct other {
        unsigned int told, asked, moves; /* @moves: how often it has got on */
        int *fd;                         /* of the lock: closed when that is over; NULL: it is kept */
};

static void on_told(void *arg) {
        ((struct other *) arg)->told++;
}

static bool on_asked(void *arg) {
        struct other *o = arg;

        if (o->asked++ < o->moves)
                return true;
        if (o->fd)
                *o->fd = fd_close(*o->fd);
        return false;
}

static int open_file(const char *path) {
        const int fd = open(path, O_RDWR | O_CLOEXEC);

        assert_true(fd >= 0);
        return fd;
}

static void lock_wait_has_a_bound(void **state) {
        static const struct {
                uint64_t max_ms;
                unsigned int moves;
                bool ends;
                int want;
                int told; /* -1: as it comes */
        } cases[] = { { 0, 0, false, -EAGAIN, 0 },
                      { 5, 0, false, -EAGAIN, -1 },
                      { 5, 20, false, -EAGAIN, 1 }, /* it gets on: longer than the bound */
                      { 3600000, 0, true, 0, 1 } };
        char path[] = "/tmp/cofferdam-wait.XXXXXX";
        AUTO_FD int made = mkstemp(path);

        (void) state;
        assert_true(made >= 0);
        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
                AUTO_FD int theirs = open_file(path), ours = open_file(path);
                struct other other = { .moves = cases[i].moves, .fd = cases[i].ends ? &theirs : NULL };
                const struct lock_wait wait = { cases[i].max_ms, on_told, on_asked, &other };
                struct itimerval timer;
                struct sigaction action;

                assert_int_equal(flock(theirs, LOCK_EX), 0);
                assert_int_equal(lock_wait(ours, LOCK_SH, &wait), cases[i].want);
                assert_true(cases[i].told < 0 || other.told == (unsigned int) cases[i].told);
                assert_true(other.asked >= cases[i].moves);
                /* nothing ticks on */
                assert_int_equal(getitimer(ITIMER_REAL, &timer), 0);
                assert_true(timer.it_value.tv_sec == 0 && timer.it_value.tv_usec == 0);
                assert_int_equal(sigaction(SIGALRM, NULL, &action), 0);
                assert_true(action.sa_handler == SIG_DFL);
        }
        assert_int_equal(unlink(path), 0);
}

static void lock_wait_passes_errors_on(void **state) {
        const struct lock_wait wait = { .max_ms = 1000 };

        (void) state;
        assert_int_equal(lock_wait(-1, LOCK_SH, &wait), -EBADF);
}

static void registry_retry_knows_what_passes(void **state) {
        static const struct {
                int r;
                bool begun, again;
        } cases[] = { { -EPIPE, false, true },         { -EAGAIN, false, true },
                      { -EBUSY, false, true },         { -EPIPE, true, true },
                      { -ETIMEDOUT, true, true },      { -ECONNREFUSED, true, true },
                      { -EPROTO, true, true },         { -ETIMEDOUT, false, false },
                      { -ECONNREFUSED, false, false }, { -EPROTO, false, false },
                      { -ENOENT, true, false },        { -EACCES, true, false },
                      { -EBADMSG, true, false },       { -EPERM, true, false },
                      { -ENOSPC, true, false },        { -EHOSTUNREACH, true, false } };
        AUTO_REF struct ref ref = { 0 };
        const struct http_options options = { 0 };
        const struct login login = { 0 };
        AUTO_REGISTRY struct registry *reg = NULL;

        (void) state;
        assert_int_equal(ref_parse("localhost:1/x", &ref, NULL), 0);
        reg = registry_new(&options, &ref, &login);
        assert_non_null(reg);
        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
                static const unsigned int waits[] = { 1, 2, 4, 8, 16, 30, 30, 0, 0 };
                struct tries tries = { .max = 8, .begun = cases[i].begun };

                for (size_t k = 0; k < ARRAY_SIZE(waits); k++)
                        assert_int_equal(registry_retry_s(reg, &tries, cases[i].r),
                                         cases[i].again ? waits[k] : 0);
        }
}

int main(void) {
        const struct CMUnitTest tests[] = { cmocka_unit_test(lock_wait_has_a_bound),
                                            cmocka_unit_test(lock_wait_passes_errors_on),
                                            cmocka_unit_test(registry_retry_knows_what_passes) };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
