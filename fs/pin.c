#include "fs/pin.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "fs/sensitive.h"
#include "fs/walk.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/escape.h"
#include "runtime/base/path.h"

static int resolve(const char *path, const struct pin_policy *policy, struct walk *ret, struct error *err) {
        AUTO_WALK struct walk at = WALK_INIT;
        int r;

        if (*path != '/')
                return error_set(err, -EINVAL, "bind source '%s' is not absolute", ESC(path));
        r = walk_path(path, &at);
        if (r < 0)
                return error_set(err, r, "bind source '%s': %s", ESC(path), strerror(-r));
        if (policy->beneath && at.links > 0 && !path_below(at.real, policy->beneath))
                return error_set(
                        err, -ELOOP,
                        "bind source '%s' is refused: a symlink leads to '%s', out of '%s'; name the "
                        "place itself",
                        ESC(path), ESC(at.real), ESC(policy->beneath));
        *ret = TAKE(at, (struct walk) WALK_INIT);
        return 0;
}

int pin_open(const char *path, const struct pin_policy *policy, struct pin *ret, struct error *err) {
        AUTO_WALK struct walk at = WALK_INIT;
        AUTO_FREE char *copy = NULL;
        struct walk_id id;
        int r;

        r = resolve(path, policy, &at, err);
        if (r < 0)
                return r;
        r = walk_identify(at.fd, &id);
        if (r < 0)
                return error_set(err, r, "bind source '%s': %s", ESC(path), strerror(-r));
        r = sensitive_check(path, &at, &id, policy, err);
        if (r < 0)
                return r;
        copy = strdup(path);
        if (!copy)
                return error_set(err, -ENOMEM, "out of memory");
        *ret = (struct pin){
                .fd = TAKE_FD(at.fd),
                .path = TAKE_PTR(copy),
                .real = TAKE_PTR(at.real),
                .mnt_id = id.mnt_id,
                .dev = id.dev,
                .ino = id.ino,
                .btime_ns = id.btime_ns,
                .type = id.mode & S_IFMT,
                .owner = id.owner,
        };
        return 0;
}

/* "directory 12 of device 8:1, mount 7" */
static const char *describe(mode_t type, uint64_t ino, uint64_t dev, uint64_t mnt_id, char *out,
                            size_t size) {
        (void) snprintf(out, size, "%s %" PRIu64 " of device %u:%u, mount %" PRIu64,
                        S_ISDIR(type) ? "directory" : (S_ISREG(type) ? "file" : "special file"), ino,
                        major(dev), minor(dev), mnt_id);
        return out;
}

int pin_check(const struct pin *pin, struct error *err) {
        AUTO_WALK struct walk at = WALK_INIT;
        char was[128], now[128];
        struct walk_id id;
        int r;

        (void) describe(pin->type, pin->ino, pin->dev, pin->mnt_id, was, sizeof(was));
        r = walk_path(pin->path, &at);
        if (r == 0)
                r = walk_identify(at.fd, &id);
        if (r < 0)
                return error_set(err, -ESTALE, "bind source '%s' changed: was %s, now: %s", ESC(pin->path),
                                 was, strerror(-r));
        if (id.mnt_id == pin->mnt_id && id.dev == pin->dev && id.ino == pin->ino &&
            id.btime_ns == pin->btime_ns && (id.mode & S_IFMT) == pin->type)
                return 0;
        return error_set(err, -ESTALE, "bind source '%s' changed: was %s, is %s", ESC(pin->path), was,
                         describe(id.mode, id.ino, id.dev, id.mnt_id, now, sizeof(now)));
}

void pin_deinit(struct pin *pin) {
        pin->fd = fd_close(pin->fd);
        free(pin->path);
        free(pin->real);
        pin->path = NULL;
        pin->real = NULL;
}
