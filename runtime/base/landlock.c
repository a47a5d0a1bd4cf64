#include "runtime/base/landlock.h"

#include <errno.h>
#include <linux/landlock.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "runtime/base/cleanup.h"

/* linux/landlock.h of 6.1 ends at REFER */
#ifndef LANDLOCK_ACCESS_FS_TRUNCATE
#define LANDLOCK_ACCESS_FS_TRUNCATE (1ULL << 14)
#endif
#ifndef LANDLOCK_ACCESS_FS_IOCTL_DEV
#define LANDLOCK_ACCESS_FS_IOCTL_DEV (1ULL << 15)
#endif
enum { ABI_REFER = 2, ABI_TRUNCATE = 3, ABI_NET = 4, ABI_IOCTL = 5, ABI_SCOPE = 6 };
enum { NET_BIND_TCP = 1, NET_CONNECT_TCP = 2, SCOPE_ABSTRACT_UNIX_SOCKET = 1, SCOPE_SIGNAL = 2 };

/* the whole of it, as of ABI 6; an older kernel takes a shorter one */
struct ruleset {
        uint64_t fs, net, scoped;
};

#define READ_FILES  (LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR)
#define WRITE_FILES (LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_TRUNCATE)
#define CHANGE_DIRS                                                                                     \
        (LANDLOCK_ACCESS_FS_REMOVE_DIR | LANDLOCK_ACCESS_FS_REMOVE_FILE | LANDLOCK_ACCESS_FS_MAKE_DIR | \
         LANDLOCK_ACCESS_FS_MAKE_REG | LANDLOCK_ACCESS_FS_MAKE_SOCK | LANDLOCK_ACCESS_FS_MAKE_FIFO |    \
         LANDLOCK_ACCESS_FS_MAKE_SYM | LANDLOCK_ACCESS_FS_REFER)
#define NEVER (LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_MAKE_CHAR | LANDLOCK_ACCESS_FS_MAKE_BLOCK)
#define OF_A_FILE                                                                    \
        (LANDLOCK_ACCESS_FS_READ_FILE | WRITE_FILES | LANDLOCK_ACCESS_FS_IOCTL_DEV | \
         LANDLOCK_ACCESS_FS_EXECUTE)

static const uint64_t rights[LANDLOCK_USE_COUNT] = {
        [LANDLOCK_READ] = READ_FILES,
        [LANDLOCK_CHANGE] = READ_FILES | WRITE_FILES | CHANGE_DIRS,
        [LANDLOCK_LAYER] = READ_FILES | WRITE_FILES | CHANGE_DIRS | LANDLOCK_ACCESS_FS_MAKE_CHAR,
        [LANDLOCK_RUN] = READ_FILES | LANDLOCK_ACCESS_FS_EXECUTE,
        [LANDLOCK_WORK] = READ_FILES | WRITE_FILES | CHANGE_DIRS | LANDLOCK_ACCESS_FS_EXECUTE,
        [LANDLOCK_DEVICE] = OF_A_FILE & ~LANDLOCK_ACCESS_FS_TRUNCATE,
};

/* what the kernel can judge: everything it knows is refused where it was not given */
static struct ruleset handled(long abi, bool connects) {
        struct ruleset set = { .fs = READ_FILES | LANDLOCK_ACCESS_FS_WRITE_FILE | CHANGE_DIRS | NEVER };

        if (abi >= ABI_TRUNCATE)
                set.fs |= LANDLOCK_ACCESS_FS_TRUNCATE;
        if (abi >= ABI_NET)
                set.net = NET_BIND_TCP | (connects ? 0U : NET_CONNECT_TCP);
        if (abi >= ABI_IOCTL)
                set.fs |= LANDLOCK_ACCESS_FS_IOCTL_DEV;
        if (abi >= ABI_SCOPE)
                set.scoped = SCOPE_ABSTRACT_UNIX_SOCKET | SCOPE_SIGNAL;
        return set;
}

static size_t ruleset_size(long abi) {
        if (abi >= ABI_SCOPE)
                return sizeof(struct ruleset);
        return abi >= ABI_NET ? offsetof(struct ruleset, scoped) : offsetof(struct ruleset, net);
}

static int add_place(int set_fd, uint64_t known, const struct landlock_place *place) {
        struct landlock_path_beneath_attr rule = { .allowed_access = rights[place->use] & known,
                                                   .parent_fd = place->fd };
        struct stat st;

        if (place->fd < 0)
                return 0;
        if (fstat(place->fd, &st) < 0)
                return -errno;
        if (!S_ISDIR(st.st_mode))
                rule.allowed_access &= OF_A_FILE;
        return syscall(SYS_landlock_add_rule, set_fd, LANDLOCK_RULE_PATH_BENEATH, &rule, 0) < 0 ? -errno : 0;
}

int landlock_confine(const struct landlock_place *places, size_t n, bool connects) {
        const long abi = syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
        const struct ruleset set = handled(abi, connects);
        AUTO_FD int fd = -1;
        int r = 0;

        if (abi < ABI_REFER)
                return -ENOTSUP;
        fd = (int) syscall(SYS_landlock_create_ruleset, &set, ruleset_size(abi), 0);
        if (fd < 0)
                return -errno;
        for (size_t i = 0; r == 0 && i < n; i++)
                r = add_place(fd, set.fs, &places[i]);
        if (r < 0)
                return r;
        if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
                return -errno;
        return syscall(SYS_landlock_restrict_self, fd, 0) < 0 ? -errno : 0;
}
