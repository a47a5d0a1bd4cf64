#include "drivers/noop/fence.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "drivers/native/parts.h"
#include "drivers/native/probe.h"
#include "drivers/native/seccomp.h"
#include "fs/pin.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/escape.h"
#include "runtime/base/landlock.h"
#include "runtime/base/path.h"

enum {
        PLACES_MAX = 64,
        ENV_MAX = 64,
        REFUSED_MAX = 64,
        INSNS_MAX = 2 * REFUSED_MAX + 16,
        SOCKET_TYPE_MASK = 0xf
};

struct fence {
        struct landlock_place places[PLACES_MAX]; /* descriptors owned */
        size_t n_places;
        char *env[ENV_MAX + 1]; /* owned */
        size_t n_env;
        struct seccomp_program common;          /* of every sandbox */
        struct sock_filter refusals[INSNS_MAX]; /* and of this one */
        size_t n_refusals;
};

/*
 * What a namespace or the guard would make harmless. Landlock judges what is opened, made and removed; it has
 * nothing to say about modes, owners, times and attributes, about watches, about System V's and POSIX's
 * queues and memory, which are all users' without an ipc namespace, and about processes that are looked at by
 * number.
 */
static const char *const refused[] = {
        "chmod",
        "fchmod",
        "fchmodat",
        "fchmodat2",
        "chown",
        "fchown",
        "lchown",
        "fchownat",
        "utime",
        "utimes",
        "futimesat",
        "utimensat",
        "setxattr",
        "lsetxattr",
        "fsetxattr",
        "removexattr",
        "lremovexattr",
        "fremovexattr",
        "setxattrat",
        "removexattrat",
        "file_setattr",
        "socket",
        "connect",
        "bind",
        "inotify_init",
        "inotify_init1",
        "fanotify_init",
        "shmget",
        "shmat",
        "shmctl",
        "semget",
        "semop",
        "semctl",
        "semtimedop",
        "msgget",
        "msgsnd",
        "msgrcv",
        "msgctl",
        "mq_open",
        "mq_unlink",
        "sched_setaffinity",
        "sched_setscheduler",
        "sched_setparam",
        "sched_setattr",
        "setpriority",
        "ioprio_set",
        "quotactl",
        "quotactl_fd",
};
static_assert(ARRAY_SIZE(refused) <= REFUSED_MAX, "REFUSED_MAX is too small");

static int number_of(const char *name) {
        for (size_t i = 0; i < n_seccomp_rules; i++)
                if (strcmp(seccomp_rules[i].name, name) == 0)
                        return seccomp_rules[i].nr[SECCOMP_HOST];
        return SECCOMP_NO_NR; /* in no table: the common filter knows it as little */
}

static void put(struct fence *f, struct sock_filter insn) {
        assert(f->n_refusals < INSNS_MAX);
        f->refusals[f->n_refusals++] = insn;
}

/* Refuses the call @name unless all bits of @mask of its argument @arg are @value. */
static void put_check(struct fence *f, const char *name, unsigned int arg, uint32_t mask, uint32_t value) {
        const uint32_t at = (uint32_t) (offsetof(struct seccomp_data, args) + 8 * arg);

        put(f, (struct sock_filter) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t) number_of(name), 0, 5));
        put(f, (struct sock_filter) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, at));
        put(f, (struct sock_filter) BPF_STMT(BPF_ALU | BPF_AND | BPF_K, mask));
        put(f, (struct sock_filter) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 0, 1));
        put(f, (struct sock_filter) BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
        put(f, (struct sock_filter) BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM));
}

static void compile_refusals(struct fence *f) {
        put(f, (struct sock_filter) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)));
        for (size_t i = 0; i < ARRAY_SIZE(refused); i++) {
                const int nr = number_of(refused[i]);

                if (nr == SECCOMP_NO_NR)
                        continue;
                put(f, (struct sock_filter) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t) nr, 0, 1));
                put(f, (struct sock_filter) BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM));
        }
        /* of another process of the same user */
        put_check(f, "prlimit64", 0, UINT32_MAX, 0);
        /* a datagram socket of a pair can be written to any name */
        put_check(f, "socketpair", 1, SOCKET_TYPE_MASK, SOCK_STREAM);
        put(f, (struct sock_filter) BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
}

/* Takes over @fd. */
static int add_fd(struct fence *f, int fd, enum landlock_use use) {
        if (f->n_places >= PLACES_MAX) {
                (void) fd_close(fd);
                return -E2BIG;
        }
        f->places[f->n_places++] = (struct landlock_place){ fd, use };
        return 0;
}

/* Nothing below a place that may be read can be taken out again. */
static int refuse_shown_home(const struct ctx *ctx, struct error *err) {
        const char *const homes[] = { ctx->home, ctx->passwd_home };
        struct stat st;

        for (size_t i = 0; i < ARRAY_SIZE(homes); i++)
                if (homes[i] && os_shows(homes[i]) && lstat(homes[i], &st) == 0 && st.st_uid == ctx->uid)
                        return error_set(
                                err, -ENOTSUP,
                                "landlock and seccomp alone: the home '%s' lies in what every program "
                                "may read and cannot be hidden",
                                ESC(homes[i]));
        return 0;
}

/* A place that this host may lack. */
static int add_place(struct fence *f, const char *path, enum landlock_use use) {
        const int fd = open(path, O_PATH | O_CLOEXEC);

        if (fd < 0)
                return errno == ENOENT || errno == EACCES ? 0 : -errno;
        return add_fd(f, fd, use);
}

static int add_places(struct fence *f) {
        static const char *const devices[] = { "/dev/null",   "/dev/zero",    "/dev/full",
                                               "/dev/random", "/dev/urandom", "/dev/tty" };
        const char *const *dirs;
        char path[PATH_MAX];
        size_t n;
        int r = 0;

        dirs = os_dirs(&n);
        for (size_t i = 0; r == 0 && i < n; i++) {
                (void) snprintf(path, sizeof(path), "/%s", dirs[i]);
                r = add_place(f, path, LANDLOCK_RUN);
        }
        for (size_t i = 0; r == 0 && i < ARRAY_SIZE(devices); i++)
                r = add_place(f, devices[i], LANDLOCK_DEVICE);
        if (r == 0)
                r = add_place(f, "/proc", LANDLOCK_READ);
        return r;
}

/* What no sandbox may have as its workspace, neither as a whole nor a part of it. */
static int add_workspace(struct fence *f, const struct ctx *ctx, const struct spec *spec,
                         const char *workspace, struct error *err) {
        const struct pin_policy policy = { .home = ctx->home,
                                           .own_home = ctx->passwd_home,
                                           .state_dir = ctx->state_dir,
                                           .allowed = (const char *const *) spec->allow_sensitive,
                                           .n_allowed = spec->n_allow_sensitive };
        AUTO_PIN struct pin pin = PIN_INIT;
        char **hidden = NULL;
        size_t n = 0;
        int r;

        r = pin_open(workspace, &policy, &pin, err);
        if (r < 0)
                return r;
        r = pin_hidden(&pin, &policy, &hidden, &n);
        if (r == 0 && n > 0)
                r = error_set(err, -ENOTSUP,
                              "landlock and seccomp alone: '%s' in the workspace cannot be hidden",
                              ESC(hidden[0]));
        else if (r < 0)
                r = error_set(err, r, "hidden paths of '%s': %s", ESC(workspace), strerror(-r));
        for (size_t i = 0; i < n; i++)
                free(hidden[i]);
        free(hidden);
        return r < 0 ? r : add_fd(f, TAKE_FD(pin.fd), LANDLOCK_WORK);
}

static int put_env(struct fence *f, const char *name, const char *value) {
        if (f->n_env >= ENV_MAX)
                return -E2BIG;
        if (asprintf(&f->env[f->n_env], "%s%s%s", name, *name ? "=" : "", value) < 0) {
                f->env[f->n_env] = NULL;
                return -ENOMEM;
        }
        f->n_env++;
        return 0;
}

/* The few variables of the caller's that every sandbox gets, and PATH. */
static int fill_env(struct fence *f, const struct ctx *ctx) {
        const char *const path = ctx_getenv(ctx, "PATH");
        int r = put_env(f, "PATH", path ? path : "/usr/local/bin:/usr/bin:/bin");

        for (const char *const *e = ctx->environ; r == 0 && e && *e; e++)
                if (env_passes(*e))
                        r = put_env(f, "", *e);
        if (r == 0)
                r = put_env(f, "USER", ctx->user_name);
        return r == 0 ? put_env(f, "LOGNAME", ctx->user_name) : r;
}

/* What this keeps from nobody is not taken silently, and what it cannot keep apart is refused. */
static int check(const struct ctx *ctx, const struct spec *spec, const char *workspace, struct error *err) {
        const struct {
                bool wrong;
                const char *why;
        } rows[] = {
                { ctx->uid == 0,
                  "root can change what is root's without a name of it: start it as another user" },
                { spec->image || spec->rootfs, "image, rootfs: the root is the host's" },
                { spec->network.mode != NETWORK_NONE, "network: only 'none' can be kept" },
                { spec->security.nested_userns, "security.nested_userns: there are no namespaces" },
                { strcmp(spec->security.seccomp, SECCOMP_DEFAULT) != 0,
                  "security.seccomp: only 'default' is known" },
                { spec->limits.open_files > 0, "limits.open_files" },
                { spec->limits.file_size > 0, "limits.file_size" },
                { spec->workspace.n_bypass > 0, "workspace.bypass" },
                { !ctx->home || path_below(ctx->home, workspace) != NULL, "the home is in the workspace" },
                { !ctx->state_dir || path_below(ctx->state_dir, workspace) != NULL,
                  "the state of runs is in the workspace" },
        };
        struct probe_row row;

        for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
                if (rows[i].wrong)
                        return error_set(err, -ENOTSUP, "landlock and seccomp alone: %s", rows[i].why);
        if (probe_one(ctx, "landlock", &row) != PROBE_OK || probe_one(ctx, "seccomp", &row) != PROBE_OK ||
            probe_one(ctx, "state_directory", &row) != PROBE_OK)
                return error_set(err, -ENOTSUP, "landlock and seccomp alone: %s: %s", row.name, row.evidence);
        return 0;
}

int fence_new(const struct ctx *ctx, const struct spec *spec, const char *workspace, struct fence **ret,
              struct error *err) {
        struct fence *f;
        int r = check(ctx, spec, workspace, err);

        if (r == 0)
                r = refuse_shown_home(ctx, err);
        if (r < 0)
                return r;
        f = calloc(1, sizeof(*f));
        if (!f)
                return error_set(err, -ENOMEM, "out of memory");
        r = seccomp_filter_compile(SECCOMP_HOST, &(struct seccomp_options){ 0 }, &f->common, err);
        if (r == 0)
                r = add_workspace(f, ctx, spec, workspace, err);
        if (r < 0) {
                (void) fence_free(f);
                return r;
        }
        r = add_places(f);
        if (r == 0)
                r = fill_env(f, ctx);
        if (r < 0) {
                (void) fence_free(f);
                return error_set(err, r, "landlock and seccomp alone: %s", strerror(-r));
        }
        compile_refusals(f);
        *ret = f;
        return 0;
}

struct fence *fence_free(struct fence *f) {
        if (!f)
                return NULL;
        for (size_t i = 0; i < f->n_places; i++)
                (void) fd_close(f->places[i].fd);
        for (size_t i = 0; i < f->n_env; i++)
                free(f->env[i]);
        free(f);
        return NULL;
}

int fence_open(struct fence *f, int run_fd) {
        static const char *const dirs[][2] = { { "home", "HOME" }, { "tmp", "TMPDIR" } };

        for (size_t i = 0; i < ARRAY_SIZE(dirs); i++) {
                char link[32], path[PATH_MAX];
                ssize_t n;
                int fd, r;

                if (mkdirat(run_fd, dirs[i][0], 0700) < 0)
                        return -errno;
                fd = openat(run_fd, dirs[i][0], O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
                if (fd < 0)
                        return -errno;
                r = add_fd(f, fd, LANDLOCK_WORK);
                if (r < 0)
                        return r;
                (void) snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
                n = readlink(link, path, sizeof(path) - 1);
                if (n < 0)
                        return -errno;
                path[n] = '\0';
                r = put_env(f, dirs[i][1], path);
                if (r < 0)
                        return r;
        }
        return 0;
}

char *const *fence_env(const struct fence *f) {
        return f->env;
}

int fence_enter(const struct fence *f) {
        int r;

        if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0)
                return -errno;
        r = landlock_confine(f->places, f->n_places, false); /* sets no_new_privs */
        if (r == 0)
                r = filter_load(f->refusals, f->n_refusals);
        return r == 0 ? seccomp_filter_load(&f->common) : r;
}
