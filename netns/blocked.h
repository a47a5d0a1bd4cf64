/*
 * blocked.h - refusals told to whoever writes events, at a rate that a loop inside cannot flood
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "netns/host.h"
#include "netns/loop.h"

enum {
        BLOCKED_HOSTS_MAX = 128, /* that are told apart at a time; more are counted together */
        BLOCKED_TEXT_MAX = 128,
};

/** struct blocked - refusals of one kind; strings are borrowed during the call */
struct blocked {
        const char *host; /* canonical, or what was given when it has no such form; "" when there was none */
        uint16_t port;    /* 0: not known */
        const char *reason; /* a phrase */
        const char *rule;   /* text of the rule that decided, NULL */
        uint64_t count;     /* refusals since the last call about them */
};

typedef void (*blocked_fn)(void *arg, const struct blocked *blocked);

struct blocked_log;

/**
 * blocked_new() - @fn gets the first refusal of a host, port and reason at once, and then counts every
 * @period_ns
 * @ret: caller frees with blocked_free(), which tells the counts that are left
 * Return: 0, -ENOMEM.
 */
int blocked_new(struct loop *loop, uint64_t period_ns, blocked_fn fn, void *arg, struct blocked_log **ret)
        __attribute__((warn_unused_result));
struct blocked_log *blocked_free(struct blocked_log *log);

/** blocked_note() - one refusal; telemetry hosts (preset.h) are not told */
void blocked_note(struct blocked_log *log, const char *host, uint16_t port, const char *reason,
                  const char *rule);

/** blocked_total() - refusals so far, those of telemetry hosts included */
uint64_t blocked_total(const struct blocked_log *log);
