#include "image/helper.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/base/cleanup.h"
#include "runtime/base/clock.h"
#include "runtime/base/execpath.h"
#include "runtime/base/file.h"

enum { CODE_NOT_FOUND = 127, CHUNK = 4096 };

_Noreturn static void child(const char *name, const char *path, int in, int out) {
        char program[128];
        char get[] = "get";
        char *const argv[] = { program, get, NULL };

        (void) snprintf(program, sizeof(program), "docker-credential-%s", name);
        (void) setpgid(0, 0);
        (void) prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
        if (dup2(in, 0) < 0 || dup2(out, 1) < 0)
                _exit(1);
        _exit(exec_in_path(argv, environ, path) == ENOENT ? CODE_NOT_FOUND : 1);
}

/* Until it closes its output. */
static int collect(int fd, struct buf *out) {
        const uint64_t end = clock_ns() + (uint64_t) HELPER_TIMEOUT_MS * 1000000;

        for (;;) {
                struct pollfd p = { .fd = fd, .events = POLLIN };
                const uint64_t now = clock_ns();
                char chunk[CHUNK];
                ssize_t n;
                int r;

                r = now < end ? poll(&p, 1, (int) ((end - now) / 1000000) + 1) : 0;
                if (r < 0 && errno == EINTR)
                        continue;
                if (r <= 0)
                        return r < 0 ? -errno : -ETIMEDOUT;
                n = read(fd, chunk, sizeof(chunk));
                if (n <= 0)
                        return n < 0 ? -errno : 0;
                r = buf_add(out, chunk, (size_t) n);
                explicit_bzero(chunk, sizeof(chunk));
                if (r < 0)
                        return r;
        }
}

/* The group first: its number stays taken until its leader is waited for. */
static int end(pid_t pid, int r) {
        int status = 0;

        for (int i = 0; r == 0 && i < 100; i++) { /* it has closed its output: it is about to end */
                siginfo_t info = { 0 };

                if (waitid(P_PID, (id_t) pid, &info, WEXITED | WNOHANG | WNOWAIT) < 0 || info.si_pid == pid)
                        break;
                (void) poll(NULL, 0, 10);
        }
        (void) kill(-pid, SIGKILL);
        while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
                ;
        if (r < 0)
                return r;
        if (WIFEXITED(status) && WEXITSTATUS(status) == CODE_NOT_FOUND)
                return -ENOENT;
        return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : -EIO;
}

static int explain(const char *name, int r, struct error *err) {
        if (r == -ENOENT)
                return error_set(err, r,
                                 "docker-credential-%s is not in PATH: install it, or log in without it",
                                 name);
        if (r == -ETIMEDOUT)
                return error_set(err, r, "docker-credential-%s did not answer in %d s", name,
                                 HELPER_TIMEOUT_MS / 1000);
        return error_set(err, r, "docker-credential-%s: %s", name, r == -EIO ? "it failed" : strerror(-r));
}

int helper_run(const char *name, const char *path, const char *key, struct buf *out, struct error *err) {
        int to[2], from[2], r;
        pid_t pid;

        if (pipe2(to, O_CLOEXEC) < 0)
                return error_set(err, -errno, "pipe: %s", strerror(errno));
        if (pipe2(from, O_CLOEXEC) < 0) {
                r = -errno;
                (void) fd_close(to[0]);
                (void) fd_close(to[1]);
                return error_set(err, r, "pipe: %s", strerror(-r));
        }
        pid = fork();
        if (pid == 0)
                child(name, path, to[0], from[1]);
        r = pid < 0 ? -errno : 0;
        (void) fd_close(to[0]);
        (void) fd_close(from[1]);
        if (r == 0) {
                (void) setpgid(pid, pid);
                r = write_all(to[1], key, strlen(key)); /* fits into the pipe; SIGPIPE is ignored */
                to[1] = fd_close(to[1]);
                if (r == 0 || r == -EPIPE)
                        r = collect(from[0], out);
                r = end(pid, r);
        }
        (void) fd_close(to[1]);
        (void) fd_close(from[0]);
        /* "credentials not found" is how they say that they have none */
        if (r == -EIO && out->len > 0 && strstr(out->data, "credentials not found")) {
                out->len = 0;
                r = 0;
        }
        return r < 0 ? explain(name, r, err) : 0;
}
