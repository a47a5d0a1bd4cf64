#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "fs/fold.h"
#include "fs/glob.h"
#include "fs/rules-json.h"
#include "fs/rules.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/json.h"
#include "tests/rules-model.h"

enum { F = S_IFREG, D = S_IFDIR, L = S_IFLNK };
enum { A = GUARD_ALLOW, H = GUARD_HOLD, P = GUARD_PROTECT, X = GUARD_HIDE };

static struct rules *compile(const struct rule_def *defs, size_t n, bool fold) {
        struct rules *rules = NULL;
        struct error err = { 0 };

        if (rules_new(defs, n, fold, &rules, &err) < 0)
                fail_msg("rules_new: %s", err.msg);
        return rules;
}

static struct rules *compile_builtin(void) {
        size_t n;
        const struct rule_def *defs = rules_builtin(&n);

        return compile(defs, n, false);
}

static void glob_match_is_bytewise(void **state) {
        static const struct {
                const char *pat, *name;
                bool want;
        } cases[] = {
                { "a", "a", true },
                { "a", "b", false },
                { "a", "ab", false },
                { "*", "", true },
                { "*", ".x", true },
                { "a*", "a", true },
                { "*a", "ba", true },
                { "*a", "ab", false },
                { "a*b*c", "axxbyyc", true },
                { "a*b*c", "axxcyyb", false },
                { "?", "", false },
                { "?", "\xff", true },
                { "??", "a", false },
                { "[ab]", "b", true },
                { "[ab]", "c", false },
                { "[!ab]", "c", true },
                { "[^ab]", "a", false },
                { "[a-c]x", "bx", true },
                { "[a-c]", "d", false },
                { "[]]", "]", true },
                { "[!]]", "]", false },
                { "[a-]", "-", true },
                { "[\\]a]", "]", true },
                { "\\*", "*", true },
                { "\\*", "x", false },
                { "[*]", "*", true },
                { "[*]", "a", false },
                { "*.sample", "a.sample", true },
                { "*.sample", "sample", false },
                { "**", "abc", true },
                { "a\\?", "a?", true },
                { "a\\?", "ab", false },
                { "[\x80-\xff]", "\xc3", true },
                { "*[0-9]", "a1b2", true },
                { "*[0-9]", "a1b", false },
                { "a?c*", "abc", true },
        };

        (void) state;
        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
                bool literal;

                assert_int_equal(glob_check(cases[i].pat, strlen(cases[i].pat), &literal, NULL), 0);
                if (glob_match(cases[i].pat, strlen(cases[i].pat), cases[i].name, strlen(cases[i].name)) !=
                    cases[i].want)
                        fail_msg("'%s' against '%s'", cases[i].pat, cases[i].name);
        }
}

static void glob_match_is_not_exponential(void **state) {
        char pat[512], name[1024];

        (void) state;
        for (size_t i = 0; i + 2 < sizeof(pat); i += 2)
                memcpy(pat + i, "*a", 2);
        pat[sizeof(pat) - 2] = 'b';
        pat[sizeof(pat) - 1] = '\0';
        memset(name, 'a', sizeof(name));
        assert_false(glob_match(pat, strlen(pat), name, sizeof(name)));
}

static void rules_new_rejects(void **state) {
        static const char *const bad[] = {
                "",
                "!a",
                "/",
                "a/",
                "a//b",
                "//a",
                "a/./b",
                "..",
                "a/..",
                "./a",
                "[a",
                "a[",
                "[]",
                "[!]",
                "[z-a]",
                "a\\",
                "{a",
                "a}",
                "{a,{b,c}}",
                "[[:alpha:]]",
                "{a/,b}",
                "[a/b]",
                "\\.",
                "a\\/b",
                "{/a,b}/",
                "[a\\",
                "a/{}/b",
                "{,}",
                "{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}",
        };

        (void) state;
        for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
                const struct rule_def def = { .path = bad[i], .action = GUARD_HOLD };
                struct rules *rules = NULL;
                struct error err = { 0 };

                if (rules_new(&def, 1, false, &rules, &err) != -EINVAL)
                        fail_msg("'%s' was taken", bad[i]);
                assert_null(rules);
                assert_non_null(strstr(err.msg, "guard rule '"));
        }
}

static void rules_new_is_bounded(void **state) {
        static struct rule_def defs[RULES_MAX + 1];
        static char texts[RULES_MAX + 1][64];
        struct rules *rules = NULL;

        (void) state;
        for (size_t i = 0; i < ARRAY_SIZE(defs); i++) {
                (void) snprintf(texts[i], sizeof(texts[i]), "/a%zu/b/c/{d,e,f,g,h,i,j,k,l,m,n,o,p,q}", i);
                defs[i] = (struct rule_def){ .path = texts[i], .action = GUARD_HOLD };
        }
        assert_int_equal(rules_new(defs, RULES_MAX + 1, false, &rules, NULL), -E2BIG); /* rules */
        assert_int_equal(rules_new(defs, RULES_MAX, false, &rules, NULL), -E2BIG);     /* nodes */
        assert_null(rules);
        assert_int_equal(rules_new(defs, 256, false, &rules, NULL), 0);
        rules = rules_free(rules);
}

static void rules_path_follows_the_pattern(void **state) {
        static const struct {
                const char *pattern, *path;
                int want;
        } cases[] = {
                { "a/**", "a", A },
                { "a/**", "a/b", H },
                { "a/**", "a/b/c", H },
                { "a/**", "x/a/b", A },
                { "**/x", "x", H },
                { "**/x", "a/b/x", H },
                { "**/x", "xx", A },
                { "x", "a/b/x", H },
                { "x", "x/y", H },
                { "/x", "x", H },
                { "/x", "a/x", A },
                { "a/b", "a/b", H },
                { "a/b", "c/a/b", A },
                { "a/**/b", "a/b", H },
                { "a/**/b", "a/x/y/b", H },
                { "a/**/b", "a/x", A },
                { "**", "", A },
                { "**", "a", H },
                { "/**", "a/b", H },
                { "*.c", "d/x.c", H },
                { "*.c", "d/x.h", A },
                { "a/*/c", "a/b/c", H },
                { "a/*/c", "a/c", A },
                { "a/*/c", "a/b/b/c", A },
                { "{a,b}/c", "b/c", H },
                { "{a,b}/c", "c/c", A },
                { "{a/x,b}", "a/x", H },
                { "{a/x,b}", "b", H },
                { "{a/x,b}", "z/b", A },
                { "{a,b}", "z/b", H },
                { "a{,b}", "ab", H },
                { "a{,b}", "a", H },
                { "\\{a,b\\}", "{a,b}", H },
                { "[{]a", "{a", H },
                { "a/**/**/b", "a/b", H },
                { "a/**/**", "a", A },
                { "a**b", "axxb", H },
                { "a**b", "a/b", A },
                { "a,b", "a,b", H },
                { "X", "x", A },
                { "\xff*", "\xff\xfe", H },
        };

        (void) state;
        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
                const struct rule_def def = { .path = cases[i].pattern, .action = GUARD_HOLD };
                AUTO_RULES struct rules *rules = compile(&def, 1, false);
                const struct rules_verdict v = rules_path(rules, cases[i].path, F);

                if ((int) v.action != cases[i].want || v.rule != (cases[i].want == A ? -1 : 0))
                        fail_msg("'%s' on '%s': %u by %d", cases[i].pattern, cases[i].path, v.action, v.rule);
        }
}

static void rules_path_last_match_wins(void **state) {
        static const struct rule_def defs[] = {
                { "/secret", GUARD_HIDE },   { "/secret/public", GUARD_ALLOW },
                { "*.lock", GUARD_PROTECT }, { "/free.lock", GUARD_ALLOW },
                { "/docs/**", GUARD_HOLD },  { "/docs/*.md", GUARD_ALLOW, false, RULE_FILE },
        };
        static const struct {
                const char *path;
                mode_t type;
                int action, rule;
        } cases[] = {
                { "secret", D, X, 0 },
                { "secret/a/b", F, X, 0 },
                { "secret/public", D, A, 1 },
                { "secret/public/x", F, A, 1 },
                { "secret/public/x.lock", F, P, 2 },
                { "free.lock", F, A, 3 },
                { "a/free.lock", F, P, 2 },
                { "docs", D, A, -1 },
                { "docs/a.md", F, A, 5 },
                { "docs/a.md", D, H, 4 },
                { "docs/a.md", L, H, 4 },
                { "docs/a.md/b", F, H, 4 },
                { "docs/x", F, H, 4 },
        };
        AUTO_RULES struct rules *rules = compile(defs, ARRAY_SIZE(defs), false);

        (void) state;
        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
                const struct rules_verdict v = rules_path(rules, cases[i].path, cases[i].type);

                if ((int) v.action != cases[i].action || v.rule != cases[i].rule)
                        fail_msg("'%s': %u by %d", cases[i].path, v.action, v.rule);
        }
        assert_string_equal(rules_text(rules, 2), "*.lock");
        assert_string_equal(rules_text(rules, -1), "(default)");
        assert_string_equal(rules_text(rules, -2), "(limit)");
        assert_string_equal(rules_text(rules, 99), "(default)");
}

static void rules_verdict_guards_the_way(void **state) {
        static const struct rule_def defs[] = {
                { "/hid/den/x", GUARD_HIDE }, { "/a/b/**", GUARD_HOLD },   { "**/c/d", GUARD_PROTECT },
                { "/e/*/f/g", GUARD_HOLD },   { "/h/**/i/j", GUARD_HOLD }, { "/k/l", GUARD_ALLOW },
        };
        static const struct {
                const char *path;
                mode_t type;
                int action;
        } cases[] = {
                { "hid", L, P },       { "hid/den", L, P }, { "hid", D, A }, { "hid", F, A },
                { "hid/den/x", L, X }, { "a", L, H },       { "a/b", L, H }, { "a/b/z", L, H },
                { "x/y/c", L, P },     { "x/y/c", D, A },   { "e", L, H },   { "e/x", L, A },
                { "e/x/f", L, A },     { "h", L, H },       { "h/i", L, A }, { "k", L, A },
                { "b", L, A },
        };
        AUTO_RULES struct rules *rules = compile(defs, ARRAY_SIZE(defs), false);

        (void) state;
        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
                const struct rules_verdict v = rules_path(rules, cases[i].path, cases[i].type);

                if ((int) v.action != cases[i].action)
                        fail_msg("'%s': %u by %d", cases[i].path, v.action, v.rule);
        }
}

static void fold_name_gives_one_spelling(void **state) {
        static const struct {
                const char *name, *want;
        } cases[] = {
                { ".GIT", ".git" },
                { ".g\xe2\x80\x8cit", ".git" },  /* U+200C */
                { ".git\xef\xbb\xbf", ".git" },  /* U+FEFF */
                { "HOO\xe2\x84\xaas", "hooks" }, /* U+212A */
                { "hook\xc5\xbf", "hooks" },     /* U+017F */
                { "\xc3\x84", "\xc3\xa4" },      /* A with diaeresis */
                { "\xd0\x96", "\xd0\xb6" },      /* Cyrillic Zhe */
                { "\xff\xfeX", "\xff\xfex" },    /* not UTF-8 */
                { "\xc0\xaf", "\xc0\xaf" },      /* overlong */
                { "\xe2\x80", "\xe2\x80" },      /* cut */
                { "\xf3\xa0\x81\x81"
                  "A",
                  "a" }, /* U+E0041, a tag */
                { "a\xcd\x8f"
                  "b",
                  "ab" }, /* U+034F */
        };

        (void) state;
        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
                char out[64];
                const size_t n = fold_name(cases[i].name, strlen(cases[i].name), out);

                assert_int_equal(n, strlen(cases[i].want));
                assert_memory_equal(out, cases[i].want, n);
        }
}

static void fold_alias_knows_short_names(void **state) {
        static const struct {
                const char *name, *literal;
                bool want;
        } cases[] = {
                { "git~1", ".git", true },
                { "git~9", ".git", true },
                { "gi7eba~1", ".gitmodules", true },
                { "gitmod~1", ".gitmodules", true },
                { "vscode~2", ".vscode", true },
                { "config~1.tom", "config.toml", true },
                { "git", ".git", false },
                { "git~", ".git", false },
                { "git~x", ".git", false },
                { "gut~1", ".git", false },
                { "gitmodules~1", ".gitmodules", false },
                { "~1", ".git", false },
        };

        (void) state;
        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
                if (fold_alias(cases[i].name, strlen(cases[i].name), cases[i].literal,
                               strlen(cases[i].literal)) != cases[i].want)
                        fail_msg("'%s' for '%s'", cases[i].name, cases[i].literal);
        }
}

static void rules_new_folds_when_asked(void **state) {
        static const struct rule_def defs[] = { { "/Secret/*.Key", GUARD_HOLD } };
        AUTO_RULES struct rules *fold = compile(defs, 1, true);
        AUTO_RULES struct rules *exact = compile(defs, 1, false);

        (void) state;
        assert_int_equal(rules_path(fold, "Secret/a.Key", F).action, H);
        assert_int_equal(rules_path(fold, "sECRET/a.kEY", F).action, H);
        assert_int_equal(rules_path(fold, "secret./a.key .", F).action, H);
        assert_int_equal(rules_path(fold, "SECRET~1/a.key", F).action, H);
        assert_int_equal(rules_path(fold, "secre/a.key", F).action, A);
        assert_int_equal(rules_path(exact, "Secret/a.Key", F).action, H);
        assert_int_equal(rules_path(exact, "secret/a.Key", F).action, A);
}

static void rules_builtin_judges(void **state) {
        static const struct {
                const char *path;
                mode_t type;
                int want;
        } cases[] = {
                /* ordinary work */
                { "Makefile", F, A },
                { "src/main.c", F, A },
                { "config", D, A },
                { "src/config/x", F, A },
                { "src/hooks", D, A },
                { "src/hooks/useThing.ts", F, A },
                { "src/hooks/update", D, A },
                { "src/hooks/update/index.ts", F, A },
                { "node_modules/.bin/tsc", L, A },
                { "a/b", L, A },
                { ".github/dependabot.yml", F, A },
                { ".claude/CLAUDE.md", F, A },
                { ".gitignore", F, A },
                { ".gitattributes", F, A },
                { "package.json", F, A },
                { "x.gitx/y", L, A },
                { ".git", D, A },
                { ".git/hooks", D, A },
                { ".git/HEAD", F, A },
                { ".git/index", F, A },
                { ".git/index.lock", F, A },
                { ".git/config.lock", F, A },
                { ".git/objects/ab/cdef", F, A },
                { ".git/refs/heads/main", F, A },
                { ".git/info/exclude", F, A },
                { ".git/logs/HEAD", F, A },
                { ".git/hooks/pre-commit.sample", F, A },
                { ".git/tAb3xYz", L, A },
                { ".git/description", F, A },
                { ".git/modules/lib/HEAD", F, A },
                { ".git/modules/lib/hooks/update.sample", F, A },
                { ".git/modules/lib/tAb3xYz", L, A },
                { ".git/worktrees/w/HEAD", F, A },
                { ".git/worktrees/w/index", F, A },
                { ".git/rebase-merge/done", F, A },
                { "bare.git/HEAD", F, A },
                { "bare.git/hooks/update.sample", F, A },
                /* git */
                { ".git", F, H },
                { ".git", L, H },
                { "sub/.git", F, H },
                { "a/b/.git", L, H },
                { ".git/hooks", L, H },
                { ".git/info", L, H },
                { ".git/objects", L, H },
                { ".git/HEAD", L, H },
                { ".git/objects/ab/cd", L, H },
                { ".git/hooks/pre-commit", F, H },
                { ".git/hooks/pre-commit", L, H },
                { ".git/hooks/x/y", F, H },
                { ".git/hooks/x.sample", L, H },
                { ".git/hooks/x.sample", D, H },
                { ".git/hooks/x.sample/pre-commit", F, H },
                { ".git/config", F, H },
                { ".git/config", L, H },
                { ".git/config.worktree", F, H },
                { ".git/info/attributes", F, H },
                { "a/b/.git/config", F, H },
                { ".git/modules/lib/config", F, H },
                { ".git/modules/lib", L, H },
                { ".git/modules", L, H },
                { ".git/modules/a/modules/b/config", F, H },
                { ".git/modules/a/hooks/update", F, H },
                { ".git/modules/a/hooks", L, H },
                { ".git/commondir", F, H },
                { ".git/modules/a/commondir", F, H },
                { ".git/worktrees/w/commondir", F, H },
                { ".git/worktrees/w/gitdir", F, H },
                { ".git/worktrees/w/config.worktree", F, H },
                { ".git/worktrees", L, H },
                { ".git/worktrees/w", L, H },
                { ".git/objects/info/alternates", F, H },
                { ".git/modules/m/objects/info/alternates", F, H },
                { ".git/rebase-merge/git-rebase-todo", F, H },
                { ".git/worktrees/w/rebase-merge/git-rebase-todo", F, H },
                { ".git/rebase-merge/strategy", F, H },
                { ".git/sequencer/opts", F, H },
                { ".git/remotes/x", F, H },
                { ".git/branches/x", F, H },
                { ".gitmodules", F, H },
                { "sub/.gitmodules", F, H },
                /* a git directory of another name */
                { "x/config", F, H },
                { "x/config", L, H },
                { "x/hooks", L, H },
                { "x/hooks/pre-commit", F, H },
                { "x/hooks/post-checkout", L, H },
                { "x/commondir", F, H },
                { "x/objects/info/alternates", F, H },
                { "bare.git/hooks/new-hook", F, H },
                { "bare.git/config", F, H },
                { "bare.git/objects", L, H },
                /* other spellings */
                { ".GIT", F, H },
                { ".Git/Config", F, H },
                { ".GIT/HOOKS/PRE-COMMIT", F, H },
                { "git~1/config", F, H },
                { ".git./config", F, H },
                { ".git /hooks/update", F, H },
                { ".g\xe2\x80\x8cit/config", F, H },
                { ".git/hoo\xe2\x84\xaas/x", F, H },
                { "GIT~1/hooks/x", F, H },
                { ".GITMODULES", F, H },
                { ".VSCode/tasks.json", F, H },
                /* the rest */
                { ".hg/hgrc", F, H },
                { ".hg", L, H },
                { ".jj/repo/config.toml", F, H },
                { ".envrc", F, H },
                { "a/.envrc", F, H },
                { ".vscode/tasks.json", F, H },
                { ".vscode", L, H },
                { ".vscode", D, A },
                { "x.code-workspace", F, H },
                { ".idea/workspace.xml", F, H },
                { ".devcontainer/a", F, H },
                { ".devcontainer.json", F, H },
                { ".mcp.json", F, H },
                { ".claude/settings.json", F, H },
                { ".claude/settings.local.json", F, H },
                { ".claude/hooks/a", F, H },
                { ".claude", L, H },
                { ".claude/agents/x.md", F, H },
                { ".claude/commands/x.md", F, H },
                { ".cursor/mcp.json", F, H },
                { ".gitlab-ci.yml", F, H },
                { ".github/workflows/ci.yml", F, H },
                { ".github", L, H },
                { ".github/workflows", L, H },
                { ".pre-commit-config.yaml", F, H },
                { ".husky/pre-commit", F, H },
                { ".npmrc", F, H },
                { ".yarnrc", F, H },
                { ".yarnrc.yml", F, H },
                { ".cargo/config.toml", F, H },
                { ".cargo/config", F, H },
                { ".cargo", L, H },
                { ".bashrc", F, H },
                { "home/.profile", F, H },
                { ".ssh/authorized_keys", F, H },
                { ".ssh", L, H },
                { ".config/systemd/user/x.service", F, H },
                { ".config/app/x", F, A },
                { ".gitconfig", F, H },
                { ".cofferdam.yaml", F, H },
                { "a/.cofferdam.yaml", F, H },
                { ".cofferdam-apply-0123456789abcdef-0", F, X },
                { ".git/hooks/.cofferdam-apply-0123456789abcdef-0", F, X },
                { "a/.cofferdam-apply-0123456789abcdef-0/x", F, X },
        };
        AUTO_RULES struct rules *rules = compile_builtin();

        (void) state;
        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
                const struct rules_verdict v = rules_path(rules, cases[i].path, cases[i].type);

                if ((int) v.action != cases[i].want)
                        fail_msg("'%s' (%o): %u by '%s'", cases[i].path, cases[i].type, v.action,
                                 rules_text(rules, v.rule));
        }
}

static void rules_rebase_moves_the_root(void **state) {
        AUTO_RULES struct rules *rules = compile_builtin();

        (void) state;
        assert_int_equal(rules_rebase(rules, "x/.git"), 0);
        assert_int_equal(rules_path(rules, "hooks/new", F).action, H);
        assert_int_equal(rules_path(rules, "hooks", L).action, H);
        assert_int_equal(rules_path(rules, "worktrees/w/gitdir", F).action, H);
        assert_int_equal(rules_path(rules, "HEAD", F).action, A);
        assert_int_equal(rules_path(rules, "", D).action, A);
        assert_int_equal(rules_path(rules, "", L).action, H);
}

static void rules_step_gives_equal_states_for_equal_futures(void **state) {
        AUTO_RULES struct rules *rules = compile_builtin();
        const rules_state src = rules_step(rules, RULES_ROOT, "src", 3);

        (void) state;
        assert_int_equal(src, rules_step(rules, RULES_ROOT, "doc", 3));
        assert_int_equal(src, rules_step(rules, src, "deep", 4));
        assert_int_not_equal(src, rules_step(rules, RULES_ROOT, ".git", 4));
        assert_int_equal(rules_step(rules, src, ".git", 4), rules_step(rules, RULES_ROOT, ".git", 4));
}

static void rules_step_fails_closed(void **state) {
        char name[RULES_NAME_MAX + 1];
        AUTO_RULES struct rules *rules = compile_builtin();
        rules_state s;

        (void) state;
        memset(name, 'a', sizeof(name));
        s = rules_step(rules, RULES_ROOT, name, RULES_NAME_MAX);
        assert_int_equal(rules_verdict(rules, s, F).action, A);
        s = rules_step(rules, RULES_ROOT, name, RULES_NAME_MAX + 1);
        assert_int_equal(rules_verdict(rules, s, F).action, P);
        assert_int_equal(rules_verdict(rules, s, F).rule, -2);
        assert_int_equal(rules_step(rules, s, "x", 1), s);
        assert_int_equal(rules_verdict(rules, 4000000000U, F).action, P);
}

/* Each "**" between two letters doubles the sets that names can make. */
static void rules_step_is_bounded(void **state) {
        static const struct rule_def defs[] = { { "**/a/*/*/*/*/*/*/*/*/*/*/*/*/*/*/*/*/*/x", GUARD_HOLD } };
        AUTO_RULES struct rules *rules = compile(defs, 1, false);
        rules_state s = RULES_ROOT;
        uint32_t rng = 1;

        (void) state;
        for (int i = 0; i < 4000000 && s != RULES_STATES_MAX; i++) {
                rng = rng * 1664525U + 1013904223U;
                s = rules_step(rules, s, rng >> 31 ? "a" : "b", 1);
        }
        assert_int_equal(s, RULES_STATES_MAX);
        assert_int_equal(rules_verdict(rules, s, F).action, P);
}

static uint32_t random_below(uint32_t *rng, uint32_t n) {
        *rng = *rng * 1664525U + 1013904223U;
        return (*rng >> 16) % n;
}

static void add_text(char out[64], const char *s) {
        const size_t len = strlen(out);

        (void) snprintf(out + len, 64 - len, "%s", s);
}

/* A pattern or path of one to four components of up to three bytes. */
static void random_text(uint32_t *rng, bool pattern, char out[64]) {
        static const char *const comps[] = { "a", "b",  "ab", "ba", "abb", "**",
                                             "*", "a*", "*b", "?",  "?b",  "*a*" };
        const uint32_t n = 1 + random_below(rng, 4), kinds = pattern ? ARRAY_SIZE(comps) : 5;

        out[0] = '\0';
        if (pattern && random_below(rng, 3) == 0)
                add_text(out, "/");
        for (uint32_t i = 0; i < n; i++) {
                if (i > 0)
                        add_text(out, "/");
                add_text(out, comps[random_below(rng, kinds)]);
        }
}

static void rules_path_agrees_with_the_model(void **state) {
        enum { LISTS = 3000, RULES = 5, PATHS = 30 };
        uint32_t rng = 2;

        (void) state;
        for (int list = 0; list < LISTS; list++) {
                char texts[RULES][64], path[64];
                struct rule_def defs[RULES];
                AUTO_RULES struct rules *rules = NULL;

                for (int i = 0; i < RULES; i++) {
                        random_text(&rng, true, texts[i]);
                        defs[i] = (struct rule_def){
                                .path = texts[i], .action = (enum guard_do) random_below(&rng, GUARD_DO_COUNT)
                        };
                }
                rules = compile(defs, RULES, false);
                for (int i = 0; i < PATHS; i++) {
                        struct rules_verdict v;
                        int want;

                        random_text(&rng, false, path);
                        v = rules_path(rules, path, F);
                        want = model_verdict(defs, RULES, path);
                        if (v.rule != want || (want >= 0 && v.action != defs[want].action))
                                fail_msg("'%s': rule %d '%s', not %d", path, v.rule,
                                         rules_text(rules, v.rule), want);
                }
        }
}

/* Equal states mean equal futures: paths that share a state get the same verdicts below it. */
static void rules_step_states_have_one_future(void **state) {
        enum { LISTS = 300, RULES = 4, PATHS = 40 };
        uint32_t rng = 3;

        (void) state;
        for (int list = 0; list < LISTS; list++) {
                char texts[RULES][64], paths[PATHS][64], below[64], full[2][160];
                struct rule_def defs[RULES];
                AUTO_RULES struct rules *rules = NULL;

                for (int i = 0; i < RULES; i++) {
                        random_text(&rng, true, texts[i]);
                        defs[i] = (struct rule_def){ .path = texts[i], .action = GUARD_HOLD };
                }
                rules = compile(defs, RULES, false);
                for (int i = 0; i < PATHS; i++)
                        random_text(&rng, false, paths[i]);
                for (int i = 1; i < PATHS; i++) {
                        rules_state a = RULES_ROOT, b = RULES_ROOT;

                        for (const char *p = paths[i - 1]; *p; p += strcspn(p, "/"), p += *p == '/')
                                a = rules_step(rules, a, p, strcspn(p, "/"));
                        for (const char *p = paths[i]; *p; p += strcspn(p, "/"), p += *p == '/')
                                b = rules_step(rules, b, p, strcspn(p, "/"));
                        if (a != b)
                                continue;
                        random_text(&rng, false, below);
                        (void) snprintf(full[0], sizeof(full[0]), "%s/%s", paths[i - 1], below);
                        (void) snprintf(full[1], sizeof(full[1]), "%s/%s", paths[i], below);
                        assert_int_equal(model_verdict(defs, RULES, full[0]),
                                         model_verdict(defs, RULES, full[1]));
                }
        }
}

/** struct walker - a thread that judges random paths and compares */
struct walker {
        struct rules *rules;
        const struct rule_def *defs;
        size_t n;
        uint32_t rng;
        int wrong;
};

static void *walk_paths(void *arg) {
        struct walker *w = arg;

        for (int i = 0; i < 20000; i++) {
                char path[64];

                random_text(&w->rng, false, path);
                w->wrong += rules_path(w->rules, path, F).rule != model_verdict(w->defs, w->n, path);
        }
        return NULL;
}

static void rules_step_is_thread_safe(void **state) {
        static const struct rule_def defs[] = {
                { "**/a/*/*/ab", GUARD_HOLD },
                { "b/**/a", GUARD_HIDE },
                { "*b/?/a*", GUARD_PROTECT },
                { "abb", GUARD_HOLD },
        };
        AUTO_RULES struct rules *rules = compile(defs, ARRAY_SIZE(defs), false);
        struct walker walkers[4];
        pthread_t threads[ARRAY_SIZE(walkers)];

        (void) state;
        for (size_t i = 0; i < ARRAY_SIZE(walkers); i++) {
                walkers[i] = (struct walker){ rules, defs, ARRAY_SIZE(defs), (uint32_t) i, 0 };
                assert_int_equal(pthread_create(&threads[i], NULL, walk_paths, &walkers[i]), 0);
        }
        for (size_t i = 0; i < ARRAY_SIZE(walkers); i++) {
                assert_int_equal(pthread_join(threads[i], NULL), 0);
                assert_int_equal(walkers[i].wrong, 0);
        }
}

/* The state of a run keeps the rules: what is read back judges alike. Red when a type, a base or a byte is
 * lost.
 */
static void rules_from_json_judges_as_before(void **state) {
        size_t n = 0;
        const struct rule_def *builtin = rules_builtin(&n);
        struct rule_def defs[RULES_MAX] = { { "/first", GUARD_PROTECT, false, RULE_DIR } };
        AUTO_RULES struct rules *rules = NULL, *again = NULL;
        AUTO_JSON json_t *json = NULL;
        struct rule_def a, b;

        (void) state;
        memcpy(defs + 1, builtin, n * sizeof(*builtin));
        defs[++n] = (struct rule_def){ "/caf\xe9\xff\xc3\xa9", GUARD_HIDE, true };
        defs[++n] = (struct rule_def){ .path = "*.key", .action = GUARD_HOLD, .from = "a b.yaml:7" };
        rules = compile(defs, n + 1, true);
        assert_int_equal(rules_rebase(rules, ".git"), 0);
        json = rules_to_json(rules);
        assert_int_equal(json_array_size(json_object_get(json, "list")), 4);
        assert_int_equal(rules_from_json(json, &again, NULL), 0);
        for (size_t i = 0; i <= n; i++) {
                assert_true(rules_def(rules, i, &a) && rules_def(again, i, &b));
                assert_string_equal(a.path, b.path);
                assert_string_equal(a.from ? a.from : "-", b.from ? b.from : "-");
                assert_true(a.action == b.action && a.types == b.types && a.builtin == b.builtin);
        }
        assert_string_equal(b.from, "a b.yaml:7");
        assert_false(rules_def(again, n + 1, &b));
        assert_true(rules_fold(again));
        assert_string_equal(rules_base(again), ".git");
        assert_int_equal(rules_path(again, "hooks/pre-commit", S_IFREG).action, GUARD_HOLD);
        assert_int_equal(rules_path(again, "first", S_IFDIR).action, GUARD_ALLOW);
}

static void rules_from_json_rejects(void **state) {
        static const char *const bad[] = { "{}",
                                           "{\"list\":7}",
                                           "{\"list\":[\"other\",7]}",
                                           "{\"list\":[[\"a\",\"eat\",0,false]]}",
                                           "{\"list\":[[\"a\",\"hold\",8,false]]}",
                                           "{\"list\":[[7,\"hold\",0,false]]}",
                                           "{\"list\":[[\"\xc4\x80\",\"hold\",0,false]]}",
                                           "{\"list\":[[\"[\",\"hold\",0,false]]}" };
        struct rules *rules = (struct rules *) state;

        for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
                AUTO_JSON json_t *json = json_loads(bad[i], 0, NULL);

                assert_non_null(json);
                assert_int_equal(rules_from_json(json, &rules, NULL), -EINVAL);
        }
        assert_int_equal(rules_from_json(NULL, &rules, NULL), 0);
        assert_null(rules);
}

int main(void) {
        static const struct CMUnitTest tests[] = {
                cmocka_unit_test(glob_match_is_bytewise),
                cmocka_unit_test(glob_match_is_not_exponential),
                cmocka_unit_test(rules_new_rejects),
                cmocka_unit_test(rules_new_is_bounded),
                cmocka_unit_test(rules_path_follows_the_pattern),
                cmocka_unit_test(rules_path_last_match_wins),
                cmocka_unit_test(rules_verdict_guards_the_way),
                cmocka_unit_test(fold_name_gives_one_spelling),
                cmocka_unit_test(fold_alias_knows_short_names),
                cmocka_unit_test(rules_new_folds_when_asked),
                cmocka_unit_test(rules_builtin_judges),
                cmocka_unit_test(rules_rebase_moves_the_root),
                cmocka_unit_test(rules_step_gives_equal_states_for_equal_futures),
                cmocka_unit_test(rules_step_fails_closed),
                cmocka_unit_test(rules_step_is_bounded),
                cmocka_unit_test(rules_path_agrees_with_the_model),
                cmocka_unit_test(rules_step_states_have_one_future),
                cmocka_unit_test(rules_step_is_thread_safe),
                cmocka_unit_test(rules_from_json_judges_as_before),
                cmocka_unit_test(rules_from_json_rejects),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
