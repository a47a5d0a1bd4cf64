#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "drivers/native/parts.h"
#include "fs/gitconfig.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/escape.h"
#include "runtime/base/file.h"
#include "runtime/base/path.h"

enum { GITCONFIG_MAX = 1 << 20 };

/* Keys of the operator's git config that are told inside: who he is, and how git behaves. No key that names a
 * program, a file or an address. */
static const char *const harmless[] = {
        "user.name",
        "user.email",
        "init.defaultbranch",
        "pull.rebase",
        "pull.ff",
        "push.default",
        "push.autosetupremote",
        "fetch.prune",
        "rebase.autosquash",
        "rebase.autostash",
        "rebase.updaterefs",
        "merge.conflictstyle",
        "merge.ff",
        "core.autocrlf",
        "core.eol",
        "core.quotepath",
        "core.abbrev",
        "color.ui",
        "column.ui",
        "diff.algorithm",
        "diff.renames",
        "diff.colormoved",
        "branch.sort",
        "tag.sort",
        "rerere.enabled",
        "commit.verbose",
        "status.short",
        "log.date",
        "help.autocorrect",
        "feature.manyfiles",
};

/* Where the seed lands: what was asked, else the same place below the home, else the home itself. */
static int target_of(const struct driver_plan *plan, const struct spec_seed *seed, char **ret) {
        const char *rel = plan->ctx->home ? path_below(seed->from, plan->ctx->home) : NULL;

        if (seed->to)
                return path_normalize(plan->id.home, seed->to, ret);
        return path_join(plan->id.home, rel && *rel ? rel : path_basename(seed->from), ret);
}

static int seed_check(const struct native_seed *seed, const struct stat *st, struct error *err) {
        if (!S_ISREG(st->st_mode) && !S_ISDIR(st->st_mode))
                return error_set(err, -EINVAL, "seed '%s' is neither a file nor a directory",
                                 ESC(seed->source));
        if (S_ISREG(st->st_mode) && (uint64_t) st->st_size > seed->bytes_max)
                return error_set(err, -EFBIG,
                                 "seed '%s' has %lld bytes, at most %llu are copied: use --mount, or raise "
                                 "home.seed_max",
                                 ESC(seed->source), (long long) st->st_size,
                                 (unsigned long long) seed->bytes_max);
        return 0;
}

static void seed_deinit(struct native_seed *seed) {
        seed->fd = fd_close(seed->fd);
        free(seed->source);
        free(seed->target);
}

/* Pins the source and opens it for reading through the pin. */
static int seed_open(struct native_seed *seed, const struct driver_plan *plan, const char *path,
                     struct error *err) {
        struct pin_policy policy = plan->policy;
        AUTO_PIN struct pin pin = PIN_INIT;
        char link[64];
        struct stat st;
        int r;

        policy.seeding = true;
        r = pin_open(path, &policy, &pin, err);
        if (r < 0)
                return error_wrap(err, r, "seed");
        (void) snprintf(link, sizeof(link), "/proc/self/fd/%d", pin.fd);
        seed->fd = open(link, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
        if (seed->fd < 0 || fstat(seed->fd, &st) < 0)
                return error_set(err, -errno, "open seed '%s': %s", ESC(path), strerror(errno));
        seed->is_dir = S_ISDIR(st.st_mode);
        seed->bytes = S_ISREG(st.st_mode) ? (uint64_t) st.st_size : 0;
        return seed_check(seed, &st, err);
}

static int seed_add(struct driver_plan *plan, const struct spec *spec, const struct spec_seed *from,
                    struct error *err) {
        struct native_seed seed = { .fd = -1,
                                    .mode = from->mode ? from->mode : 0600,
                                    .bytes_max = spec->home.seed_max,
                                    .files_max = spec->home.seed_files };
        int r;

        if (plan->n_seeds >= PLAN_SEEDS_MAX)
                return error_set(err, -E2BIG, "more than %d seeds", PLAN_SEEDS_MAX);
        seed.source = strdup(from->from);
        r = seed.source ? target_of(plan, from, &seed.target) : -ENOMEM;
        if (r < 0)
                (void) error_set(err, r, "seed '%s': %s", ESC(from->from), strerror(-r));
        else
                r = seed_open(&seed, plan, from->from, err);
        if (r == 0 && (region_find(plan, seed.target) || !path_below(seed.target, plan->id.home)))
                r = error_set(err, -EINVAL,
                              "seed target '%s' is not in the sandbox's home '%s': seeds are copied into the "
                              "home only",
                              ESC(seed.target), plan->id.home);
        if (r < 0) {
                seed_deinit(&seed);
                return r;
        }
        plan->seeds[plan->n_seeds++] = seed;
        return 0;
}

/* An agent's settings, as every agent looks for them; only the operator's own, and only what is there. */
static int add_agent_state(struct driver_plan *plan, const struct spec *spec, struct error *err) {
        AUTO_FREE char *path = NULL;
        struct spec_seed from = { .mode = 0600 };
        struct stat st;

        if (!plan->host_state || region_find(plan, plan->id.home))
                return 0;
        if (path_join(plan->ctx->home, ".claude.json", &path) < 0)
                return error_set(err, -ENOMEM, "out of memory");
        if (lstat(path, &st) < 0 || !S_ISREG(st.st_mode) || (uint64_t) st.st_size > spec->home.seed_max ||
            access(path, R_OK) < 0)
                return 0;
        from.from = path;
        return seed_add(plan, spec, &from, err);
}

int seeds_add(struct driver_plan *plan, const struct spec *spec, struct error *err) {
        int r;

        r = add_agent_state(plan, spec, err);
        for (size_t i = 0; r == 0 && i < spec->home.n_seeds; i++)
                r = seed_add(plan, spec, &spec->home.seeds[i], err);
        return r;
}

/* What was found of the operator's identity; the last value wins, as in git. */
struct identity {
        char *values[ARRAY_SIZE(harmless)];
};

static int collect(const char *key, const char *value, void *arg) {
        struct identity *id = arg;

        for (size_t i = 0; i < ARRAY_SIZE(harmless); i++)
                if (strcmp(key, harmless[i]) == 0) {
                        free(id->values[i]);
                        id->values[i] = strdup(value ? value : "true");
                        return id->values[i] ? 0 : -ENOMEM;
                }
        return 0;
}

static int read_config(const char *dir, const char *name, struct identity *id) {
        AUTO_FREE char *path = NULL;
        AUTO_BUF struct buf b = { 0 };
        int r;

        r = path_join(dir, name, &path);
        if (r < 0)
                return r;
        r = file_read_at(AT_FDCWD, path, GITCONFIG_MAX, &b);
        if (r == 0 && b.len > 0)
                r = gitconfig_parse(b.data, b.len, collect, id, NULL);
        return r == -ENOMEM ? r : 0; /* what git itself could not read has nothing to say */
}

static int put_value(struct buf *out, const char *value) {
        int r = buf_add(out, "\"", 1);

        for (; r == 0 && *value; value++) {
                if (*value == '\n') {
                        r = buf_str(out, "\\n");
                        continue;
                }
                if (*value == '"' || *value == '\\')
                        r = buf_add(out, "\\", 1);
                if (r == 0)
                        r = buf_add(out, value, 1);
        }
        return r < 0 ? r : buf_str(out, "\"\n");
}

static int write_config(const struct identity *id, struct buf *out) {
        int r = buf_str(out, "# made by cofferdam from the operator's git configuration\n"
                             "[commit]\n\tgpgsign = false\n[tag]\n\tgpgsign = false\n");

        for (size_t i = 0; r == 0 && i < ARRAY_SIZE(harmless); i++) {
                const size_t section = strcspn(harmless[i], ".");

                if (!id->values[i])
                        continue;
                r = buf_fmt(out, "[%.*s]\n\t%s = ", (int) section, harmless[i], harmless[i] + section + 1);
                if (r == 0)
                        r = put_value(out, id->values[i]);
        }
        return r;
}

/* host_state none: the name travels in the environment, nothing in the home. */
static int put_environment(struct driver_plan *plan, const struct identity *id) {
        static const struct {
                const char *name;
                int value; /* index into harmless[], -1: @text */
                const char *text;
        } vars[] = {
                { "GIT_AUTHOR_NAME", 0, NULL },        { "GIT_AUTHOR_EMAIL", 1, NULL },
                { "GIT_COMMITTER_NAME", 0, NULL },     { "GIT_COMMITTER_EMAIL", 1, NULL },
                { "GIT_CONFIG_COUNT", -1, "2" },       { "GIT_CONFIG_KEY_0", -1, "commit.gpgsign" },
                { "GIT_CONFIG_VALUE_0", -1, "false" }, { "GIT_CONFIG_KEY_1", -1, "tag.gpgsign" },
                { "GIT_CONFIG_VALUE_1", -1, "false" },
        };
        int r = 0;

        for (size_t i = 0; r == 0 && i < ARRAY_SIZE(vars); i++) {
                const char *value = vars[i].value < 0 ? vars[i].text : id->values[vars[i].value];

                if (value)
                        r = env_put(plan, vars[i].name, value);
        }
        return r;
}

static int add_identity(struct driver_plan *plan, const struct spec *spec, struct identity *id) {
        const char *xdg = ctx_getenv(plan->ctx, "XDG_CONFIG_HOME");
        AUTO_BUF struct buf b = { 0 };
        AUTO_FREE char *target = NULL;
        const char *home = plan->home_planted ? NULL : plan->ctx->home;
        int r = 0;

        if (xdg && *xdg == '/' && home_owns(plan, xdg))
                r = read_config(xdg, "git/config", id);
        else if (home)
                r = read_config(home, ".config/git/config", id);
        if (r == 0 && home)
                r = read_config(home, ".gitconfig", id);
        if (r < 0)
                return r;
        if (spec->host_state == HOST_STATE_NONE || region_find(plan, plan->id.home))
                return put_environment(plan, id);
        r = path_join(plan->id.home, ".gitconfig", &target);
        if (r == 0)
                r = write_config(id, &b);
        return r < 0 ? r : file_add(plan, target, b.data, b.len, 0644);
}

int git_identity_add(struct driver_plan *plan, const struct spec *spec, struct error *err) {
        struct identity id = { 0 };
        const int r = add_identity(plan, spec, &id);

        for (size_t i = 0; i < ARRAY_SIZE(id.values); i++)
                free(id.values[i]);
        return r < 0 ? error_set(err, r, "git identity: %s", strerror(-r)) : 0;
}
