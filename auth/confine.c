#include "auth/confine.h"

#include <errno.h>
#include <seccomp.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>

#include "runtime/base/cleanup.h"

static const int denied[] = {
        SCMP_SYS(execve),
        SCMP_SYS(execveat),
        SCMP_SYS(ptrace),
        SCMP_SYS(process_vm_readv),
        SCMP_SYS(process_vm_writev),
        SCMP_SYS(pidfd_getfd),
        SCMP_SYS(kcmp),
        SCMP_SYS(unshare),
        SCMP_SYS(setns),
        SCMP_SYS(mount),
        SCMP_SYS(umount2),
        SCMP_SYS(pivot_root),
        SCMP_SYS(chroot),
        SCMP_SYS(open_tree),
        SCMP_SYS(move_mount),
        SCMP_SYS(fsopen),
        SCMP_SYS(fsmount),
        SCMP_SYS(bpf),
        SCMP_SYS(perf_event_open),
        SCMP_SYS(userfaultfd),
        SCMP_SYS(io_uring_setup),
        SCMP_SYS(keyctl),
        SCMP_SYS(add_key),
        SCMP_SYS(request_key),
        SCMP_SYS(init_module),
        SCMP_SYS(finit_module),
        SCMP_SYS(delete_module),
        SCMP_SYS(kexec_load),
        SCMP_SYS(kexec_file_load),
        SCMP_SYS(personality),
        SCMP_SYS(setuid),
        SCMP_SYS(setgid),
};

static int load_filter(void) {
        scmp_filter_ctx ctx = seccomp_init(SCMP_ACT_ALLOW);
        int r = ctx ? 0 : -ENOMEM;

        for (size_t i = 0; r == 0 && i < ARRAY_SIZE(denied); i++)
                r = seccomp_rule_add(ctx, SCMP_ACT_ERRNO(EPERM), denied[i], 0);
        if (r == 0)
                r = seccomp_load(ctx); /* sets no_new_privs */
        seccomp_release(ctx);
        return r;
}

int confine_service(struct error *err) {
        const struct rlimit none = { 0, 0 };
        int r;

        if (setrlimit(RLIMIT_CORE, &none) < 0 || prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
                return error_set(err, -errno, "confine: %s", strerror(errno));
        r = load_filter();
        return r < 0 ? error_set(err, r, "confine: system call filter: %s", strerror(-r)) : 0;
}
