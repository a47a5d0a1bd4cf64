#include "auth/admin.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include "auth/conn.h"
#include "auth/journal.h"
#include "netns/addr.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/escape.h"
#include "runtime/base/json.h"

static const char invalid[] = "invalid_request_error";

struct admin_call {
        struct conn *conn;
        struct buf body;
        struct registry_call *call;
        char id[TOKEN_ID_LEN + 1];
        char token[TOKEN_LEN + 1];
        char *run, *step; /* of the token, or of the run that is revoked; owned */
};

/* --- what a request for a token asks for ------------------------------------------------------------------
 */

/* Return: 0 (*ret NULL: not there), -EINVAL, -ENOMEM. */
static int take_text(const json_t *json, const char *key, char **ret, struct error *err) {
        const json_t *value = json_object_get(json, key);
        const char *s = json_string_value(value);

        if (!value)
                return 0;
        if (!s || strlen(s) != json_string_length(value))
                return error_set(err, -EINVAL, "invalid token request body");
        if (strlen(s) > GRANT_TEXT_MAX)
                return error_set(err, -EINVAL, "%s is longer than %d bytes", key, GRANT_TEXT_MAX);
        *ret = strdup(s);
        return *ret ? 0 : error_set(err, -ENOMEM, "out of memory");
}

static int take_scope(const json_t *json, struct grant *grant, struct error *err) {
        int r;

        r = take_text(json, "run_id", &grant->run, err);
        if (r == 0)
                r = take_text(json, "step", &grant->step, err);
        if (r == 0)
                r = take_text(json, "group", &grant->group, err);
        if (r < 0)
                return r;
        if (!grant->run || !grant->step)
                return error_set(err, -EINVAL, "invalid token request body");
        if (!*grant->run)
                return error_set(err, -EINVAL, "run_id is empty");
        if (grant->group && !*grant->group)
                return error_set(err, -EINVAL, "group is empty");
        return *grant->step ? 0 : error_set(err, -EINVAL, "step is empty");
}

/* "source": the only address that may use the token. */
static int take_source(const json_t *json, struct grant *grant, struct error *err) {
        const json_t *value = json_object_get(json, "source");
        const char *s = json_string_value(value);
        char text[ADDR_TEXT_MAX];
        struct addr addr;

        if (!value || json_is_null(value))
                return 0;
        if (!s || addr_parse(s, json_string_length(value), &addr) < 0)
                return error_set(err, -EINVAL, "source is not an IP address");
        grant->source = strdup(addr_text(&addr, text));
        return grant->source ? 0 : error_set(err, -ENOMEM, "out of memory");
}

static int take_expiry(const json_t *json, uint64_t now, struct grant *grant, struct error *err) {
        const json_t *value = json_object_get(json, "expires_at");
        const json_int_t at = json_integer_value(value);

        if (!json_is_integer(value) || at < 0)
                return error_set(err, -EINVAL, "invalid token request body");
        if ((uint64_t) at <= now)
                return error_set(err, -EINVAL, "expires_at is in the past");
        if ((uint64_t) at - now > ADMIN_LIFE_SECONDS_MAX)
                return error_set(err, -EINVAL, "expires_at is more than 24 hours away");
        grant->expires_at = (uint64_t) at;
        return 0;
}

int admin_parse(const char *body, size_t len, uint64_t now, struct grant **ret, struct error *err) {
        AUTO_JSON json_t *json = json_loadb(body, len, JSON_REJECT_DUPLICATES, NULL);
        AUTO_GRANT struct grant *grant = calloc(1, sizeof(*grant));
        int r;

        if (!grant)
                return error_set(err, -ENOMEM, "out of memory");
        if (!json_is_object(json) || !json_object_get(json, "credential"))
                return error_set(err, -EINVAL, "invalid token request body");
        r = take_scope(json, grant, err);
        if (r == 0)
                r = take_expiry(json, now, grant, err);
        if (r == 0)
                r = take_source(json, grant, err);
        if (r == 0)
                r = credential_parse(json_object_get(json, "credential"), &grant->credential, err);
        if (r == 0)
                *ret = TAKE_PTR(grant);
        return r;
}

static int hex(char c) {
        if (c >= '0' && c <= '9')
                return c - '0';
        if (c >= 'a' && c <= 'f')
                return c - 'a' + 10;
        return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

char *admin_segment(struct http_text s) {
        AUTO_FREE char *out = calloc(1, s.len + 1);
        size_t n = 0;

        for (size_t i = 0; out && i < s.len; i++) {
                int high, low;

                if (s.s[i] != '%') {
                        out[n++] = s.s[i];
                        continue;
                }
                high = i + 2 < s.len ? hex(s.s[i + 1]) : -1;
                low = i + 2 < s.len ? hex(s.s[i + 2]) : -1;
                if (high < 0 || low < 0 || (high == 0 && low == 0))
                        return NULL;
                out[n++] = (char) (high << 4 | low);
                i += 2;
        }
        return TAKE_PTR(out);
}

/* --- answers ----------------------------------------------------------------------------------------------
 */

static void answer_json(struct conn *conn, unsigned int status, json_t *consumed) {
        AUTO_JSON json_t *json = consumed;
        char *text = json ? json_dumps(json, JSON_COMPACT) : NULL;
        const struct answer answer = { .status = status,
                                       .type = "application/json",
                                       .body = text,
                                       .body_len = text ? strlen(text) : 0 };

        if (text)
                conn_answer(conn, &answer);
        else
                conn_refuse(conn, 500, "api_error", "the auth proxy is out of memory", true);
        token_clear(text, text ? strlen(text) : 0);
        free(text);
}

static void unavailable(struct conn *conn) {
        conn_refuse(conn, 503, "api_error", "token registry unavailable", false);
}

static json_t *fields_of(const struct admin_call *call) {
        char shown[TOKEN_SHOWN_LEN + 1];
        json_t *fields = json_object();

        (void) snprintf(shown, sizeof(shown), "%.*s", TOKEN_SHOWN_LEN, call->id);
        if (*shown)
                (void) json_object_set_new(fields, "token", json_string(shown));
        if (call->run)
                (void) json_object_set_new(fields, "run_id", json_from_bytes(call->run, GRANT_TEXT_MAX));
        if (call->step)
                (void) json_object_set_new(fields, "step", json_from_bytes(call->step, GRANT_TEXT_MAX));
        return fields;
}

static void say(const struct admin_call *call, const char *event, const struct registry_answer *answer) {
        json_t *fields = fields_of(call);

        if (answer->result != REGISTRY_OK)
                (void) json_object_set_new(fields, "reason", json_string("registry unavailable"));
        else if (call->run && !call->step)
                (void) json_object_set_new(fields, "revoked", json_integer((json_int_t) answer->count));
        journal_say(answer->result == REGISTRY_OK ? JOURNAL_INFO : JOURNAL_ERROR, event, fields);
}

/* --- issue ------------------------------------------------------------------------------------------------
 */

static void on_issued(void *data, struct registry_answer *answer) {
        struct admin_call *call = data;
        struct conn *conn = call->conn;

        call->call = NULL;
        say(call, "token issued", answer);
        if (answer->result == REGISTRY_OK)
                answer_json(conn, 201, json_pack("{s:s, s:s}", "id", call->id, "token", call->token));
        else
                unavailable(conn);
}

static void issue(struct conn *conn) {
        struct admin_call *call = conn->admin;
        AUTO_GRANT struct grant *grant = NULL;
        const time_t now = time(NULL);
        struct error err = { 0 };
        int r;

        if (now < 0) {
                conn_refuse(conn, 500, "api_error", "auth proxy clock error", true);
                return;
        }
        r = admin_parse(buf_cstr(&call->body), call->body.len, (uint64_t) now, &grant, &err);
        token_clear(call->body.data, call->body.len);
        buf_deinit(&call->body);
        if (r == -EINVAL) {
                conn_refuse(conn, 400, invalid, err.msg, false);
                return;
        }
        if (r == 0)
                r = token_new(call->token, call->id);
        if (r < 0) {
                conn_refuse(conn, 500, "api_error", "token issuance failed", true);
                return;
        }
        memcpy(grant->id, call->id, sizeof(grant->id));
        call->run = strdup(grant->run);
        call->step = strdup(grant->step);
        conn->state = CONN_ASKED;
        call->call = registry_put(conn->server->registry, TAKE_PTR(grant), on_issued, call);
        if (!call->call)
                unavailable(conn);
        else
                (void) conn_update(conn);
}

void admin_body(struct conn *conn) {
        char data[4096];
        ssize_t n;

        while ((n = conn_body(conn, data, sizeof(data), ADMIN_BODY_BYTES_MAX)) > 0) {
                if (buf_add(&conn->admin->body, data, (size_t) n) < 0)
                        break;
        }
        token_clear(data, sizeof(data));
        if (n == 0)
                issue(conn);
        else if (n == -EAGAIN)
                (void) conn_update(conn);
        else
                conn_refuse(conn, n == -EINVAL ? 400 : 413, n == -EINVAL ? invalid : "request_too_large",
                            n == -EINVAL ? "invalid token request body" : "token request body too large",
                            true);
}

static void start_issue(struct conn *conn, struct http_text rest) {
        (void) rest;
        conn->state = CONN_ADMIN;
        if (conn_continue(conn) < 0)
                unavailable(conn);
        else
                admin_body(conn);
}

/* --- revoke -----------------------------------------------------------------------------------------------
 */

static void on_revoked(void *data, struct registry_answer *answer) {
        struct admin_call *call = data;
        struct conn *conn = call->conn;
        const struct answer none = { .status = 204 };

        call->call = NULL;
        if (answer->result != REGISTRY_OK || answer->count > 0)
                say(call, "token revoked", answer);
        if (answer->result != REGISTRY_OK)
                unavailable(conn);
        else if (answer->count == 0)
                conn_refuse(conn, 404, "not_found_error", "unknown token", false);
        else
                conn_answer(conn, &none);
}

static void asked(struct conn *conn) {
        conn->state = CONN_ASKED;
        if (!conn->admin->call)
                unavailable(conn);
        else
                (void) conn_update(conn);
}

static void revoke_token(struct conn *conn, struct http_text id) {
        struct admin_call *call = conn->admin;

        if (id.len == TOKEN_ID_LEN)
                memcpy(call->id, id.s, id.len);
        if (!token_id_valid(call->id)) {
                *call->id = '\0';
                conn_refuse(conn, 404, "not_found_error", "unknown token", false);
                return;
        }
        call->call = registry_revoke(conn->server->registry, call->id, on_revoked, call);
        asked(conn);
}

static void on_run_revoked(void *data, struct registry_answer *answer) {
        struct admin_call *call = data;

        call->call = NULL;
        say(call, "run tokens revoked", answer);
        if (answer->result == REGISTRY_OK)
                answer_json(call->conn, 200, json_pack("{s:I}", "revoked", (json_int_t) answer->count));
        else
                unavailable(call->conn);
}

static void revoke_run(struct conn *conn, struct http_text segment) {
        struct admin_call *call = conn->admin;

        call->run = admin_segment(segment);
        if (!call->run || !*call->run || strlen(call->run) > GRANT_TEXT_MAX ||
            !utf8_valid(call->run, strlen(call->run))) {
                conn_refuse(conn, 400, invalid, "not the ID of a run", false);
                return;
        }
        call->call = registry_revoke_run(conn->server->registry, call->run, on_run_revoked, call);
        asked(conn);
}

/* --- reports ----------------------------------------------------------------------------------------------
 */

static void health(struct conn *conn, struct http_text rest) {
        const struct answer answer = { .status = 200, .type = "text/plain", .body = "ok", .body_len = 2 };

        (void) rest;
        conn_answer(conn, &answer);
}

static void show_metrics(struct conn *conn, struct http_text rest) {
        AUTO_BUF struct buf text = { 0 };
        struct answer answer = { .status = 200, .type = "text/plain; version=0.0.4" };

        (void) rest;
        if (metrics_text(conn->server->metrics, &text) < 0) {
                conn_refuse(conn, 500, "api_error", "the auth proxy is out of memory", true);
                return;
        }
        answer.body = text.data;
        answer.body_len = text.len;
        conn_answer(conn, &answer);
}

/* --- which endpoint ---------------------------------------------------------------------------------------
 */

/* a path is @before, one segment when there is an @after, and @after */
static const struct endpoint {
        const char *method, *also, *before, *after;
        bool key;
        void (*serve)(struct conn *conn, struct http_text segment);
} endpoints[] = {
        { "POST", NULL, "/admin/v1/tokens", NULL, true, start_issue },
        { "DELETE", NULL, "/admin/v1/tokens/", "", true, revoke_token },
        { "DELETE", NULL, "/admin/v1/runs/", "/tokens", true, revoke_run },
        { "GET", "HEAD", "/healthz", NULL, false, health },
        { "GET", "HEAD", "/metrics", NULL, false, show_metrics },
};

static bool matches(const struct endpoint *e, struct http_text path, struct http_text *ret_segment) {
        const size_t before = strlen(e->before), after = e->after ? strlen(e->after) : 0;
        struct http_text segment;

        if (!e->after)
                return path.len == before && memcmp(path.s, e->before, before) == 0;
        if (path.len <= before + after || memcmp(path.s, e->before, before) != 0 ||
            memcmp(path.s + path.len - after, e->after, after) != 0)
                return false;
        segment = (struct http_text){ path.s + before, path.len - before - after };
        *ret_segment = segment;
        return memchr(segment.s, '/', segment.len) == NULL;
}

bool admin_is_for(struct http_text path) {
        struct http_text segment;

        if (path.len >= 7 && memcmp(path.s, "/admin/", 7) == 0)
                return true;
        for (size_t i = 0; i < ARRAY_SIZE(endpoints); i++) {
                if (!endpoints[i].key && matches(&endpoints[i], path, &segment))
                        return true;
        }
        return false;
}

/* Whether the one Authorization of a request is "Bearer " and the key. */
static bool has_key(const struct conn *conn) {
        const struct http_head *head = &conn->request.head;
        const char *key = conn->server->conf.admin_key;
        const struct http_header *found = NULL;

        for (size_t i = 0; i < head->n_headers; i++) {
                if (!http_text_is(head->headers[i].name, "Authorization"))
                        continue;
                if (found)
                        return false;
                found = &head->headers[i];
        }
        return found && found->value.len > 7 && memcmp(found->value.s, "Bearer ", 7) == 0 &&
               token_key_equal(found->value.s + 7, found->value.len - 7, key, strlen(key));
}

static bool is_method(struct http_text method, const char *word) {
        return word && method.len == strlen(word) && memcmp(method.s, word, method.len) == 0;
}

static void serve(struct conn *conn, const struct endpoint *e, struct http_text segment) {
        conn->admin = calloc(1, sizeof(*conn->admin));
        if (!conn->admin) {
                conn_refuse(conn, 500, "api_error", "the auth proxy is out of memory", true);
                return;
        }
        conn->admin->conn = conn;
        e->serve(conn, segment);
}

/* The path is right and the method is not: says which there are. */
static void refuse_method(struct conn *conn, const char *methods) {
        AUTO_FREE char *body = answer_error(invalid, "no such method here");
        const struct answer answer = { .status = 405,
                                       .type = "application/json",
                                       .body = body ? body : "",
                                       .body_len = body ? strlen(body) : 0,
                                       .allow = methods };

        conn_answer(conn, &answer);
}

void admin_start(struct conn *conn) {
        const struct http_text path = conn->request.path, method = conn->request.method;
        const bool wants_key = path.len >= 7 && memcmp(path.s, "/admin/", 7) == 0;
        const char *methods = NULL;

        if (wants_key && !has_key(conn)) {
                journal_say(JOURNAL_WARN, "admin refused", NULL);
                conn_refuse(conn, 401, "authentication_error", "invalid or missing admin key", false);
                return;
        }
        for (size_t i = 0; i < ARRAY_SIZE(endpoints); i++) {
                struct http_text segment = { "", 0 };

                if (!matches(&endpoints[i], path, &segment))
                        continue;
                methods = endpoints[i].method;
                if (is_method(method, endpoints[i].method) || is_method(method, endpoints[i].also)) {
                        serve(conn, &endpoints[i], segment);
                        return;
                }
        }
        if (methods)
                refuse_method(conn, methods);
        else
                conn_refuse(conn, 404, "not_found_error", "no such endpoint", false);
}

struct admin_call *admin_free(struct admin_call *call) {
        if (!call)
                return NULL;
        if (call->call)
                registry_forget(call->conn->server->registry, call->call);
        token_clear(call->body.data, call->body.len);
        token_clear(call->token, sizeof(call->token));
        buf_deinit(&call->body);
        free(call->run);
        free(call->step);
        free(call);
        return NULL;
}
