#include "runtime/agent/runner/http.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "runtime/base/cleanup.h"
#include "runtime/base/clock.h"
#include "runtime/base/escape.h"

enum { READ_BYTES = 16 * 1024, CONNECT_MS = 10000, INTERIM_MAX = 8, AUTHORITY_MAX = 512 };

static const uint64_t MS = 1000000;

/* --- URLs ----------------------------------------------------------------------------------------------- */

static bool has_prefix(const char *s, const char *prefix, const char **ret_rest) {
        const size_t n = strlen(prefix);

        if (strncasecmp(s, prefix, n) != 0)
                return false;
        *ret_rest = s + n;
        return true;
}

static bool visible(const char *s) {
        for (; *s; s++) {
                if ((unsigned char) *s <= 0x20 || (unsigned char) *s >= 0x7f)
                        return false;
        }
        return true;
}

int http_url_parse(const char *text, struct http_url *ret, struct error *err) {
        struct http_url url = { 0 };
        const char *rest;
        size_t len;
        int r;

        if (strlen(text) > HTTP_URL_BYTES_MAX || !visible(text))
                return error_set(err, -EINVAL,
                                 "a URL that is too long or has blanks, control or non-ASCII bytes in it");
        url.tls = has_prefix(text, "https://", &rest);
        if (!url.tls && !has_prefix(text, "http://", &rest))
                return error_set(err, -EINVAL, "'%s' is no http or https URL", ESC(text));
        len = strcspn(rest, "/?#");
        r = host_parse_authority(rest, len, url.tls ? 443 : 80, &url.host, &url.port, err);
        if (r < 0)
                return error_wrap(err, r, "URL '%s'", ESC(text));
        url.path = rest + len;
        url.path_len = strcspn(url.path, "#");
        *ret = url;
        return 0;
}

/* Whether NO_PROXY has @host: "*", a name and all below it (with or without a dot before it), an address, a
 * net. */
static bool direct(const char *list, const struct host *host) {
        const size_t n = strlen(host->name);
        const struct addr loop4 = addr_from_ipv4(0x7f000001);
        struct cidr net;

        if (strcmp(host->name, "localhost") == 0 ||
            (host->kind == HOST_ADDR && memcmp(&host->addr, &loop4, sizeof(loop4)) == 0))
                return true;
        for (const char *s = list ? list : ""; *s;) {
                const size_t len = strcspn(s, ", ");
                const char *word = *s == '.' ? s + 1 : s;
                const size_t size = len - (size_t) (word - s);

                if (len == 1 && *s == '*')
                        return true;
                if (size > 0 && size <= n && strncasecmp(host->name + n - size, word, size) == 0 &&
                    (size == n || (host->kind == HOST_NAME && host->name[n - size - 1] == '.')))
                        return true;
                if (host->kind == HOST_ADDR && cidr_parse(word, size, &net) == 0 &&
                    cidr_has(&net, &host->addr))
                        return true;
                s += len + strspn(s + len, ", ");
        }
        return false;
}

/* --- proxies -------------------------------------------------------------------------------------------- */

/** struct proxy - where it is, and who it is told that we are */
struct proxy {
        struct http_url at;
        char basic[AUTHORITY_MAX * 2]; /* base64; empty: nobody */
};

static void base64(const char *s, size_t len, char *out) {
        static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

        for (size_t i = 0; i < len; i += 3) {
                unsigned int v = (unsigned int) (unsigned char) s[i] << 16;

                if (i + 1 < len)
                        v |= (unsigned int) (unsigned char) s[i + 1] << 8;
                if (i + 2 < len)
                        v |= (unsigned char) s[i + 2];
                *out++ = digits[v >> 18 & 63];
                *out++ = digits[v >> 12 & 63];
                *out++ = i + 1 < len ? digits[v >> 6 & 63] : '=';
                *out++ = i + 2 < len ? digits[v & 63] : '=';
        }
        *out = '\0';
}

static int proxy_parse(const char *text, struct proxy *ret, struct error *err) {
        char url[AUTHORITY_MAX + 16];
        const char *rest = text, *at;

        if (strstr(text, "://") && !has_prefix(text, "http://", &rest))
                return error_set(err, -EINVAL, "the proxy has to be an http:// URL");
        at = memrchr(rest, '@', strcspn(rest, "/"));
        ret->basic[0] = '\0';
        if (strlen(rest) >= AUTHORITY_MAX)
                return error_set(err, -EINVAL, "the proxy's URL is too long");
        if (at)
                base64(rest, (size_t) (at - rest), ret->basic);
        (void) snprintf(url, sizeof(url), "http://%s", at ? at + 1 : rest);
        if (http_url_parse(url, &ret->at, err) < 0)
                return error_wrap(err, -EINVAL, "the proxy's URL");
        ret->at.path = "";
        return 0;
}

/* --- requests ------------------------------------------------------------------------------------------- */

static void authority(const struct http_url *url, bool with_port, char out[AUTHORITY_MAX]) {
        const bool v6 = url->host.kind == HOST_ADDR && !addr_is_ipv4(&url->host.addr);
        char port[8] = "";

        if (with_port || url->port != (url->tls ? 443 : 80))
                (void) snprintf(port, sizeof(port), ":%u", url->port);
        (void) snprintf(out, AUTHORITY_MAX, "%s%s%s%s", v6 ? "[" : "", url->host.name, v6 ? "]" : "", port);
}

static bool value_valid(const char *s) {
        for (; *s; s++) {
                if ((unsigned char) *s < 0x20 || *s == 0x7f)
                        return false;
        }
        return true;
}

static int write_extra(const struct http_extra *extra, struct buf *out, struct error *err) {
        int r = 0;

        for (; r == 0 && extra && extra->name; extra++) {
                if (!value_valid(extra->name) || strpbrk(extra->name, ": ") || !*extra->name ||
                    !value_valid(extra->value))
                        return error_set(err, -EINVAL, "a header with control bytes, or a name that is none");
                r = buf_fmt(out, "%s: %s\r\n", extra->name, extra->value);
        }
        return r;
}

static int write_head(const char *method, const struct http_url *url, const struct proxy *absolute,
                      const struct http_extra *extra, const struct buf *content, struct buf *out,
                      struct error *err) {
        char host[AUTHORITY_MAX];
        int r;

        authority(url, false, host);
        r = buf_fmt(out, "%s %s%s%s%.*s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n", method,
                    absolute ? "http://" : "", absolute ? host : "", *url->path == '/' ? "" : "/",
                    (int) url->path_len, url->path, host);
        if (r == 0 && absolute && absolute->basic[0])
                r = buf_fmt(out, "Proxy-Authorization: Basic %s\r\n", absolute->basic);
        if (r == 0)
                r = write_extra(extra, out, err);
        if (r == 0 && content)
                r = buf_fmt(out, "Content-Length: %zu\r\n", content->len);
        return r == 0 ? buf_str(out, "\r\n") : r;
}

/* Reads more of the answer. Return: 0 (also at its end: see @eof), -errno. */
static int more(struct http_exchange *x, uint64_t deadline_ns) {
        char room[READ_BYTES];
        ssize_t n;
        int r;

        /* one that always has something to say is never waited for: the time and the launcher are asked here
         */
        if (clock_ns() >= deadline_ns)
                return -ETIMEDOUT;
        r = wire_poll(x->stream.wire, NULL, 0, 1);
        if (r < 0)
                return r;
        n = stream_read(&x->stream, room, sizeof(room), deadline_ns);
        if (x->used > 0 && x->in.len > 0) {
                memmove(x->in.data, x->in.data + x->used, x->in.len - x->used);
                x->in.len -= x->used;
                x->used = 0;
        }
        if (n == 0)
                x->eof = true;
        return n > 0 ? buf_add(&x->in, room, (size_t) n) : (int) n;
}

static void copy_text(struct http_text t, char *out, size_t size) {
        (void) snprintf(out, size, "%.*s", t.len < size ? (int) t.len : 0, t.len < size ? t.s : "");
}

static void keep_headers(const struct http_head *head, struct http_exchange *x) {
        for (size_t i = 0; i < head->n_headers; i++) {
                const struct http_header *h = &head->headers[i];

                if (http_text_is(h->name, "Content-Type"))
                        copy_text(h->value, x->content_type, sizeof(x->content_type));
                else if (http_text_is(h->name, "Retry-After"))
                        copy_text(h->value, x->retry_after, sizeof(x->retry_after));
                else if (http_text_is(h->name, "Location"))
                        copy_text(h->value, x->location, sizeof(x->location));
                else if (http_text_is(h->name, "Mcp-Session-Id"))
                        copy_text(h->value, x->session, sizeof(x->session));
        }
}

/* The head of the final answer: those of 1xx are passed over. */
static int read_head(struct http_exchange *x, const char *method, uint64_t deadline_ns, struct error *err) {
        const struct http_text m = { method, strlen(method) };
        struct http_response response;
        size_t used;

        for (unsigned int interim = 0; interim <= INTERIM_MAX;) {
                int r = x->in.len > x->used ? http_response_parse(x->in.data + x->used, x->in.len - x->used,
                                                                  m, &response, &used, err)
                                            : -EAGAIN;

                if (r == -EAGAIN && x->eof)
                        return error_set(err, -ECONNRESET,
                                         "the server closed the connection before its answer");
                if (r == -EAGAIN) {
                        r = more(x, deadline_ns);
                        if (r < 0)
                                return error_set(err, r, "no answer: %s", strerror(-r));
                        continue;
                }
                if (r < 0)
                        return error_wrap(err, -EPROTO, "not an answer in HTTP/1.1");
                x->used += used;
                if (response.status == 101)
                        return error_set(err, -EPROTO, "the server changed the protocol unasked");
                if (response.status >= 200) {
                        x->status = response.status;
                        keep_headers(&response.head, x);
                        http_body_init(&x->body, &response.head);
                        return 0;
                }
                interim++;
        }
        return error_set(err, -EPROTO, "more than %d answers in between", INTERIM_MAX);
}

/* Through a proxy to the server, which then speaks TLS. */
static int tunnel(struct http_exchange *x, const struct http_url *url, const struct proxy *proxy,
                  uint64_t deadline_ns, struct error *err) {
        AUTO_BUF struct buf head = { 0 };
        char host[AUTHORITY_MAX];
        int r;

        authority(url, true, host);
        r = buf_fmt(&head, "CONNECT %s HTTP/1.1\r\nHost: %s\r\n%s%s%s\r\n", host, host,
                    proxy->basic[0] ? "Proxy-Authorization: Basic " : "", proxy->basic,
                    proxy->basic[0] ? "\r\n" : "");
        if (r == 0)
                r = stream_write(&x->stream, head.data, head.len, deadline_ns);
        if (r == 0)
                r = read_head(x, "CONNECT", deadline_ns, err);
        if (r < 0)
                return error_wrap(err, r, "proxy");
        if (x->status != 200)
                return error_set(err, -ECONNREFUSED,
                                 "the proxy refused '%s' with status %u: is the host allowed?", host,
                                 x->status);
        if (x->in.len > x->used)
                return error_set(err, -EPROTO, "the proxy said more than it should");
        buf_deinit(&x->in);
        x->used = 0;
        return 0;
}

static int reach(const struct http_net *net, const struct http_url *url, const struct proxy *proxy,
                 uint64_t deadline_ns, struct http_exchange *x, struct error *err) {
        const struct http_url *first = proxy ? &proxy->at : url;
        const uint64_t limit = clock_ns() + (net->connect_ms ? net->connect_ms : CONNECT_MS) * MS;
        int r;

        if (limit < deadline_ns)
                deadline_ns = limit;
        r = stream_connect(&x->stream, &first->host, first->port, deadline_ns, err);
        if (r == 0 && proxy && url->tls)
                r = tunnel(x, url, proxy, deadline_ns, err);
        if (r == 0 && url->tls)
                r = tls_start(&x->stream, &url->host, deadline_ns, err);
        return r;
}

int http_open(const struct http_net *net, const struct http_question *q, uint64_t deadline_ns,
              struct http_exchange *x, struct error *err) {
        AUTO_BUF struct buf head = { 0 };
        const char *proxy_text;
        struct proxy proxy;
        struct http_url url;
        int r;

        x->stream = (struct stream){ .wire = net->wire, .fd = -1, .own_authorities = net->own_authorities };
        r = http_url_parse(q->url, &url, err);
        if (r < 0)
                return r;
        proxy_text = url.tls ? net->https_proxy : net->http_proxy;
        if (!proxy_text || !*proxy_text || direct(net->no_proxy, &url.host))
                proxy_text = NULL;
        if (proxy_text)
                r = proxy_parse(proxy_text, &proxy, err);
        if (r == 0)
                r = write_head(q->method, &url, proxy_text && !url.tls ? &proxy : NULL, q->extra, q->content,
                               &head, err);
        if (r == 0)
                r = reach(net, &url, proxy_text ? &proxy : NULL, deadline_ns, x, err);
        if (r < 0)
                return r;
        r = stream_write(&x->stream, head.data, head.len, deadline_ns);
        if (r == 0 && q->content && q->content->len > 0)
                r = stream_write(&x->stream, q->content->data, q->content->len, deadline_ns);
        /* a server may answer and hang up before it has read all: what it says is still to be read */
        if (r < 0 && r != -ECONNRESET)
                return error_set(err, r, "send to '%s': %s", url.host.name, strerror(-r));
        return read_head(x, q->method, deadline_ns, err);
}

ssize_t http_read(struct http_exchange *x, void *buf, size_t size, uint64_t deadline_ns) {
        while (!http_body_done(&x->body)) {
                size_t left = x->in.len - x->used, used;
                bool data;

                if (left == 0) {
                        const int r = x->eof ? 0 : more(x, deadline_ns);

                        if (r < 0)
                                return r;
                        if (x->eof)
                                return x->body.framing == HTTP_TO_EOF ? 0 : -ECONNRESET;
                        continue;
                }
                if (left > size)
                        left = size;
                if (http_body_split(&x->body, x->in.data + x->used, left, &used, &data) < 0)
                        return -EPROTO;
                x->used += used;
                if (data && used > 0) {
                        memcpy(buf, x->in.data + x->used - used, used);
                        return (ssize_t) used;
                }
        }
        return 0;
}

int http_slurp(struct http_exchange *x, size_t max, uint64_t deadline_ns, struct buf *out) {
        char room[READ_BYTES];
        size_t total = 0;

        for (;;) {
                const ssize_t n = http_read(x, room, sizeof(room), deadline_ns);
                size_t take;
                int r;

                if (n <= 0)
                        return (int) n;
                take = (size_t) n > max - total ? max - total : (size_t) n;
                r = buf_add(out, room, take);
                if (r < 0 || take < (size_t) n)
                        return r < 0 ? r : -EFBIG;
                total += take;
        }
}

void http_close(struct http_exchange *x) {
        stream_close(&x->stream);
        buf_deinit(&x->in);
}
