/*
 * DOC: theory of operation
 *
 * The server answers one FUSE mount that shows each region below its root. The work inside reaches a region
 * by a bind of that subdirectory. There are no states beyond "serving": guard_serve() returns when the kernel
 * says that the mount is gone, which is when the sandbox's mount namespace ends.
 *
 * From kernel to host. A request names a node by number (node.h). A node stands for one host object, known by
 * region, layer, device, inode and birth time; names lead to it. Nothing is opened by a path: the directory
 * of a name is an O_PATH descriptor opened beneath its parent's (dirs.h), one component at a time, through no
 * link, and what was opened is compared with the node before it is used (place.h); another object there is
 * ESTALE, upon which the kernel looks the path up anew. No descriptor is held per known node: memory grows
 * with what the kernel remembers, descriptors with what is open (plus at most dirs.max cached directories and
 * STREAMS_MAX listings).
 *
 * Lower and upper. spot.h says what a name is: the upper wins over the lower where it has the name or a
 * whiteout of it. Rules decide where a change goes (spot_admit(), place_admit()): the lower, the upper, or
 * nowhere. The upper is consulted only in directories that it has too, so an untouched region costs nothing.
 * A lower file under a hold is copied up at the first modification and its open descriptors are exchanged in
 * place (handle.h), so that all openers see one file.
 *
 * Regions that copy (staged, cow). Every change goes to the upper (upper_copy_up(), shift.c), directories are
 * copied without what is in them, with mode, times and attributes as they are, so that the upper's version is
 * the one that is shown. A directory of the lower is renamed by moving its upper part with a record of where
 * the lower has it (user.overlay.redirect, node.redirect): a node's lower path may then differ from its
 * visible one, and what is below obeys the stricter rule of both (struct node_states). A copied file shows
 * the inode number of its lower one, also after the server was started anew (layer_set_number()).
 *
 * What the judge accepts (judge.h) lands when nobody has it open for writing: the bytes that were judged are
 * written to a fresh inode and renamed over the name (upper_land()). The work has never had a descriptor or a
 * link to that inode; the next open for writing copies it up again. A rename onto a held name copies
 * likewise.
 *
 * Locks: see struct server. The table's mutex is never held across a system call that can block (duplicating
 * a descriptor is the exception, it does not). The tree is held across host calls (holds.h): for reading by
 * whatever goes from names to objects, for writing by rename, copy-up and landing. Directories therefore do
 * not change their rules between the decision and the act: a directory that is renamed to other rules is
 * walked and moved with everybody else kept out. A host file system that does not answer keeps only what is
 * on it waiting.
 *
 * What an attacker controls: every name, content, mode and offset in a request, the order and number of
 * requests, and all of the lower and upper but the attributes user.overlay.*. Not the
 * numbers of nodes and handles, which the kernel hands back; they are checked all the same. The host's other
 * processes may change the lower at any time; that must never lead to an object outside the pinned directory,
 * and never to a write past a rule by the work alone.
 *
 * Limits: NODE_DEPTH_MAX levels; a rule is judged by the names that
 * were looked up: a hard link that the host made before the run, between an allowed and a held name, is
 * recognised once both names were seen; where a region copies, names of one lower file that were not looked
 * up when it is copied keep the old content, and the copy then has a number of its own; so has one that the
 * host links or renames to another name later, which then shows the number of the copy; of symlinks, FIFOs
 * and sockets a directory has room to remember some tens of numbers. In a direct region held directories that
 * exist on the host are not renamed (EXDEV). fstat(2) of an open FIFO or directory is ESTALE once the
 * directory it is in is closed to its owner: no descriptor of it is held. POSIX ACLs are not shown; the host
 * enforces them.
 *
 * Left to the kernel: permission checks (default_permissions), flock, POSIX and OFD locks (one mount, one
 * kernel: no other holder exists), the caches of names, attributes and pages.
 */
#include "fs/server.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/fuse.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/uio.h>
#include <unistd.h>

#include "fs/attr.h"
#include "fs/handle.h"
#include "fs/layer.h"
#include "fs/names.h"
#include "fs/ops.h"
#include "fs/request.h"
#include "fs/streams.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/sys.h"

enum { DIRS_MAX = 512, DIRS_MIN = 8, BACKGROUND_MAX = 64 };

/* ---- INIT ---- */

static bool take(struct fuse_conn_info *conn, unsigned int cap) {
        if (!(conn->capable & cap))
                return false;
        conn->want |= cap;
        return true;
}

static void op_init(void *userdata, struct fuse_conn_info *conn) {
        struct server *s = userdata;

        conn->max_write = SERVER_IO_MAX;
        conn->max_background = BACKGROUND_MAX;
        conn->time_gran = 1;
        (void) take(conn, FUSE_CAP_PARALLEL_DIROPS);
        (void) take(conn, FUSE_CAP_ATOMIC_O_TRUNC);
        (void) take(conn, FUSE_CAP_CACHE_SYMLINKS);
        (void) take(conn, FUSE_CAP_READDIRPLUS);
        (void) take(conn, FUSE_CAP_READDIRPLUS_AUTO);
        /* a pipe and its pages cost more than one copy: reads were measured many times slower with splice */
        conn->want &= ~(unsigned int) (FUSE_CAP_SPLICE_READ | FUSE_CAP_SPLICE_WRITE | FUSE_CAP_SPLICE_MOVE);
        if (!take(conn, FUSE_CAP_EXPIRE_ONLY))
                sole_end(s, "the kernel cannot be told to ask again (before Linux 6.2)");
        s->no_opendir = conn->capable & FUSE_CAP_NO_OPENDIR_SUPPORT;
}

/* The answer to a message of the wrong shape. To an interrupt, there is none: no operation can be
 * interrupted, and libfuse would keep it. */
static void refuse(int fd, const struct fuse_in_header *in) {
        const struct fuse_out_header out = { .len = sizeof(out), .error = -EINVAL, .unique = in->unique };

        if (request_wants_reply(in) && write(fd, &out, sizeof(out)) < 0)
                return; /* nobody waits for it any more */
}

/*
 * FUSE_HANDLE_KILLPRIV_V2 (protocol 7.33) spares a GETXATTR before each write, which makes small writes ten
 * times faster. libfuse before 3.17 has no name for it, so the bit goes into its answer on the way out. The
 * promise it makes is kept by the host: the server has no CAP_FSETID, so writing, truncating and changing
 * owner clear set-id bits there, and file capabilities cannot be set here at all.
 */
static ssize_t channel_read(int fd, void *buf, size_t len, void *userdata) {
        struct server *s = userdata;
        const struct worker *w = pthread_getspecific(s->worker);
        const struct fuse_in_header *in = buf;
        const struct fuse_init_in *init = (const struct fuse_init_in *) (in + 1);
        const ssize_t n = read(w ? w->fd : fd, buf, len);

        if (n < 0) {
                if (errno == ECONNABORTED)
                        errno = ENODEV; /* unmounted under a reader: an end like any other; libfuse complains
                                         */
                return n;
        }
        if (request_check(buf, (size_t) n) < 0 || in->opcode == FUSE_INTERRUPT) {
                if ((size_t) n >= sizeof(*in))
                        refuse(w ? w->fd : fd, in);
                errno = EAGAIN; /* libfuse is to see nothing of it */
                return -1;
        }
        if (in->opcode == FUSE_INIT) {
                s->offered = init->flags;
                s->init = in->unique;
        }
        return n;
}

static ssize_t channel_write(int fd, struct iovec *iov, int count, void *userdata) {
        struct server *s = userdata;
        const struct worker *w = pthread_getspecific(s->worker);
        const struct fuse_out_header *out = iov[0].iov_base;

        if (s->init && out->unique == s->init) {
                s->init = 0;
                if (out->error == 0 && count == 2 &&
                    iov[1].iov_len >= offsetof(struct fuse_init_out, flags) + sizeof(uint32_t)) {
                        struct fuse_init_out *answer = iov[1].iov_base;

                        answer->flags |= (uint32_t) s->offered & FUSE_HANDLE_KILLPRIV_V2;
                }
        }
        return writev(w ? w->fd : fd, iov, count);
}

static const struct fuse_lowlevel_ops operations = {
        .init = op_init,
        .lookup = op_lookup,
        .forget = op_forget,
        .forget_multi = op_forget_multi,
        .getattr = op_getattr,
        .setattr = op_setattr,
        .readlink = op_readlink,
        .mknod = op_mknod,
        .mkdir = op_mkdir,
        .unlink = op_unlink,
        .rmdir = op_rmdir,
        .symlink = op_symlink,
        .rename = op_rename,
        .link = op_link,
        .open = op_open,
        .read = op_read,
        .write = op_write,
        .flush = op_flush,
        .release = op_release,
        .fsync = op_fsync,
        .opendir = op_opendir,
        .readdir = op_readdir,
        .readdirplus = op_readdirplus,
        .fsyncdir = op_fsyncdir,
        .statfs = op_statfs,
        .setxattr = op_setxattr,
        .getxattr = op_getxattr,
        .listxattr = op_listxattr,
        .removexattr = op_removexattr,
        .create = op_create,
        .fallocate = op_fallocate,
        .lseek = op_lseek,
        .copy_file_range = op_copy_file_range,
};

/* ---- setting up ---- */

static size_t dirs_limit(void) {
        struct rlimit lim;
        size_t max;

        if (getrlimit(RLIMIT_NOFILE, &lim) < 0)
                return DIRS_MIN;
        if (lim.rlim_cur < lim.rlim_max) {
                lim.rlim_cur = lim.rlim_max;
                (void) setrlimit(RLIMIT_NOFILE, &lim);
                (void) getrlimit(RLIMIT_NOFILE, &lim);
        }
        max = lim.rlim_cur / 4 < DIRS_MAX ? (size_t) lim.rlim_cur / 4 : DIRS_MAX;
        return max < DIRS_MIN ? DIRS_MIN : max;
}

/* the region's path on the host when it is the same inside, else NULL */
static char *host_path(const struct region *region) {
        char link[sizeof("/proc/self/fd/") + 12], path[PATH_MAX];
        ssize_t n;

        (void) snprintf(link, sizeof(link), "/proc/self/fd/%d", region->root_fd);
        n = readlink(link, path, sizeof(path) - 1);
        if (n <= 0)
                return NULL;
        path[n] = '\0';
        return region->name && strcmp(region->name, path) == 0 ? strdup(path) : NULL;
}

static bool is_used(int upper_fd) {
        AUTO_NAMES struct names names = { 0 };
        AUTO_FD int fd = upper_fd < 0 ? -1 : open_beneath(upper_fd, ".", O_RDONLY | O_DIRECTORY, 0);

        return upper_fd >= 0 && (fd < 0 || names_read(fd, &names) < 0 || names.n > 0);
}

/* A fresh upper of a region where everything goes to it looks like the lower's root, as overlayfs would show
 * it. */
static int dress_upper(const struct region *region) {
        AUTO_FD int fd = -1;
        struct layer_origin origin;
        int r;

        if (region->is_file || region->upper_fd < 0 || !region_kind_copies(region->kind))
                return 0;
        r = fd = open_beneath(region->upper_fd, ".", O_RDONLY | O_DIRECTORY, 0);
        if (r >= 0)
                r = layer_get_origin(fd, &origin);
        return r < 0 || origin.ino ? r : layer_copy_attrs(fd, region->root_fd);
}

static int init_regions(struct server *s, struct error *err) {
        const size_t n = s->config->n_regions;
        AUTO_FREE struct facts *roots = calloc(n + 1, sizeof(*roots));
        int r;

        s->gauges = calloc(n + 1, sizeof(*s->gauges));
        s->hosts = calloc(n + 1, sizeof(char *));
        s->rules = calloc(n + 1, sizeof(struct rules *));
        if (!roots || !s->gauges || !s->hosts || !s->rules)
                return error_set(err, -ENOMEM, "out of memory");
        for (size_t i = 0; i < n; i++) {
                const struct region *region = &s->config->regions[i];

                r = facts_at(region->root_fd, "", &roots[i]);
                if (r < 0)
                        return error_set(err, r, "region '%s': %s", region->name, strerror(-r));
                s->rules[i] = region->rules;
                s->hosts[i] = region->base ? NULL : host_path(region);
                s->gauges[i].epoch = 1;
                s->gauges[i].used = is_used(region->upper_fd);
                r = s->gauges[i].used ? 0 : dress_upper(region);
                if (r < 0)
                        return error_set(err, r, "upper of region '%s': %s", region->name, strerror(-r));
        }
        r = table_new(s->rules, roots, n, &s->table);
        if (r < 0)
                return error_set(err, r, "out of memory");
        s->table->dirs.max = dirs_limit();
        return 0;
}

static void init_locks(struct server *s) {
        pthread_rwlockattr_t attr;

        (void) pthread_rwlockattr_init(&attr);
        (void) pthread_rwlockattr_setkind_np(&attr, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
        for (unsigned int i = 0; i < NODE_DOMAINS_MAX; i++)
                (void) pthread_rwlock_init(&s->domains[i], &attr);
        (void) pthread_rwlockattr_destroy(&attr);
        notices_init(&s->notices);
}

static int init_server(struct server *s, const struct guard_config *config, struct error *err) {
        int r;

        s->config = config;
        s->timeout_s = config->timeout_ms / 1000.0;
        init_locks(s);
        if (watch_init(s) < 0)
                return error_set(err, -ENOMEM, "out of memory");
        if (pthread_key_create(&s->worker, NULL) != 0)
                return error_set(err, -EAGAIN, "thread keys are used up");
        r = attr_init(&s->ids, config);
        if (r < 0)
                return error_set(err, r, "supplementary groups: %s", strerror(-r));
        s->streams = streams_new();
        r = s->streams ? init_regions(s, err) : error_set(err, -ENOMEM, "out of memory");
        if (r == 0)
                quota_init(s);
        return r;
}

static void free_handles(struct server *s) {
        for (uint64_t id = SLOTS_FIRST; id < s->handles.n + SLOTS_FIRST; id++)
                handle_free(s, id);
        slots_deinit(&s->handles);
}

void server_deinit(struct server *s) {
        if (s->session)
                fuse_session_destroy(s->session); /* closes the descriptor */
        if (s->table)
                free_handles(s);
        s->table = table_free(s->table);
        s->streams = streams_free(s->streams);
        for (size_t i = 0; s->hosts && i < s->config->n_regions; i++)
                free(s->hosts[i]);
        free(s->hosts);
        free(s->rules);
        free(s->gauges);
        attr_deinit(&s->ids);
        watch_deinit(s);
        quota_deinit(s);
        notices_deinit(&s->notices);
        for (unsigned int i = 0; i < NODE_DOMAINS_MAX; i++)
                (void) pthread_rwlock_destroy(&s->domains[i]);
        (void) pthread_key_delete(s->worker);
}

static void discard_log(enum fuse_log_level level, const char *fmt, va_list ap) {
        (void) level;
        (void) fmt;
        (void) ap;
}

/* what is process-wide; the process serves nothing else */
static void settle_process(void) {
        const struct sigaction ignore = { .sa_handler = SIG_IGN };
        sigset_t blocked;

        workers_block_signals(&blocked);
        (void) umask(0); /* the kernel has applied the work's */
        (void) sigaction(SIGPIPE, &ignore, NULL);
        (void) sigaction(SIGXFSZ, &ignore, NULL);   /* RLIMIT_FSIZE: EFBIG is an answer, dying is not */
        (void) mallopt(M_MMAP_THRESHOLD, 64 << 20); /* page faults cost more than memory kept */
        (void) mallopt(M_ARENA_MAX, 2);
}

/*
 * Character devices in user space (CUSE) are not served. With this the static program links neither libfuse's
 * CUSE nor, through it, its path layer, which calls dlopen(3).
 */
void cuse_lowlevel_init(fuse_req_t req, fuse_ino_t ino, const void *arg);
void cuse_lowlevel_init(fuse_req_t req, fuse_ino_t ino, const void *arg) {
        (void) ino;
        (void) arg;
        (void) fuse_reply_err(req, ENOSYS);
}

static int start_session(struct server *s, int fuse_fd, struct error *err) {
        static const struct fuse_custom_io io = { .read = channel_read, .writev = channel_write };
        char name[] = "cofferdam";
        char *argv[] = { name, NULL };
        struct fuse_args args = FUSE_ARGS_INIT(1, argv);
        int r;

        s->session = fuse_session_new(&args, &operations, sizeof(operations), s);
        fuse_opt_free_args(&args);
        if (!s->session)
                return error_set(err, -ENOMEM, "libfuse cannot make a session");
        r = fuse_session_custom_io(s->session, &io, fuse_fd);
        return r < 0 ? error_set(err, r, "libfuse cannot take the descriptor: %s", strerror(-r)) : 0;
}

int server_init(struct server *s, const struct guard_config *config, int fuse_fd, struct error *err) {
        int r;

        fuse_set_log_func(discard_log);
        r = init_server(s, config, err);
        if (r == 0)
                r = start_session(s, fuse_fd, err);
        if (r < 0)
                (void) fd_close(fuse_fd);
        return r;
}

int guard_serve(const struct guard_config *config, int fuse_fd, struct error *err) {
        struct server *s = calloc(1, sizeof(*s));
        int r;

        if (!s) {
                (void) fd_close(fuse_fd);
                return error_set(err, -ENOMEM, "out of memory");
        }
        settle_process();
        r = server_init(s, config, fuse_fd, err);
        if (r == 0)
                r = watch_start(s, err);
        if (r == 0) {
                sole_start(s);
                trim_start(s);
                r = workers_run(s, fuse_fd);
        }
        if (r == -EBUSY || r == -EINTR)
                return error_set(err, r, "the host did not answer requests under way: they were given up");
        trim_stop(s);
        sole_stop(s);
        watch_stop(s);
        server_deinit(s);
        free(s);
        return r;
}
