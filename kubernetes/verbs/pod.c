/*
 * cofferdam pod run, cofferdam pod up, cofferdam job run
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "kubernetes/command.h"
#include "kubernetes/manifest/manifest.h"
#include "kubernetes/verbs/oneoff.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/escape.h"
#include "runtime/base/json.h"
#include "runtime/base/log.h"

enum { CODE_TIMEOUT = 124, CODE_SETUP = 125 };

/** struct oneoff_verb - one of the three */
struct oneoff_verb {
        const char *name; /* "pod run" */
        enum kube_component component;
        bool up;
        int (*run)(struct oneoff *o, struct kube *kube, int stop_fd, struct outcome *ret, struct error *err);
        const char *usage, *summary;
};

static const struct oneoff_verb oneoff_verbs[] = {
        { "pod run", KUBE_POD_RUN, false, oneoff_pod,
          "cofferdam pod run [OPTIONS] --image REF -- COMMAND [ARG...]",
          "Run a command in a pod of its own, print its output, and delete the pod." },
        { "pod up", KUBE_POD_RUN, true, oneoff_pod,
          "cofferdam pod up [OPTIONS] --image REF --lifetime TIME -- CMD [ARG...]",
          "Start a pod for a service and leave it there once it is ready." },
        { "job run", KUBE_JOB_RUN, false, oneoff_job,
          "cofferdam job run [OPTIONS] --image REF -- COMMAND [ARG...]",
          "Run a command as a Job, print its output, and delete the Job." },
};

static json_t *or_null(json_t *value) {
        return value ? value : json_null();
}

static json_t *outcome_json(const struct oneoff *o, const struct outcome *out, const struct error *err) {
        AUTO_JSON json_t *obj = json_pack("{s:s, s:s, s:b}", "name", o->plan.name, "namespace", o->plan.ns,
                                          "success", out->success);
        json_t *reason = out->reason ? json_string(out->reason) : NULL;

        if (!obj)
                return NULL;
        if (err)
                (void) json_object_set_new(obj, "error", json_from_bytes(err->msg, sizeof(err->msg)));
        else
                (void) json_object_set_new(obj, "phase", json_string(out->phase));
        (void) json_object_set_new(obj, "exit_code",
                                   or_null(out->has_exit_code ? json_integer(out->exit_code) : NULL));
        (void) json_object_set_new(obj, "reason", or_null(reason));
        if (o->up) {
                (void) json_object_set_new(obj, "ip", or_null(out->ip ? json_string(out->ip) : NULL));
                (void) json_object_set_new(obj, "expires_at", json_integer(kube_expires_at(&o->plan)));
        } else {
                (void) json_object_set_new(obj, "logs",
                                           json_from_bytes(buf_cstr(&out->logs), o->max_log + 4096));
                (void) json_object_set_new(obj, "logs_truncated", json_boolean(out->truncated));
        }
        return TAKE_PTR(obj);
}

static int print_outcome(const struct oneoff *o, const struct outcome *out, const struct error *err) {
        AUTO_JSON json_t *obj = o->json ? outcome_json(o, out, err) : NULL;
        int r = 0;

        if (o->json) {
                r = obj ? json_dumpf(obj, stdout, JSON_INDENT(2)) : -1;
                (void) putchar('\n');
        } else if (o->up && !err) {
                r = printf("%s %s\n", o->plan.name, out->ip ? out->ip : "-");
        } else if (out->logs.len) {
                r = fwrite(out->logs.data, 1, out->logs.len, stdout) == out->logs.len ? 0 : -1;
        }
        return r < 0 || fflush(stdout) != 0 ? -1 : 0;
}

/* The exit code of the command; one that has none was ended by the cluster. */
static int code_of(const struct oneoff *o, const struct outcome *out) {
        if (out->has_exit_code)
                return out->exit_code & 0xff;
        if (out->success)
                return CODE_OK;
        log_error("%s: '%s' failed: %s", o->verb, ESC(o->plan.name),
                  ESC(out->reason ? out->reason : "no reason given"));
        return out->reason && strcmp(out->reason, "DeadlineExceeded") == 0 ? CODE_TIMEOUT : CODE_SETUP;
}

static int stop_signals(sigset_t *set) {
        (void) sigemptyset(set);
        (void) sigaddset(set, SIGINT);
        (void) sigaddset(set, SIGTERM);
        (void) sigaddset(set, SIGHUP);
        if (sigprocmask(SIG_BLOCK, set, NULL) < 0)
                return -1;
        return signalfd(-1, set, SFD_CLOEXEC | SFD_NONBLOCK);
}

static int signal_code(int fd) {
        struct signalfd_siginfo info = { 0 };

        return read(fd, &info, sizeof(info)) == (ssize_t) sizeof(info) ? 128 + (int) info.ssi_signo
                                                                       : CODE_SETUP;
}

static int failure(const struct oneoff *o, int r, int stop_fd, const struct outcome *out,
                   const struct error *err) {
        log_error("%s: %s", o->verb, err->msg);
        if (print_outcome(o, out, err) < 0)
                return CODE_SETUP;
        return r == -ECANCELED ? signal_code(stop_fd) : r == -ETIMEDOUT ? CODE_TIMEOUT : CODE_SETUP;
}

static int carry_out(const struct oneoff_verb *verb, struct oneoff *o, const char *const *environ_) {
        struct outcome out __attribute__((cleanup(outcome_deinit))) = { 0 };
        AUTO_KUBE struct kube *kube = NULL;
        struct error err = { 0 };
        AUTO_FD int stop_fd = -1;
        sigset_t set;
        int r;

        stop_fd = stop_signals(&set);
        r = oneoff_connect(o, environ_, &kube, &err);
        if (r == 0)
                r = verb->run(o, kube, stop_fd, &out, &err);
        if (r < 0)
                return failure(o, r, stop_fd, &out, &err);
        if (print_outcome(o, &out, NULL) < 0) {
                log_error("%s: write to standard output: %s", o->verb, strerror(errno));
                return CODE_SETUP;
        }
        return o->up ? CODE_OK : code_of(o, &out);
}

static int dry_run(const struct oneoff *o) {
        AUTO_BUF struct buf text = { 0 };
        AUTO_JSON json_t *object =
                o->plan.component == KUBE_JOB_RUN ? kube_job(&o->plan) : kube_pod(&o->plan);
        AUTO_JSON json_t *all = object ? json_pack("[O]", object) : NULL;

        if (!all || (o->json ? json_dumpf(object, stdout, JSON_INDENT(2)) : kube_yaml(all, &text)) < 0) {
                log_error("%s: out of memory", o->verb);
                return CODE_SETUP;
        }
        (void) fputs(o->json ? "\n" : buf_cstr(&text), stdout);
        return fflush(stdout) == 0 ? CODE_OK : CODE_SETUP;
}

static void oneoff_deinit(struct oneoff *o) {
        kube_plan_deinit(&o->plan);
}

static int run_verb(const struct oneoff_verb *verb, int argc, char **argv, const char *const *environ_) {
        const struct flag_set set = { verb->usage, verb->summary, oneoff_options,
                                      n_oneoff_options - (verb->up ? 0 : 1), false };
        struct oneoff o __attribute__((cleanup(oneoff_deinit)));
        AUTO_FLAGS struct flags *flags = NULL;
        AUTO_BUF struct buf help = { 0 };
        struct error err = { 0 };

        oneoff_init(&o, verb->name, verb->component);
        o.up = verb->up;
        if (flags_parse(&set, argc, argv, &o, &flags, &err) < 0) {
                log_error("%s: %s", verb->name, err.msg);
                return CODE_USAGE;
        }
        if (flags->help) {
                if (flags_help(&set, &help) < 0)
                        return CODE_FAILED;
                (void) fputs(buf_cstr(&help), stdout);
                return fflush(stdout) == 0 ? CODE_OK : CODE_FAILED;
        }
        if (oneoff_finish(&o, argv + flags->next, &err) < 0) {
                log_error("%s: %s", verb->name, err.msg);
                return err.code == -EINVAL ? CODE_USAGE : CODE_SETUP;
        }
        return o.dry_run ? dry_run(&o) : carry_out(verb, &o, environ_);
}

/* "pod" or "job" in argv[0], and which of them in argv[1] */
static int command(int argc, char **argv, const char *const *environ_) {
        const bool job = strcmp(argv[0], "job") == 0;
        const char *want = job ? "job: say what to do: run" : "pod: say what to do: run or up";
        char name[32];

        if (argc < 2) {
                log_error("%s", want);
                return CODE_USAGE;
        }
        if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
                printf("Usage: cofferdam %s [OPTIONS] --image REF -- COMMAND [ARG...]\n\n%s\n",
                       job ? "job run" : "pod run|up",
                       job ? "Run a Job; see 'cofferdam job run --help'."
                           : "Run a pod, or start one for a service; each word has its own --help.");
                return fflush(stdout) == 0 ? CODE_OK : CODE_FAILED;
        }
        (void) snprintf(name, sizeof(name), "%s %.16s", argv[0], argv[1]);
        for (size_t i = 0; i < ARRAY_SIZE(oneoff_verbs); i++)
                if (strcmp(name, oneoff_verbs[i].name) == 0)
                        return run_verb(&oneoff_verbs[i], argc - 1, argv + 1, environ_);
        if (argv[1][0] == '-')
                log_error("%s: unknown option '%s': options stand behind the word", argv[0], ESC(argv[1]));
        else
                log_error("%s, not '%s'", want, ESC(argv[1]));
        return CODE_USAGE;
}

int command_pod(int argc, char **argv, const char *const *environ_) {
        return command(argc, argv, environ_);
}

int command_job(int argc, char **argv, const char *const *environ_) {
        return command(argc, argv, environ_);
}
