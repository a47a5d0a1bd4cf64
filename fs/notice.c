#include "fs/notice.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>

void notices_init(struct notices *n) {
        *n = (struct notices){ 0 };
        (void) pthread_mutex_init(&n->lock, NULL);
        if (getrandom(&n->seed, sizeof(n->seed), GRND_NONBLOCK) != sizeof(n->seed))
                n->seed = (uintptr_t) n;
}

void notices_deinit(struct notices *n) {
        free(n->seen);
        n->seen = NULL;
        (void) pthread_mutex_destroy(&n->lock);
}

static uint64_t hash(const struct notices *n, const struct guard_notice *notice) {
        uint64_t h = n->seed ^ ((uint64_t) notice->type << 32 | notice->region);

        for (const char *p = notice->path; *p; p++)
                h = (h ^ (unsigned char) *p) * 0x100000001b3U;
        h ^= h >> 31;
        return h ? h : 1;
}

/* Return: whether it is new and was remembered */
static bool remember(struct notices *n, uint64_t h) {
        const size_t mask = 2 * (size_t) NOTICES_MAX - 1;

        if (!n->seen)
                n->seen = calloc(mask + 1, sizeof(*n->seen));
        if (!n->seen)
                return false;
        for (size_t i = h & mask;; i = (i + 1) & mask) {
                if (n->seen[i] == h)
                        return false;
                if (n->seen[i])
                        continue;
                if (n->n == NOTICES_MAX) {
                        n->dropped++;
                        return false;
                }
                n->seen[i] = h;
                n->n++;
                return true;
        }
}

bool notice_send(struct notices *n, int fd, const struct guard_notice *notice) {
        (void) pthread_mutex_lock(&n->lock);
        n->counts[notice->type]++;
        (void) pthread_mutex_unlock(&n->lock);
        return fd < 0 || send(fd, notice, sizeof(*notice), MSG_DONTWAIT | MSG_NOSIGNAL) >= 0 ||
               (errno != EAGAIN && errno != ENOBUFS);
}

void notice_post(struct notices *n, int fd, const struct guard_notice *notice) {
        bool first;

        (void) pthread_mutex_lock(&n->lock);
        n->counts[notice->type]++;
        first = remember(n, hash(n, notice));
        if (first && fd >= 0 && send(fd, notice, sizeof(*notice), MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
                n->dropped++;
        (void) pthread_mutex_unlock(&n->lock);
}
