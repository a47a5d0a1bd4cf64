#include "runtime/run/tokens.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "runtime/base/buf.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/fdpass.h"
#include "runtime/base/file.h"
#include "runtime/base/json.h"
#include "runtime/run/exposed.h"
#include "runtime/run/keeper.h"
#include "runtime/run/service.h"

enum { START_MS = 30000, SLACK_MS = 500, ANSWER_MAX = 1 << 20, SHOWN_LEN = 12, GONE_STEPS = 1000 };

static const char *text_of(const json_t *json, const char *key) {
        const char *text = json_string_value(json_object_get(json, key));

        return text ? text : "";
}

static int take_env(struct tokens *tokens) {
        const json_t *const env = json_object_get(tokens->said, "env");
        const size_t n = json_array_size(env);

        tokens->env = calloc(n + 1, sizeof(*tokens->env));
        for (size_t i = 0; tokens->env && i < n; i++)
                tokens->env[i] = json_string_value(json_array_get(env, i));
        tokens->n_opaque = tokens->env ? n : 0;
        return tokens->env ? 0 : -ENOMEM;
}

static int failure(const json_t *said, const char **ret_failure, struct error *err) {
        static const char *const codes[] = { "CREDENTIAL_EXPOSED", "SPEC_INVALID" };

        for (size_t i = 0; i < ARRAY_SIZE(codes); i++)
                if (strcmp(text_of(said, "failure_code"), codes[i]) == 0)
                        *ret_failure = codes[i];
        return error_set(err, -EIO, "%s", text_of(said, "text"));
}

static int hear(struct tokens *tokens, int answer_fd, const char **ret_failure, struct error *err) {
        struct pollfd fd = { .fd = tokens->sock, .events = POLLIN };
        AUTO_BUF struct buf text = { 0 };
        size_t len = 0;
        char word = 0;
        int r;

        if (poll(&fd, 1, START_MS) <= 0)
                return error_set(err, -ETIMEDOUT, "the tokens of the run were not issued within %d s",
                                 START_MS / 1000);
        r = fdpass_recv(tokens->sock, &word, 1, &len, NULL, 0, NULL);
        if (r == 0)
                r = lseek(answer_fd, 0, SEEK_SET) < 0 ? -errno : file_read(answer_fd, ANSWER_MAX, &text);
        if (r < 0)
                return error_set(err, r, "the keeper of the run's credentials died: %s", strerror(-r));
        tokens->said = json_loadb(buf_cstr(&text), text.len, 0, NULL);
        if (text.data)
                explicit_bzero(text.data, text.len);
        if (!json_is_array(json_object_get(tokens->said, "env")))
                return failure(tokens->said, ret_failure, err);
        return take_env(tokens) < 0 ? error_set(err, -ENOMEM, "out of memory") : 0;
}

int tokens_start(const struct tokens_order *order, struct tokens *ret, const char **ret_failure,
                 struct error *err) {
        AUTO_FD int theirs = -1, answer = memfd_create("tokens", MFD_CLOEXEC);
        struct keeper_args args = { .ctx = order->ctx,
                                    .spec = order->spec,
                                    .run_id = order->run_id,
                                    .run_dir_fd = order->run_dir_fd,
                                    .own_loopback = order->own_loopback,
                                    .elsewhere = order->elsewhere,
                                    .answer_fd = answer };
        int pair[2], r;
        pid_t pid;

        *ret_failure = "SANDBOX_SETUP_FAILED";
        r = answer < 0 ? -errno : fdpass_pair(pair);
        if (r < 0)
                return error_set(err, r, "socket to the keeper of the run's credentials: %s", strerror(-r));
        ret->sock = pair[0];
        args.sock = theirs = pair[1];
        pid = fork();
        if (pid < 0)
                return error_set(err, -errno, "fork the keeper of the run's credentials: %s",
                                 strerror(errno));
        if (pid == 0)
                _exit(keeper_main(&args));
        ret->keeper = pid;
        credentials_erase(order->ctx, order->spec);
        return hear(ret, answer, ret_failure, err);
}

void tokens_deinit(struct tokens *tokens) {
        tokens->sock = fd_close(tokens->sock);
        free((void *) tokens->env);
        tokens->env = NULL;
        json_decref(tokens->said);
        tokens->said = NULL;
}

int tokens_add_env(struct tokens *tokens, char *const *env, size_t n) {
        const size_t have = tokens->n_opaque;
        const char **more;

        more = reallocarray(tokens->env, have + n + 1, sizeof(*more));
        if (!more)
                return -ENOMEM;
        tokens->env = more;
        for (size_t i = 0; i < n; i++)
                more[have + i] = env[i];
        more[have + n] = NULL;
        return 0;
}

static bool is_name(const json_t *names, const char *name, size_t len) {
        for (size_t i = 0; i < json_array_size(names); i++) {
                const char *one = json_string_value(json_array_get(names, i));

                if (one && strlen(one) == len && memcmp(one, name, len) == 0)
                        return true;
        }
        return false;
}

const char *tokens_forbid(const struct tokens *tokens, char *const *env) {
        const json_t *const names = json_object_get(tokens->said, "names");
        const bool model = is_name(names, "ANTHROPIC_AUTH_TOKEN", strlen("ANTHROPIC_AUTH_TOKEN"));
        const bool git = is_name(names, "GIT_CONFIG_COUNT", strlen("GIT_CONFIG_COUNT"));

        for (; env && *env; env++) {
                const size_t n = strcspn(*env, "=");
                AUTO_FREE char *name = strndup(*env, n);

                if (!name || is_name(names, name, n) || (model && exposed_name(name)) ||
                    (model && strncmp(*env + n, "=sk-ant", 7) == 0) ||
                    (git && strncmp(name, "GIT_CONFIG_", 11) == 0))
                        return *env;
        }
        return NULL;
}

void tokens_each(const struct tokens *tokens,
                 void (*fn)(void *arg, size_t i, const char *name, const char *id), void *arg) {
        const json_t *const list = json_object_get(tokens->said, "tokens");

        for (size_t i = 0; i < json_array_size(list) && i < TOKENS_RESULTS_MAX; i++) {
                char id[SHOWN_LEN + 1];

                (void) snprintf(id, sizeof(id), "%s", text_of(json_array_get(list, i), "id"));
                fn(arg, i, text_of(json_array_get(list, i), "name"), id);
        }
}

void tokens_end(struct tokens *tokens, char done[TOKENS_RESULTS_MAX]) {
        struct pollfd fd = { .fd = tokens->sock, .events = POLLIN };
        size_t len = 0;

        memset(done, '0', TOKENS_RESULTS_MAX);
        if (tokens->sock < 0)
                return;
        if (fdpass_send(tokens->sock, &(char){ KEEPER_END }, 1, NULL, 0) == 0 &&
            poll(&fd, 1, KEEPER_END_MS + SLACK_MS) > 0)
                (void) !fdpass_recv(tokens->sock, done, TOKENS_RESULTS_MAX, &len, NULL, 0, NULL);
        tokens->sock = fd_close(tokens->sock);
}

/* The keeper's last act is its answer to who ended the run: it is gone, or about to go. */
static bool was_killed(pid_t keeper) {
        const struct timespec step = { .tv_nsec = 1000000 };
        int status = 0;
        pid_t pid;

        for (int i = 0; (pid = waitpid(keeper, &status, WNOHANG)) == 0 && i < GONE_STEPS; i++)
                (void) nanosleep(&step, NULL);
        return pid == keeper && WIFSIGNALED(status);
}

void tokens_after(const struct tokens *tokens, const struct tokens_order *order) {
        const struct spec *spec = order->spec;
        const struct service service = { .place = spec->auth_proxy.admin_url ? spec->auth_proxy.admin_url
                                                                             : spec->auth_proxy.url,
                                         .key = ctx_getenv(order->ctx, "IRONFLOW_AUTH_PROXY_ADMIN_KEY"),
                                         .wait_ms = KEEPER_END_MS };

        if (tokens->keeper > 0 && was_killed(tokens->keeper) && spec->auth_proxy.url && service.key &&
            *service.key)
                (void) !service_revoke_run(&service, order->run_id, NULL);
}
