/* cofferdam launch: an agent's task in a sandbox: its loop and its tools inside, what it may ask for outside.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/launch.h"
#include "runtime/agent/launch/exec.h"
#include "runtime/agent/launch/launch.h"
#include "runtime/agent/launch/program.h"
#include "runtime/agent/protocol.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/clock.h"
#include "runtime/base/escape.h"
#include "runtime/base/file.h"
#include "runtime/base/json.h"
#include "runtime/base/libexec.h"
#include "runtime/base/log.h"
#include "runtime/base/parse.h"
#include "runtime/base/path.h"
#include "runtime/run/control.h"
#include "runtime/spec/resolve.h"

enum { STOP_GRACE_S = 5, COPY_END_MS = 30000, NS_PER_MS = 1000000, RESUME_FILE_MAX = 8 << 20 };

static const char program[] = "cofferdam-runner";
/* where a run that is made for a task has the runner; one that is joined gets a copy */
static const char inside[] = "/run/cofferdam/runner", copied[] = "/tmp/.cofferdam-runner";

/** struct options - beside those of a specification */
struct options {
        struct launch_options common;
        const char *task, *run, *operator_file, *session, *replay, *resume, *answer;
        uint64_t protocol;
};

static int set_protocol(void *arg, const char *value, struct error *err) {
        struct options *o = arg;

        if (parse_u64(value, PROTOCOL_FIRST, PROTOCOL_VERSION, &o->protocol) < 0)
                return error_set(err, -EINVAL, "want %d to %d", PROTOCOL_FIRST, PROTOCOL_VERSION);
        return 0;
}

#define SETTER(name, member)                                               \
        static int name(void *arg, const char *value, struct error *err) { \
                (void) err;                                                \
                ((struct options *) arg)->member = value;                  \
                return 0;                                                  \
        }
SETTER(set_task, task)
SETTER(set_run, run)
SETTER(set_operator, operator_file)
SETTER(set_session, session)
SETTER(set_replay, replay)
SETTER(set_resume, resume)
SETTER(set_answer, answer)
#undef SETTER

static const struct flag_option options[] = {
        { "task", 0, "FILE", set_task,
          "What to do, as cofferdam-agent(7) describes it ('-': standard input)" },
        { "run", 0, "RUN", set_run, "Do it in this run, which was started before, and leave that running" },
        { "operator", 0, "FILE", set_operator,
          "Programs, servers and rules of the operator (default: agent.json in the configuration "
          "directory)" },
        { "session", 0, "DIR", set_session,
          "Keep what the runner captures there: session.json, turn-N.json" },
        { "replay", 0, "FILE", set_replay, "Hand the runner a session.json of an earlier task" },
        { "resume", 0, "FILE", set_resume, "Go on after a question: what the launch that asked it printed" },
        { "answer", 0, "TEXT", set_answer, "The operator's answer to that question" },
        { "protocol", 0, "N", set_protocol,
          "Highest version of the protocol: 1 waits for no hello (default: 2)" },
        { "events", 0, "FILE|fd:N", launch_events,
          "Send the events of the run there as well, one JSON object a line" },
        { "json", 0, NULL, NULL, "Report failures of cofferdam itself as a JSON object on standard error",
          offsetof(struct options, common.json) },
        { "verbose", 'v', NULL, launch_verbose, "Say more on standard error" },
};

static const struct flag_set flag_set = {
        .usage = "cofferdam launch --task FILE [--run RUN | OPTIONS]",
        .summary = "Have an agent do a task in a sandbox; its result is JSON on standard output.",
        .options = options,
        .n_options = ARRAY_SIZE(options),
        .spec = true,
};

/* ---- files ---- */

static int read_named(const char *name, size_t max, struct buf *out, struct error *err) {
        const int r = strcmp(name, "-") == 0 ? file_read(STDIN_FILENO, max, out)
                                             : file_read_at(AT_FDCWD, name, max, out);

        return r < 0 ? error_set(err, r, "'%s': %s", ESC(name), strerror(-r)) : 0;
}

static int read_json(const char *name, size_t max, json_t **ret, struct error *err) {
        AUTO_BUF struct buf text = { 0 };
        json_error_t problem;
        int r;

        r = read_named(name, max, &text, err);
        if (r < 0)
                return r;
        *ret = json_loadb(buf_cstr(&text), text.len, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &problem);
        return *ret ? 0
                    : error_set(err, -EINVAL, "'%s': line %d: %s", ESC(name), problem.line,
                                ESC(problem.text));
}

static int read_task(const struct options *o, struct task *ret, struct error *err) {
        AUTO_BUF struct buf text = { 0 };
        AUTO_JSON json_t *resume = NULL;
        int r;

        if (!o->task)
                return error_set(err, -EINVAL, "no task: cofferdam launch --task FILE");
        r = read_named(o->task, TASK_FILE_MAX, &text, err);
        if (r == 0)
                r = task_read(buf_cstr(&text), text.len, ret, err);
        if (r < 0)
                return r;
        if (o->answer && !o->resume)
                return error_set(err, -EINVAL, "--answer needs --resume FILE: which question is meant?");
        if (o->resume)
                r = read_json(o->resume, RESUME_FILE_MAX, &resume, err);
        if (r == 0 && o->resume)
                r = task_resume(ret, resume, o->answer, err);
        return r < 0 ? error_wrap(err, r, o->resume ? "--resume" : "--task") : 0;
}

/* The operator's file starts programs on the host: only the operator may have written it. */
static int read_owned(const char *path, bool may_miss, struct buf *out, struct error *err) {
        AUTO_FD int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
        struct stat st;
        int r;

        if (fd < 0 && errno == ENOENT && may_miss)
                return 0;
        if (fd < 0 || fstat(fd, &st) < 0)
                return error_set(err, -errno, "'%s': %s", ESC(path), strerror(errno));
        if (!S_ISREG(st.st_mode))
                return error_set(err, -EINVAL, "'%s': no file", ESC(path));
        if ((st.st_uid != geteuid() && st.st_uid != 0) || (st.st_mode & (S_IWGRP | S_IWOTH)))
                return error_set(err, -EPERM, "'%s': others can write to it: chown it to you, chmod go-w",
                                 ESC(path));
        r = file_read(fd, TASK_FILE_MAX, out);
        return r < 0 ? error_set(err, r, "'%s': %s", ESC(path), strerror(-r)) : 1;
}

/* What lies there may be of the work, but a link there may not lead to files of the caller's. */
static int no_way_out(const char *path, char *const *writable, struct error *err) {
        AUTO_FREE char *real = path ? realpath(path, NULL) : NULL;

        for (; real && *writable; writable++) {
                if (!path_below(real, *writable) && file_goes_through(path, *writable))
                        return error_set(
                                err, -EPERM,
                                "'%s': a link in the workspace or a mount that the sandbox writes to "
                                "('%s') leads out of it: "
                                "name a path outside",
                                ESC(path), ESC(*writable));
        }
        return 0;
}

static int read_operator(const struct ctx *ctx, const struct options *o, char *const *writable,
                         struct operator* ret, struct error *err) {
        AUTO_FREE char *fallback = NULL;
        AUTO_BUF struct buf text = { 0 };
        const char *path = o->operator_file;
        int r = 0;

        if (!path && ctx->config_dir && path_join(ctx->config_dir, "agent.json", &fallback) < 0)
                return error_set(err, -ENOMEM, "out of memory");
        if (!path)
                path = fallback;
        if (path)
                r = program_is_outside(path, writable, err);
        if (path && r == 0)
                r = read_owned(path, !o->operator_file, &text, err);
        if (r >= 0)
                r = operator_read(r > 0 ? buf_cstr(&text) : NULL, text.len, ret, err);
        return r < 0 ? error_wrap(err, r, "--operator") : 0;
}

static int open_session(const struct options *o, struct error *err) {
        int fd;

        if (!o->session)
                return -1;
        if (mkdir(o->session, 0700) < 0 && errno != EEXIST)
                return error_set(err, -errno, "--session '%s': %s", ESC(o->session), strerror(errno));
        fd = open(o->session, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        return fd < 0 ? error_set(err, -errno, "--session '%s': %s", ESC(o->session), strerror(errno)) : fd;
}

/* ---- the run ---- */

/** struct place - a run, and how the runner is called in it */
struct place {
        struct run_dir dir;
        char id[RUN_ID_LEN + 1];
        bool copied;         /* the runner was: it is removed afterwards */
        bool ours;           /* made for this task: it ends with it */
        int hold_fd;         /* and with this process; owned; -1: a run that was joined */
        char path[PATH_MAX]; /* of the runner, inside */
        char **writable;     /* physical paths on the host where it writes, as far as known; NULL-terminated;
                                owned */
        size_t n_writable;
};

/* What does not exist is not written below. */
static int note_writable(struct place *place, const char *path, struct error *err) {
        char **all = reallocarray(place->writable, place->n_writable + 2, sizeof(*all));
        char *real = path ? realpath(path, NULL) : NULL;

        if (!all)
                return free(real), error_set(err, -ENOMEM, "out of memory");
        place->writable = all;
        all[place->n_writable] = real;
        place->n_writable += real != NULL;
        all[place->n_writable] = NULL;
        return 0;
}

static int note_id(void *arg, const char *id) {
        struct place *place = arg;

        (void) snprintf(place->id, sizeof(place->id), "%s", id);
        return 0;
}

/* The runner as a mount of the run, which is read-only: nothing inside can change it. */
static int add_mount(struct spec *spec, const char *source, struct error *err) {
        struct spec_mount *mounts = reallocarray(spec->mounts, spec->n_mounts + 1, sizeof(*mounts));
        struct spec_mount *m;

        if (!mounts)
                return error_set(err, -ENOMEM, "out of memory");
        spec->mounts = mounts;
        m = &mounts[spec->n_mounts];
        *m = (struct spec_mount){ .type = MOUNT_BIND, .readonly = true, .tier = TIER_FLAG };
        m->source = realpath(source, NULL);
        m->target = strdup(inside);
        spec->n_mounts++;
        return m->source && m->target ? 0 : error_set(err, -ENOMEM, "out of memory");
}

/* Whether the commands of the run are on the host, where the runner is already. */
static bool on_host(const struct spec *spec) {
        return spec->mode == MODE_NONE || (spec->driver && strcmp(spec->driver, "noop") == 0);
}

/* Whether files of this host can be mounted in it: on another machine they cannot. */
static bool far_away(const struct spec *spec) {
        return spec->driver && strcmp(spec->driver, "kubernetes") == 0;
}

/* All of @bytes to the pipe @fd, whose reader is inside and may never read. Return: 0, -ETIMEDOUT, -errno. */
static int feed(int fd, const struct buf *bytes) {
        const uint64_t end_ns = clock_ns() + (uint64_t) COPY_END_MS * NS_PER_MS;
        struct pollfd out = { .fd = fd, .events = POLLOUT };

        if (fcntl(fd, F_SETFL, O_NONBLOCK) < 0)
                return -errno;
        for (size_t done = 0; done < bytes->len;) {
                const ssize_t n = write(fd, bytes->data + done, bytes->len - done);
                const uint64_t now_ns = clock_ns();

                if (n > 0)
                        done += (size_t) n;
                else if (errno != EAGAIN && errno != EINTR)
                        return -errno;
                else if (now_ns >= end_ns)
                        return -ETIMEDOUT;
                else
                        (void) poll(&out, 1, (int) ((end_ns - now_ns) / NS_PER_MS) + 1);
        }
        return 0;
}

/* @script with @name as $0 by a shell inside, which reads @bytes. */
static int run_shell(const struct run_dir *dir, const char *script, const char *name, const struct buf *bytes,
                     struct error *err) {
        const char *const argv[] = { "/bin/sh", "-c", script, name, NULL };
        struct launch_command c;
        int r;

        r = launch_command_start(dir, argv, &c, err);
        if (r == 0) {
                r = feed(c.in_fd, bytes);
                if (r < 0)
                        (void) error_set(err, r, "%s: the shell does not read: %s", name, strerror(-r));
        }
        c.in_fd = fd_close(c.in_fd);
        if (c.sock >= 0 && !launch_command_wait(&c, r == 0 ? COPY_END_MS : 0) && r == 0)
                r = error_set(err, -ETIMEDOUT, "%s: the shell does not end", name);
        if (c.over && c.err_fd >= 0) /* what it said last */
                launch_command_said(&c);
        if (c.over && (c.end.type != RUN_MSG_EXIT || c.end.code != 0))
                r = error_set(err, -EIO, "%s: %s", name,
                              c.end.type == RUN_MSG_ERROR ? c.end.text : ESC(buf_cstr(&c.text)));
        launch_command_deinit(&c);
        return r;
}

/* Feeds the runner to a shell inside, in a run that does not have it: under a new name, never over a file or
 * a link. */
static int copy_in(struct place *place, const char *runner, struct error *err) {
        AUTO_BUF struct buf bytes = { 0 };
        uint64_t random;
        int r;

        if (getrandom(&random, sizeof(random), 0) != sizeof(random))
                return error_set(err, -EIO, "getrandom: %s", strerror(errno));
        r = file_read_at(AT_FDCWD, runner, BUF_MAX_DEFAULT, &bytes);
        if (r < 0)
                return error_set(err, r, "'%s': %s", ESC(runner), strerror(-r));
        (void) snprintf(place->path, sizeof(place->path), "%s-%016" PRIx64, copied, random);
        r = run_shell(&place->dir, "set -C; umask 077; cat >\"$0\" && chmod 700 \"$0\"", place->path, &bytes,
                      err);
        place->copied = r != -ETIMEDOUT; /* a shell that does not read would not remove it either */
        return r < 0 ? error_wrap(err, r, "copy the runner into run %s", place->dir.id) : 0;
}

static int start(const struct ctx *ctx, struct options *o, struct spec *spec, const char *runner,
                 struct place *ret, struct run_msg *end, struct error *err) {
        AUTO_JSON json_t *dump = NULL;
        struct run_request req = { .spec = spec,
                                   .stdio = { -1, -1, STDERR_FILENO },
                                   .events_fd = o->common.events_fd,
                                   .trace = o->common.trace,
                                   .ready = note_id,
                                   .arg = ret,
                                   .hold_fd = &ret->hold_fd };
        int r = 0;

        if (!on_host(spec) && !far_away(spec))
                r = add_mount(spec, runner, err);
        (void) snprintf(ret->path, sizeof(ret->path), "%s", on_host(spec) ? runner : inside);
        dump = r == 0 ? spec_dump(spec) : NULL;
        if (!dump)
                return r < 0 ? r : error_set(err, -ENOMEM, "out of memory");
        req.spec_json = dump;
        run_execute(ctx, &req, end);
        if (end->type != RUN_MSG_READY)
                return error_set(err, -ECANCELED, "%s", end->text);
        ret->ours = true;
        r = run_dir_open(ctx, ret->id, &ret->dir, err);
        return r == 0 && far_away(spec) ? copy_in(ret, runner, err) : r;
}

/* Where a run writes that was started by somebody else: its workspace, and what reaches the host. */
static int note_regions(struct place *place, struct error *err) {
        AUTO_JSON json_t *state = NULL;
        const json_t *regions;
        int r = note_writable(place, NULL, err);

        if (run_state_load(&place->dir, &state, NULL) < 0)
                return r;
        regions = run_regions(state);
        for (size_t i = 0; r == 0 && i < json_array_size(regions); i++) {
                const json_t *row = json_array_get(regions, i);
                const char *kind = json_string_value(json_object_get(row, "kind"));

                if (i == 0 || (kind && (strcmp(kind, "direct") == 0 || strcmp(kind, "staged") == 0)))
                        r = note_writable(place, json_string_value(json_object_get(row, "source")), err);
        }
        return r;
}

/* The workspace of a specification, and what else it mounts so that what is written reaches the host. */
static int note_mounts(struct place *place, const struct ctx *ctx, const struct spec *spec,
                       struct error *err) {
        const char *workspace = spec->workspace.source ? spec->workspace.source : ctx->cwd;
        int r = note_writable(place, workspace ? workspace : ".", err);

        for (size_t i = 0; r == 0 && i < spec->n_mounts; i++) {
                const struct spec_mount *m = &spec->mounts[i];

                if (!m->readonly && (m->type == MOUNT_BIND || m->shared)) /* an overlay keeps what it gets */
                        r = note_writable(place, m->source, err);
        }
        return r;
}

static int join(const struct ctx *ctx, const struct options *o, struct place *ret, struct error *err) {
        const int r = run_dir_open(ctx, o->run, &ret->dir, err);

        return r == 0 ? note_regions(ret, err) : r;
}

static void leave(struct place *place) {
        struct error err = { 0 };

        if (place->copied && !place->ours)
                (void) run_shell(&place->dir, "rm -f \"$0\"", place->path, &(struct buf){ 0 }, &err);
        if (place->ours && place->dir.fd >= 0 && control_stop(&place->dir, STOP_GRACE_S, &err) < 0)
                log_warn("%s", err.msg);
        place->hold_fd = fd_close(place->hold_fd);
        run_dir_deinit(&place->dir);
}

/* ---- the verb ---- */

/** struct work - what was read before anything is started; owned */
struct work {
        struct task task;
        struct operator op;
        json_t *replay;
        int session_fd;
        char runner[LIBEXEC_PATH_MAX]; /* on the host */
        struct spec *spec;             /* NULL: a run is joined */
        struct place place;
};

static void work_deinit(struct work *w) {
        task_deinit(&w->task);
        operator_deinit(&w->op);
        json_decref(w->replay);
        (void) fd_close(w->session_fd);
        (void) spec_free(w->spec);
        for (size_t i = 0; i < w->place.n_writable; i++)
                free(w->place.writable[i]);
        free((void *) w->place.writable);
}

static int find_runner(char ret[LIBEXEC_PATH_MAX], struct error *err) {
        const int r = libexec_path(program, ret);

        return r < 0 ? error_set(err, -ENOTSUP, "'%s' is not installed: %s", program, strerror(-r)) : 0;
}

/* Whose workspace it is: the specification's, or that of the run. */
static int place_of(const struct ctx *ctx, const struct options *o, const struct flags *flags, struct work *w,
                    struct error *err) {
        int r;

        if (o->run && (flags->n_uses > 0 || flags->n_specs > 0))
                return error_set(err, -EINVAL,
                                 "--run: the run has its specification: leave the options of one out");
        if (o->run)
                return join(ctx, o, &w->place, err);
        r = spec_resolve(ctx, flags, &w->spec, err);
        return r < 0 ? r : note_mounts(&w->place, ctx, w->spec, err);
}

static int prepare(const struct ctx *ctx, const struct options *o, const struct flags *flags, struct work *w,
                   struct error *err) {
        int r;

        r = read_task(o, &w->task, err);
        if (r == 0)
                r = place_of(ctx, o, flags, w, err);
        if (r == 0)
                r = read_operator(ctx, o, w->place.writable, &w->op, err);
        if (r == 0)
                r = launch_check(&w->task, &w->op, err);
        if (r == 0)
                r = no_way_out(o->session, w->place.writable, err);
        if (r == 0)
                r = no_way_out(o->replay, w->place.writable, err);
        if (r == 0)
                r = no_way_out(o->resume, w->place.writable, err);
        if (r == 0 && o->replay)
                r = read_json(o->replay, TASK_FILE_MAX, &w->replay, err);
        if (r == 0)
                r = find_runner(w->runner, err);
        if (r == 0) {
                w->session_fd = open_session(o, err);
                r = w->session_fd < -1 ? w->session_fd : 0;
        }
        return r;
}

static int report(const struct options *o, struct launch_end *end) {
        AUTO_FREE char *text = end->report ? json_dumps(end->report, JSON_COMPACT) : NULL;

        if (text)
                printf("%s\n", text);
        if (*end->text)
                launch_report(&o->common, end->failure_code, end->text);
        return end->code;
}

static int signals(struct error *err) {
        sigset_t set;
        int fd;

        (void) signal(SIGPIPE, SIG_IGN);
        (void) sigemptyset(&set);
        (void) sigaddset(&set, SIGINT);
        (void) sigaddset(&set, SIGTERM);
        (void) sigaddset(&set, SIGHUP);
        if (sigprocmask(SIG_BLOCK, &set, NULL) < 0)
                return error_set(err, -errno, "block signals: %s", strerror(errno));
        fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
        return fd < 0 ? error_set(err, -errno, "signalfd: %s", strerror(errno)) : fd;
}

static int work(const struct ctx *ctx, struct options *o, struct work *w) {
        const char *const argv[] = { w->place.path, NULL };
        CLEANUP(launch_end_deinit) struct launch_end end = { 0 };
        AUTO_FD int signal_fd = -1;
        struct run_msg msg = { .code = EXIT_SETUP };
        struct error err = { 0 };
        int r;

        r = w->spec ? start(ctx, o, w->spec, w->runner, &w->place, &msg, &err)
                    : copy_in(&w->place, w->runner, &err);
        if (r == 0)
                r = signal_fd = signals(&err);
        if (r < 0) {
                launch_report(&o->common, *msg.failure_code ? msg.failure_code : "SANDBOX_SETUP_FAILED",
                              err.msg);
                return msg.code ? msg.code : EXIT_SETUP;
        }
        launch_task(&(struct launch_order){ .ctx = ctx,
                                            .dir = &w->place.dir,
                                            .task = &w->task,
                                            .op = &w->op,
                                            .writable = w->place.writable,
                                            .argv = argv,
                                            .replay = w->replay,
                                            .protocol = (int) o->protocol,
                                            .session_fd = w->session_fd,
                                            .signal_fd = signal_fd },
                    &end);
        return report(o, &end);
}

static int refuse(const struct options *o, int r, const char *text) {
        const bool usage = r == -EINVAL || r == -E2BIG || r == -ENOENT;

        launch_report(&o->common,
                      r == -ENOTSUP ? "CAPABILITY_UNSUPPORTED"
                      : usage       ? "SPEC_INVALID"
                                    : "SANDBOX_SETUP_FAILED",
                      text);
        return usage ? EXIT_USAGE : EXIT_SETUP;
}

static int launch(const struct ctx *ctx, struct options *o, struct work *w, int argc, char **argv) {
        AUTO_FLAGS struct flags *flags = NULL;
        struct error err = { 0 };
        int r, code;

        r = flags_parse(&flag_set, argc, argv, o, &flags, &err);
        if (r < 0)
                return refuse(o, r, err.msg);
        if (flags->help)
                return launch_help(&flag_set);
        if (flags->next < argc) {
                (void) error_set(&err, -EINVAL, "unexpected word '%s': the runner is the command",
                                 ESC(argv[flags->next]));
                return refuse(o, -EINVAL, err.msg);
        }
        r = prepare(ctx, o, flags, w, &err);
        if (r < 0)
                return refuse(o, r, err.msg);
        code = work(ctx, o, w);
        leave(&w->place);
        return code;
}

int verb_launch(const struct ctx *ctx, int argc, char **argv) {
        struct options o = { .common = LAUNCH_OPTIONS_INIT, .protocol = PROTOCOL_VERSION };
        struct work w = { .session_fd = -1, .place = { .dir = RUN_DIR_INIT, .hold_fd = -1 } };
        int code;

        code = launch(ctx, &o, &w, argc, argv);
        work_deinit(&w);
        (void) fd_close(o.common.events_fd);
        return code;
}
