#include "runtime/run/relay.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/base/cleanup.h"
#include "runtime/base/file.h"

enum { CHUNK = 65536, DRAIN_STEP_MS = 2000 };

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
                if (!S_ISREG(st.st_mode))
                        continue;
                if (i == 2 && out->file_fd >= 0 && same_file(out->file_fd, stdio[i])) {
                        stdio[i] = out->theirs; /* the order of what is written to both is kept */
                        continue;
                }
                r = make_pipe(s, stdio[i], i == 0, err);
                if (r < 0)
                        return r;
                stdio[i] = s->theirs;
        }
        return 0;
}

void relay_drop_ours(struct relay *r) {
        for (int i = 0; i < RELAY_STREAMS; i++)
                r->streams[i].ours = fd_close(r->streams[i].ours);
}

void relay_drop_theirs(struct relay *r) {
        for (int i = 1; i < RELAY_STREAMS; i++)
                r->streams[i].theirs = fd_close(r->streams[i].theirs);
}

void relay_poll(const struct relay *r, struct pollfd fds[RELAY_STREAMS]) {
        for (int i = 0; i < RELAY_STREAMS; i++)
                fds[i] = (struct pollfd){ .fd = r->streams[i].ours, .events = i == 0 ? POLLOUT : POLLIN };
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

/* From the pipe into the file; a file that takes no more ends the pipe, and the command gets SIGPIPE. */
static void take(struct relay_stream *s) {
        char chunk[CHUNK];
        const ssize_t n = read(s->ours, chunk, sizeof(chunk));

        if (n < 0 && (errno == EAGAIN || errno == EINTR))
                return;
        if (n > 0)
                s->error = write_all(s->file_fd, chunk, (size_t) n);
        if (n <= 0 || s->error < 0)
                end(s);
}

void relay_dispatch(struct relay *r, const struct pollfd fds[RELAY_STREAMS]) {
        for (int i = 0; i < RELAY_STREAMS; i++) {
                if (fds[i].fd < 0 || !fds[i].revents)
                        continue;
                if (i == 0)
                        feed(&r->streams[i]);
                else
                        take(&r->streams[i]);
        }
}

void relay_drain(struct relay *r) {
        struct pollfd fds[RELAY_STREAMS];

        end(&r->streams[0]);
        for (;;) {
                relay_poll(r, fds);
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

        if (r->streams[0].theirs >= 0 && ioctl(r->streams[0].theirs, FIONREAD, &unread) == 0 && unread > 0)
                (void) lseek(r->streams[0].file_fd, -unread, SEEK_CUR);
        relay_drop_ours(r);
        for (int i = 0; i < RELAY_STREAMS; i++)
                r->streams[i].theirs = fd_close(r->streams[i].theirs);
}
