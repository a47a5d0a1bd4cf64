/*
 * built.c - the images that builds leave in an engine
 *
 * An image says by its labels which state directory it was built for, and a file there, by its time, when it
 * was last used: <state>/builds/STORE:HASH. An image without such a file, whose state directory was lost, is
 * taken for one that was used at this moment. The label goes on to images that somebody builds on ours; those
 * have other names. The engine itself refuses to remove what a container has.
 */
#include "drivers/oci/built.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "drivers/oci/oci.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/escape.h"
#include "runtime/base/log.h"

enum { LIST_MS = 30000, REMOVE_MS = 60000, DAY_SECONDS = 86400 };

static const char directory[] = "builds";

void built_label(const struct ctx *ctx, struct cli_args *args) {
        oci_label(args, ctx->state_dir);
}

/* Return: descriptor, -errno. */
static int open_directory(const struct ctx *ctx, bool make) {
        char path[PATH_MAX];
        int fd;

        if (!ctx->state_dir ||
            snprintf(path, sizeof(path), "%s/%s", ctx->state_dir, directory) >= (int) sizeof(path))
                return -ENOENT;
        if (make) {
                const int r = oci_state_dir(ctx);

                if (r < 0 || (mkdir(path, 0700) < 0 && errno != EEXIST))
                        return r < 0 ? r : -errno;
        }
        fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        return fd < 0 ? -errno : fd;
}

static const char *store_of(const char *engine) {
        return strcmp(engine, "docker") == 0 ? "docker" : "containers";
}

/* The file of an image. Return: whether the name is one of ours. */
static bool note_name(const char *store, const char *image, char ret[NAME_MAX + 1]) {
        static const char hex[] = "0123456789abcdef";
        const char *hash = image + sizeof(BUILT_PREFIX) - 1;

        if (strncmp(image, BUILT_PREFIX, sizeof(BUILT_PREFIX) - 1) != 0 || !*hash ||
            hash[strspn(hash, hex)] != '\0')
                return false;
        return snprintf(ret, NAME_MAX + 1, "%s:%s", store, hash) <= NAME_MAX;
}

static int note(int dir, const char *name) {
        AUTO_FD int fd = openat(dir, name, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);

        return fd < 0 || futimens(fd, NULL) < 0 ? -errno : 0;
}

int built_use(const struct ctx *ctx, const char *engine, const char *image) {
        AUTO_FD int dir = open_directory(ctx, true);
        char name[NAME_MAX + 1];
        int r;

        if (dir < 0 || !note_name(store_of(engine), image, name))
                return dir < 0 ? dir : -EINVAL;
        do
                r = flock(dir, LOCK_SH);
        while (r < 0 && errno == EINTR);
        r = r < 0 ? -errno : note(dir, name);
        return r < 0 ? r : TAKE_FD(dir);
}

/* Whether nobody has used it for so long; one that is not known begins to be. */
static bool is_due(int dir, const char *name) {
        struct stat st;

        if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0) {
                (void) !note(dir, name);
                return false;
        }
        return time(NULL) - st.st_mtime > BUILT_UNUSED_DAYS * DAY_SECONDS;
}

/* The names of the images that are of this state directory, one a line. */
static int list_ours(const struct ctx *ctx, const char *engine, struct cli_result *ret) {
        AUTO_CLI_ARGS struct cli_args args = { .n = 0 };
        const bool buildah = strcmp(engine, "buildah") == 0;

        cli_add(&args, "%s", engine);
        cli_add(&args, "images");
        /* one only: podman lists what any of several fits */
        cli_add_pair(&args, "--filter", "label=" OCI_STATE_LABEL "=%s", ctx->state_dir);
        cli_add_pair(&args, "--format", buildah ? "{{.Name}}:{{.Tag}}" : "{{.Repository}}:{{.Tag}}");
        return cli_run(ctx, &args, LIST_MS, ret, NULL);
}

/* Filters of engines know patterns, and other rules from version to version. */
static bool is_ours(const struct ctx *ctx, const char *engine, const char *image) {
        static const char of_image[] = "{{index .Config.Labels \"" OCI_STATE_LABEL "\"}}",
                          of_buildah[] = "{{index .OCIv1.Config.Labels \"" OCI_STATE_LABEL "\"}}";
        const bool buildah = strcmp(engine, "buildah") == 0;
        const char *const words[] = { engine,
                                      buildah ? "inspect" : "image",
                                      buildah ? "--type" : "inspect",
                                      buildah ? "image" : "--format",
                                      buildah ? "--format" : of_image,
                                      buildah ? of_buildah : image,
                                      buildah ? image : NULL };
        AUTO_CLI_ARGS struct cli_args args = { .n = 0 };
        AUTO_CLI_RESULT struct cli_result result = { 0 };
        const size_t n = strlen(ctx->state_dir);

        for (size_t i = 0; i < ARRAY_SIZE(words) && words[i]; i++)
                cli_add(&args, "%s", words[i]);
        return cli_run(ctx, &args, LIST_MS, &result, NULL) == 0 && result.exit_code == 0 &&
               strncmp(buf_cstr(&result.out), ctx->state_dir, n) == 0 &&
               strspn(buf_cstr(&result.out) + n, "\n") + n == result.out.len;
}

/* Without force: an engine keeps what a container has. */
static bool remove_image(const struct ctx *ctx, const char *engine, const char *image) {
        AUTO_CLI_ARGS struct cli_args args = { .n = 0 };
        AUTO_CLI_RESULT struct cli_result result = { 0 };

        if (!is_ours(ctx, engine, image))
                return false;
        cli_add(&args, "%s", engine);
        cli_add(&args, "rmi");
        cli_add(&args, "%s", image);
        if (cli_run(ctx, &args, REMOVE_MS, &result, NULL) == 0 && result.exit_code == 0)
                return true;
        log_debug("build: %s rmi %s: %s", engine, image, ESC(result.err));
        return false;
}

/** struct store - where images are; podman and buildah share one */
struct store {
        const char *name, *engines[2];
};

/* Goes through the notes of @store. @there: the images it has; NULL: only looks whether there are any. */
static bool each_note(int dir, const char *store, const char *there) {
        const int fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        AUTO_DIR DIR *d = fd < 0 ? NULL : fdopendir(fd);
        const size_t n = strlen(store);
        const struct dirent *e;
        bool any = false;

        if (!d)
                (void) fd_close(fd);
        while (d && (e = readdir(d))) {
                if (strncmp(e->d_name, store, n) != 0 || e->d_name[n] != ':')
                        continue;
                any = true;
                if (there && !strstr(there, e->d_name + n) && is_due(dir, e->d_name))
                        (void) unlinkat(dir, e->d_name, 0);
        }
        return any;
}

static void sweep_store(const struct ctx *ctx, int dir, const struct store *store, built_fn *fn, void *arg) {
        AUTO_CLI_RESULT struct cli_result result = { 0 };
        char *image, *rest = NULL, name[NAME_MAX + 1];
        const char *engine = store->engines[0];
        int r;

        r = list_ours(ctx, engine, &result);
        if (r == -ENOENT && store->engines[1])
                r = list_ours(ctx, engine = store->engines[1], &result);
        if (r < 0 || result.exit_code != 0)
                return;
        (void) each_note(dir, store->name, buf_cstr(&result.out));
        for (image = result.out.data ? strtok_r(result.out.data, "\n", &rest) : NULL; image;
             image = strtok_r(NULL, "\n", &rest))
                if (note_name(store->name, image, name) && is_due(dir, name) &&
                    remove_image(ctx, engine, image)) {
                        (void) unlinkat(dir, name, 0);
                        fn(engine, image, arg);
                }
}

void built_sweep(const struct ctx *ctx, built_fn *fn, void *arg) {
        static const struct store stores[] = { { "containers", { "podman", "buildah" } },
                                               { "docker", { "docker", NULL } } };
        AUTO_FD int dir = open_directory(ctx, false);

        if (dir < 0 || flock(dir, LOCK_EX | LOCK_NB) < 0)
                return; /* a build is at work: the next time */
        for (size_t i = 0; i < ARRAY_SIZE(stores); i++)
                if (each_note(dir, stores[i].name, NULL)) /* who was never used is not asked */
                        sweep_store(ctx, dir, &stores[i], fn, arg);
}
