/*
 * forms.h - options that are short ways to write an item of a list: --hold GLOB, --cache PATH, --env-file
 * FILE
 */
#pragma once

#include <stddef.h>

#include "runtime/spec/value.h"

/** struct form - one such option */
struct form {
        const char *name; /* without "--" */
        const char *metavar;
        enum section section; /* of the key that it adds to */
        const char *key;
        int (*apply)(struct spec *spec, const char *text, const struct source *src, struct error *err);
        const char *help;
};

/** forms_table() - all of them. @ret_n: how many. Static. */
const struct form *forms_table(size_t *ret_n);
