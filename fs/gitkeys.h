/*
 * gitkeys.h - the keys of git's files that cannot run, fetch or write anything by themselves; used by judge.c
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "runtime/base/buf.h"

/** enum gitkeys_file - which file is judged; a row of the table names the files it is safe in */
enum gitkeys_file {
        GITKEYS_CONFIG = 1,    /* config and config.worktree of a git directory */
        GITKEYS_MODULE = 2,    /* config of a submodule's git directory */
        GITKEYS_MODULES = 4,   /* .gitmodules */
        GITKEYS_SEQUENCER = 8, /* sequencer/opts */
};

/** struct gitkeys_row - one safe key */
struct gitkeys_row {
        unsigned int files;  /* enum gitkeys_file */
        const char *section; /* lower case */
        bool subsection;     /* whether it has one */
        const char *name;    /* lower case */
        const char *values;  /* what is taken, for guard(7) */
        bool (*safe)(const char *subsection, const char *value);
};

/** gitkeys_table() - the safe keys (docs: guard(7)). @ret_n: how many. Return: static table. */
const struct gitkeys_row *gitkeys_table(size_t *ret_n);

/**
 * gitkeys_judge() - whether each key of the file is safe in it
 * @file:   one bit of enum gitkeys_file
 * @up:     steps up from the file's directory to the one that holds ".git"; core.worktree has to go up
 * exactly these and then down by plain names; 0: core.worktree is not safe
 * @reason: receives the unsafe keys or the syntax error; NULL allowed
 * Return: true: all are.
 */
bool gitkeys_judge(unsigned int file, size_t up, const char *data, size_t len, struct buf *reason);

/**
 * gitkeys_same_unsafe() - whether two versions of a file have the same unsafe keys: same values, same order
 * Return: false also when one of them cannot be parsed.
 */
bool gitkeys_same_unsafe(unsigned int file, size_t up, const char *a, size_t a_len, const char *b,
                         size_t b_len);
