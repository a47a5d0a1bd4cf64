/*
 * presented.h - the token that a request presents
 */
#pragma once

#include "auth/target.h"
#include "auth/token.h"

/**
 * presented_id() - the ID of the token of a request
 * @id: out, RELAY_OK only
 *
 * The first of these that is there and not empty: Authorization with Bearer, X-Api-Key, Private-Token, the
 * password of Authorization with Basic. A header of these that is there twice is refused, whatever it says:
 * two readers would take two different ones.
 *
 * Return: RELAY_OK; RELAY_NO_TOKEN: nothing that has the form of a token; RELAY_TWO_TOKENS.
 */
enum relay_result presented_id(const struct http_head *head, char id[TOKEN_ID_LEN + 1]);
