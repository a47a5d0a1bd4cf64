/*
 * seccomp-show.h - the system call filter in words, for people and programs
 */
#pragma once

#include <jansson.h>

#include "runtime/base/error.h"
#include "runtime/spec/spec.h"

/**
 * seccomp_show() - what a run of @spec would answer to each system call on this machine, and why
 * @ret: {"profile": PATH or null, "default": ANSWER, "skipped": N, "calls": [{"name", "number", "answer",
 * "why"}]}; new reference
 * An answer is "allow", the name of an error, "kill", or "by arguments".
 * Return: 0, as profile_read(), -ENOMEM.
 */
int seccomp_show(const struct spec *spec, json_t **ret, struct error *err)
        __attribute__((warn_unused_result));
