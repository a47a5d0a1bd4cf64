/* cofferdam exec: a further command in a sandbox that was started. */
#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/launch.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/escape.h"
#include "runtime/base/json.h"
#include "runtime/run/state.h"

enum { ENV_MAX = 4096 };

static int set_env(void *arg, const char *value, struct error *err) {
        struct launch_options *o = arg;
        const char *equals = strchr(value, '='), *own;
        char **list;
        char *entry;

        if (equals == value || *value == '\0')
                return error_set(err, -EINVAL, "'%s': want NAME[=VALUE]", ESC(value));
        own = equals ? NULL : ctx_getenv(o->ctx, value);
        if (!equals && !own)
                return 0; /* as run does it: what the caller does not have, the command does not get */
        if (o->n_env >= ENV_MAX)
                return error_set(err, -E2BIG, "more than %d variables", ENV_MAX);
        list = reallocarray((void *) o->env, o->n_env + 2, sizeof(*list));
        if (!list)
                return error_set(err, -ENOMEM, "out of memory");
        o->env = list;
        if (own ? asprintf(&entry, "%s=%s", value, own) < 0 : !(entry = strdup(value)))
                return error_set(err, -ENOMEM, "out of memory");
        list[o->n_env++] = entry;
        list[o->n_env] = NULL;
        return 0;
}

static int set_cwd(void *arg, const char *value, struct error *err) {
        if (*value != '/')
                return error_set(err, -EINVAL, "'%s': want an absolute path inside the sandbox", ESC(value));
        ((struct launch_options *) arg)->cwd = value;
        return 0;
}

static int set_user(void *arg, const char *value, struct error *err) {
        (void) err;
        ((struct launch_options *) arg)->user = value;
        return 0;
}

static const struct flag_option options[] = {
        { "tty", 't', NULL, launch_tty,
          "Give the command a terminal (default: when stdin and stdout are terminals)" },
        { "interactive", 'i', NULL, launch_interactive, "Pass standard input on (always done)" },
        { "env", 'e', "NAME[=VALUE]", set_env, "A variable for the command, beside the run's" },
        { "workdir", 'w', "DIR", set_cwd, "Where it starts; not given: the workspace" },
        { "user", 'u', "USER", set_user, "Who it is: in this version only who the run's commands are" },
        { "detach", 'd', NULL, NULL,
          "Do not wait: print the command's number; its output goes to 'cofferdam logs'",
          offsetof(struct launch_options, detach) },
        { "json", 0, NULL, NULL, "Report failures of cofferdam itself as a JSON object on standard error",
          offsetof(struct launch_options, json) },
        { "verbose", 'v', NULL, launch_verbose, "Say more on standard error" },
};

static const struct flag_set flag_set = {
        .usage = "cofferdam exec [OPTIONS] RUN [--] COMMAND [ARG...]",
        .summary = "Run COMMAND in a sandbox that was started; the exit code is COMMAND's.",
        .options = options,
        .n_options = ARRAY_SIZE(options),
};

/* Whether @user is who the commands of the run are: by number, as UID:GID, or by name. */
static int check_user(const struct run_dir *dir, const char *user, struct error *err) {
        AUTO_JSON json_t *state = NULL;
        const json_t *own;
        const char *name;
        char number[24], both[48];
        int r;

        r = run_state_load(dir, &state, err);
        if (r < 0)
                return r;
        own = json_object_get(json_object_get(state, "plan"), "user");
        name = json_string_value(json_object_get(own, "name"));
        (void) snprintf(number, sizeof(number), "%" JSON_INTEGER_FORMAT,
                        json_integer_value(json_object_get(own, "uid")));
        (void) snprintf(both, sizeof(both), "%s:%" JSON_INTEGER_FORMAT, number,
                        json_integer_value(json_object_get(own, "gid")));
        if ((name && strcmp(user, name) == 0) || strcmp(user, number) == 0 || strcmp(user, both) == 0)
                return 0;
        return error_set(err, -ENOTSUP,
                         "--user '%s': the commands of this run are '%s' (%s): start a run with '--user %s'",
                         ESC(user), name ? name : number, both, ESC(user));
}

static int run(const struct ctx *ctx, const struct launch_options *o, const char *id, char **argv) {
        AUTO_RUN_DIR struct run_dir dir = RUN_DIR_INIT;
        struct exec_order order = { .argv = (const char *const *) argv,
                                    .env = (const char *const *) o->env,
                                    .cwd = o->cwd,
                                    .tty = { .when = o->tty },
                                    .detach = o->detach };
        struct error err = { 0 };
        struct run_msg end;
        int r;

        launch_stdio(ctx, order.stdio);
        r = run_dir_open(ctx, id, &dir, &err);
        if (r == 0 && o->user)
                r = check_user(&dir, o->user, &err);
        if (r < 0) {
                launch_report(o, r == -ENOTSUP ? "CAPABILITY_UNSUPPORTED" : "SANDBOX_DRIVER_UNAVAILABLE",
                              err.msg);
                return EXIT_SETUP;
        }
        run_exec(&dir, &order, &end);
        if (end.type == RUN_MSG_ERROR)
                launch_report(o, end.failure_code, end.text);
        else if (o->detach)
                printf("%" PRIu32 "\n", end.id);
        else
                launch_remarks(o, &end, argv[0]);
        return end.code;
}

static int main_exec(const struct ctx *ctx, struct launch_options *o, int argc, char **argv) {
        AUTO_FLAGS struct flags *flags = NULL;
        struct error err = { 0 };
        int next;

        if (flags_parse(&flag_set, argc, argv, o, &flags, &err) < 0) {
                launch_report(o, "SPEC_INVALID", err.msg);
                return EXIT_USAGE;
        }
        if (flags->help)
                return launch_help(&flag_set);
        next = flags->next + 1;
        if (next < argc && strcmp(argv[next], "--") == 0)
                next++;
        if (next >= argc) {
                launch_report(o, "SPEC_INVALID",
                              "want a run and a command: cofferdam exec [OPTIONS] RUN [--] COMMAND [ARG...]");
                return EXIT_USAGE;
        }
        return run(ctx, o, argv[flags->next], argv + next);
}

int verb_exec(const struct ctx *ctx, int argc, char **argv) {
        struct launch_options o = LAUNCH_OPTIONS_INIT;
        int code;

        o.ctx = ctx;
        code = main_exec(ctx, &o, argc, argv);
        for (size_t i = 0; i < o.n_env; i++)
                free(o.env[i]);
        free((void *) o.env);
        return code;
}
