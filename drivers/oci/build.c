/*
 * DOC: theory of operation
 *
 * hash -> is there an image of that name? -> look at base images -> copy -> build -> for the native driver
 * export and import.
 *
 * The Dockerfile and the context are opened once. The name of the image is the hash of both, the arguments
 * and the stage, so what has not changed is not built again, whoever asks. The engine gets paths of a copy
 * below the state directory, which only the caller can enter: what is hashed is what is built, and a link
 * that the repository puts somewhere meanwhile leads nowhere.
 */
#include "drivers/oci/build.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "drivers/driver.h"
#include "drivers/oci/built.h"
#include "drivers/oci/cli.h"
#include "drivers/oci/context.h"
#include "drivers/oci/dockerfile.h"
#include "drivers/oci/oci.h"
#include "drivers/oci/triggers.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/escape.h"
#include "runtime/base/file.h"
#include "runtime/base/log.h"
#include "runtime/base/path.h"
#include "runtime/base/sys.h"
#include "runtime/spec/keys.h"

enum {
        BUILD_MS = 1800000, /* docs: phases and their bounds */
        MOVE_MS = 600000,
        ASK_MS = 30000,
        DOCKERFILE_MAX = 1 << 20,
        LOG_LINES = 20,
        NAME_DIGITS = 32,
};

static const char copy_prefix[] = "build.";

/** struct build - one on its way */
struct build {
        const struct ctx *ctx;
        const struct spec *spec;
        const char *engine; /* "podman", "buildah", "docker"; static */
        bool native;        /* the image goes to the native driver */
        struct buf file;    /* the Dockerfile */
        int context_fd;     /* owned */
        char dir[PATH_MAX]; /* for the copy; "" while there is none */
        int lock_fd;        /* of it, which tells build_sweep() that it is in use; owned */
        char name[96];      /* of the image */
        int use_fd;         /* gc leaves it alone; owned */
};

/* Directories of the context may be closed to their owner. */
static void remove_copy(const struct ctx *ctx, const char *dir) {
        static const char *const calls[][3] = { { "chmod", "-R", "u+rwX" }, { "rm", "-r", "-f" } };
        bool done = false;

        for (size_t i = 0; i < ARRAY_SIZE(calls); i++) {
                AUTO_CLI_ARGS struct cli_args args = { .n = 0 };
                AUTO_CLI_RESULT struct cli_result result = { 0 };

                for (size_t k = 0; k < ARRAY_SIZE(calls[i]); k++)
                        cli_add(&args, "%s", calls[i][k]);
                cli_add(&args, "--");
                cli_add(&args, "%s", dir);
                done = cli_run(ctx, &args, MOVE_MS, &result, NULL) == 0 && result.exit_code == 0;
        }
        if (!done)
                log_warn("build: '%s' could not be removed", ESC(dir));
}

static void build_deinit(struct build *b) {
        buf_deinit(&b->file);
        b->context_fd = fd_close(b->context_fd);
        if (*b->dir)
                remove_copy(b->ctx, b->dir);
        b->lock_fd = fd_close(b->lock_fd);
        b->use_fd = fd_close(b->use_fd);
}

void build_sweep(const struct ctx *ctx) {
        AUTO_DIR DIR *d = ctx->state_dir ? opendir(ctx->state_dir) : NULL;
        const struct dirent *e;

        while (d && (e = readdir(d))) {
                AUTO_FREE char *path = NULL;
                AUTO_FD int fd = -1;

                if (strncmp(e->d_name, copy_prefix, sizeof(copy_prefix) - 1) != 0 ||
                    path_join(ctx->state_dir, e->d_name, &path) < 0)
                        continue;
                fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
                if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0)
                        remove_copy(ctx, path);
        }
}

bool build_wanted(const struct spec *spec) {
        return (spec->build.dockerfile || spec->build.context) && spec->mode != MODE_NONE &&
               strcmp(spec->driver, "noop") != 0;
}

/* --- what goes in ------------------------------------------------------------------------------------ */

static bool is_the_repositorys(const struct spec *spec) {
        const char *key = spec->build.dockerfile ? "dockerfile" : "context";

        return spec->tier_of[key_index(key_find(SECTION_BUILD, key))] == TIER_REPOSITORY;
}

/* A repository's path is opened below the workspace, without a link on the way. Return: descriptor, -errno.
 */
static int open_input(const struct build *b, const char *path, int flags, struct error *err) {
        const char *workspace = b->spec->workspace.source;
        AUTO_FD int root = -1;
        const char *rel;
        int fd;

        if (!is_the_repositorys(b->spec)) {
                fd = open(path, flags | O_CLOEXEC);
                return fd < 0 ? error_set(err, -errno, "build: '%s': %s", ESC(path), strerror(errno)) : fd;
        }
        rel = path_below(path, workspace);
        root = open(workspace, O_PATH | O_DIRECTORY | O_CLOEXEC);
        fd = !rel || root < 0 ? -EPERM : open_beneath(root, *rel ? rel : ".", flags, 0);
        return fd < 0 ? error_set(err, fd, "build: '%s' of the repository: %s", ESC(path), strerror(-fd))
                      : fd;
}

/* "Dockerfile" of the context, or the directory of the Dockerfile. */
static int inputs(const struct spec *spec, char **ret_file, char **ret_context) {
        const char *file = spec->build.dockerfile, *context = spec->build.context;
        const char *slash = file ? strrchr(file, '/') : NULL;
        int r = 0;

        if (context)
                *ret_context = strdup(context);
        else if (slash)
                *ret_context = slash == file ? strdup("/") : strndup(file, (size_t) (slash - file));
        if (file)
                *ret_file = strdup(file);
        else if (context)
                r = path_join(context, "Dockerfile", ret_file);
        return r < 0 || !*ret_file || !*ret_context ? -ENOMEM : 0;
}

static int open_inputs(struct build *b, struct error *err) {
        AUTO_FREE char *file = NULL, *context = NULL;
        AUTO_FD int fd = -1;
        struct stat st;
        int r;

        if (inputs(b->spec, &file, &context) < 0)
                return error_set(err, -ENOMEM, "out of memory");
        b->context_fd = open_input(b, context, O_RDONLY | O_DIRECTORY, err);
        if (b->context_fd < 0)
                return b->context_fd;
        fd = open_input(b, file, O_RDONLY | O_NONBLOCK | O_NOCTTY, err);
        if (fd < 0)
                return fd;
        if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
                return error_set(err, -EINVAL, "build: '%s' is no file", ESC(file));
        r = file_read(fd, DOCKERFILE_MAX, &b->file);
        if (r < 0)
                return error_set(err, r, "build: '%s': %s", ESC(file),
                                 r == -EFBIG ? "larger than 1 MiB" : strerror(-r));
        return is_the_repositorys(b->spec) ? dockerfile_check(buf_cstr(&b->file), b->file.len, err) : 0;
}

static bool no_network(const struct spec *spec) {
        return is_the_repositorys(spec) && spec->network.mode != NETWORK_OPEN;
}

/* The value of an argument that has none: the caller's. */
static const char *arg_value(const struct build *b, const struct spec_env *arg) {
        return arg->value ? arg->value : ctx_getenv(b->ctx, arg->name);
}

static void hash_text(SHA2_CTX *hash, const char *text) {
        SHA256Update(hash, (const uint8_t *) text, strlen(text) + 1);
}

/* Names the image by all that goes in; with @to the context is copied there meanwhile. */
static int hash_all(struct build *b, int to, struct error *err) {
        char digits[SHA256_DIGEST_STRING_LENGTH];
        SHA2_CTX hash;
        int r;

        SHA256Init(&hash);
        SHA256Update(&hash, (const uint8_t *) buf_cstr(&b->file), b->file.len + 1);
        hash_text(&hash, b->spec->build.target ? b->spec->build.target : "");
        hash_text(&hash, no_network(b->spec) ? "n" : "y");
        for (size_t i = 0; i < b->spec->build.n_args; i++) {
                const char *value = arg_value(b, &b->spec->build.args[i]);

                hash_text(&hash, b->spec->build.args[i].name);
                hash_text(&hash, value ? value : "");
        }
        if (lseek(b->context_fd, 0, SEEK_SET) < 0)
                return error_set(err, -errno, "build context: %s", strerror(errno));
        r = context_walk(b->context_fd, to, strcmp(b->engine, "docker") == 0, &hash, err);
        if (r < 0)
                return r;
        (void) SHA256End(&hash, digits);
        (void) snprintf(b->name, sizeof(b->name), BUILT_PREFIX "%.*s", NAME_DIGITS, digits);
        return 0;
}

/* --- the engine --------------------------------------------------------------------------------------- */

/* One short call whose answer is its exit code. */
static int ask(const struct build *b, const char *const *words, bool *ret_yes, struct error *err) {
        AUTO_CLI_ARGS struct cli_args args = { .n = 0 };
        AUTO_CLI_RESULT struct cli_result result = { 0 };
        int r;

        for (; *words; words++)
                cli_add(&args, "%s", *words);
        r = cli_run(b->ctx, &args, ASK_MS, &result, err);
        *ret_yes = r == 0 && result.exit_code == 0;
        return r;
}

/* One base image of a repository's. */
static int check_base(const char *image, void *arg, struct error *err) {
        const struct build *b = arg;

        return triggers_check(b->ctx, b->engine, image, err);
}

static int check_bases(struct build *b, struct error *err) {
        AUTO_FREE struct spec_env *args = NULL;
        size_t n = 0;

        if (!is_the_repositorys(b->spec))
                return 0;
        args = calloc(b->spec->build.n_args + 1, sizeof(*args));
        if (!args)
                return error_set(err, -ENOMEM, "out of memory");
        for (size_t i = 0; i < b->spec->build.n_args; i++) {
                args[n] = b->spec->build.args[i];
                args[n].value = (char *) (uintptr_t) arg_value(b, &b->spec->build.args[i]);
                n += args[n].value != NULL;
        }
        return dockerfile_bases(buf_cstr(&b->file), args, n, check_base, b, err);
}

static bool is_there(const struct build *b, const char *engine) {
        bool yes;

        return ask(b, (const char *const[]){ engine, "--version", NULL }, &yes, NULL) == 0 && yes;
}

static int pick_engine(struct build *b, struct error *err) {
        static const char *const engines[] = { "podman", "buildah", "docker" };
        const char *driver = b->spec->driver;

        b->native = strcmp(driver, "auto") == 0 || strcmp(driver, "native") == 0;
        for (size_t i = 0; i < ARRAY_SIZE(engines); i++)
                if ((b->native || strcmp(engines[i], driver) == 0) && is_there(b, engines[i])) {
                        b->engine = engines[i];
                        return 0;
                }
        if (b->native)
                return error_set(
                        err, DRIVER_HOST_LACKS,
                        "build: neither podman, buildah nor docker is here: install one ('sudo apt-get "
                        "install podman'), or name an image with --image");
        if (strcmp(driver, "podman") == 0 || strcmp(driver, "docker") == 0)
                return error_set(err, DRIVER_HOST_LACKS,
                                 "build: %s: not found in PATH: install it, or use --driver native", driver);
        return error_set(err, -ENOTSUP,
                         "CAPABILITY_UNSUPPORTED: build: driver '%s' builds nothing: name an image", driver);
}

/* Whether the image is where the driver takes it from. */
static bool is_built(const struct build *b) {
        const char *const native[] = { "/proc/self/exe", "image", "inspect", b->name, NULL };
        const char *const engine[] = { b->engine, "image", "inspect", "--format", "{{.Id}}", b->name, NULL };
        bool yes;

        return ask(b, b->native ? native : engine, &yes, NULL) == 0 && yes;
}

/* The last lines of what it said. */
static void show_log(const char *said, bool failed) {
        const char *from = said + strlen(said);

        for (int n = 0; from > said && n <= LOG_LINES; from--)
                n += from[-1] == '\n';
        for (size_t len; *from; from += len + (from[len] == '\n')) {
                AUTO_FREE char *line = strndup(from, len = strcspn(from, "\n"));

                if (line && *line && failed)
                        log_warn("build: %s", ESC(line));
                else if (line && *line)
                        log_debug("build: %s", ESC(line));
        }
}

static int run_shown(const struct build *b, const struct cli_args *args, int timeout_ms, const char *what,
                     struct error *err) {
        AUTO_CLI_RESULT struct cli_result result = { 0 };
        int r;

        r = cli_run_merged(b->ctx, args, timeout_ms, &result, err);
        show_log(result.err, r < 0 || result.exit_code != 0);
        /* a step that says this itself gets the code, too: it has filled something */
        if (r == 0 && result.exit_code != 0 && oci_failure(result.err) == DRIVER_FULL)
                return error_set(err, DRIVER_FULL, "build: %s %s: no space left on device: see above",
                                 args->v[0], what);
        if (r == 0 && result.exit_code != 0)
                r = error_set(err, DRIVER_NO_IMAGE, "build: %s %s failed with exit code %d: see above",
                              args->v[0], what, result.exit_code);
        return r;
}

static int run_build(const struct build *b, struct error *err) {
        AUTO_CLI_ARGS struct cli_args args = { .n = 0 };

        cli_add(&args, "%s", b->engine);
        cli_add(&args, "build");
        cli_add_pair(&args, "--file", "%s/Dockerfile", b->dir);
        cli_add_pair(&args, "--tag", "%s", b->name);
        built_label(b->ctx, &args);
        if (b->spec->build.target)
                cli_add_pair(&args, "--target", "%s", b->spec->build.target);
        if (no_network(b->spec))
                cli_add_pair(&args, "--network", "none");
        if (is_the_repositorys(b->spec)) /* what check_bases() has seen */
                cli_add(&args, "--pull=false");
        for (size_t i = 0; i < b->spec->build.n_args; i++) {
                const char *value = arg_value(b, &b->spec->build.args[i]);

                if (value)
                        cli_add_pair(&args, "--build-arg", "%s=%s", b->spec->build.args[i].name, value);
        }
        cli_add(&args, "%s/context", b->dir);
        return run_shown(b, &args, BUILD_MS, "build", err);
}

/* From the engine's store to that of the native driver. */
static int move_image(const struct build *b, struct error *err) {
        AUTO_CLI_ARGS struct cli_args save = { .n = 0 }, import = { .n = 0 };
        int r;

        cli_add(&save, "%s", b->engine);
        if (strcmp(b->engine, "buildah") == 0) {
                cli_add(&save, "push");
                cli_add(&save, "%s", b->name);
                cli_add(&save, "oci-archive:%s/image.tar:%s", b->dir, b->name);
        } else {
                cli_add(&save, "save");
                if (strcmp(b->engine, "podman") == 0)
                        cli_add_pair(&save, "--format", "oci-archive");
                cli_add_pair(&save, "--output", "%s/image.tar", b->dir);
                cli_add(&save, "%s", b->name);
        }
        cli_add(&import, "/proc/self/exe");
        cli_add(&import, "image");
        cli_add(&import, "import");
        cli_add(&import, "%s/image.tar", b->dir);
        cli_add(&import, "%s", b->name);
        r = run_shown(b, &save, MOVE_MS, "export", err);
        return r < 0 ? r : run_shown(b, &import, MOVE_MS, "image import", err);
}

/* --- all of it ---------------------------------------------------------------------------------------- */

/* A directory for what the engine reads, that only the caller can enter. */
static int make_dir(struct build *b, struct error *err) {
        char template[PATH_MAX];
        int r;

        if (!b->ctx->state_dir)
                return error_set(err, -ENOENT, "build: there is no state directory: set XDG_STATE_HOME");
        r = oci_state_dir(b->ctx);
        if (r < 0)
                return error_set(err, r, "'%s': %s", ESC(b->ctx->state_dir), strerror(-r));
        if (snprintf(template, sizeof(template), "%s/%sXXXXXX", b->ctx->state_dir, copy_prefix) >=
            (int) sizeof(template))
                return error_set(err, -ENAMETOOLONG, "state directory: %s", strerror(ENAMETOOLONG));
        if (!mkdtemp(template))
                return error_set(err, -errno, "'%s': %s", ESC(template), strerror(errno));
        memcpy(b->dir, template, sizeof(b->dir));
        b->lock_fd = open(b->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (b->lock_fd < 0 || flock(b->lock_fd, LOCK_SH | LOCK_NB) < 0)
                return error_set(err, -errno, "'%s': %s", ESC(b->dir),
                                 strerror(errno)); /* 'gc' was quicker */
        return 0;
}

static int copy_inputs(struct build *b, struct error *err) {
        AUTO_FD int dir = open(b->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC), to = -1;
        int r;

        if (dir < 0 || mkdirat(dir, "context", 0700) < 0)
                return error_set(err, -errno, "'%s': %s", ESC(b->dir), strerror(errno));
        to = openat(dir, "context", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (to < 0)
                return error_set(err, -errno, "'%s': %s", ESC(b->dir), strerror(errno));
        r = file_replace_at(dir, "Dockerfile", buf_cstr(&b->file), b->file.len, 0600, false);
        if (r < 0)
                return error_set(err, r, "'%s': %s", ESC(b->dir), strerror(-r));
        return hash_all(b, to, err); /* the name of what is there now */
}

static int make_image(struct build *b, struct error *err) {
        int r;

        r = open_inputs(b, err);
        if (r == 0)
                r = pick_engine(b, err);
        if (r == 0)
                r = hash_all(b, -1, err);
        if (r < 0)
                return r;
        b->use_fd = built_use(b->ctx, b->engine, b->name); /* without it gc would take it once more */
        if (is_built(b))
                return 0;
        r = check_bases(b, err);
        if (r == 0)
                r = make_dir(b, err);
        if (r == 0)
                r = copy_inputs(b, err);
        if (r == 0)
                r = run_build(b, err);
        return r == 0 && b->native ? move_image(b, err) : r;
}

int build_image(const struct ctx *ctx, const struct spec *spec, struct spec **ret, struct error *err) {
        CLEANUP(build_deinit)
        struct build b = { .ctx = ctx, .spec = spec, .context_fd = -1, .lock_fd = -1, .use_fd = -1 };
        AUTO_SPEC struct spec *copy = NULL;
        int r;

        r = make_image(&b, err);
        if (r == 0)
                r = spec_copy(spec, &copy, err);
        if (r < 0)
                return r;
        free(copy->image);
        copy->image = strdup(b.name);
        if (!copy->image)
                return error_set(err, -ENOMEM, "out of memory");
        *ret = TAKE_PTR(copy);
        return 0;
}
