/* ls, inspect, rm, gc, root */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "image/progress.h"
#include "image/verbs.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/escape.h"
#include "runtime/base/json.h"
#include "runtime/base/log.h"

enum { SIZE_TEXT = 32, HEX_AT = 7 };

int image_complain(const struct error *err) {
        const bool full = err->code == -ENOSPC || err->code == -EDQUOT;

        log_error("image: %s%s", err->msg,
                  full ? ": make room, 'cofferdam image gc' may help, or set XDG_STATE_HOME" : "");
        return CODE_FAILED;
}

int image_misused(const struct error *err) {
        (void) image_complain(err);
        return CODE_USAGE;
}

static void tell_removing(void *quiet) {
        if (!*(const bool *) quiet)
                log_warn("image: images are being removed by another process: waiting for that");
}

int image_open(const struct image_call *call, struct store *ret, struct error *err) {
        bool quiet = call->o.quiet;
        const struct lock_wait wait = { .max_ms = call->o.wait_ms, .tell = tell_removing, .arg = &quiet };

        return store_open(call->ctx, call->path, &wait, ret, err);
}

static const char *text_of(const json_t *j, const char *key) {
        const char *s = json_string_value(json_object_get(j, key));

        return s ? s : "";
}

static uint64_t bytes_of(const json_t *record) {
        const json_t *layers = json_object_get(record, "layers");
        uint64_t sum = 0;

        for (size_t i = 0; i < json_array_size(layers); i++)
                sum += (uint64_t) json_integer_value(json_object_get(json_array_get(layers, i), "bytes"));
        return sum;
}

static void print_row(const json_t *j, const char *name) {
        char size[SIZE_TEXT];

        (void) printf("%-44s %.12s  %.12s  %s\n", name, text_of(j, "digest") + HEX_AT,
                      text_of(j, "id") + HEX_AT, size_text(bytes_of(j), size, sizeof(size)));
}

int image_ls(struct image_call *call) {
        AUTO_STORE struct store store = STORE_NONE;
        AUTO_JSON json_t *all = NULL;
        struct error err = { 0 };

        if (image_open(call, &store, &err) < 0)
                return image_complain(&err);
        all = store_list(&store);
        if (call->o.json)
                return all && json_dumpf(all, stdout, JSON_COMPACT | JSON_SORT_KEYS) == 0 && puts("") >= 0
                               ? CODE_OK
                               : CODE_FAILED;
        if (json_array_size(all) > 0)
                (void) printf("%-44s %-12s  %-12s  %s\n", "NAME", "DIGEST", "ID", "SIZE");
        for (size_t i = 0; i < json_array_size(all); i++) {
                const json_t *j = json_array_get(all, i), *names = json_object_get(j, "names");

                for (size_t k = 0; k < json_array_size(names); k++)
                        print_row(j, json_string_value(json_array_get(names, k)));
                if (json_array_size(names) == 0)
                        print_row(j, "<none>");
        }
        return all ? CODE_OK : CODE_FAILED;
}

static int find(const struct store *store, const char *name, json_t **ret, struct error *err) {
        const int r = store_lookup(store, name, ret);

        if (r == -EEXIST)
                return error_set(err, r, "'%s' is the start of several digests: say more of it", ESC(name));
        return r < 0 ? error_set(err, r, "no image '%s' here: see 'cofferdam image ls'", ESC(name)) : 0;
}

static json_t *load_config(const struct store *store, const json_t *record) {
        AUTO_BUF struct buf text = { 0 };
        const char *id = text_of(record, "id");

        return digest_valid(id) && store_blob_get(store, id, &text) == 0
                       ? json_loadb(buf_cstr(&text), text.len, JSON_REJECT_DUPLICATES, NULL)
                       : NULL;
}

int image_inspect(struct image_call *call) {
        AUTO_STORE struct store store = STORE_NONE;
        AUTO_JSON json_t *list = json_array();
        struct error err = { 0 };

        if (!image_names_valid(call, false))
                return CODE_USAGE;
        if (image_open(call, &store, &err) < 0)
                return image_complain(&err);
        for (int i = 0; i < call->argc; i++) {
                json_t *j = NULL;

                if (find(&store, call->argv[i], &j, &err) < 0)
                        return image_complain(&err);
                (void) json_object_set_new(j, "config", load_config(&store, j));
                (void) json_object_set_new(j, "complete", json_boolean(store_complete(&store, j)));
                (void) json_object_set_new(j, "ids", json_string(ids_name(store.ids.kind)));
                (void) json_array_append_new(list, j);
        }
        return json_dumpf(list, stdout, JSON_INDENT(2) | JSON_SORT_KEYS) == 0 && puts("") >= 0 ? CODE_OK
                                                                                               : CODE_FAILED;
}

/* --- rm and gc
 * ----------------------------------------------------------------------------------------------- */

/* A name goes; the image with its last one, or when it was called by its digest. */
static int remove_one(const struct store *store, const char *name, struct error *err) {
        AUTO_JSON json_t *all = store_list(store), *found = NULL;
        AUTO_REF struct ref ref = { 0 };
        const json_t *names;
        int r;

        r = find(store, name, &found, err);
        if (r < 0)
                return r;
        for (size_t i = 0; i < json_array_size(all); i++) {
                const json_t *j = json_array_get(all, i);
                bool named = false;

                if (strcmp(text_of(j, "digest"), text_of(found, "digest")) != 0)
                        continue;
                names = json_object_get(j, "names");
                for (size_t k = 0; k < json_array_size(names) && ref_parse(name, &ref, NULL) == 0; k++) {
                        named = named || strcmp(json_string_value(json_array_get(names, k)), ref.text) == 0;
                        if (!named)
                                ref_deinit(&ref);
                        else
                                break;
                }
                if (named && json_array_size(names) > 1)
                        return store_unname(store, ref.text);
                return store_forget(store, j, err);
        }
        return -ENOENT;
}

int image_rm(struct image_call *call) {
        AUTO_STORE struct store store = STORE_NONE;
        struct error err = { 0 };
        uint64_t removed;
        int code = CODE_OK;

        if (!image_names_valid(call, false))
                return CODE_USAGE;
        if (image_open(call, &store, &err) < 0)
                return image_complain(&err);
        for (int i = 0; i < call->argc; i++)
                if (remove_one(&store, call->argv[i], &err) < 0)
                        code = image_complain(&err);
        if (store_exclusive(&store, &err) < 0) {
                log_warn("image: layers stay until 'cofferdam image gc': somebody else is at the images");
                return code;
        }
        return store_sweep(&store, &removed, &err) < 0 ? image_complain(&err) : code;
}

static int by_use(const void *a, const void *b) {
        const json_int_t x = json_integer_value(json_object_get(*(json_t *const *) a, "used"));
        const json_int_t y = json_integer_value(json_object_get(*(json_t *const *) b, "used"));

        return (x > y) - (x < y);
}

/* Oldest first: those that nobody can name, that were not used for so long, or that are too much. */
static int forget_old(struct image_call *call, const struct store *store, struct error *err) {
        AUTO_JSON json_t *all = store_list(store);
        const size_t n = json_array_size(all);
        /* an array of pointers */
        AUTO_FREE json_t **order = calloc(n + 1, sizeof(*order)); /* NOLINT(bugprone-sizeof-expression) */
        uint64_t sum = 0;

        if (!all || !order)
                return error_set(err, -ENOMEM, "out of memory");
        for (size_t i = 0; i < n; i++) {
                order[i] = json_array_get(all, i);
                sum += bytes_of(order[i]);
        }
        qsort(order, n, sizeof(*order), by_use); /* NOLINT(bugprone-sizeof-expression) */
        for (size_t i = 0; i < n; i++) {
                const json_int_t age = time(NULL) - json_integer_value(json_object_get(order[i], "used"));
                const bool nameless = json_array_size(json_object_get(order[i], "names")) == 0;
                const bool old =
                        call->o.unused_s != UINT64_MAX && age >= 0 && (uint64_t) age >= call->o.unused_s;
                struct error busy;

                if (!nameless && !old && sum <= call->o.keep_bytes)
                        continue;
                if (store_forget(store, order[i], &busy) < 0)
                        continue; /* it is in use */
                sum -= bytes_of(order[i]);
                (void) printf("%s\n", text_of(order[i], "digest"));
        }
        return 0;
}

int image_gc(struct image_call *call) {
        AUTO_STORE struct store store = STORE_NONE;
        struct error err = { 0 };
        uint64_t removed = 0;

        if (image_open(call, &store, &err) < 0 || store_exclusive(&store, &err) < 0 ||
            forget_old(call, &store, &err) < 0 || store_sweep(&store, &removed, &err) < 0)
                return image_complain(&err);
        if (!call->o.quiet)
                log_info("image: %llu layers removed", (unsigned long long) removed);
        return CODE_OK;
}

/* --- root
 * ----------------------------------------------------------------------------------------------------- */

static json_t *layer_paths(const struct store *store, const json_t *record) {
        const json_t *layers = json_object_get(record, "layers");
        json_t *list = json_array();

        for (size_t i = 0; i < json_array_size(layers); i++) {
                AUTO_BUF struct buf path = { 0 };

                if (buf_fmt(&path, "%s/", store->path) == 0 &&
                    store_layer_path(store, text_of(json_array_get(layers, i), "diff_id"), &path) == 0)
                        (void) json_array_append_new(list, json_string(buf_cstr(&path)));
        }
        return list;
}

static int print_root(const struct store *store, const char *digest, struct error *err) {
        AUTO_JSON json_t *record = NULL, *config = NULL, *out = NULL;
        AUTO_BUF struct buf lock = { 0 };
        json_t *inner;
        int r;

        r = store_image(store, digest, &record);
        if (r == 0)
                r = buf_fmt(&lock, "%s/images/%s.json", store->path, digest + HEX_AT);
        if (r < 0)
                return error_set(err, r, "%s: %s", digest, strerror(-r));
        config = load_config(store, record);
        inner = json_object_get(config, "config");
        if (!config)
                return error_set(err, -EBADMSG, "%s: its configuration is damaged: pull it again", digest);
        store_touch(store, digest);
        out = json_pack("{s:s,s:s,s:s,s:o,s:s,s:I,s:I,s:I,s:I,s:s,s:O?}", "digest", digest, "id",
                        text_of(record, "id"), "lock", buf_cstr(&lock), "layers", layer_paths(store, record),
                        "ids", ids_name(store->ids.kind), "uid_first", (json_int_t) store->ids.uid_first,
                        "uid_n", (json_int_t) store->ids.uid_n, "gid_first",
                        (json_int_t) store->ids.gid_first, "gid_n", (json_int_t) store->ids.gid_n, "why",
                        store->ids.why, "config", inner);
        return out && json_dumpf(out, stdout, JSON_COMPACT) == 0 && puts("") >= 0
                       ? 0
                       : error_set(err, -ENOMEM, "out of memory");
}

int image_root(struct image_call *call) {
        AUTO_STORE struct store store = STORE_NONE;
        char digest[DIGEST_TEXT_LEN + 1];
        struct error err = { 0 };

        call->o.missing = true;
        if (!image_names_valid(call, true))
                return CODE_USAGE;
        if (image_open(call, &store, &err) < 0 || pull_one(call, &store, call->argv[0], digest, &err) < 0 ||
            print_root(&store, digest, &err) < 0)
                return image_complain(&err);
        return CODE_OK;
}
