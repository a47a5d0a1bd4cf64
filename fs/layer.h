/*
 * layer.h - the upper: what the work wrote and the host has not taken
 *
 * A plain directory tree in overlayfs's user-xattr format: a file or directory stands for the new version; a
 * zero-size file with "user.overlay.whiteout" in a directory with "user.overlay.opaque"="x" is a deletion; a
 * directory with "user.overlay.opaque"="y" hides the lower one; "user.overlay.redirect" names the lower
 * directory that a renamed one is merged with. overlayfs mounted with "userxattr" shows the same tree when
 * the upper is its topmost lower layer, but for renamed directories: it does not follow their records then.
 * Objects that replace a lower one carry "user.overlay.cofferdam.origin": the identity of the lower object at
 * the time (struct layer_origin), for conflicts at apply. All paths are relative, resolved beneath @upper_fd
 * without following links: the tree's names were chosen by the work.
 *
 * What we record besides: "user.overlay.cofferdam.number", whose inode number a copy shows; and on a
 * directory "...cofferdam.link.HASH" and "...cofferdam.number.HASH", the same for the names in it that cannot
 * carry attributes or share their object with another name. All are below overlayfs's prefix: where the
 * kernel's overlay serves the region, it keeps the work from writing them.
 *
 * The origin belongs to the path, not to the object: whoever gives an upper object a new name (create, link,
 * rename) calls layer_claim() for that name, with what the lower has there or an empty origin.
 * Names that begin with LAYER_TEMP_PREFIX are ours; the work may not make them.
 * Thread-safe: every function works on descriptors only.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include "runtime/base/error.h"

#define LAYER_TEMP_PREFIX ".cofferdam-tmp-"

/** struct layer_origin - which lower object an upper object replaces; ino 0: there was none */
struct layer_origin {
        uint64_t dev, ino, size;
        int64_t mtime_ns, ctime_ns;
        uint32_t mode; /* with type bits */
};

enum layer_kind { LAYER_ABSENT, LAYER_FILE, LAYER_DIR, LAYER_OPAQUE_DIR, LAYER_WHITEOUT };

/**
 * layer_usable() - whether the directory @upper_fd can hold an upper: user xattrs are needed
 * Return: 0, -EOPNOTSUPP with a message that names the remedy, -errno.
 */
int layer_usable(int upper_fd, struct error *err) __attribute__((warn_unused_result));

/**
 * layer_lookup() - what the upper says about @name in the upper directory @dir_fd
 * @st: filled unless absent; NULL allowed
 * LAYER_FILE is anything that is neither directory nor whiteout. The kernel's own whiteout (a character
 * device 0:0) is read as LAYER_WHITEOUT too. Return: 0 or -errno; a missing name is LAYER_ABSENT, not an
 * error.
 */
int layer_lookup(int dir_fd, const char *name, enum layer_kind *ret, struct stat *st)
        __attribute__((warn_unused_result));

/**
 * layer_open_dir() - the directory @path of the upper, made with its parents when missing
 * @lower_fd: the region's directory, -1: none
 * @path:  relative, any length, no "." or ".." components; "" is the upper itself
 * Missing directories take their mode (u+rwx added, no set-id bits) and origin from @lower_fd's directories
 * of the same path where they exist, else 0700. Return: O_PATH|O_DIRECTORY descriptor (owned), -EINVAL (bad
 * path), -ENOTDIR (a whiteout or file is in the way), -ELOOP (a symlink is), -errno.
 */
int layer_open_dir(int upper_fd, int lower_fd, const char *path) __attribute__((warn_unused_result));

/**
 * layer_dress_dir() - give the new upper directory open as @fd the mode (u+rwx added, no set-id bits) and the
 * origin of the lower directory @lower_fd (-1: none)
 * Whoever makes an upper directory that stands for a lower one calls it before the name appears.
 * Return: 0 or -errno.
 */
int layer_dress_dir(int fd, int lower_fd) __attribute__((warn_unused_result));

/** layer_set_times() - give the directory open as @dir_fd (O_PATH allowed) the access and modification times
 * of @st, when something was put into it that was there before for the work */
void layer_set_times(int dir_fd, const struct stat *st);

/**
 * layer_set_opaque() - make the upper directory @name in @dir_fd hide the lower one ("y")
 * Return: 0, -ENOENT, -ENOTDIR, -errno.
 */
int layer_set_opaque(int dir_fd, const char *name) __attribute__((warn_unused_result));

/**
 * layer_set_redirect() - say which lower directory the upper directory @name in @dir_fd is merged with
 * @path: relative to the lower's root, written with a leading '/'; NULL: the one of its own path
 * Return: 0, -ENOSPC, -ERANGE, -E2BIG (too long for the file system), -errno.
 */
int layer_set_redirect(int dir_fd, const char *name, const char *path) __attribute__((warn_unused_result));

/**
 * layer_get_redirect() - what layer_set_redirect() or overlayfs wrote
 * @ret: owned; a path as above, or one name: a sibling in the lower directory that the parent is merged with;
 *       NULL: none
 * Return: 0, -EBADMSG (not a path of proper components), -ENOMEM, -errno.
 */
int layer_get_redirect(int dir_fd, const char *name, char **ret) __attribute__((warn_unused_result));

/**
 * layer_clear_opaque() - let the directory open as @dir_fd hide the names in @hidden one by one instead of
 * all
 * @hidden:   names the lower directory has and this one lacks
 * @since_ns: modification time of the whiteouts: when the names were hidden (see diff.h)
 * The mark goes last: cut off anywhere, the directory shows the same. Return: 0 or -errno.
 */
int layer_clear_opaque(int dir_fd, char *const *hidden, size_t n, int64_t since_ns)
        __attribute__((warn_unused_result));

/**
 * layer_whiteout() - record that @name is deleted; an upper file or empty directory of that name must be
 * gone already
 * @lower: identity of what is deleted; NULL: not known (then what changed after the whiteout was made is a
 * conflict)
 * In an opaque directory nothing is recorded: the lower name is hidden already.
 * Return: 0, -EEXIST, -errno.
 */
int layer_whiteout(int dir_fd, const char *name, const struct layer_origin *lower)
        __attribute__((warn_unused_result));

/** layer_needs_whiteouts() - whether a deletion in @dir_fd has to be recorded: it is not opaque. It is marked
 * as one that holds whiteouts then. Return: 0 or -errno. */
int layer_needs_whiteouts(int dir_fd, bool *ret) __attribute__((warn_unused_result));

/**
 * layer_cover() - layer_whiteout() in the place of the upper file @name, at once
 * In an opaque directory the file is removed. Return: 0 or -errno.
 */
int layer_cover(int dir_fd, const char *name, const struct layer_origin *lower)
        __attribute__((warn_unused_result));

/**
 * layer_unwhiteout() - remove a whiteout of @name if there is one
 * @ret: origin the whiteout carried, for layer_claim() of what takes its place; ino 0 when none; NULL allowed
 * Return: 0 or -errno.
 */
int layer_unwhiteout(int dir_fd, const char *name, struct layer_origin *ret)
        __attribute__((warn_unused_result));

/**
 * layer_copy_up() - copy the lower file open as @lower_fd to @name in the upper directory @dir_fd
 * @lower_fd:  regular file open for reading, or symlink open with O_PATH|O_NOFOLLOW
 * @with_data: false: start empty (O_TRUNC follows)
 * Regular files, symlinks, FIFOs and sockets; mode (without set-id bits), times, user xattrs and holes are
 * kept, the origin recorded. Atomic: filled without a name, then linked. Return: 0, -EEXIST,
 * -ENOSPC, -EINVAL (another type), -errno.
 */
int layer_copy_up(int lower_fd, int dir_fd, const char *name, bool with_data)
        __attribute__((warn_unused_result));

/** layer_copy_up_quietly() - layer_copy_up() that leaves the times of @dir_fd as they are */
int layer_copy_up_quietly(int lower_fd, int dir_fd, const char *name, bool with_data)
        __attribute__((warn_unused_result));

/** layer_link_known() - make @new_name in @new_dir, which the lower has as a link to the same file, a link to
 * the copy @name in @dir_fd, leaving the directory's times. Return: 0 or -errno. */
int layer_link_known(int dir_fd, const char *name, int new_dir, const char *new_name)
        __attribute__((warn_unused_result));

/** layer_copy_nameless() - layer_copy_up() of a regular file to one without a name on the file system of
 * @upper_fd. Return: descriptor open for reading and writing, -errno. */
int layer_copy_nameless(int lower_fd, int upper_fd) __attribute__((warn_unused_result));

/**
 * layer_copy_up_dir() - layer_copy_up() of a directory, without what is in it
 * @lower_fd: O_PATH allowed. The times of @dir_fd stay what they are.
 * Return: 0, -EEXIST, -errno.
 */
int layer_copy_up_dir(int lower_fd, int dir_fd, const char *name) __attribute__((warn_unused_result));

/** layer_copy_attrs() - what layer_copy_up_dir() gives the new directory, for the upper directory open as
 * @fd: attributes, origin, mode, times. Return: 0 or -errno. */
int layer_copy_attrs(int fd, int lower_fd) __attribute__((warn_unused_result));

/**
 * layer_claim() - record that the upper object @name in @dir_fd now stands for the lower object @lower
 * @lower: ino 0: there is none at this path; a record of an earlier name is removed
 * The records of symlinks, FIFOs and sockets are kept by the directory, which has room for a few. An object
 * that its mode closes to its owner is opened up for the moment (needs /proc). Return: 0 or -errno.
 */
int layer_claim(int dir_fd, const char *name, const struct layer_origin *lower)
        __attribute__((warn_unused_result));

/**
 * layer_open_read() - open the upper file @name for reading, also when the work took that right from its
 * owner The mode is as before when it returns. Needs /proc. Return: descriptor, -ELOOP (a symlink), -errno.
 */
int layer_open_read(int dir_fd, const char *name) __attribute__((warn_unused_result));

/** layer_set_origin() / layer_get_origin() - the origin xattr of the object open as @fd (not O_PATH). Get:
 * ino 0 when none; -EBADMSG when the record is not one of ours. */
int layer_set_origin(int fd, const struct layer_origin *origin) __attribute__((warn_unused_result));
int layer_get_origin(int fd, struct layer_origin *ret) __attribute__((warn_unused_result));

/** layer_origin_at() - what layer_claim() recorded for @name in @dir_fd, as layer_get_origin() */
int layer_origin_at(int dir_fd, const char *name, struct layer_origin *ret)
        __attribute__((warn_unused_result));

/**
 * layer_set_number() / layer_get_number() - whose inode number the upper object @name in @dir_fd shows: that
 * of the lower object it was copied from; @ino 0: its own Belongs to the object; what is neither file nor
 * directory leaves it to the directory, by name: whoever gives such an object a name, or a name such an
 * object, sets it anew. Return: 0 or -errno.
 */
int layer_set_number(int dir_fd, const char *name, uint64_t dev, uint64_t ino)
        __attribute__((warn_unused_result));
int layer_get_number(int dir_fd, const char *name, uint64_t *ret_dev, uint64_t *ret_ino)
        __attribute__((warn_unused_result));

/** layer_origin_of() - the identity in @st */
struct layer_origin layer_origin_of(const struct stat *st);

/**
 * layer_origin_same() - whether @st is still the object of @origin
 * Directories by inode only (their times change with their entries). The device number is not compared: it
 * may change over a restart of the host.
 */
bool layer_origin_same(const struct layer_origin *origin, const struct stat *st);
