/*
 * DOC: theory of operation
 *
 * The supervisor's side. start() makes the sandbox's pid 1 by one clone(2) into all namespaces; that child
 * builds the sandbox (sandbox.c) and becomes the exec server (init.c). Meanwhile the file server is forked on
 * the other core and is ready before pid 1 asks it for the first region. Plain fork without exec: an exec
 * costs more than the whole of the rest (docs/adr/), so each helper drops what it inherited itself.
 *
 *   supervisor --clone--> init (pid 1) --- /dev/fuse descriptor --+
 *        |                                                        |
 *        +-------fork---> fsd     <-------------------------------+
 *
 * Every helper dies with the supervisor (parent-death signal, end of file). stop() kills pid 1, with which
 * the kernel ends all processes and mounts of the sandbox; the file server sees its mount vanish and ends.
 */
#include "drivers/native/native.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/fsuid.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "drivers/native/mnt.h"
#include "drivers/native/net.h"
#include "drivers/native/parts.h"
#include "drivers/native/probe.h"
#include "drivers/native/setup.h"
#include "drivers/native/sources.h"
#include "drivers/native/uplink.h"
#include "drivers/oci/oci.h"
#include "runtime/base/block.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/fdpass.h"
#include "runtime/base/file.h"
#include "runtime/base/libexec.h"
#include "runtime/base/sys.h"

enum {
        SETUP_TIMEOUT_MS = 60000, /* tells stuck from slow: many start at once on a busy host */
        FSD_END_TIMEOUT_MS = 2000,
        ANSWER_TIMEOUT_S = 2,
        INIT_END_TIMEOUT_MS = 500, /* with an answering file server it takes a few */
        KILL_TIMEOUT_MS = 2000,
        PIPEFS_MAGIC = 0x50495045,
        SELF_MAX_BYTES = 65536,
};

struct sandbox {
        const struct driver_plan *plan;
        const struct sandbox_callbacks *callbacks;
        void *arg;
        char run_id[64];
        pid_t init, fsd; /* 0: none */
        int init_pidfd, fsd_pidfd;
        int user_ns, mnt_ns;           /* of pid 1, opened while it can be looked at; -1: none */
        int sock;                      /* to pid 1 */
        int notice_fd;                 /* from fsd */
        bool lost;                     /* was told */
        bool up;                       /* commands can run */
        int overlay[PLAN_REGIONS_MAX]; /* what mnt_forget() wants of each region's overlay, owned; -1: none */
        int secrets_fd;                /* directory of the secrets that are files, to write in; -1: none */
        int upper[PLAN_REGIONS_MAX];   /* of hold_uppers(), owned; -1: none */
        struct limits limits;
        struct container container; /* of an engine's */
        pid_t injector;             /* 0: none */
        int injector_pidfd;
        struct net net;
        struct uplink uplink;
        uint64_t oom_kills; /* that were told */
        struct sources sources;
};

/* ---- the file server ---- */

/* What fsd is made with; lives on the stack of its process. */
struct fsd {
        const struct driver_plan *plan;
        struct uppers *uppers;
        int fuse_sock, notice_fd;
        bool cache_shared; /* whatever the plan says */
        pid_t parent;
};

/*
 * Must: keep only what the regions need, and end by SIGTERM - upon which it lets go whoever waits for it,
 * which a killed one does not before the last host call has come back. guard_confine() does the rest.
 */
static int fsd_confine(const struct fsd *f) {
        int keep[PLAN_REGIONS_MAX * 2 + 2];
        size_t n = 0;

        for (size_t i = 0; i < f->plan->n_regions; i++) {
                keep[n++] = f->plan->regions[i].pin.fd;
                keep[n++] = f->uppers->upper[i]; /* of overlayfs too: its lock says that the run lives */
        }
        keep[n++] = f->fuse_sock;
        keep[n++] = f->notice_fd;
        return confine_helper(&(struct confine_helper){ .id = &f->plan->id,
                                                        .parent = f->parent,
                                                        .death_signal = SIGTERM,
                                                        .title = "cofferdam-fsd",
                                                        .keep = keep,
                                                        .n_keep = n });
}

static bool any_overlay(const struct driver_plan *plan) {
        for (size_t i = 0; i < plan->n_regions; i++)
                if (plan->regions[i].overlay)
                        return true;
        return false;
}

static void fsd_config(const struct fsd *f, struct region *regions, struct pin *pins,
                       struct guard_config *ret) {
        const struct driver_plan *plan = f->plan;

        for (size_t i = 0; i < plan->n_regions; i++) {
                pins[i] =
                        plan->regions[i].pin; /* this process's own, with the descriptor of the same number */
                regions[i] = (struct region){
                        .name = plan->regions[i].target,
                        .root_fd = plan->regions[i].pin.fd,
                        .is_file = plan->regions[i].is_file,
                        .kind = plan->regions[i].overlay ? REGION_RO : plan->regions[i].kind,
                        .rules = plan->regions[i].rules,
                        .base = plan->regions[i].base,
                        .below_overlay = plan->regions[i].overlay,
                        .exclusive = plan->regions[i].exclusive && !f->cache_shared,
                        .upper_fd = plan->regions[i].overlay ? -1 : f->uppers->upper[i],
                        .pin = &pins[i],
                        .on_change = plan->regions[i].on_change,
                };
        }
        *ret = (struct guard_config){
                .regions = regions,
                .n_regions = plan->n_regions,
                .host_uid = plan->id.host_uid,
                .inside_uid = plan->id.inside_uid,
                .host_gid = plan->id.host_gid,
                .inside_gid = plan->id.inside_gid,
                .timeout_ms = any_overlay(plan) ? 500 : 1000, /* see WATCH_OVERLAY_MS */
                .exclusive_fd = -1,                           /* opened by the process that reads it */
                .disk_max = plan->disk_max,
                .notice_fd = f->notice_fd,
        };
}

/* One thing that pid 1 hands over: an upper in memory, or the file system. Return: descriptor, -errno. */
static int fsd_receive(const struct fsd *f, uint32_t *ret_what) {
        AUTO_FD int fd = -1;
        size_t len, n = 0;
        const int r = fdpass_recv(f->fuse_sock, ret_what, sizeof(*ret_what), &len, &fd, 1, &n);

        return r < 0 ? r : n == 1 && len == sizeof(*ret_what) ? TAKE_FD(fd) : -EPROTO;
}

/* The uppers in memory, which pid 1 sends first. */
static int fsd_receive_uppers(const struct fsd *f) {
        const struct driver_plan *plan = f->plan;

        for (uint32_t i = 0; i < plan->n_regions; i++) {
                uint32_t what;

                if (!plan->regions[i].in_memory || plan->regions[i].overlay)
                        continue;
                f->uppers->upper[i] = fsd_receive(f, &what);
                if (f->uppers->upper[i] < 0 || what != i)
                        return -EPROTO;
        }
        return 0;
}

_Noreturn static void fsd_main(const struct fsd *f) {
        const struct timeval answer_wait = { .tv_sec = ANSWER_TIMEOUT_S };
        struct region regions[PLAN_REGIONS_MAX];
        struct pin pins[PLAN_REGIONS_MAX];
        struct guard_config config;
        uint32_t what = 0;
        int fuse_fd;

        (void) umask(0);
        (void) setsockopt(f->notice_fd, SOL_SOCKET, SO_RCVTIMEO, &answer_wait, sizeof(answer_wait));
        if (fsd_confine(f) < 0 || fsd_receive_uppers(f) < 0)
                _exit(1); /* setting up failed before the mount */
        fsd_config(f, regions, pins, &config);
        if (regions[0].exclusive)
                config.exclusive_fd = guard_exclusive_open();
        if (guard_confine(&config, NULL) < 0)
                _exit(1);
        fuse_fd = fsd_receive(f, &what);
        if (fuse_fd < 0 || what != PROTO_FUSE_DEVICE)
                _exit(1);
        (void) fd_close(f->fuse_sock);
        _exit(guard_serve(&config, fuse_fd, NULL) < 0);
}

static int start_fsd(struct sandbox *sb, struct uppers *uppers, int fuse_sock, int notice_fd,
                     bool cache_shared, struct error *err) {
        struct fsd f = { .plan = sb->plan,
                         .uppers = uppers,
                         .fuse_sock = fuse_sock,
                         .notice_fd = notice_fd,
                         .cache_shared = cache_shared,
                         .parent = getpid() };
        pid_t pid;

        pid = sys_clone(0, &sb->fsd_pidfd);
        if (pid == 0)
                fsd_main(&f);
        if (pid < 0)
                return error_set(err, pid, "start the file server: %s", strerror(-pid));
        sb->fsd = pid;
        return 0;
}

/* Without a file server the supervisor keeps the locks that say that the run lives. */
static int hold_uppers(struct sandbox *sb, const struct uppers *uppers) {
        for (size_t i = 0; i < sb->plan->n_regions; i++) {
                if (uppers->upper[i] < 0)
                        continue;
                sb->upper[i] = fcntl(uppers->upper[i], F_DUPFD_CLOEXEC, 3);
                if (sb->upper[i] < 0)
                        return -errno;
        }
        return 0;
}

/* ---- pid 1 ---- */

/* Only what the stages need stays open. */
static void init_close(const struct setup *s) {
        int keep[PLAN_SEEDS_MAX + OS_DIRS_MAX + ROOT_LAYERS_MAX + 3 * PLAN_REGIONS_MAX + PLAN_BYPASS_MAX +
                 SECRETS_MAX + 4];
        size_t n = 0;

        for (size_t i = 0; i < s->n_secrets && i < SECRETS_MAX; i++)
                keep[n++] = s->secrets[i].fd;

        for (size_t i = 0; i < s->plan->n_seeds; i++)
                keep[n++] = s->plan->seeds[i].fd;
        for (size_t i = 0; i < OS_DIRS_MAX; i++)
                keep[n++] = s->os_fd[i];
        for (size_t i = 0; s->plan->root && i < s->plan->root->n_layers; i++)
                keep[n++] = s->plan->root->layers[i];
        for (size_t i = 0; i < s->plan->n_regions; i++) {
                if (s->plan->rungs.no_guard ||
                    s->plan->regions[i].in_memory) /* attach_source(), make_layers() */
                        keep[n++] = s->plan->regions[i].pin.fd;
                if (s->uppers.work[i] < 0)
                        continue;
                keep[n++] = s->uppers.upper[i];
                keep[n++] = s->uppers.work[i];
        }
        for (size_t i = 0; i < s->plan->n_bypass; i++)
                keep[n++] = s->plan->bypass[i].fd;
        keep[n++] = s->sock;
        keep[n++] = s->fuse_sock;
        keep[n++] = s->net_sock;
        keep[n++] = s->relay_sock;
        confine_fds(keep, n);
}

static int put_map(pid_t pid, const char *file, unsigned int inside, unsigned int outside) {
        char path[64], map[64];

        (void) snprintf(path, sizeof(path), "/proc/%d/%s", pid, file);
        (void) snprintf(map, sizeof(map), "%u %u 1", inside, outside);
        return file_put(AT_FDCWD, path, map);
}

/* Root, for another user's id: the maps that the child may not write itself. */
static int write_maps(const struct sandbox *sb) {
        const struct native_id *id = &sb->plan->id;
        char path[64];
        const char done = 'm';
        int r;

        (void) snprintf(path, sizeof(path), "/proc/%d/setgroups", sb->init);
        r = file_put(AT_FDCWD, path, "deny");
        if (r == 0)
                r = put_map(sb->init, "uid_map", id->inside_uid, id->host_uid);
        if (r == 0)
                r = put_map(sb->init, "gid_map", id->inside_gid, id->host_gid);
        return r < 0 ? r : fdpass_send(sb->sock, &done, sizeof(done), NULL, 0);
}

/* Those of an image. */
static int give_maps(const struct sandbox *sb, struct error *err) {
        const char done = 'm';
        int r;

        r = root_maps(sb->plan, sb->init, err);
        if (r == 0)
                r = fdpass_send(sb->sock, &done, sizeof(done), NULL, 0);
        return r < 0 && err && !*err->msg ? error_set(err, r, "ids of the image: %s", strerror(-r)) : r;
}

static int open_ns(const struct sandbox *sb, const char *ns) {
        char path[64];

        (void) snprintf(path, sizeof(path), "/proc/%d/ns/%s", sb->init, ns);
        return open(path, O_RDONLY | O_CLOEXEC);
}

static int start_init(struct sandbox *sb, struct setup *s, struct error *err) {
        const struct native_rungs *rungs = &sb->plan->rungs;
        uint64_t flags =
                CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWCGROUP;
        pid_t pid;
        int r;

        if (net_own(sb->plan))
                flags |= CLONE_NEWNET;
        if (rungs->no_userns)
                flags &= ~(uint64_t) CLONE_NEWUSER;
        pid = sys_clone(flags, &sb->init_pidfd);
        if (pid == 0) {
                s->trace = trace_fork(&s->trace, "init");
                init_close(s);
                sandbox_main(s);
        }
        if (pid < 0)
                return probe_explain(sb->plan->ctx, "clone", pid, err);
        sb->init = pid;
        sb->user_ns = open_ns(sb, "user");
        sb->mnt_ns = open_ns(sb, "mnt");
        r = sb->plan->id.mapped ? give_maps(sb, err) : sb->plan->id.switch_user ? write_maps(sb) : 0;
        if (r < 0 && sb->plan->id.mapped)
                return r;
        if (r < 0)
                return error_set(err, r, "id maps of the sandbox: %s", strerror(-r));
        r = cgroup_enter(&sb->limits.cgroup, pid); /* before it knows of any command */
        return r < 0 ? error_set(err, r, "control group of the sandbox: %s", strerror(-r)) : 0;
}

/*
 * Waits until @pid is gone, at most @timeout_ms, then kills it. A thread that waits for a file system of the
 * host that does not answer outlives that; nobody waits for it: it is gone when the host answers.
 */
static void end_process(pid_t *pid, int *pidfd, int timeout_ms) {
        struct pollfd fd = { .fd = *pidfd, .events = POLLIN };

        if (*pid <= 0)
                return;
        if (timeout_ms <= 0 || poll(&fd, 1, timeout_ms) <= 0)
                (void) sys_pidfd_send_signal(*pidfd, SIGKILL);
        if (poll(&fd, 1, KILL_TIMEOUT_MS) > 0)
                while (waitpid(*pid, NULL, 0) < 0 && errno == EINTR)
                        ;
        *pid = 0;
        *pidfd = fd_close(*pidfd);
}

/* What the engine's limits do to the work can be told when its group can be read. */
static void watch_container(struct sandbox *sb) {
        AUTO_BUF struct buf self = { 0 };
        char path[64];

        (void) snprintf(path, sizeof(path), "/proc/%d/cgroup", sb->init);
        if (!sb->plan->limits.engine || file_read_at(AT_FDCWD, path, SELF_MAX_BYTES, &self) < 0 ||
            cgroup_watch("/sys/fs/cgroup", buf_cstr(&self), &sb->limits.cgroup) < 0)
                return;
        sb->oom_kills = cgroup_usage(&sb->limits.cgroup).oom_kills;
}

/* The same by an engine, and by a process that enters what it made. */
static int start_container(struct sandbox *sb, struct setup *s, const struct start_request *req,
                           struct error *err) {
        int r;

        r = container_start(sb->plan, req, &sb->container, err);
        if (r < 0)
                return r;
        trace_step(&s->trace, "container");
        sb->init = sb->container.pid;
        sb->init_pidfd = fcntl(sb->container.pidfd, F_DUPFD_CLOEXEC, 3);
        if (sb->init_pidfd < 0)
                return error_set(err, -errno, "the container's first process: %s", strerror(errno));
        watch_container(sb);
        if (sb->plan->oci->outside)
                return inject_nothing(s, &sb->container, err);
        sb->mnt_ns = open_ns(sb, "mnt");
        if (sb->plan->oci->rootless)
                sb->user_ns = open_ns(sb, "user");
        return inject_start(s, &sb->container, &sb->injector, &sb->injector_pidfd, err);
}

/* Receives one event of pid 1 and checks what can be checked. @ret_fd: owned, -1: none. */
static int recv_event(const struct sandbox *sb, struct proto_event *ret, int *ret_fd) {
        size_t len, n = 0;
        int r;

        *ret_fd = -1;
        r = fdpass_recv(sb->sock, ret, sizeof(*ret), &len, ret_fd, 1, &n);
        if (r < 0)
                return r;
        ret->stage[sizeof(ret->stage) - 1] = '\0';
        ret->text[sizeof(ret->text) - 1] = '\0';
        if (len == sizeof(*ret) && ret->type < PROTO_EVENT_COUNT &&
            (n == 0 || ret->type == PROTO_STARTED || ret->type == PROTO_OVERLAY ||
             ret->type == PROTO_SECRETS))
                return 0;
        *ret_fd = fd_close(*ret_fd);
        return -EPROTO;
}

static void read_notices(struct sandbox *sb);

/* It confines itself before it serves: the host may lack what that takes. */
static int server_ended(const struct sandbox *sb, struct error *err) {
        (void) error_set(err, -EPIPE, "the file server ended while the sandbox was set up");
        return probe_explain(sb->plan->ctx, "seccomp", -EPIPE, err);
}

/* Waits until pid 1 can be read, or the file server is gone. */
static int wait_event(struct sandbox *sb, struct error *err) {
        struct pollfd fds[] = { { .fd = sb->sock, .events = POLLIN },
                                { .fd = sb->fsd_pidfd, .events = POLLIN },
                                { .fd = sb->notice_fd, .events = POLLIN } };
        int r;

        do {
                r = poll(fds, ARRAY_SIZE(fds), SETUP_TIMEOUT_MS);
                if (r > 0 && fds[2].revents)
                        read_notices(sb);
        } while ((r < 0 && errno == EINTR) || (r > 0 && !fds[0].revents && !fds[1].revents));
        if (r == 0)
                return error_set(err, -ETIMEDOUT, "the sandbox was not ready after %d s",
                                 SETUP_TIMEOUT_MS / 1000);
        if (!fds[0].revents && fds[1].revents)
                return server_ended(sb, err);
        return 0;
}

enum { SHA256_DIGITS = 64 };

static void tell_seeded(const struct sandbox *sb, const struct proto_event *event) {
        const bool whole = event->type == PROTO_SEEDED;
        const struct native_seed *seed;
        AUTO_BUF struct buf source = { 0 }, target = { 0 };
        char sha256[SHA256_DIGITS + 1] = "";
        const char *below = "";

        if (event->id >= sb->plan->n_seeds || !sb->callbacks->seeded)
                return;
        seed = &sb->plan->seeds[event->id];
        if (!whole && strlen(event->text) >= SHA256_DIGITS) {
                memcpy(sha256, event->text, SHA256_DIGITS);
                below = event->text + SHA256_DIGITS;
        }
        if (buf_fmt(&source, "%s%s%s", seed->source, *below ? "/" : "", below) < 0 ||
            buf_fmt(&target, "%s%s%s", seed->target, *below ? "/" : "", below) < 0)
                return;
        sb->callbacks->seeded(sb->arg, &(struct seed_report){
                                               .source = source.data,
                                               .target = target.data,
                                               .is_dir = whole,
                                               .files = whole ? (uint32_t) event->code : 1,
                                               .bytes = event->bytes,
                                               .sha256 = sha256,
                                       });
}

/* Errors that a path or a seed's size brings about, not a missing right or mechanism. */
static bool is_of_request(int r) {
        return r == -EFBIG || r == -E2BIG || r == -ENOENT || r == -ENOTDIR || r == -EISDIR || r == -ELOOP ||
               r == -EROFS || r == -ENAMETOOLONG || r == -ESTALE;
}

/* One step towards a sandbox that is ready. Return: 1 ready, 0 go on, -errno. */
static int wait_step(struct sandbox *sb, struct error *err) {
        struct proto_event event;
        AUTO_FD int fd = -1;
        int r;

        r = wait_event(sb, err);
        if (r < 0)
                return r;
        r = recv_event(sb, &event, &fd);
        if (r == -ECONNRESET) /* it ended with our request unread: the kernel tells that before its words */
                r = recv_event(sb, &event, &fd);
        if (r < 0)
                return error_set(err, r, "the sandbox's first process died while it was set up");
        if (event.type == PROTO_READY)
                return 1;
        if (event.type == PROTO_SEEDED || event.type == PROTO_SEED_FILE) {
                tell_seeded(sb, &event);
                return 0;
        }
        if (event.type == PROTO_OVERLAY) {
                if (event.id < PLAN_REGIONS_MAX && sb->overlay[event.id] < 0)
                        sb->overlay[event.id] = TAKE_FD(fd);
                return 0;
        }
        if (event.type == PROTO_SECRETS && sb->secrets_fd < 0) {
                sb->secrets_fd = TAKE_FD(fd);
                return 0;
        }
        if (event.type != PROTO_FAILED)
                return error_set(err, -EPROTO, "the sandbox's first process said what it cannot know yet");
        r = event.code < 0 && event.code > -4096 ? event.code : -EIO;
        if (r == -ENOTCONN || r == -ECONNABORTED ||
            r == -ECONNREFUSED) /* nobody answers a mount's requests */
                return server_ended(sb, err);
        (void) error_set(err, r, "%s", event.text);
        if ((strcmp(event.stage, "mount") == 0 || strcmp(event.stage, "overlay") == 0) && is_of_request(r))
                return r; /* what was asked for, not what the host can do */
        return probe_explain(sb->plan->ctx, event.stage, r, err);
}

static int wait_ready(struct sandbox *sb, struct error *err) {
        int r;

        do
                r = wait_step(sb, err);
        while (r == 0);
        return r < 0 ? r : 0;
}

/* ---- the vtable ---- */

/* Root's part before the clones: no supplementary groups, and a root directory without root's files. */
static void prepare_root(const struct driver_plan *plan, struct setup *s) {
        for (size_t i = 0; i < OS_DIRS_MAX; i++)
                s->os_fd[i] = -1;
        if (geteuid() != 0)
                return;
        (void) setgroups(0, NULL); /* refused in a container without the right; they stay as they are then */
        if (plan->id.host_uid == 0 && !plan->root)
                s->mask = rootmap_clones(s->os_fd) < 0;
}

/* Whether @extra (NULL: nothing) sets the variable of @entry, "NAME=value". */
static bool is_replaced(const char *entry, const char *const *extra) {
        const size_t n = strcspn(entry, "=");

        for (; extra && *extra; extra++)
                if (strncmp(*extra, entry, n) == 0 && (*extra)[n] == '=')
                        return true;
        return false;
}

static int put_env(const struct sandbox *sb, const char *const *extra, struct buf *b, uint32_t *n) {
        char id[96];
        const char *const own[] = { id, NULL };
        int r = 0;

        for (char **e = sb->plan->env; r == 0 && e && *e; e++)
                if (!is_replaced(*e, extra))
                        r = block_put(b, (const char *const[]){ *e, NULL }, n);
        (void) snprintf(id, sizeof(id), "COFFERDAM_RUN_ID=%s", sb->run_id);
        if (r == 0)
                r = block_put(b, own, n);
        return r == 0 ? block_put(b, extra, n) : r;
}

static int make_block(const struct sandbox *sb, const struct exec_request *req, struct proto_request *msg,
                      struct buf *b) {
        const char *cwd = req->cwd ? req->cwd : sb->plan->workspace;
        int r;

        b->max = BLOCK_MAX_BYTES;
        r = buf_add(b, cwd, strlen(cwd) + 1);
        if (r == 0)
                r = block_put(b, req->argv, &msg->argc);
        if (r == 0)
                r = put_env(sb, req->env, b, &msg->envc);
        msg->block_len = (uint32_t) b->len;
        return r;
}

/* Another user's command can open /dev/stdout only when the pipe is its own, as container engines do it. */
static void give_pipe(const struct native_id *id, int fd) {
        struct statfs fs;

        if (id->switch_user && fstatfs(fd, &fs) == 0 && fs.f_type == PIPEFS_MAGIC &&
            fchown(fd, id->host_uid, id->host_gid) < 0)
                errno = 0; /* the inherited descriptor works all the same */
}

int native_exec(struct sandbox *sb, const struct exec_request *req, struct error *err) {
        struct proto_request msg = {
                .op = PROTO_EXEC,
                .id = req->id,
                .flags = req->tty ? PROTO_TTY : 0,
                .rows = req->winsize.ws_row,
                .cols = req->winsize.ws_col,
                .xpixel = req->winsize.ws_xpixel,
                .ypixel = req->winsize.ws_ypixel,
        };
        AUTO_BUF struct buf b = { 0 };
        AUTO_FD int block = -1;
        int fds[4];
        size_t n = 0;
        int r;

        r = sources_check(&sb->sources, err);
        if (r < 0)
                return r;
        r = make_block(sb, req, &msg, &b);
        if (r < 0)
                return error_set(err, r, "command line and environment: %s", strerror(-r));
        block = block_fd(&b);
        if (block < 0)
                return error_set(err, block, "command line and environment: %s", strerror(-block));
        fds[n++] = block;
        for (int i = req->tty ? 2 : 0; i < 3; i++)
                if (req->stdio[i] >= 0) {
                        give_pipe(&sb->plan->id, req->stdio[i]);
                        msg.flags |= 1U << i;
                        fds[n++] = req->stdio[i];
                }
        r = fdpass_send(sb->sock, &msg, sizeof(msg), fds, n);
        return r < 0 ? error_set(err, r, "hand the command to the sandbox: %s", strerror(-r)) : 0;
}

/* The supervisor's part of what the children were given. */
static void setup_deinit(struct setup *s) {
        for (size_t i = 0; i < OS_DIRS_MAX; i++)
                s->os_fd[i] = fd_close(s->os_fd[i]);
        uppers_deinit(&s->uppers);
        sockets_free(&s->sockets);
}

/** struct helper_fds - the host's ends of what process 1 hands its descriptors over by; borrowed */
struct helper_fds {
        int fuse, notice, net;
};

/* The processes of the host's side, while process 1 builds the sandbox. */
static int start_helpers(struct sandbox *sb, struct setup *s, const struct start_request *req,
                         struct helper_fds fds, struct error *err) {
        int r;

        if (sb->plan->rungs.no_guard)
                r = hold_uppers(sb, &s->uppers);
        else
                r = start_fsd(sb, &s->uppers, fds.fuse, fds.notice, req->cache_shared, err);
        trace_step(&s->trace, "fork-fsd");
        if (r == 0 && net_wanted(sb->plan)) {
                r = net_start(sb->plan, fds.net, &sb->net, err);
                trace_step(&s->trace, "fork-egress");
        }
        if (r == 0 && sb->plan->uplink) {
                r = uplink_start(req->run_id, sb->init, fds.net, &sb->uplink, err);
                trace_step(&s->trace, "uplink");
        }
        return r;
}

/* Until commands can run. */
static int await_all(struct sandbox *sb, struct setup *s, const struct start_request *req,
                     struct error *err) {
        int r = req->meanwhile ? req->meanwhile(req->arg, err) : 0;

        if (r == 0 && req->first)
                r = native_exec(sb, req->first, err); /* pid 1 reads it when it has built the sandbox */
        if (r == -EPIPE)
                r = 0; /* building it failed already: wait_ready() reads why */
        trace_step(&s->trace, "meanwhile");
        if (r == 0)
                r = wait_ready(sb, err);
        if (r == 0)
                end_process(&sb->injector, &sb->injector_pidfd, KILL_TIMEOUT_MS);
        trace_step(&s->trace, "wait-ready");
        return r;
}

static int start_all(struct sandbox *sb, const struct start_request *req, struct error *err) {
        AUTO_FD int fuse_a = -1, fuse_b = -1, notice = -1, sock = -1, net_a = -1, net_b = -1;
        CLEANUP(setup_deinit)
        struct setup s = { .plan = sb->plan,
                           .net_sock = -1,
                           .relay_sock = req->relay_sock,
                           .secrets = req->secrets,
                           .n_secrets = req->n_secrets,
                           .host_fd = -1,
                           .proc_fd = -1,
                           .root_fd = -1,
                           .fuse_dev = -1,
                           .fuse_fd = -1,
                           .sealed_fd = -1,
                           .trace = req->trace };
        const struct seccomp_options options = {
                .nested_userns = sb->plan->nested_userns,
                .no_setid = sb->plan->n_bypass > 0,
                .unix_only = sb->plan->rungs.no_netns,
                .floor = sb->plan->profile.len > 0,
        };
        int fuse[2], notices[2], control[2], net[2];
        int r;

        uppers_init(&s.uppers);
        r = limits_open(&sb->plan->limits, req->run_id, &sb->limits, err);
        if (r < 0)
                return r;
        s.limits = &sb->limits;
        prepare_root(sb->plan, &s);
        r = sb->plan->oci ? 0 : sockets_list(sb->plan, &s.sockets, err);
        if (r < 0)
                return r;
        if ((r = fdpass_pair(fuse)) < 0)
                return error_set(err, r, "socketpair: %s", strerror(-r));
        fuse_a = fuse[0];
        fuse_b = fuse[1];
        if ((r = fdpass_pair(notices)) < 0)
                return error_set(err, r, "socketpair: %s", strerror(-r));
        sb->notice_fd = notices[0];
        notice = notices[1];
        if ((r = fdpass_pair(control)) < 0)
                return error_set(err, r, "socketpair: %s", strerror(-r));
        sb->sock = control[0];
        sock = control[1];
        if (net_wanted(sb->plan) || sb->plan->uplink) {
                if ((r = fdpass_pair(net)) < 0)
                        return error_set(err, r, "socketpair: %s", strerror(-r));
                net_a = net[0];
                s.net_sock = net_b = net[1];
        }
        r = uppers_make(sb->plan, req->upper_fd, req->run_fd, &s.uppers);
        if (r < 0)
                return error_set(err, r, "directories for the changes of the run: %s", strerror(-r));
        r = seccomp_filter_compile(SECCOMP_HOST, &options, &s.filter, err);
        trace_step(&s.trace, "prepare");
        if (r == 0) {
                s.sock = sock;
                s.fuse_sock = fuse_b;
                r = sb->plan->oci ? start_container(sb, &s, req, err) : start_init(sb, &s, err);
        }
        if (r < 0)
                return r;
        trace_step(&s.trace, "clone-init");
        sock = fd_close(sock);
        fuse_b = fd_close(fuse_b);
        net_b = fd_close(net_b);
        r = start_helpers(sb, &s, req, (struct helper_fds){ fuse_a, notice, net_a }, err);
        return r < 0 ? r : await_all(sb, &s, req, err);
}

/* The region whose place is in no other one: on the way there nobody has to answer. */
static const char *outermost(const struct driver_plan *plan) {
        const char *best = NULL;

        for (size_t i = 0; i < plan->n_regions; i++)
                if (!best || strlen(plan->regions[i].target) < strlen(best))
                        best = plan->regions[i].target;
        return best;
}

/* Ends the FUSE connection from inside, where only the mount is needed: all its requests fail. */
static void abort_requests(const struct sandbox *sb) {
        const char *target = outermost(sb->plan);
        int pidfd = -1;
        pid_t pid;

        if (sb->mnt_ns < 0 || !target || sb->plan->rungs.no_guard)
                return;
        pid = sys_clone(0, &pidfd);
        if (pid == 0) {
                if ((sb->user_ns >= 0 && !sb->plan->rungs.no_userns &&
                     setns(sb->user_ns, CLONE_NEWUSER) < 0) ||
                    setns(sb->mnt_ns, CLONE_NEWNS) < 0)
                        _exit(1);
                _exit(umount2(target, MNT_FORCE) < 0);
        }
        if (pid > 0)
                end_process(&pid, &pidfd, KILL_TIMEOUT_MS);
}

/*
 * Kills pid 1 and with it the sandbox. A process that waits for an answer of the file server cannot be
 * killed: a server that waits for the host itself is told to let go (guard_serve()), one that does not answer
 * at all (somebody stopped it) has to go first, and when a thread of it cannot, the requests are ended
 * instead.
 */
static void end_sandbox(struct sandbox *sb) {
        struct pollfd fd = { .fd = sb->init_pidfd, .events = POLLIN };

        if (sb->init <= 0)
                return;
        (void) sys_pidfd_send_signal(sb->init_pidfd, SIGKILL);
        if (poll(&fd, 1, INIT_END_TIMEOUT_MS) <= 0 && sb->fsd > 0) {
                (void) sys_pidfd_send_signal(sb->fsd_pidfd, SIGTERM);
                if (poll(&fd, 1, FSD_END_TIMEOUT_MS) <= 0)
                        end_process(&sb->fsd, &sb->fsd_pidfd, 0);
                if (poll(&fd, 1, INIT_END_TIMEOUT_MS) <= 0)
                        abort_requests(sb);
        }
        end_process(&sb->init, &sb->init_pidfd, 0);
        sb->user_ns = fd_close(sb->user_ns);
        sb->mnt_ns = fd_close(sb->mnt_ns); /* the mounts end here: the file server waits for that */
}

struct sandbox *native_stop(struct sandbox *sb) {
        if (!sb)
                return NULL;
        sb->lost = true;
        end_process(&sb->injector, &sb->injector_pidfd, 0);
        container_end(&sb->container);
        end_sandbox(sb);
        sb->sock = fd_close(sb->sock);
        sb->secrets_fd = fd_close(sb->secrets_fd);
        /* what refers to an overlay holds its lower, and the file server would wait for that in vain */
        for (size_t i = 0; i < PLAN_REGIONS_MAX; i++)
                sb->overlay[i] = fd_close(sb->overlay[i]);
        for (size_t i = 0; i < PLAN_REGIONS_MAX; i++)
                sb->upper[i] = fd_close(sb->upper[i]);
        uplink_stop(&sb->uplink);
        net_stop(&sb->net, sb->callbacks->network, sb->arg); /* nobody is left who could ask it */
        end_process(&sb->fsd, &sb->fsd_pidfd, FSD_END_TIMEOUT_MS);
        if (sb->notice_fd >= 0)
                read_notices(sb);
        if (sb->up) /* also what happened since the file server's last look */
                (void) sources_check(&sb->sources, NULL);
        sb->notice_fd = fd_close(sb->notice_fd);
        limits_close(&sb->limits);
        container_remove(&sb->container);
        free(sb);
        return NULL;
}

int native_start(const struct driver_plan *plan, const struct start_request *req, struct sandbox **ret,
                 struct error *err) {
        struct sandbox *sb = calloc(1, sizeof(*sb));
        int r;

        if (!sb)
                return error_set(err, -ENOMEM, "out of memory");
        *sb = (struct sandbox){ .plan = plan,
                                .callbacks = req->callbacks,
                                .arg = req->arg,
                                .secrets_fd = -1,
                                .init_pidfd = -1,
                                .user_ns = -1,
                                .mnt_ns = -1,
                                .fsd_pidfd = -1,
                                .container = OCI_CONTAINER_INIT,
                                .injector_pidfd = -1,
                                .sock = -1,
                                .notice_fd = -1,
                                .net = NET_INIT,
                                .uplink = UPLINK_INIT,
                                .limits = LIMITS_INIT };
        for (size_t i = 0; i < PLAN_REGIONS_MAX; i++)
                sb->overlay[i] = sb->upper[i] = -1;
        (void) snprintf(sb->run_id, sizeof(sb->run_id), "%s", req->run_id);
        sources_init(&sb->sources, plan, req->callbacks, req->arg);
        r = start_all(sb, req, err);
        if (r < 0) {
                host_forget(plan->ctx);
                (void) native_stop(sb);
                return r;
        }
        sb->up = true;
        *ret = sb;
        return 0;
}

static int native_probe(const struct ctx *ctx, const struct spec *spec, struct error *err) {
        if (spec->image && libexec_check("cofferdam-image") < 0)
                return error_set(err, DRIVER_HOST_LACKS,
                                 "image: 'cofferdam-image' is not installed: install it, or build where "
                                 "libcurl, OpenSSL and libarchive have their development files");
        /* of the rest start() tells what is missing in the same words; asking first would cost each run a
         * fork */
        return root_possible(ctx, spec, err);
}

int native_signal(struct sandbox *sb, uint32_t id, int sig, bool group) {
        const struct proto_request msg = {
                .op = PROTO_SIGNAL, .id = id, .signal = sig, .flags = group ? PROTO_GROUP : 0
        };

        return fdpass_send(sb->sock, &msg, sizeof(msg), NULL, 0);
}

int native_set_network(struct sandbox *sb, const char *preset, const char *const *rules, size_t n,
                       struct error *err) {
        const int r = egress_send_policy(sb->net.control, preset, rules, n);

        return r < 0 ? error_set(err, r, "hand the rules to the egress proxy: %s", strerror(-r)) : 0;
}

int native_refresh_file(struct sandbox *sb, const struct file_secret *secret, struct error *err) {
        const struct native_id *id = &sb->plan->id;
        AUTO_BUF struct buf data = { .max = secret->len + 1 };
        int r;

        if (sb->secrets_fd < 0)
                return error_set(err, -ENOENT, "the run has no secrets that are files");
        if (lseek(secret->fd, 0, SEEK_SET) < 0)
                return error_set(err, -errno, "read the value: %s", strerror(errno));
        r = file_read(secret->fd, secret->len, &data);
        if (r == 0 && id->switch_user) { /* root has no id in the sandbox's file systems */
                (void) setfsgid(id->host_gid);
                (void) setfsuid(id->host_uid);
        }
        if (r == 0)
                r = file_replace_at(sb->secrets_fd, secret->name, data.data, data.len, 0400, false);
        if (id->switch_user) {
                (void) setfsuid(geteuid());
                (void) setfsgid(getegid());
        }
        if (data.data)
                explicit_bzero(data.data, data.len);
        return r < 0 ? error_set(err, r, "write it: %s", strerror(-r)) : 0;
}

size_t native_poll(struct sandbox *sb, struct pollfd *fds) {
        fds[0] = (struct pollfd){ .fd = sb->sock, .events = POLLIN };
        fds[1] = (struct pollfd){ .fd = sb->notice_fd, .events = POLLIN };
        fds[2] = (struct pollfd){ .fd = sb->fsd_pidfd, .events = POLLIN };
        fds[3] = (struct pollfd){ .fd = sb->net.control, .events = POLLIN };
        fds[4] = (struct pollfd){ .fd = sb->net.pidfd, .events = POLLIN };
        return 5;
}

static void tell_lost(struct sandbox *sb, const char *failure_code, const char *reason) {
        if (!sb->lost)
                sb->callbacks->lost(sb->arg, failure_code, reason);
        sb->lost = true;
}

json_t *native_report(const struct sandbox *sb) {
        return limits_report(&sb->limits);
}

/* The state is the caller's own file, but a path of it is only believed when it can be one of ours. */
static int native_reap(const struct ctx *ctx, const json_t *plan, const char *run_id, struct error *err) {
        const json_t *const paths = json_object_get(plan, "cgroups");
        char name[96];

        (void) ctx;
        (void) err;
        (void) snprintf(name, sizeof(name), "/cofferdam-%s", run_id);
        for (size_t i = 0; i < json_array_size(paths); i++) {
                const char *path = json_string_value(json_array_get(paths, i));
                const char *end = path ? strstr(path, name) : NULL;

                if (end && !end[strlen(name)] && strncmp(path, "/sys/fs/cgroup/", 15) == 0 &&
                    !strstr(path, "/../") && cgroup_reap(path) < 0)
                        continue; /* not ours to remove, or it is gone */
        }
        limits_reap(run_id); /* one that was killed before it wrote its state */
        return 0;
}

/* Whether the kernel has killed for the limit since this was asked last. */
static bool was_out_of_memory(struct sandbox *sb, struct exec_result *result) {
        const struct cgroup_usage usage = cgroup_usage(&sb->limits.cgroup);
        const bool killed = usage.oom_kills > sb->oom_kills;

        sb->oom_kills = usage.oom_kills;
        result->memory_limit_bytes = sb->plan->limits.group.memory_bytes;
        result->memory_peak_bytes = usage.peak_bytes;
        return killed;
}

static void read_event(struct sandbox *sb) {
        struct proto_event event;
        AUTO_FD int fd = -1;

        if (recv_event(sb, &event, &fd) < 0) {
                tell_lost(sb, "SANDBOX_SETUP_FAILED", "the sandbox's first process died");
                return;
        }
        if (event.type == PROTO_STARTED)
                sb->callbacks->exec_started(sb->arg, event.id, event.code, TAKE_FD(fd));
        if (event.type == PROTO_FINISHED) {
                struct exec_result result = {
                        .id = event.id,
                        .exit_code = event.code & 0xff,
                        .signal = event.signal,
                        .exec_errno = event.exec_errno,
                        .max_rss_bytes = event.max_rss_bytes,
                };

                result.oom = was_out_of_memory(sb, &result);
                sb->callbacks->exec_finished(sb->arg, &result);
        }
}

/* The host changed what lies below an overlay, which believes that nobody does that. */
static void forget_lower(const struct sandbox *sb, uint32_t region) {
        if (sb->overlay[region] >= 0)
                (void) mnt_forget(sb->overlay[region]); /* else what it remembers stays stale */
}

/* fsd reads hostile requests: its notices are checked like anything from inside. */
static void read_notices(struct sandbox *sb) {
        struct pollfd fd = { .fd = sb->notice_fd, .events = POLLIN };

        while (poll(&fd, 1, 0) > 0 && (fd.revents & POLLIN)) {
                struct guard_notice notice;
                size_t len;

                if (fdpass_recv(sb->notice_fd, &notice, sizeof(notice), &len, NULL, 0, NULL) < 0)
                        return;
                if (len != sizeof(notice) || notice.type >= NOTICE_TYPE_COUNT ||
                    notice.region >= sb->plan->n_regions)
                        continue;
                notice.op[sizeof(notice.op) - 1] = '\0';
                notice.rule[sizeof(notice.rule) - 1] = '\0';
                notice.detail[sizeof(notice.detail) - 1] = '\0';
                notice.path[sizeof(notice.path) - 1] = '\0';
                if (notice.type == NOTICE_LOWER_CHANGED)
                        forget_lower(sb, notice.region);
                else if (notice.type == NOTICE_SOURCE_CHANGED)
                        sources_notice(&sb->sources, &notice, sb->notice_fd);
                else
                        sb->callbacks->notice(sb->arg, &notice);
        }
}

void native_dispatch(struct sandbox *sb, const struct pollfd *fds, size_t n) {
        if (n > 1 && fds[1].revents)
                read_notices(sb);
        if (n > 0 && fds[0].revents)
                read_event(sb);
        if (n > 3 && fds[3].revents)
                net_read(&sb->net, sb->callbacks->network, sb->arg);
        if (n > 4 && fds[4].revents)
                tell_lost(sb, "EGRESS_LOST", "the egress proxy died: the work had no network left");
        if (n > 2 && fds[2].revents)
                tell_lost(sb, "GUARD_LOST", "the file server died: what was written before is kept");
}

const struct driver_ops driver_native = {
        .name = "native",
        .own_loopback = net_own,
        .probe = native_probe,
        .plan = native_plan,
        .plan_free = native_plan_free,
        .describe = native_describe,
        .start = native_start,
        .report = native_report,
        .reap = native_reap,
        .exec = native_exec,
        .signal = native_signal,
        .set_network = native_set_network,
        .refresh_file = native_refresh_file,
        .poll = native_poll,
        .dispatch = native_dispatch,
        .stop = native_stop,
};
