#include "auth/stream.h"

#include <errno.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "runtime/base/cleanup.h"
#include "runtime/base/escape.h"

/* struct stream_tls is OpenSSL's SSL_CTX; the name keeps its headers out of ours */

static int select_alpn(SSL *ssl, const unsigned char **out, unsigned char *out_len, const unsigned char *in,
                       unsigned int in_len, void *arg) {
        static const unsigned char ours[] = "\x08http/1.1";
        unsigned char *chosen = NULL;

        (void) ssl;
        (void) arg;
        if (SSL_select_next_proto(&chosen, out_len, ours, sizeof(ours) - 1, in, in_len) !=
            OPENSSL_NPN_NEGOTIATED)
                return SSL_TLSEXT_ERR_ALERT_FATAL;
        *out = chosen;
        return SSL_TLSEXT_ERR_OK;
}

static int tls_error(struct error *err, const char *what, const char *file) {
        const unsigned long first = ERR_peek_error();
        const char *reason =
                ERR_SYSTEM_ERROR(first) ? strerror(ERR_GET_REASON(first)) : ERR_reason_error_string(first);

        ERR_clear_error();
        return error_set(err, -EINVAL, "%s '%s': %s", what, ESC(file), reason ? reason : "not usable");
}

int stream_tls_new(const char *cert, const char *key, struct stream_tls **ret, struct error *err) {
        SSL_CTX *ctx = SSL_CTX_new(TLS_server_method());
        int r = 0;

        if (!ctx)
                return error_set(err, -ENOMEM, "TLS: out of memory");
        (void) SSL_CTX_set_min_proto_version(ctx, TLS1_2_VERSION);
        (void) SSL_CTX_set_options(ctx, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
        (void) SSL_CTX_set_mode(ctx, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                                             SSL_MODE_RELEASE_BUFFERS);
        SSL_CTX_set_alpn_select_cb(ctx, select_alpn, NULL);
        if (SSL_CTX_use_certificate_chain_file(ctx, cert) != 1)
                r = tls_error(err, "certificate", cert);
        else if (SSL_CTX_use_PrivateKey_file(ctx, key, SSL_FILETYPE_PEM) != 1)
                r = tls_error(err, "key", key);
        else if (SSL_CTX_check_private_key(ctx) != 1)
                r = tls_error(err, "key does not belong to the certificate:", key);
        if (r < 0) {
                SSL_CTX_free(ctx);
                return r;
        }
        *ret = (struct stream_tls *) (void *) ctx;
        return 0;
}

int stream_ca_check(const char *file, struct error *err) {
        X509_STORE *store = X509_STORE_new();
        int r = 0;

        if (!store)
                return error_set(err, -ENOMEM, "TLS: out of memory");
        if (X509_STORE_load_file(store, file) != 1)
                r = tls_error(err, "authorities", file);
        X509_STORE_free(store);
        return r;
}

struct stream_tls *stream_tls_free(struct stream_tls *tls) {
        SSL_CTX_free((SSL_CTX *) (void *) tls);
        return NULL;
}

int stream_init(struct stream *s, int fd, const struct stream_tls *tls) {
        SSL *ssl = NULL;

        if (tls) {
                union {
                        const struct stream_tls *from;
                        SSL_CTX *to;
                } ctx = { .from = tls };

                ssl = SSL_new(ctx.to);
                if (!ssl || SSL_set_fd(ssl, fd) != 1) {
                        SSL_free(ssl);
                        return -ENOMEM;
                }
                SSL_set_accept_state(ssl);
        }
        *s = (struct stream){ .fd = fd, .ssl = ssl };
        return 0;
}

void stream_deinit(struct stream *s) {
        SSL_free(s->ssl);
        s->ssl = NULL;
}

/* Return: -EAGAIN, 0 (end of file), -EPROTO, -errno. */
static ssize_t tls_outcome(struct stream *s, int n, bool reading) {
        switch (SSL_get_error(s->ssl, n)) {
        case SSL_ERROR_WANT_READ:
                s->write_wants_read = !reading;
                return -EAGAIN;
        case SSL_ERROR_WANT_WRITE:
                s->read_wants_write = reading;
                return -EAGAIN;
        case SSL_ERROR_ZERO_RETURN:
                return reading ? 0 : -EPIPE;
        default:
                s->broken = true;
                return -EPROTO;
        }
}

ssize_t stream_read(struct stream *s, void *data, size_t len) {
        ssize_t n;

        if (s->broken)
                return -EPROTO;
        if (!s->ssl) {
                n = recv(s->fd, data, len, 0);
                return n < 0 ? -errno : n;
        }
        s->read_wants_write = false;
        ERR_clear_error();
        n = SSL_read(s->ssl, data, len > INT32_MAX ? INT32_MAX : (int) len);
        return n > 0 ? n : tls_outcome(s, (int) n, true);
}

ssize_t stream_write(struct stream *s, const void *data, size_t len) {
        ssize_t n;

        if (s->broken)
                return -EPROTO;
        if (!s->ssl) {
                n = send(s->fd, data, len, MSG_NOSIGNAL);
                return n < 0 ? -errno : n;
        }
        s->write_wants_read = false;
        ERR_clear_error();
        n = SSL_write(s->ssl, data, len > INT32_MAX ? INT32_MAX : (int) len);
        return n > 0 ? n : tls_outcome(s, (int) n, false);
}

void stream_shutdown(struct stream *s) {
        if (s->ssl && !s->broken && SSL_is_init_finished(s->ssl))
                (void) SSL_shutdown(s->ssl);
        ERR_clear_error();
        (void) shutdown(s->fd, SHUT_WR);
}

uint32_t stream_events(const struct stream *s, bool want_read, bool want_write) {
        uint32_t events = EPOLLRDHUP;

        if ((want_read && !s->read_wants_write) || (want_write && s->write_wants_read))
                events |= EPOLLIN;
        if ((want_write && !s->write_wants_read) || (want_read && s->read_wants_write))
                events |= EPOLLOUT;
        return events;
}

bool stream_pending(const struct stream *s) {
        return s->ssl && SSL_pending(s->ssl) > 0;
}
