/*
 * ref.h - names of images: [docker://][HOST[:PORT]/]PATH[:TAG][@sha256:HEX], as docker and podman users write
 * them
 */
#pragma once

#include "runtime/base/error.h"

enum { REF_TEXT_MAX = 512, REF_TAG_MAX = 128, DIGEST_TEXT_LEN = 71, DIGEST_HEX_LEN = 64 };

/** struct ref - a name in full; strings owned */
struct ref {
        char *registry; /* HOST[:PORT]; "docker.io" where none was given */
        char *repo;     /* lower case; "library/debian" for "debian" at docker.io */
        char *tag;      /* NULL: a digest alone was given */
        char *digest;   /* "sha256:" and 64 digits; NULL: none */
        char *text;     /* the same in one line */
};

/**
 * ref_parse() - read a name; without tag and digest the tag is "latest"
 * @text: foreign bytes
 * @ret:  caller frees with ref_deinit(); written on success only
 * Return: 0, -EINVAL (the message says what is wrong), -ENOMEM.
 */
int ref_parse(const char *text, struct ref *ret, struct error *err) __attribute__((warn_unused_result));

/** ref_wrong() - what ref_parse() has against @text, to stand behind it; static; NULL: nothing */
const char *ref_wrong(const char *text) __attribute__((nonnull));

/** ref_deinit() - accepts a zeroed struct */
void ref_deinit(struct ref *ref);
#define AUTO_REF __attribute__((cleanup(ref_deinit)))

/** digest_valid() - whether @s is "sha256:" and 64 digits of lower case, and nothing more */
_Bool digest_valid(const char *s) __attribute__((nonnull));
