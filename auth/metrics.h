/*
 * metrics.h - how many requests for hosts ended how, for Prometheus
 */
#pragma once

#include "auth/target.h"
#include "runtime/base/buf.h"

struct metrics;

enum { METRICS_SECRETS_MAX = 1024 };

/** metrics_new() - Return: owned, metrics_free(); NULL when out of memory. */
struct metrics *metrics_new(void) __attribute__((warn_unused_result));
struct metrics *metrics_free(struct metrics *metrics);

/**
 * metrics_count() - one more
 * @secret: name of the secret, "" when the token is not known; names beyond METRICS_SECRETS_MAX are counted
 * together, as "<other>"
 */
void metrics_count(struct metrics *metrics, const char *secret, enum relay_result result);

/** metrics_text() - text/plain; version=0.0.4. Return: 0, -ENOMEM, -E2BIG. */
int metrics_text(const struct metrics *metrics, struct buf *out) __attribute__((warn_unused_result));
