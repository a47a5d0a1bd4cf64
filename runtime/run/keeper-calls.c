/*
 * What the keeper may still do once it has the tokens: carry bytes between sockets, ask the service to
 * revoke, end the run's own auth proxy. No file is opened, no program executed, no process made. A call that
 * is not in the list gets EPERM: a keeper that is killed could not revoke.
 */
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include "runtime/base/callfilter.h"
#include "runtime/base/cleanup.h"
#include "runtime/run/keeper.h"

// clang-format off: one call, one entry
static const struct callfilter_call calls[] = {
        /* to the service: a path or a loopback address that was told before (service.c) */
        CALL_IF(socket, 0, UINT32_MAX, AF_UNIX),
        CALL_IF(socket, 0, UINT32_MAX, AF_INET),
        CALL_IF(socket, 0, UINT32_MAX, AF_INET6),
        CALL(connect),
        CALL(accept4),
        CALL(shutdown),
        CALL(getsockopt),
        CALL(setsockopt),
        CALL(sendto),
        CALL(recvfrom),
        CALL(sendmsg),
        CALL(recvmsg),
        CALL(read),
        CALL(write),
        CALL(splice),
        CALL(pipe2),
        CALL(close),
        CALL(fcntl),
        CALL(epoll_create1),
        CALL(epoll_ctl),
        CALL(epoll_pwait),
#ifdef SYS_epoll_wait /* aarch64 has the other only */
        CALL(epoll_wait),
#endif
        /* the run's own auth proxy, and its sockets */
        CALL(kill),
        CALL(wait4),
        CALL(unlinkat),
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
        CALL(gettid),
        CALL(tgkill),
        CALL(clock_gettime),
        CALL(gettimeofday),
        CALL(getrandom), /* hash tables of JSON */
        CALL(exit_group),
};
// clang-format on

int keeper_confine(struct error *err) {
        const struct confinement confinement = { .lists = { { calls, ARRAY_SIZE(calls) } },
                                                 .otherwise = CALL_ELSE_EPERM };

        return confine_process(&confinement, err);
}
