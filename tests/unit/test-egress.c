#include <errno.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "netns/egress.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/fdpass.h"

/* an egress process on a port of the loopback */
struct running {
        pid_t pid;
        int control;
        uint16_t port;
};

static int listen_loopback(uint16_t *ret_port) {
        struct sockaddr_in sa = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
        socklen_t len = sizeof(sa);
        const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

        assert_true(fd >= 0);
        assert_int_equal(bind(fd, (struct sockaddr *) &sa, len), 0);
        assert_int_equal(listen(fd, 16), 0);
        assert_int_equal(getsockname(fd, (struct sockaddr *) &sa, &len), 0);
        *ret_port = ntohs(sa.sin_port);
        return fd;
}

static int start(void **state) {
        static struct running running;
        static const char *const rules[] = { "a.example", "!b.example" };
        struct policy *policy = NULL;
        int pair[2];
        const int fd = listen_loopback(&running.port);

        assert_int_equal(policy_new(NETWORK_ALLOWLIST, NULL, rules, 2, &policy, NULL), 0);
        assert_int_equal(fdpass_pair(pair), 0);
        running.pid = fork();
        assert_true(running.pid >= 0);
        if (running.pid == 0) {
                const struct egress_config config = { .mode = NETWORK_ALLOWLIST,
                                                      .policy = policy,
                                                      .resolv_conf = "/dev/null",
                                                      .sockets = &(struct egress_socket){ PROXY_CLIENTS, fd },
                                                      .n_sockets = 1 };

                (void) close(pair[0]);
                _exit(egress_run(&config, pair[1], NULL) == 0 ? 0 : 1);
        }
        policy_free(policy);
        (void) close(fd);
        (void) close(pair[1]);
        running.control = pair[0];
        *state = &running;
        return 0;
}

static int stop(void **state) {
        struct running *running = *state;
        int status = 0;

        if (running->control >= 0)
                (void) close(running->control);
        /* goes red when the process outlives its supervisor */
        (void) alarm(600);
        assert_int_equal(waitpid(running->pid, &status, 0), running->pid);
        (void) alarm(0);
        assert_int_equal(status, 0);
        return 0;
}

/* Return: the status that CONNECT to @host gets. */
static int ask(const struct running *running, const char *host) {
        struct sockaddr_in sa = { .sin_family = AF_INET,
                                  .sin_port = htons(running->port),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
        AUTO_FD int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        char head[512], answer[64] = { 0 };
        const int n = snprintf(head, sizeof(head), "CONNECT %s:443 HTTP/1.0\r\n\r\n", host);

        assert_int_equal(connect(fd, (struct sockaddr *) &sa, sizeof(sa)), 0);
        assert_int_equal(write(fd, head, (size_t) n), n);
        assert_true(read(fd, answer, sizeof(answer) - 1) > 12);
        return (int) strtol(answer + 9, NULL, 10);
}

/* by whatever name server the machine has: it fails, or does not answer in time */
static bool is_unresolved(int status) {
        return status == 502 || status == 504;
}

static void egress_reports_refusals(void **state) {
        struct running *running = *state;
        struct egress_notice notice;

        assert_int_equal(ask(running, "b.example"), 403);
        assert_int_equal(egress_recv(running->control, &notice), 0);
        assert_int_equal(notice.kind, EGRESS_BLOCKED);
        assert_string_equal(notice.host, "b.example");
        assert_string_equal(notice.rule, "!b.example");
        assert_int_equal(notice.port, 443);
        assert_int_equal(notice.count, 1);
        assert_int_equal(ask(running, "c.example"), 403);
        assert_int_equal(egress_recv(running->control, &notice), 0);
        assert_int_equal(notice.has_rule, 0);
        assert_string_equal(notice.reason, "no rule allows it");
}

static void egress_takes_another_policy(void **state) {
        static const char *const rules[] = { "c.example", "!a.example" }, *const bad[] = { "a*b" };
        struct running *running = *state;
        struct egress_notice notice;

        assert_int_equal(egress_send_policy(running->control, NULL, bad, 1), 0);
        assert_int_equal(egress_recv(running->control, &notice), 0);
        assert_int_equal(notice.kind, EGRESS_INVALID);
        assert_non_null(strstr(notice.reason, "network.rules[0]: 'a*b', byte 2"));
        assert_true(is_unresolved(ask(running, "a.example"))); /* allowed as before; nobody resolves it */
        assert_int_equal(egress_send_policy(running->control, "none", rules, 2), 0);
        assert_int_equal(egress_recv(running->control, &notice), 0);
        assert_int_equal(notice.kind, EGRESS_REPLACED);
        assert_int_equal(ask(running, "a.example"), 403);
        assert_true(is_unresolved(ask(running, "c.example")));
}

static void egress_ends_with_a_message_it_does_not_know(void **state) {
        struct running *running = *state;
        struct egress_notice notice;

        assert_int_equal(fdpass_send(running->control, "Q", 1, NULL, 0), 0);
        assert_int_equal(egress_recv(running->control, &notice), -ECONNRESET);
}

static void egress_recv_believes_nothing(void **state) {
        struct egress_notice sent, got = { .port = 7 };
        int pair[2];

        (void) state;
        assert_int_equal(fdpass_pair(pair), 0);
        memset(&sent, 'x', sizeof(sent));
        assert_int_equal(fdpass_send(pair[0], &sent, sizeof(sent), NULL, 0), 0);
        assert_int_equal(egress_recv(pair[1], &got), -EBADMSG);
        assert_int_equal(got.port, 7);
        sent.kind = EGRESS_BLOCKED;
        assert_int_equal(fdpass_send(pair[0], &sent, sizeof(sent) - 1, NULL, 0), 0);
        assert_int_equal(egress_recv(pair[1], &got), -EBADMSG);
        assert_int_equal(fdpass_send(pair[0], &sent, sizeof(sent), NULL, 0), 0);
        assert_int_equal(egress_recv(pair[1], &got), 0);
        assert_int_equal(strlen(got.host), sizeof(got.host) - 1);
        assert_int_equal(strlen(got.reason), sizeof(got.reason) - 1);
        assert_int_equal(strlen(got.rule), sizeof(got.rule) - 1);
        (void) close(pair[0]);
        assert_int_equal(egress_recv(pair[1], &got), -ECONNRESET);
        (void) close(pair[1]);
}

/* A process that does not read cannot keep the supervisor waiting; goes red without poll(2). */
static void egress_send_resolv_conf_never_blocks(void **state) {
        int pair[2], r = 0;

        (void) state;
        assert_int_equal(fdpass_pair(pair), 0);
        assert_int_equal(egress_send_resolv_conf(pair[0], "/nonexistent"), -ENOENT);
        assert_int_equal(egress_send_resolv_conf(pair[0], "/dev/null"), -EINVAL);
        (void) alarm(600);
        for (int i = 0; i < 100000 && r == 0; i++)
                r = egress_send_resolv_conf(pair[0], "/proc/version");
        (void) alarm(0);
        assert_true(r == -EAGAIN || r == -ETOOMANYREFS); /* the kernel bounds descriptors on their way, too */
        (void) close(pair[1]);
        assert_true(egress_send_resolv_conf(pair[0], "/proc/version") < 0);
        (void) close(pair[0]);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(egress_reports_refusals, start, stop),
                cmocka_unit_test_setup_teardown(egress_takes_another_policy, start, stop),
                cmocka_unit_test_setup_teardown(egress_ends_with_a_message_it_does_not_know, start, stop),
                cmocka_unit_test(egress_recv_believes_nothing),
                cmocka_unit_test(egress_send_resolv_conf_never_blocks),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
