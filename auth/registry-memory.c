/*
 * A table of chains. A token is 32 random bytes, so the first digits of its ID spread by themselves, and
 * nobody chooses them.
 */
#include <stdlib.h>
#include <string.h>

#include "auth/registry-backend.h"

enum { CHAINS = 4096, TOKENS_MAX = 1000000 };

/* @grant NULL: revoked, remembered until @expires_at */
struct entry {
        struct entry *next;
        char id[TOKEN_ID_LEN + 1];
        uint64_t expires_at;
        struct grant *grant;
};

struct memory {
        struct entry *chains[CHAINS];
        size_t n;
        uint64_t live;
};

void *registry_memory_new(void) {
        return calloc(1, sizeof(struct memory));
}

static void *session(void *place, int stop_fd) {
        (void) stop_fd;
        return place;
}

static void session_free(void *place) {
        (void) place;
}

static size_t digit(char c) {
        return (size_t) (c <= '9' ? c - '0' : c - 'a' + 10);
}

static struct entry **find(struct memory *memory, const char *id) {
        struct entry **at = &memory->chains[digit(id[0]) << 8 | digit(id[1]) << 4 | digit(id[2])];

        while (*at && memcmp((*at)->id, id, TOKEN_ID_LEN) != 0)
                at = &(*at)->next;
        return at;
}

static void erase(struct memory *memory, struct entry *entry) {
        if (entry->grant)
                memory->live--;
        entry->grant = grant_free(entry->grant);
}

static void drop(struct memory *memory, struct entry **at) {
        struct entry *entry = *at;

        *at = entry->next;
        erase(memory, entry);
        free(entry);
        memory->n--;
}

static enum registry_result put(void *place, const struct grant *grant) {
        struct memory *memory = place;
        struct entry **at = find(memory, grant->id), *entry;

        if (*at || memory->n >= TOKENS_MAX)
                return REGISTRY_UNAVAILABLE;
        entry = calloc(1, sizeof(*entry));
        if (!entry)
                return REGISTRY_UNAVAILABLE;
        entry->grant = grant_dup(grant);
        if (!entry->grant) {
                free(entry);
                return REGISTRY_UNAVAILABLE;
        }
        memcpy(entry->id, grant->id, sizeof(entry->id));
        entry->expires_at = grant->expires_at;
        *at = entry;
        memory->n++;
        memory->live++;
        return REGISTRY_OK;
}

static enum registry_result state(const struct entry *entry, uint64_t now) {
        if (!entry)
                return REGISTRY_UNKNOWN;
        if (!entry->grant)
                return REGISTRY_REVOKED;
        return entry->expires_at <= now ? REGISTRY_EXPIRED : REGISTRY_OK;
}

static enum registry_result get(void *place, const char *id, uint64_t now, struct grant **ret) {
        struct memory *memory = place;
        struct entry **at = find(memory, id);
        const enum registry_result result = state(*at, now);

        if (result == REGISTRY_EXPIRED)
                drop(memory, at);
        if (result != REGISTRY_OK)
                return result;
        *ret = grant_dup((*at)->grant);
        return *ret ? REGISTRY_OK : REGISTRY_UNAVAILABLE;
}

static enum registry_result revoke_one(void *place, const char *id, uint64_t now, uint64_t *ret) {
        struct memory *memory = place;
        struct entry *entry = *find(memory, id);

        *ret = state(entry, now) == REGISTRY_OK;
        if (entry)
                erase(memory, entry);
        return REGISTRY_OK;
}

/* over all entries; @visit says whether to drop one */
static void each(struct memory *memory, bool (*visit)(struct memory *, struct entry *, void *), void *data) {
        for (size_t i = 0; i < CHAINS; i++)
                for (struct entry **at = &memory->chains[i]; *at;)
                        if (visit(memory, *at, data))
                                drop(memory, at);
                        else
                                at = &(*at)->next;
}

struct visit {
        const char *run;
        uint64_t now;
        uint64_t count;
};

static bool revoke_of_run(struct memory *memory, struct entry *entry, void *data) {
        struct visit *v = data;

        if (!entry->grant || (strcmp(entry->grant->run, v->run) != 0 &&
                              (!entry->grant->group || strcmp(entry->grant->group, v->run) != 0)))
                return false;
        v->count += entry->expires_at > v->now;
        erase(memory, entry);
        return false;
}

static enum registry_result revoke_run(void *place, const char *run, uint64_t now, uint64_t *ret) {
        struct visit v = { .run = run, .now = now };

        each(place, revoke_of_run, &v);
        *ret = v.count;
        return REGISTRY_OK;
}

static bool expired(struct memory *memory, struct entry *entry, void *data) {
        struct visit *v = data;

        (void) memory;
        if (entry->expires_at > v->now)
                return false;
        v->count += entry->grant != NULL;
        return true;
}

static enum registry_result purge(void *place, uint64_t now, uint64_t *ret) {
        struct visit v = { .now = now };

        each(place, expired, &v);
        *ret = v.count;
        return REGISTRY_OK;
}

static enum registry_result alive(void *place, struct registry_asked *asked, size_t n) {
        for (size_t i = 0; i < n; i++) {
                const struct entry *entry = *find(place, asked[i].id);

                asked[i].why = entry && entry->grant ? REGISTRY_OK : REGISTRY_REVOKED;
        }
        return REGISTRY_OK;
}

static const char *trouble(const void *place) {
        (void) place;
        return "";
}

static uint64_t count(const void *place) {
        const struct memory *memory = place;

        return memory->live;
}

static void memory_free(void *place) {
        struct memory *memory = place;

        for (size_t i = 0; memory && i < CHAINS; i++)
                while (memory->chains[i])
                        drop(memory, &memory->chains[i]);
        free(memory);
}

const struct registry_ops registry_memory_ops = {
        .session = session,
        .session_free = session_free,
        .put = put,
        .get = get,
        .revoke = revoke_one,
        .revoke_run = revoke_run,
        .purge = purge,
        .alive = alive,
        .trouble = trouble,
        .count = count,
        .free = memory_free,
};
