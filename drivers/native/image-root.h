/*
 * image-root.h - a root of the sandbox that is not the host's: an image, or a directory with a root file
 * system
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "runtime/base/buf.h"
#include "runtime/base/ctx.h"
#include "runtime/base/error.h"
#include "runtime/spec/spec.h"

struct driver_plan;
struct pin_policy;

enum { ROOT_LAYERS_MAX = 128 };

/** enum root_ids - which ids the sandbox has besides that of the work; see image/ids.h */
enum root_ids { ROOT_IDS_OWN, ROOT_IDS_RANGE, ROOT_IDS_SINGLE };

/** struct root_map - a range of ids: @first.. of the host are 1.. inside, 0 is the caller */
struct root_map {
        uint32_t first, n;
};

/** struct image_root - what was found; made by root_plan() */
struct image_root {
        char *name;                   /* as it was asked for; owned */
        char digest[80];              /* of the manifest; "": a directory */
        char *paths[ROOT_LAYERS_MAX]; /* topmost first; absolute, without symlinks; owned */
        int layers[ROOT_LAYERS_MAX];  /* O_PATH, owned */
        size_t n_layers;
        int lock_fd;    /* says that a run uses the image; owned, -1: a directory */
        json_t *config; /* "config" of the image: Env, User, ...; owned, NULL */
        enum root_ids ids;
        struct root_map uids, gids; /* of ROOT_IDS_RANGE */
        char why_single[128];       /* why not more ids; "" */
};

/**
 * root_possible() - whether this host mounts what an image or a directory as the root takes, if @spec has one
 * Before anything is pulled. Forks, see host_can(). Return: 0, DRIVER_HOST_LACKS with doctor's words.
 */
int root_possible(const struct ctx *ctx, const struct spec *spec, struct error *err)
        __attribute__((warn_unused_result));

/**
 * root_plan() - find the root that @spec names; an image that is not here is pulled
 * @ret: NULL: the host's root
 * Blocks, forks. Return: 0, DRIVER_NO_IMAGE, -ENOTSUP (this installation knows no images), -EPERM (a
 * directory that is refused), -ENOENT and others.
 */
int root_plan(const struct ctx *ctx, const struct spec *spec, const struct pin_policy *policy,
              struct image_root **ret, struct error *err) __attribute__((warn_unused_result));

/** root_free() - accepts NULL. Return: NULL. */
struct image_root *root_free(struct image_root *root);

/**
 * root_read() - a small file of the root
 * @path: absolute, at most two parts, as "/etc/passwd"
 * A file behind a symbolic link is not there. Return: 0, -ENOENT, -EFBIG, -errno.
 */
int root_read(const struct image_root *root, const char *path, struct buf *out)
        __attribute__((warn_unused_result));

/** root_user() - who works: @asked (--user), else the image's user; NULL: the caller as himself */
const char *root_user(const struct image_root *root, const char *asked);

/** root_env() - add the image's variables. Return: 0, -E2BIG, -ENOMEM. */
int root_env(struct driver_plan *plan) __attribute__((warn_unused_result));

/** root_maps() - write the maps of process @pid, from outside. Forks for a range. Return: 0, -EPERM, -errno.
 */
int root_maps(const struct driver_plan *plan, pid_t pid, struct error *err)
        __attribute__((warn_unused_result));

/** root_enter() - open the layers in the mount namespace of the caller, before it changes ids. Return: 0,
 * -errno. */
int root_enter(const struct image_root *root, int ret_fd[static ROOT_LAYERS_MAX])
        __attribute__((warn_unused_result));

/**
 * root_mount() - the root: what is made in it until it is read-only is in memory
 * @layers: of root_enter()
 * @proc_fd: "/proc"; the current directory is changed. Return: mount descriptor, -errno.
 */
int root_mount(const struct image_root *root, const int *layers, int proc_fd)
        __attribute__((warn_unused_result));

/** root_json() - what describe() says of it; new reference; NULL: the host's root */
json_t *root_json(const struct image_root *root) __attribute__((warn_unused_result));
