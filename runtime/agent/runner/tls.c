/* TLS by OpenSSL, on a socket that does not block */
#include <errno.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <poll.h>
#include <stdlib.h>
#include <unistd.h>

#include "runtime/agent/runner/stream.h"
#include "runtime/base/cleanup.h"

/** struct tls - one connection and its settings */
struct tls {
        SSL_CTX *ctx;
        SSL *ssl;
};

/* where the authorities are in one file; OpenSSL's own default, a directory, is asked in any case */
static const char *const bundles[] = {
        "/etc/ssl/certs/ca-certificates.crt", /* Debian, Alpine */
        "/etc/pki/tls/certs/ca-bundle.crt",   /* Fedora */
        "/etc/ssl/ca-bundle.pem",             /* SUSE */
        "/etc/ssl/cert.pem",                  /* musl distributions, BSD */
};

struct tls *tls_free(struct tls *tls) {
        if (!tls)
                return NULL;
        SSL_free(tls->ssl);
        SSL_CTX_free(tls->ctx);
        free(tls);
        return NULL;
}

static int failed(struct error *err, const char *what) {
        const char *why = ERR_reason_error_string(ERR_peek_last_error());

        return error_set(err, -EPROTO, "TLS: %s: %s", what, why ? why : "no reason given");
}

/* Waits for what the last call wants. Return: 0: again; 1: it is over, in order; -errno. */
static int again(struct stream *s, int result, uint64_t deadline_ns) {
        switch (SSL_get_error(s->tls->ssl, result)) {
        case SSL_ERROR_WANT_READ:
                return stream_wait(s, POLLIN, deadline_ns);
        case SSL_ERROR_WANT_WRITE:
                return stream_wait(s, POLLOUT, deadline_ns);
        case SSL_ERROR_ZERO_RETURN:
                return 1;
        default:
                return -ECONNRESET;
        }
}

/* @own: SSL_CERT_FILE or SSL_CERT_DIR say whom to trust, and nobody else is added. */
static int authorities(SSL_CTX *ctx, bool own) {
        if (SSL_CTX_set_default_verify_paths(ctx) != 1)
                return -EPROTO;
        for (size_t i = 0; !own && i < ARRAY_SIZE(bundles); i++) {
                if (access(bundles[i], R_OK) == 0)
                        own = SSL_CTX_load_verify_locations(ctx, bundles[i], NULL) == 1;
        }
        return 0;
}

static int prepare(struct tls *tls, int fd, bool own, const struct host *host) {
        tls->ctx = SSL_CTX_new(TLS_client_method());
        if (!tls->ctx || SSL_CTX_set_min_proto_version(tls->ctx, TLS1_2_VERSION) != 1 ||
            authorities(tls->ctx, own) < 0)
                return -EPROTO;
        SSL_CTX_set_verify(tls->ctx, SSL_VERIFY_PEER, NULL);
        tls->ssl = SSL_new(tls->ctx);
        if (!tls->ssl || SSL_set_fd(tls->ssl, fd) != 1)
                return -EPROTO;
        if (host->kind == HOST_ADDR)
                return X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(tls->ssl), host->name) == 1 ? 0 : -EPROTO;
        SSL_set_hostflags(tls->ssl, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
        return SSL_set1_host(tls->ssl, host->name) == 1 &&
                               SSL_ctrl(tls->ssl, SSL_CTRL_SET_TLSEXT_HOSTNAME, TLSEXT_NAMETYPE_host_name,
                                        (void *) (uintptr_t) host->name) == 1
                       ? 0
                       : -EPROTO;
}

int tls_start(struct stream *s, const struct host *host, uint64_t deadline_ns, struct error *err) {
        int r, n;

        s->tls = calloc(1, sizeof(*s->tls));
        if (!s->tls)
                return error_set(err, -ENOMEM, "out of memory");
        if (prepare(s->tls, s->fd, s->own_authorities, host) < 0)
                return failed(err, "set up");
        for (;;) {
                long verified;

                ERR_clear_error();
                n = SSL_connect(s->tls->ssl);
                if (n == 1)
                        return 0;
                r = again(s, n, deadline_ns);
                if (r == 0)
                        continue;
                verified = SSL_get_verify_result(s->tls->ssl);
                if (verified != X509_V_OK)
                        return error_set(err, -EPROTO, "TLS: the certificate of '%s' is not accepted: %s",
                                         host->name, X509_verify_cert_error_string(verified));
                return r == -ETIMEDOUT || r == -EPIPE
                               ? error_set(err, r, "TLS with '%s': no answer", host->name)
                               : failed(err, "handshake");
        }
}

ssize_t tls_read(struct stream *s, void *buf, size_t size, uint64_t deadline_ns) {
        for (;;) {
                int r, n;

                ERR_clear_error();
                n = SSL_read(s->tls->ssl, buf, size > 65536 ? 65536 : (int) size);
                if (n > 0)
                        return n;
                r = again(s, n, deadline_ns);
                if (r != 0)
                        return r == 1 ? 0 : r;
        }
}

ssize_t tls_write(struct stream *s, const void *data, size_t len, uint64_t deadline_ns) {
        for (;;) {
                int r, n;

                ERR_clear_error();
                n = SSL_write(s->tls->ssl, data, len > 65536 ? 65536 : (int) len);
                if (n > 0)
                        return n;
                r = again(s, n, deadline_ns);
                if (r != 0)
                        return r == 1 ? -ECONNRESET : r;
        }
}
