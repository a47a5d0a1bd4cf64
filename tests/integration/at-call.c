/*
 * at-call - hold a program and its children at a system call, run a command, let them go on
 *
 *   at-call clone|pivot_root SHELL-COMMAND PROGRAM [ARG...]
 *
 * The command runs once, before the first such call of any of the processes is carried out. Exit code of the
 * program; 77 when tracing is not possible; 99 when the call was never made or the command failed.
 */
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/** struct tracer - what is waited for */
struct tracer {
        const char *call, *command;
        bool hit, failed;
};

static bool is_call(const struct tracer *t, unsigned long nr) {
        if (strcmp(t->call, "pivot_root") == 0)
                return nr == SYS_pivot_root;
        return nr == SYS_clone || nr == SYS_clone3
#ifdef SYS_fork
               || nr == SYS_fork || nr == SYS_vfork
#endif
                ;
}

static void on_call(struct tracer *t, pid_t pid) {
        struct __ptrace_syscall_info info;

        if (t->hit || ptrace(PTRACE_GET_SYSCALL_INFO, pid, sizeof(info), &info) <= 0 ||
            info.op != PTRACE_SYSCALL_INFO_ENTRY || !is_call(t, info.entry.nr))
                return;
        t->hit = true;
        t->failed = system(t->command) != 0; /* NOLINT(cert-env33-c): the test's own words */
}

/* A process stopped with @status: lets it go on. */
static void go_on(struct tracer *t, pid_t pid, int status) {
        int sig = WSTOPSIG(status);

        if (sig == (SIGTRAP | 0x80)) {
                on_call(t, pid);
                sig = 0;
        } else if (status >> 16 || sig == SIGSTOP) { /* an event; the first stop of a new child */
                sig = 0;
        }
        (void) ptrace(t->hit ? PTRACE_CONT : PTRACE_SYSCALL, pid, 0, (long) sig);
}

static int trace(struct tracer *t, pid_t child) {
        const long options = PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACEFORK | PTRACE_O_TRACECLONE |
                             PTRACE_O_TRACEVFORK | PTRACE_O_TRACEEXEC | PTRACE_O_EXITKILL;
        int status, code = 1;
        pid_t pid;

        if (waitpid(child, &status, 0) != child || !WIFSTOPPED(status))
                return 77;
        if (ptrace(PTRACE_SETOPTIONS, child, 0, options) < 0)
                return 77;
        (void) ptrace(PTRACE_SYSCALL, child, 0, 0);
        while ((pid = waitpid(-1, &status, __WALL)) > 0) {
                if (WIFSTOPPED(status))
                        go_on(t, pid, status);
                else if (pid == child)
                        code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
        }
        return t->hit && !t->failed ? code : 99;
}

int main(int argc, char **argv) {
        struct tracer t;
        pid_t child;

        if (argc < 4) {
                (void) fprintf(stderr, "usage: at-call clone|pivot_root COMMAND PROGRAM [ARG...]\n");
                return 2;
        }
        t = (struct tracer){ .call = argv[1], .command = argv[2] };
        child = fork();
        if (child < 0)
                return 99;
        if (child == 0) {
                if (ptrace(PTRACE_TRACEME, 0, 0, 0) < 0)
                        _exit(77);
                (void) raise(SIGSTOP);
                (void) execvp(argv[3], argv + 3);
                _exit(127);
        }
        return trace(&t, child);
}
