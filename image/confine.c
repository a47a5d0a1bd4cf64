#include "image/confine.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/close_range.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "runtime/base/callfilter.h"
#include "runtime/base/caps.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/sys.h"

/* What the C library, libarchive and layer.c take. */
static const struct callfilter_call calls[] = {
        CALL(read),
        CALL(pread64),
        CALL(write),
        CALL(pwrite64),
        CALL(lseek),
        CALL(close),
        CALL(openat),
        CALL(openat2),
        CALL(fstat),
        CALL(newfstatat),
        CALL(statx),
        CALL(fcntl),
        CALL(getdents64),
        CALL(readlinkat),
        CALL(mkdirat),
        CALL(symlinkat),
        CALL(linkat),
        CALL(unlinkat),
        CALL(renameat),
        CALL(renameat2),
        CALL(fchown),
        CALL(fchownat),
        CALL(fchmod),
        CALL(fchmodat),
        CALL(utimensat),
        CALL(ftruncate),
        CALL(fsetxattr),
        CALL_IF(mknodat, 3, UINT32_MAX, 0), /* a FIFO, or what stands for a name that is gone */
        CALL(brk),
        CALL(mmap),
        CALL(munmap),
        CALL(mremap),
        CALL(madvise),
        CALL(mprotect),
        CALL(futex),
        CALL(getrandom),
        CALL(clock_gettime),
        CALL(gettimeofday),
        CALL(getpid),
        CALL(gettid),
        CALL(tgkill),
        CALL(rt_sigaction),
        CALL(rt_sigprocmask),
        CALL(rt_sigreturn),
        CALL(exit),
        CALL(exit_group),
};

static const uint64_t over_files =
        CAP_BIT(CAP_CHOWN) | CAP_BIT(CAP_DAC_OVERRIDE) | CAP_BIT(CAP_FOWNER) | CAP_BIT(CAP_FSETID);

/* What an archive has libarchive keep, as its map of holes, has no bound of its own. */
static const struct rlimit memory = { CONFINE_MEMORY_BYTES, CONFINE_MEMORY_BYTES };

static void close_others(int a, int b) {
        const int low = a < b ? a : b, high = a < b ? b : a;

        (void) sys_close_range(3, (unsigned int) low - 1, 0);
        (void) sys_close_range((unsigned int) low + 1, (unsigned int) high - 1, 0);
        (void) sys_close_range((unsigned int) high + 1, ~0U, 0);
}

int confine_unpack(int archive_fd, int dir_fd, struct error *err) {
        const struct landlock_place places[] = { { dir_fd, LANDLOCK_LAYER } };
        const struct confinement confinement = { .lists = { { calls, ARRAY_SIZE(calls) } },
                                                 .otherwise = CALL_ELSE_EPERM,
                                                 .places = places,
                                                 .n_places = ARRAY_SIZE(places) };
        const int r = caps_keep(over_files);

        if (r < 0)
                return error_set(err, r, "drop capabilities: %s", strerror(-r));
        close_others(archive_fd, dir_fd);
        /* what libarchive says before it aborts leads nowhere: no directory can be written */
        if (dup2(dir_fd, STDOUT_FILENO) < 0 || dup2(dir_fd, STDERR_FILENO) < 0 ||
            setrlimit(RLIMIT_DATA, &memory) < 0)
                return error_set(err, -errno, "bound what unpacks: %s", strerror(errno));
        return confine_process(&confinement, err);
}
