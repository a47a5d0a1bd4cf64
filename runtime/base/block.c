#include "runtime/base/block.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "runtime/base/cleanup.h"
#include "runtime/base/file.h"

int block_put(struct buf *b, const char *const *vector, uint32_t *n) {
        int r = 0;

        for (; vector && r == 0 && *vector; vector++, ++*n)
                r = buf_add(b, *vector, strlen(*vector) + 1);
        return r;
}

int block_fd(const struct buf *b) {
        AUTO_FD int fd = memfd_create("exec", MFD_CLOEXEC);
        int r;

        if (fd < 0)
                return -errno;
        r = write_all(fd, b->data, b->len);
        return r < 0 ? r : TAKE_FD(fd);
}

static int fill(int fd, char *data, size_t len) {
        for (size_t done = 0; done < len;) {
                const ssize_t n = pread(fd, data + done, len - done, (off_t) done);

                if (n < 0 && errno == EINTR)
                        continue;
                if (n <= 0)
                        return -EPROTO;
                done += (size_t) n;
        }
        return data[len - 1] == '\0' ? 0 : -EPROTO;
}

int block_read(int fd, const struct block_size *size, struct block *b) {
        const size_t strings = 1 + (size_t) size->argc + size->envc;
        size_t i = 0;
        char *p;
        int r;

        if (size->argc == 0 || size->bytes == 0 || size->bytes > BLOCK_MAX_BYTES || strings > size->bytes)
                return -EPROTO;
        b->data = malloc(size->bytes);
        b->vector = calloc(strings + 2, sizeof(char *));
        if (!b->data || !b->vector)
                return -ENOMEM;
        r = fill(fd, b->data, size->bytes);
        if (r < 0)
                return r;
        b->argv = b->vector;
        b->env = b->argv + size->argc + 1;
        for (p = b->data; p < b->data + size->bytes && i < strings; p += strlen(p) + 1, i++) {
                if (i == 0)
                        b->cwd = p;
                else if (i <= size->argc)
                        b->argv[i - 1] = p;
                else
                        b->env[i - 1 - size->argc] = p;
        }
        return i == strings && p == b->data + size->bytes ? 0 : -EPROTO;
}

void block_deinit(struct block *b) {
        free(b->data);
        free((void *) b->vector);
        *b = (struct block){ 0 };
}
