#include "runtime/spec/resolve.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "runtime/base/cleanup.h"
#include "runtime/base/escape.h"
#include "runtime/base/file.h"
#include "runtime/base/json.h"
#include "runtime/base/path.h"
#include "runtime/spec/list.h"
#include "runtime/spec/merge.h"
#include "runtime/spec/repository.h"

enum { VARIABLE_LEN = 64 };

/* The operator's own file: one that others can write does not speak for the operator. */
static int config_open(const struct ctx *ctx, const char *path, int *ret_fd, struct error *err) {
        AUTO_FD int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
        struct stat st;

        if (fd < 0 && (errno == ENOENT || errno == ENOTDIR)) {
                *ret_fd = -1;
                return 0;
        }
        if (fd < 0 || fstat(fd, &st) < 0)
                return error_set(err, -errno, "%s: cannot read: %s%s", ESC(path), strerror(errno),
                                 errno == EACCES
                                         ? "; remedy: set XDG_CONFIG_HOME to a directory that you can read"
                                         : "");
        if (!S_ISREG(st.st_mode))
                return error_set(err, -EINVAL, "%s: not a regular file", ESC(path));
        if ((st.st_uid != ctx->uid && st.st_uid != 0) || (st.st_mode & S_IWOTH))
                return error_set(err, -EPERM,
                                 "%s: must belong to the caller or root and not be writable by others",
                                 ESC(path));
        *ret_fd = TAKE_FD(fd);
        return 0;
}

static int merge_config(struct spec *spec, const struct ctx *ctx, const struct spec_env_view *view,
                        struct error *err) {
        AUTO_FREE char *path = NULL;
        AUTO_BUF struct buf text = { 0 };
        AUTO_FD int fd = -1;
        int r;

        if (!ctx->config_dir)
                return 0;
        r = path_join(ctx->config_dir, "config.yaml", &path);
        if (r < 0)
                return error_set(err, r, "out of memory");
        r = config_open(ctx, path, &fd, err);
        if (r < 0 || fd < 0)
                return r;
        r = file_read(fd, DOC_FILE_MAX, &text);
        if (r < 0)
                return error_set(err, r, "%s: %s", ESC(path),
                                 r == -EFBIG ? "larger than 1 MiB" : strerror(-r));
        return spec_merge_bytes(spec, path, buf_cstr(&text), text.len, TIER_CONFIG, view, err);
}

/* A variable's @value over @key; an empty one says nothing. */
static int merge_variable(struct spec *spec, const char *name, const char *value, const struct key *key,
                          enum spec_tier tier, const struct spec_env_view *view, struct error *err) {
        const struct source src = { .tier = tier, .origin = name, .view = view };

        if (!value || !*value || merge_yields(spec, key, value))
                return 0;
        if (key->type == KEY_BOOL && strcmp(value, "1") == 0)
                value = "true";
        if (key->type == KEY_BOOL && strcmp(value, "0") == 0)
                value = "false";
        return merge_text(spec, key, value, &src, err);
}

/* Names that users of other launchers have set already. */
static const struct {
        const char *variable;
        enum section section;
        const char *key;
        enum spec_tier tier;
} aliases[] = {
        { "ITERION_SANDBOX_DEFAULT", SECTION_ROOT, "mode", TIER_ENVIRONMENT },
        { "ITERION_SANDBOX_DEFAULT_IMAGE", SECTION_ROOT, "image", TIER_ENVIRONMENT },
        { "ITERION_SANDBOX_HOST_STATE", SECTION_ROOT, "host_state", TIER_ENVIRONMENT },
        { "ITERION_SANDBOX_OVERRIDE", SECTION_ROOT, "mode", TIER_FLAG },
};

/* Their words come in any case, with blanks around them; what is longer than any word is left as it is. */
static const char *tidy_word(const char *value, char out[static VARIABLE_LEN]) {
        const char *from = value + strspn(value, " \t\r\n");
        size_t n = strlen(from);

        while (n > 0 && strchr(" \t\r\n", from[n - 1]))
                n--;
        if (n >= VARIABLE_LEN)
                return value;
        for (size_t i = 0; i < n; i++)
                out[i] = (char) tolower((unsigned char) from[i]);
        out[n] = '\0';
        return out;
}

static int merge_aliases(struct spec *spec, const struct ctx *ctx, enum spec_tier tier,
                         const struct spec_env_view *view, struct error *err) {
        int r = 0;

        for (size_t i = 0; r == 0 && i < ARRAY_SIZE(aliases); i++) {
                const struct key *key = key_find(aliases[i].section, aliases[i].key);
                const char *value = ctx_getenv(ctx, aliases[i].variable);
                char word[VARIABLE_LEN];

                if (aliases[i].tier != tier)
                        continue;
                if (value && key->type == KEY_ENUM)
                        value = tidy_word(value, word);
                r = merge_variable(spec, aliases[i].variable, value, key, tier, view, err);
        }
        return r;
}

/* "COFFERDAM_HOME_SIZE" of the option "home-size" */
static void variable_name(const struct key *key, char out[static VARIABLE_LEN]) {
        (void) snprintf(out, VARIABLE_LEN, "COFFERDAM_%s", key->flag);
        for (char *c = out; *c; c++)
                *c = *c == '-' ? '_' : (char) toupper((unsigned char) *c);
}

static int merge_environment(struct spec *spec, const struct ctx *ctx, const struct spec_env_view *view,
                             struct error *err) {
        int r;

        r = merge_aliases(spec, ctx, TIER_ENVIRONMENT, view, err);
        for (size_t i = 0; r == 0 && i < spec_key_count(); i++) {
                char name[VARIABLE_LEN];

                if (!spec_keys[i].flag || spec_keys[i].type >= KEY_RULES)
                        continue;
                variable_name(&spec_keys[i], name);
                r = merge_variable(spec, name, ctx_getenv(ctx, name), &spec_keys[i], TIER_ENVIRONMENT, view,
                                   err);
        }
        return r;
}

static int default_workspace(struct spec *spec, const struct ctx *ctx, struct error *err) {
        if (spec->workspace.source)
                return 0;
        if (!ctx->cwd)
                return error_set(err, -ESTALE,
                                 "workspace: the current directory is gone: name one with --workspace");
        spec->workspace.source = strdup(ctx->cwd);
        return spec->workspace.source ? 0 : error_set(err, -ENOMEM, "out of memory");
}

/* @workspace: whose repository is heard; NULL: none, which says where it is and whether it is to be heard. */
static int merge_all(const struct ctx *ctx, const struct spec_said *said, const char *workspace,
                     struct spec **ret, struct error *err) {
        const struct spec_env_view view = { .home = ctx->home, .cwd = ctx->cwd };
        AUTO_SPEC struct spec *spec = NULL;
        int r;

        r = spec_new(&spec, err);
        if (r == 0 && workspace)
                r = repository_read(spec, ctx, workspace, err);
        if (r == 0)
                r = merge_config(spec, ctx, &view, err);
        if (r == 0)
                r = merge_environment(spec, ctx, &view, err);
        if (r == 0)
                r = said->files(said->arg, spec, &view, err);
        if (r == 0)
                r = merge_aliases(spec, ctx, TIER_FLAG, &view, err);
        if (r == 0)
                r = said->options(said->arg, spec, &view, err);
        if (r == 0)
                r = default_workspace(spec, ctx, err);
        if (r == 0 && workspace)
                r = repository_settle(spec, workspace, &view, err);
        if (r < 0)
                return r;
        *ret = TAKE_PTR(spec);
        return 0;
}

int spec_resolve_said(const struct ctx *ctx, const struct spec_said *said, struct spec **ret,
                      struct error *err) {
        const struct spec_env_view view = { .home = ctx->home, .cwd = ctx->cwd };
        AUTO_SPEC struct spec *spec = NULL, *heard = NULL;
        int r;

        r = merge_all(ctx, said, NULL, &spec, err);
        if (r == 0 && spec->repository && repository_speaks(spec->workspace.source)) {
                r = merge_all(ctx, said, spec->workspace.source, &heard, err);
                if (r == 0) {
                        (void) spec_free(spec);
                        spec = TAKE_PTR(heard);
                }
        }
        if (r == 0)
                r = spec_validate(spec, &view, err);
        if (r < 0)
                return r;
        *ret = TAKE_PTR(spec);
        return 0;
}

static int flag_files(const void *arg, struct spec *spec, const struct spec_env_view *view,
                      struct error *err) {
        const struct flags *flags = arg;
        int r = 0;

        for (size_t i = 0; r == 0 && i < flags->n_specs; i++)
                r = spec_merge_file(spec, flags->specs[i], flags->spec_tier, view, err);
        return r;
}

static int flag_options(const void *arg, struct spec *spec, const struct spec_env_view *view,
                        struct error *err) {
        return flags_apply(arg, spec, view, err);
}

int spec_resolve(const struct ctx *ctx, const struct flags *flags, struct spec **ret, struct error *err) {
        const struct spec_said said = { flag_files, flag_options, flags };

        return spec_resolve_said(ctx, &said, ret, err);
}
