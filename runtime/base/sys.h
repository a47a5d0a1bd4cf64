/*
 * sys.h - system calls that glibc 2.36 does not wrap or that the 6.1 headers do not know
 *
 * Each returns the result or a negative errno. Numbers are those of every architecture (asm-generic unified
 * numbering since Linux 5.1).
 */
#pragma once

#include <linux/openat2.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#ifndef STATX_MNT_ID_UNIQUE
#define STATX_MNT_ID_UNIQUE 0x00004000U /* Linux 6.8 */
#endif
#ifndef RESOLVE_CACHED
#define RESOLVE_CACHED 0x20
#endif

/** sys_openat2() - Linux 5.6. @resolve: RESOLVE_*; O_CLOEXEC is added. Retries -EAGAIN (a rename raced) a few
 * times. */
int sys_openat2(int dir_fd, const char *path, int flags, mode_t mode, uint64_t resolve)
        __attribute__((warn_unused_result));

/**
 * open_beneath() - open @path below @dir_fd without following any symlink or magic link and without leaving
 * it
 * @flags: open(2) flags; O_CLOEXEC and O_NOFOLLOW are added
 * Return: descriptor, -ELOOP (a component is a symlink), -EXDEV (leaves @dir_fd), -errno.
 */
int open_beneath(int dir_fd, const char *path, int flags, mode_t mode) __attribute__((warn_unused_result));

/** open_beneath_long() - open_beneath() for a path of any length; no O_CREAT */
int open_beneath_long(int dir_fd, const char *path, int flags) __attribute__((warn_unused_result));

/** sys_mount_magic() - Linux 6.8: the file system (f_type of statfs(2)) of the mount with the unique number
 * @mnt_id, without asking that file system. Return: 0, -ENOSYS, -errno. */
int sys_mount_magic(uint64_t mnt_id, uint64_t *ret) __attribute__((warn_unused_result));

/** sys_open_tree() - Linux 5.2; OPEN_TREE_CLOEXEC is added */
int sys_open_tree(int dir_fd, const char *path, unsigned int flags) __attribute__((warn_unused_result));
/** sys_move_mount() - Linux 5.2 */
int sys_move_mount(int from_fd, const char *from, int to_fd, const char *to, unsigned int flags)
        __attribute__((warn_unused_result));
/** sys_fsopen() - Linux 5.2; FSOPEN_CLOEXEC is added */
int sys_fsopen(const char *fs) __attribute__((warn_unused_result));
/** sys_fsconfig() - Linux 5.2 */
int sys_fsconfig(int fs_fd, unsigned int cmd, const char *key, const void *value, int aux)
        __attribute__((warn_unused_result));
/** sys_fsmount() - Linux 5.2; FSMOUNT_CLOEXEC is added. @attr: MOUNT_ATTR_* */
int sys_fsmount(int fs_fd, unsigned int attr) __attribute__((warn_unused_result));

/** struct sys_mount_attr - the kernel's struct mount_attr (linux/mount.h clashes with sys/mount.h) */
struct sys_mount_attr {
        uint64_t attr_set;
        uint64_t attr_clr;
        uint64_t propagation;
        uint64_t userns_fd;
};
/** sys_mount_setattr() - Linux 5.12 */
int sys_mount_setattr(int dir_fd, const char *path, unsigned int flags, const struct sys_mount_attr *attr)
        __attribute__((warn_unused_result));

/** sys_pivot_root() - pivot_root(2) */
int sys_pivot_root(const char *new_root, const char *put_old) __attribute__((warn_unused_result));
/** sys_pidfd_open() - Linux 5.3 */
int sys_pidfd_open(pid_t pid) __attribute__((warn_unused_result));
/** sys_pidfd_send_signal() - Linux 5.1 */
int sys_pidfd_send_signal(int pidfd, int sig);
/** sys_close_range() - Linux 5.9; @flags: CLOSE_RANGE_* */
int sys_close_range(unsigned int first, unsigned int last, unsigned int flags);

/**
 * sys_clone() - fork-like clone(2): the child continues on a copy of the stack
 * @flags: CLONE_NEW* and the like, the signal is SIGCHLD; not CLONE_VM
 * @ret_pidfd: receives a pidfd in the parent (CLONE_PIDFD, Linux 5.2); NULL allowed
 * Forks; only async-signal-safe calls are sound in the child of a threaded process (ours have no threads).
 * Return: pid in the parent, 0 in the child, -errno.
 */
pid_t sys_clone(uint64_t flags, int *ret_pidfd) __attribute__((warn_unused_result));
