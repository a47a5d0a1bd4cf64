/*
 * DOC: theory of operation
 *
 * The supervisor reads messages of fixed size from inside, a client's requests and the state it wrote itself;
 * the child that lands reads what the work made. Neither executes anything, makes a socket or a namespace, or
 * maps code after the sandbox is ready.
 *
 * A filter is inherited: the supervisor's list holds what its children need, and a child takes more away.
 * Landlock would refuse the last resort of stopping a sandbox, umount2(2), so it has none.
 */
#include "runtime/run/confine.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <linux/fs.h>
#include <sched.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "runtime/base/callfilter.h"
#include "runtime/base/caps.h"
#include "runtime/base/cleanup.h"

#ifndef SYS_fchmodat2
#define SYS_fchmodat2 452
#endif
#define ALLOW(name) \
        { SYS_##name, CALL_ALLOW, 0, 0, 0 }
#define ALLOW_IF(name, arg, mask, value) \
        { SYS_##name, CALL_ALLOW_IF, (arg), (uint32_t) (mask), (uint32_t) (value) }
#define NAMESPACES                                                                                 \
        (CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS | \
         CLONE_NEWCGROUP)

/* files, memory, time and the end of a process: what both have */
static const struct callfilter_call common[] = {
        /* open files */
        ALLOW(read),
        ALLOW(write),
        ALLOW(readv),
        ALLOW(writev),
        ALLOW(pread64),
        ALLOW(pwrite64),
        ALLOW(lseek),
        ALLOW(ftruncate),
        ALLOW(fallocate),
        ALLOW(fsync),
        ALLOW(fdatasync),
        ALLOW(syncfs),
        ALLOW(copy_file_range),
        ALLOW(sendfile),
        ALLOW(close),
        ALLOW(dup3),
        ALLOW(fcntl),
        ALLOW(flock),
        ALLOW(ppoll), /* whether the reader of the events takes more */
        ALLOW_IF(ioctl, 1, UINT32_MAX, FICLONE),
        ALLOW_IF(ioctl, 1, UINT32_MAX, TIOCGWINSZ),
        ALLOW_IF(ioctl, 1, UINT32_MAX, TIOCSWINSZ),
        ALLOW_IF(ioctl, 1, UINT32_MAX, TCGETS), /* isatty(3) */
        /* names */
        ALLOW(openat),
        ALLOW(openat2),
        ALLOW(newfstatat),
        ALLOW(fstat),
        ALLOW(statx),
        ALLOW(fstatfs),
        ALLOW(statfs),
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
        ALLOW(name_to_handle_at),
        ALLOW(getcwd),
        /* attributes */
        ALLOW(fchmod),
        ALLOW(fchmodat),
        ALLOW(fchmodat2),
        ALLOW(fchown),
        ALLOW(fchownat),
        ALLOW(utimensat),
        ALLOW(setxattr),
        ALLOW(lsetxattr),
        ALLOW(getxattr),
        ALLOW(lgetxattr),
        ALLOW(listxattr),
        ALLOW(llistxattr),
        ALLOW(removexattr),
        ALLOW(lremovexattr),
        ALLOW(fsetxattr),
        ALLOW(fgetxattr),
        ALLOW(flistxattr),
        ALLOW(fremovexattr),
        ALLOW(umask),
        /* memory, never for code */
        ALLOW_IF(mmap, 2, PROT_EXEC, 0),
        ALLOW_IF(mprotect, 2, PROT_EXEC, 0),
        ALLOW(munmap),
        ALLOW(mremap),
        ALLOW(madvise),
        ALLOW(brk),
        /* itself */
        ALLOW(futex),
        ALLOW(set_robust_list),
        ALLOW(rseq),
        ALLOW(sched_getaffinity),
        ALLOW(sched_yield),
        ALLOW(getpid),
        ALLOW(getppid),
        ALLOW(gettid),
        ALLOW(getuid),
        ALLOW(geteuid),
        ALLOW(getgid),
        ALLOW(getegid),
        ALLOW(getgroups),
        ALLOW(rt_sigaction),
        ALLOW(rt_sigprocmask),
        ALLOW(rt_sigreturn),
        ALLOW(restart_syscall),
        ALLOW_IF(prlimit64, 0, UINT32_MAX, 0),
        ALLOW(exit),
        ALLOW(exit_group),
        ALLOW(clock_gettime),
        ALLOW(gettimeofday),
        ALLOW(clock_nanosleep),
        ALLOW(getrandom),
        ALLOW(sysinfo),
        ALLOW(uname),
#ifdef SYS_open /* aarch64 has the *at forms only */
        ALLOW(poll),
        ALLOW(open),
        ALLOW(stat),
        ALLOW(lstat),
        ALLOW(access),
        ALLOW(mkdir),
        ALLOW(rmdir),
        ALLOW(unlink),
        ALLOW(rename),
        ALLOW(readlink),
        ALLOW(chmod),
        ALLOW(dup2),
        ALLOW(time),
#endif
};

static const struct callfilter_call supervisor_only[] = {
        /* clients, the sandbox's first process, the file server */
        ALLOW(sendmsg),
        ALLOW(recvmsg),
        ALLOW(sendto),
        ALLOW(recvfrom),
        ALLOW(accept4),
        ALLOW(getsockopt),
        ALLOW(shutdown),
        ALLOW(memfd_create), /* the words of a command on their way in */
        ALLOW(pipe2),
        /* children of its own, and the end of those it has */
        ALLOW_IF(clone, 0, NAMESPACES, 0),
        { SYS_clone3, CALL_ENOSYS, 0, 0, 0 },
        ALLOW(wait4),
        ALLOW(waitid),
        ALLOW(kill),
        ALLOW(pidfd_open),
        ALLOW(pidfd_send_signal),
        ALLOW_IF(prctl, 0, UINT32_MAX, PR_SET_NO_NEW_PRIVS),
        ALLOW_IF(prctl, 0, UINT32_MAX, PR_SET_DUMPABLE),
        ALLOW_IF(prctl, 0, UINT32_MAX, PR_SET_NAME),
        ALLOW_IF(prctl, 0, UINT32_MAX, PR_CAP_AMBIENT),
        ALLOW_IF(prctl, 0, UINT32_MAX, PR_CAPBSET_DROP),
        ALLOW(capget),
        ALLOW(capset), /* only takes away */
        ALLOW(seccomp),
        ALLOW(landlock_create_ruleset),
        ALLOW(landlock_add_rule),
        ALLOW(landlock_restrict_self),
        /* the child that removes what dead runs left (runs_reap_aside()) */
        ALLOW(close_range),
        ALLOW_IF(setpriority, 0, UINT32_MAX, 0 /* PRIO_PROCESS */),
        /* looks at the paths of pinned sources as the user of the run */
        ALLOW(setfsuid),
        ALLOW(setfsgid),
        /* the last resort of stopping: the file system's requests end from inside the sandbox's namespaces */
        ALLOW_IF(setns, 1, UINT32_MAX, CLONE_NEWUSER),
        ALLOW_IF(setns, 1, UINT32_MAX, CLONE_NEWNS),
        ALLOW_IF(umount2, 1, UINT32_MAX, MNT_FORCE),
        ALLOW(fsconfig), /* an overlay forgets what the host has changed */
#ifdef SYS_fork
        ALLOW(fork),
#endif
};

/* of root, for files of the user of the run and for processes that took his id; nobody else has any */
static const uint64_t supervisor_caps =
        CAP_BIT(CAP_CHOWN) | CAP_BIT(CAP_DAC_OVERRIDE) | CAP_BIT(CAP_DAC_READ_SEARCH) | CAP_BIT(CAP_FOWNER) |
        CAP_BIT(CAP_FSETID) | CAP_BIT(CAP_KILL) | CAP_BIT(CAP_SETUID) | CAP_BIT(CAP_SETGID);
static const uint64_t lander_caps = CAP_BIT(CAP_CHOWN) | CAP_BIT(CAP_DAC_OVERRIDE) |
                                    CAP_BIT(CAP_DAC_READ_SEARCH) | CAP_BIT(CAP_FOWNER) | CAP_BIT(CAP_FSETID);

int confine_supervisor(struct error *err) {
        struct callfilter_call calls[ARRAY_SIZE(common) + ARRAY_SIZE(supervisor_only)];
        int r;

        r = caps_keep(supervisor_caps);
        if (r < 0)
                return error_set(err, r, "drop the supervisor's capabilities: %s", strerror(-r));
        memcpy(calls, common, sizeof(common));
        memcpy(calls + ARRAY_SIZE(common), supervisor_only, sizeof(supervisor_only));
        r = callfilter_load(calls, ARRAY_SIZE(calls), CALL_ELSE_EPERM);
        return r < 0 ? error_set(err, r, "the supervisor's system call filter: %s", strerror(-r)) : 0;
}

int confine_lander(struct error *err) {
        int r;

        r = caps_keep(lander_caps);
        if (r < 0)
                return error_set(err, r, "drop capabilities: %s", strerror(-r));
        r = callfilter_load(common, ARRAY_SIZE(common), CALL_ELSE_KILL);
        return r < 0 ? error_set(err, r, "system call filter: %s", strerror(-r)) : 0;
}
