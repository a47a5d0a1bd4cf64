/*
 * DOC: theory of operation
 *
 *   token presented? -> registry -> target_judge() -> limits -> server -> answer
 *
 * The first step that fails answers the client; nothing of the body is read before all of them have passed.
 * From then on the token is watched: when it is revoked or expires, what runs on it is cut, wherever it is.
 *
 * The answer is written anew: its status, the headers that are about the content, and its body, with a length
 * if the server named one that it keeps, else in chunks. An answer that breaks off at the server breaks off
 * at the client: the last chunk is not sent, or bytes are missing.
 */
#include "auth/relay.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "auth/conn.h"
#include "auth/inject.h"
#include "auth/journal.h"
#include "auth/presented.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/escape.h"

enum { HTTPS_PORT = 443 };

/* how the body of the answer is framed for the client */
enum framing { FRAME_NONE, FRAME_LENGTH, FRAME_CHUNKED, FRAME_EOF };

struct relay {
        struct conn *conn;
        struct target target; /* borrows from conn->request */
        struct host host;     /* of a secret, once it is allowed */
        char id[TOKEN_ID_LEN + 1];
        struct registry_call *call;
        struct registry_watch *watch;
        struct grant *grant;
        struct transfer *transfer;
        enum relay_result verdict; /* what went wrong with the body of the request */
        bool send_paused, recv_paused;
        bool head_sent;
        bool complete; /* all of the answer is here, by its length */
        enum framing framing;
        uint64_t left; /* FRAME_LENGTH */
        unsigned int status;
};

/* --- what is said of it -----------------------------------------------------------------------------------
 */

static const char *secret_name(const struct relay *relay) {
        return relay->grant && relay->grant->credential->name ? relay->grant->credential->name : "";
}

static json_t *fields_of(const struct relay *relay) {
        const struct grant *grant = relay->grant;
        json_t *fields = json_object();
        char shown[TOKEN_SHOWN_LEN + 1];

        (void) snprintf(shown, sizeof(shown), "%.*s", TOKEN_SHOWN_LEN, relay->id);
        if (grant) {
                (void) json_object_set_new(fields, "run_id", json_string(grant->run));
                (void) json_object_set_new(fields, "step", json_string(grant->step));
        }
        (void) json_object_set_new(fields, "token", json_string(shown));
        return fields;
}

/* The host as it was asked for, if it is one: anything else could be anything, also a secret. */
static json_t *host_field(const struct relay *relay) {
        struct host host;

        if (relay->target.host.len == 0 ||
            host_parse(relay->target.host.s, relay->target.host.len, &host, NULL) < 0 ||
            host.kind != HOST_NAME)
                return json_string("<invalid>");
        return json_string(host.name);
}

static const char *result_word(enum relay_result result) {
        return result == RELAY_NO_TOKEN ? "no_token" : relay_answer_of(result)->metric;
}

static void say(const struct relay *relay, enum relay_result result, const char *why) {
        json_t *fields = fields_of(relay);
        const struct http_text method = relay->conn->request.method, path = relay->target.path;

        (void) json_object_set_new(fields, "result", json_string(result_word(result)));
        if (why)
                (void) json_object_set_new(fields, "reason", json_string(why));
        if (relay->status)
                (void) json_object_set_new(fields, "upstream_status",
                                           json_integer((json_int_t) relay->status));
        if (relay->target.secret) {
                (void) json_object_set_new(fields, "host", host_field(relay));
                (void) json_object_set_new(fields, "secret", json_string(secret_name(relay)));
        } else if (relay->grant && target_path_clean(path) && method.len <= 16) {
                (void) json_object_set_new(fields, "method", json_stringn(method.s, method.len));
                (void) json_object_set_new(fields, "path", json_stringn(path.s, path.len));
        }
        journal_say(result == RELAY_OK ? JOURNAL_INFO : JOURNAL_WARN,
                    relay->target.secret ? "secret relay" : "model relay", fields);
        if (relay->target.secret)
                metrics_count(relay->conn->server->metrics, secret_name(relay), result);
}

/* Answers with @result; relay->conn may be gone afterwards, and @relay is. */
static void refuse(struct relay *relay, enum relay_result result, const char *why) {
        const struct relay_answer *a = relay_answer_of(result);

        say(relay, result, why);
        /* who does not write HTTP as it is read here is not asked for more of it */
        conn_refuse(relay->conn, a->status, a->kind, a->message, a->status == 400);
}

/* The answer has begun: all that can be done is to let it break off. */
static void cut(struct relay *relay, const char *why) {
        json_t *fields = fields_of(relay);

        (void) json_object_set_new(fields, "reason", json_string(why));
        journal_say(JOURNAL_WARN, "relay cut", fields);
        (void) conn_free(relay->conn);
}

/* --- the body of the request ------------------------------------------------------------------------------
 */

static ssize_t on_pull(void *arg, char *data, size_t len) {
        struct relay *relay = arg;
        const ssize_t n = conn_body(relay->conn, data, len, SERVER_BODY_BYTES_MAX);

        relay->send_paused = n == -EAGAIN;
        if (n < 0 && n != -EAGAIN)
                relay->verdict = n == -EFBIG ? RELAY_TOO_LARGE : RELAY_BAD_REQUEST;
        return n;
}

bool relay_wants_body(const struct relay *relay) {
        return relay->transfer != NULL;
}

void relay_body(struct relay *relay) {
        if (relay->send_paused && relay->transfer) {
                relay->send_paused = false;
                transfer_resume(relay->transfer);
        }
}

/* --- the answer -------------------------------------------------------------------------------------------
 */

static bool is_passed_on(struct http_text name) {
        static const char *const dropped[] = {
                "Connection",
                "Proxy-Connection",
                "Keep-Alive",
                "Proxy-Authenticate",
                "TE",
                "Proxy-Authorization",
                "Trailer",
                "Transfer-Encoding",
                "Upgrade",
                "Proxy-Authentication-Info",
                "Content-Length",
                "Set-Cookie",
                "Set-Cookie2",
                "Alt-Svc",
        };

        for (size_t i = 0; i < ARRAY_SIZE(dropped); i++) {
                if (http_text_is(name, dropped[i]))
                        return false;
        }
        return true;
}

/* Whether a Connection header of @headers names @name. */
static bool connection_names(const struct buf *headers, struct http_text name) {
        for (size_t at = 0; at < headers->len; at += strlen(headers->data + at) + 1) {
                const char *line = headers->data + at, *item;

                if (strncasecmp(line, "Connection: ", 12) != 0)
                        continue;
                for (item = line + 12; *item; item += strcspn(item, ",")) {
                        size_t n;

                        item += strspn(item, ", \t");
                        n = strcspn(item, ", \t");
                        if (n == name.len && strncasecmp(item, name.s, n) == 0)
                                return true;
                }
        }
        return false;
}

static int write_headers(const struct upstream_head *head, struct buf *out) {
        int r = 0;

        for (size_t at = 0; r == 0 && at < head->headers->len; at += strlen(head->headers->data + at) + 1) {
                const char *line = head->headers->data + at;
                const struct http_text name = { line, strcspn(line, ":") };

                if (is_passed_on(name) && !connection_names(head->headers, name))
                        r = buf_fmt(out, "%s\r\n", line);
        }
        return r;
}

static bool is_method(const struct relay *relay, const char *word) {
        const struct http_text method = relay->conn->request.method;

        return method.len == strlen(word) && memcmp(method.s, word, method.len) == 0;
}

static void choose_framing(struct relay *relay, const struct upstream_head *head) {
        struct conn *conn = relay->conn;

        if (is_method(relay, "HEAD") || head->status == 204 || head->status == 304)
                relay->framing = FRAME_NONE;
        else if (head->one_length)
                relay->framing = FRAME_LENGTH;
        else
                relay->framing = conn->request.head.minor == 1 ? FRAME_CHUNKED : FRAME_EOF;
        relay->left = head->length;
        if (relay->framing == FRAME_EOF)
                conn->keep = false;
}

static int on_head(void *arg, const struct upstream_head *head) {
        struct relay *relay = arg;
        struct conn *conn = relay->conn;
        const bool length = head->one_length && head->status != 204;
        struct buf *out = &conn->out;
        const size_t before = out->len;
        int r;

        relay->status = head->status;
        choose_framing(relay, head);
        r = buf_fmt(out, "HTTP/1.1 %u %s\r\n", head->status, answer_reason(head->status));
        if (r == 0)
                r = write_headers(head, out);
        if (r == 0 && length)
                r = buf_fmt(out, "Content-Length: %llu\r\n", (unsigned long long) head->length);
        if (r == 0 && relay->framing == FRAME_CHUNKED)
                r = buf_str(out, "Transfer-Encoding: chunked\r\n");
        /* what of the request is not here by now may never come */
        if (!conn_body_here(conn) || conn->server->draining)
                conn->keep = false;
        if (r == 0 && !conn->keep)
                r = buf_str(out, "Connection: close\r\n");
        if (r == 0)
                r = buf_str(out, "\r\n");
        if (r == 0) {
                relay->head_sent = true;
                relay->complete =
                        relay->framing == FRAME_NONE || (relay->framing == FRAME_LENGTH && relay->left == 0);
                say(relay, RELAY_OK, NULL);
        } else {
                out->len = before;
        }
        return r;
}

static int on_data(void *arg, const char *data, size_t len) {
        struct relay *relay = arg;
        struct buf *out = &relay->conn->out;
        int r;

        if (!relay->head_sent || relay->framing == FRAME_NONE)
                return -EPROTO;
        if (conn_out_full(relay->conn)) {
                relay->recv_paused = true;
                return -EAGAIN;
        }
        if (relay->framing == FRAME_LENGTH) {
                if (len > relay->left)
                        return -EPROTO;
                relay->left -= len;
                relay->complete = relay->left == 0;
        }
        if (relay->framing != FRAME_CHUNKED)
                return buf_add(out, data, len);
        if (len == 0)
                return 0;
        r = buf_fmt(out, "%zx\r\n", len);
        if (r == 0)
                r = buf_add(out, data, len);
        return r == 0 ? buf_str(out, "\r\n") : r;
}

void relay_drained(struct relay *relay) {
        if (!relay->recv_paused || !relay->transfer)
                return;
        relay->recv_paused = false;
        transfer_resume(relay->transfer);
}

static void on_moved(void *arg) {
        struct relay *relay = arg;

        conn_moved(relay->conn);
        /* A server may answer before it has the whole request and then take no more of it. In HTTP/2 libcurl
         * waits for it to go on, for ever. */
        if (relay->complete && !http_body_done(&relay->conn->body)) {
                relay->transfer = transfer_cancel(relay->transfer);
                conn_finish(relay->conn);
                return;
        }
        (void) conn_update(relay->conn);
}

static void on_ended(void *arg, const char *why) {
        struct relay *relay = arg;
        const bool secret = relay->target.secret;

        relay->transfer = NULL;
        if (!relay->head_sent) {
                if (relay->verdict != RELAY_OK)
                        refuse(relay, relay->verdict, NULL);
                else
                        refuse(relay, secret ? RELAY_UPSTREAM : RELAY_MODEL_UPSTREAM,
                               why ? why : "no answer");
                return;
        }
        if (why || (relay->framing == FRAME_LENGTH && relay->left > 0)) {
                /* what came before it is the client's */
                if (conn_update(relay->conn))
                        cut(relay, why ? why : "the answer is shorter than it said");
                return;
        }
        if (relay->framing == FRAME_CHUNKED && buf_str(&relay->conn->out, "0\r\n\r\n") < 0) {
                cut(relay, "out of memory");
                return;
        }
        conn_finish(relay->conn);
}

bool relay_late(struct relay *relay) {
        if (relay->head_sent) {
                cut(relay, "nothing moved for too long");
                return true;
        }
        if (!relay->transfer || relay->send_paused)
                return false; /* it is the client that does not send, or the registry, which has its own limit
                               */
        relay->transfer = transfer_cancel(relay->transfer);
        refuse(relay, relay->target.secret ? RELAY_UPSTREAM : RELAY_MODEL_UPSTREAM, "no answer in time");
        return true;
}

static const struct transfer_ops ops = {
        .head = on_head, .data = on_data, .pull = on_pull, .moved = on_moved, .ended = on_ended
};

/* --- to the server ----------------------------------------------------------------------------------------
 */

static int build_target(const struct relay *relay, struct buf *out) {
        const struct target *t = &relay->target;
        int r = t->secret ? 0 : buf_str(out, relay->conn->server->conf.model_prefix);

        if (r == 0)
                r = buf_add(out, t->path.s, t->path.len);
        return r == 0 && t->query.len > 0 ? buf_add(out, t->query.s, t->query.len) : r;
}

/* A body that has come with its head is sent with its head. */
static int take_body(struct relay *relay, struct buf *out) {
        struct conn *conn = relay->conn;
        char data[4096];
        ssize_t n;

        if (conn->request.head.framing != HTTP_LENGTH || !conn_body_here(conn))
                return 0;
        while ((n = conn_body(conn, data, sizeof(data), SERVER_BODY_BYTES_MAX)) > 0) {
                if (buf_add(out, data, (size_t) n) < 0)
                        return -ENOMEM;
        }
        return (int) n;
}

static int send_request(struct relay *relay) {
        const struct server_conf *conf = &relay->conn->server->conf;
        const struct http_request *q = &relay->conn->request;
        struct upstream_request out = { .host = conf->model_host,
                                        .port = conf->model_port,
                                        .has_body = q->head.framing != HTTP_NO_BODY,
                                        .body_bytes = q->head.framing == HTTP_LENGTH
                                                              ? (int64_t) q->head.length
                                                              : -1 };
        AUTO_BUF struct buf target = { 0 }, headers = { 0 }, body = { 0 };
        char method[16] = "";
        int r;

        memcpy(method, q->method.s, q->method.len); /* one of those that target_judge() knows */
        out.method = method;
        r = build_target(relay, &target);
        out.target = target.data;
        if (r == 0)
                r = inject_headers(&q->head, relay->grant->credential, &headers);
        out.headers = &headers;
        if (relay->target.secret) {
                out.host = relay->host.name;
                out.port = HTTPS_PORT;
        }
        if (r == 0)
                r = conn_continue(relay->conn);
        if (r == 0)
                r = take_body(relay, &body);
        out.body = body.data;
        if (r == 0)
                r = upstream_start(relay->conn->server->upstream, &out, &ops, relay, &relay->transfer);
        token_clear(headers.data, headers.len);
        return r;
}

/* --- the decision -----------------------------------------------------------------------------------------
 */

static void on_dead(void *data, enum registry_result why) {
        struct relay *relay = data;

        if (relay->head_sent)
                cut(relay, why == REGISTRY_REVOKED   ? "revoked"
                           : why == REGISTRY_EXPIRED ? "expired"
                                                     : "registry unavailable");
        else
                refuse(relay,
                       why == REGISTRY_REVOKED   ? RELAY_REVOKED
                       : why == REGISTRY_EXPIRED ? RELAY_EXPIRED
                                                 : RELAY_UNAVAILABLE,
                       NULL);
}

static bool source_fits(const struct relay *relay) {
        char text[ADDR_TEXT_MAX];

        return !relay->grant->source ||
               (relay->conn->has_peer &&
                strcmp(relay->grant->source, addr_text(&relay->conn->peer, text)) == 0);
}

/* The one form of the host, which is looked up and dialled. Return: whether it has one. */
static bool take_host(struct relay *relay) {
        const struct http_text host = relay->target.host;

        return !relay->target.secret ||
               (host_parse(host.s, host.len, &relay->host, NULL) == 0 && relay->host.kind == HOST_NAME);
}

static enum relay_result judge(struct relay *relay) {
        const struct http_request *q = &relay->conn->request;
        const struct server *server = relay->conn->server;
        enum relay_result result;

        if (!source_fits(relay))
                return RELAY_SOURCE;
        result = target_judge(&relay->target, q->method, relay->grant->credential);
        if (result != RELAY_OK)
                return result;
        if (!take_host(relay))
                return RELAY_HOST;
        if (q->head.framing == HTTP_LENGTH && q->head.length > SERVER_BODY_BYTES_MAX)
                return RELAY_TOO_LARGE;
        /* this one is among them */
        return server_token_uses(server, relay->id) > server->conf.max_per_token ? RELAY_BUSY : RELAY_OK;
}

static enum relay_result result_of(enum registry_result result) {
        static const enum relay_result map[] = {
                [REGISTRY_OK] = RELAY_OK,
                [REGISTRY_UNKNOWN] = RELAY_UNKNOWN,
                [REGISTRY_REVOKED] = RELAY_REVOKED,
                [REGISTRY_EXPIRED] = RELAY_EXPIRED,
                [REGISTRY_UNAVAILABLE] = RELAY_UNAVAILABLE,
        };
        static_assert(ARRAY_SIZE(map) == REGISTRY_RESULT_COUNT, "map[] and enum differ");

        return map[result];
}

static void on_grant(void *data, struct registry_answer *answer) {
        struct relay *relay = data;
        struct conn *conn = relay->conn;
        enum relay_result result = result_of(answer->result);

        relay->call = NULL;
        relay->grant = TAKE_PTR(answer->grant);
        if (result == RELAY_OK)
                result = judge(relay);
        if (result == RELAY_OK) {
                relay->watch = registry_watch(conn->server->registry, relay->id, relay->grant->expires_at,
                                              on_dead, relay);
                if (!relay->watch || send_request(relay) < 0)
                        result = RELAY_FAILED;
        }
        if (result != RELAY_OK) {
                refuse(relay, result, NULL);
                return;
        }
        (void) conn_update(conn);
}

void relay_start(struct conn *conn) {
        struct relay *relay = calloc(1, sizeof(*relay));
        enum relay_result result;

        if (!relay) {
                const struct relay_answer *a = relay_answer_of(RELAY_FAILED);

                conn_refuse(conn, a->status, a->kind, a->message, true);
                return;
        }
        relay->conn = conn;
        conn->relay = relay;
        conn->state = CONN_RELAY;
        target_split(conn->request.path, &relay->target);
        result = presented_id(&conn->request.head, relay->id);
        if (result == RELAY_OK) {
                relay->call = registry_get(conn->server->registry, relay->id, on_grant, relay);
                result = relay->call ? RELAY_OK : RELAY_FAILED;
        }
        if (result != RELAY_OK)
                refuse(relay, result, NULL);
        else
                (void) conn_update(conn);
}

struct relay *relay_free(struct relay *relay) {
        struct server *server;

        if (!relay)
                return NULL;
        server = relay->conn->server;
        registry_forget(server->registry, relay->call);
        (void) registry_unwatch(server->registry, relay->watch);
        (void) transfer_cancel(relay->transfer);
        (void) grant_free(relay->grant);
        free(relay);
        return NULL;
}

size_t server_token_uses(const struct server *server, const char *id) {
        size_t n = 0;

        for (const struct conn *conn = server->conns; conn; conn = conn->after)
                n += conn->relay && strcmp(conn->relay->id, id) == 0;
        return n;
}
