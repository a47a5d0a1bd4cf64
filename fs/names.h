/*
 * names.h - the names of one directory, read at once and sorted by their bytes
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/** struct names - owned strings; zero is the empty list */
struct names {
        char **v;
        size_t n;
        size_t cap;
};

/**
 * names_read() - the sorted names of the directory open as @dir_fd (borrowed, its offset is not used)
 * @ret: empty list; caller frees with names_deinit(), also after a failure
 * Return: 0, -ENOMEM, -errno.
 */
int names_read(int dir_fd, struct names *ret) __attribute__((warn_unused_result));

/** names_add() - add a copy of @name at the end; names_sort() restores the order. Return: 0, -ENOMEM. */
int names_add(struct names *names, const char *name) __attribute__((warn_unused_result));
void names_sort(struct names *names);

/** names_has() - whether the first @n names, which are sorted, hold @name */
bool names_has(const struct names *names, size_t n, const char *name);

void names_deinit(struct names *names);
#define AUTO_NAMES __attribute__((cleanup(names_deinit)))
