#include <errno.h>
#include <string.h>

#include "runtime/base/buf.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/path.h"
#include "runtime/spec/devcontainer.h"

enum { EXPANDED_MAX = 1 << 18 };

/* What a repository may learn of the caller's environment. "NAME_*": all that begin so. */
static const char *const local_env[] = {
        "HOME",
        "USER",
        "USERNAME",
        "LOGNAME",
        "LANG",
        "LANGUAGE",
        "TERM",
        "TZ",
        "PWD",
        "OLDPWD",
        "DISPLAY",
        "PUID",
        "PGID",
        "VARIANT",
        "LC_*",
        "XDG_CONFIG_HOME",
        "XDG_CACHE_HOME",
        "XDG_DATA_HOME",
        "XDG_STATE_HOME",
        "XDG_RUNTIME_DIR",
        "XAUTHORITY",
        "WAYLAND_DISPLAY",
};

static bool is_local(const char *name) {
        for (size_t i = 0; i < ARRAY_SIZE(local_env); i++) {
                const size_t n = strlen(local_env[i]);

                if (local_env[i][n - 1] == '*' ? strncmp(name, local_env[i], n - 1) == 0
                                               : strcmp(name, local_env[i]) == 0)
                        return true;
        }
        return false;
}

/* "NAME" or "NAME:default" */
static int add_local(const struct devcontainer *from, const char *text, struct buf *out) {
        AUTO_FREE char *name = strndup(text, strcspn(text, ":"));
        const char *other = strchr(text, ':'), *value;

        if (!name)
                return -ENOMEM;
        value = is_local(name) ? ctx_getenv(from->ctx, name) : NULL;
        return buf_str(out, value ? value : other ? other + 1 : "");
}

/* @name: between "${" and "}". Return: 1: not one of the host's. */
static int add_variable(const struct devcontainer *from, const char *name, struct buf *out) {
        if (strcmp(name, "localWorkspaceFolder") == 0)
                return buf_str(out, from->workspace);
        if (strcmp(name, "localWorkspaceFolderBasename") == 0)
                return buf_str(out, path_basename(from->workspace));
        if (strncmp(name, "localEnv:", strlen("localEnv:")) == 0)
                return add_local(from, name + strlen("localEnv:"), out);
        return 1;
}

int devcontainer_expand(const struct devcontainer *from, const char *text, char **ret) {
        AUTO_BUF struct buf out = { 0 };
        char *done;
        int r = buf_str(&out, "");

        while (r == 0 && *text) {
                const char *const end = strncmp(text, "${", 2) == 0 ? strchr(text, '}') : NULL;
                AUTO_FREE char *name = NULL;

                if (out.len > EXPANDED_MAX)
                        return -E2BIG;
                if (!end) {
                        const size_t n = 1 + strcspn(text + 1, "$");

                        r = buf_add(&out, text, n);
                        text += n;
                        continue;
                }
                name = strndup(text + 2, (size_t) (end - text) - 2);
                r = name ? add_variable(from, name, &out) : -ENOMEM;
                if (r == 1)
                        r = buf_add(&out, text, (size_t) (end - text) + 1);
                text = end + 1;
        }
        if (r < 0)
                return r;
        done = out.data ? buf_take(&out) : strdup("");
        if (!done)
                return -ENOMEM;
        *ret = done;
        return 0;
}
