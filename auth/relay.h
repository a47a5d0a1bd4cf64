/*
 * relay.h - a request that goes to a server, with the credential in place of the token
 */
#pragma once

#include <stdbool.h>

struct conn;
struct relay;

/** relay_start() - decide the request at hand, and relay it or refuse it; @conn may be gone afterwards */
void relay_start(struct conn *conn);

/** relay_free() - end it; NULL-safe. Return: NULL. */
struct relay *relay_free(struct relay *relay);

/** relay_wants_body() - more of the request's body can be taken */
bool relay_wants_body(const struct relay *relay);

/** relay_body() - more of it was received */
void relay_body(struct relay *relay);

/** relay_drained() - the client can take more of the answer */
void relay_drained(struct relay *relay);

/** relay_late() - nothing moved for too long. Return: false: there is nothing that the client could still be
 * told. */
bool relay_late(struct relay *relay);
