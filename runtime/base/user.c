#include "runtime/base/user.h"

#include <errno.h>
#include <pwd.h>
#include <string.h>

#include "runtime/base/cleanup.h"

static int copy(const struct passwd *pw, struct user *ret) {
        struct user u = {
                .name = strdup(pw->pw_name),
                .uid = pw->pw_uid,
                .gid = pw->pw_gid,
                .home = strdup(pw->pw_dir),
                .shell = strdup(pw->pw_shell),
        };

        if (!u.name || !u.home || !u.shell) {
                user_deinit(&u);
                return -ENOMEM;
        }
        *ret = u;
        return 0;
}

static int find(const char *passwd_path, const char *name, uid_t uid, struct user *ret) {
        AUTO_FILE FILE *f = NULL;

        f = fopen(passwd_path, "re");
        if (!f)
                return -errno;
        for (;;) {
                char line[4096];
                struct passwd pw, *got = NULL;
                const int r = fgetpwent_r(f, &pw, line, sizeof(line), &got);

                if (r == ERANGE)
                        continue; /* a line too long to be a local account */
                if (r != 0 || !got)
                        return -ENOENT;
                if (name ? strcmp(pw.pw_name, name) == 0 : pw.pw_uid == uid)
                        return copy(&pw, ret);
        }
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
