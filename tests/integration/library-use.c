/*
 * A program with threads, descriptors, signals and a umask of its own that uses libcofferdam: library.sh says
 * which test and what for. Compiled against the installed library. Prints nothing itself unless it fails.
 *
 *      library-use TEST PROGRAM STATE_DIR WORKSPACE
 */
#include <cofferdam.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static const char *program, *state_dir, *workspace;

#define CHECK(c, what)                               \
        do                                           \
                if (!(what))                         \
                        give_up(c, __LINE__, #what); \
        while (0)

static void give_up(const struct cofferdam *c, int line, const char *what) {
        dprintf(2, "library-use.c:%d: %s; last error: %s [%s]\n", line, what, c ? cofferdam_error(c) : "",
                c ? cofferdam_failure_code(c) : "");
        _exit(1);
}

/* ---- what most tests need ---- */

static struct cofferdam *context(void) {
        struct cofferdam *c = NULL;

        CHECK(NULL, cofferdam_new_from_environment(&c) == 0);
        CHECK(c, cofferdam_set(c, "program", program) == 0);
        CHECK(c, cofferdam_set(c, "state-dir", state_dir) == 0);
        return c;
}

static struct cofferdam_spec *specification(struct cofferdam *c, const char *text) {
        struct cofferdam_spec *spec = NULL;

        CHECK(c, cofferdam_spec_new(c, &spec) == 0);
        CHECK(c, cofferdam_spec_set(spec, "workspace.source", workspace) == 0);
        if (text)
                CHECK(c, cofferdam_spec_text(spec, "test.yaml", text) == 0);
        return spec;
}

static struct cofferdam_run *started(struct cofferdam *c, const char *text) {
        struct cofferdam_spec *spec = specification(c, text);
        struct cofferdam_run *run = NULL;

        CHECK(c, cofferdam_start(c, spec, -1, &run) == 0);
        cofferdam_spec_free(spec);
        return run;
}

static void done(struct cofferdam *c, struct cofferdam_run *run) {
        CHECK(c, cofferdam_stop(run, 0) == 0);
        CHECK(c, cofferdam_remove(run, 1) == 0);
        cofferdam_run_close(run);
        cofferdam_free(c);
}

static struct cofferdam_command *shell(struct cofferdam *c, const char *line) {
        const char *const argv[] = { "sh", "-c", line, NULL };
        struct cofferdam_command *command = NULL;

        CHECK(c, cofferdam_command_new(c, argv, &command) == 0);
        return command;
}

/* Reads @fd to its end and closes it. */
static void read_all(int fd, char *ret, size_t size) {
        size_t len = 0;
        ssize_t n;

        while (len + 1 < size && ((n = read(fd, ret + len, size - 1 - len)) > 0 || (n < 0 && errno == EINTR)))
                len += n > 0 ? (size_t) n : 0;
        ret[len] = '\0';
        close(fd);
}

/* Runs @command, of a run that was started or with a run of its own. */
static struct cofferdam_result finish(struct cofferdam *c, struct cofferdam_run *run,
                                      struct cofferdam_spec *spec, struct cofferdam_command *command,
                                      char *out, size_t size) {
        struct cofferdam_result result = { .size = sizeof(result) };
        struct cofferdam_exec *exec = NULL;
        int pipe_fds[2];

        CHECK(c, pipe2(pipe_fds, O_CLOEXEC) == 0);
        CHECK(c, cofferdam_command_stdio(command, 1, pipe_fds[1]) == 0);
        CHECK(c, cofferdam_command_stdio(command, 2, pipe_fds[1]) == 0);
        if (run)
                CHECK(c, cofferdam_exec(run, command, &exec) == 0);
        else
                CHECK(c, cofferdam_run_command(c, spec, command, &exec) == 0);
        close(pipe_fds[1]);
        read_all(pipe_fds[0], out, size);
        CHECK(c, cofferdam_exec_wait(exec, 60000, &result) == 0);
        cofferdam_exec_free(exec);
        cofferdam_command_free(command);
        return result;
}

static struct cofferdam_result in_run(struct cofferdam *c, struct cofferdam_run *run, const char *line,
                                      char *out, size_t size) {
        return finish(c, run, NULL, shell(c, line), out, size);
}

/* ---- tests ---- */

enum { THREADS = 20, OWN_FDS = 100 };

static void *one_run(void *arg) {
        struct cofferdam *c = context();
        struct cofferdam_spec *spec = specification(c, NULL);
        struct cofferdam_result result;
        char line[64], out[64], want[64];

        snprintf(line, sizeof(line), "echo thread %d; exit %d", *(int *) arg, *(int *) arg);
        snprintf(want, sizeof(want), "thread %d\n", *(int *) arg);
        result = finish(c, NULL, spec, shell(c, line), out, sizeof(out));
        CHECK(c, strcmp(out, want) == 0);
        CHECK(c, result.exit_code == *(int *) arg && !result.failure_code[0]);
        cofferdam_spec_free(spec);
        cofferdam_free(c);
        return NULL;
}

static volatile bool churning = true;

/* Holds every lock of libc that a child of fork(2) could need, most of the time. */
static void *churn(void *arg) {
        (void) arg;
        while (churning) {
                time_t now = time(NULL);
                struct tm tm;
                FILE *f = fopen("/dev/null", "w");

                (void) localtime_r(&now, &tm);
                for (int i = 0; f && i < 100; i++)
                        free(malloc(1000 + (size_t) i * 1000));
                if (f)
                        fclose(f);
        }
        return NULL;
}

static void test_threads(void) {
        pthread_t threads[THREADS], busy;
        int numbers[THREADS];

        CHECK(NULL, pthread_create(&busy, NULL, churn, NULL) == 0);
        for (int i = 0; i < THREADS; i++) {
                numbers[i] = i + 1;
                CHECK(NULL, pthread_create(&threads[i], NULL, one_run, &numbers[i]) == 0);
        }
        for (int i = 0; i < THREADS; i++)
                pthread_join(threads[i], NULL);
        churning = false;
        pthread_join(busy, NULL);
}

/* How many are open. */
static int count_fds(void) {
        int n = 0;

        for (int fd = 0; fd < 1000; fd++)
                n += fcntl(fd, F_GETFD) >= 0;
        return n;
}

/* Descriptors that would survive an exec: no process of a run may have one. */
static void test_descriptors(void) {
        struct cofferdam *c = context();
        struct cofferdam_spec *spec = specification(c, NULL);
        struct cofferdam_run *run;
        struct pollfd end;
        char out[4096], byte;
        int fds[OWN_FDS], pipe_fds[2], before = count_fds();

        CHECK(c, pipe(pipe_fds) == 0);
        for (int i = 0; i < OWN_FDS; i++)
                fds[i] = dup(pipe_fds[1]);
        run = started(c, NULL);
        in_run(c, run, "ls /proc/self/fd | tr '\\n' ' '", out, sizeof(out));
        CHECK(c, strcmp(out, "0 1 2 3 ") == 0); /* 3 is the directory that ls reads */
        finish(c, NULL, spec, shell(c, "ls /proc/self/fd | tr '\\n' ' '"), out, sizeof(out));
        CHECK(c, strcmp(out, "0 1 2 3 ") == 0);
        close(pipe_fds[1]);
        for (int i = 0; i < OWN_FDS; i++)
                close(fds[i]);
        end = (struct pollfd){ .fd = pipe_fds[0], .events = POLLIN };
        CHECK(c, poll(&end, 1, 0) == 1 && read(pipe_fds[0], &byte, 1) == 0); /* and nobody else had it */
        cofferdam_spec_free(spec);
        done(c, run);
        close(pipe_fds[0]);
        CHECK(NULL, count_fds() == before); /* nor does the library keep any */
}

/** struct surroundings - of the process, which the library leaves alone */
struct surroundings {
        sigset_t mask;
        void (*actions[65])(int);
        int flags[65];
        char cwd[4096], environment[65536];
        mode_t mask_of_files;
};

static void look(struct surroundings *s) {
        extern char **environ;
        struct sigaction action;
        size_t len = 0;

        memset(s, 0, sizeof(*s));
        pthread_sigmask(SIG_SETMASK, NULL, &s->mask);
        for (int sig = 1; sig < 65; sig++)
                if (sigaction(sig, NULL, &action) == 0) {
                        s->actions[sig] = action.sa_handler;
                        s->flags[sig] = action.sa_flags;
                }
        CHECK(NULL, getcwd(s->cwd, sizeof(s->cwd)));
        s->mask_of_files = umask(0);
        umask(s->mask_of_files);
        for (char **e = environ; *e && len < sizeof(s->environment); e++)
                len += (size_t) snprintf(s->environment + len, sizeof(s->environment) - len, "%s\n", *e);
}

static volatile sig_atomic_t children;

static void on_child(int sig) {
        (void) sig;
        children++;
}

static void test_surroundings(void) {
        struct surroundings *before = calloc(1, sizeof(*before)), *after = calloc(1, sizeof(*after));
        struct cofferdam *c = context();
        struct cofferdam_run *run;
        char out[4096], *text;
        sigset_t set;

        umask(077);
        signal(SIGPIPE, SIG_IGN);
        signal(SIGUSR1, SIG_IGN);
        signal(SIGCHLD, on_child);
        sigemptyset(&set);
        sigaddset(&set, SIGTERM);
        sigaddset(&set, SIGUSR2);
        pthread_sigmask(SIG_BLOCK, &set, NULL);
        look(before);
        run = started(c, NULL);
        in_run(c, run, "umask; grep -E 'Sig(Blk|Ign)' /proc/self/status | tr -d '\\n'", out, sizeof(out));
        CHECK(c, strcmp(out, "0022\nSigBlk:\t0000000000000000SigIgn:\t0000000000000000") == 0);
        CHECK(c, cofferdam_inspect(run, &text) == 0);
        free(text);
        CHECK(c, cofferdam_gc(c) >= 0);
        CHECK(c, waitpid(-1, NULL, WNOHANG) < 0 && errno == ECHILD); /* it left no child */
        done(c, run);
        look(after);
        CHECK(NULL, memcmp(before, after, sizeof(*before)) == 0);
        signal(SIGCHLD, SIG_IGN); /* children that nobody can wait for */
        c = context();
        done(c, started(c, NULL));
        free(before);
        free(after);
}

/* What the run "walls" shows a command of this process, which is as odd as it can be; and one of its own. */
static void test_walls(void) {
        struct cofferdam *c = context();
        struct cofferdam_spec *spec = specification(c, NULL);
        struct cofferdam_run *run = NULL;
        char out[16384];
        sigset_t set;

        umask(077);
        signal(SIGPIPE, SIG_IGN);
        signal(SIGINT, SIG_IGN);
        sigfillset(&set);
        pthread_sigmask(SIG_BLOCK, &set, NULL);
        for (int i = 0; i < OWN_FDS; i++)
                CHECK(c, dup(0) >= 0);
        CHECK(c, cofferdam_open(c, "walls", &run) == 0);
        in_run(c, run, "exec sh look.sh", out, sizeof(out));
        dprintf(1, "%s", out);
        finish(c, NULL, spec, shell(c, "exec sh look.sh"), out, sizeof(out));
        dprintf(1, "%s", out);
        cofferdam_spec_free(spec);
        cofferdam_run_close(run);
        cofferdam_free(c);
}

static void *reap_everything(void *arg) {
        (void) arg;
        while (churning)
                if (waitpid(-1, NULL, 0) < 0)
                        usleep(100);
        return NULL;
}

/* A caller that waits for every child there is. */
static void test_reaper(void) {
        struct cofferdam *c = context();
        pthread_t reaper;
        char out[64];

        CHECK(c, pthread_create(&reaper, NULL, reap_everything, NULL) == 0);
        for (int i = 0; i < 5; i++) {
                struct cofferdam_spec *spec = specification(c, NULL);

                CHECK(c, finish(c, NULL, spec, shell(c, "exit 4"), out, sizeof(out)).exit_code == 4);
                cofferdam_spec_free(spec);
        }
        churning = false;
        pthread_join(reaper, NULL);
        cofferdam_free(c);
}

/* Nothing is taken from the environment of the process: library.sh gives it one that would be seen. */
static void test_values(void) {
        struct cofferdam *c = NULL;
        struct cofferdam_run *run;
        char out[4096];

        CHECK(NULL, cofferdam_new(&c) == 0);
        CHECK(c, cofferdam_set(c, "program", program) == 0);
        CHECK(c, cofferdam_set(c, "state-dir", state_dir) == 0);
        CHECK(c, cofferdam_set(c, "home", "/nonexistent") == 0);
        CHECK(c, cofferdam_set(c, "env", "PATH=/usr/bin") == 0);
        CHECK(c, cofferdam_set(c, "env", "PATH=/usr/bin:/bin") == 0);
        CHECK(c, cofferdam_set(c, "env", "HANDED=over") == 0);
        run = started(c, "env: [ HANDED, LEAKED ]\n");
        in_run(c, run, "echo $HANDED,$LEAKED", out, sizeof(out));
        CHECK(c, strcmp(out, "over,\n") == 0);
        CHECK(c, cofferdam_set(c, "home", "relative") == -EINVAL);
        CHECK(c, cofferdam_set(c, "env", "NOVALUE") == -EINVAL);
        CHECK(c, cofferdam_set(c, "nothing", "x") == -EINVAL);
        done(c, run);
}

static void test_commands(void) {
        const char *const missing[] = { "no-such-command", NULL }, *const none[] = { NULL };
        struct cofferdam *c = context();
        struct cofferdam_run *run = started(c, NULL), *again = NULL;
        struct cofferdam_command *command = NULL;
        struct cofferdam_exec *exec = NULL;
        struct cofferdam_result result = { .size = sizeof(result) };
        char out[4096];

        CHECK(c, in_run(c, run, "exit 7", out, sizeof(out)).exit_code == 7);
        result = in_run(c, run, "kill -KILL $$", out, sizeof(out));
        CHECK(c, result.exit_code == 137 && result.signal == SIGKILL);
        CHECK(c, cofferdam_command_new(c, missing, &command) == 0);
        result = finish(c, run, NULL, command, out, sizeof(out));
        CHECK(c, result.exit_code == 127 && result.exec_errno == ENOENT);
        CHECK(c, cofferdam_command_new(c, none, &command) == -EINVAL);
        command = shell(c, "echo $A; pwd; [ -t 0 ] || cat");
        CHECK(c, cofferdam_command_env(command, "A=b") == 0);
        CHECK(c, cofferdam_command_cwd(command, "/tmp") == 0);
        CHECK(c, cofferdam_command_cwd(command, "tmp") == -EINVAL);
        CHECK(c, cofferdam_command_stdio(command, 3, 0) == -EINVAL);
        finish(c, run, NULL, command, out, sizeof(out));
        CHECK(c, strcmp(out, "b\n/tmp\n") == 0);
        /* a wait that is too short, a signal, a wait that is not; and by the name of the run */
        CHECK(c, cofferdam_open(c, cofferdam_run_id(run), &again) == 0);
        command = shell(c, "trap 'exit 9' TERM; sleep 60 & wait");
        CHECK(c, cofferdam_exec(again, command, &exec) == 0);
        CHECK(c, cofferdam_exec_started(exec, 30000) == 0 && cofferdam_exec_number(exec) > 0);
        CHECK(c, strcmp(cofferdam_exec_run_id(exec), cofferdam_run_id(run)) == 0);
        CHECK(c, cofferdam_exec_wait(exec, 100, &result) == -ETIMEDOUT);
        CHECK(c, cofferdam_exec_signal(exec, SIGTERM, 1) == 0);
        CHECK(c, cofferdam_exec_wait(exec, 30000, &result) == 0);
        CHECK(c, result.exit_code == 9 || result.signal == SIGTERM);
        CHECK(c, cofferdam_exec_signal(exec, SIGTERM, 1) == -ESRCH);
        cofferdam_exec_free(exec);
        cofferdam_command_free(command);
        cofferdam_run_close(again);
        done(c, run);
}

/* A result of an older or newer caller: nothing is written beyond what it has. */
static void test_sizes(void) {
        struct {
                struct cofferdam_result result;
                char guard[64];
        } small, large;
        struct cofferdam *c = context();
        struct cofferdam_run *run = started(c, NULL);
        struct cofferdam_command *command = shell(c, "exit 3");
        struct cofferdam_exec *exec = NULL;

        memset(&small, 'x', sizeof(small));
        small.result.size = offsetof(struct cofferdam_result, oom);
        memset(&large, 'x', sizeof(large));
        large.result.size = sizeof(large);
        CHECK(c, cofferdam_exec(run, command, &exec) == 0);
        CHECK(c, cofferdam_exec_wait(exec, 30000, &small.result) == 0);
        CHECK(c, small.result.exit_code == 3 && small.result.oom == 0x78787878);
        CHECK(c, cofferdam_exec_wait(exec, 30000, &large.result) == 0); /* the result stays */
        CHECK(c, large.result.exit_code == 3 && large.guard[0] == 'x');
        cofferdam_exec_free(exec);
        cofferdam_command_free(command);
        done(c, run);
}

static void test_terminal(void) {
        struct cofferdam *c = context();
        struct cofferdam_run *run = started(c, NULL);
        struct cofferdam_command *command = shell(c, "stty size; tty; read x; echo got $x");
        struct cofferdam_result result = { .size = sizeof(result) };
        struct cofferdam_exec *exec = NULL;
        char out[4096];
        int pty;

        CHECK(c, cofferdam_command_tty(command, 33, 77) == 0);
        CHECK(c, cofferdam_command_tty(command, 70000, 77) == -EINVAL);
        for (int own = 0; own < 2; own++) { /* in the run, and in one of its own */
                struct cofferdam_spec *spec = specification(c, NULL);

                CHECK(c, (own ? cofferdam_run_command(c, spec, command, &exec)
                              : cofferdam_exec(run, command, &exec)) == 0);
                CHECK(c, cofferdam_exec_started(exec, 30000) == 0);
                pty = cofferdam_exec_pty(exec);
                CHECK(c, pty >= 0 && (fcntl(pty, F_GETFD) & FD_CLOEXEC));
                CHECK(c, write(pty, "word\n", 5) == 5);
                CHECK(c, cofferdam_exec_wait(exec, 30000, &result) == 0 && result.exit_code == 0);
                read_all(dup(pty), out, sizeof(out));
                CHECK(c, strstr(out, "33 77") && strstr(out, "/dev/pts/") && strstr(out, "got word"));
                cofferdam_exec_free(exec);
                cofferdam_spec_free(spec);
        }
        cofferdam_command_free(command);
        done(c, run);
}

/* Files of the host reach the command as pipes, and arrive whole. */
static void test_files(void) {
        struct cofferdam *c = context();
        struct cofferdam_run *run = started(c, NULL);
        struct cofferdam_spec *spec = specification(c, NULL);
        struct cofferdam_result result = { .size = sizeof(result) };
        struct cofferdam_exec *exec = NULL;
        struct stat st;

        for (int own = 0; own < 2; own++) {
                struct cofferdam_command *command = shell(
                        c, "[ -p /dev/stdin ] && [ -p /dev/stdout ] && cat && head -c 3000000 /dev/zero");
                FILE *in = tmpfile(), *out = tmpfile();

                fputs("from a file", in);
                fflush(in);
                rewind(in);
                CHECK(c, cofferdam_command_stdio(command, 0, fileno(in)) == 0);
                CHECK(c, cofferdam_command_stdio(command, 1, fileno(out)) == 0);
                CHECK(c, (own ? cofferdam_run_command(c, spec, command, &exec)
                              : cofferdam_exec(run, command, &exec)) == 0);
                CHECK(c, cofferdam_exec_wait(exec, 60000, &result) == 0 && result.exit_code == 0);
                CHECK(c, fstat(fileno(out), &st) == 0 && st.st_size == 3000011);
                cofferdam_exec_free(exec);
                cofferdam_command_free(command);
                fclose(in);
                fclose(out);
        }
        cofferdam_spec_free(spec);
        done(c, run);
}

/* Freeing a command kills it; and a run that is the command's ends with it, also when it is being built. */
static void test_free(void) {
        struct cofferdam *c = context();
        struct cofferdam_run *run = started(c, NULL);
        struct cofferdam_spec *spec = specification(c, NULL);
        struct cofferdam_command *command = shell(c, "exec sleep 4321");
        struct cofferdam_exec *exec = NULL;
        char out[64];

        CHECK(c, cofferdam_exec(run, command, &exec) == 0);
        CHECK(c, cofferdam_exec_started(exec, 30000) == 0);
        cofferdam_exec_free(exec);
        for (int i = 0; i < 100 && in_run(c, run, "pgrep -x sleep", out, sizeof(out)).exit_code == 0; i++)
                usleep(50000);
        CHECK(c, in_run(c, run, "pgrep -x sleep", out, sizeof(out)).exit_code == 1);
        CHECK(c, cofferdam_run_command(c, spec, command, &exec) == 0);
        CHECK(c, cofferdam_exec_started(exec, 30000) == 0);
        cofferdam_exec_free(exec);
        CHECK(c, cofferdam_run_command(c, spec, command, &exec) == 0);
        cofferdam_exec_free(exec);
        cofferdam_command_free(command);
        cofferdam_spec_free(spec);
        done(c, run);
}

/* The process that passes things on for a run of its own is killed: the caller hears of it. */
static void test_lost(void) {
        struct cofferdam *c = context();
        struct cofferdam_spec *spec = specification(c, NULL);
        struct cofferdam_command *command = shell(c, "exec sleep 4323");
        struct cofferdam_result result = { .size = sizeof(result) };
        struct cofferdam_exec *exec = NULL;
        char pid[64] = "", line[128];
        FILE *f;

        CHECK(c, cofferdam_run_command(c, spec, command, &exec) == 0);
        CHECK(c, cofferdam_exec_started(exec, 30000) == 0);
        /* of the two of that name the one that is not the supervisor, whose children the other has */
        snprintf(line, sizeof(line), "pgrep -o -f '^%.80s @library'", program);
        f = popen(line, "r");
        CHECK(c, f && fgets(pid, sizeof(pid), f) && atoi(pid) > 1);
        pclose(f);
        CHECK(c, kill(atoi(pid), SIGKILL) == 0);
        CHECK(c, cofferdam_exec_wait(exec, 20000, &result) == -ECONNRESET);
        CHECK(c, strcmp(cofferdam_failure_code(c), "SANDBOX_DRIVER_UNAVAILABLE") == 0);
        cofferdam_exec_free(exec);
        cofferdam_command_free(command);
        cofferdam_spec_free(spec);
        cofferdam_free(c);
}

/* Takes every descriptor there is, once the sandbox is being built. */
static void *starve(void *arg) {
        int *count = arg;

        usleep(500000);
        while (open("/dev/null", O_RDONLY | O_CLOEXEC) >= 0)
                ++*count;
        return NULL;
}

static int count_one(const struct cofferdam_info *info, void *arg) {
        if (info->size < sizeof(*info) || strlen(info->id) != 12 || info->created_ns <= 0)
                return -1;
        if (strcmp(info->status, "running") == 0 && info->exit_code != -1)
                return -2;
        ++*(int *) arg;
        return 0;
}

/* The run was built, but the caller cannot have it: it ends. Red when cli/library.c does not wait for an
 * answer. */
static void test_starved(void) {
        struct cofferdam *c = context();
        struct cofferdam_spec *spec = specification(c, "post_create: sleep 2\n");
        struct cofferdam_run *run = NULL;
        const int own = count_fds();
        pthread_t thread;
        int n = 0;

        CHECK(c, pthread_create(&thread, NULL, starve, &n) == 0);
        CHECK(c, cofferdam_start(c, spec, -1, &run) == -EMFILE);
        pthread_join(thread, NULL);
        CHECK(c, n > 0 && !run);
        closefrom(own);
        for (int i = 0; i < 100; i++) {
                n = 0;
                CHECK(c, cofferdam_list(c, 0, count_one, &n) == 0);
                if (n == 0)
                        break;
                usleep(50000);
        }
        CHECK(c, n == 0);
        cofferdam_spec_free(spec);
        cofferdam_free(c);
}

static int last_event(const struct cofferdam_event *event, void *arg) {
        char *type = arg;

        snprintf(type, 64, "%s", event->type);
        return strcmp(event->type, "exec_started") == 0 ? 17 : 0;
}

static int any_event(const struct cofferdam_event *event, void *arg) {
        snprintf(arg, 64, "%s", event->type);
        return event->json[0] == '{' && event->json[strlen(event->json) - 1] == '}' ? 0 : -1;
}

static void *stop_soon(void *arg) {
        struct cofferdam *c = context();
        struct cofferdam_run *run = NULL;

        usleep(300000);
        CHECK(c, cofferdam_open(c, arg, &run) == 0);
        CHECK(c, cofferdam_stop(run, 0) == 0);
        cofferdam_run_close(run);
        cofferdam_free(c);
        return NULL;
}

static void test_reports(void) {
        static const char *const types[] = { "exec_finished", "sandbox_finished", NULL };
        struct cofferdam *c = context();
        struct cofferdam_run *run = started(c, NULL);
        char out[64], type[64] = "", *text = NULL;
        pthread_t stopper;
        int n = 0;

        CHECK(c, in_run(c, run, "true", out, sizeof(out)).exit_code == 0);
        CHECK(c, cofferdam_list(c, 0, count_one, &n) == 0 && n == 1);
        CHECK(c, cofferdam_inspect(run, &text) == 0 && strstr(text, cofferdam_run_id(run)));
        free(text);
        CHECK(c, cofferdam_doctor(c, &text) >= 0 && text[0] == '{');
        free(text);
        CHECK(c,
              cofferdam_events(run, 0, 0, NULL, last_event, type) == 17 && strcmp(type, "exec_started") == 0);
        CHECK(c,
              cofferdam_events(run, 0, 0, types, any_event, type) == 0 && strcmp(type, "exec_finished") == 0);
        type[0] = '\0';
        CHECK(c, cofferdam_events(run, 1000, 0, NULL, any_event, type) == 0 && !type[0]);
        CHECK(c, cofferdam_remove(run, 0) == -EBUSY && strstr(cofferdam_error(c), "lives"));
        CHECK(c, pthread_create(&stopper, NULL, stop_soon, (char *) (uintptr_t) cofferdam_run_id(run)) == 0);
        CHECK(c, cofferdam_events(run, 0, 1, NULL, any_event, type) == 0);
        CHECK(c, strcmp(type, "sandbox_finished") == 0); /* followed to the end */
        pthread_join(stopper, NULL);
        CHECK(c, cofferdam_remove(run, 0) == 0);
        n = 0;
        CHECK(c, cofferdam_list(c, 1, count_one, &n) == 0 && n == 0);
        cofferdam_run_close(run);
        cofferdam_free(c);
}

static int on_change(const struct cofferdam_change *change, void *arg) {
        char *list = arg;
        const size_t len = strlen(list);

        snprintf(list + len, 4096 - len, "%c%s ", change->kind, change->path);
        return change->size >= sizeof(*change) && change->json[0] == '{' ? 0 : -1;
}

static void test_changes(void) {
        const char *const one[] = { "b", NULL }, *const none[] = { NULL };
        struct cofferdam *c = context();
        struct cofferdam_run *run = started(c, "workspace: { mode: cow }\nkeep: true\n");
        char out[64], list[4096] = "", path[4096];

        CHECK(c,
              in_run(c, run, "echo 1 >a; mkdir b; echo 2 >b/c; echo 3 >d", out, sizeof(out)).exit_code == 0);
        CHECK(c, cofferdam_apply(run, 0, NULL, NULL, NULL) < 0 && strstr(cofferdam_error(c), "alive"));
        CHECK(c, cofferdam_stop(run, 0) == 0);
        CHECK(c, cofferdam_diff(run, NULL, on_change, list) == 0);
        CHECK(c, strstr(list, "Aa ") && strstr(list, "Ab/c ") && strstr(list, "Ad "));
        list[0] = '\0';
        CHECK(c, cofferdam_apply(run, 0, one, on_change, list) == 0 && strstr(list, "Ab/c "));
        snprintf(path, sizeof(path), "%s/b/c", workspace);
        CHECK(c, access(path, F_OK) == 0);
        snprintf(path, sizeof(path), "%s/a", workspace);
        CHECK(c, access(path, F_OK) < 0);
        CHECK(c, cofferdam_discard(run, none) == -EINVAL); /* not the same as everything */
        CHECK(c, cofferdam_discard(run, (const char *const[]){ "d", NULL }) == 0);
        CHECK(c, close(open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644)) ==
                         0); /* the host has an a of its own now */
        list[0] = '\0';
        CHECK(c, cofferdam_diff(run, NULL, on_change, list) == 1 && !strstr(list, "Ad "));
        CHECK(c, cofferdam_apply(run, 0, NULL, NULL, NULL) == 1);
        CHECK(c, cofferdam_apply(run, COFFERDAM_APPLY_FORCE, NULL, NULL, NULL) == 0);
        CHECK(c, cofferdam_discard(run, NULL) == 0);
        cofferdam_run_close(run);
        CHECK(c, cofferdam_open(c, "nothing-of-that-name", &run) == -ENOENT);
        cofferdam_free(c);
}

/* What has no function of its own: a report, and one that goes on until it is freed. */
static void test_verbs(void) {
        const char *const list[] = { "ps", "-q", NULL }, *const follow[] = { "events", "-f", NULL, NULL },
                          *const wrong[] = { "nonsense", NULL };
        const char *events[4] = { follow[0], follow[1] };
        struct cofferdam *c = context();
        struct cofferdam_run *run = started(c, NULL);
        struct cofferdam_command *command = NULL;
        struct cofferdam_result result = { .size = sizeof(result) };
        struct cofferdam_exec *exec = NULL;
        struct pollfd end;
        char out[4096];
        int pipe_fds[2];

        for (int i = 0; i < 2; i++) {
                CHECK(c, cofferdam_command_new(c, i == 0 ? list : wrong, &command) == 0);
                CHECK(c, pipe2(pipe_fds, O_CLOEXEC) == 0);
                CHECK(c, cofferdam_command_stdio(command, 1, pipe_fds[1]) == 0);
                CHECK(c, cofferdam_verb(c, command, &exec) == 0);
                close(pipe_fds[1]);
                read_all(pipe_fds[0], out, sizeof(out));
                CHECK(c, cofferdam_exec_wait(exec, 30000, &result) == 0 && result.exit_code == 2 * i);
                CHECK(c, (strncmp(out, cofferdam_run_id(run), 12) == 0) == (i == 0));
                cofferdam_exec_free(exec);
                cofferdam_command_free(command);
        }
        events[2] = cofferdam_run_id(run);
        CHECK(c, cofferdam_command_new(c, events, &command) == 0);
        CHECK(c, pipe2(pipe_fds, O_CLOEXEC) == 0);
        CHECK(c, cofferdam_command_stdio(command, 1, pipe_fds[1]) == 0);
        CHECK(c, cofferdam_verb(c, command, &exec) == 0);
        CHECK(c, cofferdam_exec_wait(exec, 300, &result) == -ETIMEDOUT);
        CHECK(c, read(pipe_fds[0], out, sizeof(out)) > 0);
        cofferdam_exec_free(exec);
        close(pipe_fds[1]);
        end = (struct pollfd){ .fd = pipe_fds[0], .events = POLLIN };
        CHECK(c, poll(&end, 1, 10000) == 1 && !(end.revents & POLLIN)); /* nobody writes any more */
        close(pipe_fds[0]);
        CHECK(c, cofferdam_command_detach(command) == 0 && cofferdam_verb(c, command, &exec) == -EINVAL);
        cofferdam_command_free(command);
        done(c, run);
}

static void test_mistakes(void) {
        struct cofferdam *c = context();
        struct cofferdam_spec *spec = specification(c, NULL), *other = specification(c, NULL);
        struct cofferdam_run *run = NULL;
        char *text = NULL;

        CHECK(c, cofferdam_spec_text(spec, "bad.yaml", "a: 1\nnetwork: [") == -EINVAL);
        CHECK(c, strstr(cofferdam_error(c), "bad.yaml:") &&
                         strcmp(cofferdam_failure_code(c), "SPEC_INVALID") == 0);
        CHECK(c, cofferdam_spec_set(spec, "network.mood", "none") == -EINVAL);
        CHECK(c, cofferdam_spec_set(spec, "network.mode", "maybe") == -EINVAL);
        CHECK(c, cofferdam_spec_set(other, "hold", "*.txt") == 0 &&
                         cofferdam_spec_set(other, "memory", "1Gi") == 0);
        CHECK(c, cofferdam_spec_file(spec, "/nonexistent.yaml") == -ENOENT);
        CHECK(c,
              cofferdam_spec_json(other, &text) == 0 && strstr(text, "*.txt") && strstr(text, "1073741824"));
        free(text);
        CHECK(c, cofferdam_spec_set(spec, "workspace.source", "/nonexistent") == 0);
        CHECK(c, cofferdam_start(c, spec, -1, &run) < 0 && strstr(cofferdam_error(c), "/nonexistent"));
        CHECK(c, cofferdam_spec_set(spec, "workspace.source", workspace) == 0);
        CHECK(c, cofferdam_spec_set(spec, "post_create", "exit 5") == 0);
        CHECK(c, cofferdam_start(c, spec, -1, &run) < 0);
        CHECK(c, strcmp(cofferdam_failure_code(c), "POST_CREATE_FAILED") == 0);
        CHECK(c, cofferdam_set(c, "program", "/bin/true") == 0);
        CHECK(c, cofferdam_start(c, spec, -1, &run) < 0 && cofferdam_error(c)[0]);
        CHECK(c, cofferdam_set(c, "program", "/nonexistent") == 0);
        CHECK(c, cofferdam_start(c, spec, -1, &run) == -ENOENT && strstr(cofferdam_error(c), "/nonexistent"));
        cofferdam_spec_free(spec);
        cofferdam_spec_free(other);
        cofferdam_free(c);
        cofferdam_free(NULL);
        cofferdam_spec_free(NULL);
        cofferdam_run_close(NULL);
        cofferdam_exec_free(NULL);
        cofferdam_command_free(NULL);
}

/* Starts a run of its own and dies. */
static void test_die(void) {
        struct cofferdam *c = context();
        struct cofferdam_command *command = shell(c, "exec sleep 4322");
        struct cofferdam_exec *exec = NULL;

        CHECK(c, cofferdam_run_command(c, specification(c, NULL), command, &exec) == 0);
        CHECK(c, cofferdam_exec_started(exec, 30000) == 0);
        raise(SIGKILL);
}

int main(int argc, char **argv) {
        static const struct {
                const char *name;
                void (*run)(void);
        } tests[] = {
                { "threads", test_threads },
                { "descriptors", test_descriptors },
                { "surroundings", test_surroundings },
                { "reaper", test_reaper },
                { "walls", test_walls },
                { "values", test_values },
                { "commands", test_commands },
                { "sizes", test_sizes },
                { "terminal", test_terminal },
                { "files", test_files },
                { "free", test_free },
                { "reports", test_reports },
                { "changes", test_changes },
                { "mistakes", test_mistakes },
                { "verbs", test_verbs },
                { "die", test_die },
                { "lost", test_lost },
                { "starved", test_starved },
        };

        if (argc != 5)
                return 2;
        program = argv[2];
        state_dir = argv[3];
        workspace = argv[4];
        for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++)
                if (strcmp(tests[i].name, argv[1]) == 0) {
                        tests[i].run();
                        return 0;
                }
        return 2;
}
