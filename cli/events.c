/* cofferdam events: what happened in a run. */
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/follow.h"
#include "cli/runs.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/file.h"
#include "runtime/base/json.h"
#include "runtime/base/log.h"
#include "runtime/base/parse.h"
#include "runtime/run/events.h"

enum { TYPES_MAX = 32 };

struct options {
        bool follow;
        uint64_t since;               /* number of the last event that is not wanted */
        const char *types[TYPES_MAX]; /* borrowed from argv */
        size_t n_types;
};

static int set_since(void *arg, const char *value, struct error *err) {
        if (parse_u64(value, 0, INT64_MAX, &((struct options *) arg)->since) < 0)
                return error_set(err, -EINVAL, "want the number of an event");
        return 0;
}

static int set_type(void *arg, const char *value, struct error *err) {
        struct options *o = arg;

        if (o->n_types >= TYPES_MAX)
                return error_set(err, -E2BIG, "more than %d types", TYPES_MAX);
        o->types[o->n_types++] = value;
        return 0;
}

static const struct flag_option options[] = {
        { "follow", 'f', NULL, NULL, "Go on until the run has ended", offsetof(struct options, follow) },
        { "since", 0, "SEQ", set_since, "Only events after number SEQ" },
        { "type", 0, "TYPE", set_type, "Only events of this type; may be repeated" },
};

static const struct flag_set flags = {
        .usage = "cofferdam events [OPTIONS] RUN",
        .summary = "Print the events of a run, one JSON object a line.",
        .options = options,
        .n_options = ARRAY_SIZE(options),
};

/* Lines on their way to standard output. */
struct filter {
        const struct options *options;
        struct buf line; /* the beginning of one whose end has not come */
};

static bool is_wanted(const struct options *o, const char *line, size_t len) {
        AUTO_JSON json_t *event = json_loadb(line, len, 0, NULL);
        const char *type = json_string_value(json_object_get(event, "type"));
        const json_int_t seq = json_integer_value(json_object_get(event, "seq"));
        bool found = o->n_types == 0;

        if (!event) /* cut off by a crash */
                return false;
        for (size_t i = 0; type && i < o->n_types; i++)
                found |= strcmp(type, o->types[i]) == 0;
        return found && (o->since == 0 || (uint64_t) seq > o->since);
}

static int put(const char *data, size_t len, void *arg) {
        struct filter *f = arg;
        const char *end;
        int r;

        while ((end = memchr(data, '\n', len))) {
                const size_t n = (size_t) (end + 1 - data);

                r = buf_add(&f->line, data, n);
                if (r == 0 && is_wanted(f->options, f->line.data, f->line.len))
                        r = write_all(STDOUT_FILENO, f->line.data, f->line.len);
                if (r < 0)
                        return r;
                f->line.len = 0;
                data += n;
                len -= n;
        }
        return len > 0 ? buf_add(&f->line, data, len) : 0;
}

int verb_events(const struct ctx *ctx, int argc, char **argv) {
        AUTO_RUN_DIR struct run_dir dir = RUN_DIR_INIT;
        struct options o = { 0 };
        struct filter f = { .options = &o, .line = { .max = 2 * EVENT_MAX_BYTES } };
        AUTO_FD int pidfd = -1;
        struct error err = { 0 };
        int next, code, r;

        if (!runs_words(&flags, argc, argv, &o, &next, &code))
                return code;
        if (next + 1 != argc) {
                log_error("want one run: %s", flags.usage);
                return EXIT_USAGE;
        }
        r = run_dir_open(ctx, argv[next], &dir, &err);
        if (r < 0)
                return runs_complain(&err);
        if (o.follow)
                pidfd = follow_pidfd(&dir); /* none: it has ended, what is there is all */
        r = follow_file(dir.fd, "events.jsonl", pidfd < 0 ? -1 : pidfd, put, &f);
        buf_deinit(&f.line);
        if (r < 0 && r != -EPIPE)
                (void) error_set(&err, r, "events of run %s: %s", dir.id, strerror(-r));
        return r < 0 && r != -EPIPE ? runs_complain(&err) : EXIT_OK;
}
