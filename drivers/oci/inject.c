/*
 * DOC: theory of operation
 *
 * A process that enters a container before its first command: the user namespace, where the container has
 * one of its own, then mounts and network. What it mounts there is what pid 1 of a native sandbox mounts in
 * its own root (native/sandbox.c), by the same functions, at places that the engine has made empty. So the
 * guard serves the workspace in a container, whoever's daemon made it and whatever mounts that sees, and
 * nothing of the run is ever mounted on the host.
 *
 * The image is hostile: every way inside starts at the root that pid 1 has and follows no link. Nothing but
 * pid 1 runs in the container, and pid 1 is ours.
 *
 * Entering takes root, or to be the owner of the container's user namespace, as the caller of rootless podman
 * is.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <mntent.h>
#include <net/if.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "drivers/native/mnt.h"
#include "drivers/native/net.h"
#include "drivers/native/parts.h"
#include "drivers/native/setup.h"
#include "drivers/oci/oci.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/escape.h"
#include "runtime/base/fdpass.h"
#include "runtime/base/file.h"
#include "runtime/base/path.h"
#include "runtime/base/sys.h"

enum { ETC_MAX = 1 << 20, MOUNT_LINE_MAX = 4 * PATH_MAX + 4096 /* all of a path may be escaped */ };

/** struct entry - how to get in; descriptors owned */
struct entry {
        const struct container *container;
        bool user_ns; /* the container has its own */
};

/* Whether the process has a namespace of its own; @name as in /proc */
static bool own_ns(pid_t pid, const char *name) {
        char path[64], own[64];
        struct stat ours, theirs;

        (void) snprintf(path, sizeof(path), "/proc/%d/ns/%s", pid, name);
        (void) snprintf(own, sizeof(own), "/proc/self/ns/%s", name);
        return stat(own, &ours) < 0 || stat(path, &theirs) < 0 || ours.st_ino != theirs.st_ino;
}

/* An engine may be told to give every container what is the host's. */
static int check_apart(const struct container *c, struct error *err) {
        static const char *const names[] = { "mnt", "pid", "ipc", "net" };

        for (size_t i = 0; i < ARRAY_SIZE(names); i++)
                if (!own_ns(c->pid, names[i]))
                        return error_set(
                                err, -EPERM,
                                "the engine has given the container the host's %s namespace: have its "
                                "configuration give one of its own, or use --driver native",
                                names[i]);
        return 0;
}

static int open_roots(struct setup *s, const struct container *c, struct error *err) {
        char path[64];

        (void) snprintf(path, sizeof(path), "/proc/%d/root", c->pid);
        s->host_fd = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
        s->proc_fd = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC);
        s->root_fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (s->host_fd < 0 || s->proc_fd < 0 || s->root_fd < 0)
                return error_set(err, -errno, "root of the container: %s", strerror(errno));
        return 0;
}

/* In this order: the device is the host's and has to be opened in the container's user namespace. */
static int enter(struct setup *s, const struct entry *e, struct error *err) {
        const int pidfd = e->container->pidfd;

        if (e->user_ns && setns(pidfd, CLONE_NEWUSER) < 0)
                return error_set(err, -errno, "enter the container's user namespace: %s", strerror(errno));
        s->fuse_dev = open("/dev/fuse", O_RDWR | O_CLOEXEC);
        if (s->fuse_dev < 0)
                return error_set(err, -errno, "open /dev/fuse: %s", strerror(errno));
        if (setns(pidfd, CLONE_NEWNS | CLONE_NEWNET) < 0)
                return error_set(err, -errno, "enter the container's mount and network namespaces: %s",
                                 strerror(errno));
        return 0;
}

/* Whether what the engine mounted can stay writable: of the kernel's, and bounded. */
static bool stays(const struct mntent *m) {
        static const char *const types[] = { "proc",   "sysfs",  "cgroup",  "cgroup2",
                                             "mqueue", "devpts", "devtmpfs" };

        for (size_t i = 0; i < ARRAY_SIZE(types); i++)
                if (strcmp(m->mnt_type, types[i]) == 0)
                        return true;
        return strcmp(m->mnt_dir, OCI_DIR) == 0 ||
               (strcmp(m->mnt_type, "tmpfs") == 0 && path_below(m->mnt_dir, "/dev"));
}

/* Where the engine puts devices that the work may use; an image may bring others. */
static bool has_devices(const struct mntent *m) {
        return path_below(m->mnt_dir, "/dev") || path_below(m->mnt_dir, "/proc"); /* there as covers */
}

/*
 * Read-only are volumes that the image asks for, and what else the engine puts on a read-only root: it lies
 * on the host's disk, where nothing bounds it. Nothing that is mounted gives rights by a bit of a file.
 */
static int freeze(const struct setup *s, struct error *err) {
        AUTO_FD int fd = openat(s->proc_fd, "self/mounts", O_RDONLY | O_CLOEXEC);
        AUTO_FILE FILE *f = fd < 0 ? NULL : fdopen(fd, "re");
        char line[MOUNT_LINE_MAX];
        struct mntent m;
        int r;

        if (!f)
                return error_set(err, -errno, "mounts of the container: %s", strerror(errno));
        (void) TAKE_FD(fd);
        while (getmntent_r(f, &m, line, sizeof(line))) {
                const struct sys_mount_attr attr = { .attr_set = MNT_NOSUID |
                                                                 (has_devices(&m) ? 0 : MNT_NODEV) |
                                                                 (stays(&m) ? 0 : MNT_RDONLY) };

                r = sys_mount_setattr(AT_FDCWD, m.mnt_dir, AT_SYMLINK_NOFOLLOW, &attr);
                if (r < 0 && r != -ENOENT && r != -ENOTDIR && r != -EINVAL) /* those are covered by others */
                        return error_set(err, r, "restrict the mount '%s' of the container: %s",
                                         ESC(m.mnt_dir), strerror(-r));
        }
        return 0;
}

/* Parts of a mount can be cloned where it is attached only (until Linux 6.15). */
static int attach_fuse(const struct setup *s, struct error *err) {
        AUTO_FD int point = mnt_point(s->root_fd, &OCI_FUSE[1], false);
        const int r = point < 0 ? point : mnt_attach(s->fuse_fd, point);

        return r < 0 ? error_set(err, r, "attach the guard's file system: %s", strerror(-r)) : 0;
}

/* The image's @path with an entry for who works, where the image has such a file. */
static int put_account(const struct setup *s, const char *path,
                       int (*make)(const char *, const struct native_id *, struct buf *)) {
        AUTO_BUF struct buf image = { 0 }, made = { 0 };
        AUTO_FD int fd = open_beneath(s->root_fd, path + 1, O_RDONLY | O_NONBLOCK, 0);
        struct stat st;
        int r;

        if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
                return 0; /* none, or a link: the image's to explain */
        r = file_read(fd, ETC_MAX, &image);
        if (r == 0)
                r = make(buf_cstr(&image), &s->plan->id, &made);
        if (r == 0 && (image.len != made.len || memcmp(image.data, made.data, made.len) != 0))
                r = setup_put_file(
                        s, &(struct native_file){ (char *) (uintptr_t) path, made.data, made.len, 0644 });
        return r;
}

static int put_accounts(const struct setup *s, struct error *err) {
        int r = put_account(s, "/etc/passwd", etc_passwd);

        if (r == 0)
                r = put_account(s, "/etc/group", etc_group);
        return r < 0 ? error_set(err, r, "account files of the image: %s", strerror(-r)) : 0;
}

/* The whole of it is not for the work; nor are our own files to be changed. */
static int seal(const struct setup *s, struct error *err) {
        static const struct sys_mount_attr ro = { .attr_set = MNT_RDONLY | MNT_NOSUID | MNT_NODEV };
        AUTO_FD int own = -1;
        int r;

        if (fchdir(s->root_fd) < 0 || umount2(&OCI_FUSE[1], MNT_DETACH | UMOUNT_NOFOLLOW) < 0)
                return error_set(err, -errno, "detach the guard's file system: %s", strerror(errno));
        if (s->n_secrets > 0 && umount2(&OCI_ASIDE[1], MNT_DETACH | UMOUNT_NOFOLLOW) < 0)
                return error_set(err, -errno, "detach the secrets: %s", strerror(errno));
        own = mnt_point(s->root_fd, &OCI_DIR[1], false);
        r = own < 0 ? own : sys_mount_setattr(own, "", AT_EMPTY_PATH, &ro);
        return r < 0 ? error_set(err, r, "make " OCI_DIR " read-only: %s", strerror(-r)) : 0;
}

static int make_net(const struct setup *s, struct error *err) {
        struct ifreq req = { .ifr_name = "lo", .ifr_flags = IFF_UP };
        AUTO_FD int sock = -1;
        int r = 0;

        if (s->net_sock >= 0) {
                sock = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
                if (sock < 0 || ioctl(sock, SIOCSIFFLAGS, &req) < 0)
                        return error_set(err, -errno, "bring loopback up: %s", strerror(errno));
                r = net_listen(s->plan, s->net_sock, err);
                if (r < 0)
                        return error_wrap(err, r, "sockets of the egress proxy");
        }
        r = s->relay_sock < 0 ? 0 : net_relay(s->relay_sock);
        return r < 0 ? error_set(err, r, "socket of the relay: %s", strerror(-r)) : 0;
}

static int profile_file(const struct profile_program *profile, uint32_t bytes) {
        AUTO_FD int file = memfd_create("profile", MFD_CLOEXEC);
        int r = file < 0 ? -errno : write_all(file, profile->insns, bytes);

        if (r == 0 && lseek(file, 0, SEEK_SET) < 0)
                r = -errno;
        return r < 0 ? r : TAKE_FD(file);
}

/* From here on pid 1 talks to the supervisor itself. @outside: it makes the sockets that only it can make */
static int hand_over(const struct setup *s, const struct container *c, bool outside, struct error *err) {
        const struct profile_program *profile = &s->plan->profile;
        struct oci_order order = { .version = COFFERDAM_VERSION,
                                   .open_files = s->plan->limits.open_files,
                                   .file_size_bytes = s->plan->limits.file_size,
                                   .profile_bytes = (uint32_t) (profile->len * sizeof(*profile->insns)),
                                   .listen = outside && s->net_sock >= 0,
                                   .relay = outside && s->relay_sock >= 0 };
        AUTO_FD int file = -1;
        int fds[OCI_ORDER_FDS], r = 0;
        size_t n = 0;

        if (!s->plan->limits.engine)
                order.weak = s->plan->limits.group;
        fds[n++] = s->sock;
        if (order.profile_bytes) {
                fds[n++] = file = profile_file(profile, order.profile_bytes);
                r = file < 0 ? file : 0;
        }
        if (order.listen)
                fds[n++] = s->net_sock;
        if (order.relay)
                fds[n++] = s->relay_sock;
        if (r == 0)
                r = fdpass_send(c->conn, &order, sizeof(order), fds, n);
        return r < 0 ? error_set(err, r, "hand the container's first process its socket: %s", strerror(-r))
                     : 0;
}

int inject_nothing(const struct setup *s, const struct container *container, struct error *err) {
        return hand_over(s, container, true, err);
}

static int furnish(struct setup *s, const struct entry *e, const char **ret_stage, struct error *err) {
        int r;

        *ret_stage = "engine";
        r = check_apart(e->container, err);
        if (r == 0)
                r = open_roots(s, e->container, err);
        if (r == 0)
                r = enter(s, e, err);
        if (r == 0)
                r = freeze(s, err);
        if (r == 0)
                *ret_stage = "fuse";
        if (r == 0)
                r = stage_fuse(s, err);
        if (r == 0)
                *ret_stage = "mount";
        if (r == 0)
                r = attach_fuse(s, err);
        if (r == 0)
                r = stage_places(s, err);
        if (r == 0)
                r = stage_files(s, err);
        if (r == 0)
                r = put_accounts(s, err);
        if (r == 0)
                r = stage_secrets(s, err);
        if (r == 0)
                r = seal(s, err);
        if (r == 0)
                *ret_stage = "engine";
        if (r == 0)
                r = make_net(s, err);
        return r == 0 ? hand_over(s, e->container, false, err) : r;
}

_Noreturn static void inject_main(struct setup *s, const struct container *container) {
        const struct entry entry = { .container = container, .user_ns = own_ns(container->pid, "user") };
        const char *stage = "engine";
        struct error err = { 0 };

        (void) umask(0);
        (void) prctl(PR_SET_NAME, "cofferdam-inject", 0, 0, 0);
        (void) prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
        if (furnish(s, &entry, &stage, &err) < 0)
                setup_give_up(s, stage, &err);
        _exit(0);
}

int inject_start(struct setup *s, const struct container *container, pid_t *ret_pid, int *ret_pidfd,
                 struct error *err) {
        const pid_t pid = sys_clone(0, ret_pidfd);

        if (pid == 0) {
                s->trace = trace_fork(&s->trace, "inject");
                inject_main(s, container);
        }
        if (pid < 0)
                return error_set(err, pid, "fork what enters the container: %s", strerror(-pid));
        *ret_pid = pid;
        return 0;
}
