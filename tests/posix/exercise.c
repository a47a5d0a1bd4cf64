/*
 * exercise - random reads and writes of every kind on a few files, compared with what memory says
 *
 *   exercise make SEED            make files with content, for a lower layer
 *   exercise run SEED OPERATIONS  in the current directory; takes up files that "make" has made
 *
 * Each file is open twice, mapped now and then, truncated, punched, copied, renamed and linked. After each
 * operation what it has read must be what was written; every now and then, and at the end, all of it is read.
 * A failure prints the operations that led to it; the same seed makes the same ones again.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

enum {
        FILES = 3,
        SIZE_MAX_BYTES = 300000,
        LENGTH_MAX = 40000,
        RECENT = 40,
        CHECK_EVERY = 500,
        MADE_BYTES = 100000
};

/** struct subject - one file and what it should hold */
struct subject {
        char name[16];
        unsigned int renamed;
        int fd[2];
        size_t size;
        uint8_t data[SIZE_MAX_BYTES];
};

/** struct recent - an operation, for the report */
struct recent {
        const char *op;
        int file;
        size_t off, len;
};

static struct subject files[FILES];
static struct recent recent[RECENT];
static uint64_t operations, random_state;
static uint8_t scratch[SIZE_MAX_BYTES + 1];

static void fail(const char *what, size_t at) {
        const int e = errno;

        for (uint64_t i = operations > RECENT ? operations - RECENT : 0; i < operations; i++) {
                const struct recent *r = &recent[i % RECENT];

                printf("  %ju %s file=%d off=%zu len=%zu\n", (uintmax_t) i, r->op, r->file, r->off, r->len);
        }
        printf("operation %ju: %s at %zu (%s)\n", (uintmax_t) operations, what, at,
               e ? strerror(e) : "no error");
        exit(1);
}

static void must(bool ok, const char *what) {
        if (!ok)
                fail(what, 0);
}

static uint64_t random_next(void) { /* xorshift64* */
        random_state ^= random_state >> 12;
        random_state ^= random_state << 25;
        random_state ^= random_state >> 27;
        return random_state * 0x2545f4914f6cdd1dU;
}

static size_t below(size_t n) {
        return (size_t) (random_next() >> 16) % n;
}

/* half of them at a border of pages */
static size_t some_offset(size_t max) {
        const size_t off = below(max + 1);

        return below(2) ? off & ~(size_t) 4095 : off;
}

static void compare(const struct subject *s, const uint8_t *got, size_t off, size_t len, const char *how) {
        for (size_t i = 0; i < len; i++)
                if (got[i] != s->data[off + i]) {
                        errno = 0;
                        printf("%s: %02x instead of %02x\n", s->name, got[i], s->data[off + i]);
                        fail(how, off + i);
                }
}

static void grow(struct subject *s, size_t size) {
        if (size <= s->size)
                return;
        memset(s->data + s->size, 0, size - s->size);
        s->size = size;
}

static int any(const struct subject *s) {
        return s->fd[below(2)];
}

/* ---- operations: @off and @len are anything below the limits ---- */

static void op_read(struct subject *s, size_t off, size_t len) {
        const ssize_t n = pread(any(s), scratch, len, (off_t) off);
        const size_t want = off >= s->size ? 0 : s->size - off < len ? s->size - off : len;

        must(n >= 0, "pread");
        if ((size_t) n != want)
                fail("short read", (size_t) n);
        compare(s, scratch, off, want, "read");
}

static void fill(uint8_t *to, size_t len) {
        const uint8_t first = (uint8_t) random_next();

        for (size_t i = 0; i < len; i++)
                to[i] = (uint8_t) (first + i * 7);
}

static void op_write(struct subject *s, size_t off, size_t len) {
        grow(s, off + len);
        fill(s->data + off, len);
        must(pwrite(any(s), s->data + off, len, (off_t) off) == (ssize_t) len, "pwrite");
}

static void op_append(struct subject *s, size_t off, size_t len) {
        const int fd = any(s);
        const size_t at = s->size;

        (void) off;
        if (at + len > SIZE_MAX_BYTES)
                return;
        grow(s, at + len);
        fill(s->data + at, len);
        must(fcntl(fd, F_SETFL, O_APPEND) == 0, "F_SETFL");
        must(write(fd, s->data + at, len) == (ssize_t) len, "append");
        must(fcntl(fd, F_SETFL, 0) == 0, "F_SETFL");
}

static void op_writev(struct subject *s, size_t off, size_t len) {
        struct iovec iov[2] = { { s->data + off, len / 3 }, { s->data + off + len / 3, len - len / 3 } };

        grow(s, off + len);
        fill(s->data + off, len);
        must(pwritev(any(s), iov, 2, (off_t) off) == (ssize_t) len, "pwritev");
}

static void resized(struct subject *s, size_t size) {
        if (size < s->size)
                s->size = size;
        grow(s, size);
}

static void op_truncate(struct subject *s, size_t off, size_t len) {
        (void) len;
        resized(s, off);
        must(truncate(s->name, (off_t) off) == 0, "truncate");
}

static void op_ftruncate(struct subject *s, size_t off, size_t len) {
        (void) len;
        resized(s, off);
        must(ftruncate(any(s), (off_t) off) == 0, "ftruncate");
}

static void mapped(struct subject *s, size_t off, size_t len, bool write) {
        const size_t start = off & ~(size_t) 4095;
        uint8_t *map;

        if (off >= s->size)
                return;
        if (len > s->size - off)
                len = s->size - off;
        map = mmap(NULL, len + (off - start), PROT_READ | (write ? PROT_WRITE : 0), MAP_SHARED, any(s),
                   (off_t) start);
        must(map != MAP_FAILED, "mmap");
        if (write) {
                fill(s->data + off, len);
                memcpy(map + (off - start), s->data + off, len);
                if (below(2))
                        must(msync(map, len + (off - start), MS_SYNC) == 0, "msync");
        } else {
                compare(s, map + (off - start), off, len, "mapped");
        }
        must(munmap(map, len + (off - start)) == 0, "munmap");
}

static void op_map_read(struct subject *s, size_t off, size_t len) {
        mapped(s, off, len, false);
}
static void op_map_write(struct subject *s, size_t off, size_t len) {
        mapped(s, off, len, true);
}

static void op_punch(struct subject *s, size_t off, size_t len) {
        if (fallocate(any(s), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t) off, (off_t) len) < 0)
                must(errno == EOPNOTSUPP, "punch");
        else if (off < s->size)
                memset(s->data + off, 0, s->size - off < len ? s->size - off : len);
}

static void op_zero(struct subject *s, size_t off, size_t len) {
        if (fallocate(any(s), FALLOC_FL_ZERO_RANGE, (off_t) off, (off_t) len) < 0) {
                must(errno == EOPNOTSUPP, "zero");
                return;
        }
        grow(s, off + len);
        memset(s->data + off, 0, len);
}

static void op_allocate(struct subject *s, size_t off, size_t len) {
        const bool keep = below(2);

        if (fallocate(any(s), keep ? FALLOC_FL_KEEP_SIZE : 0, (off_t) off, (off_t) len) < 0)
                must(errno == EOPNOTSUPP, "fallocate");
        else if (!keep)
                grow(s, off + len);
}

/* from another file, or from another place of the same */
static void op_copy(struct subject *s, size_t off, size_t len) {
        struct subject *from = &files[below(FILES)];
        loff_t in = (loff_t) some_offset(SIZE_MAX_BYTES - len), out = (loff_t) off;
        size_t want = (size_t) in >= from->size ? 0 : from->size - (size_t) in;
        ssize_t n;

        if (want > len)
                want = len;
        if (from == s && (size_t) in < off + len && off < (size_t) in + len)
                return;
        n = copy_file_range(any(from), &in, any(s), &out, len, 0);
        must(n >= 0, "copy_file_range");
        if ((size_t) n > want || (n == 0 && want))
                fail("copy_file_range", (size_t) n);
        if (n == 0)
                return;
        grow(s, off + (size_t) n);
        memmove(s->data + off, from->data + (in - n), (size_t) n);
}

static void op_sendfile(struct subject *s, size_t off, size_t len) {
        struct subject *from = &files[below(FILES)];
        off_t in = 0;
        ssize_t n;
        int fd = s->fd[0];

        if (from == s || from->size < len)
                return;
        must(lseek(fd, (off_t) off, SEEK_SET) == (off_t) off, "lseek");
        n = sendfile(fd, any(from), &in, len);
        must(n >= 0, "sendfile");
        if (n == 0)
                return;
        grow(s, off + (size_t) n);
        memcpy(s->data + off, from->data, (size_t) n);
}

/* what is said to be a hole must be zero */
static void op_seek(struct subject *s, size_t off, size_t len) {
        const off_t hole = lseek(any(s), (off_t) off, SEEK_HOLE),
                    data = lseek(any(s), (off_t) off, SEEK_DATA);
        const size_t end = data < 0 ? s->size : (size_t) data;

        (void) len;
        if (off >= s->size) {
                must(hole < 0 && data < 0, "seek past the end");
                return;
        }
        must(hole >= 0 && (size_t) hole <= s->size, "SEEK_HOLE");
        for (size_t i = off; i < end; i++)
                if (s->data[i])
                        fail("SEEK_DATA", i);
}

static void op_stat(struct subject *s, size_t off, size_t len) {
        struct stat a, b;

        (void) off;
        (void) len;
        must(stat(s->name, &a) == 0 && fstat(any(s), &b) == 0, "stat");
        errno = 0;
        if ((size_t) a.st_size != s->size || (size_t) b.st_size != s->size)
                fail("size", (size_t) a.st_size);
        must(a.st_ino == b.st_ino, "the same inode");
}

static void op_sync(struct subject *s, size_t off, size_t len) {
        (void) off;
        (void) len;
        must((below(2) ? fsync(any(s)) : fdatasync(any(s))) == 0, "fsync");
}

/* clean pages go, and come back from below */
static void op_forget(struct subject *s, size_t off, size_t len) {
        (void) off;
        (void) len;
        (void) posix_fadvise(any(s), 0, 0, POSIX_FADV_DONTNEED);
}

static void open_both(struct subject *s) {
        for (int i = 0; i < 2; i++) {
                s->fd[i] = open(s->name, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
                must(s->fd[i] >= 0, "open");
        }
}

static void op_reopen(struct subject *s, size_t off, size_t len) {
        (void) off;
        (void) len;
        must(close(s->fd[0]) == 0 && close(s->fd[1]) == 0, "close");
        open_both(s);
}

static void op_rename(struct subject *s, size_t off, size_t len) {
        char name[sizeof(s->name)];

        (void) off;
        (void) len;
        (void) snprintf(name, sizeof(name), "f%d-%u", (int) (s - files), s->renamed++ % 4);
        if (below(2)) {
                must(rename(s->name, name) == 0, "rename");
        } else if (strcmp(s->name, name) != 0) {
                (void) unlink(name);
                if (link(s->name, name) < 0) {
                        must(errno == EPERM, "link");
                        return;
                }
                must(unlink(s->name) == 0, "unlink");
        }
        memcpy(s->name, name, sizeof(name));
}

static const struct {
        const char *name;
        unsigned int weight;
        void (*run)(struct subject *s, size_t off, size_t len);
} ops[] = {
        { "read", 20, op_read },        { "write", 20, op_write },        { "append", 5, op_append },
        { "writev", 5, op_writev },     { "truncate", 4, op_truncate },   { "ftruncate", 4, op_ftruncate },
        { "map-read", 8, op_map_read }, { "map-write", 8, op_map_write }, { "punch", 5, op_punch },
        { "zero", 3, op_zero },         { "allocate", 3, op_allocate },   { "copy", 5, op_copy },
        { "sendfile", 3, op_sendfile }, { "seek", 3, op_seek },           { "stat", 5, op_stat },
        { "sync", 1, op_sync },         { "forget", 2, op_forget },       { "reopen", 2, op_reopen },
        { "rename", 2, op_rename },
};

static size_t pick(void) {
        unsigned int sum = 0, r;
        size_t i = 0;

        for (size_t k = 0; k < sizeof(ops) / sizeof(ops[0]); k++)
                sum += ops[k].weight;
        r = (unsigned int) below(sum);
        while (r >= ops[i].weight)
                r -= ops[i++].weight;
        return i;
}

static void check_all(void) {
        for (int i = 0; i < FILES; i++) {
                struct subject *s = &files[i];
                const int fd = open(s->name, O_RDONLY | O_CLOEXEC);
                const ssize_t n = fd < 0 ? -1 : pread(fd, scratch, sizeof(scratch), 0);

                must(n >= 0, "open to check");
                if ((size_t) n != s->size)
                        fail("all of it", (size_t) n);
                compare(s, scratch, 0, s->size, "all of it");
                must(close(fd) == 0, "close");
        }
}

static void one(void) {
        const size_t op = pick(), len = 1 + below(below(4) ? 5000 : LENGTH_MAX);
        const size_t off = some_offset(SIZE_MAX_BYTES - len);
        const int file = (int) below(FILES);

        recent[operations % RECENT] = (struct recent){ ops[op].name, file, off, len };
        operations++;
        errno = 0;
        ops[op].run(&files[file], off, len);
}

/* what "make" has made is what the same seed says */
static void prepare(uint64_t seed, bool making) {
        random_state = seed * 2 + 1;
        for (int i = 0; i < FILES; i++) {
                struct subject *s = &files[i];
                struct stat st;

                (void) snprintf(s->name, sizeof(s->name), "f%d", i);
                fill(s->data, MADE_BYTES);
                if (making || stat(s->name, &st) == 0)
                        s->size = MADE_BYTES;
                open_both(s);
                if (making)
                        must(pwrite(s->fd[0], s->data, s->size, 0) == (ssize_t) s->size, "write");
        }
}

int main(int argc, char **argv) {
        const bool making = argc == 3 && strcmp(argv[1], "make") == 0;
        const uint64_t seed = argc > 2 ? strtoull(argv[2], NULL, 10) : 0,
                       n = argc == 4 ? strtoull(argv[3], NULL, 10) : 0;

        if (!making && n == 0) {
                (void) fprintf(stderr, "usage: exercise make SEED | exercise run SEED OPERATIONS\n");
                return 2;
        }
        prepare(seed, making);
        for (uint64_t i = 0; i < n; i++) {
                one();
                if (i % CHECK_EVERY == 0)
                        check_all();
        }
        check_all();
        printf("seed %ju: %ju operations\n", (uintmax_t) seed, (uintmax_t) n);
        return 0;
}
