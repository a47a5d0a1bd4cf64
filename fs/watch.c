/*
 * DOC: theory of operation
 *
 * Everything that is served comes from the pinned descriptors, whatever becomes of the paths they were opened
 * by; a swap on the host never leads inside. What is watched for is that the host and the run no longer mean
 * the same object by that path. A look walks the path anew (pin_check()) in the server's mount namespace,
 * which is the caller's: every WATCH_INTERVAL_MS, soon after a name was missing in a region's root, when the
 * region is mounted, and when a file region is opened.
 *
 *   same      --differs, pin----------------------------> told, served as before
 *             --differs, a file that an editor replaced-> told, the new file is served
 *             --differs, stop---------------------------> told, gone: ESTALE for good
 *
 * The supervisor decides whether a file is an editor's and hands in the descriptors: this process can open
 * nothing but what was pinned (fs/confine.c). A difference is told once until it becomes another one. What
 * cannot be told (a right is missing, no descriptors are left) changes nothing: the pinned object is served
 * either way.
 */
#include "fs/watch.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "fs/handle.h"
#include "fs/lowers.h"
#include "fs/server.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/fdpass.h"

static_assert((int) PIN_TEXT_MAX == (int) NOTICE_TEXT_MAX, "a change fits a notice");

/* Must not be lost when the supervisor's socket is full: what is owed is sent with a later look. */
static void settle(struct server *s, uint32_t index) {
        struct watched *w = &s->watch.regions[index];
        struct guard_notice n = { .type = NOTICE_SOURCE_CHANGED, .region = index };

        if (!w->owed)
                return;
        (void) snprintf(n.op, sizeof(n.op), "%s", w->action);
        (void) snprintf(n.rule, sizeof(n.rule), "%s", w->change.was);
        (void) snprintf(n.detail, sizeof(n.detail), "%s", w->change.now);
        (void) snprintf(n.path, sizeof(n.path), "%s", server_region(s, index)->pin->path);
        w->owed = !notice_send(&s->notices, s->config->notice_fd, &n);
}

static void tell(struct server *s, uint32_t index, const char *action, const struct pin_change *change) {
        struct watched *w = &s->watch.regions[index];

        if (w->told == WATCH_TOLD_MAX)
                return;
        w->told++;
        w->change = *change;
        w->action = action;
        w->owed = true;
        settle(s, index);
}

static void take_fd(int *fd, int *from) {
        (void) fd_close(*fd);
        *fd = TAKE_FD(*from);
}

/* What is open moves too: it shares one page cache with what will be. */
static void repoint(const struct watched *w, const struct node *root) {
        for (const struct handle *h = root->handles; h; h = h->next) {
                const int fd = (h->flags & O_ACCMODE) == O_RDONLY ? w->read_fd : w->write_fd;

                if (fd >= 0)
                        (void) dup3(fd, h->fd, O_CLOEXEC);
        }
}

/* The root of a file region stands for another file now. @fds: O_PATH, O_RDONLY, O_RDWR; consumed */
static int take_over(struct server *s, uint32_t index, const struct guard_successor *next, int fds[3]) {
        AUTO_TREE struct tree_hold hold = tree_write(s, s->table->roots[index]->id);
        const struct region *region = server_region(s, index);
        struct watched *w = &s->watch.regions[index];
        struct facts facts;
        int r;

        r = facts_at(fds[0], "", &facts);
        if (r < 0 || facts.st.st_dev != next->dev || facts.st.st_ino != next->ino ||
            !S_ISREG(facts.st.st_mode))
                return r < 0 ? r : -ESTALE;
        if (dup3(fds[0], region->root_fd, O_CLOEXEC) < 0)
                return -errno;
        take_fd(&w->read_fd, &fds[1]);
        take_fd(&w->write_fd, &fds[2]);
        region->pin->dev = next->dev;
        region->pin->ino = next->ino;
        region->pin->btime_ns = next->btime_ns;
        table_lock(s->table);
        node_rebase(s->table, s->table->roots[index], NODE_LOWER, &facts);
        table_unlock(s->table);
        repoint(w, s->table->roots[index]);
        return 0;
}

int watch_open(struct server *s, uint32_t index, int flags) {
        const struct watched *w = &s->watch.regions[index];
        const bool writes = (flags & O_ACCMODE) != O_RDONLY;
        int r;

        if (w->read_fd < 0 && w->write_fd < 0)
                return -EBADF;
        if ((writes ? w->write_fd : w->read_fd) < 0)
                return -EACCES;
        r = fcntl(writes ? w->write_fd : w->read_fd, F_DUPFD_CLOEXEC, 3);
        return r < 0 ? -errno : r;
}

static void close_all(int fds[3]) {
        for (size_t i = 0; i < 3; i++)
                fds[i] = fd_close(fds[i]);
}

/* Waits for the answer about the region; one that came too late for an earlier question is passed over.
 * Return: 0, -ESTALE: no, another -errno: there is no answer. */
static int receive(struct server *s, uint32_t index, struct guard_successor *ret, int fds[3]) {
        size_t len, n;
        int r;

        do {
                close_all(fds);
                n = 0;
                r = fdpass_recv(s->config->notice_fd, ret, sizeof(*ret), &len, fds, 3, &n);
                if (r < 0)
                        return r;
        } while (len != sizeof(*ret) || ret->region != index);
        return ret->result < 0 ? ret->result : n > 0 ? 0 : -EPROTO;
}

/* Asks the supervisor for the file at the region's path: this process may not open it. Return: as above. */
static int follow(struct server *s, uint32_t index, const struct pin_change *change) {
        const struct region *region = server_region(s, index);
        struct guard_notice ask = { .type = NOTICE_SOURCE_CHANGED, .region = index, .op = "ask" };
        struct guard_successor next = { 0 };
        int fds[3] = { -1, -1, -1 };
        int r = -EAGAIN;

        (void) snprintf(ask.rule, sizeof(ask.rule), "%s", change->was);
        (void) snprintf(ask.detail, sizeof(ask.detail), "%s", change->now);
        (void) snprintf(ask.path, sizeof(ask.path), "%s", region->pin->path);
        (void) pthread_mutex_lock(&s->watch.asking);
        if (s->config->notice_fd < 0)
                r = -ESTALE; /* there is nobody to ask */
        else if (notice_send(&s->notices, s->config->notice_fd, &ask))
                r = receive(s, index, &next, fds);
        (void) pthread_mutex_unlock(&s->watch.asking);
        if (r == 0)
                r = take_over(s, index, &next, fds);
        close_all(fds);
        return r;
}

/* Return: 0, or -ESTALE: not served any more */
static int on_change(struct server *s, uint32_t index, const struct pin_change *change) {
        const struct region *region = server_region(s, index);
        struct watched *w = &s->watch.regions[index];

        if (region->is_file && region->on_change == SOURCE_CHANGE_STOP && follow(s, index, change) != -ESTALE)
                return 0; /* followed, or nobody answered: the pinned file is served until the next look */
        if (region->on_change == SOURCE_CHANGE_PIN) {
                if (strcmp(w->change.now, change->now) != 0)
                        tell(s, index, "pin", change);
                return 0;
        }
        w->told = 0; /* the last word is always told */
        w->gone = true;
        s->watch.any_gone = true;
        tell(s, index, "stop", change);
        return -ESTALE;
}

int watch_look(struct server *s, uint32_t index) {
        const struct region *region = server_region(s, index);
        struct watched *w = &s->watch.regions[index];
        struct pin_change change = { 0 };
        int r;

        if (!region->pin)
                return 0;
        (void) pthread_mutex_lock(&w->lock);
        settle(s, index);
        r = w->gone ? -ESTALE : pin_check(region->pin, &change);
        if (r == -ESTALE && !w->gone)
                r = on_change(s, index, &change);
        else if (r == 0 && !w->owed)
                w->change.now[0] = '\0';
        (void) pthread_mutex_unlock(&w->lock);
        return r == -ESTALE ? r : 0;
}

void watch_poke(struct server *s, uint32_t index) {
        if (!server_region(s, index)->pin || atomic_exchange(&s->watch.regions[index].poked, true))
                return;
        s->watch.any_poked = true;
        (void) pthread_cond_signal(&s->watch.wake);
}

/* Requests that give something back are answered as ever. */
static bool is_release(uint32_t opcode) {
        return opcode == FUSE_FORGET || opcode == FUSE_BATCH_FORGET || opcode == FUSE_RELEASE ||
               opcode == FUSE_RELEASEDIR || opcode == FUSE_INTERRUPT || opcode == FUSE_DESTROY ||
               opcode == FUSE_INIT;
}

bool watch_refuses(struct server *s, const void *request, size_t size, int fd) {
        const struct fuse_in_header *in = request;
        struct fuse_out_header out = { .len = sizeof(out), .error = -ESTALE };
        struct node *node;
        bool gone;

        if (!s->watch.any_gone || size < sizeof(*in) || is_release(in->opcode))
                return false;
        node = node_get(s->table, in->nodeid);
        gone = node && s->watch.regions[node->region].gone;
        node_put(s->table, node);
        if (!gone)
                return false;
        out.unique = in->unique;
        (void) !write(fd, &out, sizeof(out)); /* interrupted requests are not waited for */
        return true;
}

/* ---- the thread ---- */

static struct timespec in_ms(uint64_t ms) {
        struct timespec t;

        (void) clock_gettime(CLOCK_MONOTONIC, &t);
        t.tv_sec += (time_t) (ms / 1000);
        t.tv_nsec += (long) (ms % 1000) * 1000000;
        if (t.tv_nsec >= 1000000000) {
                t.tv_sec++;
                t.tv_nsec -= 1000000000;
        }
        return t;
}

/* Waits until @until, or, when @for_poke, until somebody pokes. Return: 1 time is up, 0 poked, -1 stop */
static int pause_until(struct watch *w, const struct timespec *until, bool for_poke) {
        int r = 0;

        (void) pthread_mutex_lock(&w->lock);
        while (!w->stop && r == 0 && !(for_poke && w->any_poked))
                r = pthread_cond_timedwait(&w->wake, &w->lock, until);
        r = w->stop ? -1 : r == ETIMEDOUT;
        (void) pthread_mutex_unlock(&w->lock);
        return r;
}

static void look_around(struct server *s, bool all) {
        for (uint32_t i = 0; i < s->config->n_regions; i++)
                if (atomic_exchange(&s->watch.regions[i].poked, false) || all)
                        (void) watch_look(s, i);
}

static void *run(void *arg) {
        struct server *s = arg;
        struct watch *w = &s->watch;

        for (;;) {
                struct timespec tick = in_ms(w->interval_ms);
                int r;

                do {
                        const struct timespec gap = in_ms(WATCH_GAP_MS);

                        r = pause_until(w, &gap, false);
                        if (r >= 0)
                                r = pause_until(w, &tick, true);
                        if (r < 0)
                                return NULL;
                        w->any_poked = false;
                        look_around(s, r == 1);
                        if (r == 1)
                                lowers_look(s);
                } while (r == 0);
        }
}

int watch_init(struct server *s) {
        pthread_condattr_t attr;

        (void) pthread_mutex_init(&s->watch.lock, NULL);
        (void) pthread_mutex_init(&s->watch.asking, NULL);
        (void) pthread_condattr_init(&attr);
        (void) pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
        (void) pthread_cond_init(&s->watch.wake, &attr);
        (void) pthread_condattr_destroy(&attr);
        s->watch.regions = calloc(s->config->n_regions + 1, sizeof(*s->watch.regions));
        if (!s->watch.regions)
                return -ENOMEM;
        for (size_t i = 0; i < s->config->n_regions; i++) {
                (void) pthread_mutex_init(&s->watch.regions[i].lock, NULL);
                s->watch.regions[i].read_fd = s->watch.regions[i].write_fd = -1;
        }
        return 0;
}

static void deinit_watched(struct watched *w) {
        w->read_fd = fd_close(w->read_fd);
        w->write_fd = fd_close(w->write_fd);
        (void) pthread_mutex_destroy(&w->lock);
}

void watch_deinit(struct server *s) {
        for (size_t i = 0; s->watch.regions && i < s->config->n_regions; i++)
                deinit_watched(&s->watch.regions[i]);
        free(s->watch.regions);
        s->watch.regions = NULL;
        (void) pthread_cond_destroy(&s->watch.wake);
        (void) pthread_mutex_destroy(&s->watch.asking);
        (void) pthread_mutex_destroy(&s->watch.lock);
}

int watch_start(struct server *s, struct error *err) {
        bool needed = false;
        int r;

        s->watch.interval_ms = WATCH_INTERVAL_MS;
        for (size_t i = 0; i < s->config->n_regions; i++)
                if (s->config->regions[i].below_overlay)
                        s->watch.interval_ms = WATCH_OVERLAY_MS; /* what changes has two ways to go */
        for (size_t i = 0; i < s->config->n_regions; i++)
                needed |= s->config->regions[i].pin != NULL || s->config->regions[i].below_overlay;
        r = needed ? pthread_create(&s->watch.thread, NULL, run, s) : 0;
        s->watch.running = needed && r == 0;
        return r ? error_set(err, -r, "start a thread: %s", strerror(r)) : 0;
}

void watch_stop(struct server *s) {
        if (!s->watch.running)
                return;
        (void) pthread_mutex_lock(&s->watch.lock);
        s->watch.stop = true;
        (void) pthread_cond_signal(&s->watch.wake);
        (void) pthread_mutex_unlock(&s->watch.lock);
        (void) pthread_join(s->watch.thread, NULL);
        s->watch.running = false;
}
