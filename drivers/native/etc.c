#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "drivers/native/parts.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/file.h"
#include "runtime/base/parse.h"
#include "runtime/base/path.h"
#include "runtime/base/user.h"

enum { ETC_FILE_MAX = 1 << 20 };

/* Files of /etc that are often symbolic links to places which the sandbox does not show. */
static const char *const linked[] = {
        /* the first ones may be ours, see add_names() */
        "resolv.conf", "hosts", "hostname", "localtime", "nsswitch.conf", "passwd", "group", "machine-id",
};

int file_add(struct driver_plan *plan, const char *target, const void *data, size_t len, mode_t mode) {
        struct native_file file = { .len = len, .mode = mode };

        if (plan->n_files >= PLAN_FILES_MAX)
                return -E2BIG;
        file.target = strdup(target);
        file.data = malloc(len + 1);
        if (!file.target || !file.data) {
                free(file.target);
                free(file.data);
                return -ENOMEM;
        }
        memcpy(file.data, data, len);
        file.data[len] = '\0';
        plan->files[plan->n_files++] = file;
        return 0;
}

/* The field @index of the line of @len bytes, and its length. */
static const char *field(const char *line, size_t len, unsigned int index, size_t *ret_len) {
        const char *end = line + len;

        for (; index > 0; index--) {
                line = memchr(line, ':', (size_t) (end - line));
                if (!line)
                        return NULL;
                line++;
        }
        *ret_len = strcspn(line, ":\n");
        if (*ret_len > (size_t) (end - line))
                *ret_len = (size_t) (end - line);
        return line;
}

static bool field_is(const char *line, size_t len, unsigned int index, const char *want) {
        size_t n;
        const char *f = field(line, len, index, &n);

        return f && n == strlen(want) && memcmp(f, want, n) == 0;
}

static bool field_is_id(const char *line, size_t len, unsigned int index, uint64_t want) {
        char text[24];
        size_t n;
        const char *f = field(line, len, index, &n);
        uint64_t v;

        if (!f || n >= sizeof(text))
                return false;
        memcpy(text, f, n);
        text[n] = '\0';
        return parse_u64(text, 0, UINT32_MAX, &v) == 0 && v == want;
}

int etc_passwd(const char *host, const struct native_id *id, struct buf *out) {
        int r;

        r = buf_fmt(out, "%s:x:%u:%u::%s:%s\n", id->name, id->inside_uid, id->inside_gid, id->home,
                    id->shell);
        while (r == 0 && *host) {
                const size_t n = strcspn(host, "\n");

                if (n > 0 && !field_is(host, n, 0, id->name) && !field_is_id(host, n, 2, id->inside_uid)) {
                        r = buf_add(out, host, n);
                        if (r == 0)
                                r = buf_add(out, "\n", 1);
                }
                host += n + (host[n] == '\n');
        }
        return r;
}

int etc_group(const char *host, const struct native_id *id, struct buf *out) {
        bool found = false, taken = false;
        const char *p = host;
        int r;

        while (*p) {
                const size_t n = strcspn(p, "\n");

                found = found || field_is_id(p, n, 2, id->inside_gid);
                taken = taken || field_is(p, n, 0, id->name);
                p += n + (p[n] == '\n');
        }
        r = buf_str(out, host);
        if (r == 0 && p > host && p[-1] != '\n')
                r = buf_add(out, "\n", 1);
        if (r < 0 || found)
                return r;
        return taken ? buf_fmt(out, "g%u:x:%u:\n", id->inside_gid, id->inside_gid)
                     : buf_fmt(out, "%s:x:%u:\n", id->name, id->inside_gid);
}

/* Whether the host's account file says of the user what is true inside. */
static bool passwd_fits(const struct native_id *id) {
        AUTO_USER struct user user = { 0 };

        return user_by_uid("/etc/passwd", id->inside_uid, &user) == 0 && user.gid == id->inside_gid &&
               strcmp(user.name, id->name) == 0 && strcmp(user.home, id->home) == 0 &&
               strcmp(user.shell, id->shell) == 0;
}

/* Adds /etc/@name made by @make from the host's text when that differs from it. */
static int add_made(struct driver_plan *plan, const char *path,
                    int (*make)(const char *, const struct native_id *, struct buf *), struct error *err) {
        AUTO_BUF struct buf host = { 0 }, made = { 0 };
        int r;

        r = plan->root ? root_read(plan->root, path, &host)
                       : file_read_at(AT_FDCWD, path, ETC_FILE_MAX, &host);
        if (r == -EINVAL)
                return error_set(err, -EIO, "'%s' is no regular file: put one there, or none", path);
        if (r < 0 && r != -ENOENT && r != -EACCES) /* podman makes some that only root reads */
                return error_set(err, r, "read '%s': %s", path, strerror(-r));
        r = make(buf_cstr(&host), &plan->id, &made);
        if (r == 0 && host.len == made.len && memcmp(host.data, made.data, made.len) == 0)
                return 0;
        if (r == 0)
                r = file_add(plan, path, made.data, made.len, 0644);
        return r < 0 ? error_set(err, r, "make '%s' for the sandbox: %s", path, strerror(-r)) : 0;
}

/* When /etc/@name is a link to where the sandbox shows nothing: the same content at the link's end. */
static int add_linked(struct driver_plan *plan, const char *name) {
        AUTO_FREE char *path = NULL, *end = NULL;
        AUTO_BUF struct buf b = { 0 };
        struct stat st;
        int r;

        r = path_join("/etc", name, &path);
        if (r < 0)
                return r;
        if (lstat(path, &st) < 0 || !S_ISLNK(st.st_mode))
                return 0;
        end = realpath(path, NULL);
        if (!end) { /* dangling on the host: an empty file is what the resolver makes of it */
                char link[PATH_MAX];
                const ssize_t n = readlink(path, link, sizeof(link) - 1);

                if (n <= 0)
                        return 0;
                link[n] = '\0';
                r = path_normalize("/etc", link, &end);
                if (r < 0)
                        return 0;
        }
        if (os_shows(end) || path_below(end, "/proc"))
                return 0;
        r = file_read_at(AT_FDCWD, end, ETC_FILE_MAX, &b);
        if (r == -ENOMEM)
                return r;
        return file_add(plan, end, buf_cstr(&b), b.len, 0644);
}

/* @text in place of the file of /etc, wherever the host's lies. */
static int add_own(struct driver_plan *plan, const char *path, const char *text) {
        AUTO_FREE char *end = plan->oci || plan->root ? NULL : realpath(path, NULL);

        return file_add(plan, end && !path_below(end, "/proc") ? end : path, text, strlen(text), 0644);
}

/*
 * Names are asked of the egress process. The host's own names are not shown: a program would connect to their
 * addresses, which no rule of names allows, and they tell of the host's network. The egress process knows
 * them.
 */
static int add_names(struct driver_plan *plan) {
        const int r = add_own(plan, "/etc/resolv.conf", "nameserver 127.0.0.1\n");

        return r < 0 ? r
                     : add_own(plan, "/etc/hosts",
                               "127.0.0.1 localhost\n::1 localhost ip6-localhost ip6-loopback\n");
}

/* In an image: who works there, and what names mean here; the rest is its own. */
static int add_to_image(struct driver_plan *plan, struct error *err) {
        static const char *const shown[] = { "/etc/resolv.conf", "/etc/hosts", "/etc/hostname" };
        int r;

        r = add_made(plan, "/etc/passwd", etc_passwd, err);
        if (r == 0)
                r = add_made(plan, "/etc/group", etc_group, err);
        if (r < 0)
                return r;
        for (size_t i = 0; r == 0 && i < ARRAY_SIZE(shown); i++) {
                AUTO_BUF struct buf text = { 0 };
                AUTO_FREE char *end = realpath(shown[i], NULL);

                if (plan->net_leads && i < 2)
                        continue;
                if (i == 0 && plan->resolv_conf)
                        r = file_add(plan, shown[i], plan->resolv_conf, strlen(plan->resolv_conf), 0644);
                else if (end && file_read_at(AT_FDCWD, end, ETC_FILE_MAX, &text) == 0)
                        r = file_add(plan, shown[i], buf_cstr(&text), text.len, 0644);
        }
        if (r == 0 && plan->net_leads)
                r = add_names(plan);
        return r < 0 ? error_set(err, r, "files of /etc: %s", strerror(-r)) : 0;
}

int etc_add(struct driver_plan *plan, struct error *err) {
        size_t own = 0;
        int r = 0;

        if (plan->net_leads)
                own = 2;
        else if (plan->resolv_conf)
                own = 1;
        if (plan->oci) { /* the image's own, but for names */
                r = plan->net_leads ? add_names(plan) : 0;
                return r < 0 ? error_set(err, r, "files of /etc: %s", strerror(-r)) : 0;
        }
        if (plan->root)
                return add_to_image(plan, err);
        if (!passwd_fits(&plan->id))
                r = add_made(plan, "/etc/passwd", etc_passwd, err);
        if (r == 0)
                r = add_made(plan, "/etc/group", etc_group, err);
        if (r < 0)
                return r;
        for (size_t i = own; r == 0 && i < ARRAY_SIZE(linked); i++)
                r = add_linked(plan, linked[i]);
        if (r == 0 && plan->net_leads)
                r = add_names(plan);
        if (r == 0 && plan->resolv_conf)
                r = add_own(plan, "/etc/resolv.conf", plan->resolv_conf);
        if (r < 0)
                return error_set(err, r, "files of /etc: %s", strerror(-r));
        return 0;
}
