/*
 * judge.h - rules by content: a held file whose every part is known to be harmless may land at once
 *
 * A table maps path patterns to functions. git must keep working on the host after the work ran `git init`,
 * `clone`, `remote add`, `switch -c`: a git config file whose every key is on the safe list lands; any other
 * key holds the whole new version. guard(7) lists what is safe; a test compares the two.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "runtime/base/buf.h"

enum {
        JUDGE_MAX_BYTES = 1 << 20, /* what the judge reads at most; a longer file is held */
        JUDGE_REASON_MAX = 512,    /* bytes of a reason */
};

/**
 * judge_applies() - whether a regular file at the relative path @path (landing path in the region; for a
 * region under rules_rebase() with the base in front) is judged by content
 * Names are taken case-folded, as the built-in rules take them. A path is judged only when its verdict is
 * GUARD_HOLD by a built-in rule; a user's own hold is final. Symlinks are never judged: they stay held.
 */
bool judge_applies(const char *path);

/**
 * judge_content() - whether the whole content may land under @path
 * @root:   absolute path of the region's root, the same for the work and for the host; NULL: not the same,
 * and absolute paths in the content are not safe
 * @data:   @len bytes, hostile
 * @reason: receives what holds it, e.g. "core.fsmonitor, alias.x" (escaped, at most JUDGE_REASON_MAX bytes);
 *          NULL allowed; untouched when the content lands
 * Thread-safe. Return: true: lands. false: held (also when it cannot be parsed).
 */
bool judge_content(const char *root, const char *path, const char *data, size_t len, struct buf *reason);

/**
 * judge_change() - judge_content() for a file that the host has already
 * @old: what the host has, @old_len bytes
 * A git configuration also lands when the keys that are not safe are those of the host's version, with the
 * same values in the same order: what a person has set (a pager, an alias, a local remote) does not hold what
 * git adds to it. A version whose keys are all safe lands in any case.
 */
bool judge_change(const char *root, const char *path, const char *old, size_t old_len, const char *data,
                  size_t len, struct buf *reason);

/**
 * judge_removal() - whether the host's file may go when the work removes its own, which has @data
 * A file that the judge would let land: its absence says no more to the host's tools than an empty one would,
 * or than itself.
 */
bool judge_removal(const char *root, const char *path, const char *data, size_t len);

/**
 * judge_same_place() - whether what is judged below the directory @from would be judged alike below @to
 * A submodule's core.worktree counts the steps up to the repository. For directories with the same
 * rules_state.
 */
bool judge_same_place(const char *from, const char *to);

/**
 * judge_link() - whether a symlink to @target, whose name no rule holds, may land
 * A link into a git directory is held under any name: git on the host would write through it (a submodule's
 * core.worktree may name it). Return: false: held.
 */
bool judge_link(const char *target);
