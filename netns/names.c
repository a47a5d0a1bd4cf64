#include "netns/names.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { BUCKETS = 16384, NONE = -1 };

/* An address is the range's first one but one, and the place of the name in @slots. */
struct slot {
        struct host *host; /* owned; NULL: free */
        int next;          /* of the bucket */
        int older, newer;  /* by when it was answered with or connected to */
        uint64_t until_ns; /* nobody else gets the address before */
};

struct names {
        struct slot slots[NAMES_MAX];
        int buckets[BUCKETS];
        int used; /* slots from here on were never used */
        int oldest, newest;
};

/* The range's first address but @n. */
static struct addr address(bool six, uint32_t n) {
        const struct addr addr6 = { .b = { NAMES_NET6, [12] = (uint8_t) (n >> 24), (uint8_t) (n >> 16),
                                           (uint8_t) (n >> 8), (uint8_t) n } };

        return six ? addr6 : addr_from_ipv4(NAMES_NET + n);
}

struct addr names_own(bool six) {
        return address(six, 1);
}

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
        names->oldest = names->newest = NONE;
        *ret = names;
        return 0;
}

struct names *names_free(struct names *names) {
        for (size_t i = 0; names && i < NAMES_MAX; i++)
                free(names->slots[i].host);
        free(names);
        return NULL;
}

/* --- by age --------------------------------------------------------------------------------------------- */

static void unlink_slot(struct names *names, int i) {
        const struct slot *slot = &names->slots[i];

        *(slot->older == NONE ? &names->oldest : &names->slots[slot->older].newer) = slot->newer;
        *(slot->newer == NONE ? &names->newest : &names->slots[slot->newer].older) = slot->older;
}

static void append_slot(struct names *names, int i) {
        struct slot *slot = &names->slots[i];

        slot->older = names->newest;
        slot->newer = NONE;
        *(slot->older == NONE ? &names->oldest : &names->slots[slot->older].newer) = i;
        names->newest = i;
}

static void touch(struct names *names, int i, uint64_t until_ns) {
        struct slot *slot = &names->slots[i];

        unlink_slot(names, i);
        append_slot(names, i);
        if (until_ns > slot->until_ns)
                slot->until_ns = until_ns;
}

/* --- by name -------------------------------------------------------------------------------------------- */

static void forget(struct names *names, int i) {
        struct slot *slot = &names->slots[i];
        int *at = &names->buckets[bucket_of(slot->host->name)];

        while (*at != i)
                at = &names->slots[*at].next;
        *at = slot->next;
        unlink_slot(names, i);
        free(slot->host);
        slot->host = NULL;
}

/* A slot for another name: a fresh one, or that of the name nobody has used the longest. Return: 0, -ENOSPC.
 */
static int take_slot(struct names *names, uint64_t now_ns, int *ret) {
        if (names->used < NAMES_MAX) {
                *ret = names->used++;
                return 0;
        }
        if (names->slots[names->oldest].until_ns > now_ns)
                return -ENOSPC;
        *ret = names->oldest;
        forget(names, *ret);
        return 0;
}

int names_address(struct names *names, const struct host *name, uint64_t now_ns, struct addr ret[2]) {
        const unsigned int bucket = bucket_of(name->name);
        struct host *copy;
        int i, r;

        for (i = names->buckets[bucket]; i != NONE; i = names->slots[i].next)
                if (strcmp(names->slots[i].host->name, name->name) == 0)
                        break;
        if (i == NONE) {
                copy = malloc(sizeof(*copy));
                if (!copy)
                        return -ENOMEM;
                r = take_slot(names, now_ns, &i);
                if (r < 0) {
                        free(copy);
                        return r;
                }
                *copy = *name;
                names->slots[i] = (struct slot){ .host = copy, .next = names->buckets[bucket] };
                names->buckets[bucket] = i;
                append_slot(names, i);
        }
        touch(names, i, now_ns + NAMES_KEEP_NS);
        ret[0] = address(false, 2U + (uint32_t) i);
        ret[1] = address(true, 2U + (uint32_t) i);
        return 0;
}

const struct host *names_find(struct names *names, const struct addr *addr, uint64_t now_ns) {
        const uint32_t v = (uint32_t) addr->b[12] << 24 | (uint32_t) addr->b[13] << 16 |
                           (uint32_t) addr->b[14] << 8 | addr->b[15];
        const uint32_t n = addr_is_ipv4(addr) ? v - NAMES_NET : v; /* wraps below the range */
        struct addr same;
        int i;

        if (n < 2U || n - 2U >= NAMES_MAX)
                return NULL;
        same = address(!addr_is_ipv4(addr), n);
        i = (int) (n - 2U);
        if (memcmp(&same, addr, sizeof(same)) != 0 || !names->slots[i].host)
                return NULL;
        touch(names, i, now_ns + NAMES_KEEP_NS); /* who connects once may do so again without asking */
        return names->slots[i].host;
}
