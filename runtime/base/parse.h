/*
 * parse.h - numbers, sizes and durations as people write them; the whole string or nothing
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/** parse_u64() - decimal digits only. Return: 0, -EINVAL, -ERANGE (overflow or outside @min..@max). */
int parse_u64(const char *s, uint64_t min, uint64_t max, uint64_t *ret) __attribute__((warn_unused_result));

/** parse_octal() - a file mode such as "0600" or "644". Return: 0, -EINVAL, -ERANGE (> @max). */
int parse_octal(const char *s, uint32_t max, uint32_t *ret) __attribute__((warn_unused_result));

/** parse_bool() - true false yes no on off. Return: 0, -EINVAL. */
int parse_bool(const char *s, bool *ret) __attribute__((warn_unused_result));

/**
 * parse_size() - bytes with a unit: k M G T (1000), Ki Mi Gi Ti (1024), an optional final B; "0" needs none
 * Return: 0, -EINVAL, -ERANGE, or -EDOM when only the unit is missing (the caller names the likely meanings).
 */
int parse_size(const char *s, uint64_t min, uint64_t max, uint64_t *ret) __attribute__((warn_unused_result));

/**
 * parse_duration_ms() - milliseconds from ms s m h, also joined ("1h30m"); "0" needs no unit
 * Return: as parse_size().
 */
int parse_duration_ms(const char *s, uint64_t min, uint64_t max, uint64_t *ret)
        __attribute__((warn_unused_result));
