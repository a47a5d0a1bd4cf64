/*
 * slots.h - numbers for objects: what is handed to the kernel is an index that can be checked, never a
 * pointer
 *
 * Not thread-safe: the owner locks. Numbers start at SLOTS_FIRST and are used again after slots_del().
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

enum { SLOTS_FIRST = 2 }; /* 0: none, 1: the root directory of a FUSE mount */

/** struct slots - a zeroed struct is empty */
struct slots {
        uintptr_t *v; /* owned; an object's address, or the next free index shifted left with bit 0 set */
        size_t n, cap;
        uintptr_t free; /* head of the free list, as stored in @v; 0: none */
};

/** slots_add() - a number for @p (borrowed, not NULL, at least 2-byte aligned). Return: number, 0 when out of
 * memory. */
uint64_t slots_add(struct slots *s, void *p) __attribute__((warn_unused_result));

/** slots_get() - what was added as @id, NULL for a number that is not in use */
void *slots_get(const struct slots *s, uint64_t id);

/** slots_del() - give @id back; it must be in use */
void slots_del(struct slots *s, uint64_t id);

/** slots_deinit() - free the table, not the objects */
void slots_deinit(struct slots *s);
