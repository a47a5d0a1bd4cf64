/*
 * rules.h - the guard's rules: which action applies to a path of a region
 *
 * Globs are gitignore-like (spec: cofferdam.yaml(5) "guard"): '*', '?', '[..]' inside one component, "**" for
 * any number of components, {a,b} alternatives; a leading '/' anchors at the region's root, without one (and
 * without an inner '/') the pattern matches at any depth. The last matching rule wins; no match is
 * GUARD_ALLOW.
 *
 * A path is judged component by component: a state stands for "everything that is still possible below this
 * directory". The root state steps by one name to the child's state. Equal states mean equal verdicts for
 * every path below, so a directory may be renamed from one to the other without looking at what it holds.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/base/error.h"
#include "runtime/spec/spec.h"

struct rules;

/** rules_state - index of an interned state; RULES_ROOT is the region's root */
typedef uint32_t rules_state;
enum { RULES_ROOT = 0 };

/** struct rules_verdict - what applies to a path */
struct rules_verdict {
        enum guard_do action;
        int rule; /* index into the compiled list, -1: none matched */
};

/** struct rule_def - one rule to compile */
struct rule_def {
        const char *path; /* borrowed during the call */
        enum guard_do action;
        bool builtin;
};

/** rules_builtin() - the built-in list of a workspace (docs: guard(7)). @ret_n: how many. Return: static
 * table. */
const struct rule_def *rules_builtin(size_t *ret_n);

/**
 * rules_new() - compile @defs in order
 * @fold: also try each name case-folded (the lower file system folds case; ASCII and simple Unicode folding)
 * @ret:  caller frees with rules_free()
 * Return: 0, -EINVAL (bad pattern: the message says which and why), -E2BIG (more than RULES_MAX), -ENOMEM.
 */
int rules_new(const struct rule_def *defs, size_t n, bool fold, struct rules **ret, struct error *err)
        __attribute__((warn_unused_result));
struct rules *rules_free(struct rules *rules);

/**
 * rules_step() - the state of the child @name of a directory in state @dir
 * @name: one component of @len bytes, any bytes but '/' and NUL
 * Thread-safe. Return: state; when the table of states is full, a state whose verdict is GUARD_PROTECT for
 * itself and everything below (fail closed).
 */
rules_state rules_step(struct rules *rules, rules_state dir, const char *name, size_t len);

/** rules_verdict() - what applies to the path that reached @state. Thread-safe. */
struct rules_verdict rules_verdict(struct rules *rules, rules_state state);

/** rules_path() - step and judge a whole relative path ("a/b/c"; "" is the root). Thread-safe. */
struct rules_verdict rules_path(struct rules *rules, const char *path);

/** rules_text() - the pattern text of rule @index, borrowed; "(default)" for -1 */
const char *rules_text(const struct rules *rules, int index);

enum { RULES_MAX = 512, RULES_STATES_MAX = 65536 };

#define AUTO_RULES __attribute__((cleanup(auto_rules)))
static inline void auto_rules(struct rules **p) {
        *p = rules_free(*p);
}
