/*
 * rounds.c - times commands in turn, so that what disturbs the machine disturbs them alike
 *
 * Usage: rounds ROUNDS NAME COMMAND [ARG...] [:: NAME COMMAND [ARG...]]...
 *
 * Every round runs each command once, starting with another one each time. The table gives the median and the
 * minimum of the wall time, the median of user and system time and of the peak memory of the largest process,
 * and the median over the rounds of the ratio to the first command of the same round. A command that fails is
 * named and left out.
 */
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>

#include "runtime/base/cleanup.h"
#include "runtime/base/parse.h"

enum { CONTENDERS_MAX = 16, ROUNDS_MAX = 10000 };

/** struct sample - one run of one command */
struct sample {
        double wall_ms, cpu_ms, rss_kib;
};

/** struct contender - one command and its samples */
struct contender {
        const char *name;
        char **argv;
        struct sample *samples; /* one per round, owned */
        int failed;             /* wait status, errno of the spawn as a negative number, or 0 */
};

static double now_ms(void) {
        struct timespec t;

        (void) clock_gettime(CLOCK_MONOTONIC, &t);
        return (double) t.tv_sec * 1e3 + (double) t.tv_nsec / 1e6;
}

static double ms(struct timeval t) {
        return (double) t.tv_sec * 1e3 + (double) t.tv_usec / 1e3;
}

/* Runs @c once with stdin, stdout and stderr on /dev/null. Return: 0, a wait status, or -errno. */
static int run_once(const struct contender *c, struct sample *ret) {
        posix_spawn_file_actions_t actions;
        struct rusage used;
        double start;
        pid_t pid;
        int r, status = 0;

        (void) posix_spawn_file_actions_init(&actions);
        (void) posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
        (void) posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
        (void) posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0);
        start = now_ms();
        r = posix_spawnp(&pid, c->argv[0], &actions, NULL, c->argv, environ); /* vfork inside */
        (void) posix_spawn_file_actions_destroy(&actions);
        if (r != 0)
                return -r;
        if (wait4(pid, &status, 0, &used) < 0)
                return -errno;
        *ret = (struct sample){ .wall_ms = now_ms() - start,
                                .cpu_ms = ms(used.ru_utime) + ms(used.ru_stime),
                                .rss_kib = (double) used.ru_maxrss };
        return status;
}

static int compare(const void *a, const void *b) {
        const double x = *(const double *) a, y = *(const double *) b;

        return (x > y) - (x < y);
}

/* Sorts @v. Return: the median. */
static double median(double *v, size_t n) {
        qsort(v, n, sizeof(*v), compare);
        return n % 2 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2;
}

static void print_one(const struct contender *c, const struct contender *base, double *v, size_t n) {
        double wall, least, cpu, rss;

        for (size_t i = 0; i < n; i++)
                v[i] = c->samples[i].wall_ms;
        wall = median(v, n);
        least = v[0];
        for (size_t i = 0; i < n; i++)
                v[i] = c->samples[i].cpu_ms;
        cpu = median(v, n);
        for (size_t i = 0; i < n; i++)
                v[i] = c->samples[i].rss_kib;
        rss = median(v, n);
        for (size_t i = 0; i < n; i++)
                v[i] = c->samples[i].wall_ms / base->samples[i].wall_ms;
        printf("| %-22s | %8.2f | %8.2f | %8.2f | %8.0f | %8.2f |\n", c->name, wall, least, cpu, rss,
               median(v, n));
}

static void print_table(const struct contender *all, size_t count, size_t rounds) {
        const struct contender *base = NULL;
        AUTO_FREE double *v = calloc(rounds, sizeof(*v));

        for (size_t i = 0; i < count && !base; i++)
                if (!all[i].failed)
                        base = &all[i];
        if (!v || !base)
                return;
        printf("| %-22s | wall ms  | least ms | cpu ms   | RSS KiB  | to first |\n", "command");
        printf("|------------------------|----------|----------|----------|----------|----------|\n");
        for (size_t i = 0; i < count; i++) {
                if (all[i].failed)
                        printf("| %-22s | failed (%s %d)\n", all[i].name,
                               all[i].failed < 0 ? "errno" : "wait status", abs(all[i].failed));
                else
                        print_one(&all[i], base, v, rounds);
        }
}

static int measure(struct contender *all, size_t count, size_t rounds) {
        for (size_t i = 0; i < count; i++) {
                all[i].samples = calloc(rounds, sizeof(*all[i].samples));
                if (!all[i].samples)
                        return -ENOMEM;
                for (size_t warm = 0; warm < 2 && !all[i].failed; warm++)
                        all[i].failed = run_once(&all[i], &all[i].samples[0]);
        }
        for (size_t round = 0; round < rounds; round++)
                for (size_t i = 0; i < count; i++) {
                        struct contender *c = &all[(round + i) % count];

                        if (!c->failed)
                                c->failed = run_once(c, &c->samples[round]);
                }
        return 0;
}

/* Splits the command line at "::" in place. Return: how many commands, 0 when there is something wrong with
 * it. */
static size_t split(int argc, char **argv, struct contender *all) {
        size_t count = 0;
        int i = 2;

        while (i + 1 < argc && count < CONTENDERS_MAX) {
                all[count++] = (struct contender){ .name = argv[i], .argv = &argv[i + 1] };
                for (i++; i < argc && strcmp(argv[i], "::") != 0; i++)
                        ;
                if (i < argc)
                        argv[i++] = NULL;
        }
        return i < argc ? 0 : count;
}

int main(int argc, char **argv) {
        struct contender all[CONTENDERS_MAX];
        uint64_t rounds = 0;
        size_t count;
        int r;

        count = argc > 3 && parse_u64(argv[1], 1, ROUNDS_MAX, &rounds) == 0 ? split(argc, argv, all) : 0;
        if (count == 0) {
                (void) fprintf(stderr,
                               "usage: rounds ROUNDS NAME COMMAND [ARG...] [:: NAME COMMAND [ARG...]]...\n");
                return 2;
        }
        r = measure(all, count, (size_t) rounds);
        if (r == 0)
                print_table(all, count, (size_t) rounds);
        for (size_t i = 0; i < count; i++)
                free(all[i].samples);
        return r < 0;
}
