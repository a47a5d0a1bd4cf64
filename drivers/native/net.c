#include "drivers/native/net.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "drivers/native/setup.h"
#include "netns/policy.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/escape.h"
#include "runtime/base/fdpass.h"
#include "runtime/base/json.h"
#include "runtime/base/log.h"
#include "runtime/base/sys.h"

enum { LISTENERS_MAX = 2, BACKLOG = 1024, END_TIMEOUT_MS = 1000, RULE_JSON_MAX = 1024 };

bool net_wanted(const struct driver_plan *plan) {
        return plan->network == NETWORK_ALLOWLIST || plan->network == NETWORK_DENYLIST;
}

/* A rule of a denylist that allows what is allowed already: its '!' was forgotten. */
static void warn_idle(const struct driver_plan *plan) {
        for (int i = policy_next_idle(plan->net_policy, 0); i >= 0;
             i = policy_next_idle(plan->net_policy, i + 1))
                log_warn("network: '%s' changes nothing in a denylist: write '!%s' (--deny) to deny it",
                         ESC(policy_rule_text(plan->net_policy, i)),
                         ESC(policy_rule_text(plan->net_policy, i)));
}

int net_plan(struct driver_plan *plan, const struct spec *spec, struct error *err) {
        int r;

        plan->network = spec->network.mode;
        if (!net_wanted(plan))
                return 0;
        plan->net_rules = json_array();
        for (size_t i = 0; plan->net_rules && i < spec->network.n_rules; i++)
                if (json_array_append_new(plan->net_rules,
                                          json_from_bytes(spec->network.rules[i], RULE_JSON_MAX)) < 0)
                        return error_set(err, -ENOMEM, "out of memory");
        plan->net_preset = json_string(spec->network.preset ? spec->network.preset : "");
        if (!plan->net_rules || !plan->net_preset)
                return error_set(err, -ENOMEM, "out of memory");
        r = policy_new(spec->network.mode, spec->network.preset, (const char *const *) spec->network.rules,
                       spec->network.n_rules, &plan->net_policy, err);
        if (r == 0 && plan->network == NETWORK_DENYLIST)
                warn_idle(plan);
        return r;
}

json_t *net_json(const struct driver_plan *plan) {
        static const char *const modes[NETWORK_MODE_COUNT] = { [NETWORK_NONE] = "none",
                                                               [NETWORK_ALLOWLIST] = "allowlist",
                                                               [NETWORK_DENYLIST] = "denylist",
                                                               [NETWORK_OPEN] = "open" };
        const char *const mode = modes[plan->network];

        if (!net_wanted(plan))
                return json_pack("{s:s}", "mode", mode);
        return json_pack("{s:s,s:s,s:O,s:O}", "mode", mode, "proxy", NET_PROXY_URL, "preset",
                         plan->net_preset, "rules", plan->net_rules);
}

/* ---- in the sandbox ---- */

/* Return: a listening socket, owned; -errno. */
static int listen_on(const struct sockaddr *sa, socklen_t len) {
        AUTO_FD int fd = socket(sa->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

        if (fd < 0)
                return -errno;
        if (bind(fd, sa, len) < 0 || listen(fd, BACKLOG) < 0)
                return -errno;
        return TAKE_FD(fd);
}

int net_listen(int listen_sock) {
        const struct sockaddr_in v4 = { .sin_family = AF_INET,
                                        .sin_port = htons(NET_PROXY_PORT),
                                        .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
        const struct sockaddr_in6 v6 = { .sin6_family = AF_INET6,
                                         .sin6_port = htons(NET_PROXY_PORT),
                                         .sin6_addr = IN6ADDR_LOOPBACK_INIT };
        AUTO_FD int four = listen_on((const struct sockaddr *) &v4, sizeof(v4));
        AUTO_FD int six = listen_on((const struct sockaddr *) &v6, sizeof(v6));
        const int fds[LISTENERS_MAX] = { four, six };

        if (four < 0)
                return four;
        return fdpass_send(listen_sock, "L", 1, fds, six < 0 ? 1 : 2);
}

/* ---- the process ---- */

struct egress_child {
        const struct driver_plan *plan;
        int listen_sock, control;
        pid_t parent;
};

_Noreturn static void egress_main(const struct egress_child *c) {
        const int keep[] = { c->listen_sock, c->control };
        const struct confine_helper helper = { .id = &c->plan->id,
                                               .parent = c->parent,
                                               .death_signal = SIGKILL,
                                               .title = "cofferdam-proxy",
                                               .keep = keep,
                                               .n_keep = ARRAY_SIZE(keep) };
        int listeners[LISTENERS_MAX];
        struct egress_config config = { .mode = c->plan->network,
                                        .policy = c->plan->net_policy,
                                        .listeners = listeners };
        size_t len = 0;
        char word;

        (void) umask(077);
        if (confine_helper(&helper) < 0 || egress_confine(NULL, NULL) < 0)
                _exit(1);
        if (fdpass_recv(c->listen_sock, &word, sizeof(word), &len, listeners, LISTENERS_MAX,
                        &config.n_listeners) < 0 ||
            config.n_listeners == 0)
                _exit(1); /* setting up failed before the sockets were there */
        (void) fd_close(c->listen_sock);
        _exit(egress_run(&config, c->control, NULL) < 0);
}

int net_start(const struct driver_plan *plan, int listen_sock, struct net *ret, struct error *err) {
        struct egress_child c = { .plan = plan, .listen_sock = listen_sock, .parent = getpid() };
        AUTO_FD int theirs = -1;
        int pair[2];
        pid_t pid;
        int r;

        r = fdpass_pair(pair);
        if (r < 0)
                return error_set(err, r, "socketpair: %s", strerror(-r));
        ret->control = pair[0];
        c.control = theirs = pair[1];
        pid = sys_clone(0, &ret->pidfd);
        if (pid == 0)
                egress_main(&c);
        if (pid < 0)
                return error_set(err, pid, "start the egress proxy: %s", strerror(-pid));
        ret->pid = pid;
        return 0;
}

void net_read(const struct net *net, void (*fn)(void *arg, const struct egress_notice *notice), void *arg) {
        struct pollfd fd = { .fd = net->control, .events = POLLIN };
        struct egress_notice notice;

        while (net->control >= 0 && poll(&fd, 1, 0) > 0 && (fd.revents & POLLIN)) {
                const int r = egress_recv(net->control, &notice);

                if (r == -EBADMSG)
                        continue; /* it reads what the work sends, and is believed no more than that */
                if (r < 0)
                        return;
                fn(arg, &notice);
        }
}

void net_stop(struct net *net, void (*fn)(void *arg, const struct egress_notice *notice), void *arg) {
        struct pollfd fd = { .fd = net->pidfd, .events = POLLIN };

        if (net->pid > 0) {
                (void) shutdown(net->control, SHUT_WR); /* it ends, and tells what it has not told yet */
                if (poll(&fd, 1, END_TIMEOUT_MS) <= 0)
                        (void) sys_pidfd_send_signal(net->pidfd, SIGKILL);
                while (waitpid(net->pid, NULL, 0) < 0 && errno == EINTR)
                        ;
                net_read(net, fn, arg);
        }
        net->pid = 0;
        net->pidfd = fd_close(net->pidfd);
        net->control = fd_close(net->control);
}
