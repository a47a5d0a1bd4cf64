/*
 * guard-mount - run a command with a directory served by the guard, and nothing else of a sandbox
 *
 *   guard-mount [-k stop|pin] [-r] [-c] [-s] [-x] [-b] [-B] [-I ID] [-h PATTERN]... [-p PATTERN]... [-H
 * PATTERN]...
 *               [-u UPPER] DIR -- COMMAND...
 *
 * DIR may be a regular file. In a user and mount namespace of its own the command sees DIR through the
 * server. Exit code of the command; 77 when user namespaces or FUSE are missing; 125 for a failure of this
 * program or of the server. -r read-only region  -c copy on write  -s staged  -q bytes the upper may hold  -x
 * exclusive  -b built-in rules -h hold  -p protect  -H hide -u directory for held files, empty or from an
 * earlier run (default: a temporary one, removed)  -n print notices  -B no server: the bare directory, all
 * else the same, to compare with  -I the user and group that the command is (default: the caller's) -k what
 * happens when DIR leads elsewhere (default: nobody looks)  -N objects to remember  -T seconds
 * that answers hold (default: 1)  -K the
 * command keeps its capabilities in the namespace
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fs/guard.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/fdpass.h"
#include "runtime/base/file.h"
#include "runtime/base/sys.h"

enum { RULES_GIVEN_MAX = RULES_MAX, EXIT_SKIP = 77, EXIT_BROKEN = 125 };
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { CONFINED = false }; /* the sanitizers make calls of their own */
#else
enum { CONFINED = true };
#endif
enum { TREE_CLONE = 1, MOVE_EMPTY = 4 }; /* OPEN_TREE_CLONE, MOVE_MOUNT_F_EMPTY_PATH */

/** struct setup - the command line */
struct setup {
        struct rule_def rules[RULES_GIVEN_MAX];
        size_t n_rules;
        enum region_kind kind;
        uint64_t disk_max;
        size_t nodes_max;
        uint32_t timeout_ms; /* 0: not said */
        bool keep, exclusive, notices, bare;
        uid_t uid, host_uid;
        gid_t gid, host_gid;
        const char *on_change;
        const char *upper, *dir;
        char **command;
};

static void die(const char *what) {
        (void) fprintf(stderr, "guard-mount: %s: %s\n", what, strerror(errno));
        _exit(errno == EPERM || errno == EACCES || errno == ENODEV || errno == ENOSPC ? EXIT_SKIP
                                                                                      : EXIT_BROKEN);
}

static void check(int r, const char *what) {
        if (r >= 0)
                return;
        errno = -r;
        die(what);
}

/* ---- inside ---- */

static void map_ids(const struct setup *s) {
        char text[64];

        check(file_put(AT_FDCWD, "/proc/self/setgroups", "deny"), "setgroups");
        (void) snprintf(text, sizeof(text), "%u %u 1", s->uid, s->host_uid);
        check(file_put(AT_FDCWD, "/proc/self/uid_map", text), "uid_map");
        (void) snprintf(text, sizeof(text), "%u %u 1", s->gid, s->host_gid);
        check(file_put(AT_FDCWD, "/proc/self/gid_map", text), "gid_map");
}

static int mount_fuse(int fuse_fd) {
        static const char *const flags[] = { "default_permissions", "allow_other" };
        AUTO_FD int fs = sys_fsopen("fuse");
        char text[64];
        int r;

        check(fs, "fsopen fuse");
        (void) snprintf(text, sizeof(text), "%d", fuse_fd);
        check(sys_fsconfig(fs, 1, "fd", text, 0), "fd");
        check(sys_fsconfig(fs, 1, "rootmode", "40000", 0), "rootmode");
        (void) snprintf(text, sizeof(text), "%u", getuid());
        check(sys_fsconfig(fs, 1, "user_id", text, 0), "user_id");
        (void) snprintf(text, sizeof(text), "%u", getgid());
        check(sys_fsconfig(fs, 1, "group_id", text, 0), "group_id");
        for (size_t i = 0; i < ARRAY_SIZE(flags); i++)
                check(sys_fsconfig(fs, 0, flags[i], NULL, 0), flags[i]);
        check(sys_fsconfig(fs, 6, NULL, NULL, 0), "create the file system");
        r = sys_fsmount(fs, MS_NOSUID | MS_NODEV);
        check(r, "fsmount");
        return r;
}

static void drop_capabilities(void) {
        struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
        struct __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3] = { 0 };

        for (unsigned long cap = 0; cap < 64; cap++)
                (void) prctl(PR_CAPBSET_DROP, cap, 0, 0, 0);
        if (syscall(SYS_capset, &header, none) < 0)
                die("capset");
        if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
                die("no_new_privs");
}

static void bind_bare(const struct setup *s) {
        if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
            mount(s->dir, s->dir, NULL, MS_BIND, NULL) < 0 ||
            mount(NULL, s->dir, NULL, MS_BIND | MS_REMOUNT | MS_NOSUID | MS_NODEV, NULL) < 0)
                die("bind the directory");
}

static void bind_region(const struct setup *s, int sock) {
        int fuse_fd, mount_fd, tree_fd;

        fuse_fd = open("/dev/fuse", O_RDWR | O_CLOEXEC);
        if (fuse_fd < 0)
                die("/dev/fuse");
        mount_fd = mount_fuse(fuse_fd);
        if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
                die("private mounts");
        /* attached for a moment: the clone needs a mount of this namespace */
        check(sys_move_mount(mount_fd, "", AT_FDCWD, "/mnt", MOVE_EMPTY), "attach");
        check(fdpass_send(sock, "f", 1, &fuse_fd, 1), "send the descriptor");
        (void) fd_close(fuse_fd);
        tree_fd = sys_open_tree(AT_FDCWD, "/mnt/0", TREE_CLONE);
        check(tree_fd, "open_tree");
        check(sys_move_mount(tree_fd, "", AT_FDCWD, s->dir, MOVE_EMPTY), "bind the region");
        if (umount2("/mnt", MNT_DETACH) < 0)
                die("umount");
}

static _Noreturn void inside(const struct setup *s, int sock) {
        map_ids(s);
        if (s->bare)
                bind_bare(s);
        else
                bind_region(s, sock);
        if (chdir(s->dir) < 0 && errno != ENOTDIR)
                die("chdir");
        if (!s->keep)
                drop_capabilities();
        (void) execvp(s->command[0], s->command);
        (void) fprintf(stderr, "guard-mount: %s: %s\n", s->command[0], strerror(errno));
        _exit(127);
}

/* ---- outside ---- */

static _Noreturn void print_notices(int sock) {
        static const char *const types[] = { "held",          "denied",    "source-changed",
                                             "lower-changed", "not-alone", "quota" };
        struct guard_notice n;

        while (recv(sock, &n, sizeof(n), 0) == sizeof(n))
                (void) fprintf(stderr, "notice: %s %s %s rule=%s detail=%s\n",
                               types[n.type % ARRAY_SIZE(types)], n.op, n.path, n.rule, n.detail);
        _exit(0);
}

static int notice_socket(const struct setup *s) {
        int fds[2];

        if (!s->notices)
                return -1;
        check(fdpass_pair(fds), "socketpair");
        if (fork() == 0) {
                (void) fd_close(fds[1]);
                print_notices(fds[0]);
        }
        (void) fd_close(fds[0]);
        return fds[1];
}

static _Noreturn void serve(const struct setup *s, int sock, int upper_fd) {
        const struct pin_policy policy = { .home = NULL };
        struct pin pin = PIN_INIT;
        struct rules *rules = NULL;
        struct error err = { 0 };
        struct region region = {
                .name = s->dir, .upper_fd = upper_fd, .kind = s->kind, .exclusive = s->exclusive
        };
        struct guard_config config = { .regions = &region,
                                       .n_regions = 1,
                                       .host_uid = s->host_uid,
                                       .inside_uid = s->uid,
                                       .host_gid = s->host_gid,
                                       .inside_gid = s->gid,
                                       .timeout_ms = s->timeout_ms ? s->timeout_ms : 1000,
                                       .disk_max = s->disk_max,
                                       .nodes_max = s->nodes_max,
                                       .exclusive_fd = -1 };
        struct stat st;
        size_t len, n = 0;
        char byte;
        int fuse_fd, r;

        if (s->on_change) {
                if (pin_open(s->dir, &policy, &pin, &err) < 0)
                        die(err.msg);
                region.pin = &pin;
                region.on_change = strcmp(s->on_change, "pin") == 0 ? SOURCE_CHANGE_PIN : SOURCE_CHANGE_STOP;
        }
        region.root_fd = s->on_change ? pin.fd : open(s->dir, O_PATH | O_CLOEXEC);
        if (region.root_fd < 0 || fstat(region.root_fd, &st) < 0)
                die(s->dir);
        region.is_file = S_ISREG(st.st_mode);
        if (s->n_rules && rules_new(s->rules, s->n_rules, false, &rules, &err) < 0) {
                (void) fprintf(stderr, "guard-mount: %s\n", err.msg);
                _exit(EXIT_BROKEN);
        }
        region.rules = rules;
        config.notice_fd = notice_socket(s);
        drop_capabilities();
        if (s->exclusive) {
                config.exclusive_fd = guard_exclusive_open();
                check(config.exclusive_fd, "watch for other writers");
        }
        if (CONFINED && guard_confine(&config, &err) < 0) {
                (void) fprintf(stderr, "guard-mount: server: %s\n", err.msg);
                _exit(EXIT_BROKEN);
        }
        if (fdpass_recv(sock, &byte, 1, &len, &fuse_fd, 1, &n) < 0 || n != 1)
                _exit(0); /* the other side says why */
        (void) fd_close(sock);
        r = guard_serve(&config, fuse_fd, &err);
        if (r < 0)
                (void) fprintf(stderr, "guard-mount: server: %s\n", err.msg);
        rules_free(rules);
        if (s->on_change)
                pin_deinit(&pin);
        else
                (void) fd_close(region.root_fd);
        exit(r < 0 ? EXIT_BROKEN : 0); /* not _exit(): leak checkers report at exit */
}

static void add_rule(struct setup *s, const char *pattern, enum guard_do action) {
        if (s->n_rules == RULES_GIVEN_MAX) {
                errno = E2BIG;
                die("rules");
        }
        s->rules[s->n_rules++] = (struct rule_def){ .path = pattern, .action = action };
}

static void add_builtin(struct setup *s) {
        size_t n;
        const struct rule_def *defs = rules_builtin(&n);

        for (size_t i = 0; i < n && s->n_rules < RULES_GIVEN_MAX; i++)
                s->rules[s->n_rules++] = defs[i];
}

static void parse(struct setup *s, int argc, char **argv) {
        int c;

        while ((c = getopt(argc, argv, "+KN:T:rcsxbBnI:h:k:p:H:u:q:")) != -1) {
                if (c == 'N')
                        s->nodes_max = (size_t) strtoul(optarg, NULL, 10);
                else if (c == 'T')
                        s->timeout_ms = (uint32_t) strtoul(optarg, NULL, 10) * 1000;
                else if (c == 'K')
                        s->keep = true;
                else if (c == 'r')
                        s->kind = REGION_RO;
                else if (c == 'c')
                        s->kind = REGION_COW;
                else if (c == 'q')
                        s->disk_max = strtoull(optarg, NULL, 10);
                else if (c == 's')
                        s->kind = REGION_STAGED;
                else if (c == 'x')
                        s->exclusive = true;
                else if (c == 'b')
                        add_builtin(s);
                else if (c == 'B')
                        s->bare = true;
                else if (c == 'I')
                        s->uid = s->gid = (uid_t) strtoul(optarg, NULL, 10);
                else if (c == 'n')
                        s->notices = true;
                else if (c == 'k')
                        s->on_change = optarg;
                else if (c == 'h')
                        add_rule(s, optarg, GUARD_HOLD);
                else if (c == 'p')
                        add_rule(s, optarg, GUARD_PROTECT);
                else if (c == 'H')
                        add_rule(s, optarg, GUARD_HIDE);
                else if (c == 'u')
                        s->upper = optarg;
                else
                        exit(2);
        }
        if (argc - optind < 2) {
                (void) fprintf(stderr, "usage: guard-mount [options] DIR -- COMMAND...\n");
                exit(2);
        }
        s->dir = argv[optind];
        s->command = argv + optind + 1 + (strcmp(argv[optind + 1], "--") == 0);
}

static int wait_for(pid_t pid) {
        int status;

        while (waitpid(pid, &status, 0) < 0)
                if (errno != EINTR)
                        die("waitpid");
        return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static void remove_tree(const char *path) {
        const pid_t pid = fork();

        if (pid == 0) {
                /* the work may have taken rights away from directories in it */
                (void) execlp("sh", "sh", "-c", "chmod -R u+rwX -- \"$0\" && rm -rf -- \"$0\"", path,
                              (char *) NULL);
                _exit(127);
        }
        if (pid > 0)
                (void) wait_for(pid);
}

int main(int argc, char **argv) {
        char temp[] = "/tmp/guard-mount.XXXXXX";
        struct setup s = { .uid = getuid(), .host_uid = getuid(), .gid = getgid(), .host_gid = getgid() };
        int socks[2], upper_fd, code, server_code;
        pid_t child, server;

        parse(&s, argc, argv);
        if (!s.upper && !mkdtemp(temp))
                die("mkdtemp");
        upper_fd = open(s.upper ? s.upper : temp, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (upper_fd < 0)
                die("upper");
        check(fdpass_pair(socks), "socketpair");
        server = fork();
        if (server == 0) {
                (void) fd_close(socks[1]);
                serve(&s, socks[0], upper_fd);
        }
        child = sys_clone(CLONE_NEWUSER | CLONE_NEWNS, NULL);
        check(child, "clone");
        if (child == 0) {
                (void) fd_close(socks[0]);
                inside(&s, socks[1]);
        }
        (void) fd_close(socks[0]);
        (void) fd_close(socks[1]);
        code = wait_for(child);
        server_code = wait_for(server);
        if (!s.upper)
                remove_tree(temp);
        if (server_code != 0)
                (void) fprintf(stderr, "guard-mount: the server ended with %d\n", server_code);
        return server_code ? EXIT_BROKEN : code;
}
