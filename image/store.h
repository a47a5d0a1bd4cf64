/*
 * store.h - images on disk
 *
 * <state>/images/  blobs/<hex>          manifests and configurations
 *                  partial/<hex>        a layer while it is fetched; <hex>.lock: by whom
 *                  layers/<hex>-<ids>/fs  a layer by its diff_id, unpacked, see layer.h and ids.h
 *                  images/<hex>.json    an image by the digest of its manifest; a run that uses it has a
 * shared lock refs/<hex>.json      a name; <hex> is the digest of its text tmp/                 what is being
 * made lock                 shared: somebody adds or reads; exclusive: something is removed
 *
 * Everything appears complete, by rename(2). What a killed process leaves is in tmp/ and partial/ or is not
 * referred to; store_sweep() removes it.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>

#include "image/ids.h"
#include "image/layer.h"
#include "image/manifest.h"
#include "image/wait.h"
#include "runtime/base/buf.h"
#include "runtime/base/ctx.h"

/** struct store - opened; fields are for store.c and the verbs to read */
struct store {
        int dir_fd, lock_fd;
        char *path; /* absolute; owned */
        struct ids ids;
};

/** struct stored_layer - of a record */
struct stored_layer {
        char diff_id[DIGEST_TEXT_LEN + 1];
        uint64_t bytes; /* of its files */
};

/**
 * store_open() - make it if it is not there, and take the shared lock
 * @search_path: PATH
 * @wait: for what is removed meanwhile
 * Blocks. Return: 0, -EAGAIN (something is removed still), -ENOENT (no state directory), -errno.
 */
int store_open(const struct ctx *ctx, const char *search_path, const struct lock_wait *wait,
               struct store *ret, struct error *err) __attribute__((warn_unused_result));

/** store_close() - accepts what store_open() left untouched if its fields are -1 and NULL */
void store_close(struct store *s);
#define AUTO_STORE __attribute__((cleanup(store_close)))
#define STORE_NONE \
        { .dir_fd = -1, .lock_fd = -1 }

/** store_exclusive() - have it alone. Return: 0, -EBUSY (somebody adds), -errno. */
int store_exclusive(struct store *s, struct error *err) __attribute__((warn_unused_result));

/** store_layer_path() - "layers/<hex>-<ids>/fs" of @diff_id, as unpacked for this caller. Return: 0, -ENOMEM.
 */
int store_layer_path(const struct store *s, const char *diff_id, struct buf *out)
        __attribute__((warn_unused_result));

/** store_has_layer() - whether it is there */
bool store_has_layer(const struct store *s, const char *diff_id);

/**
 * store_unpack() - unpack an archive into tmp/
 * @archive_fd: read from its position
 * @owners: files belong to whom the archive says, as far as the store's ids go
 * @ret_name: the directory in tmp/ that holds "fs"; owned
 * Forks: it is done in a confined process. Return: as layer_apply(), ids_run().
 */
int store_unpack(const struct store *s, int archive_fd, bool owners, const struct layer_limits *limits,
                 char **ret_name, struct layer_result *ret, struct error *err)
        __attribute__((warn_unused_result));

/** store_keep_layer() - make tmp/@name the layer @diff_id; if that is there, remove it. Return: 0, -errno. */
int store_keep_layer(const struct store *s, const char *name, const char *diff_id, struct error *err)
        __attribute__((warn_unused_result));

/** store_drop() - remove @dir/@name and what is in it, with the rights over its ids. Return: 0, -errno. */
int store_drop(const struct store *s, const char *dir, const char *name, struct error *err)
        __attribute__((warn_unused_result));

/** store_blob_put() - keep a document under its digest. Return: 0, -errno. */
int store_blob_put(const struct store *s, const char *digest, const void *data, size_t len, struct error *err)
        __attribute__((warn_unused_result));

/** store_blob_get() - its bytes, compared with the digest. Return: 0, -ENOENT, -EBADMSG, -errno. */
int store_blob_get(const struct store *s, const char *digest, struct buf *out)
        __attribute__((warn_unused_result));

/**
 * store_record() - note an image that is there in full, and the names it has
 * @digest: of its manifest
 * @index:  of the index it was chosen from; NULL
 * @names:  NULL-terminated; each belongs to this image from now on
 * Return: 0, -errno.
 */
int store_record(const struct store *s, const char *digest, const char *index, const struct manifest *m,
                 const struct stored_layer *layers, const char *const *names, struct error *err)
        __attribute__((warn_unused_result));

/** store_image() - the record of the image @digest; new reference. Return: 0, -ENOENT, -EBADMSG, -errno. */
int store_image(const struct store *s, const char *digest, json_t **ret) __attribute__((warn_unused_result));

/**
 * store_lookup() - the image that @name means: a name, a digest, or the start of a digest or id of 12 digits
 * at least
 * @ret: new reference to its record
 * Return: 0, -ENOENT, -EEXIST (ambiguous), -errno.
 */
int store_lookup(const struct store *s, const char *name, json_t **ret) __attribute__((warn_unused_result));

/** store_complete() - whether all layers of a record are there for this caller */
bool store_complete(const struct store *s, const json_t *record);

/** store_list() - all images: an array of records, each with "names" and "used" (seconds since 1970); NULL:
 * out of memory */
json_t *store_list(const struct store *s) __attribute__((warn_unused_result));

/** store_unname() - forget a name. Return: 0, -ENOENT, -errno. */
int store_unname(const struct store *s, const char *name) __attribute__((warn_unused_result));

/** store_forget() - remove the record of an image and its names; its layers are store_sweep()'s. Return: 0,
 * -EBUSY (a run uses it), -errno. */
int store_forget(const struct store *s, const json_t *record, struct error *err)
        __attribute__((warn_unused_result));

/** store_touch() - it was used now */
void store_touch(const struct store *s, const char *digest);

/**
 * store_sweep() - remove what nothing refers to
 * @ret_removed: how many layers. Needs store_exclusive(). Blocks, forks.
 * Return: 0, the first -errno; what can be removed is.
 */
int store_sweep(const struct store *s, uint64_t *ret_removed, struct error *err)
        __attribute__((warn_unused_result));
