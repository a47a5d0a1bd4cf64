/* built without OpenSSL: http only, which is what the relay of a run speaks */
#include <errno.h>

#include "runtime/agent/runner/stream.h"

int tls_start(struct stream *s, const struct host *host, uint64_t deadline_ns, struct error *err) {
        (void) s;
        (void) deadline_ns;
        return error_set(err, -ENOTSUP, "https to '%s': this runner was built without OpenSSL", host->name);
}

ssize_t tls_read(struct stream *s, void *buf, size_t size, uint64_t deadline_ns) {
        (void) s;
        (void) buf;
        (void) size;
        (void) deadline_ns;
        return -ENOTSUP;
}

ssize_t tls_write(struct stream *s, const void *data, size_t len, uint64_t deadline_ns) {
        (void) s;
        (void) data;
        (void) len;
        (void) deadline_ns;
        return -ENOTSUP;
}

struct tls *tls_free(struct tls *tls) {
        (void) tls;
        return NULL;
}
