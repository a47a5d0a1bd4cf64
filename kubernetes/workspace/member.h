/*
 * member.h - what a name and a link target of a hostile archive may be; nothing here touches a file system
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

enum { MEMBER_DEPTH_MAX = 255, MEMBER_PATH_MAX = 4095 };

/**
 * member_path() - the path below the workspace that the archive calls @raw
 * "./" in front, empty and "." components are dropped; nothing else is repaired.
 * @ret: owned; "" is the workspace itself
 * @ret_why: static text of why it is refused; untouched on success; NULL allowed
 * Return: 0, -EPERM (absolute, "..", a name of ours), -ENAMETOOLONG (also too deep), -ENOMEM.
 */
int member_path(const char *raw, char **ret, const char **ret_why) __attribute__((warn_unused_result));

/**
 * member_excluded() - whether @path (of member_path()) never comes back from a copy: hooks, configuration and
 * stored credentials of git, of the repository, its submodules, its worktrees and of nested repositories
 * Names are compared as file systems that fold case do.
 */
bool member_excluded(const char *path);

/**
 * member_link_stays() - whether a symbolic link at @path to @target can only lead to something below @root
 * @root: absolute and normal path of the workspace, the same inside and on the host; NULL: not the same, and
 *        absolute targets leave
 * ".." behind a name is refused: where it leads depends on what that name is.
 */
bool member_link_stays(const char *path, const char *target, const char *root);

/** member_credentials - the name in a git directory of the credentials that the driver puts there */
extern const char member_credentials[];
