#include <stdio.h>
#include <string.h>

#include "cli/verbs.h"

/* 'cofferdam help run' is 'cofferdam run --help'. */
static int help_of(const struct ctx *ctx, const char *word) {
        const struct verb *verb = verb_find(word);
        char name[32], option[] = "--help", *argv[] = { name, option, NULL };

        if (!verb)
                return verb_unknown(word);
        if (verb->run == verb_help || strcmp(verb->name, "version") == 0)
                return verb->run(ctx, 1, argv);
        (void) snprintf(name, sizeof(name), "%s", verb->name);
        return verb->run(ctx, 2, argv);
}

int verb_help(const struct ctx *ctx, int argc, char **argv) {
        if (argc > 1)
                return help_of(ctx, argv[1]);
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
