/*
 * registry-backend.h - where grants are kept: the part of a registry that may block
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "auth/registry.h"

/** struct registry_asked - one watched token: @id in, @why out (REGISTRY_OK: it lives) */
struct registry_asked {
        char id[TOKEN_ID_LEN + 1];
        enum registry_result why;
};

/**
 * struct registry_ops - a place for grants
 * @threads: how many threads each hold a session of their own; 0: nothing blocks, the one session is used
 * under the registry's lock
 * @session: a session for one thread; does not connect. NULL when out of memory.
 * @trouble: what was wrong with the last answer, "" when nothing; borrowed until the next one
 * @alive:   fills in @why of each; REGISTRY_UNAVAILABLE: nobody could be asked
 *
 * @now is in seconds since 1970. All others as the functions of registry.h named alike.
 */
struct registry_ops {
        size_t threads;
        void *(*session)(void *place, int stop_fd);
        void (*session_free)(void *session);
        enum registry_result (*put)(void *session, const struct grant *grant);
        enum registry_result (*get)(void *session, const char *id, uint64_t now, struct grant **ret);
        enum registry_result (*revoke)(void *session, const char *id, uint64_t now, uint64_t *ret);
        enum registry_result (*revoke_run)(void *session, const char *run, uint64_t now, uint64_t *ret);
        enum registry_result (*purge)(void *session, uint64_t now, uint64_t *ret);
        enum registry_result (*alive)(void *session, struct registry_asked *asked, size_t n);
        const char *(*trouble)(const void *session);
        uint64_t (*count)(const void *place);
        void (*free)(void *place);
};

extern const struct registry_ops registry_memory_ops, registry_postgres_ops;

/** registry_memory_new() - an empty place in memory. Return: owned, NULL when out of memory. */
void *registry_memory_new(void);

/** registry_postgres_new() - a place in a database, its tables up to date. Arguments and Return:
 * registry_open(). */
int registry_postgres_new(const struct registry_conf *conf, void **ret, struct error *err)
        __attribute__((warn_unused_result));

/** grant_dup() - a copy with a credential of its own. Return: owned, NULL when out of memory. */
struct grant *grant_dup(const struct grant *grant) __attribute__((warn_unused_result));
