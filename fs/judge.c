/*
 * DOC: theory of operation
 *
 * A path is folded and split; the first row of the table whose name and place fit says which function reads
 * the content. All content is hostile; what a function does not know for harmless is held. Where git is sent
 * to another directory (a ".git" file, commondir), that directory is inside the region, where config and
 * hooks are under the same rules by their names.
 *
 * A file named "config" outside of a directory named ".git" is git's only in a repository without a worktree;
 * it lands unless git could find a section in it and its keys are not all safe. Below directories whose name
 * begins with a dot it is never judged: other tools' rules hold there.
 */
#include "fs/judge.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "fs/fold.h"
#include "fs/gitkeys.h"
#include "runtime/base/buf.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/escape.h"
#include "runtime/base/path.h"

enum { COMPS_MAX = 256, LINE_WORD_MAX = 16 };

/** struct place - a path taken apart; components are folded */
struct place {
        char text[PATH_MAX]; /* components, each terminated */
        const char *comps[COMPS_MAX];
        size_t n;
        size_t git; /* index of the first component ".git" or "*.git"; n: none */
};

/** struct content - what is judged */
struct content {
        const char *root;
        const char *path; /* as it was given */
        const struct place *place;
        const char *data;
        size_t len;
        struct buf *reason;
};

static bool ends_in_git(const char *name) {
        const size_t n = strlen(name);

        return n >= 4 && strcmp(name + n - 4, ".git") == 0;
}

/* Return: false when the path is too long or not plain. */
static bool place_init(struct place *p, const char *path) {
        const size_t len = strlen(path);
        char *at = p->text;

        p->n = 0;
        if (len == 0 || len >= sizeof(p->text))
                return false;
        p->text[fold_name(path, len, p->text)] = '\0';
        while (at) {
                char *slash = strchr(at, '/');

                if (p->n == COMPS_MAX || *at == '/' || *at == '\0')
                        return false;
                p->comps[p->n++] = at;
                if (slash)
                        *slash++ = '\0';
                at = slash;
        }
        for (p->git = 0; p->git < p->n && !ends_in_git(p->comps[p->git]); p->git++)
                ;
        return true;
}

static bool comp_is(const struct place *p, size_t from_end, const char *name) {
        return p->n > from_end && strcmp(p->comps[p->n - 1 - from_end], name) == 0;
}

/* --- places ------------------------------------------------------------------------------------------ */

static bool anywhere(const struct place *p) {
        (void) p;
        return true;
}

static bool in_git(const struct place *p) {
        return p->git + 1 < p->n;
}

static bool is_module(const struct place *p) {
        return in_git(p) && p->git + 3 < p->n && strcmp(p->comps[p->git], ".git") == 0 &&
               strcmp(p->comps[p->git + 1], "modules") == 0;
}

/* Where a git directory has its own config, or a branch may be called so. Not remotes/, branches/, hooks/. */
static bool is_config(const struct place *p) {
        if (!in_git(p))
                return false;
        return p->git + 2 == p->n || is_module(p) || (comp_is(p, 2, "worktrees") && p->git + 3 < p->n) ||
               strcmp(p->comps[p->git + 1], "refs") == 0 || strcmp(p->comps[p->git + 1], "logs") == 0;
}

/* In no directory with a dot in front, and in no git directory. */
static bool in_plain(const struct place *p) {
        for (size_t i = 0; i + 1 < p->n; i++) {
                if (p->comps[i][0] == '.')
                        return false;
        }
        return !in_git(p);
}

/* Below refs/ of a git directory: may be a branch of that name. */
static bool in_refs(const struct place *p) {
        for (size_t i = p->git + 1; i + 1 < p->n; i++) {
                if (strcmp(p->comps[i], "refs") == 0)
                        return true;
        }
        return false;
}

/* A branch "hooks/..." */
static bool in_refs_hooks(const struct place *p) {
        static const char *const special[] = { "commondir", "gitdir", ".git", ".gitmodules" };
        bool hooks = false;

        for (size_t i = 0; i < ARRAY_SIZE(special); i++) {
                if (comp_is(p, 0, special[i]))
                        return false;
        }
        for (size_t i = p->git + 1; i + 1 < p->n; i++)
                hooks = hooks || strcmp(p->comps[i], "hooks") == 0;
        return hooks && in_refs(p);
}

static bool in_worktree(const struct place *p) {
        return in_git(p) && comp_is(p, 2, "worktrees") && p->git + 3 < p->n;
}

static bool in_rebase(const struct place *p) {
        return in_git(p) && comp_is(p, 1, "rebase-merge");
}

static bool in_patches(const struct place *p) {
        return in_git(p) && (comp_is(p, 1, "rebase-merge") || comp_is(p, 1, "rebase-apply"));
}

static bool in_sequencer(const struct place *p) {
        return in_git(p) && comp_is(p, 1, "sequencer");
}

/* --- contents ---------------------------------------------------------------------------------------- */

/* Return: false, whether or not the reason, which is for people, could be kept. */
static bool held(const struct content *c, const char *why) {
        const int r = buf_str(c->reason, why);

        (void) r;
        return false;
}

/* The file's only line, without its end; NULL when it is not one line of printable bytes. Owned. */
static char *only_line(const struct content *c) {
        size_t len = c->len;

        if (len > 0 && c->data[len - 1] == '\n')
                len--;
        if (len == 0 || len >= PATH_MAX)
                return NULL;
        for (size_t i = 0; i < len; i++) {
                if ((unsigned char) c->data[i] < ' ' || c->data[i] == 0x7f)
                        return NULL;
        }
        return strndup(c->data, len);
}

/* A ref as git writes it: a hash, or the name of another ref. */
static bool is_ref(const struct content *c) {
        AUTO_FREE char *line = only_line(c);
        const size_t hex = line ? strspn(line, "0123456789abcdef") : 0;

        if (!line)
                return false;
        if (line[hex] == '\0')
                return hex == 40 || hex == 64;
        return strncmp(line, "ref: refs/", 10) == 0 && !strpbrk(line + 5, " $`;&|<>\\\"'()*?[]{}~!#");
}

static bool judge_ref(const struct content *c) {
        return is_ref(c) || held(c, "not a ref");
}

/* Whether git could find the start of a section: only at the start of a line, after blanks. */
static bool has_section(const char *data, size_t len) {
        bool start = true;

        for (size_t i = 0; i < len; i++) {
                if (data[i] == '[' && start)
                        return true;
                start = data[i] == '\n' || (start && ((unsigned char) data[i] <= ' ' || data[i] & 0x80));
        }
        return false;
}

static bool judge_config(const struct content *c) {
        const struct place *p = c->place;

        if (in_refs(p) && is_ref(c))
                return true;
        if (is_module(p))
                return gitkeys_judge(GITKEYS_MODULE, p->n - 1 - p->git, c->data, c->len, c->reason);
        return gitkeys_judge(GITKEYS_CONFIG, 0, c->data, c->len, c->reason);
}

static bool judge_plain_config(const struct content *c) {
        return !has_section(c->data, c->len) || judge_config(c);
}

static bool judge_gitmodules(const struct content *c) {
        return gitkeys_judge(GITKEYS_MODULES, 0, c->data, c->len, c->reason);
}

static bool judge_sequencer(const struct content *c) {
        return gitkeys_judge(GITKEYS_SEQUENCER, 0, c->data, c->len, c->reason);
}

/*
 * Where @link, read in the directory of the judged file, leads: relative to the region's root, owned; NULL
 * when it leaves the root. Lexical: a symlink on the way leads to a place under the same rules, or out to the
 * host's own.
 */
static char *resolve_in_root(const struct content *c, const char *link) {
        static const char base[] = "/r/"; /* stands for the root, so that leaving it shows */
        AUTO_FREE char *dir = NULL, *full = NULL;
        const char *rest;
        char *slash;

        if (*link == '/') {
                if (!c->root || !path_is_normal(link))
                        return NULL;
                rest = path_below(link, c->root);
                return rest && *rest ? strdup(rest) : NULL;
        }
        if (path_join(base, c->path, &dir) < 0)
                return NULL;
        slash = strrchr(dir, '/');
        *slash = '\0';
        for (const char *p = link; strncmp(p, "../", 3) == 0 || strcmp(p, "..") == 0; p += p[2] ? 3 : 2) {
                slash = strrchr(dir, '/');
                if (!slash || slash == dir)
                        return NULL; /* above the root */
                *slash = '\0';
                link = p + (p[2] ? 3 : 2);
        }
        if (!*link || path_join(dir, link, &full) < 0 || !path_is_normal(full))
                return NULL;
        rest = path_below(full, "/r");
        return rest && *rest ? strdup(rest) : NULL;
}

/* ".git/worktrees/ID" or ".git/modules/NAME" at any depth: what git worktree and git submodule write */
static bool is_admin_dir(const char *path) {
        struct place p;

        if (!place_init(&p, path) || p.git + 2 >= p.n || strcmp(p.comps[p.git], ".git") != 0)
                return false;
        return strcmp(p.comps[p.git + 1], "worktrees") == 0 || strcmp(p.comps[p.git + 1], "modules") == 0;
}

static bool judge_gitfile(const struct content *c) {
        static const char prefix[] = "gitdir: ";
        AUTO_FREE char *line = only_line(c), *to = NULL;

        if (!line || strncmp(line, prefix, strlen(prefix)) != 0)
                return held(c, "not a line \"gitdir: ...\"");
        to = resolve_in_root(c, line + strlen(prefix));
        if (!to)
                return held(c, "gitdir is not inside the workspace");
        return is_admin_dir(to) || held(c, "gitdir is not in .git/worktrees or .git/modules");
}

static bool judge_worktree_gitdir(const struct content *c) {
        AUTO_FREE char *line = only_line(c), *to = NULL;

        to = line ? resolve_in_root(c, line) : NULL;
        return (to && strcmp(path_basename(to), ".git") == 0) || held(c, "not a .git inside the workspace");
}

static bool judge_commondir(const struct content *c) {
        AUTO_FREE char *line = only_line(c);

        return (line && strcmp(line, "../..") == 0) || held(c, "not \"../..\"");
}

/* Whether the word of @len bytes is an instruction of git-rebase(1) that runs nothing. */
static bool is_todo_word(const char *word, size_t len) {
        static const char *const words[] = { "pick",  "p", "reword", "r", "edit",       "e", "squash", "s",
                                             "fixup", "f", "drop",   "d", "label",      "l", "reset",  "t",
                                             "merge", "m", "break",  "b", "update-ref", "u", "noop" };

        for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
                if (strlen(words[i]) == len && memcmp(words[i], word, len) == 0)
                        return true;
        }
        return false;
}

static bool judge_todo(const struct content *c) {
        AUTO_FREE char *text = memchr(c->data, '\0', c->len) ? NULL : strndup(c->data, c->len);

        if (!text)
                return held(c, "a NUL byte");
        for (char *line = text; *line;) {
                const size_t len = strcspn(line, "\n"), blank = strspn(line, " \t\r");
                char *word = line + blank;
                const size_t n = strcspn(word, " \t\r\n");

                line += len + (line[len] == '\n');
                if (n == 0 || *word == '#' || is_todo_word(word, n))
                        continue;
                word[n < LINE_WORD_MAX ? n : LINE_WORD_MAX] = '\0';
                return held(c, ESC(word));
        }
        return true;
}

/* The text from behind an opening quote, as git quotes for a shell. Return: behind the closing one, NULL: not
 * so. */
static const char *skip_quoted(const char *p) {
        static const char *const breaks[] = { "'\\''", "'\\!'" }; /* a quote, an exclamation mark */

        for (;;) {
                bool broken = false;

                p = strchr(p, '\'');
                for (size_t i = 0; p && i < ARRAY_SIZE(breaks); i++)
                        broken = broken || strncmp(p, breaks[i], strlen(breaks[i])) == 0;
                if (!broken)
                        return p ? p + 1 : NULL;
                p += strlen(breaks[0]);
        }
}

static bool judge_author_script(const struct content *c) {
        static const char *const names[] = { "GIT_AUTHOR_NAME='", "GIT_AUTHOR_EMAIL='", "GIT_AUTHOR_DATE='" };
        AUTO_FREE char *text = memchr(c->data, '\0', c->len) ? NULL : strndup(c->data, c->len);

        if (!text)
                return held(c, "a NUL byte");
        for (const char *p = text; *p;) {
                const char *end = NULL;

                for (size_t i = 0; !end && i < ARRAY_SIZE(names); i++)
                        if (strncmp(p, names[i], strlen(names[i])) == 0)
                                end = skip_quoted(p + strlen(names[i]));
                if (!end || (*end != '\n' && *end))
                        return held(c, "more than the name, e-mail and date of an author");
                p = end + (*end == '\n');
        }
        return true;
}

/* --- the table --------------------------------------------------------------------------------------- */

/** struct judge_row - the first row that fits judges; @name NULL: any */
struct judge_row {
        const char *name;
        bool (*place)(const struct place *place);
        bool (*judge)(const struct content *content);
};

static const struct judge_row rows[] = {
        { ".git", anywhere, judge_gitfile },
        { ".gitmodules", anywhere, judge_gitmodules },
        { "commondir", in_worktree, judge_commondir },
        { "gitdir", in_worktree, judge_worktree_gitdir },
        { "git-rebase-todo", in_rebase, judge_todo },
        { "author-script", in_patches, judge_author_script },
        { "opts", in_sequencer, judge_sequencer },
        { "config", is_config, judge_config },
        { "config.worktree", is_config, judge_config },
        { "config", in_plain, judge_plain_config },
        { "config.worktree", in_plain, judge_plain_config },
        { NULL, in_refs_hooks, judge_ref },
};

/* Components below a repository of a directory in its .git/modules; 0: it is not there. */
static size_t module_depth(const struct place *p) {
        const bool in = p->git + 1 < p->n && strcmp(p->comps[p->git], ".git") == 0 &&
                        strcmp(p->comps[p->git + 1], "modules") == 0;

        return in ? p->n - p->git : 0;
}

bool judge_same_place(const char *from, const char *to) {
        struct place a, b;

        return place_init(&a, from) && place_init(&b, to) && module_depth(&a) == module_depth(&b);
}

bool judge_link(const char *target) {
        struct place place;
        const char *rest = target;

        while (*rest) {
                const size_t len = strcspn(rest, "/");
                char name[NAME_MAX + 1];

                if (len > NAME_MAX)
                        return false;
                (void) snprintf(name, sizeof(name), "%.*s", (int) len, rest);
                if (len > 0 && place_init(&place, name) &&
                    (strcmp(place.comps[0], ".git") == 0 ||
                     fold_alias(place.comps[0], strlen(place.comps[0]), ".git", 4)))
                        return false;
                rest += len + (rest[len] == '/');
        }
        return true;
}

static const struct judge_row *find_judge(const struct place *place) {
        for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
                if ((!rows[i].name || comp_is(place, 0, rows[i].name)) && rows[i].place(place))
                        return &rows[i];
        }
        return NULL;
}

bool judge_applies(const char *path) {
        struct place place;

        return place_init(&place, path) && find_judge(&place) != NULL;
}

bool judge_content(const char *root, const char *path, const char *data, size_t len, struct buf *reason) {
        AUTO_BUF struct buf why = { .max = JUDGE_REASON_MAX };
        struct place place;
        const struct content content = {
                .root = root, .path = path, .place = &place, .data = data, .len = len, .reason = &why
        };
        const struct judge_row *row = place_init(&place, path) ? find_judge(&place) : NULL;
        bool lands;

        if (!row)
                lands = held(&content, "not judged by content");
        else if (len > JUDGE_MAX_BYTES)
                lands = held(&content, "too long to be judged");
        else
                lands = row->judge(&content);
        if (lands || !reason || buf_str(reason, why.len ? why.data : "out of memory") < 0)
                return lands;
        return false;
}

bool judge_removal(const char *root, const char *path, const char *data, size_t len) {
        return judge_content(root, path, "", 0, NULL) || judge_content(root, path, data, len, NULL);
}

/* Whether the keys that hold the new version are the old version's. */
static bool is_unchanged(const char *path, const char *old, size_t old_len, const char *data, size_t len) {
        struct place p;

        if (!place_init(&p, path) || !is_config(&p) || old_len > JUDGE_MAX_BYTES || len > JUDGE_MAX_BYTES)
                return false;
        if (is_module(&p))
                return gitkeys_same_unsafe(GITKEYS_MODULE, p.n - 1 - p.git, old, old_len, data, len);
        return gitkeys_same_unsafe(GITKEYS_CONFIG, 0, old, old_len, data, len);
}

bool judge_change(const char *root, const char *path, const char *old, size_t old_len, const char *data,
                  size_t len, struct buf *reason) {
        AUTO_BUF struct buf why = { .max = JUDGE_REASON_MAX };

        if (judge_content(root, path, data, len, &why))
                return true;
        if (judge_applies(path) && is_unchanged(path, old, old_len, data, len))
                return true;
        if (reason && buf_str(reason, buf_cstr(&why)) < 0)
                return false;
        return false;
}
