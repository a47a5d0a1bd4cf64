/*
 * A command line, one word a line: parsed, and applied to a specification. Files that it names are not read.
 */
#include <errno.h>
#include <string.h>

#include "runtime/base/cleanup.h"
#include "runtime/base/json.h"
#include "runtime/spec/resolve.h"
#include "tests/fuzz/fuzz.h"

enum { WORDS_MAX = 256, TEXT_MAX = 65536 };

static int accept(void *arg, const char *value, struct error *err) {
        (void) err;
        *(const char **) arg = value;
        return 0;
}

static const struct flag_option own[] = {
        { "tty", 't', NULL, accept, "a terminal" },
        { "events", 0, "FILE", accept, "where events go" },
};

static int apply(const struct flags *flags, struct error *err) {
        static const struct spec_env_view view = { .home = "/home/op", .cwd = "/w" };
        AUTO_SPEC struct spec *spec = NULL;
        AUTO_JSON json_t *dump = NULL;
        int r;

        if (spec_new(&spec, NULL) < 0)
                __builtin_trap();
        r = flags_apply(flags, spec, &view, err);
        if (r == 0)
                r = spec_validate(spec, &view, err);
        dump = spec_dump(spec);
        if (!dump)
                __builtin_trap();
        return r;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        static const struct flag_set set = { "fuzz", "Fuzz.", own, ARRAY_SIZE(own), true };
        AUTO_FREE char *text = strndup((const char *) data, size < TEXT_MAX ? size : TEXT_MAX);
        AUTO_FLAGS struct flags *flags = NULL;
        const char *told = NULL;
        struct error err = { 0 };
        char name[] = "run", *argv[WORDS_MAX] = { name }, *rest = text;
        int argc = 1, r;

        if (!text || strstr(text, "env-file"))
                return 0;
        while (rest && argc < WORDS_MAX - 1)
                argv[argc++] = strsep(&rest, "\n");
        r = flags_parse(&set, argc, argv, &told, &flags, &err);
        if (r == 0 && (flags->next < 1 || flags->next > argc))
                __builtin_trap();
        if (r == 0)
                r = apply(flags, &err);
        if (r < 0 && (err.code != r || !*err.msg || strchr(err.msg, '\n')))
                __builtin_trap();
        return 0;
}
