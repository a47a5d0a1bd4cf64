/*
 * fuzz-session.c - conversations that a launcher replays, and what compaction makes of them
 *
 * What comes out can be sent: every tool_use has one answer in the next message, and no answer is without
 * one.
 */
#include <string.h>

#include "runtime/agent/runner/session.h"
#include "runtime/agent/runner/tools.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/json.h"
#include "tests/fuzz/fuzz.h"

static void check(bool holds) {
        if (!holds)
                __builtin_trap();
}

static void check_sound(const json_t *messages) {
        AUTO_JSON json_t *open = json_object();
        json_t *message, *block;
        size_t i, k;

        json_array_foreach(messages, i, message) {
                const bool user = strcmp(arg_str(message, "role", ""), "user") == 0;
                json_t *content = json_object_get(message, "content");

                check(user || json_object_size(open) == 0);
                json_array_foreach(json_is_array(content) ? content : NULL, k, block) {
                        const char *type = arg_str(block, "type", "");

                        if (user && strcmp(type, "tool_result") == 0)
                                check(json_object_del(open, arg_str(block, "tool_use_id", "")) == 0);
                        if (!user && strcmp(type, "tool_use") == 0 && *arg_str(block, "id", ""))
                                (void) json_object_set_new(open, arg_str(block, "id", ""), json_true());
                }
                check(!user || json_object_size(open) == 0);
        }
        check(json_object_size(open) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        AUTO_JSON json_t *messages = NULL, *whole = NULL, *shorter = NULL;
        AUTO_FREE char *digest = NULL;
        size_t dropped, split;

        if (size > 65536)
                return 0;
        messages = json_loadb((const char *) data, size, JSON_REJECT_DUPLICATES, NULL);
        whole = session_repair(messages, &dropped);
        check(whole != NULL);
        check_sound(whole);
        split = session_split(whole, 2);
        check(split <= json_array_size(whole));
        digest = session_digest(whole, split);
        check(digest && strlen(digest) <= SESSION_DIGEST_MAX + 64);
        if (split > 1) {
                shorter = session_compact(whole, split, digest);
                check(shorter && json_array_size(shorter) <= json_array_size(whole));
                check(session_cut_results(shorter) >= 0);
        }
        return 0;
}
