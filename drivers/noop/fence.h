/*
 * fence.h - what a command on the host can be kept from without a namespace: landlock and two filters
 *
 * The last rung of the ladder (docs/adr/030): there is no guard and no root of its own, processes and names
 * of the host can be seen. Nothing but the workspace and two directories of the run can be changed, no socket
 * be made, no process outside be touched.
 */
#pragma once

#include "drivers/driver.h"

struct fence;

/**
 * fence_new() - open what stays reachable, compile the filters
 * @workspace: absolute
 * @ret: caller frees with fence_free(); written on success only
 * Return: 0, -ENOTSUP (the specification asks for more than this keeps, or the host lacks landlock), -errno.
 */
int fence_new(const struct ctx *ctx, const struct spec *spec, const char *workspace, struct fence **ret,
              struct error *err);

/** fence_free() - accepts NULL. Return: NULL. */
struct fence *fence_free(struct fence *fence);

/** fence_open() - the directories of a run below @run_fd, for HOME and TMPDIR. Return: 0 or -errno. */
int fence_open(struct fence *fence, int run_fd);

/** fence_env() - NULL-terminated: the variables that commands get, but for the specification's; borrowed */
char *const *fence_env(const struct fence *fence);

/** fence_enter() - in the command's process, right before execve. Return: 0 or -errno: there must be no
 * execve. */
int fence_enter(const struct fence *fence) __attribute__((warn_unused_result));
