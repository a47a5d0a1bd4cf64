#include "auth/target.h"

#include <assert.h>
#include <string.h>

#include "runtime/base/cleanup.h"

static const char not_good[] = "invalid or expired ironflow auth proxy token";
static const char unauthenticated[] = "authentication_error", forbidden[] = "permission_error";
static const char invalid[] = "invalid_request_error", ours[] = "api_error";

/* The texts are those that clients of the service know; see docs/man/cofferdam-auth-proxy.1. */
static const struct relay_answer answers[] = {
        [RELAY_OK] = { 200, NULL, NULL, "relayed" },
        [RELAY_BAD_REQUEST] = { 400, invalid, "not a request that is relayed", "bad_request" },
        [RELAY_HEAD_SIZE] = { 431, invalid, "the head of the request is too large", "bad_request" },
        [RELAY_TWO_TOKENS] = { 400, invalid, "more than one token in the same header", "bad_request" },
        [RELAY_EXPECT] = { 417, invalid, "only 'Expect: 100-continue' is understood", "bad_request" },
        [RELAY_PROXY_FORM] = { 403, forbidden, "only api.anthropic.com is reachable through this proxy",
                               "bad_request" },
        [RELAY_NO_TOKEN] = { 401, unauthenticated, not_good, "unknown_token" },
        [RELAY_UNKNOWN] = { 401, unauthenticated, not_good, "unknown_token" },
        [RELAY_EXPIRED] = { 401, unauthenticated, not_good, "expired" },
        [RELAY_REVOKED] = { 401, unauthenticated, not_good, "revoked" },
        [RELAY_UNAVAILABLE] = { 503, ours, "auth proxy token registry unavailable", "unavailable" },
        [RELAY_SOURCE] = { 401, unauthenticated, not_good, "foreign_source" },
        [RELAY_MODEL_TOKEN] = { 403, forbidden, "this token only reaches its allowlisted hosts under /r/",
                                "forbidden_host" },
        [RELAY_MODEL_PATH] = { 403, forbidden,
                               "only the Anthropic API under /v1/ is reachable through this proxy",
                               "forbidden_path" },
        [RELAY_MODEL_METHOD] = { 405, invalid, "only GET and POST are relayed", "forbidden_method" },
        [RELAY_SECRET_TOKEN] = { 403, forbidden, "a Claude token only reaches the Anthropic API",
                                 "forbidden_host" },
        [RELAY_HOST] = { 403, forbidden, "host not allowed for this secret", "forbidden_host" },
        [RELAY_PATH] = { 403, forbidden, "path not allowed: no '..', '//' or percent-encoding",
                         "forbidden_path" },
        [RELAY_METHOD] = { 405, invalid, "only GET, HEAD, POST, PUT, PATCH and DELETE are relayed",
                           "forbidden_method" },
        [RELAY_TOO_LARGE] = { 413, "request_too_large", "request body too large or unreadable", "too_large" },
        [RELAY_BUSY] = { 429, "rate_limit_error", "too many requests at once", "busy" },
        [RELAY_MODEL_UPSTREAM] = { 502, ours, "the Anthropic API is unreachable", "upstream_error" },
        [RELAY_UPSTREAM] = { 502, "upstream_error", "upstream unreachable", "upstream_error" },
        [RELAY_FAILED] = { 500, ours, "the auth proxy cannot send this request", "unavailable" },
};
static_assert(ARRAY_SIZE(answers) == RELAY_RESULT_COUNT, "answers[] and enum differ");

const struct relay_answer *relay_answer_of(enum relay_result result) {
        return &answers[result];
}

void target_split(struct http_text path, struct target *ret) {
        const char *query = memchr(path.s, '?', path.len);
        struct target t = { .path = path };
        const char *slash;

        if (query) {
                t.path.len = (size_t) (query - path.s);
                t.query = (struct http_text){ query, path.len - t.path.len };
        }
        if (t.path.len >= 3 && memcmp(t.path.s, "/r/", 3) == 0) {
                t.secret = true;
                t.host = (struct http_text){ t.path.s + 3, t.path.len - 3 };
                slash = memchr(t.host.s, '/', t.host.len);
                t.path = (struct http_text){ "/", 1 };
                if (slash) {
                        t.path = (struct http_text){ slash, t.host.len - (size_t) (slash - t.host.s) };
                        t.host.len = (size_t) (slash - t.host.s);
                }
        }
        *ret = t;
}

static bool is_clean_byte(char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '/' ||
               c == '_' || c == '.' || c == '-';
}

bool target_path_clean(struct http_text path) {
        size_t start = 1; /* of the segment */

        if (path.len == 0 || *path.s != '/')
                return false;
        for (size_t i = 1; i <= path.len; i++) {
                const size_t len = i - start;

                if (i < path.len && !is_clean_byte(path.s[i]))
                        return false;
                if (i < path.len && path.s[i] != '/')
                        continue;
                if ((len == 0 && i < path.len) || (len == 1 && path.s[start] == '.') ||
                    (len == 2 && memcmp(path.s + start, "..", 2) == 0))
                        return false;
                start = i + 1;
        }
        return true;
}

/* Methods have a case (RFC 9110). */
static bool is_one_of(struct http_text method, const char *const *names, size_t n) {
        for (size_t i = 0; i < n; i++) {
                if (method.len == strlen(names[i]) && memcmp(method.s, names[i], method.len) == 0)
                        return true;
        }
        return false;
}

static enum relay_result judge_model(const struct target *t, struct http_text method,
                                     const struct credential *credential) {
        static const char *const methods[] = { "GET", "POST" };

        if (credential->kind == CREDENTIAL_SECRET)
                return RELAY_MODEL_TOKEN;
        if (t->path.len < 4 || memcmp(t->path.s, "/v1/", 4) != 0 || !target_path_clean(t->path))
                return RELAY_MODEL_PATH;
        return is_one_of(method, methods, ARRAY_SIZE(methods)) ? RELAY_OK : RELAY_MODEL_METHOD;
}

static enum relay_result judge_secret(const struct target *t, struct http_text method,
                                      const struct credential *credential) {
        static const char *const methods[] = { "GET", "HEAD", "POST", "PUT", "PATCH", "DELETE" };

        if (credential->kind != CREDENTIAL_SECRET)
                return RELAY_SECRET_TOKEN;
        if (!credential_allows(credential, t->host.s, t->host.len))
                return RELAY_HOST;
        if (!target_path_clean(t->path))
                return RELAY_PATH;
        return is_one_of(method, methods, ARRAY_SIZE(methods)) ? RELAY_OK : RELAY_METHOD;
}

enum relay_result target_judge(const struct target *target, struct http_text method,
                               const struct credential *credential) {
        return target->secret ? judge_secret(target, method, credential)
                              : judge_model(target, method, credential);
}
