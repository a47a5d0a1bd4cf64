#include "runtime/spec/spec.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/cleanup.h"
#include "runtime/spec/keys.h"
#include "runtime/spec/list.h"
#include "runtime/spec/refuse.h"
#include "runtime/spec/value.h"

const char *spec_tier_name(enum spec_tier tier) {
        static const char *const names[] = {
                [TIER_BUILTIN] = "built-in",  [TIER_REPOSITORY] = "repository",
                [TIER_CONFIG] = "config",     [TIER_ENVIRONMENT] = "environment",
                [TIER_WORKFLOW] = "workflow", [TIER_FLAG] = "flag",
        };

        static_assert(ARRAY_SIZE(names) == TIER_COUNT, "names[] and enum spec_tier differ");
        return names[tier];
}

bool secret_is(const struct spec_secret *secret, const char *as) {
        return strcmp(secret->as, as) == 0;
}

static int spec_alloc(struct spec **ret) {
        AUTO_SPEC struct spec *spec = calloc(1, sizeof(*spec));

        if (!spec)
                return -ENOMEM;
        spec->tier_of = calloc(spec_key_count(), sizeof(*spec->tier_of));
        if (!spec->tier_of)
                return -ENOMEM;
        *ret = TAKE_PTR(spec);
        return 0;
}

static bool is_scalar(const struct key *key) {
        return key->type < KEY_RULES;
}

int spec_new(struct spec **ret, struct error *err) {
        AUTO_SPEC struct spec *spec = NULL;
        int r;

        r = spec_alloc(&spec);
        for (size_t i = 0; r == 0 && i < spec_key_count(); i++)
                if (is_scalar(&spec_keys[i]))
                        r = value_default(spec, &spec_keys[i]);
        if (r < 0)
                return error_set(err, r, "out of memory");
        *ret = TAKE_PTR(spec);
        return 0;
}

int spec_copy(const struct spec *from, struct spec **ret, struct error *err) {
        AUTO_SPEC struct spec *spec = NULL;
        int r;

        r = spec_alloc(&spec);
        for (size_t i = 0; r == 0 && i < spec_key_count(); i++) {
                const struct key *key = &spec_keys[i];

                spec->tier_of[i] = from->tier_of[i];
                if (is_scalar(key))
                        r = value_copy(spec, from, key);
                else if (key_is_list(key))
                        r = list_copy(spec, from, key);
        }
        if (r == 0)
                spec->n_cluster_mounts = from->n_cluster_mounts;
        if (r == 0)
                r = refusals_copy(spec, from);
        if (r < 0)
                return error_set(err, r, "out of memory");
        *ret = TAKE_PTR(spec);
        return 0;
}

struct spec *spec_free(struct spec *spec) {
        if (!spec)
                return NULL;
        for (size_t i = 0; i < spec_key_count(); i++) {
                if (is_scalar(&spec_keys[i]))
                        value_free(spec, &spec_keys[i]);
                else if (key_is_list(&spec_keys[i]))
                        list_free(spec, &spec_keys[i]);
        }
        refusals_free(spec);
        free(spec->tier_of);
        free(spec);
        return NULL;
}
