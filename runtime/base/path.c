#include "runtime/base/path.h"

#include <errno.h>
#include <limits.h>
#include <string.h>

#include "runtime/base/buf.h"
#include "runtime/base/cleanup.h"

static void pop(struct buf *out) {
        while (out->len > 0 && out->data[--out->len] != '/')
                ;
        if (out->data)
                out->data[out->len] = '\0';
}

/* Appends the components of @path to @out, which holds "" or "/a/b". */
static int push_all(struct buf *out, const char *path) {
        while (*path) {
                const size_t n = strcspn(path, "/");
                int r;

                if (n == 2 && path[0] == '.' && path[1] == '.') {
                        pop(out);
                } else if (n > 0 && !(n == 1 && path[0] == '.')) {
                        r = buf_add(out, "/", 1);
                        if (r == 0)
                                r = buf_add(out, path, n);
                        if (r < 0)
                                return r;
                }
                path += n + (path[n] == '/');
        }
        return 0;
}

int path_normalize(const char *cwd, const char *path, char **ret) {
        AUTO_BUF struct buf out = { 0 };
        int r;

        if (!*path || (*path != '/' && (!cwd || *cwd != '/')))
                return -EINVAL;
        if (*path != '/') {
                r = push_all(&out, cwd);
                if (r < 0)
                        return r;
        }
        r = push_all(&out, path);
        if (r < 0)
                return r;
        if (out.len == 0) {
                r = buf_add(&out, "/", 1);
                if (r < 0)
                        return r;
        }
        if (out.len >= PATH_MAX)
                return -ENAMETOOLONG;
        *ret = buf_take(&out);
        return 0;
}

int path_join(const char *a, const char *b, char **ret) {
        AUTO_BUF struct buf out = { 0 };
        int r;

        r = buf_str(&out, a);
        if (r == 0 && *b && (out.len == 0 || out.data[out.len - 1] != '/'))
                r = buf_add(&out, "/", 1);
        if (r == 0)
                r = buf_str(&out, b);
        if (r < 0)
                return r;
        *ret = buf_take(&out);
        return 0;
}

const char *path_below(const char *path, const char *dir) {
        const size_t n = strlen(dir);

        if (strcmp(dir, "/") == 0)
                return path + (*path == '/');
        if (strncmp(path, dir, n) != 0)
                return NULL;
        if (path[n] == '\0')
                return path + n;
        return path[n] == '/' ? path + n + 1 : NULL;
}

bool path_is_normal(const char *path) {
        AUTO_FREE char *norm = NULL;

        return *path == '/' && path_normalize(NULL, path, &norm) == 0 && strcmp(norm, path) == 0;
}

const char *path_basename(const char *path) {
        const char *slash = strrchr(path, '/');

        return slash ? slash + 1 : path;
}
