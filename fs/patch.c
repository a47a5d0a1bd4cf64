#include "fs/patch.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

#include "fs/layer.h"
#include "fs/names.h"
#include "fs/pathfd.h"
#include "fs/same.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/escape.h"
#include "runtime/base/file.h"
#include "runtime/base/path.h"
#include "runtime/base/sys.h"

enum { SNIFF_BYTES = 8000 }; /* as git: a NUL in them makes a file binary */

/** struct side - one version of a path */
struct side {
        unsigned int mode; /* as git has it: 0100644, 0100755, 0120000; 0: there is none */
        struct buf text;
        bool binary;
};

static void side_deinit(struct side *s) {
        buf_deinit(&s->text);
}
#define AUTO_SIDE __attribute__((cleanup(side_deinit)))

static unsigned int git_mode(mode_t mode) {
        if (S_ISLNK(mode))
                return 0120000;
        return mode & 0100 ? 0100755 : 0100644;
}

static int read_link(int dir_fd, const char *name, struct side *ret) {
        char target[PATH_MAX];
        const ssize_t n = readlinkat(dir_fd, name, target, sizeof(target));

        return n < 0 ? -errno : buf_add(&ret->text, target, (size_t) n);
}

static int read_side(int dir_fd, const char *name, const struct stat *st, bool in_upper, struct side *ret) {
        AUTO_FD int fd = -1;
        int r;

        ret->mode = git_mode(st->st_mode);
        if (S_ISLNK(st->st_mode))
                return read_link(dir_fd, name, ret);
        ret->binary = st->st_size > PATCH_BYTES_MAX;
        if (ret->binary)
                return 0;
        fd = in_upper ? layer_open_read(dir_fd, name)
                      : open_beneath(dir_fd, name, O_RDONLY | O_NONBLOCK | O_NOCTTY, 0);
        r = fd < 0 ? fd : file_read(fd, PATCH_BYTES_MAX, &ret->text);
        ret->binary = r < 0 || memchr(buf_cstr(&ret->text), '\0',
                                      ret->text.len < SNIFF_BYTES ? ret->text.len : SNIFF_BYTES) != NULL;
        return r == -ENOMEM ? r : 0;
}

/* "PREFIX/PATH" as git quotes it: only when it must be. */
static int put_name(struct buf *out, const char *prefix, const char *path) {
        static const char special[] = "\a\b\t\n\v\f\r\"\\", letters[] = "abtnvfr\"\\";
        bool plain = true;
        int r;

        for (const char *p = path; *p; p++)
                plain = plain && (unsigned char) *p >= ' ' && (unsigned char) *p < 0x7f &&
                        !strchr("\"\\", *p);
        if (plain)
                return buf_fmt(out, "%s%s", prefix, path);
        r = buf_fmt(out, "\"%s", prefix);
        for (const char *p = path; r == 0 && *p; p++) {
                const unsigned char c = (unsigned char) *p;
                const char *at = strchr(special, *p);

                if (at)
                        r = buf_fmt(out, "\\%c", letters[at - special]);
                else
                        r = c < ' ' || c >= 0x7f ? buf_fmt(out, "\\%03o", c) : buf_add(out, p, 1);
        }
        return r < 0 ? r : buf_str(out, "\"");
}

static int put_line(struct buf *out, const char *word, const char *prefix, const char *path) {
        int r;

        r = buf_str(out, word);
        if (r == 0)
                r = put_name(out, prefix, path);
        /* git ends a name that holds a blank with a tab in these lines */
        if (r == 0 && (*word == '-' || *word == '+') && strchr(path, ' '))
                r = buf_str(out, "\t");
        return r < 0 ? r : buf_str(out, "\n");
}

static int put_note(struct buf *out, const char *what, const char *path) {
        AUTO_FREE char *text = NULL;
        const size_t size = 4 * strlen(path) + 8;

        if (!out)
                return 0;
        text = malloc(size);
        return text ? buf_fmt(out, "# %s: %s\n", what, escape_str(path, text, size)) : -ENOMEM;
}

static int put_head(struct buf *out, const char *from, const char *to, const struct side *a,
                    const struct side *b) {
        const bool renamed = a->mode && b->mode && strcmp(from, to) != 0;
        int r;

        r = buf_str(out, "diff --git ");
        if (r == 0)
                r = put_name(out, "a/", a->mode ? from : to);
        if (r == 0)
                r = buf_str(out, " ");
        if (r == 0)
                r = put_line(out, "", "b/", b->mode ? to : from);
        if (r == 0 && a->mode == 0)
                r = buf_fmt(out, "new file mode %06o\n", b->mode);
        else if (r == 0 && b->mode == 0)
                r = buf_fmt(out, "deleted file mode %06o\n", a->mode);
        else if (r == 0 && a->mode != b->mode)
                r = buf_fmt(out, "old mode %06o\nnew mode %06o\n", a->mode, b->mode);
        if (r == 0 && renamed)
                r = put_line(out, "rename from ", "", from);
        return r < 0 || !renamed ? r : put_line(out, "rename to ", "", to);
}

static int put_hunks(struct buf *out, const char *from, const char *to, const struct side *a,
                     const struct side *b, const struct buf *hunks) {
        int r = 0;

        if (hunks->len == 0)
                return 0;
        r = a->mode ? put_line(out, "--- ", "a/", from) : buf_str(out, "--- /dev/null\n");
        if (r == 0)
                r = b->mode ? put_line(out, "+++ ", "b/", to) : buf_str(out, "+++ /dev/null\n");
        return r < 0 ? r : buf_add(out, hunks->data, hunks->len);
}

/* One file, of which either side may be missing. */
static int put_sides(struct buf *out, const char *from, const char *to, const struct side *a,
                     const struct side *b, struct patch *ret) {
        AUTO_BUF struct buf hunks = { 0 };
        struct lines lines;
        int r;

        if (a->binary || b->binary) {
                ret->binary = true;
                return put_note(out, "binary or long, not in this patch", to);
        }
        r = lines_diff(buf_cstr(&a->text), a->text.len, buf_cstr(&b->text), b->text.len, out ? &hunks : NULL,
                       &lines);
        if (r < 0)
                return r;
        ret->lines.added += lines.added;
        ret->lines.removed += lines.removed;
        if (!out || (a->mode == b->mode && hunks.len == 0 && strcmp(from, to) == 0))
                return 0; /* a mode that git does not know of */
        r = put_head(out, from, to, a, b);
        return r < 0 ? r : put_hunks(out, from, to, a, b, &hunks);
}

/** struct below - all files of a lower directory: renamed, or deleted where they are seen */
struct below {
        const struct patch_source *source;
        struct buf *out;
        struct patch *ret;
        struct buf path, to; /* of the object looked at: where it is, and where it is seen */
        bool renamed;
        unsigned depth;
};

static int below_level(struct below *w, int fd);

/* Whether another change speaks of the object: the work moved it away, or changed it after the rename. */
static bool is_other(const struct below *w, int dir_fd, const char *name, const struct stat *st) {
        enum layer_kind kind = LAYER_ABSENT;
        const char *last;
        struct stat upper;
        AUTO_FD int dir = -1;

        if (moves_takes(&w->source->moves, buf_cstr(&w->path)))
                return true;
        if (!w->renamed)
                return false;
        dir = pathfd_open_parent(w->source->layers->upper_fd, buf_cstr(&w->to), &last);
        if (dir < 0 || layer_lookup(dir, last, &kind, &upper) < 0 || kind == LAYER_ABSENT)
                return false;
        if (kind == LAYER_FILE)
                return !same_object(dir, &upper, dir_fd, st, name);
        return kind != LAYER_DIR || !S_ISDIR(st->st_mode);
}

static int below_entry(struct below *w, int dir_fd, const char *name) {
        AUTO_SIDE struct side a = { 0 };
        const struct side none = { 0 };
        struct stat st;
        AUTO_FD int fd = -1;
        int r;

        if (fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
                return errno == ENOENT ? 0 : -errno;
        if (is_other(w, dir_fd, name, &st))
                return 0;
        if (S_ISDIR(st.st_mode)) {
                fd = open_beneath(dir_fd, name, O_RDONLY | O_DIRECTORY, 0);
                if (fd < 0)
                        return put_note(w->out, "cannot be read, not in this patch", buf_cstr(&w->path));
                return ++w->depth > DIFF_DEPTH_MAX ? -ELOOP : below_level(w, fd);
        }
        if (!S_ISREG(st.st_mode) && !S_ISLNK(st.st_mode))
                return put_note(w->out, "special file, not in this patch", buf_cstr(&w->path));
        if (w->renamed) {
                a.mode = git_mode(st.st_mode);
                return put_sides(w->out, buf_cstr(&w->path), buf_cstr(&w->to), &a, &a, w->ret);
        }
        r = read_side(dir_fd, name, &st, false, &a);
        return r < 0 ? r : put_sides(w->out, buf_cstr(&w->path), buf_cstr(&w->path), &a, &none, w->ret);
}

static void cut(struct buf *path, size_t len) {
        path->len = len;
        if (path->data)
                path->data[len] = '\0';
}

static int below_level(struct below *w, int fd) {
        const size_t len = w->path.len, to_len = w->to.len;
        const unsigned depth = w->depth;
        AUTO_NAMES struct names names = { 0 };
        int r;

        r = names_read(fd, &names);
        for (size_t i = 0; r == 0 && i < names.n; i++) {
                r = buf_fmt(&w->path, "/%s", names.v[i]);
                if (r == 0)
                        r = buf_fmt(&w->to, "/%s", names.v[i]);
                if (r == 0)
                        r = below_entry(w, fd, names.v[i]);
                cut(&w->path, len);
                cut(&w->to, to_len);
                w->depth = depth;
        }
        return r;
}

static int put_tree(const struct patch_source *source, const struct change *c, struct buf *out,
                    struct patch *ret) {
        struct below w = { .source = source, .out = out, .ret = ret, .renamed = c->kind == CHANGE_RENAMED };
        const char *from = c->from ? c->from : c->lower_path;
        const char *name;
        AUTO_FD int parent = pathfd_open_parent(source->layers->lower_fd, from, &name);
        AUTO_FD int fd = parent < 0 ? parent : open_beneath(parent, name, O_RDONLY | O_DIRECTORY, 0);
        int r;

        if (fd < 0)
                return put_note(out, "cannot be read, not in this patch", from);
        r = buf_str(&w.path, from);
        if (r == 0)
                r = buf_str(&w.to, c->path);
        if (r == 0)
                r = below_level(&w, fd);
        buf_deinit(&w.path);
        buf_deinit(&w.to);
        return r;
}

static bool is_text(const struct stat *st) {
        return S_ISREG(st->st_mode) || S_ISLNK(st->st_mode);
}

/* The old and the new version, of one type or two. */
static int put_versions(const struct change *c, const struct stat *old, const struct stat *new,
                        struct buf *out, struct patch *ret) {
        AUTO_SIDE struct side a = { 0 }, b = { 0 };
        const struct side none = { 0 };
        int r = 0;

        if (old)
                r = read_side(c->lower_dir, path_basename(c->lower_path), old, false, &a);
        if (r == 0 && new)
                r = read_side(c->upper_dir, path_basename(c->path), new, true, &b);
        if (r < 0)
                return r;
        if (!old || !new || (old->st_mode & S_IFMT) == (new->st_mode &S_IFMT))
                return put_sides(out, c->lower_path, c->path, &a, &b, ret);
        r = put_sides(out, c->lower_path, c->lower_path, &a, &none, ret);
        return r < 0 ? r : put_sides(out, c->path, c->path, &none, &b, ret);
}

int patch_source_init(struct patch_source *s, const struct diff_layers *layers) {
        *s = (struct patch_source){ .layers = layers };
        return moves_read(layers->upper_fd, &s->moves);
}

void patch_source_deinit(struct patch_source *s) {
        moves_deinit(&s->moves);
}

int patch_change(const struct patch_source *source, const struct change *c, struct buf *out,
                 struct patch *ret) {
        const struct stat *old = c->lower, *new = c->kind == CHANGE_DELETED ? NULL : c->upper;
        int r = 0;

        *ret = (struct patch){ 0 };
        if (c->kind == CHANGE_RENAMED)
                return put_tree(source, c, out, ret);
        if (c->error)
                return put_note(out, "cannot be read, not in this patch", c->path);
        if (old && new &&S_ISDIR(old->st_mode) && S_ISDIR(new->st_mode))
                return put_note(out, "mode of a directory, not in this patch", c->path);
        if (old && S_ISDIR(old->st_mode))
                r = put_tree(source, c, out, ret);
        if (r == 0 && new && !is_text(new) && !S_ISDIR(new->st_mode))
                r = put_note(out, "special file, not in this patch", c->path);
        if (r < 0)
                return r;
        old = old && is_text(old) ? old : NULL;
        new = new &&is_text(new) ? new : NULL;
        return old || new ? put_versions(c, old, new, out, ret) : 0;
}
