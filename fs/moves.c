#include "fs/moves.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>

#include "fs/copy.h"
#include "fs/diff.h"
#include "fs/layer.h"
#include "fs/names.h"
#include "fs/pathfd.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/sys.h"

#define XATTR_REDIRECT COPY_XATTR_OVERLAY "redirect"

/** struct reading - one walk; @path and @lower of the directory it is in */
struct reading {
        struct moves *moves;
        struct buf path, lower;
        unsigned depth;
};

static int read_level(struct reading *w, int fd);

/* Appends a component. Return: 0, -ENOMEM, -E2BIG. */
static int add_name(struct buf *path, const char *name) {
        const int r = path->len > 0 ? buf_str(path, "/") : 0;

        return r < 0 ? r : buf_str(path, name);
}

static void cut(struct buf *path, size_t len) {
        path->len = len;
        if (path->data)
                path->data[len] = '\0';
}

/* What the attribute says, as it is. Return: its length, 0: there is none, -EBADMSG, -errno. */
static ssize_t read_redirect(int fd, char value[PATH_MAX]) {
        const ssize_t n = fgetxattr(fd, XATTR_REDIRECT, value, PATH_MAX - 1);

        if (n < 0)
                return errno == ENODATA || errno == EOPNOTSUPP ? 0 : errno == ERANGE ? -EBADMSG : -errno;
        value[n] = '\0';
        return n == 0 || strlen(value) != (size_t) n ? -EBADMSG : n;
}

static int moves_add(struct moves *m, const char *path, const char *from) {
        if (m->n == m->cap) {
                const size_t cap = m->cap ? m->cap * 2 : 16;
                struct move *v = reallocarray(m->v, cap, sizeof(*v));

                if (!v)
                        return -ENOMEM;
                m->v = v;
                m->cap = cap;
        }
        m->v[m->n] = (struct move){ .path = strdup(path), .from = strdup(from) };
        m->n++;
        return m->v[m->n - 1].path && m->v[m->n - 1].from ? 0 : -ENOMEM;
}

/* w->lower is the path of the directory's lower one when nothing redirects it; here it becomes what is true.
 */
static int follow(struct reading *w, int fd, size_t parent_len) {
        char value[PATH_MAX];
        const ssize_t n = read_redirect(fd, value);
        int r;

        if (n <= 0)
                return (int) n;
        if (!pathfd_is_sane(value + (*value == '/')) || (*value != '/' && strchr(value, '/')))
                return -EBADMSG;
        cut(&w->lower, *value == '/' ? 0 : parent_len);
        r = *value == '/' ? buf_str(&w->lower, value + 1) : add_name(&w->lower, value);
        return r < 0 ? r : moves_add(w->moves, buf_cstr(&w->path), buf_cstr(&w->lower));
}

static int read_dir(struct reading *w, int dir_fd, const char *name, size_t parent_len) {
        enum layer_kind kind = LAYER_ABSENT;
        AUTO_FD int fd = open_beneath(dir_fd, name, O_RDONLY | O_DIRECTORY, 0);
        int r;

        if (fd == -EACCES || fd == -ENOENT || fd == -ENOTDIR || fd == -ELOOP)
                return 0;
        if (fd < 0)
                return fd;
        if (w->depth >= DIFF_DEPTH_MAX)
                return -ELOOP;
        r = layer_lookup(dir_fd, name, &kind, NULL);
        if (r == 0 && kind == LAYER_DIR)
                r = follow(w, fd, parent_len);
        if (r < 0)
                return r;
        w->depth++;
        r = read_level(w, fd);
        w->depth--;
        return r;
}

/* Only directories are looked at: the kernel says which they are, mostly. */
static int list_dirs(int fd, struct names *names) {
        AUTO_DIR DIR *d = NULL;
        AUTO_FD int copy = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        const struct dirent *e;
        int r = 0;

        if (copy < 0)
                return -errno;
        d = fdopendir(copy);
        if (!d)
                return -errno;
        copy = -1; /* owned by d */
        while (r == 0 && (e = readdir(d)))
                if ((e->d_type == DT_DIR || e->d_type == DT_UNKNOWN) && strcmp(e->d_name, ".") != 0 &&
                    strcmp(e->d_name, "..") != 0)
                        r = names_add(names, e->d_name);
        names_sort(names);
        return r;
}

static int read_level(struct reading *w, int fd) {
        const size_t path_len = w->path.len, lower_len = w->lower.len;
        AUTO_FREE char *lower = strdup(buf_cstr(&w->lower));
        AUTO_NAMES struct names names = { 0 };
        int r;

        if (!lower)
                return -ENOMEM;
        r = list_dirs(fd, &names);
        for (size_t i = 0; r == 0 && i < names.n; i++) {
                r = add_name(&w->path, names.v[i]);
                if (r == 0)
                        r = add_name(&w->lower, names.v[i]);
                if (r == 0)
                        r = read_dir(w, fd, names.v[i], lower_len);
                cut(&w->path, path_len);
                cut(&w->lower, 0);
                if (r == 0)
                        r = buf_str(&w->lower, lower);
        }
        return r;
}

static int by_bytes(const void *a, const void *b) {
        return strcmp(*(const char *const *) a, *(const char *const *) b);
}

static int by_path(const void *a, const void *b) {
        return strcmp(((const struct move_place *) a)->move->path,
                      ((const struct move_place *) b)->move->path);
}

static int make_index(struct moves *m) {
        m->sources = calloc(m->n, sizeof(*m->sources));
        m->places = calloc(m->n, sizeof(*m->places));
        if (!m->sources || !m->places)
                return -ENOMEM;
        for (size_t i = 0; i < m->n; i++) {
                m->sources[i] = m->v[i].from;
                m->places[i].move = &m->v[i];
        }
        qsort(m->sources, m->n, sizeof(*m->sources), by_bytes);
        qsort(m->places, m->n, sizeof(*m->places), by_path);
        return 0;
}

int moves_read(int upper_fd, struct moves *ret) {
        struct reading w = { .moves = ret };
        int r;

        r = read_level(&w, upper_fd);
        buf_deinit(&w.path);
        buf_deinit(&w.lower);
        return r < 0 || ret->n == 0 ? r : make_index(ret);
}

static int path_order(const void *path, const void *place) {
        return strcmp(path, ((const struct move_place *) place)->move->path);
}

const struct move *moves_find(const struct moves *moves, const char *path) {
        const struct move_place *place =
                moves->n == 0 ? NULL
                              : bsearch(path, moves->places, moves->n, sizeof(*moves->places), path_order);

        return place ? place->move : NULL;
}

bool moves_takes(const struct moves *moves, const char *from) {
        return moves->n > 0 &&
               bsearch(&from, moves->sources, moves->n, sizeof(*moves->sources), by_bytes) != NULL;
}

bool moves_is(int dir_fd, const char *name) {
        enum layer_kind kind = LAYER_ABSENT;
        AUTO_FD int fd = open_beneath(dir_fd, name, O_RDONLY | O_DIRECTORY, 0);

        return fd >= 0 && fgetxattr(fd, XATTR_REDIRECT, NULL, 0) >= 0 &&
               layer_lookup(dir_fd, name, &kind, NULL) == 0 && kind == LAYER_DIR; /* opaque: it hides all */
}

int moves_set(int fd, const char *from) {
        AUTO_BUF struct buf value = { 0 };
        int r;

        if (!from)
                return fremovexattr(fd, XATTR_REDIRECT) < 0 && errno != ENODATA ? -errno : 0;
        r = buf_fmt(&value, "/%s", from);
        if (r < 0)
                return r;
        return fsetxattr(fd, XATTR_REDIRECT, value.data, value.len, 0) < 0 ? -errno : 0;
}

void moves_deinit(struct moves *moves) {
        for (size_t i = 0; i < moves->n; i++) {
                free(moves->v[i].path);
                free(moves->v[i].from);
        }
        free(moves->v);
        free(moves->sources);
        free(moves->places);
        *moves = (struct moves){ 0 };
}
