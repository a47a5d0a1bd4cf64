#include "netns/names.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { BUCKETS = 16384, NONE = -1 };

/* An address is the range's first one but one, and the place of the name in @slots. */
struct slot {
        struct host *host; /* owned; NULL: free */
        int next;          /* of the bucket */
};

struct names {
        struct slot slots[NAMES_MAX];
        int buckets[BUCKETS];
        int turn; /* the slot that is used next: the oldest */
};

static unsigned int bucket_of(const char *name) {
        uint64_t h = 0xcbf29ce484222325U;

        for (; *name; name++)
                h = (h ^ (unsigned char) *name) * 0x100000001b3U;
        return (unsigned int) (h ^ h >> 32) % BUCKETS;
}

int names_new(struct names **ret) {
        struct names *names = calloc(1, sizeof(*names));

        if (!names)
                return -ENOMEM;
        for (size_t i = 0; i < BUCKETS; i++)
                names->buckets[i] = NONE;
        *ret = names;
        return 0;
}

struct names *names_free(struct names *names) {
        for (size_t i = 0; names && i < NAMES_MAX; i++)
                free(names->slots[i].host);
        free(names);
        return NULL;
}

static void forget(struct names *names, int i) {
        struct slot *slot = &names->slots[i];
        int *at;

        if (!slot->host)
                return;
        at = &names->buckets[bucket_of(slot->host->name)];
        while (*at != i)
                at = &names->slots[*at].next;
        *at = slot->next;
        free(slot->host);
        slot->host = NULL;
}

int names_address(struct names *names, const struct host *name, struct addr *ret) {
        const unsigned int bucket = bucket_of(name->name);
        struct host *copy;
        int i;

        for (i = names->buckets[bucket]; i != NONE; i = names->slots[i].next)
                if (strcmp(names->slots[i].host->name, name->name) == 0)
                        break;
        if (i == NONE) {
                copy = malloc(sizeof(*copy));
                if (!copy)
                        return -ENOMEM;
                *copy = *name;
                i = names->turn;
                names->turn = (i + 1) % NAMES_MAX;
                forget(names, i);
                names->slots[i] = (struct slot){ .host = copy, .next = names->buckets[bucket] };
                names->buckets[bucket] = i;
        }
        *ret = addr_from_ipv4(NAMES_NET + 2U + (uint32_t) i);
        return 0;
}

const struct host *names_find(const struct names *names, const struct addr *addr) {
        uint32_t v;

        if (!addr_is_ipv4(addr))
                return NULL;
        v = (uint32_t) addr->b[12] << 24 | (uint32_t) addr->b[13] << 16 | (uint32_t) addr->b[14] << 8 |
            addr->b[15];
        if (v < NAMES_NET + 2U || v - NAMES_NET - 2U >= NAMES_MAX)
                return NULL;
        return names->slots[v - NAMES_NET - 2U].host;
}
