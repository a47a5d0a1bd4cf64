#include "image/store.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "image/confine.h"
#include "image/digest.h"
#include "image/remove.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/escape.h"
#include "runtime/base/file.h"
#include "runtime/base/json.h"
#include "runtime/base/sys.h"

enum {
        RECORD_BYTES_MAX = 1 << 20,
        NAME_SIZE = 128,
        HEX_AT = 7,
        SHORT_DIGITS = 12,
        PARTIAL_LIFE_S = 24 * 3600
};

static const char *const parts[] = { "blobs", "partial", "layers", "images", "refs", "tmp" };

/* --- the store itself -------------------------------------------------------------------------------------
 */

static int make_dirs(char *path) {
        for (char *p = path + 1;; p++) {
                const char c = *p;

                if (c != '/' && c != '\0')
                        continue;
                *p = '\0';
                if (mkdir(path, 0700) < 0 && errno != EEXIST)
                        return -errno;
                *p = c;
                if (c == '\0')
                        return 0;
        }
}

static int open_parts(struct store *s) {
        struct stat st;

        s->dir_fd = open(s->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (s->dir_fd < 0 || fstat(s->dir_fd, &st) < 0)
                return -errno;
        if (st.st_uid != geteuid() || (st.st_mode & 022))
                return -EPERM;
        for (size_t i = 0; i < ARRAY_SIZE(parts); i++)
                if (mkdirat(s->dir_fd, parts[i], 0700) < 0 && errno != EEXIST)
                        return -errno;
        s->lock_fd = openat(s->dir_fd, "lock", O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
        return s->lock_fd < 0 ? -errno : 0;
}

static int lock(int fd, int how) {
        while (flock(fd, how) < 0)
                if (errno != EINTR)
                        return -errno;
        return 0;
}

int store_open(const struct ctx *ctx, const char *search_path, const struct lock_wait *wait,
               struct store *ret, struct error *err) {
        AUTO_STORE struct store s = STORE_NONE;
        int r;

        if (!ctx->state_dir)
                return error_set(err, -ENOENT, "no home directory: set XDG_STATE_HOME");
        if (asprintf(&s.path, "%s/images", ctx->state_dir) < 0) {
                s.path = NULL;
                return error_set(err, -ENOMEM, "out of memory");
        }
        r = make_dirs(s.path);
        if (r == 0)
                r = open_parts(&s);
        if (r == 0)
                r = lock_wait(s.lock_fd, LOCK_SH, wait);
        if (r == -EAGAIN)
                return error_set(
                        err, r,
                        "images are being removed by another process, for %llu s: end that one, or try "
                        "again with a longer --wait",
                        (unsigned long long) wait->max_ms / 1000);
        if (r < 0)
                return error_set(err, r, "images in '%s': %s", ESC(s.path),
                                 r == -EPERM ? "the directory has to be yours, and only yours to write"
                                             : strerror(-r));
        ids_find(ctx, search_path, &s.ids);
        *ret = s;
        s = (struct store) STORE_NONE;
        return 0;
}

void store_close(struct store *s) {
        s->dir_fd = fd_close(s->dir_fd);
        s->lock_fd = fd_close(s->lock_fd);
        free(s->path);
        s->path = NULL;
}

int store_exclusive(struct store *s, struct error *err) {
        const int r = lock(s->lock_fd, LOCK_EX | LOCK_NB);

        if (r == -EWOULDBLOCK)
                return error_set(err, -EBUSY,
                                 "an image is being pulled or looked at: try again when that is done");
        return r < 0 ? error_set(err, r, "lock: %s", strerror(-r)) : 0;
}

static int open_part(const struct store *s, const char *part) {
        return open_beneath(s->dir_fd, part, O_RDONLY | O_DIRECTORY, 0);
}

/* --- layers ------------------------------------------------------------------------------------------------
 */

static int layer_name_of(const struct store *s, const char *diff_id, char ret[static NAME_SIZE]) {
        const int n = s->ids.kind == IDS_RANGE
                              ? snprintf(ret, NAME_SIZE, "%s-range-%u-%u", diff_id + HEX_AT, s->ids.uid_first,
                                         s->ids.gid_first)
                              : snprintf(ret, NAME_SIZE, "%s-%s", diff_id + HEX_AT, ids_name(s->ids.kind));

        return n < NAME_SIZE ? 0 : -ENAMETOOLONG;
}

int store_layer_path(const struct store *s, const char *diff_id, struct buf *out) {
        char name[NAME_SIZE];
        const int r = layer_name_of(s, diff_id, name);

        return r < 0 ? r : buf_fmt(out, "layers/%s/fs", name);
}

bool store_has_layer(const struct store *s, const char *diff_id) {
        AUTO_BUF struct buf path = { 0 };

        return store_layer_path(s, diff_id, &path) == 0 &&
               faccessat(s->dir_fd, buf_cstr(&path), F_OK, 0) == 0;
}

/** struct unpacking - a store_unpack() in its process */
struct unpacking {
        struct layer_request request;
        struct layer_result *result; /* shared */
};

static int unpack(void *arg, struct error *err) {
        struct unpacking *u = arg;
        const int r = confine_unpack(u->request.archive_fd, u->request.dir_fd, err);

        return r < 0 ? r : layer_apply(&u->request, u->result, err);
}

static int temporary(const struct store *s, char **ret) {
        unsigned long long random;

        if (getrandom(&random, sizeof(random), 0) < 0)
                return -errno;
        if (asprintf(ret, "tmp/%016llx", random) < 0) {
                *ret = NULL;
                return -ENOMEM;
        }
        return mkdirat(s->dir_fd, *ret, 0700) < 0 ? -errno : 0;
}

int store_unpack(const struct store *s, int archive_fd, bool owners, const struct layer_limits *limits,
                 char **ret_name, struct layer_result *ret, struct error *err) {
        AUTO_FREE char *path = NULL, *fs = NULL;
        AUTO_FD int dir = -1;
        struct unpacking u = { .request = { .archive_fd = archive_fd,
                                            .owners = owners && s->ids.kind != IDS_SINGLE,
                                            .id_max = s->ids.max,
                                            .limits = *limits } };
        struct error dropped;
        int r;

        u.result = shared_new(sizeof(*u.result));
        r = u.result ? temporary(s, &path) : -ENOMEM;
        if (r == 0 && asprintf(&fs, "%s/fs", path) < 0) {
                fs = NULL;
                r = -ENOMEM;
        }
        if (r == 0 && mkdirat(s->dir_fd, fs, 0755) < 0)
                r = -errno;
        dir = r == 0 ? open_beneath(s->dir_fd, fs, O_RDONLY | O_DIRECTORY, 0) : -1;
        if (r < 0 || dir < 0)
                return error_set(err, r < 0 ? r : dir, "directory to unpack to: %s",
                                 strerror(r < 0 ? -r : -dir));
        u.request.dir_fd = dir;
        r = ids_run(&s->ids, unpack, &u, err);
        if (r == -EIO || r == -ENOMEM)
                r = error_set(err, r, "layer: what unpacks was killed, or wanted more than %d MiB of memory",
                              CONFINE_MEMORY_BYTES >> 20);
        if (r < 0) {
                (void) !store_drop(s, "tmp", path + 4, &dropped);
                return r;
        }
        *ret = *u.result;
        *ret_name = strdup(path + 4);
        return *ret_name ? 0 : error_set(err, -ENOMEM, "out of memory");
}

int store_keep_layer(const struct store *s, const char *name, const char *diff_id, struct error *err) {
        AUTO_BUF struct buf from = { 0 }, to = { 0 };
        char layer[NAME_SIZE];
        int r;

        r = layer_name_of(s, diff_id, layer);
        if (r == 0)
                r = buf_fmt(&from, "tmp/%s", name);
        if (r == 0)
                r = buf_fmt(&to, "layers/%s", layer);
        if (r == 0 && renameat(s->dir_fd, buf_cstr(&from), s->dir_fd, buf_cstr(&to)) < 0)
                r = -errno;
        if (r == -ENOTEMPTY || r == -EEXIST)
                return store_drop(s, "tmp", name, err);
        return r < 0 ? error_set(err, r, "keep a layer: %s", strerror(-r)) : 0;
}

/** struct dropping - a store_drop() in its process */
struct dropping {
        int dir_fd;
        const char *name;
};

static int drop(void *arg, struct error *err) {
        const struct dropping *d = arg;
        const int r = remove_tree_at(d->dir_fd, d->name);

        return r < 0 ? error_set(err, r, "remove '%s': %s", ESC(d->name), strerror(-r)) : 0;
}

int store_drop(const struct store *s, const char *dir, const char *name, struct error *err) {
        AUTO_FD int fd = open_part(s, dir);
        struct dropping d = { fd, name };

        if (fd < 0)
                return error_set(err, fd, "open '%s': %s", dir, strerror(-fd));
        return ids_run(&s->ids, drop, &d, err);
}

/* --- documents ---------------------------------------------------------------------------------------------
 */

static int put(const struct store *s, const char *part, const char *name, const void *data, size_t len,
               struct error *err) {
        AUTO_FD int dir = open_part(s, part);
        const int r = dir < 0 ? dir : file_replace_at(dir, name, data, len, 0600, true);

        return r < 0 ? error_set(err, r, "write '%s/%s': %s", part, name, strerror(-r)) : 0;
}

static int get(const struct store *s, const char *part, const char *name, size_t max, struct buf *out) {
        AUTO_FD int dir = open_part(s, part);

        return dir < 0 ? dir : file_read_at(dir, name, max, out);
}

int store_blob_put(const struct store *s, const char *digest, const void *data, size_t len,
                   struct error *err) {
        return put(s, "blobs", digest + HEX_AT, data, len, err);
}

int store_blob_get(const struct store *s, const char *digest, struct buf *out) {
        char have[DIGEST_TEXT_LEN + 1];
        int r;

        r = get(s, "blobs", digest + HEX_AT, MANIFEST_BYTES_MAX, out);
        if (r == 0)
                r = digest_bytes(out->data, out->len, have);
        return r < 0 ? r : strcmp(have, digest) == 0 ? 0 : -EBADMSG;
}

static int put_json(const struct store *s, const char *part, const char *name, const json_t *j,
                    struct error *err) {
        AUTO_FREE char *text = j ? json_dumps(j, JSON_INDENT(2)) : NULL;

        return text ? put(s, part, name, text, strlen(text), err) : error_set(err, -ENOMEM, "out of memory");
}

static int get_json(const struct store *s, const char *part, const char *name, json_t **ret) {
        AUTO_BUF struct buf text = { 0 };
        int r;

        r = get(s, part, name, RECORD_BYTES_MAX, &text);
        if (r < 0)
                return r;
        *ret = json_loadb(buf_cstr(&text), text.len, JSON_REJECT_DUPLICATES, NULL);
        return *ret ? 0 : -EBADMSG;
}

static int ref_name(const char *text, char ret[static NAME_SIZE]) {
        char digest[DIGEST_TEXT_LEN + 1];
        const int r = digest_bytes(text, strlen(text), digest);

        if (r == 0)
                (void) snprintf(ret, NAME_SIZE, "%s.json", digest + HEX_AT);
        return r;
}

static void image_name(const char *digest, char ret[static NAME_SIZE]) {
        (void) snprintf(ret, NAME_SIZE, "%s.json", digest + HEX_AT);
}

static json_t *layers_json(const struct manifest *m, const struct stored_layer *layers) {
        json_t *list = json_array();

        for (size_t i = 0; list && i < m->n_layers; i++)
                if (json_array_append_new(list, json_pack("{s:s,s:I,s:s,s:I}", "digest", m->layers[i].digest,
                                                          "size", (json_int_t) m->layers[i].size, "diff_id",
                                                          layers[i].diff_id, "bytes",
                                                          (json_int_t) layers[i].bytes)) < 0) {
                        json_decref(list);
                        return NULL;
                }
        return list;
}

static int put_ref(const struct store *s, const char *text, const char *digest, struct error *err) {
        AUTO_JSON json_t *j = json_pack("{s:s,s:s}", "name", text, "digest", digest);
        char name[NAME_SIZE];
        const int r = ref_name(text, name);

        return r < 0 ? error_set(err, r, "name: %s", strerror(-r)) : put_json(s, "refs", name, j, err);
}

int store_record(const struct store *s, const char *digest, const char *index, const struct manifest *m,
                 const struct stored_layer *layers, const char *const *names, struct error *err) {
        AUTO_JSON json_t *j = json_pack("{s:s,s:s,s:s*,s:o}", "digest", digest, "id", m->config.digest,
                                        "index", index, "layers", layers_json(m, layers));
        char name[NAME_SIZE];
        int r;

        if (syncfs(s->dir_fd) < 0) /* the layers: what is noted is there, also after a loss of power */
                return error_set(err, -errno, "sync: %s", strerror(errno));
        image_name(digest, name);
        r = put_json(s, "images", name, j, err);
        for (; r == 0 && *names; names++)
                r = put_ref(s, *names, digest, err);
        return r;
}

int store_image(const struct store *s, const char *digest, json_t **ret) {
        char name[NAME_SIZE];

        if (!digest_valid(digest))
                return -ENOENT;
        image_name(digest, name);
        return get_json(s, "images", name, ret);
}

static const char *text_of(const json_t *j, const char *key) {
        const char *s = json_string_value(json_object_get(j, key));

        return s ? s : "";
}

/* Whether @name is @digest, or the start of it, without "sha256:" if that is left out. */
static bool is_start(const char *name, const char *digest) {
        if (strncmp(name, "sha256:", HEX_AT) == 0)
                name += HEX_AT;
        return strlen(name) >= SHORT_DIGITS && strlen(digest) > HEX_AT &&
               strncmp(digest + HEX_AT, name, strlen(name)) == 0;
}

static int lookup_digest(const struct store *s, const char *name, json_t **ret) {
        AUTO_JSON json_t *all = store_list(s);
        json_t *found = NULL;

        for (size_t i = 0; i < json_array_size(all); i++) {
                json_t *j = json_array_get(all, i);

                if (!is_start(name, text_of(j, "digest")) && !is_start(name, text_of(j, "id")) &&
                    !is_start(name, text_of(j, "index")))
                        continue;
                if (found)
                        return -EEXIST;
                found = j;
        }
        *ret = json_incref(found);
        return found ? 0 : -ENOENT;
}

int store_lookup(const struct store *s, const char *name, json_t **ret) {
        AUTO_REF struct ref ref = { 0 };
        AUTO_JSON json_t *j = NULL;
        char file[NAME_SIZE];
        int r = -ENOENT;

        if (ref_parse(name, &ref, NULL) == 0 && ref_name(ref.text, file) == 0)
                r = get_json(s, "refs", file, &j);
        if (r == 0)
                return store_image(s, text_of(j, "digest"), ret);
        return r == -ENOENT ? lookup_digest(s, name, ret) : r;
}

bool store_complete(const struct store *s, const json_t *record) {
        const json_t *layers = json_object_get(record, "layers");
        AUTO_BUF struct buf config = { 0 };

        for (size_t i = 0; i < json_array_size(layers); i++) {
                const char *id = text_of(json_array_get(layers, i), "diff_id");

                if (!digest_valid(id) || !store_has_layer(s, id))
                        return false;
        }
        return digest_valid(text_of(record, "id")) && store_blob_get(s, text_of(record, "id"), &config) == 0;
}

/* Calls @fn for each name in @part that is no dot. */
static int each(const struct store *s, const char *part,
                int (*fn)(const struct store *s, const char *name, void *arg), void *arg) {
        AUTO_DIR DIR *d = NULL;
        const struct dirent *e;
        int fd = open_part(s, part), r = 0;

        d = fd < 0 ? NULL : fdopendir(fd);
        if (!d) {
                r = fd < 0 ? fd : -errno;
                (void) fd_close(fd);
                return r;
        }
        while ((e = readdir(d)))
                if (e->d_name[0] != '.') {
                        const int k = fn(s, e->d_name, arg);

                        r = r < 0 ? r : k;
                }
        return r;
}

static int list_image(const struct store *s, const char *name, void *arg) {
        AUTO_FD int dir = open_part(s, "images");
        json_t *j = NULL;
        struct stat st;

        if (!strstr(name, ".json") || get_json(s, "images", name, &j) < 0)
                return 0; /* damaged: not there */
        if (fstatat(dir, name, &st, 0) == 0)
                (void) json_object_set_new(j, "used", json_integer(st.st_mtime));
        (void) json_object_set_new(j, "names", json_array());
        return json_array_append_new(arg, j) < 0 ? -ENOMEM : 0;
}

static int list_name(const struct store *s, const char *name, void *arg) {
        AUTO_JSON json_t *ref = NULL;

        if (get_json(s, "refs", name, &ref) < 0)
                return 0;
        for (size_t i = 0; i < json_array_size(arg); i++) {
                json_t *j = json_array_get(arg, i);

                if (strcmp(text_of(j, "digest"), text_of(ref, "digest")) == 0)
                        return json_array_append(json_object_get(j, "names"), json_object_get(ref, "name")) <
                                               0
                                       ? -ENOMEM
                                       : 0;
        }
        return 0;
}

json_t *store_list(const struct store *s) {
        json_t *list = json_array();

        if (list && (each(s, "images", list_image, list) < 0 || each(s, "refs", list_name, list) < 0)) {
                json_decref(list);
                return NULL;
        }
        return list;
}

int store_unname(const struct store *s, const char *name) {
        AUTO_FD int dir = open_part(s, "refs");
        char file[NAME_SIZE];
        const int r = ref_name(name, file);

        return r < 0 ? r : unlinkat(dir, file, 0) < 0 ? -errno : 0;
}

int store_forget(const struct store *s, const json_t *record, struct error *err) {
        const json_t *names = json_object_get(record, "names");
        AUTO_FD int dir = open_part(s, "images"), fd = -1;
        const char *digest = text_of(record, "digest");
        char file[NAME_SIZE];
        int r;

        image_name(digest, file);
        fd = openat(dir, file, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
        r = fd < 0 ? -errno : lock(fd, LOCK_EX | LOCK_NB);
        if (r == -EWOULDBLOCK)
                return error_set(err, -EBUSY, "%.19s: a run uses it: stop that first", digest);
        for (size_t i = 0; r == 0 && i < json_array_size(names); i++) {
                r = store_unname(s, json_string_value(json_array_get(names, i)));
                r = r == -ENOENT ? 0 : r;
        }
        if (r == 0 && unlinkat(dir, file, 0) < 0)
                r = -errno;
        return r < 0 ? error_set(err, r, "remove %.19s: %s", digest, strerror(-r)) : 0;
}

void store_touch(const struct store *s, const char *digest) {
        AUTO_FD int dir = open_part(s, "images");
        char file[NAME_SIZE];

        image_name(digest, file);
        (void) utimensat(dir, file, NULL, AT_SYMLINK_NOFOLLOW);
}

/* --- what is left ------------------------------------------------------------------------------------------
 */

/** struct sweep - what is in use */
struct sweep {
        json_t *used; /* object: names of blobs, and of layers without their ids */
        const char *part;
        uint64_t removed;
        struct error *err;
};

static int mark(json_t *used, const char *digest) {
        return digest_valid(digest) && json_object_set_new(used, digest + HEX_AT, json_true()) < 0 ? -ENOMEM
                                                                                                   : 0;
}

static int mark_all(json_t *used, const json_t *all) {
        int r = 0;

        for (size_t i = 0; i < json_array_size(all); i++) {
                const json_t *j = json_array_get(all, i), *layers = json_object_get(j, "layers");

                r |= mark(used, text_of(j, "digest")) | mark(used, text_of(j, "id")) |
                     mark(used, text_of(j, "index"));
                for (size_t k = 0; k < json_array_size(layers); k++)
                        r |= mark(used, text_of(json_array_get(layers, k), "diff_id"));
        }
        return r;
}

static int sweep_unused(const struct store *s, const char *name, void *arg) {
        struct sweep *w = arg;
        AUTO_FREE char *hex = strndup(name, DIGEST_HEX_LEN);

        if (!hex)
                return -ENOMEM;
        if (json_object_get(w->used, hex))
                return 0;
        w->removed += strcmp(w->part, "layers") == 0;
        return store_drop(s, w->part, name, w->err);
}

static int sweep_any(const struct store *s, const char *name, void *arg) {
        struct sweep *w = arg;

        return store_drop(s, w->part, name, w->err);
}

/* A part of a layer is worth something for a day. */
static int sweep_partial(const struct store *s, const char *name, void *arg) {
        AUTO_FD int dir = open_part(s, "partial");
        struct stat st;

        if (!strchr(name, '.') && fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
            time(NULL) - st.st_mtime < PARTIAL_LIFE_S)
                return 0;
        return sweep_any(s, name, arg);
}

static int sweep_ref(const struct store *s, const char *name, void *arg) {
        AUTO_JSON json_t *ref = NULL, *image = NULL;

        if (get_json(s, "refs", name, &ref) == 0 && store_image(s, text_of(ref, "digest"), &image) == 0)
                return 0;
        return sweep_any(s, name, arg);
}

static int sweep_image(const struct store *s, const char *name, void *arg) {
        AUTO_JSON json_t *image = NULL;

        return get_json(s, "images", name, &image) == 0 ? 0 : sweep_any(s, name, arg);
}

int store_sweep(const struct store *s, uint64_t *ret_removed, struct error *err) {
        static const struct {
                const char *part;
                int (*fn)(const struct store *s, const char *name, void *arg);
        } steps[] = { { "tmp", sweep_any },  { "partial", sweep_partial }, { "images", sweep_image },
                      { "refs", sweep_ref }, { "layers", sweep_unused },   { "blobs", sweep_unused } };
        AUTO_JSON json_t *used = json_object(), *all = store_list(s);
        struct sweep w = { .used = used, .err = err };
        int r = 0;

        if (!used || !all || mark_all(used, all) < 0)
                return error_set(err, -ENOMEM, "out of memory");
        for (size_t i = 0; i < ARRAY_SIZE(steps); i++) {
                int k;

                w.part = steps[i].part;
                k = each(s, steps[i].part, steps[i].fn, &w);
                r = r < 0 ? r : k;
        }
        *ret_removed = w.removed;
        return r;
}
