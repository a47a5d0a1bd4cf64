/*
 * process.h - facts about processes
 */
#pragma once

#include <stdint.h>
#include <sys/types.h>

/**
 * process_start_time() - start of @pid in clock ticks after boot (field 22 of /proc/PID/stat)
 * A pid and its start time name a process for good. A zombie is gone.
 * Return: 0, -ESRCH (gone), -EINVAL (unreadable), -errno.
 */
int process_start_time(pid_t pid, uint64_t *ret) __attribute__((warn_unused_result));
