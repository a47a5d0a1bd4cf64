#include "image/manifest.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>

#include "runtime/base/buf.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/escape.h"
#include "runtime/base/json.h"

static const struct {
        const char *machine, *arch, *variant;
} machines[] = {
        { "x86_64", "amd64", NULL }, { "aarch64", "arm64", NULL },   { "armv7l", "arm", "v7" },
        { "i686", "386", NULL },     { "riscv64", "riscv64", NULL }, { "ppc64le", "ppc64le", NULL },
        { "s390x", "s390x", NULL },
};

struct platform manifest_platform(void) {
        struct platform p = { .os = "linux", .arch = "amd64" };
        struct utsname u;

        for (size_t i = 0; uname(&u) == 0 && i < ARRAY_SIZE(machines); i++)
                if (strcmp(u.machine, machines[i].machine) == 0)
                        p = (struct platform){ "linux", machines[i].arch, machines[i].variant };
        return p;
}

int platform_parse(char *text, struct platform *ret) {
        char *arch = strchr(text, '/'), *variant = arch ? strchr(arch + 1, '/') : NULL;

        if (!arch)
                return -EINVAL;
        *arch++ = '\0';
        if (variant)
                *variant++ = '\0';
        if (!*text || !*arch || (variant && !*variant))
                return -EINVAL;
        *ret = (struct platform){ text, arch, variant };
        return 0;
}

json_t *manifest_load(const void *data, size_t len, struct error *err) {
        json_error_t why;
        json_t *doc;

        if (len > MANIFEST_BYTES_MAX) {
                (void) error_set(err, -E2BIG, "document of more than %d bytes", MANIFEST_BYTES_MAX);
                return NULL;
        }
        doc = json_loadb(data, len, JSON_REJECT_DUPLICATES, &why);
        if (!doc)
                (void) error_set(err, -EINVAL, "not JSON: %s", ESC(why.text));
        else if (!json_is_object(doc))
                (void) error_set(err, -EINVAL, "not a JSON object");
        else
                return doc;
        json_decref(doc);
        return NULL;
}

bool manifest_is_index(const json_t *doc) {
        return json_is_array(json_object_get(doc, "manifests"));
}

static int read_descriptor(const json_t *j, struct descriptor *ret, struct error *err) {
        const char *digest = json_string_value(json_object_get(j, "digest"));
        const json_t *size = json_object_get(j, "size");

        if (!digest || !digest_valid(digest))
                return error_set(err, -EINVAL, "a digest that is not sha256: '%s'",
                                 ESC(digest ? digest : ""));
        if (!json_is_integer(size) || json_integer_value(size) < 0 ||
            (uint64_t) json_integer_value(size) > MANIFEST_BLOB_MAX)
                return error_set(err, -EINVAL, "%s: no size, or one out of range", digest);
        memcpy(ret->digest, digest, DIGEST_TEXT_LEN + 1);
        ret->size = (uint64_t) json_integer_value(size);
        return 0;
}

static bool is_text(const json_t *j, const char *key, const char *want) {
        const char *s = json_string_value(json_object_get(j, key));

        return s && strcmp(s, want) == 0;
}

/* A variant that only one of the two names does not count: arm64 is arm64/v8. */
static bool fits(const json_t *entry, const struct platform *p) {
        const json_t *place = json_object_get(entry, "platform");

        return is_text(place, "os", p->os) && is_text(place, "architecture", p->arch) &&
               (!p->variant || !json_object_get(place, "variant") || is_text(place, "variant", p->variant));
}

static void add_text(struct buf *out, const json_t *place, const char *key, const char *before) {
        const char *s = json_string_value(json_object_get(place, key));

        if (s && out->len < 200)
                (void) !buf_fmt(out, "%s%s", before, ESC(s));
}

static int none_fits(const json_t *list, const struct platform *p, struct error *err) {
        AUTO_BUF struct buf have = { 0 };

        for (size_t i = 0; i < json_array_size(list); i++) {
                const json_t *place = json_object_get(json_array_get(list, i), "platform");

                add_text(&have, place, "os", i > 0 ? ", " : "");
                add_text(&have, place, "architecture", "/");
                add_text(&have, place, "variant", "/");
        }
        return error_set(err, -ENOENT, "nothing for %s/%s, only for: %s", p->os, p->arch, buf_cstr(&have));
}

int manifest_choose(const json_t *index, const struct platform *platform, struct descriptor *ret,
                    struct error *err) {
        const json_t *list = json_object_get(index, "manifests");
        const size_t n = json_array_size(list);

        if (n > MANIFEST_ENTRIES_MAX)
                return error_set(err, -E2BIG, "an index of more than %d manifests", MANIFEST_ENTRIES_MAX);
        for (size_t i = 0; i < n; i++)
                if (fits(json_array_get(list, i), platform))
                        return read_descriptor(json_array_get(list, i), ret, err);
        if (n == 1 && !json_object_get(json_array_get(list, 0), "platform"))
                return read_descriptor(json_array_get(list, 0), ret, err);
        return none_fits(list, platform, err);
}

int manifest_read(const json_t *doc, struct manifest *ret, struct error *err) {
        const json_t *layers = json_object_get(doc, "layers");
        struct manifest m = { 0 };
        int r;

        if (json_integer_value(json_object_get(doc, "schemaVersion")) != 2)
                return error_set(err, -ENOTSUP, "a manifest of another version than 2: push the image anew");
        if (!json_is_object(json_object_get(doc, "config")) || !json_is_array(layers))
                return error_set(err, -ENOTSUP, "not the manifest of an image");
        if (json_array_size(layers) > MANIFEST_LAYERS_MAX)
                return error_set(err, -E2BIG, "more than %d layers", MANIFEST_LAYERS_MAX);
        r = read_descriptor(json_object_get(doc, "config"), &m.config, err);
        if (r == 0 && m.config.size > MANIFEST_BYTES_MAX)
                r = error_set(err, -E2BIG, "a configuration of more than %d bytes", MANIFEST_BYTES_MAX);
        for (; r == 0 && m.n_layers < json_array_size(layers); m.n_layers++)
                r = read_descriptor(json_array_get(layers, m.n_layers), &m.layers[m.n_layers], err);
        if (r == 0)
                *ret = m;
        return r;
}

int config_diff_ids(const json_t *config, char (*ret)[DIGEST_TEXT_LEN + 1], size_t n, struct error *err) {
        const json_t *list = json_object_get(json_object_get(config, "rootfs"), "diff_ids");

        if (!json_is_array(list) || json_array_size(list) != n)
                return error_set(err, -EINVAL, "the configuration names %zu layers, the manifest %zu",
                                 json_array_size(list), n);
        for (size_t i = 0; i < n; i++) {
                const char *s = json_string_value(json_array_get(list, i));

                if (!s || !digest_valid(s))
                        return error_set(err, -EINVAL, "a layer's digest that is not sha256: '%s'",
                                         ESC(s ? s : ""));
                memcpy(ret[i], s, DIGEST_TEXT_LEN + 1);
        }
        return 0;
}
