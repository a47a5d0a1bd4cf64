/*
 * user.h - passwd and group entries without NSS (a static program must not load its plug-ins)
 *
 * Only the local files are read. Users of a directory service have no entry here; callers make one up from
 * the environment of the caller (see drivers/native).
 */
#pragma once

#include <sys/types.h>

/** struct user - one account; the strings are owned */
struct user {
        char *name;
        uid_t uid;
        gid_t gid;
        char *home;
        char *shell;
};

/**
 * user_by_uid() - the entry of @uid in @passwd_path (usually "/etc/passwd")
 * @ret: caller frees with user_deinit(); written on success only
 * Return: 0, -ENOENT (no entry), -ENOMEM, -EINVAL (not a regular file), -errno of the open.
 */
int user_by_uid(const char *passwd_path, uid_t uid, struct user *ret) __attribute__((warn_unused_result));

/** user_by_name() - as user_by_uid(), by name */
int user_by_name(const char *passwd_path, const char *name, struct user *ret)
        __attribute__((warn_unused_result));

/** user_deinit() - free the strings; accepts a zeroed struct */
void user_deinit(struct user *u);

#define AUTO_USER __attribute__((cleanup(user_deinit)))
