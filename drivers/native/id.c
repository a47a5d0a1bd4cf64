#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "drivers/native/parts.h"
#include "drivers/oci/oci.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/escape.h"
#include "runtime/base/file.h"
#include "runtime/base/parse.h"
#include "runtime/base/path.h"
#include "runtime/base/user.h"

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

static const char *const programs[] = { "/usr", "/etc", "/bin", "/sbin", "/lib", "/lib64" };

/* Whether programs would be covered by a home of ours. */
static bool home_has_programs(const char *home) {
        for (size_t i = 0; i < ARRAY_SIZE(programs); i++)
                if (path_below(home, programs[i]))
                        return true;
        return false;
}

/*
 * Whether the home lies in what the host's root shows and is to be covered there, since homes are not shown.
 * It is whoever owns it, as homes of services below /opt are; not what is somebody's home on paper, like
 * /usr/sbin.
 */
static bool home_to_cover(const char *home, uid_t uid) {
        struct stat st;

        if (uid == 0 && home_has_programs(home))
                return false;
        return lstat(home, &st) == 0 && S_ISDIR(st.st_mode) && st.st_uid == uid && strchr(home + 1, '/');
}

/* A home that can be a tmpfs of ours, or a region. @host: the root is the host's. */
static bool home_fits(const char *home, uid_t uid, bool host) {
        static const char *const taken[] = { "/proc", "/dev", "/sys", "/run", "/nonexistent" };

        if (!path_is_normal(home) || strcmp(home, "/") == 0 || strpbrk(home, ":\n"))
                return false;
        if (host ? os_shows(home) && !home_to_cover(home, uid) : home_has_programs(home))
                return false;
        for (size_t i = 0; i < ARRAY_SIZE(taken); i++)
                if (path_below(home, taken[i]))
                        return false;
        return true;
}

static int put_home(struct native_id *id, const char *home, uid_t uid, bool host) {
        char made[128];

        if (!home || !home_fits(home, uid, host)) {
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

static int put_shell(struct native_id *id, const char *shell, bool host) {
        if (!shell || !path_is_normal(shell) || strpbrk(shell, ":\n") ||
            (host && (!os_shows(shell) || access(shell, X_OK) < 0)))
                shell = default_shell;
        id->shell = strdup(shell);
        return id->shell ? 0 : -ENOMEM;
}

/** struct accounts - where names are looked up */
struct accounts {
        bool image;       /* not the host's */
        char passwd[48];  /* path of a file */
        int fd;           /* of that, when it is the image's; owned */
        struct buf group; /* the image's /etc/group */
};

static void accounts_deinit(struct accounts *a) {
        a->fd = fd_close(a->fd);
        buf_deinit(&a->group);
}
#define AUTO_ACCOUNTS __attribute__((cleanup(accounts_deinit)))

/* The image's /etc/passwd as a file of this process. */
static int accounts_open(const struct image_root *root, const struct oci *oci, struct accounts *ret) {
        AUTO_BUF struct buf text = { 0 };
        int r;

        (void) snprintf(ret->passwd, sizeof(ret->passwd), "/etc/passwd");
        ret->image = root || oci;
        if (!ret->image)
                return 0;
        r = root ? root_read(root, "/etc/passwd", &text)
                 : buf_add(&text, buf_cstr(&oci->passwd), oci->passwd.len);
        if (r == 0 || r == -ENOENT)
                r = root ? root_read(root, "/etc/group", &ret->group)
                         : buf_add(&ret->group, buf_cstr(&oci->group), oci->group.len);
        if (r < 0 && r != -ENOENT)
                return r;
        ret->fd = memfd_create("passwd", MFD_CLOEXEC);
        if (ret->fd < 0)
                return -errno;
        (void) snprintf(ret->passwd, sizeof(ret->passwd), "/proc/self/fd/%d", ret->fd);
        return write_all(ret->fd, buf_cstr(&text), text.len);
}

/* The group @name of the image. */
static bool find_group(const struct accounts *a, const char *name, gid_t *ret) {
        const size_t n = strlen(name);

        for (const char *line = a->image ? buf_cstr(&a->group) : ""; *line;) {
                const size_t len = strcspn(line, "\n");
                const char *field = memchr(line, ':', len), *id = NULL;
                char text[24];
                uint64_t v;

                if (field && (size_t) (field - line) == n && memcmp(line, name, n) == 0)
                        id = memchr(field + 1, ':', len - n - 1);
                (void) snprintf(text, sizeof(text), "%.*s", id ? (int) strcspn(id + 1, ":\n") : 0,
                                id ? id + 1 : "");
                if (id && parse_u64(text, 0, id_max, &v) == 0) {
                        *ret = (gid_t) v;
                        return true;
                }
                line += len + (line[len] == '\n');
        }
        return false;
}

static int parse_gid(const struct accounts *a, const char *text, gid_t *ret, struct error *err) {
        uint64_t v;

        if (parse_u64(text, 0, id_max, &v) == 0) {
                *ret = (gid_t) v;
                return 0;
        }
        if (find_group(a, text, ret))
                return 0;
        return error_set(err, -EINVAL,
                         a->image ? "--user: no group '%s' in the image"
                                  : "--user: group '%s' is not a number",
                         ESC(text));
}

/* Fills the inside ids from "UID[:GID]" or "NAME[:GID]"; @user: the account, when there is one. */
static int parse(const struct ctx *ctx, const struct accounts *a, const char *text, struct native_id *id,
                 struct user *user, struct error *err) {
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
                id->inside_gid = id->inside_uid == ctx->uid ? ctx->gid : a->image ? 0 : (gid_t) v;
                if (user_by_uid(a->passwd, id->inside_uid, user) == 0)
                        id->inside_gid = user->gid;
        } else if (user_by_name(a->passwd, head, user) == 0) {
                id->inside_uid = user->uid;
                id->inside_gid = user->gid;
        } else {
                return error_set(err, -ENOENT, "--user: no user '%s' in /etc/passwd%s: use UID[:GID]",
                                 ESC(head), a->image ? " of the image" : "");
        }
        return colon ? parse_gid(a, colon, &id->inside_gid, err) : 0;
}

/* Whether the ids can be had where only some are mapped. */
static int check_mapped(const struct image_root *root, const struct native_id *id, struct error *err) {
        if (root->ids == ROOT_IDS_RANGE && (id->inside_uid > root->uids.n || id->inside_gid > root->gids.n))
                return error_set(err, -EINVAL,
                                 "--user: %u:%u is not in the range of /etc/subuid and /etc/subgid, which "
                                 "ends at %u:%u",
                                 id->inside_uid, id->inside_gid, root->uids.n, root->gids.n);
        return 0;
}

int id_resolve(const struct ctx *ctx, const char *user, const struct image_root *root, const struct oci *oci,
               struct native_id *ret, struct error *err) {
        AUTO_ACCOUNTS struct accounts accounts = { .fd = -1 };
        AUTO_USER struct user account = { 0 };
        struct native_id id = {
                .host_uid = ctx->uid, .host_gid = ctx->gid, .inside_uid = ctx->uid, .inside_gid = ctx->gid
        };
        bool same;
        int r;

        r = accounts_open(root, oci, &accounts);
        if (r < 0)
                return error_set(err, r, "accounts of the image: %s", strerror(-r));
        user = oci ? oci->user : root_user(root, user);
        if (user) {
                r = parse(ctx, &accounts, user, &id, &account, err);
                if (r < 0)
                        return r;
        }
        same = id.inside_uid == ctx->uid && !(accounts.image && account.name);
        if (ctx->uid == 0 && (id.inside_uid != 0 || id.inside_gid != ctx->gid)) {
                id.switch_user = true;
                id.host_uid = id.inside_uid;
                id.host_gid = id.inside_gid;
        }
        id.mapped = root && root->ids != ROOT_IDS_SINGLE;
        r = id.mapped ? check_mapped(root, &id, err) : 0;
        if (r < 0)
                return r;
        r = put_name(&id, same ? ctx->user_name : account.name);
        if (r == 0)
                r = put_home(&id, same ? ctx->home : account.home, id.inside_uid, !accounts.image);
        if (r == 0)
                r = put_shell(&id, same && !accounts.image ? ctx->shell : account.shell, !accounts.image);
        if (r < 0) {
                free(id.name);
                free(id.home);
                free(id.shell);
                return error_set(err, r, "out of memory");
        }
        *ret = id;
        return 0;
}
