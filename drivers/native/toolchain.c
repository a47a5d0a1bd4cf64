#include <string.h>
#include <sys/stat.h>

#include "drivers/native/parts.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/path.h"

enum { ROOTS_MAX = 8 };

/*
 * Which directories make a toolchain work when one of its own is in PATH. All relative to the home. Where a
 * tool keeps programs and a writable cache side by side (cargo, bun) only the programs come back, so that the
 * cache is the sandbox's own and credentials stay away.
 */
static const struct {
        const char *below;
        const char *roots[ROOTS_MAX];
} tools[] = {
        { ".asdf", { ".asdf" } },
        { ".bun", { ".bun/bin", ".bun/install/global" } },
        { ".cargo", { ".cargo/bin", ".cargo/env", ".rustup" } },
        { ".deno", { ".deno/bin" } },
        { ".fnm", { ".fnm" } },
        { ".local/bin",
          { ".local/bin", ".local/lib", ".local/pipx", ".local/share/claude", ".local/share/mise",
            ".local/share/pipx", ".local/share/uv" } },
        { ".local/share/fnm", { ".local/share/fnm" } },
        { ".local/share/mise", { ".local/share/mise" } },
        { ".local/share/pnpm", { ".local/share/pnpm" } },
        { ".local/state/fnm_multishells", { ".local/state/fnm_multishells", ".local/share/fnm" } },
        { ".nix-profile", { ".nix-profile" } },
        { ".nvm", { ".nvm" } },
        { ".pyenv", { ".pyenv" } },
        { ".rbenv", { ".rbenv" } },
        { ".rustup", { ".rustup" } },
        { ".sdkman", { ".sdkman" } },
        { ".volta", { ".volta" } },
        { "go/bin", { "go/bin" } },
};

/* Names of files in toolchain roots that are the operator's alone. */
static const struct rule_def hidden[] = {
        { "**/.npmrc", GUARD_HIDE, true },           { "**/.netrc", GUARD_HIDE, true },
        { "**/.pypirc", GUARD_HIDE, true },          { "**/credentials", GUARD_HIDE, true },
        { "**/credentials.toml", GUARD_HIDE, true }, { "**/.git-credentials", GUARD_HIDE, true },
};

size_t toolchain_roots(const char *entry, const char *home, const char **ret, size_t max) {
        const char *rel = path_below(entry, home);
        size_t n = 0;

        if (!rel || !*rel)
                return 0;
        for (size_t i = 0; i < ARRAY_SIZE(tools); i++) {
                const size_t len = strlen(tools[i].below);

                if (strncmp(rel, tools[i].below, len) != 0 || (rel[len] != '\0' && rel[len] != '/'))
                        continue;
                while (n < max && n < ROOTS_MAX && tools[i].roots[n]) {
                        ret[n] = tools[i].roots[n];
                        n++;
                }
                return n;
        }
        if (max == 0)
                return 0;
        ret[0] = rel;
        return 1;
}

static bool is_dir(const char *dir, const char *name) {
        AUTO_FREE char *path = NULL;
        struct stat st;

        return path_join(dir, name, &path) == 0 && stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

/*
 * "<prefix>/bin" whose programs find their parts in "<prefix>/lib" and the like: the prefix, owned; NULL when
 * it is not one, or is the home or a top-level directory, which hold more than a toolchain.
 */
static char *prefix_of(const char *entry, const char *home) {
        static const char *const parts[] = { "lib", "lib64", "libexec" };
        AUTO_FREE char *prefix = strdup(entry);
        char *slash;

        if (!prefix ||
            (strcmp(path_basename(entry), "bin") != 0 && strcmp(path_basename(entry), "sbin") != 0))
                return NULL;
        slash = strrchr(prefix, '/');
        *slash = '\0';
        if (!strchr(prefix + (*prefix != '\0'), '/') || strcmp(prefix, home) == 0 || path_below(home, prefix))
                return NULL;
        for (size_t i = 0; i < ARRAY_SIZE(parts); i++)
                if (is_dir(prefix, parts[i]))
                        return TAKE_PTR(prefix);
        return NULL;
}

static int add_root(struct driver_plan *plan, const struct spec *spec, const char *path, struct error *err) {
        const struct region_request req = {
                .source = path,
                .target = path,
                .kind = REGION_RO,
                .role = ROLE_TOOLCHAIN,
                .host_state = true,
                .rules = hidden,
                .n_rules = ARRAY_SIZE(hidden),
        };
        struct stat st;

        if (region_find(plan, path) || os_shows(path) || stat(path, &st) < 0)
                return 0;
        return region_add(plan, spec, &req, true, err);
}

static int add_entry(struct driver_plan *plan, const struct spec *spec, const char *entry, const char *home,
                     struct error *err) {
        AUTO_FREE char *prefix = prefix_of(entry, home);
        const char *roots[ROOTS_MAX] = { 0 };
        const size_t n = toolchain_roots(entry, home, roots, ROOTS_MAX);
        int r = 0;

        if (n == 0 || (n == 1 && roots[0] == path_below(entry, home)))
                return add_root(plan, spec, prefix ? prefix : entry, err);
        for (size_t i = 0; r == 0 && i < n; i++) {
                AUTO_FREE char *path = NULL;

                r = path_join(home, roots[i], &path);
                if (r == 0)
                        r = add_root(plan, spec, path, err);
        }
        return r;
}

/* PATH entries that are never brought in: the whole of a place, not a place for programs. */
static bool too_broad(const char *entry, const char *home) {
        static const char *const never[] = { "/proc", "/sys", "/dev", "/run", "/boot" };

        if (strcmp(entry, "/") == 0 || path_below(home, entry))
                return true;
        for (size_t i = 0; i < ARRAY_SIZE(never); i++)
                if (path_below(entry, never[i]))
                        return true;
        return false;
}

int toolchains_add(struct driver_plan *plan, const struct spec *spec, struct error *err) {
        const char *path = ctx_getenv(plan->ctx, "PATH");
        const char *home = plan->ctx->home && !plan->id.switch_user ? plan->ctx->home : plan->id.home;

        if (!spec->home.toolchains || !path)
                return 0;
        while (*path) {
                const size_t n = strcspn(path, ":");
                AUTO_FREE char *entry = strndup(path, n), *norm = NULL;
                int r = 0;

                if (!entry)
                        return error_set(err, -ENOMEM, "out of memory");
                if (*entry == '/' && path_normalize(NULL, entry, &norm) == 0 && !os_shows(norm) &&
                    !region_find(plan, norm) && !too_broad(norm, home) &&
                    !(plan->id.switch_user && plan->ctx->home && path_below(norm, plan->ctx->home)))
                        r = add_entry(plan, spec, norm, home, err);
                if (r < 0)
                        return error_wrap(err, r, "toolchain of PATH entry '%s'", entry);
                path += n + (path[n] == ':');
        }
        return 0;
}
