#include "cli/runs.h"

#include <stdio.h>
#include <string.h>

#include "cli/launch.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/escape.h"
#include "runtime/base/log.h"

int runs_complain(const struct error *err) {
        log_error("%s", err->msg);
        return EXIT_FAILED;
}

/* Say of an option behind a word that it is none. */
static bool late_option(int argc, char **argv, int next, int *ret_code) {
        for (int i = next; i < argc && strcmp(argv[next - 1], "--") != 0; i++)
                if (argv[i][0] == '-' && argv[i][1]) {
                        log_error("%s: '%s' comes too late: options stand first", argv[0], ESC(argv[i]));
                        *ret_code = EXIT_USAGE;
                        return true;
                }
        return false;
}

bool runs_words(const struct flag_set *set, int argc, char **argv, void *options, int *ret_next,
                int *ret_code) {
        AUTO_FLAGS struct flags *flags = NULL;
        struct error err = { 0 };

        if (flags_parse(set, argc, argv, options, &flags, &err) < 0) {
                log_error("%s", err.msg);
                *ret_code = EXIT_USAGE;
                return false;
        }
        if (flags->help) {
                *ret_code = launch_help(set);
                return false;
        }
        *ret_next = flags->next;
        return !late_option(argc, argv, flags->next, ret_code);
}

bool runs_word_left(int argc, char **argv, int next) {
        if (next < argc)
                log_error("%s: unexpected word '%s': see 'cofferdam %s --help'", argv[0], ESC(argv[next]),
                          argv[0]);
        return next < argc;
}

int runs_for_each_word(const struct ctx *ctx, int argc, char **argv, int next, runs_verb_fn fn, void *arg) {
        int code = EXIT_OK;

        if (next >= argc) {
                log_error("%s: which run? 'cofferdam ps' lists them", argv[0]);
                return EXIT_USAGE;
        }
        for (int i = next; i < argc; i++) {
                struct error err = { 0 };

                if (fn(ctx, argv[i], arg, &err) < 0)
                        code = runs_complain(&err);
        }
        return code;
}
