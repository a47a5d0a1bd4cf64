/*
 * DOC: theory of operation
 *
 * A row of the table names an attempt, the namespaces it is made in, what it needs of earlier rows, and what
 * to say when it fails. An attempt runs in a child that is killed after two seconds; all it makes lies in
 * namespaces of the child or is removed by it. Files under /proc/sys only explain a failure afterwards.
 *
 * Rows that need a failed row are not tried: one cause gives one remedy.
 */
#include "drivers/native/probe.h"

#include <assert.h>
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>

#include "drivers/driver.h"
#include "drivers/native/probe-kit.h"
#include "runtime/base/cleanup.h"

/** struct probe - one row to be */
struct probe {
        const char *name, *key;
        bool required;
        bool cloud;         /* for another target than this host: looked at when that is asked for */
        bool here;          /* looks at files only: no child */
        uint64_t flags;     /* of clone(2) for the child */
        probe_try *try;     /* NULL: the namespaces alone */
        const char *needs;  /* key of an earlier row, or NULL */
        const char *effect; /* of not having it */
        const char *remedy; /* when no cause is known that has one */
};

#define USER  ((uint64_t) CLONE_NEWUSER)
#define MOUNT (USER | (uint64_t) CLONE_NEWNS)
#define UNS   "user_namespaces"
#define MNT   "mount_namespace"
#define API   "mount_api"

static const char no_run[] = "native runs cannot start";
static const char needs_config[] = "use a kernel that was built with it";
static const char needs_kernel[] = "use Linux 5.12 or later, or start the outer container with --privileged";

// clang-format off: one row, three lines
static const struct probe probes[] = {
        { "kernel", "kernel", false, false, true, 0, try_kernel, NULL, NULL, NULL },
        { "surroundings", "environment", false, false, true, 0, try_environment, NULL, NULL, NULL },
        { "program", "binary", false, false, true, 0, try_linkage, NULL,
          "it cannot start inside of foreign images", "meson setup --reconfigure -Dstatic=true build" },
        { "other programs", "programs", false, false, true, 0, try_programs, NULL,
          "what they do is refused: credentials that stay outside, images, clusters, the loop of an agent",
          "install them, or build where ./dev setup has installed what they need" },
        { "state directory", "state_directory", true, false, true, 0, try_state_dir, NULL,
          "runs cannot be recorded", "set XDG_STATE_HOME to a directory that you can write" },
        { "limits", "limits", true, false, true, 0, try_limits, NULL, "no run can start",
          "raise it: see 'ulimit -a'" },
        { "devices", "devices", true, false, true, 0, try_devices, NULL, no_run,
          "sudo mknod -m 666 /dev/NAME c MAJOR MINOR" },
        { "user namespaces", UNS, true, false, false, USER, try_user_namespace, NULL, no_run, needs_config },
        { "mount namespace", MNT, true, false, false, MOUNT, NULL, UNS, no_run, needs_config },
        { "pid namespace", "pid_namespace", true, false, false, USER | CLONE_NEWPID, NULL, UNS, no_run,
          needs_config },
        { "ipc namespace", "ipc_namespace", true, false, false, USER | CLONE_NEWIPC, NULL, UNS, no_run,
          needs_config },
        { "uts namespace", "uts_namespace", true, false, false, USER | CLONE_NEWUTS, NULL, UNS, no_run,
          needs_config },
        { "cgroup namespace", "cgroup_namespace", true, false, false, USER | CLONE_NEWCGROUP, NULL, UNS,
          no_run, needs_config },
        { "time namespace", "time_namespace", false, false, false, USER, try_time_namespace, UNS,
          "none: runs have the clocks of the host", needs_config },
        { "nesting", "nesting", false, false, false, USER, try_nesting, UNS,
          "--nested-userns is of no use: sandboxes inside of sandboxes do not start",
          "raise /proc/sys/user/max_user_namespaces outside, or nest less" },
        { "net namespace", "net_namespace", true, false, false, USER | CLONE_NEWNET, NULL, UNS,
          "only --network open is possible", needs_config },
        { "loopback", "loopback", true, false, false, USER | CLONE_NEWNET, try_loopback, "net_namespace",
          "programs that talk to 127.0.0.1 fail", needs_config },
        { "mount API", "mount_api", true, false, false, MOUNT, try_mount_api, MNT, no_run, needs_kernel },
        { "nftables", "nftables", false, false, false, USER | CLONE_NEWNET, try_nftables, "loopback",
          "programs that know of no proxy are led to it by names and ports below 1024 only",
          "sudo modprobe -a nf_tables nft_redir nft_reject_inet nft_log nfnetlink_log (Linux 5.2 or later)" },
        { "uid ranges", "uid_ranges", false, false, false, 0, try_uid_ranges, UNS,
          "one uid exists inside; images with several users do not work",
          "sudo apt-get install uidmap; sudo usermod --add-subuids 100000-165535 --add-subgids 100000-165535 "
          "$USER" },
        { "FUSE device", "fuse_device", true, false, false, USER, try_fuse_device, UNS,
          "the workspace cannot be guarded: native runs cannot start",
          "sudo chmod 666 /dev/fuse (to keep it: a udev rule KERNEL==\"fuse\", MODE=\"0666\")" },
        { "FUSE mount", "fuse_mount", true, false, false, MOUNT, try_fuse_mount, "fuse_device",
          "the workspace cannot be guarded: native runs cannot start", "sudo modprobe fuse" },
        { "FUSE features", "fuse_features", false, false, false, MOUNT, try_fuse_features, "fuse_mount",
          "the guard works without them, slower", needs_config },
        { "tmpfs", "tmpfs", true, false, false, MOUNT, try_tmpfs, API, no_run, needs_kernel },
        { "pivot_root", "pivot_root", true, false, false, MOUNT, try_pivot_root, API, no_run,
          "start cofferdam where \"/\" is a mount of its own" },
        { "new /proc", "proc", true, false, false, MOUNT | CLONE_NEWPID, try_proc, API, no_run,
          "start the outer container with --security-opt systempaths=unconfined" },
        { "openat2", "openat2", true, false, false, 0, try_openat2, NULL, no_run, "use Linux 5.6 or later" },
        { "overlayfs", "overlayfs", false, false, false, MOUNT, try_overlay, API,
          "no image or directory as the root (--image, --rootfs); copy-on-write is done by the FUSE guard, "
          "slower",
          "sudo modprobe overlay (Linux 5.11 or later), or --driver podman for images" },
        { "idmapped mounts", "idmapped_mounts", false, false, false, 0, try_idmap, UNS,
          "for root: files only root can read are masked by name",
          "use Linux 5.12 or later, and a root file system such as ext4" },
        { "seccomp filter", "seccomp", true, false, false, 0, try_seccomp, NULL, no_run, needs_config },
        { "seccomp notify", "seccomp_notify", false, false, false, 0, try_seccomp_notify, "seccomp",
          "none on runs of this version", "start cofferdam outside of the sandbox that listens" },
        { "landlock", "landlock", false, false, false, 0, try_landlock, NULL,
          "with --network open, abstract sockets of the host are reachable",
          "use Linux 6.12 or later with landlock in /sys/kernel/security/lsm" },
        { "cgroup", "cgroup", false, false, false, 0, try_cgroup, NULL,
          "--memory and --cpus are refused, but with --isolation degrade",
          "systemd-run --user --scope -p Delegate=yes cofferdam ..." },
        { "docker client", "docker_client", false, false, false, 0, try_docker, NULL,
          "--driver docker cannot be used", "sudo apt-get install docker.io" },
        { "docker daemon", "docker_daemon", false, false, false, 0, try_docker_daemon, NULL,
          "--driver docker cannot be used",
          "sudo systemctl start docker; a user has to be in the group docker" },
        { "docker storage", "docker_storage", false, false, false, 0, try_docker_storage, "docker_daemon",
          "containers of docker are slow to make, or there is no room for them",
          "look at the data-root of /etc/docker/daemon.json" },
        { "podman client", "podman_client", false, false, false, 0, try_podman, NULL,
          "--driver podman cannot be used", "sudo apt-get install podman uidmap" },
        { "podman runtime", "podman_runtime", false, false, false, 0, try_podman_runtime, "podman_client",
          "podman starts no container: crun does not do with control groups of both versions",
          "sudo apt-get install runc; sudo mkdir -p /etc/containers/containers.conf.d; printf "
          "'[engine]\\nruntime = \"runc\"\\n' | sudo tee /etc/containers/containers.conf.d/runc.conf" },
        { "podman limits", "podman_limits", false, false, false, 0, try_podman_limits, "podman_client",
          "with podman, --memory and --cpus are refused, but with --isolation degrade: of each process",
          "boot with systemd.unified_cgroup_hierarchy=1, or call as root" },
        { "podman storage", "podman_storage", false, false, false, 0, try_podman_storage, "podman_client",
          "containers of podman are slow to make, or cannot be made",
          "look at the graphroot of containers-storage.conf(5)" },
        { "podman service", "podman_service", false, false, false, 0, try_podman_service, NULL,
          "none: podman needs no service",
          "systemctl --user start podman.socket (podman itself works without)" },
        { "cluster context", "kubernetes_context", false, true, false, 0, try_kubernetes_context, NULL,
          "no pod can be made from here", "kubectl config use-context NAME, or set KUBECONFIG" },
        { "cluster server", "kubernetes_server", false, true, false, 0, try_kubernetes_server,
          "kubernetes_context", "no pod can be made from here",
          "look at the network, a VPN, or kubectl cluster-info" },
};
// clang-format on
static_assert(ARRAY_SIZE(probes) <= PROBE_ROWS_MAX, "PROBE_ROWS_MAX is too small");

const char *probe_state_name(enum probe_state state) {
        static const char *const names[] = { "ok", "degraded", "missing" };

        static_assert(ARRAY_SIZE(names) == PROBE_STATE_COUNT, "names[] and enum probe_state differ");
        return names[state];
}

static const char outside[] = "start cofferdam as root of the host itself, outside of user namespaces";

static const char no_space[] = "free some space or inodes, or set XDG_STATE_HOME to a directory elsewhere";

/* errno values that one row has an own remedy for */
static const struct {
        const char *key;
        int code;
        const char *remedy;
} remedies[] = {
        { "state_directory", -ENOTSUP,
          "set XDG_STATE_HOME to a directory on ext4, xfs, btrfs or tmpfs (Linux 6.6)" },
        { "fuse_device", -ENOENT, "sudo modprobe fuse; in a container: start it with --device /dev/fuse" },
        { "fuse_device", -ENODEV, "sudo modprobe fuse" },
        { "fuse_device", -ENXIO, "sudo modprobe fuse" },
        { "fuse_device", -EPERM, "start the outer container with --device /dev/fuse" },
        { "uid_ranges", -ENOENT, "sudo apt-get install uidmap" },
        { "uid_ranges", -ESRCH,
          "sudo usermod --add-subuids 100000-165535 --add-subgids 100000-165535 $USER" },
        { "uid_ranges", -ENOTSUP, "start cofferdam without no_new_privs" },
        { "uid_ranges", -EPERM, "sudo chmod u+s /usr/bin/newuidmap /usr/bin/newgidmap" },
        { "uid_ranges", -EXDEV, outside },
        { "idmapped_mounts", -EPERM, outside },
        { "state_directory", -ENOSPC, no_space },
        { "state_directory", -EDQUOT, no_space },
        { "devices", -ENOENT, "sudo mknod -m 666 /dev/null c 1 3" },
        { "limits", -EMFILE, "raise 'ulimit -n' to 48 at least" },
        { "limits", -ENOMEM, "raise 'ulimit -v' to 65536 at least" },
        { "limits", -ENOBUFS, "raise 'ulimit -d' to 65536 at least" },
        { "limits", -EFBIG, "raise 'ulimit -f' to 64 KiB at least" },
        { "limits", -EAGAIN, "raise 'ulimit -u', or end some processes" },
        { "docker_storage", -ENOSPC,
          "docker system prune --all, or a data-root elsewhere in /etc/docker/daemon.json" },
        { "docker_storage", -EOPNOTSUPP,
          "write {\"storage-driver\": \"overlay2\"} to /etc/docker/daemon.json; sudo systemctl restart "
          "docker; "
          "images have to be pulled again" },
        { "podman_storage", -ENOSPC,
          "podman system prune --all, or a graphroot elsewhere in containers-storage.conf(5)" },
        { "podman_storage", -EOPNOTSUPP,
          "podman system reset (it removes all images); then driver = \"overlay\" below [storage] in "
          "~/.config/containers/storage.conf, of root in /etc/containers/storage.conf" },
        { "podman_storage", -EACCES, "log in as this user, not by su or sudo; or unset XDG_RUNTIME_DIR" },
        { "podman_client", -EACCES, "set HOME to a directory that is there and yours" },
        { "podman_storage", -EPERM, "sudo chown -R $USER ~/.local/share/containers" },
        { "cgroup", -ENOENT, "boot with systemd.unified_cgroup_hierarchy=1" },
};

static const char *row_remedy(const struct probe *p, int code) {
        for (size_t i = 0; i < ARRAY_SIZE(remedies); i++)
                if (remedies[i].code == code && strcmp(remedies[i].key, p->key) == 0)
                        return remedies[i].remedy;
        return p->remedy ? p->remedy : "";
}

/* Refusals of these rows come from files, not from who guards namespaces and system calls. */
static bool blamable(const struct probe *p) {
        static const char *const others[] = { "fuse_device",        "uid_ranges",       "cgroup",
                                              "landlock",           "docker_daemon",    "podman_service",
                                              "docker_client",      "podman_client",    "podman_runtime",
                                              "podman_limits",      "docker_storage",   "podman_storage",
                                              "kubernetes_context", "kubernetes_server" };

        for (size_t i = 0; i < ARRAY_SIZE(others); i++)
                if (strcmp(p->key, others[i]) == 0)
                        return false;
        return !p->here;
}

/* A limit of 0 for a kind of namespace, said like the one for user namespaces. Return: whether it is that. */
static bool describe_limit(const struct probe *p, int code, struct probe_row *row) {
        static const struct {
                uint64_t flag;
                const char *limit;
        } limits[] = {
                { CLONE_NEWNS, "max_mnt_namespaces" },        { CLONE_NEWPID, "max_pid_namespaces" },
                { CLONE_NEWIPC, "max_ipc_namespaces" },       { CLONE_NEWUTS, "max_uts_namespaces" },
                { CLONE_NEWCGROUP, "max_cgroup_namespaces" }, { CLONE_NEWNET, "max_net_namespaces" },
        };

        for (size_t i = 0; i < ARRAY_SIZE(limits) && code == -ENOSPC; i++) {
                char path[64];

                (void) snprintf(path, sizeof(path), "/proc/sys/user/%s", limits[i].limit);
                if (!(p->flags & limits[i].flag) || probe_read_number(path) != 0)
                        continue;
                (void) snprintf(row->evidence, sizeof(row->evidence), "clone: ENOSPC; %s is 0", path);
                (void) snprintf(row->remedy, sizeof(row->remedy), "sudo sysctl -w user.%s=15000",
                                limits[i].limit);
                return true;
        }
        return false;
}

static void describe_failure(const struct probe_host *host, const struct probe *p,
                             const struct probe_result *r, struct probe_row *row) {
        const char *cause = "", *remedy = "";

        row->state = p->required ? PROBE_MISSING : PROBE_DEGRADED;
        (void) snprintf(row->effect, sizeof(row->effect), "%s", p->effect ? p->effect : "");
        if (describe_limit(p, r->code, row))
                return;
        if (blamable(p) && !r->fact)
                probe_blame(host, r->step, r->code, &cause, &remedy);
        (void) snprintf(row->evidence, sizeof(row->evidence), "%s%s%s%s%s", r->step, r->fact ? "" : ": ",
                        r->fact ? "" : probe_errno_name(r->code), cause[0] ? "; " : "", cause);
        (void) snprintf(row->remedy, sizeof(row->remedy), "%s", remedy[0] ? remedy : row_remedy(p, r->code));
}

static const struct probe_row *row_find(const struct probe_row *rows, size_t n, const char *key) {
        for (size_t i = 0; i < n; i++)
                if (strcmp(rows[i].key, key) == 0)
                        return &rows[i];
        return NULL;
}

static void look(const struct probe_host *host, const struct probe *p, struct probe_row *row) {
        struct probe_result r = { 0 };

        if (p->here)
                p->try(host, &r);
        else
                probe_child(host, p->flags, p->try, &r);
        if (r.code < 0)
                describe_failure(host, p, &r, row);
        else
                (void) snprintf(row->evidence, sizeof(row->evidence), "%s",
                                r.note[0] ? r.note : "made and left");
}

/* The rows of the table that @wanted says; @without: flags of clone(2) that are left out. */
static size_t look_at(const struct ctx *ctx, const bool *wanted, uint64_t without, struct probe_row *rows) {
        struct probe_host host;
        size_t n = 0;

        probe_host_read(ctx, &host);
        for (size_t i = 0; i < ARRAY_SIZE(probes); i++) {
                struct probe probe = probes[i];
                const struct probe *const p = &probe;
                const struct probe_row *needed = p->needs ? row_find(rows, n, p->needs) : NULL;
                struct probe_row *row = &rows[n];

                probe.flags &= ~without;

                if (!wanted[i])
                        continue;
                n++;
                *row = (struct probe_row){ .name = p->name, .key = p->key, .required = p->required };
                if (needed && needed->state != PROBE_OK) {
                        row->state = p->required ? PROBE_MISSING : PROBE_DEGRADED;
                        (void) snprintf(row->evidence, sizeof(row->evidence), "not tried: needs %s",
                                        needed->name);
                } else {
                        look(&host, p, row);
                }
        }
        return n;
}

size_t probe_all(const struct ctx *ctx, bool cloud, struct probe_row *rows) {
        bool wanted[ARRAY_SIZE(probes)];

        for (size_t i = 0; i < ARRAY_SIZE(probes); i++)
                wanted[i] = cloud || !probes[i].cloud;
        return look_at(ctx, wanted, 0, rows);
}

/* What a run can do without by the next rung of the ladder, or has to know of for it. */
static bool decides_rung(const struct probe *p) {
        return strcmp(p->key, "overlayfs") == 0 || strcmp(p->key, "landlock") == 0 ||
               strcmp(p->key, "cgroup") == 0;
}

size_t probe_for_run(const struct ctx *ctx, bool no_userns, struct probe_row *rows) {
        bool wanted[ARRAY_SIZE(probes)] = { false };

        for (size_t i = 0; i < ARRAY_SIZE(probes); i++)
                wanted[i] = (probes[i].required || decides_rung(&probes[i])) &&
                            !(no_userns && strcmp(probes[i].key, UNS) == 0);
        return look_at(ctx, wanted, no_userns ? USER : 0, rows);
}

int probe_refusal(const struct probe_row *row, struct error *err) {
        return error_set(err, DRIVER_HOST_LACKS, "%s: %s: %s; remedy: %s", row->name, row->evidence,
                         row->effect, row->remedy);
}

enum probe_state probe_one(const struct ctx *ctx, const char *key, struct probe_row *ret) {
        bool wanted[ARRAY_SIZE(probes)] = { false };

        for (size_t i = 0; i < ARRAY_SIZE(probes); i++)
                wanted[i] = strcmp(probes[i].key, key) == 0;
        (void) look_at(ctx, wanted, 0, ret);
        return ret->state;
}

enum { EXPLAIN_KEYS_MAX = 6 };

/* which rows can explain a step; user namespaces are always looked at */
static const struct {
        const char *step;
        const char *keys[EXPLAIN_KEYS_MAX];
} explanations[] = {
        { "userns", { NULL } },
        { "clone",
          { MNT, "pid_namespace", "ipc_namespace", "uts_namespace", "cgroup_namespace", "net_namespace" } },
        { "mount", { MNT, API, "tmpfs", "pivot_root", "openat2" } },
        { "fuse", { MNT, API, "fuse_device", "fuse_mount" } },
        { "proc", { MNT, API, "proc" } },
        { "net", { "net_namespace", "loopback", "nftables" } },
        { "seccomp", { "seccomp" } },
        { "overlay", { MNT, API, "tmpfs", "overlayfs" } },
        { "state", { "state_directory" } },
};

static void select_rows(const char *step, bool *wanted) {
        for (size_t e = 0; e < ARRAY_SIZE(explanations); e++) {
                if (strcmp(explanations[e].step, step) != 0)
                        continue;
                for (size_t i = 0; i < ARRAY_SIZE(probes); i++) {
                        wanted[i] = strcmp(probes[i].key, UNS) == 0;
                        for (size_t k = 0; k < ARRAY_SIZE(explanations[e].keys) && !wanted[i]; k++)
                                wanted[i] = explanations[e].keys[k] &&
                                            strcmp(explanations[e].keys[k], probes[i].key) == 0;
                }
                return;
        }
        for (size_t i = 0; i < ARRAY_SIZE(probes); i++)
                wanted[i] = probes[i].required;
}

int probe_explain(const struct ctx *ctx, const char *step, int code, struct error *err) {
        bool wanted[ARRAY_SIZE(probes)] = { false };
        struct probe_row rows[PROBE_ROWS_MAX];
        char before[300]; /* what follows has to fit behind it */
        const char *const name = probe_errno_name(code);
        size_t n;

        if (!err)
                return code;
        if (err->msg[0])
                (void) snprintf(before, sizeof(before), "%.*s", (int) sizeof(before) - 1, err->msg);
        else
                (void) snprintf(before, sizeof(before), "set-up step '%s': %s", step, strerror(-code));
        select_rows(step, wanted);
        n = look_at(ctx, wanted, 0, rows);
        for (size_t i = 0; i < n; i++) {
                const bool same = strstr(rows[i].evidence, name); /* the row says the failure once more */

                if (rows[i].state != PROBE_OK)
                        return error_set(err, DRIVER_HOST_LACKS, "%s%s%s: %s: %s; remedy: %s",
                                         same ? "" : before, same ? "" : ": ", rows[i].name, rows[i].evidence,
                                         rows[i].effect, rows[i].remedy);
        }
        return error_set(err, code, "%s: everything it needs works when tried alone, see 'cofferdam doctor'",
                         before);
}
