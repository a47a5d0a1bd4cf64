#include "runtime/base/caps.h"

#include <errno.h>
#include <linux/capability.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

int caps_keep(uint64_t mask) {
        struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
        struct __user_cap_data_struct have[2], left[2] = { 0 };

        (void) prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
        for (unsigned long cap = 0; cap < 64; cap++)
                if (prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) < 0)
                        break; /* EINVAL: beyond the last one; EPERM: without CAP_SETPCAP, see below */
        if (syscall(SYS_capget, &head, have) < 0)
                return -errno;
        for (int i = 0; i < 2; i++)
                left[i].permitted = left[i].effective =
                        have[i].permitted & (uint32_t) (mask >> (32 * (unsigned int) i));
        return syscall(SYS_capset, &head, left) < 0 ? -errno : 0;
}
