/*
 * probe-feature.c - what makes a sandbox better and no run needs: each is tried, none is guessed from a
 * version
 */
#include <errno.h>
#include <fcntl.h>
#define FUSE_USE_VERSION 314
#include <fuse_lowlevel.h>
#include <linux/filter.h>
#include <linux/fuse.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <sched.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "drivers/native/mnt.h"
#include "drivers/native/probe-kit.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/file.h"

/* linux/fuse.h of 6.1 ends before them */
#define INIT_EXT_         (1ULL << 30)
#define INIT_PASSTHROUGH_ (1ULL << 37)
#define INIT_OVER_URING_  (1ULL << 41)
enum { NEST_MAX = 40, REPLY_MS = 5000, REQUEST_MAX = 8192 };

void try_time_namespace(const struct probe_host *host, struct probe_result *ret) {
        (void) host;
        if (unshare(CLONE_NEWTIME) < 0)
                result_failed(ret, -errno, "unshare(CLONE_NEWTIME)");
        else
                result_note(ret, "made and left");
}

/* The child goes down as far as it is let: what a sandbox in a sandbox in a sandbox would find. */
void try_nesting(const struct probe_host *host, struct probe_result *ret) {
        char uids[48], gids[48];
        unsigned int levels = 1; /* this process is in one */

        (void) snprintf(uids, sizeof(uids), "%u %u 1", host->ctx->uid, host->ctx->uid);
        (void) snprintf(gids, sizeof(gids), "%u %u 1", host->ctx->gid, host->ctx->gid);
        while (levels < NEST_MAX && unshare(CLONE_NEWUSER) == 0) {
                if (file_put(AT_FDCWD, "/proc/self/setgroups", "deny") < 0 ||
                    file_put(AT_FDCWD, "/proc/self/uid_map", uids) < 0 ||
                    file_put(AT_FDCWD, "/proc/self/gid_map", gids) < 0)
                        break;
                levels++;
        }
        if (levels < 2)
                result_failed(ret, -errno, "unshare(CLONE_NEWUSER) in a user namespace");
        else
                result_note(ret, "%u user namespaces inside each other", levels);
}

static const char *yes_no(bool yes) {
        return yes ? "yes" : "no";
}

/* The kernel's first request tells what it can do; nobody answers it, and the mount goes away. */
void try_fuse_features(const struct probe_host *host, struct probe_result *ret) {
        AUTO_FD int device = open("/dev/fuse", O_RDWR | O_CLOEXEC | O_NONBLOCK), mount_fd = -1;
        char fd[16], uid[16], gid[16], request[REQUEST_MAX];
        const struct mnt_option options[] = {
                { "source", "probe" }, { "fd", fd },        { "rootmode", "40000" },
                { "user_id", uid },    { "group_id", gid },
        };
        struct fuse_init_in init = { 0 };
        struct pollfd pfd = { .fd = device, .events = POLLIN };
        uint32_t more = 0;
        uint64_t flags;
        ssize_t n;

        (void) snprintf(fd, sizeof(fd), "%d", device);
        (void) snprintf(uid, sizeof(uid), "%u", host->ctx->uid);
        (void) snprintf(gid, sizeof(gid), "%u", host->ctx->gid);
        mount_fd =
                device < 0 ? -errno : mnt_new("fuse", options, ARRAY_SIZE(options), MNT_NOSUID | MNT_NODEV);
        if (mount_fd < 0) {
                result_failed(ret, mount_fd, "mount fuse");
                return;
        }
        n = poll(&pfd, 1, REPLY_MS) == 1 ? read(device, request, sizeof(request)) : -1;
        if (n < (ssize_t) (sizeof(struct fuse_in_header) + offsetof(struct fuse_init_in, flags) +
                           sizeof(init.flags))) {
                result_fact(ret, -EPROTO, "no first request of the kernel");
                return;
        }
        memcpy(&init, request + sizeof(struct fuse_in_header),
               offsetof(struct fuse_init_in, flags) + sizeof(init.flags));
        if ((size_t) n >= sizeof(struct fuse_in_header) + 20)
                memcpy(&more, request + sizeof(struct fuse_in_header) + 16, sizeof(more));
        flags = init.flags | (init.flags & INIT_EXT_ ? (uint64_t) more << 32 : 0);
        /* not fuse_pkgversion(): libfuse's file of it calls dlopen(3), see fs/server.c */
        result_note(ret, "protocol %u.%u, passthrough %s, io_uring %s, libfuse %d.%d", init.major, init.minor,
                    yes_no(flags & INIT_PASSTHROUGH_), yes_no(flags & INIT_OVER_URING_), FUSE_MAJOR_VERSION,
                    FUSE_MINOR_VERSION);
}

/* A listener for one call that is never made: an outer sandbox may have the only one there can be. */
void try_seccomp_notify(const struct probe_host *host, struct probe_result *ret) {
        struct sock_filter insns[] = { BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW) };
        const struct sock_fprog prog = { .len = ARRAY_SIZE(insns), .filter = insns };
        AUTO_FD int listener = -1;

        (void) host;
        if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0) {
                result_failed(ret, -errno, "prctl(PR_SET_NO_NEW_PRIVS)");
                return;
        }
        listener =
                (int) syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER, &prog);
        if (listener < 0)
                result_failed(ret, -errno, "seccomp(NEW_LISTENER)");
        else
                result_note(ret, "a filter can ask a process outside");
}
