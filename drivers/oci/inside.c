/*
 * DOC: theory of operation
 *
 * pid 1 of a container: this program, bound into it, started by the engine as the run's user and without a
 * capability. It calls the supervisor by the one socket it is shown, and waits: nothing else runs in the
 * container yet. When the mounts are there, it gets the control socket of the run, takes from itself what pid
 * 1 of a native sandbox does not have either, and becomes the same exec server (native/init.c). When the
 * supervisor goes, its end of the socket does, and with pid 1 the container ends, whatever the engine does.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "drivers/native/limits.h"
#include "drivers/native/net.h"
#include "drivers/native/seccomp.h"
#include "drivers/native/setup.h"
#include "drivers/oci/oci.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/fdpass.h"
#include "runtime/base/file.h"

enum { ENV_COPY_MAX = 4096 };

/* The engine's command line hands it on to the supervisor (launch.c). */
_Noreturn static void quit(const char *what, int r) {
        (void) dprintf(STDERR_FILENO, "in the container: %s: %s\n", what, strerror(-r));
        _exit(1);
}

static int call_out(void) {
        struct sockaddr_un addr = { .sun_family = AF_UNIX, .sun_path = OCI_SOCKET };
        AUTO_FD int sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

        if (sock < 0 || connect(sock, (const struct sockaddr *) &addr, sizeof(addr)) < 0)
                return -errno;
        return TAKE_FD(sock);
}

/* The image's variables, which the engine gave to this process: a copy, as confine_memory() wipes them.
 * Without memory this process ends, and the container with it. */
static char **copy_env(void) {
        char **copy;
        size_t n = 0;

        while (environ && environ[n] && n < ENV_COPY_MAX)
                n++;
        copy = calloc(n + 1, sizeof(*copy));
        if (!copy)
                _exit(1);
        for (size_t i = 0; i < n; i++) {
                copy[i] = strdup(environ[i]);
                if (!copy[i])
                        _exit(1);
        }
        return copy;
}

static int take_profile(int fd, uint32_t bytes, struct profile_program *ret) {
        struct buf data = { 0 };
        const int r = file_read(fd, PROFILE_BYTES_MAX, &data);

        if (r < 0 || data.len != bytes)
                return r < 0 ? r : -EPROTO;
        ret->len = data.len / sizeof(*ret->insns);
        ret->insns = (struct sock_filter *) (void *) buf_take(&data);
        return 0;
}

/* As stage_confine() of a native sandbox, under what the engine has put us already. */
static int confine(const struct oci_order *order, bool profile, struct error *err) {
        const struct seccomp_options options = { .floor = profile };
        const struct native_limits wanted = { .group = order->weak,
                                              .open_files = order->open_files,
                                              .file_size = order->file_size_bytes };
        const struct limits limits = { .wanted = &wanted,
                                       .cgroup = CGROUP_INIT,
                                       .weak_memory = order->weak.memory_bytes > 0,
                                       .weak_pids = order->weak.pids > 0,
                                       .weak_cpus = order->weak.cpu_milli > 0 };
        struct seccomp_program filter;
        int r;

        if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
                return error_set(err, -errno, "no_new_privs: %s", strerror(errno));
        r = landlock_work(true, true);
        if (r < 0 && r != -ENOTSUP && r != -EPERM && r != -ENOSYS)
                return error_set(err, r, "landlock: %s", strerror(-r));
        r = limits_inherit(&limits, err);
        if (r < 0)
                return r;
        r = confine_caps();
        if (r < 0)
                return error_set(err, r, "drop capabilities: %s", strerror(-r));
        r = seccomp_filter_compile(SECCOMP_HOST, &options, &filter, err);
        if (r < 0)
                return r;
        if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
                return error_set(err, -errno, "dumpable: %s", strerror(errno));
        r = seccomp_filter_load(&filter);
        return r < 0 ? error_set(err, r, "load the system call filter: %s", strerror(-r)) : 0;
}

_Noreturn static void serve(int sock, const struct oci_order *order, const struct profile_program *profile,
                            char *const *env) {
        struct proto_event event = { .type = PROTO_READY };
        struct error err = { 0 };
        int r;

        confine_memory("cofferdam-init");
        confine_fds(&sock, 1);
        r = confine(order, profile->len > 0, &err);
        if (r < 0) {
                event = (struct proto_event){ .type = PROTO_FAILED, .code = r, .stage = "seccomp" };
                (void) snprintf(event.text, sizeof(event.text), "in the container: %.400s", err.msg);
        }
        if (fdpass_send(sock, &event, sizeof(event), NULL, 0) < 0 || r < 0)
                _exit(1);
        init_serve(sock, profile, env);
}

/* What a process that enters would have made. */
static int make_sockets(const struct oci_order *order, const int *fds) {
        static const struct driver_plan plain; /* no way but by the variables of the proxy */
        int r = 0;

        if (order->listen)
                r = net_listen(&plain, *fds++, NULL);
        return r == 0 && order->relay ? net_relay(*fds) : r;
}

static bool is_ours(const struct oci_order *order, size_t len, size_t n) {
        return len == sizeof(*order) &&
               strncmp(order->version, COFFERDAM_VERSION, sizeof(order->version)) == 0 &&
               n == (size_t) 1 + (order->profile_bytes > 0) + (order->listen > 0) + (order->relay > 0);
}

_Noreturn void oci_inside(void) {
        char **const env = copy_env();
        struct profile_program profile = { 0 };
        struct oci_order order;
        int fds[OCI_ORDER_FDS];
        size_t len, n = 0;
        AUTO_FD int conn = -1;
        int r;

        (void) umask(0);
        signals_reset();
        conn = call_out();
        if (conn < 0)
                quit("call the supervisor", conn);
        r = fdpass_recv(conn, &order, sizeof(order), &len, fds, OCI_ORDER_FDS, &n);
        if (r < 0 || !is_ours(&order, len, n))
                quit("the supervisor's order", r < 0 ? r : -EPROTO);
        r = order.profile_bytes ? take_profile(fds[1], order.profile_bytes, &profile) : 0;
        if (r < 0)
                quit("the profile of system calls", r);
        r = make_sockets(&order, fds + 1 + (order.profile_bytes > 0));
        if (r < 0)
                quit("sockets for the network", r);
        serve(fds[0], &order, &profile, env);
}
