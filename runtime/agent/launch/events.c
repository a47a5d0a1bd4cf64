/*
 * What is written down of a task. What the runner says of itself is a claim from inside: it is marked as
 * such, and of its fields only numbers and the names in `texts` reach events.jsonl, never a prompt, an answer
 * or an input.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "runtime/agent/launch/parts.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/escape.h"
#include "runtime/base/file.h"
#include "runtime/base/json.h"
#include "runtime/base/log.h"

enum { TEXT_MAX = 256, KEY_MAX = 48, FIELDS_MAX = 64 };

static const char *const relayed[] = {
        "llm_request",   "llm_step_finished", "tool_started",        "tool_called",  "llm_retry",
        "llm_compacted", "llm_turn_capture",  "mcp_server_degraded", "user_message", "agent_requested",
};
static const char *const texts[] = { "model", "tool",   "stop_reason", "reason", "error",
                                     "id",    "status", "provider",    "server", "origin" };

static bool listed(const char *const *list, size_t n, const char *name) {
        for (size_t i = 0; name && i < n; i++)
                if (strcmp(list[i], name) == 0)
                        return true;
        return false;
}

void launch_event(struct launch *l, const char *type, json_t *data) {
        AUTO_JSON json_t *own = data;
        const size_t bytes = clamp_bytes(own);
        int r;

        if (!own || l->event_bytes + bytes > LAUNCH_EVENTS_MAX) {
                l->dropped++;
                return;
        }
        l->event_bytes += bytes;
        r = teller_event(&l->teller, type, own);
        if (r < 0) {
                l->dropped++;
                log_debug("event '%s': %s", type, strerror(-r));
        }
}

void launch_refused(struct launch *l, const char *id, const char *name, const char *reason) {
        l->refused++;
        if (l->refused <= LAUNCH_LOGGED_MAX)
                log_warn("refused tool call '%s': %s%s", name ? ESC(name) : "", reason,
                         l->refused == LAUNCH_LOGGED_MAX ? "; further ones are not logged, see the events"
                                                         : "");
        launch_event(l, "tool_refused",
                     json_pack("{s:o,s:o,s:o}", "tool", json_from_bytes(name ? name : "", TEXT_MAX), "id",
                               json_from_bytes(id, TEXT_MAX), "reason",
                               json_from_bytes(reason, ERROR_MSG_MAX)));
}

/* One field of the runner's, or how many bytes it had. */
static int put_field(json_t *out, const char *key, json_t *value) {
        char name[KEY_MAX + 8];

        if (json_is_number(value) || json_is_boolean(value))
                return json_object_set(out, key, value);
        if (json_is_string(value) && listed(texts, ARRAY_SIZE(texts), key))
                return json_object_set_new(out, key, json_from_bytes(json_string_value(value), TEXT_MAX));
        if (json_is_null(value))
                return 0;
        (void) snprintf(name, sizeof(name), "%s_bytes", key);
        return json_object_set_new(out, name, json_integer((json_int_t) clamp_bytes(value)));
}

static bool key_fits(const char *key) {
        static const char letters[] = "abcdefghijklmnopqrstuvwxyz0123456789_";

        return *key && strlen(key) <= KEY_MAX && strspn(key, letters) == strlen(key);
}

/* What of @payload may be written down; new reference, NULL: out of memory. */
static json_t *sanitize(json_t *payload) {
        AUTO_JSON json_t *out = json_object();
        const char *key;
        json_t *value;

        json_object_foreach(payload, key, value) if (key_fits(key) && json_object_size(out) < FIELDS_MAX &&
                                                     put_field(out, key, value) < 0) return NULL;
        if (json_object_set_new(out, "said_by", json_string("runner")) < 0)
                return NULL;
        return TAKE_PTR(out);
}

static json_int_t number(const json_t *payload, const char *key) {
        const json_t *value = json_object_get(payload, key);

        if (!value)
                value = json_object_get(json_object_get(payload, "usage"), key);
        return json_is_integer(value) && json_integer_value(value) > 0 ? json_integer_value(value) : 0;
}

/* What would overflow is the end of the count, not its beginning. */
static void add(json_int_t *sum, json_int_t n) {
        if (__builtin_add_overflow(*sum, n, sum))
                *sum = INT64_MAX;
}

json_int_t launch_tokens(const struct meter *m) {
        json_int_t sum = m->input;

        add(&sum, m->output);
        add(&sum, m->cache_read);
        add(&sum, m->cache_creation);
        return sum;
}

static void count(struct meter *m, const json_t *payload) {
        m->steps++;
        add(&m->input, number(payload, "input_tokens"));
        add(&m->output, number(payload, "output_tokens"));
        add(&m->cache_read, number(payload, "cache_read_input_tokens"));
        add(&m->cache_creation, number(payload, "cache_creation_input_tokens"));
}

/* Return: whether it was written. */
static bool store(struct launch *l, const char *name, const json_t *data) {
        AUTO_FREE char *text = json_dumps(data, JSON_COMPACT | JSON_ENCODE_ANY);

        if (l->order->session_fd < 0 || !text)
                return false;
        return file_replace_at(l->order->session_fd, name, text, strlen(text), 0600, false) == 0;
}

static void store_turn(struct launch *l, const json_t *snapshot) {
        const size_t bytes = clamp_bytes(snapshot);
        char name[48];

        (void) snprintf(name, sizeof(name), "turn-%zu.json", l->turns + 1);
        if (bytes > CLAMP_SNAPSHOT_MAX || l->turn_bytes + bytes > LAUNCH_TURNS_MAX ||
            !store(l, name, snapshot)) {
                l->dropped++;
                return;
        }
        l->turns++;
        l->turn_bytes += bytes;
}

void launch_relay(struct launch *l, const json_t *data) {
        const char *type = json_string_value(json_object_get(data, "type"));
        json_t *payload = json_object_get(data, "payload"), *snapshot = json_object_get(payload, "snapshot");
        AUTO_JSON json_t *own = NULL;

        if (!listed(relayed, ARRAY_SIZE(relayed), type) || (payload && !json_is_object(payload))) {
                l->dropped++;
                return;
        }
        if (strcmp(type, "llm_step_finished") == 0)
                count(&l->meter, payload);
        if (strcmp(type, "llm_turn_capture") == 0 && snapshot && l->order->session_fd >= 0)
                store_turn(l, snapshot);
        own = sanitize(payload);
        l->relayed_bytes += clamp_bytes(own);
        if (l->relayed_bytes > LAUNCH_RELAYED_MAX)
                l->dropped++;
        else
                launch_event(l, type, TAKE_PTR(own));
}

void launch_keep(struct launch *l, const json_t *data) {
        const bool kept = data && store(l, "session.json", data);

        l->dropped += !kept && l->order->session_fd >= 0; /* else nobody asked for it: the event says so */
        launch_event(l, "session_captured",
                     json_pack("{s:I,s:b}", "bytes", (json_int_t) clamp_bytes(data), "kept", kept));
}
