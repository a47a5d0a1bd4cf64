#include "cli/frame.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/verbs.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/clock.h"
#include "runtime/base/escape.h"
#include "runtime/base/log.h"
#include "runtime/base/sys.h"

enum {
        FRAME_BYTES_MAX = 64 << 20,
        PART_BYTES = 65536,
        DRAIN_QUIET_MS = 200, /* nothing came for so long: nothing is on its way */
        DRAIN_MAX_MS = 5000
};

/* What is between standard input and the command. */
struct pump {
        int to_fd; /* the command's stdin; -1: closed */
        int pidfd;
        size_t frame; /* bytes of this frame that have not been read yet */
        size_t len, from;
        char data[PART_BYTES];
        bool in_length, over;
        size_t length;
};

static pid_t spawn(char **argv, int in_fd) {
        const pid_t pid = fork();

        if (pid != 0)
                return pid;
        (void) signal(SIGPIPE, SIG_DFL);
        if (dup2(in_fd, STDIN_FILENO) < 0)
                _exit(EXIT_SETUP);
        (void) execvp(argv[0], argv);
        log_error("'%s': %s", ESC(argv[0]), strerror(errno));
        _exit(errno == ENOENT ? EXIT_NOTFOUND : EXIT_NOEXEC);
}

/* One byte at a time: what is behind the line is not ours. Return: 0, -EAGAIN, -EPIPE (the end, or no
 * length). */
static int read_length(struct pump *p) {
        char c;
        const ssize_t n = read(STDIN_FILENO, &c, 1);

        if (n < 0 && (errno == EINTR || errno == EAGAIN))
                return -EAGAIN;
        if (n == 1 && c >= '0' && c <= '9' && p->length < FRAME_BYTES_MAX) {
                p->length = p->length * 10 + (size_t) (c - '0');
                p->in_length = true;
                return -EAGAIN;
        }
        if (n != 1 || c != '\n' || !p->in_length || p->length > FRAME_BYTES_MAX)
                return -EPIPE;
        p->frame = p->length;
        p->over = p->length == 0;
        p->length = 0;
        p->in_length = false;
        return 0;
}

static int read_part(struct pump *p) {
        const size_t want = p->frame < sizeof(p->data) ? p->frame : sizeof(p->data);
        const ssize_t n = read(STDIN_FILENO, p->data, want);

        if (n < 0 && (errno == EINTR || errno == EAGAIN))
                return -EAGAIN;
        if (n <= 0)
                return -EPIPE;
        p->frame -= (size_t) n;
        p->len = p->to_fd >= 0 ? (size_t) n : 0; /* a command that reads no more: the rest is dropped */
        p->from = 0;
        return 0;
}

static void write_part(struct pump *p) {
        const ssize_t n = write(p->to_fd, p->data + p->from, p->len - p->from);

        if (n > 0)
                p->from += (size_t) n;
        if (n < 0 && errno != EAGAIN && errno != EINTR) {
                p->to_fd = fd_close(p->to_fd);
                p->from = p->len;
        }
}

/* Until the command ends. Return: 0, -EPIPE (standard input was lost). */
static int carry(struct pump *p) {
        for (;;) {
                const bool full = p->from < p->len && p->to_fd >= 0;
                struct pollfd fds[] = {
                        { .fd = p->pidfd, .events = POLLIN },
                        { .fd = full ? p->to_fd : -1, .events = POLLOUT },
                        { .fd = full || p->over ? -1 : STDIN_FILENO, .events = POLLIN },
                };
                int r = 0;

                if (poll(fds, ARRAY_SIZE(fds), -1) < 0 && errno != EINTR)
                        return -errno;
                if (fds[0].revents)
                        return 0;
                if (fds[1].revents)
                        write_part(p);
                if (fds[2].revents)
                        r = p->frame > 0 ? read_part(p) : read_length(p);
                if (r < 0 && r != -EAGAIN)
                        return r;
                if (p->over && !(p->from < p->len))
                        p->to_fd = fd_close(p->to_fd);
        }
}

/* The command has ended. What is on its way to it is dropped first: a connection that ends with bytes in it
 * may lose what was said to the other side last, its exit code. */
static void drain(struct pump *p) {
        const uint64_t until = clock_ns() + DRAIN_MAX_MS * UINT64_C(1000000);
        struct pollfd in = { .fd = STDIN_FILENO, .events = POLLIN };
        int r = 0;

        p->to_fd = fd_close(p->to_fd);
        while (!p->over && (r == 0 || r == -EAGAIN) && clock_ns() < until) {
                if (poll(&in, 1, DRAIN_QUIET_MS) <= 0)
                        return;
                r = p->frame > 0 ? read_part(p) : read_length(p);
        }
}

static int end_of(pid_t pid) {
        int status;

        while (waitpid(pid, &status, 0) < 0)
                if (errno != EINTR)
                        return EXIT_SETUP;
        return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int frame_main(char **argv) {
        static struct pump p = { .to_fd = -1 };
        int fds[2];
        pid_t pid;

        (void) signal(SIGPIPE, SIG_IGN);
        if (!argv[0] || pipe2(fds, O_CLOEXEC) < 0) {
                log_error("@frame: no command, or no pipe");
                return EXIT_SETUP;
        }
        pid = spawn(argv, fds[0]);
        (void) close(fds[0]);
        p.to_fd = fds[1];
        p.pidfd = pid > 0 ? sys_pidfd_open(pid) : -1;
        if (pid < 0 || p.pidfd < 0 || fcntl(p.to_fd, F_SETFL, O_NONBLOCK) < 0) {
                log_error("@frame: start '%s': %s", ESC(argv[0]), strerror(errno));
                if (pid > 0)
                        (void) kill(pid, SIGKILL);
                return EXIT_SETUP;
        }
        if (carry(&p) < 0)
                (void) kill(pid, SIGKILL);
        else
                drain(&p);
        p.to_fd = fd_close(p.to_fd);
        return end_of(pid);
}
