/* notebook_edit: one cell of a Jupyter notebook */
#include <errno.h>
#include <string.h>

#include "runtime/agent/runner/tools.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/escape.h"
#include "runtime/base/json.h"

enum { BOOK_DEPTH_MAX = 128, BOOK_NESTS_MAX = 200000 };

/* Where the cell is: by its id, or by its number from 0. Return: SIZE_MAX: nowhere. */
static size_t find_cell(const json_t *cells, const json_t *input) {
        const char *id = arg_str(input, "cell_id", NULL);
        const json_int_t n = arg_int(input, "cell_number", -1);
        const size_t size = json_array_size(cells);

        for (size_t i = 0; id && i < size; i++) {
                const char *have = json_string_value(json_object_get(json_array_get(cells, i), "id"));

                if (have && strcmp(have, id) == 0)
                        return i;
        }
        return !id && n >= 0 && (size_t) n < size ? (size_t) n : SIZE_MAX;
}

/* nbformat writes a source as its lines, each with its newline. */
static json_t *source_lines(const char *s) {
        AUTO_JSON json_t *lines = json_array();

        while (lines && *s) {
                const char *lf = strchr(s, '\n');
                const size_t len = lf ? (size_t) (lf - s) + 1 : strlen(s);

                if (json_array_append_new(lines, json_stringn(s, len)) < 0)
                        return NULL;
                s += len;
        }
        return TAKE_PTR(lines);
}

/* A code cell that changes has not been executed. */
static int fill(json_t *cell, const char *wanted, const char *source) {
        const char *const kinds[] = { "code", "markdown", "raw" }, *type = "code";
        int r;

        for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
                if (strcmp(wanted, kinds[i]) == 0)
                        type = kinds[i]; /* @wanted may be of the cell itself */
        }
        r = json_object_set_new(cell, "cell_type", json_string(type));
        if (r == 0 && !json_object_get(cell, "metadata"))
                r = json_object_set_new(cell, "metadata", json_object());
        if (r == 0)
                r = json_object_set_new(cell, "source", source_lines(source));
        if (strcmp(type, "code") != 0) {
                (void) json_object_del(cell, "outputs");
                (void) json_object_del(cell, "execution_count");
                return r;
        }
        if (r == 0)
                r = json_object_set_new(cell, "outputs", json_array());
        return r == 0 ? json_object_set_new(cell, "execution_count", json_null()) : r;
}

static bool has_ids(const json_t *book) {
        const json_int_t major = arg_int(book, "nbformat", 4), minor = arg_int(book, "nbformat_minor", 0);

        return major > 4 || (major == 4 && minor >= 5);
}

static int insert(json_t *book, json_t *cells, size_t at, const json_t *input) {
        AUTO_JSON json_t *cell = json_object();
        char id[32];

        (void) snprintf(id, sizeof(id), "cell-%zu-%zu", json_array_size(cells), at);
        if (!cell || (has_ids(book) && json_object_set_new(cell, "id", json_string(id)) < 0) ||
            fill(cell, arg_str(input, "cell_type", "code"), arg_str(input, "new_source", "")) < 0 ||
            json_array_insert(cells, at, cell) < 0)
                return -ENOMEM;
        return 0;
}

int tool_notebook_edit(struct tool_env *env, const json_t *input, struct tool_result *ret) {
        const char *path = arg_str(input, "path", ""), *mode = arg_str(input, "edit_mode", "replace");
        AUTO_BUF struct buf text = { 0 };
        AUTO_JSON json_t *book = NULL;
        AUTO_FREE char *dump = NULL;
        struct error err = { 0 };
        json_t *cells, *cell;
        size_t at;
        int r = 0;

        if (work_read(env, path, TOOL_FILE_MAX, &text, &err) < 0)
                return tool_fail(ret, "%s", err.msg);
        if (json_modest(buf_cstr(&text), text.len, BOOK_DEPTH_MAX, BOOK_NESTS_MAX, NULL))
                book = json_loadb(buf_cstr(&text), text.len, JSON_REJECT_DUPLICATES, NULL);
        cells = json_object_get(book, "cells");
        if (!json_is_array(cells))
                return tool_fail(ret, "'%s' is no notebook", ESC(path));
        at = find_cell(cells, input);
        if (strcmp(mode, "insert") == 0)
                r = insert(book, cells, at == SIZE_MAX ? json_array_size(cells) : at + 1, input);
        else if (at == SIZE_MAX)
                return tool_fail(ret, "no such cell: '%s' has %zu", ESC(path), json_array_size(cells));
        else if (strcmp(mode, "delete") == 0)
                r = json_array_remove(cells, at);
        else {
                cell = json_array_get(cells, at);
                r = json_is_object(cell)
                            ? fill(cell, arg_str(input, "cell_type", arg_str(cell, "cell_type", "code")),
                                   arg_str(input, "new_source", ""))
                            : -1;
        }
        if (r == 0)
                dump = json_dumps(book, JSON_INDENT(1));
        if (!dump)
                return -ENOMEM;
        buf_deinit(&text);
        if (buf_fmt(&text, "%s\n", dump) < 0)
                return -ENOMEM;
        r = work_write(env, path, text.data, text.len, &err);
        return r < 0 ? tool_fail(ret, "%s", err.msg) : tool_text(ret, "the notebook is written", 23);
}
