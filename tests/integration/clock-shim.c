/* Preloaded into a program under test: its wall clock is what the file CLOCK_FILE says, in seconds since
 * 1970. */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

static time_t told(void) {
        const char *path = getenv("CLOCK_FILE");
        const int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
        char text[32] = "";
        ssize_t n;

        if (fd < 0)
                return 0;
        n = read(fd, text, sizeof(text) - 1);
        (void) close(fd);
        return n > 0 ? (time_t) strtoll(text, NULL, 10) : 0;
}

EXPORT int clock_gettime(clockid_t id, struct timespec *ts) {
        union {
                void *found;
                int (*call)(clockid_t, struct timespec *);
        } real = { .found = dlsym(RTLD_NEXT, "clock_gettime") };

        if (id == CLOCK_REALTIME) {
                *ts = (struct timespec){ .tv_sec = told() };
                return 0;
        }
        return real.call(id, ts);
}

EXPORT time_t time(time_t *ret) {
        const time_t now = told();

        if (ret)
                *ret = now;
        return now;
}

EXPORT int gettimeofday(struct timeval *restrict tv, void *restrict zone) {
        (void) zone;
        *tv = (struct timeval){ .tv_sec = told() };
        return 0;
}
