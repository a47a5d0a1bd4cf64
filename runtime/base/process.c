#include "runtime/base/process.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "runtime/base/file.h"
#include "runtime/base/parse.h"

enum { STAT_MAX_BYTES = 4096, START_TIME_FIELD = 22 };

int process_start_time(pid_t pid, uint64_t *ret) {
        AUTO_BUF struct buf stat = { 0 };
        char path[32];
        char *p;
        int r;

        (void) snprintf(path, sizeof(path), "/proc/%d/stat", (int) pid);
        r = file_read_at(AT_FDCWD, path, STAT_MAX_BYTES, &stat);
        if (r < 0)
                return r == -ENOENT ? -ESRCH : r;
        p = strrchr(stat.data, ')'); /* the name (field 2) may hold anything */
        if (p && (strncmp(p, ") Z", 3) == 0 || strncmp(p, ") X", 3) == 0))
                return -ESRCH; /* dead: whoever should wait for it is late */
        for (int field = 2; p && field < START_TIME_FIELD; field++) {
                p = strchr(p, ' ');
                if (p)
                        p++;
        }
        if (!p)
                return -EINVAL;
        p[strcspn(p, " ")] = '\0';
        return parse_u64(p, 0, UINT64_MAX, ret);
}

int process_boot_id(char ret[BOOT_ID_SIZE]) {
        AUTO_BUF struct buf text = { 0 };
        const int r = file_read_at(AT_FDCWD, "/proc/sys/kernel/random/boot_id", STAT_MAX_BYTES, &text);

        if (r < 0)
                return r;
        (void) snprintf(ret, BOOT_ID_SIZE, "%s", text.data);
        ret[strcspn(ret, "\n")] = '\0';
        return 0;
}
