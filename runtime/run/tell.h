/*
 * tell.h - a client of a run that lives writes events of its own into the run's stream
 */
#pragma once

#include <jansson.h>

#include <stdbool.h>

#include "runtime/base/error.h"
#include "runtime/run/message.h"
#include "runtime/run/state.h"

/** struct teller - the way to the supervisor */
struct teller {
        int sock; /* owned; -1: none, and what is said is lost */
};
#define TELLER_INIT \
        { .sock = -1 }

/** teller_init() - Return: 0, or as control_connect(). */
int teller_init(struct teller *teller, const struct run_dir *dir, struct error *err)
        __attribute__((warn_unused_result));

/**
 * teller_event() - one event; it is in the file when this returns
 * @type: see events_pass()
 * @data: object, borrowed; strings of outsiders cut and escaped by the caller (json_from_bytes())
 * Blocks for TELL_TIMEOUT_MS at most. Return: 0, -E2BIG (longer than an event may be), -ESRCH (the run is
 * over), -EINVAL (no event of a client), -ETIMEDOUT, -ENOMEM, -errno.
 */
enum { TELL_TIMEOUT_MS = 5000 };
int teller_event(struct teller *teller, const char *type, const json_t *data)
        __attribute__((warn_unused_result));

/**
 * teller_farewell() - the run's last word, if it comes within @ms
 * Return: whether it did; the teller is of no more use then.
 */
bool teller_farewell(struct teller *teller, int ms, struct run_msg *ret);

/** teller_deinit() - keeps errno */
void teller_deinit(struct teller *teller);
