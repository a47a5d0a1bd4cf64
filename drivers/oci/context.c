#include "drivers/oci/context.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "drivers/oci/ignore.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/escape.h"
#include "runtime/base/file.h"

enum { CHUNK = 65536, MODE_BITS = 0777, MIB = 1 << 20 };

/** struct level - a directory on its way; those that it is in stay where they are */
struct level {
        struct level *parent; /* NULL: the context */
        const char *name;
        struct stat st;
        int from, to;  /* @to: -1: nothing is copied, or nothing yet */
        bool shown;    /* it is hashed, and made in the copy */
        bool *matched; /* as ignore_match() has it; NULL: there are no patterns */
        size_t len;    /* of the walk's path */
        unsigned depth;
};

/** struct walk - one on its way */
struct walk {
        SHA2_CTX *hash;
        bool copies;
        struct ignore *ignore; /* NULL: nothing is ignored */
        char path[PATH_MAX];   /* of the entry, below the context */
        uint64_t files, bytes;
        struct error *err;
};

static int fail(const struct walk *w, int r, const char *name) {
        return error_set(w->err, r, "build context: '%s': %s", ESC(name), strerror(-r));
}

static void put(struct walk *w, const void *data, size_t len) {
        SHA256Update(w->hash, data, len);
}

/* Kind, name, mode and length of what follows, so that no two trees are one text. */
static void put_head(struct walk *w, char kind, const char *name, const struct stat *st) {
        char text[64];

        (void) snprintf(text, sizeof(text), "%c%zu:%o:%lld:", kind, strlen(name), st->st_mode & MODE_BITS,
                        kind == 'f' ? (long long) st->st_size : 0LL);
        put(w, text, strlen(text));
        put(w, name, strlen(name));
}

static int count(struct walk *w, const struct stat *st, const char *name) {
        w->bytes += S_ISREG(st->st_mode) ? (uint64_t) st->st_size : 0;
        if (++w->files > CONTEXT_FILES_MAX)
                return error_set(w->err, -E2BIG,
                                 "build context: more than %d files: name a smaller directory, at '%s'",
                                 CONTEXT_FILES_MAX, ESC(name));
        if (w->bytes / MIB >= CONTEXT_BYTES_MAX_MIB)
                return error_set(w->err, -EFBIG,
                                 "build context: more than %d MiB: name a smaller directory, at '%s'",
                                 CONTEXT_BYTES_MAX_MIB, ESC(name));
        return 0;
}

/* Exactly as many bytes as its head says: one that grows or shrinks meanwhile is not one that was meant. */
static int copy_data(struct walk *w, int in, int out, uint64_t left) {
        char chunk[CHUNK];

        while (left > 0) {
                const ssize_t n = read(in, chunk, left < CHUNK ? (size_t) left : CHUNK);
                int r = 0;

                if (n <= 0)
                        return n < 0 ? -errno : -ESTALE;
                put(w, chunk, (size_t) n);
                if (out >= 0)
                        r = write_all(out, chunk, (size_t) n);
                if (r < 0)
                        return r;
                left -= (uint64_t) n;
        }
        return 0;
}

static int walk_file(struct walk *w, const struct level *in_dir, const char *name) {
        AUTO_FD int in = openat(in_dir->from, name,
                                O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC),
                    out = -1;
        struct stat st;
        int r;

        if (in < 0 || fstat(in, &st) < 0)
                return fail(w, -errno, name);
        if (!S_ISREG(st.st_mode))
                return fail(w, -ESTALE, name);
        r = count(w, &st, name);
        if (r < 0)
                return r;
        put_head(w, 'f', name, &st);
        if (w->copies) {
                out = openat(in_dir->to, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
                if (out < 0 || fchmod(out, st.st_mode & MODE_BITS) < 0)
                        return fail(w, -errno, name);
        }
        r = copy_data(w, in, out, (uint64_t) st.st_size);
        return r < 0 ? fail(w, r, name) : 0;
}

/* What the engine itself reads of the context, following it to wherever that is. */
static bool is_the_engines(const struct level *in_dir, const char *name) {
        return !in_dir->parent &&
               (strcmp(name, ".dockerignore") == 0 || strcmp(name, ".containerignore") == 0);
}

static int walk_link(struct walk *w, const struct level *in_dir, const char *name, const struct stat *st) {
        char target[PATH_MAX];
        const ssize_t n = readlinkat(in_dir->from, name, target, sizeof(target) - 1);

        if (n < 0)
                return fail(w, -errno, name);
        if (is_the_engines(in_dir, name))
                return error_set(w->err, -ELOOP, "build context: '%s': a symbolic link is not followed",
                                 name);
        target[n] = '\0';
        put_head(w, 'l', name, st);
        put(w, target, (size_t) n + 1);
        return w->copies && symlinkat(target, in_dir->to, name) < 0 ? fail(w, -errno, name) : 0;
}

/* A directory that is ignored is there as soon as something in it is not. */
static int show(struct walk *w, struct level *l) {
        int r;

        if (l->shown)
                return 0;
        r = show(w, l->parent);
        if (r == 0)
                r = count(w, &l->st, l->name);
        if (r < 0)
                return r;
        put_head(w, 'd', l->name, &l->st);
        if (w->copies) {
                if (mkdirat(l->parent->to, l->name, 0700) < 0)
                        return fail(w, -errno, l->name);
                l->to = openat(l->parent->to, l->name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
                if (l->to < 0)
                        return fail(w, -errno, l->name);
        }
        l->shown = true;
        return 0;
}

static int walk_dir(struct walk *w, struct level *l);

static int enter_dir(struct walk *w, struct level *parent, struct level *l) {
        AUTO_FD int in = openat(parent->from, l->name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        int r;

        if (in < 0)
                return fail(w, -errno, l->name);
        if (l->depth > CONTEXT_DEPTH_MAX)
                return error_set(w->err, -E2BIG, "build context: more than %d directories inside each other",
                                 CONTEXT_DEPTH_MAX);
        l->from = in;
        r = walk_dir(w, l);
        if (l->shown)
                put(w, "e", 1);
        if (r == 0 && l->to >= 0 && fchmod(l->to, l->st.st_mode & MODE_BITS) < 0)
                r = fail(w, -errno, l->name);
        l->to = fd_close(l->to);
        return r;
}

/* Puts @l->name behind the path of its directory, and asks the patterns. */
static int judge(struct walk *w, const struct level *parent, struct level *l, struct ignore_verdict *ret) {
        const int n = snprintf(w->path + parent->len, sizeof(w->path) - parent->len, "%s%s",
                               parent->len > 0 ? "/" : "", l->name);
        int r;

        *ret = (struct ignore_verdict){ 0 };
        if (n < 0 || (size_t) n >= sizeof(w->path) - parent->len)
                return fail(w, -ENAMETOOLONG, l->name);
        l->len = parent->len + (size_t) n;
        if (!w->ignore)
                return 0;
        r = ignore_match(w->ignore, w->path, parent->matched, l->matched, ret);
        if (r == -E2BIG)
                return error_set(w->err, r,
                                 "build context: .dockerignore: its patterns take too long, at '%s'",
                                 ESC(w->path));
        return r < 0 ? fail(w, r, l->name) : 0;
}

static int walk_known(struct walk *w, struct level *parent, struct level *l) {
        struct ignore_verdict v;
        int r;

        if (!S_ISREG(l->st.st_mode) && !S_ISDIR(l->st.st_mode) && !S_ISLNK(l->st.st_mode))
                return 0;
        r = judge(w, parent, l, &v);
        if (r < 0)
                return r;
        if (v.ignored && !(S_ISDIR(l->st.st_mode) ? v.search : is_the_engines(parent, l->name)))
                return 0;
        r = v.ignored && S_ISDIR(l->st.st_mode) ? 0 : show(w, S_ISDIR(l->st.st_mode) ? l : parent);
        if (r < 0)
                return r;
        if (S_ISDIR(l->st.st_mode))
                return enter_dir(w, parent, l);
        if (S_ISREG(l->st.st_mode))
                return walk_file(w, parent, l->name);
        r = count(w, &l->st, l->name);
        return r < 0 ? r : walk_link(w, parent, l->name, &l->st);
}

static int walk_entry(struct walk *w, struct level *parent, const char *name) {
        struct level l = { .parent = parent, .name = name, .from = -1, .to = -1, .depth = parent->depth + 1 };
        AUTO_FREE bool *matched = w->ignore ? calloc(ignore_count(w->ignore) + 1, sizeof(*matched)) : NULL;

        if (w->ignore && !matched)
                return fail(w, -ENOMEM, name);
        l.matched = matched;
        if (fstatat(parent->from, name, &l.st, AT_SYMLINK_NOFOLLOW) < 0)
                return fail(w, -errno, name);
        return walk_known(w, parent, &l);
}

static int no_dots(const struct dirent *entry) {
        return strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
}

static int by_name(const struct dirent **a, const struct dirent **b) {
        return strcmp((*a)->d_name, (*b)->d_name);
}

static int walk_dir(struct walk *w, struct level *l) {
        struct dirent **entries = NULL;
        const int n = scandirat(l->from, ".", &entries, no_dots, by_name);
        int r = 0;

        if (n < 0)
                return fail(w, -errno, ".");
        for (int i = 0; i < n; i++) {
                if (r == 0)
                        r = walk_entry(w, l, entries[i]->d_name);
                free(entries[i]);
        }
        free(entries);
        return r;
}

/* What podman and buildah look at first, docker knows nothing of. */
static int read_ignore(int from, bool docker, struct ignore **ret, struct error *err) {
        static const char *const names[] = { ".containerignore", ".dockerignore" };

        for (size_t i = docker; i < ARRAY_SIZE(names); i++) {
                AUTO_FD int fd =
                        openat(from, names[i], O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
                AUTO_BUF struct buf text = { 0 };
                struct stat st;
                int r;

                if (fd < 0 && errno == ENOENT)
                        continue;
                if (fd < 0 || fstat(fd, &st) < 0)
                        return error_set(err, -errno, "build context: '%s': %s", names[i], strerror(errno));
                r = S_ISREG(st.st_mode) ? file_read(fd, IGNORE_BYTES_MAX, &text) : -EINVAL;
                if (r < 0)
                        return error_set(err, r, "build context: '%s': %s", names[i], strerror(-r));
                r = ignore_parse(buf_cstr(&text), text.len, ret, err);
                return r < 0 ? error_wrap(err, r, "build context") : 0;
        }
        return 0;
}

int context_walk(int from, int to, bool docker, SHA2_CTX *hash, struct error *err) {
        AUTO_IGNORE struct ignore *ignore = NULL;
        struct level top = { .from = from, .to = to, .shown = true };
        struct walk w = { .hash = hash, .copies = to >= 0, .err = err };
        int r;

        r = read_ignore(from, docker, &ignore, err);
        w.ignore = ignore;
        return r < 0 ? r : walk_dir(&w, &top);
}
