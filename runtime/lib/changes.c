/* What a run has changed: looked at, landed, thrown away. */
#include <errno.h>
#include <jansson.h>
#include <string.h>

#include "runtime/base/json.h"
#include "runtime/lib/library.h"

enum { OWN_WORDS = 8, PATHS_MAX = 4096 };

/** struct words - the command line of a verb; zero: none yet */
struct words {
        const char *v[OWN_WORDS + PATHS_MAX + 1];
        size_t n;
};

/* The verb with its options, then the run and @paths. Return: 0 or -E2BIG. */
static int words_of(const char *const *verb, const struct cofferdam_run *run, const char *const *paths,
                    struct words *ret) {
        for (; *verb; verb++)
                ret->v[ret->n++] = *verb;
        ret->v[ret->n++] = run->dir.id;
        ret->v[ret->n++] = "--";
        for (; paths && *paths; paths++) {
                if (ret->n == ARRAY_SIZE(ret->v) - 1)
                        return -E2BIG;
                ret->v[ret->n++] = *paths;
        }
        return 0;
}

static int tell(const json_t *row, cofferdam_change_fn fn, void *arg) {
        const char *kind = json_string_value(json_object_get(row, "kind"));
        AUTO_FREE char *json = json_dumps(row, JSON_COMPACT);
        const struct cofferdam_change change = {
                .size = sizeof(change),
                .kind = kind ? *kind : '?',
                .path = json_string_value(json_object_get(row, "path")),
                .from = json_string_value(json_object_get(row, "from")),
                .conflict = json_is_true(json_object_get(row, "conflict")),
                .json = json,
        };

        return json ? fn(&change, arg) : -ENOMEM;
}

/* A verb that prints {"changes": [..]}. Return: its exit code, what @fn gave, -errno. */
static int ask(struct cofferdam_run *run, const char *const *verb, const char *const *paths,
               cofferdam_change_fn fn, void *arg) {
        struct cofferdam *c = run->c;
        AUTO_FREE struct words *words = calloc(1, sizeof(*words));
        AUTO_BUF struct buf out = { 0 };
        AUTO_JSON json_t *report = NULL;
        const json_t *rows;
        int r, code;

        if (paths && !*paths) {
                (void) error_set(&c->err, -EINVAL,
                                 "no path in the list of paths, which is not the same as all");
                return context_failed(c, -EINVAL, NULL);
        }
        r = words ? words_of(verb, run, paths, words) : -ENOMEM;
        if (r < 0)
                return context_memory(c, r);
        code = engine_verb(c, words->v, &out);
        if (code < 0 || !fn || out.len == 0)
                return code;
        report = json_loadb(out.data, out.len, 0, NULL);
        if (!report)
                return context_memory(c, -ENOMEM);
        rows = json_object_get(report, "changes");
        for (size_t i = 0; r == 0 && i < json_array_size(rows); i++)
                r = tell(json_array_get(rows, i), fn, arg);
        return r != 0 ? r : code;
}

int cofferdam_diff(struct cofferdam_run *run, const char *const *paths, cofferdam_change_fn fn, void *arg) {
        static const char *const verb[] = { "diff", "--json", NULL };

        return ask(run, verb, paths, fn, arg);
}

int cofferdam_apply(struct cofferdam_run *run, unsigned int flags, const char *const *paths,
                    cofferdam_change_fn fn, void *arg) {
        const char *verb[OWN_WORDS] = { "apply", "--json" };
        size_t n = 2;

        if (flags & COFFERDAM_APPLY_FORCE)
                verb[n++] = "--force";
        if (flags & COFFERDAM_APPLY_CONTINUE)
                verb[n++] = "--continue";
        if (flags & COFFERDAM_APPLY_ABORT)
                verb[n++] = "--abort";
        return ask(run, verb, paths, fn, arg);
}

int cofferdam_discard(struct cofferdam_run *run, const char *const *paths) {
        static const char *const verb[] = { "discard", NULL };

        return ask(run, verb, paths, NULL, NULL);
}
