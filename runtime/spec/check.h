/*
 * check.h - the form of single values, by name from the key table
 *
 * Each function returns NULL when @text is well formed, else what it must be ("must be ..."), static.
 */
#pragma once

#include <stdbool.h>

/* MAX_ARG_STRLEN of the kernel: what execve(2) takes as one string, with its NUL */
enum { CHECK_ENV_MAX = 131072 };

/** check_name() - a run's name: letters, digits, '_', '.' and '-', not '.' or '-' first */
const char *check_name(const char *text);
/** check_user() - UID, UID:GID or an account's name */
const char *check_user(const char *text);
/** check_image() - as ref_parse(), or a transport of an engine and what it takes ("oci:DIR"); no option of a
 * command line */
const char *check_image(const char *text);
/** image_names_file() - whether the image @text is a file, directory or store of the host ("oci:DIR"), as
 * engines and the native driver take it, and not one of a registry */
bool image_names_file(const char *text);
/** check_stage() - name or number of a stage of a Dockerfile */
const char *check_stage(const char *text);
/** check_env_name() - no '=', no blank and no control character */
const char *check_env_name(const char *text);
/** check_env_value() - one line */
const char *check_env_value(const char *text);
/** check_glob() - one line, not empty */
const char *check_glob(const char *text);
/** check_below() - a relative path that stays below its directory, without "." and ".." */
const char *check_below(const char *text);
/** check_seccomp() - "default" or an absolute path */
const char *check_seccomp(const char *text);
/** check_cpus() - a number with at most 3 decimals, above 0 */
const char *check_cpus(const char *text);

/** check_secret_name(), check_secret_env() - what logs call a secret, the variable that gets its token */
const char *check_secret_name(const char *text);
const char *check_secret_env(const char *text);

/** check_secret_from() - "env:NAME" or "file:" and an absolute path */
const char *check_secret_from(const char *text);

/** check_secret_inject() - one of the ways of struct spec_secret */
const char *check_secret_inject(const char *text);

/** check_secret_hosts() - names joined by ',' */
const char *check_secret_hosts(const char *text);

/** check_service() - "http://HOST:PORT" or "unix:" and an absolute path; no path, user or query */
const char *check_service(const char *text);
