#include "drivers/native/net.h"

#include <arpa/inet.h>
#include <errno.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "drivers/native/parts.h"
#include "drivers/native/setup.h"
#include "drivers/native/uplink.h"
#include "drivers/oci/oci.h"
#include "netns/names.h"
#include "netns/policy.h"
#include "netns/redirect.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/escape.h"
#include "runtime/base/fdpass.h"
#include "runtime/base/json.h"
#include "runtime/base/log.h"
#include "runtime/base/sys.h"
#include "runtime/spec/keys.h"

enum { PORT_END = 1024 /* what the work cannot listen on itself */ };
enum { BACKLOG = 1024, END_TIMEOUT_MS = 1000, RULE_JSON_MAX = 1024, NOTICES_MAX = 1024 };

bool net_wanted(const struct driver_plan *plan) {
        return plan->network == NETWORK_ALLOWLIST || plan->network == NETWORK_DENYLIST;
}

bool net_own(const struct driver_plan *plan) {
        return !plan->rungs.no_netns && (plan->network != NETWORK_OPEN || plan->uplink);
}

/* A rule of a denylist that allows what is allowed already: its '!' was forgotten. */
static void warn_idle(const struct driver_plan *plan) {
        for (int i = policy_next_idle(plan->net_policy, 0); i >= 0;
             i = policy_next_idle(plan->net_policy, i + 1))
                log_warn("network: '%s' changes nothing in a denylist: write '!%s' (--deny) to deny it",
                         ESC(policy_rule_text(plan->net_policy, i)),
                         ESC(policy_rule_text(plan->net_policy, i)));
}

/* nftables are not to be had: because of what they are tried in, or of themselves. */
static int refuse_way(const struct driver_plan *plan, const struct probe_row *nftables, struct error *err) {
        static const char *const keys[] = { "user_namespaces", "net_namespace" };
        struct probe_row row;

        for (size_t i = 0; i < ARRAY_SIZE(keys); i++)
                if (probe_one(plan->ctx, keys[i], &row) == PROBE_MISSING)
                        return probe_refusal(&row, err);
        return error_set(
                err, -ENOTSUP,
                "network.transparent is not possible here for all ports and addresses: nftables: %s: %s; "
                "or use --isolation degrade, or leave it out",
                nftables->evidence, nftables->remedy);
}

/* By which way programs that know of no proxy are led to it: asked for by name, the best one is done, refused
 * or said; unasked, it is done or said. */
static int choose_way(struct driver_plan *plan, const struct spec *spec, struct error *err) {
        const size_t key = key_index(key_find(SECTION_NETWORK, "transparent"));
        struct probe_row row;
        bool asked;

        plan->net_leads = spec->network.transparent;
        if (plan->net_leads && plan->oci && plan->oci->outside) {
                plan->net_leads = false;
                plan_degrade(plan, "transparent network", "the variables of the proxy only",
                             "rules of nftables take root");
        }
        if (!plan->net_leads || host_can(plan->ctx, "nftables", &row))
                return 0;
        asked = spec->tier_of[key] != TIER_BUILTIN || spec->mode == MODE_INLINE; /* exactly this or nothing */
        if (spec->isolation == ISOLATION_STRICT && asked)
                return refuse_way(plan, &row, err);
        plan->net_by_ports = true;
        plan->n_net_ports = policy_ports(plan->net_policy, PORT_END, plan->net_ports, PROXY_PORTS_MAX);
        plan_degrade(plan, "transparent network by nftables", "transparent network by ports below 1024",
                     row.evidence);
        return 0;
}

int net_plan(struct driver_plan *plan, const struct spec *spec, struct error *err) {
        int r;

        plan->network = spec->network.mode;
        if (plan->network == NETWORK_OPEN)
                return plan->oci ? 0 : uplink_plan(plan);
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
        return r < 0 ? r : choose_way(plan, spec, err);
}

json_t *net_json(const struct driver_plan *plan) {
        static const char *const modes[NETWORK_MODE_COUNT] = { [NETWORK_NONE] = "none",
                                                               [NETWORK_ALLOWLIST] = "allowlist",
                                                               [NETWORK_DENYLIST] = "denylist",
                                                               [NETWORK_OPEN] = "open" };
        const char *const mode = modes[plan->network];
        json_t *ports;

        if (plan->network == NETWORK_OPEN)
                return json_pack("{s:s,s:s,s:s*}", "mode", mode, "namespace", plan->uplink ? "own" : "host",
                                 "why", plan->uplink ? NULL : plan->uplink_why);
        if (!net_wanted(plan))
                return json_pack("{s:s}", "mode", mode);
        ports = json_array();
        for (size_t i = 0; i < plan->n_net_ports; i++)
                (void) json_array_append_new(ports, json_integer(plan->net_ports[i]));
        return json_pack("{s:s,s:s,s:s,s:o,s:O,s:O}", "mode", mode, "proxy", NET_PROXY_URL, "transparent",
                         !plan->net_leads     ? "off"
                         : plan->net_by_ports ? "ports"
                                              : "all",
                         "transparent_ports", ports, "preset", plan->net_preset, "rules", plan->net_rules);
}

/* ---- in the sandbox ---- */

/* a message about a socket is its enum proxy_socket; this one: there are no more */
enum { SOCKET_END = PROXY_SOCKET_COUNT };

static int hand_out(int sock, enum proxy_socket kind, int fd) {
        return fdpass_send(sock, &(uint8_t){ (uint8_t) kind }, 1, &fd, 1);
}

/* Makes a socket of @type at @host (NULL: all of IPv4) and @port, and hands it out. */
static int serve_at(int sock, enum proxy_socket kind, int type, const struct addr *host, uint16_t port) {
        const struct addr any = addr_from_ipv4(INADDR_ANY);
        struct sockaddr_storage ss;
        const socklen_t len = addr_to_sock(host ? host : &any, port, &ss);
        AUTO_FD int fd = socket(ss.ss_family, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

        if (fd < 0 || bind(fd, (const struct sockaddr *) &ss, len) < 0)
                return -errno;
        if (type == SOCK_STREAM && listen(fd, BACKLOG) < 0)
                return -errno;
        return hand_out(sock, kind, fd);
}

/* All addresses that stand for names become the sandbox's own: on a loopback device, a prefix is local whole.
 */
static int add_names_net(void) {
        struct ifreq req = { .ifr_name = "lo:1" };
        struct sockaddr_in *const sa = (struct sockaddr_in *) (void *) &req.ifr_addr;
        AUTO_FD int sock = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

        *sa = (struct sockaddr_in){ .sin_family = AF_INET, .sin_addr.s_addr = htonl(NAMES_NET + 1) };
        if (sock < 0 || ioctl(sock, SIOCSIFADDR, &req) < 0)
                return -errno;
        sa->sin_addr.s_addr = htonl(NAMES_NETMASK);
        return ioctl(sock, SIOCSIFNETMASK, &req) < 0 ? -errno : 0;
}

static const struct addr loopback6 = { .b = { [15] = 1 } };

/* The stub resolver of one family. */
static int serve_dns(int sock, const struct addr *host) {
        const int r = serve_at(sock, PROXY_DNS, SOCK_DGRAM, host, REDIRECT_DNS_PORT);

        return r < 0 ? r : serve_at(sock, PROXY_DNS_TCP, SOCK_STREAM, host, REDIRECT_DNS_PORT);
}

/* Listening on all addresses of these ports takes nothing from the work, which may not listen on them. */
static int lead_by_ports(const struct driver_plan *plan, int sock) {
        const struct addr loopback = addr_from_ipv4(INADDR_LOOPBACK);
        int r;

        r = add_names_net();
        if (r == 0)
                r = serve_dns(sock, &loopback);
        for (size_t i = 0; r == 0 && i < plan->n_net_ports; i++)
                r = serve_at(sock, PROXY_LED, SOCK_STREAM, NULL, plan->net_ports[i]);
        return r;
}

static int lead_all(int sock, struct error *err) {
        const struct addr loopback = addr_from_ipv4(INADDR_LOOPBACK);
        struct redirect redirect;
        AUTO_FD int log = -1;
        int r;

        r = redirect_setup(&redirect, err);
        if (r < 0)
                return r;
        log = redirect.udp_log;
        r = hand_out(sock, PROXY_UDP_LOG, log);
        if (r == 0)
                r = serve_dns(sock, &loopback);
        if (r == 0)
                r = serve_at(sock, PROXY_REDIRECTED, SOCK_STREAM, &loopback, REDIRECT_TCP_PORT);
        if (r == 0 && redirect.six)
                r = serve_dns(sock, &loopback6);
        if (r == 0 && redirect.six)
                r = serve_at(sock, PROXY_REDIRECTED, SOCK_STREAM, &loopback6, REDIRECT_TCP_PORT);
        return r < 0 ? error_set(err, r, "listen for what is redirected: %s", strerror(-r)) : 0;
}

int net_listen(const struct driver_plan *plan, int listen_sock, struct error *err) {
        const struct addr loopback = addr_from_ipv4(INADDR_LOOPBACK);
        int r;

        r = serve_at(listen_sock, PROXY_CLIENTS, SOCK_STREAM, &loopback, NET_PROXY_PORT);
        if (r == 0) /* without IPv6 there is one less */
                (void) (serve_at(listen_sock, PROXY_CLIENTS, SOCK_STREAM, &loopback6, NET_PROXY_PORT) < 0);
        if (r == 0 && plan->net_by_ports)
                r = lead_by_ports(plan, listen_sock);
        else if (r == 0 && plan->net_leads)
                r = lead_all(listen_sock, err);
        if (r == 0)
                r = fdpass_send(listen_sock, &(uint8_t){ SOCKET_END }, 1, NULL, 0);
        if (r < 0 && err && !err->code)
                (void) error_set(err, r, "listen: %s", strerror(-r));
        return r;
}

int net_relay(int relay_sock) {
        const struct sockaddr_in sa = { .sin_family = AF_INET,
                                        .sin_port = htons(DRIVER_RELAY_PORT),
                                        .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
        AUTO_FD int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

        if (fd < 0 || bind(fd, (const struct sockaddr *) &sa, sizeof(sa)) < 0 || listen(fd, BACKLOG) < 0)
                return -errno;
        return fdpass_send(relay_sock, &(char){ 'L' }, 1, &fd, 1);
}

/* ---- the process ---- */

struct egress_child {
        const struct driver_plan *plan;
        int listen_sock, control;
        pid_t parent;
};

/* The sockets that net_listen() sends, up to its last word. Return: 0, -EPROTO, -errno. */
static int receive_sockets(int listen_sock, struct egress_socket *ret, size_t *ret_n) {
        *ret_n = 0;
        for (;;) {
                AUTO_FD int fd = -1;
                size_t len = 0, n = 0;
                uint8_t kind = SOCKET_END;
                const int r = fdpass_recv(listen_sock, &kind, sizeof(kind), &len, &fd, 1, &n);

                if (r < 0)
                        return r;
                if (kind == SOCKET_END)
                        return *ret_n > 0 ? 0 : -EPROTO;
                if (n != 1 || kind > SOCKET_END || *ret_n == PROXY_LISTENERS_MAX)
                        return -EPROTO;
                ret[(*ret_n)++] = (struct egress_socket){ (enum proxy_socket) kind, TAKE_FD(fd) };
        }
}

_Noreturn static void egress_main(const struct egress_child *c) {
        const int keep[] = { c->listen_sock, c->control };
        const struct confine_helper helper = { .id = &c->plan->id,
                                               .parent = c->parent,
                                               .death_signal = SIGKILL,
                                               .title = "cofferdam-proxy",
                                               .keep = keep,
                                               .n_keep = ARRAY_SIZE(keep) };
        struct egress_socket sockets[PROXY_LISTENERS_MAX];
        struct egress_config config = { .mode = c->plan->network,
                                        .policy = c->plan->net_policy,
                                        .sockets = sockets };

        (void) umask(077);
        if (confine_helper(&helper) < 0 || egress_confine(NULL, NULL) < 0)
                _exit(1);
        if (receive_sockets(c->listen_sock, sockets, &config.n_sockets) < 0)
                _exit(1); /* setting up failed before all sockets were there */
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

        /* whoever sends without an end must not keep the supervisor from the rest */
        for (int i = 0; i < NOTICES_MAX && net->control >= 0; i++) {
                int r;

                if (poll(&fd, 1, 0) <= 0 || !(fd.revents & POLLIN))
                        return;
                r = egress_recv(net->control, &notice);
                if (r == -EBADMSG)
                        continue; /* it reads what the work sends, and is believed no more than that */
                if (r < 0)
                        return;
                if (notice.kind != EGRESS_RESOLV)
                        fn(arg, &notice);
                else if (egress_send_resolv_conf(net->control, NULL) < 0)
                        continue; /* it asks again */
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
