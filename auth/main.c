/*
 * cofferdam-auth-proxy - the service that `cofferdam auth-proxy` starts
 *
 * One loop in one thread; the registry and libcurl have threads of their own for what blocks (a database, the
 * resolver of libc). It starts no process.
 */
#include <curl/curl.h>
#include <errno.h>
#include <malloc.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "auth/confine.h"
#include "auth/journal.h"
#include "auth/listen.h"
#include "auth/options.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/log.h"

enum { CODE_OK = 0, CODE_FAILED = 1, CODE_USAGE = 2 };

/* @server is first */
struct app {
        struct server server;
        struct options options;
        struct loop *loop;
        struct registry *registry;
        struct upstream *upstream;
        struct stream_tls *tls;
        struct loop_watch signals;
        struct loop_queue drain_queue;
        struct loop_timer drain;
        char places[SERVER_LISTENERS_MAX][LISTEN_TEXT_MAX];
        bool end;
};

/* --- what runs under a service manager --------------------------------------------------------------------
 */

static void notify(const struct app *app, const char *state) {
        const char *path = app->options.notify_socket;
        struct sockaddr_un sa = { .sun_family = AF_UNIX };
        AUTO_FD int fd = -1;
        size_t n;

        n = path ? strlen(path) : 0;
        if (n == 0 || n >= sizeof(sa.sun_path) || (*path != '/' && *path != '@'))
                return;
        memcpy(sa.sun_path, path, n);
        if (*path == '@')
                sa.sun_path[0] = '\0';
        fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
        if (fd >= 0)
                (void) sendto(fd, state, strlen(state), MSG_NOSIGNAL | MSG_DONTWAIT,
                              (const struct sockaddr *) &sa,
                              (socklen_t) (offsetof(struct sockaddr_un, sun_path) + n));
}

/* --- start ------------------------------------------------------------------------------------------------
 */

static int listen_at(struct app *app, const char *where, enum listener_role role, struct error *err) {
        char *text = app->places[app->server.n_listeners];
        AUTO_FD int fd = -1;
        int r;

        r = listen_open(where, &fd, text, err);
        if (r < 0)
                return r;
        r = server_listen_consume(&app->server, fd, role, app->tls);
        if (r < 0)
                return error_set(err, r, "'%s': %s", where, strerror(-r));
        (void) TAKE_FD(fd);
        return 0;
}

static int listen_all(struct app *app, struct error *err) {
        const struct options *o = &app->options;
        int r;

        r = listen_at(app, o->listen, o->admin_listen ? LISTENER_RELAY : LISTENER_BOTH, err);
        if (r < 0)
                return error_wrap(err, r, "--listen");
        if (!o->admin_listen)
                return 0;
        r = listen_at(app, o->admin_listen, LISTENER_ADMIN, err);
        return r < 0 ? error_wrap(err, r, "--admin-listen") : 0;
}

static void on_drain_over(struct loop_timer *timer) {
        ((struct app *) (void *) ((char *) timer - offsetof(struct app, drain)))->end = true;
}

static void on_signal(struct loop_watch *watch, uint32_t events) {
        struct app *app = (struct app *) (void *) ((char *) watch - offsetof(struct app, signals));
        struct signalfd_siginfo info;

        (void) events;
        if (read(watch->fd, &info, sizeof(info)) != (ssize_t) sizeof(info))
                return;
        if (app->server.draining) {
                app->end = true;
                return;
        }
        journal_say(JOURNAL_INFO, "auth proxy stopping",
                    json_pack("{s:I}", "clients", (json_int_t) app->server.n_conns));
        notify(app, "STOPPING=1");
        server_drain(&app->server);
        loop_start(app->loop, &app->drain, &app->drain_queue, on_drain_over);
}

static int watch_signals(struct app *app) {
        AUTO_FD int fd = -1;
        sigset_t set;
        int r;

        (void) sigemptyset(&set);
        (void) sigaddset(&set, SIGTERM);
        (void) sigaddset(&set, SIGINT);
        /* before any thread is started: all of them inherit it */
        if (sigprocmask(SIG_BLOCK, &set, NULL) < 0)
                return -errno;
        fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
        if (fd < 0)
                return -errno;
        r = loop_add(app->loop, &app->signals, fd, EPOLLIN, on_signal);
        if (r == 0)
                (void) TAKE_FD(fd);
        return r;
}

static int start_parts(struct app *app, struct error *err) {
        struct options *o = &app->options;
        const struct registry_conf registry = { .database_url = o->database_url,
                                                .keys = o->secret_keys,
                                                .active_key = o->active_key };
        const struct server_conf conf = { .admin_key = o->admin_key,
                                          .model_host = o->model_host,
                                          .model_prefix = o->model_prefix,
                                          .model_port = o->model_port,
                                          .idle_ms = o->idle_ms,
                                          .head_ms = 10000,
                                          .keep_ms = 60000,
                                          .max_clients = o->max_clients,
                                          .max_per_token = o->max_per_token };
        int r;

        r = registry_open(&registry, &app->registry, err);
        if (r == 0 && o->tls_cert)
                r = stream_tls_new(o->tls_cert, o->tls_key, &app->tls, err);
        if (r == 0 && o->ca_file)
                r = stream_ca_check(o->ca_file, err);
        if (r == 0)
                r = upstream_new(app->loop, &o->upstream, &app->upstream, err);
        if (r < 0)
                return r;
        r = server_init(&app->server, app->loop, &conf, app->registry, app->upstream);
        return r < 0 ? error_set(err, r, "start: %s", strerror(-r)) : 0;
}

static int start(struct app *app, struct error *err) {
        int r;

        r = confine_service(err);
        if (r < 0)
                return r;
        /* requests come and go with buffers of some KiB, at each of which glibc would tidy up its small
         * chunks */
        (void) mallopt(M_MXFAST, 0);
        if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
                return error_set(err, -ENOMEM, "libcurl does not start");
        r = loop_new(&app->loop);
        if (r == 0)
                r = watch_signals(app);
        if (r < 0)
                return error_set(err, r, "start: %s", strerror(-r));
        app->drain_queue.ns = app->options.drain_ms * 1000000U;
        r = start_parts(app, err);
        return r == 0 ? listen_all(app, err) : r;
}

static void say_ready(const struct app *app) {
        const char *admin = app->places[app->server.n_listeners - 1];

        journal_say(JOURNAL_INFO, "auth proxy ready",
                    json_pack("{s:s, s:s, s:b, s:s}", "relay", app->places[0], "admin", admin, "tls",
                              app->tls != NULL, "registry",
                              app->options.database_url ? "postgresql" : "memory"));
        printf("ready: relay %s admin %s\n", app->places[0], admin);
        (void) fflush(stdout);
        notify(app, "READY=1");
}

static int serve(struct app *app, struct error *err) {
        int r = 0;

        while (r == 0 && !app->end && !(app->server.draining && app->server.n_conns == 0))
                r = loop_turn(app->loop, -1);
        return r < 0 ? error_set(err, r, "wait: %s", strerror(-r)) : 0;
}

static void stop(struct app *app) {
        const char *paths[] = { listen_is_unix(app->places[0]), listen_is_unix(app->places[1]) };

        for (size_t i = 0; i < ARRAY_SIZE(paths); i++) {
                if (paths[i])
                        (void) unlink(paths[i]);
        }
        server_deinit(&app->server);
        app->upstream = upstream_free(app->upstream);
        app->registry = registry_close(app->registry);
        app->tls = stream_tls_free(app->tls);
        if (app->signals.active)
                loop_close(app->loop, &app->signals);
        app->loop = loop_free(app->loop);
        options_deinit(&app->options);
        curl_global_cleanup();
}

static int help(void) {
        AUTO_BUF struct buf text = { 0 };

        if (options_help(&text) < 0 || fputs(buf_cstr(&text), stdout) < 0 || fflush(stdout) != 0)
                return CODE_FAILED;
        return CODE_OK;
}

int main(int argc, char **argv, char **env) {
        struct app *app = calloc(1, sizeof(*app));
        struct error err = { 0 };
        int code = CODE_FAILED, r;

        if (!app)
                return CODE_FAILED;
        r = options_parse(argc, argv, env, &app->options, &err);
        if (r == 0 && app->options.help) {
                code = help();
        } else if (r == 0) {
                r = start(app, &err);
                if (r == 0) {
                        say_ready(app);
                        r = serve(app, &err);
                }
                code = r == 0 ? CODE_OK : CODE_FAILED;
        } else if (r == -EINVAL) {
                code = CODE_USAGE;
        }
        if (r < 0)
                log_error("auth-proxy: %s", err.msg);
        stop(app);
        free(app);
        return code;
}
