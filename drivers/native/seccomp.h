/*
 * seccomp.h - which system calls the work in the sandbox may make
 *
 * compile once, before any child exists; load in the child, right before execve.
 */
#pragma once

#include <linux/filter.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/base/error.h"

/* the answer to a call; the CHECK_ ones look at arguments (checks[] in seccomp.c) */
enum seccomp_action {
        SECCOMP_ENOSYS, /* as on a kernel without it; also the answer to every call in no table */
        SECCOMP_ALLOW,
        SECCOMP_EPERM,
        SECCOMP_NEVER,         /* EPERM, whatever a profile says */
        SECCOMP_NEVER_ENOSYS,  /* ENOSYS, whatever a profile says */
        SECCOMP_NESTED_EPERM,  /* EPERM, allowed with nested_userns */
        SECCOMP_NESTED_ENOSYS, /* ENOSYS, allowed with nested_userns */
        SECCOMP_CHECK_CLONE,
        SECCOMP_CHECK_UNSHARE,
        SECCOMP_CHECK_IOCTL,
        SECCOMP_CHECK_SOCKET,
        SECCOMP_CHECK_SOCKETPAIR,
        SECCOMP_CHECK_PERSONALITY,
        SECCOMP_SETID_MODE1, /* allowed; with no_setid unless argument 1 has a set-id bit */
        SECCOMP_SETID_MODE2,
        SECCOMP_SETID_OPEN, /* the same for the mode of a file that is made */
        SECCOMP_SETID_OPENAT,
        SECCOMP_SETID_ENOSYS, /* allowed; with no_setid it is not there: its mode cannot be seen */
        SECCOMP_ACTION_COUNT
};

enum seccomp_arch { SECCOMP_X86_64, SECCOMP_AARCH64, SECCOMP_ARCH_COUNT };
#ifdef __x86_64__
#define SECCOMP_HOST SECCOMP_X86_64
#elif defined(__aarch64__)
#define SECCOMP_HOST SECCOMP_AARCH64
#else
#error "the system call filter knows x86-64 and aarch64"
#endif
enum { SECCOMP_NO_NR = -1 }; /* the architecture does not have the call */

/** struct seccomp_rule - one system call */
struct seccomp_rule {
        const char *name;
        int nr[SECCOMP_ARCH_COUNT];
        enum seccomp_action action;
        const char *why; /* one line */
};

extern const struct seccomp_rule seccomp_rules[];
extern const size_t n_seccomp_rules;

/** struct seccomp_options - what a specification can change */
struct seccomp_options {
        bool nested_userns; /* the work may make namespaces and mounts of its own */
        bool no_setid;      /* no file gets a set-id bit: for files of the host that no guard serves */
        bool unix_only;     /* no socket of another family: for a sandbox in the host's network */
        bool floor;         /* only what no profile can open is refused: a profile says the rest */
};

enum {
        SECCOMP_NR_MAX = 512,      /* numbers from here on are unknown; x32 numbers are far above */
        SECCOMP_PROGRAM_MAX = 256, /* a jump reaches 255 instructions */
};

#define SECCOMP_DEFAULT      "default" /* what security.seccomp says without a profile */
#define SECCOMP_BY_ARGUMENTS "by arguments"

/** seccomp_rule_answer() - "allow", the name of an error, or SECCOMP_BY_ARGUMENTS. Static. */
const char *seccomp_rule_answer(const struct seccomp_rule *rule, const struct seccomp_options *opt);

/** struct seccomp_program - a compiled filter; plain memory, may be copied */
struct seccomp_program {
        size_t len;
        struct sock_filter insns[SECCOMP_PROGRAM_MAX];
};

/**
 * seccomp_filter_compile() - make the filter
 * @arch: SECCOMP_HOST, or another one's to look at
 * @opt: borrowed
 * @ret: the program; untouched on failure
 * Return: 0, -ENOMEM, -E2BIG (the tables grew beyond what one program can hold).
 */
int seccomp_filter_compile(enum seccomp_arch arch, const struct seccomp_options *opt,
                           struct seccomp_program *ret, struct error *err)
        __attribute__((warn_unused_result));

/**
 * filter_load() - put the calling thread under @len instructions for good; needs no_new_privs
 * Async-signal-safe, also in a CLONE_VM child.
 * Return: 0, -EACCES (no_new_privs is not set), -EINVAL (kernel without seccomp filters), -errno.
 */
int filter_load(const struct sock_filter *insns, size_t len) __attribute__((warn_unused_result));

/** seccomp_filter_load() - filter_load() of @program */
int seccomp_filter_load(const struct seccomp_program *program) __attribute__((warn_unused_result));
