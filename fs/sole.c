/*
 * DOC: theory of operation
 *
 * A region that is exclusive has timeouts without end: what the kernel was told once it does not ask again.
 * That is right as long as the run is the only writer, so others are watched for, by fanotify(7): it says of
 * each change who made it - unprivileged listeners are told whether it was their own process - and it misses
 * none: when its queue overflows it says that. inotify(7) says neither who nor, to a server that changes the
 * files itself, anything at all.
 *
 *   alone --a change that is not ours, or one that cannot be told---> shared
 *                                                                       told, everything taken back
 *
 * There is no way back. A directory is watched before anything in it is looked at (sole_watch()), so nothing
 * is remembered that is not watched:
 *   names, and whether there are any        by the directory's mark
 *   attributes and content of a file        by the mark of the directory its name is in; not of a file with
 *                                           several names, which has the timeout of a shared one
 *   attributes of a directory               once its own names are watched, until then as shared
 *   a name that is missing                  as shared: the kernel can be told to ask again for names only,
 *                                           and those that are missing are not known here
 *
 * What is taken back: names expire and attributes are void; nothing is dropped, since a directory that
 * somebody is in would be lost, and mounts in it. Three times, a second apart: an answer that was on its way
 * the first time may have said "for ever" still.
 *
 * The kernel's cache for writes is not used (docs/adr/): the kernel would keep size and time of a file to
 * itself from then on, and no message makes it believe the host again.
 *
 * Limits: a store into a shared mapping is seen when the mapping ends; a file that the host gives a second
 * name elsewhere, after it was looked at, and then changes by that name is not seen.
 */
#include "fs/sole.h"

#include <errno.h>
#include <linux/magic.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/fanotify.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "fs/server.h"
#include "runtime/base/cleanup.h"

enum {
        FOREVER_S = 86400,
        GATHER_MS = 10, /* between two looks at the queue, which holds thousands: most of it is our own */
        SWEEPS = 3,
        SWEEP_GAP_MS = 1000,
};

static const uint64_t changes = FAN_MODIFY | FAN_ATTRIB | FAN_CLOSE_WRITE | FAN_CREATE | FAN_DELETE |
                                FAN_MOVED_FROM | FAN_MOVED_TO | FAN_ONDIR | FAN_EVENT_ON_CHILD;

int guard_exclusive_open(void) {
        const int fd = fanotify_init(FAN_CLASS_NOTIF | FAN_CLOEXEC | FAN_NONBLOCK | FAN_REPORT_DFID_NAME, 0);

        return fd < 0 ? -errno : fd;
}

/* File systems that only this machine writes: what other machines do nobody here is told. */
static bool is_local(int fd) {
        static const uint32_t local[] = {
                EXT4_SUPER_MAGIC,     XFS_SUPER_MAGIC,           BTRFS_SUPER_MAGIC,    TMPFS_MAGIC,
                F2FS_SUPER_MAGIC,     OVERLAYFS_SUPER_MAGIC,     RAMFS_MAGIC,          REISERFS_SUPER_MAGIC,
                MSDOS_SUPER_MAGIC,    EXFAT_SUPER_MAGIC,         NILFS_SUPER_MAGIC,    UDF_SUPER_MAGIC,
                0x2fc12fc1 /* zfs */, 0xca451a4e /* bcachefs */, 0x3153464a /* jfs */,
        };
        struct statfs fs;

        if (fstatfs(fd, &fs) < 0)
                return false;
        for (size_t i = 0; i < ARRAY_SIZE(local); i++)
                if ((uint32_t) fs.f_type == local[i])
                        return true;
        return false;
}

static int mark(int group, int dir_fd) {
        if (!is_local(dir_fd))
                return -EREMOTE;
        return fanotify_mark(group, FAN_MARK_ADD | FAN_MARK_ONLYDIR, changes, dir_fd, ".") < 0 ? -errno : 0;
}

int guard_exclusive_can(int dir_fd) {
        AUTO_FD int group = guard_exclusive_open();

        return group < 0 ? TAKE(group, -1) : mark(group, dir_fd);
}

void guard_exclusive_explain(int r, char *ret, size_t size) {
        const char *why = r == -ENOSPC ? "there are more directories than fs.fanotify.max_user_marks allows"
                          : r == -EREMOTE ? "other machines may write to its file system"
                          : r == -ENODEV || r == -EOPNOTSUPP || r == -EXDEV
                                  ? "its file system does not tell who changes something"
                          : r == -EMFILE ? "fs.fanotify.max_user_groups is used up"
                          : r == -EACCES ? "a directory in it may not be read"
                          : r == -ENOSYS || r == -EINVAL || r == -EPERM
                                  ? "the kernel does not tell who changes something (before Linux 5.13)"
                                  : strerror(-r);

        (void) snprintf(ret, size, "%s", why);
}

/* ---- what is answered ---- */

bool sole_alone(const struct server *s, uint32_t region) {
        return s->config->regions[region].exclusive && s->sole.alone;
}

double sole_entry_s(const struct server *s, uint32_t region) {
        return sole_alone(s, region) ? FOREVER_S : s->timeout_s;
}

double sole_attr_s(const struct server *s, uint32_t region, const struct stat *st, bool watched) {
        if (S_ISDIR(st->st_mode) ? !watched : st->st_nlink > 1)
                return s->timeout_s;
        return sole_entry_s(s, region);
}

void sole_end(struct server *s, const char *why) {
        const uint64_t one = 1;

        if (!s->sole.alone || atomic_exchange(&s->sole.told, true))
                return;
        (void) snprintf(s->sole.why, sizeof(s->sole.why), "%s", why);
        s->sole.alone = false;
        (void) !write(s->sole.wake_fd, &one, sizeof(one));
}

void sole_watch(struct server *s, struct node *node, int fd) {
        char why[sizeof(s->sole.why)];
        bool is_new;
        int r;

        if (!sole_alone(s, node->region) || node->layer != NODE_LOWER)
                return;
        table_lock(s->table);
        is_new = !node->watched;
        table_unlock(s->table);
        r = is_new ? mark(s->config->exclusive_fd, fd) : 0;
        if (r == 0) {
                table_lock(s->table);
                node->watched = true;
                table_unlock(s->table);
                return;
        }
        guard_exclusive_explain(r, why, sizeof(why));
        sole_end(s, why);
}

/* ---- who else writes ---- */

/* The name that comes with an event, "" for a directory itself. */
static const char *name_of(const struct fanotify_event_metadata *event) {
        const struct fanotify_event_info_fid *info = (const void *) (event + 1);
        const struct file_handle *handle = (const void *) info->handle;

        if (event->event_len < sizeof(*event) + sizeof(*info) + sizeof(*handle) ||
            info->hdr.info_type != FAN_EVENT_INFO_TYPE_DFID_NAME ||
            info->hdr.len <= sizeof(*info) + sizeof(*handle) + handle->handle_bytes)
                return "";
        return (const char *) handle->f_handle + handle->handle_bytes;
}

static const char *what_of(uint64_t mask) {
        return mask & (FAN_CREATE | FAN_MOVED_TO)     ? "made"
               : mask & (FAN_DELETE | FAN_MOVED_FROM) ? "removed"
                                                      : "changed";
}

/* Whether the event is of another's making. */
static bool is_foreign(struct server *s, const struct fanotify_event_metadata *event) {
        char why[sizeof(s->sole.why)];
        const char *name;

        if (event->mask & FAN_Q_OVERFLOW) {
                sole_end(s, "there were more changes at once than could be looked at");
                return true;
        }
        if (event->pid == getpid())
                return false;
        name = name_of(event);
        (void) snprintf(why, sizeof(why), "another program %s '%.128s' in the region", what_of(event->mask),
                        *name ? name : ".");
        sole_end(s, why);
        return true;
}

/* Reads what is in the queue. */
static void drain(struct server *s) {
        _Alignas(struct fanotify_event_metadata) char buf[16384];
        ssize_t n;

        while (s->sole.alone && (n = read(s->config->exclusive_fd, buf, sizeof(buf))) > 0) {
                struct fanotify_event_metadata *event = (void *) buf;

                for (; FAN_EVENT_OK(event, n); event = FAN_EVENT_NEXT(event, n))
                        if (is_foreign(s, event))
                                return;
        }
}

/* ---- what was said is taken back ---- */

/** struct taken - one name of a node, copied out of the table */
struct taken {
        uint64_t id, parent;
        uint8_t len;
        char name[NODE_NAME_MAX + 1];
};

/* The @k-th name of the node @id. Return: false: it has no such name, or is none of an exclusive region. */
static bool take_name(struct server *s, uint64_t id, size_t k, struct taken *ret) {
        const struct node *node;
        const struct name *name = NULL;

        ret->id = 0;
        table_lock(s->table);
        node = slots_get(&s->table->ids, id);
        if (node && node->nlookup && server_region(s, node->region)->exclusive) {
                ret->id = node->id;
                name = node->names;
                while (name && k-- > 0)
                        name = name->next;
        }
        if (name) {
                ret->parent = name->parent->id;
                ret->len = name->len;
                memcpy(ret->name, name->text, name->len + 1U);
        }
        table_unlock(s->table);
        return name;
}

/* Nothing is held: the kernel takes the lock of a directory that a request under way may have. */
static void sweep(struct server *s) {
        uint64_t end;

        table_lock(s->table);
        end = s->table->ids.n + SLOTS_FIRST;
        table_unlock(s->table);
        for (uint64_t id = SLOTS_FIRST; id < end && !s->sole.stop; id++) {
                struct taken t;

                for (size_t k = 0; take_name(s, id, k, &t); k++)
                        (void) fuse_lowlevel_notify_expire_entry(s->session, t.parent, t.name, t.len,
                                                                 FUSE_LL_EXPIRE_ONLY);
                if (t.id)
                        (void) fuse_lowlevel_notify_inval_inode(s->session, t.id, -1, 0);
        }
}

static void tell(struct server *s) {
        for (uint32_t i = 0; i < s->config->n_regions; i++) {
                struct guard_notice notice = { .type = NOTICE_NOT_ALONE, .region = i };

                if (!server_region(s, i)->exclusive)
                        continue;
                (void) snprintf(notice.detail, sizeof(notice.detail), "%s", s->sole.why);
                while (!notice_send(&s->notices, s->config->notice_fd, &notice) && !s->sole.stop)
                        (void) ppoll(NULL, 0, &(struct timespec){ .tv_nsec = GATHER_MS * 1000000L }, NULL);
        }
}

/* Waits for an event (@fd, -1: none), for somebody who wakes, or until @ms are over (-1: never). */
static void wait_for(struct server *s, int fd, int ms) {
        const struct timespec t = { .tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L };
        struct pollfd fds[] = { { .fd = s->sole.wake_fd, .events = POLLIN }, { .fd = fd, .events = POLLIN } };
        uint64_t n;

        if (ppoll(fds, 2, ms < 0 ? NULL : &t, NULL) > 0 && fds[0].revents)
                (void) !read(s->sole.wake_fd, &n, sizeof(n));
}

static void *run(void *arg) {
        struct server *s = arg;

        while (s->sole.alone && !s->sole.stop) {
                wait_for(s, s->config->exclusive_fd, -1);
                drain(s);
                if (s->sole.alone && !s->sole.stop)
                        wait_for(s, -1, GATHER_MS);
        }
        drain(s); /* at the end: until now */
        for (int i = 0; i < SWEEPS && !s->sole.alone; i++) {
                sweep(s);
                if (i == 0)
                        tell(s); /* now it is true */
                if (s->sole.stop)
                        break;
                wait_for(s, -1, SWEEP_GAP_MS);
        }
        return NULL;
}

void sole_start(struct server *s) {
        int r;

        s->sole.wake_fd = -1;
        if (s->config->exclusive_fd < 0) {
                guard_exclusive_explain(s->config->exclusive_fd, s->sole.why, sizeof(s->sole.why));
                tell(s);
                return;
        }
        s->sole.wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        s->sole.alone = s->sole.wake_fd >= 0;
        for (uint32_t i = 0; i < s->config->n_regions; i++)
                if (server_region(s, i)->exclusive)
                        sole_watch(s, s->table->roots[i], server_region(s, i)->root_fd);
        r = s->sole.wake_fd < 0 ? errno : pthread_create(&s->sole.thread, NULL, run, s);
        s->sole.running = r == 0;
        if (r == 0)
                return;
        s->sole.alone = false;
        (void) snprintf(s->sole.why, sizeof(s->sole.why), "nobody can be watched for: %s", strerror(r));
        tell(s);
}

void sole_stop(struct server *s) {
        const uint64_t one = 1;

        s->sole.stop = true;
        if (s->sole.running) {
                (void) !write(s->sole.wake_fd, &one, sizeof(one));
                (void) pthread_join(s->sole.thread, NULL);
        }
        s->sole.running = false;
        s->sole.wake_fd = fd_close(s->sole.wake_fd);
}
