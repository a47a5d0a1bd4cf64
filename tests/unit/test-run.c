#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "runtime/base/fdpass.h"
#include "runtime/base/file.h"
#include "runtime/base/json.h"
#include "runtime/base/process.h"
#include "runtime/run/changes.h"
#include "runtime/run/events.h"
#include "runtime/run/message.h"
#include "runtime/run/state.h"
#include "runtime/run/terminal.h"

struct fixture {
        char dir[64];
        char state_dir[96];
        struct ctx ctx;
};

static int setup(void **state) {
        struct fixture *f = calloc(1, sizeof(*f));

        assert_non_null(f);
        (void) snprintf(f->dir, sizeof(f->dir), "/tmp/test-run-XXXXXX");
        assert_non_null(mkdtemp(f->dir));
        (void) snprintf(f->state_dir, sizeof(f->state_dir), "%s/a/b", f->dir);
        f->ctx = (struct ctx){ .uid = geteuid(), .gid = getegid(), .state_dir = f->state_dir };
        *state = f;
        return 0;
}

static int teardown(void **state) {
        struct fixture *f = *state;
        char path[160];

        for (const char *const *p = (const char *const[]){ "/a/b/runs", "/a/b", "/a", "", NULL }; *p; p++) {
                (void) snprintf(path, sizeof(path), "%s%s", f->dir, *p);
                (void) rmdir(path);
        }
        free(f);
        return 0;
}

static void run_dir_create_then_remove_leaves_nothing(void **state) {
        struct fixture *f = *state;
        AUTO_RUN_DIR struct run_dir dir = RUN_DIR_INIT;
        struct error err = { 0 };
        struct stat st;

        assert_int_equal(run_dir_create(&f->ctx, &dir, &err), 0);
        assert_int_equal(fstat(dir.fd, &st), 0);
        assert_int_equal(st.st_mode & 07777, 0700);
        /* what the work leaves: odd modes, links out, depth */
        assert_int_equal(mkdirat(dir.upper_fd, "0", 0700), 0);
        assert_int_equal(symlinkat("/", dir.upper_fd, "0/root"), 0);
        assert_int_equal(mkdirat(dir.upper_fd, "0/locked", 0700), 0);
        assert_int_equal(file_replace_at(dir.upper_fd, "x", "1", 1, 0400, false), 0);
        assert_int_equal(mkdirat(dir.upper_fd, "0/locked/in", 0000), 0);
        assert_int_equal(run_dir_remove(&dir), 0);
        assert_int_equal(fstatat(dir.runs_fd, dir.id, &st, AT_SYMLINK_NOFOLLOW), -1);
        assert_int_equal(access("/", F_OK), 0);
}

static void run_dir_open_finds_by_id_prefix_name_and_age(void **state) {
        struct fixture *f = *state;
        AUTO_RUN_DIR struct run_dir a = RUN_DIR_INIT, got = RUN_DIR_INIT;
        AUTO_JSON json_t *named = json_pack("{s:s}", "name", "build-1");
        char prefix[RUN_ID_LEN + 1];
        struct error err = { 0 };

        assert_int_equal(run_dir_open(&f->ctx, NULL, &got, &err), -ENOENT);
        assert_int_equal(run_dir_create(&f->ctx, &a, &err), 0);
        assert_int_equal(run_state_store(&a, named, true, &err), 0);
        (void) snprintf(prefix, sizeof(prefix), "%.6s", a.id);
        for (const char *const *id = (const char *const[]){ a.id, prefix, "build-1", NULL }; *id; id++) {
                assert_int_equal(run_dir_open(&f->ctx, *id, &got, &err), 0);
                assert_string_equal(got.id, a.id);
                run_dir_deinit(&got);
        }
        assert_int_equal(run_dir_open(&f->ctx, NULL, &got, &err), 0);
        run_dir_deinit(&got);
        for (const char *const *id = (const char *const[]){ "abc", "../runs", "", "build-2", "/", NULL }; *id;
             id++)
                assert_int_equal(run_dir_open(&f->ctx, *id, &got, &err), -ENOENT);
        assert_int_equal(run_dir_remove(&a), 0);
}

static void run_dir_create_refuses_foreign_places(void **state) {
        struct fixture *f = *state;
        AUTO_RUN_DIR struct run_dir dir = RUN_DIR_INIT;
        char path[160], target[160];
        struct error err = { 0 };

        f->ctx.state_dir = NULL;
        assert_int_equal(run_dir_create(&f->ctx, &dir, &err), -ENOENT);
        f->ctx.state_dir = "relative";
        assert_int_equal(run_dir_create(&f->ctx, &dir, &err), -EINVAL);
        /* a planted symlink in place of the state directory, and one that others may write */
        (void) snprintf(path, sizeof(path), "%s/link", f->dir);
        (void) snprintf(target, sizeof(target), "%s/open", f->dir);
        assert_int_equal(mkdir(target, 0700), 0);
        assert_int_equal(symlink("open", path), 0);
        f->ctx.state_dir = path;
        assert_int_equal(run_dir_create(&f->ctx, &dir, &err), -ENOTDIR);
        assert_int_equal(chmod(target, 0777), 0);
        f->ctx.state_dir = target;
        assert_int_equal(run_dir_create(&f->ctx, &dir, &err), -EPERM);
        assert_int_equal(unlink(path), 0);
        assert_int_equal(rmdir(target), 0);
}

static void run_dir_is_locked_while_it_lives(void **state) {
        struct fixture *f = *state;
        AUTO_RUN_DIR struct run_dir dir = RUN_DIR_INIT, other = RUN_DIR_INIT;
        struct error err = { 0 };

        assert_int_equal(run_dir_create(&f->ctx, &dir, &err), 0);
        assert_int_equal(run_dir_open(&f->ctx, dir.id, &other, &err), 0);
        assert_int_equal(flock(other.fd, LOCK_EX | LOCK_NB), -1);
        assert_int_equal(errno, EWOULDBLOCK);
        run_dir_deinit(&dir);
        assert_int_equal(flock(other.fd, LOCK_EX | LOCK_NB), 0);
        assert_int_equal(run_dir_remove(&other), 0);
}

static void run_bury_keeps_what_holds_something(void **state) {
        struct fixture *f = *state;
        AUTO_RUN_DIR struct run_dir dir = RUN_DIR_INIT;
        struct error err = { 0 };
        struct stat st;

        assert_int_equal(run_dir_create(&f->ctx, &dir, &err), 0);
        assert_int_equal(mkdirat(dir.upper_fd, "0", 0700), 0);
        assert_int_equal(mkdirat(dir.upper_fd, "1", 0700), 0);
        assert_int_equal(file_replace_at(dir.upper_fd, "1/held", "x", 1, 0600, false), 0);
        assert_false(run_bury(&dir, NULL));
        assert_int_equal(fstatat(dir.upper_fd, "1/held", &st, 0), 0);
        assert_int_equal(unlinkat(dir.upper_fd, "1/held", 0), 0);
        assert_true(run_bury(&dir, NULL));
        assert_int_equal(fstatat(dir.runs_fd, dir.id, &st, 0), -1);
        assert_true(run_bury(&dir, NULL)); /* the supervisor had removed it already */
}

static void a_zombie_has_no_start_time(void **state) {
        const pid_t pid = fork();
        uint64_t start = 0;
        siginfo_t info;

        (void) state;
        if (pid == 0)
                _exit(0);
        assert_true(pid > 0);
        assert_int_equal(waitid(P_PID, (id_t) pid, &info, WEXITED | WNOWAIT), 0);
        assert_int_equal(process_start_time(pid, &start), -ESRCH);
        assert_int_equal(waitpid(pid, NULL, 0), pid);
}

/* What the relay gives to the sandbox's side when the input is @text and then ends. */
static void relay_input(const char *text, char *ret, size_t size) {
        struct terminal *t = calloc(1, sizeof(*t));
        int in[2], pty[2];
        ssize_t n;

        assert_non_null(t);
        assert_int_equal(pipe2(in, O_CLOEXEC), 0);
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pty), 0);
        assert_int_equal(write(in[1], text, strlen(text)), (ssize_t) strlen(text));
        assert_int_equal(close(in[1]), 0);
        terminal_init(t, in[0], -1, pty[0]);
        for (int i = 0; i < 8; i++) {
                struct pollfd fds[3];

                (void) terminal_poll(t, fds);
                terminal_dispatch(t, fds, poll(fds, 3, 50) == 0);
        }
        n = recv(pty[1], ret, size - 1, MSG_DONTWAIT);
        ret[n > 0 ? n : 0] = '\0';
        /* the command's last words come out although nobody reads them, then its end */
        assert_true(terminal_holds(t));
        assert_int_equal(close(pty[1]), 0);
        terminal_finish(t);
        for (int i = 0; i < 4 && terminal_holds(t); i++) {
                struct pollfd fds[3];

                (void) terminal_poll(t, fds);
                terminal_dispatch(t, fds, poll(fds, 3, 50) == 0);
        }
        assert_false(terminal_holds(t));
        terminal_deinit(t);
        assert_int_equal(close(in[0]), 0);
        free(t);
}

static void terminal_says_that_the_input_ended(void **state) {
        static const struct {
                const char *text, *want;
        } cases[] = { { "", "\4" }, { "line\n", "line\n\4" }, { "open", "open\4\4" } };

        (void) state;
        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
                char got[64];

                relay_input(cases[i].text, got, sizeof(got));
                assert_string_equal(got, cases[i].want);
        }
}

/* After a reboot another process can have the number and the start time: red without the boot id. */
static void run_is_alive_wants_this_boot(void **state) {
        char boot[BOOT_ID_SIZE] = "";
        uint64_t start = 0;

        (void) state;
        assert_int_equal(process_start_time(getpid(), &start), 0);
        assert_int_equal(process_boot_id(boot), 0);
        assert_int_equal(strlen(boot), BOOT_ID_SIZE - 1);
        for (int i = 0; i < 2; i++) {
                AUTO_JSON json_t *s =
                        json_pack("{s:{s:i,s:I,s:s}}", "supervisor", "pid", (int) getpid(), "start_time",
                                  (json_int_t) start, "boot_id", i == 0 ? boot : "another");

                assert_int_equal(run_is_alive(s), i == 0);
        }
}

/* What a process leaves that is killed while it makes or removes a run; one that is being made is held. */
static void run_dir_sweep_spares_what_is_held(void **state) {
        struct fixture *f = *state;
        AUTO_RUN_DIR struct run_dir dir = RUN_DIR_INIT;
        struct stat st;
        AUTO_FD int held = -1;

        assert_int_equal(run_dir_create(&f->ctx, &dir, NULL), 0);
        assert_int_equal(mkdirat(dir.runs_fd, ".tmp-000000000001", 0700), 0);
        assert_int_equal(mkdirat(dir.runs_fd, ".tmp-000000000001/upper", 0700), 0);
        assert_int_equal(mkdirat(dir.runs_fd, ".tmp-000000000002", 0700), 0);
        held = openat(dir.runs_fd, ".tmp-000000000002", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        assert_int_equal(flock(held, LOCK_EX), 0);
        assert_int_equal(mkdirat(dir.runs_fd, "000000000003", 0700),
                         0); /* without an upper: removed in part */
        assert_int_equal(mkdirat(dir.runs_fd, "000000000003/work", 0), 0);
        run_dir_sweep(&f->ctx);
        assert_int_equal(fstatat(dir.runs_fd, "000000000003", &st, 0), -1);
        assert_int_equal(fstatat(dir.runs_fd, dir.id, &st, 0), 0);
        assert_int_equal(fstatat(dir.runs_fd, ".tmp-000000000001", &st, 0), -1);
        assert_int_equal(fstatat(dir.runs_fd, ".tmp-000000000002", &st, 0), 0);
        assert_int_equal(unlinkat(dir.runs_fd, ".tmp-000000000002", AT_REMOVEDIR), 0);
        assert_int_equal(run_dir_remove(&dir), 0);
}

static void run_is_alive_wants_pid_and_start_time(void **state) {
        uint64_t start = 0;

        (void) state;
        assert_int_equal(process_start_time(getpid(), &start), 0);
        for (int i = 0; i < 4; i++) {
                const bool right_start = i & 1, right_pid = i & 2;
                AUTO_JSON json_t *s =
                        json_pack("{s:{s:i,s:I}}", "supervisor", "pid", right_pid ? getpid() : 0x7ffffff0,
                                  "start_time", (json_int_t) start + !right_start);

                assert_int_equal(run_is_alive(s), right_start && right_pid);
        }
        assert_false(run_is_alive(NULL));
}

static void run_msg_recv_checks_what_arrives(void **state) {
        struct run_msg msg = { .type = RUN_MSG_EXIT, .code = 7 }, got = { 0 };
        int pair[2], fd = -1;

        (void) state;
        assert_int_equal(fdpass_pair(pair), 0);
        assert_int_equal(run_msg_send(pair[0], &msg, -1), 0);
        assert_int_equal(run_msg_recv(pair[1], &got, NULL), 0);
        assert_int_equal(got.code, 7);
        assert_int_equal(run_msg_send(pair[0], &msg, pair[0]), 0);
        assert_int_equal(run_msg_recv(pair[1], &got, &fd), 0);
        assert_true(fd >= 0);
        (void) close(fd);
        fd = -1;
        assert_int_equal(run_msg_send(pair[0], &msg, pair[0]), 0); /* a descriptor where none is wanted */
        assert_int_equal(run_msg_recv(pair[1], &got, NULL), -EMSGSIZE);
        msg.type = RUN_MSG_TYPE_COUNT;
        assert_int_equal(run_msg_send(pair[0], &msg, -1), 0);
        assert_int_equal(run_msg_recv(pair[1], &got, NULL), -EPROTO);
        msg.type = RUN_MSG_ERROR;
        memset(msg.text, 'x', sizeof(msg.text)); /* not terminated */
        assert_int_equal(run_msg_send(pair[0], &msg, -1), 0);
        assert_int_equal(run_msg_recv(pair[1], &got, NULL), -EPROTO);
        assert_int_equal(fdpass_send(pair[0], "short", 5, NULL, 0), 0);
        assert_int_equal(run_msg_recv(pair[1], &got, NULL), -EPROTO);
        (void) close(pair[0]);
        assert_int_equal(run_msg_recv(pair[1], &got, NULL), -ECONNRESET);
        (void) close(pair[1]);
}

/* What another process of the user may have written: nothing that the supervisor says, nothing that is no
 * line. */
static void events_pass_takes_lines_of_clients(void **state) {
        static const struct {
                const char *type, *json;
                bool taken;
        } rows[] = {
                { "tool_refused", "{}", true },
                { "llm_request", "{\"a\":\"\xc3\xa9\"}", true },
                { "sandbox_finished", "{}", false },
                { "exec_started", "{}", false },
                { "tool_refused\",\"x\":\"", "{}", false },
                { "", "{}", false },
                { "tool_refused", "", false },
                { "tool_refused", "[]", false },
                { "tool_refused", "{\n}", false },
                { "tool_refused", "{\"a\":\"\xff\"}", false },
                { "tool_refused", "{}}\n{\"seq\":9}", false },
        };
        char path[] = "/tmp/test-run-XXXXXX";
        AUTO_FD int fd = mkostemp(path, O_CLOEXEC | O_APPEND);
        struct events events = { .run_id = "0123456789ab", .file_fd = fd, .sink_fd = -1 };
        AUTO_FREE char *big = calloc(1, EVENT_MAX_BYTES + 1);
        AUTO_BUF struct buf text = { 0 };
        uint64_t taken = 0;

        (void) state;
        assert_true(fd >= 0 && big);
        (void) unlink(path);
        for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
                assert_int_equal(events_pass(&events, rows[i].type, rows[i].json), rows[i].taken);
                taken += rows[i].taken;
                assert_int_equal(events.seq, taken);
        }
        memset(big, ' ', EVENT_MAX_BYTES);
        big[0] = '{';
        big[EVENT_MAX_BYTES - 1] = '}';
        assert_false(events_pass(&events, "tool_refused", big));
        assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
        assert_int_equal(file_read(fd, EVENT_MAX_BYTES, &text), 0);
        assert_non_null(strstr(text.data, "\"type\":\"llm_request\",\"data\":{\"a\":\"\xc3\xa9\"}}\n"));
        events_deinit(&events);
}

static void events_emit_numbers_and_bounds_lines(void **state) {
        struct events events = { .run_id = "0123456789ab", .sink_fd = -1 };
        AUTO_FREE char *big = calloc(1, EVENT_MAX_BYTES + 1);
        AUTO_BUF struct buf text = { 0 };
        char path[] = "/tmp/test-events-XXXXXX";
        AUTO_FD int fd = mkstemp(path);
        char *line, *save = NULL;
        unsigned int n = 0;

        (void) state;
        assert_true(fd >= 0 && big);
        assert_int_equal(unlink(path), 0);
        events.file_fd = fd;
        memset(big, 'a', EVENT_MAX_BYTES);
        events_emit(&events, "one", NULL);
        events_emit(&events, "two", json_pack("{s:o}", "path", json_from_bytes("a\n\xff", 100)));
        events_emit(&events, "three", json_pack("{s:s}", "big", big));
        assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
        assert_int_equal(file_read(fd, 1 << 20, &text), 0);
        for (line = strtok_r(text.data, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
                AUTO_JSON json_t *event = json_loads(line, 0, NULL);

                assert_non_null(event);
                assert_int_equal(json_integer_value(json_object_get(event, "seq")), ++n);
                assert_true(strlen(line) < EVENT_MAX_BYTES);
        }
        assert_int_equal(n, 3);
}

int main(void) {
        static const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(run_dir_create_then_remove_leaves_nothing, setup, teardown),
                cmocka_unit_test_setup_teardown(run_dir_open_finds_by_id_prefix_name_and_age, setup,
                                                teardown),
                cmocka_unit_test_setup_teardown(run_dir_create_refuses_foreign_places, setup, teardown),
                cmocka_unit_test_setup_teardown(run_dir_is_locked_while_it_lives, setup, teardown),
                cmocka_unit_test_setup_teardown(run_bury_keeps_what_holds_something, setup, teardown),
                cmocka_unit_test(a_zombie_has_no_start_time),
                cmocka_unit_test(terminal_says_that_the_input_ended),
                cmocka_unit_test(run_is_alive_wants_pid_and_start_time),
                cmocka_unit_test(run_is_alive_wants_this_boot),
                cmocka_unit_test_setup_teardown(run_dir_sweep_spares_what_is_held, setup, teardown),
                cmocka_unit_test(run_msg_recv_checks_what_arrives),
                cmocka_unit_test(events_emit_numbers_and_bounds_lines),
                cmocka_unit_test(events_pass_takes_lines_of_clients),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
