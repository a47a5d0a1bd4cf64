#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/verbs.h"
#include "drivers/native/seccomp-show.h"
#include "kubernetes/manifest/read.h"
#include "netns/policy.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/escape.h"
#include "runtime/base/json.h"
#include "runtime/base/log.h"
#include "runtime/base/suggest.h"
#include "runtime/spec/resolve.h"
#include "runtime/spec/schema.h"

struct spec_args {
        bool json;
        bool seccomp;
};

static const struct flag_option spec_options[] = {
        { "json", 0, NULL, NULL, "print JSON", offsetof(struct spec_args, json) },
};
static const struct flag_option show_options[] = {
        { "json", 0, NULL, NULL, "print JSON", offsetof(struct spec_args, json) },
        { "seccomp", 0, NULL, NULL, "print what the system call filter answers to each call, and why",
          offsetof(struct spec_args, seccomp) },
};

/* "network.mode = none (built-in)"; lists item by item */
static void print_value(const char *path, const json_t *value, const char *tier) {
        AUTO_FREE char *text = NULL;

        if (json_is_null(value) || (json_is_array(value) && json_array_size(value) == 0))
                return;
        text = json_is_string(value) ? strdup(json_string_value(value)) : json_dumps(value, JSON_ENCODE_ANY);
        printf("%-24s %s  (%s)\n", path, text ? ESC(text) : "?", tier);
}

/* An item says who gave it, or else its list does. */
static void print_items(const char *path, const json_t *items, const char *list_tier) {
        size_t i;
        json_t *item;

        json_array_foreach(items, i, item) {
                char place[160];
                AUTO_JSON json_t *shown = json_is_object(item) ? json_copy(item) : json_incref(item);
                const char *tier = json_string_value(json_object_get(item, "tier"));

                if (json_is_object(shown))
                        (void) json_object_del(shown, "tier");
                (void) snprintf(place, sizeof(place), "%s[%zu]", path, i);
                print_value(place, shown, tier ? tier : list_tier);
        }
}

/* What the repository asked for and does not get. */
static void print_refused(const json_t *rows) {
        for (size_t i = 0; i < json_array_size(rows); i++) {
                const json_t *row = json_array_get(rows, i);

                printf("refused: %s (%s): %s; remedy: %s\n",
                       ESC(json_string_value(json_object_get(row, "key"))),
                       ESC(json_string_value(json_object_get(row, "from"))),
                       ESC(json_string_value(json_object_get(row, "reason"))),
                       ESC(json_string_value(json_object_get(row, "remedy"))));
        }
}

/* @obj is a section, or a value with its tier. */
static void print_dump(const char *prefix, json_t *obj) {
        const char *name;
        json_t *sub;

        json_object_foreach(obj, name, sub) {
                json_t *value = json_object_get(sub, "value");
                const char *given = json_string_value(json_object_get(sub, "tier"));
                const char *tier = given ? given : "?";
                char path[96];

                (void) snprintf(path, sizeof(path), "%s%s%s", prefix, *prefix ? "." : "", name);
                if (!value)
                        print_dump(path, sub);
                else if (json_is_array(value))
                        print_items(path, value, tier);
                else
                        print_value(path, value, tier);
        }
}

static int print_json(json_t *value) {
        if (!value || json_dumpf(value, stdout, JSON_INDENT(2)) < 0) {
                log_error("out of memory");
                return EXIT_FAILED;
        }
        (void) putchar('\n');
        return EXIT_OK;
}

static int spec_failed(const struct spec_args *args, int r, const struct error *err) {
        AUTO_JSON json_t *report = NULL;

        if (!args->json) {
                log_error("%s", err->msg);
                return EXIT_FAILED;
        }
        report = json_pack("{s:b, s:s, s:s}", "ok", 0, "failure_code",
                           r == -ENOTSUP ? "CAPABILITY_UNSUPPORTED" : "SPEC_INVALID", "reason", err->msg);
        (void) print_json(report);
        return EXIT_FAILED;
}

static int show_filter(const struct spec *spec, const struct spec_args *args) {
        AUTO_JSON json_t *filter = NULL;
        struct error err = { 0 };
        const json_t *calls;
        int r;

        r = seccomp_show(spec, &filter, &err);
        if (r < 0)
                return spec_failed(args, r, &err);
        if (args->json)
                return print_json(filter);
        calls = json_object_get(filter, "calls");
        for (size_t i = 0; i < json_array_size(calls); i++) {
                const json_t *call = json_array_get(calls, i);

                printf("%4d %-24s %-13s %s\n", (int) json_integer_value(json_object_get(call, "number")),
                       json_string_value(json_object_get(call, "name")),
                       json_string_value(json_object_get(call, "answer")),
                       json_string_value(json_object_get(call, "why")));
        }
        printf("%4s %-24s %-13s %s\n", "", "every other call",
               json_string_value(json_object_get(filter, "default")), "not known to this version");
        return EXIT_OK;
}

static int spec_show(const struct spec *spec, const struct spec_args *args) {
        AUTO_JSON json_t *dump = spec_dump(spec);

        if (args->seccomp)
                return show_filter(spec, args);
        if (args->json || !dump)
                return print_json(dump);
        print_refused(json_object_get(dump, "refused"));
        (void) json_object_del(dump, "refused");
        print_dump("", dump);
        return EXIT_OK;
}

/* What section kubernetes means is for who makes pods to know. */
static int check_pod(const struct spec *spec, struct error *err) {
        AUTO_KUBE_PLAN struct kube_plan plan = { 0 };
        const struct kube_read from = { .name = "spec-check",
                                        .run_id = "spec-check",
                                        .new_claim = "spec-check" };
        int r;

        if (strcmp(spec->driver, "kubernetes") != 0)
                return 0;
        r = kube_plan_read(spec, &from, &plan, err);
        return r < 0 ? r : kube_plan_check(&plan, err);
}

static int spec_check(const struct spec *spec, const struct spec_args *args) {
        AUTO_JSON json_t *report = NULL;
        AUTO_POLICY struct policy *policy = NULL;
        struct error err = { 0 };
        int r;

        /* what the rules of the network mean is not the specification's to know, but wrong is wrong */
        r = policy_new(spec->network.mode, spec->network.preset, (const char *const *) spec->network.rules,
                       spec->network.n_rules, &policy, &err);
        if (r == 0)
                r = check_pod(spec, &err);
        if (r < 0)
                return spec_failed(args, r, &err);
        if (!args->json)
                return EXIT_OK;
        report = json_pack("{s:b}", "ok", 1);
        return print_json(report);
}

static const struct {
        const char *name;
        struct flag_set set;
        int (*run)(const struct spec *spec,
                   const struct spec_args *args); /* NULL: the schema, which needs none */
} subverbs[] = {
        { "show",
          { "cofferdam spec show [OPTIONS] [FILE...]",
            "Show the specification of a run and who said each value.", show_options,
            ARRAY_SIZE(show_options), true },
          spec_show },
        { "check",
          { "cofferdam spec check [OPTIONS] [FILE...]",
            "Check specifications: exit code 0, or 1 and what is wrong.", spec_options,
            ARRAY_SIZE(spec_options), true },
          spec_check },
        { "schema",
          { "cofferdam spec schema", "Print the JSON Schema of a specification.", NULL, 0, false },
          NULL },
};

static int show_help(const struct flag_set *set) {
        AUTO_BUF struct buf text = { 0 };

        if (flags_help(set, &text) < 0) {
                log_error("out of memory");
                return EXIT_FAILED;
        }
        (void) fputs(buf_cstr(&text), stdout);
        return EXIT_OK;
}

static int resolve(const struct ctx *ctx, size_t i, struct flags *flags, const struct spec_args *args) {
        AUTO_SPEC struct spec *spec = NULL;
        struct error err = { 0 };
        int r;

        r = spec_resolve(ctx, flags, &spec, &err);
        return r < 0 ? spec_failed(args, r, &err) : subverbs[i].run(spec, args);
}

static int run_subverb(const struct ctx *ctx, size_t i, int argc, char **argv) {
        AUTO_FLAGS struct flags *flags = NULL;
        AUTO_JSON json_t *schema = NULL;
        struct spec_args args = { 0 };
        struct error err = { 0 };

        if (flags_parse(&subverbs[i].set, argc, argv, &args, &flags, &err) < 0) {
                log_error("%s", err.msg);
                return EXIT_USAGE;
        }
        if (flags->help)
                return show_help(&subverbs[i].set);
        if (subverbs[i].run) {
                for (int word = flags->next; word < argc; word++)
                        flags->specs[flags->n_specs++] = argv[word];
                return resolve(ctx, i, flags, &args);
        }
        if (flags->next < argc) {
                log_error("spec schema: unexpected word '%s'", ESC(argv[flags->next]));
                return EXIT_USAGE;
        }
        schema = spec_schema();
        return print_json(schema);
}

static int usage(const char *word) {
        const char *names[ARRAY_SIZE(subverbs)], *near;

        for (size_t i = 0; i < ARRAY_SIZE(subverbs); i++)
                names[i] = subverbs[i].name;
        near = word ? suggest_name(word, names, ARRAY_SIZE(names)) : NULL;
        if (word && word[0] == '-')
                log_error("spec: unknown option '%s': say first what to do: show, check or schema",
                          ESC(word));
        else if (near)
                log_error("spec: unknown word '%s': did you mean '%s'?", ESC(word), near);
        else if (word)
                log_error("spec: unknown word '%s': say what to do: show, check or schema", ESC(word));
        else
                log_error("spec: say what to do: show, check or schema");
        return EXIT_USAGE;
}

int verb_spec(const struct ctx *ctx, int argc, char **argv) {
        static const struct flag_set set = {
                "cofferdam spec show|check|schema [OPTIONS] [FILE...]",
                "Show or check specifications, or print their JSON Schema; each word has its own --help.",
                NULL,
                0,
                false,
        };

        if (argc < 2)
                return usage(NULL);
        if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)
                return show_help(&set);
        for (size_t i = 0; i < ARRAY_SIZE(subverbs); i++)
                if (strcmp(argv[1], subverbs[i].name) == 0)
                        return run_subverb(ctx, i, argc - 1, argv + 1);
        return usage(argv[1]);
}
