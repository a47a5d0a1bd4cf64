#include "runtime/spec/repository.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "runtime/base/cleanup.h"
#include "runtime/base/escape.h"
#include "runtime/base/file.h"
#include "runtime/base/path.h"
#include "runtime/base/sys.h"
#include "runtime/spec/devcontainer.h"
#include "runtime/spec/list.h"
#include "runtime/spec/refuse.h"

#define OWN_FILE ".cofferdam.yaml"

/* the first that is there counts; @dir: that of the file, below the workspace */
static const struct {
        const char *path, *dir;
} devcontainers[] = { { ".devcontainer/devcontainer.json", ".devcontainer" }, { ".devcontainer.json", "" } };

static int open_workspace(const char *workspace) {
        const int fd = open(workspace, O_PATH | O_DIRECTORY | O_CLOEXEC);

        return fd < 0 ? -errno : fd;
}

bool repository_speaks(const char *workspace) {
        AUTO_FD int dir = open_workspace(workspace);
        struct stat st;

        if (dir < 0)
                return false; /* whoever uses the workspace says so */
        for (size_t i = 0; i < ARRAY_SIZE(devcontainers); i++)
                if (fstatat(dir, devcontainers[i].path, &st, AT_SYMLINK_NOFOLLOW) == 0)
                        return true;
        return fstatat(dir, OWN_FILE, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

/* Return: 1: there is no such file. */
static int read_file(int dir, const char *path, struct buf *text, struct error *err) {
        AUTO_FD int fd = open_beneath(dir, path, O_RDONLY | O_NONBLOCK | O_NOCTTY, 0);
        struct stat st;
        int r;

        if (fd == -ENOENT || fd == -ENOTDIR)
                return 1;
        if (fd < 0)
                return error_set(err, fd, "%s: cannot read: %s", path,
                                 fd == -ELOOP ? "a symbolic link is not followed" : strerror(-fd));
        if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
                return error_set(err, -EINVAL, "%s: not a regular file", path);
        r = file_read(fd, DOC_FILE_MAX, text);
        if (r == -EFBIG)
                return error_set(err, r, "%s: larger than %d KiB", path, DOC_FILE_MAX / 1024);
        return r < 0 ? error_set(err, r, "%s: cannot read: %s", path, strerror(-r)) : 0;
}

static enum spec_tier tier_of(const struct spec *spec, enum section section, const char *name) {
        return spec->tier_of[key_index(key_find(section, name))];
}

/* As if nobody had said it. */
static int unset(struct spec *spec, const struct key *key) {
        spec->tier_of[key_index(key)] = TIER_BUILTIN;
        if (key_is_list(key)) {
                list_free(spec, key);
                return 0;
        }
        value_free(spec, key);
        return value_default(spec, key);
}

static int note(struct spec *spec, enum refusal_kind kind, const char *key, const char *reason,
                const char *remedy) {
        const struct source src = { .tier = TIER_REPOSITORY, .file = "the repository" };

        return refusal_add(spec, kind, &src, NULL, key, reason, remedy);
}

static void swap(struct spec *a, struct spec *b) {
        const struct spec old = *a;

        *a = *b;
        *b = old;
}

/* A file that cannot be used says nothing, but that. */
static int merge_devcontainer(struct spec *spec, const struct ctx *ctx, const char *workspace, size_t i,
                              struct buf *text, struct error *err) {
        AUTO_FREE char *dir = NULL;
        AUTO_SPEC struct spec *merged = NULL;
        struct devcontainer from = { .file = devcontainers[i].path, .workspace = workspace, .ctx = ctx };
        struct error why = { 0 };
        int r;

        r = path_join(workspace, devcontainers[i].dir, &dir);
        if (r == 0)
                r = spec_copy(spec, &merged, &why);
        if (r < 0)
                return error_set(err, r, "out of memory");
        from.dir = dir;
        r = devcontainer_merge(merged, &from, text->data ? text->data : (char[]){ "" }, text->len, &why);
        if (r == -ENOMEM)
                return error_set(err, r, "out of memory");
        if (r == 0) {
                swap(spec, merged);
                return 0;
        }
        return note(spec, REFUSAL_KEY, "devcontainer.json", why.msg,
                    "mend it, name an image with --image, or leave it out with --no-repository");
}

static int read_devcontainer(struct spec *spec, const struct ctx *ctx, const char *workspace, int dir,
                             struct error *err) {
        int r = 1;

        for (size_t i = 0; r == 1 && i < ARRAY_SIZE(devcontainers); i++) {
                AUTO_BUF struct buf text = { 0 };
                struct error why = { 0 };

                r = read_file(dir, devcontainers[i].path, &text, &why);
                if (r == 0)
                        r = merge_devcontainer(spec, ctx, workspace, i, &text, err);
                else if (r < 0)
                        r = note(spec, REFUSAL_KEY, "devcontainer.json", why.msg, "--image, or mend it");
        }
        return r < 0 ? error_set(err, r, "out of memory") : 0;
}

static const char *const build_keys[] = { "dockerfile", "context", "args", "target" };

static bool builds(const struct spec *spec) {
        return spec->build.dockerfile || spec->build.context || spec->build.n_args || spec->build.target;
}

static int unset_build(struct spec *spec, enum spec_tier tier) {
        int r = 0;

        for (size_t i = spec->build.n_args; i-- > 0;) /* the list may be of several */
                if (spec->build.args[i].tier == tier)
                        list_remove(spec, key_find(SECTION_BUILD, "args"), i);
        for (size_t i = 0; r == 0 && i < ARRAY_SIZE(build_keys); i++)
                if (tier_of(spec, SECTION_BUILD, build_keys[i]) == tier)
                        r = unset(spec, key_find(SECTION_BUILD, build_keys[i]));
        return r;
}

/* .cofferdam.yaml over devcontainer.json: of the roots that they name, its own. */
static int read_own(struct spec *spec, const struct ctx *ctx, const char *workspace, int dir,
                    struct error *err) {
        const struct spec_env_view view = { .home = ctx->home, .cwd = workspace };
        const bool had_image = spec->image, had_build = builds(spec);
        AUTO_BUF struct buf text = { 0 };
        int r;

        r = read_file(dir, OWN_FILE, &text, err);
        if (r == 1)
                return 0;
        if (r == 0)
                r = spec_merge_bytes(spec, OWN_FILE, buf_cstr(&text), text.len, TIER_REPOSITORY, &view, err);
        if (r < 0)
                return error_wrap(err, r, "the repository's file, which --no-repository leaves out");
        if (had_build && !had_image && spec->image)
                r = unset_build(spec, TIER_REPOSITORY);
        else if (had_image && !had_build && builds(spec))
                r = unset(spec, key_find(SECTION_ROOT, "image"));
        return r < 0 ? error_set(err, r, "out of memory") : 0;
}

int repository_read(struct spec *spec, const struct ctx *ctx, const char *workspace, struct error *err) {
        AUTO_FD int dir = open_workspace(workspace);
        int r;

        if (dir < 0)
                return 0; /* whoever uses it says so */
        r = read_devcontainer(spec, ctx, workspace, dir, err);
        return r < 0 ? r : read_own(spec, ctx, workspace, dir, err);
}

/* --- when everyone has spoken ------------------------------------------------------------------------- */

static bool no_sandbox(const struct spec *spec) {
        return spec->mode == MODE_NONE || strcmp(spec->driver, "noop") == 0;
}

/* Whether somebody else said what the root is. */
static bool root_is_said(const struct spec *spec) {
        bool said = tier_of(spec, SECTION_ROOT, "image") > TIER_REPOSITORY ||
                    tier_of(spec, SECTION_ROOT, "rootfs") > TIER_REPOSITORY || spec->host_root ||
                    no_sandbox(spec);

        for (size_t i = 0; i < ARRAY_SIZE(build_keys); i++)
                said = said || tier_of(spec, SECTION_BUILD, build_keys[i]) > TIER_REPOSITORY;
        return said;
}

static bool root_is_the_repositorys(const struct spec *spec) {
        return tier_of(spec, SECTION_ROOT, "image") == TIER_REPOSITORY ||
               tier_of(spec, SECTION_BUILD, "dockerfile") == TIER_REPOSITORY ||
               tier_of(spec, SECTION_BUILD, "context") == TIER_REPOSITORY;
}

/* "" when @path is @workspace, what is left below it, or NULL; by name. */
static const char *inside(const char *path, const char *workspace) {
        return path && !value_has_dotdot(path) ? path_below(path, workspace) : NULL;
}

/* Whether it is there, below the workspace, with no link on the way. */
static bool is_beneath(const char *path, const char *workspace) {
        const char *rel = inside(path, workspace);
        AUTO_FD int dir = rel ? open_workspace(workspace) : -1;
        AUTO_FD int fd = dir < 0 ? -1 : open_beneath(dir, *rel ? rel : ".", O_PATH, 0);
        struct stat st;

        return fd >= 0 && fstat(fd, &st) == 0 && !S_ISLNK(st.st_mode); /* O_PATH opens a last link itself */
}

static bool hides(const struct spec *spec) {
        bool any = false;

        for (size_t i = 0; i < spec->guard.n_rules; i++)
                any = any || spec->guard.rules[i].action == GUARD_HIDE;
        return any;
}

/* Why the repository's build cannot be; NULL: it can. */
static const char *build_wrong(const struct spec *spec, const char *workspace) {
        const char *file = spec->build.dockerfile, *context = spec->build.context;

        if (!file && !context)
                return "names neither dockerfile nor context";
        if ((file && !is_beneath(file, workspace)) || (context && !is_beneath(context, workspace)))
                return "dockerfile and context must be there, in the workspace, without links";
        return hides(spec) ? "it could show what a rule hides" : NULL;
}

static int settle_build(struct spec *spec, const char *workspace) {
        const char *wrong = builds(spec) ? build_wrong(spec, workspace) : NULL;

        if (!wrong)
                return 0;
        if (unset_build(spec, TIER_REPOSITORY) < 0)
                return -ENOMEM;
        return note(spec, REFUSAL_KEY, "build", wrong, "build the image yourself and use --image");
}

static int settle_root(struct spec *spec, const char *workspace) {
        const struct key *image = key_find(SECTION_ROOT, "image");
        int r = 0;

        if (!root_is_said(spec))
                return tier_of(spec, SECTION_ROOT, "image") == TIER_REPOSITORY && builds(spec)
                               ? unset_build(spec, TIER_REPOSITORY)
                               : settle_build(spec, workspace);
        if (spec->tier_of[key_index(image)] == TIER_REPOSITORY)
                r = unset(spec, image);
        return r == 0 ? unset_build(spec, TIER_REPOSITORY) : r;
}

/* The names of a container mean nothing in another one. */
static int settle_names(struct spec *spec, const struct spec_env_view *view) {
        const struct key *user = key_find(SECTION_ROOT, "user"),
                         *target = key_find(SECTION_WORKSPACE, "target");
        const bool own = root_is_the_repositorys(spec);
        const char *shadows = NULL;
        int r = 0;

        if (spec->tier_of[key_index(user)] == TIER_REPOSITORY && !own)
                r = unset(spec, user);
        if (r < 0 || spec->tier_of[key_index(target)] != TIER_REPOSITORY)
                return r;
        shadows = spec_shadowed(spec->workspace.target, view);
        if (own && !shadows)
                return 0;
        r = unset(spec, target);
        if (r == 0 && shadows)
                r = note(spec, REFUSAL_KEY, "workspaceFolder", "would shadow what every sandbox has",
                         "--workspace-target DIR");
        return r;
}

/* Why the repository's @mount cannot be; NULL: it can. */
static const char *mount_wrong(const struct spec *spec, size_t i, const char *workspace,
                               const struct spec_env_view *view) {
        const struct spec_mount *mount = &spec->mounts[i];
        const char *at = spec->workspace.target ? spec->workspace.target : spec->workspace.source;

        if (no_sandbox(spec))
                return "there is no sandbox";
        if (spec_shadowed(mount->target, view))
                return "its target would shadow what every sandbox has";
        if (strcmp(mount->target, at) == 0)
                return "its target is that of the workspace";
        for (size_t j = 0; j < spec->n_mounts; j++)
                if ((j < i || spec->mounts[j].tier > TIER_REPOSITORY) && j != i &&
                    strcmp(spec->mounts[j].target, mount->target) == 0)
                        return "its target is that of another mount";
        if (mount->type == MOUNT_TMPFS)
                return NULL;
        if (!is_beneath(mount->source, workspace))
                return "its source must be there, in the workspace, without links";
        return hides(spec) ? "it could show what a rule hides" : NULL;
}

static int settle_mounts(struct spec *spec, const char *workspace, const struct spec_env_view *view) {
        int r = 0;

        for (size_t i = 0; r == 0 && i < spec->n_mounts;) {
                const char *wrong = spec->mounts[i].tier == TIER_REPOSITORY
                                            ? mount_wrong(spec, i, workspace, view)
                                            : NULL;

                if (!wrong) {
                        i++;
                        continue;
                }
                r = note(spec, REFUSAL_KEY, "mounts", wrong, "--mount");
                if (r == 0)
                        list_remove(spec, key_find(SECTION_ROOT, "mounts"), i);
        }
        return r;
}

/* What only a sandbox keeps is not asked of whoever was told to do without. */
static int settle_rules(struct spec *spec) {
        int r = 0;

        for (size_t i = spec->guard.n_rules; r == 0 && no_sandbox(spec) && i-- > 0;) {
                if (spec->guard.rules[i].tier != TIER_REPOSITORY)
                        continue;
                r = note(spec, REFUSAL_KEY, "guard.rules", "there is no sandbox",
                         "another --mode and --driver");
                list_remove(spec, key_find(SECTION_GUARD, "rules"), i);
        }
        return r;
}

/* Names that a workflow allows would be of no use without a mode: what it meant is an allowlist. */
static int settle_network(struct spec *spec) {
        enum spec_tier *mode = &spec->tier_of[key_index(key_find(SECTION_NETWORK, "mode"))];
        const enum spec_tier preset = tier_of(spec, SECTION_NETWORK, "preset"),
                             rules = tier_of(spec, SECTION_NETWORK, "rules");

        if (!root_is_the_repositorys(spec) || *mode != TIER_BUILTIN ||
            (preset <= TIER_REPOSITORY && rules <= TIER_REPOSITORY))
                return 0;
        spec->network.mode = NETWORK_ALLOWLIST;
        *mode = preset > rules ? preset : rules;
        if (spec->network.preset)
                return 0;
        spec->network.preset = strdup("default");
        if (!spec->network.preset)
                return -ENOMEM;
        return note(spec, REFUSAL_NETWORK, "network.mode",
                    "rules without a mode: an allowlist of them and of the preset 'default'",
                    "network.mode (--network)");
}

int repository_settle(struct spec *spec, const char *workspace, const struct spec_env_view *view,
                      struct error *err) {
        int r;

        r = settle_root(spec, workspace);
        if (r == 0)
                r = settle_names(spec, view);
        if (r == 0)
                r = settle_mounts(spec, workspace, view);
        if (r == 0)
                r = settle_rules(spec);
        if (r == 0)
                r = settle_network(spec);
        return r < 0 ? error_set(err, -ENOMEM, "out of memory") : 0;
}

int repository_without_root(const struct spec *spec, const char *why, struct spec **ret, struct error *err) {
        static const struct spec_env_view nobody = { 0 };
        AUTO_SPEC struct spec *copy = NULL;
        int r;

        *ret = NULL;
        if (!root_is_the_repositorys(spec) || spec->mode != MODE_AUTO ||
            (spec->isolation == ISOLATION_STRICT && tier_of(spec, SECTION_ROOT, "isolation") > TIER_BUILTIN))
                return 0;
        r = spec_copy(spec, &copy, err);
        if (r < 0)
                return r;
        r = unset(copy, key_find(SECTION_ROOT, "image"));
        if (r == 0)
                r = unset_build(copy, TIER_REPOSITORY);
        if (r == 0)
                r = settle_names(copy, &nobody);
        if (r == 0)
                r = note(copy, REFUSAL_KEY, spec->image ? "image" : "build", why,
                         "'cofferdam doctor' says what serves images here; --host-root asks for none");
        if (r < 0)
                return error_set(err, -ENOMEM, "out of memory");
        *ret = TAKE_PTR(copy);
        return 0;
}
