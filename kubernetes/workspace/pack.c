#include "kubernetes/workspace/pack.h"

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fs/names.h"
#include "kubernetes/workspace/member.h"
#include "runtime/base/buf.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/escape.h"
#include "runtime/base/sys.h"

enum { PACK_CHUNK = 256 * 1024, PACK_BLOCK = 512 * 1024 /* few frames: each is work inside */ };

struct pack {
        struct archive *out;
        pack_sink sink;
        void *arg;
        int sink_error;
        struct rules *rules; /* borrowed, NULL */
        struct pack_report *report;
        struct buf path; /* of what is being written */
        unsigned int depth;
        char chunk[PACK_CHUNK];
};

static void auto_archive(struct archive **a) {
        (void) archive_write_free(*a);
}

static void auto_entry(struct archive_entry **e) {
        archive_entry_free(*e);
}

static la_ssize_t put_bytes(struct archive *a, void *arg, const void *data, size_t len) {
        struct pack *p = arg;

        p->sink_error = p->sink(p->arg, data, len);
        if (p->sink_error == 0)
                return (la_ssize_t) len;
        archive_set_error(a, -p->sink_error, "%s", strerror(-p->sink_error));
        return -1;
}

static int broken(struct pack *p, struct error *err) {
        const int code = p->sink_error ? -p->sink_error : archive_errno(p->out);

        return error_set(err, code > 0 ? -code : -EIO, "send '%s': %s", ESC(buf_cstr(&p->path)),
                         code > 0 ? strerror(code) : "the archive cannot hold it");
}

static int keep(struct pack *p) {
        return paths_add(&p->report->kept, buf_cstr(&p->path));
}

/* Linked worktrees are other places of the host. */
static bool stays(struct pack *p, mode_t mode) {
        if (strcmp(buf_cstr(&p->path), ".git/worktrees") == 0)
                return true;
        return p->rules && rules_path(p->rules, buf_cstr(&p->path), mode).action == GUARD_HIDE;
}

static int put_header(struct pack *p, const struct stat *st, const char *target, struct error *err) {
        __attribute__((cleanup(auto_entry))) struct archive_entry *e = archive_entry_new();

        if (!e)
                return error_set(err, -ENOMEM, "out of memory");
        archive_entry_set_pathname(e, buf_cstr(&p->path));
        archive_entry_set_mode(e, (st->st_mode & (S_IFMT | 0777)) | (S_ISDIR(st->st_mode) ? S_IRWXU : 0));
        archive_entry_set_size(e, S_ISREG(st->st_mode) ? st->st_size : 0);
        archive_entry_set_mtime(e, st->st_mtim.tv_sec, st->st_mtim.tv_nsec);
        if (target)
                archive_entry_set_symlink(e, target);
        if (archive_write_header(p->out, e) != ARCHIVE_OK)
                return broken(p, err);
        return paths_add(&p->report->sent, buf_cstr(&p->path));
}

/* Exactly what the header says: a file that shrinks is filled with zeros. */
static int put_file(struct pack *p, int fd, const struct stat *st, struct error *err) {
        int r = put_header(p, st, NULL, err);

        for (off_t left = st->st_size; r == 0 && left > 0;) {
                const size_t want = left < PACK_CHUNK ? (size_t) left : PACK_CHUNK;
                ssize_t n = read(fd, p->chunk, want);

                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0)
                        return error_set(err, -errno, "read '%s': %s", ESC(buf_cstr(&p->path)),
                                         strerror(errno));
                if (n == 0) {
                        memset(p->chunk, 0, want);
                        n = (ssize_t) want;
                }
                if (archive_write_data(p->out, p->chunk, (size_t) n) != n)
                        return broken(p, err);
                left -= n;
                p->report->bytes += (uint64_t) n;
        }
        return r;
}

static int put_link(struct pack *p, int dir_fd, const char *name, const struct stat *st, struct error *err) {
        char target[PATH_MAX];
        const ssize_t n = readlinkat(dir_fd, name, target, sizeof(target) - 1);

        if (n <= 0)
                return keep(p);
        target[n] = '\0';
        return put_header(p, st, target, err);
}

static int put_dir(struct pack *p, int dir_fd, struct error *err);

static int put_opened(struct pack *p, int dir_fd, const char *name, mode_t type, struct error *err) {
        AUTO_FD int fd =
                open_beneath(dir_fd, name, O_RDONLY | O_NONBLOCK | (S_ISDIR(type) ? O_DIRECTORY : 0), 0);
        struct stat st;
        int r;

        if (fd < 0 || fstat(fd, &st) < 0 || (st.st_mode & S_IFMT) != type)
                return keep(p);
        if (S_ISREG(type))
                return put_file(p, fd, &st, err);
        if (p->depth >= MEMBER_DEPTH_MAX)
                return keep(p);
        r = put_header(p, &st, NULL, err);
        if (r < 0)
                return r;
        p->depth++;
        r = put_dir(p, fd, err);
        p->depth--;
        return r;
}

static int put_name(struct pack *p, int dir_fd, const char *name, struct error *err) {
        struct stat st;

        if (fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
                return errno == ENOENT ? 0 : keep(p);
        if (p->path.len > MEMBER_PATH_MAX || stays(p, st.st_mode))
                return keep(p);
        if (S_ISLNK(st.st_mode))
                return put_link(p, dir_fd, name, &st, err);
        if (!S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode))
                return keep(p);
        return put_opened(p, dir_fd, name, st.st_mode & S_IFMT, err);
}

static int put_dir(struct pack *p, int dir_fd, struct error *err) {
        AUTO_NAMES struct names names = { 0 };
        const size_t len = p->path.len;
        int r;

        r = names_read(dir_fd, &names);
        if (r < 0)
                return error_set(err, r, "read the directory '%s': %s", ESC(buf_cstr(&p->path)),
                                 strerror(-r));
        for (size_t i = 0; r == 0 && i < names.n; i++) {
                r = buf_fmt(&p->path, "%s%s", len ? "/" : "", names.v[i]);
                if (r == 0)
                        r = put_name(p, dir_fd, names.v[i], err);
                p->path.len = len;
                if (p->path.data)
                        p->path.data[len] = '\0';
        }
        return r;
}

int pack_stream(int root_fd, struct rules *rules, pack_sink sink, void *arg, struct pack_report *ret,
                struct error *err) {
        AUTO_FREE struct pack *p = calloc(1, sizeof(*p)); /* lives longer than what writes to it */
        __attribute__((cleanup(auto_archive))) struct archive *a = archive_write_new();
        int r;

        if (!a || !p || archive_write_set_format_gnutar(a) != ARCHIVE_OK ||
            archive_write_set_bytes_per_block(a, PACK_BLOCK) != ARCHIVE_OK ||
            archive_write_set_bytes_in_last_block(a, 1) != ARCHIVE_OK)
                return error_set(err, -ENOMEM, "out of memory");
        p->out = a;
        p->sink = sink;
        p->arg = arg;
        p->rules = rules;
        p->report = ret;
        if (archive_write_open(a, p, NULL, put_bytes, NULL) != ARCHIVE_OK)
                return broken(p, err);
        r = put_dir(p, root_fd, err);
        if (r == 0 && archive_write_close(a) != ARCHIVE_OK)
                r = broken(p, err);
        buf_deinit(&p->path);
        paths_seal(&ret->sent);
        paths_seal(&ret->kept);
        return r == 0 || !err || err->code ? r : error_set(err, r, "send the workspace: %s", strerror(-r));
}
