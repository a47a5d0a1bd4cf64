/* cofferdam ps: the runs of this user. */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cli/runs.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/escape.h"
#include "runtime/base/json.h"
#include "runtime/run/list.h"

enum { STRING_MAX = 4096 };

struct options {
        bool all, quiet, json;
};

static const struct flag_option options[] = {
        { "all", 'a', NULL, NULL, "Also runs that have ended", offsetof(struct options, all) },
        { "quiet", 'q', NULL, NULL, "Only the ids", offsetof(struct options, quiet) },
        { "json", 0, NULL, NULL, "A JSON array", offsetof(struct options, json) },
};

static const struct flag_set flags = {
        .usage = "cofferdam ps [OPTIONS]",
        .summary = "List the runs that live, the youngest first.",
        .options = options,
        .n_options = ARRAY_SIZE(options),
};

/* One line of the list. */
struct row {
        int64_t born_ns;
        json_t *json; /* owned */
};

struct list {
        const struct options *options;
        struct row *rows;
        size_t n, room;
};

static const char *text(const json_t *object, const char *key) {
        const char *s = json_string_value(json_object_get(object, key));

        return s ? s : "";
}

static json_t *row_of(const struct listed_run *run) {
        const json_t *plan = json_object_get(run->state, "plan");

        return json_pack("{s:s,s:o,s:s,s:s,s:o,s:I,s:O*,s:O*,s:O*}", "id", run->dir->id, "name",
                         json_from_bytes(text(run->state, "name"), STRING_MAX), "status",
                         run_status_name(run->status), "driver", text(run->state, "driver"), "workspace",
                         json_from_bytes(text(plan, "workspace"), STRING_MAX), "created_ns",
                         (json_int_t) run->changed_ns, "exit_code", json_object_get(run->state, "exit_code"),
                         "failure_code", json_object_get(run->state, "failure_code"), "held",
                         json_object_get(run->state, "held"));
}

static int add(const struct listed_run *run, void *arg) {
        struct list *list = arg;

        if (!list->options->all && run->status != RUN_STARTING && run->status != RUN_RUNNING)
                return 0;
        if (list->n == list->room) {
                const size_t room = list->room ? 2 * list->room : 16;
                struct row *rows = reallocarray(list->rows, room, sizeof(*rows));

                if (!rows)
                        return -ENOMEM;
                list->rows = rows;
                list->room = room;
        }
        list->rows[list->n++] = (struct row){ run->changed_ns, row_of(run) };
        return 0;
}

static int younger(const void *a, const void *b) {
        const int64_t x = ((const struct row *) a)->born_ns, y = ((const struct row *) b)->born_ns;

        return (x < y) - (x > y);
}

static void age(int64_t born_ns, char *ret, size_t size) {
        const int64_t s = (int64_t) time(NULL) - born_ns / 1000000000;

        if (s < 120)
                (void) snprintf(ret, size, "%llds", s < 0 ? 0LL : (long long) s);
        else if (s < 7200)
                (void) snprintf(ret, size, "%lldm", (long long) s / 60);
        else if (s < 172800)
                (void) snprintf(ret, size, "%lldh", (long long) s / 3600);
        else
                (void) snprintf(ret, size, "%lldd", (long long) s / 86400);
}

static void print_row(const struct row *row) {
        char since[24];

        age(row->born_ns, since, sizeof(since));
        printf("%-12s  %-12s  %-8s  %-8s  %4s  %s\n", text(row->json, "id"), ESC(text(row->json, "name")),
               text(row->json, "status"), text(row->json, "driver"), since,
               ESC(text(row->json, "workspace")));
}

static void print(const struct list *list) {
        AUTO_JSON json_t *all = json_array();

        if (!list->options->quiet && !list->options->json)
                printf("%-12s  %-12s  %-8s  %-8s  %4s  %s\n", "ID", "NAME", "STATUS", "DRIVER", "AGE",
                       "WORKSPACE");
        for (size_t i = 0; i < list->n; i++) {
                if (list->options->quiet)
                        printf("%s\n", text(list->rows[i].json, "id"));
                else if (list->options->json)
                        (void) json_array_append(all, list->rows[i].json);
                else
                        print_row(&list->rows[i]);
        }
        if (list->options->json && !list->options->quiet && json_dumpf(all, stdout, JSON_INDENT(1)) == 0)
                (void) putchar('\n');
}

int verb_ps(const struct ctx *ctx, int argc, char **argv) {
        struct options o = { 0 };
        struct list list = { .options = &o };
        struct error err = { 0 };
        int next, code, r;

        if (!runs_words(&flags, argc, argv, &o, &next, &code))
                return code;
        if (runs_word_left(argc, argv, next))
                return EXIT_USAGE;
        r = runs_each(ctx, add, &list, &err);
        if (list.n > 1)
                qsort(list.rows, list.n, sizeof(*list.rows), younger);
        if (r == 0)
                print(&list);
        for (size_t i = 0; i < list.n; i++)
                json_decref(list.rows[i].json);
        free(list.rows);
        return r < 0 ? runs_complain(&err) : EXIT_OK;
}
