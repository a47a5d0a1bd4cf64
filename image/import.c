/*
 * DOC: theory of operation
 *
 * Whatever is imported is unpacked first, as a layer is, in the confined process: an archive is no less
 * foreign for being a file. Then the directory is looked at: an OCI layout has index.json, an archive of
 * docker has manifest.json, and everything else is a root file system, whose directory becomes the layer. A
 * directory that is named is an OCI layout, or is packed up first.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "image/digest.h"
#include "image/verbs.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/escape.h"
#include "runtime/base/execpath.h"
#include "runtime/base/file.h"
#include "runtime/base/json.h"
#include "runtime/base/sys.h"

enum { HEX_AT = 7, LINKS_MAX = 4 };

static const char ref_name[] = "org.opencontainers.image.ref.name";
static const char *const prefixes[] = { "oci:", "oci-archive:", "docker-archive:" };

/** struct importing - an image on its way */
struct importing {
        struct image_call *call;
        struct store *store;
        int dir; /* the layout, or the unpacked archive */
        const char *pick;
        const char *name; /* what it is called; NULL: as there */
        char digest[DIGEST_TEXT_LEN + 1], index[DIGEST_TEXT_LEN + 1];
        struct manifest manifest;
        char diff_ids[MANIFEST_LAYERS_MAX][DIGEST_TEXT_LEN + 1];
        struct stored_layer layers[MANIFEST_LAYERS_MAX];
        char *names[MANIFEST_LAYERS_MAX + 1]; /* canonical; owned */
        size_t n_names;
};

const char *import_prefix(const char *name) {
        for (size_t i = 0; i < ARRAY_SIZE(prefixes); i++)
                if (strncmp(name, prefixes[i], strlen(prefixes[i])) == 0)
                        return name + strlen(prefixes[i]);
        return NULL;
}

/* --- files of a layout ------------------------------------------------------------------------------------
 */

/* A regular file below the directory; an archive of docker may have links between its layers. */
static int open_member(int dir, const char *path) {
        char name[LAYER_PATH_MAX + 1], to[LAYER_PATH_MAX + 1], joined[2 * LAYER_PATH_MAX + 2];
        struct stat st;
        int r;

        r = layer_name(path, name);
        for (int i = 0; r == 0 && i < LINKS_MAX; i++) {
                AUTO_FD int fd = open_beneath(dir, name, O_RDONLY | O_NONBLOCK, 0);
                const char *slash = strrchr(name, '/'), *rest;
                ssize_t n;

                if (fd >= 0)
                        return fstat(fd, &st) == 0 && S_ISREG(st.st_mode) ? TAKE_FD(fd) : -EINVAL;
                n = fd == -ELOOP ? readlinkat(dir, name, to, sizeof(to) - 1) : -1;
                if (n <= 0)
                        return fd;
                to[n] = '\0';
                rest = to;
                for (; strncmp(rest, "../", 3) == 0; rest += 3)
                        slash = slash ? memrchr(name, '/', (size_t) (slash - name)) : NULL;
                (void) snprintf(joined, sizeof(joined), "%.*s%s", slash ? (int) (slash - name) + 1 : 0, name,
                                rest);
                r = layer_name(joined, name);
        }
        return r < 0 ? r : -ELOOP;
}

static int read_member(int dir, const char *path, struct buf *out) {
        AUTO_FD int fd = open_member(dir, path);

        return fd < 0 ? fd : file_read(fd, MANIFEST_BYTES_MAX, out);
}

static json_t *load_member(int dir, const char *path, struct error *err) {
        AUTO_BUF struct buf text = { 0 };
        json_t *doc;
        int r;

        r = read_member(dir, path, &text);
        doc = r == 0 ? json_loadb(buf_cstr(&text), text.len, JSON_REJECT_DUPLICATES, NULL) : NULL;
        if (!doc)
                (void) error_set(err, r < 0 ? r : -EINVAL, "'%s': %s", ESC(path),
                                 r < 0 ? strerror(-r) : "not JSON");
        return doc;
}

static int blob_path(const char *digest, struct buf *out) {
        return buf_fmt(out, "blobs/sha256/%s", digest + HEX_AT);
}

/* A document of an OCI layout, compared with its digest and kept. */
static int take_blob(struct importing *im, const char *digest, json_t **ret, struct error *err) {
        AUTO_BUF struct buf path = { 0 }, text = { 0 };
        char have[DIGEST_TEXT_LEN + 1];
        int r;

        r = blob_path(digest, &path);
        if (r == 0)
                r = read_member(im->dir, buf_cstr(&path), &text);
        if (r == 0)
                r = digest_bytes(text.data, text.len, have);
        if (r < 0)
                return error_set(err, r, "'%s': %s", buf_cstr(&path), strerror(-r));
        if (strcmp(have, digest) != 0)
                return error_set(err, -EBADMSG, "'%s' is something else, %s", buf_cstr(&path), have);
        *ret = manifest_load(text.data, text.len, err);
        return *ret ? store_blob_put(im->store, digest, text.data, text.len, err) : err->code;
}

/* --- layers
 * ------------------------------------------------------------------------------------------------- */

/* The layer in the file @path, compared with its digest (NULL: none is known) before it is unpacked. */
static int take_layer(struct importing *im, size_t i, const char *path, const char *digest,
                      struct error *err) {
        AUTO_FD int fd = open_member(im->dir, path);
        const char *want = im->diff_ids[i];
        char have[DIGEST_TEXT_LEN + 1];
        struct layer_result result = { 0 };
        AUTO_FREE char *name = NULL;
        uint64_t size;
        int r;

        if (fd < 0)
                return error_set(err, fd, "layer '%s': %s", ESC(path), strerror(-fd));
        r = digest_file(fd, have, &size);
        if (r < 0)
                return error_set(err, r, "layer '%s': %s", ESC(path), strerror(-r));
        if (digest && strcmp(have, digest) != 0)
                return error_set(err, -EBADMSG, "layer '%s' is something else, %s", ESC(path), have);
        memcpy(im->layers[i].diff_id, want, DIGEST_TEXT_LEN + 1);
        im->layers[i].bytes = size;
        memcpy(im->manifest.layers[i].digest, have, sizeof(have));
        im->manifest.layers[i].size = size;
        if (store_has_layer(im->store, want))
                return 0;
        r = store_unpack(im->store, fd, true, &im->call->o.limits, &name, &result, err);
        if (r < 0)
                return r;
        im->layers[i].bytes = result.bytes;
        if (strcmp(result.diff_id, want) == 0)
                return store_keep_layer(im->store, name, want, err);
        (void) !store_drop(im->store, "tmp", name, NULL);
        return error_set(err, -EBADMSG, "layer '%s': unpacked it is %s, not %s as the configuration says",
                         ESC(path), result.diff_id, want);
}

/* --- names
 * -------------------------------------------------------------------------------------------------- */

static int add_name(struct importing *im, const char *text, struct error *err) {
        AUTO_REF struct ref ref = { 0 };
        int r;

        if (!text || im->n_names == MANIFEST_LAYERS_MAX)
                return 0;
        r = ref_parse(text, &ref, err);
        if (r == 0)
                im->names[im->n_names++] = TAKE_PTR(ref.text);
        return r;
}

static int record(struct importing *im, struct error *err) {
        int r = 0;

        if (im->name) {
                while (im->n_names > 0)
                        free(im->names[--im->n_names]);
                r = add_name(im, im->name, err);
        }
        im->names[im->n_names] = NULL;
        return r < 0 ? r
                     : store_record(im->store, im->digest, *im->index ? im->index : NULL, &im->manifest,
                                    im->layers, (const char *const *) im->names, err);
}

/* --- OCI
 * ------------------------------------------------------------------------------------------------------ */

static const char *text_of(const json_t *j, const char *key) {
        return json_string_value(json_object_get(j, key));
}

static const json_t *pick_entry(const struct importing *im, const json_t *index, struct error *err) {
        const json_t *list = json_object_get(index, "manifests"), *found = NULL;

        for (size_t i = 0; i < json_array_size(list); i++) {
                const json_t *entry = json_array_get(list, i);
                const char *name = text_of(json_object_get(entry, "annotations"), ref_name);

                if (im->pick && (!name || strcmp(name, im->pick) != 0))
                        continue;
                if (found) {
                        (void) error_set(err, -EINVAL, "there are several images: say which, oci:PATH:NAME");
                        return NULL;
                }
                found = entry;
        }
        if (!found)
                (void) error_set(err, -ENOENT, "no image '%s' there", ESC(im->pick ? im->pick : ""));
        return found;
}

/* The name in a layout may be a tag alone, which is no name of an image. */
static void oci_name(struct importing *im, const json_t *entry) {
        const char *full = text_of(json_object_get(entry, "annotations"), "io.containerd.image.name");
        const char *name = text_of(json_object_get(entry, "annotations"), ref_name);

        if (!full && name && strchr(name, '/'))
                full = name;
        (void) !add_name(im, full, NULL);
}

static int oci_manifest(struct importing *im, const char *digest, struct error *err) {
        char chosen[DIGEST_TEXT_LEN + 1];

        for (int depth = 0; digest_valid(digest) && depth < 3; depth++) {
                AUTO_JSON json_t *doc = NULL;
                struct descriptor d;
                int r;

                r = take_blob(im, digest, &doc, err);
                if (r < 0)
                        return r;
                if (!manifest_is_index(doc)) {
                        memcpy(im->digest, digest, DIGEST_TEXT_LEN + 1);
                        return manifest_read(doc, &im->manifest, err);
                }
                memcpy(im->index, digest, DIGEST_TEXT_LEN + 1);
                r = manifest_choose(doc, &im->call->o.platform, &d, err);
                if (r < 0)
                        return r;
                memcpy(chosen, d.digest, sizeof(chosen));
                digest = chosen;
        }
        return error_set(err, -EINVAL, "index.json: a digest that is not sha256, or indexes of indexes");
}

static int import_oci(struct importing *im, struct error *err) {
        AUTO_JSON json_t *index = load_member(im->dir, "index.json", err), *config = NULL;
        const json_t *entry = index ? pick_entry(im, index, err) : NULL;
        int r;

        if (!entry)
                return err->code;
        oci_name(im, entry);
        r = oci_manifest(im, text_of(entry, "digest") ? text_of(entry, "digest") : "", err);
        if (r == 0)
                r = take_blob(im, im->manifest.config.digest, &config, err);
        if (r == 0)
                r = config_diff_ids(config, im->diff_ids, im->manifest.n_layers, err);
        for (size_t i = 0; r == 0 && i < im->manifest.n_layers; i++) {
                AUTO_BUF struct buf path = { 0 };
                char digest[DIGEST_TEXT_LEN + 1];

                memcpy(digest, im->manifest.layers[i].digest, sizeof(digest));
                r = blob_path(digest, &path);
                r = r == 0 ? take_layer(im, i, buf_cstr(&path), digest, err)
                           : error_set(err, r, "out of memory");
        }
        return r == 0 ? record(im, err) : r;
}

/* --- what has no manifest of its own
 * ------------------------------------------------------------------------ */

/* A manifest is made, so that the image has a digest. */
static int make_manifest(struct importing *im, const void *config, size_t len, struct error *err) {
        static const char layer_type[] = "application/vnd.oci.image.layer.v1.tar";
        AUTO_JSON json_t *doc = NULL, *layers = json_array();
        AUTO_FREE char *text = NULL;
        int r;

        r = digest_bytes(config, len, im->manifest.config.digest);
        im->manifest.config.size = len;
        for (size_t i = 0; r == 0 && i < im->manifest.n_layers; i++)
                r = json_array_append_new(layers, json_pack("{s:s,s:s,s:I}", "mediaType", layer_type,
                                                            "digest", im->manifest.layers[i].digest, "size",
                                                            (json_int_t) im->manifest.layers[i].size));
        doc = json_pack("{s:i,s:s,s:{s:s,s:s,s:I},s:O}", "schemaVersion", 2, "mediaType",
                        "application/vnd.oci.image.manifest.v1+json", "config", "mediaType",
                        "application/vnd.oci.image.config.v1+json", "digest", im->manifest.config.digest,
                        "size", (json_int_t) len, "layers", layers);
        text = r == 0 && doc ? json_dumps(doc, JSON_COMPACT) : NULL;
        if (!text || digest_bytes(text, strlen(text), im->digest) < 0)
                return error_set(err, -ENOMEM, "out of memory");
        r = store_blob_put(im->store, im->digest, text, strlen(text), err);
        return r < 0 ? r : store_blob_put(im->store, im->manifest.config.digest, config, len, err);
}

static bool has_name(const json_t *image, const char *name) {
        const json_t *names = json_object_get(image, "RepoTags");

        for (size_t i = 0; i < json_array_size(names); i++) {
                const char *s = json_string_value(json_array_get(names, i));

                if (s && strcmp(s, name) == 0)
                        return true;
        }
        return false;
}

static const json_t *pick_image(const struct importing *im, const json_t *list, struct error *err) {
        const json_t *found = NULL;
        size_t n = 0;

        for (size_t i = 0; i < json_array_size(list); i++)
                if (!im->pick || has_name(json_array_get(list, i), im->pick)) {
                        found = json_array_get(list, i);
                        n++;
                }
        if (n == 1)
                return found;
        (void) error_set(err, n ? -EINVAL : -ENOENT,
                         n ? "there are several images: say which, docker-archive:PATH:NAME"
                           : "no such image there");
        return NULL;
}

static int import_docker(struct importing *im, const json_t *list, struct error *err) {
        const json_t *image = pick_image(im, list, err), *layers = json_object_get(image, "Layers");
        const json_t *names = json_object_get(image, "RepoTags");
        const char *config_path = text_of(image, "Config");
        AUTO_BUF struct buf text = { 0 };
        AUTO_JSON json_t *config = NULL;
        int r;

        if (!image)
                return err->code;
        if (!config_path || !json_is_array(layers) || json_array_size(layers) > MANIFEST_LAYERS_MAX)
                return error_set(err, -EINVAL, "manifest.json: no configuration, or no layers, or too many");
        im->manifest.n_layers = json_array_size(layers);
        r = read_member(im->dir, config_path, &text);
        if (r < 0)
                return error_set(err, r, "'%s': %s", ESC(config_path), strerror(-r));
        config = manifest_load(text.data, text.len, err);
        r = config ? config_diff_ids(config, im->diff_ids, im->manifest.n_layers, err) : err->code;
        for (size_t i = 0; r == 0 && i < im->manifest.n_layers; i++) {
                const char *path = json_string_value(json_array_get(layers, i));

                r = path ? take_layer(im, i, path, NULL, err)
                         : error_set(err, -EINVAL, "manifest.json: a layer without a name");
        }
        for (size_t i = 0; r == 0 && i < json_array_size(names); i++)
                r = add_name(im, json_string_value(json_array_get(names, i)), err);
        if (r == 0)
                r = make_manifest(im, text.data, text.len, err);
        return r == 0 ? record(im, err) : r;
}

/* tmp/@dir is the layer. */
static int import_rootfs(struct importing *im, const char *dir, const struct layer_result *result,
                         struct error *err) {
        const struct platform *p = &im->call->o.platform;
        AUTO_JSON json_t *config =
                json_pack("{s:s,s:s,s:{},s:{s:s,s:[s]}}", "architecture", p->arch, "os", p->os, "config",
                          "rootfs", "type", "layers", "diff_ids", result->diff_id);
        AUTO_FREE char *text = config ? json_dumps(config, JSON_COMPACT) : NULL;
        int r;

        if (!text)
                return error_set(err, -ENOMEM, "out of memory");
        im->manifest.n_layers = 1;
        memcpy(im->manifest.layers[0].digest, result->diff_id, sizeof(result->diff_id));
        memcpy(im->layers[0].diff_id, result->diff_id, sizeof(result->diff_id));
        im->layers[0].bytes = im->manifest.layers[0].size = result->bytes;
        r = store_keep_layer(im->store, dir, result->diff_id, err);
        if (r == 0)
                r = make_manifest(im, text, strlen(text), err);
        return r == 0 ? record(im, err) : r;
}

/* What an archive turned out to be. */
static int import_unpacked(struct importing *im, const char *tmp, const struct layer_result *result,
                           struct error *err) {
        AUTO_FREE char *path = NULL;
        AUTO_JSON json_t *docker = NULL;
        AUTO_FD int dir = -1;
        int r;

        if (asprintf(&path, "tmp/%s/fs", tmp) < 0) {
                path = NULL;
                return error_set(err, -ENOMEM, "out of memory");
        }
        dir = open_beneath(im->store->dir_fd, path, O_RDONLY | O_DIRECTORY, 0);
        if (dir < 0)
                return error_set(err, dir, "'%s': %s", path, strerror(-dir));
        im->dir = dir;
        docker = load_member(dir, "manifest.json", NULL);
        if (json_is_array(docker) && text_of(json_array_get(docker, 0), "Config"))
                r = import_docker(im, docker, err);
        else if (faccessat(dir, "oci-layout", F_OK, AT_SYMLINK_NOFOLLOW) == 0)
                r = import_oci(im, err);
        else
                return import_rootfs(im, tmp, result, err);
        (void) !store_drop(im->store, "tmp", tmp, NULL);
        return r;
}

/* tar, as whoever calls may read the directory: what it packs up is unpacked as anything foreign is. */
static int pack_up(const char *path, const char *dir, int *ret_fd, pid_t *ret_pid) {
        char *const argv[] = { (char[]){ "tar" },
                               (char[]){ "--one-file-system" },
                               (char[]){ "--numeric-owner" },
                               (char[]){ "--sort=name" },
                               (char[]){ "-cf" },
                               (char[]){ "-" },
                               (char[]){ "." },
                               NULL };
        int fds[2];

        if (pipe2(fds, O_CLOEXEC) < 0)
                return -errno;
        *ret_pid = fork();
        if (*ret_pid == 0) {
                if (chdir(dir) < 0 || dup2(fds[1], 1) < 0)
                        _exit(1);
                _exit(exec_in_path(argv, environ, path) != 0);
        }
        (void) fd_close(fds[1]);
        *ret_fd = fds[0];
        if (*ret_pid < 0) {
                *ret_fd = fd_close(fds[0]);
                return -errno;
        }
        return 0;
}

static int import_archive(struct importing *im, int fd, pid_t tar, struct error *err) {
        struct layer_result result = { 0 };
        AUTO_FREE char *tmp = NULL;
        int r, status = 0;

        r = store_unpack(im->store, fd, true, &im->call->o.limits, &tmp, &result, err);
        (void) fd_close(fd);
        while (tar > 0 && waitpid(tar, &status, 0) < 0 && errno == EINTR)
                ;
        if (r == 0 && status != 0) {
                (void) !store_drop(im->store, "tmp", tmp, NULL);
                r = error_set(err, -EIO, "tar could not read all of the directory");
        }
        return r < 0 ? r : import_unpacked(im, tmp, &result, err);
}

static int import_dir(struct importing *im, const char *path, struct error *err) {
        pid_t tar = -1;
        int fd = -1, r;

        if (faccessat(im->dir, "oci-layout", F_OK, AT_SYMLINK_NOFOLLOW) == 0)
                return import_oci(im, err);
        if (im->pick)
                return error_set(err, -ENOENT, "no OCI layout there");
        r = pack_up(im->call->path, path, &fd, &tar);
        return r < 0 ? error_set(err, r, "start tar: %s", strerror(-r)) : import_archive(im, fd, tar, err);
}

int import_path(struct image_call *call, struct store *store, const char *path, const char *pick,
                const char *name, char ret_digest[static DIGEST_TEXT_LEN + 1], struct error *err) {
        const char *const given = import_prefix(path);
        AUTO_FREE char *copy = strdup(given ? given : path);
        struct importing *im = calloc(1, sizeof(*im));
        AUTO_FD int fd = -1;
        struct stat st;
        char *colon = copy && given ? strchr(copy, ':') : NULL;
        int r = 0;

        if (colon) { /* oci:PATH:NAME */
                *colon = '\0';
                pick = colon + 1;
        }
        fd = copy && im ? open(copy, O_RDONLY | O_CLOEXEC) : -1;
        if (!copy || !im)
                r = error_set(err, -ENOMEM, "out of memory");
        else if (fd < 0 || fstat(fd, &st) < 0)
                r = error_set(err, -errno, "open: %s", strerror(errno));
        if (r == 0) {
                *im = (struct importing){
                        .call = call, .store = store, .dir = fd, .pick = pick, .name = name
                };
                r = S_ISDIR(st.st_mode) ? import_dir(im, copy, err)
                                        : import_archive(im, TAKE_FD(fd), -1, err);
                if (r == 0)
                        memcpy(ret_digest, im->digest, DIGEST_TEXT_LEN + 1);
                while (im->n_names > 0)
                        free(im->names[--im->n_names]);
        }
        free(im);
        return r < 0 ? error_wrap(err, r, "'%s'", ESC(path)) : 0;
}

int image_import(struct image_call *call) {
        AUTO_STORE struct store store = STORE_NONE;
        AUTO_REF struct ref ref = { 0 };
        char digest[DIGEST_TEXT_LEN + 1];
        struct error err = { 0 };

        if (call->argc > 1 && ref_parse(call->argv[1], &ref, &err) < 0) /* before all the work */
                return image_misused(&err);
        if (image_open(call, &store, &err) < 0 ||
            import_path(call, &store, call->argv[0], NULL, call->argc > 1 ? call->argv[1] : NULL, digest,
                        &err) < 0)
                return image_complain(&err);
        (void) printf("%s\n", digest);
        return CODE_OK;
}
