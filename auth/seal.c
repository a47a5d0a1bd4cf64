/*
 * DOC: theory of operation
 *
 * A sealed text is the version of its key (4 bytes, big endian), a random nonce of 12 bytes, the ciphertext,
 * and the tag of 16 bytes. The version and what the text is bound to are authenticated with it, so a row of a
 * database opens nowhere else and under no other key.
 *
 * Random nonces of 96 bits may be used for 2^32 texts under one key (NIST SP 800-38D, 8.3); at ten tokens a
 * second that is 13 years.
 */
#include "auth/seal.h"

#include <assert.h>
#include <errno.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <stdbool.h>
#include <string.h>
#include <sys/random.h>

#include "runtime/base/parse.h"

enum { KEY_BYTES = 32, VERSION_BYTES = 4, NONCE_BYTES = 12, TAG_BYTES = 16 };

static_assert(VERSION_BYTES + NONCE_BYTES + TAG_BYTES == SEAL_OVERHEAD, "what a sealed text has around it");

struct seal_key {
        uint32_t version;
        uint8_t bytes[KEY_BYTES];
};

struct seal {
        struct seal_key keys[SEAL_KEYS_MAX];
        size_t n_keys;
};

struct seal *seal_free(struct seal *seal) {
        if (seal)
                OPENSSL_cleanse(seal, sizeof(*seal));
        free(seal);
        return NULL;
}

static int hex_digit(char c) {
        if (c >= '0' && c <= '9')
                return c - '0';
        if (c >= 'a' && c <= 'f')
                return c - 'a' + 10;
        if (c >= 'A' && c <= 'F')
                return c - 'A' + 10;
        return -1;
}

static bool read_key(const char *s, size_t len, uint8_t key[KEY_BYTES]) {
        if (len != 2 * (size_t) KEY_BYTES)
                return false;
        for (size_t i = 0; i < KEY_BYTES; i++) {
                const int high = hex_digit(s[2 * i]), low = hex_digit(s[2 * i + 1]);

                if (high < 0 || low < 0)
                        return false;
                key[i] = (uint8_t) (high << 4 | low);
        }
        return true;
}

/* one "VERSION:KEY" of @len bytes; errors show its place only: the rest may be a key in the wrong form */
static int add_key(struct seal *seal, const char *s, size_t len, struct error *err) {
        const size_t place = seal->n_keys + 1, digits = len ? strcspn(s, ":") : 0;
        char version[11] = "";
        uint64_t number;

        if (seal->n_keys == SEAL_KEYS_MAX)
                return error_set(err, -EINVAL, "more than %d keys", SEAL_KEYS_MAX);
        if (digits >= len || digits == 0 || digits >= sizeof(version))
                return error_set(err, -EINVAL,
                                 "entry %zu: want VERSION:KEY, for instance 1:<64 hexadecimal digits>",
                                 place);
        memcpy(version, s, digits);
        if (parse_u64(version, 1, INT32_MAX, &number) < 0)
                return error_set(err, -EINVAL, "entry %zu: the version is not a number from 1 to %d", place,
                                 INT32_MAX);
        for (size_t i = 0; i < seal->n_keys; i++)
                if (seal->keys[i].version == number)
                        return error_set(err, -EINVAL, "entry %zu: the version is the one of entry %zu",
                                         place, i + 1);
        if (!read_key(s + digits + 1, len - digits - 1, seal->keys[seal->n_keys].bytes))
                return error_set(err, -EINVAL, "entry %zu: the key is not 64 hexadecimal digits", place);
        seal->keys[seal->n_keys++].version = (uint32_t) number;
        return 0;
}

int seal_open_keys(const char *keys, struct seal **ret, struct error *err) {
        static const char blanks[] = " \t\n";
        AUTO_SEAL struct seal *seal = NULL;
        int r;

        assert(keys && ret);
        seal = calloc(1, sizeof(*seal));
        if (!seal)
                return error_set(err, -ENOMEM, "out of memory");
        for (;; keys++) {
                keys += strspn(keys, blanks);
                r = add_key(seal, keys, strcspn(keys, " \t\n,"), err);
                if (r < 0)
                        return r;
                keys += strcspn(keys, " \t\n,");
                keys += strspn(keys, blanks);
                if (!*keys)
                        break;
                if (*keys != ',')
                        return error_set(err, -EINVAL, "entry %zu: no comma after it", seal->n_keys);
        }
        *ret = TAKE_PTR(seal);
        return 0;
}

int seal_activate(struct seal *seal, const char *version, struct error *err) {
        struct seal_key key;
        uint64_t number;
        size_t i = 0;

        assert(seal && version);
        if (parse_u64(version, 1, INT32_MAX, &number) < 0)
                return error_set(err, -EINVAL, "not a number from 1 to %d", INT32_MAX);
        while (i < seal->n_keys && seal->keys[i].version != number)
                i++;
        if (i == seal->n_keys)
                return error_set(err, -EINVAL, "no key of that version is in IRONFLOW_SECRET_KEYS");
        key = seal->keys[i];
        seal->keys[i] = seal->keys[0];
        seal->keys[0] = key;
        OPENSSL_cleanse(&key, sizeof(key));
        return 0;
}

static void cipher_free(EVP_CIPHER_CTX **ctx) {
        EVP_CIPHER_CTX_free(*ctx);
}

static bool bind_to(EVP_CIPHER_CTX *ctx, bool sealing, const uint8_t version[VERSION_BYTES],
                    const char *bound) {
        int n;

        return EVP_CipherUpdate(ctx, NULL, &n, version, VERSION_BYTES) == 1 &&
               EVP_CipherUpdate(ctx, NULL, &n, (const uint8_t *) bound, (int) strlen(bound)) == 1 &&
               EVP_CIPHER_CTX_is_encrypting(ctx) == sealing;
}

static int encrypt(const struct seal_key *key, const char *bound, const void *text, size_t len,
                   uint8_t *out) {
        __attribute__((cleanup(cipher_free))) EVP_CIPHER_CTX *ctx = EVP_CIPHER_CTX_new();
        uint8_t *nonce = out + VERSION_BYTES, *body = nonce + NONCE_BYTES;
        int n = 0, rest = 0;

        for (size_t i = 0; i < VERSION_BYTES; i++)
                out[i] = (uint8_t) (key->version >> (24 - 8 * i));
        if (!ctx || getrandom(nonce, NONCE_BYTES, 0) != NONCE_BYTES ||
            EVP_EncryptInit_ex2(ctx, EVP_aes_256_gcm(), key->bytes, nonce, NULL) != 1 ||
            !bind_to(ctx, true, out, bound) || EVP_EncryptUpdate(ctx, body, &n, text, (int) len) != 1 ||
            EVP_EncryptFinal_ex(ctx, body + n, &rest) != 1 || (size_t) n + (size_t) rest != len ||
            EVP_CIPHER_CTX_ctrl(ctx, EVP_CTRL_AEAD_GET_TAG, TAG_BYTES, body + len) != 1)
                return -EIO;
        return 0;
}

int seal_close(const struct seal *seal, const char *bound, const void *text, size_t len, uint8_t **ret,
               size_t *ret_len) {
        AUTO_FREE uint8_t *out = NULL;
        int r;

        assert(seal && seal->n_keys > 0 && bound && ret && ret_len);
        if (len > SEAL_MAX - SEAL_OVERHEAD)
                return -E2BIG;
        out = malloc(len + SEAL_OVERHEAD);
        if (!out)
                return -ENOMEM;
        r = encrypt(&seal->keys[0], bound, text, len, out);
        if (r < 0)
                return r;
        *ret = TAKE_PTR(out);
        *ret_len = len + SEAL_OVERHEAD;
        return 0;
}

static const struct seal_key *key_of(const struct seal *seal, const uint8_t version[VERSION_BYTES]) {
        uint32_t number = 0;

        for (size_t i = 0; i < VERSION_BYTES; i++)
                number = number << 8 | version[i];
        for (size_t i = 0; i < seal->n_keys; i++)
                if (seal->keys[i].version == number)
                        return &seal->keys[i];
        return NULL;
}

static int decrypt(const struct seal_key *key, const char *bound, const uint8_t *sealed, size_t len,
                   uint8_t *text) {
        __attribute__((cleanup(cipher_free))) EVP_CIPHER_CTX *ctx = EVP_CIPHER_CTX_new();
        const uint8_t *nonce = sealed + VERSION_BYTES, *body = nonce + NONCE_BYTES;
        uint8_t tag[TAG_BYTES];
        int n = 0, rest = 0;

        memcpy(tag, body + len, sizeof(tag));
        if (!ctx || EVP_DecryptInit_ex2(ctx, EVP_aes_256_gcm(), key->bytes, nonce, NULL) != 1 ||
            !bind_to(ctx, false, sealed, bound) || EVP_DecryptUpdate(ctx, text, &n, body, (int) len) != 1 ||
            EVP_CIPHER_CTX_ctrl(ctx, EVP_CTRL_AEAD_SET_TAG, TAG_BYTES, tag) != 1)
                return -EIO;
        if (EVP_DecryptFinal_ex(ctx, text + n, &rest) != 1 || (size_t) n + (size_t) rest != len)
                return -EBADMSG;
        text[len] = 0;
        return 0;
}

int seal_open(const struct seal *seal, const char *bound, const uint8_t *sealed, size_t sealed_len,
              char **ret, size_t *ret_len) {
        const struct seal_key *key;
        uint8_t *text;
        size_t len;
        int r;

        assert(seal && bound && sealed && ret && ret_len);
        if (sealed_len < SEAL_OVERHEAD || sealed_len > SEAL_MAX)
                return -EBADMSG;
        key = key_of(seal, sealed);
        if (!key)
                return -ENOKEY;
        len = sealed_len - SEAL_OVERHEAD;
        text = malloc(len + 1);
        if (!text)
                return -ENOMEM;
        r = decrypt(key, bound, sealed, len, text);
        if (r < 0) {
                OPENSSL_cleanse(text, len + 1); /* what was decrypted before the tag was found wrong */
                free(text);
                return r;
        }
        *ret = (char *) text;
        *ret_len = len;
        return 0;
}
