#include "runtime/run/region.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "fs/names.h"
#include "fs/pin.h"
#include "fs/rules-json.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/escape.h"
#include "runtime/base/sys.h"

void run_region_deinit(struct run_region *region) {
        region->upper_fd = fd_close(region->upper_fd);
        region->lower_fd = fd_close(region->lower_fd);
        region->rules.rules = rules_free(region->rules.rules);
}

/* What the plan has recorded of a source (regions_json() of the driver). @ret: without the path */
static void pin_of(const json_t *row, struct pin *ret) {
        const json_t *owner = json_object_get(row, "owner");

        *ret = (struct pin){
                .fd = -1,
                .dev = (uint64_t) json_integer_value(json_object_get(row, "dev")),
                .ino = (uint64_t) json_integer_value(json_object_get(row, "ino")),
                .btime_ns = json_integer_value(json_object_get(row, "btime_ns")),
                .type = json_is_true(json_object_get(row, "file")) ? S_IFREG : S_IFDIR,
                .owner = owner ? (uid_t) json_integer_value(owner) : (uid_t) -1,
        };
}

bool run_region_changed(const json_t *row, struct pin_change *ret) {
        const char *source = json_string_value(json_object_get(row, "source"));
        AUTO_FREE char *path = source ? strdup(source) : NULL;
        AUTO_FD int fd = -1;
        struct pin pin;
        bool changed;

        if (!path || !json_object_get(row, "ino") || !json_object_get(row, "dev"))
                return false;
        pin_of(row, &pin);
        pin.path = path;
        fd = pin_reopen(&pin, ret);
        changed = fd == -ESTALE;
        if (fd < 0)
                fd = -1;
        return changed;
}

int run_region_source(const json_t *row, bool any, struct error *err) {
        AUTO_FREE char *path = NULL;
        struct pin_change change;
        struct pin pin;
        AUTO_FD int fd = -1;
        int r;

        if (!json_string_value(json_object_get(row, "source")))
                return error_set(err, -EINVAL, "the state of the run names no source");
        path = strdup(json_string_value(json_object_get(row, "source")));
        if (!path)
                return error_set(err, -ENOMEM, "out of memory");
        if (any || !json_object_get(row, "ino") || !json_object_get(row, "dev")) {
                r = fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
                return r < 0 ? error_set(err, -errno, "open '%s': %s", ESC(path), strerror(errno))
                             : TAKE_FD(fd);
        }
        pin_of(row, &pin);
        pin.path = path;
        fd = pin_reopen(&pin, &change);
        if (fd == -ESTALE)
                return error_set(err, -ESTALE,
                                 "'%s' is not the directory that the run worked on: it was replaced: was %s, "
                                 "now: %s",
                                 ESC(path), change.was, change.now);
        r = fd < 0 ? fd : open_beneath(fd, ".", O_RDONLY | O_DIRECTORY, 0);
        return r < 0 ? error_set(err, r, "open '%s': %s", ESC(path), strerror(-r)) : r;
}

static int open_upper(const struct run_dir *dir, uint32_t index, struct error *err) {
        AUTO_NAMES struct names names = { 0 };
        char name[16];
        AUTO_FD int fd = -1;
        int r;

        (void) snprintf(name, sizeof(name), "%" PRIu32, index);
        fd = run_dir_upper(dir, name);
        r = fd < 0 ? fd : names_read(fd, &names);
        if (r == -ENOENT || (r == 0 && names.n == 0))
                return -ENOENT;
        if (r < 0)
                return error_set(err, r, "open what region %" PRIu32 " holds: %s", index, strerror(-r));
        return TAKE_FD(fd);
}

int run_region_open(const struct run_dir *dir, const json_t *row, enum run_source source,
                    struct run_region *ret, struct error *err) {
        AUTO_RUN_REGION struct run_region region = RUN_REGION_INIT;
        const json_int_t index = json_integer_value(json_object_get(row, "index"));
        const char *engine = json_string_value(json_object_get(row, "engine"));
        const char *from = json_string_value(json_object_get(row, "source"));
        const char *target = json_string_value(json_object_get(row, "target"));
        int r;

        if (index < 0 || index > INT32_MAX)
                return error_set(err, -EINVAL, "the state of the run is damaged");
        region.index = (uint32_t) index;
        region.kernel = engine && strcmp(engine, "overlay") == 0;
        region.upper_fd = open_upper(dir, region.index, err);
        if (region.upper_fd < 0 && !(region.upper_fd == -ENOENT && source == RUN_SOURCE_EMPTY))
                return region.upper_fd;
        if (region.upper_fd < 0)
                region.upper_fd = -1;
        region.lower_fd = run_region_source(row, source == RUN_SOURCE_ANY, err);
        if (region.lower_fd < 0 && source != RUN_SOURCE_MAYBE)
                return region.lower_fd;
        if (region.lower_fd < 0)
                region.lower_fd = -1;
        r = rules_from_json(json_object_get(row, "rules"), &region.rules.rules, err);
        if (r < 0)
                return r;
        region.rules.host_root = from && target && strcmp(from, target) == 0 ? from : NULL;
        region.rules.upper_fd = region.upper_fd;
        region.rules.lower_fd = region.lower_fd;
        *ret = TAKE(region, (struct run_region) RUN_REGION_INIT);
        return 0;
}
