/*
 * fuzz-image-manifest.c - index, manifest and configuration of an image
 */
#include <string.h>

#include "image/manifest.h"
#include "runtime/base/json.h"
#include "tests/fuzz/fuzz.h"

static void check(const struct descriptor *d) {
        if (!digest_valid(d->digest) || d->size > MANIFEST_BLOB_MAX)
                __builtin_trap();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        const struct platform platform = { "linux", "arm", "v7" };
        static char ids[MANIFEST_LAYERS_MAX][DIGEST_TEXT_LEN + 1];
        static struct manifest m;
        struct error err = { 0 };
        struct descriptor d;
        AUTO_JSON json_t *doc = size <= 65536 ? manifest_load(data, size, &err) : NULL;

        if (!doc)
                return 0;
        if (manifest_is_index(doc) && manifest_choose(doc, &platform, &d, &err) == 0)
                check(&d);
        if (manifest_read(doc, &m, &err) == 0) {
                check(&m.config);
                for (size_t i = 0; i < m.n_layers; i++)
                        check(&m.layers[i]);
        }
        for (size_t n = 0; n < 3; n++)
                if (config_diff_ids(doc, ids, n, &err) == 0 && n > 0 && !digest_valid(ids[n - 1]))
                        __builtin_trap();
        return 0;
}
