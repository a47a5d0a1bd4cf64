#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/frame.h"
#include "cli/library.h"
#include "cli/verbs.h"
#include "drivers/native/native.h"
#include "drivers/oci/oci.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/escape.h"
#include "runtime/base/log.h"
#include "runtime/base/suggest.h"
#include "runtime/lib/caller.h"
#include "runtime/lib/request.h"

static int verb_version(const struct ctx *ctx, int argc, char **argv) {
        const char *const word = argc > 1 ? argv[1] : NULL;

        (void) ctx;
        if (word && strcmp(word, "--help") != 0 && strcmp(word, "-h") != 0) {
                log_error("version: unexpected word '%s': 'cofferdam version' takes none", ESC(word));
                return EXIT_USAGE;
        }
        if (word) {
                printf("Usage: cofferdam version\n\nShow the version.\n");
                return EXIT_OK;
        }
        printf("cofferdam %s\n", COFFERDAM_VERSION);
        return EXIT_OK;
}

const struct verb verbs[] = {
        { "run", "run a command in a sandbox on the workspace", verb_run },
        { "start", "start a sandbox and leave it running", verb_start },
        { "exec", "run a further command in a sandbox", verb_exec },
        { "launch", "have an agent do a task in a sandbox", verb_launch },
        { "stop", "end runs", verb_stop },
        { "rm", "remove runs that have ended", verb_rm },
        { "ps", "list the runs", verb_ps },
        { "inspect", "all that is known of a run, as JSON", verb_inspect },
        { "logs", "what detached commands said", verb_logs },
        { "events", "what happened in a run", verb_events },
        { "diff", "show what a run changed and the host does not have", verb_diff },
        { "apply", "land what a run holds on the host", verb_apply },
        { "discard", "throw away a run and what it holds", verb_discard },
        { "explain", "which rule decides about a path or a host", verb_explain },
        { "net", "show or change what a run may connect to", verb_net },
        { "secret", "replace the content of a secret file of a run", verb_secret },
        { "export", "write the workspace as the run sees it to a directory", verb_export },
        { "gc", "clear up after runs that died", verb_gc },
        { "doctor", "what this host can do, why not, and the remedy", verb_doctor },
        { "image", "pull, import and keep images, as roots of sandboxes", verb_image },
        { "auth-proxy", "serve credentials to sandboxes that do not have them", verb_auth_proxy },
        { "pod", "run a command or a service in a pod of a cluster", verb_cluster },
        { "job", "run a command as a Job of a cluster", verb_cluster },
        { "env", "list or remove environments of a cluster", verb_cluster },
        { "manifest", "print what driver kubernetes makes of a specification", verb_manifest },
        { "spec", "show or check the specification of a run", verb_spec },
        { "help", "show this text, or the options of a verb", verb_help },
        { "version", "show the version", verb_version },
};
const size_t n_verbs = ARRAY_SIZE(verbs);

const struct verb *verb_find(const char *word) {
        if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0)
                word = "help";
        if (strcmp(word, "--version") == 0)
                word = "version";
        for (size_t i = 0; i < n_verbs; i++)
                if (strcmp(word, verbs[i].name) == 0)
                        return &verbs[i];
        return NULL;
}

int verb_unknown(const char *word) {
        const char *names[ARRAY_SIZE(verbs)];
        const char *near;

        for (size_t i = 0; i < n_verbs; i++)
                names[i] = verbs[i].name;
        near = suggest_name(word, names, n_verbs);
        if (word[0] == '-')
                log_error("'%s' stands before the verb: options follow it, see 'cofferdam help'", ESC(word));
        else if (near)
                log_error("unknown verb '%s': did you mean '%s'?", ESC(word), near);
        else
                log_error("unknown verb '%s': see 'cofferdam help'; commands are run by 'cofferdam run'",
                          ESC(word));
        return EXIT_USAGE;
}

/*
 * Notes which of 0, 1, 2 the caller had closed and occupies them, so that no file of ours becomes somebody's
 * standard output.
 */
static int guard_stdio(struct ctx *ctx) {
        for (int fd = 0; fd < 3; fd++) {
                if (fcntl(fd, F_GETFD) >= 0)
                        continue;
                ctx->stdio_closed[fd] = true;
                if (open("/dev/null", O_RDWR) != fd) /* NOLINT(android-cloexec-open): stdio stays over exec */
                        return -EBADF;
        }
        return 0;
}

enum { STACK_LEAST = 192 * 1024 }; /* bytes: twice the deepest of a run, rounded down */

/* The verb of argv[1], run with the caller's context. */
static int dispatch(int argc, char **argv) {
        const struct verb *verb;
        struct rlimit stack;
        struct caller c;
        int code;

        if (argc < 2) {
                log_error("no verb: see 'cofferdam help'");
                return EXIT_USAGE;
        }
        if (getauxval(AT_SECURE)) {
                log_error("this program has more rights than who started it, and would hand them out: "
                          "take them from the file: chmod ug-s, or setcap -r");
                return EXIT_SETUP;
        }
        if (getrlimit(RLIMIT_STACK, &stack) == 0 && stack.rlim_cur < STACK_LEAST) {
                log_error("the stack may be %llu KiB, this program needs %d: raise 'ulimit -s'",
                          (unsigned long long) stack.rlim_cur / 1024, STACK_LEAST / 1024);
                return EXIT_SETUP;
        }
        if (strcmp(argv[1], INIT_WORD) == 0)
                native_init();
        if (strcmp(argv[1], OCI_WORD) == 0)
                oci_inside();
        if (strcmp(argv[1], OCI_PASSWD_WORD) == 0)
                oci_passwd();
        if (strcmp(argv[1], LIBRARY_WORD) == 0)
                return library_main();
        if (strcmp(argv[1], FRAME_WORD) == 0)
                return frame_main(argv + 2);
        if (strcmp(argv[1], "runner") == 0) /* started by launch only, and so in no list */
                return verb_runner(NULL, argc - 1, argv + 1);
        verb = verb_find(argv[1]);
        if (!verb)
                return verb_unknown(argv[1]);
        caller_init(&c);
        if (guard_stdio(&c.ctx) < 0)
                return EXIT_SETUP; /* not even /dev/null can be opened, so there is nobody to tell */
        code = verb->run(&c.ctx, argc - 1, argv + 1);
        caller_deinit(&c);
        return code;
}

/* A report that did not reach its reader is a failure, also when only the last flush says so. */
static int flushed(int code) {
        if (fflush(stdout) == 0 && !ferror(stdout))
                return code;
        log_error("write to standard output: %s", strerror(errno));
        return code == EXIT_OK ? EXIT_FAILED : code;
}

int main(int argc, char **argv) {
        /* every mode that matters is given explicitly: a caller's umask must not close our own directories to
         * us */
        (void) umask(022);
        (void) signal(SIGXFSZ, SIG_IGN); /* RLIMIT_FSIZE: EFBIG is an answer, dying is not */
        return flushed(dispatch(argc, argv));
}
