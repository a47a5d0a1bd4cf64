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

// clang-format off: one call, one entry
static const struct callfilter_call calls[] = {
        /* sockets of the network, and the control socket; a Unix socket would lead to services of the host */
        CALL_IF(socket, 0, UINT32_MAX, AF_INET),
        CALL_IF(socket, 0, UINT32_MAX, AF_INET6),
        { SYS_socket, CALL_ENOSYS, 0, 0, 0 },
        CALL(connect),
        CALL(accept4),
        CALL(shutdown),
        CALL(getsockopt),
        CALL(setsockopt),
        CALL(getsockname),
        CALL(getpeername),
        CALL(sendto),
        CALL(recvfrom),
        CALL(sendmsg),
        CALL(recvmsg),
        CALL(read),
        CALL(write),
        CALL(readv),
        CALL(writev),
        CALL(splice),
        CALL(pipe2),
        CALL(close),
        CALL(fcntl),
        CALL_IF(ioctl, 1, UINT32_MAX, SIOCGIFINDEX), /* a name server such as fe80::1%eth0 */
        CALL(epoll_create1),
        CALL(epoll_ctl),
        CALL(epoll_pwait),
#ifdef SYS_epoll_wait /* aarch64 has the other only */
        CALL(epoll_wait),
#endif
        /* the files of the resolver, and the bytes of a policy */
        CALL(openat),
        CALL(newfstatat),
        CALL(fstat),
        CALL(statx),
        CALL(lseek),
        CALL(uname),
        /* memory, never for code */
        CALL_IF(mmap, 2, PROT_EXEC, 0),
        CALL_IF(mprotect, 2, PROT_EXEC, 0),
        CALL(munmap),
        CALL(mremap),
        CALL(madvise),
        CALL(brk),
        /* itself */
        CALL(rt_sigaction),
        CALL(rt_sigprocmask),
        CALL(rt_sigreturn),
        CALL(restart_syscall),
        CALL(futex),
        CALL(getpid),
        CALL_IF(prlimit64, 0, UINT32_MAX, 0),
        CALL(clock_gettime),
        CALL(gettimeofday),
        CALL(getrandom),
        CALL(sysinfo), /* qsort(3), from 1 KiB on */
        CALL(exit_group),
};
// clang-format on

enum { PLACE_RESOLV, PLACE_HOSTS, PLACE_RANDOM, PLACES, DESCRIPTORS_MAX = 65536 };

/* A tunnel takes two descriptors: as many as the host lets us have, up to what memory is spent on. */
static int raise_limit(void) {
        struct rlimit files;

        if (getrlimit(RLIMIT_NOFILE, &files) < 0)
                return -errno;
        if (files.rlim_max > DESCRIPTORS_MAX)
                files.rlim_max = DESCRIPTORS_MAX;
        files.rlim_cur = files.rlim_max;
        return setrlimit(RLIMIT_NOFILE, &files) < 0 ? -errno : 0;
}

/* A resolv.conf that replaces this one comes from the supervisor: a rule is for a file, not for its name. */
int egress_confine(const char *resolv_conf, struct error *err) {
        const char *const conf = resolv_conf ? resolv_conf : "/etc/resolv.conf";
        const struct landlock_place places[PLACES] = {
                [PLACE_RESOLV] = { open(conf, O_PATH | O_CLOEXEC), LANDLOCK_READ },
                [PLACE_HOSTS] = { open("/etc/hosts", O_PATH | O_CLOEXEC), LANDLOCK_READ },
                [PLACE_RANDOM] = { open("/dev/urandom", O_PATH | O_CLOEXEC), LANDLOCK_READ },
        };
        const struct confinement confinement = {
                .lists = { { calls, ARRAY_SIZE(calls) } },
                .otherwise = CALL_ELSE_KILL,
                .places = places,
                .n_places = PLACES,
                .connects = true,
        };
        int r;

        r = raise_limit();
        r = r < 0 ? error_set(err, r, "limits: %s", strerror(-r)) : confine_process(&confinement, err);
        for (size_t i = 0; i < PLACES; i++)
                (void) fd_close(places[i].fd);
        return r;
}
