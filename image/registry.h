/*
 * registry.h - the pulling half of the OCI distribution protocol
 */
#pragma once

#include "image/authfile.h"
#include "image/http.h"
#include "image/manifest.h"
#include "runtime/spec/ref.h"

struct registry;

/**
 * registry_new() - who is asked for the images of @ref's registry
 * @options, @ref, @login: borrowed, outlive it
 * Return: NULL: out of memory.
 */
struct registry *registry_new(const struct http_options *options, const struct ref *ref,
                              const struct login *login) __attribute__((warn_unused_result));

/** registry_free() - accepts NULL. Return: NULL. */
struct registry *registry_free(struct registry *registry);

/**
 * registry_manifest() - fetch a manifest or an index
 * @what:  a tag or a digest
 * @out:   its bytes; those of a digest are what it says
 * @digest: receives what they have
 * Blocks. Return: 0, -ENOENT (no such image), -EACCES (not allowed), -EBADMSG (not what the digest says),
 * -EBUSY (asked too often), -EAGAIN (the registry has a problem), or as http_get().
 */
int registry_manifest(struct registry *registry, const char *what, struct buf *out,
                      char digest[static DIGEST_TEXT_LEN + 1], struct error *err)
        __attribute__((warn_unused_result));

/**
 * registry_blob() - fetch the bytes of a blob from @from on, to a sink as that of struct http_request
 * What arrives is not checked here. Blocks. Return: as registry_manifest(); -ERANGE: there is nothing from
 * @from on.
 */
int registry_blob(struct registry *registry, const struct descriptor *blob, uint64_t from,
                  int (*sink)(void *arg, const void *data, size_t len, bool whole), void *arg,
                  struct error *err) __attribute__((warn_unused_result));

/** struct tries - of one thing; zeroed but for the first two */
struct tries {
        unsigned int max; /* in a row without getting on */
        bool begun;       /* the registry has answered before, as another object knows */
        unsigned int n, wait_s;
};

/**
 * registry_retry_s() - whether what failed with @r may be tried again
 * Problems of a registry and broken connections pass; who never answered is not asked again. After more of it
 * arrived than before, @tries is begun anew by the caller.
 * Return: in how many seconds, as the registry said or longer each time; 0: no more.
 */
unsigned int registry_retry_s(const struct registry *registry, struct tries *tries, int r);

/** token_answer() - the token in what a token server answered, @len foreign bytes; owned. Return: 0, -EINVAL,
 * -ENOMEM. */
int token_answer(const char *text, size_t len, char **ret) __attribute__((warn_unused_result));

static inline void auto_registry(struct registry **p) {
        *p = registry_free(*p);
}
#define AUTO_REGISTRY __attribute__((cleanup(auto_registry)))
