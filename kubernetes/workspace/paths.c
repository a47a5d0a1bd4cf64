#include "kubernetes/workspace/paths.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int paths_add(struct paths *paths, const char *path) {
        const size_t len = strlen(path) + 1;
        char *copy;

        if (paths->n >= PATHS_MAX || paths->bytes + len > PATHS_BYTES_MAX)
                return -E2BIG;
        if (paths->n == paths->cap) {
                const size_t cap = paths->cap ? 2 * paths->cap : 256;
                char **v = reallocarray(paths->v, cap, sizeof(*v));

                if (!v)
                        return -ENOMEM;
                paths->v = v;
                paths->cap = cap;
        }
        copy = strdup(path);
        if (!copy)
                return -ENOMEM;
        paths->v[paths->n++] = copy;
        paths->bytes += len;
        return 0;
}

static int compare(const void *a, const void *b) {
        return strcmp(*(char *const *) a, *(char *const *) b);
}

void paths_seal(struct paths *paths) {
        size_t n = 0;

        if (paths->n == 0)
                return;
        qsort(paths->v, paths->n, sizeof(*paths->v), compare);
        for (size_t i = 0; i < paths->n; i++) {
                if (n > 0 && strcmp(paths->v[n - 1], paths->v[i]) == 0)
                        free(paths->v[i]);
                else
                        paths->v[n++] = paths->v[i];
        }
        paths->n = n;
}

bool paths_has(const struct paths *paths, const char *path) {
        return paths->n > 0 && bsearch(&path, paths->v, paths->n, sizeof(*paths->v), compare) != NULL;
}

bool paths_has_below(const struct paths *paths, const char *path) {
        const size_t len = strlen(path);
        size_t low = 0, high = paths->n;

        while (low < high) { /* the first that is not before "path/" */
                const size_t mid = low + (high - low) / 2;
                const int order = strncmp(paths->v[mid], path, len);

                if (order < 0 || (order == 0 && (unsigned char) paths->v[mid][len] < '/'))
                        low = mid + 1;
                else
                        high = mid;
        }
        return low < paths->n && strncmp(paths->v[low], path, len) == 0 && paths->v[low][len] == '/';
}

void paths_deinit(struct paths *paths) {
        for (size_t i = 0; i < paths->n; i++)
                free(paths->v[i]);
        free(paths->v);
        *paths = (struct paths){ 0 };
}
