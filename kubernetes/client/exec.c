/*
 * DOC: theory of operation
 *
 * A command whose stdin somebody writes is asked for with v5 alone first, since the command line depends on
 * the protocol; a server that refuses gets it wrapped, with v4. What a server speaks is remembered by the
 * client.
 *
 * Output that the caller does not take is kept, and nothing is read from the server meanwhile: its socket
 * fills, and the command waits, as it would on a pipe. Silence counts only while we read. The server answers
 * our pings, so that silence means a dead connection also where the command has nothing to say.
 *
 * The end is the status channel. What follows it is waited for briefly (the close frame), and not needed.
 */
#include "kubernetes/client/exec.h"

#include <poll.h>
#include <string.h>

#include "kubernetes/client/config.h"
#include "kubernetes/client/transfer.h"
#include "kubernetes/client/upgrade.h"
#include "kubernetes/client/ws.h"
#include "runtime/base/clock.h"
#include "runtime/base/escape.h"
#include "runtime/base/file.h"
#include "runtime/base/json.h"

enum {
        CHANNEL_IN = 0,
        CHANNEL_OUT = 1,
        CHANNEL_ERR = 2,
        CHANNEL_STATUS = 3,
        CHANNEL_RESIZE = 4,
        CHANNEL_CLOSE = 255
};
enum {
        CHUNK = 32 << 10,
        CHUNK_FRAMED = 128 << 10,
        AFTER_STATUS_MS = 200,
        NOT_STARTED = 126,
        NOT_FOUND = 127
};

/* What unpacks frames where there is no cofferdam. The pump is ended when the command ends, since it may be
 * waiting for a frame that does not come; its pid is the first line of the pipe. By SIGPIPE: of any other
 * signal sh says so on the command's standard error. Before that, what is on its way is taken and dropped, as
 * long as it comes, for about five seconds at most: API servers that speak v4 give up both ways of a
 * connection when its end inside closes one with bytes in it, and with them the status that was to come. */
static const char unframe[] =
        "dd if=/dev/null iflag=fullblock 2>/dev/null || { echo 'cofferdam: dd lacks iflag=fullblock: stdin "
        "needs "
        "cofferdam in the image' >&2; exit 126; }; "
        "{ sh -c 'echo $PPID'; while read -r n && [ \"$n\" != 0 ]; do dd bs=\"$n\" count=1 iflag=fullblock "
        "2>/dev/null "
        "|| break; done; } | { read -r p; \"$@\"; c=$?; i=0 a=; exec 3<&0; cat <&3 >/dev/null & d=$!; "
        "while kill -0 \"$p\" 2>/dev/null && b=$(cat \"/proc/$d/io\" 2>/dev/null) && [ \"$a\" != \"$b\" ] && "
        "[ $i -lt 25 ]; do a=$b i=$((i + 1)); sleep 0.2 2>/dev/null || sleep 1; done; "
        "kill -13 \"$p\" \"$d\" 2>/dev/null; wait \"$d\"; exit $c; }";

struct kube_exec {
        struct kube *kube;
        struct upgrade *upgrade;
        struct ws *ws;
        ssize_t (*output)(void *arg, int stream, const void *data, size_t len);
        void *arg;
        int protocol;
        bool has_stdin, framed, tty, stdin_closed, has_status, ended, eof;
        struct kube_exec_end end;
        struct buf held[2]; /* output that was not taken */
        size_t held_from[2];
        uint64_t heard_ns, pinged_ns, status_ns;
};

/* --- the status channel
 * ---------------------------------------------------------------------------------------- */

static int exit_code_of(const json_t *status, int *ret) {
        const json_t *causes = json_object_get(json_object_get(status, "details"), "causes");
        const json_t *cause;
        size_t i;

        json_array_foreach(causes, i, cause) {
                const char *reason = kube_json_text(cause, "reason", NULL);
                const char *text = kube_json_text(cause, "message", NULL);
                char *end;
                long code;

                if (!reason || strcmp(reason, "ExitCode") != 0 || !text || *text < '0' || *text > '9')
                        continue;
                code = strtol(text, &end, 10);
                if (*end || code < 0 || code > 255)
                        continue;
                *ret = (int) code;
                return 0;
        }
        return -EBADMSG;
}

/* The words of runc, crun and the kernel for a command that cannot be executed. */
static int not_started(const char *message, int *ret) {
        static const struct {
                const char *words;
                int code;
        } all[] = {
                { "executable file not found", NOT_FOUND }, { "no such file or directory", NOT_FOUND },
                { "not found in $PATH", NOT_FOUND },        { "permission denied", NOT_STARTED },
                { "exec format error", NOT_STARTED },       { "is a directory", NOT_STARTED },
                { "argument list too long", NOT_STARTED },
        };

        for (size_t i = 0; message && i < ARRAY_SIZE(all); i++)
                if (strcasestr(message, all[i].words) && strstr(message, "exec")) {
                        *ret = all[i].code;
                        return 0;
                }
        return -EBADMSG;
}

int kube_exec_status(const char *text, size_t len, struct kube_exec_end *ret) {
        struct kube_exec_end end = { .started = true };
        AUTO_JSON json_t *status = NULL;
        const char *word, *message;
        int r = kube_json_parse(text, len, &status);

        if (r < 0)
                return r;
        word = kube_json_text(status, "status", NULL);
        message = kube_json_text(status, "message", NULL);
        if (word && strcmp(word, "Success") == 0) {
                *ret = end;
                return 0;
        }
        if (!word || strcmp(word, "Failure") != 0)
                return -EBADMSG;
        (void) escape_str(message ? message : "", end.message, sizeof(end.message));
        if (exit_code_of(status, &end.exit_code) < 0) {
                end.started = false;
                r = not_started(message, &end.exit_code);
                if (r < 0) {
                        ret->started = false;
                        memcpy(ret->message, end.message, sizeof(ret->message));
                        return -EREMOTEIO;
                }
        }
        *ret = end;
        return 0;
}

/* --- messages
 * -------------------------------------------------------------------------------------------------- */

static int give(struct kube_exec *x, int channel, const char *data, size_t len) {
        struct buf *held = &x->held[channel - 1];
        int r = 0;

        if (held->len == 0) {
                const ssize_t n = len > 0 ? x->output(x->arg, channel, data, len) : 0;

                if (n < 0)
                        return (int) n;
                data += n;
                len -= (size_t) n;
        }
        if (len > 0)
                r = buf_add(held, data, len);
        return r == -E2BIG ? -EFBIG : r < 0 ? r : len > 0;
}

static int on_message(void *arg, int channel, const void *data, size_t len) {
        struct kube_exec *x = arg;

        if (channel == CHANNEL_OUT || channel == CHANNEL_ERR)
                return give(x, channel, data, len);
        if (channel != CHANNEL_STATUS || len == 0 || x->has_status)
                return 0; /* v4 begins with an empty message of each channel; v5 closes them */
        x->has_status = true;
        x->status_ns = clock_ns();
        return kube_exec_status(data, len, &x->end);
}

static ssize_t on_recv(void *arg, void *buf, size_t len) {
        struct kube_exec *x = arg;
        const ssize_t n = upgrade_recv(x->upgrade, buf, len);

        x->eof = x->eof || n == 0 || n == -ECONNRESET;
        return n;
}

static ssize_t on_send(void *arg, const void *buf, size_t len) {
        return upgrade_send(((struct kube_exec *) arg)->upgrade, buf, len);
}

static const struct ws_io io = { .recv = on_recv, .send = on_send, .message = on_message };

/* --- open
 * ------------------------------------------------------------------------------------------------------ */

static int exec_query(const struct kube_exec_request *q, bool framed, struct buf *query) {
        const char *const by_sh[] = { "sh", "-c", unframe, "sh", NULL };
        const char *const by_us[] = { q->frame, "@frame", NULL };
        const char *const *before = q->frame ? by_us : by_sh;
        int r = q->container ? kube_query_add(query, "container", q->container) : 0;

        if (r == 0 && q->has_stdin)
                r = kube_query_add(query, "stdin", "true");
        if (r == 0)
                r = kube_query_add(query, "stdout", "true");
        if (r == 0)
                r = kube_query_add(query, q->tty ? "tty" : "stderr", "true");
        for (size_t i = 0; r == 0 && framed && before[i]; i++)
                r = kube_query_add(query, "command", before[i]);
        for (size_t i = 0; r == 0 && q->argv[i]; i++)
                r = kube_query_add(query, "command", q->argv[i]);
        return r;
}

static int attempt(struct kube_exec *x, const struct kube_exec_request *q, const char *path,
                   const char *protocols, bool framed, struct error *err) {
        AUTO_BUF struct buf query = { .max = KUBE_EXEC_ARGS_MAX };
        int r = exec_query(q, framed, &query);

        if (r < 0)
                return error_set(err, r, "exec: %s",
                                 r == -E2BIG ? "the command is too long for a URL: pass it by stdin"
                                             : "out of memory");
        r = upgrade_open(x->kube, path, query.data, protocols, false, &x->upgrade, err);
        if (r == -EACCES && kube_failure(x->kube)->http == 401 &&
            kube_credential_renewable(kube_config_of(x->kube)))
                r = upgrade_open(x->kube, path, query.data, protocols, true, &x->upgrade, err);
        if (r < 0)
                return r;
        x->framed = framed;
        x->protocol = strcmp(upgrade_protocol(x->upgrade), "v5.channel.k8s.io") == 0 ? 5 : 4;
        if (x->protocol == 4 && strcmp(upgrade_protocol(x->upgrade), "v4.channel.k8s.io") != 0)
                return error_set(err, -EBADMSG, "exec: the server chose the subprotocol '%s'",
                                 ESC(upgrade_protocol(x->upgrade)));
        kube_exec_learn(x->kube, x->protocol);
        return 0;
}

static int choose(struct kube_exec *x, const struct kube_exec_request *q, const char *path,
                  struct error *err) {
        const bool wrap = q->has_stdin && !q->tty;
        const int known = kube_exec_known(x->kube);
        int r = -EPROTONOSUPPORT;

        if (known != 4)
                r = attempt(x, q, path, wrap ? "v5.channel.k8s.io" : "v5.channel.k8s.io, v4.channel.k8s.io",
                            false, err);
        if (r == -EPROTONOSUPPORT)
                r = attempt(x, q, path, "v4.channel.k8s.io", wrap, err);
        if (r == -EREMOTEIO && kube_failure(x->kube)->http == 500 &&
            strstr(kube_failure(x->kube)->message, "container"))
                return error_wrap(err, -EINVAL, "exec"); /* "container not found", "container not running" */
        return r;
}

/* Refused for now, and nothing was run: what the server said is waited for. */
static int choose_again(struct kube_exec *x, const struct kube_exec_request *q, const char *path,
                        struct error *err) {
        for (unsigned n = 1;; n++) {
                int r = choose(x, q, path, err);

                if (r == 0 || n >= KUBE_ATTEMPTS ||
                    (kube_failure(x->kube)->http != 429 && kube_failure(x->kube)->http != 503) ||
                    (r != -EAGAIN && r != -EREMOTEIO))
                        return r;
                r = kube_pause(x->kube, kube_pause_ms(n, kube_failure(x->kube)->retry_s), err);
                if (r < 0)
                        return r;
        }
}

int kube_exec_open(struct kube *kube, const struct kube_exec_request *q, struct kube_exec **ret,
                   struct error *err) {
        AUTO_KUBE_EXEC struct kube_exec *x = calloc(1, sizeof(*x));
        AUTO_BUF struct buf path = { 0 };
        int r;

        if (!x)
                return error_set(err, -ENOMEM, "out of memory");
        x->kube = kube;
        x->output = q->output;
        x->arg = q->arg;
        x->tty = q->tty;
        x->has_stdin = q->has_stdin;
        x->stdin_closed = !q->has_stdin;
        x->held[0].max = x->held[1].max = (size_t) KUBE_EXEC_FRAME_MAX * 2;
        r = kube_path(kube, KUBE_POD, q->ns, q->pod, "exec", &path, err);
        if (r == 0)
                r = choose_again(x, q, path.data, err);
        if (r < 0)
                return r;
        if (ws_new(&io, x, &x->ws) < 0)
                return error_set(err, -ENOMEM, "out of memory");
        x->heard_ns = x->pinged_ns = clock_ns();
        if (q->tty && q->size.ws_row > 0 && kube_exec_resize(x, &q->size) < 0)
                return error_set(err, -ENOMEM, "out of memory");
        *ret = TAKE_PTR(x);
        return 0;
}

struct kube_exec *kube_exec_free(struct kube_exec *x) {
        if (!x)
                return NULL;
        (void) ws_free(x->ws);
        (void) upgrade_free(x->upgrade);
        buf_deinit(&x->held[0]);
        buf_deinit(&x->held[1]);
        free(x);
        return NULL;
}

int kube_exec_protocol(const struct kube_exec *x) {
        return x->protocol;
}

const struct kube_exec_end *kube_exec_result(const struct kube_exec *x) {
        return &x->end;
}

/* --- stdin and size
 * -------------------------------------------------------------------------------------------- */

ssize_t kube_exec_send(struct kube_exec *x, const void *data, size_t len) {
        const size_t most = x->framed ? CHUNK_FRAMED : CHUNK;
        char head[16];
        int n = 0, r;

        if (x->stdin_closed || x->has_status)
                return -EPIPE;
        if (ws_queued(x->ws) + most > KUBE_EXEC_QUEUE_MAX)
                return -EAGAIN;
        if (len > most)
                len = most;
        if (x->framed)
                n = snprintf(head, sizeof(head), "%zu\n", len);
        r = ws_queue(x->ws, CHANNEL_IN, head, (size_t) n, data, len);
        return r < 0 ? r : (ssize_t) len;
}

int kube_exec_close_stdin(struct kube_exec *x) {
        const char stream = CHANNEL_IN;
        int r = 0;

        if (x->stdin_closed)
                return 0;
        x->stdin_closed = true;
        if (x->framed)
                r = ws_queue(x->ws, CHANNEL_IN, "0\n", 2, NULL, 0);
        else if (x->protocol == 5)
                r = ws_queue(x->ws, CHANNEL_CLOSE, &stream, 1, NULL, 0);
        return r == -EPIPE ? 0 : r;
}

int kube_exec_resize(struct kube_exec *x, const struct winsize *size) {
        char text[64];
        const int n =
                snprintf(text, sizeof(text), "{\"Width\":%u,\"Height\":%u}", size->ws_col, size->ws_row);
        const int r = ws_queue(x->ws, CHANNEL_RESIZE, text, (size_t) n, NULL, 0);

        return r == -EPIPE ? 0 : r;
}

size_t kube_exec_queued(const struct kube_exec *x) {
        return ws_queued(x->ws);
}

/* --- moving
 * ---------------------------------------------------------------------------------------------------- */

static bool holds(const struct kube_exec *x) {
        return x->held[0].len > 0 || x->held[1].len > 0;
}

int kube_exec_fd(const struct kube_exec *x, short *ret_events) {
        *ret_events =
                (short) ((holds(x) || ws_full(x->ws) ? 0 : POLLIN) | (ws_wants_write(x->ws) ? POLLOUT : 0));
        return x->ended ? -1 : upgrade_fd(x->upgrade);
}

static int give_held(struct kube_exec *x) {
        for (int i = 0; i < 2; i++) {
                struct buf *held = &x->held[i];
                ssize_t n;

                if (held->len == 0)
                        continue;
                n = x->output(x->arg, i + 1, held->data + x->held_from[i], held->len - x->held_from[i]);
                if (n < 0)
                        return (int) n;
                x->held_from[i] += (size_t) n;
                if (x->held_from[i] == held->len)
                        x->held_from[i] = held->len = 0;
        }
        return 0;
}

static int keep_alive(struct kube_exec *x, bool heard) {
        const uint64_t now = clock_ns(), ping = (uint64_t) KUBE_EXEC_PING_MS * 1000000;

        if (heard || holds(x))
                x->heard_ns = now;
        if (now - x->heard_ns > (uint64_t) KUBE_EXEC_DEAD_MS * 1000000)
                return -ETIMEDOUT;
        if (now - x->heard_ns > ping && now - x->pinged_ns > ping) {
                x->pinged_ns = now;
                return ws_ping(x->ws) == -ENOMEM ? -ENOMEM : 0;
        }
        return 0;
}

static int explain(struct kube_exec *x, int r, struct error *err) {
        if (r == -ECONNRESET || r == -EPIPE)
                return error_set(err, -ECONNRESET,
                                 "exec: the connection was lost before the command ended; it may still run");
        if (r == -ETIMEDOUT)
                return error_set(err, r,
                                 "exec: nothing heard of the server for %d s; the command may still run",
                                 KUBE_EXEC_DEAD_MS / 1000);
        if (r == -EREMOTEIO)
                return error_set(err, r, "exec: the server could not run the command: %s", x->end.message);
        if (r == -EBADMSG || r == -EFBIG)
                return error_set(err, r, "exec: the server broke the protocol: %s",
                                 r == -EFBIG ? "a message that is too long"
                                             : "frames or a status that are none");
        return error_set(err, r, "exec: %s", strerror(-r));
}

/* Whether all has come that will come. */
static bool over(const struct kube_exec *x) {
        return x->has_status && !holds(x) &&
               (x->eof || ws_closed(x->ws, NULL) ||
                clock_ns() - x->status_ns > (uint64_t) AFTER_STATUS_MS * 1000000);
}

static int move(struct kube_exec *x) {
        bool heard = false;
        int r = give_held(x);

        if (r < 0)
                return r;
        r = ws_pump(x->ws, !holds(x), &heard);
        if (r == -ECONNRESET && x->has_status) {
                x->eof = true;
                r = 0;
        }
        if (r == 0 && ws_closed(x->ws, NULL) && !x->has_status)
                r = -ECONNRESET;
        return r < 0 ? r : keep_alive(x, heard);
}

static uint64_t wait_until(const struct kube_exec *x, int wait_ms) {
        const uint64_t now = clock_ns();
        uint64_t ms = wait_ms < 0 || wait_ms > KUBE_EXEC_PING_MS ? KUBE_EXEC_PING_MS : (uint64_t) wait_ms;

        if (x->has_status && ms > AFTER_STATUS_MS)
                ms = AFTER_STATUS_MS;
        return now + ms * 1000000;
}

/* kube_exec_step() with descriptors of the caller's to wait for, too; @more[0] is ours */
static int step(struct kube_exec *x, struct curl_waitfd *more, unsigned n, int wait_ms, bool *ret_ended,
                struct error *err) {
        short events;
        int r = move(x);

        if (r < 0)
                return explain(x, r, err);
        x->ended = over(x);
        if (!x->ended && wait_ms != 0) {
                more[0] = (struct curl_waitfd){ .fd = kube_exec_fd(x, &events) };
                more[0].events = (short) ((events & POLLIN ? CURL_WAIT_POLLIN : 0) |
                                          (events & POLLOUT ? CURL_WAIT_POLLOUT : 0));
                r = kube_turn_with(x->kube, more, n, wait_until(x, wait_ms), err);
                if (r < 0)
                        return r;
                r = move(x);
                if (r < 0)
                        return explain(x, r, err);
                x->ended = over(x);
        }
        *ret_ended = x->ended;
        return 0;
}

int kube_exec_step(struct kube_exec *x, int wait_ms, bool *ret_ended, struct error *err) {
        struct curl_waitfd ours;

        return step(x, &ours, 1, wait_ms, ret_ended, err);
}

/* --- descriptors
 * ----------------------------------------------------------------------------------------------- */

struct run {
        const struct kube_exec_stdio *stdio;
        char data[CHUNK_FRAMED];
        size_t len, from; /* read from in, not yet sent */
        bool in_open;
};

static ssize_t to_fd(void *arg, int stream, const void *data, size_t len) {
        const struct run *run = arg;
        const int fd = stream == 2 ? run->stdio->err : run->stdio->out;
        ssize_t n;

        if (fd < 0)
                return (ssize_t) len;
        do
                n = write(fd, data, len);
        while (n < 0 && errno == EINTR);
        if (n < 0)
                return errno == EAGAIN ? 0 : -errno;
        return n;
}

static int feed(struct kube_exec *x, struct run *run) {
        ssize_t n;

        while (run->from < run->len) {
                n = kube_exec_send(x, run->data + run->from, run->len - run->from);
                if (n == -EAGAIN)
                        return 0;
                if (n < 0)
                        return n == -EPIPE ? 0 : (int) n;
                run->from += (size_t) n;
        }
        run->from = run->len = 0;
        return run->in_open ? 0 : kube_exec_close_stdin(x);
}

static int read_in(struct run *run) {
        const ssize_t n = read(run->stdio->in, run->data, sizeof(run->data));

        if (n < 0 && (errno == EAGAIN || errno == EINTR))
                return 0;
        if (n < 0 && errno != EIO) /* of a terminal that hung up */
                return -errno;
        run->len = n > 0 ? (size_t) n : 0;
        run->in_open = n > 0;
        return 0;
}

static int take_resize(struct kube_exec *x, const struct run *run) {
        char drained[512];
        struct winsize size;

        if (read(run->stdio->resize, drained, sizeof(drained)) < 0 && errno != EAGAIN && errno != EINTR)
                return -errno;
        return ioctl(run->stdio->in, TIOCGWINSZ, &size) == 0 ? kube_exec_resize(x, &size) : 0;
}

/* What to wait for besides the server; more[1] is in or out, more[2] the other output, more[3] resize. */
static unsigned wait_list(const struct kube_exec *x, const struct run *run, struct curl_waitfd *more) {
        unsigned n = 1;

        if (run->in_open && run->len == 0 && kube_exec_queued(x) < KUBE_EXEC_QUEUE_MAX / 2)
                more[n++] = (struct curl_waitfd){ .fd = run->stdio->in, .events = CURL_WAIT_POLLIN };
        if (x->held[0].len > 0)
                more[n++] = (struct curl_waitfd){ .fd = run->stdio->out, .events = CURL_WAIT_POLLOUT };
        if (x->held[1].len > 0)
                more[n++] = (struct curl_waitfd){ .fd = run->stdio->err, .events = CURL_WAIT_POLLOUT };
        if (run->stdio->resize >= 0)
                more[n++] = (struct curl_waitfd){ .fd = run->stdio->resize, .events = CURL_WAIT_POLLIN };
        return n;
}

static bool readable(int fd) {
        struct pollfd p = { .fd = fd, .events = POLLIN };

        return fd >= 0 && poll(&p, 1, 0) > 0;
}

static int run_round(struct kube_exec *x, struct run *run, bool *ended, struct error *err) {
        struct curl_waitfd more[5] = { 0 };
        const uint64_t now = clock_ns(), deadline = run->stdio->deadline_ns;
        int r, ms = -1;

        if (deadline > 0 && now >= deadline)
                return error_set(err, -ETIMEDOUT, "exec: time is over; the command may still run");
        if (deadline > 0 && deadline - now < (uint64_t) KUBE_EXEC_PING_MS * 1000000)
                ms = (int) ((deadline - now) / 1000000 + 1);
        r = feed(x, run);
        if (r == 0)
                r = step(x, more, wait_list(x, run, more), run->len > 0 && ms < 0 ? 1000 : ms, ended, err);
        if (r < 0 || *ended)
                return r;
        if (run->stdio->resize >= 0 && readable(run->stdio->resize))
                r = take_resize(x, run);
        if (r == 0 && run->in_open && run->len == 0 && readable(run->stdio->in))
                r = read_in(run);
        return r < 0 ? error_set(err, r, "exec: read stdin: %s", strerror(-r)) : 0;
}

int kube_exec_run(struct kube *kube, const struct kube_exec_request *request,
                  const struct kube_exec_stdio *stdio, struct kube_exec_end *ret, struct error *err) {
        AUTO_FREE struct run *run = calloc(1, sizeof(*run));
        AUTO_KUBE_EXEC struct kube_exec *x = NULL;
        struct kube_exec_request q = *request;
        bool ended = false;
        int r;

        if (!run)
                return error_set(err, -ENOMEM, "out of memory");
        run->stdio = stdio;
        run->in_open = q.has_stdin = stdio->in >= 0;
        q.output = to_fd;
        q.arg = run;
        r = kube_exec_open(kube, &q, &x, err);
        while (r == 0 && !ended)
                r = run_round(x, run, &ended, err);
        if (r == 0)
                *ret = x->end;
        return r;
}

/* --- memory
 * ---------------------------------------------------------------------------------------------------- */

struct collection {
        struct buf *bufs[2];
        size_t left[2];
};

static ssize_t to_buf(void *arg, int stream, const void *data, size_t len) {
        struct collection *c = arg;

        if (!c->bufs[stream - 1])
                return (ssize_t) len;
        if (len > c->left[stream - 1])
                return -EFBIG;
        c->left[stream - 1] -= len;
        return buf_add(c->bufs[stream - 1], data, len) < 0 ? -ENOMEM : (ssize_t) len;
}

static int send_some(struct kube_exec *x, const struct buf *input, size_t *sent) {
        while (input && *sent < input->len) {
                const ssize_t n = kube_exec_send(x, input->data + *sent, input->len - *sent);

                if (n == -EAGAIN || n == -EPIPE)
                        return 0;
                if (n < 0)
                        return (int) n;
                *sent += (size_t) n;
        }
        return input ? kube_exec_close_stdin(x) : 0;
}

/* NOLINTNEXTLINE(readability-function-size): what goes in, its bounds, and what comes out */
int kube_exec_collect(struct kube *kube, const struct kube_exec_request *request, const struct buf *input,
                      size_t max, unsigned timeout_ms, struct buf *out, struct buf *errors,
                      struct kube_exec_end *ret, struct error *err) {
        const uint64_t deadline = clock_ns() + (uint64_t) timeout_ms * 1000000;
        struct collection c = { { out, errors }, { max, max } };
        AUTO_KUBE_EXEC struct kube_exec *x = NULL;
        struct kube_exec_request q = *request;
        bool ended = false;
        size_t sent = 0;
        int r;

        q.has_stdin = input != NULL;
        q.output = to_buf;
        q.arg = &c;
        r = kube_exec_open(kube, &q, &x, err);
        while (r == 0 && !ended) {
                const uint64_t now = clock_ns();

                if (now >= deadline)
                        return error_set(err, -ETIMEDOUT,
                                         "exec: no end within %u ms; the command may still run", timeout_ms);
                r = send_some(x, input, &sent);
                if (r < 0)
                        return error_set(err, r, "out of memory");
                r = kube_exec_step(x, (int) ((deadline - now) / 1000000 + 1), &ended, err);
                if (r == -EFBIG && (c.left[0] < max || c.left[1] < max))
                        return error_set(err, r, "exec: more than %zu bytes of output", max);
        }
        if (r == 0)
                *ret = x->end;
        return r;
}
