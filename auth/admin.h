/*
 * admin.h - the side of the service that issues and revokes tokens and is asked how it does
 */
#pragma once

#include <stdbool.h>

#include "auth/registry.h"
#include "netns/http.h"

struct admin_call;
struct conn;

enum { ADMIN_BODY_BYTES_MAX = 512 * 1024, ADMIN_LIFE_SECONDS_MAX = 86400 };

/** admin_is_for() - whether a path is one of this side: /admin/..., /metrics, /healthz */
bool admin_is_for(struct http_text path);

/** admin_start() - serve the request at hand; the key is checked before anything else is looked at. @conn may
 * be gone afterwards. */
void admin_start(struct conn *conn);

/** admin_body() - more of the request's body was received; @conn may be gone afterwards */
void admin_body(struct conn *conn);

/** admin_free() - NULL-safe. Return: NULL. */
struct admin_call *admin_free(struct admin_call *call);

/**
 * admin_parse() - what a request for a token asks for
 * @body: @len bytes of JSON, hostile until the key was checked
 * @now:  seconds since 1970
 * @ret:  without an ID; caller frees with grant_free()
 * @err:  the text for the client; never a value
 * Return: 0, -EINVAL, -ENOMEM.
 */
int admin_parse(const char *body, size_t len, uint64_t now, struct grant **ret, struct error *err)
        __attribute__((warn_unused_result));

/** admin_segment() - a segment of a path without its percent-encoding. Return: owned, free(); NULL: not well
 * formed, a NUL in it, or out of memory. */
char *admin_segment(struct http_text segment) __attribute__((warn_unused_result));
