/*
 * logs.h - what a container wrote
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kubernetes/client/client.h"

enum { KUBE_LOG_BYTES = 1 << 20 }; /* kept by default */

/**
 * struct kube_tail - the end of a stream of bytes, in bounded memory
 * @max:   bytes that are kept
 * @total: bytes that were seen
 */
struct kube_tail {
        size_t max;
        uint64_t total;
        struct buf ring;
};

/** kube_tail_add() - Return: 0, -ENOMEM. */
int kube_tail_add(struct kube_tail *tail, const void *data, size_t len) __attribute__((warn_unused_result));

/**
 * kube_tail_text() - append what was kept to @out; when something is missing, behind the line
 * "[... N bytes truncated ...]". A character is not cut in the middle.
 * @ret_truncated: NULL allowed
 * Return: 0, -ENOMEM, -E2BIG.
 */
int kube_tail_text(const struct kube_tail *tail, struct buf *out, bool *ret_truncated)
        __attribute__((warn_unused_result));

/** kube_tail_deinit() - free what is held */
void kube_tail_deinit(struct kube_tail *tail);

/**
 * kube_logs() - the log up to now, as kube_tail_text() cuts it
 * @container: NULL: the only one
 * @max: bytes kept; 0: KUBE_LOG_BYTES
 * Return: 0, -ENOENT, -EINVAL (the container has not started yet), or as client.h says.
 */
int kube_logs(struct kube *kube, const char *ns, const char *pod, const char *container, size_t max,
              struct buf *out, bool *ret_truncated, struct error *err) __attribute__((warn_unused_result));

/**
 * kube_logs_follow() - the log from its beginning until the container ends; blocks
 * @sink: gets the bytes as they come. Return: 0, or a negative errno, which ends it
 * @deadline_ns: of clock_ns(); 0: none
 * A connection that was cut is made again, and what came before is not repeated.
 * Return: 0 (the container has ended, or the pod is gone), -ETIMEDOUT (the deadline), what @sink returned, or
 * as client.h says.
 */
int kube_logs_follow(struct kube *kube, const char *ns, const char *pod, const char *container,
                     int (*sink)(void *arg, const void *data, size_t len), void *arg, uint64_t deadline_ns,
                     struct error *err) __attribute__((warn_unused_result));
