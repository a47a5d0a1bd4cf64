/*
 * attr.h - attributes as the work sees them: whose a file is, in terms of the sandbox's user namespace
 *
 * The mount has default_permissions: the kernel decides on what is answered here. The owner is the caller or
 * nobody. A file of somebody else that the caller may write by its group or other bits is shown as the
 * caller's with those bits, since the kernel refuses writes to inodes with unmapped ids.
 */
#pragma once

#include "fs/server.h"

/** attr_init() - learn the supplementary groups of the process. Return: 0, -ENOMEM, -errno. */
int attr_init(struct idmap *ids, const struct guard_config *config) __attribute__((warn_unused_result));
void attr_deinit(struct idmap *ids);

/** attr_fill() - attributes of an object with the shown inode number @ino */
void attr_fill(const struct idmap *ids, const struct facts *facts, uint64_t ino, struct stat *ret);

/** attr_read() - attributes of @node now. Takes the tree when it has no open handle. Return: 0, -ESTALE,
 * -errno. */
int attr_read(struct server *s, struct node *node, struct stat *ret) __attribute__((warn_unused_result));

/** attr_merge() - a lower directory with a part in the upper: its newer times and, when it is held, the
 * upper's mode. the tree must be held. */
void attr_merge(struct server *s, struct node *dir, struct facts *facts);

/** attr_change_mode() - chmod of the object open as @fd, O_PATH too. Return: 0 or -errno. */
int attr_change_mode(int fd, mode_t mode) __attribute__((warn_unused_result));

/** op_getattr(), op_setattr() - low-level operations */
void op_getattr(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi);
void op_setattr(fuse_req_t req, fuse_ino_t ino, struct stat *attr, int to_set, struct fuse_file_info *fi);
