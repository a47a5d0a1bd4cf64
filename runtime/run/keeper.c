/*
 * DOC: theory of operation
 *
 * Forked by the caller's process before the supervisor, with the credentials of the caller's environment. It
 * starts the run's own auth proxy when no service is configured, has one token issued for each credential,
 * and tells what the commands find in their environment. Then it carries connections from inside to the
 * service, until its socket says that the run is over: a word of the supervisor, or the end of file when all
 * who held the other end are gone. Last it revokes, KEEPER_END_MS at most.
 *
 * It is the only process of a run that has a credential in a place of its own; nothing of the sandbox reaches
 * it but bytes that it passes on unread. What it inherited of descriptors is closed, no core file is written,
 * and no other process of the user may look into it.
 */
#include "runtime/run/keeper.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "drivers/driver.h"
#include "runtime/base/buf.h"
#include "runtime/base/caps.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/clock.h"
#include "runtime/base/escape.h"
#include "runtime/base/fdpass.h"
#include "runtime/base/file.h"
#include "runtime/base/json.h"
#include "runtime/base/libexec.h"
#include "runtime/run/bridge.h"
#include "runtime/run/exposed.h"
#include "runtime/run/service.h"
#include "runtime/spec/secretrules.h"

enum {
        TOKENS_MAX = 65, /* secrets and the model */
        KEY_BYTES = 32,
        PLACE_MAX = 64,
        READY_MS = 15000,
        CALL_MS = 10000,
        LIFE_SECONDS_MAX = 24 * 3600 - 60,
        MARGIN_SECONDS = 15 * 60, /* setting up, landing */
        BASIC_MAX = 1024,
        WORDS_MAX = 64
};

struct keeper {
        const struct keeper_args *args;
        struct loop_watch watch, log_watch;
        struct loop *loop;
        int dir_fd; /* of the run, owned: a descriptor that shares no lock with the supervisor's */
        int log_fd; /* what the run's own proxy says, -1: none */
        struct bridge *bridge;
        char key[2 * KEY_BYTES + 1]; /* of the run's own proxy */
        char relay_place[PLACE_MAX], admin_place[PLACE_MAX];
        const char *relay; /* place */
        struct service admin;
        pid_t proxy;
        char own_base[64];
        const char *base; /* URL of the relay inside */
        char ids[TOKENS_MAX][SERVICE_ID_MAX];
        size_t n_ids;
        json_t *env, *tokens, *names;
        size_t n_git;
        bool over, asked;
        bool unsure; /* the service may have issued a token that nobody was told of */
};

/* ---- what it may still do ---- */

static void close_all_but(const int *keep, size_t n) {
        unsigned int from = 3;

        for (;;) {
                unsigned int next = ~0U;

                for (size_t i = 0; i < n; i++)
                        if (keep[i] >= 0 && (unsigned int) keep[i] >= from && (unsigned int) keep[i] < next)
                                next = (unsigned int) keep[i];
                if (next == ~0U)
                        break;
                if (next > from)
                        (void) close_range(from, next - 1, 0);
                from = next + 1;
        }
        (void) close_range(from, ~0U, 0);
}

static int withdraw(struct keeper *k, struct error *err) {
        const struct rlimit none = { 0, 0 };
        const int keep[] = { k->args->sock, k->args->answer_fd, k->dir_fd };
        AUTO_FD int null = open("/dev/null", O_RDWR | O_CLOEXEC);
        sigset_t nothing;
        int r;

        if (null < 0)
                return error_set(err, -errno, "open '/dev/null': %s", strerror(errno));
        (void) setsid();
        (void) signal(SIGPIPE, SIG_IGN);
        (void) sigemptyset(&nothing);
        (void) sigprocmask(SIG_SETMASK, &nothing, NULL);
        (void) umask(077);
        for (int i = 0; i < 3; i++)
                if (dup2(null, i) < 0)
                        return error_set(err, -errno, "dup2: %s", strerror(errno));
        if (chdir("/") < 0)
                return error_set(err, -errno, "enter '/': %s", strerror(errno));
        close_all_but(keep, ARRAY_SIZE(keep));
        (void) prctl(PR_SET_NAME, "cofferdam-keeper");
        (void) setrlimit(RLIMIT_CORE, &none);
        if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
                return error_set(err, -errno, "no_new_privs: %s", strerror(errno));
        r = caps_keep(0);
        return r < 0 ? error_set(err, r, "drop capabilities: %s", strerror(-r)) : 0;
}

/* ---- the run's own auth proxy ---- */

static int make_key(char key[2 * KEY_BYTES + 1]) {
        unsigned char bytes[KEY_BYTES];

        if (getrandom(bytes, sizeof(bytes), 0) != sizeof(bytes))
                return -EIO;
        for (size_t i = 0; i < sizeof(bytes); i++)
                (void) snprintf(key + 2 * i, 3, "%02x", bytes[i]);
        explicit_bzero(bytes, sizeof(bytes));
        return 0;
}

_Noreturn static void proxy_main(struct keeper *k, int said_fd, pid_t parent) {
        char listen[PLACE_MAX], admin[PLACE_MAX], key[sizeof(k->key) + 40];
        char *argv[WORDS_MAX + 8] = { (char[]){ "cofferdam-auth-proxy" }, (char[]){ "--listen" }, listen,
                                      (char[]){ "--admin-listen" }, admin };
        char *env[] = { key, NULL };
        const char *said = k->args->spec->auth_proxy.options;
        char *options = said ? strdup(said) : NULL, *rest = options, *word;
        size_t n = 5;
        int dir, r;

        (void) prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent)
                _exit(1);
        dir = fcntl(k->dir_fd, F_DUPFD, 3); /* without close-on-exec: the sockets are named by it */
        if (dir < 0 || dup2(said_fd, STDOUT_FILENO) < 0 || dup2(said_fd, STDERR_FILENO) < 0)
                _exit(1);
        (void) snprintf(listen, sizeof(listen), "unix:/proc/self/fd/%d/relay", dir);
        (void) snprintf(admin, sizeof(admin), "unix:/proc/self/fd/%d/relay-admin", dir);
        (void) snprintf(key, sizeof(key), "IRONFLOW_AUTH_PROXY_ADMIN_KEY=%s", k->key);
        while (n < WORDS_MAX && (word = strsep(&rest, " ")))
                if (*word)
                        argv[n++] = word;
        r = libexec_exec(argv[0], argv, env);
        (void) dprintf(STDOUT_FILENO, "%s cannot be executed: %s\n", argv[0], strerror(-r));
        _exit(127);
}

/* Its first words: that it is ready, or why not. */
static int wait_proxy(int fd, struct error *err) {
        const uint64_t until = clock_ns() + READY_MS * 1000000ULL;
        char text[1024] = "";
        size_t have = 0;

        for (;;) {
                struct pollfd pfd = { .fd = fd, .events = POLLIN };
                const uint64_t now = clock_ns();
                const int left = now < until ? (int) ((until - now) / 1000000) : 0;
                ssize_t n;

                if (strstr(text, "ready: relay"))
                        return 0;
                if (have == sizeof(text) - 1)
                        have = 0;
                n = poll(&pfd, 1, left) > 0 ? read(fd, text + have, sizeof(text) - 1 - have) : -1;
                if (n <= 0)
                        break;
                have += (size_t) n;
                text[have] = '\0';
        }
        text[strcspn(text, "\n")] = '\0';
        return error_set(err, -EIO, "the run's own auth proxy does not start: %s",
                         *text ? ESC(text) : "it says nothing");
}

static int start_proxy(struct keeper *k, struct error *err) {
        const pid_t self = getpid();
        int said[2];

        if (make_key(k->key) < 0 || pipe2(said, O_CLOEXEC) < 0)
                return error_set(err, -EIO, "start the run's own auth proxy: %s", strerror(errno));
        k->proxy = fork();
        if (k->proxy < 0)
                return error_set(err, -errno, "fork: %s", strerror(errno));
        if (k->proxy == 0)
                proxy_main(k, said[1], self);
        (void) close(said[1]);
        k->log_fd = said[0];
        (void) snprintf(k->relay_place, sizeof(k->relay_place), "unix:/proc/self/fd/%d/relay", k->dir_fd);
        (void) snprintf(k->admin_place, sizeof(k->admin_place), "unix:/proc/self/fd/%d/relay-admin",
                        k->dir_fd);
        k->relay = k->relay_place;
        k->admin = (struct service){ k->admin_place, k->key, CALL_MS };
        return wait_proxy(k->log_fd, err);
}

static void end_proxy(struct keeper *k) {
        if (k->proxy <= 0)
                return;
        (void) kill(k->proxy, SIGKILL); /* its tokens are in its memory only */
        while (waitpid(k->proxy, NULL, 0) < 0 && errno == EINTR)
                ;
        k->proxy = 0;
        (void) unlinkat(k->dir_fd, "relay", 0);
        (void) unlinkat(k->dir_fd, "relay-admin", 0);
}

static int no_key(struct error *err) {
        return error_set(err, -EINVAL,
                         "auth_proxy.url needs the key of the service: set IRONFLOW_AUTH_PROXY_ADMIN_KEY");
}

/* @url: auth_proxy.url. Whether another machine can have the same service there. */
static int check_elsewhere(const char *url, struct error *err) {
        static const char *const here[] = { "unix:", "http://127.", "http://localhost:", "http://[::1]:" };

        if (!url)
                return error_set(err, -EINVAL,
                                 "the sandbox is on another machine, and cannot reach a relay of the run's "
                                 "own: set auth_proxy.url to a service that it reaches");
        for (size_t i = 0; i < ARRAY_SIZE(here); i++)
                if (strncmp(url, here[i], strlen(here[i])) == 0)
                        return error_set(err, -EINVAL,
                                         "auth_proxy.url: the sandbox is on another machine, and '%s' is of "
                                         "this one only: set it to where the sandbox reaches the service",
                                         ESC(url));
        return 0;
}

static int find_service(struct keeper *k, struct error *err) {
        const struct spec *spec = k->args->spec;
        const char *key = ctx_getenv(k->args->ctx, "IRONFLOW_AUTH_PROXY_ADMIN_KEY");
        int r;

        r = k->args->elsewhere ? check_elsewhere(spec->auth_proxy.url, err) : 0;
        if (r < 0)
                return r;
        if (!spec->auth_proxy.url)
                return start_proxy(k, err);
        if (!key || !*key)
                return no_key(err);
        k->relay = spec->auth_proxy.url;
        k->admin = (struct service){ spec->auth_proxy.admin_url ? spec->auth_proxy.admin_url
                                                                : spec->auth_proxy.url,
                                     key, CALL_MS };
        /* before there is a token: whoever may be killed when, it can be revoked */
        r = file_replace_at(k->dir_fd, KEEPER_SERVICE_FILE, k->admin.place, strlen(k->admin.place), 0600,
                            false);
        return r < 0 ? error_set(err, r, "write '" KEEPER_SERVICE_FILE "': %s", strerror(-r)) : 0;
}

/* ---- where the work finds the relay ---- */

static int listen_on_host(struct keeper *k, struct error *err) {
        struct sockaddr_in sa = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
        AUTO_FD int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        socklen_t len = sizeof(sa);
        int r;

        if (fd < 0 || bind(fd, (const struct sockaddr *) &sa, sizeof(sa)) < 0 || listen(fd, 128) < 0 ||
            getsockname(fd, (struct sockaddr *) &sa, &len) < 0)
                return error_set(err, -errno, "listen for the relay: %s", strerror(errno));
        (void) snprintf(k->own_base, sizeof(k->own_base), "http://127.0.0.1:%u", ntohs(sa.sin_port));
        r = bridge_listen_consume(k->bridge, fd);
        if (r < 0)
                return error_set(err, r, "listen for the relay: %s", strerror(-r));
        (void) TAKE_FD(fd);
        return 0;
}

static int open_bridge(struct keeper *k, struct error *err) {
        int r;

        r = loop_new(&k->loop);
        if (r == 0 && k->args->elsewhere) {
                k->base = k->relay;
                return 0;
        }
        k->base = k->own_base;
        if (r == 0)
                r = bridge_new(k->loop, k->relay, &k->bridge);
        if (r < 0)
                return error_set(err, r, "relay: %s", strerror(-r));
        if (!k->args->own_loopback)
                return listen_on_host(k, err);
        (void) snprintf(k->own_base, sizeof(k->own_base), "http://127.0.0.1:%d", DRIVER_RELAY_PORT);
        return 0;
}

/* ---- tokens ---- */

static int put_env(struct keeper *k, const char *name, const char *fmt, ...)
        __attribute__((format(printf, 3, 4)));

static int put_env(struct keeper *k, const char *name, const char *fmt, ...) {
        AUTO_BUF struct buf text = { 0 };
        char value[4096];
        va_list ap;

        va_start(ap, fmt);
        (void) vsnprintf(value, sizeof(value), fmt, ap);
        va_end(ap);
        if (buf_fmt(&text, "%s=%s", name, value) < 0 ||
            json_array_append_new(k->env, json_string(buf_cstr(&text))) < 0 ||
            json_array_append_new(k->names, json_string(name)) < 0)
                return -ENOMEM;
        return 0;
}

static uint64_t expiry(const struct spec *spec) {
        const uint64_t timeout = spec->limits.timeout_ms / 1000;
        const uint64_t life = timeout && timeout < LIFE_SECONDS_MAX - MARGIN_SECONDS
                                      ? timeout + MARGIN_SECONDS
                                      : LIFE_SECONDS_MAX;

        return (uint64_t) time(NULL) + life;
}

/* Has a token issued for @credential (consumed) and remembers it. */
static int issue(struct keeper *k, const char *name, json_t *credential, struct service_token *ret,
                 struct error *err) {
        const struct spec_kubernetes *in = &k->args->spec->kubernetes;
        const bool elsewhere = k->args->elsewhere;
        /* the group, whose ID nobody else has, is what is revoked: other steps of the run go on */
        AUTO_JSON json_t *request = json_pack("{s:s, s:s, s:s*, s:I, s:o}", "run_id",
                                              elsewhere && in->run_id ? in->run_id : k->args->run_id, "step",
                                              elsewhere && in->step ? in->step : "run", "group",
                                              elsewhere && in->run_id ? k->args->run_id : NULL, "expires_at",
                                              (json_int_t) expiry(k->args->spec), "credential", credential);
        int r;

        if (!request || k->n_ids == TOKENS_MAX)
                return error_set(err, -ENOMEM, "out of memory");
        r = service_issue(&k->admin, request, ret, err);
        k->unsure = r < 0;
        if (r < 0)
                return error_wrap(err, r, "token for '%s'", ESC(name));
        (void) snprintf(k->ids[k->n_ids++], SERVICE_ID_MAX, "%s", ret->id);
        if (json_array_append_new(k->tokens, json_pack("{s:s, s:s}", "name", name, "id", ret->id)) < 0)
                return error_set(err, -ENOMEM, "out of memory");
        return 0;
}

static json_t *injection_json(const char *inject) {
        if (strncmp(inject, "basic:", 6) == 0)
                return json_pack("{s:{s:s}}", "basic", "username", inject + 6);
        if (strncmp(inject, "header:", 7) == 0)
                return json_pack("{s:s}", "header", inject + 7);
        return json_string(inject);
}

static json_t *hosts_json(const char *hosts) {
        json_t *list = json_array();

        for (size_t n; list; hosts += n + 1) {
                n = strcspn(hosts, ",");
                (void) json_array_append_new(list, json_stringn(hosts, n));
                if (!hosts[n])
                        break;
        }
        return list;
}

static void base64(const char *in, char *out, size_t size) {
        static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        const size_t len = strlen(in);
        size_t o = 0;

        for (size_t i = 0; i < len && o + 5 < size; i += 3) {
                const unsigned int a = (unsigned char) in[i], b = i + 1 < len ? (unsigned char) in[i + 1] : 0,
                                   c = i + 2 < len ? (unsigned char) in[i + 2] : 0;

                out[o++] = digits[a >> 2];
                out[o++] = digits[(a & 3) << 4 | b >> 4];
                out[o++] = i + 1 < len ? digits[(b & 15) << 2 | c >> 6] : '=';
                out[o++] = i + 2 < len ? digits[c & 63] : '=';
        }
        out[o] = '\0';
}

static int put_git_pair(struct keeper *k, const char *key, const char *value) {
        char name[48];
        int r;

        (void) snprintf(name, sizeof(name), "GIT_CONFIG_KEY_%zu", k->n_git);
        r = put_env(k, name, "%s", key);
        (void) snprintf(name, sizeof(name), "GIT_CONFIG_VALUE_%zu", k->n_git++);
        return r == 0 ? put_env(k, name, "%s", value) : r;
}

/* git asks the relay in place of each host, with the token as the password. */
static int put_git(struct keeper *k, const struct spec_secret *secret, const char *token) {
        char basic[BASIC_MAX], encoded[2 * BASIC_MAX], key[1024], value[2 * BASIC_MAX + 64];
        int r = 0;

        (void) snprintf(basic, sizeof(basic), "%s:%s", secret->inject + 6, token);
        base64(basic, encoded, sizeof(encoded));
        for (const char *h = secret->hosts; r == 0 && *h;
             h += strcspn(h, ",") + (h[strcspn(h, ",")] != '\0')) {
                const int n = (int) strcspn(h, ",");

                if (*h == '*')
                        continue;
                (void) snprintf(key, sizeof(key), "url.%s/r/%.*s/.insteadOf", k->base, n, h);
                (void) snprintf(value, sizeof(value), "https://%.*s/", n, h);
                r = put_git_pair(k, key, value);
                if (r < 0)
                        return r;
                (void) snprintf(key, sizeof(key), "http.%s/r/%.*s/.extraHeader", k->base, n, h);
                (void) snprintf(value, sizeof(value), "Authorization: Basic %s", encoded);
                r = put_git_pair(k, key, value);
        }
        return r;
}

static int add_secret(struct keeper *k, const struct spec_secret *secret, const char *value,
                      struct error *err) {
        const char *env = secret->env ? secret->env : secret->name;
        struct service_token token;
        char url[SECRET_ENV_MAX + sizeof("_URL")];
        int r;

        r = issue(k, secret->name,
                  json_pack("{s:s, s:s, s:o, s:o}", "name", secret->name, "value", value, "injection",
                            injection_json(secret->inject), "hosts", hosts_json(secret->hosts)),
                  &token, err);
        if (r < 0)
                return r;
        (void) snprintf(url, sizeof(url), "%s_URL", env);
        r = put_env(k, env, "%s", token.token);
        if (r == 0)
                r = put_env(k, url, "%s/r", k->base);
        if (r == 0 && strncmp(secret->inject, "basic:", 6) == 0)
                r = put_git(k, secret, token.token);
        explicit_bzero(&token, sizeof(token));
        return r < 0 ? error_set(err, r, "out of memory") : 0;
}

static int add_model(struct keeper *k, const char *value, bool oauth, struct error *err) {
        struct service_token token;
        int r;

        r = issue(k, "model",
                  json_pack("{s:s, s:s}", "kind", oauth ? "oauth_token" : "api_key", "value", value), &token,
                  err);
        if (r < 0)
                return r;
        r = put_env(k, "ANTHROPIC_BASE_URL", "%s", k->base);
        if (r == 0)
                r = put_env(k, "ANTHROPIC_AUTH_TOKEN", "%s", token.token);
        if (r == 0)
                r = put_env(k, "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1");
        explicit_bzero(&token, sizeof(token));
        return r < 0 ? error_set(err, r, "out of memory") : 0;
}

static int issue_all(struct keeper *k, const struct credentials *credentials, struct error *err) {
        const struct spec *spec = k->args->spec;
        int r = 0;

        k->env = json_array();
        k->tokens = json_array();
        k->names = json_array();
        if (credentials->model)
                r = add_model(k, credentials->model, credentials->model_oauth, err);
        for (size_t i = 0; r == 0 && i < spec->n_secrets; i++)
                r = add_secret(k, &spec->secrets[i], credentials->values[i], err);
        if (r == 0 && k->n_git > 0 && put_env(k, "GIT_CONFIG_COUNT", "%zu", k->n_git) < 0)
                r = error_set(err, -ENOMEM, "out of memory");
        return r;
}

static void revoke_all(struct keeper *k) {
        const uint64_t until = clock_ns() + KEEPER_END_MS * 1000000ULL;
        char done[TOKENS_MAX];
        bool all;

        memset(done, '0', sizeof(done));
        all = !k->unsure || service_revoke_run(&k->admin, k->args->run_id, NULL) == 0;
        for (size_t i = 0; i < k->n_ids; i++) {
                const uint64_t now = clock_ns();

                if (now >= until)
                        break;
                k->admin.wait_ms = (unsigned int) ((until - now) / 1000000) + 1;
                done[i] = service_revoke(&k->admin, k->ids[i], NULL) == 0 ? '1' : '0';
        }
        end_proxy(k);
        if (all && !memchr(done, '0', k->n_ids))
                (void) unlinkat(k->dir_fd, KEEPER_SERVICE_FILE, 0);
        if (k->asked)
                (void) !fdpass_send(k->args->sock, done, k->n_ids ? k->n_ids : 1, NULL, 0);
}

/* ---- the process ---- */

static void on_word(struct loop_watch *watch, uint32_t events) {
        struct keeper *k = (struct keeper *) (void *) ((char *) watch - offsetof(struct keeper, watch));
        AUTO_FD int fd = -1;
        size_t len = 0, n = 0;
        char word = 0;
        int r;

        (void) events;
        r = fdpass_recv(watch->fd, &word, 1, &len, &fd, 1, &n);
        if (r == -EAGAIN)
                return;
        if (r < 0 || len != 1) {
                k->over = true;
                return;
        }
        if (word == KEEPER_LISTEN && n == 1 && bridge_listen_consume(k->bridge, fd) == 0)
                (void) TAKE_FD(fd);
        else if (word == KEEPER_END)
                k->over = k->asked = true;
}

/* Its log is nobody's to read; a pipe that is full would stop it. */
static void on_log(struct loop_watch *watch, uint32_t events) {
        struct keeper *k = (struct keeper *) (void *) ((char *) watch - offsetof(struct keeper, log_watch));
        char text[4096];

        (void) events;
        if (read(watch->fd, text, sizeof(text)) <= 0)
                loop_remove(k->loop, watch);
}

static void say(const struct keeper_args *args, json_t *consumed) {
        AUTO_JSON json_t *json = consumed;

        if (json)
                (void) json_dumpfd(json, args->answer_fd, JSON_COMPACT);
        (void) !fdpass_send(args->sock, &(char){ '!' }, 1, NULL, 0);
}

static const char *failure_of(int r) {
        return r == -EPERM ? "CREDENTIAL_EXPOSED" : r == -EINVAL ? "SPEC_INVALID" : "SANDBOX_SETUP_FAILED";
}

static int begin(struct keeper *k, struct error *err) {
        CLEANUP(credentials_deinit) struct credentials credentials = { 0 };
        int r;

        k->dir_fd = openat(k->args->run_dir_fd, ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (k->dir_fd < 0)
                return error_set(err, -errno, "directory of the run: %s", strerror(errno));
        r = credentials_read(k->args->ctx, k->args->spec, &credentials, err);
        if (r == 0)
                r = exposed_check(k->args->ctx, k->args->spec, &credentials, err);
        if (r == 0)
                r = withdraw(k, err);
        if (r == 0)
                r = find_service(k, err);
        if (r == 0)
                r = open_bridge(k, err);
        if (r == 0)
                r = issue_all(k, &credentials, err);
        if (r == 0) /* what it says of the start is written to a file that is open */
                r = keeper_confine(err);
        return r;
}

int keeper_check(const struct ctx *ctx, const struct spec *spec, bool elsewhere, struct error *err) {
        CLEANUP(credentials_deinit) struct credentials credentials = { 0 };
        const char *key = ctx_getenv(ctx, "IRONFLOW_AUTH_PROXY_ADMIN_KEY");
        int r;

        r = credentials_read(ctx, spec, &credentials, err);
        if (r == 0)
                r = exposed_check(ctx, spec, &credentials, err);
        if (r == 0 && elsewhere)
                r = check_elsewhere(spec->auth_proxy.url, err);
        if (r < 0)
                return r;
        if (spec->auth_proxy.url)
                return key && *key ? 0 : no_key(err);
        r = libexec_check("cofferdam-auth-proxy");
        return r == 0 ? 0 : error_set(err, r, "cofferdam-auth-proxy cannot be executed: %s", strerror(-r));
}

static void serve(struct keeper *k) {
        if (loop_add(k->loop, &k->watch, k->args->sock, EPOLLIN, on_word) < 0 ||
            (k->log_fd >= 0 && loop_add(k->loop, &k->log_watch, k->log_fd, EPOLLIN, on_log) < 0))
                return;
        while (!k->over && loop_turn(k->loop, -1) == 0)
                ;
        loop_remove(k->loop, &k->watch);
        loop_remove(k->loop, &k->log_watch);
}

int keeper_main(const struct keeper_args *args) {
        struct keeper k = { .args = args, .log_fd = -1, .dir_fd = -1 };
        struct error err = { 0 };
        int r;

        r = begin(&k, &err);
        credentials_erase(args->ctx, args->spec);
        if (r < 0) {
                say(args, json_pack("{s:s, s:o}", "failure_code", failure_of(r), "text",
                                    json_from_bytes(err.msg, sizeof(err.msg))));
        } else {
                say(args, json_pack("{s:O, s:O, s:O}", "env", k.env, "tokens", k.tokens, "names", k.names));
                serve(&k);
        }
        k.bridge = bridge_free(k.bridge);
        revoke_all(&k);
        return r < 0;
}
