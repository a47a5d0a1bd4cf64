#include "fs/slots.h"

#include <assert.h>
#include <stdlib.h>

static int grow(struct slots *s) {
        const size_t cap = s->cap ? s->cap * 2 : 64;
        uintptr_t *v;

        if (cap > SIZE_MAX / sizeof(*v) / 2)
                return -1;
        v = realloc(s->v, cap * sizeof(*v));
        if (!v)
                return -1;
        s->v = v;
        s->cap = cap;
        return 0;
}

uint64_t slots_add(struct slots *s, void *p) {
        size_t i;

        assert(p && !((uintptr_t) p & 1));
        if (s->free) {
                i = s->free >> 1;
                s->free = s->v[i] == 1 ? 0 : s->v[i];
        } else {
                if (s->n == s->cap && grow(s) < 0)
                        return 0;
                i = s->n++;
        }
        s->v[i] = (uintptr_t) p;
        return i + SLOTS_FIRST;
}

void *slots_get(const struct slots *s, uint64_t id) {
        const uint64_t i = id - SLOTS_FIRST;

        if (id < SLOTS_FIRST || i >= s->n || (s->v[i] & 1))
                return NULL;
        return (void *) s->v[i]; /* NOLINT(performance-no-int-to-ptr): stored by slots_add() */
}

void slots_del(struct slots *s, uint64_t id) {
        assert(slots_get(s, id));
        /* bit 0 marks a free slot; 1 alone ends the list */
        s->v[id - SLOTS_FIRST] = s->free ? s->free : 1;
        s->free = (uintptr_t) (id - SLOTS_FIRST) << 1 | 1;
}

void slots_deinit(struct slots *s) {
        free(s->v);
        *s = (struct slots){ 0 };
}
