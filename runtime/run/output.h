/*
 * output.h - what a detached command says: two files in the run's log/, "<id>.out" and "<id>.err", each kept
 * below a size by rotation
 */
#pragma once

#include <poll.h>
#include <stdint.h>

#include "runtime/base/error.h"

enum { OUTPUT_STREAMS = 2, OUTPUT_FILE_MAX_BYTES = 8 << 20 };

/** struct output - both streams; embedded */
struct output {
        struct {
                int pipe_fd; /* to read from, non-blocking, owned; -1: ended */
                int file_fd; /* owned; -1: none, what comes is thrown away */
                uint64_t bytes;
        } streams[OUTPUT_STREAMS];
        int lost_errno; /* why something was not written; 0: all was; -1: that was said */
        int log_fd;     /* directory, owned */
        uint32_t id;
};
#define OUTPUT_INIT \
        { .streams = { { .pipe_fd = -1, .file_fd = -1 }, { .pipe_fd = -1, .file_fd = -1 } }, .log_fd = -1 }

/**
 * output_open() - make the files of command @id and the pipes that lead to them
 * @run_fd:    the run directory
 * @ret_theirs: the command's ends, owned by the caller
 * Return: 0 or -errno with a message.
 */
int output_open(struct output *o, int run_fd, uint32_t id, int ret_theirs[OUTPUT_STREAMS], struct error *err)
        __attribute__((warn_unused_result));

/** output_poll() / output_dispatch() - what to wait for; move what came. A full disk loses output, never the
 * run. */
void output_poll(const struct output *o, struct pollfd fds[OUTPUT_STREAMS]);
void output_dispatch(struct output *o, const struct pollfd fds[OUTPUT_STREAMS]);

/** output_close() - move what is left in the pipes, then close */
void output_close(struct output *o);
