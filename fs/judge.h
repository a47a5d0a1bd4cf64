/*
 * judge.h - rules by content: a held file whose every part is known to be harmless may land at once
 *
 * A table maps path patterns to functions. git must keep working on the host after the work ran `git init`,
 * `clone`, `remote add`, `switch -c`: a git config file whose every key is on the safe list lands; any other
 * key holds the whole new version.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "runtime/base/buf.h"

/* what the judge reads at most; a longer file is held */
enum { JUDGE_MAX_BYTES = 1 << 20 };

/**
 * judge_applies() - whether the relative path @path (landing path in the region) is judged by content
 * A path is judged only when its verdict is GUARD_HOLD by a built-in rule; a user's own hold is final.
 */
bool judge_applies(const char *path);

/**
 * judge_content() - whether the whole content may land under @path
 * @data:   @len bytes, hostile
 * @reason: receives what holds it, e.g. "core.fsmonitor, alias.x" (escaped, at most 512 bytes); NULL allowed
 * Return: true: lands. false: held (also when it cannot be parsed).
 */
bool judge_content(const char *path, const char *data, size_t len, struct buf *reason);
