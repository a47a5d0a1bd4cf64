/*
 * DOC: theory of operation
 *
 * The sandbox's pid 1 after sandbox.c: one thread, one loop over the socket to the supervisor and a signalfd
 * for SIGCHLD. It reaps every orphan, starts commands and reports how they end. It has no capability, no
 * environment, no descriptor that leads out but the socket, and lives under the same system call filter as
 * the work. The work can send it signals, which the kernel drops for a pid 1 without handlers, and can fill
 * its process table; it cannot read or trace it (dumpable is 0).
 *
 * End of file on the socket, or a request that cannot come from our supervisor: pid 1 ends, and with it the
 * kernel ends the sandbox.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include "drivers/native/exec.h"
#include "drivers/native/setup.h"
#include "runtime/base/block.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/fdpass.h"

enum { REQUEST_FDS = 4, SCORE_ABOVE = 500, SCORE_MAX = 1000 };

/* one running command */
struct slot {
        pid_t pid; /* 0: free */
        uint32_t id;
};

struct init {
        int sock, sigchld;
        const struct profile_program *profile;
        char *const *env;         /* of the root; NULL: none */
        int score_fd, base_score; /* open_score() */
        struct slot slots[PROTO_COMMANDS_MAX];
};

static void send_event(const struct init *init, const struct proto_event *event, int fd) {
        if (fdpass_send(init->sock, event, sizeof(*event), &fd, fd >= 0) < 0)
                _exit(1); /* the supervisor is gone */
}

static void send_finished(const struct init *init, uint32_t id, int status, int exec_errno,
                          const struct rusage *usage) {
        const int sig = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
        const struct proto_event event = {
                .type = PROTO_FINISHED,
                .id = id,
                .code = sig ? 128 + sig : WEXITSTATUS(status),
                .signal = sig,
                .exec_errno = exec_errno,
                .max_rss_bytes = (uint64_t) usage->ru_maxrss * 1024,
        };

        send_event(init, &event, -1);
}

static struct slot *slot_of(struct init *init, pid_t pid) {
        for (size_t i = 0; i < PROTO_COMMANDS_MAX; i++)
                if (init->slots[i].pid == pid)
                        return &init->slots[i];
        return NULL;
}

static void reap(struct init *init) {
        for (;;) {
                struct rusage usage = { 0 };
                struct slot *slot;
                int status;
                const pid_t pid = wait4(-1, &status, WNOHANG, &usage);

                if (pid <= 0)
                        return;
                slot = slot_of(init, pid);
                if (!slot)
                        continue; /* an orphan */
                slot->pid = 0;
                send_finished(init, slot->id, status, 0, &usage);
        }
}

static const char *path_of(char *const *env) {
        for (; *env; env++)
                if (strncmp(*env, "PATH=", 5) == 0)
                        return *env + 5;
        return NULL;
}

/* A terminal of the sandbox's own. @ret_master: for the supervisor. Return: the command's end or -errno. */
static int open_terminal(const struct proto_request *req, int *ret_master) {
        const struct winsize size = { req->rows, req->cols, req->xpixel, req->ypixel };
        AUTO_FD int master = -1;
        int unlock = 0, slave;

        master = open("/dev/pts/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC);
        if (master < 0 || ioctl(master, TIOCSPTLCK, &unlock) < 0)
                return -errno;
        slave = ioctl(master, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
        if (slave < 0)
                return -errno;
        if (size.ws_row && size.ws_col)
                (void) ioctl(master, TIOCSWINSZ, &size);
        *ret_master = TAKE_FD(master);
        return slave;
}

static bool is_set(char *const *env, const char *entry) {
        const size_t n = strcspn(entry, "=") + 1;

        for (; *env; env++)
                if (strncmp(*env, entry, n) == 0)
                        return true;
        return false;
}

/* @env and what the root adds to it: a vector of borrowed strings, owned; NULL: no memory */
static char **join_env(char *const *root, char **env) {
        size_t n_root = 0, n = 0;
        char **joined;

        while (root && root[n_root])
                n_root++;
        while (env[n])
                n++;
        joined = calloc(n_root + n + 1, sizeof(*joined));
        if (!joined)
                return NULL;
        memcpy(joined, env, n * sizeof(*env));
        for (size_t i = 0; i < n_root; i++)
                if (!is_set(env, root[i]))
                        joined[n++] = root[i];
        return joined;
}

/* Whom the kernel kills when memory runs out (proc(5), oom_score_adj): commands inherit a score above this
 * process's, or a limit could end it, and the run, for a command that is smaller than it. @ret_base: its own.
 * Return: owned; -1 where there is no /proc. */
static int open_score(int *ret_base) {
        char text[16] = "";
        AUTO_FD int fd = -1;
        (void) prctl(PR_SET_DUMPABLE, 1, 0, 0, 0); /* else it is root's; nobody else is in the sandbox yet */
        fd = open("/proc/self/oom_score_adj", O_RDWR | O_CLOEXEC);
        (void) prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
        if (fd < 0 || read(fd, text, sizeof(text) - 1) <= 0)
                return -1;
        *ret_base = (int) strtol(text, NULL, 10);
        return TAKE_FD(fd);
}

static void set_score(const struct init *init, int above) {
        const int score = init->base_score + above > SCORE_MAX ? SCORE_MAX : init->base_score + above;

        if (init->score_fd >= 0)
                (void) dprintf(init->score_fd, "%d", score);
}

/* Starts the command of a checked request; the outcome is told by events. @ret_errno: as command_start() */
static int run(struct init *init, const struct proto_request *req, const struct block *b, const int stdio[3],
               int *ret_errno) {
        struct slot *slot = slot_of(init, 0);
        AUTO_FREE char **env = join_env(init->env, b->env);
        struct command command = { .cwd = b->cwd,
                                   .argv = b->argv,
                                   .env = env,
                                   .path = env ? path_of(env) : NULL,
                                   .profile = init->profile };
        struct proto_event started = { .type = PROTO_STARTED, .id = req->id };
        AUTO_FD int master = -1, slave = -1;
        pid_t pid;

        if (!slot)
                return -EAGAIN;
        if (!env)
                return -ENOMEM;
        memcpy(command.stdio, stdio, sizeof(command.stdio));
        if (req->flags & PROTO_TTY) {
                slave = open_terminal(req, &master);
                if (slave < 0)
                        return slave;
                for (int i = 0; i < 3; i++)
                        if (i < 2 || stdio[i] < 0)
                                command.stdio[i] = slave;
                command.tty = true;
        }
        set_score(init, SCORE_ABOVE);
        pid = command_start(&command, ret_errno);
        set_score(init, 0);
        if (pid < 0)
                return pid;
        if (*ret_errno) {
                while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
                        ;
                return 0;
        }
        *slot = (struct slot){ pid, req->id };
        started.code = pid;
        send_event(init, &started, master);
        return 0;
}

/*
 * A device of the host as a standard descriptor is replaced by the one in the sandbox's /dev, which is
 * read-only there: uid 0 inside owns the host's, and fchmod(2) would reach it.
 */
static int own_device(int fd) {
        static const struct {
                unsigned int minor;
                const char *path;
        } devices[] = {
                { 3, "/dev/null" },   { 5, "/dev/zero" },    { 7, "/dev/full" },
                { 8, "/dev/random" }, { 9, "/dev/urandom" },
        };
        struct stat st;

        if (fd < 0 || fstat(fd, &st) < 0 || !S_ISCHR(st.st_mode) || major(st.st_rdev) != 1)
                return 0;
        for (size_t i = 0; i < ARRAY_SIZE(devices); i++) {
                AUTO_FD int own = -1;

                if (minor(st.st_rdev) != devices[i].minor)
                        continue;
                own = open(devices[i].path, (fcntl(fd, F_GETFL) & O_ACCMODE) | O_CLOEXEC);
                return own < 0 || dup3(own, fd, O_CLOEXEC) < 0 ? -errno : 0;
        }
        return -ENXIO; /* memory, the kernel's log */
}

static void on_exec(struct init *init, const struct proto_request *req, const int *fds, size_t n) {
        const struct block_size size = { req->argc, req->envc, req->block_len };
        AUTO_BLOCK struct block b = { 0 };
        int stdio[3] = { -1, -1, -1 };
        size_t used = 1;
        int r = 0, failure = 0;

        for (int i = 0; i < 3; i++)
                if (req->flags & (1U << i)) {
                        if (used >= n)
                                _exit(1);
                        stdio[i] = fds[used++];
                        r = r < 0 ? r : own_device(stdio[i]);
                }
        if (used != n)
                _exit(1);
        if (r == 0)
                r = block_read(fds[0], &size, &b);
        if (r == -EPROTO)
                _exit(1);
        if (r == 0)
                r = run(init, req, &b, stdio, &failure);
        if (r < 0)
                failure = -r;
        if (failure) {
                const int status = (failure == ENOENT ? 127 : 126) << 8;
                const struct rusage none = { 0 };

                send_finished(init, req->id, status, failure, &none);
        }
}

static void on_signal(const struct init *init, const struct proto_request *req) {
        for (size_t i = 0; i < PROTO_COMMANDS_MAX; i++) {
                const struct slot *slot = &init->slots[i];

                if (slot->pid == 0 || slot->id != req->id)
                        continue;
                (void) kill(req->flags & PROTO_GROUP ? -slot->pid : slot->pid, req->signal);
        }
}

static void on_request(struct init *init) {
        struct proto_request req;
        int fds[REQUEST_FDS];
        size_t len, n = 0;

        if (fdpass_recv(init->sock, &req, sizeof(req), &len, fds, REQUEST_FDS, &n) < 0 ||
            len != sizeof(req) || req.op >= PROTO_OP_COUNT)
                _exit(1);
        if (req.op == PROTO_EXEC && n > 0)
                on_exec(init, &req, fds, n);
        else if (req.op == PROTO_SIGNAL && n == 0)
                on_signal(init, &req);
        else
                _exit(1);
        for (size_t i = 0; i < n; i++)
                (void) fd_close(fds[i]);
}

/* Nothing of the caller's stays open: a pipe's reader must see its end. */
static int detach_stdio(void) {
        AUTO_FD int null = open("/dev/null", O_RDWR | O_CLOEXEC);

        for (int i = 0; null >= 0 && i < 3; i++)
                if (dup2(null, i) < 0)
                        return -errno;
        return null < 0 ? -errno : 0;
}

_Noreturn void init_serve(int sock, const struct profile_program *profile, char *const *env) {
        struct init init = { .sock = sock, .profile = profile, .env = env, .score_fd = -1 };
        struct pollfd fds[2];
        sigset_t set;

        (void) sigfillset(&set);
        (void) sigprocmask(SIG_SETMASK, &set, NULL);
        (void) sigemptyset(&set);
        (void) sigaddset(&set, SIGCHLD);
        init.sigchld = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
        if (init.sigchld < 0 || detach_stdio() < 0)
                _exit(1);
        init.score_fd = open_score(&init.base_score);
        fds[0] = (struct pollfd){ .fd = sock, .events = POLLIN };
        fds[1] = (struct pollfd){ .fd = init.sigchld, .events = POLLIN };
        for (;;) {
                struct signalfd_siginfo info;

                if (poll(fds, 2, -1) < 0 && errno != EINTR)
                        _exit(1);
                if (fds[1].revents) {
                        while (read(init.sigchld, &info, sizeof(info)) > 0)
                                ;
                        reap(&init);
                }
                if (fds[0].revents)
                        on_request(&init);
        }
}
