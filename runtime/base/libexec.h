/*
 * libexec.h - programs that are installed with this one and not meant for PATH
 */
#pragma once

enum { LIBEXEC_PATH_MAX = 4096 };

/**
 * libexec_exec() - execute a program of ours in place of this process
 * @name: its file name
 * @argv, @env: as execve(2) takes them
 *
 * It is looked for in ../libexec from the directory of this executable, so that an installation can be moved
 * as a whole, and then where it was configured to be installed. Async-signal-safe but for the stack it takes,
 * so it may be called after fork(). Return: only when it fails: -ENOENT (not installed), -errno of execve(2).
 */
int libexec_exec(const char *name, char *const argv[], char *const env[])
        __attribute__((nonnull(1, 2, 3), warn_unused_result));

/**
 * libexec_path() - where libexec_exec() would find @name
 * @ret: receives the path; untouched on failure
 * Return: 0, -ENOENT, -EACCES, -ENAMETOOLONG and others.
 */
int libexec_path(const char *name, char ret[LIBEXEC_PATH_MAX])
        __attribute__((nonnull(1, 2), warn_unused_result));

/** libexec_check() - whether libexec_exec() would find @name. Return: 0, -ENOENT, -EACCES and others. */
int libexec_check(const char *name) __attribute__((nonnull(1), warn_unused_result));
