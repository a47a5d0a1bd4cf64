#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/verbs.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/escape.h"
#include "runtime/base/log.h"
#include "runtime/base/suggest.h"

static int verb_version(const struct ctx *ctx, int argc, char **argv) {
        (void) ctx;
        (void) argc;
        (void) argv;
        printf("cofferdam %s\n", COFFERDAM_VERSION);
        return EXIT_OK;
}

const struct verb verbs[] = {
        { "help", "show this text", verb_help },
        { "version", "show the version", verb_version },
};
const size_t n_verbs = ARRAY_SIZE(verbs);

static const struct verb *verb_find(const char *word) {
        if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0)
                word = "help";
        if (strcmp(word, "--version") == 0)
                word = "version";
        for (size_t i = 0; i < n_verbs; i++)
                if (strcmp(word, verbs[i].name) == 0)
                        return &verbs[i];
        return NULL;
}

static int unknown_verb(const char *word) {
        const char *names[ARRAY_SIZE(verbs)];
        const char *near;

        for (size_t i = 0; i < n_verbs; i++)
                names[i] = verbs[i].name;
        near = suggest_name(word, names, n_verbs);
        if (near)
                log_error("unknown verb '%s': did you mean '%s'?", ESC(word), near);
        else
                log_error("unknown verb '%s': see 'cofferdam help'", ESC(word));
        return EXIT_USAGE;
}

int main(int argc, char **argv) {
        struct ctx ctx = { .uid = geteuid(), .gid = getegid() };
        const struct verb *verb;

        if (argc < 2) {
                log_error("no verb: see 'cofferdam help'");
                return EXIT_USAGE;
        }
        verb = verb_find(argv[1]);
        if (!verb)
                return unknown_verb(argv[1]);
        return verb->run(&ctx, argc - 1, argv + 1);
}
