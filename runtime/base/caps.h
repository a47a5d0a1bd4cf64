/*
 * caps.h - giving capabilities up
 */
#pragma once

#include <stdint.h>

#define CAP_BIT(cap) (UINT64_C(1) << (cap))

/**
 * caps_keep() - drop every capability that is not in @mask (CAP_BIT()s) from every set, for good
 * One that the process does not have stays out. Nothing that is executed later has any.
 * Return: 0 or -errno.
 */
int caps_keep(uint64_t mask) __attribute__((warn_unused_result));
