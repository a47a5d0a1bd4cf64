/*
 * DOC: theory of operation
 *
 * A command begins as a child of pid 1, so for the kernel /proc/self/exe is the runtime's own executable
 * until execve(2) is done - also when the command, its "#!" line or its ELF interpreter is that very path. A
 * command that is the runtime hands the work a link to a file of the host, on a mount of the host's: whoever
 * owns the file could change its mode through it, or its bytes on a kernel that lets a running program be
 * written to.
 *
 * Landlock keeps everything from being executed that is not below the sandbox's root. Where it is missing, or
 * where a sandbox inside needs mounts, which landlock refuses, pid 1 executes a sealed copy of itself in
 * memory before the first command; there is nothing of the host's in /proc then.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/landlock.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "drivers/native/native.h"
#include "drivers/native/setup.h"
#include "runtime/base/buf.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/fdpass.h"
#include "runtime/base/file.h"

#ifndef MFD_EXEC
#define MFD_EXEC 0x10U
#endif

/* linux/landlock.h of 6.1 stops before scopes */
struct ruleset_attr {
        uint64_t handled_access_fs, handled_access_net, scoped;
};
enum { SCOPE_ABSTRACT_UNIX_SOCKET = 1, SCOPE_SIGNAL = 2, REFER_ABI = 2, SCOPE_ABI = 6 };
/* where the copy finds what it needs */
enum { SOCK_FD = 3, PROFILE_FD = 4, FIRST_FREE_FD = 5 };

static long landlock_abi(void) {
        return syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
}

bool landlock_can_scope(void) {
        return landlock_abi() >= SCOPE_ABI;
}

/* REFER is refused by every ruleset that does not give it: renames between directories would fail */
static int add_root(int set_fd, uint64_t rights) {
        AUTO_FD int root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
        const struct landlock_path_beneath_attr rule = { .allowed_access = rights, .parent_fd = root };

        if (root < 0)
                return -errno;
        return syscall(SYS_landlock_add_rule, set_fd, LANDLOCK_RULE_PATH_BENEATH, &rule, 0) < 0 ? -errno : 0;
}

int landlock_work(bool programs, bool scope) {
        const long abi = landlock_abi();
        struct ruleset_attr attr = { 0 };
        AUTO_FD int fd = -1;
        int r = 0;

        if (programs && abi >= REFER_ABI)
                attr.handled_access_fs = LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_REFER;
        if (scope && abi >= SCOPE_ABI)
                attr.scoped = SCOPE_ABSTRACT_UNIX_SOCKET | SCOPE_SIGNAL;
        if (!attr.handled_access_fs && !attr.scoped)
                return programs ? -ENOTSUP : 0;
        fd = (int) syscall(SYS_landlock_create_ruleset, &attr, sizeof(attr), 0);
        if (fd < 0)
                return -errno;
        if (attr.handled_access_fs)
                r = add_root(fd, attr.handled_access_fs);
        if (r == 0 && syscall(SYS_landlock_restrict_self, fd, 0) < 0)
                r = -errno;
        if (r < 0)
                return r;
        return programs && !attr.handled_access_fs ? -ENOTSUP : 0;
}

/* Whether a process of the work can change the file: it has our ids. */
static bool is_exposed(int exe, const struct stat *st) {
        return st->st_uid == geteuid() || faccessat(exe, "", W_OK, AT_EMPTY_PATH | AT_EACCESS) == 0;
}

static int memory_file(void) {
        int fd = memfd_create("cofferdam", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_EXEC);

        if (fd < 0 && errno == EINVAL) /* before Linux 6.3 */
                fd = memfd_create("cofferdam", MFD_CLOEXEC | MFD_ALLOW_SEALING);
        return fd < 0 ? -errno : fd;
}

int sealed_copy(int *ret_fd) {
        AUTO_FD int exe = open("/proc/self/exe", O_RDONLY | O_CLOEXEC), copy = -1;
        struct stat st;
        off_t left;

        if (exe < 0)
                return errno == EACCES || errno == ENOENT ? 0 : -errno; /* not ours, or there is no /proc */
        if (fstat(exe, &st) < 0)
                return -errno;
        if (!is_exposed(exe, &st))
                return 0;
        copy = memory_file();
        if (copy < 0)
                return copy;
        for (left = st.st_size; left > 0;) {
                const ssize_t n = sendfile(copy, exe, NULL, (size_t) left);

                if (n <= 0)
                        return n < 0 ? -errno : -EIO;
                left -= n;
        }
        if (fcntl(copy, F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE) < 0)
                return -errno;
        *ret_fd = TAKE_FD(copy);
        return 0;
}

/* @fd to @number, open over execve(2); it is above FIRST_FREE_FD */
static int place(int fd, int number) {
        return dup2(fd, number) < 0 ? -errno : 0;
}

static int profile_file(const struct profile_program *profile) {
        AUTO_FD int fd = memfd_create("profile", MFD_CLOEXEC);
        int r;

        if (fd < 0)
                return -errno;
        r = write_all(fd, profile->insns, profile->len * sizeof(*profile->insns));
        if (r == 0 && lseek(fd, 0, SEEK_SET) < 0)
                r = -errno;
        return r < 0 ? r : TAKE_FD(fd);
}

int sealed_exec(int copy_fd, int sock, const struct profile_program *profile) {
        char word[] = INIT_WORD;
        char *const argv[] = { program_invocation_name, word, NULL }, *const env[] = { NULL };
        AUTO_FD int high = fcntl(sock, F_DUPFD_CLOEXEC, FIRST_FREE_FD), program = profile_file(profile);
        AUTO_FD int above = -1, exe = -1;
        int r;

        if (high < 0 || program < 0)
                return high < 0 ? -EMFILE : program;
        above = fcntl(program, F_DUPFD_CLOEXEC, FIRST_FREE_FD);
        exe = fcntl(copy_fd, F_DUPFD_CLOEXEC, FIRST_FREE_FD);
        if (above < 0 || exe < 0)
                return -errno;
        r = place(high, SOCK_FD);
        if (r == 0)
                r = place(above, PROFILE_FD);
        if (r < 0)
                return r;
        (void) execveat(exe, "", argv, env, AT_EMPTY_PATH);
        return -errno;
}

_Noreturn void native_init(void) {
        const struct proto_event ready = { .type = PROTO_READY };
        struct profile_program profile = { 0 };
        AUTO_BUF struct buf bytes = { 0 };

        if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0 || prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0 ||
            prctl(PR_SET_NAME, "cofferdam-init", 0, 0, 0) < 0 || fcntl(SOCK_FD, F_SETFD, FD_CLOEXEC) < 0 ||
            file_read(PROFILE_FD, PROFILE_BYTES_MAX, &bytes) < 0)
                _exit(1);
        (void) close(PROFILE_FD);
        (void) umask(0);
        profile.insns = (struct sock_filter *) (void *) bytes.data;
        profile.len = bytes.len / sizeof(*profile.insns);
        if (fdpass_send(SOCK_FD, &ready, sizeof(ready), NULL, 0) < 0)
                _exit(1);
        init_serve(SOCK_FD, &profile, NULL);
}
