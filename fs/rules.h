/*
 * rules.h - the guard's rules: which action applies to a path of a region
 *
 * Globs are gitignore-like (spec: cofferdam.yaml(5) "guard"): '*', '?', '[..]' inside one component, "**" for
 * any number of components (at the end: everything below the directory, not itself), {a,b} alternatives that
 * do not nest, '\' before a special byte takes it literally. With a '/' in it a pattern is anchored at the
 * region's root; without one it matches at any depth. What a pattern matches it matches with everything
 * below. The last matching rule wins; no match is GUARD_ALLOW.
 *
 * A symbolic link put where a directory on the way to a ruled name would be (".vscode -> evil" for
 * "/.vscode/tasks.json") obeys that rule too, as far as the way is written without wildcards (a leading "**"
 * may be there): what the host later reaches through the link was written under no rule. For a hide rule the
 * link is protected.
 *
 * A path is judged component by component: a state stands for "everything that is still possible below this
 * directory". The root state steps by one name to the child's state. Equal states mean equal verdicts for
 * every path below, so a directory may be renamed from one to the other without looking at what it holds.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "runtime/base/error.h"
#include "runtime/spec/spec.h"

struct rules;

/** rules_state - index of an interned state; RULES_ROOT is the region's root */
typedef uint32_t rules_state;

enum {
        RULES_ROOT = 0,
        RULES_MAX = 512,          /* rules of one list */
        RULES_STATES_MAX = 65536, /* interned states */
        RULES_NODES_MAX = 8192,   /* pattern positions of one list */
        RULES_NAME_MAX = 1024,    /* bytes of one name; a longer one is protected */
};

/** enum rule_types - the kinds of node a rule is about; 0: all, and everything below */
enum rule_types { RULE_ANY = 0, RULE_FILE = 1, RULE_LINK = 2, RULE_DIR = 4 };

/** struct rules_verdict - what applies to a path */
struct rules_verdict {
        enum guard_do action;
        int rule; /* index into the compiled list, -1: none matched, -2: limits reached, protected */
};

/** struct rule_def - one rule to compile */
struct rule_def {
        const char *path; /* borrowed during the call */
        enum guard_do action;
        bool builtin;       /* matched case-folded on every file system */
        unsigned int types; /* enum rule_types; anything but RULE_ANY matches the node itself only */
        const char *from; /* who said it, for people; borrowed as @path; NULL: nobody but the built-in list */
};

/** rules_builtin() - the built-in list of a workspace (docs: guard(7)). @ret_n: how many. Return: static
 * table. */
const struct rule_def *rules_builtin(size_t *ret_n);

/** rules_builtin_group() - the heading under which guard(7) has the built-in rule @path. Return: static,
 * NULL: none. */
const char *rules_builtin_group(const char *path);

/**
 * rules_new() - compile @defs in order
 * @fold: also try each name case-folded (the lower file system folds case): ASCII, Latin, Greek, Cyrillic and
 *        Armenian letters, ignorable characters dropped, final dots and spaces dropped, 8.3 aliases (GIT~1)
 * @ret:  caller frees with rules_free()
 * Return: 0, -EINVAL (bad pattern: the message says which and why), -E2BIG (RULES_MAX, RULES_NODES_MAX),
 * -ENOMEM.
 */
int rules_new(const struct rule_def *defs, size_t n, bool fold, struct rules **ret, struct error *err)
        __attribute__((warn_unused_result));
struct rules *rules_free(struct rules *rules);

/**
 * rules_rebase() - judge a region whose root is itself the relative path @base of the tree that the rules are
 * about: ".git" for a region that serves the common directory of a linked worktree
 * To be called before any other use; RULES_ROOT is @base from then on. Return: 0, -ENOMEM.
 */
int rules_rebase(struct rules *rules, const char *base) __attribute__((warn_unused_result));

/**
 * rules_step() - the state of the child @name of a directory in state @dir
 * @name: one component of @len bytes, any bytes but '/' and NUL
 * Thread-safe. Return: state; when the table of states is full, a state whose verdict is GUARD_PROTECT for
 * itself and everything below (fail closed).
 */
rules_state rules_step(struct rules *rules, rules_state dir, const char *name, size_t len);

/**
 * rules_verdict() - what applies to the path that reached @state
 * @type: the node's type as in st_mode (S_IFMT bits; the rest is ignored): the one it has or is to get.
 *        ".git" as a directory is allowed, as a file or symlink it is held
 * Thread-safe.
 */
struct rules_verdict rules_verdict(const struct rules *rules, rules_state state, mode_t type);

/** rules_at() - the state of a whole relative path. Thread-safe. */
rules_state rules_at(struct rules *rules, const char *path);

/** rules_path() - step and judge a whole relative path ("a/b/c"; "" is the root). Thread-safe. */
struct rules_verdict rules_path(struct rules *rules, const char *path, mode_t type);

/** rules_text() - the pattern text of rule @index, borrowed; "(default)" for -1, "(limit)" for -2 */
const char *rules_text(const struct rules *rules, int index);

/** rules_is_builtin() - whether rule @index came from a definition marked as built in */
bool rules_is_builtin(const struct rules *rules, int index);

/** rules_def() - rule @index as it was given, its path borrowed. Return: false: there is none. */
bool rules_def(const struct rules *rules, size_t index, struct rule_def *ret);

/** rules_fold(), rules_base() - what rules_new() and rules_rebase() were given; base NULL: none, borrowed */
bool rules_fold(const struct rules *rules);
const char *rules_base(const struct rules *rules);

#define AUTO_RULES __attribute__((cleanup(auto_rules)))
static inline void auto_rules(struct rules **p) {
        *p = rules_free(*p);
}
