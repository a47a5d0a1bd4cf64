#include "runtime/base/user.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "runtime/base/buf.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/file.h"
#include "runtime/base/parse.h"

enum { PASSWD_MAX = 16 << 20 };
enum { NAME, PASSWORD, UID, GID, GECOS, HOME, SHELL, FIELDS };

static int copy(char *const *f, uid_t uid, gid_t gid, struct user *ret) {
        struct user u = { .name = strdup(f[NAME]),
                          .uid = uid,
                          .gid = gid,
                          .home = strdup(f[HOME]),
                          .shell = strdup(f[SHELL]) };

        if (!u.name || !u.home || !u.shell) {
                user_deinit(&u);
                return -ENOMEM;
        }
        *ret = u;
        return 0;
}

/* Splits a line in place; a line with another number of fields, or an id that is none, is no account. */
static bool split(char *line, char **f, uid_t *uid, gid_t *gid) {
        uint64_t u, g;
        size_t n = 0;

        for (char *field; n < FIELDS && (field = strsep(&line, ":"));)
                f[n++] = field;
        if (n < FIELDS || line || parse_u64(f[UID], 0, UINT32_MAX - 1, &u) < 0 ||
            parse_u64(f[GID], 0, UINT32_MAX - 1, &g) < 0)
                return false;
        *uid = (uid_t) u;
        *gid = (gid_t) g;
        return true;
}

/* Not fgetpwent(3): it asks for the file position before each line. */
static int find(const char *passwd_path, const char *name, uid_t uid, struct user *ret) {
        AUTO_BUF struct buf b = { 0 };
        char *rest, *line;
        int r;

        r = file_read_at(AT_FDCWD, passwd_path, PASSWD_MAX, &b);
        if (r < 0)
                return r;
        rest = b.data;
        while ((line = strsep(&rest, "\n"))) {
                char *f[FIELDS];
                uid_t u;
                gid_t g;

                if (split(line, f, &u, &g) && (name ? strcmp(f[NAME], name) == 0 : u == uid))
                        return copy(f, u, g, ret);
        }
        return -ENOENT;
}

int user_by_uid(const char *passwd_path, uid_t uid, struct user *ret) {
        return find(passwd_path, NULL, uid, ret);
}

int user_by_name(const char *passwd_path, const char *name, struct user *ret) {
        return find(passwd_path, name, 0, ret);
}

void user_deinit(struct user *u) {
        free(u->name);
        free(u->home);
        free(u->shell);
        u->name = u->home = u->shell = NULL;
}
