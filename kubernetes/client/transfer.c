#include "kubernetes/client/transfer.h"

#include <openssl/crypto.h>
#include <string.h>

#include "kubernetes/client/config.h"
#include "runtime/base/escape.h"
#include "runtime/base/json.h"

enum { SILENCE_S = 15 }; /* TCP keepalive after it, and again so often */

static size_t on_data(char *data, size_t size, size_t n, void *arg) {
        struct transfer *t = arg;

        return t->sink(t->arg, data, size * n) ? size * n : 0;
}

static struct curl_blob blob(const struct buf *from) {
        return (struct curl_blob){ .data = from->data, .len = from->len, .flags = CURL_BLOB_COPY };
}

int transfer_new(struct kube *kube, struct transfer **ret, struct error *err) {
        AUTO_TRANSFER struct transfer *t = calloc(1, sizeof(*t));

        if (!t)
                return error_set(err, -ENOMEM, "out of memory");
        t->kube = kube;
        t->easy = curl_easy_init();
        if (!t->easy)
                return error_set(err, -ENOMEM, "out of memory");
        *ret = TAKE_PTR(t);
        return 0;
}

static int add_line(struct curl_slist **list, const char *line) {
        struct curl_slist *longer = curl_slist_append(*list, line);

        if (!longer)
                return -ENOMEM;
        *list = longer;
        return 0;
}

static int add_header(struct transfer *t, const char *name, const char *value) {
        AUTO_BUF struct buf line = { 0 };
        int r;

        if (!value)
                return 0;
        r = buf_fmt(&line, "%s: %s", name, value);
        if (r == 0)
                r = add_line(&t->headers, line.data);
        if (line.data)
                OPENSSL_cleanse(line.data, line.len);
        return r;
}

/* The URL; with tls-server-name, that is the host of the URL, and the connection goes to the server's. */
static int set_url(struct transfer *t, const struct kube_config *c, const char *path, const char *query) {
        AUTO_BUF struct buf url = { 0 };
        const char *server = c->server, *host = strstr(server, "://") + 3;
        const char *end = host + strcspn(host, "/");
        int r;

        if (c->tls_name && strncmp(server, "https", 5) == 0) {
                AUTO_BUF struct buf to = { 0 };
                AUTO_BUF struct buf name = { 0 };
                const char *colon = memrchr(host, ':', (size_t) (end - host));
                const bool port = colon && !memchr(colon, ']', (size_t) (end - colon));
                const char *port_text = port ? colon : ":443";

                r = buf_fmt(&url, "https://%s%.*s%s%s", c->tls_name, port ? (int) (end - colon) : 4,
                            port_text, end, path);
                if (r == 0)
                        r = buf_fmt(&to, "::%.*s%s", (int) (end - host), host, port ? "" : ":443");
                if (r == 0)
                        r = add_line(&t->connect_to, to.data);
                if (r == 0)
                        r = buf_fmt(&name, "%.*s", (int) (end - host), host);
                if (r == 0)
                        r = add_header(t, "Host", name.data);
        } else {
                r = buf_fmt(&url, "%s%s", server, path);
        }
        if (r == 0 && query && *query)
                r = buf_fmt(&url, "?%s", query);
        t->url = buf_take(&url);
        return r < 0 ? -ENOMEM : 0;
}

/* A row of options that are all to be set. */
#define SET(opt, value)                                            \
        do {                                                       \
                if (r == CURLE_OK)                                 \
                        r = curl_easy_setopt(t->easy, opt, value); \
        } while (0)

static CURLcode set_tls(struct transfer *t, const struct kube_config *c, const struct kube_credential *cred) {
        struct curl_blob ca = blob(&c->ca), cert = blob(cred->cert), key = blob(cred->key);
        CURLcode r = CURLE_OK;

        SET(CURLOPT_SSLVERSION, (long) CURL_SSLVERSION_TLSv1_2);
        SET(CURLOPT_SSL_VERIFYPEER, c->insecure ? 0L : 1L);
        SET(CURLOPT_SSL_VERIFYHOST, c->insecure ? 0L : 2L);
        if (ca.len > 0) {
                SET(CURLOPT_CAINFO_BLOB, &ca);
                SET(CURLOPT_CAPATH, NULL); /* the host's authorities would be taken beside it */
        }
        if (cert.len > 0) {
                SET(CURLOPT_SSLCERTTYPE, "PEM");
                SET(CURLOPT_SSLCERT_BLOB, &cert);
                SET(CURLOPT_SSLKEYTYPE, "PEM");
                SET(CURLOPT_SSLKEY_BLOB, &key);
        }
        return r;
}

static CURLcode set_ways(struct transfer *t, const struct kube_config *c) {
        static const char *const near[] = { "://127.", "://localhost", "://[::1]" };
        CURLcode r = CURLE_OK;
        bool here = false;

        for (size_t i = 0; i < ARRAY_SIZE(near); i++)
                here = here || strstr(c->server, near[i]);
        if (c->proxy) {
                SET(CURLOPT_PROXY, c->proxy);
                SET(CURLOPT_NOPROXY, "");
        } else if (here) {
                SET(CURLOPT_PROXY, ""); /* as Go: what is on this host is not asked for through a proxy */
        }
        SET(CURLOPT_PROTOCOLS_STR, "https,http");
        SET(CURLOPT_FOLLOWLOCATION, 0L);
        SET(CURLOPT_HTTP_VERSION, (long) CURL_HTTP_VERSION_1_1);
        SET(CURLOPT_CONNECTTIMEOUT_MS, (long) KUBE_CONNECT_MS);
        SET(CURLOPT_NOSIGNAL, 1L);
        SET(CURLOPT_TCP_KEEPALIVE, 1L);
        SET(CURLOPT_TCP_KEEPIDLE, (long) SILENCE_S);
        SET(CURLOPT_TCP_KEEPINTVL, (long) SILENCE_S);
        SET(CURLOPT_MAXAGE_CONN, 60L);
        SET(CURLOPT_USERAGENT, "cofferdam/" COFFERDAM_VERSION);
        SET(CURLOPT_ERRORBUFFER, t->why);
        SET(CURLOPT_PRIVATE, t);
        return r;
}

static int add_identity(struct transfer *t, const struct kube_config *c, const struct kube_credential *cred) {
        int r = add_header(t, "Authorization", cred->authorization);

        if (r == 0)
                r = add_header(t, "Impersonate-User", c->as);
        if (r == 0)
                r = add_header(t, "Impersonate-Uid", c->as_uid);
        for (size_t i = 0; r == 0 && i < c->as_groups.n; i++)
                r = add_header(t, "Impersonate-Group", c->as_groups.v[i]);
        return r;
}

int transfer_equip(struct transfer *t, const char *path, const char *query, bool again, struct error *err) {
        struct kube_config *c = kube_config_mutable(t->kube);
        struct kube_credential cred;
        CURLcode r;
        int e;

        e = kube_credential_get(c, again, &cred, err);
        if (e < 0)
                return e;
        e = add_identity(t, c, &cred);
        if (e == 0)
                e = set_url(t, c, path, query);
        r = set_tls(t, c, &cred);
        if (r == CURLE_OK)
                r = set_ways(t, c);
        SET(CURLOPT_URL, t->url);
        if (t->connect_to)
                SET(CURLOPT_CONNECT_TO, t->connect_to);
        if (cred.authorization)
                OPENSSL_cleanse(cred.authorization, strlen(cred.authorization));
        free(cred.authorization);
        if (e < 0 || r != CURLE_OK)
                return error_set(err, e < 0 || r == CURLE_OUT_OF_MEMORY ? -ENOMEM : -EINVAL,
                                 "prepare a request: %s", e < 0 ? strerror(-e) : curl_easy_strerror(r));
        return 0;
}

int transfer_set_request(struct transfer *t, const struct transfer_how *how) {
        CURLcode r = CURLE_OK;
        int e = add_line(&t->headers, "Accept: application/json");

        if (e == 0 && how->body) {
                t->body = json_dumps(how->body, JSON_COMPACT);
                e = t->body ? add_header(t, "Content-Type",
                                         how->content_type ? how->content_type : "application/json")
                            : -ENOMEM;
                if (e == 0)
                        e = add_line(&t->headers, "Expect:");
                SET(CURLOPT_POSTFIELDS, t->body);
                SET(CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t) (t->body ? strlen(t->body) : 0));
        }
        SET(CURLOPT_CUSTOMREQUEST, how->method);
        SET(CURLOPT_HTTPHEADER, t->headers);
        SET(CURLOPT_WRITEFUNCTION, on_data);
        SET(CURLOPT_WRITEDATA, t);
        SET(CURLOPT_TIMEOUT_MS, (long) how->timeout_ms);
        return e < 0 || r != CURLE_OK ? -ENOMEM : 0;
}
#undef SET

int transfer_http(const struct transfer *t) {
        long code = 0;

        (void) curl_easy_getinfo(t->easy, CURLINFO_RESPONSE_CODE, &code);
        return (int) code;
}

unsigned transfer_retry_s(const struct transfer *t) {
        curl_off_t s = 0;

        (void) curl_easy_getinfo(t->easy, CURLINFO_RETRY_AFTER, &s);
        return s > 0 && s < 86400 ? (unsigned) s : s > 0 ? 86400 : 0;
}

/* Whether the request may have reached the server. */
static bool was_sent(const struct transfer *t) {
        curl_off_t us = 0;

        (void) curl_easy_getinfo(t->easy, CURLINFO_PRETRANSFER_TIME_T, &us);
        return us > 0;
}

static int curl_errno(const struct transfer *t) {
        static const struct {
                CURLcode curl;
                int code;
        } codes[] = {
                { CURLE_COULDNT_RESOLVE_PROXY, -ENETUNREACH },
                { CURLE_COULDNT_RESOLVE_HOST, -ENETUNREACH },
                { CURLE_COULDNT_CONNECT, -ENETUNREACH },
                { CURLE_PROXY, -ENETUNREACH },
                { CURLE_SSL_CONNECT_ERROR, -EKEYREJECTED },
                { CURLE_PEER_FAILED_VERIFICATION, -EKEYREJECTED },
                { CURLE_SSL_CERTPROBLEM, -EKEYREJECTED },
                { CURLE_SSL_CACERT_BADFILE, -EKEYREJECTED },
                { CURLE_SSL_CIPHER, -EKEYREJECTED },
                { CURLE_SSL_ISSUER_ERROR, -EKEYREJECTED },
                { CURLE_SSL_CLIENTCERT, -EKEYREJECTED },
                { CURLE_OPERATION_TIMEDOUT, -ETIMEDOUT },
                { CURLE_SEND_ERROR, -ECONNRESET },
                { CURLE_RECV_ERROR, -ECONNRESET },
                { CURLE_GOT_NOTHING, -ECONNRESET },
                { CURLE_PARTIAL_FILE, -ECONNRESET },
                { CURLE_WRITE_ERROR, -EFBIG },
                { CURLE_OUT_OF_MEMORY, -ENOMEM },
        };
        int code = -EBADMSG;

        for (size_t i = 0; i < ARRAY_SIZE(codes); i++)
                if (codes[i].curl == t->result)
                        code = codes[i].code;
        if ((code == -ETIMEDOUT || code == -ECONNRESET) && !was_sent(t))
                code = -ENETUNREACH;
        return code;
}

int transfer_error(const struct transfer *t, struct error *err) {
        int code;

        if (t->result == CURLE_OK)
                return 0;
        code = curl_errno(t);
        if (code == -EFBIG)
                return error_set(err, code, "the answer of '%s' is too long",
                                 ESC(kube_config_of(t->kube)->server));
        return error_set(err, code, "'%s': %s", ESC(kube_config_of(t->kube)->server),
                         ESC(t->why[0] ? t->why : curl_easy_strerror(t->result)));
}
