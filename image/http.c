#include "image/http.h"

#include <arpa/inet.h>
#include <curl/curl.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "runtime/base/cleanup.h"
#include "runtime/base/clock.h"
#include "runtime/base/escape.h"
#include "runtime/base/parse.h"

enum {
        CONNECT_TIMEOUT_S = 30,
        STALL_S = 60, /* less than STALL_BYTES a second for so long: it has stalled */
        STALL_BYTES = 1,
        HEADER_TEXT_MAX = 8192,
        RETRY_AFTER_MAX_S = 60,
        REFUSE_MAX = 1 << 20,
};

static const uint64_t refuse_ns = 60 * UINT64_C(1000000000);

struct http {
        const struct http_options *options;
        CURL *curl;
};

/** struct transfer - one exchange, as the callbacks see it */
struct transfer {
        const struct http *http;
        const struct http_request *request;
        struct http_reply *reply;
        int failed; /* what the sink said */
        uint64_t start_ns;
        size_t refuse; /* bytes of an answer that nobody wants */
};

/** struct origin - whom a URL leads to; owned */
struct origin {
        char *scheme, *host, *port;
};

static void origin_deinit(struct origin *o) {
        curl_free(o->scheme);
        curl_free(o->host);
        curl_free(o->port);
        *o = (struct origin){ 0 };
}
#define AUTO_ORIGIN __attribute__((cleanup(origin_deinit)))

struct http *http_new(const struct http_options *options) {
        struct http *http = calloc(1, sizeof(*http));

        if (!http)
                return NULL;
        http->options = options;
        http->curl = curl_easy_init();
        return http->curl ? http : http_free(http);
}

struct http *http_free(struct http *http) {
        if (http && http->curl)
                curl_easy_cleanup(http->curl);
        free(http);
        return NULL;
}

void http_reply_deinit(struct http_reply *reply) {
        free(reply->challenge);
        free(reply->type);
        free(reply->digest);
        free(reply->elsewhere);
        *reply = (struct http_reply){ 0 };
}

bool host_is_loopback(const char *host) {
        char name[256];
        struct in_addr v4;
        size_t n;

        n = *host == '[' ? strcspn(host, "]") + (strchr(host, ']') != NULL) : strcspn(host, ":");
        if (n >= sizeof(name))
                return false;
        memcpy(name, host, n);
        name[n] = '\0';
        if (strcasecmp(name, "localhost") == 0 || strcmp(name, "[::1]") == 0)
                return true;
        return inet_pton(AF_INET, name, &v4) == 1 && (ntohl(v4.s_addr) >> 24) == 127;
}

int http_escape(struct buf *out, const char *s) {
        for (; *s; s++) {
                const unsigned char c = (unsigned char) *s;
                const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                                   (c >= '0' && c <= '9') || strchr("-._~", c);
                const int r = plain ? buf_add(out, s, 1) : buf_fmt(out, "%%%02X", c);

                if (r < 0)
                        return r;
        }
        return 0;
}

static int read_origin(const char *url, struct origin *ret, struct error *err) {
        CURLU *u = curl_url();
        int r = 0;

        if (!u)
                return error_set(err, -ENOMEM, "out of memory");
        if (strlen(url) > HTTP_URL_MAX || curl_url_set(u, CURLUPART_URL, url, 0) != CURLUE_OK ||
            curl_url_get(u, CURLUPART_SCHEME, &ret->scheme, 0) != CURLUE_OK ||
            curl_url_get(u, CURLUPART_HOST, &ret->host, 0) != CURLUE_OK ||
            curl_url_get(u, CURLUPART_PORT, &ret->port, CURLU_DEFAULT_PORT) != CURLUE_OK)
                r = error_set(err, -EPERM, "'%s' is no URL", ESC(url));
        curl_url_cleanup(u);
        return r;
}

static int check_origin(const struct http *http, const struct origin *o, struct error *err) {
        if (strcmp(o->scheme, "https") == 0)
                return 0;
        if (strcmp(o->scheme, "http") != 0)
                return error_set(err, -EPERM, "'%s' is not spoken", ESC(o->scheme));
        if (http->options->insecure || host_is_loopback(o->host))
                return 0;
        return error_set(err, -EPERM, "plain HTTP to '%s': only with --insecure", ESC(o->host));
}

static bool same_origin(const struct origin *a, const struct origin *b) {
        return strcmp(a->scheme, b->scheme) == 0 && strcasecmp(a->host, b->host) == 0 &&
               strcmp(a->port, b->port) == 0;
}

/* Replaces @slot by the value of a header; joined to what is there with @join. */
static void note(char **slot, const char *value, size_t len, bool join) {
        const size_t had = join && *slot ? strlen(*slot) : 0;
        char *text;

        while (len > 0 && (*value == ' ' || *value == '\t')) {
                value++;
                len--;
        }
        while (len > 0 && strchr("\r\n \t", value[len - 1]))
                len--;
        if (had + len > HEADER_TEXT_MAX || memchr(value, '\0', len))
                return;
        if (asprintf(&text, "%s%s%.*s", had ? *slot : "", had ? ", " : "", (int) len, value) < 0)
                return;
        free(*slot);
        *slot = text;
}

static size_t on_header(char *data, size_t size, size_t n, void *arg) {
        struct transfer *t = arg;
        struct http_reply *reply = t->reply;
        const char *colon = memchr(data, ':', n);
        AUTO_FREE char *retry = NULL;
        const struct {
                const char *name;
                char **slot;
                bool join;
        } known[] = { { "www-authenticate", &reply->challenge, true },
                      { "content-type", &reply->type, false },
                      { "docker-content-digest", &reply->digest, false },
                      { "retry-after", &retry, false } };

        (void) size;
        if (n > 5 && strncmp(data, "HTTP/", 5) == 0)
                http_reply_deinit(reply); /* of an answer that was not the last */
        for (size_t i = 0; colon && i < ARRAY_SIZE(known); i++) {
                const size_t len = (size_t) (colon - data);

                if (len == strlen(known[i].name) && strncasecmp(data, known[i].name, len) == 0)
                        note(known[i].slot, colon + 1, n - len - 1, known[i].join);
        }
        if (reply->type)
                reply->type[strcspn(reply->type, "; ")] = '\0';
        if (retry) {
                uint64_t seconds;

                if (parse_u64(retry, 0, RETRY_AFTER_MAX_S, &seconds) == 0)
                        reply->retry_after_s = (unsigned int) seconds;
        }
        return n;
}

static size_t on_body(char *data, size_t size, size_t n, void *arg) {
        struct transfer *t = arg;
        long status = 0;

        (void) size;
        (void) curl_easy_getinfo(t->http->curl, CURLINFO_RESPONSE_CODE, &status);
        if (status != 200 && status != 206) {
                t->refuse += n;
                if (t->refuse > REFUSE_MAX || clock_ns() - t->start_ns > refuse_ns)
                        t->failed = -EBADMSG;
                return t->failed < 0 ? 0 : n;
        }
        t->failed = t->request->sink(t->request->arg, data, n, status == 200);
        return t->failed < 0 ? 0 : n;
}

static const struct {
        CURLcode code;
        int r;
        const char *remedy; /* behind what curl says; NULL: none is known */
} codes[] = {
        { CURLE_COULDNT_RESOLVE_HOST, -EHOSTUNREACH, "check its name; behind a proxy set https_proxy" },
        { CURLE_COULDNT_RESOLVE_PROXY, -EHOSTUNREACH, "check https_proxy" },
        { CURLE_COULDNT_CONNECT, -ECONNREFUSED,
          "check that it runs, and its port; behind a proxy set https_proxy" },
        { CURLE_OPERATION_TIMEDOUT, -ETIMEDOUT, "try again: it goes on where it was" },
        { CURLE_PEER_FAILED_VERIFICATION, -EPROTO, "name who vouches for it with --ca-file" },
        { CURLE_SSL_CONNECT_ERROR, -EPROTO, "where it speaks no TLS, --insecure does without" },
        { CURLE_OUT_OF_MEMORY, -ENOMEM, NULL },
        { CURLE_PARTIAL_FILE, -EPIPE, NULL },
        { CURLE_RECV_ERROR, -EPIPE, NULL },
        { CURLE_SEND_ERROR, -EPIPE, NULL },
        { CURLE_GOT_NOTHING, -EPIPE, NULL },
        { CURLE_HTTP2_STREAM, -EPIPE, NULL },
        { CURLE_HTTP2, -EPIPE, NULL },
        { CURLE_SSL_CACERT_BADFILE, -ENOENT, "check --ca-file, or SSL_CERT_FILE" },
};

static int explain(struct transfer *t, CURLcode code, const char *host, struct error *err) {
        const char *remedy = NULL;
        int r = -EPROTO;

        if (code == CURLE_OK)
                return 0;
        if (t->failed < 0 && t->refuse > 0)
                return error_set(err, t->failed, "%s: sends an error without an end", ESC(host));
        if (t->failed < 0)
                return error_set(err, t->failed, "%s", strerror(-t->failed));
        t->reply->plain_tls = code == CURLE_SSL_CONNECT_ERROR;
        for (size_t i = 0; i < ARRAY_SIZE(codes); i++)
                if (codes[i].code == code) {
                        r = codes[i].r;
                        remedy = codes[i].remedy;
                }
        return error_set(err, r, "%s: %s%s%s", ESC(host), curl_easy_strerror(code), remedy ? ": " : "",
                         remedy ? remedy : "");
}

static int add_header(struct curl_slist **list, const char *name, const char *value) {
        AUTO_BUF struct buf line = { 0 };
        struct curl_slist *longer;

        if (!value)
                return 0;
        if (buf_fmt(&line, "%s: %s", name, value) < 0)
                return -ENOMEM;
        longer = curl_slist_append(*list, buf_cstr(&line));
        explicit_bzero(line.data, line.len);
        if (!longer)
                return -ENOMEM;
        *list = longer;
        return 0;
}

/* Must: refuse what is neither HTTP nor HTTPS, and follow nothing by itself. */
static void prepare(struct http *http, struct transfer *t, const char *url, struct curl_slist *headers) {
        CURL *c = http->curl;

        curl_easy_reset(c); /* connections are kept */
        (void) curl_easy_setopt(c, CURLOPT_URL, url);
        (void) curl_easy_setopt(c, CURLOPT_PROTOCOLS_STR, "https,http");
        (void) curl_easy_setopt(c, CURLOPT_FOLLOWLOCATION, 0L);
        (void) curl_easy_setopt(c, CURLOPT_NOSIGNAL, 1L);
        (void) curl_easy_setopt(c, CURLOPT_USERAGENT, "cofferdam/" COFFERDAM_VERSION);
        (void) curl_easy_setopt(c, CURLOPT_HTTPHEADER, headers);
        (void) curl_easy_setopt(c, CURLOPT_CONNECTTIMEOUT, (long) CONNECT_TIMEOUT_S);
        (void) curl_easy_setopt(c, CURLOPT_LOW_SPEED_LIMIT, (long) STALL_BYTES);
        (void) curl_easy_setopt(c, CURLOPT_LOW_SPEED_TIME, (long) STALL_S);
        (void) curl_easy_setopt(c, CURLOPT_TIMEOUT, (long) t->request->timeout_s);
        (void) curl_easy_setopt(c, CURLOPT_HEADERFUNCTION, on_header);
        (void) curl_easy_setopt(c, CURLOPT_HEADERDATA, t);
        (void) curl_easy_setopt(c, CURLOPT_WRITEFUNCTION, on_body);
        (void) curl_easy_setopt(c, CURLOPT_WRITEDATA, t);
        if (t->request->from > 0) { /* not RESUME_FROM, to which 200 is an error */
                char range[32];

                (void) snprintf(range, sizeof(range), "%llu-", (unsigned long long) t->request->from);
                (void) curl_easy_setopt(c, CURLOPT_RANGE, range);
        }
        if (t->request->form)
                (void) curl_easy_setopt(c, CURLOPT_POSTFIELDS, t->request->form);
        if (http->options->ca_file) {
                (void) curl_easy_setopt(c, CURLOPT_CAINFO, http->options->ca_file);
                (void) curl_easy_setopt(c, CURLOPT_CAPATH,
                                        NULL); /* the host's authorities would be taken beside it */
        }
}

/* One exchange. @ret_next: where it sends us, owned by curl; NULL: nowhere. */
static int exchange(struct http *http, struct transfer *t, const char *url, const struct origin *to,
                    bool trusted, char **ret_next, struct error *err) {
        struct curl_slist *headers = NULL;
        CURLcode code = CURLE_OUT_OF_MEMORY;

        if (add_header(&headers, "Accept", t->request->accept) == 0 &&
            (!trusted || add_header(&headers, "Authorization", t->request->authorization) == 0)) {
                t->refuse = 0;
                t->start_ns = clock_ns();
                prepare(http, t, url, headers);
                code = curl_easy_perform(http->curl);
        }
        for (struct curl_slist *h = headers; h; h = h->next)
                explicit_bzero(h->data, strlen(h->data));
        curl_slist_free_all(headers);
        *ret_next = NULL;
        (void) curl_easy_getinfo(http->curl, CURLINFO_RESPONSE_CODE, &t->reply->status);
        (void) curl_easy_getinfo(http->curl, CURLINFO_REDIRECT_URL, ret_next);
        return explain(t, code, to->host, err);
}

static int note_elsewhere(struct http_reply *reply, const struct origin *o, struct error *err) {
        free(reply->elsewhere);
        if (asprintf(&reply->elsewhere, "%s:%s", o->host, o->port) >= 0)
                return 0;
        reply->elsewhere = NULL;
        return error_set(err, -ENOMEM, "out of memory");
}

int http_get(struct http *http, const struct http_request *request, struct http_reply *ret,
             struct error *err) {
        struct transfer t = { .http = http, .request = request, .reply = ret };
        AUTO_FREE char *url = strdup(request->url);
        AUTO_ORIGIN struct origin first = { 0 };
        int r;

        *ret = (struct http_reply){ 0 };
        r = url ? read_origin(url, &first, err) : error_set(err, -ENOMEM, "out of memory");
        for (int i = 0; r == 0; i++) {
                AUTO_ORIGIN struct origin to = { 0 };
                char *next = NULL;

                if (i > HTTP_REDIRECTS_MAX)
                        return error_set(err, -EPROTO, "%s: more than %d redirections", ESC(first.host),
                                         HTTP_REDIRECTS_MAX);
                r = read_origin(url, &to, err);
                if (r == 0)
                        r = check_origin(http, &to, err);
                if (r == 0)
                        r = exchange(http, &t, url, &to, same_origin(&first, &to), &next, err);
                if (r == 0 && !same_origin(&first, &to))
                        r = note_elsewhere(ret, &to, err);
                if (r < 0 || !next || ret->status < 300 || ret->status > 399)
                        return r;
                if (request->form) /* it holds a credential */
                        return error_set(err, -EPERM, "%s: redirects a login", ESC(first.host));
                if (strcmp(to.scheme, "https") == 0 && strncasecmp(next, "https:", 6) != 0)
                        return error_set(err, -EPERM, "%s: redirects from HTTPS to something else",
                                         ESC(to.host));
                free(url);
                url = strdup(next);
                r = url ? 0 : error_set(err, -ENOMEM, "out of memory");
        }
        return r;
}
