/*
 * fuzz-rules.c - patterns that a specification gives and names that the work makes
 *
 * Input: patterns, one a line, then an empty line, then a path. A pattern's first byte chooses its action.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "fs/fold.h"
#include "fs/rules.h"
#include "runtime/base/cleanup.h"
#include "tests/fuzz/fuzz.h"
#include "tests/rules-model.h"

enum { INPUT_MAX = 8192, DEFS_MAX = 16, MODEL_BYTES_MAX = 24 };

static void check(bool holds) {
        if (!holds)
                __builtin_trap();
}

/* Splits @text into rules in place. Return: what follows the empty line. */
static char *read_rules(char *text, struct rule_def *defs, size_t *ret_n) {
        while (*text && *text != '\n') {
                char *end = text + strcspn(text, "\n");

                if (*ret_n < DEFS_MAX)
                        defs[(*ret_n)++] = (struct rule_def){
                                .path = text + 1,
                                .action = (enum guard_do)((unsigned char) *text % GUARD_DO_COUNT),
                        };
                if (*end)
                        *end++ = '\0';
                text = end;
        }
        return text + (*text == '\n');
}

static bool is_plain(const char *s) {
        return strlen(s) <= MODEL_BYTES_MAX && !strpbrk(s, "\\[]{}") && !strstr(s, "//");
}

static void compare(struct rules *rules, const struct rule_def *defs, size_t n, const char *path) {
        for (size_t i = 0; i < n; i++) {
                if (!is_plain(defs[i].path))
                        return;
        }
        if (is_plain(path) && *path != '/' && (!*path || path[strlen(path) - 1] != '/'))
                check(rules_path(rules, path, S_IFREG).rule == model_verdict(defs, n, path));
}

static void judge(struct rules *rules, const struct rule_def *defs, size_t n, const char *path) {
        static const mode_t types[] = { S_IFREG, S_IFLNK, S_IFDIR };

        for (size_t i = 0; i < ARRAY_SIZE(types); i++) {
                const struct rules_verdict a = rules_path(rules, path, types[i]);
                const struct rules_verdict b = rules_path(rules, path, types[i]);

                check(a.action == b.action && a.rule == b.rule && a.action < GUARD_DO_COUNT);
                check(a.rule >= -2 && a.rule < (int) n && rules_text(rules, a.rule));
                check(a.rule < 0 || a.action == defs[a.rule].action ||
                      (types[i] == S_IFLNK && defs[a.rule].action == GUARD_HIDE &&
                       a.action == GUARD_PROTECT));
        }
}

static void folding(const char *path) {
        const size_t len = strlen(path);
        AUTO_FREE char *once = malloc(len + 1), *twice = malloc(len + 1);
        size_t n, m;

        if (!once || !twice)
                return;
        n = fold_name(path, len, once);
        check(n <= len && fold_tail(once, n) <= n);
        m = fold_name(once, n, twice);
        check(m <= n);
        (void) fold_alias(once, n, ".git", 4);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        AUTO_FREE char *text = NULL;
        struct rule_def defs[DEFS_MAX];
        size_t n = 0;
        const char *path;

        if (size > INPUT_MAX)
                return 0;
        text = strndup((const char *) data, size);
        if (!text)
                return 0;
        path = read_rules(text, defs, &n);
        folding(path);
        for (int fold = 0; fold < 2; fold++) {
                AUTO_RULES struct rules *rules = NULL;
                struct error err = { 0 };

                if (rules_new(defs, n, fold, &rules, &err) < 0) {
                        check(!rules && err.code < 0 && *err.msg);
                        continue;
                }
                judge(rules, defs, n, path);
                if (!fold)
                        compare(rules, defs, n, path);
        }
        return 0;
}
