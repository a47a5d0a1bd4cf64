/*
 * DOC: theory of operation
 *
 * cofferdam-image knows where an image is, pulls it if it is not here, and says which directories are its
 * layers: this program links nothing of what that takes. The layers are opened once, and are the lower ones
 * of an overlayfs in the sandbox's own user namespace. Its upper one is a tmpfs, which takes the places of
 * mounts and files of /etc and nothing else: the root is read-only once a command runs, as a container's is.
 * As long as the run lives it has a shared lock of the image's record, which keeps the image from being
 * removed.
 *
 * The image is foreign. Nothing of it is followed on the host's side: parts of a name are opened one by one,
 * and a symbolic link where a directory of ours has to be ends the start.
 */
#include "drivers/native/image-root.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "drivers/driver.h"
#include "drivers/native/mnt.h"
#include "drivers/native/parts.h"
#include "drivers/native/probe.h"
#include "drivers/native/setup.h"
#include "drivers/oci/cli.h"
#include "fs/pin.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/escape.h"
#include "runtime/base/execpath.h"
#include "runtime/base/file.h"
#include "runtime/base/json.h"
#include "runtime/base/sys.h"

enum {
        PULL_TIMEOUT_MS = 600000,
        FILE_MAX = 1 << 20,
        NUMBER_SIZE = 24,
        ASK_TRIES = 3,
        CODE_MISUSED = 2 /* of cofferdam-image: that is no name */
};

static const char untried[] = "not tried"; /* probe.c */

static struct image_root *root_new(const char *name) {
        struct image_root *root = calloc(1, sizeof(*root));

        if (!root)
                return NULL;
        root->lock_fd = -1;
        root->name = strdup(name);
        return root->name ? root : root_free(root);
}

struct image_root *root_free(struct image_root *root) {
        if (!root)
                return NULL;
        for (size_t i = 0; i < root->n_layers; i++) {
                (void) fd_close(root->layers[i]);
                free(root->paths[i]);
        }
        (void) fd_close(root->lock_fd);
        json_decref(root->config);
        free(root->name);
        free(root);
        return NULL;
}

static void auto_root(struct image_root **p) {
        *p = root_free(*p);
}
#define AUTO_ROOT __attribute__((cleanup(auto_root)))

/* --- an image
 * ----------------------------------------------------------------------------------------------- */

static const char *text_of(const json_t *j, const char *key) {
        const char *s = json_string_value(json_object_get(j, key));

        return s ? s : "";
}

static uint32_t number_of(const json_t *j, const char *key) {
        return (uint32_t) json_integer_value(json_object_get(j, key));
}

/* What `cofferdam image root` says of @name. */
static int ask(const struct ctx *ctx, const char *name, json_t **ret, struct error *err) {
        AUTO_CLI_RESULT struct cli_result result = { 0 };
        AUTO_CLI_ARGS struct cli_args args = { 0 };
        char self[PATH_MAX];
        const ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
        const char *text;
        int r;

        if (n <= 0)
                return error_set(err, -ENOTSUP, "image: /proc/self/exe is needed to find cofferdam-image");
        self[n] = '\0';
        cli_add(&args, "%s", self);
        cli_add(&args, "image");
        cli_add(&args, "root");
        cli_add(&args, "-q");
        cli_add(&args, "--");
        cli_add(&args, "%s", name);
        r = cli_run(ctx, &args, PULL_TIMEOUT_MS, &result, err);
        if (r < 0)
                return error_wrap(err, DRIVER_NO_IMAGE, "image");
        text = strncmp(result.err, "cofferdam: ", 11) == 0 ? result.err + 11 : result.err;
        if (result.exit_code != 0)
                return error_set(err, result.exit_code == CODE_MISUSED ? -EINVAL : DRIVER_NO_IMAGE, "%s",
                                 *text ? text : "image: cofferdam-image failed");
        *ret = json_loadb(buf_cstr(&result.out), result.out.len, 0, NULL);
        return *ret ? 0
                    : error_set(err, DRIVER_NO_IMAGE,
                                "image: the answer of cofferdam-image is not understood");
}

static int add_layer(struct image_root *root, const char *path, struct error *err) {
        int fd = open(path, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        char *copy = realpath(path, NULL);

        if (fd < 0 || !copy || root->n_layers == ROOT_LAYERS_MAX) {
                const int r = fd < 0 || !copy ? -errno : -E2BIG;

                (void) fd_close(fd);
                free(copy);
                return error_set(err, r, "layer '%s': %s", ESC(path), strerror(-r));
        }
        root->layers[root->n_layers] = fd;
        root->paths[root->n_layers++] = copy;
        return 0;
}

static void take_ids(struct image_root *root, const json_t *said) {
        const char *ids = text_of(said, "ids");

        root->ids = strcmp(ids, "own") == 0     ? ROOT_IDS_OWN
                    : strcmp(ids, "range") == 0 ? ROOT_IDS_RANGE
                                                : ROOT_IDS_SINGLE;
        root->uids = (struct root_map){ number_of(said, "uid_first"), number_of(said, "uid_n") };
        root->gids = (struct root_map){ number_of(said, "gid_first"), number_of(said, "gid_n") };
        (void) snprintf(root->why_single, sizeof(root->why_single), "%s", text_of(said, "why"));
}

/* Whether the record exists, and will as long as the lock is held. */
static bool lock_record(struct image_root *root, const char *path) {
        struct stat st;

        root->lock_fd = fd_close(root->lock_fd);
        root->lock_fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
        return root->lock_fd >= 0 && flock(root->lock_fd, LOCK_SH | LOCK_NB) == 0 &&
               fstat(root->lock_fd, &st) == 0 && st.st_nlink > 0;
}

/* Nobody holds the image between the answer and the lock: what is removed there is asked for, and pulled,
 * once more. */
static int ask_and_lock(const struct ctx *ctx, struct image_root *root, json_t **ret, struct error *err) {
        for (int i = 0; i < ASK_TRIES; i++) {
                AUTO_JSON json_t *said = NULL;
                const int r = ask(ctx, root->name, &said, err);

                if (r < 0)
                        return r;
                if (lock_record(root, text_of(said, "lock"))) {
                        *ret = TAKE_PTR(said);
                        return 0;
                }
        }
        return error_set(err, DRIVER_NO_IMAGE, "image '%s': it is being removed: try again", ESC(root->name));
}

static int plan_image(const struct ctx *ctx, struct image_root *root, struct error *err) {
        AUTO_JSON json_t *said = NULL;
        const json_t *layers;
        int r;

        r = ask_and_lock(ctx, root, &said, err);
        if (r < 0)
                return r;
        (void) snprintf(root->digest, sizeof(root->digest), "%s", text_of(said, "digest"));
        layers = json_object_get(said, "layers");
        for (size_t i = json_array_size(layers); r == 0 && i-- > 0;) {
                const char *path = json_string_value(json_array_get(layers, i));

                r = path ? add_layer(root, path, err)
                         : error_set(err, DRIVER_NO_IMAGE, "image: a layer without a path");
        }
        if (r == 0 && root->n_layers == 0)
                r = error_set(err, DRIVER_NO_IMAGE, "image '%s': it has no layers", ESC(root->name));
        take_ids(root, said);
        root->config = json_incref(json_object_get(said, "config"));
        return r;
}

/* --- a directory
 * -------------------------------------------------------------------------------------------- */

static int plan_dir(const struct ctx *ctx, struct image_root *root, const struct pin_policy *policy,
                    struct error *err) {
        AUTO_PIN struct pin pin = PIN_INIT;
        int r;

        r = pin_open(root->name, policy, &pin, err);
        if (r < 0)
                return error_wrap(err, r, "rootfs");
        if (pin.type != S_IFDIR || strcmp(pin.real, "/") == 0)
                return error_set(err, -EINVAL, "rootfs: '%s' %s", ESC(root->name),
                                 pin.type == S_IFDIR ? "is the host's root: use --host-root"
                                                     : "is no directory");
        root->layers[0] = TAKE_FD(pin.fd);
        root->paths[0] = TAKE_PTR(pin.real);
        root->n_layers = 1;
        root->ids = ctx->uid == 0 ? ROOT_IDS_OWN : ROOT_IDS_SINGLE;
        return 0;
}

int root_possible(const struct ctx *ctx, const struct spec *spec, struct error *err) {
        struct probe_row row;

        if ((!spec->image && !spec->rootfs) || host_can(ctx, "overlayfs", &row))
                return 0;
        /* what lacks beneath it is told by who needs that first, or has a rung of its own */
        return strncmp(row.evidence, untried, sizeof(untried) - 1) == 0 ? 0 : probe_refusal(&row, err);
}

int root_plan(const struct ctx *ctx, const struct spec *spec, const struct pin_policy *policy,
              struct image_root **ret, struct error *err) {
        AUTO_ROOT struct image_root *root = NULL;
        int r;

        if (!spec->image && !spec->rootfs)
                return 0;
        root = root_new(spec->image ? spec->image : spec->rootfs);
        if (!root)
                return error_set(err, -ENOMEM, "out of memory");
        r = spec->image ? plan_image(ctx, root, err) : plan_dir(ctx, root, policy, err);
        if (r < 0)
                return r;
        *ret = TAKE_PTR(root);
        return 0;
}

/* --- what is in it
 * ------------------------------------------------------------------------------------------- */

static bool is_whiteout(int dir, const char *name) {
        struct stat st;

        return fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISCHR(st.st_mode) &&
               st.st_rdev == makedev(0, 0);
}

/* Whether what lies below the layer's directory @name is not to be seen. */
static bool is_opaque(int dir, const char *name) {
        AUTO_FD int fd = open_beneath(dir, name, O_RDONLY | O_DIRECTORY, 0);
        char value;

        return fd >= 0 && fgetxattr(fd, "user.overlay.opaque", &value, 1) == 1 && value == 'y';
}

int root_read(const struct image_root *root, const char *path, struct buf *out) {
        const char *const slash = strchr(path + 1, '/');
        char parent[NAME_MAX + 1];

        (void) snprintf(parent, sizeof(parent), "%.*s", slash ? (int) (slash - path - 1) : 0, path + 1);
        for (size_t i = 0; i < root->n_layers; i++) {
                const int dir = root->layers[i];
                AUTO_FD int fd = open_beneath(dir, path + 1, O_RDONLY | O_NONBLOCK, 0);
                struct stat st;

                if (fd >= 0)
                        return fstat(fd, &st) == 0 && S_ISREG(st.st_mode) ? file_read(fd, FILE_MAX, out)
                                                                          : -ENOENT;
                if (fd != -ENOENT && fd != -ENOTDIR && fd != -ENXIO)
                        return fd == -ELOOP ? -ENOENT : fd;
                if (is_whiteout(dir, path + 1) ||
                    (*parent && (is_whiteout(dir, parent) || is_opaque(dir, parent))))
                        return -ENOENT;
        }
        return -ENOENT;
}

const char *root_user(const struct image_root *root, const char *asked) {
        const char *user;

        if (asked || !root || !root->config)
                return asked;
        user = text_of(root->config, "User");
        return *user ? user : NULL;
}

int root_env(struct driver_plan *plan) {
        const json_t *env = json_object_get(plan->root->config, "Env");
        int r = 0;

        for (size_t i = 0; r == 0 && i < json_array_size(env); i++) {
                const char *entry = json_string_value(json_array_get(env, i));
                const char *value = entry ? strchr(entry, '=') : NULL;
                AUTO_FREE char *name = value ? strndup(entry, (size_t) (value - entry)) : NULL;

                if (value && value > entry)
                        r = name ? env_put(plan, name, value + 1) : -ENOMEM;
        }
        return r;
}

json_t *root_json(const struct image_root *root) {
        static const char *const ids[] = { "own", "range", "single" };

        if (!root)
                return NULL;
        return json_pack("{s:s,s:o,s:s*,s:s,s:i}", "kind", *root->digest ? "image" : "directory", "ref",
                         json_from_bytes(root->name, PATH_MAX), "digest", *root->digest ? root->digest : NULL,
                         "ids", ids[root->ids], "layers", (int) root->n_layers);
}

/* --- ids
 * ------------------------------------------------------------------------------------------------------ */

static int write_range(const char *path, const char *program, pid_t pid, uint32_t self,
                       const struct root_map *map) {
        const uint32_t numbers[] = { (uint32_t) pid, 0, self, 1, 1, map->first, map->n };
        char text[ARRAY_SIZE(numbers)][NUMBER_SIZE], name[NUMBER_SIZE];
        char *argv[ARRAY_SIZE(numbers) + 2] = { name };
        pid_t child;
        int status;

        (void) snprintf(name, sizeof(name), "%s", program);
        for (size_t i = 0; i < ARRAY_SIZE(numbers); i++) {
                (void) snprintf(text[i], sizeof(text[i]), "%u", numbers[i]);
                argv[i + 1] = text[i];
        }
        child = sys_clone(0, NULL);
        if (child == 0)
                _exit(exec_in_path(argv, environ, path) != 0);
        if (child < 0)
                return child;
        while (waitpid(child, &status, 0) < 0)
                if (errno != EINTR)
                        return -errno;
        return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : -EPERM;
}

/* Real root has them all: files of an image belong to whom it says. */
static int write_own(pid_t pid, const char *file) {
        char path[64];

        (void) snprintf(path, sizeof(path), "/proc/%d/%s", pid, file);
        return file_put(AT_FDCWD, path, "0 0 4294967295");
}

int root_maps(const struct driver_plan *plan, pid_t pid, struct error *err) {
        const struct image_root *root = plan->root;
        const char *path = ctx_getenv(plan->ctx, "PATH");
        int r;

        if (root->ids == ROOT_IDS_OWN) {
                r = write_own(pid, "uid_map");
                if (r == 0)
                        r = write_own(pid, "gid_map");
        } else {
                r = write_range(path, "newuidmap", pid, plan->ctx->uid, &root->uids);
                if (r == 0)
                        r = write_range(path, "newgidmap", pid, plan->ctx->gid, &root->gids);
        }
        return r < 0 ? error_set(err, r, "ids of the image: %s",
                                 r == -EPERM
                                         ? "newuidmap or newgidmap failed: see /etc/subuid and /etc/subgid"
                                         : strerror(-r))
                     : 0;
}

/* --- mounts
 * --------------------------------------------------------------------------------------------------- */

int root_enter(const struct image_root *root, int ret_fd[static ROOT_LAYERS_MAX]) {
        for (size_t i = 0; i < root->n_layers; i++) {
                ret_fd[i] = host_reopen(root->layers[i], root->paths[i]);
                if (ret_fd[i] < 0)
                        return ret_fd[i];
        }
        return 0;
}

/* The top of an overlay is its upper: that looks as the topmost layer does. */
static int resemble(int memory, int layer) {
        struct stat st;

        if (fstat(layer, &st) < 0)
                return -errno;
        if (fchownat(memory, "upper", st.st_uid, st.st_gid, AT_SYMLINK_NOFOLLOW) < 0 && errno != EINVAL &&
            errno != EPERM)
                return -errno; /* an id that is not mapped here: it stays ours */
        return fchmodat(memory, "upper", st.st_mode & 01777, 0) < 0 ? -errno : 0;
}

int root_mount(const struct image_root *root, const int *layers, int proc_fd) {
        static const struct mnt_option options[] = { { "mode", "0700" }, { "size", "4096k" } };
        AUTO_FD int memory = -1, upper = -1, work = -1;
        int r;

        memory = mnt_new("tmpfs", options, ARRAY_SIZE(options), MNT_NOSUID | MNT_NODEV);
        if (memory < 0)
                return memory;
        if (mkdirat(memory, "upper", 0755) < 0 || mkdirat(memory, "work", 0700) < 0)
                return -errno;
        r = resemble(memory, layers[0]);
        upper = r < 0 ? r : open_beneath(memory, "upper", O_PATH | O_DIRECTORY, 0);
        work = open_beneath(memory, "work", O_PATH | O_DIRECTORY, 0);
        if (upper < 0 || work < 0)
                return upper < 0 ? upper : work;
        if (fchdir(proc_fd) < 0)
                return -errno;
        return mnt_overlay_of(layers, root->n_layers, upper, work, "self/fd");
}
