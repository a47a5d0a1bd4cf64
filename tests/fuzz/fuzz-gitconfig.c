/*
 * fuzz-gitconfig.c - git's files as the work wrote them: the reader's bounds, and what the judge lets through
 *
 * Input: the first byte chooses the path, the rest is the content.
 */
#include <stdlib.h>
#include <string.h>

#include "fs/gitconfig.h"
#include "fs/gitkeys.h"
#include "fs/judge.h"
#include "runtime/base/cleanup.h"
#include "tests/fuzz/fuzz.h"

static void check(bool holds) {
        if (!holds)
                __builtin_trap();
}

/** struct seen - what the reader has handed out */
struct seen {
        size_t bytes;
        bool dangerous; /* a key that no file may have and land */
};

static bool is_name(const char *s, size_t n) {
        return n > 0 && strspn(s, "abcdefghijklmnopqrstuvwxyz0123456789-") >= n;
}

static int see(const char *key, const char *value, void *arg) {
        static const char *const never[] = { "alias.",  "include.",    "includeif.",
                                             "filter.", "credential.", "url." };
        const char *first = strchr(key, '.'), *last = strrchr(key, '.');
        struct seen *seen = arg;

        check(first && last && is_name(key, (size_t) (first - key)) && is_name(last + 1, strlen(last + 1)));
        check(strlen(key) < 2 * GITCONFIG_NAME_MAX && (!value || strlen(value) <= GITCONFIG_VALUE_MAX));
        seen->bytes += strlen(last + 1) + (value ? strlen(value) : 0);
        for (size_t i = 0; i < ARRAY_SIZE(never); i++)
                seen->dangerous |= strncmp(key, never[i], strlen(never[i])) == 0;
        seen->dangerous |= strcmp(key, "core.fsmonitor") == 0 || strcmp(key, "core.hookspath") == 0;
        return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        static const char *const paths[] = { ".git/config",
                                             ".git/modules/a/config",
                                             "x/config",
                                             ".gitmodules",
                                             ".git/sequencer/opts",
                                             "a/.git",
                                             ".git/worktrees/w/gitdir",
                                             ".git/rebase-merge/git-rebase-todo",
                                             ".git/refs/heads/hooks/update",
                                             ".git/rebase-merge/author-script" };
        enum { AUTHOR = 9 };
        enum { CONFIGS = 5 };
        AUTO_BUF struct buf reason = { 0 };
        struct seen seen = { 0 };
        struct error err = { 0 };
        const char *text;
        size_t which;
        int r;

        if (size == 0)
                return 0;
        which = data[0] % ARRAY_SIZE(paths);
        text = (const char *) data + 1;
        r = gitconfig_parse(text, size - 1, see, &seen, &err);
        check(r == 0 ? seen.bytes <= size : err.code == r && *err.msg);
        check(judge_applies(paths[which]));
        if (!judge_content("/w", paths[which], text, size - 1, &reason)) {
                check(reason.len > 0 && reason.len <= JUDGE_REASON_MAX &&
                      !memchr(reason.data, '\n', reason.len));
                return 0;
        }
        check(reason.len == 0);
        if (which < CONFIGS)
                check(!seen.dangerous);
        if (which < CONFIGS && which != 2)
                check(r == 0);
        if (which == AUTHOR) /* nothing but assignments: a shell that reads it finds no command */
                check(size == 1 || strncmp(text, "GIT_AUTHOR_", 11) == 0);
        return 0;
}
