#include "runtime/run/relay.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/base/cleanup.h"

/* LIVE_CHUNK: a page, the least that a pipe holds; one that has room for it then is empty */
enum { CHUNK = 65536, LIVE_CHUNK = 4096, DRAIN_STEP_MS = 2000, BACKGROUND_STEP_MS = 500 };

static const char *const names[RELAY_STREAMS] = { "input", "output", "error" };

static int make_pipe(struct relay_stream *s, int file_fd, bool input, struct error *err) {
        int pair[2];

        if (pipe2(pair, O_CLOEXEC) < 0)
                return error_set(err, -errno, "pipe for a standard descriptor: %s", strerror(errno));
        s->file_fd = file_fd;
        s->ours = pair[input];
        s->theirs = pair[!input];
        (void) fcntl(s->ours, F_SETFL, O_NONBLOCK);
        return 0;
}

/* Whether @fd is a unix stream socket that is connected: it cannot be led elsewhere. */
static bool is_closed_in(int fd) {
        struct sockaddr_storage peer;
        socklen_t len = sizeof(int), peer_len = sizeof(peer);
        int domain = 0, type = 0;

        return getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &len) == 0 && domain == AF_UNIX &&
               getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &len) == 0 && type == SOCK_STREAM &&
               getpeername(fd, (struct sockaddr *) &peer, &peer_len) == 0;
}

static bool is_live(int fd, mode_t mode) {
        return S_ISSOCK(mode) ? !is_closed_in(fd) : S_ISCHR(mode) && isatty(fd);
}

static bool same_file(int a, int b) {
        struct stat x, y;

        return a >= 0 && b >= 0 && fstat(a, &x) == 0 && fstat(b, &y) == 0 && x.st_dev == y.st_dev &&
               x.st_ino == y.st_ino;
}

int relay_init(struct relay *ret, int stdio[RELAY_STREAMS], struct error *err) {
        for (int i = 0; i < RELAY_STREAMS; i++) {
                struct relay_stream *s = &ret->streams[i], *out = &ret->streams[1];
                struct stat st;
                int r;

                if (stdio[i] < 0 || fstat(stdio[i], &st) < 0)
                        continue;
                if (S_ISDIR(st.st_mode) || S_ISBLK(st.st_mode))
                        return error_set(
                                err, -EINVAL,
                                "standard %s is a %s, which would lead out of the sandbox: redirect it to a "
                                "file or to /dev/null",
                                names[i], S_ISDIR(st.st_mode) ? "directory" : "disk");
                s->live = is_live(stdio[i], st.st_mode);
                if (!S_ISREG(st.st_mode) && !s->live)
                        continue;
                if (i == 2 && out->file_fd >= 0 && same_file(out->file_fd, stdio[i])) {
                        stdio[i] = out->theirs; /* the order of what is written to both is kept */
                        continue;
                }
                r = make_pipe(s, stdio[i], i == 0, err);
                if (r < 0)
                        return r;
                if (i == 0 && s->live && fcntl(s->ours, F_SETPIPE_SZ, LIVE_CHUNK) < 0)
                        return error_set(err, -errno, "pipe for standard input: %s", strerror(errno));
                stdio[i] = s->theirs;
        }
        return 0;
}

void relay_drop_ours(struct relay *r) {
        for (int i = 0; i < RELAY_STREAMS; i++)
                r->streams[i].ours = fd_close(r->streams[i].ours);
}

void relay_drop_theirs(struct relay *r) {
        for (int i = 0; i < RELAY_STREAMS; i++)
                if (i > 0 || r->streams[i].live)
                        r->streams[i].theirs = fd_close(r->streams[i].theirs);
}

/* Whoever reads from a terminal in the background is stopped. */
static bool in_background(int fd) {
        const pid_t group = tcgetpgrp(fd);

        return group >= 0 && group != getpgrp();
}

int relay_poll(const struct relay *r, struct pollfd fds[RELAY_STREAMS]) {
        const struct relay_stream *in = &r->streams[0];

        for (int i = 0; i < RELAY_STREAMS; i++)
                fds[i] = (struct pollfd){ .fd = r->streams[i].ours, .events = i == 0 ? POLLOUT : POLLIN };
        if (in->ours < 0 || !in->empty)
                return -1;
        fds[0] = (struct pollfd){ .fd = in->file_fd, .events = POLLIN };
        if (!in_background(in->file_fd))
                return -1;
        fds[0].fd = -1;
        return BACKGROUND_STEP_MS;
}

static void end(struct relay_stream *s) {
        s->ours = fd_close(s->ours);
}

/* From the file into the pipe; what does not fit stays in the file. */
static void feed(struct relay_stream *s) {
        char chunk[CHUNK];
        ssize_t n, done;

        n = read(s->file_fd, chunk, sizeof(chunk));
        if (n < 0 && errno == EINTR)
                return;
        if (n <= 0) {
                end(s);
                return;
        }
        done = write(s->ours, chunk, (size_t) n);
        if (done < n)
                (void) lseek(s->file_fd, (done < 0 ? 0 : done) - n, SEEK_CUR);
        if (done < 0 && errno != EAGAIN && errno != EINTR)
                end(s);
}

/* From a terminal or socket, and no more than the command has room for: what it does not read is lost. */
static void feed_live(struct relay_stream *s) {
        char chunk[LIVE_CHUNK];
        ssize_t n;

        if (!s->empty) {
                s->empty = true;
                return;
        }
        n = read(s->file_fd, chunk, sizeof(chunk));
        if (n < 0 && (errno == EINTR || errno == EAGAIN))
                return;
        if (n <= 0 || write(s->ours, chunk, (size_t) n) < 0)
                end(s);
        s->empty = false;
}

/* To what may be in non-blocking mode, which is not ours to change. Return: 0, -errno. */
static int put(int fd, const char *data, size_t n) {
        while (n > 0) {
                const ssize_t done = write(fd, data, n);

                if (done >= 0) {
                        data += done;
                        n -= (size_t) done;
                } else if (errno == EAGAIN) {
                        (void) poll(&(struct pollfd){ .fd = fd, .events = POLLOUT }, 1, -1);
                } else if (errno != EINTR) {
                        return -errno;
                }
        }
        return 0;
}

/* From the pipe into the file; a file that takes no more ends the pipe, and the command gets SIGPIPE. */
static void take(struct relay_stream *s) {
        char chunk[CHUNK];
        const ssize_t n = read(s->ours, chunk, sizeof(chunk));

        if (n < 0 && (errno == EAGAIN || errno == EINTR))
                return;
        if (n > 0)
                s->error = put(s->file_fd, chunk, (size_t) n);
        if (n <= 0 || s->error < 0)
                end(s);
}

void relay_dispatch(struct relay *r, const struct pollfd fds[RELAY_STREAMS]) {
        for (int i = 0; i < RELAY_STREAMS; i++) {
                if (fds[i].fd < 0 || !fds[i].revents)
                        continue;
                if (i == 0 && r->streams[i].live && fds[i].revents & POLLERR)
                        end(&r->streams[i]); /* nobody is left to read, or nothing can be read */
                else if (i == 0 && r->streams[i].live)
                        feed_live(&r->streams[i]);
                else if (i == 0)
                        feed(&r->streams[i]);
                else
                        take(&r->streams[i]);
        }
}

void relay_drain(struct relay *r) {
        struct pollfd fds[RELAY_STREAMS];

        end(&r->streams[0]);
        for (;;) {
                (void) relay_poll(r, fds);
                if (fds[1].fd < 0 && fds[2].fd < 0)
                        return;
                if (poll(fds, RELAY_STREAMS, DRAIN_STEP_MS) <= 0)
                        return;
                relay_dispatch(r, fds);
        }
}

int relay_error(const struct relay *r, struct error *err) {
        for (int i = 1; i < RELAY_STREAMS; i++)
                if (r->streams[i].error < 0)
                        return error_set(err, r->streams[i].error, "write to standard %s: %s", names[i],
                                         strerror(-r->streams[i].error));
        return 0;
}

void relay_deinit(struct relay *r) {
        int unread = 0;

        if (!r->streams[0].live && r->streams[0].theirs >= 0 &&
            ioctl(r->streams[0].theirs, FIONREAD, &unread) == 0 && unread > 0)
                (void) lseek(r->streams[0].file_fd, -unread, SEEK_CUR);
        relay_drop_ours(r);
        for (int i = 0; i < RELAY_STREAMS; i++)
                r->streams[i].theirs = fd_close(r->streams[i].theirs);
}
