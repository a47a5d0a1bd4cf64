/*
 * probe-mount.c - what a run mounts, made and thrown away in a mount namespace of a child
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include "drivers/native/mnt.h"
#include "drivers/native/probe-kit.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/clock.h"
#include "runtime/base/file.h"
#include "runtime/base/sys.h"

/* where a child of ours mounts over, in its own mount namespace: as a run does, and the only directory that
 * is sure to be there */
static const char mount_point[] = "/";

enum { TMPFS_FILES = 32 }; /* more pages than its size, less than its inodes */

/** struct fs_option - one fsconfig(2) of a new file system; @value NULL: a flag */
struct fs_option {
        const char *key, *value;
};

/* A detached mount of @type. Return: descriptor, or -errno with the step in @ret. */
static int mount_new(const char *type, const struct fs_option *options, size_t n, struct probe_result *ret) {
        AUTO_FD int fs = sys_fsopen(type);
        int r;

        if (fs < 0) {
                result_failed(ret, fs, "fsopen(\"%s\")", type);
                return fs;
        }
        for (size_t i = 0; i < n; i++) {
                r = sys_fsconfig(fs, options[i].value ? FSCONFIG_SET_STRING : FSCONFIG_SET_FLAG,
                                 options[i].key, options[i].value, 0);
                if (r < 0) {
                        result_failed(ret, r, "fsconfig(%s, %s=%s)", type, options[i].key,
                                      options[i].value ? options[i].value : "");
                        return r;
                }
        }
        r = sys_fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0);
        if (r < 0) {
                result_failed(ret, r, "fsconfig(%s, CMD_CREATE)", type);
                return r;
        }
        r = sys_fsmount(fs, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV);
        if (r < 0)
                result_failed(ret, r, "fsmount(%s)", type);
        return r;
}

/* A tmpfs at mount_point, private to this namespace. Return: descriptor of its root, or -errno. */
static int tmpfs_attach(struct probe_result *ret) {
        static const struct fs_option options[] = { { "size", "64k" },
                                                    { "nr_inodes", "64" },
                                                    { "mode", "0755" } };
        const struct sys_mount_attr private = { .propagation = MS_PRIVATE };
        AUTO_FD int fd = -1;
        int r = sys_mount_setattr(AT_FDCWD, "/", AT_RECURSIVE, &private);

        if (r < 0) {
                result_failed(ret, r, "mount_setattr(\"/\", MS_PRIVATE)");
                return r;
        }
        fd = mount_new("tmpfs", options, ARRAY_SIZE(options), ret);
        if (fd < 0)
                return fd;
        r = sys_move_mount(fd, "", AT_FDCWD, mount_point, MOVE_MOUNT_F_EMPTY_PATH);
        if (r < 0) {
                result_failed(ret, r, "move_mount(tmpfs, \"%s\")", mount_point);
                return r;
        }
        return TAKE_FD(fd);
}

/* Takes a page for each new file until there are no more. Return: errno of the end, 0: there is none. */
static int fill_tmpfs(int root) {
        for (int i = 0; i < TMPFS_FILES; i++) {
                AUTO_FD int file = -1;
                char name[16];

                (void) snprintf(name, sizeof(name), "%d", i);
                file = openat(root, name, O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0600);
                if (file < 0 || fallocate(file, 0, 0, 1) < 0)
                        return errno;
        }
        return 0;
}

/* Small files, so that RLIMIT_FSIZE has no say: it has a row of its own. */
void try_tmpfs(const struct probe_host *host, struct probe_result *ret) {
        AUTO_FD int root = tmpfs_attach(ret);
        int end;

        (void) host;
        if (root < 0)
                return;
        end = fill_tmpfs(root);
        if (end == EFBIG)
                result_note(ret, "mounts; its size was not tried: RLIMIT_FSIZE is 0");
        else if (end == 0)
                result_fact(ret, -EDOM, "a tmpfs does not keep to its size");
        else if (end != ENOSPC)
                result_failed(ret, -end, "create a file on tmpfs");
        else
                result_note(ret, "mounts, keeps to its size");
}

void try_mount_api(const struct probe_host *host, struct probe_result *ret) {
        const struct sys_mount_attr readonly = {
                .attr_set = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV,
        };
        AUTO_FD int root = tmpfs_attach(ret);
        AUTO_FD int tree = -1;
        int r;

        (void) host;
        if (root < 0)
                return;
        tree = sys_open_tree(AT_FDCWD, "/usr", OPEN_TREE_CLONE | AT_RECURSIVE);
        if (tree < 0) {
                result_failed(ret, tree, "open_tree(\"/usr\", CLONE)");
                return;
        }
        r = sys_mount_setattr(tree, "", AT_EMPTY_PATH | AT_RECURSIVE, &readonly);
        if (r < 0) {
                result_failed(ret, r, "mount_setattr(RDONLY)");
                return;
        }
        r = mkdirat(root, "usr", 0755) < 0 ? -errno
                                           : sys_move_mount(tree, "", root, "usr", MOVE_MOUNT_F_EMPTY_PATH);
        if (r < 0)
                result_failed(ret, r, "move_mount(\"/usr\")");
        else
                result_note(ret, "fsopen, open_tree, mount_setattr, move_mount work");
}

void try_pivot_root(const struct probe_host *host, struct probe_result *ret) {
        AUTO_FD int old = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
        AUTO_FD int root = tmpfs_attach(ret);
        int r;

        (void) host;
        if (root < 0)
                return;
        if (fchdir(root) < 0) {
                result_failed(ret, -errno, "fchdir(tmpfs)");
                return;
        }
        r = sys_pivot_root(".", ".");
        if (r == -EINVAL && mnt_is_first(old, AT_FDCWD, "/proc/self/mountinfo") && chroot(".") == 0)
                result_note(ret, "not possible in an initramfs: the root is covered instead");
        else if (r < 0)
                result_failed(ret, r, "pivot_root");
        else if (umount2(".", MNT_DETACH) < 0)
                result_failed(ret, -errno, "umount2(old root)");
        else
                result_note(ret, "pivot_root works, the old root goes away");
}

/* The child is pid 1 of a new pid namespace. A host that masks parts of /proc makes the kernel say EPERM. */
void try_proc(const struct probe_host *host, struct probe_result *ret) {
        AUTO_FD int proc = mount_new("proc", NULL, 0, ret);
        struct stat st;

        (void) host;
        if (proc < 0)
                return;
        if (fstatat(proc, "1", &st, 0) < 0)
                result_failed(ret, -errno, "stat /proc/1 of the new pid namespace");
        else
                result_note(ret, "mounts in a new pid namespace");
}

/* Copies up, writes, whites out, makes opaque: what a run's first minute does. */
static void use_overlay(int lower, int upper, int work, struct probe_result *ret) {
        AUTO_FD int overlay = mnt_overlay(lower, upper, work, "/proc/self/fd", NULL);
        AUTO_FD int file = -1;
        struct stat st;

        if (overlay < 0) {
                result_failed(ret, overlay, "mount overlay with userxattr");
                return;
        }
        file = openat(overlay, "d/file", O_WRONLY | O_APPEND | O_CLOEXEC);
        if (file < 0 || write_all(file, "x", 1) < 0 || unlinkat(overlay, "d/file", 0) < 0 ||
            unlinkat(overlay, "d", AT_REMOVEDIR) < 0 || mkdirat(overlay, "d", 0700) < 0)
                result_failed(ret, -errno, "write and remove in the overlay");
        else if (fstatat(lower, "d/file", &st, 0) < 0 || st.st_size != 0 ||
                 fstatat(overlay, "d/file", &st, 0) == 0)
                result_fact(ret, -EDOM, "an overlay does not keep its layers apart");
        else
                result_note(ret,
                            "mounts with userxattr where runs keep changes, copies up, removes, redirect %s",
                            renameat(overlay, "moved", overlay, "there") == 0 ? "yes" : "no");
}

static void try_layers(int lower, int dir, struct probe_result *ret) {
        AUTO_FD int upper = -1, work = -1;

        if (mkdirat(dir, "u", 0700) < 0 || mkdirat(dir, "w", 0700) < 0) {
                result_failed(ret, -errno, "make the layers");
                return;
        }
        upper = open_beneath(dir, "u", O_PATH | O_DIRECTORY, 0);
        work = open_beneath(dir, "w", O_PATH | O_DIRECTORY, 0);
        use_overlay(lower, upper, work, ret);
}

/* The lower is in memory, the layers are where those of a run would be: not every file system can take them.
 */
void try_overlay(const struct probe_host *host, struct probe_result *ret) {
        AUTO_FD int lower = tmpfs_attach(ret);
        AUTO_FD int state = -1, dir = -1, file = -1;
        char name[PROBE_NAME_MAX];

        if (lower < 0)
                return;
        state = probe_place_open(host->ctx->state_dir ? host->ctx->state_dir : "/");
        dir = state < 0 ? state : probe_place_make(state, name);
        if (dir < 0) {
                result_failed(ret, dir, "make a directory where runs keep changes");
                return;
        }
        if (mkdirat(lower, "d", 0755) == 0 && mkdirat(lower, "moved", 0755) == 0)
                file = openat(lower, "d/file", O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
        if (file < 0)
                result_failed(ret, -errno, "make the layers");
        else
                try_layers(lower, dir, ret);
        probe_place_remove(state, name);
}

void try_fuse_device(const struct probe_host *host, struct probe_result *ret) {
        struct stat st;
        AUTO_FD int fd = -1;

        (void) host;
        if (stat("/dev/fuse", &st) < 0) {
                result_failed(ret, -errno, "stat /dev/fuse");
                return;
        }
        if (!S_ISCHR(st.st_mode) || st.st_rdev != makedev(10, 229)) {
                result_fact(ret, -ENODEV, "/dev/fuse is not the device 10:229");
                return;
        }
        fd = open("/dev/fuse", O_RDWR | O_CLOEXEC);
        if (fd < 0)
                result_failed(ret, -errno, "open /dev/fuse (mode %04o)", st.st_mode & 07777);
        else
                result_note(ret, "/dev/fuse opens in a user namespace (mode %04o)", st.st_mode & 07777);
}

/* Nobody answers the kernel's INIT, so nothing here may look into the mount: it would wait for ever. */
void try_fuse_mount(const struct probe_host *host, struct probe_result *ret) {
        AUTO_FD int device = open("/dev/fuse", O_RDWR | O_CLOEXEC);
        char fd[16], uid[16], gid[16];
        const struct fs_option options[] = {
                { "source", "probe" },
                { "fd", fd },
                { "rootmode", "40000" },
                { "user_id", uid },
                { "group_id", gid },
                { "allow_other", NULL },
                { "default_permissions", NULL },
        };
        AUTO_FD int mount_fd = -1;

        if (device < 0) {
                result_failed(ret, -errno, "open /dev/fuse");
                return;
        }
        (void) snprintf(fd, sizeof(fd), "%d", device);
        (void) snprintf(uid, sizeof(uid), "%u", host->ctx->uid);
        (void) snprintf(gid, sizeof(gid), "%u", host->ctx->gid);
        mount_fd = mount_new("fuse", options, ARRAY_SIZE(options), ret);
        if (mount_fd >= 0)
                result_note(ret, "mounts in a user namespace, with allow_other");
}

void try_openat2(const struct probe_host *host, struct probe_result *ret) {
        AUTO_FD int root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
        AUTO_FD int inside = -1, outside = -1;

        (void) host;
        inside = open_beneath(root, "./.", O_PATH | O_DIRECTORY, 0);
        if (inside < 0) {
                result_failed(ret, inside, "openat2(RESOLVE_BENEATH)");
                return;
        }
        outside = open_beneath(root, "..", O_PATH | O_DIRECTORY, 0);
        if (outside != -EXDEV)
                result_fact(ret, -EDOM, "openat2(RESOLVE_BENEATH) leaves the directory");
        else
                result_note(ret, "resolves beneath, refuses to leave");
}

/* "/proc/PID/ns/user" of a child that maps everything but 0 */
static int userns_without_root(pid_t pid, struct probe_result *ret) {
        static const char *const maps[] = { "uid_map", "gid_map" };
        char path[48];
        int r;

        for (size_t i = 0; i < ARRAY_SIZE(maps); i++) {
                (void) snprintf(path, sizeof(path), "/proc/%d/%s", pid, maps[i]);
                r = file_put(AT_FDCWD, path, "1 1 65535");
                if (r < 0) {
                        result_failed(ret, r, "write a %s without 0", maps[i]);
                        return r;
                }
        }
        (void) snprintf(path, sizeof(path), "/proc/%d/ns/user", pid);
        r = open(path, O_RDONLY | O_CLOEXEC);
        if (r < 0)
                result_failed(ret, -errno, "open /proc/PID/ns/user");
        return r;
}

static void idmap_root(int userns, struct probe_result *ret) {
        struct sys_mount_attr attr = { .attr_set = MOUNT_ATTR_IDMAP, .userns_fd = (uint64_t) userns };
        AUTO_FD int tree = sys_open_tree(AT_FDCWD, "/", OPEN_TREE_CLONE);
        struct stat st;
        int r;

        if (tree < 0) {
                result_failed(ret, tree, "open_tree(\"/\", CLONE)");
                return;
        }
        r = sys_mount_setattr(tree, "", AT_EMPTY_PATH, &attr);
        if (r < 0)
                result_failed(ret, r, "mount_setattr(\"/\", IDMAP)");
        else if (fstatat(tree, ".", &st, 0) < 0 || st.st_uid == 0)
                result_fact(ret, -EDOM, "an idmapped \"/\" still shows uid 0");
        else
                result_note(ret, "\"/\" can be shown with uid 0 mapped away");
}

void try_idmap(const struct probe_host *host, struct probe_result *ret) {
        AUTO_FD int userns = -1;
        pid_t pid;

        if (host->ctx->uid != 0) {
                result_note(ret, "not needed: only a run started by root uses them");
                return;
        }
        pid = unshare(CLONE_NEWNS) < 0 ? -errno : probe_idle_child();
        if (pid < 0) {
                result_failed(ret, pid, "unshare(CLONE_NEWNS), clone(CLONE_NEWUSER)");
                return;
        }
        userns = userns_without_root(pid, ret);
        if (userns >= 0)
                idmap_root(userns, ret);
        (void) kill(pid, SIGKILL);
        (void) waitpid(pid, NULL, 0);
}
