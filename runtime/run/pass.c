#include "runtime/run/pass.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>

#include "runtime/base/cleanup.h"
#include "runtime/run/client.h"

/** struct pass - both sides */
struct pass {
        int sock, client; /* borrowed; -1: the client is gone */
        bool over;
        struct run_msg last;
};

static int from_supervisor(struct pass *p) {
        struct run_msg msg;
        AUTO_FD int fd = -1;
        int r;

        r = run_msg_recv(p->sock, &msg, &fd);
        if (r == -ECONNRESET) /* a message of ours was unread: the kernel tells that before the last words */
                r = run_msg_recv(p->sock, &msg, &fd);
        if (r < 0)
                return r;
        p->over = msg.type == RUN_MSG_EXIT || msg.type == RUN_MSG_ERROR || msg.type == RUN_MSG_READY;
        if (p->over)
                p->last = msg;
        else if (p->client >= 0)
                (void) run_msg_send(p->client, &msg, fd); /* one that is gone shows as end of file */
        return 0;
}

static void from_client(struct pass *p) {
        struct run_msg msg;

        if (run_msg_recv(p->client, &msg, NULL) < 0) {
                p->client = -1;
                msg = (struct run_msg){ .type = RUN_MSG_KILL };
        }
        (void) run_msg_send(p->sock, &msg, -1); /* so does the supervisor */
}

static int loop(struct pass *p, struct relay *relay) {
        while (!p->over) {
                struct pollfd fds[2 + RELAY_STREAMS] = { { .fd = p->sock, .events = POLLIN },
                                                         { .fd = p->client, .events = POLLIN } };
                const int ms = relay_poll(relay, fds + 2);
                int r = 0;

                if (poll(fds, ARRAY_SIZE(fds), ms) < 0) {
                        if (errno == EINTR)
                                continue;
                        return -errno;
                }
                relay_dispatch(relay, fds + 2);
                if (fds[1].revents)
                        from_client(p);
                if (fds[0].revents)
                        r = from_supervisor(p);
                if (r < 0)
                        return r;
        }
        return 0;
}

int pass_wait(int sock, int client, struct relay *relay, struct run_msg *ret, struct error *err) {
        const struct sigaction ignore = { .sa_handler = SIG_IGN };
        struct pass p = { .sock = sock, .client = client };
        int r;

        (void) sigaction(SIGPIPE, &ignore, NULL);
        r = loop(&p, relay);
        relay_drain(relay);
        if (r < 0)
                return error_set(err, r, "the supervisor of the run is gone: %s", strerror(-r));
        *ret = p.last;
        client_tell_lost(relay, ret);
        return 0;
}
