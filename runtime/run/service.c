#include "runtime/run/service.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "netns/http-body.h"
#include "netns/http.h"
#include "runtime/base/buf.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/escape.h"
#include "runtime/base/json.h"
#include "runtime/base/parse.h"

enum { ANSWER_BYTES_MAX = 64 * 1024, SHOWN_MAX = 200, LOOPBACK_NET = 127 };

union address {
        struct sockaddr sa;
        struct sockaddr_un un;
        struct sockaddr_in in;
        struct sockaddr_in6 in6;
};

static int unix_address(const char *path, union address *ret, socklen_t *ret_len) {
        const size_t n = strlen(path);

        if (n == 0 || n >= sizeof(ret->un.sun_path))
                return -ENAMETOOLONG;
        ret->un = (struct sockaddr_un){ .sun_family = AF_UNIX };
        memcpy(ret->un.sun_path, path, n);
        *ret_len = sizeof(ret->un);
        return 0;
}

/* "HOST:PORT", of this machine only */
static int tcp_address(const char *text, union address *ret, socklen_t *ret_len) {
        const char *colon = strrchr(text, ':');
        char host[64];
        uint64_t port;

        if (!colon || (size_t) (colon - text) >= sizeof(host) ||
            parse_u64(colon + 1, 1, UINT16_MAX, &port) < 0)
                return -EINVAL;
        (void) snprintf(host, sizeof(host), "%.*s", (int) (colon - text), text);
        if (strcmp(host, "[::1]") == 0) {
                ret->in6 = (struct sockaddr_in6){ .sin6_family = AF_INET6,
                                                  .sin6_port = htons((uint16_t) port),
                                                  .sin6_addr = IN6ADDR_LOOPBACK_INIT };
                *ret_len = sizeof(ret->in6);
                return 0;
        }
        ret->in = (struct sockaddr_in){ .sin_family = AF_INET,
                                        .sin_port = htons((uint16_t) port),
                                        .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
        *ret_len = sizeof(ret->in);
        if (strcmp(host, "localhost") == 0)
                return 0;
        return inet_pton(AF_INET, host, &ret->in.sin_addr) == 1 &&
                               ntohl(ret->in.sin_addr.s_addr) >> 24 == LOOPBACK_NET
                       ? 0
                       : -EINVAL;
}

int service_connect(const char *place, unsigned int wait_ms) {
        const struct timeval wait = { .tv_sec = wait_ms / 1000,
                                      .tv_usec = (suseconds_t) (wait_ms % 1000) * 1000 };
        union address address;
        AUTO_FD int fd = -1;
        socklen_t len = 0;
        int r = -EINVAL;

        if (strncmp(place, "unix:", 5) == 0)
                r = unix_address(place + 5, &address, &len);
        else if (strncmp(place, "http://", 7) == 0)
                r = tcp_address(place + 7, &address, &len);
        if (r < 0)
                return r;
        fd = socket(address.sa.sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &wait, sizeof(wait)) < 0 ||
            setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof(wait)) < 0 ||
            connect(fd, &address.sa, len) < 0)
                return errno == EINPROGRESS || errno == EAGAIN ? -ETIMEDOUT : -errno;
        return TAKE_FD(fd);
}

/* ---- one request ---- */

static int send_all(int fd, const char *data, size_t len) {
        while (len > 0) {
                const ssize_t n = send(fd, data, len, MSG_NOSIGNAL);

                if (n < 0 && errno == EINTR)
                        continue;
                if (n <= 0)
                        return errno == EAGAIN ? -ETIMEDOUT : -errno;
                data += n;
                len -= (size_t) n;
        }
        return 0;
}

/* Return: bytes added, 0 at the end; -errno. */
static int receive(int fd, struct buf *in) {
        char bytes[4096];
        ssize_t n;

        do
                n = recv(fd, bytes, sizeof(bytes), 0);
        while (n < 0 && errno == EINTR);
        if (n < 0)
                return errno == EAGAIN ? -ETIMEDOUT : -errno;
        if (in->len + (size_t) n > ANSWER_BYTES_MAX)
                return -EPROTO;
        return n > 0 && buf_add(in, bytes, (size_t) n) < 0 ? -ENOMEM : (int) n;
}

/* The head of the answer is in @in. @ret_used: its bytes */
static int read_head(int fd, const char *method, struct buf *in, struct http_response *ret,
                     size_t *ret_used) {
        const struct http_text asked = { method, strlen(method) };

        for (;;) {
                int r = in->len ? http_response_parse(in->data, in->len, asked, ret, ret_used, NULL)
                                : -EAGAIN;

                if (r == 0)
                        return 0;
                if (r != -EAGAIN)
                        return -EPROTO;
                r = receive(fd, in);
                if (r <= 0)
                        return r < 0 ? r : -EPROTO;
        }
}

/* What is in @in from @at on, and what follows, up to the end of the body; chunks keep their lines. */
static int read_body(int fd, const struct http_response *head, struct buf *in, size_t at) {
        struct http_body body;

        http_body_init(&body, &head->head);
        for (;;) {
                size_t used = 0;
                int r;

                if (in->len > at && http_body_feed(&body, in->data + at, in->len - at, &used) < 0)
                        return -EPROTO;
                at += used;
                if (head->head.framing == HTTP_NO_BODY || http_body_done(&body))
                        return 0;
                r = receive(fd, in);
                if (r < 0)
                        return r;
                if (r == 0)
                        return head->head.framing == HTTP_TO_EOF ? 0 : -EPROTO;
        }
}

struct exchange {
        struct buf in;
        unsigned int status;
        size_t body; /* where it begins in @in */
};

static int exchange_with(const struct service *service, const char *method, const char *path,
                         const char *body, struct exchange *ret) {
        AUTO_BUF struct buf out = { 0 };
        AUTO_FD int fd = -1;
        struct http_response head;
        int r;

        fd = service_connect(service->place, service->wait_ms);
        if (fd < 0)
                return fd;
        r = buf_fmt(&out,
                    "%s %s HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\nConnection: close\r\n"
                    "Content-Type: application/json\r\nContent-Length: %zu\r\n\r\n%s",
                    method, path, service->key, strlen(body), body);
        if (r == 0)
                r = send_all(fd, out.data, out.len);
        if (out.data)
                explicit_bzero(out.data, out.len);
        if (r == 0)
                r = read_head(fd, method, &ret->in, &head, &ret->body);
        if (r < 0)
                return r;
        ret->status = head.status;
        return read_body(fd, &head, &ret->in, ret->body);
}

static int failed(const struct service *service, const struct exchange *x, int r, struct error *err) {
        const bool answered = r == 0;
        char shown[SHOWN_MAX + 1];

        if (!answered)
                return error_set(err, r, "auth proxy at '%s' is unreachable: %s", ESC(service->place),
                                 strerror(-r));
        if (x->status == 401)
                return error_set(
                        err, -EACCES,
                        "auth proxy at '%s' refuses the key: set IRONFLOW_AUTH_PROXY_ADMIN_KEY to its own",
                        ESC(service->place));
        (void) snprintf(shown, sizeof(shown), "%.*s", SHOWN_MAX, buf_cstr(&x->in) + x->body);
        return error_set(err, -EPROTO, "auth proxy admin API returned HTTP %u: %s", x->status, ESC(shown));
}

static int take_token(const struct exchange *x, struct service_token *ret) {
        AUTO_JSON json_t *json =
                json_loadb(x->in.data + x->body, x->in.len - x->body, JSON_REJECT_DUPLICATES, NULL);
        const char *token = json_string_value(json_object_get(json, "token"));
        const char *id = json_string_value(json_object_get(json, "id"));

        if (!token || !id || strlen(token) >= sizeof(ret->token) || strlen(id) >= sizeof(ret->id) ||
            !*token || !*id || strpbrk(token, "\r\n=") || strpbrk(id, "/?#% \r\n"))
                return -EPROTO;
        (void) snprintf(ret->token, sizeof(ret->token), "%s", token);
        (void) snprintf(ret->id, sizeof(ret->id), "%s", id);
        return 0;
}

int service_issue(const struct service *service, const json_t *request, struct service_token *ret,
                  struct error *err) {
        struct exchange x = { 0 };
        char *body = json_dumps(request, JSON_COMPACT);
        int r;

        if (!body)
                return error_set(err, -ENOMEM, "out of memory");
        r = exchange_with(service, "POST", "/admin/v1/tokens", body, &x);
        explicit_bzero(body, strlen(body));
        free(body);
        if (r < 0 || x.status != 201)
                r = failed(service, &x, r, err);
        else if (take_token(&x, ret) < 0)
                r = error_set(err, -EPROTO, "auth proxy at '%s' issued no token that can be used",
                              ESC(service->place));
        if (x.in.data)
                explicit_bzero(x.in.data, x.in.len);
        buf_deinit(&x.in);
        return r;
}

static int delete (const struct service *service, const char *path, unsigned int also, struct error *err) {
        struct exchange x = { 0 };
        int r;

        r = exchange_with(service, "DELETE", path, "", &x);
        if (r < 0 || (x.status != 200 && x.status != 204 && x.status != also))
                r = failed(service, &x, r, err);
        buf_deinit(&x.in);
        return r;
}

int service_revoke(const struct service *service, const char *id, struct error *err) {
        char path[SERVICE_ID_MAX + 32];

        (void) snprintf(path, sizeof(path), "/admin/v1/tokens/%s", id);
        return delete (service, path, 404, err);
}

int service_revoke_run(const struct service *service, const char *run, struct error *err) {
        char path[SERVICE_ID_MAX + 32];

        (void) snprintf(path, sizeof(path), "/admin/v1/runs/%s/tokens", run);
        return delete (service, path, 404, err);
}
