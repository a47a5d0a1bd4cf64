#include "netns/http.h"

#include <errno.h>
#include <string.h>
#include <strings.h>

#include "runtime/base/cleanup.h"

static bool is_token_byte(char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
               (c && strchr("!#$%&'*+-.^_`|~", c));
}

/* In a value: no control byte but the tab; bytes above 0x7f are old text that is nobody's syntax. */
static bool is_value_byte(char c) {
        return c == '\t' || ((unsigned char) c >= 0x20 && c != 0x7f);
}

/* In a target. A host may be UTF-8 there, which host.h makes A-labels of; the rest is ASCII. */
static bool is_target_byte(char c) {
        return (unsigned char) c > 0x20 && c != 0x7f && c != '#';
}

static bool is_path_byte(char c) {
        return is_target_byte(c) && (unsigned char) c < 0x80;
}

static bool all(struct http_text t, bool (*is)(char)) {
        for (size_t i = 0; i < t.len; i++) {
                if (!is(t.s[i]))
                        return false;
        }
        return true;
}

bool http_text_is(struct http_text t, const char *word) {
        return t.len == strlen(word) && strncasecmp(t.s, word, t.len) == 0;
}

static bool text_equal(struct http_text a, struct http_text b) {
        return a.len == b.len && strncasecmp(a.s, b.s, a.len) == 0;
}

static struct http_text trim(struct http_text t) {
        while (t.len > 0 && (*t.s == ' ' || *t.s == '\t')) {
                t.s++;
                t.len--;
        }
        while (t.len > 0 && (t.s[t.len - 1] == ' ' || t.s[t.len - 1] == '\t'))
                t.len--;
        return t;
}

/* --- lines ---------------------------------------------------------------------------------------------- */

struct lines {
        const char *s, *start, *end; /* @s: what is left */
};

/* The next line without its CR LF. Return: 0, -EAGAIN, -EINVAL, -E2BIG. */
static int next_line(struct lines *in, struct http_text *ret, struct error *err) {
        const size_t left = (size_t) (in->end - in->s);
        const char *lf = memchr(in->s, '\n', left);
        const char *cr = memchr(in->s, '\r', lf ? (size_t) (lf - in->s) : left);
        const size_t len = lf ? (size_t) (lf - in->s) : left;

        if (len > HTTP_LINE_BYTES_MAX || (size_t) (in->s - in->start) + len >= HTTP_HEAD_BYTES_MAX)
                return error_set(err, -E2BIG, "a head or a line of it is too long");
        if (lf ? cr != lf - 1 : cr && cr + 1 != in->end)
                return error_set(err, -EINVAL, "a line does not end with CR LF");
        if (!lf)
                return -EAGAIN;
        *ret = (struct http_text){ in->s, len - 1 };
        in->s = lf + 1;
        return 0;
}

static int parse_header(struct http_text line, struct http_header *ret, struct error *err) {
        const char *colon = memchr(line.s, ':', line.len);
        struct http_header h;

        if (*line.s == ' ' || *line.s == '\t')
                return error_set(err, -EINVAL, "a folded header");
        if (!colon)
                return error_set(err, -EINVAL, "a header without a colon");
        h.name = (struct http_text){ line.s, (size_t) (colon - line.s) };
        h.value = (struct http_text){ colon + 1, line.len - h.name.len - 1 };
        if (h.name.len == 0 || !all(h.name, is_token_byte))
                return error_set(err, -EINVAL, "a header name with a byte that none has");
        if (!all(h.value, is_value_byte))
                return error_set(err, -EINVAL, "a header with a control byte");
        h.value = trim(h.value);
        *ret = h;
        return 0;
}

static int parse_headers(struct lines *in, struct http_head *head, struct error *err) {
        struct http_text line;
        int r;

        head->n_headers = 0;
        for (;;) {
                r = next_line(in, &line, err);
                if (r < 0 || line.len == 0)
                        return r;
                if (head->n_headers == HTTP_HEADERS_MAX)
                        return error_set(err, -E2BIG, "more than %d headers", HTTP_HEADERS_MAX);
                r = parse_header(line, &head->headers[head->n_headers], err);
                if (r < 0)
                        return r;
                head->n_headers++;
        }
}

/* Finds the only header @name. Return: 0 (*ret.s NULL: none), -EINVAL (more than one). */
static int find_one(const struct http_head *head, const char *name, struct http_text *ret,
                    struct error *err) {
        struct http_text found = { NULL, 0 };

        for (size_t i = 0; i < head->n_headers; i++) {
                if (!http_text_is(head->headers[i].name, name))
                        continue;
                if (found.s)
                        return error_set(err, -EINVAL, "more than one %s", name);
                found = head->headers[i].value;
        }
        *ret = found;
        return 0;
}

static int parse_version(struct http_text t, int *ret, struct error *err) {
        if (t.len != 8 || memcmp(t.s, "HTTP/1.", 7) != 0 || (t.s[7] != '0' && t.s[7] != '1'))
                return error_set(err, -EINVAL, "a version other than HTTP/1.0 and HTTP/1.1");
        *ret = t.s[7] - '0';
        return 0;
}

/* --- framing -------------------------------------------------------------------------------------------- */

static int parse_length(struct http_text t, uint64_t *ret, struct error *err) {
        uint64_t v = 0;

        for (size_t i = 0; i < t.len; i++) {
                if (t.s[i] < '0' || t.s[i] > '9')
                        return error_set(err, -EINVAL, "a Content-Length that is not a number");
                if (__builtin_mul_overflow(v, 10U, &v) ||
                    __builtin_add_overflow(v, (unsigned int) (t.s[i] - '0'), &v) || v > INT64_MAX)
                        return error_set(err, -EINVAL, "a Content-Length that is too large");
        }
        if (t.len == 0)
                return error_set(err, -EINVAL, "an empty Content-Length");
        *ret = v;
        return 0;
}

static int parse_framing(struct http_head *head, struct error *err) {
        struct http_text length, coding;
        int r;

        r = find_one(head, "Content-Length", &length, err);
        if (r == 0)
                r = find_one(head, "Transfer-Encoding", &coding, err);
        if (r < 0)
                return r;
        head->framing = HTTP_NO_BODY;
        head->length = 0;
        if (length.s && coding.s)
                return error_set(err, -EINVAL, "Content-Length and Transfer-Encoding together");
        if (coding.s) {
                if (head->minor == 0 || !http_text_is(coding, "chunked"))
                        return error_set(err, -EINVAL, "a Transfer-Encoding other than chunked");
                head->framing = HTTP_CHUNKED;
        }
        if (!length.s)
                return 0;
        head->framing = HTTP_LENGTH;
        return parse_length(length, &head->length, err);
}

/* --- what Connection names -------------------------------------------------------------------------------
 */

/* The next element of a comma-separated list; moves @list past it. */
static struct http_text next_element(struct http_text *list) {
        const char *comma = memchr(list->s, ',', list->len);
        const struct http_text element = { list->s, comma ? (size_t) (comma - list->s) : list->len };

        list->s += element.len + (comma ? 1 : 0);
        list->len -= element.len + (comma ? 1 : 0);
        return trim(element);
}

static bool connection_names(const struct http_head *head, struct http_text name) {
        for (size_t i = 0; i < head->n_headers; i++) {
                struct http_text list = head->headers[i].value;

                if (!http_text_is(head->headers[i].name, "Connection") &&
                    !http_text_is(head->headers[i].name, "Proxy-Connection"))
                        continue;
                while (list.len > 0) {
                        if (text_equal(next_element(&list), name))
                                return true;
                }
        }
        return false;
}

static bool is_hop_by_hop(struct http_text name) {
        static const char *const names[] = {
                "Connection",
                "Proxy-Connection",
                "Keep-Alive",
                "Proxy-Authenticate",
                "TE",
                "Upgrade",
                "Proxy-Authorization",
                "Proxy-Authentication-Info",
                "HTTP2-Settings",
        };

        for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
                if (http_text_is(name, names[i]))
                        return true;
        }
        return false;
}

bool http_header_is_hop(const struct http_head *head, struct http_text name) {
        return is_hop_by_hop(name) || connection_names(head, name);
}

/* A head whose Connection would take away what says where it goes or ends. */
static int check_connection(struct http_head *head, struct error *err) {
        static const char *const kept[] = { "Host", "Content-Length", "Transfer-Encoding", "Trailer" };
        struct http_text upgrade;
        int r;

        for (size_t i = 0; i < ARRAY_SIZE(kept); i++) {
                if (connection_names(head, (struct http_text){ kept[i], strlen(kept[i]) }))
                        return error_set(err, -EINVAL, "Connection names %s", kept[i]);
        }
        r = find_one(head, "Upgrade", &upgrade, err);
        if (r < 0)
                return r;
        head->upgrade = upgrade.s && http_text_is(upgrade, "websocket") &&
                        connection_names(head, (struct http_text){ "Upgrade", 7 });
        return 0;
}

/* --- requests ------------------------------------------------------------------------------------------- */

static int parse_authority(struct http_text t, uint16_t default_port, struct http_request *ret,
                           struct error *err) {
        return host_parse_authority(t.s, t.len, default_port, &ret->host, &ret->port, err);
}

static int parse_target(struct http_text target, uint16_t origin_port, struct http_request *ret,
                        struct error *err) {
        static const char scheme[] = "http://";
        const size_t n = sizeof(scheme) - 1;
        struct http_text authority;

        if (target.len == 0 || !all(target, is_target_byte))
                return error_set(err, -EINVAL, "a target with a byte that none has");
        ret->path = (struct http_text){ NULL, 0 };
        if (ret->method.len == 7 && memcmp(ret->method.s, "CONNECT", 7) == 0) {
                ret->form = HTTP_CONNECT;
                return parse_authority(target, 0, ret, err);
        }
        if (*target.s == '/' && origin_port != 0) {
                ret->form = HTTP_ORIGIN;
                ret->path = target;
                return all(target, is_path_byte)
                               ? 0
                               : error_set(err, -EINVAL, "a path with a byte that none has");
        }
        if (target.len < n || strncasecmp(target.s, scheme, n) != 0)
                return error_set(err, -EINVAL, "a target that is no http:// URL (https needs CONNECT)");
        ret->form = HTTP_ABSOLUTE;
        authority = (struct http_text){ target.s + n, 0 };
        while (authority.len < target.len - n && authority.s[authority.len] != '/' &&
               authority.s[authority.len] != '?')
                authority.len++;
        ret->path = (struct http_text){ authority.s + authority.len, target.len - n - authority.len };
        if (!all(ret->path, is_path_byte))
                return error_set(err, -EINVAL, "a path with a byte that none has");
        return parse_authority(authority, 80, ret, err);
}

/* Host: the only place of the name (HTTP_ORIGIN), or the same as in the target. */
static int check_host(struct http_request *ret, uint16_t origin_port, struct error *err) {
        struct http_text text;
        struct host host;
        uint16_t port;
        int r;

        r = find_one(&ret->head, "Host", &text, err);
        if (r < 0)
                return r;
        if (!text.s) {
                if (ret->head.minor == 0 && ret->form != HTTP_ORIGIN)
                        return 0;
                return error_set(err, -EINVAL, "no Host");
        }
        if (ret->form == HTTP_ORIGIN)
                return parse_authority(text, origin_port, ret, err);
        r = host_parse_authority(text.s, text.len, ret->form == HTTP_CONNECT ? ret->port : 80, &host, &port,
                                 err);
        if (r < 0)
                return error_wrap(err, r, "Host");
        if (strcmp(host.name, ret->host.name) != 0 || port != ret->port)
                return error_set(err, -EINVAL, "Host and the target differ");
        return 0;
}

static int parse_request_line(struct http_text line, uint16_t origin_port, struct http_request *ret,
                              struct error *err) {
        const char *a = memchr(line.s, ' ', line.len), *b = memrchr(line.s, ' ', line.len);
        struct http_text target, version;
        int r;

        if (!a || a == b)
                return error_set(err, -EINVAL, "a request line that is not METHOD TARGET VERSION");
        ret->method = (struct http_text){ line.s, (size_t) (a - line.s) };
        target = (struct http_text){ a + 1, (size_t) (b - a - 1) };
        version = (struct http_text){ b + 1, line.len - (size_t) (b + 1 - line.s) };
        if (ret->method.len == 0 || !all(ret->method, is_token_byte))
                return error_set(err, -EINVAL, "a method with a byte that none has");
        r = parse_version(version, &ret->head.minor, err);
        return r < 0 ? r : parse_target(target, origin_port, ret, err);
}

int http_request_parse(const char *buf, size_t len, uint16_t origin_port, struct http_request *ret,
                       size_t *ret_used, struct error *err) {
        struct lines in = { .s = buf, .start = buf, .end = buf + len };
        struct http_text line;
        int r;

        r = next_line(&in, &line, err);
        if (r == 0)
                r = parse_request_line(line, origin_port, ret, err);
        if (r == 0)
                r = parse_headers(&in, &ret->head, err);
        if (r == 0)
                r = check_host(ret, origin_port, err);
        if (r == 0)
                r = parse_framing(&ret->head, err);
        if (r == 0)
                r = check_connection(&ret->head, err);
        if (r == 0)
                r = find_one(&ret->head, "Proxy-Authorization", &ret->authorization, err);
        if (r < 0)
                return r;
        if (ret->form == HTTP_CONNECT && ret->head.framing != HTTP_NO_BODY)
                return error_set(err, -EINVAL, "CONNECT with a body");
        *ret_used = (size_t) (in.s - buf);
        return 0;
}

/* --- responses ------------------------------------------------------------------------------------------ */

static int parse_status_line(struct http_text line, struct http_response *ret, struct error *err) {
        int r;

        if (line.len < 12 || line.s[8] != ' ' || (line.len > 12 && line.s[12] != ' '))
                return error_set(err, -EINVAL, "a status line that is not VERSION STATUS REASON");
        r = parse_version((struct http_text){ line.s, 8 }, &ret->head.minor, err);
        if (r < 0)
                return r;
        ret->status = 0;
        for (size_t i = 9; i < 12; i++) {
                if (line.s[i] < '0' || line.s[i] > '9')
                        return error_set(err, -EINVAL, "a status that is not a number");
                ret->status = ret->status * 10 + (unsigned int) (line.s[i] - '0');
        }
        if (ret->status < 100 || ret->status > 599)
                return error_set(err, -EINVAL, "a status outside of 100..599");
        ret->reason = (struct http_text){ line.s + 12, line.len - 12 };
        if (!all(ret->reason, is_value_byte))
                return error_set(err, -EINVAL, "a status line with a control byte");
        ret->reason = trim(ret->reason);
        return 0;
}

int http_response_parse(const char *buf, size_t len, struct http_text method, struct http_response *ret,
                        size_t *ret_used, struct error *err) {
        struct lines in = { .s = buf, .start = buf, .end = buf + len };
        struct http_text line;
        int r;

        r = next_line(&in, &line, err);
        if (r == 0)
                r = parse_status_line(line, ret, err);
        if (r == 0)
                r = parse_headers(&in, &ret->head, err);
        if (r == 0)
                r = parse_framing(&ret->head, err);
        if (r == 0)
                r = check_connection(&ret->head, err);
        if (r < 0)
                return r;
        if (ret->status < 200 || ret->status == 204 || ret->status == 304 || http_text_is(method, "HEAD"))
                ret->head.framing = HTTP_NO_BODY;
        else if (ret->head.framing == HTTP_NO_BODY)
                ret->head.framing = HTTP_TO_EOF;
        *ret_used = (size_t) (in.s - buf);
        return 0;
}

/* --- writing -------------------------------------------------------------------------------------------- */

static int add_text(struct buf *out, struct http_text t) {
        return t.len > 0 ? buf_add(out, t.s, t.len) : 0;
}

static int write_header(struct buf *out, const struct http_header *h) {
        int r;

        r = add_text(out, h->name);
        if (r == 0)
                r = buf_str(out, ": ");
        if (r == 0)
                r = add_text(out, h->value);
        return r == 0 ? buf_str(out, "\r\n") : r;
}

static int write_headers(const struct http_head *head, struct buf *out) {
        int r = 0;

        for (size_t i = 0; r == 0 && i < head->n_headers; i++) {
                const struct http_header *h = &head->headers[i];

                if (!is_hop_by_hop(h->name) && !http_text_is(h->name, "Host") &&
                    !connection_names(head, h->name))
                        r = write_header(out, h);
        }
        if (r < 0)
                return r;
        return buf_str(out, head->upgrade ? "Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
                                          : "Connection: close\r\n\r\n");
}

int http_request_write(const struct http_request *q, struct buf *out) {
        const bool v6 = q->host.kind == HOST_ADDR && !addr_is_ipv4(&q->host.addr);
        char port[8] = "";
        int r;

        if (q->port != 80)
                (void) snprintf(port, sizeof(port), ":%u", q->port);
        r = add_text(out, q->method);
        if (r == 0)
                r = buf_str(out, q->path.len > 0 && *q->path.s == '/' ? " " : " /");
        if (r == 0)
                r = add_text(out, q->path);
        if (r == 0)
                r = buf_fmt(out, " HTTP/1.%d\r\nHost: %s%s%s%s\r\n", q->head.minor, v6 ? "[" : "",
                            q->host.name, v6 ? "]" : "", port);
        return r == 0 ? write_headers(&q->head, out) : r;
}

int http_response_write(const struct http_response *p, struct buf *out) {
        int r;

        r = buf_fmt(out, "HTTP/1.%d %u ", p->head.minor, p->status);
        if (r == 0)
                r = add_text(out, p->reason);
        if (r == 0)
                r = buf_str(out, "\r\n");
        return r == 0 ? write_headers(&p->head, out) : r;
}
