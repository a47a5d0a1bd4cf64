/*
 * The commands of a run and its clients. A client is a process of the same user at the other end of a socket;
 * it is believed no more than its messages allow: they have a fixed size, every number is checked, and one
 * that says what it cannot say in its state is dropped. A command whose client vanishes is killed, unless it
 * was started detached.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/base/clock.h"
#include "runtime/base/escape.h"
#include "runtime/base/json.h"
#include "runtime/run/control.h"
#include "runtime/run/supervise.h"

static const char out_of_memory[] = "OUT_OF_MEMORY";
static const struct slot slot_init = { .fd = -1, .out = OUTPUT_INIT };

void commands_init(struct supervisor *s) {
        for (size_t i = 0; i < SLOTS_MAX; i++)
                s->slots[i] = slot_init;
        s->spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
}

/* Closes what the client's side of the slot holds; the owner's socket is not ours. */
static void leave(struct slot *slot) {
        if (slot->state != CLIENT_OWNER)
                (void) fd_close(slot->fd);
        slot->fd = -1;
        slot->state = CLIENT_FREE;
}

void commands_deinit(struct supervisor *s) {
        for (size_t i = 0; i < SLOTS_MAX; i++) {
                output_close(&s->slots[i].out);
                leave(&s->slots[i]);
        }
        s->spare_fd = fd_close(s->spare_fd);
}

static bool is_talking(const struct slot *slot) {
        return slot->out.streams[0].pipe_fd >= 0 || slot->out.streams[1].pipe_fd >= 0;
}

struct slot *commands_adopt(struct supervisor *s, int fd, enum client_state state) {
        for (size_t i = 0; i < SLOTS_MAX; i++) {
                struct slot *slot = &s->slots[i];

                if (slot->state != CLIENT_FREE || slot->id != 0 || slot->refresh != 0 || is_talking(slot))
                        continue;
                output_close(&slot->out);
                *slot = slot_init;
                slot->fd = fd;
                slot->state = state;
                return slot;
        }
        return NULL;
}

static struct slot *slot_of(struct supervisor *s, uint32_t id) {
        for (size_t i = 0; id != 0 && i < SLOTS_MAX; i++)
                if (s->slots[i].id == id)
                        return &s->slots[i];
        return NULL;
}

/* ---- what clients are told ---- */

/* The client is gone, or does not take its message: nobody waits for its command any more. */
static void drop(struct supervisor *s, struct slot *slot) {
        if (slot->id != 0)
                (void) s->args->driver->signal(s->sandbox, slot->id, SIGKILL, true);
        leave(slot);
}

static void tell(struct supervisor *s, struct slot *slot, struct run_msg *msg, int fd) {
        if (slot->fd >= 0 && run_msg_send(slot->fd, msg, fd) < 0 && slot->state != CLIENT_OWNER)
                drop(s, slot);
}

static void tell_error(struct supervisor *s, struct slot *slot, const char *failure_code, const char *text) {
        struct run_msg msg = { .type = RUN_MSG_ERROR, .code = EXIT_AROUND };

        (void) snprintf(msg.failure_code, sizeof(msg.failure_code), "%s", failure_code);
        (void) snprintf(msg.text, sizeof(msg.text), "%s", text);
        tell(s, slot, &msg, -1);
        leave(slot);
}

static json_t *argv_json(const char *const *argv) {
        json_t *list = json_array();
        size_t room = EVENT_STRING_MAX;

        for (size_t i = 0; argv[i] && room > 0; i++) {
                const size_t len = strlen(argv[i]);

                (void) json_array_append_new(list, json_from_bytes(argv[i], room));
                room -= len < room ? len : room;
        }
        return list;
}

uint32_t commands_note(struct supervisor *s, struct slot *slot, const char *const *argv) {
        slot->id = ++s->last_id;
        slot->pid = 0;
        slot->since_ns = clock_ns();
        (void) snprintf(slot->name, sizeof(slot->name), "%s", argv[0]);
        return slot->id;
}

void commands_announce(struct supervisor *s, const struct slot *slot, const char *const *argv) {
        events_emit(&s->record.events, "exec_started",
                    json_pack("{s:i,s:o}", "exec_id", (int) slot->id, "argv", argv_json(argv)));
}

/* ---- what the driver says ---- */

void commands_started(struct supervisor *s, uint32_t id, pid_t pid, int pty_fd) {
        AUTO_FD int pty = pty_fd;
        struct slot *slot = slot_of(s, id);
        struct run_msg msg = { .type = RUN_MSG_STARTED, .id = id };

        if (!slot)
                return;
        slot->pid = pid;
        memcpy(msg.run_id, s->args->dir->id, sizeof(msg.run_id));
        if (slot->state == CLIENT_OWNER && run_msg_send(slot->fd, &msg, pty) < 0)
                s->over = true;
        else if (slot->state == CLIENT_EXEC)
                tell(s, slot, &msg, pty);
}

/* Why a command that the memory limit killed ended so. */
static void explain_oom(const struct slot *slot, const struct exec_result *result, char *ret, size_t size) {
        const bool itself = result->signal == SIGKILL;

        (void) snprintf(ret, size,
                        "out of memory: the limit of %" PRIu64 " MiB was reached (peak %" PRIu64
                        " MiB), and the kernel killed %s'%s'; raise limits.memory",
                        result->memory_limit_bytes >> 20, result->memory_peak_bytes >> 20,
                        itself ? "" : "a process of ", ESC(slot->name));
}

static void tell_end(struct supervisor *s, struct slot *slot, const struct exec_result *result) {
        struct run_msg msg = { .type = RUN_MSG_EXIT,
                               .id = result->id,
                               .code = result->exit_code,
                               .signal = result->signal,
                               .exec_errno = result->exec_errno };

        if (result->oom && result->exit_code != 0) {
                msg.type = RUN_MSG_ERROR;
                (void) snprintf(msg.failure_code, sizeof(msg.failure_code), "%s", out_of_memory);
                explain_oom(slot, result, msg.text, sizeof(msg.text));
        } else if (result->lost) {
                (void) snprintf(msg.text, sizeof(msg.text), "%s", result->lost);
        }
        tell(s, slot, &msg, -1);
        leave(slot);
}

void commands_finished(struct supervisor *s, const struct exec_result *result) {
        struct slot *slot = slot_of(s, result->id);

        if (!slot)
                return;
        events_emit(&s->record.events, "exec_finished",
                    json_pack("{s:i,s:i,s:i,s:i,s:b,s:I,s:I,s:o*}", "exec_id", (int) result->id, "pid",
                              (int) slot->pid, "exit_code", result->exit_code, "signal", result->signal,
                              "oom", result->oom, "duration_ms",
                              (json_int_t) ((clock_ns() - slot->since_ns) / 1000000), "max_rss_bytes",
                              (json_int_t) result->max_rss_bytes, "lost",
                              result->lost ? json_from_bytes(result->lost, EVENT_STRING_MAX) : NULL));
        if (result->max_rss_bytes > s->peak_memory_bytes)
                s->peak_memory_bytes = result->max_rss_bytes;
        slot->id = 0;
        if (result->id == s->post_create_id) {
                leave(slot);
                supervisor_post_created(s, result);
                return;
        }
        s->failed = s->failed || result->exit_code != 0 || result->signal != 0;
        if (slot->state == CLIENT_OWNER) {
                s->over = true;
                s->ended = true;
                if (s->final.type == RUN_MSG_ERROR)
                        return;
                s->final.code = result->exit_code;
                s->final.signal = result->signal;
                s->final.exec_errno = result->exec_errno;
                if (result->lost) /* the sandbox may be lost, too, and that is the reason then */
                        (void) snprintf(s->final.text, sizeof(s->final.text), "%s", result->lost);
                if (result->oom && result->exit_code != 0) {
                        char text[ERROR_MSG_MAX];

                        explain_oom(slot, result, text, sizeof(text));
                        supervisor_fail(s, result->exit_code, out_of_memory, text);
                }
        } else if (slot->state == CLIENT_EXEC) {
                tell_end(s, slot, result);
        }
        if (s->ending && commands_count(s) == 0)
                s->over = true;
}

size_t commands_count(const struct supervisor *s) {
        size_t n = 0;

        for (size_t i = 0; i < SLOTS_MAX; i++)
                n += s->slots[i].id != 0;
        return n;
}

void commands_signal(struct supervisor *s, int sig) {
        for (size_t i = 0; i < SLOTS_MAX; i++)
                if (s->slots[i].id != 0)
                        (void) s->args->driver->signal(s->sandbox, s->slots[i].id, sig, true);
}

/* ---- what clients say ---- */

/* Takes the streams out of @fds in the order of the flags. Return: 0, -EPROTO (their number does not fit). */
static int sort_streams(const struct run_msg *msg, int *fds, size_t n, int stdio[3]) {
        size_t used = 1;

        for (int i = 0; i < 3; i++) {
                stdio[i] = -1;
                if (!(msg->flags & (1U << i)))
                        continue;
                if (used >= n)
                        return -EPROTO;
                stdio[i] = fds[used++];
        }
        return used == n ? 0 : -EPROTO;
}

/* The tokens of the run and then what the client adds; owned vector of borrowed strings. */
static const char **env_of(const struct supervisor *s, char *const *more) {
        const char *const *tokens = s->args->tokens->env;
        const char **env;
        size_t n = 0, m = 0;

        while (tokens && tokens[n])
                n++;
        while (more && more[m])
                m++;
        env = calloc(n + m + 1, sizeof(*env));
        for (size_t i = 0; env && i < n; i++)
                env[i] = tokens[i];
        for (size_t i = 0; env && i < m; i++)
                env[n + i] = more[i];
        return env;
}

/* A client that would put a credential where a token is. */
static bool refuse_exposed(struct supervisor *s, struct slot *slot, const struct block *block) {
        const char *entry = tokens_forbid(s->args->tokens, block->env);
        char text[256];

        if (!entry)
                return false;
        (void) snprintf(
                text, sizeof(text),
                "the command must not receive the variable '%.*s': a token takes its place: leave it out",
                (int) (strcspn(entry, "=") < 100 ? strcspn(entry, "=") : 100), entry);
        tell_error(s, slot, "CREDENTIAL_EXPOSED", text);
        return true;
}

/* @theirs: the command's ends of what leads to the log files */
static int start_command(struct supervisor *s, struct slot *slot, const struct run_msg *msg,
                         const struct block *block, const int stdio[3], struct error *err) {
        AUTO_FREE const char **env = env_of(s, block->env);
        struct exec_request req = {
                .argv = (const char *const *) block->argv,
                .env = env,
                .cwd = *block->cwd ? block->cwd : NULL,
                .tty = (msg->flags & RUN_EXEC_TTY) != 0,
                .winsize = { .ws_row = msg->rows, .ws_col = msg->cols },
        };
        int theirs[OUTPUT_STREAMS] = { -1, -1 };
        AUTO_FD int null = -1;
        int r = 0;

        if (!env)
                return error_set(err, -ENOMEM, "out of memory");
        memcpy(req.stdio, stdio, sizeof(req.stdio));
        req.id = commands_note(s, slot, req.argv);
        if (msg->flags & RUN_EXEC_DETACH) {
                r = output_open(&slot->out, s->args->dir->fd, req.id, theirs, err);
                for (int i = 0; i < OUTPUT_STREAMS; i++)
                        req.stdio[i + 1] = theirs[i];
                req.stdio[0] = null = open("/dev/null", O_RDONLY | O_CLOEXEC);
        }
        if (r == 0)
                r = s->args->driver->exec(s->sandbox, &req, err);
        for (int i = 0; i < OUTPUT_STREAMS; i++)
                (void) fd_close(theirs[i]);
        if (r < 0) {
                slot->id = 0;
                output_close(&slot->out);
                return r;
        }
        commands_announce(s, slot, req.argv);
        return 0;
}

static void on_exec(struct supervisor *s, struct slot *slot, const struct run_msg *msg, int *fds, size_t n) {
        AUTO_BLOCK struct block block = { 0 };
        struct run_msg done = { .type = RUN_MSG_EXIT };
        struct error err = { 0 };
        int stdio[3];

        if (n == 0 || sort_streams(msg, fds, n, stdio) < 0 || block_read(fds[0], &msg->size, &block) < 0) {
                leave(slot);
                return;
        }
        if (s->ending || s->over) {
                tell_error(s, slot, "SANDBOX_SETUP_FAILED", "the run is ending: start another");
                return;
        }
        if (commands_count(s) >= COMMANDS_MAX) {
                tell_error(s, slot, "SANDBOX_CAPACITY", "64 commands run already: wait until one has ended");
                return;
        }
        if (refuse_exposed(s, slot, &block))
                return;
        slot->state = CLIENT_EXEC;
        if (start_command(s, slot, msg, &block, stdio, &err) < 0) {
                tell_error(s, slot, "SANDBOX_SETUP_FAILED", err.msg);
                return;
        }
        if (!(msg->flags & RUN_EXEC_DETACH))
                return;
        done.id = slot->id;
        (void) run_msg_send(slot->fd, &done, -1); /* whether it is heard or not: the command lives on */
        leave(slot);
}

static void on_list(struct supervisor *s, struct slot *slot) {
        struct run_msg end = { .type = RUN_MSG_EXIT };

        for (size_t i = 0; i < SLOTS_MAX && slot->fd >= 0; i++) {
                const struct slot *other = &s->slots[i];
                struct run_msg msg = { .type = RUN_MSG_COMMAND, .id = other->id, .code = other->pid };

                if (other->id == 0)
                        continue;
                (void) snprintf(msg.text, sizeof(msg.text), "%s", other->name);
                tell(s, slot, &msg, -1);
        }
        tell(s, slot, &end, -1);
        leave(slot);
}

static void on_net(struct supervisor *s, struct slot *slot, const struct run_msg *msg, const int *fds,
                   size_t n) {
        AUTO_BLOCK struct block block = { 0 };
        struct error err = { 0 };
        int r;

        if (n != 1 || block_read(fds[0], &msg->size, &block) < 0) {
                leave(slot);
                return;
        }
        r = network_change(s, &block, &err);
        if (r < 0)
                tell_error(s, slot, r == -ENOTSUP ? "CAPABILITY_UNSUPPORTED" : "SPEC_INVALID", err.msg);
        else
                slot->state = CLIENT_NET;
}

/* A file in memory: one of a file system that does not answer would stop the supervisor. */
static int take_value(int fd, size_t *ret_len, struct error *err) {
        struct stat st;

        if (fcntl(fd, F_GET_SEALS) < 0 || fstat(fd, &st) < 0 || st.st_size <= 0 ||
            st.st_size > SECRET_FILE_MAX)
                return error_set(err, -EINVAL, "a secret is a file in memory of 1 byte to 1 MiB");
        *ret_len = (size_t) st.st_size;
        return 0;
}

static void refreshed(struct supervisor *s, const char *name) {
        events_emit(&s->record.events, "secret_refreshed", json_pack("{s:s}", "name", name));
}

static int refresh_secret(struct supervisor *s, const char *name, int fd, uint32_t id, struct error *err) {
        const struct spec *spec = s->args->spec;
        struct file_secret value = { .name = name, .fd = fd, .id = id };
        int r;

        for (size_t i = 0; i < spec->n_secrets; i++) {
                if (strcmp(spec->secrets[i].name, name) != 0 || !secret_is(&spec->secrets[i], "file"))
                        continue;
                r = take_value(fd, &value.len, err);
                if (r == 0)
                        r = s->args->driver->refresh_file(s->sandbox, &value, err);
                if (r == 0)
                        refreshed(s, name);
                return r;
        }
        return error_set(err, -ENOENT, "it has no secret '%s' that is a file", ESC(name));
}

static void on_secret(struct supervisor *s, struct slot *slot, const struct run_msg *msg, const int *fds,
                      size_t n) {
        struct run_msg done = { .type = RUN_MSG_EXIT };
        struct error err = { 0 };
        int r;

        if (n != 1) {
                leave(slot);
                return;
        }
        r = refresh_secret(s, msg->text, fds[0], ++s->last_refresh, &err);
        if (r == -EINPROGRESS) {
                slot->state = CLIENT_SECRET;
                slot->refresh = s->last_refresh;
                (void) snprintf(slot->name, sizeof(slot->name), "%.64s", msg->text);
                return;
        }
        if (r < 0) {
                tell_error(s, slot, "SPEC_INVALID", err.msg);
                return;
        }
        tell(s, slot, &done, -1);
        leave(slot);
}

/* A client that is gone meanwhile has left its number: what happened is an event all the same. */
void commands_refreshed(struct supervisor *s, uint32_t id, const char *why) {
        struct run_msg done = { .type = RUN_MSG_EXIT };

        for (size_t i = 0; i < SLOTS_MAX; i++) {
                struct slot *slot = &s->slots[i];

                if (slot->refresh != id)
                        continue;
                slot->refresh = 0;
                if (!why)
                        refreshed(s, slot->name);
                if (slot->state != CLIENT_SECRET)
                        continue;
                if (why)
                        tell_error(s, slot, "SPEC_INVALID", why);
                else {
                        tell(s, slot, &done, -1);
                        leave(slot);
                }
        }
}

static void on_event(struct supervisor *s, struct slot *slot, const struct run_msg *msg, const int *fds,
                     size_t n) {
        struct run_msg done = { .type = RUN_MSG_EXIT };
        AUTO_BLOCK struct block block = { 0 };

        if (n != 1 || msg->size.bytes > EVENT_MAX_BYTES || block_read(fds[0], &msg->size, &block) < 0 ||
            msg->size.argc != 2 || !events_pass(&s->record.events, block.argv[0], block.argv[1])) {
                tell_error(s, slot, "SPEC_INVALID", "that is no event of a client");
                return;
        }
        slot->state = CLIENT_TELL;
        tell(s, slot, &done, -1);
}

void commands_network_changed(struct supervisor *s, const char *why) {
        for (size_t i = 0; i < SLOTS_MAX; i++) {
                struct run_msg done = { .type = RUN_MSG_EXIT };

                if (s->slots[i].state != CLIENT_NET)
                        continue;
                if (why) {
                        tell_error(s, &s->slots[i], "SPEC_INVALID", why);
                        continue;
                }
                tell(s, &s->slots[i], &done, -1);
                leave(&s->slots[i]);
        }
}

/* The client is gone: its command too, and with the owner the run. */
static void on_gone(struct supervisor *s, struct slot *slot) {
        if (slot->state == CLIENT_OWNER) {
                s->over = true;
                s->final.code = 128 + SIGKILL;
                s->final.signal = SIGKILL;
                return;
        }
        drop(s, slot);
}

/* During post_create, before there is a command that could take it. */
static void on_early_signal(struct supervisor *s, int sig) {
        if (sig <= 0 || sig >= NSIG || sig == SIGCONT || sig == SIGSTOP)
                return;
        s->final.code = 128 + sig;
        s->final.signal = sig;
        supervisor_end(s, 0);
}

static void on_message(struct supervisor *s, struct slot *slot, const struct run_msg *msg, int *fds,
                       size_t n) {
        if (msg->type == RUN_MSG_EXEC && slot->state == CLIENT_NEW) {
                on_exec(s, slot, msg, fds, n);
        } else if (msg->type == RUN_MSG_LIST && slot->state == CLIENT_NEW) {
                on_list(s, slot);
        } else if (msg->type == RUN_MSG_NET && slot->state == CLIENT_NEW) {
                on_net(s, slot, msg, fds, n);
        } else if (msg->type == RUN_MSG_SECRET && slot->state == CLIENT_NEW) {
                on_secret(s, slot, msg, fds, n);
        } else if (msg->type == RUN_MSG_EVENT && (slot->state == CLIENT_NEW || slot->state == CLIENT_TELL)) {
                on_event(s, slot, msg, fds, n);
        } else if (msg->type == RUN_MSG_STOP && slot->state == CLIENT_NEW) {
                slot->state = CLIENT_STOP;
                supervisor_end(s, msg->code > 0 ? (uint64_t) msg->code * 1000 : 0);
        } else if (msg->type == RUN_MSG_READY && slot->state == CLIENT_OWNER && s->is_ready) {
                supervisor_let_go(s);
        } else if (msg->type == RUN_MSG_SIGNAL && slot->id != 0) {
                (void) s->args->driver->signal(s->sandbox, slot->id, msg->signal, msg->code == 1);
        } else if (msg->type == RUN_MSG_SIGNAL && slot->state == CLIENT_OWNER) {
                on_early_signal(s, msg->signal);
        } else if (msg->type == RUN_MSG_KILL && slot->state == CLIENT_EXEC && slot->id != 0) {
                (void) s->args->driver->signal(s->sandbox, slot->id, SIGKILL, true);
        } else {
                on_gone(s, slot);
        }
}

static void on_client(struct supervisor *s, struct slot *slot) {
        int fds[RUN_MSG_FDS_MAX];
        struct run_msg msg;
        size_t n = 0;
        int r;

        r = run_msg_recv_fds(slot->fd, &msg, fds, &n);
        if (r == -EAGAIN)
                return;
        if (r < 0)
                on_gone(s, slot);
        else
                on_message(s, slot, &msg, fds, n);
        while (n > 0)
                (void) fd_close(fds[--n]);
}

/* Makes room: whoever said nothing for longest has had its time. */
static void drop_silent(struct supervisor *s) {
        struct slot *oldest = NULL;

        for (size_t i = 0; i < SLOTS_MAX; i++)
                if (s->slots[i].state == CLIENT_NEW && (!oldest || s->slots[i].since_ns < oldest->since_ns))
                        oldest = &s->slots[i];
        if (oldest)
                leave(oldest);
}

static void on_connect(struct supervisor *s) {
        struct slot *slot;
        int fd;

        fd = control_accept(s->listen_fd);
        if (fd == -EMFILE || fd == -ENFILE) { /* or the socket would be ready for ever */
                drop_silent(s);
                s->spare_fd = fd_close(s->spare_fd);
                fd = control_accept(s->listen_fd);
                if (fd >= 0)
                        (void) fd_close(fd);
                s->spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
                return;
        }
        if (fd < 0)
                return;
        slot = commands_adopt(s, fd, CLIENT_NEW);
        if (!slot) {
                drop_silent(s);
                slot = commands_adopt(s, fd, CLIENT_NEW);
        }
        if (slot) {
                slot->since_ns = clock_ns();
        } else {
                struct slot full = { .fd = fd, .state = CLIENT_NEW };

                tell_error(s, &full, "SANDBOX_CAPACITY", "the run has too many clients: try again");
        }
}

size_t commands_poll(const struct supervisor *s, struct pollfd *fds) {
        size_t n = 0;

        fds[n++] = (struct pollfd){ .fd = s->listen_fd, .events = POLLIN };
        for (size_t i = 0; i < SLOTS_MAX; i++) {
                fds[n++] = (struct pollfd){ .fd = s->slots[i].fd, .events = POLLIN };
                output_poll(&s->slots[i].out, fds + n);
                n += OUTPUT_STREAMS;
        }
        return n;
}

/* A full disk: once for each command. */
static void tell_lost_output(struct supervisor *s, struct output *out) {
        char wanted[64];

        if (out->lost_errno <= 0)
                return;
        (void) snprintf(wanted, sizeof(wanted), "all output of command %" PRIu32 " in its log", out->id);
        events_emit(&s->record.events, "sandbox_degraded",
                    json_pack("{s:s,s:s,s:s}", "wanted", wanted, "got", "some of it", "reason",
                              strerror(out->lost_errno)));
        out->lost_errno = -1;
}

void commands_dispatch(struct supervisor *s, const struct pollfd *fds) {
        const struct pollfd *p = fds + 1;

        for (size_t i = 0; i < SLOTS_MAX; i++, p += 1 + OUTPUT_STREAMS) {
                if (p[0].revents && p[0].fd == s->slots[i].fd)
                        on_client(s, &s->slots[i]);
                output_dispatch(&s->slots[i].out, p + 1);
                tell_lost_output(s, &s->slots[i].out);
                if (s->slots[i].id == 0 && s->slots[i].out.log_fd >= 0 && !is_talking(&s->slots[i]))
                        output_close(&s->slots[i].out);
        }
        if (fds[0].revents)
                on_connect(s);
}

void commands_farewell(struct supervisor *s) {
        for (size_t i = 0; i < SLOTS_MAX; i++)
                if (s->slots[i].fd >= 0 && s->slots[i].state != CLIENT_OWNER)
                        tell(s, &s->slots[i], &s->final, -1);
}
