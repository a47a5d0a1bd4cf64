#include "drivers/native/uplink.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/nsfs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "drivers/native/parts.h"
#include "drivers/native/probe.h"
#include "netns/veth.h"
#include "runtime/base/buf.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/fdpass.h"
#include "runtime/base/file.h"

enum { RESOLV_MAX = 65536 };

/* ---- whether ---- */

static bool has_net_admin(void) {
        struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
        struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = { 0 };

        return syscall(SYS_capget, &head, data) == 0 && data[0].effective & 1U << CAP_NET_ADMIN;
}

/* The capability counts in a network namespace of the own user namespace. */
static bool owns_network(void) {
        AUTO_FD int net = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
        AUTO_FD int owner = net < 0 ? -1 : ioctl(net, NS_GET_USERNS);
        AUTO_FD int own = open("/proc/self/ns/user", O_RDONLY | O_CLOEXEC);
        struct stat a, b;

        return owner >= 0 && own >= 0 && fstat(owner, &a) == 0 && fstat(own, &b) == 0 &&
               a.st_ino == b.st_ino && a.st_dev == b.st_dev;
}

/* A name server on the host's loopback is out of reach from another namespace. */
static bool servers_reachable(const char *text) {
        bool any = false;

        for (const char *line = text; *line; line += strcspn(line, "\n"), line += *line == '\n') {
                static const char word[] = "nameserver";
                const char *s = line;
                struct addr addr;
                const char *what;

                if (strncmp(s, word, sizeof(word) - 1) != 0)
                        continue;
                s += sizeof(word) - 1;
                s += strspn(s, " \t");
                if (addr_parse(s, strcspn(s, " \t\r\n%"), &addr) < 0)
                        continue;
                what = addr_special(&addr, NULL);
                if (what && strcmp(what, "a loopback address") == 0)
                        return false;
                any = true;
        }
        return any;
}

/* systemd-resolved keeps the list of the real ones beside its own. @ret: what is to be shown, "" : as it is
 */
static bool find_servers(struct buf *ret) {
        AUTO_BUF struct buf own = { 0 };

        if (file_read_at(AT_FDCWD, "/etc/resolv.conf", RESOLV_MAX, &own) == 0 &&
            servers_reachable(buf_cstr(&own)))
                return true;
        return file_read_at(AT_FDCWD, "/run/systemd/resolve/resolv.conf", RESOLV_MAX, ret) == 0 &&
               servers_reachable(buf_cstr(ret));
}

/* Where namespaces of users can be made and those of networks cannot, "open" is the host's, as doctor says.
 */
static bool has_no_namespace(const struct ctx *ctx, char *why, size_t size) {
        struct probe_row net, users;

        if (probe_one(ctx, "net_namespace", &net) != PROBE_MISSING ||
            probe_one(ctx, "user_namespaces", &users) != PROBE_OK)
                return false;
        (void) snprintf(why, size, "%s", net.evidence);
        return true;
}

int uplink_plan(struct driver_plan *plan) {
        AUTO_BUF struct buf servers = { 0 };
        char *const why = plan->uplink_why;
        const size_t size = sizeof(plan->uplink_why);

        if (plan->ctx->uid != 0)
                (void) snprintf(why, size, "only root can make interfaces");
        else if (!has_net_admin() || !owns_network())
                (void) snprintf(why, size, "no CAP_NET_ADMIN over this network namespace");
        else if (!veth_hindrance(why, size) && !has_no_namespace(plan->ctx, why, size)) {
                plan->uplink = find_servers(&servers);
                if (!plan->uplink)
                        (void) snprintf(why, size, "the name servers of this host are on its loopback");
        }
        if (!plan->uplink || servers.len == 0)
                return 0;
        plan->resolv_conf = strndup(servers.data, servers.len);
        return plan->resolv_conf ? 0 : -ENOMEM;
}

/* ---- the way ---- */

int uplink_start(const char *run_id, pid_t pid, int sock, struct uplink *ret, struct error *err) {
        AUTO_FD int netns = -1;
        struct veth veth;
        char path[64], digits[5] = { 0 };
        int r;

        (void) snprintf(path, sizeof(path), "/proc/%d/ns/net", pid);
        netns = open(path, O_RDONLY | O_CLOEXEC);
        if (netns < 0)
                return error_set(err, -errno, "open the network namespace: %s", strerror(errno));
        (void) snprintf(digits, sizeof(digits), "%s", run_id); /* random, hexadecimal */
        r = veth_make((uint32_t) strtoul(digits, NULL, 16), netns, &veth, &ret->rules_fd, err);
        if (r < 0)
                return error_wrap(err, r, "network open: make a way out of the sandbox");
        r = fdpass_send(sock, &veth, sizeof(veth), NULL, 0);
        return r < 0 ? error_set(err, r, "tell the sandbox of its network: %s", strerror(-r)) : 0;
}

int uplink_join(int sock, struct error *err) {
        struct veth veth;
        size_t len = 0;
        int r;

        r = fdpass_recv(sock, &veth, sizeof(veth), &len, NULL, 0, NULL);
        if (r == 0 && len != sizeof(veth))
                r = -EPROTO;
        if (r < 0)
                return error_set(err, r, "learn of the network: %s", strerror(-r));
        return veth_join(&veth, err);
}

void uplink_stop(struct uplink *uplink) {
        uplink->rules_fd = fd_close(uplink->rules_fd);
}
