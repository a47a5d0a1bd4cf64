#include "image/digest.h"

#include <errno.h>
#include <openssl/evp.h>
#include <string.h>
#include <unistd.h>

#include "runtime/base/cleanup.h"

enum { CHUNK = 256 << 10 };

struct digest *digest_new(void) {
        EVP_MD_CTX *ctx = EVP_MD_CTX_new();

        if (ctx && EVP_DigestInit_ex(ctx, EVP_sha256(), NULL) == 1)
                return (struct digest *) ctx;
        EVP_MD_CTX_free(ctx);
        return NULL;
}

struct digest *digest_free(struct digest *d) {
        EVP_MD_CTX_free((EVP_MD_CTX *) d);
        return NULL;
}

int digest_add(struct digest *d, const void *data, size_t len) {
        return EVP_DigestUpdate((EVP_MD_CTX *) d, data, len) == 1 ? 0 : -EIO;
}

int digest_end(struct digest *d, char ret[static DIGEST_TEXT_LEN + 1]) {
        unsigned char sum[EVP_MAX_MD_SIZE];
        static const char hex[] = "0123456789abcdef";
        char *p = ret + 7;

        if (EVP_DigestFinal_ex((EVP_MD_CTX *) d, sum, NULL) != 1)
                return -EIO;
        memcpy(ret, "sha256:", 7);
        for (size_t i = 0; i < DIGEST_HEX_LEN / 2; i++) {
                *p++ = hex[sum[i] >> 4];
                *p++ = hex[sum[i] & 15];
        }
        *p = '\0';
        return 0;
}

int digest_bytes(const void *data, size_t len, char ret[static DIGEST_TEXT_LEN + 1]) {
        AUTO_DIGEST struct digest *d = digest_new();
        int r;

        if (!d)
                return -ENOMEM;
        r = len > 0 ? digest_add(d, data, len) : 0;
        return r < 0 ? r : digest_end(d, ret);
}

int digest_file(int fd, char ret[static DIGEST_TEXT_LEN + 1], uint64_t *ret_size) {
        AUTO_DIGEST struct digest *d = digest_new();
        AUTO_FREE char *chunk = malloc(CHUNK);
        off_t at = 0;
        int r = d && chunk ? 0 : -ENOMEM;

        while (r == 0) {
                const ssize_t n = pread(fd, chunk, CHUNK, at);

                if (n < 0 && errno == EINTR)
                        continue;
                if (n <= 0) {
                        r = n < 0 ? -errno : 0;
                        break;
                }
                r = digest_add(d, chunk, (size_t) n);
                at += n;
        }
        if (r == 0)
                r = digest_end(d, ret);
        if (r == 0)
                *ret_size = (uint64_t) at;
        return r;
}
