/*
 * command.h - what cofferdam-kubernetes can be asked to do
 */
#pragma once

enum { CODE_OK = 0, CODE_FAILED = 1, CODE_USAGE = 2 };

/** struct command - one word of the command line */
struct command {
        const char *name;
        const char *summary; /* one line for the usage text */
        /* @argv[0] is the word. Return: exit code; messages are written already. */
        int (*run)(int argc, char **argv, const char *const *environ_);
};
