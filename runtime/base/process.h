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

enum { BOOT_ID_SIZE = 37 };

/** process_boot_id() - the kernel's name for the time since the last boot. Return: 0 or -errno. */
int process_boot_id(char ret[BOOT_ID_SIZE]) __attribute__((warn_unused_result));
