/*
 * A specification from an outsider, read as YAML and as JSON, as the operator's and as a workflow's. What is
 * accepted keeps every bound of the key table; what is refused says so in one line; our JSON reader accepts
 * what jansson accepts.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/escape.h"
#include "runtime/base/json.h"
#include "runtime/base/path.h"
#include "runtime/spec/check.h"
#include "runtime/spec/doc.h"
#include "runtime/spec/keys.h"
#include "runtime/spec/resolve.h"
#include "tests/fuzz/fuzz.h"

static void must(bool ok) {
        if (!ok)
                __builtin_trap();
}

static bool is_line(const char *s) {
        return s && utf8_valid(s, strlen(s)) && !strpbrk(s, "\r\n");
}

static void check_lists(const struct spec *spec) {
        must(spec->n_env <= 4096 && spec->guard.n_rules <= 1024 && spec->n_mounts <= 256 &&
             spec->home.n_seeds <= 256);
        for (size_t i = 0; i < spec->n_env; i++) {
                must(!check_env_name(spec->env[i].name));
                must(!spec->env[i].value || !strchr(spec->env[i].value, '\n'));
        }
        for (size_t i = 0; i < spec->guard.n_rules; i++)
                must(is_line(spec->guard.rules[i].path) && *spec->guard.rules[i].path &&
                     spec->guard.rules[i].action < GUARD_DO_COUNT);
        for (size_t i = 0; i < spec->n_mounts; i++) {
                const struct spec_mount *m = &spec->mounts[i];

                must(m->type < MOUNT_TYPE_COUNT && is_line(m->target) && path_is_normal(m->target));
                must((m->source == NULL) == (m->type == MOUNT_TMPFS) && (!m->source || *m->source == '/'));
        }
        for (size_t i = 0; i < spec->home.n_seeds; i++)
                must(spec->home.seeds[i].from && spec->home.seeds[i].mode <= 0777 &&
                     (!spec->home.seeds[i].to || path_is_normal(spec->home.seeds[i].to)));
}

static void check_accepted(const struct spec *spec, enum spec_tier tier) {
        AUTO_SPEC struct spec *copy = NULL;
        AUTO_JSON json_t *a = spec_dump(spec), *b = NULL;

        must(spec->version == 1 && spec->mode < MODE_COUNT && spec->network.mode < NETWORK_MODE_COUNT);
        must(spec->home.size >= 65536 && spec->tmp.size >= 65536);
        must(!spec->name || !check_name(spec->name));
        must(!spec->user || !check_user(spec->user));
        must(!spec->workspace.target || path_is_normal(spec->workspace.target));
        check_lists(spec);
        if (tier == TIER_REPOSITORY)
                must(spec->network.mode == NETWORK_NONE && !spec->workspace.source && spec->n_secrets == 0 &&
                     spec->home.n_seeds == 0 && spec->guard.defaults);
        if (tier == TIER_WORKFLOW || tier == TIER_REPOSITORY)
                must(spec->mode != MODE_NONE && strcmp(spec->driver, "noop") != 0 &&
                     spec->n_allow_sensitive == 0 && spec->security.no_new_privs &&
                     !spec->security.nested_userns);
        must(spec_copy(spec, &copy, NULL) == 0);
        b = spec_dump(copy);
        must(a && b && json_equal(a, b));
}

static void merge(const char *name, const char *data, size_t size, enum spec_tier tier) {
        static const struct spec_env_view view = { .home = "/home/op", .cwd = "/w" };
        AUTO_SPEC struct spec *spec = NULL;
        struct error err = { 0 };
        int r;

        must(spec_new(&spec, NULL) == 0);
        r = spec_merge_bytes(spec, name, data, size, tier, &view, &err);
        if (r < 0) {
                must(err.code == r && *err.msg && !strchr(err.msg, '\n'));
                return;
        }
        check_accepted(spec, tier);
        r = spec_validate(spec, &view, &err);
        must(r == 0 || ((r == -EINVAL || r == -ENOTSUP) && *err.msg && !strchr(err.msg, '\n')));
}

/* Numbers beyond jansson's types and our limits are the only differences; to jansson a NUL is the end. */
static void compare_json(const char *data, size_t size) {
        AUTO_DOC struct doc *root = NULL;
        AUTO_JSON json_t *json = NULL;
        json_error_t why = { 0 };
        struct error err = { 0 };
        const int r = doc_parse("f.json", data, size, true, &root, &err);

        json = json_loadb(data, size, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &why);
        if (json)
                must(r == 0 || r == -E2BIG || r == -EFBIG || strstr(err.msg, "number is too long"));
        else if (r == 0)
                must(json_error_code(&why) == json_error_numeric_overflow);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        const char *text = (const char *) data;

        if (size == 0)
                return 0;
        merge("f.yaml", text, size, TIER_FLAG);
        merge("f.yaml", text, size, TIER_WORKFLOW);
        merge("f.json", text, size, TIER_WORKFLOW);
        merge("f.yaml", text, size, TIER_REPOSITORY);
        if (!memchr(text, '\0', size))
                compare_json(text, size);
        return 0;
}
