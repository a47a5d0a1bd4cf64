/*
 * exposed.h - the credentials of a run, and whether something else would bring one inside
 */
#pragma once

#include <stdbool.h>

#include "runtime/base/ctx.h"
#include "runtime/base/error.h"
#include "runtime/spec/spec.h"

/** struct credentials - owned; cleared when they are freed */
struct credentials {
        char *model; /* NULL: not asked for */
        bool model_oauth;
        char **values; /* one for each of the specification's secrets */
        size_t n;
        const char *issuer; /* the key of the service, with which anyone has a token of any kind issued;
                             * borrowed from the environment, NULL: none */
};

/** credentials_wanted() - whether the specification has any */
bool credentials_wanted(const struct spec *spec);

/**
 * credentials_read() - from the caller's environment and files
 * @err: names the variable or file, never what it holds
 * Return: 0, -EINVAL (none there, or one that no header can carry), -errno of the file, -ENOMEM.
 */
int credentials_read(const struct ctx *ctx, const struct spec *spec, struct credentials *ret,
                     struct error *err) __attribute__((warn_unused_result));
void credentials_deinit(struct credentials *credentials);

/**
 * credentials_erase() - from the environment of this process, also as /proc shows it
 * Afterwards the variables are set and empty. Nothing else of the specification may need them: see
 * exposed_check().
 */
void credentials_erase(const struct ctx *ctx, const struct spec *spec);

/**
 * exposed_check() - whether variables, seeds or mounted files of the specification hold what stays outside
 * Refused are: variables by which programs take a credential of the same kind, variables and files whose
 * content holds one of the credentials or the key of the service that issues tokens, or any key of a model
 * that a token stands for, and those whose place a token takes. Directories are looked through when they are
 * seeds, not when they are mounted; files above 64 MiB, or the limit of a seed, are not. Return: 0, -EPERM
 * (names the variable or file), -EINVAL (variables of git that a basic secret sets).
 */
int exposed_check(const struct ctx *ctx, const struct spec *spec, const struct credentials *credentials,
                  struct error *err) __attribute__((warn_unused_result));

/** exposed_name() - whether a variable is one by which a model's credential is taken */
bool exposed_name(const char *name);
