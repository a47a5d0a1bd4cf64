/*
 * manifest.h - the JSON documents of an image: index, manifest and configuration, of OCI and of docker
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/spec/ref.h"

enum {
        MANIFEST_BYTES_MAX = 4 << 20, /* of a document, as registries have it */
        MANIFEST_LAYERS_MAX = 127,    /* as docker has it */
        MANIFEST_ENTRIES_MAX = 1024,  /* of an index */
};
#define MANIFEST_BLOB_MAX (UINT64_C(1) << 40) /* one terabyte */

/** struct descriptor - a document or layer by its content */
struct descriptor {
        char digest[DIGEST_TEXT_LEN + 1];
        uint64_t size; /* bytes */
};

/** struct platform - what an image is for; borrowed */
struct platform {
        const char *os, *arch, *variant; /* as Go names them; @variant NULL: any */
};

/** struct manifest - what an image is made of */
struct manifest {
        struct descriptor config;
        struct descriptor layers[MANIFEST_LAYERS_MAX]; /* lowest first */
        size_t n_layers;
};

/** manifest_platform() - that of this machine */
struct platform manifest_platform(void);

/** platform_parse() - "OS/ARCH[/VARIANT]", cut up in place. Return: 0, -EINVAL. */
int platform_parse(char *text, struct platform *ret) __attribute__((warn_unused_result));

/**
 * manifest_load() - the JSON document in @len foreign bytes
 * Duplicate keys are refused: readers disagree about which counts. Return: new reference; NULL with a
 * message.
 */
json_t *manifest_load(const void *data, size_t len, struct error *err) __attribute__((warn_unused_result));

/** manifest_is_index() - whether it lists manifests of platforms */
bool manifest_is_index(const json_t *doc);

/**
 * manifest_choose() - the entry of an index for @platform
 * Return: 0, -ENOENT (none; the message lists what there is), -EINVAL.
 */
int manifest_choose(const json_t *index, const struct platform *platform, struct descriptor *ret,
                    struct error *err) __attribute__((warn_unused_result));

/**
 * manifest_read() - check a manifest
 * @ret: written on success only
 * Return: 0, -EINVAL, -E2BIG (too many layers), -ENOTSUP (schema 1, or no image).
 */
int manifest_read(const json_t *doc, struct manifest *ret, struct error *err)
        __attribute__((warn_unused_result));

/**
 * config_diff_ids() - the digests of the layers as they are when nothing is compressed
 * @ret: @n of them
 * Return: 0, -EINVAL (not @n valid ones).
 */
int config_diff_ids(const json_t *config, char (*ret)[DIGEST_TEXT_LEN + 1], size_t n, struct error *err)
        __attribute__((warn_unused_result));
