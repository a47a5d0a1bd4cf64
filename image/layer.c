/*
 * DOC: theory of operation
 *
 * The archive is the work of whoever made the image, and this process unpacks it with the rights over the
 * whole store: it is therefore confined before it reads the first byte (confine.c), and besides touches names
 * only by the descriptor of their parent, which open_beneath() reaches without following any link. What an
 * entry can do is to make, replace or remove names in the layer itself.
 *
 * Two readers of libarchive stand behind each other: the first only decompresses, so that what the second
 * takes for a tar archive can be digested on the way. Nothing of it counts before the digest has been
 * compared by the caller.
 */
#include "image/layer.h"

#include <archive.h>
#include <archive_entry.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "image/digest.h"
#include "image/remove.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/escape.h"
#include "runtime/base/sys.h"

enum { CHUNK = 128 << 10, WHITEOUT_LEN = 4, ROOM_FOR_HEADERS = 64 << 20 };
enum { FILTERS_MAX = 2 /* one, and what reads the file */, NOTES_MAX = 128 << 20 };

static const char whiteout[] = ".wh.", opaque[] = ".wh..wh..opq", opaque_xattr[] = "user.overlay.opaque";
static const char overlay_prefix[] = "user.overlay.", user_prefix[] = "user.";

/** struct dir_note - a directory whose times and mode are set when nothing in it changes any more */
struct dir_note {
        char *path; /* owned */
        mode_t mode;
        struct timespec mtime;
};

/** struct work - one layer */
struct work {
        const struct layer_request *request;
        struct archive *raw, *tar;
        struct digest *digest;
        char *chunk;   /* CHUNK bytes */
        uint64_t read; /* of the archive, uncompressed */
        bool too_much; /* that is more than the limit */
        struct dir_note *dirs;
        size_t n_dirs, cap_dirs, note_bytes;
        struct layer_result result;
};

/** struct item - one entry, as it is applied */
struct item {
        struct archive_entry *entry;
        const char *path; /* of layer_name() */
        const char *base; /* its last part; "" for the root */
        int parent_fd;    /* the directory of @base, owned */
};

bool layer_fits(const struct layer_limits *limits, uint64_t size) {
        return size / 2 <= limits->bytes + ROOM_FOR_HEADERS;
}

int layer_name(const char *name, char *out) {
        size_t len = 0, depth = 0;

        while (*name) {
                const size_t n = strcspn(name, "/");

                if (n == 2 && name[0] == '.' && name[1] == '.')
                        return -EPERM;
                if (n > NAME_MAX || len + n + 1 > LAYER_PATH_MAX || depth > LAYER_DEPTH_MAX)
                        return -ENAMETOOLONG;
                if (n > 0 && (n > 1 || *name != '.')) {
                        if (len > 0)
                                out[len++] = '/';
                        memcpy(out + len, name, n);
                        len += n;
                        depth++;
                }
                name += n + (name[n] == '/');
        }
        out[len] = '\0';
        return 0;
}

/* --- directories ------------------------------------------------------------------------------------------
 */

static int note_dir(struct work *w, const char *path, mode_t mode, struct timespec mtime) {
        struct dir_note note = { .mode = mode, .mtime = mtime };

        if (w->n_dirs == w->cap_dirs) {
                const size_t cap = w->cap_dirs ? w->cap_dirs * 2 : 256;
                struct dir_note *grown = reallocarray(w->dirs, cap, sizeof(*grown));

                if (!grown)
                        return -ENOMEM;
                w->dirs = grown;
                w->cap_dirs = cap;
        }
        w->note_bytes += sizeof(note) + strlen(path) + 1;
        if (w->note_bytes > NOTES_MAX)
                return -EFBIG;
        note.path = strdup(path);
        if (!note.path)
                return -ENOMEM;
        w->dirs[w->n_dirs++] = note;
        return 0;
}

/* The last word about a path counts. What is no directory any more is passed over. */
static int settle_dirs(struct work *w) {
        for (size_t i = 0; i < w->n_dirs; i++) {
                const struct dir_note *d = &w->dirs[i];
                const struct timespec times[] = { d->mtime, d->mtime };
                AUTO_FD int fd = -1;

                fd = *d->path ? open_beneath(w->request->dir_fd, d->path, O_RDONLY | O_DIRECTORY, 0)
                              : fcntl(w->request->dir_fd, F_DUPFD_CLOEXEC, 3);
                if (fd == -ENOTDIR || fd == -ENOENT || fd == -ELOOP)
                        continue;
                if (fd < 0)
                        return fd;
                if (fchmod(fd, d->mode) < 0 || futimens(fd, times) < 0)
                        return -errno;
        }
        return 0;
}

/* The directory @path, made with its parents where the archive did not say so. */
static int open_parent(const struct work *w, const char *path, size_t len) {
        char name[LAYER_PATH_MAX + 1];
        AUTO_FD int dir = -1;
        int fd;

        if (len == 0)
                return fcntl(w->request->dir_fd, F_DUPFD_CLOEXEC, 3);
        memcpy(name, path, len);
        name[len] = '\0';
        fd = open_beneath(w->request->dir_fd, name, O_RDONLY | O_DIRECTORY, 0);
        if (fd != -ENOENT)
                return fd;
        dir = fcntl(w->request->dir_fd, F_DUPFD_CLOEXEC, 3);
        if (dir < 0)
                return -errno;
        for (char *p = name; p;) {
                char *slash = strchr(p, '/');

                if (slash)
                        *slash = '\0';
                if (mkdirat(dir, p, 0755) < 0 && errno != EEXIST)
                        return -errno;
                fd = open_beneath(dir, p, O_RDONLY | O_DIRECTORY, 0);
                if (fd < 0)
                        return fd;
                (void) fd_close(dir);
                dir = fd;
                p = slash ? slash + 1 : NULL;
        }
        return TAKE_FD(dir);
}

/* --- what removes --------------------------------------------------------------------------------------- */

static bool is_whiteout(const struct stat *st) {
        return S_ISCHR(st->st_mode) && st->st_rdev == makedev(0, 0);
}

static int set_opaque(int dir, const char *name) {
        AUTO_FD int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

        return fd < 0 || fsetxattr(fd, opaque_xattr, "y", 1, 0) < 0 ? -errno : 0;
}

/* ".wh.NAME": of the layers below. What this layer has of that name itself stays, and hides all of theirs. */
static int apply_whiteout(const struct item *it) {
        const char *const name = it->base + WHITEOUT_LEN;
        struct stat st;

        if (strcmp(it->base, opaque) == 0)
                return fsetxattr(it->parent_fd, opaque_xattr, "y", 1, 0) < 0 ? -errno : 0;
        if (strncmp(name, whiteout, WHITEOUT_LEN) == 0)
                return 0; /* what aufs notes for itself */
        if (!*name || strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
                return -EPERM;
        if (fstatat(it->parent_fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0)
                return S_ISDIR(st.st_mode) ? set_opaque(it->parent_fd, name) : 0;
        if (errno != ENOENT)
                return -errno;
        return mknodat(it->parent_fd, name, S_IFCHR, makedev(0, 0)) < 0 ? -errno : 0;
}

/* --- what makes ------------------------------------------------------------------------------------------
 */

/* Makes room for @it. @ret_hides: it is to hide what the layers below have of that name. Return: 1: the
 * directory is there already. */
static int make_room(const struct item *it, bool is_dir, bool *ret_hides) {
        struct stat st;

        *ret_hides = false;
        if (fstatat(it->parent_fd, it->base, &st, AT_SYMLINK_NOFOLLOW) < 0)
                return errno == ENOENT ? 0 : -errno;
        if (is_dir && S_ISDIR(st.st_mode))
                return 1;
        *ret_hides = is_dir && is_whiteout(&st);
        if (S_ISDIR(st.st_mode))
                return remove_tree_at(it->parent_fd, it->base);
        return unlinkat(it->parent_fd, it->base, 0) < 0 ? -errno : 0;
}

static int own(const struct work *w, const struct item *it, int fd) {
        const int64_t uid = archive_entry_uid(it->entry), gid = archive_entry_gid(it->entry);

        if (!w->request->owners)
                return 0;
        if (uid < 0 || gid < 0 || uid > w->request->id_max || gid > w->request->id_max)
                return -EOVERFLOW;
        return (fd >= 0 ? fchown(fd, (uid_t) uid, (gid_t) gid)
                        : fchownat(it->parent_fd, it->base, (uid_t) uid, (gid_t) gid, AT_SYMLINK_NOFOLLOW)) <
                               0
                       ? -errno
                       : 0;
}

/* Attributes of the user's; those of overlayfs would change what other files are. */
static int set_xattrs(const struct item *it, int fd) {
        const char *name;
        const void *value;
        size_t size;

        (void) archive_entry_xattr_reset(it->entry);
        while (archive_entry_xattr_next(it->entry, &name, &value, &size) == ARCHIVE_OK) {
                if (!name || strncmp(name, user_prefix, sizeof(user_prefix) - 1) != 0 ||
                    strncmp(name, overlay_prefix, sizeof(overlay_prefix) - 1) == 0 || size > LAYER_XATTR_MAX)
                        continue;
                if (fsetxattr(fd, name, value, size, 0) < 0 && errno != EOPNOTSUPP && errno != ENOSPC &&
                    errno != ERANGE)
                        return -errno;
        }
        return 0;
}

static struct timespec mtime(const struct item *it) {
        return (struct timespec){ .tv_sec = archive_entry_mtime(it->entry),
                                  .tv_nsec = archive_entry_mtime_nsec(it->entry) };
}

static int make_dir(struct work *w, const struct item *it) {
        const mode_t mode = archive_entry_perm(it->entry) & 07777;
        AUTO_FD int fd = -1;
        bool hides = false;
        int r = 1;

        if (*it->base)
                r = make_room(it, true, &hides);
        if (r == 0 && mkdirat(it->parent_fd, it->base, 0700) < 0)
                return -errno;
        if (r < 0)
                return r;
        fd = *it->base ? openat(it->parent_fd, it->base, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)
                       : fcntl(it->parent_fd, F_DUPFD_CLOEXEC, 3);
        if (fd < 0)
                return -errno;
        r = own(w, it, fd);
        if (r == 0 && fchmod(fd, mode | 0700) < 0)
                r = -errno;
        if (r == 0)
                r = set_xattrs(it, fd);
        if (r == 0 && hides && fsetxattr(fd, opaque_xattr, "y", 1, 0) < 0)
                r = -errno;
        return r == 0 ? note_dir(w, it->path, mode, mtime(it)) : r;
}

static int write_at(int fd, const char *data, size_t len, off_t at) {
        while (len > 0) {
                const ssize_t n = pwrite(fd, data, len, at);

                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0)
                        return -errno;
                data += n;
                len -= (size_t) n;
                at += n;
        }
        return 0;
}

/* The holes of a sparse file count as what they are: nothing. Its size is not more than all may have. */
static int write_content(struct work *w, const struct item *it, int fd) {
        const int64_t size = archive_entry_size(it->entry);
        const uint64_t max = w->request->limits.bytes;
        const void *data;
        size_t len;
        la_int64_t at;
        int r = 0;

        if (size < 0 || (uint64_t) size > max)
                return -EFBIG;
        while (r == 0) {
                r = archive_read_data_block(w->tar, &data, &len, &at);
                if (r == ARCHIVE_EOF)
                        return ftruncate(fd, size) < 0 ? -errno : 0;
                if (w->too_much)
                        return -EFBIG;
                if (r < ARCHIVE_OK || at < 0 || at > size || len > (uint64_t) (size - at))
                        return -EBADMSG;
                if (len > max - w->result.bytes)
                        return -EFBIG;
                r = write_at(fd, data, len, at);
                w->result.bytes += len;
        }
        return r;
}

static int make_file(struct work *w, const struct item *it) {
        const struct timespec times[] = { mtime(it), mtime(it) };
        AUTO_FD int fd = -1;
        bool hides;
        int r;

        r = make_room(it, false, &hides);
        if (r < 0)
                return r;
        fd = openat(it->parent_fd, it->base, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
        if (fd < 0)
                return -errno;
        r = write_content(w, it, fd);
        if (r == 0)
                r = own(w, it, fd);
        if (r == 0)
                r = set_xattrs(it, fd);
        if (r == 0 &&
            fchmod(fd, archive_entry_perm(it->entry) & 07777) < 0) /* after the owner, who clears bits */
                r = -errno;
        return r == 0 && futimens(fd, times) < 0 ? -errno : r;
}

static int make_symlink(struct work *w, const struct item *it) {
        const char *to = archive_entry_symlink(it->entry);
        const struct timespec times[] = { mtime(it), mtime(it) };
        bool hides;
        int r;

        if (!to || !*to)
                return -EBADMSG;
        r = make_room(it, false, &hides);
        if (r < 0)
                return r;
        if (symlinkat(to, it->parent_fd, it->base) < 0)
                return -errno;
        r = own(w, it, -1);
        return r == 0 && utimensat(it->parent_fd, it->base, times, AT_SYMLINK_NOFOLLOW) < 0 ? -errno : r;
}

/* Owner, mode and time of what is no link and just was made. */
static int settle_file(const struct work *w, const struct item *it) {
        const struct timespec times[] = { mtime(it), mtime(it) };
        int r;

        r = own(w, it, -1);
        if (r == 0 && fchmodat(it->parent_fd, it->base, archive_entry_perm(it->entry) & 07777, 0) < 0)
                r = -errno; /* in a directory that nobody else changes */
        return r == 0 && utimensat(it->parent_fd, it->base, times, AT_SYMLINK_NOFOLLOW) < 0 ? -errno : r;
}

/* To a name of this layer; it is looked up as a name is that is made. */
static int make_hardlink(struct work *w, const struct item *it) {
        char path[LAYER_PATH_MAX + 1];
        AUTO_FD int dir = -1;
        const char *slash;
        struct stat st, same;
        bool hides;
        int r;

        r = layer_name(archive_entry_hardlink(it->entry), path);
        if (r < 0 || !*path)
                return r < 0 ? r : -EPERM;
        slash = strrchr(path, '/');
        dir = open_parent(w, path, slash ? (size_t) (slash - path) : 0);
        if (dir < 0)
                return dir;
        slash = slash ? slash + 1 : path;
        if (fstatat(dir, slash, &st, AT_SYMLINK_NOFOLLOW) < 0)
                return errno == ENOENT ? -EBADMSG : -errno;
        if (S_ISDIR(st.st_mode) || is_whiteout(&st))
                return -EPERM;
        if (fstatat(it->parent_fd, it->base, &same, AT_SYMLINK_NOFOLLOW) == 0 && same.st_dev == st.st_dev &&
            same.st_ino == st.st_ino)
                return 0; /* to itself, or once more */
        r = make_room(it, false, &hides);
        if (r < 0)
                return r;
        if (linkat(dir, slash, it->parent_fd, it->base, 0) < 0)
                return -errno;
        return S_ISREG(st.st_mode) ? settle_file(w, it) : 0; /* what this entry says counts, as with docker */
}

static int make_fifo(struct work *w, const struct item *it) {
        bool hides;
        int r;

        r = make_room(it, false, &hides);
        if (r == 0 && mknodat(it->parent_fd, it->base, S_IFIFO | 0600, 0) < 0)
                return -errno;
        return r == 0 ? settle_file(w, it) : r;
}

static int make(struct work *w, const struct item *it) {
        if (archive_entry_hardlink(it->entry))
                return make_hardlink(w, it);
        switch (archive_entry_filetype(it->entry)) {
        case AE_IFDIR:
                return make_dir(w, it);
        case AE_IFREG:
                return make_file(w, it);
        case AE_IFLNK:
                return make_symlink(w, it);
        case AE_IFIFO:
                return make_fifo(w, it);
        case AE_IFCHR:
        case AE_IFBLK:
                w->result.devices++;
                return 0;
        default:
                return -EBADMSG;
        }
}

/* --- entries ---------------------------------------------------------------------------------------------
 */

static const struct {
        int r;
        const char *text;
} reasons[] = {
        { -EPERM, "the name, or what it links to, leads outside of the layer" },
        { -ELOOP, "the name leads through a symbolic link of the layer" },
        { -EXDEV, "the name leads outside of the layer" },
        { -ENOTDIR, "the name leads through what is no directory" },
        { -EFBIG, "the layer is larger than allowed: see --max-size" },
        { -ENAMETOOLONG, "the name is too long" },
        { -EOVERFLOW,
          "it belongs to an id that cannot be given: have a larger range in /etc/subuid and /etc/subgid" },
        { -EBADMSG, "the archive is damaged" },
};

static int explain(const char *name, int r, struct error *err) {
        const char *text = strerror(-r);

        for (size_t i = 0; i < ARRAY_SIZE(reasons); i++)
                if (reasons[i].r == r)
                        text = reasons[i].text;
        return *name ? error_set(err, r, "layer: '%s': %s", ESC(name), text)
                     : error_set(err, r, "layer: %s", text);
}

static int apply_entry(struct work *w, struct archive_entry *entry) {
        const char *name = archive_entry_pathname(entry);
        char path[LAYER_PATH_MAX + 1];
        AUTO_FD int parent = -1;
        struct item it = { .entry = entry, .path = path };
        const char *slash;
        int r;

        if (!name)
                return -EBADMSG;
        if (++w->result.entries > w->request->limits.entries)
                return -EFBIG;
        r = layer_name(name, path);
        if (r < 0)
                return r;
        slash = strrchr(path, '/');
        it.base = slash ? slash + 1 : path;
        if (!*it.base && archive_entry_filetype(entry) != AE_IFDIR)
                return -EPERM;
        parent = open_parent(w, path, slash ? (size_t) (slash - path) : 0);
        if (parent < 0)
                return parent;
        it.parent_fd = parent;
        return strncmp(it.base, whiteout, WHITEOUT_LEN) == 0 ? apply_whiteout(&it) : make(w, &it);
}

static la_ssize_t next_chunk(struct archive *tar, void *arg, const void **ret) {
        struct work *w = arg;
        const la_ssize_t n = archive_read_data(w->raw, w->chunk, CHUNK);

        w->read += n > 0 ? (uint64_t) n : 0;
        if (!layer_fits(&w->request->limits, w->read)) {
                w->too_much = true;
                archive_set_error(tar, EFBIG, "too much");
                return -1;
        }
        if (n < 0 || (n > 0 && digest_add(w->digest, w->chunk, (size_t) n) < 0)) {
                archive_set_error(tar, EIO, "%s", n < 0 ? archive_error_string(w->raw) : "digest");
                return -1;
        }
        *ret = w->chunk;
        return n;
}

static int open_readers(struct work *w) {
        struct archive_entry *whole;

        w->raw = archive_read_new();
        w->tar = archive_read_new();
        w->digest = digest_new();
        w->chunk = malloc(CHUNK);
        if (!w->raw || !w->tar || !w->digest || !w->chunk)
                return -ENOMEM;
        if (archive_read_support_filter_gzip(w->raw) != ARCHIVE_OK ||
            archive_read_support_filter_zstd(w->raw) != ARCHIVE_OK ||
            archive_read_support_format_raw(w->raw) != ARCHIVE_OK ||
            archive_read_support_format_empty(w->raw) != ARCHIVE_OK ||
            archive_read_support_format_tar(w->tar) != ARCHIVE_OK ||
            archive_read_support_format_empty(w->tar) != ARCHIVE_OK)
                return -ENOSYS;
        if (archive_read_open_fd(w->raw, w->request->archive_fd, CHUNK) != ARCHIVE_OK)
                return -EBADMSG;
        switch (archive_read_next_header(w->raw, &whole)) {
        case ARCHIVE_OK:
        case ARCHIVE_EOF: /* nothing at all: an archive without entries */
                break;
        default:
                return -EBADMSG;
        }
        if (archive_filter_count(w->raw) > FILTERS_MAX)
                return -EBADMSG; /* each in the other, what little is left at the end has taken days */
        return archive_read_open(w->tar, w, NULL, next_chunk, NULL) == ARCHIVE_OK ? 0 : -EBADMSG;
}

/* What stands behind the end of the archive has a part in the digest. */
static int drain(struct work *w) {
        const void *rest;
        la_ssize_t n;

        do
                n = next_chunk(w->tar, w, &rest);
        while (n > 0);
        return n < 0 ? (w->too_much ? -EFBIG : -EBADMSG) : 0;
}

static int apply_all(struct work *w, struct error *err) {
        struct archive_entry *entry;
        int r;

        for (;;) {
                r = archive_read_next_header(w->tar, &entry);
                if (r == ARCHIVE_EOF)
                        break;
                if (w->too_much)
                        return explain("", -EFBIG, err);
                if (r < ARCHIVE_WARN && archive_errno(w->tar) == ENOMEM)
                        return -ENOMEM;
                if (r < ARCHIVE_WARN)
                        return error_set(
                                err, -EBADMSG, "layer: the archive is damaged: %s",
                                ESC(archive_error_string(w->tar) ? archive_error_string(w->tar) : "?"));
                r = apply_entry(w, entry);
                if (r < 0)
                        return explain(archive_entry_pathname(entry) ? archive_entry_pathname(entry) : "?", r,
                                       err);
        }
        r = drain(w);
        if (r < 0)
                return explain("", r, err);
        r = settle_dirs(w);
        return r < 0 ? error_set(err, r, "layer: modes and times of directories: %s", strerror(-r)) : 0;
}

int layer_apply(const struct layer_request *request, struct layer_result *ret, struct error *err) {
        struct work w = { .request = request };
        int r;

        r = open_readers(&w);
        if (r < 0)
                (void) error_set(err, r, "layer: %s",
                                 r == -EBADMSG ? "neither a tar archive nor one compressed by gzip or zstd"
                                               : strerror(-r));
        else
                r = apply_all(&w, err);
        if (r == 0 && digest_end(w.digest, w.result.diff_id) < 0)
                r = error_set(err, -EIO, "layer: digest");
        if (w.tar)
                (void) archive_read_free(w.tar);
        if (w.raw)
                (void) archive_read_free(w.raw);
        w.digest = digest_free(w.digest);
        free(w.chunk);
        for (size_t i = 0; i < w.n_dirs; i++)
                free(w.dirs[i].path);
        free(w.dirs);
        if (r == 0)
                *ret = w.result;
        return r;
}
