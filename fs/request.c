#include "fs/request.h"

#include <errno.h>
#include <linux/fuse.h>
#include <stdint.h>
#include <string.h>

#include "runtime/base/cleanup.h"

enum tail { TAIL_NONE, TAIL_WRITE, TAIL_SETXATTR, TAIL_FORGETS, TAIL_INIT };

/** struct shape - what a message has after its header: a struct, names that end with a NUL, then data */
struct shape {
        uint8_t fixed;
        uint8_t names;
        enum tail tail;
};

/* the short form of the struct, which is what the kernel sends unless FUSE_SETXATTR_EXT was agreed on */
enum { SETXATTR_SIZE = 8, INIT_SIZE = 16 };

static const struct shape shapes[] = {
        [FUSE_LOOKUP] = { .names = 1 },
        [FUSE_FORGET] = { sizeof(struct fuse_forget_in) },
        [FUSE_GETATTR] = { sizeof(struct fuse_getattr_in) },
        [FUSE_SETATTR] = { sizeof(struct fuse_setattr_in) },
        [FUSE_SYMLINK] = { .names = 2 },
        [FUSE_MKNOD] = { sizeof(struct fuse_mknod_in), 1 },
        [FUSE_MKDIR] = { sizeof(struct fuse_mkdir_in), 1 },
        [FUSE_UNLINK] = { .names = 1 },
        [FUSE_RMDIR] = { .names = 1 },
        [FUSE_RENAME] = { sizeof(struct fuse_rename_in), 2 },
        [FUSE_LINK] = { sizeof(struct fuse_link_in), 1 },
        [FUSE_OPEN] = { sizeof(struct fuse_open_in) },
        [FUSE_READ] = { sizeof(struct fuse_read_in) },
        [FUSE_WRITE] = { sizeof(struct fuse_write_in), 0, TAIL_WRITE },
        [FUSE_RELEASE] = { sizeof(struct fuse_release_in) },
        [FUSE_FSYNC] = { sizeof(struct fuse_fsync_in) },
        [FUSE_SETXATTR] = { SETXATTR_SIZE, 1, TAIL_SETXATTR },
        [FUSE_GETXATTR] = { sizeof(struct fuse_getxattr_in), 1 },
        [FUSE_LISTXATTR] = { sizeof(struct fuse_getxattr_in) },
        [FUSE_REMOVEXATTR] = { .names = 1 },
        [FUSE_FLUSH] = { sizeof(struct fuse_flush_in) },
        [FUSE_INIT] = { INIT_SIZE, 0, TAIL_INIT },
        [FUSE_OPENDIR] = { sizeof(struct fuse_open_in) },
        [FUSE_READDIR] = { sizeof(struct fuse_read_in) },
        [FUSE_RELEASEDIR] = { sizeof(struct fuse_release_in) },
        [FUSE_FSYNCDIR] = { sizeof(struct fuse_fsync_in) },
        [FUSE_GETLK] = { sizeof(struct fuse_lk_in) },
        [FUSE_SETLK] = { sizeof(struct fuse_lk_in) },
        [FUSE_SETLKW] = { sizeof(struct fuse_lk_in) },
        [FUSE_ACCESS] = { sizeof(struct fuse_access_in) },
        [FUSE_CREATE] = { sizeof(struct fuse_create_in), 1 },
        [FUSE_INTERRUPT] = { sizeof(struct fuse_interrupt_in) },
        [FUSE_BMAP] = { sizeof(struct fuse_bmap_in) },
        [FUSE_IOCTL] = { sizeof(struct fuse_ioctl_in) },
        [FUSE_POLL] = { sizeof(struct fuse_poll_in) },
        [FUSE_BATCH_FORGET] = { sizeof(struct fuse_batch_forget_in), 0, TAIL_FORGETS },
        [FUSE_FALLOCATE] = { sizeof(struct fuse_fallocate_in) },
        [FUSE_READDIRPLUS] = { sizeof(struct fuse_read_in) },
        [FUSE_RENAME2] = { sizeof(struct fuse_rename2_in), 2 },
        [FUSE_LSEEK] = { sizeof(struct fuse_lseek_in) },
        [FUSE_COPY_FILE_RANGE] = { sizeof(struct fuse_copy_file_range_in) },
};

/* Return: whether @left bytes hold what the struct at @fixed says comes after the names */
static bool tail_fits(enum tail tail, const void *fixed, size_t body_len, size_t left) {
        const struct fuse_write_in *write = fixed;
        const struct fuse_setxattr_in *setxattr = fixed;
        const struct fuse_batch_forget_in *forget = fixed;
        const struct fuse_init_in *init = fixed;

        switch (tail) {
        case TAIL_NONE:
                return true;
        case TAIL_WRITE:
                return write->size <= left;
        case TAIL_SETXATTR:
                return setxattr->size <= left;
        case TAIL_FORGETS:
                return forget->count <= left / sizeof(struct fuse_forget_one);
        case TAIL_INIT:
                return !(init->flags & FUSE_INIT_EXT) || body_len >= sizeof(*init);
        }
        return false;
}

int request_check(const void *msg, size_t len) {
        const struct fuse_in_header *in = msg;
        const char *body = (const char *) (in + 1), *at;
        const struct shape *shape;
        size_t left;

        if (len < sizeof(*in) || in->len != len)
                return -EINVAL;
        if (in->opcode == FUSE_NOTIFY_REPLY)
                return -EINVAL; /* to a question that was never asked */
        if (in->opcode >= ARRAY_SIZE(shapes))
                return 0;
        shape = &shapes[in->opcode];
        left = len - sizeof(*in);
        if (left < shape->fixed)
                return -EINVAL;
        at = body + shape->fixed;
        left -= shape->fixed;
        for (unsigned int i = 0; i < shape->names; i++) {
                const size_t n = strnlen(at, left);

                if (n == left)
                        return -EINVAL; /* no NUL */
                at += n + 1;
                left -= n + 1;
        }
        return tail_fits(shape->tail, body, len - sizeof(*in), left) ? 0 : -EINVAL;
}

bool request_wants_reply(const void *msg) {
        const struct fuse_in_header *in = msg;

        return in->opcode != FUSE_FORGET && in->opcode != FUSE_BATCH_FORGET && in->opcode != FUSE_INTERRUPT &&
               in->opcode != FUSE_NOTIFY_REPLY;
}
