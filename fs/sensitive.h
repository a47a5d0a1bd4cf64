/*
 * sensitive.h - places of the host that are not for the work; used by pin.c and facts.c
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "fs/pin.h"
#include "fs/walk.h"

/** sensitive_fs() - the name of the kernel's file system with this f_type, NULL: it is none of them. Their
 * files are interfaces to the kernel or to other processes. Static. */
const char *sensitive_fs(uint64_t magic);

/**
 * sensitive_check() - whether the resolved source is, or lies in, a place that is refused
 * @given: as the user wrote it, for the message
 * @at, @id: where it led
 * Return: 0, -EPERM (with a message), -ENOMEM.
 */
int sensitive_check(const char *given, const struct walk *at, const struct walk_id *id,
                    const struct pin_policy *policy, struct error *err) __attribute__((warn_unused_result));
