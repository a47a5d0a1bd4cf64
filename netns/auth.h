/*
 * auth.h - the token of a run in Proxy-Authorization
 */
#pragma once

#include <stdbool.h>

#include "netns/http.h"

enum { AUTH_TOKEN_MAX = 128 };

/**
 * auth_check() - whether @header carries @token
 * @header: value of Proxy-Authorization, .s NULL: none; "Basic" with the token as password (any user), or
 * "Bearer" Takes as long for a wrong token as for the right one.
 */
bool auth_check(const char *token, struct http_text header);
