#include "cli/select.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "fs/rules.h"
#include "runtime/base/buf.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/escape.h"
#include "runtime/base/path.h"

/* Names that no path begins with keep the paths of the workspace from those of other regions. */
#define WORKSPACE "\001w/"
#define ELSEWHERE "\001t/"

void select_deinit(struct select *s) {
        s->rules = rules_free(s->rules);
}

static int add_literal(struct buf *out, const char *path) {
        int r = 0;

        for (; r == 0 && *path; path++) {
                if (strchr("*?[]{},\\!", *path))
                        r = buf_str(out, "\\");
                if (r == 0)
                        r = buf_add(out, path, 1);
        }
        return r;
}

/* The word as a pattern over all regions. */
static int make_pattern(const char *word, const char *workspace[2], struct buf *out) {
        const bool glob = strpbrk(word, "*?[") != NULL;
        const char *rest = NULL;
        size_t len;
        int r;

        while (strncmp(word, "./", 2) == 0)
                word += 2;
        len = strlen(word);
        if (glob && !strchr(word, '/'))
                return buf_str(out, word);
        for (unsigned i = 0; i < 2 && *word == '/' && !rest; i++)
                rest = workspace[i] ? path_below(word, workspace[i]) : NULL;
        r = buf_str(out, *word == '/' && !rest ? "/" ELSEWHERE : "/" WORKSPACE);
        word = rest ? rest : *word == '/' ? word + 1 : word;
        if (r == 0)
                r = glob ? buf_str(out, word) : add_literal(out, word);
        /* a whole region, or a directory that somebody ended with a slash */
        while (r == 0 && !glob && len > 1 && out->len > 2 && out->data[out->len - 1] == '/')
                out->data[--out->len] = '\0';
        return r;
}

int select_init(struct select *s, char *const *words, size_t n, const char *workspace[2], struct error *err) {
        AUTO_FREE struct rule_def *defs = calloc(n + 1, sizeof(*defs));
        AUTO_FREE char **patterns = calloc(n + 1, sizeof(*patterns));
        int r = defs && patterns ? 0 : -ENOMEM;

        for (size_t i = 0; r == 0 && i < n; i++) {
                AUTO_BUF struct buf pattern = { 0 };

                if (!*words[i] || strcmp(words[i], "/") == 0)
                        r = error_set(err, -EINVAL, "'%s' is no path of a run", ESC(words[i]));
                else
                        r = make_pattern(words[i], workspace, &pattern);
                patterns[i] = buf_take(&pattern);
                defs[i] = (struct rule_def){ .path = patterns[i], .action = GUARD_HOLD };
        }
        if (r == 0 && n > 0)
                r = rules_new(defs, n, false, &s->rules, err);
        for (size_t i = 0; patterns && i < n; i++)
                free(patterns[i]);
        return r;
}

static bool has(const struct select *s, const struct review_region *region, const char *path, mode_t mode) {
        AUTO_BUF struct buf full = { 0 };
        const bool workspace = !*region->prefix;

        if (buf_fmt(&full, "%s%s%s", workspace ? WORKSPACE : ELSEWHERE,
                    workspace ? "" : region->prefix + (*region->prefix == '/'), path) < 0)
                return false;
        return rules_path(s->rules, buf_cstr(&full), mode & S_IFMT).action == GUARD_HOLD;
}

bool select_has(const struct select *s, const struct review_region *region, const struct change *c) {
        return !s->rules || has(s, region, c->path, c->mode) || (c->from && has(s, region, c->from, c->mode));
}
