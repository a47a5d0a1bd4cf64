/*
 * A devcontainer.json from a repository. Whatever it says, the specification has nothing that a repository
 * may not give; strict JSON passes the removal of comments unchanged, and what is left has its lines where
 * they were.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/cleanup.h"
#include "runtime/base/json.h"
#include "runtime/spec/devcontainer.h"
#include "runtime/spec/jsonc.h"
#include "runtime/spec/keys.h"
#include "runtime/spec/narrow.h"
#include "runtime/spec/refuse.h"
#include "tests/fuzz/fuzz.h"

static void must(bool ok) {
        if (!ok)
                __builtin_trap();
}

static void check_plain(const char *data, size_t size) {
        AUTO_FREE char *text = malloc(size + 1), *again = malloc(size + 1);
        AUTO_JSON json_t *json =
                memchr(data, '\0', size) ? NULL : json_loadb(data, size, JSON_DECODE_ANY, NULL);
        int r;

        must(text && again);
        memcpy(text, data, size);
        r = jsonc_plain("f", text, size, NULL);
        must(r == 0 || (r == -EINVAL && !json));
        for (size_t i = 0; i < size; i++)
                must((text[i] == '\n') == (data[i] == '\n'));
        if (json)
                must(memcmp(text, data, size) == 0);
        memcpy(again, text, size);
        if (r == 0) /* nothing is left to take away but a comma that has become the last one */
                must(jsonc_plain("f", again, size, NULL) == 0);
}

/* What only others may set has not been set. */
static void check_spec(const struct spec *spec) {
        for (size_t i = 0; i < spec_key_count(); i++) {
                const struct key *key = &spec_keys[i];
                const bool own = strcmp(key->name, "user") == 0 ||
                                 (key->section == SECTION_WORKSPACE && strcmp(key->name, "target") == 0);

                must(spec->tier_of[i] == TIER_BUILTIN ||
                     (spec->tier_of[i] == TIER_REPOSITORY && (key->trust == TRUST_REPOSITORY || own)));
        }
        for (size_t i = 0; i < spec->n_env; i++)
                must(spec->env[i].value && !narrow_env_denied(spec->env[i].name));
        for (size_t i = 0; i < spec->n_mounts; i++)
                must(spec->mounts[i].type == MOUNT_TMPFS ||
                     (spec->mounts[i].type == MOUNT_BIND && spec->mounts[i].readonly));
        must(!spec->user || (strcmp(spec->user, "root") != 0 && *spec->user != '0'));
        must(spec->image || spec->build.dockerfile);
        must(spec->n_refused <= REFUSALS_MAX);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        static const char *const environment[] = { "HOME=/home/op", "TOKEN=T0P5ECRET", NULL };
        static const struct ctx ctx = { .home = "/home/op", .environ = environment };
        static const struct devcontainer from = {
                .file = "f.json", .dir = "/w/.devcontainer", .workspace = "/w", .ctx = &ctx
        };
        AUTO_SPEC struct spec *spec = NULL;
        AUTO_FREE char *text = malloc(size + 1);
        struct error err = { 0 };
        int r;

        check_plain((const char *) data, size);
        must(text && spec_new(&spec, NULL) == 0);
        memcpy(text, data, size);
        r = devcontainer_merge(spec, &from, text, size, &err);
        must(r == 0 || (err.code == r && *err.msg && !strchr(err.msg, '\n')));
        if (r == 0)
                check_spec(spec);
        for (size_t i = 0; i < spec->n_env; i++)
                must(!spec->env[i].value || memmem(data, size, "T0P5ECRET", 9) ||
                     !strstr(spec->env[i].value, "T0P5ECRET"));
        return 0;
}
