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
#include <sys/syscall.h>
#include <unistd.h>
#include <wchar.h>

#include "fs/guard.h"
#include "runtime/base/callfilter.h"
#include "runtime/base/cleanup.h"

// clang-format off: one call, one entry
static const struct callfilter_call calls[] = {
        /* open files, the kernel's channel among them */
        CALL(read),
        CALL(write),
        CALL(readv),
        CALL(writev),
        CALL(pread64),
        CALL(pwrite64),
        CALL(preadv2),
        CALL(pwritev2),
        CALL(lseek),
        CALL(ftruncate),
        CALL(fallocate),
        CALL(fsync),
        CALL(fdatasync),
        CALL(copy_file_range),
        CALL(close),
        CALL(dup3),
        CALL(fcntl),
        CALL(flock),
        CALL_IF(ioctl, 1, UINT32_MAX, FUSE_DEV_IOC_CLONE),
        CALL_IF(ioctl, 1, UINT32_MAX, FICLONE),
        /* names */
        CALL(openat),
        CALL(openat2),
        CALL(newfstatat),
        CALL(fstat),
        CALL(statx),
        CALL(fstatfs),
        CALL(statmount),
        CALL(getdents64),
        CALL(mkdirat),
        CALL(mknodat),
        CALL(unlinkat),
        CALL(renameat),
        CALL(renameat2),
        CALL(linkat),
        CALL(symlinkat),
        CALL(readlinkat),
        CALL(faccessat),
        CALL(faccessat2),
        /* attributes */
        CALL(fchmod),
        CALL(fchmodat),
        CALL(fchmodat2),
        CALL(utimensat),
        CALL(setxattr),
        CALL(getxattr),
        CALL(listxattr),
        CALL(removexattr),
        CALL(fsetxattr),
        CALL(fgetxattr),
        CALL(flistxattr),
        CALL(fremovexattr),
        /* memory, never for code */
        CALL_IF(mmap, 2, PROT_EXEC, 0),
        CALL_IF(mprotect, 2, PROT_EXEC, 0),
        CALL(munmap),
        CALL(mremap),
        CALL(madvise),
        CALL(brk),
        /* threads, never processes */
        CALL_IF(clone, 0, CLONE_THREAD, CLONE_THREAD),
        { SYS_clone3, CALL_ENOSYS, 0, 0, 0 },
        CALL(set_robust_list),
        CALL(rseq),
        CALL(futex),
        CALL(sched_yield),
        CALL(sched_getaffinity),
        CALL(gettid),
        CALL(getpid),
        CALL(exit),
        CALL(exit_group),
        /* its own signals, limits and ids */
        CALL(rt_sigaction),
        CALL(rt_sigprocmask),
        CALL(rt_sigreturn),
        CALL(rt_sigtimedwait),
        CALL(restart_syscall),
        CALL_IF(prlimit64, 0, UINT32_MAX, 0),
        CALL(umask),
        CALL(getgroups),
        CALL(getuid),
        /* the supervisor's sockets */
        CALL(sendto),
        CALL(recvmsg),
        CALL(clock_gettime),
        CALL(getrandom),
        CALL(sysinfo), /* qsort(3) asks how much memory there is, from 1 KiB on */
#ifdef SYS_chmod       /* aarch64 has the *at forms only */
        CALL(chmod),
        CALL(readlink),
#endif
};
// clang-format on

static size_t list_places(const struct guard_config *config, int fuse, struct landlock_place *places) {
        size_t n = 0;

        for (size_t i = 0; i < config->n_regions; i++) {
                const struct region *region = &config->regions[i];

                places[n++] = (struct landlock_place){ region->root_fd, region->kind == REGION_DIRECT
                                                                                ? LANDLOCK_CHANGE
                                                                                : LANDLOCK_READ };
                places[n++] = (struct landlock_place){ region->upper_fd, LANDLOCK_CHANGE };
        }
        places[n++] = (struct landlock_place){ fuse, LANDLOCK_DEVICE };
        return n;
}

int guard_confine(const struct guard_config *config, struct error *err) {
        AUTO_FREE struct landlock_place *places = calloc(2 * config->n_regions + 1, sizeof(*places));
        AUTO_FD int fuse = open("/dev/fuse", O_PATH | O_CLOEXEC);
        const struct callfilter_call own_threads = CALL_IF(tgkill, 0, UINT32_MAX, getpid());
        const struct callfilter_call watching[] = {
                CALL_IF(fanotify_mark, 1, UINT32_MAX, FAN_MARK_ADD | FAN_MARK_ONLYDIR),
                CALL(eventfd2),
                CALL(ppoll),
        };
        struct confinement confinement = {
                .lists = { { calls, ARRAY_SIZE(calls) }, { &own_threads, 1 } },
                .otherwise = CALL_ELSE_KILL,
                .places = places,
        };

        if (!places)
                return error_set(err, -ENOMEM, "out of memory");
        /* an oriented stream: perror(3), which libfuse calls when its device is gone, opens no other */
        (void) fwide(stderr, -1);
        confinement.n_places = list_places(config, fuse, places);
        if (config->exclusive_fd >= 0)
                confinement.lists[2] = (struct callfilter_list){ watching, ARRAY_SIZE(watching) };
        return confine_process(&confinement, err);
}
