#include "runtime/spec/refuse.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/buf.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/json.h"

enum { SHOWN_MAX = 4096 };

static void refusal_deinit(struct spec_refusal *one) {
        free(one->key);
        free(one->from);
        free(one->reason);
        free(one->remedy);
}

/* Moves @one into the list, or frees it. */
static int push(struct spec *spec, struct spec_refusal *one) {
        struct spec_refusal *more = NULL;

        if (one->key && one->from && one->reason && one->remedy)
                more = reallocarray(spec->refused, spec->n_refused + 1, sizeof(*more));
        if (!more) {
                refusal_deinit(one);
                return -ENOMEM;
        }
        spec->refused = more;
        more[spec->n_refused++] = *one;
        return 0;
}

int refusal_add(struct spec *spec, enum refusal_kind kind, const struct source *src, const struct doc *node,
                const char *key, const char *reason, const char *remedy) {
        struct spec_refusal one = { .kind = kind, .tier = src->tier };
        AUTO_BUF struct buf from = { 0 };
        char path[DOC_PATH_LEN];
        int r;

        if (spec->n_refused >= REFUSALS_MAX)
                return 0;
        if (spec->n_refused == REFUSALS_MAX - 1) {
                key = "...";
                reason = "there are more of the repository's values than are told one by one";
        }
        r = node ? buf_fmt(&from, "%s:%u", src->file, node->line) : buf_str(&from, src->file);
        if (r < 0)
                return r;
        one.key = strdup(key ? key : doc_path(node, path));
        one.from = buf_take(&from);
        one.reason = strdup(reason);
        one.remedy = strdup(remedy);
        return push(spec, &one);
}

int refusals_copy(struct spec *to, const struct spec *from) {
        int r = 0;

        for (size_t i = 0; r == 0 && i < from->n_refused; i++) {
                const struct spec_refusal *f = &from->refused[i];
                struct spec_refusal one = {
                        .kind = f->kind,
                        .tier = f->tier,
                        .key = strdup(f->key),
                        .from = strdup(f->from),
                        .reason = strdup(f->reason),
                        .remedy = strdup(f->remedy),
                };

                r = push(to, &one);
        }
        return r;
}

void refusals_free(struct spec *spec) {
        for (size_t i = 0; i < spec->n_refused; i++)
                refusal_deinit(&spec->refused[i]);
        free(spec->refused);
        spec->refused = NULL;
        spec->n_refused = 0;
}

json_t *refusals_json(const struct spec *spec) {
        AUTO_JSON json_t *rows = json_array();

        for (size_t i = 0; rows && i < spec->n_refused; i++) {
                const struct spec_refusal *one = &spec->refused[i];

                if (json_array_append_new(rows, json_pack("{s:o,s:s,s:o,s:o,s:s}", "key",
                                                          json_from_bytes(one->key, SHOWN_MAX), "tier",
                                                          spec_tier_name(one->tier), "from",
                                                          json_from_bytes(one->from, SHOWN_MAX), "reason",
                                                          json_from_bytes(one->reason, SHOWN_MAX), "remedy",
                                                          one->remedy)) < 0)
                        return NULL;
        }
        return TAKE_PTR(rows);
}
