#include "cli/runs.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "cli/launch.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/escape.h"
#include "runtime/base/log.h"
#include "runtime/run/control.h"

int runs_complain(const struct error *err) {
        log_error("%s", err->msg);
        return EXIT_FAILED;
}

bool runs_words(const struct flag_set *set, int argc, char **argv, void *options, int *ret_next,
                int *ret_code) {
        AUTO_FLAGS struct flags *flags = NULL;
        struct error err = { 0 };

        if (flags_parse(set, argc, argv, options, &flags, &err) < 0) {
                log_error("%s", err.msg);
                *ret_code = EXIT_USAGE;
                return false;
        }
        if (flags->help) {
                *ret_code = launch_help(set);
                return false;
        }
        *ret_next = flags->next;
        return true;
}

bool runs_word_left(int argc, char **argv, int next) {
        if (next < argc)
                log_error("%s: unexpected word '%s': see 'cofferdam %s --help'", argv[0], ESC(argv[next]), argv[0]);
        return next < argc;
}

int runs_for_each_word(const struct ctx *ctx, int argc, char **argv, int next, runs_verb_fn fn, void *arg) {
        int code = EXIT_OK;

        if (next >= argc) {
                log_error("%s: which run? 'cofferdam ps' lists them", argv[0]);
                return EXIT_USAGE;
        }
        for (int i = next; i < argc; i++) {
                struct error err = { 0 };

                if (fn(ctx, argv[i], arg, &err) < 0)
                        code = runs_complain(&err);
        }
        return code;
}

int runs_stop(const struct run_dir *dir, int grace_s, struct error *err) {
        struct run_msg msg = { .type = RUN_MSG_STOP, .code = grace_s };
        AUTO_FD int sock = -1;
        int r;

        sock = control_connect(dir, NULL);
        if (sock == -ESRCH)
                return 0; /* it has ended, or died */
        if (sock < 0)
                return error_set(err, sock, "stop run %s: %s", dir->id, strerror(-sock));
        r = run_msg_send(sock, &msg, -1);
        if (r == 0)
                r = run_msg_recv(sock, &msg, NULL);
        if (r == -ECONNRESET || r == -EPIPE)
                return 0; /* it was just ending */
        if (r < 0)
                return error_set(err, r, "stop run %s: %s", dir->id, strerror(-r));
        if (strcmp(msg.failure_code, "SANDBOX_CAPACITY") == 0)
                return error_set(err, -EBUSY, "stop run %s: %s", dir->id, msg.text);
        return 0;
}
