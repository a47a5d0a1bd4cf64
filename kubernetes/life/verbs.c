/*
 * cofferdam-kubernetes reap, release, refresh: executed by 'cofferdam gc' and by the driver
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>

#include "kubernetes/command.h"
#include "kubernetes/life/copy.h"
#include "kubernetes/life/run.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/escape.h"
#include "runtime/base/file.h"
#include "runtime/base/json.h"
#include "runtime/base/log.h"
#include "runtime/base/parse.h"

enum { RELEASE_MS = 120000, VALUE_BYTES_MAX = 1 << 20 };

/** struct options - what may be said; borrowed from argv */
struct options {
        const char *ns, *context, *file, *managed_by, *domain;
        const char *every;                              /* reap */
        const char *run, *owner, *uid;                  /* release */
        const char *pod, *container, *workspace, *path; /* refresh */
};

static int options_read(int argc, char **argv, struct options *ret) {
        const struct {
                const char *name;
                const char **to;
        } known[] = {
                { "--namespace", &ret->ns },
                { "--context", &ret->context },
                { "--kubeconfig", &ret->file },
                { "--managed-by", &ret->managed_by },
                { "--domain", &ret->domain },
                { "--every", &ret->every },
                { "--run", &ret->run },
                { "--owner", &ret->owner },
                { "--uid", &ret->uid },
                { "--pod", &ret->pod },
                { "--container", &ret->container },
                { "--workspace", &ret->workspace },
                { "--path", &ret->path },
        };

        for (int i = 1; i < argc; i += 2) {
                size_t k = 0;

                while (k < ARRAY_SIZE(known) && strcmp(argv[i], known[k].name) != 0)
                        k++;
                if (k == ARRAY_SIZE(known) || i + 1 >= argc) {
                        log_error("option '%s' is not known, or has no value", ESC(argv[i]));
                        return -EINVAL;
                }
                *known[k].to = argv[i + 1];
        }
        return 0;
}

static void on_warn(void *arg, const char *text) {
        (void) arg;
        log_warn("%s", text);
}

/* Return: 0, or -errno, which was told. @ret_kube: owned */
static int open_life(int argc, char **argv, const char *const *env, struct options *opt,
                     struct kube **ret_kube, struct life *ret) {
        struct kube_config *config = NULL;
        struct error err = { 0 };
        struct kube_config_from from = { .environ = env };
        int r = options_read(argc, argv, opt);

        if (r < 0)
                return r;
        from.context = opt->context;
        from.file = opt->file;
        r = kube_config_load(&from, &config, &err);
        if (r == 0)
                r = kube_open_consume(config, ret_kube, &err);
        if (r < 0) {
                (void) kube_config_free(config);
                log_error("%s", err.msg);
                return r;
        }
        *ret = (struct life){ .kube = *ret_kube,
                              .ns = opt->ns,
                              .managed_by = opt->managed_by,
                              .domain = opt->domain,
                              .warn = on_warn };
        return 0;
}

static void on_reaped(void *arg, const char *kind, const char *name, const char *reason) {
        AUTO_JSON json_t *row = json_pack("{s:s,s:s,s:o,s:s}", "driver", "kubernetes", "kind", kind, "name",
                                          json_from_bytes(name, 512), "reason", reason);
        AUTO_FREE char *text = row ? json_dumps(row, JSON_COMPACT) : NULL;

        (void) arg;
        if (text)
                printf("%s\n", text);
        (void) fflush(stdout);
}

static int reap_once(const struct life *life, struct error *err) {
        struct life_report report;

        return life_reap(life, (int64_t) time(NULL), on_reaped, NULL, &report, err);
}

int command_reap(int argc, char **argv, const char *const *environ_) {
        AUTO_KUBE struct kube *kube = NULL;
        struct options opt = { 0 };
        struct life life;
        uint64_t every_ms = 0;
        AUTO_FD int stop_fd = -1;
        sigset_t ends;

        if (open_life(argc, argv, environ_, &opt, &kube, &life) < 0)
                return CODE_FAILED;
        if (opt.every &&
            (parse_duration_ms(opt.every, 1000, UINT64_C(86400000), &every_ms) < 0 || every_ms == 0)) {
                log_error("--every '%s': want a time between 1s and 24h", ESC(opt.every));
                return CODE_USAGE;
        }
        (void) sigemptyset(&ends);
        (void) sigaddset(&ends, SIGINT);
        (void) sigaddset(&ends, SIGTERM);
        if (every_ms > 0 && sigprocmask(SIG_BLOCK, &ends, NULL) == 0) {
                stop_fd = signalfd(-1, &ends, SFD_CLOEXEC);
                kube_set_stop(kube, stop_fd);
        }
        for (;;) {
                struct pollfd p = { .fd = stop_fd, .events = POLLIN };
                struct error err = { 0 };
                const int r = reap_once(&life, &err);

                if (r == -ECANCELED)
                        return CODE_OK;
                if (r < 0) /* the next pass may be better */
                        log_error("%s", err.msg);
                if (every_ms == 0)
                        return r < 0 ? CODE_FAILED : CODE_OK;
                if (poll(&p, 1, (int) every_ms) > 0)
                        return CODE_OK;
        }
}

int command_release(int argc, char **argv, const char *const *environ_) {
        AUTO_KUBE struct kube *kube = NULL;
        struct options opt = { 0 };
        struct error err = { 0 };
        struct life life;
        int r;

        if (open_life(argc, argv, environ_, &opt, &kube, &life) < 0)
                return CODE_FAILED;
        if ((opt.run != NULL) + (opt.owner != NULL) + (opt.pod != NULL) != 1) {
                log_error("release: want --run ID, --pod NAME, or --owner NAME with --uid UID");
                return CODE_USAGE;
        }
        r = opt.run   ? life_release_run(&life, opt.run, RELEASE_MS, &err)
            : opt.pod ? life_release_pod(&life, opt.pod, RELEASE_MS, &err)
                      : life_release_owned(&life, opt.owner, opt.uid, RELEASE_MS, &err);
        if (r < 0)
                log_error("%s", err.msg);
        return r < 0 ? CODE_FAILED : CODE_OK;
}

/* The value comes by stdin. */
int command_refresh(int argc, char **argv, const char *const *environ_) {
        AUTO_KUBE struct kube *kube = NULL;
        AUTO_BUF struct buf value = { 0 };
        struct options opt = { 0 };
        struct error err = { 0 };
        struct remote_pod pod;
        struct life life;
        int r;

        if (open_life(argc, argv, environ_, &opt, &kube, &life) < 0)
                return CODE_FAILED;
        if (!opt.pod || !opt.workspace || !opt.path) {
                log_error("refresh: want --pod, --workspace and --path");
                return CODE_USAGE;
        }
        pod = (struct remote_pod){ .kube = kube, .ns = opt.ns, .pod = opt.pod, .container = opt.container };
        r = file_read(0, VALUE_BYTES_MAX, &value);
        if (r < 0)
                (void) error_set(&err, r, "read the value: %s", strerror(-r));
        else
                r = copy_refresh(&pod, opt.workspace, opt.path, value.data, value.len, &err);
        if (r < 0)
                log_error("%s", err.msg);
        return r < 0 ? CODE_FAILED : CODE_OK;
}
