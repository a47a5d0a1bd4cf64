/*
 * runs.h - what the verbs that look after runs share: stop, rm, ps, inspect, logs, events, gc
 */
#pragma once

#include "cli/verbs.h"
#include "runtime/run/state.h"
#include "runtime/spec/flags.h"

/** runs_words() - parse; @ret_next: index of the first word. @ret_code: when the verb is done already.
 * Return: whether to go on. */
bool runs_words(const struct flag_set *set, int argc, char **argv, void *options, int *ret_next,
                int *ret_code) __attribute__((warn_unused_result));

/** runs_word_left() - say of a verb that takes no words that argv[next] is one. Return: whether there is. */
bool runs_word_left(int argc, char **argv, int next) __attribute__((warn_unused_result));

/** runs_verb_fn - Return: 0 or negative errno with a message */
typedef int (*runs_verb_fn)(const struct ctx *ctx, const char *id, void *arg, struct error *err);

/** runs_for_each_word() - @fn for argv[next..], at least one; failures are said, the rest goes on. Return:
 * exit code. */
int runs_for_each_word(const struct ctx *ctx, int argc, char **argv, int next, runs_verb_fn fn, void *arg);

/** runs_complain() - @err on stderr. Return: EXIT_FAILED. */
int runs_complain(const struct error *err);
