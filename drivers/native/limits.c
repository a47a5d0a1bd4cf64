#include "drivers/native/limits.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "runtime/base/cleanup.h"
#include "runtime/base/file.h"

enum { SELF_MAX_BYTES = 65536 };

static const char cgroup_root[] = "/sys/fs/cgroup";

/* "1.5" as thousandths; check_cpus() has seen it. */
static uint64_t milli_of(const char *cpus) {
        const char *dot = strchr(cpus, '.');
        uint64_t n = strtoull(cpus, NULL, 10) * 1000, unit = 100;

        for (const char *p = dot ? dot + 1 : ""; *p; p++, unit /= 10)
                n += (uint64_t) (*p - '0') * unit;
        return n;
}

int limits_plan(const struct spec *spec, struct native_limits *ret, struct error *err) {
        struct rlimit files;

        *ret = (struct native_limits){
                .group = { .memory_bytes = spec->limits.memory,
                           .pids = spec->limits.pids,
                           .cpu_milli = spec->limits.cpus ? milli_of(spec->limits.cpus) : 0 },
                .open_files = spec->limits.open_files,
                .file_size = spec->limits.file_size,
                .degrade = spec->isolation == ISOLATION_DEGRADE,
        };
        if (ret->open_files == 0 || getrlimit(RLIMIT_NOFILE, &files) < 0 || ret->open_files <= files.rlim_max)
                return 0;
        return error_set(err, -EINVAL,
                         "limits.open_files: %" PRIu64 " is more than your own hard limit, %" PRIu64
                         " ('ulimit -Hn')",
                         ret->open_files, (uint64_t) files.rlim_max);
}

/* Without a group: what rlimits can do, when that was asked for or is as good. */
static int weaker(struct limits *l, struct error *err) {
        const struct cgroup_limits *g = &l->wanted->group;
        const char *key = g->memory_bytes ? "memory" : g->cpu_milli ? "cpus" : "pids";

        /* a rlimit counts in the sandbox's own user namespace since Linux 5.14, but never the host's root */
        l->weak_pids = g->pids != 0;
        l->weak_memory = g->memory_bytes != 0;
        l->weak_cpus = g->cpu_milli != 0;
        if (l->wanted->degrade || (!l->weak_memory && !l->weak_cpus && getuid() != 0))
                return 0;
        return error_set(err, -ENOTSUP,
                         "limits.%s: %s; use 'systemd-run --user --scope -p Delegate=yes cofferdam ...', or "
                         "--isolation degrade for a limit of each process",
                         key, l->why);
}

int limits_open(const struct native_limits *wanted, const char *run_id, struct limits *ret,
                struct error *err) {
        AUTO_BUF struct buf self = { 0 };
        struct error why = { 0 };
        int r;

        ret->wanted = wanted;
        if (wanted->engine ||
            (!wanted->group.memory_bytes && !wanted->group.pids && !wanted->group.cpu_milli))
                return 0;
        r = wanted->no_cgroup ? -ENOENT : file_read_at(AT_FDCWD, "/proc/self/cgroup", SELF_MAX_BYTES, &self);
        if (r == 0)
                r = cgroup_make(cgroup_root, buf_cstr(&self), &wanted->group, run_id, &ret->cgroup, &why);
        if (r == 0)
                return 0;
        (void) snprintf(ret->why, sizeof(ret->why), "%s", why.code ? why.msg : strerror(-r));
        return weaker(ret, err);
}

static int lower(int resource, const char *what, uint64_t value, struct error *err) {
        const struct rlimit limit = { value, value };

        if (value == 0 || setrlimit((enum __rlimit_resource) resource, &limit) == 0)
                return 0;
        return error_set(err, -errno, "limit of %s: %s", what, strerror(errno));
}

/* The first processors of those the caller may use. */
static int fewer_processors(uint64_t milli, struct error *err) {
        const uint64_t want = (milli + 999) / 1000;
        cpu_set_t have, set;

        CPU_ZERO(&set);
        if (sched_getaffinity(0, sizeof(have), &have) < 0)
                return error_set(err, -errno, "processors: %s", strerror(errno));
        for (size_t i = 0; i < CPU_SETSIZE && (uint64_t) CPU_COUNT(&set) < want; i++)
                if (CPU_ISSET(i, &have))
                        CPU_SET(i, &set);
        if (sched_setaffinity(0, sizeof(set), &set) < 0)
                return error_set(err, -errno, "processors: %s", strerror(errno));
        return 0;
}

int limits_inherit(const struct limits *l, struct error *err) {
        const struct native_limits *w = l->wanted;
        int r;

        r = lower(RLIMIT_NOFILE, "open files", w->open_files, err);
        if (r == 0)
                r = lower(RLIMIT_FSIZE, "file size", w->file_size, err);
        if (r == 0 && l->weak_memory)
                r = lower(RLIMIT_DATA, "memory", w->group.memory_bytes, err);
        if (r == 0 && l->weak_pids)
                r = lower(RLIMIT_NPROC, "processes", w->group.pids, err);
        if (r == 0 && l->weak_cpus)
                r = fewer_processors(w->group.cpu_milli, err);
        return r;
}

static void add(json_t *limits, const char *key, uint64_t value, const char *by) {
        if (value)
                (void) json_object_set_new(limits, key,
                                           json_pack("{s:I,s:s}", "value", (json_int_t) value, "by", by));
}

static void add_degraded(const struct limits *l, json_t *list, bool weak, const char *wanted,
                         const char *got) {
        if (weak && l->wanted->degrade && !l->wanted->no_cgroup) /* else the plan has said it */
                (void) json_array_append_new(
                        list, json_pack("{s:s,s:s,s:s}", "wanted", wanted, "got", got, "reason", l->why));
}

json_t *limits_report(const struct limits *l) {
        static const char *const groups[] = { "", "cgroup v1", "cgroup v2" };
        const struct native_limits *w = l->wanted;
        const char *group = w->engine ? w->engine : groups[l->cgroup.version];
        json_t *limits, *paths, *degraded;

        if (!w->group.memory_bytes && !w->group.pids && !w->group.cpu_milli && !w->open_files &&
            !w->file_size)
                return NULL;
        limits = json_object();
        paths = json_array();
        degraded = json_array();
        add(limits, "memory", w->group.memory_bytes, l->weak_memory ? "rlimit of each process" : group);
        add(limits, "pids", w->group.pids, l->weak_pids ? "rlimit" : group);
        add(limits, "cpu_milli", w->group.cpu_milli, l->weak_cpus ? "affinity" : group);
        add(limits, "open_files", w->open_files, "rlimit of each process");
        add(limits, "file_size", w->file_size, "rlimit of each process");
        for (int i = 0; i < CGROUP_CONTROLLER_COUNT; i++)
                if (l->cgroup.dirs[i].parent_fd >= 0)
                        (void) json_array_append_new(paths, json_string(l->cgroup.dirs[i].path));
        add_degraded(l, degraded, l->weak_memory, "limits.memory of all processes together",
                     "a limit of each process's data");
        add_degraded(l, degraded, l->weak_cpus, "limits.cpus", "as many processors, rounded up");
        add_degraded(l, degraded, l->weak_pids && getuid() == 0, "limits.pids",
                     "none: root's are not counted");
        return json_pack("{s:o,s:o,s:o}", "limits", limits, "cgroups", paths, "degraded", degraded);
}

void limits_close(struct limits *l) {
        cgroup_remove(&l->cgroup);
}

void limits_reap(const char *run_id) {
        AUTO_BUF struct buf self = { 0 };

        if (file_read_at(AT_FDCWD, "/proc/self/cgroup", SELF_MAX_BYTES, &self) == 0)
                cgroup_reap_run(cgroup_root, buf_cstr(&self), run_id);
}
