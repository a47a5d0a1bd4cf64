#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "drivers/native/parts.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/escape.h"
#include "runtime/base/parse.h"
#include "runtime/base/path.h"
#include "runtime/base/user.h"

static const char passwd[] = "/etc/passwd";
static const char default_shell[] = "/bin/sh";
static const uint64_t id_max = 4294967294U; /* (uid_t) -1 means "no change" to the kernel */

/* A name that may stand in passwd(5) and in a path. */
static bool name_fits(const char *s) {
        const size_t n = strlen(s);

        if (n == 0 || n > 64 || s[0] == '-' || s[0] == '.')
                return false;
        for (size_t i = 0; i < n; i++)
                if ((unsigned char) s[i] <= ' ' || strchr(":/,\\\x7f", s[i]))
                        return false;
        return true;
}

/*
 * Whether the home lies in what the host's root shows and is to be covered there, since homes are not shown.
 * It is whoever owns it, as homes of services below /opt are; not what is somebody's home on paper, like
 * /usr/sbin.
 */
static bool home_to_cover(const char *home, uid_t uid) {
        static const char *const programs[] = { "/usr", "/etc", "/bin", "/sbin", "/lib", "/lib64" };
        struct stat st;

        for (size_t i = 0; uid == 0 && i < ARRAY_SIZE(programs); i++)
                if (path_below(home, programs[i]))
                        return false;
        return lstat(home, &st) == 0 && S_ISDIR(st.st_mode) && st.st_uid == uid && strchr(home + 1, '/');
}

/* A home that can be a tmpfs of ours, or a region. */
static bool home_fits(const char *home, uid_t uid) {
        static const char *const taken[] = { "/proc", "/dev", "/sys", "/run", "/nonexistent" };

        if (!path_is_normal(home) || strcmp(home, "/") == 0 || strpbrk(home, ":\n"))
                return false;
        if (os_shows(home) && !home_to_cover(home, uid))
                return false;
        for (size_t i = 0; i < ARRAY_SIZE(taken); i++)
                if (path_below(home, taken[i]))
                        return false;
        return true;
}

static int put_home(struct native_id *id, const char *home, uid_t uid) {
        char made[128];

        if (!home || !home_fits(home, uid)) {
                (void) snprintf(made, sizeof(made), "/home/%s", id->name);
                home = made;
        }
        id->home = strdup(home);
        return id->home ? 0 : -ENOMEM;
}

static int put_name(struct native_id *id, const char *name) {
        char made[32];

        if (!name || !name_fits(name)) {
                (void) snprintf(made, sizeof(made), "u%u", id->inside_uid);
                name = made;
        }
        id->name = strdup(name);
        return id->name ? 0 : -ENOMEM;
}

static int put_shell(struct native_id *id, const char *shell) {
        if (!shell || !path_is_normal(shell) || strpbrk(shell, ":\n") || !os_shows(shell) ||
            access(shell, X_OK) < 0)
                shell = default_shell;
        id->shell = strdup(shell);
        return id->shell ? 0 : -ENOMEM;
}

static int parse_gid(const char *text, gid_t *ret, struct error *err) {
        uint64_t v;

        if (parse_u64(text, 0, id_max, &v) < 0)
                return error_set(err, -EINVAL, "--user: group '%s' is not a number", ESC(text));
        *ret = (gid_t) v;
        return 0;
}

/* Fills the inside ids from "UID[:GID]" or "NAME[:GID]"; @user: the account, when there is one. */
static int parse(const struct ctx *ctx, const char *text, struct native_id *id, struct user *user,
                 struct error *err) {
        AUTO_FREE char *head = strdup(text);
        char *colon;
        uint64_t v;

        if (!head)
                return error_set(err, -ENOMEM, "out of memory");
        colon = strchr(head, ':');
        if (colon)
                *colon++ = '\0';
        if (parse_u64(head, 0, id_max, &v) == 0) {
                id->inside_uid = (uid_t) v;
                id->inside_gid = id->inside_uid == ctx->uid ? ctx->gid : (gid_t) v;
                if (user_by_uid(passwd, id->inside_uid, user) == 0)
                        id->inside_gid = user->gid;
        } else if (user_by_name(passwd, head, user) == 0) {
                id->inside_uid = user->uid;
                id->inside_gid = user->gid;
        } else {
                return error_set(err, -ENOENT, "--user: no user '%s' in /etc/passwd: use UID[:GID]",
                                 ESC(head));
        }
        return colon ? parse_gid(colon, &id->inside_gid, err) : 0;
}

int id_resolve(const struct ctx *ctx, const char *user, struct native_id *ret, struct error *err) {
        AUTO_USER struct user account = { 0 };
        struct native_id id = {
                .host_uid = ctx->uid, .host_gid = ctx->gid, .inside_uid = ctx->uid, .inside_gid = ctx->gid
        };
        bool same;
        int r;

        if (user) {
                r = parse(ctx, user, &id, &account, err);
                if (r < 0)
                        return r;
        }
        same = id.inside_uid == ctx->uid;
        if (ctx->uid == 0 && (!same || id.inside_gid != ctx->gid)) {
                id.switch_user = true;
                id.host_uid = id.inside_uid;
                id.host_gid = id.inside_gid;
        }
        r = put_name(&id, same ? ctx->user_name : account.name);
        if (r == 0)
                r = put_home(&id, same ? ctx->home : account.home, id.inside_uid);
        if (r == 0)
                r = put_shell(&id, same ? ctx->shell : account.shell);
        if (r < 0) {
                free(id.name);
                free(id.home);
                free(id.shell);
                return error_set(err, r, "out of memory");
        }
        *ret = id;
        return 0;
}
