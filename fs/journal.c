#include "fs/journal.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fs/pathfd.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/file.h"

static const char journal_name[] = "journal", done_name[] = "journal.done", final_name[] = "journal.final";
static const char magic[8] = { 'c', 'o', 'f', 'f', 'e', 'r', 'j', 'n' };

enum { VERSION = 1, FLAG_FORCE = 1 };

struct head {
        char magic[8];
        uint32_t version, region;
        uint32_t phase, flags;
        uint64_t tx;
        uint32_t n, reserved;
};
static_assert(sizeof(struct head) == 40, "head has no padding");

struct identity {
        uint64_t dev, ino, size;
        int64_t mtime_ns, ctime_ns;
        uint32_t mode, reserved;
};
static_assert(sizeof(struct identity) == 48, "identity has no padding");

struct record {
        uint32_t op, path_len;
        struct identity lower, upper;
        int64_t since_ns;
        uint64_t staged_ino;
};
static_assert(sizeof(struct record) == 120, "record has no padding");

/** struct reader - what is left of the bytes */
struct reader {
        const char *p;
        size_t left;
};

/* FNV-1a, 64 bits: against cut and damaged files; nobody else can write the run directory */
static uint64_t checksum(const char *p, size_t len) {
        uint64_t h = 0xcbf29ce484222325U;

        for (size_t i = 0; i < len; i++)
                h = (h ^ (unsigned char) p[i]) * 0x100000001b3U;
        return h;
}

void journal_temp_name(const struct journal *j, size_t i, char *out) {
        (void) snprintf(out, JOURNAL_TEMP_MAX, JOURNAL_TEMP_PREFIX "%016llx-%zu", (unsigned long long) j->tx,
                        i);
}

static struct identity to_identity(const struct layer_origin *o) {
        return (struct identity){ .dev = o->dev,
                                  .ino = o->ino,
                                  .size = o->size,
                                  .mtime_ns = o->mtime_ns,
                                  .ctime_ns = o->ctime_ns,
                                  .mode = o->mode };
}

static struct layer_origin from_identity(const struct identity *i) {
        return (struct layer_origin){ .dev = i->dev,
                                      .ino = i->ino,
                                      .size = i->size,
                                      .mtime_ns = i->mtime_ns,
                                      .ctime_ns = i->ctime_ns,
                                      .mode = i->mode };
}

static int format_entry(const struct journal_entry *e, struct buf *out) {
        const size_t path_len = strlen(e->path), from_len = e->from ? strlen(e->from) : 0;
        const struct record rec = {
                .op = e->op,
                .path_len = (uint32_t) (path_len + (e->from ? 1 + from_len : 0)),
                .lower = to_identity(&e->lower),
                .upper = to_identity(&e->upper),
                .since_ns = e->since_ns,
                .staged_ino = e->staged_ino,
        };
        int r;

        r = buf_add(out, &rec, sizeof(rec));
        if (r == 0)
                r = buf_add(out, e->path, path_len + (e->from != NULL));
        return r < 0 || !e->from ? r : buf_add(out, e->from, from_len);
}

int journal_format(const struct journal *j, struct buf *out) {
        struct head head = { .version = VERSION,
                             .region = j->region,
                             .phase = j->phase,
                             .flags = j->force ? FLAG_FORCE : 0,
                             .tx = j->tx,
                             .n = (uint32_t) j->n };
        const size_t start = out->len;
        uint64_t sum;
        int r;

        memcpy(head.magic, magic, sizeof(magic));
        r = buf_add(out, &head, sizeof(head));
        for (size_t i = 0; r == 0 && i < j->n; i++)
                r = format_entry(&j->entries[i], out);
        if (r < 0)
                return r;
        sum = checksum(out->data + start, out->len - start);
        return buf_add(out, &sum, sizeof(sum));
}

static bool take(struct reader *in, void *out, size_t n) {
        if (in->left < n)
                return false;
        memcpy(out, in->p, n);
        in->p += n;
        in->left -= n;
        return true;
}

/* The bytes of a path, or of two. Return: 0, -EBADMSG, -ENOMEM. */
static int parse_paths(const char *bytes, size_t len, struct journal_entry *e) {
        const char *nul = memchr(bytes, '\0', len);

        if ((nul != NULL) != (e->op == JOURNAL_RENAME))
                return -EBADMSG;
        e->path = strndup(bytes, len);
        if (nul)
                e->from = strndup(nul + 1, len - (size_t) (nul + 1 - bytes));
        if (!e->path || (nul && !e->from))
                return -ENOMEM;
        if (strlen(e->path) > JOURNAL_PATH_MAX || (nul && strlen(e->from) > JOURNAL_PATH_MAX))
                return -EBADMSG;
        if (nul && (strlen(e->from) != len - (size_t) (nul + 1 - bytes) || !pathfd_is_sane(e->from)))
                return -EBADMSG;
        return pathfd_is_sane(e->path) ? 0 : -EBADMSG;
}

static int parse_entry(struct reader *in, struct journal_entry *e) {
        struct record rec;
        int r;

        if (!take(in, &rec, sizeof(rec)) || rec.op >= JOURNAL_OP_COUNT || rec.path_len == 0 ||
            rec.path_len > 2 * JOURNAL_PATH_MAX + 1 || rec.path_len > in->left || rec.lower.reserved != 0 ||
            rec.upper.reserved != 0)
                return -EBADMSG;
        e->op = (enum journal_op) rec.op;
        r = parse_paths(in->p, rec.path_len, e);
        if (r < 0)
                return r;
        in->p += rec.path_len;
        in->left -= rec.path_len;
        e->lower = from_identity(&rec.lower);
        e->upper = from_identity(&rec.upper);
        e->since_ns = rec.since_ns;
        e->staged_ino = rec.staged_ino;
        return 0;
}

static int parse_head(struct reader *in, struct journal *j, uint32_t *ret_n) {
        struct head head;

        if (!take(in, &head, sizeof(head)) || memcmp(head.magic, magic, sizeof(magic)) != 0)
                return -EBADMSG;
        if (head.version != VERSION)
                return -EPROTONOSUPPORT;
        if (head.phase >= JOURNAL_PHASE_COUNT || head.flags > FLAG_FORCE || head.reserved != 0 ||
            head.n == 0 || head.n > JOURNAL_ENTRIES_MAX)
                return -EBADMSG;
        j->region = head.region;
        j->phase = (enum journal_phase) head.phase;
        j->force = head.flags & FLAG_FORCE;
        j->tx = head.tx;
        *ret_n = head.n;
        return 0;
}

int journal_parse(const void *data, size_t len, struct journal **ret) {
        AUTO_JOURNAL struct journal *j = NULL;
        struct reader in = { .p = data, .left = len };
        uint64_t sum;
        uint32_t n = 0;
        int r;

        if (len < sizeof(struct head) + sizeof(sum))
                return -EBADMSG;
        in.left -= sizeof(sum);
        memcpy(&sum, in.p + in.left, sizeof(sum));
        j = calloc(1, sizeof(*j));
        if (!j)
                return -ENOMEM;
        r = parse_head(&in, j, &n);
        if (r == 0 && sum != checksum(data, len - sizeof(sum)))
                r = -EBADMSG;
        while (r == 0 && j->n < n)
                r = parse_entry(&in, &j->entries[j->n++]);
        if (r == 0 && in.left != 0)
                r = -EBADMSG;
        if (r < 0)
                return r;
        *ret = TAKE_PTR(j);
        return 0;
}

int journal_store(int run_fd, const struct journal *j, struct error *err) {
        AUTO_BUF struct buf bytes = { 0 };
        int r;

        r = journal_format(j, &bytes);
        if (r == 0)
                r = file_replace_at(run_fd, journal_name, bytes.data, bytes.len, 0600, true);
        return r < 0 ? error_set(err, r, "write the journal of the run: %s", strerror(-r)) : 0;
}

int journal_load(int run_fd, struct journal **ret, struct error *err) {
        AUTO_BUF struct buf bytes = { 0 };
        int r;

        r = file_read_at(run_fd, journal_name, JOURNAL_BYTES_MAX, &bytes);
        if (r == -ENOENT)
                return r;
        if (r == 0)
                r = journal_parse(buf_cstr(&bytes), bytes.len, ret);
        return r < 0 ? error_set(err, r, "read the journal of the run: %s", strerror(-r)) : 0;
}

int journal_remove(int run_fd, struct error *err) {
        if ((unlinkat(run_fd, journal_name, 0) < 0 && errno != ENOENT) || fsync(run_fd) < 0)
                return error_set(err, -errno, "close the journal of the run: %s", strerror(errno));
        return 0;
}

int journal_append(int run_fd, const struct journal *j, struct error *err) {
        AUTO_BUF struct buf bytes = { 0 };
        AUTO_FD int fd = -1;
        uint64_t len = 0;
        int r;

        if (j->n == 0)
                return journal_remove(run_fd, err);
        r = buf_add(&bytes, &len, sizeof(len));
        if (r == 0)
                r = journal_format(j, &bytes);
        if (r < 0)
                return error_set(err, r, "out of memory");
        len = bytes.len - sizeof(len);
        memcpy(bytes.data, &len, sizeof(len));
        fd = openat(run_fd, done_name, O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0600);
        r = fd < 0 ? -errno : write_all(fd, bytes.data, bytes.len);
        if (r == 0 && fsync(fd) < 0)
                r = -errno;
        if (r < 0)
                return error_set(err, r, "write the journal of the run: %s", strerror(-r));
        return journal_remove(run_fd, err);
}

int journal_list(int run_fd) {
        if (faccessat(run_fd, final_name, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
                return JOURNAL_FINAL;
        if (errno == ENOENT && faccessat(run_fd, done_name, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
                return JOURNAL_DONE;
        return errno == ENOENT ? JOURNAL_NONE : -errno;
}

int journal_seal(int run_fd, struct error *err) {
        if (renameat(run_fd, done_name, run_fd, final_name) < 0 || fsync(run_fd) < 0)
                return error_set(err, -errno, "seal the journal of the run: %s", strerror(errno));
        return 0;
}

static int read_at(int fd, off_t at, void *out, size_t len) {
        for (size_t got = 0; got < len;) {
                const ssize_t n = pread(fd, (char *) out + got, len - got, at + (off_t) got);

                if (n < 0 && errno == EINTR)
                        continue;
                if (n <= 0)
                        return n < 0 ? -errno : -ENODATA;
                got += (size_t) n;
        }
        return 0;
}

/* The batch at @at. @ret_next: where the one behind it begins. Return: 0, -ENODATA (the end), -errno. */
static int read_batch(int fd, off_t at, struct journal **ret, off_t *ret_next) {
        AUTO_FREE char *bytes = NULL;
        uint64_t len = 0;
        int r;

        r = read_at(fd, at, &len, sizeof(len));
        if (r < 0)
                return r;
        *ret_next = len > JOURNAL_BYTES_MAX ? INT64_MAX : at + (off_t) (sizeof(len) + len);
        if (len > JOURNAL_BYTES_MAX)
                return -EBADMSG;
        bytes = malloc(len + 1);
        if (!bytes)
                return -ENOMEM;
        r = read_at(fd, at + (off_t) sizeof(len), bytes, len);
        return r < 0 ? r : journal_parse(bytes, len, ret);
}

/* Where the batches of the list begin. @ret: owned array. */
static int find_batches(int fd, off_t **ret, size_t *ret_n) {
        AUTO_FREE off_t *list = NULL;
        struct stat st;
        size_t n = 0;
        off_t at = 0;
        int r = 0;

        if (fstat(fd, &st) < 0)
                return -errno;
        while (r == 0) {
                AUTO_JOURNAL struct journal *j = NULL;
                off_t *longer = reallocarray(list, n + 1, sizeof(*list));

                if (!longer)
                        return -ENOMEM;
                list = longer;
                list[n] = at;
                r = read_batch(fd, at, &j, &at);
                if (r == -EBADMSG && at >= st.st_size)
                        r = -ENODATA; /* the last one was not synced when the power failed */
                n += r == 0;
        }
        if (r != -ENODATA)
                return r;
        *ret = TAKE_PTR(list);
        *ret_n = n;
        return 0;
}

int journal_each(int run_fd, bool backwards, journal_fn fn, void *arg, struct error *err) {
        const int list = journal_list(run_fd);
        AUTO_FREE off_t *starts = NULL;
        AUTO_FD int fd = -1;
        size_t n = 0;
        int r;

        if (list <= 0)
                return list < 0 ? list : -ENOENT;
        fd = openat(run_fd, list == JOURNAL_FINAL ? final_name : done_name,
                    O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
        r = fd < 0 ? -errno : find_batches(fd, &starts, &n);
        if (r < 0)
                return error_set(err, r, "read the journal of the run: %s", strerror(-r));
        for (size_t i = 0; r == 0 && i < n; i++) {
                AUTO_JOURNAL struct journal *j = NULL;
                off_t next;

                r = read_batch(fd, starts[backwards ? n - 1 - i : i], &j, &next);
                if (r == 0)
                        r = fn(j, arg);
        }
        return r;
}

int journal_forget(int run_fd, struct error *err) {
        if ((unlinkat(run_fd, final_name, 0) < 0 && errno != ENOENT) ||
            (unlinkat(run_fd, done_name, 0) < 0 && errno != ENOENT) || fsync(run_fd) < 0)
                return error_set(err, -errno, "close the journal of the run: %s", strerror(errno));
        return 0;
}

void journal_clear(struct journal *j) {
        for (size_t i = 0; i < j->n; i++) {
                free(j->entries[i].path);
                free(j->entries[i].from);
        }
        memset(j->entries, 0, sizeof(j->entries));
        j->n = 0;
}

struct journal *journal_free(struct journal *j) {
        if (j)
                journal_clear(j);
        free(j);
        return NULL;
}
