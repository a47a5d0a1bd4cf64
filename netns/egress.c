#include "netns/egress.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "runtime/base/buf.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/fdpass.h"
#include "runtime/base/file.h"

/* kinds of messages to the process */
enum { SEND_POLICY = 'P', SEND_RESOLV = 'R' };

struct egress {
        struct loop_watch watch; /* of @control; first: events come with it */
        const struct egress_config *config;
        struct proxy *proxy;
        struct policy *policy; /* owned */
        int control;
        bool end;
};

/* --- notices -------------------------------------------------------------------------------------------- */

static void put(char *out, size_t size, const char *s) {
        const size_t n = strnlen(s, size - 1);

        memcpy(out, s, n);
        out[n] = '\0';
}

static void send_notice(const struct egress *egress, const struct egress_notice *notice) {
        (void) send(egress->control, notice, sizeof(*notice), MSG_NOSIGNAL | MSG_DONTWAIT);
}

/* What has taken the file's place cannot be opened from here: landlock knows the old one. */
static void on_resolv_changed(void *arg) {
        send_notice(arg, &(struct egress_notice){ .kind = EGRESS_RESOLV });
}

static void on_blocked(void *arg, const struct blocked *b) {
        struct egress_notice notice = {
                .kind = EGRESS_BLOCKED, .port = b->port, .count = b->count, .has_rule = b->rule != NULL
        };

        put(notice.host, sizeof(notice.host), b->host);
        put(notice.reason, sizeof(notice.reason), b->reason);
        put(notice.rule, sizeof(notice.rule), b->rule ? b->rule : "");
        send_notice(arg, &notice);
}

int egress_recv(int control, struct egress_notice *ret) {
        struct egress_notice notice = { 0 };
        size_t len;
        int r;

        r = fdpass_recv(control, &notice, sizeof(notice), &len, NULL, 0, NULL);
        if (r < 0)
                return r;
        if (len != sizeof(notice) || notice.kind >= EGRESS_KIND_COUNT)
                return -EBADMSG;
        notice.host[sizeof(notice.host) - 1] = '\0';
        notice.reason[sizeof(notice.reason) - 1] = '\0';
        notice.rule[sizeof(notice.rule) - 1] = '\0';
        *ret = notice;
        return 0;
}

/* --- a policy as bytes: the preset, then the rules, each with a NUL behind it -----------------------------
 */

static int pack(struct buf *out, const char *preset, const char *const *rules, size_t n) {
        int r;

        out->max = EGRESS_POLICY_BYTES_MAX;
        r = buf_add(out, preset ? preset : "", preset ? strlen(preset) + 1 : 1);
        for (size_t i = 0; r == 0 && i < n; i++)
                r = buf_add(out, rules[i], strlen(rules[i]) + 1);
        return r;
}

/* As a file that nothing else has. */
static int send_bytes(int control, char kind, const struct buf *bytes) {
        AUTO_FD int fd = memfd_create("egress", MFD_CLOEXEC);
        int r;

        if (fd < 0)
                return -errno;
        r = write_all(fd, bytes->data, bytes->len);
        if (r < 0)
                return r;
        if (lseek(fd, 0, SEEK_SET) < 0)
                return -errno;
        return fdpass_send(control, &kind, 1, &fd, 1);
}

int egress_send_policy(int control, const char *preset, const char *const *rules, size_t n) {
        AUTO_BUF struct buf bytes = { 0 };
        int r;

        r = pack(&bytes, preset, rules, n);
        return r < 0 ? r : send_bytes(control, SEND_POLICY, &bytes);
}

int egress_send_resolv_conf(int control, const char *path) {
        struct pollfd fd = { .fd = control, .events = POLLOUT };
        AUTO_BUF struct buf bytes = { 0 };
        int r;

        /* a process that was taken over must not be able to stop the supervisor by not reading */
        if (poll(&fd, 1, 0) <= 0)
                return -EAGAIN;
        r = file_read_at(AT_FDCWD, path ? path : "/etc/resolv.conf", EGRESS_RESOLV_BYTES_MAX, &bytes);
        return r < 0 ? r : send_bytes(control, SEND_RESOLV, &bytes);
}

static int unpack(enum network_mode mode, const struct buf *bytes, struct policy **ret, struct error *err) {
        AUTO_FREE const char **rules = NULL;
        const char *s = bytes->data, *end = bytes->data + bytes->len;
        const char *preset = s;
        size_t n = 0;

        if (bytes->len == 0 || end[-1] != '\0')
                return error_set(err, -EINVAL, "a policy that is cut off");
        rules = calloc(bytes->len, sizeof(*rules));
        if (!rules)
                return error_set(err, -ENOMEM, "out of memory");
        for (s += strlen(s) + 1; s < end; s += strlen(s) + 1)
                rules[n++] = s;
        return policy_new(mode, *preset ? preset : NULL, rules, n, ret, err);
}

static void replace(struct egress *egress, int fd) {
        struct egress_notice notice = { .kind = EGRESS_REPLACED };
        AUTO_POLICY struct policy *policy = NULL;
        AUTO_BUF struct buf bytes = { 0 };
        struct error err = { 0 };
        struct policy *old;
        int r;

        r = file_read(fd, EGRESS_POLICY_BYTES_MAX, &bytes);
        if (r < 0)
                (void) error_set(&err, r, "policy: %s", strerror(-r));
        else
                r = unpack(egress->config->mode, &bytes, &policy, &err);
        if (r < 0) {
                notice.kind = EGRESS_INVALID;
                put(notice.reason, sizeof(notice.reason), err.msg);
                send_notice(egress, &notice);
                return;
        }
        old = egress->policy;
        egress->policy = TAKE_PTR(policy);
        proxy_set_policy(egress->proxy, egress->policy);
        (void) policy_free(old);
        send_notice(egress, &notice);
}

static void on_control(struct loop_watch *watch, uint32_t events) {
        struct egress *egress = (struct egress *) watch;
        AUTO_FD int fd = -1;
        size_t len = 0, n = 0;
        char kind = 0;
        int r;

        (void) events;
        r = fdpass_recv(egress->control, &kind, sizeof(kind), &len, &fd, 1, &n);
        if (r == -EAGAIN)
                return;
        if (r < 0 || len != 1 || n != 1)
                egress->end = true;
        else if (kind == SEND_POLICY)
                replace(egress, fd);
        else if (kind == SEND_RESOLV)
                proxy_set_resolv_conf(egress->proxy, fd);
        else
                egress->end = true;
}

/* --- the process ---------------------------------------------------------------------------------------- */

static int serve(struct egress *egress, struct loop *loop, struct error *err) {
        const struct egress_config *config = egress->config;
        const struct proxy_config proxy = { .policy = egress->policy,
                                            .token = config->token,
                                            .resolv_conf = config->resolv_conf,
                                            .resolv_changed = on_resolv_changed,
                                            .blocked = on_blocked,
                                            .arg = egress };
        int r;

        r = proxy_new(loop, &proxy, &egress->proxy, err);
        for (size_t i = 0; r == 0 && i < config->n_sockets; i++) {
                r = proxy_add_consume(egress->proxy, config->sockets[i].kind, config->sockets[i].fd);
                if (r < 0)
                        (void) error_set(err, r, "egress: listen: %s", strerror(-r));
        }
        if (r == 0) {
                r = loop_add(loop, &egress->watch, egress->control, EPOLLIN, on_control);
                if (r < 0)
                        (void) error_set(err, r, "egress: control socket: %s", strerror(-r));
        }
        while (r == 0 && !egress->end) {
                r = loop_turn(loop, -1);
                if (r < 0)
                        (void) error_set(err, r, "egress: %s", strerror(-r));
        }
        egress->proxy = proxy_free(egress->proxy);
        return r;
}

int egress_run(const struct egress_config *config, int control, struct error *err) {
        struct egress egress = { .config = config, .policy = config->policy, .control = control };
        struct loop *loop = NULL;
        int r;

        r = loop_new(&loop);
        if (r < 0)
                (void) error_set(err, r, "egress: %s", strerror(-r));
        else
                r = serve(&egress, loop, err);
        (void) loop_free(loop);
        (void) policy_free(egress.policy);
        return r;
}
