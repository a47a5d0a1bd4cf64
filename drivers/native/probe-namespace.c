/*
 * probe-namespace.c - user namespaces and what they are for: capabilities inside, ids, the network
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/netlink.h>
#include <net/if.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "drivers/native/probe-kit.h"
#include "netns/redirect.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/file.h"
#include "runtime/base/parse.h"

/* AppArmor lets the namespace be made and then refuses every capability in it: so use one that changes
 * nothing but this child. */
void try_user_namespace(const struct probe_host *host, struct probe_result *ret) {
        if (prctl(PR_CAPBSET_DROP, 0, 0, 0, 0) < 0) {
                result_failed(ret, -errno, "use a capability in the new user namespace");
                return;
        }
        result_note(ret, "made, ids mapped, capabilities inside");
        if (host->max_user_namespaces >= 0)
                result_note(ret, "made, ids mapped, capabilities inside; max_user_namespaces %lld",
                            host->max_user_namespaces);
}

static int loopback_up(int sock) {
        struct ifreq req = { .ifr_name = "lo" };

        if (ioctl(sock, SIOCGIFFLAGS, &req) < 0)
                return -errno;
        req.ifr_flags |= IFF_UP;
        return ioctl(sock, SIOCSIFFLAGS, &req) < 0 ? -errno : 0;
}

/* a TCP connection from 127.0.0.1 to itself */
static int loopback_connect(void) {
        struct sockaddr_in addr = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
        socklen_t len = sizeof(addr);
        AUTO_FD int server = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        AUTO_FD int client = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

        if (server < 0 || client < 0 || bind(server, (struct sockaddr *) &addr, len) < 0 ||
            listen(server, 1) < 0 || getsockname(server, (struct sockaddr *) &addr, &len) < 0 ||
            connect(client, (struct sockaddr *) &addr, len) < 0)
                return -errno;
        return 0;
}

void try_loopback(const struct probe_host *host, struct probe_result *ret) {
        AUTO_FD int sock = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
        AUTO_FD int netlink = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
        int r;

        (void) host;
        if (sock < 0 || netlink < 0) {
                result_failed(ret, -errno, sock < 0 ? "socket(AF_INET)" : "socket(AF_NETLINK)");
                return;
        }
        r = loopback_up(sock);
        if (r < 0) {
                result_failed(ret, r, "ioctl(SIOCSIFFLAGS) lo up");
                return;
        }
        r = loopback_connect();
        if (r == -EACCES) /* an outer Landlock, which has no say in whether a run starts */
                result_note(ret, "lo up; connect(127.0.0.1): EACCES: a security module outside refuses it");
        else if (r < 0)
                result_failed(ret, r, "connect(127.0.0.1)");
        else
                result_note(ret, "lo up, 127.0.0.1 connects, netlink opens");
}

/* What a sandbox does, and a connection to an address of the documentation that has to arrive. */
void try_nftables(const struct probe_host *host, struct probe_result *ret) {
        struct sockaddr_in here = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
        struct sockaddr_in there = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(0xc0000201) };
        AUTO_FD int sock = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
        AUTO_FD int server = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        AUTO_FD int client = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        struct redirect redirect;
        struct error err = { 0 };
        int r;

        (void) host;
        here.sin_port = htons(REDIRECT_TCP_PORT);
        there.sin_port = htons(443);
        r = sock < 0 || server < 0 || client < 0 ? -errno : loopback_up(sock);
        if (r < 0) {
                result_failed(ret, r, "bring lo up");
                return;
        }
        r = redirect_setup(&redirect, &err);
        if (r < 0) {
                result_fact(ret, r, "%.90s", err.msg);
                return;
        }
        (void) fd_close(redirect.udp_log);
        if (bind(server, (struct sockaddr *) &here, sizeof(here)) < 0 || listen(server, 1) < 0 ||
            connect(client, (struct sockaddr *) &there, sizeof(there)) < 0)
                result_failed(ret, -errno, "connect through a redirection");
        else
                result_note(ret, "TCP redirected, UDP refused and logged%s", redirect.six ? "" : "; no IPv6");
}

/** struct id_range - the first range of a caller in /etc/subuid or /etc/subgid */
struct id_range {
        unsigned long start, count;
};

/* "name:start:count" lines; the caller's name or number counts */
static bool range_parse(char *line, const struct ctx *ctx, struct id_range *ret) {
        const char *const name = strsep(&line, ":"), *const start = strsep(&line, ":"),
                          *const count = strsep(&line, ":\n");
        char number[16];
        uint64_t s, c;

        (void) snprintf(number, sizeof(number), "%u", ctx->uid);
        if (!name || !start || !count || (strcmp(name, ctx->user_name) != 0 && strcmp(name, number) != 0))
                return false;
        if (parse_u64(start, 1, UINT32_MAX, &s) < 0 || parse_u64(count, 1, UINT32_MAX, &c) < 0)
                return false;
        *ret = (struct id_range){ s, c };
        return true;
}

static bool range_find(const char *path, const struct ctx *ctx, struct id_range *ret) {
        AUTO_FILE FILE *f = fopen(path, "re");
        char line[256];

        while (f && fgets(line, sizeof(line), f))
                if (range_parse(line, ctx, ret))
                        return true;
        return false;
}

/* newuidmap PID 0 ID 1 1 START 1. Return: exit status, or -errno. */
static int run_mapper(const char *program, pid_t pid, unsigned id, unsigned long start) {
        char args[3][24];
        pid_t child;
        int status;

        (void) snprintf(args[0], sizeof(args[0]), "%d", pid);
        (void) snprintf(args[1], sizeof(args[1]), "%u", id);
        (void) snprintf(args[2], sizeof(args[2]), "%lu", start);
        child = fork();
        if (child < 0)
                return -errno;
        if (child == 0) {
                (void) dup2(open("/dev/null", O_RDWR | O_CLOEXEC), 2);
                (void) execl(program, program, args[0], "0", args[1], "1", "1", args[2], "1", (char *) NULL);
                _exit(127);
        }
        if (waitpid(child, &status, 0) < 0)
                return -errno;
        return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* root writes the map itself. Return: 0 or -errno. */
static int write_range(pid_t pid) {
        char path[48];

        (void) snprintf(path, sizeof(path), "/proc/%d/uid_map", pid);
        return file_put(AT_FDCWD, path, "0 100000 65536");
}

static void try_mapper(const struct ctx *ctx, pid_t pid, struct probe_result *ret) {
        static const char *const places[] = { "/usr/bin/newuidmap", "/bin/newuidmap",
                                              "/usr/local/bin/newuidmap", "/run/wrappers/bin/newuidmap" };
        const char *program = NULL;
        struct id_range range;
        int status;

        for (size_t i = 0; i < ARRAY_SIZE(places) && !program; i++)
                if (access(places[i], X_OK) == 0)
                        program = places[i];
        if (!program) {
                result_fact(ret, -ENOENT, "newuidmap is not installed");
                return;
        }
        if (!range_find("/etc/subuid", ctx, &range) ||
            !range_find("/etc/subgid", ctx, &(struct id_range){ 0 })) {
                result_fact(ret, -ESRCH, "no entry for %s in /etc/subuid or /etc/subgid", ctx->user_name);
                return;
        }
        if (prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1) {
                result_fact(ret, -ENOTSUP, "no_new_privs is set: set-uid %s has no effect", program);
                return;
        }
        status = run_mapper(program, pid, ctx->uid, range.start);
        if (status != 0)
                result_fact(ret, -EPERM, "%s: exit code %d", program, status);
        else
                result_note(ret, "newuidmap maps %lu from /etc/subuid; %lu ids granted", range.start,
                            range.count);
}

void try_uid_ranges(const struct probe_host *host, struct probe_result *ret) {
        const pid_t pid = probe_idle_child();
        int r;

        if (pid < 0) {
                result_failed(ret, pid, "clone(CLONE_NEWUSER)");
                return;
        }
        if (host->ctx->uid == 0) {
                r = write_range(pid);
                if (r < 0)
                        result_fact(ret, -EXDEV, "write a range to uid_map as root: %s", probe_errno_name(r));
                else
                        result_note(ret, "root maps 65536 ids itself");
        } else {
                try_mapper(host->ctx, pid, ret);
        }
        (void) kill(pid, SIGKILL);
        (void) waitpid(pid, NULL, 0);
}
