#include "runtime/lib/request.h"

#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "runtime/base/cleanup.h"
#include "runtime/base/escape.h"
#include "runtime/base/file.h"
#include "runtime/base/path.h"
#include "runtime/spec/resolve.h"

int request_add(struct request *r, const char *name, const char *value) {
        const size_t old = r->text.len;
        int e;

        r->text.max = REQUEST_MAX_BYTES;
        e = buf_add(&r->text, name, strlen(name) + 1);
        if (e == 0)
                e = buf_add(&r->text, value, strlen(value) + 1);
        if (e < 0)
                r->text.len = old;
        return e;
}

int request_append(struct request *r, const struct request *part) {
        r->text.max = REQUEST_MAX_BYTES;
        return part->text.len > 0 ? buf_add(&r->text, part->text.data, part->text.len) : 0;
}

int request_fd(const struct request *r) {
        AUTO_FD int fd = memfd_create("request", MFD_CLOEXEC);
        int e;

        if (fd < 0)
                return -errno;
        e = write_all(fd, r->text.data, r->text.len);
        if (e < 0)
                return e;
        return lseek(fd, 0, SEEK_SET) < 0 ? -errno : TAKE_FD(fd);
}

void request_deinit(struct request *r) {
        buf_deinit(&r->text);
}

enum kind { TEXT, LIST, VARIABLES, SAID };

/* The last value of a text counts; lists keep their order. */
static const struct {
        const char *name;
        enum kind kind;
        size_t offset;
} names[] = {
        { "version", TEXT, offsetof(struct asked, version) },
        { "op", TEXT, offsetof(struct asked, op) },
        { "home", TEXT, offsetof(struct asked, ctx.home) },
        { "passwd-home", TEXT, offsetof(struct asked, ctx.passwd_home) },
        { "cwd", TEXT, offsetof(struct asked, ctx.cwd) },
        { "state-dir", TEXT, offsetof(struct asked, ctx.state_dir) },
        { "config-dir", TEXT, offsetof(struct asked, ctx.config_dir) },
        { "user", TEXT, offsetof(struct asked, ctx.user_name) },
        { "shell", TEXT, offsetof(struct asked, ctx.shell) },
        { "program", TEXT, offsetof(struct asked, program) },
        { "env", VARIABLES, offsetof(struct asked, env) },
        { "text-name", SAID, offsetof(struct asked, said) },
        { "text", SAID, offsetof(struct asked, said) },
        { "set-name", SAID, offsetof(struct asked, said) },
        { "set", SAID, offsetof(struct asked, said) },
        { "run", TEXT, offsetof(struct asked, run) },
        { "arg", LIST, offsetof(struct asked, args) },
        { "exec-env", LIST, offsetof(struct asked, exec_env) },
        { "exec-cwd", TEXT, offsetof(struct asked, exec_cwd) },
        { "tty", TEXT, offsetof(struct asked, tty) },
        { "rows", TEXT, offsetof(struct asked, rows) },
        { "cols", TEXT, offsetof(struct asked, cols) },
        { "closed", TEXT, offsetof(struct asked, closed) },
};

/* Room doubles at each power of two. */
static int strings_add(struct strings *s, const char *text) {
        const bool full = (s->n & (s->n + 1)) == 0;
        const char **v = full ? reallocarray(s->v, 2 * (s->n + 1), sizeof(*v)) : s->v;

        if (!v)
                return -ENOMEM;
        v[s->n++] = text;
        v[s->n] = NULL;
        s->v = v;
        return 0;
}

/* In place of the variable of the same name. */
static int strings_put(struct strings *s, const char *variable) {
        const size_t n = strcspn(variable, "=") + 1;

        for (size_t i = 0; i < s->n; i++)
                if (strncmp(s->v[i], variable, n) == 0) {
                        s->v[i] = variable;
                        return 0;
                }
        return strings_add(s, variable);
}

static int take(struct asked *asked, const char *name, const char *value) {
        for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
                void *place = (char *) asked + names[i].offset;
                int r;

                if (strcmp(names[i].name, name) != 0)
                        continue;
                switch (names[i].kind) {
                case TEXT:
                        *(const char **) place = value;
                        return 0;
                case LIST:
                        return strings_add(place, value);
                case VARIABLES:
                        return strings_put(place, value);
                case SAID:
                        r = strings_add(place, names[i].name);
                        return r < 0 ? r : strings_add(place, value);
                }
        }
        return -EPROTO;
}

/* What is not said of the caller. */
static int complete(struct asked *asked) {
        static const char *const none[] = { NULL };
        struct ctx *ctx = &asked->ctx;
        int r = 0;

        ctx->uid = geteuid();
        ctx->gid = getegid();
        ctx->environ = asked->env.v ? asked->env.v : none;
        if (!ctx->user_name) {
                (void) snprintf(asked->uid_text, sizeof(asked->uid_text), "%u", (unsigned int) ctx->uid);
                ctx->user_name = asked->uid_text;
        }
        if (!ctx->shell)
                ctx->shell = "/bin/sh";
        if (!ctx->state_dir && ctx->uid == 0)
                ctx->state_dir = "/var/lib/cofferdam";
        if (!ctx->state_dir && ctx->home) {
                r = path_join(ctx->home, ".local/state/cofferdam", &asked->state_dir);
                ctx->state_dir = asked->state_dir;
        }
        return r;
}

int asked_parse(const char *data, size_t len, struct asked *ret) {
        const char *p;
        int r = 0;

        *ret = (struct asked){ 0 };
        if (len > 0 && data[len - 1] != '\0')
                return -EPROTO;
        ret->data = malloc(len + 1);
        if (!ret->data)
                return -ENOMEM;
        if (len > 0)
                memcpy(ret->data, data, len);
        for (p = ret->data; r == 0 && p < ret->data + len;) {
                const char *value = p + strlen(p) + 1;

                if (value >= ret->data + len)
                        return -EPROTO;
                r = take(ret, p, value);
                p = value + strlen(value) + 1;
        }
        return r < 0 ? r : complete(ret);
}

void asked_deinit(struct asked *asked) {
        free(asked->data);
        free(asked->state_dir);
        free((void *) asked->env.v);
        free((void *) asked->said.v);
        free((void *) asked->args.v);
        free((void *) asked->exec_env.v);
        *asked = (struct asked){ 0 };
}

/* Documents, in their order. */
static int said_files(const void *arg, struct spec *spec, const struct spec_env_view *view,
                      struct error *err) {
        const struct strings *said = arg;
        const char *name = "";
        int r = 0;

        for (size_t i = 0; r == 0 && i + 1 < said->n; i += 2) {
                const char *what = said->v[i], *value = said->v[i + 1];

                if (strcmp(what, "text-name") == 0)
                        name = value;
                else if (strcmp(what, "text") == 0)
                        r = spec_merge_bytes(spec, name, value, strlen(value), TIER_FLAG, view, err);
        }
        return r;
}

static int said_options(const void *arg, struct spec *spec, const struct spec_env_view *view,
                        struct error *err) {
        const struct strings *said = arg;
        const char *name = "";
        int r = 0;

        for (size_t i = 0; r == 0 && i + 1 < said->n; i += 2) {
                if (strcmp(said->v[i], "set-name") == 0)
                        name = said->v[i + 1];
                else if (strcmp(said->v[i], "set") == 0)
                        r = flags_say(spec, name, said->v[i + 1], view, err);
        }
        return r;
}

int asked_spec(const struct asked *asked, struct spec **ret, struct error *err) {
        const struct spec_said said = { said_files, said_options, &asked->said };

        return spec_resolve_said(&asked->ctx, &said, ret, err);
}
