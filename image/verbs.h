/*
 * verbs.h - what the words behind `cofferdam image` do
 */
#pragma once

#include <stdbool.h>

#include "image/authfile.h"
#include "image/http.h"
#include "image/layer.h"
#include "image/manifest.h"
#include "image/store.h"
#include "runtime/base/ctx.h"
#include "runtime/spec/flags.h"

/* exit codes, as those of cofferdam itself */
enum { CODE_OK = 0, CODE_FAILED = 1, CODE_USAGE = 2 };

enum { IMAGE_BYTES_DEFAULT_GIB = 64 };

/** struct image_options - of all words; strings borrowed from argv */
struct image_options {
        bool json, quiet, missing, all, insecure;
        const char *ca_file, *authfile, *tag;
        char *platform_text; /* owned; @platform points into it */
        struct platform platform;
        struct layer_limits limits;
        uint64_t parallel;
        uint64_t wait_ms;              /* for others who are at the same */
        uint64_t unused_s, keep_bytes; /* of gc; UINT64_MAX: not given */
};

/** struct image_call - one invocation */
struct image_call {
        const struct ctx *ctx;
        const char *path; /* PATH */
        struct authfile_env auth;
        struct image_options o;
        int argc; /* words behind the options */
        char **argv;
};

/** image_pull() - pull each word. Return: exit code. */
int image_pull(struct image_call *call);
/** image_import() - import the file or directory of the first word, as the name of the second. Return: exit
 * code. */
int image_import(struct image_call *call);
/** image_ls() - all images. Return: exit code. */
int image_ls(struct image_call *call);
/** image_inspect() - what is known of each word, as JSON. Return: exit code. */
int image_inspect(struct image_call *call);
/** image_rm() - remove each word. Return: exit code. */
int image_rm(struct image_call *call);
/** image_gc() - remove what is not used. Return: exit code. */
int image_gc(struct image_call *call);
/** image_root() - what the native driver needs of an image, as JSON; pulls what is missing. Return: exit
 * code. */
int image_root(struct image_call *call);

/** pull_one() - pull @name, or find it in @store with options.missing; @ret_digest: of its manifest. Return:
 * 0, -errno. */
int pull_one(struct image_call *call, struct store *store, const char *name,
             char ret_digest[static DIGEST_TEXT_LEN + 1], struct error *err)
        __attribute__((warn_unused_result));

/**
 * import_path() - import the OCI layout, the archive of docker or OCI, or the root file system at @path
 * @pick: which image of several, a name as it stands there; NULL: the only one
 * @name: what it is called here; NULL: as there
 * Return: 0, -ENOENT, -EINVAL, -EBADMSG and others.
 */
int import_path(struct image_call *call, struct store *store, const char *path, const char *pick,
                const char *name, char ret_digest[static DIGEST_TEXT_LEN + 1], struct error *err)
        __attribute__((warn_unused_result));

/** import_prefix() - whether @name is "oci:", "oci-archive:" or "docker-archive:" and a path; the path,
 * borrowed, or NULL */
const char *import_prefix(const char *name);

/** image_open() - store_open() for this invocation. Return: as that. */
int image_open(const struct image_call *call, struct store *ret, struct error *err)
        __attribute__((warn_unused_result));

/** image_names_valid() - whether all words are names of images, before any work; or, with @files, what
 * import_prefix() knows. Says on standard error which is not. */
bool image_names_valid(const struct image_call *call, bool files) __attribute__((warn_unused_result));

/** image_misused() - image_complain() of a command line that is wrong. Return: CODE_USAGE. */
int image_misused(const struct error *err);

/** image_complain() - @err on standard error. Return: CODE_FAILED. */
int image_complain(const struct error *err);
