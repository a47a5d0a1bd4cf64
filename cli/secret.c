/* cofferdam secret: another content for a secret that is a file in a run that lives. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "cli/runs.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/escape.h"
#include "runtime/base/file.h"
#include "runtime/base/log.h"
#include "runtime/run/control.h"
#include "runtime/run/message.h"
#include "runtime/run/secrets.h"

static const struct flag_set flags = {
        .usage = "cofferdam secret RUN NAME",
        .summary = "Replace the content of a secret that is a file in a run, by what standard input says.",
};

/* Return: a file in memory that holds what standard input says, or -errno. */
static int read_value(struct error *err) {
        AUTO_BUF struct buf value = { .max = SECRET_FILE_MAX + 1 };
        int r, fd;

        if (isatty(STDIN_FILENO))
                return error_set(
                        err, -EINVAL,
                        "standard input is a terminal, which shows what is typed: use a pipe or file");
        r = file_read(STDIN_FILENO, SECRET_FILE_MAX, &value);
        if (r == 0 && value.len == 0)
                r = error_set(err, -EINVAL, "standard input is empty: say there what it shall hold");
        else if (r < 0)
                r = error_set(err, r, "standard input: %s", r == -EFBIG ? "larger than 1 MiB" : strerror(-r));
        fd = r < 0 ? r : secret_fd(value.data, value.len);
        if (value.data)
                explicit_bzero(value.data, value.len);
        return r == 0 && fd < 0 ? error_set(err, fd, "a file in memory: %s", strerror(-fd)) : fd;
}

static int replace(const struct ctx *ctx, const char *id, const char *name, struct error *err) {
        struct run_msg msg = { .type = RUN_MSG_SECRET };
        AUTO_RUN_DIR struct run_dir dir = RUN_DIR_INIT;
        AUTO_FD int sock = -1, value = -1;
        int r;

        r = run_dir_open(ctx, id, &dir, err);
        if (r < 0)
                return r;
        if (strlen(name) >= sizeof(msg.text))
                return error_set(err, -EINVAL, "'%s': no secret has such a name", ESC(name));
        (void) snprintf(msg.text, sizeof(msg.text), "%s", name);
        value = read_value(err);
        if (value < 0)
                return value;
        sock = control_connect(&dir, err);
        if (sock < 0)
                return sock;
        r = run_msg_send(sock, &msg, value);
        if (r == 0)
                r = run_msg_recv(sock, &msg, NULL);
        if (r < 0)
                return error_set(err, r, "run %s: %s", dir.id,
                                 r == -ECONNRESET || r == -EPIPE ? "it has just ended" : strerror(-r));
        return msg.type == RUN_MSG_EXIT && !*msg.run_id
                       ? 0
                       : error_set(err, -EINVAL, "run %s: %s", dir.id,
                                   msg.type == RUN_MSG_ERROR ? msg.text : "it has just ended");
}

int verb_secret(const struct ctx *ctx, int argc, char **argv) {
        struct error err = { 0 };
        int next, code;

        if (!runs_words(&flags, argc, argv, NULL, &next, &code))
                return code;
        if (argc - next != 2) {
                log_error("secret: want a run and the name of one of its secrets, and the value on standard "
                          "input");
                return EXIT_USAGE;
        }
        return replace(ctx, argv[next], argv[next + 1], &err) < 0 ? runs_complain(&err) : EXIT_OK;
}
