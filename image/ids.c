#include "image/ids.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/base/buf.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/execpath.h"
#include "runtime/base/file.h"
#include "runtime/base/parse.h"

enum { SUBID_FILE_MAX = 4 << 20, NUMBER_SIZE = 16 };

const char *ids_name(enum ids_kind kind) {
        static const char *const names[IDS_KIND_COUNT] = {
                [IDS_OWN] = "own", [IDS_RANGE] = "range", [IDS_SINGLE] = "single"
        };

        return names[kind];
}

/* "NAME:FIRST:COUNT" of @line, if it is the caller's. */
static bool read_line(char *line, const struct ctx *ctx, uint32_t *ret_first, uint32_t *ret_n) {
        char *first = strchr(line, ':'), *n = first ? strchr(first + 1, ':') : NULL;
        char number[NUMBER_SIZE];
        uint64_t a, b;

        if (!n)
                return false;
        *first++ = '\0';
        *n++ = '\0';
        (void) snprintf(number, sizeof(number), "%u", ctx->uid);
        if (strcmp(line, ctx->user_name) != 0 && strcmp(line, number) != 0)
                return false;
        if (parse_u64(first, 1, UINT32_MAX - 1, &a) < 0 || parse_u64(n, 1, UINT32_MAX - 1 - a, &b) < 0)
                return false;
        *ret_first = (uint32_t) a;
        *ret_n = (uint32_t) b;
        return true;
}

/* The largest range of the caller in @path. */
static bool find_range(const char *path, const struct ctx *ctx, uint32_t *ret_first, uint32_t *ret_n) {
        AUTO_BUF struct buf text = { 0 };
        char *save = NULL;

        *ret_n = 0;
        if (file_read_at(AT_FDCWD, path, SUBID_FILE_MAX, &text) < 0 || text.len == 0)
                return false;
        for (char *line = strtok_r(text.data, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
                uint32_t first, n;

                if (read_line(line, ctx, &first, &n) && n > *ret_n) {
                        *ret_first = first;
                        *ret_n = n;
                }
        }
        return *ret_n > 0;
}

static bool in_path(const char *name, const char *path) {
        while (path && *path) {
                const size_t n = strcspn(path, ":");
                AUTO_BUF struct buf full = { 0 };

                if (n > 0 && buf_fmt(&full, "%.*s/%s", (int) n, path, name) == 0 &&
                    access(buf_cstr(&full), X_OK) == 0)
                        return true;
                path += n + (path[n] == ':');
        }
        return false;
}

void ids_find(const struct ctx *ctx, const char *path, struct ids *ret) {
        *ret = (struct ids){ .kind = IDS_OWN, .max = UINT32_MAX - 2, .path = path };
        if (ctx->uid == 0)
                return;
        ret->kind = IDS_SINGLE;
        ret->max = 0;
        if (!in_path("newuidmap", path) || !in_path("newgidmap", path)) {
                (void) snprintf(ret->why, sizeof(ret->why), "no newuidmap and newgidmap: install uidmap");
        } else if (!find_range("/etc/subuid", ctx, &ret->uid_first, &ret->uid_n) ||
                   !find_range("/etc/subgid", ctx, &ret->gid_first, &ret->gid_n)) {
                (void) snprintf(
                        ret->why, sizeof(ret->why),
                        "no range in /etc/subuid and /etc/subgid: usermod --add-subuids, --add-subgids");
        } else {
                ret->kind = IDS_RANGE;
                ret->max = ret->uid_n < ret->gid_n ? ret->uid_n : ret->gid_n;
        }
}

void *shared_new(size_t size) {
        void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

        return p == MAP_FAILED ? NULL : p;
}

/* Has the maps of @pid written by the program whose right that is. */
static int write_map(const char *path, const char *program, pid_t pid, uint32_t self, uint32_t first,
                     uint32_t n) {
        enum { PID, ZERO, SELF, ONE, ONE_AGAIN, FIRST, COUNT, NUMBERS };
        const uint32_t numbers[NUMBERS] = { (uint32_t) pid, 0, self, 1, 1, first, n };
        char text[NUMBERS][NUMBER_SIZE], name[NUMBER_SIZE];
        char *argv[NUMBERS + 2] = { name };
        int status;
        pid_t child;

        (void) snprintf(name, sizeof(name), "%s", program);
        for (size_t i = 0; i < NUMBERS; i++) {
                (void) snprintf(text[i], sizeof(text[i]), "%u", numbers[i]);
                argv[i + 1] = text[i];
        }
        child = fork();
        if (child == 0)
                _exit(exec_in_path(argv, environ, path) != 0);
        if (child < 0)
                return -errno;
        while (waitpid(child, &status, 0) < 0)
                if (errno != EINTR)
                        return -errno;
        return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : -EPERM;
}

/** struct call - an ids_run() */
struct call {
        int (*fn)(void *arg, struct error *err);
        void *arg;
        int r;
        struct error err;
};

/* The maps are there when the other side of @sync closes it after a byte. */
static int enter(int ask, int answer) {
        char c = 'u';

        if (unshare(CLONE_NEWUSER) < 0)
                return -errno;
        if (write(ask, &c, 1) != 1 || read(answer, &c, 1) != 1)
                return -EPERM;
        if (setgroups(0, NULL) < 0 || setresgid(0, 0, 0) < 0 || setresuid(0, 0, 0) < 0)
                return -errno;
        return 0;
}

_Noreturn static void child(const struct ids *ids, struct call *call, pid_t parent, int ask, int answer) {
        call->r = ids->kind == IDS_RANGE ? enter(ask, answer) : 0;
        if (call->r < 0)
                (void) error_set(&call->err, call->r, "a user namespace with the ids of the image: %s",
                                 strerror(-call->r));
        (void) prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0); /* cleared by a change of ids */
        if (call->r == 0 && getppid() == parent)
                call->r = call->fn(call->arg, &call->err);
        _exit(0);
}

/* Waits until the child asks for its maps. */
static int give_maps(const struct ids *ids, pid_t pid, int asked, int answer) {
        char c;
        int r;

        if (read(asked, &c, 1) != 1)
                return 0; /* it says itself why */
        r = write_map(ids->path, "newuidmap", pid, getuid(), ids->uid_first, ids->uid_n);
        if (r == 0)
                r = write_map(ids->path, "newgidmap", pid, getgid(), ids->gid_first, ids->gid_n);
        return r == 0 && write(answer, "m", 1) != 1 ? -EPIPE : r;
}

int ids_run(const struct ids *ids, int (*fn)(void *arg, struct error *err), void *arg, struct error *err) {
        struct call *call = shared_new(sizeof(*call));
        int ask[2] = { -1, -1 }, answer[2] = { -1, -1 }, status = 0, r = 0;
        const pid_t self = getpid();
        pid_t pid = -1;

        if (!call)
                return error_set(err, -ENOMEM, "out of memory");
        call->fn = fn;
        call->arg = arg;
        call->r = -EIO;
        if (pipe2(ask, O_CLOEXEC) == 0 && pipe2(answer, O_CLOEXEC) == 0)
                pid = fork();
        if (pid == 0) {
                ask[0] = fd_close(ask[0]);
                answer[1] = fd_close(answer[1]);
                child(ids, call, self, ask[1], answer[0]);
        }
        r = pid < 0 ? error_set(err, -errno, "fork: %s", strerror(errno)) : 0;
        ask[1] = fd_close(ask[1]);
        answer[0] = fd_close(answer[0]);
        if (r == 0 && ids->kind == IDS_RANGE)
                r = give_maps(ids, pid, ask[0], answer[1]);
        (void) fd_close(ask[0]);
        (void) fd_close(answer[1]);
        while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
                ;
        if (pid > 0 && r < 0)
                r = error_set(err, r, "newuidmap or newgidmap failed: see /etc/subuid and /etc/subgid");
        else if (pid > 0 && (!WIFEXITED(status) || WEXITSTATUS(status) != 0))
                r = error_set(err, -EIO, "the process that unpacks was killed");
        else if (pid > 0 && call->r < 0)
                r = error_set(err, call->r, "%s", *call->err.msg ? call->err.msg : strerror(-call->r));
        (void) munmap(call, sizeof(*call));
        return r;
}
