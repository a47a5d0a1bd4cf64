#include "runtime/agent/runner/session.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/agent/protocol.h"
#include "runtime/base/buf.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/json.h"

enum { TEXT_CUT = 2000, INPUT_CUT = 300, RESULT_CUT = 600 };

static const char *text_of(const json_t *o, const char *key) {
        const char *s = json_string_value(json_object_get(o, key));

        return s ? s : "";
}

static bool is(const json_t *block, const char *type) {
        return strcmp(text_of(block, "type"), type) == 0;
}

static json_t *failed_result(const char *id) {
        return json_pack("{s:s,s:s,s:s,s:b}", "type", "tool_result", "tool_use_id", id, "content",
                         "[there is no result: the work was interrupted]", "is_error", 1);
}

/* --- repair --------------------------------------------------------------------------------------------- */

/* Ids of the tool_use blocks of an assistant message, as the keys of an object. */
static json_t *asked(const json_t *message) {
        json_t *ids = json_object(), *block;
        size_t i;

        if (strcmp(text_of(message, "role"), "assistant") != 0)
                return ids;
        json_array_foreach(json_object_get(message, "content"), i, block) {
                if (is(block, "tool_use") && *text_of(block, "id"))
                        (void) json_object_set_new(ids, text_of(block, "id"), json_true());
        }
        return ids;
}

static bool sound(const json_t *message) {
        const char *role = text_of(message, "role");
        const json_t *content = json_object_get(message, "content");

        return (strcmp(role, "user") == 0 || strcmp(role, "assistant") == 0) &&
               (json_is_array(content) || (json_is_string(content) && json_string_length(content) > 0));
}

/* The user message behind one that asked: answers first, all of them, and none that was not asked for. */
static int answered(json_t *out, const json_t *message, json_t *ids, size_t *dropped) {
        AUTO_JSON json_t *content = json_array();
        json_t *old = json_object_get(message, "content"), *block, *yes;
        const char *id;
        size_t i;
        void *next;

        json_array_foreach(json_is_array(old) ? old : NULL, i, block) {
                if (!is(block, "tool_result"))
                        continue;
                if (json_object_del(ids, text_of(block, "tool_use_id")) == 0)
                        (void) json_array_append(content, block);
                else
                        ++*dropped;
        }
        json_object_foreach_safe(ids, next, id, yes) {
                (void) json_array_append_new(content, failed_result(id));
                ++*dropped;
        }
        json_array_foreach(json_is_array(old) ? old : NULL, i, block) {
                if (!is(block, "tool_result"))
                        (void) json_array_append(content, block);
        }
        if (json_is_string(old))
                (void) json_array_append_new(content, json_pack("{s:s,s:O}", "type", "text", "text", old));
        if (json_array_size(content) == 0)
                return 0;
        return json_array_append_new(out, json_pack("{s:s,s:O}", "role", "user", "content", content)) < 0
                       ? -ENOMEM
                       : 0;
}

/* The end of a conversation may have asked, too. */
static int close_last(json_t *out, size_t *dropped) {
        AUTO_JSON json_t *ids = asked(json_array_get(out, json_array_size(out) - 1));

        if (!ids)
                return -ENOMEM;
        return json_object_size(ids) > 0 ? answered(out, NULL, ids, dropped) : 0;
}

json_t *session_repair(const json_t *messages, size_t *ret_dropped) {
        AUTO_JSON json_t *out = json_array();
        json_t *message;
        size_t i;
        int r = 0;

        *ret_dropped = 0;
        json_array_foreach(messages, i, message) {
                AUTO_JSON json_t *ids = asked(json_array_get(out, json_array_size(out) - 1));
                const bool user = strcmp(text_of(message, "role"), "user") == 0;

                if (!ids || !out)
                        return NULL;
                if (!sound(message) || json_array_size(out) > SESSION_MESSAGES_MAX) {
                        ++*ret_dropped;
                        continue;
                }
                if (user || json_object_size(ids) > 0)
                        r = answered(out, user ? message : NULL, ids, ret_dropped);
                if (r == 0 && !user && json_array_append(out, message) < 0)
                        r = -ENOMEM;
                if (r < 0)
                        return NULL;
        }
        return close_last(out, ret_dropped) < 0 ? NULL : TAKE_PTR(out);
}

int session_answer(json_t *messages, const char *tool_use_id, const char *answer) {
        size_t n = json_array_size(messages), dropped;
        json_t *last = json_array_get(messages, n - 1), *content;
        AUTO_JSON json_t *ids = NULL, *whole = NULL, *result = NULL;

        if (n > 1 && strcmp(text_of(last, "role"), "user") == 0)
                ids = asked(json_array_get(messages, n - 2));
        else
                ids = asked(last);
        if (!ids || !json_object_get(ids, tool_use_id))
                return -ENOENT;
        if (strcmp(text_of(last, "role"), "user") != 0) {
                if (json_array_append_new(messages, json_pack("{s:s,s:[]}", "role", "user", "content")) < 0)
                        return -ENOMEM;
                last = json_array_get(messages, n);
        }
        content = json_object_get(last, "content");
        result = json_pack("{s:s,s:s,s:s}", "type", "tool_result", "tool_use_id", tool_use_id, "content",
                           answer);
        if (!json_is_array(content) || !result || json_array_append(content, result) < 0)
                return -ENOMEM;
        whole = session_repair(messages, &dropped); /* other calls of that turn that have no answer get one */
        if (!whole || json_array_clear(messages) < 0 || json_array_extend(messages, whole) < 0)
                return -ENOMEM;
        return 0;
}

/* --- compaction ----------------------------------------------------------------------------------------- */

size_t session_split(const json_t *messages, size_t preserve) {
        const size_t n = json_array_size(messages);
        size_t at = n > preserve ? n - preserve : 0;

        while (at < n && at > 0 && strcmp(text_of(json_array_get(messages, at), "role"), "assistant") != 0)
                at++;
        return at >= n ? 0 : at;
}

static int cut(struct buf *out, const char *s, size_t max) {
        const size_t n = strlen(s);
        AUTO_JSON json_t *text = text_json(s, n, max);

        return text ? buf_fmt(out, "%s\n", json_string_value(text)) : -ENOMEM;
}

static int digest_block(struct buf *out, const json_t *block) {
        AUTO_FREE char *input = NULL;
        const json_t *content = json_object_get(block, "content");

        if (is(block, "text"))
                return cut(out, text_of(block, "text"), TEXT_CUT);
        if (is(block, "tool_use")) {
                input = json_dumps(json_object_get(block, "input"), JSON_COMPACT | JSON_ENCODE_ANY);
                if (!input || buf_fmt(out, "[called %s] ", text_of(block, "name")) < 0)
                        return -ENOMEM;
                return cut(out, input, INPUT_CUT);
        }
        if (!is(block, "tool_result"))
                return 0;
        if (buf_str(out, "[result] ") < 0)
                return -ENOMEM;
        if (json_is_string(content))
                return cut(out, json_string_value(content), RESULT_CUT);
        return cut(out, text_of(json_array_get(content, 0), "text"), RESULT_CUT);
}

char *session_digest(const json_t *messages, size_t end) {
        AUTO_BUF struct buf out = { .max = SESSION_DIGEST_MAX };
        int r = 0;

        for (size_t i = 1; i < end && r == 0; i++) {
                const json_t *message = json_array_get(messages, i),
                             *content = json_object_get(message, "content");
                json_t *block;
                size_t k;

                r = buf_fmt(&out, "%s: ", text_of(message, "role"));
                if (r == 0 && json_is_string(content))
                        r = cut(&out, json_string_value(content), TEXT_CUT);
                json_array_foreach(json_is_array(content) ? content : NULL, k, block) {
                        if (r == 0)
                                r = digest_block(&out, block);
                }
        }
        if (r == -E2BIG) { /* what came last has not been cut: it is in the part that is kept */
                out.max = 0;
                r = buf_str(&out, "\n[the rest was cut]\n");
        }
        return r == 0 && out.data ? buf_take(&out) : strdup("");
}

json_t *session_compact(const json_t *messages, size_t split, const char *summary) {
        AUTO_JSON json_t *out = json_array(), *content = json_array();
        const json_t *first = json_object_get(json_array_get(messages, 0), "content");
        AUTO_JSON json_t *text = text_json(summary, strlen(summary), SESSION_SUMMARY_MAX);
        AUTO_BUF struct buf note = { 0 };

        if (!out || !content || !text ||
            buf_fmt(&note,
                    "[%zu earlier messages were left out, because the conversation was too long. What was in "
                    "them:]\n%s",
                    split - 1, json_string_value(text)) < 0)
                return NULL;
        if (json_is_array(first) ? json_array_extend(content, (json_t *) (uintptr_t) first) < 0
                                 : json_array_append_new(content, json_pack("{s:s,s:O}", "type", "text",
                                                                            "text", first)) < 0)
                return NULL;
        if (json_array_append_new(content, json_pack("{s:s,s:s}", "type", "text", "text", note.data)) < 0 ||
            json_array_append_new(out, json_pack("{s:s,s:O}", "role", "user", "content", content)) < 0)
                return NULL;
        for (size_t i = split; i < json_array_size(messages); i++) {
                if (json_array_append(out, json_array_get(messages, i)) < 0)
                        return NULL;
        }
        return TAKE_PTR(out);
}

/* One value that is a text, in @key of @o. Return: 1: it was cut; 0; -ENOMEM. */
static int cut_text(json_t *o, const char *key) {
        const json_t *text = json_object_get(o, key);

        if (!json_is_string(text) || json_string_length(text) <= SESSION_RESULT_KEPT * 2)
                return 0;
        return json_object_set_new(
                       o, key,
                       text_json(json_string_value(text), json_string_length(text), SESSION_RESULT_KEPT)) < 0
                       ? -ENOMEM
                       : 1;
}

static int cut_result(json_t *block) {
        json_t *content = json_object_get(block, "content"), *part;
        int n = cut_text(block, "content");
        size_t i;

        json_array_foreach(json_is_array(content) ? content : NULL, i, part) {
                int r = cut_text(part, "text");

                if (r == 0 && is(part, "image")) {
                        r = json_object_clear(part) < 0 ||
                                            json_object_set_new(part, "type", json_string("text")) < 0 ||
                                            json_object_set_new(part, "text",
                                                                json_string("[an image was cut]")) < 0
                                    ? -ENOMEM
                                    : 1;
                }
                if (r < 0)
                        return r;
                n += r;
        }
        return n;
}

int session_cut_results(json_t *messages) {
        json_t *message, *block;
        size_t i, k;
        int n = 0;

        json_array_foreach(messages, i, message) {
                json_t *content = json_object_get(message, "content");

                json_array_foreach(json_is_array(content) ? content : NULL, k, block) {
                        const int r = is(block, "tool_result") ? cut_result(block)
                                      : strcmp(text_of(message, "role"), "user") == 0
                                              ? cut_text(block, "text")
                                              : 0;

                        if (r < 0)
                                return r;
                        n += r;
                }
        }
        return n;
}
