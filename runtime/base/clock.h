/*
 * clock.h - monotonic time inside, wall time for people
 */
#pragma once

#include <stdint.h>
#include <time.h>

/** clock_ns() - CLOCK_MONOTONIC in nanoseconds */
static inline uint64_t clock_ns(void) {
        struct timespec ts = { 0 };

        (void) clock_gettime(CLOCK_MONOTONIC, &ts);
        return (uint64_t) ts.tv_sec * 1000000000U + (uint64_t) ts.tv_nsec;
}
