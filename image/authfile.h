/*
 * authfile.h - what docker and podman have noted of a login: ~/.docker/config.json, containers' auth.json and
 * the programs they name
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>

#include "runtime/spec/ref.h"

enum { AUTHFILE_BYTES_MAX = 1 << 20, CREDENTIAL_TEXT_MAX = 16384 };

/** struct login - who is asked for; strings owned, NULL: not there. The memory is erased when it is freed. */
struct login {
        char *user, *password;
        char *identity_token; /* in place of both: exchanged for an access token */
        char *helper;         /* program to ask: docker-credential-<helper> */
        char *key;            /* what it is to be asked for */
};

/** struct authfile_env - where to look; borrowed, NULL: not set */
struct authfile_env {
        const char *explicit;    /* --authfile, $REGISTRY_AUTH_FILE: this one and no other */
        const char *runtime_dir; /* $XDG_RUNTIME_DIR */
        const char *config_dir;  /* $XDG_CONFIG_HOME */
        const char *docker_dir;  /* $DOCKER_CONFIG */
        const char *home;
};

/**
 * authfile_read() - what one file says of @ref's registry
 * @doc: the file, foreign
 * @ret: caller frees with login_deinit(); empty: nothing
 * The entry that names most of "HOST/PATH" counts; one of a program only if there is no other.
 * Return: 0, -EINVAL (an entry is malformed), -ENOMEM.
 */
int authfile_read(const json_t *doc, const struct ref *ref, struct login *ret, struct error *err)
        __attribute__((warn_unused_result));

/**
 * login_find() - look through the files, and ask the program if one is named
 * @path: PATH, where the program is looked for
 * Blocks, forks; a program has 30 seconds. Return: 0 (@ret may be empty), -EINVAL, -ETIMEDOUT, -ENOENT (no
 * such program), -EIO (it failed), -errno.
 */
int login_find(const struct authfile_env *env, const char *path, const struct ref *ref, struct login *ret,
               struct error *err) __attribute__((warn_unused_result));

/** helper_answer() - read what a program answered, @len foreign bytes. Return: 0, -EINVAL, -ENOMEM. */
int helper_answer(const char *text, size_t len, struct login *ret) __attribute__((warn_unused_result));

/** login_deinit() - accepts a zeroed struct */
void login_deinit(struct login *login);
#define AUTO_LOGIN __attribute__((cleanup(login_deinit)))
