#include "image/fetch.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "image/digest.h"
#include "image/progress.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/file.h"

enum { TRIES_MAX = 6, TICK_MS = 100, HEX_AT = 7, NAME_SIZE = 96 };

/** struct slot - a layer, in memory that its process shares with the one that waits */
struct slot {
        struct progress_item item;
        uint64_t bytes; /* unpacked */
        pid_t pid;      /* 0: not started, or done */
        bool done;
        int r;
        struct error err;
};

/** struct download - a blob on its way */
struct download {
        const struct fetch *fetch;
        const struct descriptor *blob;
        struct slot *slot;
        int fd;
        uint64_t have; /* bytes of it in @fd */
};

static int on_bytes(void *arg, const void *data, size_t len, bool whole) {
        struct download *d = arg;
        int r;

        if (whole && d->have > 0 && d->slot->item.restart) { /* it does not do parts */
                if (ftruncate(d->fd, 0) < 0)
                        return -errno;
                d->have = 0;
        }
        d->slot->item.restart = false;
        if (len > d->blob->size - d->have)
                return -EMSGSIZE;
        if (lseek(d->fd, (off_t) d->have, SEEK_SET) < 0)
                return -errno;
        r = write_all(d->fd, data, len);
        if (r == 0)
                d->have += len;
        d->slot->item.done = d->have;
        return r;
}

/* All of it, whatever it takes, but not for ever. */
static int download(struct download *d, struct registry *reg, struct error *err) {
        struct tries tries = { TRIES_MAX, true, 0, 0 };
        unsigned int wait_s;
        int r = 0;

        while (d->have < d->blob->size) {
                const uint64_t before = d->have;

                d->slot->item.restart = true;
                r = registry_blob(reg, d->blob, d->have, on_bytes, d, err);
                if (r == -ERANGE && d->have > 0) {
                        d->have = 0;
                        r = ftruncate(d->fd, 0) < 0 ? -errno : -EPIPE;
                }
                if (r == -EMSGSIZE)
                        return error_set(err, -EBADMSG, "%s: more bytes than its size says", d->blob->digest);
                if (r == 0 && d->have < d->blob->size)
                        r = error_set(err, -EPIPE, "%s: fewer bytes than its size says", d->blob->digest);
                if (r == 0)
                        return 0;
                if (d->have > before) /* it goes on */
                        tries.n = tries.wait_s = 0;
                wait_s = registry_retry_s(reg, &tries, r);
                if (wait_s == 0)
                        return r;
                (void) poll(NULL, 0, (int) wait_s * 1000);
        }
        return r;
}

/* The blob in @d->fd, and what it is to be. Once more from the start when what was there before is to blame.
 */
static int download_checked(struct download *d, struct registry *reg, struct error *err) {
        char digest[DIGEST_TEXT_LEN + 1];
        uint64_t size;
        int r = 0;

        for (;;) {
                const bool resumed = d->have > 0;

                r = download(d, reg, err);
                if (r < 0)
                        return r;
                r = digest_file(d->fd, digest, &size);
                if (r < 0)
                        return error_set(err, r, "read %s: %s", d->blob->digest, strerror(-r));
                if (strcmp(digest, d->blob->digest) == 0)
                        return lseek(d->fd, 0, SEEK_SET) < 0 ? -errno : 0;
                if (ftruncate(d->fd, 0) < 0)
                        return error_set(err, -errno, "truncate: %s", strerror(errno));
                d->have = 0;
                if (!resumed)
                        return error_set(err, -EBADMSG, "layer %s: the registry sent something else, %s",
                                         d->blob->digest, digest);
        }
}

/** struct blob_wait - for another process that has a blob */
struct blob_wait {
        int partial;
        const char *name; /* of the blob's file there */
        struct stat last; /* of that */
        struct slot *slot;
};

static void tell_waiting(void *arg) {
        ((struct blob_wait *) arg)->slot->item.waiting = true;
}

static bool has_moved(void *arg) {
        struct blob_wait *w = arg;
        struct stat st = { 0 };
        bool moved;

        (void) fstatat(w->partial, w->name, &st, AT_SYMLINK_NOFOLLOW); /* not there is a state, too */
        moved = st.st_ino != w->last.st_ino || st.st_size != w->last.st_size;
        w->last = st;
        return moved;
}

/* The lock of a blob: nobody else fetches it. Whoever had it may have removed its file. */
static int lock_blob(const struct fetch *f, int partial, const char *blob, struct slot *slot,
                     struct error *err) {
        struct blob_wait arg = { .partial = partial, .name = blob, .slot = slot };
        const struct lock_wait wait = { f->wait_ms, tell_waiting, has_moved, &arg };
        char name[NAME_SIZE];

        (void) snprintf(name, sizeof(name), "%s.lock", blob);
        (void) has_moved(&arg);
        for (;;) {
                AUTO_FD int fd = openat(partial, name, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
                struct stat st;
                int r = fd < 0 ? -errno : lock_wait(fd, LOCK_EX, &wait);

                slot->item.waiting = false;
                if (r == -EAGAIN)
                        return error_set(
                                err, r,
                                "layer %s: another process fetches it and has not got on for %llu s: "
                                "end that one, or try again with a longer --wait",
                                blob, (unsigned long long) f->wait_ms / 1000);
                if (r < 0)
                        return error_set(err, r, "lock of a layer: %s", strerror(-r));
                if (fstat(fd, &st) == 0 && st.st_nlink > 0)
                        return TAKE_FD(fd);
        }
}

/* What is in the store is noted there; the layer's size is not, so it is asked of whoever unpacked it. */
static int unpack(const struct fetch *f, size_t index, struct slot *slot, int fd, struct error *err) {
        const char *want = f->diff_ids[index];
        AUTO_FREE char *name = NULL;
        struct layer_result result;
        int r;

        slot->item.unpacking = true;
        r = store_unpack(f->store, fd, true, &f->limits, &name, &result, err);
        if (r < 0)
                return r;
        slot->bytes = result.bytes;
        slot->item.left_out = result.devices;
        if (strcmp(result.diff_id, want) == 0)
                return store_keep_layer(f->store, name, want, err);
        (void) !store_drop(f->store, "tmp", name, NULL);
        return error_set(err, -EBADMSG, "layer %s: unpacked it is %s, not %s as the configuration says",
                         f->manifest->layers[index].digest, result.diff_id, want);
}

static int fetch_one(const struct fetch *f, size_t index, struct slot *slot, struct error *err) {
        AUTO_REGISTRY struct registry *reg = registry_new(f->options, f->ref, f->login);
        const struct descriptor *blob = &f->manifest->layers[index];
        struct download d = { .fetch = f, .blob = blob, .slot = slot, .fd = -1 };
        AUTO_FD int partial = -1, lock = -1, fd = -1;
        char lock_name[NAME_SIZE];
        struct stat st;
        int r;

        (void) snprintf(lock_name, sizeof(lock_name), "%s.lock", blob->digest + HEX_AT);
        partial = openat(f->store->dir_fd, "partial", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (partial < 0 || !reg)
                return error_set(err, partial < 0 ? -errno : -ENOMEM, "layer: %s",
                                 strerror(partial < 0 ? errno : ENOMEM));
        lock = lock_blob(f, partial, blob->digest + HEX_AT, slot, err);
        if (lock < 0)
                return lock;
        r = 0;
        if (!store_has_layer(f->store, f->diff_ids[index])) {
                fd = openat(partial, blob->digest + HEX_AT, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
                if (fd < 0 || fstat(fd, &st) < 0)
                        return error_set(err, -errno, "file of a layer: %s", strerror(errno));
                d.fd = fd;
                d.have = (uint64_t) st.st_size;
                if (d.have > blob->size) {
                        d.have = 0;
                        r = ftruncate(fd, 0) < 0 ? -errno : 0;
                }
                slot->item.done = d.have;
                if (r == 0)
                        r = download_checked(&d, reg, err);
                if (r == 0)
                        r = unpack(f, index, slot, fd, err);
                if (r == 0 || r == -EBADMSG || r == -ENOSPC || r == -EDQUOT) /* the room is given back */
                        (void) unlinkat(partial, blob->digest + HEX_AT, 0);
        }
        (void) unlinkat(partial, lock_name, 0);
        return r;
}

_Noreturn static void worker(const struct fetch *f, size_t index, struct slot *slot, pid_t parent) {
        (void) prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
        if (getppid() == parent)
                slot->r = fetch_one(f, index, slot, &slot->err);
        _exit(0);
}

static int start_one(const struct fetch *f, size_t index, struct slot *slot) {
        const pid_t parent = getpid(), pid = fork();

        if (pid == 0)
                worker(f, index, slot, parent);
        if (pid < 0)
                return error_set(&slot->err, -errno, "fork: %s", strerror(errno));
        slot->pid = pid;
        return 0;
}

/* Return: how many are still at work. */
static size_t reap(struct slot *slots, size_t n, int *r) {
        size_t busy = 0;

        for (size_t i = 0; i < n; i++) {
                int status;

                if (slots[i].pid == 0)
                        continue;
                if (waitpid(slots[i].pid, &status, WNOHANG) == 0) {
                        busy++;
                        continue;
                }
                slots[i].pid = 0;
                slots[i].done = true;
                slots[i].item.finished = slots[i].r == 0;
                if (slots[i].r == -EIO && !*slots[i].err.msg)
                        (void) error_set(&slots[i].err, -EIO, "the process that fetches a layer was killed");
                if (*r == 0)
                        *r = slots[i].r;
        }
        return busy;
}

static void kill_all(struct slot *slots, size_t n) {
        for (size_t i = 0; i < n; i++)
                if (slots[i].pid > 0)
                        (void) kill(slots[i].pid, SIGKILL); /* and what it started, by its death signal */
}

static size_t next_to_start(const struct slot *slots, size_t n) {
        for (size_t i = 0; i < n; i++)
                if (slots[i].pid == 0 && !slots[i].done)
                        return i;
        return n;
}

/* A layer that an image has twice is fetched once: the second finds it. */
static int run_all(const struct fetch *f, struct slot *slots, size_t n) {
        struct progress progress;
        size_t busy = 0;
        int r = 0;

        progress_init(&progress, f->quiet);
        for (;;) {
                const size_t next = next_to_start(slots, n);

                if (r == 0 && next < n && busy < f->parallel) {
                        r = start_one(f, next, &slots[next]);
                        slots[next].r = r < 0 ? r : -EIO;
                        busy++;
                        continue;
                }
                busy = reap(slots, n, &r);
                if (r < 0)
                        kill_all(slots, n);
                for (size_t i = 0; i < n; i++)
                        progress_note(&progress, &slots[i].item, i);
                progress_show(&progress, n);
                if (busy == 0 && (r < 0 || next_to_start(slots, n) == n))
                        break;
                (void) poll(NULL, 0, TICK_MS);
        }
        progress_end(&progress);
        return r;
}

int fetch_layers(const struct fetch *f, struct stored_layer *layers, struct error *err) {
        const size_t n = f->manifest->n_layers, size = (n + 1) * sizeof(struct slot);
        struct slot *slots = shared_new(size);
        int r;

        if (!slots)
                return error_set(err, -ENOMEM, "out of memory");
        for (size_t i = 0; i < n; i++) {
                slots[i].item.total = f->manifest->layers[i].size;
                slots[i].item.name = f->manifest->layers[i].digest + HEX_AT;
                slots[i].bytes = f->manifest->layers[i].size;
                slots[i].done = store_has_layer(f->store, f->diff_ids[i]);
                slots[i].item.finished = slots[i].item.there = slots[i].done;
        }
        r = run_all(f, slots, n);
        for (size_t i = 0; i < n; i++) {
                memcpy(layers[i].diff_id, f->diff_ids[i], DIGEST_TEXT_LEN + 1);
                layers[i].bytes = slots[i].bytes;
                if (r < 0 && slots[i].r == r && *slots[i].err.msg && err && !*err->msg)
                        *err = slots[i].err;
        }
        (void) munmap(slots, size);
        return r;
}
