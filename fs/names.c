#include "fs/names.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "runtime/base/cleanup.h"

int names_add(struct names *names, const char *name) {
        if (names->n == names->cap) {
                const size_t cap = names->cap ? names->cap * 2 : 16;
                char **v = reallocarray(names->v, cap, sizeof(*v));

                if (!v)
                        return -ENOMEM;
                names->v = v;
                names->cap = cap;
        }
        names->v[names->n] = strdup(name);
        if (!names->v[names->n])
                return -ENOMEM;
        names->n++;
        return 0;
}

static int by_bytes(const void *a, const void *b) {
        return strcmp(*(char *const *) a, *(char *const *) b);
}

void names_sort(struct names *names) {
        if (names->n > 1)
                qsort(names->v, names->n, sizeof(names->v[0]), by_bytes);
}

bool names_has(const struct names *names, size_t n, const char *name) {
        return n > 0 && bsearch(&name, names->v, n, sizeof(names->v[0]), by_bytes) != NULL;
}

static int read_all(DIR *d, struct names *ret) {
        for (;;) {
                const struct dirent *e;
                int r;

                errno = 0;
                e = readdir(d);
                if (!e)
                        return -errno;
                if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
                        continue;
                r = names_add(ret, e->d_name);
                if (r < 0)
                        return r;
        }
}

/* "." cannot be reached where its x bit is missing */
static int open_list(int dir_fd) {
        char path[sizeof("/proc/self/fd/") + 12];
        int fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

        if (fd < 0 && errno == EACCES) {
                (void) snprintf(path, sizeof(path), "/proc/self/fd/%d", dir_fd);
                fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        }
        return fd < 0 ? -errno : fd;
}

int names_read(int dir_fd, struct names *ret) {
        AUTO_DIR DIR *d = NULL;
        AUTO_FD int fd = open_list(dir_fd);
        int r;

        if (fd < 0)
                return TAKE(fd, -1);
        d = fdopendir(fd);
        if (!d)
                return -errno;
        (void) TAKE_FD(fd); /* owned by d */
        r = read_all(d, ret);
        if (r == 0)
                names_sort(ret);
        return r;
}

void names_deinit(struct names *names) {
        for (size_t i = 0; i < names->n; i++)
                free(names->v[i]);
        free(names->v);
        *names = (struct names){ 0 };
}
