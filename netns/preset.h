/*
 * preset.h - lists of hosts that come with the program
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/** struct preset - rules under a name; static */
struct preset {
        const char *name;
        const char *const *rules; /* ends with NULL */
};

/** preset_find() - the preset called the @len bytes at @name; NULL: there is none */
const struct preset *preset_find(const char *name, size_t len);

/** preset_names() - "default, none, ...": for messages and help; static */
const char *preset_names(void);

/**
 * preset_is_telemetry() - whether the canonical name @name is a telemetry host that common tools call unasked
 * Refusing it is no news: such a refusal is not reported. It says nothing about whether it is refused.
 */
bool preset_is_telemetry(const char *name);
