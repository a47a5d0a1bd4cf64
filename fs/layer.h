/*
 * layer.h - the upper: what the work wrote and the host has not taken
 *
 * A plain directory tree in overlayfs's user-xattr format: a file or directory stands for the new version; a
 * zero-size file with "user.overlay.whiteout" in a directory with "user.overlay.opaque"="x" is a deletion; a
 * directory with "user.overlay.opaque"="y" hides the lower one. Copied-up files carry
 * "user.cofferdam.origin": the identity of the lower file at the time (struct layer_origin), for conflicts at
 * apply. All paths are relative, resolved beneath @upper_fd without following links: the tree's names were
 * chosen by the work.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

/** struct layer_origin - which lower file an upper file replaces; ino 0: there was none */
struct layer_origin {
        uint64_t dev, ino, size;
        int64_t mtime_ns, ctime_ns;
};

enum layer_kind { LAYER_ABSENT, LAYER_FILE, LAYER_DIR, LAYER_OPAQUE_DIR, LAYER_WHITEOUT };

/**
 * layer_lookup() - what the upper says about @name in the upper directory @dir_fd
 * @st: filled unless absent; NULL allowed
 * Return: 0 or -errno; a missing name is LAYER_ABSENT, not an error.
 */
int layer_lookup(int dir_fd, const char *name, enum layer_kind *ret, struct stat *st)
        __attribute__((warn_unused_result));

/**
 * layer_open_dir() - the directory @path of the upper, made with its parents when missing
 * @path:  relative, "" is the upper itself
 * @modes: modes of missing directories are taken from @lower_fd's directories of the same path where they
 * exist, else 0700 Return: O_PATH|O_DIRECTORY descriptor (owned), -ENOTDIR, -ELOOP, -errno.
 */
int layer_open_dir(int upper_fd, int lower_fd, const char *path) __attribute__((warn_unused_result));

/** layer_whiteout() - record that @name is deleted; an upper file or empty directory of that name must be
 * gone already */
int layer_whiteout(int dir_fd, const char *name) __attribute__((warn_unused_result));

/** layer_unwhiteout() - remove a whiteout of @name if there is one. Return: 0 or -errno. */
int layer_unwhiteout(int dir_fd, const char *name) __attribute__((warn_unused_result));

/**
 * layer_copy_up() - copy the lower file open as @lower_fd to @name in the upper directory @dir_fd
 * @with_data: false: start empty (O_TRUNC follows)
 * Regular files and symlinks; mode (without set-id bits), times, user xattrs and holes are kept, the origin
 * recorded. Atomic: temporary name, then rename. Return: 0, -EEXIST, -ENOSPC, -errno.
 */
int layer_copy_up(int lower_fd, int dir_fd, const char *name, bool with_data)
        __attribute__((warn_unused_result));

/** layer_set_origin() / layer_get_origin() - the origin xattr of the object open as @fd (not O_PATH). Get:
 * ino 0 when none. */
int layer_set_origin(int fd, const struct layer_origin *origin) __attribute__((warn_unused_result));
int layer_get_origin(int fd, struct layer_origin *ret) __attribute__((warn_unused_result));

/** layer_origin_of() - the identity in @st */
struct layer_origin layer_origin_of(const struct stat *st);
