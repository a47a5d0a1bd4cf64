#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "netns/auth.h"
#include "netns/blocked.h"
#include "netns/loop.h"
#include "netns/names.h"
#include "netns/tunnel.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/clock.h"

static void auth_check_takes_the_token_only(void **state) {
        static const struct {
                const char *header;
                bool want;
        } cases[] = {
                { "Bearer s3cret", true },
                { "bEaReR s3cret", true },
                { "Basic dDpzM2NyZXQ=", true }, /* t:s3cret */
                { "basic OnMzY3JldA==", true }, /* :s3cret */
                { "Basic OnMzY3JldA", true },
                { "Bearer s3cre", false },
                { "Bearer s3crett", false },
                { "Bearer s3creT", false },
                { "Bearer  s3cret", false },
                { "Bearer", false },
                { "Bearer ", false },
                { "s3cret", false },
                { "Basic s3cret", false },
                { "Basic czNjcmV0", false },         /* no colon */
                { "Basic czNjcmV0Og==", false },     /* s3cret: */
                { "Basic dDpzM2NyZXQ6eA==", false }, /* t:s3cret:x */
                { "Basic dDpz*2NyZXQ=", false },
                { "Basic ====", false },
                { "Basic ", false },
                { "", false },
                { "Digest s3cret", false },
        };

        (void) state;
        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
                if (auth_check("s3cret", (struct http_text){ cases[i].header, strlen(cases[i].header) }) !=
                    cases[i].want)
                        fail_msg("'%s'", cases[i].header);
        }
        assert_false(auth_check("s3cret", (struct http_text){ NULL, 0 }));
        /* a repetition of the token is not the token */
        assert_false(auth_check("aa", (struct http_text){ "Bearer aaaa", 11 }));
        assert_false(auth_check("aa", (struct http_text){ "Bearer a", 8 }));
}

/* --- loop --------------------------------------------------------------------------------------------------
 */

struct pair {
        struct loop_watch watch[2]; /* of both ends; the first called removes the other */
        struct loop *loop;
        int calls;
        unsigned int ready;
};

static struct pair *the_pair; /* callbacks have no argument but what they are embedded in */

static void on_first(struct loop_watch *watch, uint32_t events) {
        (void) watch;
        (void) events;
        the_pair->calls++;
        the_pair->ready = loop_ready(the_pair->loop);
        loop_remove(the_pair->loop, &the_pair->watch[0]);
        loop_remove(the_pair->loop, &the_pair->watch[1]);
}

static void loop_forgets_what_is_removed_in_the_same_turn(void **state) {
        struct pair pair = { .calls = 0 };
        int fds[2];

        (void) state;
        the_pair = &pair;
        assert_int_equal(loop_new(&pair.loop), 0);
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
        for (int i = 0; i < 2; i++)
                assert_int_equal(loop_add(pair.loop, &pair.watch[i], fds[i], EPOLLOUT, on_first), 0);
        assert_int_equal(loop_turn(pair.loop, 0), 0);
        assert_int_equal(pair.calls, 1); /* both were ready */
        assert_int_equal(pair.ready, 2);
        assert_int_equal(loop_ready(pair.loop), 1);
        assert_int_equal(loop_turn(pair.loop, 0), 0);
        assert_int_equal(pair.calls, 1);
        assert_int_equal(loop_add(pair.loop, &pair.watch[0], fds[0], EPOLLOUT, on_first), 0);
        loop_close(pair.loop, &pair.watch[0]);
        assert_int_equal(fcntl(fds[0], F_GETFD), -1);
        assert_int_equal(loop_turn(pair.loop, 0), 0);
        assert_int_equal(pair.calls, 1);
        (void) close(fds[1]);
        loop_free(pair.loop);
}

static int fired;

static void on_timer(struct loop_timer *timer) {
        (void) timer;
        fired++;
}

static void loop_runs_timers_in_order_and_once(void **state) {
        struct loop *loop = NULL;
        struct loop_queue soon = { .ns = 1000000 }, late = { .ns = 3600ULL * 1000000000 };
        struct loop_timer a = { 0 }, b = { 0 }, c = { 0 };

        (void) state;
        fired = 0;
        assert_int_equal(loop_new(&loop), 0);
        loop_start(loop, &a, &soon, on_timer);
        loop_start(loop, &b, &soon, on_timer);
        loop_start(loop, &c, &late, on_timer);
        assert_ptr_equal(soon.first, &a);
        loop_start(loop, &a, &soon, on_timer); /* again: to the end */
        assert_ptr_equal(soon.first, &b);
        loop_cancel(&b);
        loop_cancel(&b);
        for (int i = 0; i < 100 && fired == 0; i++)
                assert_int_equal(loop_turn(loop, -1), 0);
        assert_int_equal(loop_turn(loop, 5), 0);
        assert_int_equal(fired, 1);
        assert_null(soon.first);
        loop_cancel(&c);
        loop_free(loop);
}

/* --- reports -----------------------------------------------------------------------------------------------
 */

struct told {
        uint64_t calls, sum;
        char host[256], rule[64];
};

static void on_blocked(void *arg, const struct blocked *b) {
        struct told *told = arg;

        told->calls++;
        told->sum += b->count;
        (void) snprintf(told->host, sizeof(told->host), "%s", b->host);
        (void) snprintf(told->rule, sizeof(told->rule), "%s", b->rule ? b->rule : "-");
}

static void blocked_counts_every_refusal_once(void **state) {
        struct loop *loop = NULL;
        struct blocked_log *log = NULL;
        struct told told = { 0 };
        char host[32];

        (void) state;
        assert_int_equal(loop_new(&loop), 0);
        assert_int_equal(blocked_new(loop, 3600ULL * 1000000000, on_blocked, &told, &log), 0);
        for (int i = 0; i < 1000; i++)
                blocked_note(log, "a.example", 443, "why", "!a.example");
        assert_int_equal(told.calls, 1);
        assert_string_equal(told.rule, "!a.example");
        blocked_note(log, "a.example", 80, "why", NULL);
        blocked_note(log, "a.example", 80, "another why", NULL);
        assert_int_equal(told.calls, 3);
        blocked_note(log, "http-intake.logs.datadoghq.com", 443, "why", NULL);
        assert_int_equal(told.calls, 3);
        for (int i = 0; i < 1000; i++) {
                (void) snprintf(host, sizeof(host), "n%d.example", i);
                blocked_note(log, host, 443, "why", NULL);
        }
        assert_int_equal(told.calls, BLOCKED_HOSTS_MAX);
        assert_int_equal(blocked_total(log), 2003);
        blocked_free(log);
        assert_int_equal(told.sum, 2002); /* all but the telemetry host */
        assert_int_equal(told.calls, BLOCKED_HOSTS_MAX + 2);
        loop_free(loop);
}

/* --- tunnel ------------------------------------------------------------------------------------------------
 */

struct ride {
        struct tunnel tunnel; /* first */
        bool over;
        int error, moves;
};

static void on_over(struct tunnel *tunnel, int error) {
        struct ride *ride = (struct ride *) tunnel;

        ride->over = true;
        ride->error = error;
        tunnel_deinit(tunnel);
}

static void on_moved(struct tunnel *tunnel) {
        ((struct ride *) tunnel)->moves++;
}

static void nothing(struct loop_watch *watch, uint32_t events) {
        (void) watch;
        (void) events;
}

/* A tunnel between two socket pairs; ret_out[i] is the far end of end i. */
static void make_ride(struct ride *ride, struct loop *loop, struct pipes *pipes, int ret_out[2]) {
        tunnel_init(&ride->tunnel, loop, pipes);
        ride->over = false;
        ride->moves = 0;
        for (int i = 0; i < 2; i++) {
                int fds[2];

                assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds), 0);
                ret_out[i] = fds[1];
                ride->tunnel.ends[i].fd = fds[0];
                assert_int_equal(loop_add(loop, &ride->tunnel.ends[i].watch, fds[0], EPOLLIN, nothing), 0);
        }
        tunnel_start(&ride->tunnel, on_over, on_moved);
}

/* With a pipe, and without one: the same bytes in the same order, and no pipe kept by an idle tunnel. */
static void tunnel_moves_bytes_and_ends(void **state) {
        (void) state;
        for (int without = 0; without < 2; without++) {
                struct loop *loop = NULL;
                struct pipes pipes = { .n_out = without ? PIPES_MAX : 0 };
                struct ride ride;
                static char sent[200000], got[200000];
                size_t out = 0, in = 0;
                int far[2];

                assert_int_equal(loop_new(&loop), 0);
                make_ride(&ride, loop, &pipes, far);
                assert_int_equal(tunnel_send(&ride.tunnel, &ride.tunnel.ends[1], "first", 5), 0);
                assert_int_equal(read(far[1], got, 5), 5);
                assert_memory_equal(got, "first", 5);
                for (size_t i = 0; i < sizeof(sent); i++)
                        sent[i] = (char) (i * 31 >> 3);
                for (int i = 0; i < 100000 && in < sizeof(sent); i++) {
                        const ssize_t n =
                                out < sizeof(sent) ? write(far[0], sent + out, sizeof(sent) - out) : 0;
                        ssize_t m;

                        out += n > 0 ? (size_t) n : 0;
                        assert_int_equal(loop_turn(loop, 0), 0);
                        m = read(far[1], got + in, i % 2 && sizeof(got) - in > 7000 ? 7000 : 1);
                        in += m > 0 ? (size_t) m : 0;
                }
                assert_int_equal(in, sizeof(sent));
                assert_memory_equal(sent, got, sizeof(sent));
                assert_int_equal(pipes.n_out, without ? PIPES_MAX : 0);
                assert_int_equal(shutdown(far[0], SHUT_WR), 0);
                for (int i = 0; i < 10; i++)
                        assert_int_equal(loop_turn(loop, 0), 0);
                assert_int_equal(read(far[1], got, 1), 0); /* half closed */
                assert_false(ride.over);
                assert_int_equal(write(far[1], "back", 4), 4);
                for (int i = 0; i < 10; i++)
                        assert_int_equal(loop_turn(loop, 0), 0);
                assert_int_equal(read(far[0], got, 4), 4);
                (void) close(far[1]);
                for (int i = 0; i < 10 && !ride.over; i++)
                        assert_int_equal(loop_turn(loop, 0), 0);
                assert_true(ride.over);
                (void) close(far[0]);
                pipes_deinit(&pipes);
                loop_free(loop);
        }
}

/* An end that has said and heard everything while the other does not read: nothing happens until that reads.
 */
static void stall(int without, int talker) {
        struct loop *loop = NULL;
        struct pipes pipes = { .n_out = without ? PIPES_MAX : 0 };
        struct ride ride;
        static char data[65536];
        size_t out = 0, in = 0;
        uint64_t start;
        ssize_t n;
        int far[2], moves;

        assert_int_equal(loop_new(&loop), 0);
        make_ride(&ride, loop, &pipes, far);
        assert_int_equal(shutdown(far[!talker], SHUT_WR), 0);
        for (int i = 0; i < 1000; i++) {
                n = write(far[talker], data, sizeof(data));
                out += n > 0 ? (size_t) n : 0;
                assert_int_equal(loop_turn(loop, 0), 0);
        }
        assert_int_equal(shutdown(far[talker], SHUT_WR), 0);
        for (int i = 0; i < 10; i++)
                assert_int_equal(loop_turn(loop, 0), 0);
        moves = ride.moves;
        start = clock_ns();
        assert_int_equal(loop_turn(loop, 100), 0);
        assert_true(clock_ns() - start > 50000000);
        assert_int_equal(ride.moves, moves);
        for (int i = 0; i < 100000 && !ride.over; i++) {
                n = read(far[!talker], data, sizeof(data));
                in += n > 0 ? (size_t) n : 0;
                assert_int_equal(loop_turn(loop, 0), 0);
        }
        assert_true(ride.over && ride.error == 0);
        while ((n = read(far[!talker], data, sizeof(data))) > 0)
                in += (size_t) n;
        assert_int_equal(in, out);
        (void) close(far[0]);
        (void) close(far[1]);
        pipes_deinit(&pipes);
        loop_free(loop);
}

/* Goes red without hung_up: the loop turns as fast as it can. */
static void tunnel_rests_while_nobody_reads(void **state) {
        (void) state;
        for (int i = 0; i < 4; i++)
                stall(i & 1, i >> 1);
}

/*
 * An end that breaks off, with bytes that nobody has read from it and bytes that it has not read: the first
 * still arrive. Goes red without rescue().
 */
static void tunnel_passes_on_what_a_broken_end_has_said(void **state) {
        static char data[65536];

        (void) state;
        for (int much = 0; much < 2; much++) {
                struct loop *loop = NULL;
                struct pipes pipes = { .n_out = 0 };
                struct ride ride;
                size_t out = 0, in = 0;
                ssize_t n;
                int far[2];

                assert_int_equal(loop_new(&loop), 0);
                make_ride(&ride, loop, &pipes, far);
                assert_int_equal(write(far[0], "upload", 6), 6);
                for (int i = 0; i < (much ? 1000 : 10); i++) {
                        n = much || i == 5 ? write(far[1], data, much ? sizeof(data) : 10) : 0;
                        out += n > 0 ? (size_t) n : 0;
                        assert_int_equal(loop_turn(loop, 0), 0);
                }
                n = write(far[1], data, 10);
                out += n > 0 ? (size_t) n : 0;
                (void) close(far[1]); /* unread bytes make an error of it */
                for (int i = 0; i < 100000; i++) {
                        assert_int_equal(loop_turn(loop, 0), 0);
                        n = read(far[0], data, sizeof(data));
                        in += n > 0 ? (size_t) n : 0;
                        if (n == 0)
                                break;
                }
                assert_int_equal(in, out);
                assert_true(ride.over && ride.error == ECONNRESET);
                (void) close(far[0]);
                pipes_deinit(&pipes);
                loop_free(loop);
        }
}

static void name_of(int i, struct host *ret) {
        *ret = (struct host){ .kind = HOST_NAME };
        (void) snprintf(ret->name, sizeof(ret->name), "n%d.example", i);
}

static void expect_name(struct names *names, int i, uint64_t now_ns, const char *want) {
        struct addr addr[2];
        struct host host;
        char text[ADDR_TEXT_MAX];

        name_of(i, &host);
        assert_int_equal(names_address(names, &host, now_ns, addr), 0);
        assert_string_equal(addr_text(&addr[0], text), want);
        assert_memory_equal(addr[0].b + 14, addr[1].b + 14, 2); /* the same place in both ranges */
        for (size_t six = 0; six < 2; six++)
                assert_string_equal(names_find(names, &addr[six], now_ns)->name, host.name);
}

/* An address means the name it was given for; another one only when nobody can still mean the first. */
static void names_keep_their_addresses(void **state) {
        static const char *const none[] = { "198.18.0.1",  "198.18.32.2",  "198.17.255.255", "::1",
                                            "2001:2::1",   "2001:2::2002", "2001:2:0:1::2",  "2001:3::2",
                                            "2001:2::1:2", "::2" };
        const uint64_t start = 1, later = start + NAMES_KEEP_NS;
        struct addr addr[2], own = names_own(true);
        struct names *names = NULL;
        struct host host;
        char text[ADDR_TEXT_MAX];

        (void) state;
        assert_string_equal(addr_text(&own, text), "2001:2::1");
        own = names_own(false);
        assert_string_equal(addr_text(&own, text), "198.18.0.1");
        assert_int_equal(names_new(&names), 0);
        expect_name(names, 0, start, "198.18.0.2");
        for (int i = 1; i < NAMES_MAX; i++) {
                name_of(i, &host);
                assert_int_equal(names_address(names, &host, start, addr), 0);
        }
        expect_name(names, 0, start, "198.18.0.2"); /* now the latest */
        /* one more while answers with all addresses may be remembered: goes red without until_ns */
        name_of(NAMES_MAX, &host);
        assert_int_equal(names_address(names, &host, later - 1, addr), -ENOSPC);
        expect_name(names, NAMES_MAX - 1, later - 1, "198.18.32.1");
        /* when they are not, the one goes that nobody has used the longest, and only that; goes red without
         * forget(), and with the first slot instead of the oldest */
        expect_name(names, NAMES_MAX, later, "198.18.0.3");
        expect_name(names, 0, later, "198.18.0.2");
        /* to connect is to use: goes red without touch() in names_find() */
        assert_int_equal(addr_parse("2001:2::4", 9, &addr[1]), 0);
        assert_string_equal(names_find(names, &addr[1], later)->name, "n2.example");
        expect_name(names, NAMES_MAX + 1, later, "198.18.0.5");
        expect_name(names, 1, later, "198.18.0.6"); /* it was forgotten */
        for (size_t i = 0; i < ARRAY_SIZE(none); i++) {
                assert_int_equal(addr_parse(none[i], strlen(none[i]), &addr[0]), 0);
                if (names_find(names, &addr[0], later))
                        fail_msg("%s stands for a name", none[i]);
        }
        (void) names_free(names);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(auth_check_takes_the_token_only),
                cmocka_unit_test(loop_forgets_what_is_removed_in_the_same_turn),
                cmocka_unit_test(loop_runs_timers_in_order_and_once),
                cmocka_unit_test(blocked_counts_every_refusal_once),
                cmocka_unit_test(tunnel_moves_bytes_and_ends),
                cmocka_unit_test(tunnel_rests_while_nobody_reads),
                cmocka_unit_test(tunnel_passes_on_what_a_broken_end_has_said),
                cmocka_unit_test(names_keep_their_addresses),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
