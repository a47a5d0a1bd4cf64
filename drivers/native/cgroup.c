#include "drivers/native/cgroup.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "runtime/base/cleanup.h"
#include "runtime/base/escape.h"
#include "runtime/base/file.h"

enum { CPU_PERIOD_US = 100000, FILE_MAX_BYTES = 65536, REMOVE_STEP_MS = 5, REMOVE_STEPS = 200 };

static const char *const controllers[CGROUP_CONTROLLER_COUNT] = { "memory", "pids", "cpu" };

static bool wants(const struct cgroup_limits *l, int controller) {
        const uint64_t wanted[CGROUP_CONTROLLER_COUNT] = { l->memory_bytes, l->pids, l->cpu_milli };

        return wanted[controller] != 0;
}

/* The caller's group of the line of @self whose controllers are @which ("": version 2). Return: owned, NULL.
 */
static char *own_path(const char *self, const char *which) {
        for (const char *line = self; *line; line += strcspn(line, "\n"), line += *line == '\n') {
                const char *list = strchr(line, ':'), *path = list ? strchr(list + 1, ':') : NULL;
                const size_t n = strlen(which);

                if (!path)
                        continue;
                for (const char *p = ++list; p < path; p += strcspn(p, ",:") + 1)
                        if (strncmp(p, which, n) == 0 && (p[n] == ',' || p[n] == ':'))
                                return strndup(path + 1, strcspn(path + 1, "\n"));
                if (n == 0 && list == path)
                        return strndup(path + 1, strcspn(path + 1, "\n"));
        }
        return NULL;
}

static int put(int dir_fd, const char *file, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
static int put(int dir_fd, const char *file, const char *fmt, ...) {
        char text[96];
        va_list args;

        va_start(args, fmt);
        (void) vsnprintf(text, sizeof(text), fmt, args);
        va_end(args);
        return file_put(dir_fd, file, text);
}

/* The word @key of a "key value" file, or the file's first number when @key is NULL; 0: not there. */
static uint64_t number(int dir_fd, const char *file, const char *key) {
        AUTO_BUF struct buf text = { 0 };
        const char *p;

        if (dir_fd < 0 || file_read_at(dir_fd, file, FILE_MAX_BYTES, &text) < 0)
                return 0;
        p = buf_cstr(&text);
        if (key) {
                const size_t n = strlen(key);

                while (*p && !(strncmp(p, key, n) == 0 && p[n] == ' '))
                        p += strcspn(p, "\n"), p += *p == '\n';
                p += *p ? n : 0;
        }
        return strtoull(p, NULL, 10);
}

static bool has_word(int dir_fd, const char *file, const char *word) {
        AUTO_BUF struct buf text = { 0 };
        const size_t n = strlen(word);
        const char *p;

        if (file_read_at(dir_fd, file, FILE_MAX_BYTES, &text) < 0)
                return false;
        for (p = buf_cstr(&text); *p; p += strcspn(p, " \n"), p += strspn(p, " \n"))
                if (strncmp(p, word, n) == 0 && (p[n] == ' ' || p[n] == '\n' || !p[n]))
                        return true;
        return false;
}

/* Makes the group in the directory @path; takes it into @cg as number @i. */
static int make_dir(struct cgroup *cg, size_t i, const char *path) {
        AUTO_FD int parent = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC), fd = -1;

        if (parent < 0 || mkdirat(parent, cg->name, 0755) < 0)
                return -errno;
        fd = openat(parent, cg->name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (fd < 0)
                return -errno;
        (void) snprintf(cg->dirs[i].path, sizeof(cg->dirs[i].path), "%s/%s", path, cg->name);
        cg->dirs[i].parent_fd = TAKE_FD(parent);
        cg->dirs[i].fd = TAKE_FD(fd);
        return 0;
}

/* ---- version 2 ---- */

/* Whether children of the group @path get what is wanted, or can be made to: then it is switched on. */
static bool gives(const char *path, const struct cgroup_limits *limits) {
        AUTO_FD int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

        if (fd < 0)
                return false;
        for (int i = 0; i < CGROUP_CONTROLLER_COUNT; i++)
                if (wants(limits, i) && !has_word(fd, "cgroup.subtree_control", controllers[i]) &&
                    put(fd, "cgroup.subtree_control", "+%s", controllers[i]) < 0)
                        return false;
        return true;
}

/* Whether only this process and its parent are in the group; a controller cannot be given on from a group
 * with processes, so these move into one of their own. */
static bool step_aside(const char *path) {
        AUTO_BUF struct buf text = { 0 };
        AUTO_FD int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC), leaf = -1;
        char *end;

        if (fd < 0 || file_read_at(fd, "cgroup.procs", FILE_MAX_BYTES, &text) < 0)
                return false;
        for (const char *p = buf_cstr(&text); *p; p = end + (*end == '\n')) {
                const unsigned long pid = strtoul(p, &end, 10);

                if (end == p || (pid != (unsigned long) getpid() && pid != (unsigned long) getppid()))
                        return false;
        }
        if (mkdirat(fd, "cofferdam", 0755) < 0 && errno != EEXIST)
                return false;
        leaf = openat(fd, "cofferdam", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        for (const char *p = buf_cstr(&text); leaf >= 0 && *p; p = end + (*end == '\n')) {
                const unsigned long pid = strtoul(p, &end, 10);

                if (put(leaf, "cgroup.procs", "%lu", pid) < 0)
                        return false;
        }
        return leaf >= 0;
}

static int limit_v2(const struct cgroup *cg, const struct cgroup_limits *l) {
        const int fd = cg->dirs[0].fd;
        int r = 0;

        if (l->memory_bytes) {
                r = put(fd, "memory.max", "%" PRIu64, l->memory_bytes);
                (void) put(fd, "memory.swap.max",
                           "0"); /* a kernel without swap accounting has no such file */
        }
        if (r == 0 && l->pids)
                r = put(fd, "pids.max", "%" PRIu64, l->pids);
        if (r == 0 && l->cpu_milli)
                r = put(fd, "cpu.max", "%" PRIu64 " %d", l->cpu_milli * (CPU_PERIOD_US / 1000),
                        CPU_PERIOD_US);
        return r;
}

static int make_v2(const char *root, const char *self, const struct cgroup_limits *limits,
                   struct cgroup *cg) {
        static const char *const mounts[] = { "", "/unified" };
        AUTO_FREE char *own = own_path(self, "");
        char path[480];
        int r = -ENOENT;

        for (size_t i = 0; own && *own == '/' && r < 0 && i < ARRAY_SIZE(mounts); i++) {
                char *slash;

                (void) snprintf(path, sizeof(path), "%s%s/cgroup.controllers", root, mounts[i]);
                if (access(path, F_OK) < 0)
                        continue;
                (void) snprintf(path, sizeof(path), "%s%s%s", root, mounts[i], own[1] ? own : "");
                slash = strrchr(path, '/');
                if (own[1]) { /* beside the caller's, where systemd delegates it */
                        *slash = '\0';
                        r = gives(path, limits) ? make_dir(cg, 0, path) : -ENOTSUP;
                        *slash = '/';
                }
                if (r < 0 && (gives(path, limits) || (step_aside(path) && gives(path, limits))))
                        r = make_dir(cg, 0, path);
        }
        if (r == 0) {
                cg->version = 2;
                r = limit_v2(cg, limits);
        }
        return r;
}

/* ---- version 1 ---- */

static int limit_v1(int fd, int controller, const struct cgroup_limits *l) {
        int r = 0;

        switch ((enum cgroup_controller) controller) {
        case CGROUP_MEMORY:
                r = put(fd, "memory.limit_in_bytes", "%" PRIu64, l->memory_bytes);
                (void) put(fd, "memory.memsw.limit_in_bytes", "%" PRIu64,
                           l->memory_bytes); /* may be switched off */
                break;
        case CGROUP_PIDS:
                r = put(fd, "pids.max", "%" PRIu64, l->pids);
                break;
        case CGROUP_CPU:
                r = put(fd, "cpu.cfs_period_us", "%d", CPU_PERIOD_US);
                if (r == 0)
                        r = put(fd, "cpu.cfs_quota_us", "%" PRIu64, l->cpu_milli * (CPU_PERIOD_US / 1000));
                break;
        case CGROUP_CONTROLLER_COUNT:
                break;
        }
        return r;
}

static int make_v1(const char *root, const char *self, const struct cgroup_limits *limits,
                   struct cgroup *cg) {
        int r = 0;

        for (int i = 0; r == 0 && i < CGROUP_CONTROLLER_COUNT; i++) {
                AUTO_FREE char *own = own_path(self, controllers[i]);
                char path[480];

                if (!wants(limits, i))
                        continue;
                if (!own || *own != '/')
                        return -ENOENT;
                (void) snprintf(path, sizeof(path), "%s/%s%s", root, controllers[i], own[1] ? own : "");
                r = make_dir(cg, (size_t) i, path);
                if (r == 0)
                        cg->version = 1;
                if (r == 0)
                        r = limit_v1(cg->dirs[i].fd, i, limits);
        }
        return r;
}

/* ---- both ---- */

int cgroup_make(const char *root, const char *self, const struct cgroup_limits *limits, const char *run_id,
                struct cgroup *ret, struct error *err) {
        struct cgroup cg = CGROUP_INIT;
        int r, first;

        (void) snprintf(cg.name, sizeof(cg.name), "cofferdam-%s", run_id);
        first = r = make_v2(root, self, limits, &cg);
        if (r < 0 && cg.version == 0)
                r = make_v1(root, self, limits, &cg);
        if (r == 0) {
                *ret = cg;
                return 0;
        }
        cgroup_remove(&cg);
        return error_set(err, -ENOTSUP,
                         "no control group can be used below '%s': version 2: %s; version 1: %s", ESC(root),
                         strerror(-first), strerror(-r));
}

int cgroup_watch(const char *root, const char *self, struct cgroup *ret) {
        AUTO_FREE char *v1 = own_path(self, controllers[CGROUP_MEMORY]), *v2 = own_path(self, "");
        const char *const own = v1 ? v1 : v2;
        char path[600];
        int fd;

        if (!own || !own[1]) /* the root is everybody's */
                return -ENOENT;
        (void) snprintf(path, sizeof(path), "%s%s%s", root, v1 ? "/memory" : "", own);
        fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (fd < 0)
                return -errno;
        ret->version = v1 ? 1 : 2;
        ret->dirs[CGROUP_MEMORY].fd = fd;
        return 0;
}

int cgroup_enter(const struct cgroup *cg, pid_t pid) {
        int r = 0;

        for (int i = 0; r == 0 && i < CGROUP_CONTROLLER_COUNT; i++)
                if (cg->dirs[i].fd >= 0)
                        r = put(cg->dirs[i].fd, "cgroup.procs", "%d", (int) pid);
        return r;
}

struct cgroup_usage cgroup_usage(const struct cgroup *cg) {
        const int fd = cg->dirs[CGROUP_MEMORY].fd;
        struct cgroup_usage usage = { 0 };

        if (cg->version == 2) {
                usage.peak_bytes = number(fd, "memory.peak", NULL); /* Linux 5.19 */
                usage.oom_kills = number(fd, "memory.events", "oom_kill");
        } else if (cg->version == 1) {
                usage.peak_bytes = number(fd, "memory.max_usage_in_bytes", NULL);
                usage.oom_kills = number(fd, "memory.oom_control", "oom_kill"); /* Linux 4.13 */
        }
        return usage;
}

/* The last process may need a moment more to be gone than to be reaped. */
static int remove_dir(int parent_fd, const char *name) {
        const struct timespec step = { .tv_nsec = REMOVE_STEP_MS * 1000000L };

        for (int i = 0; i < REMOVE_STEPS; i++) {
                if (unlinkat(parent_fd, name, AT_REMOVEDIR) == 0)
                        return 0;
                if (errno != EBUSY)
                        return -errno;
                (void) nanosleep(&step, NULL);
        }
        return -EBUSY;
}

void cgroup_remove(struct cgroup *cg) {
        for (int i = 0; i < CGROUP_CONTROLLER_COUNT; i++) {
                if (cg->dirs[i].parent_fd >= 0)
                        (void) remove_dir(cg->dirs[i].parent_fd, cg->name); /* what is left, gc finds */
                cg->dirs[i].fd = fd_close(cg->dirs[i].fd);
                cg->dirs[i].parent_fd = fd_close(cg->dirs[i].parent_fd);
        }
        cg->version = 0;
}

int cgroup_reap(const char *path) {
        return remove_dir(AT_FDCWD, path);
}

/* Removes the group @name beside and below the group @own (NULL: none) of the hierarchy @root/@mount. */
static void reap_near(const char *root, const char *mount, const char *own, const char *name) {
        char path[600];
        char *slash;
        int n;

        if (!own)
                return;
        n = snprintf(path, sizeof(path), "%s%s%s/%s", root, mount, own[1] ? own : "", name);
        if (n < 0 || (size_t) n >= sizeof(path))
                return;
        (void) !cgroup_reap(path);
        slash = strrchr(path, '/');
        *slash = '\0';
        slash = own[1] ? strrchr(path, '/') : NULL;
        if (!slash)
                return;
        (void) snprintf(slash, sizeof(path) - (size_t) (slash - path), "/%s", name);
        (void) !cgroup_reap(path);
}

void cgroup_reap_run(const char *root, const char *self, const char *run_id) {
        char name[sizeof(((struct cgroup *) 0)->name)];

        (void) snprintf(name, sizeof(name), "cofferdam-%s", run_id);
        for (int i = 0; i < CGROUP_CONTROLLER_COUNT; i++) {
                AUTO_FREE char *own = own_path(self, controllers[i]);
                char mount[16];

                (void) snprintf(mount, sizeof(mount), "/%s", controllers[i]);
                reap_near(root, mount, own, name);
        }
        for (int i = 0; i < 2; i++) {
                AUTO_FREE char *own = own_path(self, "");

                reap_near(root, i == 0 ? "" : "/unified", own, name);
        }
}
