/*
 * What the egress process may still do once it has its sockets: TCP and UDP to wherever the policy lets it,
 * the few files that tell where the name servers are, and nothing else. It reads what the work and the
 * servers send; a bug in that reading must not become a file, a process or a socket of the host. A call that
 * is not in the list ends the process, and with it the run (EGRESS_LOST).
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/sockios.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "netns/egress.h"
#include "runtime/base/callfilter.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/landlock.h"

#define ALLOW(name) \
        { SYS_##name, CALL_ALLOW, 0, 0, 0 }
#define ALLOW_IF(name, arg, mask, value) \
        { SYS_##name, CALL_ALLOW_IF, (arg), (uint32_t) (mask), (uint32_t) (value) }

// clang-format off: one call, one entry
static const struct callfilter_call calls[] = {
        /* sockets of the network, and the control socket; a Unix socket would lead to services of the host */
        ALLOW_IF(socket, 0, UINT32_MAX, AF_INET),
        ALLOW_IF(socket, 0, UINT32_MAX, AF_INET6),
        { SYS_socket, CALL_ENOSYS, 0, 0, 0 },
        ALLOW(connect),
        ALLOW(accept4),
        ALLOW(shutdown),
        ALLOW(getsockopt),
        ALLOW(setsockopt),
        ALLOW(getsockname),
        ALLOW(getpeername),
        ALLOW(sendto),
        ALLOW(recvfrom),
        ALLOW(sendmsg),
        ALLOW(recvmsg),
        ALLOW(read),
        ALLOW(write),
        ALLOW(readv),
        ALLOW(writev),
        ALLOW(splice),
        ALLOW(pipe2),
        ALLOW(close),
        ALLOW(fcntl),
        ALLOW_IF(ioctl, 1, UINT32_MAX, SIOCGIFINDEX), /* a name server such as fe80::1%eth0 */
        ALLOW(epoll_create1),
        ALLOW(epoll_ctl),
        ALLOW(epoll_pwait),
#ifdef SYS_epoll_wait /* aarch64 has the other only */
        ALLOW(epoll_wait),
#endif
        /* the files of the resolver, and the bytes of a policy */
        ALLOW(openat),
        ALLOW(newfstatat),
        ALLOW(fstat),
        ALLOW(statx),
        ALLOW(lseek),
        ALLOW(uname),
        /* memory, never for code */
        ALLOW_IF(mmap, 2, PROT_EXEC, 0),
        ALLOW_IF(mprotect, 2, PROT_EXEC, 0),
        ALLOW(munmap),
        ALLOW(mremap),
        ALLOW(madvise),
        ALLOW(brk),
        /* itself */
        ALLOW(rt_sigaction),
        ALLOW(rt_sigprocmask),
        ALLOW(rt_sigreturn),
        ALLOW(restart_syscall),
        ALLOW(futex),
        ALLOW(getpid),
        ALLOW_IF(prlimit64, 0, UINT32_MAX, 0),
        ALLOW(clock_gettime),
        ALLOW(gettimeofday),
        ALLOW(getrandom),
        ALLOW(sysinfo), /* qsort(3), from 1 KiB on */
        ALLOW(exit_group),
};
// clang-format on

enum { PLACE_RESOLV, PLACE_HOSTS, PLACE_RANDOM, PLACES, DESCRIPTORS_MAX = 65536 };

/* A resolv.conf that replaces this one comes from the supervisor: a rule is for a file, not for its name. */
static int confine_files(const char *resolv_conf) {
        const char *const conf = resolv_conf ? resolv_conf : "/etc/resolv.conf";
        struct landlock_place places[PLACES] = {
                [PLACE_RESOLV] = { open(conf, O_PATH | O_CLOEXEC), LANDLOCK_READ },
                [PLACE_HOSTS] = { open("/etc/hosts", O_PATH | O_CLOEXEC), LANDLOCK_READ },
                [PLACE_RANDOM] = { open("/dev/urandom", O_PATH | O_CLOEXEC), LANDLOCK_READ },
        };
        int r;

        r = landlock_confine(places, PLACES, true);
        for (size_t i = 0; i < PLACES; i++)
                (void) fd_close(places[i].fd);
        return r == -ENOTSUP ? 0
                             : r; /* an older kernel: the list below and the descriptors are what there is */
}

/* A tunnel takes two descriptors: as many as the host lets us have, up to what memory is spent on. */
static int confine_limits(void) {
        const struct rlimit none = { 0 };
        struct rlimit files;

        if (setrlimit(RLIMIT_CORE, &none) < 0 || getrlimit(RLIMIT_NOFILE, &files) < 0)
                return -errno;
        if (files.rlim_max > DESCRIPTORS_MAX)
                files.rlim_max = DESCRIPTORS_MAX;
        files.rlim_cur = files.rlim_max;
        return setrlimit(RLIMIT_NOFILE, &files) < 0 ? -errno : 0;
}

int egress_confine(const char *resolv_conf, struct error *err) {
        int r;

        r = confine_limits();
        if (r < 0)
                return error_set(err, r, "limits: %s", strerror(-r));
        r = confine_files(resolv_conf);
        if (r < 0)
                return error_set(err, r, "landlock: %s", strerror(-r));
        r = callfilter_load(calls, ARRAY_SIZE(calls), CALL_ELSE_KILL);
        return r < 0 ? error_set(err, r, "seccomp: %s", strerror(-r)) : 0;
}
