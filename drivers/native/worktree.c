/*
 * DOC: theory of operation
 *
 * In a linked git worktree ".git" is a file that names <common>/worktrees/<id>; objects and refs live in
 * <common>, usually the ".git" of another checkout. Without it no git command works inside, so it is served
 * too - but the file lies in the workspace, where an earlier run may have written it. It is believed only
 * when the other side agrees: <common>/worktrees/<id>/gitdir, which the work cannot reach, must name this
 * workspace's ".git". Inside the region everything is protected but what commits need.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "drivers/native/parts.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/file.h"
#include "runtime/base/path.h"
#include "runtime/base/sys.h"

enum {
        POINTER_MAX = 4200,       /* "gitdir: " and a path */
        OTHER_WORKTREES_MAX = 200 /* more: none but the own can be written */
};

/* Reads a one-line file of git's: what follows @prefix, without the newline. NULL: not of that form. */
static char *read_pointer(int dir_fd, const char *name, const char *prefix) {
        AUTO_BUF struct buf b = { 0 };
        AUTO_FD int fd = -1;
        struct stat st;
        size_t n;

        fd = open_beneath(dir_fd, name, O_RDONLY | O_NONBLOCK, 0);
        if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || file_read(fd, POINTER_MAX, &b) < 0)
                return NULL;
        n = strlen(prefix);
        if (b.len <= n || memchr(b.data, '\0', b.len) || memcmp(b.data, prefix, n) != 0)
                return NULL;
        b.data[n + strcspn(b.data + n, "\n")] = '\0';
        return strdup(b.data + n);
}

/* The git directory that the workspace's ".git" file names, absolute; NULL: it is not such a file. */
static char *git_dir_of(const struct native_region *workspace) {
        AUTO_FREE char *pointer = read_pointer(workspace->pin.fd, ".git", "gitdir: ");
        char *dir = NULL;

        if (!pointer || path_normalize(workspace->pin.path, pointer, &dir) < 0)
                return NULL;
        return dir;
}

/* Whether the git directory says that it belongs to this workspace. */
static bool points_back(int git_dir, const struct native_region *workspace) {
        AUTO_FREE char *back = read_pointer(git_dir, "gitdir", "");
        AUTO_FD int parent = -1;
        struct stat ours, theirs;
        char *slash;

        if (!back || *back != '/')
                return false;
        slash = strrchr(back, '/');
        if (strcmp(slash, "/.git") != 0)
                return false;
        *slash = '\0';
        parent = sys_openat2(AT_FDCWD, *back ? back : "/", O_PATH | O_DIRECTORY, 0, RESOLVE_NO_MAGICLINKS);
        return parent >= 0 && fstat(parent, &theirs) == 0 && fstat(workspace->pin.fd, &ours) == 0 &&
               theirs.st_dev == ours.st_dev && theirs.st_ino == ours.st_ino;
}

/* Appends "/.git/worktrees/@name@suffix" with glob characters escaped. */
static int pattern(struct buf *out, const char *name, const char *suffix) {
        int r = buf_str(out, "/.git/worktrees/");

        for (; r == 0 && *name; name++) {
                if (strchr("*?[]{},\\!", *name))
                        r = buf_add(out, "\\", 1);
                if (r == 0)
                        r = buf_add(out, name, 1);
        }
        return r < 0 ? r : buf_str(out, suffix);
}

struct rule_list {
        struct rule_def defs[OTHER_WORKTREES_MAX + 64];
        char *owned[OTHER_WORKTREES_MAX + 64];
        size_t n;
};

static void rule_list_clear(struct rule_list *l) {
        for (size_t i = 0; i < l->n; i++)
                free(l->owned[i]);
        l->n = 0;
}

static int rule_put(struct rule_list *l, const char *name, const char *suffix, enum guard_do action) {
        AUTO_BUF struct buf b = { 0 };
        int r;

        r = name ? pattern(&b, name, suffix) : buf_str(&b, suffix);
        if (r < 0)
                return r;
        if (l->n == ARRAY_SIZE(l->defs))
                return -E2BIG;
        l->owned[l->n] = buf_take(&b);
        l->defs[l->n] = (struct rule_def){ l->owned[l->n], action, true, RULE_ANY,
                                           "the git directory of a linked worktree" };
        l->n++;
        return 0;
}

/*
 * The common directory: what a commit, rebase, fetch, gc and "worktree add" write; the rest is read-only. The
 * built-in rules come after these: for them the region is ".git", whatever the directory is called.
 */
static const struct {
        const char *path;
        enum guard_do action;
} common_rules[] = {
        { "/.git/**", GUARD_PROTECT },
        { "/.git/objects/**", GUARD_ALLOW },
        { "/.git/refs/**", GUARD_ALLOW },
        { "/.git/logs/**", GUARD_ALLOW },
        { "/.git/packed-refs*", GUARD_ALLOW },
        { "/.git/shallow*", GUARD_ALLOW },
        { "/.git/gc.*", GUARD_ALLOW },
        { "/.git/rr-cache/**", GUARD_ALLOW },
        { "/.git/lfs/**", GUARD_ALLOW },
        { "/.git/config", GUARD_HOLD },
        { "/.git/config.lock", GUARD_ALLOW },
        { "/.git/hooks/**", GUARD_HOLD },
        { "/.git/modules/**", GUARD_ALLOW },
        { "/.git/modules/**/config", GUARD_HOLD },
        { "/.git/modules/**/hooks/**", GUARD_HOLD },
        { "/.git/worktrees/**", GUARD_ALLOW },
        { "/.git/worktrees/*/config.worktree", GUARD_HOLD },
        { "/.git/worktrees/*/hooks/**", GUARD_HOLD },
};

/* Inside the own worktrees/<id>: what would send the host's git elsewhere stays as it is. */
static const char *const own_protected[] = { "/gitdir", "/commondir" };

/* Protects the metadata of each other worktree. Return: 0, -E2BIG (more than OTHER_WORKTREES_MAX), -errno. */
static int protect_others(struct rule_list *l, int common, const char *own) {
        AUTO_DIR DIR *dir = NULL;
        const int fd = open_beneath(common, "worktrees", O_RDONLY | O_DIRECTORY, 0);
        const struct dirent *e;
        size_t n = 0;
        int r = 0;

        dir = fd >= 0 ? fdopendir(fd) : NULL;
        if (!dir) {
                (void) fd_close(fd);
                return -errno;
        }
        while (r == 0 && (e = readdir(dir))) {
                if (e->d_name[0] == '.' || strcmp(e->d_name, own) == 0)
                        continue;
                r = ++n > OTHER_WORKTREES_MAX ? -E2BIG : rule_put(l, e->d_name, "/**", GUARD_PROTECT);
        }
        return r;
}

static int put_common(struct rule_list *l) {
        int r = 0;

        for (size_t i = 0; r == 0 && i < ARRAY_SIZE(common_rules); i++)
                r = rule_put(l, NULL, common_rules[i].path, common_rules[i].action);
        return r;
}

/* @first come before the built-in rules, @rest after them */
static int make_rules(struct rule_list *first, struct rule_list *rest, int common, const char *own) {
        int r;

        r = put_common(first);
        if (r == 0)
                r = protect_others(rest, common, own);
        if (r == -E2BIG) {
                rule_list_clear(rest);
                r = rule_put(first, NULL, "/.git/worktrees/**", GUARD_PROTECT);
                if (r == 0)
                        r = rule_put(first, own, "/**", GUARD_ALLOW);
                if (r == 0)
                        r = rule_put(first, own, "/hooks/**", GUARD_HOLD);
        }
        for (size_t i = 0; r == 0 && i < ARRAY_SIZE(own_protected); i++)
                r = rule_put(rest, own, own_protected[i], GUARD_PROTECT);
        return r;
}

/* "<common>/worktrees/<id>": cuts @git_dir after <common>. Return: <id>, borrowed; NULL: not of that form. */
static const char *split(char *git_dir) {
        char *id = strrchr(git_dir, '/');
        char *worktrees;

        if (!id || id == git_dir || !id[1])
                return NULL;
        *id = '\0';
        worktrees = strrchr(git_dir, '/');
        if (!worktrees || worktrees == git_dir || strcmp(worktrees, "/worktrees") != 0)
                return NULL;
        *worktrees = '\0';
        return id + 1;
}

static int add_common(struct driver_plan *plan, const struct spec *spec, const char *dir, int common,
                      const char *own, struct error *err) {
        CLEANUP(rule_list_clear) struct rule_list first = { .n = 0 };
        CLEANUP(rule_list_clear) struct rule_list rest = { .n = 0 };
        struct region_request req = {
                .source = dir,
                .target = dir,
                .kind = plan->regions[0].kind,
                .role = ROLE_GIT_DIR,
                .first = first.defs,
                .rules = rest.defs,
                .builtin_rules = true,
                .base = ".git",
        };
        int r;

        r = make_rules(&first, &rest, common, own);
        if (r < 0)
                return error_set(err, r, "git directory '%s' of the worktree: %s", dir, strerror(-r));
        req.n_first = first.n;
        req.n_rules = rest.n;
        return region_add(plan, spec, &req, false, err);
}

int worktree_add(struct driver_plan *plan, const struct spec *spec, struct error *err) {
        const struct native_region *workspace = &plan->regions[0];
        AUTO_FREE char *dir = git_dir_of(workspace);
        AUTO_FD int git_dir = -1, common = -1;
        const char *own;

        if (!dir || path_below(dir, workspace->pin.path))
                return 0;
        git_dir = sys_openat2(AT_FDCWD, dir, O_PATH | O_DIRECTORY, 0, RESOLVE_NO_MAGICLINKS);
        if (git_dir < 0 || !points_back(git_dir, workspace))
                return 0;
        own = split(dir);
        if (!own)
                return 0;
        common = sys_openat2(AT_FDCWD, dir, O_PATH | O_DIRECTORY, 0, RESOLVE_NO_MAGICLINKS);
        return common < 0 ? 0 : add_common(plan, spec, dir, common, own, err);
}
