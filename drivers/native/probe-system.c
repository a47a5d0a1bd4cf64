/*
 * probe-system.c - the kernel and its surroundings: confinement, limits, other drivers, this program itself
 */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/capability.h>
#include <linux/magic.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "drivers/native/cgroup.h"
#include "drivers/native/devices.h"
#include "drivers/native/probe-kit.h"
#include "drivers/native/seccomp.h"
#include "fs/layer.h"
#include "runtime/base/buf.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/clock.h"
#include "runtime/base/escape.h"
#include "runtime/base/file.h"
#include "runtime/base/libexec.h"

enum { RUN_PAGES = 4 };

/* Whether @word stands in the first page of @path. */
static bool file_mentions(const char *path, const char *word) {
        char text[4096];
        AUTO_FD int fd = open(path, O_RDONLY | O_CLOEXEC);
        const ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text));

        return n > 0 && memmem(text, (size_t) n, word, strlen(word)) != NULL;
}

/* A mount on a part of /proc, but for the one that systemd makes where the kernel keeps an empty directory.
 */
static bool proc_is_masked(void) {
        AUTO_FILE FILE *f = fopen("/proc/self/mountinfo", "re");
        char line[PATH_MAX];

        while (f && fgets(line, sizeof(line), f)) {
                const char *point = line;

                for (int i = 0; i < 4 && point; i++) {
                        point = strchr(point, ' ');
                        point = point ? point + 1 : NULL;
                }
                if (point && strncmp(point, "/proc/", 6) == 0 &&
                    strncmp(point, "/proc/sys/fs/binfmt_misc ", 25) != 0)
                        return true;
        }
        return false;
}

/* Whether this process is in the first pid, IPC and UTS namespace of the kernel, by the numbers that those
 * have had since Linux 3.8: no container engine leaves all three. */
static bool is_first_everywhere(void) {
        static const struct {
                const char *name;
                ino_t first;
        } kinds[] = { { "/proc/self/ns/pid", 0xeffffffcU },
                      { "/proc/self/ns/ipc", 0xefffffffU },
                      { "/proc/self/ns/uts", 0xeffffffeU } };
        struct stat st;

        for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
                if (stat(kinds[i].name, &st) < 0 || st.st_ino != kinds[i].first)
                        return false;
        return true;
}

void probe_host_read(const struct ctx *ctx, struct probe_host *ret) {
        static const struct {
                const char *file, *variable, *kind;
        } containers[] = {
                { NULL, "KUBERNETES_SERVICE_HOST", "kubernetes" },
                { "/var/run/secrets/kubernetes.io", NULL, "kubernetes" },
                { "/run/.containerenv", NULL, "podman" },
                { "/.dockerenv", NULL, "docker" },
        };
        const char *const container = ctx_getenv(ctx, "container"); /* set by systemd-nspawn, lxc, podman */
        char text[256];
        struct statx stx;

        *ret = (struct probe_host){
                .ctx = ctx,
                .max_user_namespaces = probe_read_number("/proc/sys/user/max_user_namespaces"),
                .unprivileged_clone = probe_read_number("/proc/sys/kernel/unprivileged_userns_clone"),
                .apparmor_restrict =
                        probe_read_number("/proc/sys/kernel/apparmor_restrict_unprivileged_userns"),
                .seccomp_mode = prctl(PR_GET_SECCOMP),
                .no_setfcap = prctl(PR_CAPBSET_READ, CAP_SETFCAP, 0, 0, 0) == 0,
                .no_proc = access("/proc/self/status", F_OK) < 0,
                .proc_masked = proc_is_masked(),
                .selinux = probe_read_number("/sys/fs/selinux/enforce") == 1,
        };
        ret->unmapped = probe_read_text("/proc/self/uid_map", text, sizeof(text)) == 0 && !text[0];
        ret->wsl = probe_read_text("/proc/sys/kernel/osrelease", text, sizeof(text)) == 0 &&
                   (strstr(text, "icrosoft") || strstr(text, "WSL"));
        ret->virtual_machine = file_mentions("/proc/cpuinfo", " hypervisor") ||
                               probe_read_text("/sys/hypervisor/type", text, sizeof(text)) == 0;
        ret->chrooted = statx(AT_FDCWD, "/", 0, STATX_MODE, &stx) == 0 &&
                        (stx.stx_attributes_mask & STATX_ATTR_MOUNT_ROOT) &&
                        !(stx.stx_attributes & STATX_ATTR_MOUNT_ROOT);
        for (size_t i = 0; i < ARRAY_SIZE(containers) && !ret->mark; i++) {
                const char *const mark = containers[i].file ? containers[i].file : containers[i].variable;

                if (containers[i].file ? access(containers[i].file, F_OK) < 0
                                       : ctx_getenv(ctx, containers[i].variable) == NULL)
                        continue;
                if (containers[i].file && is_first_everywhere())
                        ret->stray_mark = mark;
                else
                        (void) snprintf(ret->container, sizeof(ret->container), "%s", containers[i].kind);
                ret->mark = mark;
        }
        if (container && container[0] && !ret->container[0])
                (void) escape_str(container, ret->container, sizeof(ret->container));
}

void try_kernel(const struct probe_host *host, struct probe_result *ret) {
        struct utsname name;

        (void) host;
        if (uname(&name) < 0)
                result_failed(ret, -errno, "uname");
        else
                result_note(ret, "%s %.60s %.30s", name.sysname, name.release, name.machine);
}

void try_environment(const struct probe_host *host, struct probe_result *ret) {
        const char *const mark = host->container[0] ? host->mark : host->stray_mark;
        char where[64] = "";

        if (mark)
                (void) snprintf(where, sizeof(where), host->container[0] ? " (%s)" : " (%s is left from one)",
                                mark);
        result_note(ret, "%s, %s%s%s%s",
                    host->wsl               ? "WSL"
                    : host->virtual_machine ? "virtual machine"
                                            : "no virtual machine seen",
                    host->container[0] ? "container: " : "no container", host->container, where,
                    host->seccomp_mode == 2 ? ", under a seccomp filter" : "");
}

/* An ELF program without an interpreter is static and runs in any root file system. */
void try_linkage(const struct probe_host *host, struct probe_result *ret) {
        AUTO_FD int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
        Elf64_Ehdr head;

        (void) host;
        if (fd < 0 || pread(fd, &head, sizeof(head), 0) != (ssize_t) sizeof(head)) {
                result_note(ret, "unknown: /proc/self/exe cannot be read");
                return;
        }
        for (unsigned i = 0; i < head.e_phnum; i++) {
                Elf64_Phdr ph;

                if (pread(fd, &ph, sizeof(ph), (off_t) (head.e_phoff + i * sizeof(ph))) ==
                            (ssize_t) sizeof(ph) &&
                    ph.p_type == PT_INTERP) {
                        result_fact(ret, -ENOEXEC, "dynamic: PT_INTERP in /proc/self/exe");
                        return;
                }
        }
        result_note(ret, "static: no PT_INTERP in /proc/self/exe");
}

void try_programs(const struct probe_host *host, struct probe_result *ret) {
        static const char *const names[] = { "auth-proxy", "image", "kubernetes", "runner" };
        AUTO_BUF struct buf missing = { 0 };

        (void) host;
        for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
                char name[32];

                (void) snprintf(name, sizeof(name), "cofferdam-%s", names[i]);
                if (libexec_check(name) < 0)
                        (void) !buf_fmt(&missing, "%s%s", missing.len ? ", " : "", name);
        }
        if (missing.len)
                result_fact(ret, -ENOENT, "not installed: %s", buf_cstr(&missing));
        else
                result_note(ret, "cofferdam-auth-proxy, -image, -kubernetes and -runner are installed");
}

/* Files as a run writes them at its start, but for @more empty ones. Return: 0 or -errno. */
static int fill_entry(int dir, int more) {
        static const char page[4096] = { 1 };
        int r = 0;

        for (int i = 0; i < RUN_PAGES + more && r == 0; i++) {
                AUTO_FD int fd = -1;
                char name[16];

                (void) snprintf(name, sizeof(name), "%d", i);
                fd = openat(dir, name, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);
                r = fd < 0 ? -errno : i < RUN_PAGES ? write_all(fd, page, sizeof(page)) : 0;
        }
        for (int i = 0; i < RUN_PAGES + more; i++) {
                char name[16];

                (void) snprintf(name, sizeof(name), "%d", i);
                (void) unlinkat(dir, name, 0);
        }
        return r == -EFBIG ? 0 : r; /* RLIMIT_FSIZE has a row of its own */
}

/* Whether the directory @path takes what a run writes. @more: files. Return: 0, -ENOTSUP: without attributes,
 * -errno. */
static int make_entry(const char *path, int more) {
        AUTO_FD int dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC), made = -1;
        char name[PROBE_NAME_MAX];
        int r;

        if (dir < 0)
                return -errno;
        made = probe_place_make(dir, name);
        if (made < 0)
                return made;
        r = layer_usable(made, NULL);
        if (r == 0)
                r = fill_entry(made, more);
        return unlinkat(dir, name, AT_REMOVEDIR) < 0 ? -errno : r;
}

/* What is there already must be the caller's own, as a run wants it. Return: whether it is. */
static bool is_own_state(const struct probe_host *host, struct probe_result *ret) {
        static const char *const levels[] = { "", "/runs" };

        for (size_t i = 0; i < ARRAY_SIZE(levels); i++) {
                char path[PATH_MAX];
                AUTO_FD int fd = -1;

                (void) snprintf(path, sizeof(path), "%s%s", host->ctx->state_dir, levels[i]);
                fd = file_own_dir(AT_FDCWD, path, host->ctx->uid);
                if (fd == -ENOENT)
                        return true;
                if (fd == -ENOTDIR)
                        result_fact(ret, fd, "'%.50s' is a symbolic link or no directory", ESC(path));
                else if (fd == -EPERM)
                        result_fact(ret, fd, "'%.36s' must belong to uid %u and be writable by nobody else",
                                    ESC(path), (unsigned int) host->ctx->uid);
                else if (fd < 0)
                        result_failed(ret, fd, "open %.60s", ESC(path));
                if (fd < 0)
                        return false;
        }
        return true;
}

/* The nearest directory that exists must take a new entry. */
void try_state_dir(const struct probe_host *host, struct probe_result *ret) {
        char path[PATH_MAX];
        char *slash;
        int r;

        if (!host->ctx->state_dir) {
                result_fact(ret, -ENOENT, "neither HOME nor XDG_STATE_HOME is set");
                return;
        }
        if (!is_own_state(host, ret))
                return;
        (void) snprintf(path, sizeof(path), "%s", host->ctx->state_dir);
        while (access(path, F_OK) < 0 && errno == ENOENT && (slash = strrchr(path, '/')) && path[1])
                slash[slash == path] = 0;
        r = make_entry(path, strcmp(path, host->ctx->state_dir) == 0 ? 2 : 4);
        if (r == -ENOTSUP)
                result_fact(ret, r, "the file system of the state directory has no user extended attributes");
        else if (r < 0)
                result_failed(ret, r, "write in %.60s", ESC(path));
        else
                result_note(ret, "%.90s can be written", ESC(host->ctx->state_dir));
}

/* What is not here is not inside either, but for /dev/null. */
void try_devices(const struct probe_host *host, struct probe_result *ret) {
        AUTO_BUF struct buf absent = { 0 };
        const struct device *list;
        size_t n;

        (void) host;
        list = devices(&n);
        for (size_t i = 0; i < n; i++) {
                const int r = list[i].nested ? 0 : device_check(&list[i]); /* fuse has a row of its own */

                if (r == -ENXIO)
                        result_fact(ret, r, "/dev/%s is not the device %u:%u", list[i].name, list[i].major,
                                    list[i].minor);
                else if (r < 0 && (r != -ENOENT || i == 0))
                        result_failed(ret, r, "stat /dev/%s", list[i].name);
                else if (r < 0 && buf_fmt(&absent, " %s", list[i].name) < 0)
                        result_failed(ret, -ENOMEM, "list of devices");
                if (ret->code < 0)
                        return;
        }
        if (absent.len > 0)
                result_note(ret, "not here, so not inside:%s", buf_cstr(&absent));
        else
                result_note(ret, "null, zero, full, tty, random, urandom");
}

void try_seccomp(const struct probe_host *host, struct probe_result *ret) {
        struct seccomp_program program;
        int r;

        (void) host;
        if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0) {
                result_failed(ret, -errno, "prctl(PR_SET_NO_NEW_PRIVS)");
                return;
        }
        r = seccomp_filter_compile(SECCOMP_HOST, &(struct seccomp_options){ 0 }, &program, NULL);
        if (r == 0)
                r = seccomp_filter_load(&program);
        if (r < 0)
                result_failed(ret, r, "seccomp(SECCOMP_SET_MODE_FILTER)");
        else if (unshare(CLONE_NEWUSER) == 0 || errno != EPERM)
                result_fact(ret, -EDOM, "the filter does not refuse unshare(CLONE_NEWUSER)");
        else
                result_note(ret, "the filter loads (%zu instructions) and refuses", program.len);
}

/* linux/landlock.h of the 6.1 headers ends at the file rights */
#define LANDLOCK_VERSION_FLAG  1U
#define LANDLOCK_SCOPE_SOCKET_ (1ULL << 0)
#define LANDLOCK_SCOPE_SIGNAL_ (1ULL << 1)
enum { LANDLOCK_ABI_SCOPES = 6 };
struct landlock_ruleset {
        uint64_t handled_access_fs, handled_access_net, scoped;
};

/* ABI 6 is the first that keeps signals and abstract sockets within a domain. */
void try_landlock(const struct probe_host *host, struct probe_result *ret) {
        const struct landlock_ruleset rules = { .scoped = LANDLOCK_SCOPE_SOCKET_ | LANDLOCK_SCOPE_SIGNAL_ };
        const long abi = syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_VERSION_FLAG);
        AUTO_FD int fd = -1;

        (void) host;
        if (abi < 0) {
                result_failed(ret, -errno, "landlock_create_ruleset(VERSION)");
                return;
        }
        if (abi < LANDLOCK_ABI_SCOPES) {
                result_fact(ret, -EOPNOTSUPP, "landlock ABI %ld, scopes need %d", abi, LANDLOCK_ABI_SCOPES);
                return;
        }
        fd = (int) syscall(SYS_landlock_create_ruleset, &rules, sizeof(rules), 0);
        if (fd < 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
            syscall(SYS_landlock_restrict_self, fd, 0) < 0)
                result_failed(ret, -errno, "landlock_restrict_self");
        else if (kill(getppid(), 0) == 0 || errno != EPERM)
                result_fact(ret, -EDOM, "a scoped process can signal its parent");
        else
                result_note(ret, "ABI %ld, scopes of signals and abstract sockets hold", abi);
}

/* The directory of the caller's own cgroup below @root. Return: 0, -ENOENT. */
static int own_cgroup(const char *root, char *out, size_t size) {
        AUTO_FILE FILE *f = fopen("/proc/self/cgroup", "re");
        char line[PATH_MAX];

        while (f && fgets(line, sizeof(line), f))
                if (strncmp(line, "0::", 3) == 0) {
                        line[strcspn(line, "\n")] = 0;
                        return (size_t) snprintf(out, size, "%s%s", root, line + 3) < size ? 0
                                                                                           : -ENAMETOOLONG;
                }
        return -ENOENT;
}

static bool is_cgroup2(const char *path) {
        struct statfs fs;

        return statfs(path, &fs) == 0 && fs.f_type == CGROUP2_SUPER_MAGIC;
}

/* Whether groups of version 1, which take root, can be made with all limits; version 2 is not looked at. */
static bool try_cgroup1(void) {
        const struct cgroup_limits limits = { .memory_bytes = 64 << 20, .pids = 64, .cpu_milli = 1000 };
        AUTO_BUF struct buf self = { 0 };
        struct cgroup cg = CGROUP_INIT;
        struct error err = { 0 };
        char id[32], *v2, *end;

        if (file_read_at(AT_FDCWD, "/proc/self/cgroup", 65536, &self) < 0 || self.len == 0)
                return false;
        v2 = strncmp(self.data, "0::", 3) == 0 ? self.data : strstr(self.data, "\n0::");
        if (v2) {
                end = v2 + 1 + strcspn(v2 + 1, "\n");
                memmove(v2, end, strlen(end) + 1);
        }
        (void) snprintf(id, sizeof(id), "probe-%d", getppid());
        if (cgroup_make("/sys/fs/cgroup", self.data, &limits, id, &cg, &err) < 0)
                return false;
        cgroup_remove(&cg);
        return true;
}

/* Makes and removes a group below the caller's own; needs what a run needs: its own subtree with controllers.
 */
static void try_cgroup2(struct probe_result *ret) {
        const char *const root = is_cgroup2("/sys/fs/cgroup") ? "/sys/fs/cgroup" : "/sys/fs/cgroup/unified";
        char own[PATH_MAX], path[PATH_MAX + 64], controllers[80];

        if (!is_cgroup2(root)) {
                result_fact(ret, -ENOENT, "no cgroup v2 at /sys/fs/cgroup%s",
                            access("/sys/fs/cgroup/memory", F_OK) == 0 ? ", version 1 is mounted" : "");
                return;
        }
        if (own_cgroup(root, own, sizeof(own)) < 0) {
                result_fact(ret, -ENOENT, "no cgroup v2 in /proc/self/cgroup");
                return;
        }
        (void) snprintf(path, sizeof(path), "%s/cofferdam-probe-%d", own, getppid());
        if (mkdir(path, 0755) < 0) {
                result_failed(ret, -errno, "mkdir in the own cgroup %.50s", ESC(own));
                return;
        }
        (void) strncat(path, "/cgroup.controllers", sizeof(path) - strlen(path) - 1);
        if (probe_read_text(path, controllers, sizeof(controllers)) < 0 || !controllers[0])
                result_fact(ret, -ENODATA, "no controllers in a group below %.50s", ESC(own));
        else
                result_note(ret, "v2, delegated: %s", controllers);
        *strrchr(path, '/') = 0;
        (void) rmdir(path);
}

void try_cgroup(const struct probe_host *host, struct probe_result *ret) {
        (void) host;
        try_cgroup2(ret);
        if (ret->code == 0 || !try_cgroup1())
                return;
        *ret = (struct probe_result){ 0 };
        result_note(ret, "v1: memory, pids, cpu");
}
