#include "runtime/agent/runner/children.h"

#include <dirent.h>
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
#include "runtime/base/parse.h"
#include "runtime/base/sys.h"

enum {
        PIDS_MAX = 4096,
        SWEEPS_MAX = 200,
        READ_BYTES = 64 * 1024,
        CHILDREN_BYTES_MAX = 1 << 20,
        FD_FREE = 20
};

static const uint64_t MS = 1000000;

int children_adopt(void) {
        return prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) < 0 ? -errno : 0;
}

/* --- starting ------------------------------------------------------------------------------------------- */

static const char *path_of(char *const env[]) {
        for (; *env; env++) {
                if (strncmp(*env, "PATH=", 5) == 0)
                        return *env + 5;
        }
        return "/usr/local/bin:/usr/bin:/bin";
}

/* In the child: descriptors are moved out of each other's way first. Return: errno. */
static int become(char *const argv[], char *const env[], int dir_fd, const int *fds, size_t n) {
        int moved[CHILD_FDS_MAX];
        sigset_t none;

        (void) setsid();
        if (fchdir(dir_fd) < 0)
                return errno;
        for (size_t i = 0; i < n; i++) {
                moved[i] = fds[i] < 0 ? open("/dev/null", O_RDWR | O_CLOEXEC) : fds[i];
                moved[i] = moved[i] < 0 ? -1 : fcntl(moved[i], F_DUPFD_CLOEXEC, FD_FREE);
                if (moved[i] < 0)
                        return errno;
        }
        for (size_t i = 0; i < n; i++) {
                if (dup2(moved[i], (int) i) < 0)
                        return errno;
        }
        for (int s = 1; s < NSIG; s++)
                (void) signal(s, SIG_DFL);
        (void) sigemptyset(&none);
        (void) sigprocmask(SIG_SETMASK, &none, NULL);
        return exec_in_path(argv, env, path_of(env));
}

int child_start(struct child *c, char *const argv[], char *const env[], int dir_fd, const int *fds,
                size_t n_fds) {
        AUTO_FD int from = -1, to = -1;
        int pair[2], why = 0;
        ssize_t n;
        pid_t pid;

        *c = (struct child){ .pidfd = -1 };
        if (n_fds > CHILD_FDS_MAX)
                return -EINVAL;
        if (pipe2(pair, O_CLOEXEC) < 0)
                return -errno;
        from = pair[0];
        to = fcntl(pair[1], F_DUPFD_CLOEXEC, FD_FREE * 2); /* above all that the child moves */
        fd_close(pair[1]);
        if (to < 0)
                return -errno;
        pid = sys_clone(0, &c->pidfd);
        if (pid < 0)
                return pid;
        if (pid == 0) {
                why = become(argv, env, dir_fd, fds, n_fds);
                (void) !write(to, &why, sizeof(why));
                _exit(127);
        }
        to = fd_close(to);
        c->pid = pid;
        n = read(from, &why, sizeof(why)); /* ends with the execve */
        if (n != sizeof(why))
                return 0;
        (void) waitpid(pid, NULL, 0);
        c->pidfd = fd_close(c->pidfd);
        c->pid = 0;
        return -why;
}

bool child_ended(struct child *c) {
        if (!c->pid || c->ended)
                return true;
        if (waitpid(c->pid, &c->status, WNOHANG) != c->pid)
                return false;
        c->ended = true;
        c->pidfd = fd_close(c->pidfd);
        return true;
}

const char *child_status_text(int status, char out[64]) {
        if (WIFSIGNALED(status))
                (void) snprintf(out, 64, "signal %d (%s)", WTERMSIG(status), strsignal(WTERMSIG(status)));
        else
                (void) snprintf(out, 64, "exit status %d", WEXITSTATUS(status));
        return out;
}

/* --- ending --------------------------------------------------------------------------------------------- */

/** struct pids - processes that were found */
struct pids {
        pid_t pid[PIDS_MAX];
        size_t n;
};

static bool has(const pid_t *pids, size_t n, pid_t pid) {
        for (size_t i = 0; i < n; i++) {
                if (pids[i] == pid)
                        return true;
        }
        return false;
}

/* Children of all threads of @pid, which has one: what it starts is single-threaded or kept in its group. */
static void find_children(pid_t pid, const pid_t *keep, size_t n_keep, struct pids *ret) {
        char path[64], *word, *rest = NULL;
        AUTO_BUF struct buf text = { 0 };
        AUTO_DIR DIR *tasks = NULL;
        struct dirent *e;

        (void) snprintf(path, sizeof(path), "/proc/%d/task", pid);
        tasks = opendir(path);
        while (tasks && (e = readdir(tasks))) {
                char file[NAME_MAX + 80];

                if (e->d_name[0] == '.')
                        continue;
                (void) snprintf(file, sizeof(file), "/proc/%d/task/%s/children", pid, e->d_name);
                if (file_read_at(AT_FDCWD, file, CHILDREN_BYTES_MAX, &text) < 0 || !text.data)
                        continue;
                for (word = strtok_r(text.data, " \n", &rest); word; word = strtok_r(NULL, " \n", &rest)) {
                        uint64_t v;

                        if (parse_u64(word, 1, INT32_MAX, &v) == 0 && ret->n < PIDS_MAX &&
                            !has(keep, n_keep, (pid_t) v) && !has(ret->pid, ret->n, (pid_t) v))
                                ret->pid[ret->n++] = (pid_t) v;
                }
                buf_deinit(&text);
        }
}

/* One sweep. Return: how many were there. */
static size_t sweep(const pid_t *keep, size_t n_keep) {
        static struct pids found; /* not on the stack: 16 KiB, and there is one sweep at a time */

        found.n = 0;
        find_children(getpid(), keep, n_keep, &found);
        for (size_t i = 0; i < found.n; i++)
                find_children(found.pid[i], keep, n_keep, &found);
        for (size_t i = 0; i < found.n; i++)
                (void) kill(found.pid[i], SIGKILL);
        return found.n;
}

void children_reap(const pid_t *own, size_t n_own) {
        siginfo_t info;

        for (;;) {
                info.si_pid = 0;
                if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) < 0 || info.si_pid == 0)
                        return;
                if (has(own, n_own, info.si_pid))
                        return; /* its owner will ask; orphans behind it wait */
                (void) waitpid(info.si_pid, NULL, WNOHANG);
        }
}

static void wait_for(struct child *c, uint64_t deadline_ns) {
        while (!child_ended(c) && clock_ns() < deadline_ns) {
                struct pollfd p = { .fd = c->pidfd, .events = POLLIN };

                (void) poll(&p, 1, (int) ((deadline_ns - clock_ns()) / MS + 1));
        }
}

void child_end(struct child *c, unsigned int grace_ms, const pid_t *keep, size_t n_keep) {
        if (c->pid && !child_ended(c)) {
                (void) kill(-c->pid, SIGTERM);
                wait_for(c, clock_ns() + grace_ms * MS);
        }
        if (c->pid)
                (void) kill(-c->pid, SIGKILL);
        /* one that forks while we look is found by the next look, and the kernel has a limit of processes */
        for (int i = 0; i < SWEEPS_MAX && sweep(keep, n_keep) > 0; i++) {
                wait_for(c, clock_ns() + MS);
                children_reap(keep, n_keep);
        }
        if (c->pid && !c->ended)
                wait_for(c, clock_ns() + 1000 * MS);
        c->pidfd = fd_close(c->pidfd);
        c->pid = 0;
}

/* --- output --------------------------------------------------------------------------------------------- */

int output_add(struct output *o, const char *bytes, size_t len) {
        const size_t room = OUTPUT_HALF - o->head.len, first = len < room ? len : room;
        int r = first > 0 ? buf_add(&o->head, bytes, first) : 0;

        o->total += len;
        bytes += first;
        len -= first;
        if (len > OUTPUT_HALF) { /* only its end will be left */
                bytes += len - OUTPUT_HALF;
                len = OUTPUT_HALF;
        }
        while (r == 0 && len > 0 && o->tail.len < OUTPUT_HALF) {
                const size_t n = len < OUTPUT_HALF - o->tail.len ? len : OUTPUT_HALF - o->tail.len;

                r = buf_add(&o->tail, bytes, n);
                o->at = o->tail.len % OUTPUT_HALF;
                bytes += n;
                len -= n;
        }
        while (r == 0 && len > 0) {
                const size_t n = len < OUTPUT_HALF - o->at ? len : OUTPUT_HALF - o->at;

                memcpy(o->tail.data + o->at, bytes, n);
                o->at = (o->at + n) % OUTPUT_HALF;
                bytes += n;
                len -= n;
        }
        return r;
}

int output_text(const struct output *o, struct buf *out) {
        const uint64_t cut = o->total - o->head.len - o->tail.len;
        const size_t at = o->tail.len == OUTPUT_HALF ? o->at : 0;
        int r = o->head.len > 0 ? buf_add(out, o->head.data, o->head.len) : 0;

        if (r == 0 && cut > 0)
                r = buf_fmt(out, "\n[%llu bytes cut]\n", (unsigned long long) cut);
        if (r == 0 && o->tail.len > at)
                r = buf_add(out, o->tail.data + at, o->tail.len - at);
        if (r == 0 && at > 0)
                r = buf_add(out, o->tail.data, at);
        return r;
}

void output_deinit(struct output *o) {
        buf_deinit(&o->head);
        buf_deinit(&o->tail);
}

/* --- programs that are run to their end ----------------------------------------------------------------- */

/* Reads what is there. Return: 1: there may be more; 0: nothing now; -EPIPE: the end; -ENOMEM. */
static int read_some(int fd, struct output *out) {
        char room[READ_BYTES];
        const ssize_t n = read(fd, room, sizeof(room));

        if (n < 0)
                return errno == EAGAIN || errno == EINTR ? 0 : -EPIPE;
        if (n == 0)
                return -EPIPE;
        return output_add(out, room, (size_t) n) < 0 ? -ENOMEM : 1;
}

static int feed(int *fd, const struct buf *input, size_t *at) {
        while (*fd >= 0 && *at < input->len) {
                const ssize_t n = write(*fd, input->data + *at, input->len - *at);

                if (n < 0)
                        return errno == EAGAIN ? 0 : -errno;
                *at += (size_t) n;
        }
        *fd = fd_close(*fd);
        return 0;
}

static int attend(struct wire *w, const struct once *once, struct child *c, int out_fd, int *in_fd,
                  struct output *out, bool *ret_timeout) {
        const uint64_t deadline = clock_ns() + once->timeout_ms * MS;
        size_t fed = 0;
        int r = 0;

        for (;;) {
                struct pollfd p[] = { { .fd = c->pidfd, .events = POLLIN },
                                      { .fd = r == -EPIPE ? -1 : out_fd, .events = POLLIN },
                                      { .fd = *in_fd, .events = POLLOUT } };
                const int ready = wire_poll(w, p, ARRAY_SIZE(p), deadline);

                if (ready < 0)
                        return ready;
                if (p[1].revents)
                        r = read_some(out_fd, out);
                if (r == -ENOMEM)
                        return r;
                if (p[2].revents && feed(in_fd, once->input, &fed) < 0)
                        *in_fd = fd_close(*in_fd);
                *ret_timeout = ready == 0 && clock_ns() >= deadline;
                if (*ret_timeout || child_ended(c))
                        break;
        }
        for (int i = 0; i < 64 && r >= 0;
             i++) { /* what it said before it ended; a child of it may go on for ever */
                r = read_some(out_fd, out);
                if (r == 0)
                        break;
        }
        return r == -ENOMEM ? r : 0;
}

int once_run(struct wire *w, const struct once *once, struct output *out, int *ret_status,
             bool *ret_timeout) {
        AUTO_FD int out_read = -1, out_write = -1, in_read = -1, in_write = -1;
        struct child c;
        int pair[2], r;

        if (pipe2(pair, O_CLOEXEC) < 0)
                return -errno;
        out_read = pair[0];
        out_write = pair[1];
        if (once->input) {
                if (pipe2(pair, O_CLOEXEC) < 0)
                        return -errno;
                in_read = pair[0];
                in_write = pair[1];
                (void) fcntl(in_write, F_SETFL, O_NONBLOCK);
        }
        (void) fcntl(out_read, F_SETFL, O_NONBLOCK);
        r = child_start(&c, once->argv, once->env, once->dir_fd,
                        (const int[]){ in_read, out_write, out_write }, 3);
        out_write = fd_close(out_write);
        in_read = fd_close(in_read);
        if (r < 0)
                return r;
        r = attend(w, once, &c, out_read, &in_write, out, ret_timeout);
        *ret_status = c.status;
        if (r < 0 || *ret_timeout) {
                child_end(&c, *ret_timeout ? 500 : 0, once->keep, once->n_keep);
                *ret_status = c.status;
        } else {
                (void) kill(-c.pid, SIGKILL);
        }
        return r;
}
