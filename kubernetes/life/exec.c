/*
 * DOC: theory of operation
 *
 * One process per command, a child of the supervisor: 0, 1 and 2 are the command's, EXEC_ORDER says what it
 * is, a byte on EXEC_SIGNALS is a signal for it, and its result goes to EXEC_RESULT. So a command that is
 * slow to read holds up nobody else.
 *
 * What the command is stands in no URL, which audit logs keep: a line of sh reads it from the beginning of
 * stdin. With a terminal, where stdin is what is typed, it comes by a file that an exec before has written.
 * The line notes its process id in a file; signals go there by an exec of their own.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <termios.h>
#include <unistd.h>

#include "kubernetes/client/exec.h"
#include "kubernetes/command.h"
#include "kubernetes/life/exec.h"
#include "kubernetes/life/run.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/clock.h"
#include "runtime/base/error.h"
#include "runtime/base/file.h"
#include "runtime/base/json.h"

enum {
        ORDER_BYTES_MAX = 16 << 20,
        CHUNK = 64 * 1024,
        SHORT_MS = 20000,
        AGAIN_MS = 100, /* for a signal that came before its process */
        SIGNAL_TRIES = 100,
        PIPE_ATOM = 4096, /* fits where poll(2) says so */
};

struct session {
        struct kube *kube;
        json_t *order; /* owned */
        const char *context, *file, *ns, *pod, *container, *key;
        struct kube_exec *exec;
        bool tty;
        bool pipe[3]; /* the descriptor may block */
        bool full[3]; /* it would now */
        bool in_open, in_closed;
        char chunk[CHUNK]; /* of stdin, [pushed, pending) waits for room */
        size_t pushed, pending;
        int signals; /* EXEC_SIGNALS; -1: it has ended */
        struct exec_signal unsent;
        int tries;       /* left for @unsent */
        struct buf head; /* what stdin begins with */
        size_t head_sent;
};

/* ---- what the command is, for sh ---- */

static int quote(struct buf *out, const char *text) {
        int r = buf_str(out, "'");

        for (; r == 0 && *text; text++)
                r = *text == '\'' ? buf_str(out, "'\\''") : buf_add(out, text, 1);
        return r == 0 ? buf_str(out, "'") : r;
}

/* Only what sh can export; a name of another kind cannot be a variable inside. */
static bool is_variable(const char *entry) {
        const size_t n = strcspn(entry, "=");

        return n > 0 && entry[n] == '=' && (entry[0] < '0' || entry[0] > '9') &&
               strspn(entry, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_") == n;
}

static int add_variable(struct buf *out, const char *entry) {
        int r;

        if (!is_variable(entry))
                return 0;
        r = buf_str(out, "export ");
        if (r == 0)
                r = buf_add(out, entry, strcspn(entry, "=") + 1);
        if (r == 0)
                r = quote(out, entry + strcspn(entry, "=") + 1);
        return r == 0 ? buf_str(out, "\n") : r;
}

int exec_script(const json_t *order, struct buf *out) {
        const json_t *argv = json_object_get(order, "argv"), *env = json_object_get(order, "env");
        size_t i;
        const json_t *row;
        int r = buf_str(out, "{ echo $$ >\"$3\"; } 2>/dev/null\n");

        json_array_foreach(env, i, row) {
                if (r == 0 && json_string_value(row))
                        r = add_variable(out, json_string_value(row));
        }
        if (r == 0 && json_string_value(json_object_get(order, "cwd")))
                r = buf_fmt(out, "cd \"$2\" || exit %d\n", EXEC_NO_DIRECTORY);
        /* a name without a slash is looked up in PATH, and never a builtin of sh */
        if (r == 0)
                r = buf_str(out, "exec");
        json_array_foreach(argv, i, row) {
                if (r == 0)
                        r = buf_str(out, " ");
                if (r == 0)
                        r = quote(out, json_string_value(row) ? json_string_value(row) : "");
        }
        return r == 0 ? buf_str(out, "\n") : r;
}

/* ---- short commands beside it ---- */

static int aside(struct session *s, const char *script, const char *arg, const struct buf *input,
                 struct buf *out) {
        const char *const argv[] = { "sh", "-c", script, "sh", s->key, arg, NULL };
        const struct kube_exec_request request = { .ns = s->ns,
                                                   .pod = s->pod,
                                                   .container = s->container,
                                                   .argv = argv,
                                                   .has_stdin = input != NULL };
        struct kube_exec_end end = { 0 };
        int r = kube_exec_collect(s->kube, &request, input, CHUNK, SHORT_MS, out, NULL, &end, NULL);

        return r < 0 ? r : end.exit_code == 0 ? 0 : -EIO;
}

/* $1: file with the process id, $2: signal, with a minus: to the process group. The group is field 5 behind
 * the name in ')'. */
static const char kill_script[] =
        "read -r p <\"$1\" || exit 1\n"
        "case $2 in -*) read -r s <\"/proc/$p/stat\" || exit 1; set -- \"$1\" \"${2#-}\" ${s##*) }\n"
        "  exec kill -\"$2\" -- \"-$5\";; esac\n"
        "exec kill -\"$2\" \"$p\"\n";

/* The command may not have noted its process id yet: then again, until it has. */
static void send_signal(struct session *s) {
        char text[16];

        (void) snprintf(text, sizeof(text), "%s%d", s->unsent.group ? "-" : "", s->unsent.number);
        s->tries = aside(s, kill_script, text, NULL, NULL) == -EIO ? s->tries - 1 : 0;
}

/* ---- the streams ---- */

/* Whether a write of PIPE_ATOM bytes would wait for a reader. */
static bool would_wait(int fd) {
        struct pollfd p = { .fd = fd, .events = POLLOUT };

        return poll(&p, 1, 0) == 0;
}

/* All of it, or as much as nobody has to wait for; then the descriptor is full. */
static ssize_t on_output(void *arg, int stream, const void *data, size_t len) {
        struct session *s = arg;
        size_t done = 0;

        while (done < len) {
                const size_t left = len - done;
                ssize_t n;

                if (s->pipe[stream] && would_wait(stream)) {
                        s->full[stream] = true;
                        break;
                }
                n = write(stream, (const char *) data + done,
                          s->pipe[stream] && left > PIPE_ATOM ? PIPE_ATOM : left);
                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0 && errno != EPIPE && errno != EBADF)
                        return -errno;
                if (n < 0) /* nobody reads it: it is dropped, and the command inside goes on */
                        return (ssize_t) len;
                done += (size_t) n;
        }
        return (ssize_t) done;
}

static void look_at(struct session *s) {
        for (int i = 0; i < 3; i++) {
                struct stat st;

                s->pipe[i] = fstat(i, &st) == 0 && !S_ISREG(st.st_mode);
        }
}

/* What was read and did not fit into the queue yet. Return: 0, -errno */
static int push(struct session *s) {
        while (s->pushed < s->pending) {
                const ssize_t n = kube_exec_send(s->exec, s->chunk + s->pushed, s->pending - s->pushed);

                if (n == -EAGAIN)
                        return 0;
                if (n == -EPIPE) /* the command has ended, or closed its stdin */
                        s->in_open = false;
                if (n < 0) {
                        s->pushed = s->pending = 0;
                        return n == -EPIPE ? 0 : (int) n;
                }
                s->pushed += (size_t) n;
        }
        s->pushed = s->pending = 0;
        return 0;
}

static int read_stdin(struct session *s) {
        const ssize_t n = read(0, s->chunk, sizeof(s->chunk));

        if (n < 0)
                return errno == EINTR || errno == EAGAIN ? 0 : -errno;
        if (n == 0) {
                s->in_open = false;
                return 0;
        }
        s->pending = (size_t) n;
        return push(s);
}

/* The end of stdin goes behind everything of it, once. */
static int end_stdin(struct session *s, bool head_done) {
        int r;

        if (s->in_open || s->in_closed || s->tty || !head_done || s->pending > 0)
                return 0;
        s->in_closed = true;
        r = kube_exec_close_stdin(s->exec);
        return r == -EPIPE ? 0 : r;
}

/* The description of the command first. Return: whether all of it is queued. */
static bool send_head(struct session *s) {
        while (s->head_sent < s->head.len) {
                const ssize_t n =
                        kube_exec_send(s->exec, s->head.data + s->head_sent, s->head.len - s->head_sent);

                if (n <= 0)
                        return false;
                s->head_sent += (size_t) n;
        }
        return true;
}

static void resize(struct session *s) {
        struct winsize size;

        if (ioctl(0, TIOCGWINSZ, &size) == 0)
                (void) !kube_exec_resize(s->exec, &size);
}

static void read_signals(struct session *s) {
        struct exec_signal signal_;
        const ssize_t n = read(s->signals, &signal_, sizeof(signal_));

        if (n == (ssize_t) sizeof(signal_)) {
                s->unsent = signal_;
                s->tries = SIGNAL_TRIES;
        } else if (n == 0)
                s->signals = -1; /* the supervisor is gone; the pod goes by its own ways */
}

/* One round. Return: 0, -errno */
static int turn(struct session *s, int winch_fd, bool *ret_ended, struct error *err) {
        short events = 0;
        struct pollfd fds[6] = { { .fd = kube_exec_fd(s->exec, &events) },
                                 { .fd = -1 },
                                 { .fd = -1 },
                                 { .fd = -1 },
                                 { .fd = s->signals, .events = POLLIN },
                                 { .fd = winch_fd, .events = POLLIN } };
        const bool head_done = send_head(s);
        int r = head_done ? push(s) : 0;

        if (r == 0)
                r = end_stdin(s, head_done);
        if (r < 0)
                return error_set(err, r, "stdin: %s", strerror(-r));
        (void) kube_exec_fd(s->exec, &events); /* there may be more to send now */
        fds[0].events = events;
        if (s->in_open && head_done && s->pending == 0)
                fds[1] = (struct pollfd){ .fd = 0, .events = POLLIN };
        for (int i = 1; i < 3; i++)
                if (s->full[i])
                        fds[1 + i] = (struct pollfd){ .fd = i, .events = POLLOUT };
        if (s->full[1] || s->full[2])
                fds[0].events &= (short) ~POLLIN;
        if (poll(fds, 6, s->tries > 0 ? AGAIN_MS : 1000) < 0 && errno != EINTR)
                return error_set(err, -errno, "poll: %s", strerror(errno));
        s->full[1] = s->full[1] && !fds[2].revents;
        s->full[2] = s->full[2] && !fds[3].revents;
        if (fds[1].revents)
                r = read_stdin(s);
        if (fds[5].revents) {
                struct signalfd_siginfo info;

                (void) !read(winch_fd, &info, sizeof(info));
                resize(s);
        }
        if (r == 0 && fds[4].revents)
                read_signals(s);
        if (r == 0 && head_done && s->tries > 0)
                send_signal(s);
        return r < 0 ? error_set(err, r, "stdin: %s", strerror(-r))
                     : kube_exec_step(s->exec, 0, ret_ended, err);
}

static int open_exec(struct session *s, struct error *err) {
        static const char line[] = "eval \"$(dd bs=1 count=$1 2>/dev/null)\"";
        static const char tty_line[] = "s=$(cat \"$1-c\"); rm -f \"$1-c\"; eval \"$s\"";
        char count[32];
        const char *const argv[] = { "sh",
                                     "-c",
                                     s->tty ? tty_line : line,
                                     "sh",
                                     s->tty ? s->key : count,
                                     json_string_value(json_object_get(s->order, "cwd")),
                                     s->key,
                                     NULL };
        struct kube_exec_request request = { .ns = s->ns,
                                             .pod = s->pod,
                                             .container = s->container,
                                             .argv = argv,
                                             .has_stdin = true,
                                             .tty = s->tty,
                                             .output = on_output,
                                             .arg = s };

        (void) snprintf(count, sizeof(count), "%zu", s->head.len);
        if (s->tty) {
                const int r = aside(s, "umask 077; cat >\"$1-c\"", NULL, &s->head, NULL);

                if (r < 0)
                        return error_set(err, r, "hand over the command: %s", strerror(-r));
                s->head.len = 0;
                (void) ioctl(0, TIOCGWINSZ, &request.size);
        }
        return kube_exec_open(s->kube, &request, &s->exec, err);
}

static int converse(struct session *s, struct exec_report *ret, struct error *err) {
        AUTO_FD int winch_fd = -1;
        bool ended = false;
        sigset_t winch;
        int r;

        (void) sigemptyset(&winch);
        (void) sigaddset(&winch, SIGWINCH);
        (void) sigprocmask(SIG_BLOCK, &winch, NULL);
        winch_fd = s->tty ? signalfd(-1, &winch, SFD_CLOEXEC | SFD_NONBLOCK) : -1;
        look_at(s);
        s->in_open = fcntl(0, F_GETFD) >= 0;
        r = open_exec(s, err);
        if (r < 0)
                return r;
        (void) !write(EXEC_RESULT, &(struct exec_report){ .started = true }, sizeof(struct exec_report));
        if (s->tty)
                resize(s);
        while (r == 0 && !ended)
                r = turn(s, winch_fd, &ended, err);
        if (r < 0)
                return r;
        ret->exit_code = kube_exec_result(s->exec)->exit_code;
        return 0;
}

static int open_session(struct session *s, const char *const *env, struct error *err) {
        AUTO_BUF struct buf text = { 0 };
        struct kube_config_from from = { .environ = env };
        struct kube_config *config = NULL;
        int tty = 0;
        int r;

        if (lseek(EXEC_ORDER, 0, SEEK_SET) < 0)
                return error_set(err, -errno, "order: %s", strerror(errno));
        r = file_read(EXEC_ORDER, ORDER_BYTES_MAX, &text);
        s->order = r < 0 ? NULL : json_loadb(buf_cstr(&text), text.len, 0, NULL);
        if (!s->order || json_unpack(s->order, "{s?s,s?s,s?s,s:s,s:s,s:s,s:b}", "context", &s->context,
                                     "file", &s->file, "ns", &s->ns, "pod", &s->pod, "container",
                                     &s->container, "key", &s->key, "tty", &tty) < 0)
                return error_set(err, -EINVAL, "order: it is not one");
        s->tty = tty != 0;
        r = exec_script(s->order, &s->head);
        if (r < 0)
                return error_set(err, r, "order: %s", strerror(-r));
        from.file = s->file;
        from.context = s->context;
        r = kube_config_load(&from, &config, err);
        if (r == 0)
                r = kube_open_consume(config, &s->kube, err);
        if (r < 0)
                (void) kube_config_free(config);
        return r;
}

static void session_deinit(struct session *s) {
        s->exec = kube_exec_free(s->exec);
        s->kube = kube_free(s->kube);
        buf_deinit(&s->head);
        json_decref(s->order);
}

int exec_tell(struct exec_report *report, int r, const struct error *err) {
        if (r < 0) {
                report->error = -r;
                (void) snprintf(report->text, sizeof(report->text), "%.*s", (int) sizeof(report->text) - 1,
                                err->msg);
        }
        (void) !write(EXEC_RESULT, report, sizeof(*report));
        return CODE_OK;
}

int command_exec(int argc, char **argv, const char *const *environ_) {
        CLEANUP(session_deinit) struct session s = { .signals = EXEC_SIGNALS, .in_open = true };
        struct exec_report report = { .ended = true };
        struct termios raw;
        struct error err = { 0 };
        int r;

        (void) argc;
        (void) argv;
        for (int sig = 1; sig < 32; sig++) /* they come by EXEC_SIGNALS, and from the terminal as bytes */
                if (sig == SIGINT || sig == SIGTERM || sig == SIGHUP || sig == SIGQUIT || sig == SIGTSTP)
                        (void) signal(sig, SIG_IGN);
        r = open_session(&s, environ_, &err);
        if (r == 0 && s.tty && tcgetattr(0, &raw) == 0) { /* the line discipline is that inside */
                cfmakeraw(&raw);
                (void) tcsetattr(0, TCSANOW, &raw);
        }
        if (r == 0)
                r = converse(&s, &report, &err);
        return exec_tell(&report, r, &err);
}
