/*
 * DOC: theory of operation
 *
 * The supervisor reads messages of fixed size from inside, a client's requests and the state it wrote itself;
 * the child that lands reads what the work made. Neither executes anything, makes a socket or a namespace, or
 * maps code after the sandbox is ready.
 *
 * A filter is inherited: the supervisor's list holds what its children need, and a child takes more away.
 * Landlock would refuse the supervisor's last resort of stopping a sandbox, umount2(2), so it has none. The
 * child that lands has: it changes what it lands on, what it lands from, and the record of the run.
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

#define NAMESPACES                                                                                 \
        (CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS | \
         CLONE_NEWCGROUP)

/* files, memory, time and the end of a process: what both have */
static const struct callfilter_call common[] = {
        /* open files */
        CALL(read),
        CALL(write),
        CALL(readv),
        CALL(writev),
        CALL(pread64),
        CALL(pwrite64),
        CALL(lseek),
        CALL(ftruncate),
        CALL(fallocate),
        CALL(fsync),
        CALL(fdatasync),
        CALL(syncfs),
        CALL(copy_file_range),
        CALL(sendfile),
        CALL(close),
        CALL(dup3),
        CALL(fcntl),
        CALL(flock),
        CALL(ppoll), /* whether the reader of the events takes more */
        CALL_IF(ioctl, 1, UINT32_MAX, FICLONE),
        CALL_IF(ioctl, 1, UINT32_MAX, TIOCGWINSZ),
        CALL_IF(ioctl, 1, UINT32_MAX, TIOCSWINSZ),
        CALL_IF(ioctl, 1, UINT32_MAX, TCGETS), /* isatty(3) */
        /* names */
        CALL(openat),
        CALL(openat2),
        CALL(newfstatat),
        CALL(fstat),
        CALL(statx),
        CALL(fstatfs),
        CALL(statfs),
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
        CALL(name_to_handle_at),
        CALL(getcwd),
        /* attributes */
        CALL(fchmod),
        CALL(fchmodat),
        CALL(fchmodat2),
        CALL(fchown),
        CALL(fchownat),
        CALL(utimensat),
        CALL(setxattr),
        CALL(lsetxattr),
        CALL(getxattr),
        CALL(lgetxattr),
        CALL(listxattr),
        CALL(llistxattr),
        CALL(removexattr),
        CALL(lremovexattr),
        CALL(fsetxattr),
        CALL(fgetxattr),
        CALL(flistxattr),
        CALL(fremovexattr),
        CALL(umask),
        /* memory, never for code */
        CALL_IF(mmap, 2, PROT_EXEC, 0),
        CALL_IF(mprotect, 2, PROT_EXEC, 0),
        CALL(munmap),
        CALL(mremap),
        CALL(madvise),
        CALL(brk),
        /* itself */
        CALL(futex),
        CALL(set_robust_list),
        CALL(rseq),
        CALL(sched_getaffinity),
        CALL(sched_yield),
        CALL(getpid),
        CALL(getppid),
        CALL(gettid),
        CALL(getuid),
        CALL(geteuid),
        CALL(getgid),
        CALL(getegid),
        CALL(getgroups),
        CALL(rt_sigaction),
        CALL(rt_sigprocmask),
        CALL(rt_sigreturn),
        CALL(restart_syscall),
        CALL_IF(prlimit64, 0, UINT32_MAX, 0),
        CALL(exit),
        CALL(exit_group),
        CALL(clock_gettime),
        CALL(gettimeofday),
        CALL(clock_nanosleep),
        CALL(getrandom),
        CALL(sysinfo),
        CALL(uname),
#ifdef SYS_open /* aarch64 has the *at forms only */
        CALL(poll),
        CALL(open),
        CALL(stat),
        CALL(lstat),
        CALL(access),
        CALL(mkdir),
        CALL(rmdir),
        CALL(unlink),
        CALL(rename),
        CALL(readlink),
        CALL(chmod),
        CALL(dup2),
        CALL(time),
#endif
};

static const struct callfilter_call supervisor_only[] = {
        /* clients, the sandbox's first process, the file server */
        CALL(sendmsg),
        CALL(recvmsg),
        CALL(sendto),
        CALL(recvfrom),
        CALL(accept4),
        CALL(getsockopt),
        CALL(shutdown),
        CALL(memfd_create), /* the words of a command on their way in */
        CALL(pipe2),
        /* children of its own, and the end of those it has */
        CALL_IF(clone, 0, NAMESPACES, 0),
        { SYS_clone3, CALL_ENOSYS, 0, 0, 0 },
        CALL(wait4),
        CALL(waitid),
        CALL(kill),
        CALL(pidfd_open),
        CALL(pidfd_send_signal),
        CALL_IF(prctl, 0, UINT32_MAX, PR_SET_NO_NEW_PRIVS),
        CALL_IF(prctl, 0, UINT32_MAX, PR_SET_DUMPABLE),
        CALL_IF(prctl, 0, UINT32_MAX, PR_SET_NAME),
        CALL_IF(prctl, 0, UINT32_MAX, PR_CAP_AMBIENT),
        CALL_IF(prctl, 0, UINT32_MAX, PR_CAPBSET_DROP),
        CALL(capget),
        CALL(capset), /* only takes away */
        CALL(seccomp),
        CALL(landlock_create_ruleset),
        CALL(landlock_add_rule),
        CALL(landlock_restrict_self),
        /* the child that removes what dead runs left (runs_reap_aside()) */
        CALL(close_range),
        CALL_IF(setpriority, 0, UINT32_MAX, 0 /* PRIO_PROCESS */),
        /* looks at the paths of pinned sources as the user of the run */
        CALL(setfsuid),
        CALL(setfsgid),
        /* the last resort of stopping: the file system's requests end from inside the sandbox's namespaces */
        CALL_IF(setns, 1, UINT32_MAX, CLONE_NEWUSER),
        CALL_IF(setns, 1, UINT32_MAX, CLONE_NEWNS),
        CALL_IF(umount2, 1, UINT32_MAX, MNT_FORCE),
        CALL(fsconfig), /* an overlay forgets what the host has changed */
#ifdef SYS_fork
        CALL(fork),
#endif
};

/* of root, for files of the user of the run and for processes that took his id; nobody else has any */
static const uint64_t supervisor_caps =
        CAP_BIT(CAP_CHOWN) | CAP_BIT(CAP_DAC_OVERRIDE) | CAP_BIT(CAP_DAC_READ_SEARCH) | CAP_BIT(CAP_FOWNER) |
        CAP_BIT(CAP_FSETID) | CAP_BIT(CAP_KILL) | CAP_BIT(CAP_SETUID) | CAP_BIT(CAP_SETGID);
static const uint64_t lander_caps = CAP_BIT(CAP_CHOWN) | CAP_BIT(CAP_DAC_OVERRIDE) |
                                    CAP_BIT(CAP_DAC_READ_SEARCH) | CAP_BIT(CAP_FOWNER) | CAP_BIT(CAP_FSETID);

int confine_supervisor(struct error *err) {
        const struct confinement confinement = {
                .lists = { { common, ARRAY_SIZE(common) }, { supervisor_only, ARRAY_SIZE(supervisor_only) } },
                .otherwise = CALL_ELSE_EPERM,
        };
        int r;

        r = caps_keep(supervisor_caps);
        if (r < 0)
                return error_set(err, r, "drop the supervisor's capabilities: %s", strerror(-r));
        r = confine_process(&confinement, err);
        return r < 0 ? error_wrap(err, r, "the supervisor") : 0;
}

int confine_lander(const struct landlock_place *places, size_t n, struct error *err) {
        const struct confinement confinement = {
                .lists = { { common, ARRAY_SIZE(common) } },
                .otherwise = CALL_ELSE_KILL,
                .places = places,
                .n_places = n,
        };
        int r;

        r = caps_keep(lander_caps);
        if (r < 0)
                return error_set(err, r, "drop capabilities: %s", strerror(-r));
        return confine_process(&confinement, err);
}
