/*
 * The program, executed. posix_spawn(3) is what a process with threads can do: no handlers of fork(3) run, no
 * lock of another thread is in the way, and no page of the caller's memory is copied. The child gets the
 * descriptors of runtime/lib/request.h and no other, no environment, no signal mask, default dispositions and
 * a session of its own.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdint.h>
#include <string.h>
#include <sys/wait.h>

#include "runtime/base/escape.h"
#include "runtime/base/fdpass.h"
#include "runtime/lib/library.h"

enum { REPORT_MAX_BYTES = 256 << 20, WORDS_MAX_BYTES = 1 << 16, CHUNK_BYTES = 65536 };

static int fill_attributes(posix_spawnattr_t *attr) {
        sigset_t none, all;
        int r;

        (void) sigemptyset(&none);
        memset(&all, 0xff, sizeof(all)); /* sigfillset(3) leaves two out, which would be ignored inside */
        r = posix_spawnattr_setsigmask(attr, &none);
        if (r == 0)
                r = posix_spawnattr_setsigdefault(attr, &all);
        if (r == 0)
                r = posix_spawnattr_setflags(attr, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF |
                                                           POSIX_SPAWN_SETSID);
        return -r;
}

/* @fds: none of them below REQUEST_FDS, so that none is in the way of another */
static int spawn_with(const char *program, const int fds[REQUEST_FDS], posix_spawn_file_actions_t *actions,
                      posix_spawnattr_t *attr, pid_t *ret) {
        char word[] = LIBRARY_WORD;
        char *argv[] = { (char *) (uintptr_t) program, word, NULL }, *env[] = { NULL };
        int r = 0;

        for (int i = 0; r == 0 && i < REQUEST_FDS; i++)
                r = posix_spawn_file_actions_adddup2(actions, fds[i], i);
        if (r == 0)
                r = posix_spawn_file_actions_addclosefrom_np(actions, REQUEST_FDS);
        if (r == 0)
                r = -fill_attributes(attr);
        if (r == 0)
                r = posix_spawn(ret, program, actions, attr, argv, env);
        return -r;
}

static int spawn(const char *program, const int fds[REQUEST_FDS]) {
        posix_spawn_file_actions_t actions;
        posix_spawnattr_t attr;
        int r, status = 0;
        pid_t pid = -1;

        r = -posix_spawn_file_actions_init(&actions);
        if (r < 0)
                return r;
        r = -posix_spawnattr_init(&attr);
        if (r == 0) {
                r = spawn_with(program, fds, &actions, &attr, &pid);
                (void) posix_spawnattr_destroy(&attr);
        }
        (void) posix_spawn_file_actions_destroy(&actions);
        if (r < 0)
                return r;
        while (waitpid(pid, &status, 0) < 0) /* it forks and ends at once */
                if (errno != EINTR)
                        return 0; /* the caller ignores SIGCHLD, or waits for every child: the socket tells */
        return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : -ENOEXEC;
}

/* Copies of the descriptors, out of the way. */
static int gather(const int stdio[3], int sock, int text, int ret[REQUEST_FDS]) {
        AUTO_FD int null = open("/dev/null", O_RDWR | O_CLOEXEC);
        int r = 0;

        for (int i = 0; i < REQUEST_FDS; i++) {
                const int fd = i == REQUEST_SOCK_FD ? sock : i == REQUEST_TEXT_FD ? text : stdio[i];

                ret[i] = fcntl(fd >= 0 ? fd : null, F_DUPFD_CLOEXEC, REQUEST_FDS);
                if (ret[i] < 0 && r == 0)
                        r = -errno;
        }
        return r;
}

static int start(struct cofferdam *c, const struct request *request, const int stdio[3], int sock) {
        AUTO_FD int text = request_fd(request);
        int fds[REQUEST_FDS];
        int r;

        if (text < 0)
                return error_set(&c->err, text, "memory file for the request: %s", strerror(-text));
        r = gather(stdio, sock, text, fds);
        if (r < 0)
                (void) error_set(&c->err, r, "descriptors for the program: %s", strerror(-r));
        if (r == 0) {
                r = spawn(c->program, fds);
                if (r < 0)
                        (void) error_set(&c->err, r, "execute '%s': %s", ESC(c->program), strerror(-r));
        }
        for (int i = 0; i < REQUEST_FDS; i++)
                (void) fd_close(fds[i]);
        return r;
}

int engine_ask(struct cofferdam *c, const struct request *request, const int stdio[3]) {
        AUTO_REQUEST struct request all = { 0 };
        AUTO_FD int ours = -1, theirs = -1;
        char closed[4] = "";
        int pair[2];
        int r;

        for (int i = 0, n = 0; i < 3; i++)
                if (stdio[i] < 0)
                        closed[n++] = (char) ('0' + i);
        r = request_add(&all, "version", COFFERDAM_VERSION);
        if (r == 0)
                r = request_append(&all, &c->said);
        if (r == 0)
                r = request_append(&all, request);
        if (r == 0)
                r = request_add(&all, "closed", closed);
        if (r < 0)
                return context_memory(c, r);
        r = fdpass_pair(pair);
        if (r < 0) {
                (void) error_set(&c->err, r, "socket to the program: %s", strerror(-r));
                return context_failed(c, r, "SANDBOX_SETUP_FAILED");
        }
        ours = pair[0];
        theirs = pair[1];
        r = start(c, &all, stdio, theirs);
        return r < 0 ? context_failed(c, r, "SANDBOX_SETUP_FAILED") : TAKE_FD(ours);
}

/* ---- reports ---- */

/* Appends what comes from @fd. Return: 1, 0 (the end), -errno. */
static int drain(int fd, struct buf *out) {
        char chunk[CHUNK_BYTES];
        const ssize_t n = read(fd, chunk, sizeof(chunk));
        int r;

        if (n < 0)
                return errno == EINTR || errno == EAGAIN ? 1 : -errno;
        r = n > 0 ? buf_add(out, chunk, (size_t) n) : 0;
        return r < 0 ? r : n > 0;
}

/* Everything that is printed; what is said beyond @said's ceiling is thrown away. */
static int collect(int out_fd, int said_fd, struct buf *out, struct buf *said) {
        struct pollfd fds[] = { { .fd = out_fd, .events = POLLIN }, { .fd = said_fd, .events = POLLIN } };

        while (fds[0].fd >= 0 || fds[1].fd >= 0) {
                int r;

                if (poll(fds, 2, -1) < 0 && errno != EINTR)
                        return -errno;
                for (int i = 0; i < 2; i++) {
                        if (fds[i].fd < 0 || !fds[i].revents)
                                continue;
                        r = drain(fds[i].fd, i == 0 ? out : said);
                        if (r == -E2BIG && i == 1) {
                                said->len = 0;
                                continue;
                        }
                        if (r < 0)
                                return r;
                        if (r == 0)
                                fds[i].fd = -1;
                }
        }
        return 0;
}

/* The last line that was said, without the program's name. */
static int note_said(struct cofferdam *c, int r, struct buf *said) {
        static const char prefix[] = "cofferdam: ";
        char *text = said->len > 0 ? said->data : NULL, *line;

        while (text && said->len > 0 && text[said->len - 1] == '\n')
                text[--said->len] = '\0';
        line = text ? strrchr(text, '\n') : NULL;
        line = line ? line + 1 : text;
        if (line && strncmp(line, prefix, strlen(prefix)) == 0)
                line += strlen(prefix);
        (void) error_set(&c->err, r, "%s", line && *line ? line : strerror(-r));
        return context_failed(c, r, NULL);
}

static int verb_request(const char *const *words, struct request *request) {
        int r;

        r = request_add(request, "op", "verb");
        for (; r == 0 && *words; words++)
                r = request_add(request, "arg", *words);
        return r;
}

int engine_verb(struct cofferdam *c, const char *const *words, struct buf *out) {
        AUTO_REQUEST struct request request = { 0 };
        AUTO_BUF struct buf said = { .max = WORDS_MAX_BYTES };
        AUTO_FD int out_fd = -1, out_theirs = -1, said_fd = -1, said_theirs = -1, sock = -1;
        struct run_msg end;
        int pipes[2][2];
        int r;

        r = verb_request(words, &request);
        if (r < 0)
                return context_memory(c, r);
        for (int i = 0; i < 2; i++) {
                if (pipe2(pipes[i], O_CLOEXEC) < 0) {
                        (void) error_set(&c->err, -errno, "pipe for a report: %s", strerror(errno));
                        return context_failed(c, c->err.code, NULL);
                }
                *(i == 0 ? &out_fd : &said_fd) = pipes[i][0];
                *(i == 0 ? &out_theirs : &said_theirs) = pipes[i][1];
        }
        sock = engine_ask(c, &request, (const int[3]){ -1, out_theirs, said_theirs });
        if (sock < 0)
                return sock;
        out_theirs = fd_close(out_theirs);
        said_theirs = fd_close(said_theirs);
        out->max = REPORT_MAX_BYTES;
        r = collect(out_fd, said_fd, out, &said);
        if (r == 0)
                r = run_msg_recv(sock, &end, NULL);
        if (r < 0)
                return note_said(c, r, &said);
        if (end.type == RUN_MSG_ERROR) {
                (void) error_set(&c->err, -EIO, "%s", end.text);
                return context_failed(c, -EIO, end.failure_code);
        }
        if (end.code == 0 || (end.code == 1 && out->len > 0))
                return end.code;
        return note_said(c, end.code == 1 ? -ENOENT : -EINVAL, &said);
}
