#include "fs/pin.h"

#include <errno.h>
#include <fcntl.h>
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
                return error_set(err, r, "bind source '%s': %s%s", ESC(path), strerror(-r),
                                 r == -ENOENT ? ": make it, or name another" : "");
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
        struct walk_id id, dir;
        int r;

        r = resolve(path, policy, &at, err);
        if (r < 0)
                return r;
        r = walk_identify(at.fd, &id);
        if (r == 0)
                r = walk_identify(at.dir_fd, &dir);
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
                .dir_dev = dir.dev,
                .dir_ino = dir.ino,
                .btime_ns = id.btime_ns,
                .type = id.mode & S_IFMT,
                .owner = id.owner,
        };
        return 0;
}

/* "directory 12 of device 8:1, mount 7, owner 0, born 1764500000.000000001" */
static void describe(const struct walk_id *id, char out[PIN_TEXT_MAX]) {
        const char *type = S_ISDIR(id->mode) ? "directory" : S_ISREG(id->mode) ? "file" : "special file";

        const int n =
                snprintf(out, PIN_TEXT_MAX, "%s %" PRIu64 " of device %u:%u, mount %" PRIu64 ", owner %u",
                         type, id->ino, major(id->dev), minor(id->dev), id->mnt_id, id->owner);

        if (id->btime_ns)
                (void) snprintf(out + n, PIN_TEXT_MAX - (size_t) n, ", born %" PRId64 ".%09" PRId64,
                                id->btime_ns / 1000000000, id->btime_ns % 1000000000);
}

static struct walk_id pinned_id(const struct pin *pin) {
        return (struct walk_id){ .mnt_id = pin->mnt_id,
                                 .dev = pin->dev,
                                 .ino = pin->ino,
                                 .btime_ns = pin->btime_ns,
                                 .mode = pin->type,
                                 .owner = pin->owner };
}

static bool is_pinned(const struct pin *pin, const struct walk_id *id) {
        return id->mnt_id == pin->mnt_id && id->dev == pin->dev && id->ino == pin->ino &&
               id->btime_ns == pin->btime_ns && (id->mode & S_IFMT) == pin->type && id->owner == pin->owner;
}

/* The errors of a walk that say: what was there is not there any more. */
static bool is_gone(int r) {
        return r == -ENOENT || r == -ENOTDIR || r == -ELOOP || r == -ESTALE || r == -ENAMETOOLONG;
}

/* @now: NULL: there is nothing, @r says why */
static void say_change(const struct pin *pin, const struct walk_id *now, int r, struct pin_change *ret) {
        const struct walk_id was = pinned_id(pin);

        describe(&was, ret->was);
        if (now)
                describe(now, ret->now);
        else
                (void) snprintf(ret->now, sizeof(ret->now), "%s", strerror(-r));
}

int pin_check(const struct pin *pin, struct pin_change *ret) {
        AUTO_WALK struct walk at = WALK_INIT;
        struct walk_id id;
        int r;

        r = walk_path(pin->path, &at);
        if (r == 0)
                r = walk_identify(at.fd, &id);
        if (r < 0 && !is_gone(r))
                return r;
        if (r == 0 && is_pinned(pin, &id))
                return 0;
        say_change(pin, r == 0 ? &id : NULL, r, ret);
        return -ESTALE;
}

int pin_reopen(const struct pin *pin, struct pin_change *ret) {
        AUTO_WALK struct walk at = WALK_INIT;
        struct walk_id id;
        struct pin like = *pin;
        int r;

        r = walk_path(pin->path, &at);
        if (r == 0)
                r = walk_identify(at.fd, &id);
        if (r < 0 && !is_gone(r))
                return r;
        if (r == 0) {
                like.mnt_id = id.mnt_id;
                like.btime_ns = pin->btime_ns && id.btime_ns ? pin->btime_ns : id.btime_ns;
                like.owner = pin->owner == (uid_t) -1 ? id.owner : pin->owner;
                if (is_pinned(&like, &id))
                        return TAKE_FD(at.fd);
        }
        say_change(&like, r == 0 ? &id : NULL, r, ret);
        return -ESTALE;
}

static bool is_successor(const struct pin *pin, const struct walk *at, const struct walk_id *id,
                         const struct walk_id *dir) {
        return S_ISREG(pin->type) && S_ISREG(id->mode) && id->links == 1 && id->owner == pin->owner &&
               id->mnt_id == pin->mnt_id && dir->dev == pin->dir_dev && dir->ino == pin->dir_ino &&
               strcmp(at->real, pin->real) == 0;
}

int pin_follow(struct pin *pin, const struct pin_policy *policy) {
        AUTO_WALK struct walk at = WALK_INIT;
        struct walk_id id, dir;
        int r;

        r = walk_path(pin->path, &at);
        if (r == 0)
                r = walk_identify(at.fd, &id);
        if (r == 0)
                r = walk_identify(at.dir_fd, &dir);
        if (r == 0 && !is_successor(pin, &at, &id, &dir))
                r = -ESTALE;
        if (r == 0)
                r = sensitive_check(pin->path, &at, &id, policy, NULL);
        if (r < 0)
                return is_gone(r) || r == -EPERM ? -ESTALE : r;
        if (dup3(at.fd, pin->fd, O_CLOEXEC) < 0)
                return -errno;
        pin->dev = id.dev;
        pin->ino = id.ino;
        pin->btime_ns = id.btime_ns;
        return 0;
}

void pin_deinit(struct pin *pin) {
        pin->fd = fd_close(pin->fd);
        free(pin->path);
        free(pin->real);
        pin->path = NULL;
        pin->real = NULL;
}
