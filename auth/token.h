/*
 * token.h - the opaque tokens that sandboxes hold, and keys that are compared
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

enum {
        TOKEN_LEN = 69,       /* "ifap_" and 32 random bytes in hexadecimal */
        TOKEN_ID_LEN = 64,    /* SHA-256 of the token in hexadecimal: what is stored */
        TOKEN_SHOWN_LEN = 12, /* how many digits of the ID logs and events show */
};

/**
 * token_new() - make a token of 32 bytes of the kernel's random source
 * @token: out, TOKEN_LEN characters and NUL; the caller clears it with token_clear() when it has been handed
 * out
 * @id:    out, its ID
 *
 * Return: 0, -EIO when there is no random source or no SHA-256.
 */
int token_new(char token[TOKEN_LEN + 1], char id[TOKEN_ID_LEN + 1]) __attribute__((warn_unused_result));

/**
 * token_id() - the ID of a token that someone presents
 * @token: borrowed, hostile, need not end with NUL
 * @len:   its length in bytes, any
 * @id:    out, only when @token has the form of a token
 *
 * Return: whether @token has the form of a token: nothing else is worth a question to the registry.
 */
bool token_id(const char *token, size_t len, char id[TOKEN_ID_LEN + 1]) __attribute__((warn_unused_result));

/** token_id_valid() - whether @id is TOKEN_ID_LEN lower case hexadecimal digits. */
bool token_id_valid(const char *id);

/**
 * token_key_equal() - whether two keys are the same, in a time that says nothing of where or how they differ
 * Neither needs to end with NUL. The lengths are not secret from the clock beyond the cost of a hash.
 */
bool token_key_equal(const char *a, size_t a_len, const char *b, size_t b_len)
        __attribute__((warn_unused_result));

/** token_clear() - overwrite a secret; is not optimised away. NULL allowed. */
void token_clear(char *secret, size_t len);
