#include <stdio.h>

#include "cli/verbs.h"

int verb_help(const struct ctx *ctx, int argc, char **argv) {
        (void) ctx;
        (void) argc;
        (void) argv;
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
