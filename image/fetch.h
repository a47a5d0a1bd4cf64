/*
 * fetch.h - layers from a registry into the store, several at once
 */
#pragma once

#include "image/registry.h"
#include "image/store.h"

enum { FETCH_PARALLEL_MAX = 16 };

/** struct fetch - what is fetched; all borrowed */
struct fetch {
        const struct store *store;
        const struct http_options *options;
        const struct ref *ref;
        const struct login *login;
        const struct manifest *manifest;
        const char (*diff_ids)[DIGEST_TEXT_LEN + 1]; /* as many as the manifest has layers */
        struct layer_limits limits;
        unsigned int parallel; /* 1..FETCH_PARALLEL_MAX */
        uint64_t wait_ms;      /* for another process that has a layer and does not get on with it */
        bool quiet;
};

/**
 * fetch_layers() - fetch what is not there
 * @layers: as many as the manifest has; filled
 * Each layer is downloaded, compared with its digest, unpacked and compared with its diff_id in a process of
 * its own; what is interrupted goes on where it was, also the next time. Progress goes to standard error.
 * Forks, blocks. Return: 0, or the error of the first layer that failed.
 */
int fetch_layers(const struct fetch *fetch, struct stored_layer *layers, struct error *err)
        __attribute__((warn_unused_result));
