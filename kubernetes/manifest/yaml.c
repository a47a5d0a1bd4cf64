/*
 * JSON to YAML, by libyaml. What a reader could take for something else than text is quoted, so that every
 * version of YAML reads the same values.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <yaml.h>

#include "kubernetes/manifest/manifest.h"
#include "runtime/base/cleanup.h"

/* libyaml wants bytes that it does not write to */
static yaml_char_t *bytes(const char *text) {
        return (yaml_char_t *) (uintptr_t) text;
}

static int on_bytes(void *arg, unsigned char *data, size_t len) {
        return buf_add(arg, data, len) == 0;
}

/* Words that YAML 1.1 or 1.2 reads as a boolean or as nothing. */
static bool is_word(const char *s) {
        static const char *const words[] = { "y", "n", "yes", "no", "on", "off", "true", "false", "null" };

        for (size_t i = 0; i < ARRAY_SIZE(words); i++)
                if (strcasecmp(s, words[i]) == 0)
                        return true;
        return false;
}

static bool is_plain(const char *s) {
        static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
        const size_t len = strlen(s);

        return len > 0 && strchr(letters, s[0] == '/' ? 'a' : s[0]) && !is_word(s) &&
               strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./") == len;
}

static bool emit_scalar(yaml_emitter_t *emitter, const char *text, bool quoted) {
        yaml_event_t event;
        const yaml_scalar_style_t style = !quoted              ? YAML_PLAIN_SCALAR_STYLE
                                          : strchr(text, '\n') ? YAML_LITERAL_SCALAR_STYLE
                                                               : YAML_DOUBLE_QUOTED_SCALAR_STYLE;

        return yaml_scalar_event_initialize(&event, NULL, NULL, bytes(text), (int) strlen(text), 1, 1,
                                            style) &&
               yaml_emitter_emit(emitter, &event);
}

static bool emit_text(yaml_emitter_t *emitter, const char *text) {
        return emit_scalar(emitter, text, !is_plain(text));
}

static bool emit_start(yaml_emitter_t *emitter, bool map, bool empty) {
        yaml_event_t event;

        return (map ? yaml_mapping_start_event_initialize(&event, NULL, NULL, 1,
                                                          empty ? YAML_FLOW_MAPPING_STYLE
                                                                : YAML_BLOCK_MAPPING_STYLE)
                    : yaml_sequence_start_event_initialize(&event, NULL, NULL, 1,
                                                           empty ? YAML_FLOW_SEQUENCE_STYLE
                                                                 : YAML_BLOCK_SEQUENCE_STYLE)) &&
               yaml_emitter_emit(emitter, &event);
}

static bool emit_end(yaml_emitter_t *emitter, bool map) {
        yaml_event_t event;

        return (map ? yaml_mapping_end_event_initialize(&event)
                    : yaml_sequence_end_event_initialize(&event)) &&
               yaml_emitter_emit(emitter, &event);
}

/* Recursion: as deep as the objects of manifest.h are, some ten levels. */
static bool emit(yaml_emitter_t *emitter, const json_t *value) { /* NOLINT(misc-no-recursion) */
        const bool map = json_is_object(value);
        char number[32];
        bool ok;

        if (json_is_string(value))
                return emit_text(emitter, json_string_value(value));
        if (!map && !json_is_array(value)) {
                (void) snprintf(number, sizeof(number), "%" JSON_INTEGER_FORMAT, json_integer_value(value));
                return emit_scalar(emitter,
                                   json_is_integer(value) ? number
                                   : json_is_true(value)  ? "true"
                                   : json_is_false(value) ? "false"
                                                          : "null",
                                   false);
        }
        ok = emit_start(emitter, map, map ? json_object_size(value) == 0 : json_array_size(value) == 0);
        for (size_t i = 0; ok && !map && i < json_array_size(value); i++)
                ok = emit(emitter, json_array_get(value, i));
        for (void *it = json_object_iter((json_t *) (uintptr_t) value); ok && map && it;
             it = json_object_iter_next((json_t *) (uintptr_t) value, it))
                ok = emit_text(emitter, json_object_iter_key(it)) &&
                     emit(emitter, json_object_iter_value(it));
        return ok && emit_end(emitter, map);
}

static bool emit_document(yaml_emitter_t *emitter, const json_t *object) {
        yaml_event_t event;

        return yaml_document_start_event_initialize(&event, NULL, NULL, NULL, 0) &&
               yaml_emitter_emit(emitter, &event) && emit(emitter, object) &&
               yaml_document_end_event_initialize(&event, 1) && yaml_emitter_emit(emitter, &event);
}

int kube_yaml(const json_t *objects, struct buf *out) {
        yaml_emitter_t emitter;
        yaml_event_t event;
        bool ok;

        if (!yaml_emitter_initialize(&emitter))
                return -ENOMEM;
        yaml_emitter_set_output(&emitter, on_bytes, out);
        yaml_emitter_set_unicode(&emitter, 1);
        yaml_emitter_set_width(&emitter, -1);
        ok = yaml_stream_start_event_initialize(&event, YAML_UTF8_ENCODING) &&
             yaml_emitter_emit(&emitter, &event);
        for (size_t i = 0; ok && i < json_array_size(objects); i++)
                ok = emit_document(&emitter, json_array_get(objects, i));
        ok = ok && yaml_stream_end_event_initialize(&event) && yaml_emitter_emit(&emitter, &event);
        yaml_emitter_delete(&emitter);
        return ok ? 0 : -ENOMEM;
}
