#include "netns/tunnel.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "runtime/base/cleanup.h"

enum {
        LARGE_BYTES = 1 << 20,
        MOVE_BYTES = 1 << 20,
        MORE_BYTES = 65536, /* after fewer there is probably no more: epoll says if there is */
        COPY_BYTES = 32768,
        ROUND_BYTES = 8 << 20, /* of all that are ready, before anybody gets another turn */
};

static const struct pipe no_pipe = { .fds = { -1, -1 } };

static void pipe_close(struct pipes *pipes, struct pipe *pipe) {
        pipe->fds[0] = fd_close(pipe->fds[0]);
        pipe->fds[1] = fd_close(pipe->fds[1]);
        if (pipe->large)
                pipes->n_large--;
        pipe->large = false;
}

void pipes_deinit(struct pipes *pipes) {
        while (pipes->n_kept > 0)
                pipe_close(pipes, &pipes->kept[--pipes->n_kept]);
}

static int pipe_borrow(struct pipes *pipes, struct pipe *ret) {
        struct pipe pipe = no_pipe;

        if (pipes->n_kept > 0) {
                *ret = pipes->kept[--pipes->n_kept];
                pipes->n_out++;
                return 0;
        }
        if (pipes->n_out >= PIPES_MAX)
                return -EMFILE;
        if (pipe2(pipe.fds, O_NONBLOCK | O_CLOEXEC) < 0)
                return -errno;
        if (pipes->n_large < PIPES_LARGE_MAX && fcntl(pipe.fds[1], F_SETPIPE_SZ, LARGE_BYTES) >= 0) {
                pipe.large = true;
                pipes->n_large++;
        }
        pipes->n_out++;
        *ret = pipe;
        return 0;
}

/* Only an empty one is kept: bytes of one tunnel must not turn up in another. */
static void pipe_return(struct pipes *pipes, struct pipe *pipe, bool empty) {
        if (pipe->fds[0] < 0)
                return;
        pipes->n_out--;
        if (empty && pipes->n_kept < PIPES_KEPT_MAX)
                pipes->kept[pipes->n_kept++] = *pipe;
        else
                pipe_close(pipes, pipe);
        *pipe = no_pipe;
}

void tunnel_init(struct tunnel *tunnel, struct loop *loop, struct pipes *pipes) {
        *tunnel = (struct tunnel){ .loop = loop, .pipes = pipes };
        for (size_t i = 0; i < 2; i++) {
                tunnel->ends[i].tunnel = tunnel;
                tunnel->ends[i].fd = -1;
                tunnel->ends[i].pipe = no_pipe;
        }
}

void tunnel_deinit(struct tunnel *tunnel) {
        for (size_t i = 0; i < 2; i++) {
                struct tunnel_end *end = &tunnel->ends[i];

                if (end->watch.active)
                        loop_close(tunnel->loop, &end->watch);
                else
                        (void) fd_close(end->fd);
                end->fd = -1;
                pipe_return(tunnel->pipes, &end->pipe, end->in_pipe == 0);
        }
}

static struct tunnel_end *other(struct tunnel_end *end) {
        return end == &end->tunnel->ends[0] ? &end->tunnel->ends[1] : &end->tunnel->ends[0];
}

static int broke(struct tunnel_end *end, int error) {
        if (end->broken == 0)
                end->broken = error;
        return -error;
}

/* Without a pipe. Return: bytes moved, 0 at the end, -EAGAIN (none there), -ENOBUFS, -errno. */
static ssize_t move_copy(struct tunnel_end *from, struct tunnel_end *to) {
        char data[COPY_BYTES];
        ssize_t n, m;

        n = recv(from->fd, data, sizeof(data), MSG_PEEK);
        if (n <= 0)
                return n == 0 ? 0 : errno == EAGAIN ? -EAGAIN : broke(from, errno);
        m = send(to->fd, data, (size_t) n, MSG_NOSIGNAL);
        if (m < 0)
                return errno == EAGAIN ? -ENOBUFS : broke(to, errno);
        n = recv(from->fd, data, (size_t) m, 0); /* what was sent is still there */
        from->tunnel->progress = true;
        return n == m ? m : broke(from, EIO);
}

/* At most @max bytes from the socket into the pipe, when that is empty. Return: as move_copy(). */
static ssize_t fill(struct tunnel_end *from, size_t max) {
        ssize_t n;

        n = splice(from->fd, NULL, from->pipe.fds[1], NULL, max, SPLICE_F_NONBLOCK | SPLICE_F_MOVE);
        if (n < 0)
                return errno == EAGAIN ? -EAGAIN : broke(from, errno);
        from->in_pipe = (size_t) n;
        from->tunnel->progress = from->tunnel->progress || n > 0;
        return n;
}

/* From the pipe to the other socket. Return: 0, -ENOBUFS (it takes no more), -errno. */
static int drain(struct tunnel_end *from, struct tunnel_end *to) {
        while (from->in_pipe > 0) {
                const ssize_t n = splice(from->pipe.fds[0], NULL, to->fd, NULL, from->in_pipe,
                                         SPLICE_F_NONBLOCK | SPLICE_F_MOVE);

                if (n < 0)
                        return errno == EAGAIN ? -ENOBUFS : broke(to, errno);
                from->in_pipe -= (size_t) n;
                from->tunnel->progress = true;
        }
        pipe_return(from->tunnel->pipes, &from->pipe, true);
        return 0;
}

/*
 * One move, of at most @max bytes. @first: of this turn. splice(2) does not pass the mark of urgent data:
 * there it says that nothing has come, or that nothing more will, which recv(2) knows better. Return: bytes
 * taken from the socket, 0 at its end, -EAGAIN (none there), -ENOBUFS, -errno.
 */
static ssize_t move(struct tunnel_end *from, struct tunnel_end *to, size_t max, bool first) {
        ssize_t n;
        int r;

        if (from->in_pipe > 0) {
                r = drain(from, to);
                if (r < 0)
                        return r;
        }
        if (from->eof)
                return 0;
        if (from->pipe.fds[0] < 0 && pipe_borrow(from->tunnel->pipes, &from->pipe) < 0)
                return move_copy(from, to);
        n = fill(from, max);
        r = n > 0 ? drain(from, to) : 0;
        if (from->in_pipe == 0)
                pipe_return(from->tunnel->pipes, &from->pipe, true);
        if (n == 0 || (n == -EAGAIN && first))
                return move_copy(from, to);
        return r < 0 ? r : n;
}

/* Return: 0, -ENOBUFS (the receiver has to read first), or what broke one of them. */
static int pump(struct tunnel_end *from, struct tunnel_end *to) {
        size_t left = ROUND_BYTES / loop_ready(from->tunnel->loop);

        for (bool first = true; first || left >= MORE_BYTES; first = false) {
                const size_t max = left < MORE_BYTES ? MORE_BYTES : left < MOVE_BYTES ? left : MOVE_BYTES;
                const ssize_t n = move(from, to, max, first);

                if (n == -EAGAIN)
                        return 0;
                if (n < 0)
                        return (int) n;
                if (n == 0) {
                        from->eof = true;
                        from->tunnel->progress = true;
                        if (!to->shut)
                                (void) shutdown(to->fd, SHUT_WR);
                        to->shut = true;
                        return 0;
                }
                if (n < MORE_BYTES)
                        return 0;
                left -= (size_t) n < left ? (size_t) n : left;
        }
        return 0;
}

/* What both ends wait for. @blocked: per end, that the other does not take what comes from it. */
static void update(struct tunnel *tunnel, const bool blocked[2]) {
        for (size_t i = 0; i < 2; i++) {
                struct tunnel_end *end = &tunnel->ends[i];
                const uint32_t in = end->eof || blocked[i] || tunnel->ends[!i].broken ? 0 : EPOLLIN;
                const uint32_t out = blocked[!i] ? EPOLLOUT : 0;

                /* closed in both directions it would report EPOLLHUP for ever, whatever is waited for */
                if (end->broken || (end->eof && end->shut) || (end->hung_up && !(in | out)))
                        loop_remove(tunnel->loop, &end->watch);
                else
                        loop_set(tunnel->loop, &end->watch, in | out);
        }
}

/*
 * A server may say why it does not want the rest, and close before it has read that: what has come from a
 * broken end goes to the other one. Return: 0, or why the tunnel ends now.
 */
static int rescue(struct tunnel *tunnel, bool blocked[2]) {
        for (size_t i = 0; i < 2; i++) {
                struct tunnel_end *end = &tunnel->ends[i], *to = &tunnel->ends[!i];
                int r;

                if (!end->broken)
                        continue;
                if (!blocked[i] && !to->broken) {
                        tunnel->progress = false;
                        r = pump(end, to);
                        if (r != -ENOBUFS && (end->eof || !tunnel->progress))
                                return end->broken;
                }
                if (to->broken)
                        return end->broken;
                blocked[i] = true;
        }
        return 0;
}

static void run(struct tunnel *tunnel, const bool wanted[2]) {
        bool blocked[2];
        int r;

        tunnel->progress = false;
        for (size_t i = 0; i < 2; i++) {
                struct tunnel_end *from = &tunnel->ends[i], *to = &tunnel->ends[!i];

                blocked[i] = to->watch.active && to->watch.events & EPOLLOUT;
                if (!wanted[i] || to->broken)
                        continue;
                r = pump(from, to);
                /* an end that is not watched is read from when the other takes bytes, up to its end */
                blocked[i] = r == -ENOBUFS || (r == 0 && !from->eof && !from->watch.active);
        }
        r = rescue(tunnel, blocked);
        if (r != 0 || (tunnel->ends[0].shut && tunnel->ends[1].shut && tunnel->ends[0].in_pipe == 0 &&
                       tunnel->ends[1].in_pipe == 0)) {
                tunnel->ended(tunnel, r);
                return;
        }
        update(tunnel, blocked);
        if (tunnel->progress)
                tunnel->moved(tunnel);
}

static void on_event(struct loop_watch *watch, uint32_t events) {
        struct tunnel_end *end = (struct tunnel_end *) watch;
        const bool in = events & (EPOLLIN | EPOLLHUP | EPOLLERR), out = events & EPOLLOUT;
        socklen_t len = sizeof(int);
        int error = EIO;

        if (events & EPOLLERR) {
                (void) getsockopt(end->fd, SOL_SOCKET, SO_ERROR, &error, &len);
                (void) broke(end, error ? error : EIO);
        }
        end->hung_up = end->hung_up || events & EPOLLHUP;
        run(end->tunnel,
            end == &end->tunnel->ends[0] ? (const bool[2]){ in, out } : (const bool[2]){ out, in });
}

int tunnel_send(struct tunnel *tunnel, struct tunnel_end *to, const void *data, size_t len) {
        struct tunnel_end *from = other(to);
        const char *p = data;
        ssize_t n;
        int r;

        n = from->in_pipe == 0 ? send(to->fd, p, len, MSG_NOSIGNAL) : 0;
        if (n < 0 && errno != EAGAIN)
                return -errno;
        if (n > 0) {
                p += n;
                len -= (size_t) n;
        }
        if (len == 0)
                return 0;
        if (from->pipe.fds[0] < 0) {
                r = pipe_borrow(tunnel->pipes, &from->pipe);
                if (r < 0)
                        return r;
        }
        n = write(from->pipe.fds[1], p, len);
        if (n != (ssize_t) len)
                return n < 0 && errno != EAGAIN ? -errno : -ENOBUFS;
        from->in_pipe += len;
        return 0;
}

bool tunnel_pending(struct tunnel_end *to) {
        return other(to)->in_pipe > 0;
}

int tunnel_flush(struct tunnel_end *to) {
        return drain(other(to), to);
}

void tunnel_start(struct tunnel *tunnel, tunnel_fn ended, tunnel_moved_fn moved) {
        bool blocked[2];

        tunnel->ended = ended;
        tunnel->moved = moved;
        for (size_t i = 0; i < 2; i++) {
                tunnel->ends[i].watch.fn = on_event;
                blocked[i] = tunnel->ends[i].in_pipe > 0;
        }
        update(tunnel, blocked);
}
