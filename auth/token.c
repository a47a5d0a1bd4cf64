#include "auth/token.h"

#include <assert.h>
#include <errno.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <stdint.h>
#include <string.h>
#include <sys/random.h>

#include "runtime/base/cleanup.h"

enum { RANDOM_BYTES = 32, HASH_BYTES = 32 };

static const char prefix[] = "ifap_";

static_assert(sizeof(prefix) - 1 + 2 * RANDOM_BYTES == TOKEN_LEN, "a token is its prefix and its bytes");
static_assert(2 * HASH_BYTES == TOKEN_ID_LEN, "an ID is a SHA-256");

static void to_hex(const uint8_t *bytes, size_t n, char *out) {
        static const char digits[] = "0123456789abcdef";

        for (size_t i = 0; i < n; i++) {
                out[2 * i] = digits[bytes[i] >> 4];
                out[2 * i + 1] = digits[bytes[i] & 15];
        }
        out[2 * n] = 0;
}

static bool is_hex(const char *s, size_t n) {
        for (size_t i = 0; i < n; i++)
                if (!((s[i] >= '0' && s[i] <= '9') || (s[i] >= 'a' && s[i] <= 'f')))
                        return false;
        return true;
}

static bool sha256(const char *s, size_t len, uint8_t hash[HASH_BYTES]) {
        unsigned int n = 0;

        return EVP_Digest(s, len, hash, &n, EVP_sha256(), NULL) == 1 && n == HASH_BYTES;
}

static bool fill_random(uint8_t *bytes, size_t n) {
        size_t have = 0;

        while (have < n) {
                const ssize_t got = getrandom(bytes + have, n - have, 0);

                if (got < 0 && errno != EINTR)
                        return false;
                have += got > 0 ? (size_t) got : 0;
        }
        return true;
}

int token_new(char token[TOKEN_LEN + 1], char id[TOKEN_ID_LEN + 1]) {
        uint8_t bytes[RANDOM_BYTES], hash[HASH_BYTES];
        char made[TOKEN_LEN + 1];
        int r = -EIO;

        if (fill_random(bytes, sizeof(bytes))) {
                memcpy(made, prefix, sizeof(prefix) - 1);
                to_hex(bytes, sizeof(bytes), made + sizeof(prefix) - 1);
                if (sha256(made, TOKEN_LEN, hash)) {
                        memcpy(token, made, sizeof(made));
                        to_hex(hash, sizeof(hash), id);
                        r = 0;
                }
        }
        OPENSSL_cleanse(bytes, sizeof(bytes));
        OPENSSL_cleanse(made, sizeof(made));
        return r;
}

bool token_id(const char *token, size_t len, char id[TOKEN_ID_LEN + 1]) {
        uint8_t hash[HASH_BYTES];

        if (len != TOKEN_LEN || memcmp(token, prefix, sizeof(prefix) - 1) != 0 ||
            !is_hex(token + sizeof(prefix) - 1, 2 * (size_t) RANDOM_BYTES) || !sha256(token, len, hash))
                return false;
        to_hex(hash, sizeof(hash), id);
        return true;
}

bool token_id_valid(const char *id) {
        return strnlen(id, TOKEN_ID_LEN + 1) == TOKEN_ID_LEN && is_hex(id, TOKEN_ID_LEN);
}

bool token_key_equal(const char *a, size_t a_len, const char *b, size_t b_len) {
        uint8_t x[HASH_BYTES], y[HASH_BYTES];

        return sha256(a, a_len, x) && sha256(b, b_len, y) && CRYPTO_memcmp(x, y, sizeof(x)) == 0;
}

void token_clear(char *secret, size_t len) {
        if (secret)
                OPENSSL_cleanse(secret, len);
}
