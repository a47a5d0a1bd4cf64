/*
 * DOC: theory of operation
 *
 * libcurl's multi interface tells which descriptors it waits for and when it wants to be called; both become
 * watches and a timer of the loop. What it calls meanwhile (head, data, pull) only fills buffers of the
 * owner: from within libcurl nothing may be taken away. Owners learn of it afterwards, from a timer that is
 * due at once (on_kick()), and may end the transfer there.
 *
 * What a server controls: every byte of its answer. libcurl reads the framing; names and values of headers
 * are checked here once more, because they are written anew for the client. A head is bounded, a body is not:
 * it is passed on as fast as the client takes it.
 */
#include "auth/upstream.h"

#include <curl/curl.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "auth/token.h"
#include "netns/host.h"
#include "runtime/base/cleanup.h"

enum {
        IDLE_CONNECTIONS = 64,
        IDLE_SECONDS =
                30, /* shorter than what servers allow: few requests meet a connection that just ended */
        READ_BYTES = 16384,
        HEADERS_MAX = 200,
};

struct upstream {
        struct loop *loop;
        struct upstream_conf conf;
        CURLM *multi;
        struct loop_timer timer, kick;
        struct loop_queue timer_queue, kick_queue; /* with one timer each */
        struct transfer *touched;
};

/* @watch is first: events come with it */
struct upstream_socket {
        struct loop_watch watch;
        struct upstream *upstream;
};

struct transfer {
        struct upstream *upstream;
        const struct transfer_ops *ops;
        void *arg;
        CURL *easy;
        struct curl_slist *headers, *connect_to;
        struct addr pinned;
        bool has_pinned;
        const char *refused; /* the kind of an address that was not dialled */

        bool in_head, head_done, touched;
        unsigned int status;
        size_t n_headers;
        struct buf answer; /* headers of the answer */
        unsigned int n_lengths, n_codings;
        uint64_t length;
        const char *why; /* this side ended it */

        bool done;
        CURLcode code;
        struct transfer *next; /* of @touched */
};

/* --- addresses --------------------------------------------------------------------------------------------
 */

const char *upstream_may_dial(const struct upstream_conf *conf, const struct addr *addr,
                              const struct addr *pinned) {
        const char *special = addr_special(addr, NULL);

        if (!special || (pinned && memcmp(addr, pinned, sizeof(*addr)) == 0))
                return NULL;
        for (size_t i = 0; i < conf->n_nets; i++) {
                if (cidr_has(&conf->nets[i], addr))
                        return NULL;
        }
        return special;
}

static curl_socket_t on_open_socket(void *arg, curlsocktype purpose, struct curl_sockaddr *sa) {
        struct transfer *t = arg;
        struct addr addr;
        const char *special;

        if (purpose != CURLSOCKTYPE_IPCXN || addr_from_sock(&sa->addr, &addr) < 0)
                return CURL_SOCKET_BAD;
        special = upstream_may_dial(&t->upstream->conf, &addr, t->has_pinned ? &t->pinned : NULL);
        if (special) {
                t->refused = special;
                return CURL_SOCKET_BAD;
        }
        return socket(sa->family, sa->socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, sa->protocol);
}

/* --- what libcurl calls -----------------------------------------------------------------------------------
 */

static void on_kick(struct loop_timer *timer);

static void kick(struct upstream *u) {
        if (!u->kick.queue)
                loop_start(u->loop, &u->kick, &u->kick_queue, on_kick);
}

static void touch(struct transfer *t) {
        if (t->touched)
                return;
        t->touched = true;
        t->next = t->upstream->touched;
        t->upstream->touched = t;
        kick(t->upstream);
}

static bool is_name_byte(char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
               (c && strchr("!#$%&'*+-.^_`|~", c));
}

/* One header line of @len bytes without its end. Return: false: not one that is passed on. */
static bool add_header(struct transfer *t, const char *line, size_t len) {
        const char *colon = memchr(line, ':', len);
        const size_t n = colon ? (size_t) (colon - line) : 0;
        const char *value = colon ? colon + 1 : NULL;
        char *end = NULL;

        if (n == 0 || ++t->n_headers > HEADERS_MAX)
                return false;
        for (size_t i = 0; i < n; i++) {
                if (!is_name_byte(line[i]))
                        return false;
        }
        for (size_t i = n + 1; i < len; i++) {
                if (line[i] != '\t' && ((unsigned char) line[i] < 0x20 || line[i] == 0x7f))
                        return false;
        }
        if (n == 17 && strncasecmp(line, "Transfer-Encoding", n) == 0)
                t->n_codings++;
        if (buf_fmt(&t->answer, "%.*s: ", (int) n, line) < 0)
                return false;
        for (len -= n + 1; len > 0 && (*value == ' ' || *value == '\t'); len--)
                value++;
        while (len > 0 && (value[len - 1] == ' ' || value[len - 1] == '\t'))
                len--;
        if ((len > 0 && buf_add(&t->answer, value, len) < 0) || buf_add(&t->answer, "", 1) < 0)
                return false;
        if (n == 14 && strncasecmp(line, "Content-Length", n) == 0) {
                t->n_lengths++;
                t->length = strtoull(t->answer.data + t->answer.len - 1 - len, &end, 10);
                return len > 0 && *value >= '0' && *value <= '9' && end && *end == '\0';
        }
        return true;
}

static void begin_head(struct transfer *t) {
        t->answer.len = 0;
        t->answer.max = UPSTREAM_HEAD_BYTES_MAX;
        t->n_headers = t->n_lengths = t->n_codings = 0;
        t->in_head = true;
        t->status = 0;
}

/* "HTTP/1.1 200 OK", "HTTP/2 200". Return: false: no status. */
static bool read_status(struct transfer *t, const char *line, size_t len) {
        const char *s = memchr(line, ' ', len);

        if (!s || line + len - s < 4)
                return false;
        for (int i = 1; i <= 3; i++) {
                if (s[i] < '0' || s[i] > '9')
                        return false;
                t->status = t->status * 10 + (unsigned int) (s[i] - '0');
        }
        return t->status >= 100 && t->status <= 599;
}

static bool end_head(struct transfer *t) {
        struct upstream_head head = { .status = t->status,
                                      .headers = &t->answer,
                                      .one_length = t->n_lengths == 1 && t->n_codings == 0,
                                      .length = t->length };

        t->in_head = false;
        if (t->status <
            200) /* what comes before the answer is not for the client; an upgrade was not asked for */
                return t->status != 101;
        if (t->n_lengths > 1)
                return false; /* which of them it was meant to have, nobody knows */
        t->head_done = true;
        return t->ops->head(t->arg, &head) == 0;
}

static size_t on_header(char *line, size_t one, size_t n, void *arg) {
        struct transfer *t = arg;
        size_t len = n;
        bool ok;

        (void) one;
        touch(t);
        if (t->head_done)
                return n; /* the trailer ends here */
        while (len > 0 && (line[len - 1] == '\n' || line[len - 1] == '\r'))
                len--;
        if (!t->in_head) {
                begin_head(t);
                ok = read_status(t, line, len);
        } else {
                ok = len == 0 ? end_head(t) : add_header(t, line, len);
        }
        if (ok)
                return n;
        if (!t->why)
                t->why = "an answer that is not passed on";
        return 0;
}

static size_t on_data(char *data, size_t one, size_t n, void *arg) {
        struct transfer *t = arg;
        int r;

        (void) one;
        touch(t);
        r = t->ops->data(t->arg, data, n);
        if (r == -EAGAIN)
                return CURL_WRITEFUNC_PAUSE;
        return r == 0 ? n : CURL_WRITEFUNC_ERROR;
}

static size_t on_pull(char *data, size_t one, size_t n, void *arg) {
        struct transfer *t = arg;
        ssize_t got;

        touch(t);
        got = t->ops->pull(t->arg, data, one * n);
        if (got == -EAGAIN)
                return CURL_READFUNC_PAUSE;
        return got < 0 ? CURL_READFUNC_ABORT : (size_t) got;
}

/* --- libcurl and the loop ---------------------------------------------------------------------------------
 */

static void act(struct upstream *u, curl_socket_t fd, int mask) {
        int running;

        (void) curl_multi_socket_action(u->multi, fd, mask, &running);
        kick(u);
}

static void on_timer(struct loop_timer *timer) {
        struct upstream *u = (struct upstream *) (void *) ((char *) timer - offsetof(struct upstream, timer));

        act(u, CURL_SOCKET_TIMEOUT, 0);
}

static int on_timer_wish(CURLM *multi, long ms, void *arg) {
        struct upstream *u = arg;

        (void) multi;
        loop_cancel(&u->timer);
        if (ms >= 0) {
                u->timer_queue.ns = (uint64_t) ms * 1000000U;
                loop_start(u->loop, &u->timer, &u->timer_queue, on_timer);
        }
        return 0;
}

static void on_socket(struct loop_watch *watch, uint32_t events) {
        const struct upstream_socket *s = (const struct upstream_socket *) (const void *) watch;
        int mask = 0;

        if (events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP))
                mask |= CURL_CSELECT_IN;
        if (events & EPOLLOUT)
                mask |= CURL_CSELECT_OUT;
        if (events & EPOLLERR)
                mask |= CURL_CSELECT_ERR;
        act(s->upstream, watch->fd, mask);
}

static int on_socket_wish(CURL *easy, curl_socket_t fd, int what, void *arg, void *socket_arg) {
        struct upstream *u = arg;
        struct upstream_socket *s = socket_arg;
        const uint32_t events = (what & CURL_POLL_IN ? (uint32_t) EPOLLIN : 0U) |
                                (what & CURL_POLL_OUT ? (uint32_t) EPOLLOUT : 0U);

        (void) easy;
        if (what == CURL_POLL_REMOVE) {
                if (s)
                        loop_remove(u->loop, &s->watch);
                free(s);
                return 0;
        }
        if (s) {
                loop_set(u->loop, &s->watch, events);
                return 0;
        }
        s = calloc(1, sizeof(*s));
        if (!s || loop_add(u->loop, &s->watch, fd, events, on_socket) < 0) {
                free(s);
                return -1;
        }
        s->upstream = u;
        (void) curl_multi_assign(u->multi, fd, s);
        return 0;
}

static void collect_done(struct upstream *u) {
        CURLMsg *msg;
        int left;

        while ((msg = curl_multi_info_read(u->multi, &left))) {
                struct transfer *t = NULL;

                if (msg->msg != CURLMSG_DONE ||
                    curl_easy_getinfo(msg->easy_handle, CURLINFO_PRIVATE, &t) != CURLE_OK || !t)
                        continue;
                t->done = true;
                t->code = msg->data.result;
                touch(t);
        }
}

/* What libcurl says of itself holds no URL; what it says of one request could. */
static const char *reason_of(const struct transfer *t) {
        if (t->code == CURLE_OK)
                return t->head_done ? NULL : "no answer";
        if (t->why)
                return t->why;
        return t->refused ? t->refused : curl_easy_strerror(t->code);
}

static void on_kick(struct loop_timer *timer) {
        struct upstream *u = (struct upstream *) (void *) ((char *) timer - offsetof(struct upstream, kick));

        collect_done(u);
        while (u->touched) {
                struct transfer *t = u->touched;
                const struct transfer_ops *ops = t->ops;
                void *owner = t->arg;
                const char *why;

                u->touched = t->next;
                t->touched = false;
                if (!t->done) {
                        ops->moved(owner);
                        continue;
                }
                why = reason_of(t);
                (void) transfer_cancel(t);
                ops->ended(owner, why);
        }
}

/* --- transfers --------------------------------------------------------------------------------------------
 */

static const struct upstream_route *route_of(const struct upstream_conf *conf, const char *host) {
        for (size_t i = 0; i < conf->n_routes; i++) {
                if (strcmp(conf->routes[i].host, host) == 0)
                        return &conf->routes[i];
        }
        return NULL;
}

static int add_item(struct curl_slist **list, const char *item) {
        struct curl_slist *longer = curl_slist_append(*list, item);

        if (!longer)
                return -ENOMEM;
        *list = longer;
        return 0;
}

static bool has_header(const struct buf *headers, const char *name) {
        const size_t n = strlen(name);

        for (size_t at = 0; at < headers->len; at += strlen(headers->data + at) + 1) {
                if (strncasecmp(headers->data + at, name, n) == 0 && headers->data[at + n] == ':')
                        return true;
        }
        return false;
}

/* An empty value is written "Name;" for libcurl; "Name:" takes away a header that it would add itself. */
static int set_headers(struct transfer *t, const struct upstream_request *q) {
        int r = add_item(&t->headers, "Expect:");

        if (r == 0 && !has_header(q->headers, "Accept"))
                r = add_item(&t->headers, "Accept:");
        if (r == 0 && !has_header(q->headers, "Content-Type"))
                r = add_item(&t->headers, "Content-Type:");
        for (size_t at = 0; r == 0 && at < q->headers->len; at += strlen(q->headers->data + at) + 1) {
                const char *line = q->headers->data + at;
                const size_t n = strlen(line);

                if (n > 2 && strcmp(line + n - 2, ": ") == 0) {
                        AUTO_FREE char *empty = strndup(line, n - 1);

                        if (!empty)
                                return -ENOMEM;
                        empty[n - 2] = ';';
                        r = add_item(&t->headers, empty);
                } else {
                        r = add_item(&t->headers, line);
                }
        }
        return r;
}

static int set_place(struct transfer *t, const struct upstream_request *q, struct buf *url) {
        const struct upstream_route *route = route_of(&t->upstream->conf, q->host);
        struct host host;

        if (buf_fmt(url, "https://%s:%u/", q->host, q->port) < 0)
                return -ENOMEM;
        if (route) {
                AUTO_BUF struct buf item = { 0 };
                char text[ADDR_TEXT_MAX];

                t->pinned = route->addr;
                t->has_pinned = true;
                if (buf_fmt(&item, addr_is_ipv4(&route->addr) ? "%s:%u:%s:%u" : "%s:%u:[%s]:%u", q->host,
                            q->port, addr_text(&route->addr, text), route->port) < 0)
                        return -ENOMEM;
                return add_item(&t->connect_to, item.data);
        }
        if (host_parse(q->host, strlen(q->host), &host, NULL) == 0 && host.kind == HOST_ADDR) {
                t->pinned = host.addr;
                t->has_pinned = true;
        }
        return 0;
}

static CURLcode set_limits(CURL *e, const struct upstream_conf *conf) {
        CURLcode r = curl_easy_setopt(e, CURLOPT_PROTOCOLS_STR, "https");

        if (r == CURLE_OK && conf->ca_file)
                r = curl_easy_setopt(e, CURLOPT_CAINFO, conf->ca_file);
        if (r == CURLE_OK && conf->ca_file) /* else the host's directory of authorities would count, too */
                r = curl_easy_setopt(e, CURLOPT_CAPATH, NULL);
        if (r == CURLE_OK)
                r = curl_easy_setopt(e, CURLOPT_SSL_VERIFYPEER, 1L);
        if (r == CURLE_OK)
                r = curl_easy_setopt(e, CURLOPT_SSL_VERIFYHOST, 2L);
        if (r == CURLE_OK)
                r = curl_easy_setopt(e, CURLOPT_SSLVERSION, (long) CURL_SSLVERSION_TLSv1_2);
        if (r == CURLE_OK)
                r = curl_easy_setopt(e, CURLOPT_HTTP_VERSION, (long) CURL_HTTP_VERSION_2TLS);
        if (r == CURLE_OK)
                r = curl_easy_setopt(e, CURLOPT_PROXY, "");
        if (r == CURLE_OK)
                r = curl_easy_setopt(e, CURLOPT_FOLLOWLOCATION, 0L);
        if (r == CURLE_OK)
                r = curl_easy_setopt(e, CURLOPT_CONNECTTIMEOUT_MS, (long) conf->connect_ms);
        if (r == CURLE_OK)
                r = curl_easy_setopt(e, CURLOPT_MAXAGE_CONN, (long) IDLE_SECONDS);
        if (r == CURLE_OK)
                r = curl_easy_setopt(e, CURLOPT_NOSIGNAL, 1L);
        if (r == CURLE_OK)
                r = curl_easy_setopt(e, CURLOPT_BUFFERSIZE, (long) READ_BYTES);
        return r == CURLE_OK ? curl_easy_setopt(e, CURLOPT_UPLOAD_BUFFERSIZE, (long) READ_BYTES) : r;
}

static CURLcode set_calls(CURL *e, struct transfer *t) {
        CURLcode r = curl_easy_setopt(e, CURLOPT_PRIVATE, t);

        if (r == CURLE_OK)
                r = curl_easy_setopt(e, CURLOPT_OPENSOCKETFUNCTION, on_open_socket);
        if (r == CURLE_OK)
                r = curl_easy_setopt(e, CURLOPT_OPENSOCKETDATA, t);
        if (r == CURLE_OK)
                r = curl_easy_setopt(e, CURLOPT_HEADERFUNCTION, on_header);
        if (r == CURLE_OK)
                r = curl_easy_setopt(e, CURLOPT_HEADERDATA, t);
        if (r == CURLE_OK)
                r = curl_easy_setopt(e, CURLOPT_WRITEFUNCTION, on_data);
        if (r == CURLE_OK)
                r = curl_easy_setopt(e, CURLOPT_WRITEDATA, t);
        if (r == CURLE_OK)
                r = curl_easy_setopt(e, CURLOPT_READFUNCTION, on_pull);
        return r == CURLE_OK ? curl_easy_setopt(e, CURLOPT_READDATA, t) : r;
}

static CURLcode set_pulled_body(CURL *e, const struct upstream_request *q) {
        CURLcode r = curl_easy_setopt(e, CURLOPT_UPLOAD, 1L);

        if (r == CURLE_OK && q->body_bytes >= 0)
                r = curl_easy_setopt(e, CURLOPT_INFILESIZE_LARGE, (curl_off_t) q->body_bytes);
        return r;
}

/* It is sent together with the head, and again where a connection that was kept turns out to have ended. */
static CURLcode set_whole_body(CURL *e, const struct upstream_request *q) {
        CURLcode r = curl_easy_setopt(e, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t) q->body_bytes);

        return r == CURLE_OK ? curl_easy_setopt(e, CURLOPT_COPYPOSTFIELDS, q->body) : r;
}

static CURLcode set_request(CURL *e, const struct transfer *t, const struct upstream_request *q,
                            const char *url) {
        CURLcode r = curl_easy_setopt(e, CURLOPT_URL, url);

        if (r == CURLE_OK)
                r = curl_easy_setopt(e, CURLOPT_REQUEST_TARGET, q->target);
        if (r == CURLE_OK)
                r = curl_easy_setopt(e, CURLOPT_HTTPHEADER, t->headers);
        if (r == CURLE_OK && t->connect_to)
                r = curl_easy_setopt(e, CURLOPT_CONNECT_TO, t->connect_to);
        if (r == CURLE_OK && strcmp(q->method, "HEAD") == 0)
                return curl_easy_setopt(e, CURLOPT_NOBODY, 1L);
        if (r == CURLE_OK && q->has_body)
                r = q->body ? set_whole_body(e, q) : set_pulled_body(e, q);
        return r == CURLE_OK ? curl_easy_setopt(e, CURLOPT_CUSTOMREQUEST, q->method) : r;
}

static int set_up(struct transfer *t, const struct upstream_request *q) {
        AUTO_BUF struct buf url = { 0 };
        int r;

        r = set_place(t, q, &url);
        if (r == 0)
                r = set_headers(t, q);
        if (r < 0)
                return r;
        if (set_limits(t->easy, &t->upstream->conf) != CURLE_OK || set_calls(t->easy, t) != CURLE_OK ||
            set_request(t->easy, t, q, url.data) != CURLE_OK)
                return -EINVAL;
        return curl_multi_add_handle(t->upstream->multi, t->easy) == CURLM_OK ? 0 : -ENOMEM;
}

int upstream_start(struct upstream *upstream, const struct upstream_request *request,
                   const struct transfer_ops *ops, void *arg, struct transfer **ret) {
        struct transfer *t = calloc(1, sizeof(*t));
        int r;

        if (!t)
                return -ENOMEM;
        *t = (struct transfer){ .upstream = upstream, .ops = ops, .arg = arg, .easy = curl_easy_init() };
        r = t->easy ? set_up(t, request) : -ENOMEM;
        if (r < 0) {
                (void) transfer_cancel(t);
                return r;
        }
        *ret = t;
        return 0;
}

void transfer_resume(struct transfer *transfer) {
        (void) curl_easy_pause(transfer->easy, CURLPAUSE_CONT);
        kick(transfer->upstream);
}

/* The list holds the credential. */
static void free_headers(struct curl_slist *list) {
        for (struct curl_slist *item = list; item; item = item->next)
                token_clear(item->data, strlen(item->data));
        curl_slist_free_all(list);
}

struct transfer *transfer_cancel(struct transfer *transfer) {
        if (!transfer)
                return NULL;
        for (struct transfer **at = &transfer->upstream->touched; *at; at = &(*at)->next) {
                if (*at == transfer) {
                        *at = transfer->next;
                        break;
                }
        }
        if (transfer->easy) {
                (void) curl_multi_remove_handle(transfer->upstream->multi, transfer->easy);
                curl_easy_cleanup(transfer->easy);
        }
        free_headers(transfer->headers);
        curl_slist_free_all(transfer->connect_to);
        buf_deinit(&transfer->answer);
        free(transfer);
        return NULL;
}

int upstream_new(struct loop *loop, const struct upstream_conf *conf, struct upstream **ret,
                 struct error *err) {
        struct upstream *u = calloc(1, sizeof(*u));

        if (!u)
                return error_set(err, -ENOMEM, "out of memory");
        u->loop = loop;
        u->conf = *conf;
        u->multi = curl_multi_init();
        if (!u->multi || curl_multi_setopt(u->multi, CURLMOPT_SOCKETFUNCTION, on_socket_wish) != CURLM_OK ||
            curl_multi_setopt(u->multi, CURLMOPT_SOCKETDATA, u) != CURLM_OK ||
            curl_multi_setopt(u->multi, CURLMOPT_TIMERFUNCTION, on_timer_wish) != CURLM_OK ||
            curl_multi_setopt(u->multi, CURLMOPT_TIMERDATA, u) != CURLM_OK ||
            curl_multi_setopt(u->multi, CURLMOPT_PIPELINING, (long) CURLPIPE_NOTHING) != CURLM_OK ||
            curl_multi_setopt(u->multi, CURLMOPT_MAXCONNECTS, (long) IDLE_CONNECTIONS) != CURLM_OK) {
                (void) upstream_free(u);
                return error_set(err, -ENOMEM, "libcurl: out of memory");
        }
        *ret = u;
        return 0;
}

struct upstream *upstream_free(struct upstream *upstream) {
        if (!upstream)
                return NULL;
        if (upstream->multi)
                (void) curl_multi_cleanup(upstream->multi);
        loop_cancel(&upstream->timer);
        loop_cancel(&upstream->kick);
        free(upstream);
        return NULL;
}
