/*
 * DOC: theory of operation
 *
 * A source is compared with each place of the list in two ways. By path: the path without symlinks is the
 * place or below it. By inode: the source or one of the directories above it is the same inode as the place,
 * which finds places reached over a bind mount, a link or another spelling. Not found: a bind mount, made by
 * the administrator elsewhere, of something deep inside a place; a hard link to a file inside.
 */
#include "fs/sensitive.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include "fs/walk.h"
#include "runtime/base/buf.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/escape.h"
#include "runtime/base/path.h"
#include "runtime/base/sys.h"

enum { ANCESTORS_MAX = 256, HOMES_MAX = 4 };

#define ROOT(p, w) \
        { .base = PIN_BASE_ROOT, .path = (p), .why = (w) }
#define HOME(p, w) \
        { .base = PIN_BASE_HOME, .path = (p), .why = (w) }

#define AGENT(p)                                                                           \
        {                                                                                  \
                .base = PIN_BASE_HOME, .path = (p),                                        \
                .why = "an agent's credentials and settings (only as seeds)", .seed = true \
        }

static const struct pin_refusal refused[] = {
        ROOT("proc", "processes and kernel settings"),
        ROOT("sys", "kernel settings"),
        ROOT("dev", "devices"),
        ROOT("boot", "the kernel the host boots"),
        ROOT("run/secrets", "secrets of a container"),
        ROOT("var/run/secrets", "secrets of a container"),
        ROOT("run/credentials", "credentials of services"),
        ROOT("run/user", "sockets of the user's session: agents, D-Bus, engines"),
        ROOT("run/dbus", "the system's D-Bus"),
        ROOT("run/systemd", "control of the host's services"),
        ROOT("run/docker", "control of docker"),
        ROOT("run/podman", "control of podman"),
        ROOT("run/containerd", "control of containerd"),
        ROOT("run/crio", "control of CRI-O"),
        ROOT("var/lib/docker", "images, volumes and secrets of containers"),
        ROOT("var/lib/containerd", "images and layers of containers"),
        ROOT("var/lib/containers", "images and layers of containers"),
        ROOT("var/lib/kubelet", "credentials of a cluster node"),
        ROOT("etc/kubernetes", "credentials of a cluster"),
        ROOT("etc/shadow", "password hashes"),
        ROOT("etc/shadow-", "password hashes"),
        ROOT("etc/gshadow", "password hashes"),
        ROOT("etc/gshadow-", "password hashes"),
        ROOT("etc/security/opasswd", "password hashes"),
        ROOT("etc/sudoers", "who may become root"),
        ROOT("etc/sudoers.d", "who may become root"),
        ROOT("etc/ssh", "the host's keys"),
        ROOT("etc/ssl/private", "private keys"),
        ROOT("etc/krb5.keytab", "the host's key"),
        HOME(".ssh", "SSH keys"),
        HOME(".gnupg", "PGP keys and the agent's socket"),
        HOME(".aws", "cloud credentials"),
        HOME(".azure", "cloud credentials"),
        HOME(".config/gcloud", "cloud credentials"),
        HOME(".config/doctl", "cloud credentials"),
        HOME(".oci", "cloud credentials"),
        HOME(".terraform.d/credentials.tfrc.json", "cloud credentials"),
        HOME(".kube", "cluster credentials"),
        HOME(".docker", "registry credentials and docker's socket"),
        HOME(".config/containers/auth.json", "registry credentials"),
        HOME(".netrc", "passwords"),
        HOME(".git-credentials", "passwords"),
        HOME(".config/git/credentials", "passwords"),
        HOME(".pgpass", "passwords"),
        HOME(".my.cnf", "passwords"),
        HOME(".password-store", "passwords"),
        HOME(".local/share/keyrings", "passwords"),
        HOME(".config/op", "passwords"),
        HOME(".vault-token", "a token"),
        HOME(".config/sops", "keys of encrypted files"),
        HOME(".npmrc", "registry tokens"),
        HOME(".pypirc", "registry tokens"),
        HOME(".cargo/credentials", "registry tokens"),
        HOME(".cargo/credentials.toml", "registry tokens"),
        HOME(".gem/credentials", "registry tokens"),
        HOME(".m2/settings.xml", "registry passwords"),
        HOME(".gradle/gradle.properties", "registry passwords and signing keys"),
        HOME(".composer/auth.json", "registry tokens"),
        HOME(".config/composer/auth.json", "registry tokens"),
        HOME(".config/gh", "tokens of a forge"),
        HOME(".config/hub", "tokens of a forge"),
        HOME(".config/glab-cli", "tokens of a forge"),
        HOME(".config/rclone", "tokens of storage services"),
        AGENT(".claude"),
        AGENT(".claude.json"),
        AGENT(".codex"),
        AGENT(".gemini"),
        HOME(".mozilla", "a browser's cookies and passwords"),
        HOME(".config/google-chrome", "a browser's cookies and passwords"),
        HOME(".config/chromium", "a browser's cookies and passwords"),
        HOME(".thunderbird", "mail and passwords"),
        HOME(".Xauthority", "the key to the user's screen"),
};

const struct pin_refusal *pin_refused(size_t *ret_n) {
        *ret_n = ARRAY_SIZE(refused);
        return refused;
}

/* file systems whose files are the kernel's or another process's, wherever they are mounted */
static const struct {
        uint32_t magic;
        const char *name;
} kernel_fs[] = {
        { PROC_SUPER_MAGIC, "procfs" },
        { SYSFS_MAGIC, "sysfs" },
        { CGROUP_SUPER_MAGIC, "cgroupfs" },
        { CGROUP2_SUPER_MAGIC, "cgroupfs" },
        { DEBUGFS_MAGIC, "debugfs" },
        { TRACEFS_MAGIC, "tracefs" },
        { SECURITYFS_MAGIC, "securityfs" },
        { SELINUX_MAGIC, "selinuxfs" },
        { BPF_FS_MAGIC, "bpffs" },
        { EFIVARFS_MAGIC, "efivarfs" },
        { DEVPTS_SUPER_MAGIC, "devpts" },
        { PSTOREFS_MAGIC, "pstore" },
        { BINDERFS_SUPER_MAGIC, "binderfs" },
        { NSFS_MAGIC, "nsfs" },
        { 0x62656570U /* CONFIGFS_MAGIC, not exported */, "configfs" },
};

/* Fills @homes with the homes to look at for the place @real. Return: how many. */
static size_t list_homes(const struct pin_policy *policy, const char *real, char scratch[PATH_MAX],
                         const char *homes[HOMES_MAX]) {
        const char *user = path_below(real, "/home");
        size_t n = 0;

        homes[n++] = "/root";
        if (policy->home && strcmp(policy->home, "/root") != 0)
                homes[n++] = policy->home;
        if (policy->own_home && *policy->own_home == '/' && strcmp(policy->own_home, homes[0]) != 0 &&
            strcmp(policy->own_home, homes[n - 1]) != 0)
                homes[n++] = policy->own_home;
        if (user && *user) {
                (void) snprintf(scratch, PATH_MAX, "/home/%.*s", (int) strcspn(user, "/"), user);
                if (strcmp(scratch, homes[n - 1]) != 0)
                        homes[n++] = scratch;
        }
        return n;
}

/** place_fn - called with the absolute path of a refused place. Return: 0 to go on, else handed on */
typedef int (*place_fn)(const char *place, const char *why, void *arg);

static int join_and_call(const char *base, const char *rel, const char *why, place_fn fn, void *arg) {
        char place[PATH_MAX];
        const int n = snprintf(place, sizeof(place), "%s/%s", strcmp(base, "/") == 0 ? "" : base, rel);

        return n < 0 || (size_t) n >= sizeof(place) ? 0 : fn(place, why, arg);
}

/* Calls @fn for each refused place that matters for the source at @real. */
static int each_place(const struct pin_policy *policy, const char *real, place_fn fn, void *arg) {
        char scratch[PATH_MAX];
        const char *homes[HOMES_MAX];
        const size_t n_homes = list_homes(policy, real, scratch, homes);
        int r = 0;

        if (policy->state_dir)
                r = fn(policy->state_dir, "the state of cofferdam's runs", arg);
        for (size_t i = 0; r == 0 && i < ARRAY_SIZE(refused); i++) {
                const struct pin_refusal *row = &refused[i];

                if (row->seed && policy->seeding)
                        continue;
                if (row->base == PIN_BASE_ROOT) {
                        r = join_and_call("/", row->path, row->why, fn, arg);
                        continue;
                }
                for (size_t h = 0; r == 0 && h < n_homes; h++)
                        r = join_and_call(homes[h], row->path, row->why, fn, arg);
        }
        return r;
}

static bool same_inode(const struct walk_id *a, const struct walk_id *b) {
        return a->dev == b->dev && a->ino == b->ino;
}

/** struct spot - what a path named when it was looked at, over links */
struct spot {
        char *place; /* owned */
        bool exists;
        struct walk_id id;
        char *real; /* owned; NULL: it cannot be walked */
};

enum { MEMO_SLOTS = 1024, MEMO_MAX = 512 /* more than the list of places and their parents */ };

struct pin_memo {
        uint16_t slots[MEMO_SLOTS]; /* 1 + index into spots, 0: free */
        size_t n;
        struct spot spots[MEMO_MAX]; /* filled in order: few pages are ever touched */
};

struct pin_memo *pin_memo_new(void) {
        return calloc(1, sizeof(struct pin_memo));
}

static void spot_deinit(struct spot *spot) {
        free(spot->place);
        free(spot->real);
        *spot = (struct spot){ 0 };
}

struct pin_memo *pin_memo_free(struct pin_memo *memo) {
        for (size_t i = 0; memo && i < memo->n; i++)
                spot_deinit(&memo->spots[i]);
        free(memo);
        return NULL;
}

/* The place without symlinks that @fd stands for, as the kernel tells it; or by a walk of our own without
 * procfs. */
static char *real_of(int fd, const char *path) {
        AUTO_WALK struct walk at = WALK_INIT;
        char link[32], real[PATH_MAX];
        ssize_t n;

        (void) snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
        n = readlink(link, real, sizeof(real));
        if (n > 0 && (size_t) n < sizeof(real) && real[0] == '/')
                return strndup(real, (size_t) n);
        return walk_path(path, &at) == 0 ? TAKE_PTR(at.real) : NULL;
}

static void look(const char *place, struct spot *ret) {
        AUTO_FD int fd = open(*place ? place : "/", O_PATH | O_CLOEXEC);

        *ret = (struct spot){ 0 };
        ret->exists = fd >= 0 && walk_identify(fd, &ret->id) == 0;
        if (ret->exists)
                ret->real = real_of(fd, place);
}

/* The slot of @place, or the free one where it belongs (FNV-1a, linear probing). */
static uint16_t *slot_of(struct pin_memo *memo, const char *place) {
        uint32_t h = 2166136261U;

        for (const char *p = place; *p; p++)
                h = (h ^ (unsigned char) *p) * 16777619U;
        for (;; h++) {
                uint16_t *slot = &memo->slots[h % MEMO_SLOTS];

                if (*slot == 0 || strcmp(memo->spots[*slot - 1].place, place) == 0)
                        return slot;
        }
}

/* Looks at @place and keeps what was found. Return: NULL when there is no room. */
static const struct spot *remember(struct pin_memo *memo, uint16_t *slot, const char *place) {
        struct spot *spot = &memo->spots[memo->n];
        char *copy = memo->n < MEMO_MAX ? strdup(place) : NULL;

        if (!copy)
                return NULL;
        look(place, spot);
        spot->place = copy;
        *slot = (uint16_t) ++memo->n;
        return spot;
}

/*
 * What @place names now, or did when the memo first asked.
 * @scratch: used when there is no memo or no room in it; the caller frees it with spot_deinit()
 */
static const struct spot *spot_of(struct pin_memo *memo, const char *place, struct spot *scratch) {
        const struct spot *spot = NULL;

        if (memo) {
                uint16_t *slot = slot_of(memo, place);

                spot = *slot ? &memo->spots[*slot - 1] : remember(memo, slot, place);
        }
        if (spot)
                return spot;
        look(place, scratch);
        return scratch;
}

/* --- refusing ---------------------------------------------------------------------------------------- */

/** struct candidate - a source and the directories above it */
struct candidate {
        const char *given;
        const char *real;
        const struct pin_policy *policy;
        struct error *err;
        struct walk_id above[ANCESTORS_MAX]; /* the source first */
        size_t n_above;
};

/* Up from @dir_fd by "..", which no name can lead astray. */
static int climb(struct candidate *c, int dir_fd) {
        AUTO_FD int fd = fcntl(dir_fd, F_DUPFD_CLOEXEC, 3);

        if (fd < 0)
                return -errno;
        while (c->n_above < ANCESTORS_MAX) {
                struct walk_id *id = &c->above[c->n_above];
                int up, r;

                r = walk_identify(fd, id);
                if (r < 0)
                        return r;
                if (same_inode(id, id - 1) && id->mnt_id == (id - 1)->mnt_id)
                        return 0; /* "/.." is "/" */
                c->n_above++;
                up = sys_openat2(fd, "..", O_PATH | O_DIRECTORY, 0, RESOLVE_NO_MAGICLINKS);
                if (up < 0)
                        return up;
                fd = fd_close(fd);
                fd = up;
        }
        return -ENAMETOOLONG;
}

/* Whether the source is in the list of what the operator allows by name, for the sake of @place. */
static bool is_allowed(const struct candidate *c, const char *place) {
        for (size_t i = 0; i < c->policy->n_allowed; i++) {
                AUTO_WALK struct walk at = WALK_INIT;
                const char *name = c->policy->allowed[i];

                if (walk_path(name, &at) < 0)
                        continue;
                if (strcmp(at.real, c->real) == 0)
                        return true;
                if (place && (path_below(name, place) || path_below(at.real, place)) &&
                    path_below(c->real, at.real))
                        return true;
        }
        return false;
}

static int refuse(const struct candidate *c, const char *place, const char *why) {
        const bool itself = strcmp(c->given, place) == 0;

        return error_set(c->err, -EPERM,
                         "bind source '%s' is refused: it %s%s%s%s; bind a narrower path, or allow it with "
                         "--allow-sensitive '%s'",
                         ESC(c->given), itself ? "" : "is in '", itself ? "" : ESC(place),
                         itself ? "holds " : "', which holds ", why, ESC(c->given));
}

static int check_place(const char *place, const char *why, void *arg) {
        CLEANUP(spot_deinit) struct spot scratch = { 0 };
        struct candidate *c = arg;
        const struct spot *spot = spot_of(c->policy->memo, place, &scratch);
        bool hit = path_below(c->real, place) != NULL;

        for (size_t i = 0; spot->exists && i < c->n_above && !hit; i++)
                hit = same_inode(&spot->id, &c->above[i]);
        return hit && !is_allowed(c, place) ? refuse(c, place, why) : 0;
}

const char *sensitive_fs(uint64_t magic) {
        for (size_t i = 0; i < ARRAY_SIZE(kernel_fs); i++)
                if (magic == kernel_fs[i].magic)
                        return kernel_fs[i].name;
        return NULL;
}

static int check_fs(const struct candidate *c, int fd) {
        const char *name;
        struct statfs fs;

        if (fstatfs(fd, &fs) < 0)
                return error_set(c->err, -errno, "bind source '%s': %s", ESC(c->given), strerror(errno));
        name = sensitive_fs((uint32_t) fs.f_type);
        if (!name || is_allowed(c, NULL))
                return 0;
        return error_set(
                c->err, -EPERM,
                "bind source '%s' is refused: it is on %s, an interface of the kernel; allow it with "
                "--allow-sensitive '%s'",
                ESC(c->given), name, ESC(c->given));
}

static int check_type(const char *given, mode_t mode, struct error *err) {
        static const struct {
                mode_t type;
                const char *name;
        } types[] = { { S_IFSOCK, "a socket" },
                      { S_IFCHR, "a character device" },
                      { S_IFBLK, "a block device" },
                      { S_IFIFO, "a FIFO" } };

        for (size_t i = 0; i < ARRAY_SIZE(types); i++) {
                if ((mode & S_IFMT) == types[i].type)
                        return error_set(
                                err, -EPERM,
                                "bind source '%s' is refused: it is %s, which leads out of the sandbox; "
                                "bind a regular file or a directory",
                                ESC(given), types[i].name);
        }
        return 0;
}

int sensitive_check(const char *given, const struct walk *at, const struct walk_id *id,
                    const struct pin_policy *policy, struct error *err) {
        struct candidate c = { .given = given, .real = at->real, .policy = policy, .err = err };
        int r;

        r = check_type(given, id->mode, err);
        if (r < 0)
                return r;
        c.above[c.n_above++] = *id;
        r = climb(&c, at->dir_fd);
        if (r < 0)
                return error_set(err, r, "bind source '%s': %s", ESC(given), strerror(-r));
        r = check_fs(&c, at->fd);
        return r < 0 ? r : each_place(policy, at->real, check_place, &c);
}

/* --- hiding ------------------------------------------------------------------------------------------ */

/** struct hiding - patterns being made for a pinned directory */
struct hiding {
        const struct pin *pin;
        const struct pin_policy *policy;
        char **v;
        size_t n;
};

static void hiding_deinit(struct hiding *h) {
        for (size_t i = 0; i < h->n; i++)
                free(h->v[i]);
        free(h->v);
}

/* Appends "/" and @rel, wildcards made literal except for those of @prefix, which comes first. */
static int add_pattern(struct hiding *h, const char *prefix, const char *rel) {
        AUTO_BUF struct buf out = { 0 };
        char **v;
        int r;

        r = buf_fmt(&out, "%s/", prefix);
        for (; r == 0 && *rel; rel++) {
                if (strchr("\\*?[]{}", *rel))
                        r = buf_add(&out, "\\", 1);
                if (r == 0)
                        r = buf_add(&out, rel, 1);
        }
        if (r < 0)
                return -ENOMEM;
        for (size_t i = 0; i < h->n; i++) {
                if (strcmp(h->v[i], out.data) == 0)
                        return 0;
        }
        v = reallocarray(h->v, h->n + 2, sizeof(*v));
        if (!v)
                return -ENOMEM;
        h->v = v;
        v[h->n++] = buf_take(&out);
        v[h->n] = NULL;
        return 0;
}

/* Whether the directory @dir is the pinned one under another name. */
static bool is_alias(const struct hiding *h, const char *dir) {
        CLEANUP(spot_deinit) struct spot scratch = { 0 };
        const struct walk_id pinned = { .dev = h->pin->dev, .ino = h->pin->ino };
        const struct spot *spot = spot_of(h->policy->memo, dir, &scratch);

        return spot->exists && same_inode(&spot->id, &pinned);
}

/* Hides @place when one of the directories above it is the pinned one by another name. */
static int hide_alias(struct hiding *h, const char *place) {
        char dir[PATH_MAX];

        for (const char *p = strchr(place, '/'); p; p = strchr(p + 1, '/')) {
                (void) snprintf(dir, sizeof(dir), "%.*s", (int) (p - place), place);
                if (is_alias(h, dir))
                        return add_pattern(h, "", p + 1);
        }
        return 0;
}

static bool is_allowed_place(const struct hiding *h, const char *place, const char *real) {
        for (size_t i = 0; i < h->policy->n_allowed; i++) {
                const char *name = h->policy->allowed[i];

                if (strcmp(name, place) == 0 || (real && strcmp(name, real) == 0))
                        return true;
        }
        return false;
}

static int hide_place(const char *place, const char *why, void *arg) {
        CLEANUP(spot_deinit) struct spot scratch = { 0 };
        struct hiding *h = arg;
        const char *rel = path_below(place, h->pin->real);
        const struct spot *spot = spot_of(h->policy->memo, place, &scratch);
        int r;

        (void) why;
        if (is_allowed_place(h, place, spot->real))
                return 0;
        r = rel && *rel ? add_pattern(h, "", rel) : hide_alias(h, place);
        if (r < 0 || !spot->real)
                return r;
        rel = path_below(spot->real, h->pin->real);
        return rel && *rel ? add_pattern(h, "", rel) : 0;
}

/* The homes of everybody, for a pinned directory that holds them all. */
static int hide_homes(struct hiding *h) {
        const char *prefix = strcmp(h->pin->real, "/") == 0 ? "/home/*" : "/*";
        int r = 0;

        if (strcmp(h->pin->real, "/") != 0 && strcmp(h->pin->real, "/home") != 0)
                return 0;
        for (size_t i = 0; r == 0 && i < ARRAY_SIZE(refused); i++) {
                if (refused[i].base == PIN_BASE_HOME)
                        r = add_pattern(h, prefix, refused[i].path);
        }
        return r;
}

int pin_hidden(const struct pin *pin, const struct pin_policy *policy, char ***ret, size_t *ret_n) {
        CLEANUP(hiding_deinit) struct hiding h = { .pin = pin, .policy = policy };
        int r = 0;

        h.v = calloc(1, sizeof(*h.v));
        if (!h.v)
                return -ENOMEM;
        if (S_ISDIR(pin->type))
                r = hide_homes(&h);
        if (S_ISDIR(pin->type) && r == 0)
                r = each_place(policy, pin->real, hide_place, &h);
        if (r < 0)
                return r;
        *ret_n = TAKE(h.n, 0);
        *ret = TAKE_PTR(h.v);
        return 0;
}
