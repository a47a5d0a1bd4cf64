/*
 * exec.h - commands in a container of a pod, over WebSocket
 *
 * Subprotocol v5.channel.k8s.io, or v4 where the server knows no other. v4 cannot say that stdin has ended:
 * there the command is wrapped, and its stdin comes in frames ("LENGTH\n" and so many bytes; "0\n" is the
 * end), which `cofferdam @frame` unpacks inside, or a line of sh where the image has no cofferdam. The caller
 * sees no difference.
 *
 * The exit code comes from the status channel only. A connection that ends before that is -ECONNRESET or
 * -ETIMEDOUT, never an exit code: the command may still run.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/ioctl.h>

#include "kubernetes/client/client.h"

struct kube_exec; /* opaque; belongs to its client, and must be freed before it */

enum {
        KUBE_EXEC_FRAME_MAX = 16 << 20, /* bytes of one message from the server */
        KUBE_EXEC_QUEUE_MAX = 1 << 20, /* bytes of stdin that kube_exec_send() takes before it says -EAGAIN */
        KUBE_EXEC_ARGS_MAX = 64 << 10, /* bytes of the command in the URL, encoded: pass more by stdin */
        KUBE_EXEC_PING_MS = 15000,     /* a ping after so much silence */
        KUBE_EXEC_DEAD_MS = 45000,     /* nothing for so long, not even a pong: the connection is lost */
};

/**
 * struct kube_exec_request - one command; borrowed until kube_exec_open() returns, but @output and @arg
 * @ns:        NULL: the namespace of the configuration
 * @container: NULL: the only one, or the default one of the pod
 * @argv:      NULL-terminated. It is in the URL and thus in audit logs: no secrets
 * @has_stdin: else the command reads an empty stdin
 * @tty:       a terminal: stderr is in stdout, and stdin has no end but what is typed
 * @size:      of the terminal at first; rows 0: not known
 * @frame:     absolute path of cofferdam in the container, for v4; NULL: sh does it
 * @output:    called from kube_exec_step() with bytes of stdout (1) or stderr (2). Return: bytes taken, all
 * or less; 0: none now, and nothing more is read from the server until it takes some; or a negative errno,
 *             which kube_exec_step() returns
 */
struct kube_exec_request {
        const char *ns, *pod, *container;
        const char *const *argv;
        bool has_stdin;
        bool tty;
        struct winsize size;
        const char *frame;
        ssize_t (*output)(void *arg, int stream, const void *data, size_t len);
        void *arg;
};

/**
 * struct kube_exec_end - how a command ended, in the words of the status channel
 * @exit_code: 0..255; 128 + signal is what runtimes say of a killed one
 * @started:   false: it could not be executed at all (no such program, not executable); @exit_code is 126 or
 * 127
 * @message:   one line of the server's when it is not plain success; "" else
 */
struct kube_exec_end {
        int exit_code;
        bool started;
        char message[KUBE_MESSAGE_MAX];
};

/**
 * kube_exec_open() - connect and start the command
 * @ret: caller frees with kube_exec_free(), which cuts the connection
 * Return: 0, -E2BIG (the command), -ENOENT (no such pod), -EINVAL (no such container, or it is not running),
 * or as client.h says.
 */
int kube_exec_open(struct kube *kube, const struct kube_exec_request *request, struct kube_exec **ret,
                   struct error *err) __attribute__((warn_unused_result));

/** kube_exec_free() - Return: NULL. */
struct kube_exec *kube_exec_free(struct kube_exec *exec);
DEFINE_AUTO(struct kube_exec, kube_exec, kube_exec_free)
#define AUTO_KUBE_EXEC CLEANUP(auto_kube_exec)

/** kube_exec_protocol() - 4 or 5 */
int kube_exec_protocol(const struct kube_exec *exec);

/**
 * kube_exec_send() - queue bytes of stdin
 * Does not block. Return: bytes taken, at least 1; -EAGAIN: the queue is full, step first; -EPIPE: stdin was
 * closed, or the command has ended.
 */
ssize_t kube_exec_send(struct kube_exec *exec, const void *data, size_t len)
        __attribute__((warn_unused_result));

/** kube_exec_close_stdin() - queue the end of stdin, behind what was sent. Return: 0, -ENOMEM. */
int kube_exec_close_stdin(struct kube_exec *exec) __attribute__((warn_unused_result));

/** kube_exec_resize() - tell the terminal its size. Return: 0, -ENOMEM. */
int kube_exec_resize(struct kube_exec *exec, const struct winsize *size) __attribute__((warn_unused_result));

/** kube_exec_queued() - bytes of stdin that have not been sent yet */
size_t kube_exec_queued(const struct kube_exec *exec);

/** kube_exec_fd() - the socket to poll between two steps, and what for (POLLIN, POLLOUT); -1 once it ended */
int kube_exec_fd(const struct kube_exec *exec, short *ret_events);

/**
 * kube_exec_step() - move what can be moved: sends, receives, calls @output, pings
 * @wait_ms: at most so long for the server; 0: not at all; -1: until something moves
 * @ret_ended: the command has ended and all of its output was taken: see kube_exec_result()
 * Return: 0; -ECONNRESET (lost: cut in the middle), -ETIMEDOUT (lost: KUBE_EXEC_DEAD_MS), -EBADMSG, -EFBIG
 * (the server breaks the protocol), -ECANCELED, or what @output returned. After a failure only
 * kube_exec_free() is left.
 */
int kube_exec_step(struct kube_exec *exec, int wait_ms, bool *ret_ended, struct error *err)
        __attribute__((warn_unused_result));

/** kube_exec_result() - after kube_exec_step() said that it ended; borrowed */
const struct kube_exec_end *kube_exec_result(const struct kube_exec *exec);

/**
 * struct kube_exec_stdio - descriptors for kube_exec_run(); borrowed
 * @in:     -1: none
 * @out, @err: -1: thrown away
 * @resize: readable when the terminal's size is to be asked again of @in (a signalfd of SIGWINCH); -1: never
 * @deadline_ns: of clock_ns(); 0: none
 */
struct kube_exec_stdio {
        int in, out, err;
        int resize;
        uint64_t deadline_ns;
};

/**
 * kube_exec_run() - a command from beginning to end on descriptors; blocks
 * @request: has_stdin, output and arg are set here
 * A reader of @out that went away is -EPIPE, as a command would see it; the terminal's mode is the caller's
 * affair. The descriptors may be of any kind; they are not made non-blocking, and one that blocks holds up
 * the others. Return: 0 (@ret is set), -ETIMEDOUT (the deadline, or lost), or as kube_exec_open() and
 * kube_exec_step().
 */
int kube_exec_run(struct kube *kube, const struct kube_exec_request *request,
                  const struct kube_exec_stdio *stdio, struct kube_exec_end *ret, struct error *err)
        __attribute__((warn_unused_result));

/**
 * kube_exec_collect() - a short command; its output in memory, at most @max bytes of each stream
 * @input: for its stdin; NULL: none
 * @out, @errors: appended to; NULL: thrown away
 * @timeout_ms: for all of it
 * Return: 0 (@ret is set), -EFBIG (more output), -ETIMEDOUT, or as above.
 */
int kube_exec_collect(struct kube *kube, const struct kube_exec_request *request, const struct buf *input,
                      size_t max, unsigned timeout_ms, struct buf *out, struct buf *errors,
                      struct kube_exec_end *ret, struct error *err) __attribute__((warn_unused_result));

/**
 * kube_exec_status() - read a message of the status channel; for tests and fuzzing
 * Return: 0, -EBADMSG (no Status, or one that says nothing of an end).
 */
int kube_exec_status(const char *text, size_t len, struct kube_exec_end *ret)
        __attribute__((warn_unused_result));
