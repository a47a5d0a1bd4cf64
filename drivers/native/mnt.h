/*
 * mnt.h - mounts by descriptor: a source is opened once, cloned from its descriptor and attached to a
 * descriptor; no path is walked twice
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* as in linux/mount.h, which clashes with sys/mount.h */
enum {
        MNT_RDONLY = 0x1,
        MNT_NOSUID = 0x2,
        MNT_NODEV = 0x4,
        MNT_NOEXEC = 0x8,
        MNT_IDMAP = 0x100000,
};

/** struct mnt_option - one option of a new file system; @value NULL: a flag */
struct mnt_option {
        const char *key, *value;
};

/**
 * mnt_new() - a new, detached mount
 * @attr: MNT_*
 * Return: mount descriptor, or -errno.
 */
int mnt_new(const char *type, const struct mnt_option *options, size_t n, uint64_t attr)
        __attribute__((warn_unused_result));

/**
 * mnt_clone() - a detached copy of what @name below @dir_fd is
 * @name:      resolved once, a final symbolic link is not followed; "": @dir_fd (O_PATH) itself
 * @recursive: with the mounts below it
 * @attr:      MNT_* to set, 0: none
 * @idmap_fd:  user namespace of an idmapped mount with MNT_IDMAP, else -1
 * Return: mount descriptor, or -errno.
 */
int mnt_clone(int dir_fd, const char *name, bool recursive, uint64_t attr, int idmap_fd)
        __attribute__((warn_unused_result));

/**
 * mnt_overlay() - a new, detached mount of the kernel's overlayfs, in the caller's user namespace
 * @lower:        descriptor of a directory that stays as it is
 * @upper, @work: two empty or earlier used directories of one file system, for nobody else's use; all three
 *                opened in the caller's own mount namespace, or detached mounts of it
 * @proc_fds:     where "/proc/self/fd" is for path resolution: kernels before 6.13 take no descriptors
 * @ret_context:  descriptor for mnt_forget(), owned; NULL allowed
 * The layer has the user-xattr format of fs/layer.h, so nothing of it needs a privilege. Whoever writes to
 * the mount later does so with the rights that the caller has now. Return: mount descriptor, or -errno.
 */
int mnt_overlay(int lower, int upper, int work, const char *proc_fds, int *ret_context)
        __attribute__((warn_unused_result));

/** mnt_overlay_of() - mnt_overlay() of @n lower directories, topmost first; before Linux 6.8 -E2BIG when
 * their names in @proc_fds take too much room (about 16) */
int mnt_overlay_of(const int *lowers, size_t n, int upper, int work, const char *proc_fds)
        __attribute__((warn_unused_result));

/**
 * mnt_forget() - have the kernel look up anew what is not in use of a file system
 * @context: what it was made by; needs the rights over the user namespace it was made in, which whoever made
 *           that namespace has. Return: 0 or -errno.
 */
int mnt_forget(int context);

/** mnt_attach() - attach the detached mount @mnt_fd on @point_fd. Return: 0 or -errno. */
int mnt_attach(int mnt_fd, int point_fd) __attribute__((warn_unused_result));

/**
 * mnt_point() - the mount point @path below @root_fd, made with its parents where it is missing
 * @path: relative, no "." or ".."
 * Only a tmpfs is ever changed, or the file system of @root_fd if that is an overlay of root_mount(): where a
 * parent lies on another one, a missing name is -ENOENT, so that nothing is created on the host. Symbolic
 * links are not followed. Return: O_PATH descriptor, -ENOENT, -ENOTDIR, -ELOOP, -EROFS, -errno.
 */
int mnt_point(int root_fd, const char *path, bool is_file) __attribute__((warn_unused_result));

/**
 * mnt_is_first() - whether the mount of @fd is the first of its namespace, with no other below it
 * Such a root (an initramfs that was not left) cannot be changed by pivot_root(2), only be covered.
 * @fd:     any file of the mount, O_PATH
 * @dir_fd: directory from which @info leads to "self/mountinfo" of a procfs
 * Return: false also when it cannot be told.
 */
bool mnt_is_first(int fd, int dir_fd, const char *info);
