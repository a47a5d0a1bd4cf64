/*
 * itemtext.h - items written as one line of text: --mount, --seed, --env
 *
 * Each function fills an item that holds its defaults and returns 0, -EINVAL, -EPERM or -ENOMEM;
 * what was filled is the caller's to free in any case.
 */
#pragma once

#include "runtime/spec/value.h"

/** item_seed_text() - PATH[:TARGET]. @item: struct spec_seed. */
int item_seed_text(void *item, const struct doc *node, const struct source *src, struct error *err)
        __attribute__((warn_unused_result));

/** item_mount_is_volume() - whether @node, a text or a mapping, is of what only a cluster has: a claim, a
 * ConfigMap or a Secret */
bool item_mount_is_volume(const struct doc *node);

/** item_mount_text() - type=..,source=..,target=..[,readonly]. @item: struct spec_mount. */
int item_mount_text(void *item, const struct doc *node, const struct source *src, struct error *err)
        __attribute__((warn_unused_result));
/** item_mount_check() - what holds between the fields of a mount; a cache gets its target */
int item_mount_check(void *item, const struct doc *node, const struct source *src, struct error *err)
        __attribute__((warn_unused_result));

/** item_secret_text() - NAME=SOURCE[,inject=..][,env=..],host=..[,host=..]. @item: struct spec_secret. */
int item_secret_text(void *item, const struct doc *node, const struct source *src, struct error *err)
        __attribute__((warn_unused_result));

/** item_secret_check() - what holds between the fields of a secret */
int item_secret_check(void *item, const struct doc *node, const struct source *src, struct error *err)
        __attribute__((warn_unused_result));

/** item_env_text() - NAME=VALUE, or NAME: taken from the caller. @item: struct spec_env. */
int item_env_text(void *item, const struct doc *node, const struct source *src, struct error *err)
        __attribute__((warn_unused_result));
/** item_env_pair() - the variable called as @node is, with its value; null: taken from the caller */
int item_env_pair(struct spec_env *env, const struct doc *node, const struct source *src, struct error *err)
        __attribute__((warn_unused_result));
/** item_env_check() - what holds between the fields of a variable, and who may take one from the caller */
int item_env_check(void *item, const struct doc *node, const struct source *src, struct error *err)
        __attribute__((warn_unused_result));

/** item_dir_text() - one relative path. @item: char *. */
int item_dir_text(void *item, const struct doc *node, const struct source *src, struct error *err)
        __attribute__((warn_unused_result));

/** item_host_text() - one rule of the network. @item: char *. */
int item_host_text(void *item, const struct doc *node, const struct source *src, struct error *err)
        __attribute__((warn_unused_result));

/** item_text_text() - one text. @item: char *. */
int item_text_text(void *item, const struct doc *node, const struct source *src, struct error *err)
        __attribute__((warn_unused_result));

/** item_path_text() - one host path. @item: char *. */
int item_path_text(void *item, const struct doc *node, const struct source *src, struct error *err)
        __attribute__((warn_unused_result));
