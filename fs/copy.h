/*
 * copy.h - contents and attributes of one regular file, copied between descriptors
 */
#pragma once

#include <stdint.h>
#include <sys/stat.h>

/* extended attributes of overlayfs, and ours among them: an overlay of the kernel keeps the work from setting
 * any, as we do; never copied between host and upper */
#define COPY_XATTR_OVERLAY "user.overlay."
#define COPY_XATTR_OURS    COPY_XATTR_OVERLAY "cofferdam."

/**
 * copy_data() - make the empty file @dst_fd hold the first @size bytes of @src_fd
 * @src_fd: regular file open for reading, its offset may change
 * @dst_fd: empty regular file open for writing, its offset may change
 *
 * Shares blocks where the file system can, copies inside the kernel where it can, and keeps holes. A source
 * that shrinks meanwhile leaves a hole. Blocks. Return: 0, -ENOSPC, -EDQUOT, -errno.
 */
int copy_data(int src_fd, int dst_fd, uint64_t size) __attribute__((warn_unused_result));

/**
 * copy_xattrs() - the "user." attributes of @src_fd but overlayfs's and ours, onto @dst_fd
 * A file system without user attributes on the source side has none to copy; on the destination side they
 * are left out. Return: 0, -ENOSPC, -ENOMEM, -errno.
 */
int copy_xattrs(int src_fd, int dst_fd) __attribute__((warn_unused_result));

/** copy_times() - access and modification time of @st onto @dst_fd. Return: 0 or -errno. */
int copy_times(const struct stat *st, int dst_fd) __attribute__((warn_unused_result));
