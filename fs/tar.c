#include "fs/tar.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/base/buf.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/file.h"

enum { BLOCK = 512, END_BLOCKS = 20, COPY_BYTES = 1 << 16 };

struct header {
        char name[100], mode[8], uid[8], gid[8], size[12], mtime[12], sum[8], type, link[100];
        char magic[6], version[2], uname[32], gname[32], major[8], minor[8], prefix[155], pad[12];
};
static_assert(sizeof(struct header) == BLOCK, "header is a block");

/** struct extent - bytes of a file that are no hole */
struct extent {
        off_t start, len;
};

#define SIZE_OCTAL_MAX 077777777777ULL

static const char zeros[BLOCK * (END_BLOCKS + 2)];

static int put(struct tar *tar, const void *data, size_t len) {
        tar->bytes += len;
        return write_all(tar->fd, data, len);
}

static int pad(struct tar *tar, uint64_t len) {
        const size_t rest = len % BLOCK;

        return rest ? put(tar, zeros, BLOCK - rest) : 0;
}

/* Octal digits that fill all but the last byte. */
static void octal(char *out, size_t size, uint64_t value) {
        char text[24];

        (void) snprintf(text, sizeof(text), "%0*" PRIo64, (int) size - 1, value);
        memcpy(out, text + strlen(text) - (size - 1), size - 1);
}

static void fill(struct header *h, const char *name, const char *link, const struct stat *st, uint64_t size,
                 char type) {
        const unsigned char *p = (const unsigned char *) h;
        uint64_t sum = 0;

        *h = (struct header){ .type = type };
        memcpy(h->name, name, strnlen(name, sizeof(h->name)));
        memcpy(h->link, link, strnlen(link, sizeof(h->link)));
        octal(h->mode, sizeof(h->mode), st->st_mode & 07777);
        octal(h->uid, sizeof(h->uid), st->st_uid & 07777777);
        octal(h->gid, sizeof(h->gid), st->st_gid & 07777777);
        octal(h->size, sizeof(h->size), size & SIZE_OCTAL_MAX);
        octal(h->mtime, sizeof(h->mtime),
              st->st_mtim.tv_sec < 0 ? 0 : (uint64_t) st->st_mtim.tv_sec & SIZE_OCTAL_MAX);
        memcpy(h->magic, "ustar", 6);
        memcpy(h->version, "00", 2);
        memset(h->sum, ' ', sizeof(h->sum));
        for (size_t i = 0; i < sizeof(*h); i++)
                sum += p[i];
        octal(h->sum, sizeof(h->sum) - 1, sum);
        h->sum[6] = '\0';
}

/* "LENGTH key=value\n", where the length counts itself */
static int record(struct buf *out, const char *key, const char *value) {
        const size_t rest = strlen(key) + strlen(value) + 3;
        size_t len = rest;

        for (size_t digits = 1, top = 10; digits < 10; digits++, top *= 10) {
                len = rest + digits;
                if (len < top)
                        break;
        }
        return buf_fmt(out, "%zu %s=%s\n", len, key, value);
}

/* Names are UTF-8 in a pax header, unless it says that they are bytes. */
static bool is_text(const char *s) {
        json_t *text = json_string(s);
        const bool valid = text != NULL;

        json_decref(text);
        return valid;
}

static int number_record(struct buf *out, const char *key, uint64_t value) {
        char text[24];

        (void) snprintf(text, sizeof(text), "%" PRIu64, value);
        return record(out, key, text);
}

static int time_record(struct buf *out, const struct timespec *t) {
        char text[48];
        const bool before = t->tv_sec < 0 && t->tv_nsec > 0; /* -1.5 is -2 s and 500000000 ns */
        const int64_t s = before ? t->tv_sec + 1 : t->tv_sec;

        (void) snprintf(text, sizeof(text), "%s%" PRId64 ".%09ld", before && s == 0 ? "-" : "", s,
                        before ? 1000000000 - t->tv_nsec : t->tv_nsec);
        return record(out, "mtime", text);
}

/* All that the header proper has no room for. */
static int make_records(struct buf *out, const struct export_entry *e, const char *name, uint64_t size,
                        bool sparse) {
        int r = 0;

        if (!is_text(name) || (e->link && !is_text(e->link)))
                r = record(out, "hdrcharset", "BINARY");
        if (r == 0 && sparse)
                r = record(out, "GNU.sparse.major", "1");
        if (r == 0 && sparse)
                r = record(out, "GNU.sparse.minor", "0");
        if (r == 0 && sparse)
                r = record(out, "GNU.sparse.name", name);
        if (r == 0 && sparse)
                r = number_record(out, "GNU.sparse.realsize", (uint64_t) e->st.st_size);
        if (r == 0 && !sparse)
                r = record(out, "path", name);
        if (r == 0 && e->link)
                r = record(out, "linkpath", e->link);
        if (r == 0 && size > SIZE_OCTAL_MAX)
                r = number_record(out, "size", size);
        if (r == 0 && e->st.st_uid > 07777777)
                r = number_record(out, "uid", e->st.st_uid);
        if (r == 0 && e->st.st_gid > 07777777)
                r = number_record(out, "gid", e->st.st_gid);
        return r < 0 ? r : time_record(out, &e->st.st_mtim);
}

static int put_headers(struct tar *tar, const struct export_entry *e, const char *name, uint64_t size,
                       bool sparse) {
        AUTO_BUF struct buf records = { 0 };
        struct header h;
        int r;

        r = make_records(&records, e, name, size, sparse);
        if (r < 0)
                return r;
        fill(&h, "pax", "", &e->st, records.len, 'x');
        r = put(tar, &h, sizeof(h));
        if (r == 0)
                r = put(tar, records.data, records.len);
        if (r == 0)
                r = pad(tar, records.len);
        fill(&h, name, e->link ? e->link : "", &e->st, size,
             S_ISDIR(e->st.st_mode) ? '5'
             : e->link              ? '2'
                                    : '0');
        return r < 0 ? r : put(tar, &h, sizeof(h));
}

/* Exactly @len bytes of the file from @start on; what it has no more is zeros. */
static int put_bytes(struct tar *tar, int fd, off_t start, off_t len) {
        AUTO_FREE char *buf = malloc(COPY_BYTES);
        int r = buf ? 0 : -ENOMEM;

        while (r == 0 && len > 0) {
                const size_t want = len < COPY_BYTES ? (size_t) len : COPY_BYTES;
                ssize_t n = pread(fd, buf, want, start);

                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0)
                        return -errno;
                if (n == 0) {
                        memset(buf, 0, want);
                        n = (ssize_t) want;
                }
                r = put(tar, buf, (size_t) n);
                start += n;
                len -= n;
        }
        return r;
}

/* The extents of a file with holes; none when it has no hole worth the trouble. @ret: owned. */
static int find_extents(const struct export_entry *e, struct extent **ret, size_t *ret_n) {
        AUTO_FREE struct extent *list = NULL;
        size_t n = 0;

        *ret_n = 0;
        if ((uint64_t) e->st.st_blocks * BLOCK >= (uint64_t) e->st.st_size)
                return 0;
        for (off_t at = 0; at < e->st.st_size;) {
                const off_t start = lseek(e->fd, at, SEEK_DATA);
                off_t end = start < 0 ? -1 : lseek(e->fd, start, SEEK_HOLE);
                struct extent *longer;

                if (start < 0 && errno == ENXIO)
                        break;
                if (start < 0 || end < 0)
                        return 0; /* a file system without them */
                end = end < e->st.st_size ? end : e->st.st_size;
                if (start >= end)
                        break;
                longer = reallocarray(list, n + 1, sizeof(*list));
                if (!longer)
                        return -ENOMEM;
                list = longer;
                list[n++] = (struct extent){ start, end - start };
                at = end;
        }
        *ret_n = n;
        *ret = list ? TAKE_PTR(list) : calloc(1, sizeof(**ret));
        return *ret ? 0 : -ENOMEM;
}

/* Sparse format 1.0: the map in decimal lines, padded to a block, then the extents. */
static int put_sparse(struct tar *tar, const struct export_entry *e, const struct extent *list, size_t n) {
        AUTO_BUF struct buf map = { 0 };
        uint64_t size = 0;
        int r;

        /* an entry of no length at the end says how long the file is */
        r = buf_fmt(&map, "%zu\n", n + 1);
        for (size_t i = 0; r == 0 && i < n; i++) {
                r = buf_fmt(&map, "%jd\n%jd\n", (intmax_t) list[i].start, (intmax_t) list[i].len);
                size += (uint64_t) list[i].len;
        }
        if (r == 0)
                r = buf_fmt(&map, "%jd\n0\n", (intmax_t) e->st.st_size);
        while (r == 0 && map.len % BLOCK)
                r = buf_add(&map, "", 1);
        size += map.len;
        if (r == 0)
                r = put_headers(tar, e, e->path, size, true);
        if (r == 0)
                r = put(tar, map.data, map.len);
        for (size_t i = 0; r == 0 && i < n; i++)
                r = put_bytes(tar, e->fd, list[i].start, list[i].len);
        return r < 0 ? r : pad(tar, size);
}

int tar_put(struct tar *tar, const struct export_entry *e) {
        AUTO_FREE struct extent *list = NULL;
        AUTO_BUF struct buf name = { 0 };
        size_t n = 0;
        int r;

        if (!S_ISREG(e->st.st_mode)) {
                r = buf_fmt(&name, "%s%s", e->path, S_ISDIR(e->st.st_mode) ? "/" : "");
                return r < 0 ? r : put_headers(tar, e, buf_cstr(&name), 0, false);
        }
        r = find_extents(e, &list, &n);
        if (r < 0)
                return r;
        if (list)
                return put_sparse(tar, e, list, n);
        r = put_headers(tar, e, e->path, (uint64_t) e->st.st_size, false);
        if (r == 0)
                r = put_bytes(tar, e->fd, 0, e->st.st_size);
        return r < 0 ? r : pad(tar, (uint64_t) e->st.st_size);
}

int tar_end(struct tar *tar) {
        const size_t over = (tar->bytes / BLOCK + 2) % END_BLOCKS;

        /* two blocks of zeros, and more up to a record of twenty, as others do */
        return put(tar, zeros, (2 + (over ? END_BLOCKS - over : 0)) * BLOCK);
}
