/*
 * What a request is sent with: tokens that are read again from their files each time, and credential plugins
 * (client.authentication.k8s.io), whose answer is kept in memory until it expires.
 */
#include <fcntl.h>
#include <limits.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>

#include "kubernetes/client/config.h"
#include "kubernetes/client/status.h"
#include "runtime/base/clock.h"
#include "runtime/base/escape.h"
#include "runtime/base/file.h"
#include "runtime/base/json.h"

enum { EARLY_S = 10, ENV_MAX = 4096 };

/* --- the plugin's process ----------------------------------------------------------------------------------
 */

/* The KUBERNETES_EXEC_INFO of the protocol, as "NAME=VALUE". */
static int exec_info(const struct kube_config *config, struct buf *out) {
        AUTO_JSON json_t *spec = json_pack("{s:b}", "interactive", 0);
        AUTO_JSON json_t *info = NULL;
        AUTO_FREE char *text = NULL;

        if (!spec)
                return -ENOMEM;
        if (config->plugin.cluster_info) {
                const size_t room = (config->ca.len + 2) / 3 * 4 + 1;
                AUTO_FREE char *ca = malloc(room);
                json_t *cluster;

                if (!ca)
                        return -ENOMEM;
                (void) EVP_EncodeBlock((unsigned char *) ca, (const unsigned char *) buf_cstr(&config->ca),
                                       (int) config->ca.len);
                cluster = json_pack("{s:s, s:s, s:b}", "server", config->server, "certificate-authority-data",
                                    ca, "insecure-skip-tls-verify", config->insecure);
                if (!cluster || json_object_set_new(spec, "cluster", cluster) < 0)
                        return -ENOMEM;
        }
        info = json_pack("{s:s, s:s, s:O}", "apiVersion", config->plugin.api_version, "kind",
                         "ExecCredential", "spec", spec);
        text = info ? json_dumps(info, JSON_COMPACT) : NULL;
        return text ? buf_fmt(out, "KUBERNETES_EXEC_INFO=%s", text) : -ENOMEM;
}

/* ours, its own, the protocol's; later ones do not win with execve, so those that are set anew are left out
 */
static int plugin_env(const struct kube_config *config, const char *info, const char **ret) {
        const struct kube_plugin *plugin = &config->plugin;
        size_t n = 0;

        for (const char *const *v = config->environ_; v && *v; v++) {
                const size_t len = strcspn(*v, "=") + 1;
                bool anew = strncmp(*v, "KUBERNETES_EXEC_INFO=", len) == 0;

                for (size_t i = 0; i < plugin->env.n && !anew; i++)
                        anew = strncmp(*v, plugin->env.v[i], len) == 0;
                if (anew)
                        continue;
                if (n >= ENV_MAX)
                        return -E2BIG;
                ret[n++] = *v;
        }
        for (size_t i = 0; i < plugin->env.n; i++)
                ret[n++] = plugin->env.v[i];
        ret[n++] = info;
        ret[n] = NULL;
        return 0;
}

static int spawn(const struct kube_plugin *plugin, const char *const *env, int out_fd, pid_t *ret) {
        char *argv[KUBE_ARGS_MAX + 2] = { plugin->command };
        posix_spawn_file_actions_t files;
        posix_spawnattr_t attr;
        sigset_t none, dflt;
        int r;

        memcpy(argv + 1, plugin->args.v, plugin->args.n * sizeof(argv[0]));
        (void) sigemptyset(&none);
        (void) sigemptyset(&dflt);
        (void) sigaddset(&dflt, SIGPIPE);
        r = posix_spawn_file_actions_init(&files);
        if (r != 0)
                return -r;
        r = posix_spawnattr_init(&attr);
        if (r != 0) {
                (void) posix_spawn_file_actions_destroy(&files);
                return -r;
        }
        (void) posix_spawnattr_setpgroup(&attr, 0);
        (void) posix_spawnattr_setsigmask(&attr, &none);
        (void) posix_spawnattr_setsigdefault(&attr, &dflt);
        (void) posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK |
                                                       POSIX_SPAWN_SETSIGDEF);
        r = posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0);
        if (r == 0)
                r = posix_spawn_file_actions_adddup2(&files, out_fd, 1);
        if (r == 0)
                r = posix_spawnp(ret, plugin->command, &files, &attr, argv,
                                 (char *const *) (const void *) env);
        (void) posix_spawnattr_destroy(&attr);
        (void) posix_spawn_file_actions_destroy(&files);
        return -r;
}

static int read_until(int fd, uint64_t deadline, struct buf *out) {
        char part[4096];

        for (;;) {
                const uint64_t now = clock_ns();
                struct pollfd p = { .fd = fd, .events = POLLIN };
                ssize_t n;
                int r;

                if (now >= deadline)
                        return -ETIMEDOUT;
                r = poll(&p, 1, (int) ((deadline - now) / 1000000 + 1));
                if (r <= 0)
                        continue;
                n = read(fd, part, sizeof(part));
                if (n == 0)
                        return 0;
                if (n < 0 && errno != EINTR)
                        return -errno;
                r = n > 0 ? buf_add(out, part, (size_t) n) : 0;
                if (r < 0)
                        return r == -E2BIG ? -EFBIG : r;
        }
}

/* Waits until @deadline, then kills its group. Return: wait status. */
static int reap(pid_t pid, uint64_t deadline, bool kill_now) {
        int status = 0;

        while (!kill_now && waitpid(pid, &status, WNOHANG) == 0) {
                (void) poll(NULL, 0, 5);
                kill_now = clock_ns() >= deadline;
                if (kill_now)
                        break;
        }
        if (kill_now) {
                (void) kill(-pid, SIGKILL);
                (void) waitpid(pid, &status, 0);
        }
        return status;
}

static int run(struct kube_config *config, struct buf *out, struct error *err) {
        static const char hint[] = ": ";
        const struct kube_plugin *plugin = &config->plugin;
        const uint64_t deadline = clock_ns() + (uint64_t) KUBE_PLUGIN_MS * 1000000;
        AUTO_FREE const char **env = calloc(ENV_MAX + KUBE_ARGS_MAX + 2, sizeof(*env));
        AUTO_BUF struct buf info = { 0 };
        int pipe_fd[2], status, r;
        pid_t pid;

        if (!env || exec_info(config, &info) < 0)
                return error_set(err, -ENOMEM, "out of memory");
        r = plugin_env(config, info.data, env);
        if (r < 0)
                return error_set(err, r, "credential plugin '%s': environment: %s", ESC(plugin->command),
                                 strerror(-r));
        if (pipe2(pipe_fd, O_CLOEXEC) < 0)
                return error_set(err, -errno, "pipe: %s", strerror(errno));
        r = spawn(plugin, env, pipe_fd[1], &pid);
        (void) fd_close(pipe_fd[1]);
        if (r < 0) {
                (void) fd_close(pipe_fd[0]);
                return error_set(err, r, "credential plugin '%s': %s%s%s", ESC(plugin->command), strerror(-r),
                                 plugin->hint ? hint : "", plugin->hint ? ESC(plugin->hint) : "");
        }
        r = read_until(pipe_fd[0], deadline, out);
        (void) fd_close(pipe_fd[0]);
        status = reap(pid, deadline, r < 0);
        if (r == -ETIMEDOUT)
                return error_set(err, r, "credential plugin '%s': no answer within %d s: killed",
                                 ESC(plugin->command), KUBE_PLUGIN_MS / 1000);
        if (r < 0)
                return error_set(err, r, "credential plugin '%s': read its answer: %s", ESC(plugin->command),
                                 strerror(-r));
        if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
                return error_set(err, -EACCES, "credential plugin '%s': ended with %s %d",
                                 ESC(plugin->command), WIFEXITED(status) ? "code" : "signal",
                                 WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status));
        return 0;
}

/* --- its answer --------------------------------------------------------------------------------------------
 */

static int64_t when(const char *text) {
        struct tm tm = { 0 };
        const char *rest = text ? strptime(text, "%Y-%m-%dT%H:%M:%S", &tm) : NULL;
        long minutes = 0;

        if (!rest)
                return text ? 0 : INT64_MAX; /* a time that is not understood: not kept */
        if (*rest == '.')
                rest += 1 + strspn(rest + 1, "0123456789");
        if (*rest == '+' || *rest == '-') {
                struct tm zone = { 0 };

                if (!strptime(rest + 1, "%H:%M", &zone))
                        return 0;
                minutes = (zone.tm_hour * 60L + zone.tm_min) * (*rest == '+' ? -1 : 1);
        }
        return (int64_t) timegm(&tm) + minutes * 60;
}

static void drop(struct kube_plugin *plugin) {
        if (plugin->token)
                OPENSSL_cleanse(plugin->token, strlen(plugin->token));
        free(plugin->token);
        plugin->token = NULL;
        buf_deinit(&plugin->cert);
        if (plugin->key.data)
                OPENSSL_cleanse(plugin->key.data, plugin->key.len);
        buf_deinit(&plugin->key);
        plugin->valid = false;
}

static bool one_line(const char *s) {
        for (; *s; s++)
                if ((unsigned char) *s <= ' ' || *s == 0x7f)
                        return false;
        return true;
}

static int take(struct kube_plugin *plugin, const json_t *answer, struct error *err) {
        const char *version = kube_json_text(answer, "apiVersion", NULL);
        const char *token = kube_json_text(answer, "status", "token", NULL);
        const char *cert = kube_json_text(answer, "status", "clientCertificateData", NULL);
        const char *key = kube_json_text(answer, "status", "clientKeyData", NULL);

        if (!version || strcmp(version, plugin->api_version) != 0)
                return error_set(err, -EACCES, "its answer has the apiVersion '%s', want '%s'",
                                 version ? ESC(version) : "", ESC(plugin->api_version));
        if ((!token || !*token) && !cert)
                return error_set(err, -EACCES, "its answer has neither a token nor a certificate");
        if ((cert != NULL) != (key != NULL) || (token && !one_line(token)))
                return error_set(err, -EACCES,
                                 "its answer has half a certificate, or a token of several lines");
        drop(plugin);
        if (token && *token && !(plugin->token = strdup(token)))
                return error_set(err, -ENOMEM, "out of memory");
        if (cert && (buf_str(&plugin->cert, cert) < 0 || buf_str(&plugin->key, key) < 0))
                return error_set(err, -ENOMEM, "out of memory");
        plugin->expires = when(kube_json_text(answer, "status", "expirationTimestamp", NULL));
        plugin->valid = true;
        return 0;
}

static int ask(struct kube_config *config, struct error *err) {
        struct kube_plugin *plugin = &config->plugin;
        AUTO_BUF struct buf out = { .max = KUBE_CONFIG_BYTES_MAX };
        AUTO_JSON json_t *answer = NULL;
        int r;

        if (plugin->always_asks)
                return error_set(err, -EACCES,
                                 "credential plugin '%s': interactiveMode Always, and there is nobody to ask",
                                 ESC(plugin->command));
        r = run(config, &out, err);
        if (r < 0)
                return r;
        if (kube_json_parse(buf_cstr(&out), out.len, &answer) < 0)
                r = error_set(err, -EACCES, "its answer is not JSON");
        else
                r = take(plugin, answer, err);
        if (out.data)
                OPENSSL_cleanse(out.data, out.len);
        return r < 0 ? error_wrap(err, r, "credential plugin '%s'", ESC(plugin->command)) : 0;
}

/* --- the header --------------------------------------------------------------------------------------------
 */

static int bearer(const char *token, char **ret, struct error *err) {
        AUTO_BUF struct buf value = { 0 };

        if (buf_fmt(&value, "Bearer %s", token) < 0)
                return error_set(err, -ENOMEM, "out of memory");
        *ret = buf_take(&value);
        return 0;
}

static int from_file(const char *path, char **ret, struct error *err) {
        AUTO_BUF struct buf text = { 0 };
        int r = file_read_at(AT_FDCWD, path, KUBE_CONFIG_BYTES_MAX, &text);

        if (r < 0)
                return error_set(err, r, "token file '%s': %s", ESC(path), strerror(-r));
        while (text.len > 0 && strchr(" \t\r\n", text.data[text.len - 1]))
                text.data[--text.len] = '\0';
        if (text.len == 0 || strlen(text.data) != text.len || !one_line(text.data))
                return error_set(err, -EACCES, "token file '%s': no token in it", ESC(path));
        r = bearer(text.data, ret, err);
        OPENSSL_cleanse(text.data, text.len);
        return r;
}

static int basic(const struct kube_config *config, char **ret, struct error *err) {
        AUTO_BUF struct buf pair = { 0 };
        char *value;

        if (buf_fmt(&pair, "%s:%s", config->user, config->password ? config->password : "") < 0)
                return error_set(err, -ENOMEM, "out of memory");
        value = calloc(1, 7 + (pair.len + 2) / 3 * 4);
        if (!value)
                return error_set(err, -ENOMEM, "out of memory");
        memcpy(value, "Basic ", 6);
        (void) EVP_EncodeBlock((unsigned char *) value + 6, (const unsigned char *) pair.data,
                               (int) pair.len);
        OPENSSL_cleanse(pair.data, pair.len);
        *ret = value;
        return 0;
}

int kube_credential_get(struct kube_config *config, bool again, struct kube_credential *ret,
                        struct error *err) {
        struct kube_plugin *plugin = &config->plugin;
        int r = 0;

        *ret = (struct kube_credential){ .cert = &config->cert, .key = &config->key };
        if (plugin->command && (again || !plugin->valid || (int64_t) time(NULL) + EARLY_S >= plugin->expires))
                r = ask(config, err);
        if (r < 0)
                return r;
        if (plugin->command && plugin->cert.len > 0) {
                ret->cert = &plugin->cert;
                ret->key = &plugin->key;
        }
        if (plugin->token)
                return bearer(plugin->token, &ret->authorization, err);
        if (config->token_file) /* wins over the token beside it, as with kubectl */
                return from_file(config->token_file, &ret->authorization, err);
        if (config->token)
                return bearer(config->token, &ret->authorization, err);
        return config->user ? basic(config, &ret->authorization, err) : 0;
}

bool kube_credential_renewable(const struct kube_config *config) {
        return config->plugin.command || config->token_file;
}
