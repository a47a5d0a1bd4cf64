#include "runtime/run/state.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "runtime/base/escape.h"
#include "runtime/base/file.h"
#include "runtime/base/json.h"
#include "runtime/base/path.h"
#include "runtime/base/process.h"
#include "runtime/base/sys.h"

enum {
        STATE_MAX_BYTES = 16 << 20, /* the rules of the network are up to EGRESS_POLICY_BYTES_MAX of it */
        RUNS_MAX = 100000,
        ID_PREFIX_MIN = 4,
        TREE_DEPTH_MAX = 512,
        MAKE_TRIES = 100,
        REMOVE_STEP_MS = 10,
        REMOVE_STEPS = 50
};

static const char temporary_prefix[] = ".tmp-";
enum { TEMPORARY_SIZE = sizeof(temporary_prefix) + RUN_ID_LEN };

static const char elsewhere[] = "remedy: set XDG_STATE_HOME to a directory that you can write";

static const char *remedy(int code) {
        return code == EMFILE || code == ENFILE ? "remedy: raise 'ulimit -n'" : elsewhere;
}

/* Opens the directory @name below @dir_fd, made 0700 when missing; it must be the caller's own. */
static int own_dir(int dir_fd, const char *name, const struct ctx *ctx, struct error *err) {
        const char *path = ctx->state_dir;
        int fd;

        if (mkdirat(dir_fd, name, 0700) < 0 && errno != EEXIST)
                return error_set(err, -errno, "state directory '%s': make '%s': %s; %s", ESC(path), ESC(name),
                                 strerror(errno), elsewhere);
        fd = file_own_dir(dir_fd, name, ctx->uid);
        if (fd == -ENOTDIR)
                return error_set(err, -ENOTDIR,
                                 "state directory '%s': '%s' is a symbolic link or no directory; %s",
                                 ESC(path), ESC(name), elsewhere);
        if (fd == -EPERM)
                return error_set(err, -EPERM,
                                 "state directory '%s': '%s' must belong to uid %u and be writable by nobody "
                                 "else; %s",
                                 ESC(path), ESC(name), (unsigned int) ctx->uid, elsewhere);
        if (fd < 0)
                return error_set(err, fd, "state directory '%s': open '%s': %s; %s", ESC(path), ESC(name),
                                 strerror(-fd), remedy(-fd));
        return fd;
}

/* Makes the parents of the state directory; they may be anybody's (a home's .local), the directory itself
 * not. */
static int parents(const char *path, int *ret_fd, struct error *err) {
        AUTO_FD int fd = -1;

        fd = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (fd < 0)
                return error_set(err, -errno, "state directory: open '/': %s", strerror(errno));
        for (const char *p = path + 1; strchr(p, '/'); p += strcspn(p, "/") + 1) {
                char name[NAME_MAX + 1];
                const size_t n = strcspn(p, "/");
                int next, made = 0;

                if (n > NAME_MAX)
                        return error_set(err, -ENAMETOOLONG, "state directory: a name in '%s' is too long",
                                         ESC(path));
                memcpy(name, p, n);
                name[n] = '\0';
                if (mkdirat(fd, name, 0700) < 0 && errno != EEXIST)
                        made = -errno; /* it may be there all the same: a read-only file system says EROFS */
                next = openat(fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
                if (next < 0)
                        next = openat(fd, name, O_PATH | O_DIRECTORY | O_CLOEXEC); /* searchable is enough */
                if (next < 0) {
                        const int r = errno == ENOENT && made < 0 ? made : -errno;

                        return error_set(err, r, "state directory '%s': %s; %s", ESC(path), strerror(-r),
                                         remedy(-r));
                }
                (void) fd_close(fd);
                fd = next;
        }
        *ret_fd = TAKE_FD(fd);
        return 0;
}

static int open_runs(const struct ctx *ctx, struct error *err) {
        AUTO_FREE char *path = NULL;
        AUTO_FD int parent = -1, state = -1;
        int r;

        if (!ctx->state_dir)
                return error_set(err, -ENOENT,
                                 "no home directory for the state of runs: set HOME or XDG_STATE_HOME");
        r = path_normalize(NULL, ctx->state_dir, &path);
        if (r < 0)
                return error_set(err, r, "state directory '%s' is not an absolute path", ESC(ctx->state_dir));
        r = parents(path, &parent, err);
        if (r < 0)
                return r;
        state = own_dir(parent, path_basename(path), ctx, err);
        if (state < 0)
                return state;
        return own_dir(state, "runs", ctx, err);
}

/* Opens the parts of the run @dir->id in @dir->runs_fd. */
static int open_parts(struct run_dir *dir) {
        dir->fd = open_beneath(dir->runs_fd, dir->id, O_RDONLY | O_DIRECTORY, 0);
        if (dir->fd < 0)
                return dir->fd;
        dir->upper_fd = open_beneath(dir->fd, "upper", O_RDONLY | O_DIRECTORY, 0);
        return dir->upper_fd < 0 ? dir->upper_fd : 0;
}

int run_dir_upper(const struct run_dir *dir, const char *name) {
        const int fd = open_beneath(dir->upper_fd, name, O_RDONLY | O_DIRECTORY, 0);
        struct stat st;

        if (fd != -EACCES)
                return fd;
        /* names in there are ours alone: it is the directory that was made for the region */
        if (fstatat(dir->upper_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
            fchmodat(dir->upper_fd, name, (st.st_mode & 07777) | S_IRWXU, 0) < 0)
                return -errno;
        return open_beneath(dir->upper_fd, name, O_RDONLY | O_DIRECTORY, 0);
}

/* The name of a run that is being made or removed; no id. */
static void temporary_name(const struct run_dir *dir, char ret[TEMPORARY_SIZE]) {
        (void) snprintf(ret, TEMPORARY_SIZE, "%s%s", temporary_prefix, dir->id);
}

static int fill_parts(struct run_dir *dir, const char *temporary) {
        dir->fd = open_beneath(dir->runs_fd, temporary, O_RDONLY | O_DIRECTORY, 0);
        if (dir->fd < 0)
                return dir->fd;
        /* until the last of client and supervisor is gone; a file system without locks has to do without */
        (void) flock(dir->fd, LOCK_EX | LOCK_NB);
        if (mkdirat(dir->fd, "upper", 0700) < 0)
                return -errno;
        dir->upper_fd = open_beneath(dir->fd, "upper", O_RDONLY | O_DIRECTORY, 0);
        if (dir->upper_fd < 0)
                return dir->upper_fd;
        return renameat(dir->runs_fd, temporary, dir->runs_fd, dir->id) < 0 ? -errno : 0;
}

/* A run appears under its id when it is locked: one that nobody holds is dead, however young. */
static int make_parts(struct run_dir *dir) {
        char temporary[TEMPORARY_SIZE];
        int r;

        temporary_name(dir, temporary);
        if (mkdirat(dir->runs_fd, temporary, 0700) < 0)
                return -errno;
        r = fill_parts(dir, temporary);
        if (r == 0)
                return 0;
        if (dir->fd >= 0)
                (void) unlinkat(dir->fd, "upper", AT_REMOVEDIR);
        (void) unlinkat(dir->runs_fd, temporary, AT_REMOVEDIR);
        dir->upper_fd = fd_close(dir->upper_fd);
        dir->fd = fd_close(dir->fd);
        return r;
}

/* Needs no descriptor: there may be none left. */
static bool unmake(int runs_fd, const char *name) {
        char upper[TEMPORARY_SIZE + sizeof("/upper")];

        (void) snprintf(upper, sizeof(upper), "%s/upper", name);
        (void) unlinkat(runs_fd, upper, AT_REMOVEDIR);
        return unlinkat(runs_fd, name, AT_REMOVEDIR) == 0;
}

bool run_dir_unmake(const struct run_dir *dir) {
        return unmake(dir->runs_fd, dir->id);
}

int run_dir_create(const struct ctx *ctx, struct run_dir *ret, struct error *err) {
        AUTO_RUN_DIR struct run_dir dir = RUN_DIR_INIT;
        uint64_t salt;
        int r;

        r = open_runs(ctx, err);
        if (r < 0)
                return r;
        dir.runs_fd = r;
        for (int i = 0; i < MAKE_TRIES; i++) {
                if (getrandom(&salt, sizeof(salt), 0) < 0)
                        return error_set(err, -errno, "getrandom: %s", strerror(errno));
                (void) snprintf(dir.id, sizeof(dir.id), "%012" PRIx64, salt & 0xffffffffffffU);
                r = make_parts(&dir);
                if (r != -EEXIST && r != -ENOTEMPTY && r != -ENOENT) /* taken, or swept away */
                        break;
        }
        if (r < 0)
                return error_set(err, r, "state directory '%s': make a run: %s; %s", ESC(ctx->state_dir),
                                 strerror(-r), elsewhere);
        *ret = dir;
        dir = (struct run_dir) RUN_DIR_INIT;
        return 0;
}

void run_dir_deinit(struct run_dir *dir) {
        dir->upper_fd = fd_close(dir->upper_fd);
        dir->fd = fd_close(dir->fd);
        dir->runs_fd = fd_close(dir->runs_fd);
}

bool run_dir_is_id(const char *s) {
        return strlen(s) == RUN_ID_LEN && strspn(s, "0123456789abcdef") == RUN_ID_LEN;
}

/* What a scan of runs/ is looking for and what it found so far. */
struct scan {
        const char *want; /* NULL: the latest */
        char found[RUN_ID_LEN + 1];
        unsigned int matches; /* by id */
        char named[RUN_ID_LEN +
                   1]; /* by name: one that lives before one that does not, then the latest; "": none */
        bool named_alive;
        struct timespec newest;
};

static bool is_newer(const struct timespec *a, const struct timespec *b) {
        return a->tv_sec > b->tv_sec || (a->tv_sec == b->tv_sec && a->tv_nsec > b->tv_nsec);
}

/* Looks whether state.json of the run @id carries the name that is wanted. */
static void scan_name(struct scan *scan, int runs_fd, const char *id, const struct stat *st) {
        AUTO_RUN_DIR struct run_dir dir = RUN_DIR_INIT;
        AUTO_JSON json_t *state = NULL;
        const char *got;
        bool alive;

        dir.fd = open_beneath(runs_fd, id, O_RDONLY | O_DIRECTORY, 0);
        if (dir.fd < 0 || run_state_load(&dir, &state, NULL) < 0)
                return;
        got = json_string_value(json_object_get(state, "name"));
        if (!got || strcmp(got, scan->want) != 0)
                return;
        alive = run_is_alive(state);
        if (*scan->named && (alive < scan->named_alive ||
                             (alive == scan->named_alive && !is_newer(&st->st_ctim, &scan->newest))))
                return;
        memcpy(scan->named, id, RUN_ID_LEN + 1);
        scan->named_alive = alive;
        scan->newest = st->st_ctim;
}

static void scan_entry(struct scan *scan, int runs_fd, const char *id) {
        struct stat st;

        if (fstatat(runs_fd, id, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISDIR(st.st_mode))
                return;
        if (!scan->want) {
                if (scan->matches && !is_newer(&st.st_ctim, &scan->newest))
                        return;
                scan->newest = st.st_ctim;
                scan->matches = 0;
        } else {
                scan_name(scan, runs_fd, id, &st);
                if (strlen(scan->want) < ID_PREFIX_MIN || strncmp(id, scan->want, strlen(scan->want)) != 0)
                        return;
        }
        memcpy(scan->found, id, RUN_ID_LEN + 1);
        scan->matches++;
}

static int scan_runs(int runs_fd, struct scan *scan) {
        AUTO_DIR DIR *d = NULL;
        const struct dirent *e;
        AUTO_FD int fd = -1;

        fd = openat(runs_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (fd < 0)
                return -errno;
        d = fdopendir(fd);
        if (!d)
                return -errno;
        fd = -1; /* owned by d */
        for (int i = 0; i < RUNS_MAX && (e = readdir(d)); i++)
                if (run_dir_is_id(e->d_name))
                        scan_entry(scan, runs_fd, e->d_name);
        return 0;
}

int run_dir_open(const struct ctx *ctx, const char *id, struct run_dir *ret, struct error *err) {
        AUTO_RUN_DIR struct run_dir dir = RUN_DIR_INIT;
        struct scan scan = { .want = id };
        int r;

        r = open_runs(ctx, err);
        if (r < 0)
                return r;
        dir.runs_fd = r;
        if (id && run_dir_is_id(id) && faccessat(dir.runs_fd, id, F_OK, AT_SYMLINK_NOFOLLOW) == 0) {
                memcpy(scan.found, id, sizeof(scan.found)); /* a whole id needs no search */
                scan.matches = 1;
                r = 0;
        } else {
                r = scan_runs(dir.runs_fd, &scan);
        }
        if (*scan.named) {
                memcpy(scan.found, scan.named, sizeof(scan.found));
                scan.matches = 1;
        }
        if (r < 0)
                return error_set(err, r, "read runs in '%s': %s", ESC(ctx->state_dir), strerror(-r));
        if (scan.matches == 0)
                return id ? error_set(err, -ENOENT, "no run '%s' in '%s': 'cofferdam ps -a' lists them",
                                      ESC(id), ESC(ctx->state_dir))
                          : error_set(err, -ENOENT, "no runs in '%s'", ESC(ctx->state_dir));
        if (scan.matches > 1)
                return error_set(err, -EEXIST, "'%s' stands for %u runs: give more digits of the id", ESC(id),
                                 scan.matches);
        memcpy(dir.id, scan.found, sizeof(dir.id));
        r = open_parts(&dir);
        if (r < 0)
                return error_set(err, r, "open run '%s': %s", dir.id, strerror(-r));
        *ret = dir;
        dir = (struct run_dir) RUN_DIR_INIT;
        return 0;
}

int run_dir_each(const struct ctx *ctx, run_dir_fn fn, void *arg, struct error *err) {
        AUTO_DIR DIR *d = NULL;
        const struct dirent *e;
        int fd, r = 0;

        fd = open_runs(ctx, err);
        if (fd < 0)
                return fd;
        d = fdopendir(fd);
        if (!d) {
                (void) fd_close(fd);
                return error_set(err, -errno, "read runs in '%s': %s", ESC(ctx->state_dir), strerror(errno));
        }
        for (int i = 0; r == 0 && i < RUNS_MAX && (e = readdir(d)); i++) {
                AUTO_RUN_DIR struct run_dir dir = RUN_DIR_INIT;

                if (!run_dir_is_id(e->d_name))
                        continue;
                memcpy(dir.id, e->d_name, sizeof(dir.id));
                dir.runs_fd = fcntl(dirfd(d), F_DUPFD_CLOEXEC, 3);
                if (dir.runs_fd >= 0 && open_parts(&dir) == 0)
                        r = fn(&dir, arg);
        }
        return r;
}

struct naming {
        const char *id, *name;
};

/* Whether @dir is another run that lives and has the name. */
static int has_name(struct run_dir *dir, void *arg) {
        const struct naming *n = arg;
        char name[128];
        ssize_t len;

        len = readlinkat(dir->fd, "name", name, sizeof(name));
        if (strcmp(dir->id, n->id) == 0 || len < 0 || (size_t) len != strlen(n->name) ||
            memcmp(name, n->name, (size_t) len) != 0)
                return 0;
        return flock(dir->fd, LOCK_EX | LOCK_NB) < 0 ? -EEXIST : 0; /* its descriptor is closed in a moment */
}

int run_dir_name(const struct ctx *ctx, const struct run_dir *dir, const char *name, struct error *err) {
        struct naming naming = { dir->id, name };
        AUTO_FD int lock = -1;
        int r;

        /* one run looks and takes its name at a time */
        lock = openat(dir->runs_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (lock < 0 || flock(lock, LOCK_EX) < 0)
                return error_set(err, -errno, "lock the runs in '%s': %s", ESC(ctx->state_dir),
                                 strerror(errno));
        r = run_dir_each(ctx, has_name, &naming, err);
        if (r == -EEXIST)
                return error_set(err, r, "name '%s' is taken by a run that lives: stop it, or choose another",
                                 ESC(name));
        if (r == 0 && symlinkat(name, dir->fd, "name") < 0)
                r = -errno;
        return r < 0 ? error_set(err, r, "name run %s: %s", dir->id, strerror(-r)) : 0;
}

/* Opens the directory @name for reading and makes it writable: the work may have taken both rights away. */
static int open_for_removal(int dir_fd, const char *name) {
        char self[32];
        AUTO_FD int fd = -1;

        fd = open_beneath(dir_fd, name, O_RDONLY | O_DIRECTORY, 0);
        if (fd >= 0)
                return fchmod(fd, 0700) < 0 ? -errno : TAKE_FD(fd);
        fd = open_beneath(dir_fd, name, O_PATH | O_DIRECTORY, 0);
        if (fd < 0)
                return fd;
        (void) snprintf(self, sizeof(self), "/proc/self/fd/%d", fd);
        if (chmod(self, 0700) < 0)
                return -errno;
        return open_beneath(fd, ".", O_RDONLY | O_DIRECTORY, 0);
}

/* Removes what @fd (a directory, consumed) holds. The tree was made by the work: nothing is followed. */
static int remove_below(int fd, unsigned int depth) {
        AUTO_DIR DIR *d = NULL;
        const struct dirent *e;

        d = fdopendir(fd);
        if (!d) {
                (void) fd_close(fd);
                return -errno;
        }
        while ((e = readdir(d))) {
                int sub, r;

                if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
                        continue;
                if (unlinkat(dirfd(d), e->d_name, 0) == 0)
                        continue;
                if (errno != EISDIR && errno != EPERM)
                        return -errno;
                if (depth >= TREE_DEPTH_MAX)
                        return -ELOOP;
                sub = open_for_removal(dirfd(d), e->d_name);
                if (sub < 0)
                        return sub;
                r = remove_below(sub, depth + 1);
                if (r < 0)
                        return r;
                if (unlinkat(dirfd(d), e->d_name, AT_REMOVEDIR) < 0)
                        return -errno;
        }
        return 0;
}

int run_dir_remove(struct run_dir *dir) {
        const struct timespec step = { .tv_nsec = REMOVE_STEP_MS * 1000000L };
        char temporary[TEMPORARY_SIZE];
        int fd, r;

        temporary_name(dir, temporary);
        if (renameat(dir->runs_fd, dir->id, dir->runs_fd, temporary) < 0) /* whole or not at all */
                return -errno;
        for (int i = 0;; i++) {
                fd = open_beneath(dir->runs_fd, temporary, O_RDONLY | O_DIRECTORY, 0);
                r = fd < 0 ? fd : remove_below(fd, 0);
                if (r == 0 && unlinkat(dir->runs_fd, temporary, AT_REMOVEDIR) < 0)
                        r = -errno;
                if (r < 0 && unmake(dir->runs_fd, temporary))
                        r = 0;
                if (r != -ENOTEMPTY || i >= REMOVE_STEPS)
                        return r;
                (void) nanosleep(&step, NULL); /* a process of the run dies and still makes something */
        }
}

/* Removes the directory @name when nobody holds it. Its maker, when there is one, sees that and makes
 * another. */
static void sweep_entry(int runs_fd, const char *name) {
        AUTO_FD int fd = open_beneath(runs_fd, name, O_RDONLY | O_DIRECTORY, 0);
        int below;

        if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) < 0)
                return;
        if (run_dir_is_id(name) && faccessat(fd, "upper", F_OK, AT_SYMLINK_NOFOLLOW) == 0)
                return; /* a run */
        below = open_beneath(fd, ".", O_RDONLY | O_DIRECTORY, 0);
        if (below >= 0 && remove_below(below, 0) == 0)
                (void) unlinkat(runs_fd, name, AT_REMOVEDIR);
}

/* Whether @name is that of a run in the making, or in removal. */
static bool is_temporary(const char *name) {
        const size_t n = sizeof(temporary_prefix) - 1;

        return strncmp(name, temporary_prefix, n) == 0 && run_dir_is_id(name + n);
}

void run_dir_sweep(const struct ctx *ctx) {
        AUTO_DIR DIR *d = NULL;
        const struct dirent *e;
        const int fd = open_runs(ctx, NULL);

        d = fd < 0 ? NULL : fdopendir(fd);
        if (!d)
                (void) fd_close(fd);
        while (d && (e = readdir(d))) {
                char upper[RUN_ID_LEN + sizeof("/upper")];

                (void) snprintf(upper, sizeof(upper), "%.*s/upper", RUN_ID_LEN, e->d_name);
                if (is_temporary(e->d_name) ||
                    (run_dir_is_id(e->d_name) && faccessat(dirfd(d), upper, F_OK, 0) < 0))
                        sweep_entry(dirfd(d), e->d_name);
        }
}

int run_state_load(const struct run_dir *dir, json_t **ret, struct error *err) {
        AUTO_BUF struct buf text = { 0 };
        json_error_t where;
        json_t *state;
        int r;

        r = file_read_at(dir->fd, "state.json", STATE_MAX_BYTES, &text);
        if (r < 0)
                return error_set(err, r, "read state of run '%s': %s", dir->id, strerror(-r));
        state = json_loadb(text.data, text.len, JSON_REJECT_DUPLICATES, &where);
        if (!json_is_object(state)) {
                json_decref(state);
                return error_set(err, -EINVAL, "state of run '%s' is damaged: line %d: %s", dir->id,
                                 where.line, where.text);
        }
        *ret = state;
        return 0;
}

int run_state_store(const struct run_dir *dir, const json_t *state, bool durable, struct error *err) {
        AUTO_FREE char *text = NULL;
        int r;

        text = json_dumps(state, JSON_INDENT(1));
        if (!text)
                return error_set(err, -ENOMEM, "out of memory");
        r = file_replace_at(dir->fd, "state.json", text, strlen(text), 0600, durable);
        if (r < 0)
                return error_set(err, r, "write state of run '%s': %s", dir->id, strerror(-r));
        return 0;
}

bool run_is_alive(const json_t *state) {
        const json_t *supervisor = json_object_get(state, "supervisor");
        const json_int_t pid = json_integer_value(json_object_get(supervisor, "pid"));
        const json_int_t start = json_integer_value(json_object_get(supervisor, "start_time"));
        const char *const boot = json_string_value(json_object_get(supervisor, "boot_id"));
        char this_boot[BOOT_ID_SIZE];
        uint64_t now;

        if (pid <= 0 || pid > INT_MAX || start <= 0)
                return false;
        if (process_start_time((pid_t) pid, &now) < 0 || now != (uint64_t) start)
                return false;
        /* after a reboot the same number can start at the same time */
        return !boot || process_boot_id(this_boot) < 0 || strcmp(boot, this_boot) == 0;
}

const json_t *run_regions(const json_t *state) {
        const json_t *regions = json_object_get(state, "regions");

        return json_is_array(regions) ? regions : NULL;
}
