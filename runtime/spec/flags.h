/*
 * flags.h - the command line: options of the specification (keys.h), and those of one verb
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "runtime/base/buf.h"
#include "runtime/base/error.h"
#include "runtime/spec/spec.h"

struct source;

/** struct flag_option - an option of a verb that is not a key of the specification */
struct flag_option {
        const char *name;    /* without "--" */
        char letter;         /* short form, 0: none */
        const char *metavar; /* of the value in help; NULL: takes none */
        /* @value: borrowed from argv, NULL when it takes none. Return: 0 or -errno, described without the
         * name. NULL: @on of @arg becomes true. */
        int (*set)(void *arg, const char *value, struct error *err);
        const char *help; /* one sentence without a final stop */
        size_t on;        /* without @set: offset of a bool */
};

/** struct flag_set - what a verb understands; static */
struct flag_set {
        const char *usage;   /* "cofferdam run [OPTIONS] [--] COMMAND [ARG...]" */
        const char *summary; /* one sentence for the help */
        const struct flag_option *options;
        size_t n_options;
        bool spec; /* also the options of the specification, --spec and --tier */
};

struct flag_use;

/** struct flags - a parsed command line; strings borrowed from argv */
struct flags {
        struct flag_use *uses; /* options of the specification, in order, owned */
        size_t n_uses;
        const char **specs; /* --spec files, in order, owned array */
        size_t n_specs;
        enum spec_tier spec_tier; /* of these files: TIER_FLAG, or TIER_WORKFLOW by --tier workflow */
        bool help;                /* --help was given: nothing else counts */
        int next;                 /* index into argv of the first word that is no option; argc: none */
};

/**
 * flags_parse() - read argv[1..] up to the first word that is no option, or behind "--"
 * @arg: handed to the setters of @set
 * @ret: caller frees with flags_free()
 * Return: 0, -EINVAL (a usage error, exit code 2; the message names the option), -ENOMEM, or what a setter
 * says.
 */
int flags_parse(const struct flag_set *set, int argc, char **argv, void *arg, struct flags **ret,
                struct error *err) __attribute__((warn_unused_result));

/** flags_free() - accepts NULL. Return: NULL. */
struct flags *flags_free(struct flags *flags);

/**
 * flags_apply() - set what the command line says, in order
 * @spec: may be half changed on failure
 * Blocks (reads --env-file). Return: 0, -EINVAL, -E2BIG, -ENOTSUP, -ENOMEM, -errno of an open.
 */
int flags_apply(const struct flags *flags, struct spec *spec, const struct spec_env_view *view,
                struct error *err) __attribute__((warn_unused_result));

/**
 * flags_say() - set one value by name
 * @name: a key, "network.mode", or an option without its dashes, "network"
 * @spec: may be half changed on failure
 * Return: 0, -EINVAL, -E2BIG, -EPERM, -ENOTSUP, -ENOMEM.
 */
int flags_say(struct spec *spec, const char *name, const char *value, const struct spec_env_view *view,
              struct error *err) __attribute__((warn_unused_result));

/** flags_help() - the help of a verb, lines of at most 80 columns. Return: 0, -ENOMEM, -E2BIG. */
int flags_help(const struct flag_set *set, struct buf *out) __attribute__((warn_unused_result));

/** flags_names() - call @each with every long option (without "--"), for completion and tests */
void flags_names(const struct flag_set *set,
                 void (*each)(void *arg, const char *name, char letter, const char *metavar), void *arg);

static inline void auto_flags(struct flags **p) {
        *p = flags_free(*p);
}
#define AUTO_FLAGS __attribute__((cleanup(auto_flags)))
