/*
 * http-load - clients that send one request after the other over connections that stay open
 * Usage: http-load PORT CLIENTS SECONDS REQUEST: requests per second, median and 99th percentile in
 * microseconds
 *
 * The answer has to be 200 with a Content-Length.
 */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "runtime/base/cleanup.h"
#include "runtime/base/clock.h"
#include "runtime/base/file.h"
#include "runtime/base/parse.h"

enum { SAMPLES_MAX = 4000000, ANSWER_MAX = 65536 };

struct client {
        int fd;
        uint64_t sent_at;
        size_t have;
        char answer[ANSWER_MAX];
};

struct load {
        struct buf request;
        uint32_t *samples; /* ns */
        size_t n;
        int epoll;
};

static int connect_to(uint16_t port) {
        const struct sockaddr_in sa = { .sin_family = AF_INET,
                                        .sin_port = htons(port),
                                        .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
        AUTO_FD int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

        if (fd < 0 || connect(fd, (const struct sockaddr *) &sa, sizeof(sa)) < 0)
                return -errno;
        (void) setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){ 1 }, sizeof(int));
        return TAKE_FD(fd);
}

static int send_request(const struct load *load, struct client *c) {
        c->have = 0;
        c->sent_at = clock_ns();
        return write_all(c->fd, load->request.data, load->request.len);
}

/* Return: 1: the answer is complete, 0: not yet, -EPROTO. */
static int check_answer(struct client *c) {
        const char *end, *length;

        c->answer[c->have] = '\0';
        end = strstr(c->answer, "\r\n\r\n");
        if (!end)
                return 0;
        length = strcasestr(c->answer, "\r\nContent-Length: ");
        if (strncmp(c->answer, "HTTP/1.1 200", 12) != 0 || !length || length > end)
                return -EPROTO;
        return c->have >= (size_t) (end + 4 - c->answer) + strtoul(length + 18, NULL, 10);
}

static int receive(struct load *load, struct client *c) {
        const ssize_t n = recv(c->fd, c->answer + c->have, ANSWER_MAX - 1 - c->have, 0);
        int r;

        if (n <= 0)
                return n < 0 ? -errno : -EPIPE;
        c->have += (size_t) n;
        r = check_answer(c);
        if (r <= 0)
                return r;
        if (load->n < SAMPLES_MAX)
                load->samples[load->n++] = (uint32_t) (clock_ns() - c->sent_at);
        return send_request(load, c);
}

static int by_size(const void *a, const void *b) {
        const uint32_t x = *(const uint32_t *) a, y = *(const uint32_t *) b;

        return x < y ? -1 : x > y;
}

static int start(struct load *load, struct client *c, uint16_t port) {
        struct epoll_event e = { .events = EPOLLIN, .data.ptr = c };

        c->fd = connect_to(port);
        if (c->fd < 0)
                return c->fd;
        if (epoll_ctl(load->epoll, EPOLL_CTL_ADD, c->fd, &e) < 0)
                return -errno;
        return send_request(load, c);
}

static int run(struct load *load, uint64_t seconds) {
        const uint64_t end = clock_ns() + seconds * 1000000000U;

        while (clock_ns() < end) {
                struct epoll_event events[64];
                const int n = epoll_wait(load->epoll, events, 64, 5000);

                if (n <= 0)
                        return n < 0 ? -errno : -ETIMEDOUT;
                for (int i = 0; i < n; i++) {
                        const int r = receive(load, events[i].data.ptr);

                        if (r < 0)
                                return r;
                }
        }
        return 0;
}

int main(int argc, char **argv) {
        struct load load = { .epoll = epoll_create1(EPOLL_CLOEXEC) };
        uint64_t port, clients, seconds;
        struct client *all;
        size_t half, most;
        int r = 0;

        if (argc != 5 || parse_u64(argv[1], 1, 65535, &port) < 0 ||
            parse_u64(argv[2], 1, 1000, &clients) < 0 || parse_u64(argv[3], 1, 3600, &seconds) < 0 ||
            file_read_at(AT_FDCWD, argv[4], 65536, &load.request) < 0)
                return 2;
        all = calloc(clients, sizeof(*all));
        load.samples = calloc(SAMPLES_MAX, sizeof(*load.samples));
        if (!all || !load.samples)
                return 1;
        for (size_t i = 0; r == 0 && i < clients; i++)
                r = start(&load, &all[i], (uint16_t) port);
        if (r == 0)
                r = run(&load, seconds);
        if (r < 0 || load.n == 0) {
                (void) fprintf(stderr, "http-load: %s: %.300s\n", strerror(-r), all[0].answer);
                return 1;
        }
        qsort(load.samples, load.n, sizeof(*load.samples), by_size);
        half = load.n / 2;
        most = load.n * 99 / 100;
        printf("%.0f %.0f %.0f\n", (double) load.n / (double) seconds, load.samples[half] / 1e3,
               load.samples[most] / 1e3);
        return 0;
}
