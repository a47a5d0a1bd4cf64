/*
 * DOC: theory of operation
 *
 * libcurl connects (proxies, TLS, client certificates) and hands the connection over: CURLOPT_CONNECT_ONLY.
 * The handle stays in the multi handle, whose cache of connections owns it. The head of the answer is read by
 * netns/http.c, which is strict; Sec-WebSocket-Accept is compared, so that an answer from a cache or of a
 * confused proxy is none.
 */
#include "kubernetes/client/upgrade.h"

#include <openssl/evp.h>
#include <openssl/rand.h>
#include <poll.h>
#include <string.h>

#include "netns/http.h"
#include "runtime/base/clock.h"
#include "runtime/base/escape.h"

enum { KEY_BYTES = 16, KEY_TEXT = 25, ACCEPT_TEXT = 29, REFUSAL_MAX = 64 << 10 };

struct upgrade {
        struct transfer *transfer;
        int fd;
        char protocol[64];
        struct buf in; /* bytes that came behind the head */
        size_t taken;
};

struct upgrade *upgrade_free(struct upgrade *u) {
        if (!u)
                return NULL;
        (void) transfer_free(u->transfer);
        buf_deinit(&u->in);
        free(u);
        return NULL;
}

const char *upgrade_protocol(const struct upgrade *u) {
        return u->protocol;
}

int upgrade_fd(const struct upgrade *u) {
        return u->fd;
}

ssize_t upgrade_recv(struct upgrade *u, void *buf, size_t len) {
        size_t n = u->in.len - u->taken;
        CURLcode r;

        if (n > 0) {
                n = n < len ? n : len;
                memcpy(buf, u->in.data + u->taken, n);
                u->taken += n;
                return (ssize_t) n;
        }
        r = curl_easy_recv(u->transfer->easy, buf, len, &n);
        if (r == CURLE_OK)
                return (ssize_t) n;
        return r == CURLE_AGAIN ? -EAGAIN : -ECONNRESET;
}

ssize_t upgrade_send(struct upgrade *u, const void *buf, size_t len) {
        size_t n = 0;
        const CURLcode r = curl_easy_send(u->transfer->easy, buf, len, &n);

        if (r == CURLE_OK)
                return (ssize_t) n;
        return r == CURLE_AGAIN ? -EAGAIN : -ECONNRESET;
}

/* --- the handshake
 * ------------------------------------------------------------------------------------------- */

static int connect_it(struct kube *kube, struct upgrade *u, struct error *err) {
        struct transfer *t = u->transfer;
        curl_socket_t fd = CURL_SOCKET_BAD;
        int r = 0;

        if (curl_easy_setopt(t->easy, CURLOPT_CONNECT_ONLY, 1L) != CURLE_OK ||
            curl_easy_setopt(t->easy, CURLOPT_FRESH_CONNECT, 1L) != CURLE_OK)
                return error_set(err, -ENOMEM, "out of memory");
        r = transfer_add(t);
        if (r < 0)
                return error_set(err, r, "out of memory");
        while (r == 0 && !t->done)
                r = kube_turn(kube, UINT64_MAX, err);
        if (r == 0)
                r = transfer_error(t, err);
        if (r == 0 &&
            (curl_easy_getinfo(t->easy, CURLINFO_ACTIVESOCKET, &fd) != CURLE_OK || fd == CURL_SOCKET_BAD))
                r = error_set(err, -ENETUNREACH, "connect: no socket");
        u->fd = fd;
        return r;
}

static int write_head(const struct transfer *t, const char *protocols, const char *key, struct buf *out) {
        const char *authority = strstr(t->url, "://") + 3;
        const char *target = strchr(authority, '/');
        int r = buf_fmt(out, "GET %s HTTP/1.1\r\n", target ? target : "/");
        bool host = false;

        for (const struct curl_slist *h = t->headers; h && r == 0; h = h->next) {
                host = host || strncmp(h->data, "Host:", 5) == 0;
                r = buf_fmt(out, "%s\r\n", h->data);
        }
        if (r == 0 && !host)
                r = buf_fmt(out, "Host: %.*s\r\n", (int) strcspn(authority, "/"), authority);
        return r < 0 ? r
                     : buf_fmt(out,
                               "User-Agent: cofferdam/%s\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                               "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: "
                               "%s\r\nSec-WebSocket-Protocol: %s\r\n\r\n",
                               COFFERDAM_VERSION, key, protocols);
}

/* Waits until the socket can be read or written. */
static int wait_fd(struct kube *kube, int fd, short events, uint64_t deadline, struct error *err) {
        struct curl_waitfd w = { .fd = fd,
                                 .events = events == POLLIN ? CURL_WAIT_POLLIN : CURL_WAIT_POLLOUT };

        if (clock_ns() >= deadline)
                return error_set(err, -ETIMEDOUT, "'%s': no answer to the upgrade",
                                 ESC(kube_config_server(kube_config_of(kube))));
        return kube_turn_with(kube, &w, 1, deadline, err);
}

static int send_head(struct kube *kube, struct upgrade *u, const struct buf *head, uint64_t deadline,
                     struct error *err) {
        size_t at = 0;

        while (at < head->len) {
                const ssize_t n = upgrade_send(u, head->data + at, head->len - at);
                int r;

                if (n > 0) {
                        at += (size_t) n;
                        continue;
                }
                if (n != -EAGAIN)
                        return error_set(err, -ECONNRESET, "the connection broke before the upgrade");
                r = wait_fd(kube, u->fd, POLLOUT, deadline, err);
                if (r < 0)
                        return r;
        }
        return 0;
}

/* One piece more of what the server says into @u->in. Return: bytes, 0: the end, or negative errno. */
static ssize_t receive(struct kube *kube, struct upgrade *u, uint64_t deadline, struct error *err) {
        char part[4096];
        size_t n = 0;

        for (;;) {
                const CURLcode c = curl_easy_recv(u->transfer->easy, part, sizeof(part), &n);
                int r;

                if (c == CURLE_OK && n > 0)
                        return buf_add(&u->in, part, n) < 0 ? -EFBIG : (ssize_t) n;
                if (c != CURLE_AGAIN)
                        return c == CURLE_OK ? 0 : -ECONNRESET;
                r = wait_fd(kube, u->fd, POLLIN, deadline, err);
                if (r < 0)
                        return r;
        }
}

static struct http_text header(const struct http_head *head, const char *name) {
        for (size_t i = 0; i < head->n_headers; i++)
                if (http_text_is(head->headers[i].name, name))
                        return head->headers[i].value;
        return (struct http_text){ 0 };
}

/* The rest of a refusal, and what it means. */
static int refused(struct kube *kube, struct upgrade *u, const struct http_response *head, size_t used,
                   const char *path, uint64_t deadline, struct error *err) {
        const unsigned status = head->status;
        const bool counted = head->head.framing == HTTP_LENGTH;
        const uint64_t length = counted ? head->head.length : REFUSAL_MAX;
        struct kube_failure failure;

        while (head->head.framing != HTTP_NO_BODY && u->in.len - used < length && u->in.len < REFUSAL_MAX)
                if (receive(kube, u, deadline, NULL) <= 0)
                        break;
        kube_failure_read((int) status, u->in.data + used, u->in.len - used, &failure);
        /* Kubernetes before 1.30 answers a subprotocol that it does not know with 403 and no word */
        if ((status == 403 || status == 400) && failure.reason[0] == '\0')
                return error_set(err, -EPROTONOSUPPORT,
                                 "GET %s: %u: the server takes none of our subprotocols", path, status);
        return kube_refused(kube, &failure, "GET", path, err);
}

/* Whether @one is in the comma-separated @list. */
static bool is_offered(const char *list, struct http_text one) {
        while (*list) {
                const size_t n = strcspn(list, ", ");

                if (n == one.len && memcmp(list, one.s, n) == 0)
                        return true;
                list += n + strspn(list + n, ", ");
        }
        return false;
}

static int accepted(struct upgrade *u, const struct http_response *head, const char *key,
                    const char *protocols, struct error *err) {
        const struct http_text accept = header(&head->head, "Sec-WebSocket-Accept");
        const struct http_text protocol = header(&head->head, "Sec-WebSocket-Protocol");
        unsigned char digest[EVP_MAX_MD_SIZE];
        char want[ACCEPT_TEXT + 4], all[128];
        unsigned n = 0;

        (void) snprintf(all, sizeof(all), "%s258EAFA5-E914-47DA-95CA-C5AB0DC85B11", key);
        if (EVP_Digest(all, strlen(all), digest, &n, EVP_sha1(), NULL) != 1)
                return error_set(err, -ENOMEM, "OpenSSL: no SHA-1");
        (void) EVP_EncodeBlock((unsigned char *) want, digest, (int) n);
        if (!head->head.upgrade || accept.len != strlen(want) || memcmp(accept.s, want, accept.len) != 0)
                return error_set(err, -EBADMSG, "the answer to the upgrade is no WebSocket's");
        if (protocol.len == 0)
                return error_set(err, -EPROTONOSUPPORT, "the server chose no subprotocol");
        if (protocol.len >= sizeof(u->protocol) || !is_offered(protocols, protocol))
                return error_set(err, -EBADMSG, "the server chose a subprotocol that was not offered");
        memcpy(u->protocol, protocol.s, protocol.len);
        return 0;
}

static int read_answer(struct kube *kube, struct upgrade *u, const char *key, const char *protocols,
                       const char *path, uint64_t deadline, struct error *err) {
        static const struct http_text get = { "GET", 3 };
        AUTO_FREE struct http_response *head = malloc(sizeof(*head));
        size_t used = 0;
        int r = -EAGAIN;

        if (!head)
                return error_set(err, -ENOMEM, "out of memory");
        while (r == -EAGAIN) {
                const ssize_t n = receive(kube, u, deadline, err);

                if (n <= 0)
                        return n == 0 || n == -ECONNRESET || n == -EFBIG
                                       ? error_set(err, n == -EFBIG ? -EFBIG : -ECONNRESET,
                                                   "GET %s: the connection ended before the upgrade", path)
                                       : (int) n;
                r = http_response_parse(u->in.data, u->in.len, get, head, &used, err);
        }
        if (r < 0)
                return error_wrap(err, -EBADMSG, "GET %s", path);
        if (head->status != 101)
                return refused(kube, u, head, used, path, deadline, err);
        u->taken = used;
        return accepted(u, head, key, protocols, err);
}

int upgrade_open(struct kube *kube, const char *path, const char *query, const char *protocols, bool again,
                 struct upgrade **ret, struct error *err) {
        const uint64_t deadline = clock_ns() + (uint64_t) KUBE_CALL_MS * 1000000;
        AUTO_UPGRADE struct upgrade *u = calloc(1, sizeof(*u));
        AUTO_BUF struct buf head = { 0 };
        unsigned char random[KEY_BYTES];
        char key[KEY_TEXT + 4];
        int r;

        if (!u || RAND_bytes(random, sizeof(random)) != 1)
                return error_set(err, -ENOMEM, "out of memory");
        u->fd = -1;
        u->in.max = 2 * (size_t) REFUSAL_MAX;
        (void) EVP_EncodeBlock((unsigned char *) key, random, sizeof(random));
        r = transfer_new(kube, &u->transfer, err);
        if (r == 0)
                r = transfer_equip(u->transfer, path, query, again, err);
        if (r == 0)
                r = connect_it(kube, u, err);
        if (r == 0 && write_head(u->transfer, protocols, key, &head) < 0)
                r = error_set(err, -ENOMEM, "out of memory");
        if (r == 0)
                r = send_head(kube, u, &head, deadline, err);
        if (head.data)
                OPENSSL_cleanse(head.data, head.len);
        if (r == 0)
                r = read_answer(kube, u, key, protocols, path, deadline, err);
        if (r < 0)
                return r;
        *ret = TAKE_PTR(u);
        return 0;
}
