/*
 * What the file server may still do once it has its descriptors. A request that talks it into anything else -
 * a bug in our code or in libfuse - ends the process: the run ends with GUARD_LOST, which is seen, where
 * EPERM would let the work try again. The list can be exact since the executable is static: the C library
 * that makes the calls is the one it was tested with.
 *
 * Landlock and the list complement each other: the list knows which calls, not which files; landlock knows
 * which files, not attributes. Opens below pinned directories by openat2(2) pass landlock, which looks at the
 * object that was reached; a directory that the host has moved out of its region since is out of reach.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <linux/fuse.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/fanotify.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <wchar.h>

#include "fs/guard.h"
#include "runtime/base/callfilter.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/landlock.h"

#ifndef SYS_fchmodat2
#define SYS_fchmodat2 452
#endif
#define ALLOW(name) \
        { SYS_##name, CALL_ALLOW, 0, 0, 0 }
#define ALLOW_IF(name, arg, mask, value) \
        { SYS_##name, CALL_ALLOW_IF, (arg), (uint32_t) (mask), (uint32_t) (value) }

// clang-format off: one call, one entry
static const struct callfilter_call calls[] = {
        /* open files, the kernel's channel among them */
        ALLOW(read),
        ALLOW(write),
        ALLOW(readv),
        ALLOW(writev),
        ALLOW(pread64),
        ALLOW(pwrite64),
        ALLOW(preadv2),
        ALLOW(pwritev2),
        ALLOW(lseek),
        ALLOW(ftruncate),
        ALLOW(fallocate),
        ALLOW(fsync),
        ALLOW(fdatasync),
        ALLOW(copy_file_range),
        ALLOW(close),
        ALLOW(dup3),
        ALLOW(fcntl),
        ALLOW(flock),
        ALLOW_IF(ioctl, 1, UINT32_MAX, FUSE_DEV_IOC_CLONE),
        ALLOW_IF(ioctl, 1, UINT32_MAX, FICLONE),
        /* names */
        ALLOW(openat),
        ALLOW(openat2),
        ALLOW(newfstatat),
        ALLOW(fstat),
        ALLOW(statx),
        ALLOW(fstatfs),
        { 457 /* statmount */, CALL_ALLOW, 0, 0, 0 },
        ALLOW(getdents64),
        ALLOW(mkdirat),
        ALLOW(mknodat),
        ALLOW(unlinkat),
        ALLOW(renameat),
        ALLOW(renameat2),
        ALLOW(linkat),
        ALLOW(symlinkat),
        ALLOW(readlinkat),
        ALLOW(faccessat),
        ALLOW(faccessat2),
        /* attributes */
        ALLOW(fchmod),
        ALLOW(fchmodat),
        ALLOW(fchmodat2),
        ALLOW(utimensat),
        ALLOW(setxattr),
        ALLOW(getxattr),
        ALLOW(listxattr),
        ALLOW(removexattr),
        ALLOW(fsetxattr),
        ALLOW(fgetxattr),
        ALLOW(flistxattr),
        ALLOW(fremovexattr),
        /* memory, never for code */
        ALLOW_IF(mmap, 2, PROT_EXEC, 0),
        ALLOW_IF(mprotect, 2, PROT_EXEC, 0),
        ALLOW(munmap),
        ALLOW(mremap),
        ALLOW(madvise),
        ALLOW(brk),
        /* threads, never processes */
        ALLOW_IF(clone, 0, CLONE_THREAD, CLONE_THREAD),
        { SYS_clone3, CALL_ENOSYS, 0, 0, 0 },
        ALLOW(set_robust_list),
        ALLOW(rseq),
        ALLOW(futex),
        ALLOW(sched_yield),
        ALLOW(sched_getaffinity),
        ALLOW(gettid),
        ALLOW(getpid),
        ALLOW(exit),
        ALLOW(exit_group),
        /* its own signals, limits and ids */
        ALLOW(rt_sigaction),
        ALLOW(rt_sigprocmask),
        ALLOW(rt_sigreturn),
        ALLOW(rt_sigtimedwait),
        ALLOW(restart_syscall),
        ALLOW_IF(prlimit64, 0, UINT32_MAX, 0),
        ALLOW(umask),
        ALLOW(getgroups),
        ALLOW(getuid),
        /* the supervisor's sockets */
        ALLOW(sendto),
        ALLOW(recvmsg),
        ALLOW(clock_gettime),
        ALLOW(getrandom),
        ALLOW(sysinfo), /* qsort(3) asks how much memory there is, from 1 KiB on */
#ifdef SYS_chmod        /* aarch64 has the *at forms only */
        ALLOW(chmod),
        ALLOW(readlink),
#endif
};
// clang-format on

static int confine_files(const struct guard_config *config) {
        AUTO_FREE struct landlock_place *places = calloc(2 * config->n_regions + 1, sizeof(*places));
        AUTO_FD int fuse = open("/dev/fuse", O_PATH | O_CLOEXEC);
        size_t n = 0;
        int r;

        if (!places)
                return -ENOMEM;
        for (size_t i = 0; i < config->n_regions; i++) {
                const struct region *region = &config->regions[i];

                places[n++] = (struct landlock_place){ region->root_fd, region->kind == REGION_DIRECT
                                                                                ? LANDLOCK_CHANGE
                                                                                : LANDLOCK_READ };
                places[n++] = (struct landlock_place){ region->upper_fd, LANDLOCK_CHANGE };
        }
        places[n++] = (struct landlock_place){ fuse, LANDLOCK_DEVICE };
        r = landlock_confine(places, n, false);
        return r == -ENOTSUP ? 0
                             : r; /* an older kernel: the list below and the descriptors are what there is */
}

int guard_confine(const struct guard_config *config, struct error *err) {
        const struct rlimit none = { 0 };
        const struct callfilter_call own_threads = ALLOW_IF(tgkill, 0, UINT32_MAX, getpid());
        const struct callfilter_call watching[] = {
                ALLOW_IF(fanotify_mark, 1, UINT32_MAX, FAN_MARK_ADD | FAN_MARK_ONLYDIR),
                ALLOW(eventfd2),
                ALLOW(ppoll),
        };
        struct callfilter_call all[ARRAY_SIZE(calls) + 1 + ARRAY_SIZE(watching)];
        size_t n = ARRAY_SIZE(calls);
        int r;

        /* an oriented stream: perror(3), which libfuse calls when its device is gone, opens no other */
        (void) fwide(stderr, -1);
        if (setrlimit(RLIMIT_CORE, &none) < 0)
                return error_set(err, -errno, "RLIMIT_CORE: %s", strerror(errno));
        r = confine_files(config);
        if (r < 0)
                return error_set(err, r, "landlock: %s", strerror(-r));
        memcpy(all, calls, sizeof(calls));
        all[n++] = own_threads;
        for (size_t i = 0; config->exclusive_fd >= 0 && i < ARRAY_SIZE(watching); i++)
                all[n++] = watching[i];
        r = callfilter_load(all, n, CALL_ELSE_KILL);
        return r < 0 ? error_set(err, r, "seccomp: %s", strerror(-r)) : 0;
}
