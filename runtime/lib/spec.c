/* Specifications: what was said is kept as it was said, and resolved where it is used. */
#include "runtime/spec/spec.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/escape.h"
#include "runtime/base/file.h"
#include "runtime/base/json.h"
#include "runtime/lib/library.h"
#include "runtime/spec/doc.h"
#include "runtime/spec/resolve.h"

int cofferdam_spec_new(struct cofferdam *c, struct cofferdam_spec **ret) {
        struct cofferdam_spec *spec = calloc(1, sizeof(*spec));

        if (!spec)
                return context_memory(c, -ENOMEM);
        spec->c = c;
        *ret = spec;
        return 0;
}

void cofferdam_spec_free(struct cofferdam_spec *spec) {
        if (!spec)
                return;
        request_deinit(&spec->said);
        free(spec);
}

static const char *failure_of(int r) {
        return r == -ENOTSUP ? "CAPABILITY_UNSUPPORTED" : r == -ENOMEM ? NULL : "SPEC_INVALID";
}

/* Says one more thing, @value under @name, that can be read by itself; the whole is judged when it is used.
 */
static int say(struct cofferdam_spec *spec, bool text, const char *name, const char *value, size_t len) {
        struct cofferdam *c = spec->c;
        const size_t old = spec->said.text.len;
        AUTO_ASKED struct asked asked = { 0 };
        AUTO_SPEC struct spec *alone = NULL;
        struct spec_env_view view;
        int r;

        r = context_asked(c, NULL, &asked);
        if (r < 0)
                return r;
        view = (struct spec_env_view){ .home = asked.ctx.home, .cwd = asked.ctx.cwd };
        r = spec_new(&alone, &c->err);
        if (r == 0)
                r = text ? spec_merge_bytes(alone, name, value, len, TIER_FLAG, &view, &c->err)
                         : flags_say(alone, name, value, &view, &c->err);
        if (r < 0)
                return context_failed(c, r, failure_of(r));
        r = request_add(&spec->said, text ? "text-name" : "set-name", name);
        if (r == 0)
                r = request_add(&spec->said, text ? "text" : "set", value);
        if (r == 0)
                return 0;
        spec->said.text.len = old;
        return context_memory(c, r);
}

int cofferdam_spec_text(struct cofferdam_spec *spec, const char *name, const char *text) {
        return say(spec, true, name, text, strlen(text));
}

int cofferdam_spec_file(struct cofferdam_spec *spec, const char *path) {
        struct cofferdam *c = spec->c;
        AUTO_BUF struct buf text = { 0 };
        int r;

        r = file_read_at(AT_FDCWD, path, DOC_FILE_MAX, &text);
        if (r == 0)
                return say(spec, true, path, buf_cstr(&text), text.len);
        (void) error_set(&c->err, r, "%s: cannot read: %s", ESC(path),
                         r == -EINVAL ? "not a regular file" : strerror(-r));
        return context_failed(c, r, "SPEC_INVALID");
}

int cofferdam_spec_set(struct cofferdam_spec *spec, const char *key, const char *value) {
        return say(spec, false, key, value, strlen(value));
}

int cofferdam_spec_json(const struct cofferdam_spec *spec, char **ret) {
        struct cofferdam *c = spec->c;
        AUTO_ASKED struct asked asked = { 0 };
        AUTO_SPEC struct spec *resolved = NULL;
        AUTO_JSON json_t *dump = NULL;
        char *text;
        int r;

        r = context_asked(c, &spec->said, &asked);
        if (r < 0)
                return r;
        r = asked_spec(&asked, &resolved, &c->err);
        if (r < 0)
                return context_failed(c, r, failure_of(r));
        dump = spec_dump(resolved);
        text = dump ? json_dumps(dump, JSON_INDENT(1)) : NULL;
        if (!text)
                return context_memory(c, -ENOMEM);
        *ret = text;
        return 0;
}
