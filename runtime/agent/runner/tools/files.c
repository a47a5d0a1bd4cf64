/* read_file, write_file, file_edit, skill: texts of the work directory */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/agent/runner/tools.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/escape.h"

enum { READ_MAX = 64 * 1024 * 1024, LINES_DEFAULT = 2000, LINE_SHOWN_MAX = 2000, SKILL_NAME_MAX = 64 };

static const char *line_end(const char *s, const char *end) {
        const char *lf = memchr(s, '\n', (size_t) (end - s));

        return lf ? lf : end;
}

/* One line with its number, cut when it is long. */
static int show_line(struct buf *out, json_int_t n, const char *s, size_t len) {
        const size_t shown = len > LINE_SHOWN_MAX ? LINE_SHOWN_MAX : len;
        int r;

        if (len > 0 && s[len - 1] == '\r' && shown == len)
                len--;
        r = buf_fmt(out, "%6lld\t", (long long) n);
        if (r == 0 && len > 0)
                r = buf_add(out, s, shown < len ? shown : len);
        if (r == 0 && shown < len)
                r = buf_fmt(out, "[%zu bytes of this line cut]", len - shown);
        return r == 0 ? buf_str(out, "\n") : r;
}

int tool_read_file(struct tool_env *env, const json_t *input, struct tool_result *ret) {
        const json_int_t first = arg_int(input, "offset", 1), limit = arg_int(input, "limit", LINES_DEFAULT);
        const char *path = arg_str(input, "path", "");
        AUTO_BUF struct buf text = { 0 }, out = { 0 };
        struct error err = { 0 };
        const char *s, *end;
        json_int_t n = 1;
        int r = 0;

        if (work_read(env, path, READ_MAX, &text, &err) < 0)
                return tool_fail(ret, "%s", err.msg);
        if (is_binary(text.data, text.len))
                return tool_fail(ret, "'%s' is a binary file of %zu bytes", ESC(path), text.len);
        if (text.len == 0)
                return tool_text(ret, "[the file is empty]", 19);
        end = text.data + text.len;
        for (s = text.data; s < end && n < first + limit && out.len < TOOL_TEXT_MAX; n++) {
                const char *lf = line_end(s, end);

                if (n >= first)
                        r = show_line(&out, n, s, (size_t) (lf - s));
                if (r < 0)
                        return -ENOMEM;
                s = lf + 1;
        }
        if (n <= first)
                return tool_fail(ret, "'%s' has %lld lines, line %lld was asked for", ESC(path),
                                 (long long) n - 1, (long long) first);
        if (s < end && buf_fmt(&out, "[%zu bytes after line %lld not shown: read on with offset %lld]\n",
                               (size_t) (end - s), (long long) n - 1, (long long) n) < 0)
                return -ENOMEM;
        return tool_text(ret, buf_cstr(&out), out.len);
}

int tool_write_file(struct tool_env *env, const json_t *input, struct tool_result *ret) {
        const json_t *content = json_object_get(input, "content");
        const char *path = arg_str(input, "path", "");
        AUTO_BUF struct buf said = { 0 };
        struct error err = { 0 };

        if (work_write(env, path, json_string_value(content), json_string_length(content), &err) < 0)
                return tool_fail(ret, "%s", err.msg);
        if (buf_fmt(&said, "wrote %zu bytes to '%s'", json_string_length(content), ESC(path)) < 0)
                return -ENOMEM;
        return tool_text(ret, said.data, said.len);
}

/* --- file_edit ------------------------------------------------------------------------------------------ */

/* Whether every line of @text ends with CR LF, and there is one. */
static bool is_crlf(const struct buf *text) {
        bool any = false;

        for (const char *s = text->data, *end = s + text->len; s < end; s++) {
                s = memchr(s, '\n', (size_t) (end - s));
                if (!s)
                        break;
                if (s == text->data || s[-1] != '\r')
                        return false;
                any = true;
        }
        return any;
}

/* @s with CR LF in place of each LF. */
static int to_crlf(const char *s, size_t len, struct buf *out) {
        int r = 0;

        for (size_t i = 0; r == 0 && i < len; i++)
                r = s[i] == '\n' ? buf_str(out, "\r\n") : buf_add(out, s + i, 1);
        return r;
}

static size_t count_of(const struct buf *text, const struct buf *old) {
        const char *s = text->data, *end = s + text->len;
        size_t n = 0;

        while ((s = memmem(s, (size_t) (end - s), old->data, old->len))) {
                s += old->len;
                n++;
        }
        return n;
}

static int replace(const struct buf *text, const struct buf *old, const struct buf *new, struct buf *out) {
        const char *s = text->data, *end = s + text->len, *hit;
        int r = 0;

        while (r == 0 && (hit = memmem(s, (size_t) (end - s), old->data, old->len))) {
                r = hit > s ? buf_add(out, s, (size_t) (hit - s)) : 0;
                if (r == 0 && new->len > 0)
                        r = buf_add(out, new->data, new->len);
                s = hit + old->len;
        }
        return r == 0 && end > s ? buf_add(out, s, (size_t) (end - s)) : r;
}

/* What is looked for and what takes its place, with the line ends of the file. */
static int take_texts(const json_t *input, bool crlf, struct buf *old, struct buf *new) {
        const json_t *o = json_object_get(input, "old_string"), *n = json_object_get(input, "new_string");
        const char *os = json_string_value(o), *ns = json_string_value(n);
        int r;

        crlf = crlf && !memchr(os, '\r', json_string_length(o)) && !memchr(ns, '\r', json_string_length(n));
        if (crlf) {
                r = to_crlf(os, json_string_length(o), old);
                return r == 0 ? to_crlf(ns, json_string_length(n), new) : r;
        }
        r = buf_add(old, os, json_string_length(o));
        return r == 0 ? buf_add(new, ns, json_string_length(n)) : r;
}

int tool_file_edit(struct tool_env *env, const json_t *input, struct tool_result *ret) {
        AUTO_BUF struct buf text = { 0 }, old = { 0 }, new = { 0 }, out = { 0 }, said = { 0 };
        const char *path = arg_str(input, "path", "");
        struct error err = { 0 };
        size_t n;

        if (work_read(env, path, TOOL_FILE_MAX, &text, &err) < 0)
                return tool_fail(ret, "%s", err.msg);
        if (is_binary(text.data, text.len))
                return tool_fail(ret, "'%s' is a binary file", ESC(path));
        if (text.len == 0)
                return tool_fail(ret, "'%s' is empty: write_file fills it", ESC(path));
        if (take_texts(input, is_crlf(&text), &old, &new) < 0)
                return -ENOMEM;
        if (old.len == new.len && memcmp(buf_cstr(&old), buf_cstr(&new), old.len) == 0)
                return tool_fail(ret, "old_string and new_string are the same");
        n = count_of(&text, &old);
        if (n == 0)
                return tool_fail(
                        ret, "old_string is not in '%s': it has to be there byte for byte, blanks included",
                        ESC(path));
        if (n > 1 && !arg_bool(input, "replace_all", false))
                return tool_fail(
                        ret,
                        "old_string is in '%s' %zu times: give more of what is around it, or set replace_all",
                        ESC(path), n);
        if (replace(&text, &old, &new, &out) < 0)
                return tool_fail(ret, "the file would become too long");
        if (work_write(env, path, buf_cstr(&out), out.len, &err) < 0)
                return tool_fail(ret, "%s", err.msg);
        if (buf_fmt(&said, "replaced %zu of %zu in '%s'", n, n, ESC(path)) < 0)
                return -ENOMEM;
        return tool_text(ret, said.data, said.len);
}

/* --- skill ---------------------------------------------------------------------------------------------- */

int tool_skill(struct tool_env *env, const json_t *input, struct tool_result *ret) {
        static const char *const places[] = { ".claude/skills", "skills" };
        const char *name = arg_str(input, "name", "");
        struct error err = { 0 };

        if (strlen(name) > SKILL_NAME_MAX ||
            strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_") != strlen(name))
                return tool_fail(ret, "the name of a skill has letters, digits, '-' and '_'");
        for (size_t i = 0; i < ARRAY_SIZE(places); i++) {
                AUTO_BUF struct buf text = { 0 };
                char path[256];
                int r;

                (void) snprintf(path, sizeof(path), "%s/%s/SKILL.md", places[i], name);
                r = work_read(env, path, TOOL_FILE_MAX, &text, &err);
                if (r == 0)
                        return tool_text(ret, buf_cstr(&text), text.len);
                if (r != -ENOENT)
                        return tool_fail(ret, "%s", err.msg);
        }
        return tool_fail(ret,
                         "no skill '%s': neither .claude/skills/%s/SKILL.md nor skills/%s/SKILL.md is there",
                         name, name, name);
}
