/*
 * DOC: theory of operation
 *
 * The child of clone(2) runs the stages of this file in order, once each, and becomes the sandbox's pid 1.
 * It starts with every capability over its own new namespaces and none over the host; it ends without any.
 * Until stage_pivot() it sees the host's root in a private copy of the mount tree; nothing it mounts is
 * visible to the host, and it creates files in tmpfs mounts of its own only (mnt_point() enforces it).
 *
 * No command runs before all stages are done, so nothing of the work can race them; what the host's users
 * could swap under us (a name in "/") is opened once and used by descriptor.
 */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/securebits.h>
#include <net/if.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "drivers/native/devices.h"
#include "drivers/native/mnt.h"
#include "drivers/native/net.h"
#include "drivers/native/parts.h"
#include "drivers/native/setup.h"
#include "drivers/native/uplink.h"
#include "drivers/oci/oci.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/escape.h"
#include "runtime/base/fdpass.h"
#include "runtime/base/file.h"
#include "runtime/base/sys.h"

#ifndef OPEN_TREE_CLONE
#define OPEN_TREE_CLONE 1
#endif

enum {
        NUMBER_MAX = 24,
        TMPFS_BYTES_PER_FILE = 4096,
        TMPFS_FILES_MIN = 1024,
        SHM_SHARE = 4,         /* /dev/shm may hold a quarter of the machine's memory */
        ROOT_TMPFS_KIB = 4096, /* mount points and a few small files */
        KEYCTL_JOIN_SESSION = 1,
        SEED_ROOM = 64,
};

/* Where our own generated files lie before they are mounted over the host's. */
static const char own_files[] = "run/cofferdam";

/* Attaches the detached mount @mnt at @path below the new root; the point is made when our tmpfs lacks it. */
static int attach(const struct setup *s, int mnt, const char *path, bool is_file) {
        AUTO_FD int point = -1;

        point = mnt_point(s->root_fd, path, is_file);
        return point < 0 ? point : mnt_attach(mnt, point);
}

/* The same where all parents are known to be directories of our own root (skeleton[]): two system calls. */
static int attach_own(const struct setup *s, int mnt, const char *path, bool is_file) {
        const int r =
                is_file ? mknodat(s->root_fd, path, S_IFREG | 0644, 0) : mkdirat(s->root_fd, path, 0755);

        if (r < 0 && errno != EEXIST)
                return -errno;
        return sys_move_mount(mnt, "", s->root_fd, path, 0x4 /* MOVE_MOUNT_F_EMPTY_PATH */);
}

static int attach_tmpfs(const struct setup *s, const char *path, uint64_t size_bytes, mode_t mode) {
        char size[NUMBER_MAX], inodes[NUMBER_MAX], octal[NUMBER_MAX];
        const struct mnt_option options[] = { { "mode", octal }, { "size", size }, { "nr_inodes", inodes } };
        const uint64_t files = size_bytes / TMPFS_BYTES_PER_FILE;
        AUTO_FD int mnt = -1;

        (void) snprintf(size, sizeof(size), "%llu", (unsigned long long) size_bytes);
        (void) snprintf(octal, sizeof(octal), "%o", mode);
        /* an inode costs the kernel a kilobyte that the size does not count */
        (void) snprintf(inodes, sizeof(inodes), "%llu",
                        (unsigned long long) (files < TMPFS_FILES_MIN ? TMPFS_FILES_MIN : files));
        mnt = mnt_new("tmpfs", options, size_bytes ? 3 : 1, MNT_NOSUID | MNT_NODEV);
        return mnt < 0 ? mnt : attach(s, mnt, path, false);
}

/*
 * stage_user - the ids of the new user namespace
 * Must: die with the supervisor; map exactly one uid and one gid.
 * Must not: run a program, open anything of the sandbox's.
 */
static int stage_user(struct setup *s, struct error *err) {
        const struct native_id *id = &s->plan->id;
        char map[64];
        int r = 0;

        if (s->plan->rungs.no_userns)
                return 0;                          /* there is none */
        (void) prctl(PR_SET_DUMPABLE, 1, 0, 0, 0); /* /proc/self/uid_map belongs to us only then */
        if (id->switch_user ||
            id->mapped) { /* somebody outside has to write the maps for another user's id */
                size_t len;

                r = fdpass_recv(s->sock, map, sizeof(map), &len, NULL, 0, NULL);
        } else {
                r = file_put(AT_FDCWD, "/proc/self/setgroups", "deny");
                (void) snprintf(map, sizeof(map), "%u %u 1", id->inside_uid, id->host_uid);
                if (r == 0)
                        r = file_put(AT_FDCWD, "/proc/self/uid_map", map);
                (void) snprintf(map, sizeof(map), "%u %u 1", id->inside_gid, id->host_gid);
                if (r == 0)
                        r = file_put(AT_FDCWD, "/proc/self/gid_map", map);
        }
        if (r < 0)
                return error_set(err, r, "id maps: %s", strerror(-r));
        return 0;
}

/*
 * stage_uppers - the directories that overlayfs takes the work's changes to
 * Must: come before the change of ids (root's state is root's), and before anything is mounted.
 */
static int stage_uppers(struct setup *s, struct error *err) {
        int r = uppers_enter(s->plan, &s->uppers);

        if (r == 0 && s->plan->root)
                r = root_enter(s->plan->root, s->layer_fd);

        return r < 0 ? error_set(err, r, "directories for the changes of the run: %s", strerror(-r)) : 0;
}

/* Root's second step: from here on another user works. */
static int become_user(const struct driver_plan *plan, struct error *err) {
        const struct native_id *id = &plan->id;

        if (id->switch_user && plan->oci) { /* who enters a container has to go on mounting: for files only */
                (void) setfsgid(id->host_gid);
                (void) setfsuid(id->host_uid);
        } else if (id->mapped) {
                /* the rights over the sandbox's own ids stay until stage_confine() */
                (void) setgroups(0, NULL);
                if (prctl(PR_SET_SECUREBITS, SECBIT_NO_SETUID_FIXUP) < 0 ||
                    setresgid(id->inside_gid, id->inside_gid, id->inside_gid) < 0 ||
                    setresuid(id->inside_uid, id->inside_uid, id->inside_uid) < 0)
                        return error_set(err, -errno, "become uid %u: %s", id->inside_uid, strerror(errno));
        } else if (id->switch_user && (setresgid(id->inside_gid, id->inside_gid, id->inside_gid) < 0 ||
                                       setresuid(id->inside_uid, id->inside_uid, id->inside_uid) < 0))
                return error_set(err, -errno, "become uid %u: %s", id->inside_uid, strerror(errno));
        if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0) /* cleared by the change of ids */
                return error_set(err, -errno, "parent-death signal: %s", strerror(errno));
        return 0;
}

/* The file system of the opened device @dev. */
static int mount_guard(struct setup *s, int dev, struct error *err) {
        const struct native_id *id = &s->plan->id;
        char fd_text[NUMBER_MAX], uid[NUMBER_MAX], gid[NUMBER_MAX];
        const struct mnt_option options[] = {
                { "source", "cofferdam" }, { "subtype", "cofferdam" },
                { "fd", fd_text },         { "rootmode", "40000" },
                { "user_id", uid },        { "group_id", gid },
                { "allow_other", NULL },   { "default_permissions", NULL },
        };

        (void) snprintf(fd_text, sizeof(fd_text), "%d", dev);
        (void) snprintf(uid, sizeof(uid), "%u", id->inside_uid);
        (void) snprintf(gid, sizeof(gid), "%u", id->inside_gid);
        s->fuse_fd = mnt_new("fuse", options, ARRAY_SIZE(options), MNT_NOSUID | MNT_NODEV);
        return s->fuse_fd < 0 ? error_set(err, s->fuse_fd, "mount of the guard's file system: %s",
                                          strerror(-s->fuse_fd))
                              : 0;
}

/*
 * stage_fuse - the guard's file system
 * Must: open /dev/fuse in this user namespace (the kernel refuses any other); hand the descriptor to fsd.
 * Must not: keep the /dev/fuse descriptor; look at the device when the host has none (rungs.no_guard).
 */
int stage_fuse(struct setup *s, struct error *err) {
        const bool guard = !s->plan->rungs.no_guard;
        AUTO_FD int dev = -1;
        const uint32_t what = PROTO_FUSE_DEVICE;
        int r;

        dev = s->fuse_dev >= 0 ? TAKE_FD(s->fuse_dev) : guard ? open("/dev/fuse", O_RDWR | O_CLOEXEC) : -1;
        if (guard && dev < 0)
                return error_set(err, -errno, "open /dev/fuse: %s", strerror(errno));
        r = become_user(s->plan, err);
        if (r == 0 && guard)
                r = mount_guard(s, dev, err);
        if (r < 0)
                return r;
        r = uppers_in_memory(s->plan, &s->uppers, s->fuse_sock);
        if (r < 0)
                return error_set(err, r, "file systems in memory for the changes of the run: %s",
                                 strerror(-r));
        r = guard ? fdpass_send(s->fuse_sock, &what, sizeof(what), &dev, 1) : 0;
        s->fuse_sock = fd_close(s->fuse_sock);
        return r < 0 ? error_set(err, r, "hand /dev/fuse to the file server: %s", strerror(-r)) : 0;
}

/* Directories of the new root that are there on every host. */
static const char *const skeleton[] = {
        "dev", "home", "proc", "run", "run/lock", "tmp", "var", "var/cache", "var/lib", "var/log",
};

static int make_skeleton(const struct setup *s) {
        for (size_t i = 0; i < ARRAY_SIZE(skeleton); i++)
                if (mkdirat(s->root_fd, skeleton[i], 0755) < 0)
                        return -errno;
        if (symlinkat("/run", s->root_fd, "var/run") < 0 ||
            symlinkat("/run/lock", s->root_fd, "var/lock") < 0)
                return -errno;
        return 0;
}

/* Directories of an image that are ours: whatever it has there, also a link to somewhere else. */
static const char *const own_dirs[] = { "dev", "run" };

/* Must: be the first to look at a name of the image. A link in the place of a directory is no directory. */
static int cover_image(struct setup *s) {
        static const struct mnt_option options[] = { { "mode", "0755" }, { "size", "4096k" } };

        for (size_t i = 0; i < ARRAY_SIZE(own_dirs); i++) {
                AUTO_FD int point = mnt_point(s->root_fd, own_dirs[i], false), mnt = -1;
                int r;

                if (point < 0)
                        return point;
                mnt = mnt_new("tmpfs", options, ARRAY_SIZE(options), MNT_NOSUID | MNT_NODEV);
                r = mnt < 0 ? mnt : mnt_attach(mnt, point);
                if (r < 0)
                        return r;
        }
        (void) fd_close(mnt_point(s->root_fd, "proc", false)); /* attach_own() says when it is not there */
        return 0;
}

/*
 * stage_root - an empty root of our own, stacked on the host's
 * Must: cut propagation in both directions first. Must not: touch a host directory.
 */
static int stage_root(struct setup *s, struct error *err) {
        static const struct mnt_option options[] = { { "mode", "0755" }, { "size", "4096k" } };
        static const struct sys_mount_attr private = { .propagation = MS_PRIVATE };
        int r;

        static_assert(ROOT_TMPFS_KIB == 4096, "options[] says the same");
        r = sys_mount_setattr(AT_FDCWD, "/", AT_RECURSIVE, &private); /* mount(2) may be refused alone */
        if (r < 0)
                return error_set(err, r, "make the mount tree private: %s", strerror(-r));
        s->host_fd = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (s->host_fd < 0)
                return error_set(err, -errno, "open /: %s", strerror(errno));
        /* the guard's mount has to be attached before parts of it can be cloned (until Linux 6.15); on the
         * host's /proc, which nothing below needs, it goes away together with the host's tree */
        s->proc_fd = openat(s->host_fd, "proc", O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (s->fuse_fd >= 0)
                r = s->proc_fd < 0 ? -errno : mnt_attach(s->fuse_fd, s->proc_fd);
        if (r < 0)
                return error_set(err, r, "attach the guard's file system: %s", strerror(-r));
        s->root_fd = s->plan->root ? root_mount(s->plan->root, s->layer_fd, s->proc_fd)
                                   : mnt_new("tmpfs", options, ARRAY_SIZE(options), MNT_NOSUID | MNT_NODEV);
        if (s->root_fd < 0) {
                if (s->plan->root)
                        s->explain = "overlay";
                return error_set(err, s->root_fd, "%s for the root: %s",
                                 s->plan->root ? "overlayfs" : "tmpfs", strerror(-s->root_fd));
        }
        r = sys_move_mount(s->root_fd, "", AT_FDCWD, "/", 0x4);
        if (r == 0)
                r = s->plan->root ? cover_image(s) : make_skeleton(s);
        return r < 0 ? error_set(err, r, "attach the root: %s", strerror(-r)) : 0;
}

/* Shows @name of the host's root, from root's idmapped clone when there is one. */
static int show(const struct setup *s, size_t index, const char *name) {
        AUTO_FD int mnt = -1;
        char link[256];
        ssize_t n;

        if (s->os_fd[index] >= 0)
                return attach_own(s, s->os_fd[index], name, false);
        n = readlinkat(s->host_fd, name, link, sizeof(link) - 1);
        if (n > 0) {
                link[n] = '\0';
                return symlinkat(link, s->root_fd, name) < 0 ? -errno : 0;
        }
        if (errno == ENOENT || errno == ENOTDIR)
                return 0; /* this host has none */
        mnt = mnt_clone(s->host_fd, name, true, MNT_RDONLY | MNT_NOSUID | MNT_NODEV, -1);
        return mnt < 0 ? mnt : attach_own(s, mnt, name, false);
}

/* The caller's home by /etc/passwd, which is not the HOME of the sandbox when the caller's HOME says another.
 */
static int hide_own_home(struct setup *s, struct error *err) {
        const char *const home = s->plan->ctx->passwd_home;
        struct stat st;
        int r;

        if (!home || !os_shows(home) || !strchr(home + 1, '/') || lstat(home, &st) < 0 ||
            st.st_uid != s->plan->ctx->uid || s->plan->ctx->uid == 0 || strcmp(home, s->plan->id.home) == 0)
                return 0;
        r = hide(s, home + 1);
        return r < 0 ? error_set(err, r, "cover the home '%s': %s", ESC(home), strerror(-r)) : 0;
}

/*
 * stage_os - the host's programs, read-only
 * Must: be read-only, without set-id and devices, including mounts below; show listed directories only.
 */
static int stage_os(struct setup *s, struct error *err) {
        const char *const *dirs;
        size_t n;

        if (s->plan->root) /* it has programs of its own */
                return 0;
        dirs = os_dirs(&n);
        assert(n <= OS_DIRS_MAX);
        for (size_t i = 0; i < n; i++) {
                const int r = show(s, i, dirs[i]);

                if (r < 0)
                        return error_set(err, r, "show the host's /%s: %s", dirs[i], strerror(-r));
        }
        return hide_own_home(s, err);
}

/* What the host has none of is left out, but for null. */
static int show_node(const struct setup *s, int dev_fd, const struct device *device) {
        AUTO_FD int mnt = -1;
        char path[32];
        struct stat st;

        /* read-only: the device can be written, its mode and owner not */
        mnt = mnt_clone(dev_fd, device->name, false, MNT_RDONLY | MNT_NOSUID | MNT_NOEXEC, -1);
        if (mnt < 0)
                return mnt == -ENOENT && strcmp(device->name, "null") != 0 ? 0 : mnt;
        if (fstat(mnt, &st) < 0)
                return -errno;
        if (!S_ISCHR(st.st_mode) || st.st_rdev != makedev(device->major, device->minor))
                return -ENXIO;
        (void) snprintf(path, sizeof(path), "dev/%s", device->name);
        return attach_own(s, mnt, path, true);
}

static int dev_links(const struct setup *s) {
        static const char *const links[][2] = {
                { "/proc/self/fd", "dev/fd" },       { "/proc/self/fd/0", "dev/stdin" },
                { "/proc/self/fd/1", "dev/stdout" }, { "/proc/self/fd/2", "dev/stderr" },
                { "pts/ptmx", "dev/ptmx" },
        };

        for (size_t i = 0; i < ARRAY_SIZE(links); i++)
                if (symlinkat(links[i][0], s->root_fd, links[i][1]) < 0)
                        return -errno;
        return 0;
}

static int dev_mounts(const struct setup *s) {
        static const struct mnt_option pts[] = { { "newinstance", NULL },
                                                 { "ptmxmode", "0666" },
                                                 { "mode", "0620" } };
        AUTO_FD int devpts = -1, mqueue = -1;
        struct sysinfo info;
        int r;

        devpts = mnt_new("devpts", pts, ARRAY_SIZE(pts), MNT_NOSUID | MNT_NOEXEC);
        r = devpts < 0 ? devpts : attach_own(s, devpts, "dev/pts", false);
        if (r < 0)
                return r;
        mqueue = mnt_new("mqueue", NULL, 0, MNT_NOSUID | MNT_NODEV | MNT_NOEXEC);
        if (mqueue >= 0) /* a kernel may lack it */
                r = attach_own(s, mqueue, "dev/mqueue", false);
        if (r < 0)
                return r;
        if (sysinfo(&info) < 0)
                return -errno;
        return attach_tmpfs(s, "dev/shm", (uint64_t) info.totalram * info.mem_unit / SHM_SHARE, 01777);
}

/*
 * stage_dev - a /dev with what programs need
 * Must: check each node's number. Must not: show a host terminal, disk or /dev/kvm; /dev/fuse without
 * nested_userns.
 */
static int stage_dev(struct setup *s, struct error *err) {
        AUTO_FD int dev = -1;
        const struct device *list;
        size_t n;
        int r = 0;

        dev = openat(s->host_fd, "dev", O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (dev < 0)
                return error_set(err, -errno, "open /dev: %s", strerror(errno));
        list = devices(&n);
        for (size_t i = 0; i < n; i++) {
                if (list[i].nested && !s->plan->nested_userns)
                        continue;
                r = show_node(s, dev, &list[i]);
                if (r < 0)
                        return error_set(err, r, "show /dev/%s: %s", list[i].name, strerror(-r));
        }
        r = dev_links(s);
        if (r == 0)
                r = dev_mounts(s);
        return r < 0 ? error_set(err, r, "make /dev: %s", strerror(-r)) : 0;
}

/* Files of /proc that belong to the host's root, whom uid 0 inside is: gone, or read-only. */
static const struct {
        const char *path;
        bool hide;
        bool for_all; /* also where the host's root is nobody inside: keys of the same user are on the host */
} proc_masks[] = {
        { "proc/acpi", true },          { "proc/asound", true },        { "proc/kcore", true },
        { "proc/keys", true, true },    { "proc/kmsg", true },          { "proc/kpagecount", true },
        { "proc/kpageflags", true },    { "proc/kpagecgroup", true },   { "proc/kallsyms", true },
        { "proc/latency_stats", true }, { "proc/sched_debug", true },   { "proc/scsi", true },
        { "proc/slabinfo", true },      { "proc/timer_list", true },    { "proc/timer_stats", true },
        { "proc/vmallocinfo", true },   { "proc/pagetypeinfo", true },  { "proc/key-users", true, true },
        { "proc/mtrr", true },          { "proc/config.gz", false },    { "proc/allocinfo", true },
        { "proc/bus", false },          { "proc/driver", false },       { "proc/dynamic_debug", true },
        { "proc/fs", false },           { "proc/irq", false },          { "proc/pressure", false },
        { "proc/sys", false },          { "proc/sysrq-trigger", true }, { "proc/tty", false },
};

/* Puts nothing over @path: an empty read-only directory, or the null device read-only. */
int hide(const struct setup *s, const char *path) {
        AUTO_FD int point = -1, mnt = -1;
        struct stat st;

        point = open_beneath(s->root_fd, path, O_PATH, 0);
        if (point < 0)
                return point == -ENOENT ? 0 : point;
        if (fstat(point, &st) < 0)
                return -errno;
        if (S_ISDIR(st.st_mode)) {
                static const struct mnt_option options[] = { { "mode", "0555" }, { "size", "4k" } };

                mnt = mnt_new("tmpfs", options, ARRAY_SIZE(options), MNT_RDONLY | MNT_NOSUID | MNT_NODEV);
        } else {
                mnt = mnt_clone(s->host_fd, "dev/null", false, MNT_RDONLY | MNT_NOSUID | MNT_NOEXEC, -1);
        }
        return mnt < 0 ? mnt : mnt_attach(mnt, point);
}

static int make_readonly(const struct setup *s, const char *path) {
        AUTO_FD int point = -1, mnt = -1;

        point = open_beneath(s->root_fd, path, O_PATH, 0);
        if (point < 0)
                return point == -ENOENT ? 0 : point;
        mnt = mnt_clone(point, "", false, MNT_RDONLY | MNT_NOSUID | MNT_NODEV | MNT_NOEXEC, -1);
        return mnt < 0 ? mnt : mnt_attach(mnt, point);
}

/* Of the namespace that this process is in, whichever /proc is asked; without one of its own it is the
 * host's. */
static int no_more_namespaces(const struct setup *s, struct error *err) {
        int r;

        if (s->plan->nested_userns || s->plan->rungs.no_userns)
                return 0;
        r = file_put(s->proc_fd, "sys/user/max_user_namespaces", "0");
        /* somebody else's /proc may be read-only; the filter refuses namespaces either way */
        return r == 0 || r == -ENOENT || s->plan->rungs.no_proc
                       ? 0
                       : error_set(err, r, "max_user_namespaces: %s", strerror(-r));
}

/*
 * stage_proc - /proc of the new pid namespace
 * Must: leave uid 0 no file that changes or shows the machine; leave no further user namespace possible
 * unless nested_userns says so (by this /proc: an outer container's may be read-only). Must not: bind the
 * host's /proc.
 */
static int stage_proc(struct setup *s, struct error *err) {
        AUTO_FD int mnt = -1;
        int r;

        if (s->plan->rungs.no_proc)
                return no_more_namespaces(s, err);
        mnt = mnt_new("proc", NULL, 0, MNT_NOSUID | MNT_NODEV | MNT_NOEXEC);
        r = mnt < 0 ? mnt : attach_own(s, mnt, "proc", false);
        if (r < 0)
                return error_set(err, r, "mount /proc: %s", strerror(-r));
        (void) fd_close(s->proc_fd);
        s->proc_fd = openat(s->root_fd, "proc", O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        r = no_more_namespaces(s, err);
        if (r < 0)
                return r;
        for (size_t i = 0; i < ARRAY_SIZE(proc_masks); i++) {
                /* the kernel refuses the rest to anyone else; a sandbox inside gets no /proc of its own where
                 * one of ours is covered */
                if (s->plan->id.inside_uid != 0 && s->plan->id.host_uid != 0 &&
                    (!proc_masks[i].for_all || s->plan->nested_userns))
                        continue;
                r = proc_masks[i].hide ? hide(s, proc_masks[i].path) : make_readonly(s, proc_masks[i].path);
                if (r < 0)
                        return error_set(err, r, "mask /%s: %s", proc_masks[i].path, strerror(-r));
        }
        return 0;
}

/* The kernel's overlayfs over the region @lower, with the run's directories. Return: mount, -errno. */
static int overlay_region(struct setup *s, size_t index, int lower) {
        const struct proto_event event = { .type = PROTO_OVERLAY, .id = (uint32_t) index };
        AUTO_FD int mnt = -1, context = -1;
        int r;

        if (fchdir(s->proc_fd) < 0)
                return -errno;
        mnt = mnt_overlay(lower, s->uppers.upper[index], s->uppers.work[index], "self/fd", &context);
        if (mnt < 0) {
                s->explain = "overlay";
                return mnt;
        }
        r = fdpass_send(s->sock, &event, sizeof(event), &context, 1);
        return r < 0 ? r : TAKE_FD(mnt);
}

/* The source itself, as the plan pinned it, where no guard serves it: read-only, or below an overlay. */
static int attach_source(struct setup *s, size_t index) {
        const struct native_region *region = &s->plan->regions[index];
        AUTO_FD int source = -1, mnt = -1;

        source = host_reopen(region->pin.fd, region->pin.real);
        if (source < 0)
                return source;
        mnt = mnt_clone(source, "", false, MNT_RDONLY | MNT_NOSUID | MNT_NODEV, -1);
        if (mnt >= 0 && region->overlay) {
                const int overlay = overlay_region(s, index, mnt);

                (void) fd_close(mnt);
                mnt = overlay;
        }
        return mnt < 0 ? mnt : attach(s, mnt, region->target + 1, region->is_file);
}

static int attach_region(struct setup *s, size_t index) {
        static const struct sys_mount_attr ro = { .attr_set = MNT_RDONLY };
        const struct native_region *region = &s->plan->regions[index];
        AUTO_FD int mnt = -1;
        char name[NUMBER_MAX];
        int r = 0;

        (void) snprintf(name, sizeof(name), "%zu", index);
        mnt = sys_open_tree(s->fuse_fd, name, OPEN_TREE_CLONE); /* waits for fsd's first answer */
        if (mnt < 0)
                return mnt;
        /* fsd refuses writes anyway; access(2) tells the truth so, and overlayfs has no way to its lower */
        if (region->kind == REGION_RO || region->overlay)
                r = sys_mount_setattr(mnt, "", AT_EMPTY_PATH, &ro);
        if (r == 0 && region->overlay) {
                const int overlay = overlay_region(s, index, mnt);

                (void) fd_close(mnt);
                mnt = overlay;
                r = overlay < 0 ? overlay : 0;
        }
        return r < 0 ? r : attach(s, mnt, region->target + 1, region->is_file);
}

/* The directory itself, as the plan pinned it: its path leads to the same one, or there is no run. */
static int attach_bypass(const struct setup *s, const struct native_bypass *bypass) {
        AUTO_FD int dir = -1, mnt = -1;

        dir = host_reopen(bypass->fd, bypass->source);
        if (dir < 0)
                return dir;
        mnt = mnt_clone(dir, "", false, MNT_NOSUID | MNT_NODEV, -1);
        return mnt < 0 ? mnt : attach(s, mnt, bypass->target + 1, false);
}

/*
 * stage_places - home, temporary directories and the guarded regions, parents first
 * Must not: make a mount point anywhere but in our own tmpfs.
 */
int stage_places(struct setup *s, struct error *err) {
        int r;

        for (size_t i = 0; i < s->plan->n_places; i++) {
                const struct native_place *p = &s->plan->places[i];

                if (p->region >= 0)
                        r = s->plan->rungs.no_guard ? attach_source(s, (size_t) p->region)
                                                    : attach_region(s, (size_t) p->region);
                else if (p->bypass >= 0)
                        r = attach_bypass(s, &s->plan->bypass[p->bypass]);
                else
                        r = attach_tmpfs(s, p->target + 1, s->plan->tmpfs[p->tmpfs].size_bytes,
                                         s->plan->tmpfs[p->tmpfs].mode);
                if (r < 0)
                        return error_set(err, r, "mount at '%s': %s%s", ESC(p->target), strerror(-r),
                                         r == -ENOENT || r == -EROFS
                                                 ? ": the directory has to exist there; nothing is made on "
                                                   "the host"
                                                 : "");
        }
        return 0;
}

static int write_new(int dir, const char *name, const struct native_file *file) {
        AUTO_FD int fd = -1;

        fd = openat(dir, name, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, file->mode);
        return fd < 0 ? -errno : write_all(fd, file->data, file->len);
}

/* Over an existing file of the host's: written to our own directory, then mounted on it. */
static int mount_over(const struct setup *s, const struct native_file *file, int point) {
        AUTO_FD int dir = -1, mnt = -1;
        const char *name = strrchr(file->target, '/') + 1;
        int r;

        dir = mnt_point(s->root_fd, own_files, false);
        if (dir < 0)
                return dir;
        r = write_new(dir, name, file);
        if (r < 0)
                return r;
        mnt = mnt_clone(dir, name, false, MNT_RDONLY | MNT_NOSUID | MNT_NODEV, -1);
        return mnt < 0 ? mnt : mnt_attach(mnt, point);
}

int setup_put_file(const struct setup *s, const struct native_file *file) {
        AUTO_FD int dir = -1, point = -1;
        char parent[512];
        const char *name = strrchr(file->target, '/') + 1;
        const size_t n = (size_t) (name - file->target);
        int r;

        if (n > sizeof(parent))
                return -ENAMETOOLONG;
        memcpy(parent, file->target + 1, n - 1);
        parent[n > 1 ? n - 2 : 0] = '\0';
        point = open_beneath(s->root_fd, file->target + 1, O_PATH, 0);
        if (point == -ELOOP && s->plan->root) /* a link of the image's: a file in its place */
                (void) unlinkat(s->root_fd, file->target + 1, 0);
        if (point >= 0)
                return mount_over(s, file, point);
        dir = mnt_point(s->root_fd, parent, false);
        r = dir < 0 ? dir : write_new(dir, name, file);
        return r == -ENOENT || r == -EROFS ? 0 : r; /* the host has no such place, or no such file in it */
}

/** struct teller - who tells the supervisor what was copied */
struct teller {
        int sock;
        uint32_t index;
};

static int tell_file(const struct seed_file *file, void *arg) {
        const struct teller *t = arg;
        struct proto_event event = { .type = PROTO_SEED_FILE, .id = t->index, .bytes = file->bytes };

        (void) snprintf(event.text, sizeof(event.text), "%s%.*s", file->sha256,
                        (int) (sizeof(event.text) - sizeof(file->sha256)), file->path);
        return fdpass_send(t->sock, &event, sizeof(event), NULL, 0);
}

static int put_seed(const struct setup *s, uint32_t index, struct error *err) {
        const struct native_seed *seed = &s->plan->seeds[index];
        struct teller teller = { .sock = s->sock, .index = index };
        struct proto_event event = { .type = PROTO_SEEDED, .id = index };
        struct seed_result done;
        int r;

        r = seed_copy(s->root_fd, s->proc_fd, seed, tell_file, &teller, &done, err);
        if (r < 0 || !seed->is_dir)
                return r;
        event.code = (int32_t) done.files;
        event.bytes = done.bytes;
        r = fdpass_send(s->sock, &event, sizeof(event), NULL, 0);
        return r < 0 ? error_set(err, r, "tell of a seed: %s", strerror(-r)) : 0;
}

/*
 * stage_files - the files of ours, then the seeds
 * Must: write to our own tmpfs only; the target of a seed is in the home (checked by the plan).
 */
int stage_files(struct setup *s, struct error *err) {
        for (size_t i = 0; i < s->plan->n_files; i++) {
                const int r = setup_put_file(s, &s->plan->files[i]);

                if (r < 0)
                        return error_set(err, r, "make '%s': %s", ESC(s->plan->files[i].target),
                                         strerror(-r));
        }
        for (size_t i = 0; i < s->plan->n_seeds; i++) {
                const int r = put_seed(s, (uint32_t) i, err);

                if (r < 0)
                        return r;
        }
        return 0;
}

/* What only root may read or use, for root callers on file systems that cannot be idmapped (overlay). */
static const char *const root_files[] = {
        "etc/shadow",
        "etc/shadow-",
        "etc/gshadow",
        "etc/gshadow-",
        "etc/sudoers",
        "etc/sudoers.d",
        "etc/security/opasswd",
        "etc/ssl/private",
        "etc/ssh",
        "etc/pki/tls/private",
        "etc/krb5.keytab",
        "etc/docker",
        "etc/kubernetes",
        "etc/rancher",
        "etc/wireguard",
        "etc/openvpn",
        "etc/NetworkManager/system-connections",
        "etc/ppp",
        "etc/polkit-1",
        "etc/letsencrypt",
        "etc/credstore",
        "etc/credstore.encrypted",
        "etc/mysql/debian.cnf",
        "etc/apt/auth.conf",
        "etc/apt/auth.conf.d",
        "etc/machine-info",
};

/*
 * stage_masks - root's own files
 * Must: be done before a command runs. Must not: fail because a file is not there.
 */
static int stage_masks(struct setup *s, struct error *err) {
        for (size_t i = 0; s->mask && i < ARRAY_SIZE(root_files); i++) {
                const int r = hide(s, root_files[i]);

                if (r < 0)
                        return error_set(err, r, "mask /%s: %s", root_files[i], strerror(-r));
        }
        return 0;
}

/* Attached where the host's tree is that stage_pivot() takes away: what is not attached cannot be cloned
 * until Linux 6.15. */
static int attach_aside(const struct setup *s, int mnt) {
        AUTO_FD int aside = -1;

        if (s->plan->oci) /* in a container, where inject.c takes it away */
                aside = mnt_point(s->root_fd, &OCI_ASIDE[1], false);
        else
                aside = open_beneath(s->host_fd, "dev", O_PATH | O_DIRECTORY, 0);
        return aside < 0 ? aside : mnt_attach(mnt, aside);
}

/* A link in a tmpfs of ours, which the plan has seen to. */
static int link_secret(const struct setup *s, const struct file_secret *secret) {
        AUTO_FD int dir = -1;
        char parent[512], target[sizeof(SECRET_DIR) + 80];
        const char *name = strrchr(secret->path, '/') + 1;

        if ((size_t) (name - secret->path) > sizeof(parent))
                return -ENAMETOOLONG;
        (void) snprintf(parent, sizeof(parent), "%.*s", (int) (name - secret->path) - 2, secret->path + 1);
        (void) snprintf(target, sizeof(target), SECRET_DIR "/%s", secret->name);
        dir = mnt_point(s->root_fd, parent, false);
        return dir < 0 ? dir : symlinkat(target, dir, name) < 0 ? -errno : 0;
}

static int put_secret(const struct setup *s, int dir, const struct file_secret *secret) {
        AUTO_FD int fd = openat(dir, secret->name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0400);
        off_t from = 0;
        size_t left = secret->len;

        if (fd < 0)
                return -errno;
        while (left > 0) {
                const ssize_t n = sendfile(fd, secret->fd, &from, left);

                if (n <= 0)
                        return n < 0 ? -errno : -EIO;
                left -= (size_t) n;
        }
        return secret->path ? link_secret(s, secret) : 0;
}

/* Return: the directory, to write in, or -errno. */
static int make_secrets(const struct setup *s) {
        static const struct mnt_option options[] = { { "mode", "0755" },
                                                     { "size", "256m" }, /* of what is used only */
                                                     { "nr_inodes", "1024" } };
        AUTO_FD int mnt = -1, shown = -1, dir = -1;
        int r;

        mnt = mnt_new("tmpfs", options, ARRAY_SIZE(options), MNT_NOSUID | MNT_NODEV | MNT_NOEXEC);
        r = mnt < 0 ? mnt : attach_aside(s, mnt);
        if (r < 0)
                return r;
        dir = openat(mnt, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        shown = mnt_clone(mnt, "", false, MNT_RDONLY | MNT_NOSUID | MNT_NODEV | MNT_NOEXEC, -1);
        if (dir < 0 || shown < 0)
                return shown < 0 ? shown : -errno;
        r = attach(s, shown, &SECRET_DIR[1], false);
        for (size_t i = 0; r == 0 && i < s->n_secrets; i++)
                r = put_secret(s, dir, &s->secrets[i]);
        return r < 0 ? r : TAKE_FD(dir);
}

/*
 * stage_secrets - credentials that come inside as files
 * Must: be in memory; be read-only for the work; hand the one way to write to the supervisor; come after what
 * needs the host's /dev.
 */
int stage_secrets(struct setup *s, struct error *err) {
        const struct proto_event event = { .type = PROTO_SECRETS };
        AUTO_FD int dir = -1;
        int r;

        if (s->n_secrets == 0)
                return 0;
        dir = make_secrets(s);
        r = dir < 0 ? dir : fdpass_send(s->sock, &event, sizeof(event), &dir, 1);
        return r < 0 ? error_set(err, r, "make " SECRET_DIR ": %s", strerror(-r)) : 0;
}

/*
 * The root of an initramfs that was never left can be covered, not changed: our root lies on it already, and
 * is made the only way on by chroot(2). Whoever could take it off again would need a capability in this
 * namespace.
 */
static int cover_root(void) {
        return chroot(".") < 0 ? -errno : 0;
}

static int detach_root(void) {
        const int r = sys_pivot_root(".", ".");

        return r < 0 ? r : umount2(".", MNT_DETACH) < 0 ? -errno : 0;
}

/* The root is read-only, and those of an image's directories that are ours. */
static int seal_root(const struct setup *s) {
        const struct sys_mount_attr ro = { .attr_set = MNT_RDONLY | MNT_NOSUID | MNT_NODEV };
        int r = sys_mount_setattr(s->root_fd, "", AT_EMPTY_PATH, &ro);

        for (size_t i = 0; r == 0 && s->plan->root && i < ARRAY_SIZE(own_dirs); i++)
                r = sys_mount_setattr(s->root_fd, own_dirs[i], AT_SYMLINK_NOFOLLOW, &ro);
        return r;
}

/*
 * stage_pivot - the new root becomes the only one
 * Must: make it read-only, detach the host's tree whole where the kernel can. Must not: leave a descriptor
 * that leads back.
 */
static int stage_pivot(struct setup *s, struct error *err) {
        int r;

        r = seal_root(s);
        if (r < 0)
                return error_set(err, r, "make the root read-only: %s", strerror(-r));
        if (fchdir(s->root_fd) < 0)
                return error_set(err, -errno, "enter the root: %s", strerror(errno));
        r = detach_root();
        if (r == -EINVAL && mnt_is_first(s->host_fd, s->proc_fd, "self/mountinfo"))
                r = cover_root();
        if (r == 0 && chdir("/") < 0)
                r = -errno;
        if (r < 0)
                return error_set(err, r, "pivot_root: %s", strerror(-r));
        s->host_fd = fd_close(s->host_fd);
        s->proc_fd = fd_close(s->proc_fd);
        s->root_fd = fd_close(s->root_fd);
        s->fuse_fd = fd_close(s->fuse_fd);
        return 0;
}

/*
 * stage_net - loopback, the sockets of the egress proxy, and the rules of nftables that lead to them
 * Must: make them before a command could take their place. Must not: do anything to the host's network, which
 * is there with network open.
 */
static int stage_net(struct setup *s, struct error *err) {
        struct ifreq req = { .ifr_name = "lo", .ifr_flags = IFF_UP };
        AUTO_FD int sock = -1;
        int r = 0;

        if (!net_own(s->plan))
                return 0;
        sock = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
        if (sock < 0 || ioctl(sock, SIOCSIFFLAGS, &req) < 0)
                return error_set(err, -errno, "bring loopback up: %s", strerror(errno));
        if (s->plan->uplink)
                r = uplink_join(s->net_sock, err);
        else if (s->net_sock >= 0)
                r = net_listen(s->plan, s->net_sock, err);
        if (r < 0)
                return s->plan->uplink ? r : error_wrap(err, r, "sockets of the egress proxy");
        r = s->relay_sock < 0 ? 0 : net_relay(s->relay_sock);
        return r < 0 ? error_set(err, r, "socket of the relay: %s", strerror(-r)) : 0;
}

/* What landlock keeps from the work, and what stands in for it where it cannot. */
static int confine_landlock(struct setup *s, struct error *err) {
        const struct native_rungs *rungs = &s->plan->rungs;
        int r;

        if (rungs->no_netns && !landlock_can_scope())
                return error_set(err, -ENOTSUP, "landlock: it has to keep the host's abstract sockets away");
        /* a sandbox inside makes mounts, which landlock refuses; scopes: native_describe() says where they
         * are missing */
        r = landlock_work(!s->plan->nested_userns, !net_own(s->plan));
        if (r < 0 && r != -ENOTSUP)
                return error_set(err, r, "landlock: %s", strerror(-r));
        if (rungs->no_proc) /* there is no /proc/self/exe for the work to reach */
                return 0;
        if (r < 0 || s->plan->nested_userns)
                r = sealed_copy(&s->sealed_fd);
        return r < 0 ? error_set(err, r, "a copy of cofferdam in memory: %s", strerror(-r)) : 0;
}

/*
 * stage_confine - no way back
 * Must: drop every capability, forbid new privileges, filter system calls; be the last stage: pid 1 itself
 * lives under what its commands inherit. Must not: keep a descriptor beyond the socket and
 * what is executed next.
 */
static int stage_confine(struct setup *s, struct error *err) {
        int r;

        (void) syscall(SYS_keyctl, KEYCTL_JOIN_SESSION, NULL); /* not in every kernel; refused later anyway */
        if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
                return error_set(err, -errno, "no_new_privs: %s", strerror(errno));
        r = confine_landlock(s, err);
        if (r < 0)
                return r;
        r = limits_inherit(s->limits, err);
        if (r < 0)
                return r;
        r = confine_caps();
        if (r < 0)
                return error_set(err, r, "drop capabilities: %s", strerror(-r));
        confine_memory("cofferdam-init");
        confine_fds((const int[]){ s->sock, s->sealed_fd }, s->sealed_fd < 0 ? 1 : 2);
        if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
                return error_set(err, -errno, "dumpable: %s", strerror(errno));
        r = seccomp_filter_load(&s->filter);
        return r < 0 ? error_set(err, r, "load the system call filter: %s", strerror(-r)) : 0;
}

static const struct {
        const char *name;
        const char *explain; /* what probe_explain() calls it */
        int (*run)(struct setup *s, struct error *err);
} stages[] = {
        { "user", "userns", stage_user },
        { "uppers", "state", stage_uppers },
        { "fuse", "fuse", stage_fuse },
        { "root", "mount", stage_root },
        { "os", "mount", stage_os },
        { "dev", "mount", stage_dev },
        { "proc", "proc", stage_proc },
        { "places", "mount", stage_places },
        { "sockets", "mount", stage_sockets },
        { "files", "mount", stage_files },
        { "masks", "mount", stage_masks },
        { "secrets", "mount", stage_secrets },
        { "pivot", "mount", stage_pivot },
        { "net", "net", stage_net },
        { "confine", "seccomp", stage_confine },
};

_Noreturn void setup_give_up(const struct setup *s, const char *stage, const struct error *err) {
        struct proto_event event = { .type = PROTO_FAILED, .code = err->code };

        (void) snprintf(event.stage, sizeof(event.stage), "%s", stage);
        (void) snprintf(event.text, sizeof(event.text), "%.*s", PROTO_TEXT_MAX - 1, err->msg);
        if (fdpass_send(s->sock, &event, sizeof(event), NULL, 0) < 0)
                _exit(2); /* nobody is left to hear it */
        _exit(1);
}

void signals_reset(void) {
        const struct sigaction action = { .sa_handler = SIG_DFL };

        for (int sig = 1; sig < NSIG; sig++)
                (void) sigaction(sig, &action, NULL); /* EINVAL for SIGKILL, SIGSTOP and glibc's own */
}

_Noreturn void sandbox_main(struct setup *s) {
        const struct proto_event ready = { .type = PROTO_READY };
        struct error err = { 0 };
        sigset_t all;

        (void) umask(0);
        signals_reset();
        (void) sigfillset(&all);
        (void) sigprocmask(SIG_SETMASK, &all,
                           NULL); /* RLIMIT_FSIZE: EFBIG tells more than dying of SIGXFSZ */
        (void) prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
        for (size_t i = 0; i < ARRAY_SIZE(stages); i++) {
                if (stages[i].run(s, &err) < 0)
                        setup_give_up(s, s->explain ? s->explain : stages[i].explain, &err);
                trace_step(&s->trace, stages[i].name);
        }
        if (s->sealed_fd >= 0) {
                const int r = sealed_exec(s->sealed_fd, s->sock, &s->plan->profile);

                (void) error_set(&err, r, "execute a copy of cofferdam in memory: %s", strerror(-r));
                setup_give_up(s, "seccomp", &err);
        }
        if (fdpass_send(s->sock, &ready, sizeof(ready), NULL, 0) < 0)
                _exit(1);
        init_serve(s->sock, &s->plan->profile, NULL);
}
