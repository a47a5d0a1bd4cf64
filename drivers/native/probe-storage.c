/*
 * probe-storage.c - where container engines keep images, and what room there is
 *
 * podman is not asked: podman of a user leaves a process behind. Its files say the same: storage.conf where
 * the store is, and the names of directories in the store what made them.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "drivers/native/probe-kit.h"
#include "runtime/base/buf.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/escape.h"
#include "runtime/base/file.h"

enum { CONF_MAX = 256 << 10, LITTLE_MIB = 1024, LITTLE_INODES = 10000, DRIVER_MAX = 32 };

void probe_store(const char *driver, const char *place, struct probe_result *ret) {
        char name[DRIVER_MAX * 4], at[160];
        struct statvfs fs;
        const int r = statvfs(place, &fs) < 0 ? -errno : 0;
        const unsigned long long mib = r < 0 ? 0 : (unsigned long long) fs.f_bavail * fs.f_frsize >> 20;

        (void) escape_str(driver, name, sizeof(name));
        (void) escape_str(place, at, sizeof(at));
        if (strcmp(driver, "vfs") == 0)
                result_fact(ret, -EOPNOTSUPP, "vfs at %.50s: each container copies its image", at);
        else if (r == -ENOENT)
                result_note(ret, "%.32s at %.50s, which is not here", name, at);
        else if (r < 0)
                result_failed(ret, r, "statvfs %.50s", at);
        else if (mib < LITTLE_MIB)
                result_fact(ret, -ENOSPC, "%.50s: only %llu MiB free", at, mib);
        else if (fs.f_files > 0 && fs.f_favail < LITTLE_INODES)
                result_fact(ret, -ENOSPC, "%.50s: only %llu inodes free", at,
                            (unsigned long long) fs.f_favail);
        else
                result_note(ret, "%.32s at %.50s, %llu MiB free", name, at, mib);
}

/* ---- podman ---- */

/** struct store - what its configuration says; "" where nothing does */
struct store {
        char driver[DRIVER_MAX], root[PATH_MAX], rootless_root[PATH_MAX];
};

/* The value of a line `KEY = "VALUE"`. Return: whether it is one. */
static bool take_value(const char *line, const char *key, char *ret, size_t size) {
        const size_t n = strlen(key);
        const char *p = line + strspn(line, " \t");
        size_t len;

        if (strncmp(p, key, n) != 0 || p[n + strspn(p + n, " \t")] != '=')
                return false;
        p += n + strspn(p + n, " \t") + 1;
        p += strspn(p, " \t\"'");
        len = strcspn(p, "\"'#\r\n");
        if (len > 0 && len < size)
                (void) snprintf(ret, size, "%.*s", (int) len, p);
        return true;
}

/* Each key is of one section only. Return: whether there is such a file. */
static bool read_conf(const char *path, struct store *store) {
        AUTO_BUF struct buf text = { 0 };

        if (file_read_at(AT_FDCWD, path, CONF_MAX, &text) < 0)
                return false;
        for (const char *line = buf_cstr(&text); line; line = strchr(line, '\n')) {
                line += *line == '\n';
                (void) (take_value(line, "driver", store->driver, sizeof(store->driver)) ||
                        take_value(line, "graphroot", store->root, sizeof(store->root)) ||
                        take_value(line, "rootless_storage_path", store->rootless_root,
                                   sizeof(store->rootless_root)));
        }
        return true;
}

static void user_path(const struct ctx *ctx, const char *variable, const char *below, const char *name,
                      char ret[PATH_MAX]) {
        const char *const dir = ctx_getenv(ctx, variable);

        if (dir && *dir)
                (void) snprintf(ret, PATH_MAX, "%s/%s", dir, name);
        else
                (void) snprintf(ret, PATH_MAX, "%s/%s/%s", ctx->home ? ctx->home : "", below, name);
}

/* In the order of containers-storage.conf(5). A root of the machine's is not a user's. */
static void find_store(const struct ctx *ctx, struct store *store) {
        const char *const named = ctx_getenv(ctx, "CONTAINERS_STORAGE_CONF");
        const char *const driver = ctx_getenv(ctx, "STORAGE_DRIVER");
        char path[PATH_MAX];

        if (!named || !*named) {
                if (!read_conf("/etc/containers/storage.conf", store))
                        (void) read_conf("/usr/share/containers/storage.conf", store);
        }
        if (ctx->uid != 0)
                user_path(ctx, "XDG_DATA_HOME", ".local/share", "containers/storage", store->root);
        else if (!store->root[0])
                (void) snprintf(store->root, sizeof(store->root), "/var/lib/containers/storage");
        user_path(ctx, "XDG_CONFIG_HOME", ".config", "containers/storage.conf", path);
        if (named && *named)
                (void) read_conf(named, store);
        else if (ctx->uid != 0)
                (void) read_conf(path, store);
        if (ctx->uid != 0 && store->rootless_root[0])
                memcpy(store->root, store->rootless_root, sizeof(store->root));
        if (driver && *driver)
                (void) snprintf(store->driver, sizeof(store->driver), "%s", driver);
}

/* What made the store that is there: it stays that, whatever is configured since. "": there is none yet. */
static const char *made_by(const struct store *store) {
        const char *const drivers[] = { store->driver, "overlay", "btrfs", "zfs", "vfs" };
        char path[PATH_MAX + DRIVER_MAX + 16];

        for (size_t i = store->driver[0] == '\0'; i < ARRAY_SIZE(drivers); i++) {
                (void) snprintf(path, sizeof(path), "%s/%s-images", store->root, drivers[i]);
                if (access(path, F_OK) == 0)
                        return drivers[i];
        }
        return "";
}

/* What is there of @path. */
static void cut_to_there(char *path) {
        char *slash;

        while (access(path, F_OK) < 0 && errno == ENOENT && (slash = strrchr(path, '/')) && path[1])
                slash[slash == path] = '\0';
}

void try_podman_storage(const struct probe_host *host, struct probe_result *ret) {
        const char *const runtime = ctx_getenv(host->ctx, "XDG_RUNTIME_DIR");
        struct store store = { 0 };
        const char *driver;

        find_store(host->ctx, &store);
        driver = made_by(&store);
        if (!*driver)
                driver = store.driver[0] ? store.driver : "not used yet:";
        if (host->ctx->uid != 0 && runtime && *runtime && access(runtime, W_OK | X_OK) < 0) {
                result_fact(ret, -EACCES, "XDG_RUNTIME_DIR %.50s: %s", ESC(runtime),
                            probe_errno_name(-errno));
        } else if (strchr(store.root, '$')) {
                result_note(ret, "not looked at: %.50s", ESC(store.root));
        } else {
                cut_to_there(store.root);
                if (access(store.root, W_OK | X_OK) < 0)
                        result_failed(ret, errno == EROFS ? -EROFS : -EPERM, "write in %.50s",
                                      ESC(store.root));
                else
                        probe_store(driver, store.root, ret);
        }
}
