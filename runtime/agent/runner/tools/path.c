/* Paths of tools: everything is opened from the work directory, beneath it */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "runtime/agent/runner/tools.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/escape.h"
#include "runtime/base/file.h"
#include "runtime/base/path.h"
#include "runtime/base/sys.h"

const char *work_path(const struct tool_env *env, const char *path, struct error *err) {
        const char *below = path;

        if (strlen(path) > TOOL_PATH_MAX)
                return (void) error_set(err, -ENAMETOOLONG, "the path is longer than %d bytes",
                                        TOOL_PATH_MAX),
                       NULL;
        if (*path == '/')
                below = path_below(path, env->work_dir);
        if (!below)
                return (void) error_set(err, -EXDEV, "'%s' is not below the work directory '%s'", ESC(path),
                                        ESC(env->work_dir)),
                       NULL;
        while (*below == '/')
                below++;
        return *below ? below : ".";
}

static int explain(int r, const char *path, struct error *err) {
        if (r == -EXDEV)
                return error_set(err, r, "'%s' leads out of the work directory", ESC(path));
        if (r == -ELOOP)
                return error_set(err, r, "'%s' goes through a link that is not followed", ESC(path));
        if (r == -ENXIO)
                return error_set(err, r, "'%s' is no regular file", ESC(path));
        return error_set(err, r, "'%s': %s", ESC(path), strerror(-r));
}

int work_open(const struct tool_env *env, const char *path, int flags, mode_t mode, struct error *err) {
        const char *below = work_path(env, path, err);
        int fd;

        if (!below)
                return err ? err->code : -EXDEV;
        fd = sys_openat2(env->work_fd, below, flags | O_NONBLOCK | O_NOCTTY, mode,
                         RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS);
        return fd < 0 ? explain(fd, path, err) : fd;
}

static int regular(int fd, const char *path, struct stat *st, struct error *err) {
        if (fstat(fd, st) < 0)
                return explain(-errno, path, err);
        if (S_ISDIR(st->st_mode))
                return error_set(err, -EISDIR, "'%s' is a directory", ESC(path));
        if (!S_ISREG(st->st_mode))
                return error_set(err, -EINVAL, "'%s' is no regular file", ESC(path));
        return 0;
}

int work_read(const struct tool_env *env, const char *path, size_t max, struct buf *out, struct error *err) {
        AUTO_FD int fd = work_open(env, path, O_RDONLY, 0, err);
        struct stat st;
        int r;

        if (fd < 0)
                return fd;
        r = regular(fd, path, &st, err);
        if (r == 0)
                r = file_read(fd, max, out);
        if (r == -EFBIG)
                return error_set(err, r, "'%s' has more than %zu bytes", ESC(path), max);
        return r < 0 && r != -EISDIR && r != -EINVAL ? explain(r, path, err) : r;
}

/* Makes the directories of @below, each beneath. Return: descriptor of the last, and the name in it. */
static int parents(const struct tool_env *env, const char *below, const char **ret_name, struct error *err) {
        AUTO_FD int dir = openat(env->work_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        char part[TOOL_PATH_MAX + 1];
        const char *slash, *at = below;
        int fd;

        if (dir < 0)
                return explain(-errno, below, err);
        while ((slash = strchr(at, '/'))) {
                const size_t len = (size_t) (slash - below);

                memcpy(part, below, len);
                part[len] = '\0';
                at = slash + strspn(slash, "/");
                fd = sys_openat2(env->work_fd, part, O_RDONLY | O_DIRECTORY, 0,
                                 RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS);
                if (fd == -ENOENT && mkdirat(dir, path_basename(part), 0777) == 0)
                        fd = sys_openat2(env->work_fd, part, O_RDONLY | O_DIRECTORY, 0,
                                         RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS);
                if (fd < 0)
                        return explain(fd, part, err);
                fd_close(dir);
                dir = fd;
        }
        *ret_name = at;
        return TAKE_FD(dir);
}

static int write_in_place(int fd, const void *data, size_t len) {
        const int r = ftruncate(fd, 0) < 0 ? -errno : write_all(fd, data, len);

        return r;
}

int work_write(const struct tool_env *env, const char *path, const void *data, size_t len,
               struct error *err) {
        AUTO_FD int dir = -1, fd = -1;
        const char *below = work_path(env, path, err), *name;
        struct stat st, at;
        int r;

        if (!below)
                return err ? err->code : -EXDEV;
        if (env->readonly)
                return error_set(err, -EROFS, "this task may only read");
        dir = parents(env, below, &name, err);
        if (dir < 0)
                return dir;
        if (!*name || strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
                return error_set(err, -EISDIR, "'%s' names a directory", ESC(path));
        fd = work_open(env, path, O_WRONLY, 0, err);
        if (fd < 0 && fd != -ENOENT)
                return fd;
        if (fd < 0 && fstatat(dir, name, &at, AT_SYMLINK_NOFOLLOW) == 0)
                return error_set(err, -ELOOP, "'%s' is a link to nothing", ESC(path));
        if (fd < 0) {
                r = file_replace_at(dir, name, data, len, 0644, false);
                return r < 0 ? explain(r, path, err) : 0;
        }
        r = regular(fd, path, &st, err);
        if (r < 0)
                return r;
        if (st.st_nlink > 1 || fstatat(dir, name, &at, AT_SYMLINK_NOFOLLOW) < 0 || S_ISLNK(at.st_mode) ||
            st.st_uid != geteuid())
                r = write_in_place(fd, data, len);
        else
                r = file_replace_at(dir, name, data, len, st.st_mode & 07777, false);
        return r < 0 ? explain(r, path, err) : 0;
}

bool is_binary(const char *data, size_t len) {
        return len > 0 && memchr(data, 0, len < 8192 ? len : 8192) != NULL;
}
