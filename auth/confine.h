/*
 * confine.h - what the service gives up: it holds credentials and needs to run nothing
 */
#pragma once

#include "runtime/base/error.h"

/**
 * confine_service() - for the process and all threads that it will have
 * No core file, memory that other processes of the user cannot read, no new privileges, and no system call
 * that executes a program, looks into a process, changes namespaces or mounts, or loads code into the kernel:
 * these fail with EPERM. Allowed is the rest: libraries of the distribution resolve names and speak to
 * databases in ways that change with them. Return: 0, -errno.
 */
int confine_service(struct error *err) __attribute__((warn_unused_result));
