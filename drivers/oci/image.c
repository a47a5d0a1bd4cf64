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
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
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

/* Its identity, whether it asks for volumes, and its user, which may be anything: a line each. */
static int inspect(const struct ctx *ctx, const struct oci *oci, struct buf *ret, struct error *err) {
        AUTO_CLI_ARGS struct cli_args args = { .n = 0 };

        cli_add(&args, "%s", oci->program);
        cli_add(&args, "image");
        cli_add(&args, "inspect");
        cli_add_pair(&args, "--format", "{{.Id}}\n{{if .Config.Volumes}}volumes{{end}}\n{{.Config.User}}");
        cli_add(&args, "--");
        cli_add(&args, "%s", oci->image);
        return oci_call(ctx, &args, INSPECT_MS, ret, err);
}

static int pull(const struct ctx *ctx, const struct oci *oci, struct error *err) {
        AUTO_CLI_ARGS struct cli_args args = { .n = 0 };
        int r;

        cli_add(&args, "%s", oci->program);
        cli_add(&args, "pull");
        args.wide = true;
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
        int r;

        r = file_read_at(AT_FDCWD, "/etc/passwd", PASSWD_MAX, &text);
        if (r == 0 || r == -ENOENT)
                r = buf_add(&text, "", 1);
        if (r == 0)
                r = file_read_at(AT_FDCWD, "/etc/group", PASSWD_MAX, &text);
        if (r < 0 && r != -ENOENT)
                _exit(1);
        _exit(write_all(STDOUT_FILENO, buf_cstr(&text), text.len) < 0);
}

static int read_accounts(const struct ctx *ctx, const struct oci *oci, struct buf *ret, struct error *err) {
        AUTO_CLI_ARGS struct cli_args args = { .n = 0 };
        AUTO_FD int hold = oci_hold(ctx, oci->program);
        char exe[PATH_MAX];
        const ssize_t n = readlink("/proc/self/exe", exe, sizeof(exe) - 1);
        uint64_t name;

        (void) hold; /* without a state directory nobody sweeps */
        if (n < 0 || getrandom(&name, sizeof(name), 0) < 0)
                return error_set(err, -errno, "path of this program, a name: %s", strerror(errno));
        exe[n] = '\0';
        cli_add(&args, "%s", oci->program);
        cli_add(&args, "run");
        cli_add(&args, "--rm");
        cli_add_pair(&args, "--pull", "never");
        cli_add_pair(&args, "--name", OCI_NAME OCI_ACCOUNTS_NAME "%016" PRIx64, name);
        oci_label(&args, oci->state_dir);
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

/* Who works, and the accounts that say more of a name or number. */
static int resolve_user(const struct ctx *ctx, const char *said, const char *of_image, struct oci *oci,
                        struct error *err) {
        AUTO_BUF struct buf text = { 0 };
        const char *const user = said ? said : of_image;
        const char *end;
        int r;

        if (!*user)
                return 0;
        if (strlen(user) > USER_MAX)
                return error_set(err, -EINVAL, "image '%s': its user is no name", ESC(oci->image));
        r = read_accounts(ctx, oci, &text, err);
        if (r < 0)
                return error_wrap(err, r, "users of the image");
        end = text.data ? memchr(text.data, '\0', text.len) : NULL;
        if (end)
                r = buf_add(&oci->passwd, text.data, (size_t) (end - text.data));
        if (r == 0 && end)
                r = buf_add(&oci->group, end + 1, text.len - (size_t) (end + 1 - text.data));
        oci->user = strdup(user);
        return r == 0 && oci->user ? 0 : error_set(err, -ENOMEM, "out of memory");
}

int image_resolve(const struct ctx *ctx, const char *user, struct oci *oci, struct error *err) {
        AUTO_BUF struct buf found = { 0 };
        char *line, *of_image;
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
        of_image = line + strcspn(line, "\n");
        oci->has_volumes = of_image != line;
        of_image += *of_image == '\n';
        of_image[strcspn(of_image, "\n")] = '\0';
        oci->image_id = strdup(found.data);
        return oci->image_id ? resolve_user(ctx, user, of_image, oci, err)
                             : error_set(err, -ENOMEM, "out of memory");
}
