/*
 * seal.h - credentials encrypted for a place that others can read: AES-256-GCM under a ring of keys
 *
 * The ring is IRONFLOW_SECRET_KEYS: "VERSION:KEY[,VERSION:KEY...]" where VERSION is 1 to 2147483647 and KEY
 * 64 hexadecimal digits. The first key seals unless seal_activate() names another, all of them open. To
 * change keys: add the new one everywhere, let it seal, wait until what the old one sealed has expired
 * (24 hours), take the old one away.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "runtime/base/cleanup.h"
#include "runtime/base/error.h"

struct seal;

enum {
        SEAL_KEYS_MAX = 16,
        SEAL_MAX = 256 * 1024,       /* bytes of a sealed text */
        SEAL_OVERHEAD = 4 + 12 + 16, /* version of the key, nonce, tag */
};

/**
 * seal_open_keys() - read a ring of keys
 * @keys: as above; spaces around commas are allowed
 * @ret:  owned, seal_free()
 * @err:  says which entry is wrong by its place, never shows it
 *
 * Return: 0, -EINVAL, -ENOMEM, -EIO (no AES-256-GCM).
 */
int seal_open_keys(const char *keys, struct seal **ret, struct error *err)
        __attribute__((warn_unused_result));

/**
 * seal_activate() - choose the key that seals
 * @version: of a key in the ring, in decimal digits; IRONFLOW_SECRET_ACTIVE_KEY_VERSION
 * @err:     never shows @version: it may be a key in the wrong place
 *
 * Return: 0, -EINVAL (no number, or no such key; @seal is as before).
 */
int seal_activate(struct seal *seal, const char *version, struct error *err)
        __attribute__((warn_unused_result));

/** seal_free() - overwrites the keys; NULL allowed. Return: NULL. */
struct seal *seal_free(struct seal *seal);
DEFINE_AUTO(struct seal, seal, seal_free)
#define AUTO_SEAL CLEANUP(auto_seal)

/**
 * seal_close() - encrypt with the key that seals and a random nonce
 * @bound:   bytes the text is bound to (the ID of the token): opened elsewhere, it fails
 * @text:    up to SEAL_MAX - SEAL_OVERHEAD bytes
 * @ret:     owned, free(); @ret_len = @len + SEAL_OVERHEAD
 *
 * Safe to call from several threads. Return: 0, -E2BIG, -ENOMEM, -EIO.
 */
int seal_close(const struct seal *seal, const char *bound, const void *text, size_t len, uint8_t **ret,
               size_t *ret_len) __attribute__((warn_unused_result));

/**
 * seal_open() - decrypt
 * @ret: owned, ends with a NUL that is not counted; to be overwritten before it is freed (token_clear())
 *
 * Return: 0, -ENOKEY (sealed with a key that is not in the ring), -EBADMSG (changed, bound to something else,
 * or no sealed text), -ENOMEM, -EIO.
 */
int seal_open(const struct seal *seal, const char *bound, const uint8_t *sealed, size_t sealed_len,
              char **ret, size_t *ret_len) __attribute__((warn_unused_result));
