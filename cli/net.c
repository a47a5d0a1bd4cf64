/* cofferdam net: what a run may connect to, and another policy for one that lives. */
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/runs.h"
#include "runtime/base/block.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/escape.h"
#include "runtime/base/json.h"
#include "runtime/run/control.h"
#include "runtime/run/message.h"

struct options {
        struct buf rules; /* each with its NUL */
        struct buf preset;
        uint32_t n_rules;
        bool replace;
};

static void options_deinit(struct options *o) {
        buf_deinit(&o->rules);
        buf_deinit(&o->preset);
}

static int add_rule(struct options *o, const char *sign, const char *value, struct error *err) {
        if (*value == '!' || !*value)
                return error_set(err, -EINVAL, "'%s': want a host, without '!'", ESC(value));
        if (buf_str(&o->rules, sign) < 0 || buf_add(&o->rules, value, strlen(value) + 1) < 0)
                return error_set(err, -ENOMEM, "out of memory");
        o->n_rules++;
        return 0;
}

static int set_allow(void *arg, const char *value, struct error *err) {
        return add_rule(arg, "", value, err);
}

static int set_deny(void *arg, const char *value, struct error *err) {
        return add_rule(arg, "!", value, err);
}

static int set_preset(void *arg, const char *value, struct error *err) {
        struct options *o = arg;

        if (!*value)
                return error_set(err, -EINVAL, "must not be empty");
        return buf_fmt(&o->preset, "%s%s", o->preset.len > 0 ? "," : "", value) < 0
                       ? error_set(err, -ENOMEM, "out of memory")
                       : 0;
}

static const struct flag_option options[] = {
        { "allow", 0, "RULE", set_allow, "A host that the work may connect to from now on" },
        { "deny", 0, "RULE", set_deny, "A host that the work may not connect to from now on" },
        { "preset", 0, "NAME", set_preset, "A list of hosts that comes with cofferdam" },
        { "replace", 0, NULL, NULL, "Forget the rules and presets that the run has",
          offsetof(struct options, replace) },
};

static const struct flag_set flags = {
        .usage = "cofferdam net RUN... [OPTIONS]",
        .summary = "Show which hosts a run may connect to; with options, change that while it runs.",
        .options = options,
        .n_options = ARRAY_SIZE(options),
};

/* ---- show ---- */

static int show(const struct run_dir *dir, struct error *err) {
        AUTO_JSON json_t *state = NULL;
        const json_t *network, *rules;
        const char *mode, *preset;
        int r;

        r = run_state_load(dir, &state, err);
        if (r < 0)
                return r;
        network = json_object_get(json_object_get(state, "plan"), "network");
        rules = json_object_get(network, "rules");
        mode = json_string_value(json_object_get(network, "mode"));
        preset = json_string_value(json_object_get(network, "preset"));
        printf("mode %s\n", mode ? ESC(mode) : "open");
        if (preset && *preset)
                printf("preset %s\n", ESC(preset));
        for (size_t i = 0; i < json_array_size(rules); i++) {
                const char *const rule = json_string_value(json_array_get(rules, i));

                if (rule)
                        printf("%s %s\n", *rule == '!' ? "deny" : "allow", ESC(rule + (*rule == '!')));
        }
        return 0;
}

/* ---- change ---- */

/* The block of RUN_MSG_NET. Return: descriptor, owned; -errno. */
static int make_block(const struct options *o, struct block_size *ret) {
        const char *const word[] = { o->replace ? "replace" : "add", NULL };
        AUTO_BUF struct buf b = { .max = BLOCK_MAX_BYTES };
        int r;

        *ret = (struct block_size){ 0 };
        r = buf_str(&b, o->preset.len > 0 ? o->preset.data : "");
        if (r == 0)
                r = buf_add(&b, "", 1);
        if (r == 0)
                r = block_put(&b, word, &ret->argc);
        if (r == 0 && o->rules.len > 0)
                r = buf_add(&b, o->rules.data, o->rules.len);
        if (r < 0)
                return r;
        ret->argc += o->n_rules;
        ret->bytes = (uint32_t) b.len;
        return block_fd(&b);
}

static int change(const struct run_dir *dir, const struct options *o, struct error *err) {
        struct run_msg msg = { .type = RUN_MSG_NET };
        AUTO_FD int sock = -1, block = -1;
        int r;

        block = make_block(o, &msg.size);
        if (block < 0)
                return error_set(err, block, "rules: %s", strerror(-block));
        sock = control_connect(dir, err);
        if (sock < 0)
                return sock;
        r = run_msg_send(sock, &msg, block);
        if (r == 0)
                r = run_msg_recv(sock, &msg, NULL);
        if (r < 0)
                return error_set(err, r, "run %s: %s", dir->id,
                                 r == -ECONNRESET || r == -EPIPE ? "it has just ended" : strerror(-r));
        if (msg.type == RUN_MSG_EXIT && *msg.run_id) /* the run's last word */
                return error_set(err, -ESRCH, "run %s has just ended", dir->id);
        return msg.type == RUN_MSG_EXIT ? 0 : error_set(err, -EINVAL, "run %s: %s", dir->id, msg.text);
}

static int net(const struct ctx *ctx, const char *id, void *arg, struct error *err) {
        const struct options *o = arg;
        AUTO_RUN_DIR struct run_dir dir = RUN_DIR_INIT;
        int r;

        r = run_dir_open(ctx, id, &dir, err);
        if (r < 0)
                return r;
        return o->n_rules > 0 || o->preset.len > 0 || o->replace ? change(&dir, o, err) : show(&dir, err);
}

/* "net RUN --allow HOST" reads as well as "net --allow HOST RUN": words before the options go behind them. */
static char **words_last(int argc, char **argv) {
        char **out = calloc((size_t) argc + 1, sizeof(*out));
        int words = 0;

        while (1 + words < argc && argv[1 + words][0] != '-')
                words++;
        for (int i = 0; out && i < argc; i++)
                out[i == 0 ? 0 : i <= words ? argc - 1 - words + i : i - words] = argv[i];
        return out;
}

int verb_net(const struct ctx *ctx, int argc, char **argv) {
        CLEANUP(options_deinit) struct options o = { 0 };
        AUTO_FREE char **args = words_last(argc, argv);
        int next, code;

        if (!args)
                return EXIT_FAILED;
        if (!runs_words(&flags, argc, args, &o, &next, &code))
                return code;
        return runs_for_each_word(ctx, argc, args, next, net, &o);
}
