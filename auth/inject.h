/*
 * inject.h - the headers of a request as they go upstream, with the credential in place of the token
 */
#pragma once

#include "auth/credential.h"
#include "netns/http.h"
#include "runtime/base/buf.h"

/**
 * inject_headers() - write the headers for the server
 * @head: of the client
 * @out:  "name: value" and a NUL for each; to be cleared and freed by the caller, also after a failure
 *
 * What is about one connection is left out, and so is what this side decides: Host, the framing,
 * Accept-Encoding, Expect, every place of a token, cookies, and the header that the secret goes into.
 *
 * Return: 0, -ENOMEM, -E2BIG.
 */
int inject_headers(const struct http_head *head, const struct credential *credential, struct buf *out)
        __attribute__((warn_unused_result));
