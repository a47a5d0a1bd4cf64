/*
 * cofferdam-kubernetes - what of cofferdam talks to a cluster: executed by `cofferdam`, not by people
 *
 * One thread. It is linked dynamically, for libcurl, OpenSSL and the like (docs/adr/039).
 */
#include <curl/curl.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "kubernetes/client/doctor.h"
#include "kubernetes/command.h"
#include "kubernetes/life/run.h"
#include "kubernetes/verbs/oneoff.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/escape.h"
#include "runtime/base/log.h"

static int command_version(int argc, char **argv, const char *const *environ_) {
        (void) argc;
        (void) argv;
        (void) environ_;
        printf("cofferdam-kubernetes %s\n", COFFERDAM_VERSION);
        return fflush(stdout) == 0 ? CODE_OK : CODE_FAILED;
}

static const struct command commands[] = {
        { "pod", "run a pod, or start one for a service", command_pod },
        { "job", "run a Job", command_job },
        { "env", "list or remove environments", command_env },
        { "doctor", "what the cluster can do for runs, as JSON", command_doctor },
        { "version", "show the version", command_version },
        { "life", "the process of a run", command_life },
        { "serve", "the process that starts the commands of a run", command_serve },
        { "exec", "the process of a command", command_exec },
        { "secret", "replace a secret of a run", command_secret },
        { "refresh", "replace a file of a run's workspace", command_refresh },
        { "reap", "delete what has expired", command_reap },
        { "release", "delete what a run or an owner has made", command_release },
};

int main(int argc, char **argv) {
        if (argc < 2) {
                log_error("cofferdam-kubernetes: no command: it is executed by cofferdam");
                return CODE_USAGE;
        }
        (void) signal(SIGPIPE, SIG_IGN); /* libcurl and the peers of pipes: as an error, where it happened */
        if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK) {
                log_error("cofferdam-kubernetes: libcurl does not start");
                return CODE_FAILED;
        }
        for (size_t i = 0; i < ARRAY_SIZE(commands); i++)
                if (strcmp(argv[1], commands[i].name) == 0)
                        return commands[i].run(argc - 1, argv + 1, (const char *const *) environ);
        log_error("cofferdam-kubernetes: unknown command '%s'", ESC(argv[1]));
        return CODE_USAGE;
}
