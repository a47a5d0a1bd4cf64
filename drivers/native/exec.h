/*
 * exec.h - one command: a child that shares pid 1's memory until execve
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "drivers/native/proto.h"
#include "drivers/native/seccomp-profile.h"

/** struct command - what to execute; everything borrowed */
struct command {
        const char *cwd;
        char **argv;                           /* NULL-terminated */
        char **env;                            /* NULL-terminated */
        const char *path;                      /* PATH of @env, NULL: none */
        int stdio[3];                          /* -1: closed in the command */
        const struct profile_program *profile; /* a further filter, len 0: none */
        bool tty;                              /* stdio[0] is a terminal that becomes the controlling one */
};

/**
 * command_start() - make a process and execute @command in it
 * @ret_errno: 0, or why execve (or a step before it) failed, negative when it is the working directory that
 *             could not be entered; the process is gone then
 * Blocks until execve. The child gets: a session of its own, exactly descriptors 0..2, an empty signal mask,
 * umask 022. No capabilities and the system call filter it inherits. Return: pid, or -errno when there is no
 * process.
 */
pid_t command_start(const struct command *command, int *ret_errno);
