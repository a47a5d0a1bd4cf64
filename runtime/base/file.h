/*
 * file.h - whole files, read and written without surprises
 */
#pragma once

#include <stddef.h>
#include <sys/types.h>

#include "runtime/base/buf.h"

/**
 * file_read() - append everything that can be read from @fd to @out
 * @max: ceiling in bytes of what this call may append
 * Blocks. Return: 0, -EFBIG (more than @max), -errno of read(2), -ENOMEM.
 */
int file_read(int fd, size_t max, struct buf *out) __attribute__((warn_unused_result));

/**
 * file_read_at() - file_read() of the regular file @path below @dir_fd
 * @dir_fd: or AT_FDCWD
 * Never blocks on a FIFO or device: anything but a regular file is -EINVAL. procfs files are regular.
 * Return: 0, -errno of openat(2), -EINVAL, or as file_read().
 */
int file_read_at(int dir_fd, const char *path, size_t max, struct buf *out)
        __attribute__((warn_unused_result));

/** write_all() - write(2) until all of @len is written. Blocks. Return: 0 or -errno. */
int write_all(int fd, const void *data, size_t len) __attribute__((warn_unused_result));

/**
 * file_replace_at() - replace or create @name in @dir_fd in one step: temporary file, [fsync], rename, [fsync
 * of @dir_fd]
 * @name:    one component
 * @mode:    permission bits of the new file (not changed by the umask)
 * @durable: with fsync of file and directory (survives a power failure), else only atomic for other processes
 * Return: 0 or -errno; on failure the old file is untouched and no temporary file is left.
 */
int file_replace_at(int dir_fd, const char *name, const void *data, size_t len, mode_t mode, bool durable)
        __attribute__((warn_unused_result));

/**
 * file_own_dir() - the directory @name in @dir_fd, if it is @uid's and nobody else can write to it
 * Return: descriptor; -ENOTDIR: a symbolic link or no directory; -EPERM: others have a say; -errno of
 * openat(2).
 */
int file_own_dir(int dir_fd, const char *name, uid_t uid) __attribute__((warn_unused_result));

/**
 * file_put() - write @text in one write(2) to an existing file (procfs, sysfs)
 * Return: 0 or -errno.
 */
int file_put(int dir_fd, const char *path, const char *text) __attribute__((warn_unused_result));

/**
 * file_goes_through() - whether @path, or a link on its way, lies below the directory @dir: whoever writes
 * there says where it leads
 * @path: as open(2) takes it, need not exist; @dir: physical
 * Return: as said; true for what is too long or has too many links.
 */
bool file_goes_through(const char *path, const char *dir);
