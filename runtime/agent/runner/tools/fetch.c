/* web_fetch, remote_trigger: an address that the model chose, by the network of the sandbox */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "runtime/agent/runner/tools.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/clock.h"
#include "runtime/base/escape.h"
#include "runtime/base/json.h"

enum { FETCH_MS = 60000, FETCH_BYTES_MAX = 4 << 20, REDIRECTS_MAX = 5, TAG_MAX = 16 };

static const uint64_t MS = 1000000;

static bool is_text(const char *type) {
        static const char *const kinds[] = { "text/",
                                             "application/json",
                                             "application/xml",
                                             "application/xhtml+xml",
                                             "application/javascript",
                                             "application/yaml" };

        for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
                if (strncasecmp(type, kinds[i], strlen(kinds[i])) == 0)
                        return true;
        }
        return strcasestr(type, "+json") || strcasestr(type, "+xml");
}

/* --- HTML to text --------------------------------------------------------------------------------------- */

static size_t skip_element(const char *s, size_t len, const char *name) {
        char close[TAG_MAX + 4];
        const char *end;

        (void) snprintf(close, sizeof(close), "</%s", name);
        for (end = s; end + strlen(close) <= s + len; end++) {
                if (*end == '<' && strncasecmp(end, close, strlen(close)) == 0)
                        return (size_t) (end - s);
        }
        return len;
}

static const char *entity(const char *s, size_t len, size_t *ret_used) {
        static const struct {
                const char *name, *text;
        } known[] = { { "&amp;", "&" },   { "&lt;", "<" },  { "&gt;", ">" },
                      { "&quot;", "\"" }, { "&#39;", "'" }, { "&nbsp;", " " } };

        for (size_t i = 0; i < ARRAY_SIZE(known); i++) {
                const size_t n = strlen(known[i].name);

                if (len >= n && strncasecmp(s, known[i].name, n) == 0) {
                        *ret_used = n;
                        return known[i].text;
                }
        }
        return NULL;
}

static bool ends_line(const char *tag) {
        static const char *const names[] = { "p",   "/p",  "br",     "div", "/div", "li",  "tr",
                                             "h1",  "h2",  "h3",     "h4",  "/h1",  "/h2", "/h3",
                                             "/h4", "/ul", "/table", "pre", "/pre" };

        for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
                if (strcasecmp(tag, names[i]) == 0)
                        return true;
        }
        return false;
}

/* A tag at @s. Return: its bytes, with what belongs to it and is no text. */
static size_t take_tag(const char *s, size_t len, struct buf *out, int *r) {
        const char *end = memchr(s, '>', len);
        char name[TAG_MAX] = "";
        size_t n = end ? (size_t) (end - s) + 1 : len, k = 0;

        if (len > 4 && strncmp(s, "<!--", 4) == 0) {
                end = memmem(s + 4, len - 4, "-->", 3);
                return end ? (size_t) (end - s) + 3 : len;
        }
        while (k + 1 < sizeof(name) && k + 1 < n && !strchr(" \t\r\n>", s[k + 1])) {
                name[k] = s[k + 1];
                k++;
        }
        name[k] = '\0';
        if (ends_line(name) && out->len > 0 && out->data[out->len - 1] != '\n')
                *r = buf_str(out, "\n");
        if (strcasecmp(name, "script") == 0 || strcasecmp(name, "style") == 0)
                n += skip_element(s + n, len - n, name);
        return n;
}

static int html_text(const struct buf *html, struct buf *out) {
        const char *s = html->data;
        size_t at = 0, used = 0;
        int r = 0;

        while (r == 0 && at < html->len) {
                const char *text = s[at] == '&' ? entity(s + at, html->len - at, &used) : NULL;
                const bool blank = strchr(" \t\r\n", s[at]) != NULL && s[at];

                if (s[at] == '<') {
                        at += take_tag(s + at, html->len - at, out, &r);
                } else if (text) {
                        r = buf_str(out, text);
                        at += used;
                } else {
                        if (!blank)
                                r = buf_add(out, s + at, 1);
                        else if (out->len > 0 && !strchr(" \n", out->data[out->len - 1]))
                                r = buf_str(out, " ");
                        at++;
                }
        }
        return r;
}

/* --- requests ------------------------------------------------------------------------------------------- */

/* Where a redirect leads: absolute, or a path on the same server. Return: 0, -EINVAL. */
static int follow(const char *from, const char *location, char out[HTTP_URL_BYTES_MAX]) {
        const char *slashes = strstr(from, "://"),
                   *path = slashes ? slashes + 3 + strcspn(slashes + 3, "/?#") : NULL;
        const bool https = strncasecmp(from, "https://", 8) == 0;

        if (strncasecmp(location, "http://", 7) == 0 && https)
                return -EINVAL; /* what was asked under TLS is not asked in the clear */
        if (strncasecmp(location, "http://", 7) == 0 || strncasecmp(location, "https://", 8) == 0)
                return snprintf(out, HTTP_URL_BYTES_MAX, "%s", location) < HTTP_URL_BYTES_MAX ? 0 : -EINVAL;
        if (location[0] != '/' || location[1] == '/' || !path)
                return -EINVAL;
        return snprintf(out, HTTP_URL_BYTES_MAX, "%.*s%s", (int) (path - from), from, location) <
                               HTTP_URL_BYTES_MAX
                       ? 0
                       : -EINVAL;
}

static int show(struct http_exchange *x, const struct buf *body, bool cut, struct tool_result *ret) {
        AUTO_BUF struct buf text = { 0 };
        int r;

        ret->error = x->status >= 400;
        if (body->len > 0 && !is_text(x->content_type))
                return tool_fail(ret, "status %u; '%s' is no text: %zu bytes not shown", x->status,
                                 ESC(x->content_type), body->len);
        r = buf_fmt(&text, "status %u\n", x->status);
        if (r == 0 && strcasestr(x->content_type, "html"))
                r = html_text(body, &text);
        else if (r == 0 && body->len > 0)
                r = buf_add(&text, body->data, body->len);
        if (r == 0 && cut)
                r = buf_fmt(&text, "\n[more than %d bytes: the rest was not read]", FETCH_BYTES_MAX);
        return r == 0 ? tool_text(ret, text.data, text.len) : r;
}

int tool_web_fetch(struct tool_env *env, const json_t *input, struct tool_result *ret) {
        const struct http_extra extra[] = { { "User-Agent", "cofferdam-runner/" COFFERDAM_VERSION },
                                            { "Accept", "text/*, */*;q=0.5" },
                                            { NULL, NULL } };
        const uint64_t deadline = clock_ns() + FETCH_MS * MS;
        char url[HTTP_URL_BYTES_MAX], next[HTTP_URL_BYTES_MAX];

        (void) snprintf(url, sizeof(url), "%s", arg_str(input, "url", ""));
        for (int i = 0; i <= REDIRECTS_MAX; i++) {
                AUTO_HTTP struct http_exchange x = { .stream.fd = -1 };
                AUTO_BUF struct buf body = { 0 };
                struct error err = { 0 };
                int r = http_open(&env->net, &(struct http_question){ "GET", url, extra, NULL }, deadline, &x,
                                  &err);

                if (r == -EPIPE || r == -ENOMEM)
                        return r;
                if (r < 0)
                        return tool_fail(ret, "%s", err.msg);
                if (x.status >= 300 && x.status < 400 && *x.location) {
                        if (follow(url, x.location, next) < 0)
                                return tool_fail(ret, "status %u leads to '%s', which is not followed",
                                                 x.status, ESC(x.location));
                        (void) snprintf(url, sizeof(url), "%s", next);
                        continue;
                }
                r = http_slurp(&x, FETCH_BYTES_MAX, deadline, &body);
                if (r == -EPIPE || r == -ENOMEM)
                        return r;
                if (r < 0 && r != -EFBIG)
                        return tool_fail(ret, "the answer of status %u was cut: %s", x.status, strerror(-r));
                return show(&x, &body, r == -EFBIG, ret);
        }
        return tool_fail(ret, "more than %d redirects", REDIRECTS_MAX);
}

int tool_remote_trigger(struct tool_env *env, const json_t *input, struct tool_result *ret) {
        const struct http_extra extra[] = { { "User-Agent", "cofferdam-runner/" COFFERDAM_VERSION },
                                            { "Content-Type", "application/json" },
                                            { NULL, NULL } };
        const uint64_t deadline = clock_ns() + FETCH_MS * MS;
        const json_t *payload = json_object_get(input, "payload");
        AUTO_HTTP struct http_exchange x = { .stream.fd = -1 };
        AUTO_BUF struct buf body = { 0 }, answer = { 0 };
        AUTO_FREE char *text = json_dumps(payload, JSON_COMPACT | JSON_ENCODE_ANY);
        struct error err = { 0 };
        int r;

        if (buf_str(&body, payload ? text : "{}") < 0)
                return -ENOMEM;
        r = http_open(&env->net, &(struct http_question){ "POST", arg_str(input, "url", ""), extra, &body },
                      deadline, &x, &err);
        if (r == -EPIPE || r == -ENOMEM)
                return r;
        if (r < 0)
                return tool_fail(ret, "%s", err.msg);
        r = http_slurp(&x, FETCH_BYTES_MAX, deadline, &answer);
        if (r < 0 && r != -EFBIG)
                return r == -EPIPE || r == -ENOMEM
                               ? r
                               : tool_fail(ret, "the answer of status %u was cut", x.status);
        return show(&x, &answer, r == -EFBIG, ret);
}
