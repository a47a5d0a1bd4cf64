/*
 * secrets.h - credentials that come inside, as files or variables
 *
 * The process that starts the run reads their values; those of files are in files in memory until the sandbox
 * has them, those of variables in memory as long as commands are started.
 */
#pragma once

#include "drivers/driver.h"
#include "runtime/base/ctx.h"
#include "runtime/base/error.h"
#include "runtime/spec/spec.h"

enum { SECRET_FILE_MAX = 1 << 20 };

/** struct secrets - owned; variables are cleared when they are freed */
struct secrets {
        struct file_secret *files; /* their fd owned */
        size_t n_files;
        char **env; /* "NAME=value" and "NAME=/run/secrets/.." */
        size_t n_env;
};
#define SECRETS_INIT \
        { 0 }

/** secrets_wanted() - whether the specification has any that come inside. @files: as files */
bool secrets_wanted(const struct spec *spec, bool files);

/** secrets_without() - @spec with the others only. @ret: freed with spec_free(). Return: 0, -ENOMEM. */
int secrets_without(const struct spec *spec, struct spec **ret, struct error *err)
        __attribute__((warn_unused_result));

/**
 * secrets_read() - from the caller's environment and files; borrows the names of @spec
 * @err: names the variable or file, never what it holds
 * Return: 0, -EINVAL (none there; for a variable more than a line), -EFBIG, -errno of the file, -ENOMEM.
 */
int secrets_read(const struct ctx *ctx, const struct spec *spec, struct secrets *ret, struct error *err)
        __attribute__((warn_unused_result));

/** secrets_erase() - their values from the environment of this process, also as /proc shows it */
void secrets_erase(const struct ctx *ctx, const struct spec *spec);

/** secrets_drop_files() - the sandbox has them */
void secrets_drop_files(struct secrets *secrets);

void secrets_deinit(struct secrets *secrets);
#define AUTO_SECRETS __attribute__((cleanup(secrets_deinit)))

/** secret_fd() - a file in memory that holds @data. Return: descriptor, -errno. */
int secret_fd(const void *data, size_t len) __attribute__((warn_unused_result));
