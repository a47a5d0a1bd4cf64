#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "image/digest.h"
#include "image/fetch.h"
#include "image/registry.h"
#include "image/verbs.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/escape.h"
#include "runtime/base/json.h"
#include "runtime/base/log.h"

enum { DOCUMENT_TRIES = 4 };

/** struct pulling - an image on its way */
struct pulling {
        struct image_call *call;
        struct store *store;
        struct registry *registry;
        struct ref ref;
        struct login login;
        struct http_options http;
        char digest[DIGEST_TEXT_LEN + 1], index[DIGEST_TEXT_LEN + 1]; /* @index "": there was none */
        struct manifest manifest;
        char diff_ids[MANIFEST_LAYERS_MAX][DIGEST_TEXT_LEN + 1];
        struct stored_layer layers[MANIFEST_LAYERS_MAX];
};

/* Whether it is worth another try; that is said, and waited for. */
static bool again(const struct pulling *p, struct tries *tries, int r, const struct error *why) {
        const unsigned int wait_s = registry_retry_s(p->registry, tries, r);

        if (wait_s == 0)
                return false;
        if (!p->call->o.quiet)
                log_warn("image: %s: trying again in %u s", why->msg, wait_s);
        (void) poll(NULL, 0, (int) wait_s * 1000);
        return true;
}

static int fetch_document(struct pulling *p, const char *what, struct buf *text, struct error *err) {
        struct tries tries = { .max = DOCUMENT_TRIES };
        struct error why = { 0 };
        int r;

        do {
                text->len = 0;
                r = registry_manifest(p->registry, what, text, p->digest, &why);
        } while (r < 0 && again(p, &tries, r, &why));
        return r < 0 ? error_set(err, r, "%s", why.msg) : 0;
}

/* A manifest; with one of an index in between. */
static int fetch_manifest(struct pulling *p, struct error *err) {
        const char *what = p->ref.digest ? p->ref.digest : p->ref.tag;
        char chosen[DIGEST_TEXT_LEN + 1];

        for (int depth = 0; depth < 2; depth++) {
                AUTO_BUF struct buf text = { 0 };
                AUTO_JSON json_t *doc = NULL;
                struct descriptor d;
                int r;

                r = fetch_document(p, what, &text, err);
                doc = r == 0 ? manifest_load(text.data, text.len, err) : NULL;
                if (r < 0 || !doc)
                        return r < 0 ? r : err->code;
                r = store_blob_put(p->store, p->digest, text.data, text.len, err);
                if (r < 0)
                        return r;
                if (!manifest_is_index(doc))
                        return manifest_read(doc, &p->manifest, err);
                r = manifest_choose(doc, &p->call->o.platform, &d, err);
                if (r < 0)
                        return r;
                memcpy(p->index, p->digest, sizeof(p->index));
                memcpy(chosen, d.digest, sizeof(chosen));
                what = chosen;
        }
        return error_set(err, -EINVAL, "an index of indexes");
}

/** struct config_sink - a configuration, not larger than said */
struct config_sink {
        struct buf *out;
        size_t max;
};

static int on_config(void *arg, const void *data, size_t len, bool whole) {
        struct config_sink *sink = arg;

        (void) whole;
        return len > sink->max - sink->out->len ? -EMSGSIZE : buf_add(sink->out, data, len);
}

static int fetch_config(struct pulling *p, struct error *err) {
        AUTO_BUF struct buf text = { 0 };
        struct config_sink sink = { &text, p->manifest.config.size };
        struct tries tries = { .max = DOCUMENT_TRIES };
        AUTO_JSON json_t *doc = NULL;
        char digest[DIGEST_TEXT_LEN + 1];
        struct error why = { 0 };
        int r;

        do {
                text.len = 0;
                r = registry_blob(p->registry, &p->manifest.config, 0, on_config, &sink, &why);
        } while (r < 0 && again(p, &tries, r, &why));
        if (r == -EMSGSIZE)
                return error_set(err, -EBADMSG, "configuration %s: more bytes than its size says",
                                 p->manifest.config.digest);
        if (r < 0)
                return error_set(err, r, "%s", why.msg);
        if (digest_bytes(text.data, text.len, digest) < 0 || strcmp(digest, p->manifest.config.digest) != 0)
                return error_set(err, -EBADMSG, "configuration %s: the registry sent something else",
                                 p->manifest.config.digest);
        doc = manifest_load(text.data, text.len, err);
        if (!doc)
                return err->code;
        r = config_diff_ids(doc, p->diff_ids, p->manifest.n_layers, err);
        return r < 0 ? r : store_blob_put(p->store, digest, text.data, text.len, err);
}

/* Before a byte of it takes room. */
static int check_sizes(const struct pulling *p, struct error *err) {
        for (size_t i = 0; i < p->manifest.n_layers; i++) {
                const struct descriptor *layer = &p->manifest.layers[i];

                if (!layer_fits(&p->call->o.limits, layer->size))
                        return error_set(err, -EFBIG,
                                         "layer %s: its %llu bytes are more than allowed: see --max-size",
                                         layer->digest, (unsigned long long) layer->size);
        }
        return 0;
}

static int fetch_image(struct pulling *p, struct error *err) {
        const struct image_options *o = &p->call->o;
        const struct fetch fetch = { .store = p->store,
                                     .options = &p->http,
                                     .ref = &p->ref,
                                     .login = &p->login,
                                     .manifest = &p->manifest,
                                     .diff_ids = (const char(*)[DIGEST_TEXT_LEN + 1]) p->diff_ids,
                                     .limits = o->limits,
                                     .parallel = (unsigned int) o->parallel,
                                     .wait_ms = o->wait_ms,
                                     .quiet = o->quiet };
        const char *const names[] = { p->ref.text, NULL };
        int r;

        r = fetch_manifest(p, err);
        if (r == 0)
                r = check_sizes(p, err);
        if (r == 0)
                r = fetch_config(p, err);
        if (r == 0)
                r = fetch_layers(&fetch, p->layers, err);
        return r < 0 ? r
                     : store_record(p->store, p->digest, *p->index ? p->index : NULL, &p->manifest, p->layers,
                                    names, err);
}

static int pull_ref(struct pulling *p, const char *name, struct error *err) {
        struct image_call *c = p->call;
        int r;

        r = ref_parse(name, &p->ref, err);
        if (r == 0)
                r = login_find(&c->auth, c->path, &p->ref, &p->login, err);
        if (r < 0)
                return r;
        p->http = (struct http_options){ .insecure = c->o.insecure, .ca_file = c->o.ca_file };
        p->registry = registry_new(&p->http, &p->ref, &p->login);
        if (!p->registry)
                return error_set(err, -ENOMEM, "out of memory");
        r = fetch_image(p, err);
        return r < 0 ? error_wrap(err, r, "%s", p->ref.text) : 0;
}

/* Whether it is there; one that is there for other ids only is not. */
static bool is_there(struct store *store, const char *name, char digest[static DIGEST_TEXT_LEN + 1]) {
        AUTO_JSON json_t *record = NULL;
        const char *have;

        if (store_lookup(store, name, &record) < 0 || !store_complete(store, record))
                return false;
        have = json_string_value(json_object_get(record, "digest"));
        if (!have || !digest_valid(have))
                return false;
        memcpy(digest, have, DIGEST_TEXT_LEN + 1);
        return true;
}

int pull_one(struct image_call *call, struct store *store, const char *name,
             char ret_digest[static DIGEST_TEXT_LEN + 1], struct error *err) {
        struct pulling *p;
        int r;

        if (import_prefix(name))
                return import_path(call, store, name, NULL, NULL, ret_digest, err);
        if (call->o.missing && is_there(store, name, ret_digest))
                return 0;
        p = calloc(1, sizeof(*p));
        if (!p)
                return error_set(err, -ENOMEM, "out of memory");
        p->call = call;
        p->store = store;
        r = pull_ref(p, name, err);
        if (r == 0)
                memcpy(ret_digest, p->digest, sizeof(p->digest));
        p->registry = registry_free(p->registry);
        ref_deinit(&p->ref);
        login_deinit(&p->login);
        free(p);
        return r;
}

bool image_names_valid(const struct image_call *call, bool files) {
        AUTO_REF struct ref ref = { 0 };
        struct error err = { 0 };
        int r = 0;

        for (int i = 0; r == 0 && i < call->argc; i++)
                if (!files || !import_prefix(call->argv[i])) {
                        r = ref_parse(call->argv[i], &ref, &err);
                        ref_deinit(&ref);
                }
        if (r < 0)
                (void) image_complain(&err);
        return r == 0;
}

int image_pull(struct image_call *call) {
        AUTO_STORE struct store store = STORE_NONE;
        struct error err = { 0 };

        if (!image_names_valid(call, true))
                return CODE_USAGE;
        if (image_open(call, &store, &err) < 0)
                return image_complain(&err);
        for (int i = 0; i < call->argc; i++) {
                char digest[DIGEST_TEXT_LEN + 1];

                if (pull_one(call, &store, call->argv[i], digest, &err) < 0)
                        return image_complain(&err);
                (void) printf("%s\n", digest);
        }
        return CODE_OK;
}
