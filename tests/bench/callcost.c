/*
 * callcost.c - nanoseconds of a few system calls: "name ns" lines, the fastest of many batches
 *
 * getppid is allowed by its number; ioctl, personality and socket are looked at by argument; 511 is in no
 * table.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "runtime/base/cleanup.h"

enum { BATCHES = 400, CALLS = 200 };

static const struct {
        const char *name;
        long nr, a[3];
} calls[] = {
        { "getppid", SYS_getppid, { 0 } },
        { "ioctl", SYS_ioctl, { -1, TCGETS } },
        { "personality", SYS_personality, { -1 } },
        { "socket", SYS_socket, { AF_INET, -1 } },
        { "511", 511, { 0 } },
};

static uint64_t now_ns(void) {
        struct timespec t;

        (void) clock_gettime(CLOCK_MONOTONIC, &t);
        return (uint64_t) t.tv_sec * 1000000000U + (uint64_t) t.tv_nsec;
}

int main(void) {
        for (size_t i = 0; i < ARRAY_SIZE(calls); i++) {
                uint64_t best = UINT64_MAX;

                for (int batch = 0; batch < BATCHES; batch++) {
                        const uint64_t start = now_ns();
                        uint64_t ns;

                        for (int k = 0; k < CALLS; k++)
                                (void) syscall(calls[i].nr, calls[i].a[0], calls[i].a[1], calls[i].a[2]);
                        ns = now_ns() - start;
                        best = ns < best ? ns : best;
                }
                printf("%s %llu\n", calls[i].name, (unsigned long long) (best / CALLS));
        }
        return EXIT_SUCCESS;
}
