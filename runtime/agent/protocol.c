#include "runtime/agent/protocol.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "runtime/base/buf.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/escape.h"
#include "runtime/base/json.h"

void hello_deinit(struct hello *hello) {
        const int saved = errno;

        json_decref(hello->tools);
        json_decref(hello->features);
        *hello = (struct hello){ 0 };
        errno = saved;
}

static json_t *name_list(const char *const *names) {
        json_t *list = json_array();

        for (size_t i = 0; list && names && names[i]; i++)
                if (json_array_append_new(list, json_string(names[i])) < 0) {
                        json_decref(list);
                        list = NULL;
                }
        return list;
}

json_t *hello_json(const char *const *tools, const char *const *features) {
        return json_pack("{s:i, s:s, s:o, s:o}", "protocol", PROTOCOL_VERSION, "version", COFFERDAM_VERSION,
                         "tools", name_list(tools), "features", name_list(features));
}

/* Whether @list is a list of names; missing is empty. */
static bool names_fit(const json_t *list) {
        const json_t *name;
        size_t i;

        if (list && (!json_is_array(list) || json_array_size(list) > PROTOCOL_TOOLS_MAX))
                return false;
        json_array_foreach(list, i, name) if (!json_is_string(name) ||
                                              json_string_length(name) > PROTOCOL_NAME_MAX) return false;
        return true;
}

int hello_read(const json_t *data, struct hello *ret, struct error *err) {
        const json_t *protocol = json_object_get(data, "protocol");
        const char *version = json_string_value(json_object_get(data, "version"));
        json_t *tools = json_object_get(data, "tools"), *features = json_object_get(data, "features");
        struct hello h = { 0 };

        if (!json_is_integer(protocol) || json_integer_value(protocol) < PROTOCOL_FIRST)
                return error_set(err, -EBADMSG, "malformed hello: no protocol");
        if (!names_fit(tools) || !names_fit(features))
                return error_set(err, -EBADMSG,
                                 "malformed hello: its tools or features are no list of names");
        h.protocol = json_integer_value(protocol) < PROTOCOL_VERSION ? (int) json_integer_value(protocol)
                                                                     : PROTOCOL_VERSION;
        (void) snprintf(h.version, sizeof(h.version), "%s", version ? ESC(version) : "");
        h.tools = tools ? json_incref(tools) : json_array();
        h.features = features ? json_incref(features) : json_array();
        if (!h.tools || !h.features) {
                hello_deinit(&h);
                return error_set(err, -ENOMEM, "out of memory");
        }
        *ret = h;
        return 0;
}

bool hello_has(const struct hello *hello, const char *name) {
        const json_t *feature;
        size_t i;

        json_array_foreach(hello->features, i,
                           feature) if (strcmp(json_string_value(feature), name) == 0) return true;
        return false;
}

/* Length of the UTF-8 character at @s, 0: none begins there. */
static size_t character(const char *s, size_t len) {
        const unsigned char c = (unsigned char) *s;
        const size_t n = c < 0x80 ? 1 : c < 0xe0 ? 2 : c < 0xf0 ? 3 : 4;

        return n <= len && utf8_valid(s, n) ? n : 0;
}

json_t *text_json(const char *text, size_t len, size_t max) {
        AUTO_BUF struct buf out = { 0 };
        size_t i = 0, n;

        if (len <= max && utf8_valid(text, len))
                return json_stringn(text, len);
        for (; i < len; i += n ? n : 1) {
                char hex[5];

                n = character(text + i, len - i);
                if (out.len + (n ? n : sizeof(hex) - 1) > max)
                        break;
                (void) snprintf(hex, sizeof(hex), "\\x%02x", (unsigned char) text[i]);
                if ((n ? buf_add(&out, text + i, n) : buf_str(&out, hex)) < 0)
                        return NULL;
        }
        if (i < len && buf_fmt(&out, "\n[%zu bytes cut]", len - i) < 0)
                return NULL;
        return json_stringn(buf_cstr(&out), out.len);
}

static int count_bytes(const char *bytes, size_t len, void *arg) {
        (void) bytes;
        *(size_t *) arg += len;
        return 0;
}

size_t clamp_bytes(const json_t *json) {
        size_t n = 0;

        if (json)
                (void) json_dump_callback(json, count_bytes, &n, JSON_COMPACT | JSON_ENCODE_ANY);
        return n;
}

static json_t *omitted(size_t bytes) {
        return json_pack("{s:I}", "_iterion_sandbox_relay_omitted_bytes", (json_int_t) bytes);
}

/* One field within @max bytes; new reference. */
static json_t *clamp_field(json_t *value, size_t max) {
        size_t bytes;

        if (json_is_string(value))
                return json_string_length(value) <= max
                               ? json_incref(value)
                               : text_json(json_string_value(value), json_string_length(value), max);
        bytes = clamp_bytes(value);
        return bytes <= max ? json_incref(value) : omitted(bytes);
}

/* The fields of @payload, those that are bulk within @max bytes each. */
static json_t *clamp_fields(json_t *payload, size_t max) {
        AUTO_JSON json_t *out = json_object();
        const char *key;
        json_t *value;

        if (!out)
                return NULL;
        json_object_foreach(payload, key, value) {
                const bool snapshot = strcmp(key, "snapshot") == 0;
                const size_t bytes = snapshot ? clamp_bytes(value) : 0;

                if (snapshot &&
                    json_object_set_new(out, "snapshot_bytes", json_integer((json_int_t) bytes)) < 0)
                        return NULL;
                if (snapshot && bytes > (max == 0 ? 0 : CLAMP_SNAPSHOT_MAX))
                        continue; /* half of one would be resumed as if it were whole */
                if (json_object_set_new(out, key, snapshot ? json_incref(value) : clamp_field(value, max)) <
                    0)
                        return NULL;
        }
        return TAKE_PTR(out);
}

json_t *clamp_event(json_t *payload) {
        enum { SMALL = 256 }; /* a name, a model, a reason: the text that an event cannot do without */
        AUTO_JSON json_t *out = NULL;

        if (!json_is_object(payload))
                return NULL;
        out = clamp_fields(payload, CLAMP_TEXT_MAX);
        if (!out || clamp_bytes(out) <= CLAMP_EVENT_MAX)
                return TAKE_PTR(out);
        return clamp_fields(payload, SMALL);
}

int pending_add(struct pending *p, const char *prefix, json_t *value, char ret[static 48]) {
        json_t *own = value ? value : json_true();
        char id[48];

        if (!p->ids)
                p->ids = json_object();
        if (p->ids && json_object_size(p->ids) >= PENDING_MAX) {
                json_decref(own);
                return -EAGAIN;
        }
        (void) snprintf(id, sizeof(id), "%.20s%" PRIu64, prefix, ++p->last);
        if (json_object_set_new(p->ids, id, own) < 0) /* takes it in every case */
                return -ENOMEM;
        memcpy(ret, id, sizeof(id));
        return 0;
}

json_t *pending_take(struct pending *p, const char *id) {
        json_t *value = json_incref(json_object_get(p->ids, id));

        if (value)
                (void) json_object_del(p->ids, id);
        return value;
}

const char *pending_first(const struct pending *p) {
        return json_object_iter_key(json_object_iter(p->ids));
}

void pending_deinit(struct pending *p) {
        const int saved = errno;

        json_decref(p->ids);
        p->ids = NULL;
        errno = saved;
}
