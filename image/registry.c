#include "image/registry.h"

#include <errno.h>
#include <jansson.h>
#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "image/challenge.h"
#include "image/digest.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/escape.h"
#include "runtime/base/json.h"

enum { DOCUMENT_TIMEOUT_S = 120, TOKEN_BYTES_MAX = 1 << 20, TOKEN_TEXT_MAX = 65536 };
enum { WAIT_FIRST_S = 1, WAIT_MAX_S = 30 };

static const char manifest_types[] = "application/vnd.oci.image.index.v1+json, "
                                     "application/vnd.oci.image.manifest.v1+json, "
                                     "application/vnd.docker.distribution.manifest.list.v2+json, "
                                     "application/vnd.docker.distribution.manifest.v2+json";

struct registry {
        struct http *http;
        const struct http_options *options;
        const struct ref *ref;
        const struct login *login;
        const char *host;
        bool plain;          /* it was found to speak no TLS */
        char *authorization; /* owned */
        unsigned int wait_s; /* for so long it asked to be left alone; 0: it did not */
        bool answered;
};

static void forget(char **s) {
        if (*s)
                explicit_bzero(*s, strlen(*s));
        free(*s);
        *s = NULL;
}

struct registry *registry_new(const struct http_options *options, const struct ref *ref,
                              const struct login *login) {
        struct registry *r = calloc(1, sizeof(*r));

        if (!r)
                return NULL;
        r->options = options;
        r->ref = ref;
        r->login = login;
        r->host = strcmp(ref->registry, "docker.io") == 0 ? "registry-1.docker.io" : ref->registry;
        r->http = http_new(options);
        return r->http ? r : registry_free(r);
}

struct registry *registry_free(struct registry *registry) {
        if (!registry)
                return NULL;
        registry->http = http_free(registry->http);
        forget(&registry->authorization);
        free(registry);
        return NULL;
}

static bool is_passing(int r, bool begun, bool answered) {
        switch (r) {
        case -EPIPE:
        case -EAGAIN:
        case -EBUSY:
                return true;
        case -ETIMEDOUT:
        case -ECONNREFUSED:
                return begun || answered;
        default:
                return r == -EPROTO && begun;
        }
}

unsigned int registry_retry_s(const struct registry *registry, struct tries *tries, int r) {
        if (!is_passing(r, tries->begun, registry->answered) || ++tries->n >= tries->max)
                return 0;
        tries->wait_s = tries->wait_s == 0               ? WAIT_FIRST_S
                        : tries->wait_s * 2 > WAIT_MAX_S ? WAIT_MAX_S
                                                         : tries->wait_s * 2;
        if (registry->wait_s > tries->wait_s)
                tries->wait_s = registry->wait_s;
        return tries->wait_s;
}

/* A sink that keeps everything. */
static int keep(void *arg, const void *data, size_t len, bool whole) {
        (void) whole;
        return buf_add(arg, data, len);
}

static int basic(const struct login *login, char **ret) {
        AUTO_BUF struct buf plain = { 0 }, coded = { 0 };
        AUTO_FREE char *text = NULL;
        int r;

        r = buf_fmt(&plain, "%s:%s", login->user, login->password);
        text = r == 0 ? malloc(plain.len * 4 / 3 + 8) : NULL;
        if (!text)
                return -ENOMEM;
        (void) EVP_EncodeBlock((unsigned char *) text, (const unsigned char *) plain.data, (int) plain.len);
        r = buf_fmt(&coded, "Basic %s", text);
        explicit_bzero(plain.data, plain.len);
        explicit_bzero(text, strlen(text));
        *ret = r == 0 ? buf_take(&coded) : NULL;
        return r;
}

int token_answer(const char *text, size_t len, char **ret) {
        AUTO_JSON json_t *doc = json_loadb(text, len, JSON_REJECT_DUPLICATES, NULL);
        const char *token = json_string_value(json_object_get(doc, "token"));

        if (!token)
                token = json_string_value(json_object_get(doc, "access_token"));
        if (!token || !*token || strlen(token) > TOKEN_TEXT_MAX)
                return -EINVAL;
        for (const char *s = token; *s; s++)
                if (*s <= ' ' || *s == 0x7f)
                        return -EINVAL;
        *ret = strdup(token);
        return *ret ? 0 : -ENOMEM;
}

static int add_field(struct buf *out, const char *name, const char *value) {
        int r;

        if (!value)
                return 0;
        r = buf_fmt(out, "%s%s=", out->len > 0 ? "&" : "", name);
        return r < 0 ? r : http_escape(out, value);
}

/* What the token server is asked for: the fields of a query, or of a form when it is paid with a token. */
static int token_fields(const struct registry *reg, const struct challenge *c, struct buf *out) {
        const char *const identity = reg->login->identity_token;
        AUTO_BUF struct buf scope = { 0 };
        int r = 0;

        if (!c->scope || !*c->scope)
                r = buf_fmt(&scope, "repository:%s:pull", reg->ref->repo);
        if (r == 0 && identity)
                r = buf_str(out, "grant_type=refresh_token&client_id=cofferdam");
        if (r == 0)
                r = add_field(out, "service", c->service);
        if (r == 0)
                r = add_field(out, "scope", scope.len > 0 ? buf_cstr(&scope) : c->scope);
        return r == 0 ? add_field(out, "refresh_token", identity) : r;
}

static int get_token(struct registry *reg, const struct challenge *c, struct error *err) {
        AUTO_BUF struct buf fields = { 0 }, url = { 0 }, answer = { .max = TOKEN_BYTES_MAX };
        AUTO_HTTP_REPLY struct http_reply reply = { 0 };
        AUTO_FREE char *user = NULL, *token = NULL;
        struct http_request request = { .sink = keep, .arg = &answer, .timeout_s = DOCUMENT_TIMEOUT_S };
        int r;

        if (!reg->plain && !reg->options->insecure && strncasecmp(c->realm, "https:", 6) != 0)
                return error_set(err, -EPERM, "%s: wants its token asked for by something else than HTTPS",
                                 reg->host);
        r = token_fields(reg, c, &fields);
        if (r == 0 && reg->login->user)
                r = basic(reg->login, &user);
        if (r == 0)
                r = reg->login->identity_token
                            ? buf_str(&url, c->realm)
                            : buf_fmt(&url, "%s%c%s", c->realm, strchr(c->realm, '?') ? '&' : '?',
                                      buf_cstr(&fields));
        if (r < 0)
                return error_set(err, r, "out of memory");
        request.url = buf_cstr(&url);
        request.authorization = user;
        request.form = reg->login->identity_token ? buf_cstr(&fields) : NULL;
        r = http_get(reg->http, &request, &reply, err);
        if (r < 0)
                return error_wrap(err, r, "token");
        if (reply.status != 200)
                return error_set(
                        err,
                        reply.status >= 500   ? -EAGAIN
                        : reply.status == 429 ? -EBUSY
                                              : -EACCES,
                        "the token server answers %ld%s", reply.status,
                        reg->login->user || reg->login->identity_token ? ": log in anew (podman login)" : "");
        if (token_answer(buf_cstr(&answer), answer.len, &token) < 0)
                return error_set(err, -EPROTO, "the token server's answer holds no token");
        url.len = 0;
        r = buf_fmt(&url, "Bearer %s", token);
        forget(&reg->authorization);
        reg->authorization = r == 0 ? buf_take(&url) : NULL;
        return r < 0 ? error_set(err, r, "out of memory") : 0;
}

static int authenticate(struct registry *reg, const struct http_reply *reply, struct error *err) {
        AUTO_CHALLENGE struct challenge c = { 0 };
        const char *text = reply->challenge ? reply->challenge : "";

        if (reply->elsewhere) /* the login is not theirs, and what they name as a token server would get it */
                return error_set(err, -EACCES,
                                 "%s redirects to %s, and %s asks for a login: none is sent there", reg->host,
                                 ESC(reply->elsewhere), ESC(reply->elsewhere));
        if (challenge_parse(text, strlen(text), &c) < 0)
                return error_set(err, -EPROTO, "%s: asks for a login in a way that is not understood: '%s'",
                                 reg->host, ESC(text));
        if (c.bearer && c.realm)
                return get_token(reg, &c, err);
        if (!c.basic)
                return error_set(err, -EACCES, "%s: no way to log in that is understood", reg->host);
        if (!reg->login->user)
                return error_set(err, -EACCES, "%s: wants a login: podman login %s, or docker login",
                                 reg->host, reg->host);
        forget(&reg->authorization);
        return basic(reg->login, &reg->authorization) < 0 ? error_set(err, -ENOMEM, "out of memory") : 0;
}

static int check_status(struct registry *reg, const struct http_reply *reply, const char *what,
                        struct error *err) {
        reg->wait_s = reply->retry_after_s;
        switch (reply->status) {
        case 200:
        case 206:
                return 0;
        case 401:
        case 403:
                return error_set(err, -EACCES, "%s/%s: not allowed%s", reg->host, reg->ref->repo,
                                 reg->login->user || reg->login->identity_token
                                         ? " for this login"
                                         : " without a login (podman login), or there is none");
        case 404:
                return error_set(err, -ENOENT, "%s/%s: no '%s' there", reg->host, reg->ref->repo, ESC(what));
        case 416:
                return error_set(err, -ERANGE, "%s: nothing from there on", what);
        case 429:
                return error_set(err, -EBUSY, "%s: asked too often, or too much: try again later, or log in",
                                 reg->host);
        default:
                return error_set(err, reply->status >= 500 ? -EAGAIN : -EPROTO, "%s: answers %ld", reg->host,
                                 reply->status);
        }
}

/* One try: with TLS, or without where that is allowed and there is none. */
static int ask(struct registry *reg, const char *kind, const char *what, struct http_request *request,
               struct http_reply *reply, struct error *err) {
        int r = -EPROTO;

        for (int i = 0; i < 2; i++) {
                AUTO_BUF struct buf url = { 0 };
                struct error why = { 0 };

                if (buf_fmt(&url, "%s://%s/v2/%s/%s/%s", reg->plain ? "http" : "https", reg->host,
                            reg->ref->repo, kind, what) < 0)
                        return error_set(err, -ENOMEM, "out of memory");
                request->url = buf_cstr(&url);
                request->authorization = reg->authorization;
                reg->wait_s = 0;
                r = http_get(reg->http, request, reply, &why);
                reg->answered = reg->answered || r == 0;
                if (r != -EPROTO || !reply->plain_tls || reg->plain ||
                    (!reg->options->insecure && !host_is_loopback(reg->host)))
                        return r < 0 ? error_set(err, r, "%s", why.msg) : 0;
                reg->plain = true;
                http_reply_deinit(reply);
        }
        return r;
}

static int request_with_login(struct registry *reg, const char *kind, const char *what,
                              struct http_request *request, struct http_reply *reply, struct error *err) {
        int r;

        r = ask(reg, kind, what, request, reply, err);
        if (r < 0 || reply->status != 401)
                return r;
        r = authenticate(reg, reply, err);
        http_reply_deinit(reply);
        return r < 0 ? r : ask(reg, kind, what, request, reply, err);
}

int registry_manifest(struct registry *reg, const char *what, struct buf *out,
                      char digest[static DIGEST_TEXT_LEN + 1], struct error *err) {
        AUTO_HTTP_REPLY struct http_reply reply = { 0 };
        struct http_request request = {
                .accept = manifest_types, .sink = keep, .arg = out, .timeout_s = DOCUMENT_TIMEOUT_S
        };
        int r;

        out->max = MANIFEST_BYTES_MAX;
        r = request_with_login(reg, "manifests", what, &request, &reply, err);
        if (r == -E2BIG)
                return error_set(err, r, "%s: a manifest of more than %d bytes", reg->host,
                                 MANIFEST_BYTES_MAX);
        if (r == 0)
                r = check_status(reg, &reply, what, err);
        if (r < 0)
                return r;
        if (digest_bytes(out->data, out->len, digest) < 0)
                return error_set(err, -ENOMEM, "out of memory");
        if (digest_valid(what) && strcmp(what, digest) != 0)
                return error_set(err, -EBADMSG, "%s: the registry sent something else, %s", what, digest);
        return 0;
}

int registry_blob(struct registry *reg, const struct descriptor *blob, uint64_t from,
                  int (*sink)(void *arg, const void *data, size_t len, bool whole), void *arg,
                  struct error *err) {
        AUTO_HTTP_REPLY struct http_reply reply = { 0 };
        struct http_request request = { .from = from, .sink = sink, .arg = arg };
        int r;

        r = request_with_login(reg, "blobs", blob->digest, &request, &reply, err);
        return r < 0 ? r : check_status(reg, &reply, blob->digest, err);
}
