/*
 * seccomp-profile.h - a profile in the form of the OCI runtime specification, also as container engines ship
 * it
 *
 * A profile says which system calls the work may make, in place of the reasons of seccomp-table.c. What no
 * profile can open stays refused by a filter of its own (struct seccomp_options, floor): both are in force.
 */
#pragma once

#include <jansson.h>
#include <linux/filter.h>
#include <seccomp.h>
#include <stddef.h>
#include <stdint.h>

#include "drivers/native/seccomp.h"
#include "runtime/base/error.h"

enum {
        PROFILE_BYTES_MAX = 1 << 20,
        PROFILE_CALLS_MAX = 4096, /* names of all entries together */
        PROFILE_ARGS_MAX = 6,
};

/** struct profile_call - what a profile says about one system call, with its conditions */
struct profile_call {
        const struct seccomp_rule *rule;
        uint32_t action; /* SCMP_ACT_ */
        unsigned int n_args;
        struct scmp_arg_cmp args[PROFILE_ARGS_MAX];
};

/** struct profile - what applies to this machine, in the order of the file */
struct profile {
        uint32_t action; /* of a call without an entry */
        struct profile_call *calls;
        size_t n_calls;
        size_t n_skipped; /* names that this machine or this program does not have */
};

/** struct profile_program - a compiled profile */
struct profile_program {
        struct sock_filter *insns; /* owned */
        size_t len;
};

/**
 * profile_parse() - @len bytes that anybody may have written
 * @ret: on success; free with profile_deinit()
 * What cannot be expressed is refused by name: actions that need a listener or a tracer, flags, conditions
 * that are no comparison, several conditions on one argument, a call to refuse that nobody knows. An entry
 * that is for a process with capabilities does not apply: there are none.
 * Return: 0, -EINVAL (syntax, types, values), -ENOTSUP (not expressible), -E2BIG, -ENOMEM.
 */
int profile_parse(const char *data, size_t len, struct profile *ret, struct error *err)
        __attribute__((warn_unused_result));

/** profile_read() - profile_parse() of the regular file @path. Return: as there, -EFBIG, -errno. */
int profile_read(const char *path, struct profile *ret, struct error *err)
        __attribute__((warn_unused_result));

/** profile_compile() - @ret: free with profile_program_deinit(). Return: 0, -E2BIG, -EINVAL, -ENOMEM. */
int profile_compile(const struct profile *profile, struct profile_program *ret, struct error *err)
        __attribute__((warn_unused_result));

/** profile_answer() - what @profile says about @rule in words; @cap bytes at @out */
void profile_answer(const struct profile *profile, const struct seccomp_rule *rule, char *out, size_t cap);

void profile_deinit(struct profile *profile);
void profile_program_deinit(struct profile_program *program);

#define AUTO_PROFILE __attribute__((cleanup(profile_deinit)))
