/*
 * challenge.h - what a WWW-Authenticate header asks for (RFC 9110 section 11, RFC 6750)
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

enum { CHALLENGE_TEXT_MAX = 8192, CHALLENGE_VALUE_MAX = 2048 };

/** struct challenge - what is understood of it; strings owned, NULL: not there */
struct challenge {
        bool basic, bearer;
        char *realm, *service, *scope; /* of bearer */
};

/**
 * challenge_parse() - read the value of one header, which may hold several challenges
 * @text: @len foreign bytes
 * @ret:  caller frees with challenge_deinit(); written on success only
 * Schemes that are not understood are passed over. Return: 0, -EINVAL (malformed), -ENOMEM.
 */
int challenge_parse(const char *text, size_t len, struct challenge *ret) __attribute__((warn_unused_result));

/** challenge_deinit() - accepts a zeroed struct */
void challenge_deinit(struct challenge *c);
#define AUTO_CHALLENGE __attribute__((cleanup(challenge_deinit)))
