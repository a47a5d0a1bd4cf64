#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/base/user.h"
#include "runtime/lib/caller.h"
#include "runtime/lib/library.h"

const char *cofferdam_version(void) {
        return COFFERDAM_VERSION;
}

int context_failed(struct cofferdam *c, int r, const char *failure_code) {
        c->err.code = r;
        (void) snprintf(c->failure_code, sizeof(c->failure_code), "%s", failure_code ? failure_code : "");
        return r;
}

int context_memory(struct cofferdam *c, int r) {
        (void) error_set(&c->err, r, "%s", r == -E2BIG ? "too much was said" : "out of memory");
        return context_failed(c, r, NULL);
}

int context_asked(struct cofferdam *c, const struct request *more, struct asked *ret) {
        AUTO_REQUEST struct request all = { 0 };
        int r;

        r = request_append(&all, &c->said);
        if (r == 0 && more)
                r = request_append(&all, more);
        if (r == 0)
                r = asked_parse(all.text.data, all.text.len, ret);
        return r < 0 ? context_memory(c, r) : 0;
}

/* What the caller knows and this process is, as said. */
static int say_ctx(struct cofferdam *c, const struct ctx *ctx) {
        const struct {
                const char *name, *value;
        } texts[] = {
                { "home", ctx->home },
                { "passwd-home", ctx->passwd_home },
                { "cwd", ctx->cwd },
                { "state-dir", ctx->state_dir },
                { "config-dir", ctx->config_dir },
                { "user", ctx->user_name },
                { "shell", ctx->shell },
        };
        int r = 0;

        for (size_t i = 0; r == 0 && i < ARRAY_SIZE(texts); i++)
                if (texts[i].value)
                        r = request_add(&c->said, texts[i].name, texts[i].value);
        for (const char *const *e = ctx->environ; r == 0 && e && *e; e++)
                if (strchr(*e, '='))
                        r = request_add(&c->said, "env", *e);
        return r;
}

static int context_new(const struct ctx *ctx, struct cofferdam **ret) {
        struct cofferdam *c = calloc(1, sizeof(*c));
        int r = -ENOMEM;

        if (c)
                c->program = strdup(COFFERDAM_PROGRAM);
        if (c && c->program)
                r = say_ctx(c, ctx);
        if (r < 0) {
                cofferdam_free(c);
                return r;
        }
        *ret = c;
        return 0;
}

int cofferdam_new(struct cofferdam **ret) {
        struct ctx ctx = { .uid = geteuid() };
        struct user user = { 0 };
        int r;

        if (user_by_uid("/etc/passwd", ctx.uid, &user) < 0)
                user = (struct user){ 0 };
        ctx.user_name = user.name;
        ctx.passwd_home = user.home;
        ctx.shell = user.shell && *user.shell ? user.shell : NULL;
        r = context_new(&ctx, ret);
        user_deinit(&user);
        return r;
}

int cofferdam_new_from_environment(struct cofferdam **ret) {
        struct caller caller;
        int r;

        caller_init(&caller);
        r = context_new(&caller.ctx, ret);
        caller_deinit(&caller);
        return r;
}

void cofferdam_free(struct cofferdam *c) {
        if (!c)
                return;
        request_deinit(&c->said);
        free(c->program);
        free(c);
}

static int set_program(struct cofferdam *c, const char *value) {
        char *copy = strdup(value);

        if (!copy)
                return context_memory(c, -ENOMEM);
        free(c->program);
        c->program = copy;
        return 0;
}

int cofferdam_set(struct cofferdam *c, const char *name, const char *value) {
        static const struct {
                const char *name;
                bool path;
        } names[] = { { "home", true },    { "cwd", true },   { "state-dir", true }, { "config-dir", true },
                      { "program", true }, { "user", false }, { "shell", true },     { "env", false } };
        int r;

        for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
                if (strcmp(names[i].name, name) != 0)
                        continue;
                if (names[i].path && *value != '/') {
                        (void) error_set(&c->err, -EINVAL, "%s: want an absolute path", name);
                        return context_failed(c, -EINVAL, NULL);
                }
                if (strcmp(name, "env") == 0 && (*value == '=' || !strchr(value, '='))) {
                        (void) error_set(&c->err, -EINVAL, "env: want NAME=VALUE");
                        return context_failed(c, -EINVAL, NULL);
                }
                if (strcmp(name, "program") == 0)
                        return set_program(c, value);
                r = request_add(&c->said, name, value);
                return r < 0 ? context_memory(c, r) : 0;
        }
        (void) error_set(&c->err, -EINVAL, "a context has no such value");
        return context_failed(c, -EINVAL, NULL);
}

const char *cofferdam_error(const struct cofferdam *c) {
        return c->err.msg;
}

const char *cofferdam_failure_code(const struct cofferdam *c) {
        return c->failure_code;
}
