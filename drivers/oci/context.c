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

#include "runtime/base/cleanup.h"
#include "runtime/base/escape.h"
#include "runtime/base/file.h"

enum { CHUNK = 65536, MODE_BITS = 0777, MIB = 1 << 20 };

/** struct walk - one on its way */
struct walk {
        SHA2_CTX *hash;
        uint64_t files, bytes;
        unsigned depth;
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

static int walk_file(struct walk *w, int from, int to, const char *name) {
        AUTO_FD int in = openat(from, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC),
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
        if (to >= 0) {
                out = openat(to, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
                if (out < 0 || fchmod(out, st.st_mode & MODE_BITS) < 0)
                        return fail(w, -errno, name);
        }
        r = copy_data(w, in, out, (uint64_t) st.st_size);
        return r < 0 ? fail(w, r, name) : 0;
}

/* What the engine itself reads of the context, following it to wherever that is. */
static bool is_the_engines(const struct walk *w, const char *name) {
        return w->depth == 0 && (strcmp(name, ".dockerignore") == 0 || strcmp(name, ".containerignore") == 0);
}

static int walk_link(struct walk *w, int from, int to, const char *name, const struct stat *st) {
        char target[PATH_MAX];
        const ssize_t n = readlinkat(from, name, target, sizeof(target) - 1);

        if (n < 0)
                return fail(w, -errno, name);
        if (is_the_engines(w, name))
                return error_set(w->err, -ELOOP, "build context: '%s': a symbolic link is not followed",
                                 name);
        target[n] = '\0';
        put_head(w, 'l', name, st);
        put(w, target, (size_t) n + 1);
        return to >= 0 && symlinkat(target, to, name) < 0 ? fail(w, -errno, name) : 0;
}

static int walk_dir(struct walk *w, int from, int to);

static int enter_dir(struct walk *w, int from, int to, const char *name, const struct stat *st) {
        AUTO_FD int in = openat(from, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC), out = -1;
        int r;

        if (in < 0)
                return fail(w, -errno, name);
        put_head(w, 'd', name, st);
        if (to >= 0) {
                if (mkdirat(to, name, 0700) < 0)
                        return fail(w, -errno, name);
                out = openat(to, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
                if (out < 0)
                        return fail(w, -errno, name);
        }
        if (w->depth >= CONTEXT_DEPTH_MAX)
                return error_set(w->err, -E2BIG, "build context: more than %d directories inside each other",
                                 CONTEXT_DEPTH_MAX);
        w->depth++;
        r = walk_dir(w, in, out);
        w->depth--;
        put(w, "e", 1);
        if (r == 0 && out >= 0 && fchmod(out, st->st_mode & MODE_BITS) < 0)
                r = fail(w, -errno, name);
        return r;
}

static int walk_entry(struct walk *w, int from, int to, const char *name) {
        struct stat st;
        int r;

        if (fstatat(from, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
                return fail(w, -errno, name);
        if (S_ISREG(st.st_mode))
                return walk_file(w, from, to, name);
        if (!S_ISDIR(st.st_mode) && !S_ISLNK(st.st_mode))
                return 0;
        r = count(w, &st, name);
        if (r < 0)
                return r;
        return S_ISDIR(st.st_mode) ? enter_dir(w, from, to, name, &st) : walk_link(w, from, to, name, &st);
}

static int no_dots(const struct dirent *entry) {
        return strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
}

static int by_name(const struct dirent **a, const struct dirent **b) {
        return strcmp((*a)->d_name, (*b)->d_name);
}

static int walk_dir(struct walk *w, int from, int to) {
        struct dirent **entries = NULL;
        const int n = scandirat(from, ".", &entries, no_dots, by_name);
        int r = 0;

        if (n < 0)
                return fail(w, -errno, ".");
        for (int i = 0; i < n; i++) {
                if (r == 0)
                        r = walk_entry(w, from, to, entries[i]->d_name);
                free(entries[i]);
        }
        free(entries);
        return r;
}

int context_walk(int from, int to, SHA2_CTX *hash, struct error *err) {
        struct walk w = { .hash = hash, .err = err };

        return walk_dir(&w, from, to);
}
