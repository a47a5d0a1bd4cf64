#include "drivers/native/exec.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/base/cleanup.h"
#include "runtime/base/execpath.h"
#include "runtime/base/sys.h"

enum { CHILD_STACK = 32768, FIRST_FREE_FD = 3 };

/* Shared with the child, which runs while the parent waits. */
struct start {
        const struct command *command;
        int error;
};

/* Puts the descriptors in place: first out of the way, then to 0..2. */
static int place_stdio(const struct command *c) {
        int fds[3];

        for (int i = 0; i < 3; i++) {
                fds[i] = c->stdio[i] < 0 ? -1 : fcntl(c->stdio[i], F_DUPFD, FIRST_FREE_FD);
                if (c->stdio[i] >= 0 && fds[i] < 0)
                        return errno;
        }
        for (int i = 0; i < 3; i++) {
                if (fds[i] < 0)
                        (void) close(i);
                else if (dup2(fds[i], i) < 0)
                        return errno;
        }
        return 0;
}

/* Dispositions are the default ones already: pid 1 has them (sandbox.c). */
static int unblock_signals(void) {
        sigset_t none;

        (void) sigemptyset(&none);
        return sigprocmask(SIG_SETMASK, &none, NULL) < 0 ? errno : 0;
}

static int child(void *arg) {
        struct start *start = arg;
        const struct command *c = start->command;
        int e;

        (void) setsid();
        e = place_stdio(c);
        if (e == 0 && c->tty && ioctl(0, TIOCSCTTY, 0) < 0)
                e = errno;
        if (e == 0 && sys_close_range(FIRST_FREE_FD, ~0U, 0) < 0)
                e = errno;
        if (e == 0)
                e = unblock_signals();
        (void) umask(022);
        if (e == 0 && chdir(c->cwd) < 0)
                e = -errno;
        /* last: what comes after has to be in the profile */
        if (e == 0 && c->profile->len > 0)
                e = -filter_load(c->profile->insns, c->profile->len);
        if (e == 0)
                e = exec_in_path(c->argv, c->env, c->path);
        start->error = e;
        _exit(e == ENOENT ? 127 : 126);
}

pid_t command_start(const struct command *command, int *ret_errno) {
        AUTO_FREE char *stack = malloc(CHILD_STACK); /* on our own stack each page would be touched */
        struct start start = { .command = command };
        pid_t pid;

        if (!stack)
                return -ENOMEM;
        pid = clone(child, stack + CHILD_STACK, CLONE_VM | CLONE_VFORK | SIGCHLD, &start);
        if (pid < 0)
                return -errno;
        *ret_errno = start.error;
        return pid;
}
