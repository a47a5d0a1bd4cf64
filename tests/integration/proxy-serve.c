/*
 * proxy-serve.c - the egress proxy alone: proxy-serve [-d] [-t TOKEN] [-p PRESET] [-r RESOLV.CONF] [-c
 * CLIENTS]
 *                 [-h HEAD_MS] [-i IDLE_MS] [-q HALF_MS] [-w REPORT_MS] ADDRESS PORT [RULE...]
 *
 * -d: a denylist. Prints "ready", then a line for each report: "blocked HOST PORT COUNT REASON [RULE]". A
 * line on standard input replaces the rules by the words on it; its end ends the program (/dev/null does
 * not).
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "netns/egress.h"
#include "netns/proxy.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/parse.h"

enum { WORDS_MAX = 1024 };

struct serve {
        struct loop_watch input; /* first */
        struct proxy *proxy;
        struct policy *policy;
        enum network_mode mode;
        const char *preset;
        bool end;
};

static void on_blocked(void *arg, const struct blocked *b) {
        (void) arg;
        printf("blocked %s %u %llu %s%s%s%s\n", *b->host ? b->host : "-", b->port,
               (unsigned long long) b->count, b->reason, b->rule ? " [" : "", b->rule ? b->rule : "",
               b->rule ? "]" : "");
        (void) fflush(stdout);
}

static struct policy *compile(const struct serve *s, const char *const *rules, size_t n) {
        struct policy *policy = NULL;
        struct error err = { 0 };

        if (policy_new(s->mode, s->preset, rules, n, &policy, &err) < 0)
                (void) fprintf(stderr, "proxy-serve: %s\n", err.msg);
        return policy;
}

static void on_input(struct loop_watch *watch, uint32_t events) {
        struct serve *s = (struct serve *) watch;
        char line[65536];
        const char *words[WORDS_MAX];
        struct policy *policy, *old = s->policy;
        const ssize_t len = read(watch->fd, line, sizeof(line) - 1);
        size_t n = 0;

        (void) events;
        if (len <= 0) {
                s->end = true;
                return;
        }
        line[len] = '\0';
        for (char *p = line, *save = NULL; n < WORDS_MAX; p = NULL) {
                char *word = strtok_r(p, " \n", &save);

                if (!word)
                        break;
                words[n++] = word;
        }
        policy = compile(s, words, n);
        if (!policy)
                return;
        s->policy = policy;
        proxy_set_policy(s->proxy, policy);
        policy_free(old);
        printf("replaced\n");
        (void) fflush(stdout);
}

static int listen_on(const char *address, uint64_t port) {
        struct sockaddr_storage ss;
        struct addr addr;
        socklen_t len;
        AUTO_FD int fd = -1;

        if (addr_parse(address, strlen(address), &addr) < 0)
                return -EINVAL;
        len = addr_to_sock(&addr, (uint16_t) port, &ss);
        fd = socket(ss.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (fd < 0)
                return -errno;
        (void) setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &(int){ 1 }, sizeof(int));
        if (bind(fd, (struct sockaddr *) &ss, len) < 0 || listen(fd, 4096) < 0)
                return -errno;
        return TAKE_FD(fd);
}

static int read_options(int argc, char **argv, struct serve *s, struct proxy_config *config) {
        uint64_t v = 0;
        int c;

        while ((c = getopt(argc, argv, "+dt:p:r:c:h:i:q:w:")) >= 0) {
                if (strchr("chiqw", c) && parse_u64(optarg, 1, UINT32_MAX, &v) < 0)
                        return -1;
                if (c == 'd')
                        s->mode = NETWORK_DENYLIST;
                else if (c == 't')
                        config->token = optarg;
                else if (c == 'p')
                        s->preset = optarg;
                else if (c == 'r')
                        config->resolv_conf = optarg;
                else if (c == 'c')
                        config->max_clients = v;
                else if (c == 'h')
                        config->head_ms = (uint32_t) v;
                else if (c == 'i')
                        config->idle_ms = (uint32_t) v;
                else if (c == 'q')
                        config->half_ms = (uint32_t) v;
                else if (c == 'w')
                        config->report_ms = v;
                else
                        return -1;
        }
        return argc - optind >= 2 ? 0 : -1;
}

static int serve(struct serve *s, struct proxy_config *config, const char *address, uint64_t port) {
        struct loop *loop = NULL;
        struct error err = { 0 };
        int r, fd;

        fd = listen_on(address, port);
        if (fd < 0) {
                (void) fprintf(stderr, "proxy-serve: %s port %llu: %s\n", address, (unsigned long long) port,
                               strerror(-fd));
                return 1;
        }
        /* as in a run: a call that the proxy needs and may not make ends it here too */
        if (egress_confine(config->resolv_conf, &err) < 0 || loop_new(&loop) < 0 ||
            proxy_new(loop, config, &s->proxy, &err) < 0 ||
            proxy_add_consume(s->proxy, PROXY_CLIENTS, fd) < 0) {
                (void) fprintf(stderr, "proxy-serve: %s\n", err.msg);
                return 1;
        }
        if (loop_add(loop, &s->input, STDIN_FILENO, EPOLLIN, on_input) < 0)
                s->end = false; /* a file or /dev/null cannot be watched */
        printf("ready\n");
        (void) fflush(stdout);
        do
                r = loop_turn(loop, -1);
        while (r == 0 && !s->end);
        s->proxy = proxy_free(s->proxy);
        (void) loop_free(loop);
        return r < 0;
}

int main(int argc, char **argv) {
        struct serve s = { .mode = NETWORK_ALLOWLIST };
        struct proxy_config config = { .blocked = on_blocked };
        uint64_t port = 0;
        int r;

        if (read_options(argc, argv, &s, &config) < 0 || parse_u64(argv[optind + 1], 1, 65535, &port) < 0)
                return 2;
        s.policy = compile(&s, (const char *const *) argv + optind + 2, (size_t) (argc - optind - 2));
        if (!s.policy)
                return 2;
        config.policy = s.policy;
        r = serve(&s, &config, argv[optind], port);
        policy_free(s.policy);
        return r;
}
