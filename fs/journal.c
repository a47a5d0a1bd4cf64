#include "fs/journal.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fs/pathfd.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/file.h"

static const char journal_name[] = "journal";
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
        const struct record rec = {
                .op = e->op,
                .path_len = (uint32_t) strlen(e->path),
                .lower = to_identity(&e->lower),
                .upper = to_identity(&e->upper),
                .since_ns = e->since_ns,
                .staged_ino = e->staged_ino,
        };
        int r;

        r = buf_add(out, &rec, sizeof(rec));
        return r < 0 ? r : buf_add(out, e->path, rec.path_len);
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

static int parse_entry(struct reader *in, struct journal_entry *e) {
        struct record rec;

        if (!take(in, &rec, sizeof(rec)) || rec.op >= JOURNAL_OP_COUNT || rec.path_len == 0 ||
            rec.path_len > JOURNAL_PATH_MAX || rec.path_len > in->left || rec.lower.reserved != 0 ||
            rec.upper.reserved != 0 || memchr(in->p, '\0', rec.path_len))
                return -EBADMSG;
        e->path = strndup(in->p, rec.path_len);
        if (!e->path)
                return -ENOMEM;
        in->p += rec.path_len;
        in->left -= rec.path_len;
        e->op = (enum journal_op) rec.op;
        e->lower = from_identity(&rec.lower);
        e->upper = from_identity(&rec.upper);
        e->since_ns = rec.since_ns;
        e->staged_ino = rec.staged_ino;
        return pathfd_is_sane(e->path) ? 0 : -EBADMSG;
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

void journal_clear(struct journal *j) {
        for (size_t i = 0; i < j->n; i++)
                free(j->entries[i].path);
        memset(j->entries, 0, sizeof(j->entries));
        j->n = 0;
}

struct journal *journal_free(struct journal *j) {
        if (j)
                journal_clear(j);
        free(j);
        return NULL;
}
