/*
 * bash, diagnostic_shell, repl: commands
 *
 * DOC: theory of operation
 * The shell of a session reads from descriptor 3 when to go, sources the command from a memfd of ours, says
 * its status on 4, and gives each command descriptors 1 and 2 anew from 5, so that a command that closes or
 * moves its own has done nothing to the next. What a command leaves in the background goes on until the
 * command that runs out of its time: then everything that descends from the runner, its servers excepted, is
 * killed, and the shell starts again where it was.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "runtime/agent/runner/tools.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/clock.h"
#include "runtime/base/escape.h"
#include "runtime/base/file.h"

enum {
        BASH_MS = 120000,
        BASH_MS_MAX = 600000,
        DIAGNOSTIC_MS = 30000,
        PIPE_BYTES = 1 << 20,
        READ_BYTES = 64 * 1024,
        DRAINS_MAX = 256,
        GRACE_MS = 500,
};

static const uint64_t MS = 1000000;

/* %d: this process and the memfd: a path that no command can take from the shell, as it could a descriptor of
 * it */
static const char driver[] =
        "while read -r _ <&3; do command . /proc/%d/fd/%d </dev/null >&5 2>&1 3<&- 4>&- 5>&-; "
        "echo $? >&4; done";

struct shell {
        struct child child;
        int go, said, out, text; /* ours: write end of 3, read ends of 4 and 5, the memfd */
        char cwd[PATH_MAX];      /* where it was after the last command; "": the work directory */
};

pid_t shell_pid(const struct shell *s) {
        return s ? s->child.pid : 0;
}

static void shell_stop(struct shell *s, const pid_t *keep, size_t n_keep) {
        child_end(&s->child, GRACE_MS, keep, n_keep);
        s->go = fd_close(s->go);
        s->said = fd_close(s->said);
        s->out = fd_close(s->out);
        s->text = fd_close(s->text);
}

struct shell *shell_free(struct shell *s, const pid_t *keep, size_t n_keep) {
        if (s)
                shell_stop(s, keep, n_keep);
        free(s);
        return NULL;
}

static int pair_of(int *ours, int *theirs, bool we_read) {
        int pair[2];

        if (pipe2(pair, O_CLOEXEC) < 0)
                return -errno;
        *ours = pair[we_read ? 0 : 1];
        *theirs = pair[we_read ? 1 : 0];
        return fcntl(*ours, F_SETFL, O_NONBLOCK) < 0 ? -errno : 0;
}

static int start_in(struct tool_env *env, struct shell *s, int dir, const int *fds, size_t n) {
        static const char *const shells[] = { "bash", "sh" };
        char script[sizeof(driver) + 32];
        int r = -ENOENT;

        (void) snprintf(script, sizeof(script), driver, getpid(), s->text);

        for (size_t i = 0; r == -ENOENT && i < ARRAY_SIZE(shells); i++) {
                char *argv[] = { (char *) (uintptr_t) shells[i], (char *) (uintptr_t) "-c", script, NULL };

                r = child_start(&s->child, argv, env->environ, dir, fds, n);
        }
        return r;
}

static int shell_start(struct tool_env *env, struct shell *s) {
        AUTO_FD int go = -1, said = -1, out = -1, dir = -1;
        int r;

        if (s->cwd[0])
                dir = open(s->cwd, O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (dir < 0)
                dir = fcntl(env->work_fd, F_DUPFD_CLOEXEC, 3);
        s->text = memfd_create("command", MFD_CLOEXEC);
        if (dir < 0 || s->text < 0)
                return -errno;
        r = pair_of(&s->go, &go, false);
        if (r == 0)
                r = pair_of(&s->said, &said, true);
        if (r == 0)
                r = pair_of(&s->out, &out, true);
        if (r < 0)
                return r;
        (void) fcntl(out, F_SETPIPE_SZ,
                     PIPE_BYTES); /* room for what runs in the background between commands */
        return start_in(env, s, dir, (const int[]){ -1, -1, -1, go, said, out }, 6);
}

/* Return: bytes that were there, 0, -ENOMEM. */
static int drain(struct shell *s, struct output *out) {
        char room[READ_BYTES];
        const ssize_t n = read(s->out, room, sizeof(room));

        if (n <= 0)
                return 0;
        return output_add(out, room, (size_t) n) < 0 ? -ENOMEM : (int) n;
}

/** enum end - how a command ended */
enum end { END_STATUS, END_TIMEOUT, END_SHELL };

/* Return: enum end, with the status as text; -EPIPE, -ENOMEM. */
static int attend(struct tool_env *env, struct shell *s, uint64_t deadline, struct output *out,
                  char said[64]) {
        size_t len = 0;
        int r = 0;

        for (;;) {
                struct pollfd p[] = { { .fd = s->said, .events = POLLIN },
                                      { .fd = s->out, .events = POLLIN },
                                      { .fd = s->child.pidfd, .events = POLLIN } };

                r = wire_poll(env->wire, p, ARRAY_SIZE(p), deadline);
                if (r < 0)
                        return r;
                if (p[1].revents && drain(s, out) < 0)
                        return -ENOMEM;
                if (p[0].revents & POLLIN) {
                        const ssize_t n = read(s->said, said + len, 63 - len);

                        len += n > 0 ? (size_t) n : 0;
                        said[len] = '\0';
                        if (strchr(said, '\n') || len == 63)
                                return END_STATUS;
                }
                if (p[2].revents && child_ended(&s->child))
                        return END_SHELL;
                if (clock_ns() >= deadline) /* also when it floods without an end */
                        return END_TIMEOUT;
        }
}

static void note_cwd(struct shell *s) {
        char path[64], cwd[PATH_MAX];
        ssize_t n;

        (void) snprintf(path, sizeof(path), "/proc/%d/cwd", s->child.pid);
        n = readlink(path, cwd, sizeof(cwd) - 1);
        if (n <= 0)
                return;
        cwd[n] = '\0';
        if (access(cwd, X_OK) == 0)
                memcpy(s->cwd, cwd, (size_t) n + 1);
}

static int give(struct shell *s, const json_t *command) {
        int r;

        if (ftruncate(s->text, 0) < 0 || lseek(s->text, 0, SEEK_SET) < 0)
                return -errno;
        r = write_all(s->text, json_string_value(command), json_string_length(command));
        if (r == 0)
                r = write_all(s->text, "\n", 1);
        return r == 0 ? write_all(s->go, "\n", 1) : r;
}

/* What is said of a command: its output, then how it ended where that is not as usual. */
static int report(struct tool_env *env, struct shell *s, int end, uint64_t ms, const struct output *out,
                  const char *said, struct tool_result *ret) {
        AUTO_BUF struct buf text = { 0 };
        char how[64];
        int r = output_text(out, &text);

        if (r == 0 && text.len > 0 && text.data[text.len - 1] != '\n' &&
            (end != END_STATUS || strcmp(said, "0\n") != 0))
                r = buf_str(&text, "\n");
        ret->error = end != END_STATUS || strcmp(said, "0\n") != 0;
        if (r == 0 && end == END_STATUS && ret->error)
                r = buf_fmt(&text, "[exit status %.*s]", (int) strcspn(said, "\n"), said);
        if (r == 0 && end == END_TIMEOUT)
                r = buf_fmt(&text,
                            "[not done after %llu ms: it and all that commands left running was killed; the "
                            "shell starts "
                            "again in '%s']",
                            (unsigned long long) ms, ESC(s->cwd[0] ? s->cwd : env->work_dir));
        if (r == 0 && end == END_SHELL)
                r = buf_fmt(&text, "[the shell ended: %s; the next command gets a new one in '%s']",
                            child_status_text(s->child.status, how), ESC(s->cwd[0] ? s->cwd : env->work_dir));
        if (r == 0 && text.len == 0)
                r = buf_str(&text, "[no output]");
        if (r == 0)
                r = tool_text(ret, text.data, text.len);
        return r;
}

static uint64_t time_of(const json_t *input, uint64_t usual, uint64_t most) {
        const json_int_t ms = arg_int(input, "timeout_ms", (json_int_t) usual);

        return ms < 1 ? 1 : (uint64_t) ms > most ? most : (uint64_t) ms;
}

int tool_bash(struct tool_env *env, const json_t *input, struct tool_result *ret) {
        const uint64_t ms = time_of(input, BASH_MS, env->bash_ms_max ? env->bash_ms_max : BASH_MS_MAX);
        const json_t *command = json_object_get(input, "command");
        AUTO_OUTPUT struct output out = { 0 };
        char said[64] = "";
        struct shell *s;
        int r = 0, end;

        if (arg_bool(input, "restart", false))
                env->shell = shell_free(env->shell, env->keep, env->n_keep);
        if (!env->shell) {
                env->shell = calloc(1, sizeof(*env->shell));
                if (!env->shell)
                        return -ENOMEM;
                *env->shell =
                        (struct shell){ .child.pidfd = -1, .go = -1, .said = -1, .out = -1, .text = -1 };
        }
        s = env->shell;
        if (!command)
                return tool_text(ret, "[a new shell]", 13);
        if (child_ended(&s->child)) {
                shell_stop(s, env->keep, env->n_keep);
                r = shell_start(env, s);
        }
        if (r == 0)
                r = give(s, command);
        if (r < 0) {
                shell_stop(s, env->keep, env->n_keep);
                return tool_fail(ret, "start a shell: %s", strerror(-r));
        }
        end = attend(env, s, clock_ns() + ms * MS, &out, said);
        for (int i = 0; end >= 0 && i < DRAINS_MAX && drain(s, &out) > 0; i++)
                ; /* what it said before it ended */
        if (end == END_STATUS)
                note_cwd(s);
        r = end < 0 ? end : report(env, s, end, ms, &out, said, ret);
        if (end != END_STATUS)
                shell_stop(s, env->keep, env->n_keep);
        return r;
}

/* --- programs that are run to their end ----------------------------------------------------------------- */

static int run_once(struct tool_env *env, char *const argv[], const struct buf *text, uint64_t ms,
                    struct tool_result *ret) {
        const struct once once = { .argv = argv,
                                   .env = env->environ,
                                   .dir_fd = env->work_fd,
                                   .input = text,
                                   .timeout_ms = ms,
                                   .keep = env->keep,
                                   .n_keep = env->n_keep };
        AUTO_OUTPUT struct output out = { 0 };
        AUTO_BUF struct buf said = { 0 };
        bool timeout = false;
        char how[64];
        int status = 0, r;

        r = once_run(env->wire, &once, &out, &status, &timeout);
        if (r == -EPIPE || r == -ENOMEM)
                return r;
        if (r < 0)
                return tool_fail(ret, "'%s': %s", argv[0],
                                 r == -ENOENT ? "not installed in this sandbox" : strerror(-r));
        r = output_text(&out, &said);
        ret->error = timeout || status != 0;
        if (r == 0 && timeout)
                r = buf_fmt(&said, "\n[not done after %llu ms: killed]", (unsigned long long) ms);
        else if (r == 0 && status != 0)
                r = buf_fmt(&said, "\n[%s]", child_status_text(status, how));
        else if (r == 0 && said.len == 0)
                r = buf_str(&said, "[no output]");
        return r == 0 ? tool_text(ret, said.data, said.len) : r;
}

int tool_diagnostic_shell(struct tool_env *env, const json_t *input, struct tool_result *ret) {
        char *argv[] = { (char *) (uintptr_t) "sh", (char *) (uintptr_t) "-c",
                         (char *) (uintptr_t) arg_str(input, "command", ""), NULL };

        return run_once(env, argv, NULL, time_of(input, DIAGNOSTIC_MS, DIAGNOSTIC_MS), ret);
}

int tool_repl(struct tool_env *env, const json_t *input, struct tool_result *ret) {
        static const struct {
                const char *language, *argv[3];
        } known[] = { { "python", { "python3", "-", NULL } },
                      { "javascript", { "node", "-", NULL } },
                      { "ruby", { "ruby", "-", NULL } },
                      { "perl", { "perl", "-", NULL } },
                      { "shell", { "sh", "-s", NULL } } };
        const char *language = arg_str(input, "language", "");
        const json_t *code = json_object_get(input, "code");
        AUTO_BUF struct buf text = { 0 };

        if (buf_add(&text, json_string_value(code), json_string_length(code)) < 0 || buf_str(&text, "\n") < 0)
                return -ENOMEM;
        for (size_t i = 0; i < ARRAY_SIZE(known); i++) {
                char *argv[] = { (char *) (uintptr_t) known[i].argv[0], (char *) (uintptr_t) known[i].argv[1],
                                 NULL };

                if (strcmp(language, known[i].language) == 0)
                        return run_once(env, argv, &text, time_of(input, BASH_MS, BASH_MS_MAX), ret);
        }
        return tool_fail(ret, "no such language: '%s'", ESC(language));
}
