/*
 * oneoff.h - `cofferdam pod` and `cofferdam job`: one pod or Job from options, and what becomes of it
 */
#pragma once

#include "kubernetes/client/client.h"
#include "kubernetes/manifest/plan.h"
#include "runtime/base/error.h"
#include "runtime/spec/flags.h"

/** struct oneoff - what the options say */
struct oneoff {
        struct kube_plan plan;
        const char *verb; /* "pod run", ...; for messages */
        const char *kubeconfig, *context;
        const char *script;     /* for /bin/sh -c, in place of words */
        const char *stdin_file; /* "-": standard input */
        bool up;                /* pod up: until it is ready, and it stays */
        bool json, keep, dry_run;
        bool ns_given, timeout_given, lifetime_given;
        uint64_t wait_ms; /* how long for the end, or until it is ready */
        uint64_t max_log; /* bytes */
};

/** oneoff_options - of all three verbs; the last is of `pod up` alone */
extern const struct flag_option oneoff_options[];
extern const size_t n_oneoff_options;

/** oneoff_init() - the defaults of a verb that makes @component */
void oneoff_init(struct oneoff *o, const char *verb, enum kube_component component);

/** oneoff_finish() - what the options mean together: command, name, stdin
 * @words: of the command, NULL-terminated; may be empty. Reads the file of stdin, blocks.
 * Return: 0, -EINVAL, -EFBIG, -errno of the read, -ENOMEM. */
int oneoff_finish(struct oneoff *o, char **words, struct error *err) __attribute__((warn_unused_result));

/** struct outcome - how it ended */
struct outcome {
        bool success, has_exit_code, truncated;
        int exit_code;
        const char *phase; /* "Succeeded", "Failed"; of a service "Running". Borrowed from @pod or static */
        const char *
                reason; /* of the pod ("DeadlineExceeded") or of the container ("OOMKilled", "Error"); NULL */
        const char *ip; /* of a service */
        json_t *pod;    /* its last state; NULL: none was seen */
        struct buf logs;
};

/** outcome_read() - from the state of a pod that ended. @ret: its @pod is set, a new reference. */
void outcome_read(json_t *pod, struct outcome *ret);
void outcome_deinit(struct outcome *outcome);

/** oneoff_broken() - why a pod will never start: image, configuration, crash; NULL: it may yet. Borrowed. */
const char *oneoff_broken(const json_t *pod, const char **ret_message);

/** oneoff_connect() - the cluster; the namespace of its context when none was given. Return: 0 or -errno. */
int oneoff_connect(struct oneoff *o, const char *const *environ_, struct kube **ret, struct error *err)
        __attribute__((warn_unused_result));

/**
 * oneoff_pod() - make the pod, wait for its end or until it is ready, read its log, and delete it on every
 * path but a service that is ready
 * @stop_fd: signalfd of what ends the wait; -1: none
 * Return: 0 (also when it failed: see @ret), -ETIMEDOUT, -ECANCELED, -ENOEXEC (it will never start), and as
 * client.h says.
 */
int oneoff_pod(struct oneoff *o, struct kube *kube, int stop_fd, struct outcome *ret, struct error *err)
        __attribute__((warn_unused_result));

/** oneoff_job() - the same for a Job, which goes with its pods */
int oneoff_job(struct oneoff *o, struct kube *kube, int stop_fd, struct outcome *ret, struct error *err)
        __attribute__((warn_unused_result));

/** command_pod(), command_job(), command_env() - of kubernetes/main.c */
int command_pod(int argc, char **argv, const char *const *environ_);
int command_job(int argc, char **argv, const char *const *environ_);
int command_env(int argc, char **argv, const char *const *environ_);
