#include "runtime/run/output.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/base/cleanup.h"
#include "runtime/base/file.h"
#include "runtime/base/sys.h"

enum { NAME_SIZE = 32, CHUNK_BYTES = 65536, DRAIN_MAX_BYTES = 1 << 20 };

static void file_name(const struct output *o, int stream, const char *suffix, char ret[NAME_SIZE]) {
        (void) snprintf(ret, NAME_SIZE, "%" PRIu32 ".%s%s", o->id, stream == 0 ? "out" : "err", suffix);
}

static int open_file(struct output *o, int stream) {
        char name[NAME_SIZE];

        file_name(o, stream, "", name);
        return openat(o->log_fd, name, O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0600);
}

/* One older file is kept beside the one that grows. */
static void rotate(struct output *o, int stream) {
        char name[NAME_SIZE], old[NAME_SIZE];

        file_name(o, stream, "", name);
        file_name(o, stream, ".1", old);
        if (renameat(o->log_fd, name, o->log_fd, old) < 0)
                return;
        (void) fd_close(o->streams[stream].file_fd);
        o->streams[stream].file_fd = open_file(o, stream);
        o->streams[stream].bytes = 0;
}

static int open_stream(struct output *o, int stream, int *ret_theirs, struct error *err) {
        int pair[2];

        o->streams[stream].file_fd = open_file(o, stream);
        if (o->streams[stream].file_fd < 0 || pipe2(pair, O_CLOEXEC) < 0)
                return error_set(err, -errno, "log of command %" PRIu32 ": %s", o->id, strerror(errno));
        o->streams[stream].pipe_fd = pair[0];
        *ret_theirs = pair[1];
        /* our end only: what the command inherits blocks, as anybody's standard output */
        return fcntl(pair[0], F_SETFL, O_NONBLOCK) < 0 ? error_set(err, -errno, "fcntl: %s", strerror(errno))
                                                       : 0;
}

int output_open(struct output *o, int run_fd, uint32_t id, int ret_theirs[OUTPUT_STREAMS],
                struct error *err) {
        int r = 0;

        *o = (struct output) OUTPUT_INIT;
        o->id = id;
        if (mkdirat(run_fd, "log", 0700) < 0 && errno != EEXIST)
                return error_set(err, -errno, "make the log directory: %s", strerror(errno));
        o->log_fd = open_beneath(run_fd, "log", O_RDONLY | O_DIRECTORY, 0);
        if (o->log_fd < 0)
                return error_set(err, o->log_fd, "open the log directory: %s", strerror(-o->log_fd));
        for (int i = 0; r == 0 && i < OUTPUT_STREAMS; i++)
                r = open_stream(o, i, &ret_theirs[i], err);
        return r;
}

/* Return: bytes moved; 0: none at the moment; -1: the stream has ended. */
static ssize_t move(struct output *o, int stream) {
        char chunk[CHUNK_BYTES];
        const ssize_t n = read(o->streams[stream].pipe_fd, chunk, sizeof(chunk));
        int r;

        if (n < 0)
                return errno == EAGAIN || errno == EINTR ? 0 : -1;
        if (n == 0)
                return -1;
        if (o->streams[stream].bytes + (uint64_t) n > OUTPUT_FILE_MAX_BYTES)
                rotate(o, stream);
        r = o->streams[stream].file_fd >= 0 ? write_all(o->streams[stream].file_fd, chunk, (size_t) n)
                                            : -ENOENT;
        if (r == 0)
                o->streams[stream].bytes += (uint64_t) n;
        else if (o->lost_errno == 0)
                o->lost_errno = -r;
        return n;
}

void output_poll(const struct output *o, struct pollfd fds[OUTPUT_STREAMS]) {
        for (int i = 0; i < OUTPUT_STREAMS; i++)
                fds[i] = (struct pollfd){ .fd = o->streams[i].pipe_fd, .events = POLLIN };
}

void output_dispatch(struct output *o, const struct pollfd fds[OUTPUT_STREAMS]) {
        for (int i = 0; i < OUTPUT_STREAMS; i++)
                if (fds[i].revents && o->streams[i].pipe_fd >= 0 && move(o, i) < 0)
                        o->streams[i].pipe_fd = fd_close(o->streams[i].pipe_fd);
}

void output_close(struct output *o) {
        for (int i = 0; i < OUTPUT_STREAMS; i++) {
                size_t left = DRAIN_MAX_BYTES; /* whoever still holds the other end does not keep us */
                ssize_t n = 1;

                while (o->streams[i].pipe_fd >= 0 && n > 0 && left >= CHUNK_BYTES) {
                        n = move(o, i);
                        left -= n > 0 ? (size_t) n : 0;
                }
                o->streams[i].pipe_fd = fd_close(o->streams[i].pipe_fd);
                o->streams[i].file_fd = fd_close(o->streams[i].file_fd);
        }
        o->log_fd = fd_close(o->log_fd);
}
