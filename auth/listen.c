#include "auth/listen.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "netns/host.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/escape.h"
#include "runtime/base/parse.h"

enum { BACKLOG = 1024 };

const char *listen_is_unix(const char *where) {
        return strncmp(where, "unix:", 5) == 0 ? where + 5 : NULL;
}

/* --- sockets of the file system ---------------------------------------------------------------------------
 */

/* Whether nobody listens behind @sa any more. */
static bool is_stale(const struct sockaddr_un *sa) {
        AUTO_FD int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

        return fd >= 0 && connect(fd, (const struct sockaddr *) sa, sizeof(*sa)) < 0 && errno == ECONNREFUSED;
}

static int bind_unix(int fd, const struct sockaddr_un *sa) {
        const mode_t mask = umask(0177);
        int r;

        r = bind(fd, (const struct sockaddr *) sa, sizeof(*sa)) < 0 ? -errno : 0;
        if (r == -EADDRINUSE && is_stale(sa) && unlink(sa->sun_path) == 0)
                r = bind(fd, (const struct sockaddr *) sa, sizeof(*sa)) < 0 ? -errno : 0;
        (void) umask(mask);
        return r;
}

static int open_unix(const char *path, int *ret_fd, char text[LISTEN_TEXT_MAX], struct error *err) {
        struct sockaddr_un sa = { .sun_family = AF_UNIX };
        const size_t len = strlen(path);
        AUTO_FD int fd = -1;
        int r;

        if (len == 0 || len >= sizeof(sa.sun_path))
                return error_set(err, -EINVAL, "unix:%s: want a path of 1 to %zu bytes", ESC(path),
                                 sizeof(sa.sun_path) - 1);
        memcpy(sa.sun_path, path, len);
        fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (fd < 0)
                return error_set(err, -errno, "socket: %s", strerror(errno));
        r = bind_unix(fd, &sa);
        if (r == 0 && listen(fd, BACKLOG) < 0)
                r = -errno;
        if (r < 0)
                return error_set(err, r, "unix:%s: %s%s", ESC(path), strerror(-r),
                                 r == -EADDRINUSE ? ": another process serves it, or it is no socket" : "");
        (void) snprintf(text, LISTEN_TEXT_MAX, "unix:%s", sa.sun_path);
        *ret_fd = TAKE_FD(fd);
        return 0;
}

/* --- TCP --------------------------------------------------------------------------------------------------
 */

static int parse_tcp(const char *where, struct addr *ret, uint16_t *ret_port, struct error *err) {
        const char *colon = strrchr(where, ':');
        uint64_t port = 0;
        size_t n;

        if (!colon || parse_u64(colon + 1, 0, 65535, &port) < 0)
                return error_set(err, -EINVAL, "'%s': want ADDRESS:PORT or unix:PATH", ESC(where));
        n = (size_t) (colon - where);
        *ret_port = (uint16_t) port;
        if (n == 0 || (n == 1 && *where == '*'))
                return addr_parse("::", 2, ret);
        if (n == 9 && memcmp(where, "localhost", 9) == 0)
                return addr_parse("127.0.0.1", 9, ret);
        if (n > 2 && where[0] == '[' && where[n - 1] == ']' && addr_parse(where + 1, n - 2, ret) == 0)
                return 0;
        if (where[0] != '[' && memchr(where, ':', n) == NULL && addr_parse(where, n, ret) == 0)
                return 0;
        return error_set(err, -EINVAL, "'%s': want an address, such as 127.0.0.1:8080 or [::1]:8080",
                         ESC(where));
}

static void tcp_text(int fd, char text[LISTEN_TEXT_MAX]) {
        struct sockaddr_storage ss = { 0 };
        socklen_t len = sizeof(ss);
        char name[ADDR_TEXT_MAX];
        struct addr addr;
        uint16_t port;

        if (getsockname(fd, (struct sockaddr *) &ss, &len) < 0 ||
            addr_from_sock((const struct sockaddr *) &ss, &addr) < 0)
                return;
        port = ss.ss_family == AF_INET ? ((const struct sockaddr_in *) &ss)->sin_port
                                       : ((const struct sockaddr_in6 *) &ss)->sin6_port;
        (void) snprintf(text, LISTEN_TEXT_MAX, addr_is_ipv4(&addr) ? "%s:%u" : "[%s]:%u",
                        addr_text(&addr, name), ntohs(port));
}

static int open_tcp(const char *where, int *ret_fd, char text[LISTEN_TEXT_MAX], struct error *err) {
        struct sockaddr_storage ss;
        AUTO_FD int fd = -1;
        struct addr addr;
        uint16_t port = 0;
        socklen_t len;
        int r;

        r = parse_tcp(where, &addr, &port, err);
        if (r < 0)
                return r;
        len = addr_to_sock(&addr, port, &ss);
        fd = socket(ss.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (fd < 0)
                return error_set(err, -errno, "'%s': %s", ESC(where), strerror(errno));
        (void) setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &(int){ 1 }, sizeof(int));
        if (ss.ss_family == AF_INET6)
                (void) setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &(int){ 0 }, sizeof(int));
        /* clients inherit it */
        (void) setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){ 1 }, sizeof(int));
        if (bind(fd, (const struct sockaddr *) &ss, len) < 0 || listen(fd, BACKLOG) < 0)
                return error_set(err, -errno, "'%s': %s", ESC(where), strerror(errno));
        tcp_text(fd, text);
        *ret_fd = TAKE_FD(fd);
        return 0;
}

int listen_open(const char *where, int *ret_fd, char ret_text[LISTEN_TEXT_MAX], struct error *err) {
        const char *path = listen_is_unix(where);

        return path ? open_unix(path, ret_fd, ret_text, err) : open_tcp(where, ret_fd, ret_text, err);
}
