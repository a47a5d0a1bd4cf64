#include "drivers/native/gitnames.h"

#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fs/gitconfig.h"
#include "runtime/base/buf.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/file.h"
#include "runtime/base/path.h"
#include "runtime/base/sys.h"

enum { CONFIG_MAX_BYTES = 1 << 20 };

/* Keys whose value is a path, there or not yet; the others are commands, in which any word may name a file.
 */
static const struct {
        const char *key; /* fnmatch(3) */
        bool path;
} keys[] = {
        { "core.hookspath", true },
        { "core.attributesfile", true },
        { "core.fsmonitor", true },
        { "include.path", true },
        { "includeif.*.path", true },
        { "init.templatedir", true },
        { "core.askpass", true },
        { "gpg.program", true },
        { "gpg.*.program", true },
        { "core.sshcommand", false },
        { "core.editor", false },
        { "core.pager", false },
        { "core.gitproxy", false },
        { "core.alternaterefscommand", false },
        { "sequence.editor", false },
        { "diff.external", false },
        { "diff.*.command", false },
        { "diff.*.textconv", false },
        { "interactive.difffilter", false },
        { "credential.helper", false },
        { "credential.*.helper", false },
        { "filter.*.clean", false },
        { "filter.*.smudge", false },
        { "filter.*.process", false },
        { "merge.*.driver", false },
        { "alias.*", false },
        { "difftool.*.cmd", false },
        { "mergetool.*.cmd", false },
        { "difftool.*.path", true },
        { "mergetool.*.path", true },
        { "pager.*", false },
        { "trailer.*.command", false },
        { "trailer.*.cmd", false },
        { "tar.*.command", false },
        { "remote.*.uploadpack", false },
        { "remote.*.receivepack", false },
        { "uploadpack.packobjectshook", false },
        { "submodule.*.update", false },
        { "sendemail.*", false },
        { "hook.*.command", false },
        { "browser.*.cmd", false },
        { "man.*.cmd", false },
        { "guitool.*.cmd", false },
};

struct names {
        const struct ctx *ctx;
        const struct pin *ws;
        const char *dir; /* what relative values of the file that is read are relative to; of includes */
        int (*fn)(const char *path, void *arg);
        void *arg;
        unsigned int n;
};

static bool is_there(const struct names *names, const char *rel) {
        AUTO_FD int fd = open_beneath(names->ws->fd, rel, O_PATH, 0);

        return fd >= 0 || fd == -ELOOP; /* a link in it counts */
}

/* @word: as it stands in the value. @certain: it is a path, whether it is there or not */
static int take(struct names *names, const char *word, const char *base, bool certain) {
        AUTO_FREE char *home = NULL, *path = NULL;
        const char *rel;

        if (strncmp(word, "~/", 2) == 0 && names->ctx->home &&
            path_join(names->ctx->home, word + 2, &home) == 0)
                word = home;
        if (!*word || path_normalize(base, word, &path) < 0)
                return 0;
        rel = path_below(path, names->ws->real);
        if (!rel)
                rel = path_below(path, names->ws->path);
        if (!rel || !*rel || strcmp(rel, ".git") == 0 || names->n >= GITNAMES_MAX ||
            (!certain && !is_there(names, rel)))
                return 0;
        names->n++;
        return names->fn(rel, names->arg);
}

/* Each word of a command, with what a shell would take off. */
static int take_words(struct names *names, const char *value) {
        static const char ends[] = " \t\n'\"`()&|;<>=!$";
        int r = 0;

        while (*value && r == 0) {
                const size_t n = strcspn(value, ends);
                AUTO_FREE char *word = strndup(value, n);

                r = word ? take(names, word, names->ws->real, false) : -ENOMEM;
                value += n;
                value += strspn(value, ends);
        }
        return r;
}

static int on_key(const char *key, const char *value, void *arg) {
        struct names *names = arg;
        const bool include = strncmp(key, "include", 7) == 0;

        for (size_t i = 0; value && i < ARRAY_SIZE(keys); i++) {
                if (fnmatch(keys[i].key, key, 0) != 0)
                        continue;
                if (keys[i].path)
                        return take(names, value, include ? names->dir : names->ws->real, true);
                return take_words(names, value);
        }
        return 0;
}

/* Reads the file @name in @dir_fd; @dir is that directory's path. */
static int read_config(struct names *names, int dir_fd, const char *name, const char *dir) {
        AUTO_BUF struct buf text = { 0 };
        AUTO_FD int fd = dir_fd == AT_FDCWD ? open(name, O_RDONLY | O_NONBLOCK | O_CLOEXEC)
                                            : open_beneath(dir_fd, name, O_RDONLY | O_NONBLOCK, 0);
        struct stat st;
        int r;

        if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) ||
            file_read(fd, CONFIG_MAX_BYTES, &text) < 0)
                return 0;
        names->dir = dir;
        r = gitconfig_parse(text.data ? text.data : "", text.len, on_key, names, NULL);
        return r == -EINVAL ? 0 : r; /* git reads what this reader is not sure of: what came before counts */
}

/* A file of the caller's home. */
static int read_home(struct names *names, const char *below) {
        AUTO_FREE char *path = NULL, *dir = NULL;
        int r;

        if (!names->ctx->home)
                return 0;
        if (path_join(names->ctx->home, below, &path) < 0 || !(dir = strdup(path)))
                return -ENOMEM;
        *strrchr(dir, '/') = '\0';
        r = read_config(names, AT_FDCWD, path, dir);
        return r;
}

int gitnames_read(const struct ctx *ctx, const struct pin *ws, int (*fn)(const char *path, void *arg),
                  void *arg) {
        struct names names = { .ctx = ctx, .ws = ws, .fn = fn, .arg = arg };
        AUTO_FREE char *git = NULL;
        int r;

        if (path_join(ws->real, ".git", &git) < 0)
                return -ENOMEM;
        r = read_config(&names, ws->fd, ".git/config", git);
        if (r == 0)
                r = read_config(&names, ws->fd, ".git/config.worktree", git);
        if (r == 0)
                r = read_home(&names, ".gitconfig");
        if (r == 0)
                r = read_home(&names, ".config/git/config");
        return r;
}
