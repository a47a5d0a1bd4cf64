#include "runtime/run/secrets.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "runtime/base/buf.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/escape.h"
#include "runtime/base/file.h"
#include "runtime/spec/keys.h"
#include "runtime/spec/list.h"

static bool comes_inside(const struct spec_secret *secret) {
        return !secret_is(secret, "proxied");
}

bool secrets_wanted(const struct spec *spec, bool files) {
        for (size_t i = 0; i < spec->n_secrets; i++)
                if (files ? secret_is(&spec->secrets[i], "file") : comes_inside(&spec->secrets[i]))
                        return true;
        return false;
}

int secrets_without(const struct spec *spec, struct spec **ret, struct error *err) {
        AUTO_SPEC struct spec *copy = NULL;
        int r;

        r = spec_copy(spec, &copy, err);
        if (r < 0)
                return r;
        for (size_t i = copy->n_secrets; i-- > 0;)
                if (comes_inside(&copy->secrets[i]))
                        list_remove(copy, key_find(SECTION_ROOT, "secrets"), i);
        *ret = TAKE_PTR(copy);
        return 0;
}

int secret_fd(const void *data, size_t len) {
        AUTO_FD int fd = memfd_create("secret", MFD_CLOEXEC);
        int r;

        if (fd < 0)
                return -errno;
        r = write_all(fd, data, len);
        return r < 0 ? r : TAKE_FD(fd);
}

static const char *from_env(const struct spec_secret *secret) {
        return strncmp(secret->from, "env:", 4) == 0 ? secret->from + 4 : NULL;
}

static int read_file(const char *path, struct buf *ret, struct error *err) {
        const int r = file_read_at(AT_FDCWD, path, SECRET_FILE_MAX, ret);

        if (r == 0 && ret->len == 0)
                return error_set(err, -EINVAL, "'%s' is empty", ESC(path));
        return r < 0 ? error_set(err, r, "read '%s': %s", ESC(path),
                                 r == -EFBIG ? "larger than 1 MiB" : strerror(-r))
                     : 0;
}

static int read_value(const struct ctx *ctx, const struct spec_secret *secret, struct buf *ret,
                      struct error *err) {
        const char *const name = from_env(secret), *value = name ? ctx_getenv(ctx, name) : NULL;

        if (!name)
                return read_file(secret->from + strlen("file:"), ret, err);
        if (!value || !*value)
                return error_set(err, -EINVAL, "the variable '%s' is not set, or empty", name);
        return buf_str(ret, value) < 0 ? error_set(err, -ENOMEM, "out of memory") : 0;
}

static int add_env(struct secrets *s, const char *name, const char *value) {
        AUTO_BUF struct buf text = { 0 };

        if (buf_fmt(&text, "%s=", name) < 0 || buf_str(&text, value) < 0)
                return -ENOMEM;
        s->env[s->n_env++] = buf_take(&text);
        return 0;
}

/* A variable holds one line; the newline at the end of a file is not meant. */
static int add_variable(const struct spec_secret *secret, struct secrets *s, struct buf *value,
                        struct error *err) {
        while (value->len > 0 && strchr("\r\n", value->data[value->len - 1]))
                value->data[--value->len] = '\0';
        if (value->len == 0 || memchr(value->data, '\0', value->len) || strpbrk(value->data, "\r\n"))
                return error_set(err, -EINVAL, "a variable is one line, not empty: use 'as: file'");
        return add_env(s, secret->env ? secret->env : secret->name, value->data) < 0
                       ? error_set(err, -ENOMEM, "out of memory")
                       : 0;
}

static int add_file(const struct spec_secret *secret, struct secrets *s, const struct buf *value,
                    struct error *err) {
        AUTO_BUF struct buf path = { 0 };
        const int fd = secret_fd(value->data, value->len);

        if (fd < 0)
                return error_set(err, fd, "a file in memory: %s", strerror(-fd));
        s->files[s->n_files++] =
                (struct file_secret){ secret->name, secret->path, .fd = fd, .len = value->len };
        if (buf_fmt(&path, SECRET_DIR "/%s", secret->name) < 0 ||
            (secret->env && add_env(s, secret->env, path.data) < 0))
                return error_set(err, -ENOMEM, "out of memory");
        return 0;
}

static int read_one(const struct ctx *ctx, const struct spec_secret *secret, struct secrets *s,
                    struct error *err) {
        AUTO_BUF struct buf value = { .max = SECRET_FILE_MAX + 1 };
        int r;

        r = read_value(ctx, secret, &value, err);
        if (r == 0)
                r = secret_is(secret, "env") ? add_variable(secret, s, &value, err)
                                             : add_file(secret, s, &value, err);
        if (value.data)
                explicit_bzero(value.data, value.len);
        return r < 0 ? error_wrap(err, r, "secret '%s'", secret->name) : 0;
}

int secrets_read(const struct ctx *ctx, const struct spec *spec, struct secrets *ret, struct error *err) {
        int r = 0;

        ret->files = calloc(spec->n_secrets + 1, sizeof(*ret->files));
        ret->env = calloc(spec->n_secrets + 1, sizeof(*ret->env));
        if (!ret->files || !ret->env)
                return error_set(err, -ENOMEM, "out of memory");
        for (size_t i = 0; r == 0 && i < spec->n_secrets; i++)
                if (comes_inside(&spec->secrets[i]))
                        r = read_one(ctx, &spec->secrets[i], ret, err);
        return r;
}

void secrets_erase(const struct ctx *ctx, const struct spec *spec) {
        for (size_t i = 0; i < spec->n_secrets; i++) {
                const char *name = comes_inside(&spec->secrets[i]) ? from_env(&spec->secrets[i]) : NULL;
                char *value = name ? (char *) (uintptr_t) ctx_getenv(ctx, name) : NULL;

                if (value)
                        explicit_bzero(value, strlen(value));
        }
}

void secrets_drop_files(struct secrets *s) {
        for (size_t i = 0; i < s->n_files; i++)
                (void) fd_close(s->files[i].fd);
        free(s->files);
        s->files = NULL;
        s->n_files = 0;
}

void secrets_deinit(struct secrets *s) {
        secrets_drop_files(s);
        for (size_t i = 0; i < s->n_env; i++) {
                explicit_bzero(s->env[i], strlen(s->env[i]));
                free(s->env[i]);
        }
        free(s->env);
        *s = (struct secrets) SECRETS_INIT;
}
