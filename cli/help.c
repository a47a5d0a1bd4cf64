#include <stdio.h>
#include <string.h>

#include "cli/verbs.h"
#include "runtime/base/escape.h"
#include "runtime/base/log.h"

/* Verbs whose first word has a help of its own. */
static bool has_words(const struct verb *verb) {
        return strcmp(verb->name, "spec") == 0 || strcmp(verb->name, "image") == 0;
}

/* 'cofferdam help run' is 'cofferdam run --help', and 'help spec check' is 'spec check --help'. */
static int help_of(const struct ctx *ctx, char *const *words, int n) {
        const struct verb *verb = verb_find(words[0]);
        char option[] = "--help", *argv[] = { words[0], option, option, NULL };

        if (!verb)
                return verb_unknown(words[0]);
        if (verb->run == verb_help)
                return verb->run(ctx, 1, argv);
        if (n > (has_words(verb) ? 2 : 1)) { /* one of 'run' would be a command */
                log_error("help: '%s' is a word too many: 'cofferdam help %s'", ESC(words[n - 1]),
                          verb->name);
                return EXIT_USAGE;
        }
        if (n == 2)
                argv[1] = words[1];
        return verb->run(ctx, n + 1, argv);
}

int verb_help(const struct ctx *ctx, int argc, char **argv) {
        if (argc > 1)
                return help_of(ctx, argv + 1, argc - 1);
        printf("Usage: cofferdam VERB [OPTIONS] [--] [COMMAND...]\n"
               "\n"
               "Run untrusted work on your real workspace without handing it the machine.\n"
               "\n"
               "Verbs\n");
        for (size_t i = 0; i < n_verbs; i++)
                printf("  %-10s %s\n", verbs[i].name, verbs[i].summary);
        printf("\n"
               "'cofferdam VERB --help' shows the options of a verb; cofferdam(1) tells more.\n");
        return EXIT_OK;
}
