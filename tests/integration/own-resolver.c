/*
 * own-resolver [-t] [-a] SERVER NAME PORT - a client that asks a name server itself, as programs of Go do
 *
 * Sends a question for A (-a: AAAA) to port 53 of SERVER over UDP (-t: TCP), connects to the first address it
 * is given, and prints "ADDRESS WORD": the first line the other side sends, or the errno; or "rcode N".
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { HEADER = 12, TYPE_A = 1, TYPE_AAAA = 28, MESSAGE_MAX = 512, WAIT_S = 5 };

static int connect_to(int type, const char *address, unsigned int port) {
        const struct timeval wait = { .tv_sec = WAIT_S };
        struct sockaddr_in six_less = { .sin_family = AF_INET, .sin_port = htons((uint16_t) port) };
        struct sockaddr_in6 six = { .sin6_family = AF_INET6, .sin6_port = htons((uint16_t) port) };
        const bool v4 = inet_pton(AF_INET, address, &six_less.sin_addr) == 1;
        const int fd = socket(v4 ? AF_INET : AF_INET6, type | SOCK_CLOEXEC, 0);

        if (fd < 0 || (!v4 && inet_pton(AF_INET6, address, &six.sin6_addr) != 1))
                return -1;
        (void) setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof(wait));
        if (connect(fd, v4 ? (struct sockaddr *) &six_less : (struct sockaddr *) &six,
                    v4 ? sizeof(six_less) : sizeof(six)) < 0)
                return -1;
        return fd;
}

static size_t write_question(uint8_t *out, const char *name, uint8_t type) {
        static const uint8_t head[HEADER] = { 0x12, 0x34, 1, 0, 0, 1 };
        size_t n = HEADER;

        memcpy(out, head, sizeof(head));
        while (*name && n < MESSAGE_MAX - 80) {
                const size_t len = strcspn(name, ".");

                out[n++] = (uint8_t) len;
                memcpy(out + n, name, len);
                n += len;
                name += len + (name[len] == '.');
        }
        out[n++] = 0;
        out[n++] = 0;
        out[n++] = type;
        out[n++] = 0;
        out[n++] = 1;
        return n;
}

/* The answer to the question, over TCP with lengths in front. */
static ssize_t ask(int fd, bool tcp, const uint8_t *question, size_t len, uint8_t *answer) {
        const uint8_t prefix[2] = { (uint8_t) (len >> 8), (uint8_t) len };
        uint8_t got[2];

        /* in pieces: a server has to put it together */
        if (tcp && (send(fd, prefix, 1, 0) != 1 || send(fd, prefix + 1, 1, 0) != 1))
                return -1;
        if (send(fd, question, len, 0) != (ssize_t) len)
                return -1;
        if (!tcp)
                return recv(fd, answer, MESSAGE_MAX, 0);
        if (recv(fd, got, 2, MSG_WAITALL) != 2 || (got[0] << 8 | got[1]) > MESSAGE_MAX)
                return -1;
        return recv(fd, answer, (size_t) (got[0] << 8 | got[1]), MSG_WAITALL);
}

static int use(const char *address, unsigned int port) {
        char line[80] = "";
        const int fd = connect_to(SOCK_STREAM, address, port);
        ssize_t n = -1;

        if (fd >= 0)
                n = recv(fd, line, sizeof(line) - 1, 0);
        if (n < 0)
                printf("%s %s\n", address, strerrorname_np(errno));
        else
                printf("%s %.*s\n", address, (int) strcspn(line, "\n"), line);
        return 0;
}

int main(int argc, char **argv) {
        uint8_t question[MESSAGE_MAX], answer[MESSAGE_MAX];
        char address[INET6_ADDRSTRLEN];
        bool tcp = false, six = false;
        size_t len, want;
        ssize_t n;
        int fd, c;

        while ((c = getopt(argc, argv, "ta")) >= 0) {
                tcp = tcp || c == 't';
                six = six || c == 'a';
        }
        if (argc - optind != 3)
                return 2;
        fd = connect_to(tcp ? SOCK_STREAM : SOCK_DGRAM, argv[optind], 53);
        len = write_question(question, argv[optind + 1], six ? TYPE_AAAA : TYPE_A);
        n = fd < 0 ? -1 : ask(fd, tcp, question, len, answer);
        if (n < (ssize_t) len) {
                printf("no answer: %s\n", strerrorname_np(errno));
                return 1;
        }
        if (answer[3] & 15 || answer[7] == 0) {
                printf("rcode %d\n", answer[3] & 15);
                return 1;
        }
        want = six ? 16 : 4;
        if ((size_t) n < len + 12 + want || answer[len + 11] != want)
                return 1;
        (void) inet_ntop(six ? AF_INET6 : AF_INET, answer + len + 12, address, sizeof(address));
        return use(address, (unsigned int) strtoul(argv[optind + 2], NULL, 10));
}
