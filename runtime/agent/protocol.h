/*
 * protocol.h - what launcher and runner agree on above the lines: versions, ids, clamps
 *
 * The runner says hello first: a launcher of protocol 1 ignores what it does not know, while a runner of
 * protocol 1 dies of it. So the launcher says hello only to a runner that did, and both then speak the lower
 * version. See cofferdam-agent(7).
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/base/error.h"

enum {
        PROTOCOL_FIRST = 1,
        PROTOCOL_VERSION = 2,
        PROTOCOL_TOOLS_MAX = 1024,    /* names of a hello */
        PROTOCOL_NAME_MAX = 256,      /* bytes of a tool's name */
        CLAMP_TEXT_MAX = 1 << 20,     /* bytes of a text, and of a JSON field as text */
        CLAMP_SNAPSHOT_MAX = 2 << 20, /* bytes of a turn's snapshot as text */
        CLAMP_EVENT_MAX = 3 << 20,    /* bytes of an event, all fields together */
        PENDING_MAX = 4096,           /* calls without an answer */
};

/** struct hello - what a peer says of itself */
struct hello {
        int protocol;
        char version[64]; /* of the program; for people */
        json_t *tools;    /* array of names that it can execute; owned */
        json_t *features; /* array of names: "mcp"; owned */
};

/** hello_deinit() - keeps errno */
void hello_deinit(struct hello *hello);

/**
 * hello_json() - the data of a hello of this program
 * @tools, @features: names, NULL-terminated; NULL: none
 * Return: new reference, NULL when out of memory.
 */
json_t *hello_json(const char *const *tools, const char *const *features) __attribute__((warn_unused_result));

/**
 * hello_read() - the data of a peer's hello
 * @ret: written on success only. protocol is at most PROTOCOL_VERSION: the version that both speak
 * Return: 0, -EBADMSG, -ENOMEM.
 */
int hello_read(const json_t *data, struct hello *ret, struct error *err) __attribute__((warn_unused_result));

/** hello_has() - whether the peer said the feature @name */
bool hello_has(const struct hello *hello, const char *name);

/**
 * text_json() - bytes of a tool or of a process as a JSON string
 * @max: bytes of the text that is kept; more is cut at a character and followed by "\n[N bytes cut]"
 * Bytes that are not UTF-8 become \xNN; NUL stays. Return: new reference, NULL when out of memory.
 */
json_t *text_json(const char *text, size_t len, size_t max) __attribute__((warn_unused_result));

/**
 * clamp_event() - the payload of an event within bounds: a text over CLAMP_TEXT_MAX is cut with a marker, any
 * other field over it becomes {"_iterion_sandbox_relay_omitted_bytes": N}; a payload that is still over
 * CLAMP_EVENT_MAX keeps its numbers and truths, and of its texts and structures only how long they were
 * @payload: object, borrowed
 * "snapshot" may have CLAMP_SNAPSHOT_MAX bytes and is left out whole above that; "snapshot_bytes" then says
 * its size. Return: new reference, NULL when out of memory or @payload is no object.
 */
json_t *clamp_event(json_t *payload) __attribute__((warn_unused_result));

/** clamp_bytes() - length of @json as compact text, without making it; 0: NULL */
size_t clamp_bytes(const json_t *json);

/** struct pending - calls that wait for an answer, by id; for the side that asks */
struct pending {
        json_t *ids; /* object: id to the caller's own value; owned */
        uint64_t last;
};
#define PENDING_INIT \
        { 0 }

/**
 * pending_add() - a new id, "<prefix><n>", registered before the call is written
 * @value: the caller's own, consumed in every case; NULL: true
 * @ret: receives the id
 * Return: 0, -EAGAIN (PENDING_MAX wait already), -ENOMEM.
 */
int pending_add(struct pending *p, const char *prefix, json_t *value, char ret[static 48])
        __attribute__((warn_unused_result));

/** pending_take() - the answer to @id has come, or the call is given up. Return: the value, owned; NULL: no
 * such call waits: unknown, answered already, or given up, and the answer is dropped. */
json_t *pending_take(struct pending *p, const char *id) __attribute__((warn_unused_result));

/** pending_first() - the id of a call that waits, borrowed until it is taken; NULL: none. For the end of the
 * stream, where each gets an error of its own making. */
const char *pending_first(const struct pending *p);

/** pending_deinit() - keeps errno */
void pending_deinit(struct pending *p);
