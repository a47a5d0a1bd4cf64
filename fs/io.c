/* open files: requests here do not take the tree except to open and to close */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "fs/handle.h"
#include "fs/ops.h"
#include "fs/place.h"
#include "fs/reply.h"
#include "fs/upper.h"
#include "runtime/base/cleanup.h"

enum { LONG_WRITE = 128 << 10 };

bool io_wants_flush(struct server *s, fuse_ino_t ino) {
        struct node *node = node_get(s->table, ino);
        const bool wants = node && upper_judged(s, node);

        node_put(s->table, node);
        return wants;
}

/* what was looked up before it lost its name; to be written only when the host has no name of it either */
static int open_kept(struct server *s, struct node *node, int flags) {
        AUTO_FD int fd = dirs_kept(s, node);
        struct facts facts;

        if (fd < 0 || facts_at(fd, "", &facts) < 0)
                return -ESTALE;
        return (flags & O_ACCMODE) != O_RDONLY && facts.st.st_nlink > 0 ? -ESTALE : TAKE_FD(fd);
}

/* a file without names, opened again through /proc/PID/fd: by way of a descriptor that is open already */
static int open_nameless(struct server *s, struct node *node, int flags) {
        char path[sizeof("/proc/self/fd/") + 12];
        AUTO_FD int any =
                (flags & O_ACCMODE) == O_RDONLY ? handle_dup(s, node) : handle_dup_to_change(s, node);
        int fd;

        if (any == -EBADF)
                any = open_kept(s, node, flags);
        if (any < 0)
                return any == -EROFS ? any : -ESTALE;
        (void) snprintf(path, sizeof(path), "/proc/self/fd/%d", any);
        fd = open(path, flags | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
        return fd < 0 ? -errno : fd;
}

static int open_object(struct server *s, struct node *node, int flags) {
        const int fd = place_open(s, node, flags);
        int r;

        if (fd != -ESTALE && fd != -EACCES)
                return fd;
        r = open_nameless(s, node, flags);
        return r == -ESTALE ? fd : r;
}

static int truncate_open(struct server *s, struct node *node, int fd, int flags) {
        AUTO_FD int writable = -1;

        if ((flags & O_ACCMODE) == O_RDONLY) {
                writable = open_object(s, node, O_WRONLY);
                if (writable < 0)
                        return TAKE(writable, -1);
                fd = writable;
        }
        quota_freed(s);
        return ftruncate(fd, 0) < 0 ? -errno : 0;
}

/* Return: 0 and the handle's number in @fi, -errno */
static int open_node(struct server *s, struct node *node, struct fuse_file_info *fi) {
        const int flags = fi->flags;
        AUTO_TREE struct tree_hold hold = tree_read(s, node->id);
        AUTO_FD int fd = -1;
        int r;

        if (!S_ISREG(node->type))
                return S_ISDIR(node->type) ? -EISDIR : -ENXIO;
        if ((flags & O_ACCMODE) != O_RDONLY || (flags & O_TRUNC)) {
                r = place_admit(s, node, "write");
                if (r < 0)
                        return r;
                if (r == PLACE_COPY_UP && node->layer == NODE_LOWER) {
                        auto_tree(&hold);
                        hold = tree_write(s, node->id);
                        r = upper_copy_up(s, node, !(flags & O_TRUNC));
                        if (r < 0)
                                return r;
                }
        }
        r = fd = open_object(s, node, flags & O_ACCMODE);
        if (r >= 0 && (flags & O_TRUNC))
                r = truncate_open(s, node, fd, flags);
        if (r < 0)
                return r;
        fi->fh = handle_new(s, node, fd, flags);
        if (!fi->fh)
                return -ENOMEM;
        (void) TAKE_FD(fd);
        return 0;
}

/* Notes the version of the file open as @fd. Return: whether it is the one that was noted last. */
static bool note_version(struct server *s, struct node *node, int fd) {
        struct node_version *known = &node->version;
        struct stat st;
        bool same;

        if (fd < 0 || fstat(fd, &st) < 0)
                return false;
        table_lock(s->table);
        same = known->size == st.st_size && memcmp(&known->mtime, &st.st_mtim, sizeof(st.st_mtim)) == 0 &&
               memcmp(&known->ctime, &st.st_ctim, sizeof(st.st_ctim)) == 0;
        *known = (struct node_version){ .mtime = st.st_mtim, .ctime = st.st_ctim, .size = st.st_size };
        table_unlock(s->table);
        return same;
}

void op_open(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi) {
        struct server *s = fuse_req_userdata(req);
        struct node *node = node_get(s->table, ino);
        const bool writes = (fi->flags & O_ACCMODE) != O_RDONLY;
        const bool is_region = node && S_ISREG(node->type) && node == s->table->roots[node->region];
        int r = is_region ? watch_look(s, node->region) : 0;

        if (r == 0)
                r = node ? open_node(s, node, fi) : -ESTALE;
        /* The kernel compares size and time whenever it asks for attributes. Before it does so again, it must
         * not add pages of what the host has written since to those it has. One file may have become another.
         */
        fi->keep_cache = r == 0 && !is_region && note_version(s, node, handle_fd(s, fi->fh));
        fi->noflush = !(r == 0 && writes && upper_judged(s, node));
        node_put(s->table, node);
        if (r < 0) {
                reply_error(req, r);
        } else if (fuse_reply_open(req, fi) < 0) {
                AUTO_TREE struct tree_hold hold = tree_read(s, ino);

                handle_free(s, fi->fh);
        }
}

/* what the host has in memory is read at once; waiting for its disk is another matter */
static ssize_t read_some(struct server *s, int fd, char *buf, size_t size, off_t off) {
        const struct iovec iov = { .iov_base = buf, .iov_len = size };
        const ssize_t n = preadv2(fd, &iov, 1, off, RWF_NOWAIT);

        if (n >= 0 || (errno != EAGAIN && errno != EOPNOTSUPP))
                return n;
        server_yield_turn(s);
        return pread(fd, buf, size, off);
}

void op_read(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off, struct fuse_file_info *fi) {
        struct server *s = fuse_req_userdata(req);
        const int fd = handle_fd(s, fi->fh);
        char *buf = server_reply_buffer(s);
        size_t done = 0;
        ssize_t n = 1;

        (void) ino;
        if (fd < 0 || !buf) {
                reply_error(req, fd < 0 ? fd : -ENOMEM);
                return;
        }
        if (size > SERVER_IO_MAX)
                size = SERVER_IO_MAX;
        while (done < size && n > 0) {
                n = read_some(s, fd, buf + done, size - done, off + (off_t) done);
                if (n < 0 && errno == EINTR)
                        n = 1;
                else if (n > 0)
                        done += (size_t) n;
        }
        if (n < 0 && done == 0)
                reply_error(req, -errno);
        else
                (void) fuse_reply_buf(req, buf, done);
}

/*
 * Whether a write appends is a matter of the moment (F_SETFL) and of the kind of write: pages of a mapping
 * have a place, whatever the file was opened for. So the host's descriptor never has O_APPEND.
 */
static ssize_t write_some(const struct fuse_file_info *fi, int fd, const char *data, size_t size, off_t off) {
        const struct iovec iov = { .iov_base = (void *) (uintptr_t) data, .iov_len = size };

        if ((fi->flags & O_APPEND) && !fi->writepage)
                return pwritev2(fd, &iov, 1, off, RWF_APPEND);
        return pwrite(fd, data, size, off);
}

void op_write(fuse_req_t req, fuse_ino_t ino, const char *data, size_t size, off_t off,
              struct fuse_file_info *fi) {
        struct server *s = fuse_req_userdata(req);
        const int fd = handle_fd(s, fi->fh);
        size_t done = 0;
        int r = fd < 0 ? fd : 0;

        if (size >= LONG_WRITE)
                server_yield_turn(s);
        if (r == 0)
                r = quota_reserve_node(s, ino, size);
        while (r == 0 && done < size) {
                const ssize_t n = write_some(fi, fd, data + done, size - done, off + (off_t) done);

                if (n > 0)
                        done += (size_t) n;
                else if (n == 0 || errno != EINTR)
                        r = n == 0 ? -EIO : -errno;
        }
        if (done > 0 || r == 0)
                (void) fuse_reply_write(req, done);
        else
                reply_error(req, r);
}

/* close(2) of a judged file waits here, so that the host has it when close returns; more may be written */
void op_flush(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi) {
        struct server *s = fuse_req_userdata(req);
        struct node *node = handle_node(s, fi->fh);

        (void) ino;
        if (node && upper_judged(s, node)) {
                AUTO_TREE struct tree_hold hold = tree_write(s, node->id);

                (void) upper_land(s, node, true);
        }
        node_put(s->table, node);
        reply_error(req, 0);
}

void op_release(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi) {
        struct server *s = fuse_req_userdata(req);
        struct node *node = handle_node(s, fi->fh);
        bool last = false;

        (void) ino;
        if (node && (fi->flags & O_ACCMODE) != O_RDONLY)
                (void) note_version(s, node, handle_fd(s, fi->fh)); /* the work's own pages are right */
        {
                AUTO_TREE struct tree_hold hold = tree_read(s, node ? node->id : ino);

                handle_free(s, fi->fh);
                quota_freed(s);
        }
        if (node && upper_judged(s, node)) {
                AUTO_TREE struct tree_hold hold = tree_write(s, node->id);

                table_lock(s->table);
                last = node->writers == 0;
                table_unlock(s->table);
                if (last)
                        (void) upper_land(s, node, false);
        }
        node_put(s->table, node);
        reply_error(req, 0);
}

void op_fsync(fuse_req_t req, fuse_ino_t ino, int datasync, struct fuse_file_info *fi) {
        struct server *s = fuse_req_userdata(req);
        const int fd = handle_fd(s, fi->fh);
        int r = fd;

        (void) ino;
        server_yield_turn(s);
        if (fd >= 0)
                r = (datasync ? fdatasync(fd) : fsync(fd)) < 0 ? -errno : 0;
        reply_error(req, r);
}

void op_fallocate(fuse_req_t req, fuse_ino_t ino, int mode, off_t off, off_t len, struct fuse_file_info *fi) {
        struct server *s = fuse_req_userdata(req);
        const int fd = handle_fd(s, fi->fh);
        int r = fd;

        server_yield_turn(s);
        if (fd >= 0 && !(mode & (FALLOC_FL_PUNCH_HOLE | FALLOC_FL_COLLAPSE_RANGE)))
                r = quota_reserve_node(s, ino, len > 0 ? (uint64_t) len : 0);
        if (r >= 0)
                r = fallocate(fd, mode, off, len) < 0 ? -errno : 0;
        quota_freed(s);
        reply_error(req, r);
}

void op_lseek(fuse_req_t req, fuse_ino_t ino, off_t off, int whence, struct fuse_file_info *fi) {
        struct server *s = fuse_req_userdata(req);
        const int fd = handle_fd(s, fi->fh);
        off_t r;

        (void) ino;
        /* the descriptor's own offset is used by nothing else */
        r = fd < 0 ? -1 : lseek(fd, off, whence);
        if (r < 0)
                reply_error(req, fd < 0 ? fd : -errno);
        else
                (void) fuse_reply_lseek(req, r);
}

/* no more is copied than there is */
static int reserve_copy(struct server *s, fuse_ino_t ino_out, int in, off_t off_in, size_t len) {
        struct stat st;

        if (fstat(in, &st) < 0)
                return -errno;
        if (off_in >= st.st_size)
                return 0;
        return quota_reserve_node(
                s, ino_out, len < (size_t) (st.st_size - off_in) ? len : (uint64_t) (st.st_size - off_in));
}

/* NOLINTNEXTLINE(readability-function-size): the parameters are libfuse's */
void op_copy_file_range(fuse_req_t req, fuse_ino_t ino_in, off_t off_in, struct fuse_file_info *fi_in,
                        fuse_ino_t ino_out, off_t off_out, struct fuse_file_info *fi_out, size_t len,
                        int flags) {
        struct server *s = fuse_req_userdata(req);
        const int in = handle_fd(s, fi_in->fh), out = handle_fd(s, fi_out->fh);
        ssize_t n;
        int r;

        (void) ino_in;
        if (in < 0 || out < 0) {
                reply_error(req, -EBADF);
                return;
        }
        server_yield_turn(s);
        r = reserve_copy(s, ino_out, in, off_in, len);
        if (r < 0) {
                reply_error(req, r);
                return;
        }
        n = copy_file_range(in, &off_in, out, &off_out, len, (unsigned int) flags);
        if (n < 0)
                reply_error(req, -errno);
        else
                (void) fuse_reply_write(req, (size_t) n);
}
