/*
 * journal.h - what the service did, a JSON object a line on standard error
 *
 * A line that would have to be waited for is dropped and counted: a reader that stopped reading stops no
 * request. Nothing secret is handed in: no token, no credential, no header, no query.
 */
#pragma once

#include <jansson.h>

/** enum journal_level - of a line */
enum journal_level { JOURNAL_INFO, JOURNAL_WARN, JOURNAL_ERROR };

/**
 * journal_say() - one line: time, level, event, and @fields in their order
 * @event:  static words
 * @fields: an object, consumed; NULL: none, or out of memory
 */
void journal_say(enum journal_level level, const char *event, json_t *fields);
