/* cofferdam inspect: all that is known of a run. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "cli/runs.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/file.h"
#include "runtime/base/json.h"
#include "runtime/run/changes.h"
#include "runtime/run/control.h"
#include "runtime/run/list.h"
#include "runtime/run/message.h"

enum { SPEC_MAX_BYTES = 4 << 20, STRING_MAX = 4096 };

static const struct flag_set flags = {
        .usage = "cofferdam inspect RUN...",
        .summary = "Print what a run is, how it is isolated, what runs in it and what it holds, as JSON.",
};

static json_t *spec_of(const struct run_dir *dir) {
        AUTO_BUF struct buf text = { 0 };

        if (file_read_at(dir->fd, "spec.json", SPEC_MAX_BYTES, &text) < 0)
                return json_null();
        return json_loadb(text.data, text.len, 0, NULL);
}

/* What runs in it now; NULL: it does not say. */
static json_t *commands_of(const struct run_dir *dir) {
        struct run_msg msg = { .type = RUN_MSG_LIST };
        AUTO_FD int sock = control_connect(dir, NULL);
        json_t *list;

        if (sock < 0 || run_msg_send(sock, &msg, -1) < 0)
                return NULL;
        list = json_array();
        while (run_msg_recv(sock, &msg, NULL) == 0 && msg.type == RUN_MSG_COMMAND)
                (void) json_array_append_new(list, json_pack("{s:i,s:i,s:o}", "exec_id", (int) msg.id, "pid",
                                                             (int) msg.code, "command",
                                                             json_from_bytes(msg.text, STRING_MAX)));
        return list;
}

static int inspect(const struct ctx *ctx, const char *id, void *arg, struct error *err) {
        AUTO_RUN_DIR struct run_dir dir = RUN_DIR_INIT;
        AUTO_JSON json_t *state = NULL;
        json_t *commands, *all = arg;
        enum run_status status;
        int r;

        r = run_dir_open(ctx, id, &dir, err);
        if (r == 0)
                r = run_state_load(&dir, &state, err);
        if (r < 0)
                return r;
        status = run_status_of(&dir, state);
        (void) json_object_set_new(state, "status", json_string(run_status_name(status)));
        (void) json_object_set_new(state, "spec", spec_of(&dir));
        if (status != RUN_FINISHED)
                (void) json_object_set_new(state, "held",
                                           json_integer(run_changes_count(&dir, state, UINT32_MAX)));
        commands = commands_of(&dir);
        if (commands)
                (void) json_object_set_new(state, "commands", commands);
        return json_array_append(all, state) < 0 ? error_set(err, -ENOMEM, "out of memory") : 0;
}

int verb_inspect(const struct ctx *ctx, int argc, char **argv) {
        AUTO_JSON json_t *all = json_array();
        int next, code;

        if (!runs_words(&flags, argc, argv, NULL, &next, &code))
                return code;
        code = runs_for_each_word(ctx, argc, argv, next, inspect, all);
        if (json_array_size(all) > 0 && json_dumpf(all, stdout, JSON_INDENT(1)) == 0)
                (void) putchar('\n');
        return code;
}
