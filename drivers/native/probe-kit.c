#include "drivers/native/probe-kit.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "drivers/native/cgroup.h"
#include "runtime/base/buf.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/clock.h"
#include "runtime/base/file.h"
#include "runtime/base/sys.h"

enum { LIMIT_STEP_MS = 10, LIMIT_STEPS = 10 };

int probe_read_text(const char *path, char *buf, size_t size) {
        AUTO_FD int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
        ssize_t n;

        buf[0] = 0;
        if (fd < 0)
                return -errno;
        n = read(fd, buf, size - 1);
        if (n < 0)
                return -errno;
        buf[n] = 0;
        buf[strcspn(buf, "\n")] = 0;
        return 0;
}

long long probe_read_number(const char *path) {
        char text[32], *end;
        long long value;

        if (probe_read_text(path, text, sizeof(text)) < 0)
                return -1;
        errno = 0;
        value = strtoll(text, &end, 10);
        return errno || end == text ? -1 : value;
}

void result_failed(struct probe_result *r, int code, const char *fmt, ...) {
        va_list ap;

        r->code = code;
        va_start(ap, fmt);
        (void) vsnprintf(r->step, sizeof(r->step), fmt, ap);
        va_end(ap);
}

void result_fact(struct probe_result *r, int code, const char *fmt, ...) {
        va_list ap;

        r->code = code;
        r->fact = true;
        va_start(ap, fmt);
        (void) vsnprintf(r->step, sizeof(r->step), fmt, ap);
        va_end(ap);
}

void result_note(struct probe_result *r, const char *fmt, ...) {
        va_list ap;

        va_start(ap, fmt);
        (void) vsnprintf(r->note, sizeof(r->note), fmt, ap);
        va_end(ap);
}

const char *probe_errno_name(int code) {
        const char *name = strerrorname_np(-code);

        return name ? name : "unknown error";
}

/* "clone(CLONE_NEWUSER|CLONE_NEWNET)" */
static void clone_step(uint64_t flags, char *out, size_t size) {
        static const struct {
                uint64_t flag;
                const char *name;
        } names[] = {
                { CLONE_NEWUSER, "NEWUSER" },     { CLONE_NEWNS, "NEWNS" },   { CLONE_NEWPID, "NEWPID" },
                { CLONE_NEWIPC, "NEWIPC" },       { CLONE_NEWUTS, "NEWUTS" }, { CLONE_NEWNET, "NEWNET" },
                { CLONE_NEWCGROUP, "NEWCGROUP" },
        };
        size_t len = (size_t) snprintf(out, size, "clone(");

        for (size_t i = 0; i < ARRAY_SIZE(names); i++)
                if ((flags & names[i].flag) && len < size)
                        len += (size_t) snprintf(out + len, size - len, "%sCLONE_%s",
                                                 out[len - 1] == '(' ? "" : "|", names[i].name);
        if (len < size)
                (void) snprintf(out + len, size - len, ")");
}

static bool map_ids(const struct ctx *ctx, struct probe_result *r) {
        const struct {
                const char *path;
                unsigned id;
        } maps[] = { { "/proc/self/uid_map", ctx->uid }, { "/proc/self/gid_map", ctx->gid } };
        int code = file_put(AT_FDCWD, "/proc/self/setgroups", "deny");

        if (code < 0)
                result_failed(r, code, "write /proc/self/setgroups");
        for (size_t i = 0; i < ARRAY_SIZE(maps) && code == 0; i++) {
                char line[48];

                (void) snprintf(line, sizeof(line), "%u %u 1", maps[i].id, maps[i].id);
                code = file_put(AT_FDCWD, maps[i].path, line);
                if (code < 0)
                        result_failed(r, code, "write %s", maps[i].path);
        }
        return code == 0;
}

static _Noreturn void child_main(const struct probe_host *host, uint64_t flags, probe_try *try, int report) {
        struct probe_result r = { 0 };

        (void) prctl(PR_SET_PDEATHSIG, SIGKILL);
        (void) prctl(PR_SET_DUMPABLE, 1); /* else /proc/self belongs to root and the maps cannot be written */
        if ((!(flags & CLONE_NEWUSER) || map_ids(host->ctx, &r)) && try)
                try(host, &r);
        _exit(write_all(report, &r, sizeof(r)) < 0);
}

/* The child's report, or -ETIMEDOUT; a child that died without one reports -ECHILD. */
static void receive(int report, struct probe_result *ret) {
        const uint64_t end = clock_ns() + (uint64_t) PROBE_CHILD_MS * 1000000;
        struct pollfd pfd = { .fd = report, .events = POLLIN };
        int left = PROBE_CHILD_MS, r;
        ssize_t n;

        do {
                r = poll(&pfd, 1, left);
                left = clock_ns() < end ? (int) ((end - clock_ns()) / 1000000) : 0;
        } while (r < 0 && errno == EINTR && left > 0);
        if (r <= 0) {
                result_failed(ret, -ETIMEDOUT, "no answer within %d ms", PROBE_CHILD_MS);
                return;
        }
        n = read(report, ret, sizeof(*ret));
        if (n != (ssize_t) sizeof(*ret)) {
                memset(ret, 0, sizeof(*ret));
                result_failed(ret, -ECHILD, "the trying process was killed");
        }
        ret->step[sizeof(ret->step) - 1] = ret->note[sizeof(ret->note) - 1] = 0;
}

/* What try_cgroup() had made when it was ended. */
static void forget_cgroup(void) {
        AUTO_BUF struct buf self = { 0 };
        char id[32];

        (void) snprintf(id, sizeof(id), "probe-%d", getpid());
        if (file_read_at(AT_FDCWD, "/proc/self/cgroup", 65536, &self) == 0 && self.len > 0)
                cgroup_reap_run("/sys/fs/cgroup", self.data, id);
}

/* Ends @pid; one that the kernel does not let go is left to its fate after PROBE_CHILD_MS. */
static void reap(pid_t pid, int pidfd) {
        struct pollfd pfd = { .fd = pidfd, .events = POLLIN };

        (void) kill(pid, SIGKILL);
        if (poll(&pfd, 1, PROBE_CHILD_MS) == 1)
                (void) waitpid(pid, NULL, 0);
}

/* clone(2), again for a while when a limit is reached: the kernel gives back what earlier attempts had some
 * milliseconds after they are gone. */
static pid_t clone_in_time(const struct probe_host *host, uint64_t flags, int *ret_pidfd) {
        const struct timespec step = { .tv_nsec = LIMIT_STEP_MS * 1000000L };
        pid_t pid = sys_clone(flags, ret_pidfd);

        for (int i = 0; pid == -ENOSPC && host->max_user_namespaces != 0 && i < LIMIT_STEPS; i++) {
                (void) nanosleep(&step, NULL);
                pid = sys_clone(flags, ret_pidfd);
        }
        return pid;
}

void probe_child(const struct probe_host *host, uint64_t flags, probe_try *try, struct probe_result *ret) {
        AUTO_FD int reader = -1, writer = -1, pidfd = -1;
        int pipe_fds[2];
        pid_t pid;

        memset(ret, 0, sizeof(*ret));
        if (pipe2(pipe_fds, O_CLOEXEC) < 0) {
                result_failed(ret, -errno, "pipe");
                return;
        }
        reader = pipe_fds[0];
        writer = pipe_fds[1];
        pid = clone_in_time(host, flags, &pidfd);
        if (pid < 0) {
                char step[sizeof(ret->step)];

                clone_step(flags, step, sizeof(step));
                result_failed(ret, pid, "%s", step);
                return;
        }
        if (pid == 0)
                child_main(host, flags, try, writer);
        writer = fd_close(writer);
        receive(reader, ret);
        reap(pid, pidfd);
        if (try == try_cgroup && (ret->code == -ETIMEDOUT || ret->code == -ECHILD))
                forget_cgroup();
}

int probe_idle_child(void) {
        const pid_t pid = sys_clone(CLONE_NEWUSER, NULL);

        if (pid != 0)
                return pid;
        (void) prctl(PR_SET_PDEATHSIG, SIGKILL);
        (void) prctl(PR_SET_DUMPABLE, 1);
        for (;;)
                pause();
}

/* A filter answers with an errno or kills (-ECHILD). */
static bool seccomp_applies(const struct probe_host *h, int code) {
        return h->seccomp_mode == 2 &&
               (code == -EPERM || code == -EACCES || code == -ENOSYS || code == -ECHILD);
}

static bool processes_apply(const struct probe_host *h, int code) {
        (void) h;
        return code == -EAGAIN;
}

static bool files_apply(const struct probe_host *h, int code) {
        (void) h;
        return code == -EMFILE || code == -ENFILE;
}

static bool memory_applies(const struct probe_host *h, int code) {
        (void) h;
        return code == -ENOMEM;
}

static bool time_applies(const struct probe_host *h, int code) {
        (void) h;
        return code == -ETIMEDOUT;
}

static bool apparmor_applies(const struct probe_host *h, int code) {
        return h->apparmor_restrict == 1 && h->ctx->uid != 0 && (code == -EPERM || code == -EACCES);
}

static bool sysctl_applies(const struct probe_host *h, int code) {
        return h->unprivileged_clone == 0 && h->ctx->uid != 0 && code == -EPERM;
}

static bool docker_applies(const struct probe_host *h, int code) {
        return seccomp_applies(h, code) &&
               (strcmp(h->container, "docker") == 0 || strcmp(h->container, "podman") == 0);
}

static bool kubernetes_applies(const struct probe_host *h, int code) {
        return seccomp_applies(h, code) && strcmp(h->container, "kubernetes") == 0;
}

static bool limit_zero_applies(const struct probe_host *h, int code) {
        return h->max_user_namespaces == 0 && (code == -ENOSPC || code == -EUSERS);
}

static bool limit_applies(const struct probe_host *h, int code) {
        (void) h;
        return code == -ENOSPC || code == -EUSERS;
}

static bool selinux_applies(const struct probe_host *h, int code) {
        return h->selinux && code == -EACCES;
}

static bool proc_applies(const struct probe_host *h, int code) {
        return h->no_proc && code == -ENOENT;
}

/* Linux 5.12: who maps uid 0 must have it, or root could give files capabilities */
static bool setfcap_applies(const struct probe_host *h, int code) {
        return h->no_setfcap && h->ctx->uid == 0 && code == -EPERM;
}

static bool unmapped_applies(const struct probe_host *h, int code) {
        return h->unmapped && code == -EPERM;
}

static bool chroot_applies(const struct probe_host *h, int code) {
        return h->chrooted && code == -EPERM;
}

/* The kernel says so of a chroot, which cannot be told where a mount begins at its root (schroot makes it
 * so). */
static bool refused_applies(const struct probe_host *h, int code) {
        (void) h;
        return code == -EPERM;
}

/* The kernel gives a new namespace no /proc that shows more than the one that is there. */
static bool masks_apply(const struct probe_host *h, int code) {
        return h->proc_masked && code == -EPERM;
}

static bool full_applies(const struct probe_host *h, int code) {
        (void) h;
        return code == -ENOSPC || code == -EDQUOT;
}

static const char full_cause[] = "the file system of the state directory is full";
static const char full_remedy[] = "free some space or inodes, or set XDG_STATE_HOME to a directory elsewhere";

/* who can say no; the first that applies is named */
static const struct {
        bool (*applies)(const struct probe_host *, int code);
        const char *cause, *remedy;
        const char *step; /* for steps only that begin so, NULL: any */
} causes[] = {
        { unmapped_applies, "the caller's uid is not mapped in the user namespace it was started in",
          "map it there, as 'unshare --map-current-user' does" },
        { full_applies, full_cause, full_remedy, "make " },
        { full_applies, full_cause, full_remedy, "write and remove" },
        { full_applies, full_cause, full_remedy, "mount overlay" },
        { limit_zero_applies, "/proc/sys/user/max_user_namespaces is 0",
          "sudo sysctl -w user.max_user_namespaces=15000" },
        { limit_applies, "a limit of an outer user namespace, or 32 levels are nested",
          "raise /proc/sys/user/max_*_namespaces outside, or nest less" },
        { sysctl_applies, "/proc/sys/kernel/unprivileged_userns_clone is 0",
          "sudo sysctl -w kernel.unprivileged_userns_clone=1" },
        { setfcap_applies, "uid 0 has no CAP_SETFCAP, without which it cannot be mapped",
          "start cofferdam as an ordinary user, or the outer container with --cap-add SETFCAP",
          "write /proc/self/uid_map" },
        { masks_apply, "parts of /proc are masked or read-only here",
          "start the outer container with --security-opt systempaths=unconfined (podman: unmask=ALL; "
          "Kubernetes: procMount: Unmasked; bubblewrap: --bind /proc /proc), the systemd service with "
          "ProtectKernelTunables=no ProtectKernelLogs=no",
          "fsmount(proc)" },
        { apparmor_applies, "AppArmor: /proc/sys/kernel/apparmor_restrict_unprivileged_userns is 1",
          "sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0, or load the profile in "
          "cofferdam-doctor(1)" },
        { docker_applies,
          "a seccomp filter, probably the outer container's (Seccomp: 2 in /proc/self/status)",
          "start the outer container with --security-opt seccomp=unconfined --security-opt "
          "systempaths=unconfined" },
        { kubernetes_applies, "a seccomp filter, probably the outer pod's (Seccomp: 2 in /proc/self/status)",
          "in the pod: securityContext.seccompProfile.type: Unconfined, or use --driver kubernetes" },
        { seccomp_applies, "a seccomp filter is in force (Seccomp: 2 in /proc/self/status)",
          "start cofferdam outside of the program that set the seccomp filter; in a systemd service set "
          "RestrictNamespaces=no and drop SystemCallFilter=" },
        { selinux_applies, "SELinux is enforcing",
          "sudo ausearch -m avc -ts recent shows the denial; allow it by policy" },
        { chroot_applies, "a chroot: the kernel makes no user namespace in one",
          "start cofferdam outside of the chroot" },
        { refused_applies, "most likely a chroot whose root is a mount, or a security module",
          "start cofferdam outside of the chroot, or in one made by pivot_root(2)", "clone(CLONE_NEWUSER)" },
        { proc_applies, "/proc is not mounted", "sudo mount -t proc proc /proc" },
        { processes_apply, "the limit of processes is reached", "raise 'ulimit -u', or end some processes" },
        { files_apply, "the limit of open files is reached", "raise 'ulimit -n'" },
        { memory_applies, "out of memory",
          "free some memory, or raise the memory limit of the outer container" },
        { time_applies, "the host is too busy", "try again when the host is less busy" },
};

void probe_blame(const struct probe_host *host, const char *step, int code, const char **ret_cause,
                 const char **ret_remedy) {
        *ret_cause = *ret_remedy = "";
        for (size_t i = 0; i < ARRAY_SIZE(causes); i++)
                if ((!causes[i].step || strncmp(step, causes[i].step, strlen(causes[i].step)) == 0) &&
                    causes[i].applies(host, code)) {
                        *ret_cause = causes[i].cause;
                        *ret_remedy = causes[i].remedy;
                        return;
                }
}
