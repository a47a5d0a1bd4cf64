/*
 * DOC: theory of operation
 *
 * The runner says hello, takes what the launcher has for it (policy, an earlier session) and then one task.
 * Anything else before the task is fatal: whoever sent it expects something of this program that it does not
 * do. From the task on, the launcher only answers.
 */
#include "runtime/agent/runner/runner.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/agent/runner/loop.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/clock.h"
#include "runtime/base/escape.h"
#include "runtime/base/json.h"
#include "runtime/base/log.h"

enum { RUNNER_OK, RUNNER_FAILED, RUNNER_LOST };

/* credentials of the model are the runner's, not of what it starts */
static const char *const kept_back[] = { "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_API_KEY" };

static const char *env_of(char *const *vars, const char *name) {
        const size_t n = strlen(name);

        for (; *vars; vars++) {
                if (strncmp(*vars, name, n) == 0 && (*vars)[n] == '=')
                        return (*vars)[n + 1] ? *vars + n + 1 : NULL;
        }
        return NULL;
}

/* Proxies are named in lower case by some, in upper case by others. */
static const char *env_either(char *const *vars, const char *lower, const char *upper) {
        const char *v = env_of(vars, lower);

        return v ? v : env_of(vars, upper);
}

/* The environment of tools; the vector is owned, its words are borrowed. */
static char **tool_environ(char *const *vars) {
        size_t n = 0, k = 0;
        char **own;

        while (vars[n])
                n++;
        own = calloc(n + 1, sizeof(*own));
        for (size_t i = 0; own && i < n; i++) {
                bool keep = true;

                for (size_t j = 0; j < ARRAY_SIZE(kept_back); j++) {
                        const size_t len = strlen(kept_back[j]);

                        if (strncmp(vars[i], kept_back[j], len) == 0 && vars[i][len] == '=')
                                keep = false;
                }
                if (keep)
                        own[k++] = vars[i];
        }
        return own;
}

static struct http_net net_of(struct wire *w, char *const *vars) {
        return (struct http_net){ .wire = w,
                                  .https_proxy = env_either(vars, "https_proxy", "HTTPS_PROXY"),
                                  .http_proxy = env_either(vars, "http_proxy", "HTTP_PROXY"),
                                  .no_proxy = env_either(vars, "no_proxy", "NO_PROXY"),
                                  .own_authorities =
                                          env_of(vars, "SSL_CERT_FILE") || env_of(vars, "SSL_CERT_DIR") };
}

/* --- before the task ------------------------------------------------------------------------------------ */

static int take_policy(struct agent *a, const struct envelope *e, struct error *err) {
        int r = a->policy ? permission_add(a->policy, e->data, err)
                          : permission_new(e->data, &a->policy, err);

        return r < 0 ? error_wrap(err, r, "permission_policy") : 0;
}

/* An earlier session is worth a warning only: the work can be done without it. */
static int take_replay(struct agent *a, const struct envelope *e) {
        json_t *messages = json_object_get(e->data, "messages");

        if (!json_is_array(messages)) {
                log_warn("session_replay: no messages in it");
                return 0;
        }
        if (!a->messages)
                a->messages = json_array();
        return json_array_extend(a->messages, messages) < 0 ? -ENOMEM : 0;
}

static int take_hello(struct agent *a, const struct envelope *e, struct error *err) {
        struct hello hello = { 0 };
        int r = hello_read(e->data, &hello, err);

        if (r < 0)
                return r;
        a->protocol = hello.protocol;
        hello_deinit(&hello);
        return 0;
}

/* One envelope. Return: 1: it was the task; 0; -errno. */
static int take(struct agent *a, const struct envelope *e, struct error *err) {
        switch (e->type) {
        case ENVELOPE_HELLO:
                return take_hello(a, e, err);
        case ENVELOPE_PERMISSION_POLICY:
                return take_policy(a, e, err);
        case ENVELOPE_SESSION_REPLAY:
                return take_replay(a, e);
        case ENVELOPE_TASK:
                if (!json_is_object(e->data))
                        return error_set(err, -EINVAL, "the task has no data");
                a->task = json_incref(e->data);
                return 1;
        case ENVELOPE_UNKNOWN:
        case ENVELOPE_TOOL_CALL:
        case ENVELOPE_TOOL_RESULT:
        case ENVELOPE_ASK_USER:
        case ENVELOPE_ASK_USER_ANSWER:
        case ENVELOPE_SESSION_CAPTURE:
        case ENVELOPE_EVENT:
        case ENVELOPE_RESULT:
        case ENVELOPE_TYPE_COUNT:
                break;
        }
        return error_set(err, -EBADMSG, "unexpected envelope \"%s\" before task", ESC(e->name));
}

static int await_task(struct agent *a, struct error *err) {
        for (;;) {
                AUTO_ENVELOPE struct envelope e = { 0 };
                int r = channel_wait(&a->wire->channel, -1, &e, err);

                if (r == 0)
                        return error_set(err, -ENODATA, "the launcher's stream ended before a task");
                if (r > 0)
                        r = take(a, &e, err);
                if (r != 0)
                        return r < 0 ? r : 0;
        }
}

/* --- the task ------------------------------------------------------------------------------------------- */

static int check_task(struct agent *a, struct error *err) {
        const char *node = json_string_value(json_object_get(a->task, "node_id"));

        if (!node || !*node)
                return error_set(err, -EINVAL, "the task has no node_id");
        if (!json_string_value(json_object_get(a->task, "model")))
                return error_set(err, -EINVAL, "the task names no model");
        return 0;
}

/* Where tools work: what the task says, else where this program is. */
static int enter(struct agent *a, char cwd[PATH_MAX], struct error *err) {
        const char *dir = arg_str(a->task, "work_dir", ".");

        a->env.work_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (a->env.work_fd < 0 || fchdir(a->env.work_fd) < 0)
                return error_set(err, -errno, "work_dir '%s': %s", ESC(dir), strerror(errno));
        if (!getcwd(cwd, PATH_MAX))
                return error_set(err, -errno, "work_dir '%s' has no name: %s", ESC(dir), strerror(errno));
        a->env.work_dir = cwd;
        return 0;
}

static int work(struct agent *a, json_t **ret, struct error *err) {
        char cwd[PATH_MAX];
        int r = check_task(a, err);

        if (r == 0)
                r = enter(a, cwd, err);
        if (r == 0)
                r = children_adopt();
        a->place = (struct mcp_place){ .wire = a->wire,
                                       .net = a->env.net,
                                       .work_fd = a->env.work_fd,
                                       .work_dir = cwd,
                                       .environ = a->env.environ,
                                       .start_ms = (uint64_t) arg_int(a->task, "mcp_timeout_ms", 0),
                                       .call_ms = (uint64_t) arg_int(a->task, "mcp_timeout_ms", 0) };
        if (r == 0)
                r = agent_prepare(a, err);
        if (r == 0)
                r = agent_run(a, ret, err);
        agent_deinit(a); /* before the result: what runs ends with the work, and @cwd is here */
        return r;
}

/* Result envelopes are whole or they are an error: half a conversation could not go on. */
static int send_result(struct agent *a, json_t *result) {
        struct error err = { 0 }, again = { 0 };
        const char *error = json_string_value(json_object_get(result, "error"));
        int code = error ? RUNNER_FAILED : RUNNER_OK;
        int r;

        if (error)
                log_error("runner: %s", error);
        r = wire_send(a->wire, ENVELOPE_RESULT, result, &err);
        if (r == -EMSGSIZE) {
                code = RUNNER_FAILED;
                r = wire_send(a->wire, ENVELOPE_RESULT,
                              json_pack("{s:s,s:i}", "error", err.msg, "exit_code", 1), &again);
        }
        if (r == 0)
                return code;
        log_error("runner: %s", err.msg);
        return RUNNER_LOST;
}

int runner_main(int in_fd, int out_fd, char *const *vars) {
        static const char *const features[] = { "mcp", NULL };
        AUTO_FREE char **tools = tool_environ(vars);
        struct error err = { 0 };
        json_t *result = NULL;
        struct wire wire;
        struct agent a = {
                .wire = &wire, .protocol = PROTOCOL_FIRST, .start_ns = clock_ns(), .env.work_fd = -1
        };
        int r, code;

        (void) signal(SIGPIPE, SIG_IGN);
        r = wire_init(&wire, in_fd, out_fd);
        if (r < 0 || !tools) {
                log_error("runner: start: %s", strerror(r < 0 ? -r : ENOMEM));
                return RUNNER_LOST;
        }
        a.env.wire = &wire;
        a.env.environ = tools;
        a.env.net = net_of(&wire, vars);
        a.model = (struct model){ .net = a.env.net,
                                  .base_url = env_of(vars, "ANTHROPIC_BASE_URL"),
                                  .token = env_of(vars, "ANTHROPIC_AUTH_TOKEN"),
                                  .api_key = env_of(vars, "ANTHROPIC_API_KEY") };
        r = wire_send(&wire, ENVELOPE_HELLO, hello_json(tool_names(), features), &err);
        if (r == 0)
                r = await_task(&a, &err);
        if (r == 0 && !a.model.base_url && !a.model.token && !a.model.api_key) /* 401, or minutes of trying */
                r = error_set(&err, -EINVAL,
                              "no credential for the model's server: launch with --model-auth proxied, or "
                              "set ANTHROPIC_BASE_URL to one that wants none");
        if (r == 0)
                r = work(&a, &result, &err);
        if (r < 0)
                result = agent_failure(&a, *err.msg ? err.msg : strerror(-r));
        code = send_result(&a, result);
        agent_deinit(&a);
        a.env.work_fd = fd_close(a.env.work_fd);
        wire_deinit(&wire);
        return code;
}
