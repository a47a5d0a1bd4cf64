/*
 * doctor.c - what this host can do for a run, why not, and what to do about it
 */
#include <stdio.h>
#include <string.h>

#include "cli/doctor.h"
#include "cli/verbs.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/clock.h"
#include "runtime/base/escape.h"
#include "runtime/base/json.h"
#include "runtime/base/log.h"
#include "runtime/base/suggest.h"

/** struct doctor_options - the command line */
struct doctor_options {
        bool json, verbose, help;
};

static const struct {
        const char *name, *letter;
        size_t offset; /* of the bool in struct doctor_options */
        const char *help;
} options[] = {
        { "--json", NULL, offsetof(struct doctor_options, json), "one JSON object instead of the table" },
        { "--verbose", "-v", offsetof(struct doctor_options, verbose), "say how long the probes took" },
        { "--help", "-h", offsetof(struct doctor_options, help), "show this text" },
};

static int usage_error(const char *word) {
        const char *names[ARRAY_SIZE(options)];
        const char *near;

        for (size_t i = 0; i < ARRAY_SIZE(options); i++)
                names[i] = options[i].name;
        near = suggest_name(word, names, ARRAY_SIZE(names));
        if (near)
                log_error("doctor: unknown option '%s': did you mean '%s'?", ESC(word), near);
        else
                log_error("doctor: unexpected '%s': see 'cofferdam doctor --help'", ESC(word));
        return EXIT_USAGE;
}

static bool parse_word(const char *word, struct doctor_options *ret) {
        for (size_t i = 0; i < ARRAY_SIZE(options); i++)
                if (strcmp(word, options[i].name) == 0 ||
                    (options[i].letter && strcmp(word, options[i].letter) == 0)) {
                        *(bool *) ((char *) ret + options[i].offset) = true;
                        return true;
                }
        return false;
}

static void print_help(void) {
        printf("Usage: cofferdam doctor [OPTIONS]\n"
               "\n"
               "Try everything that a sandbox needs of this host, each in a child process that\n"
               "undoes it, and show what works, what does not, why, and what to do about it.\n"
               "\n"
               "Options\n");
        for (size_t i = 0; i < ARRAY_SIZE(options); i++)
                printf("  %s%s%-*s %s\n", options[i].letter ? options[i].letter : "  ",
                       options[i].letter ? ", " : "  ", 12, options[i].name, options[i].help);
        printf("\n"
               "Exit codes: 0 a native run can start (there may be warnings), 1 it cannot,\n"
               "2 usage error. cofferdam-doctor(1) explains every row.\n");
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

int verb_doctor(const struct ctx *ctx, int argc, char **argv) {
        struct doctor_options opt = { 0 };
        struct report report = { 0 };
        const uint64_t start = clock_ns();
        int code = EXIT_OK;

        for (int i = 1; i < argc; i++)
                if (!parse_word(argv[i], &opt))
                        return usage_error(argv[i]);
        if (opt.help) {
                print_help();
                return EXIT_OK;
        }
        if (opt.verbose)
                log_set_level(LOG_INFO);
        report.n_rows = probe_all(ctx, report.rows);
        log_info("doctor: %zu probes took %llu ms", report.n_rows,
                 (unsigned long long) (clock_ns() - start) / 1000000);
        if (opt.json)
                code = print_json(ctx, &report);
        else
                report_print(&report);
        return report_failures(&report) > 0 ? EXIT_FAILED : code;
}
