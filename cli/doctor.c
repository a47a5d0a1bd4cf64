/* cofferdam doctor: what this host can do for a run, why not, and what to do about it. */
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "cli/doctor.h"
#include "cli/verbs.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/clock.h"
#include "runtime/base/escape.h"
#include "runtime/base/json.h"
#include "runtime/base/log.h"
#include "runtime/spec/flags.h"

/* What the options of this verb set. */
struct options {
        bool json, strict, verbose;
        bool cloud;              /* --target */
        const char *probe_image; /* --prove-network */
};

static int set_target(void *arg, const char *value, struct error *err) {
        static const struct {
                const char *name;
                bool cloud;
        } targets[] = { { "auto", false }, { "local", false }, { "cloud", true }, { "kubernetes", true } };

        for (size_t i = 0; i < ARRAY_SIZE(targets); i++)
                if (strcmp(value, targets[i].name) == 0) {
                        ((struct options *) arg)->cloud = targets[i].cloud;
                        return 0;
                }
        return error_set(err, -EINVAL, "want auto, local, cloud or kubernetes");
}

static int set_probe_image(void *arg, const char *value, struct error *err) {
        if (!*value || *value == '-')
                return error_set(err, -EINVAL, "want an image");
        ((struct options *) arg)->probe_image = value;
        return 0;
}

static const struct flag_option doctor_options[] = {
        { "json", 0, NULL, NULL, "Print one JSON object instead of the table",
          offsetof(struct options, json) },
        { "prove-network", 0, "IMAGE", set_probe_image,
          "With --target kubernetes: start two pods of IMAGE (with sh and nc) and see whether the cluster "
          "enforces a NetworkPolicy" },
        { "strict", 0, NULL, NULL,
          "Check what a run with the options below would need, too; a file name behind it is a --spec",
          offsetof(struct options, strict) },
        { "target", 0, "WHERE", set_target,
          "local, auto: this host; cloud, kubernetes: also a cluster, and a specification is checked for "
          "that" },
        { "verbose", 'v', NULL, NULL, "Say how long the probes took", offsetof(struct options, verbose) },
};

static const struct flag_set doctor_flags = {
        .usage = "cofferdam doctor [OPTIONS] [--strict [SPEC] [OPTIONS]]",
        .summary = "Try everything that a sandbox needs of this host and show what works, what does not, and "
                   "the remedy.",
        .options = doctor_options,
        .n_options = ARRAY_SIZE(doctor_options),
        .spec = true,
};

enum { WORDS_MAX = 1024 };

/* "--strict FILE" as "--strict --spec FILE". Return: number of words. */
static int expand(int argc, char **argv, char **out) {
        static char spec[] = "--spec";
        int n = 0;

        for (int i = 0; i < argc; i++) {
                if (i > 1 && strcmp(argv[i - 1], "--strict") == 0 && argv[i][0] != '-')
                        out[n++] = spec;
                out[n++] = argv[i];
        }
        out[n] = NULL;
        return n;
}

static int usage_error(const char *text) {
        log_error("%s", text);
        return EXIT_USAGE;
}

static int help(void) {
        AUTO_BUF struct buf text = { 0 };

        if (flags_help(&doctor_flags, &text) < 0)
                return EXIT_FAILED;
        (void) fputs(buf_cstr(&text), stdout);
        return EXIT_OK;
}

static int print_json(const struct ctx *ctx, const struct report *report) {
        AUTO_JSON json_t *root = report_json(ctx, report);

        if (!root || json_dumpf(root, stdout, JSON_INDENT(2)) < 0) {
                log_error("doctor: write the report: out of memory or a closed output");
                return EXIT_FAILED;
        }
        printf("\n");
        return EXIT_OK;
}

static int examine(const struct ctx *ctx, const struct options *o, const struct flags *flags) {
        const uint64_t start = clock_ns();
        struct report report = { 0 };
        int code = EXIT_OK;

        report.cloud = o->cloud;
        report.n_rows = probe_all(ctx, o->cloud, report.rows);
        if (o->verbose)
                (void) fprintf(stderr, "cofferdam: doctor: %zu probes took %llu ms\n", report.n_rows,
                               (unsigned long long) (clock_ns() - start) / 1000000);
        if (o->strict)
                report_strict(ctx, flags, &report);
        if (o->cloud)
                report_cluster(ctx, o->probe_image, &report);
        if (o->json)
                code = print_json(ctx, &report);
        else
                report_print(&report);
        return report_failures(&report) > 0 ? EXIT_FAILED : code;
}

int verb_doctor(const struct ctx *ctx, int argc, char **argv) {
        AUTO_FLAGS struct flags *flags = NULL;
        char *words[2 * WORDS_MAX + 1];
        struct options o = { 0 };
        struct error err = { 0 };
        int n;

        if (argc > WORDS_MAX)
                return usage_error("doctor: too many arguments");
        n = expand(argc, argv, words);
        if (flags_parse(&doctor_flags, n, words, &o, &flags, &err) < 0)
                return usage_error(err.msg);
        if (flags->help)
                return help();
        if (flags->next < n) {
                (void) error_set(&err, -EINVAL, "doctor: unexpected '%s': see 'cofferdam doctor --help'",
                                 ESC(words[flags->next]));
                return usage_error(err.msg);
        }
        if (o.probe_image && !o.cloud)
                return usage_error("doctor: --prove-network is for --target kubernetes");
        if (!o.strict && flags->n_uses + flags->n_specs > 0)
                return usage_error("doctor: options of a run are for --strict");
        return examine(ctx, &o, flags);
}
