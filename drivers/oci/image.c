/*
 * image.c - the image of a container: found, or pulled; and who its users are
 *
 * What is found is named by its identity from then on: another image of the same name, or none, changes
 * nothing for a run that is planned. Names of users are the image's to explain. It is asked by this program,
 * which prints the account file from inside a container as hardened as a run's, so no program of the image
 * runs and no layer of it is read here.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "drivers/native/plan.h"
#include "drivers/oci/oci.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/escape.h"
#include "runtime/base/file.h"
#include "runtime/base/parse.h"
#include "runtime/base/path.h"

enum {
        INSPECT_MS = 20000,
        PULL_MS = 600000, /* cofferdam-drivers(7) */
        PASSWD_MS = 60000,
        PASSWD_MAX = 1 << 20,
        USER_MAX = 64,
};

/* Its identity and its user, a line each. */
static int inspect(const struct ctx *ctx, const struct oci *oci, struct buf *ret, struct error *err) {
        AUTO_CLI_ARGS struct cli_args args = { .n = 0 };

        cli_add(&args, "%s", oci->program);
        cli_add(&args, "image");
        cli_add(&args, "inspect");
        cli_add_pair(&args, "--format", "{{.Id}}\n{{.Config.User}}");
        cli_add(&args, "--");
        cli_add(&args, "%s", oci->image);
        return oci_call(ctx, &args, INSPECT_MS, ret, err);
}

static int pull(const struct ctx *ctx, const struct oci *oci, struct error *err) {
        AUTO_CLI_ARGS struct cli_args args = { .n = 0 };
        int r;

        cli_add(&args, "%s", oci->program);
        cli_add(&args, "pull");
        cli_add(&args, "--quiet");
        cli_add(&args, "--");
        cli_add(&args, "%s", oci->image);
        r = oci_call(ctx, &args, PULL_MS, NULL, err);
        return r == 0 || r == DRIVER_HOST_LACKS || r == -ETIMEDOUT || r == DRIVER_FULL
                       ? r
                       : error_wrap(err, DRIVER_NO_IMAGE, "image '%s'", ESC(oci->image));
}

/* ---- users ---- */

_Noreturn void oci_passwd(void) {
        AUTO_BUF struct buf text = { 0 };
        const int r = file_read_at(AT_FDCWD, "/etc/passwd", PASSWD_MAX, &text);

        if (r < 0 && r != -ENOENT)
                _exit(1);
        _exit(write_all(STDOUT_FILENO, buf_cstr(&text), text.len) < 0);
}

static int read_passwd(const struct ctx *ctx, const struct oci *oci, struct buf *ret, struct error *err) {
        AUTO_CLI_ARGS struct cli_args args = { .n = 0 };
        char exe[PATH_MAX];
        const ssize_t n = readlink("/proc/self/exe", exe, sizeof(exe) - 1);

        if (n < 0)
                return error_set(err, -errno, "path of this program: %s", strerror(errno));
        exe[n] = '\0';
        cli_add(&args, "%s", oci->program);
        cli_add(&args, "run");
        cli_add(&args, "--rm");
        cli_add_pair(&args, "--pull", "never");
        oci_harden(&args, oci->program);
        cli_add_pair(&args, "--user", "65534:65534");
        cli_add_pair(&args, "--network", "none");
        if (oci_bind(&args, oci->program, exe, OCI_PASSWD_PROGRAM, err) < 0)
                return -EINVAL;
        cli_add_pair(&args, "--entrypoint", OCI_PASSWD_PROGRAM);
        cli_add(&args, "--");
        cli_add(&args, "%s", oci->image_id);
        cli_add(&args, OCI_PASSWD_WORD);
        return oci_call(ctx, &args, PASSWD_MS, ret, err);
}

/* The account @name of the image, which runtime/base/user.h reads from a file. */
static int find_account(const struct buf *passwd, const char *name, struct user *ret) {
        AUTO_FD int fd = memfd_create("passwd", MFD_CLOEXEC);
        char path[32];
        int r;

        if (fd < 0)
                return -errno;
        r = write_all(fd, buf_cstr(passwd), passwd->len);
        (void) snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
        return r < 0 ? r : user_by_name(path, name, ret);
}

/* "NAME[:GID]" of the image. @ours: it was said to us, and may be an account of the host's as well. */
static int resolve_name(const struct ctx *ctx, const char *text, bool ours, struct oci *oci,
                        struct error *err) {
        AUTO_BUF struct buf passwd = { 0 };
        AUTO_FREE char *name = strndup(text, strcspn(text, ":"));
        const char *const group = text[strcspn(text, ":")] ? text + strcspn(text, ":") + 1 : NULL;
        uint64_t gid;
        int r;

        if (!name)
                return error_set(err, -ENOMEM, "out of memory");
        r = read_passwd(ctx, oci, &passwd, err);
        if (r < 0)
                return error_wrap(err, r, "users of the image");
        r = find_account(&passwd, name, &oci->account);
        if (r == -ENOENT && ours)
                return 0; /* id_resolve() looks for it, and says when there is none */
        if (r < 0)
                return error_set(err, -EINVAL, "image '%s': its user '%s' is not in its /etc/passwd",
                                 ESC(oci->image), ESC(name));
        gid = oci->account.gid;
        if (group && parse_u64(group, 0, UINT32_MAX - 1, &gid) < 0)
                return error_set(err, -EINVAL, "user '%s': its group has to be a number", ESC(text));
        if (asprintf(&oci->user, "%u:%u", oci->account.uid, (unsigned int) gid) < 0) {
                oci->user = NULL;
                return error_set(err, -ENOMEM, "out of memory");
        }
        return 0;
}

static int resolve_user(const struct ctx *ctx, const char *said, const char *of_image, struct oci *oci,
                        struct error *err) {
        const char *const text = said ? said : of_image;

        if (!*text)
                return 0;
        if (strlen(text) > USER_MAX)
                return error_set(err, -EINVAL, "image '%s': its user is no name", ESC(oci->image));
        if (strspn(text, "0123456789") != strcspn(text, ":"))
                return resolve_name(ctx, text, said != NULL, oci, err);
        if (said)
                return 0;
        oci->user = strdup(text);
        return oci->user ? 0 : error_set(err, -ENOMEM, "out of memory");
}

static int replace(char **text, const char *by) {
        char *copy = strdup(by);

        if (!copy)
                return -ENOMEM;
        free(*text);
        *text = copy;
        return 0;
}

/* A home that can be a file system of ours. */
static bool home_fits(const char *home) {
        static const char *const taken[] = { "/proc", "/dev", "/sys", "/run",
                                             "/etc",  "/bin", "/usr", "/nonexistent" };

        for (size_t i = 0; i < ARRAY_SIZE(taken); i++)
                if (path_below(home, taken[i]))
                        return false;
        return path_is_normal(home) && home[1] && !strpbrk(home, ":\n");
}

int oci_account(const struct oci *oci, struct native_id *id, struct error *err) {
        const struct user *a = &oci->account;
        int r;

        r = replace(&id->shell, a->shell && path_is_normal(a->shell) ? a->shell : "/bin/sh");
        if (r == 0 && a->name)
                r = replace(&id->name, a->name);
        if (r == 0 && a->home && home_fits(a->home))
                r = replace(&id->home, a->home);
        return r < 0 ? error_set(err, r, "out of memory") : 0;
}

int image_resolve(const struct ctx *ctx, const char *user, struct oci *oci, struct error *err) {
        AUTO_BUF struct buf found = { 0 };
        char *line;
        int r;

        r = inspect(ctx, oci, &found, err);
        if (r == DRIVER_NO_IMAGE) {
                r = pull(ctx, oci, err);
                if (r == 0)
                        r = inspect(ctx, oci, &found, err);
        }
        if (r < 0)
                return r;
        line = found.data ? strchr(found.data, '\n') : NULL;
        if (!line || line == found.data)
                return error_set(err, -EIO, "%s: image '%s' has no identity", oci->program, ESC(oci->image));
        *line++ = '\0';
        line[strcspn(line, "\n")] = '\0';
        oci->image_id = strdup(found.data);
        return oci->image_id ? resolve_user(ctx, user, line, oci, err)
                             : error_set(err, -ENOMEM, "out of memory");
}
