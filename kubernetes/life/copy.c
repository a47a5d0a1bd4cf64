/*
 * DOC: theory of operation
 *
 * tar inside makes and reads the stream, libarchive here (kubernetes/workspace). The names go in one by one:
 * tar does not touch the workspace's own directory, which is the volume's and not the user's. Nothing that
 * comes back is handed to another program.
 */
#include "kubernetes/life/copy.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "fs/layer.h"
#include "fs/names.h"
#include "kubernetes/workspace/member.h"
#include "kubernetes/workspace/unpack.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/clock.h"
#include "runtime/base/escape.h"
#include "runtime/base/file.h"
#include "runtime/base/sys.h"

#define NEW_NAME ".new"

enum { REF_FILE_MAX = 4096, PACKED_REFS_MAX = 64 << 20, SHORT_MS = 60000 };

/* $1: the workspace */
static const char out_script[] =
        "cd \"$1\" || exit 2\n"
        "if tar --version 2>/dev/null | grep -q GNU; then exec tar --hard-dereference -cf - .; fi\n"
        "exec tar -cf - .\n";

/* Git's helper for credentials reads those that were brought for the run. */
static const char git_script[] =
        "cd \"$1\" || exit 2\n"
        "[ -f .git/cofferdam-credentials ] || exit 0\n"
        "command -v git >/dev/null || exit 0\n"
        "exec git config credential.helper \"store --file=$1/.git/cofferdam-credentials\"\n";

/* The commit that is checked out, without git. */
static const char head_script[] = "cd \"$1\" 2>/dev/null || exit 0\n"
                                  "h=$(cat .git/HEAD 2>/dev/null) || exit 0\n"
                                  "case $h in 'ref: '*) ;; *) printf %s \"$h\"; exit 0;; esac\n"
                                  "r=${h#ref: }\n"
                                  "cat \".git/$r\" 2>/dev/null && exit 0\n"
                                  "[ -f .git/packed-refs ] || exit 0\n"
                                  "while read -r c n; do [ \"$n\" != \"$r\" ] || { printf %s \"$c\"; exit 0; "
                                  "}; done <.git/packed-refs\n";

static int tar_failed(const struct kube_exec_end *end, const struct remote *remote, const char *what,
                      struct error *err) {
        return error_set(err, -EIO, "%s: tar inside the sandbox ended with %d: %s", what, end->exit_code,
                         remote->errors.len ? ESC(buf_cstr(&remote->errors)) : ESC(end->message));
}

static int run_short(const struct remote_pod *pod, const char *script, const char *path, struct buf *out,
                     struct error *err) {
        const char *const argv[] = { "sh", "-c", script, "sh", path, NULL };
        const struct kube_exec_request request = {
                .ns = pod->ns, .pod = pod->pod, .container = pod->container, .argv = argv
        };
        struct kube_exec_end end;
        int r = kube_exec_collect(pod->kube, &request, NULL, REF_FILE_MAX, SHORT_MS, out, NULL, &end, err);

        return r < 0 ? r
               : end.exit_code == 0
                       ? 0
                       : error_set(err, -EIO, "sh inside the sandbox ended with %d", end.exit_code);
}

int copy_in(const struct remote_pod *pod, const char *path, int lower_fd, struct rules *rules,
            struct pack_report *ret, struct error *err) {
        const char *const argv[] = { "tar", "-C", path, "-xpf", "-", NULL };
        AUTO_REMOTE struct remote remote = REMOTE_INIT;
        struct kube_exec_end end = { 0 };
        int r, sent;

        r = remote_open(&remote, pod, argv, true, clock_ns() + pod->copy_ms * 1000000, err);
        if (r < 0)
                return error_wrap(err, r, "copy the workspace");
        sent = pack_stream(lower_fd, rules, remote_write, &remote, ret, err);
        if (sent < 0 && sent != -EPIPE) {
                if (err && remote.err.code)
                        *err = remote.err;
                return error_wrap(err, sent, "copy the workspace");
        }
        r = remote_finish(&remote, &end, err);
        if (r < 0)
                return error_wrap(err, r, "copy the workspace");
        if (end.exit_code != 0)
                return tar_failed(&end, &remote, "copy the workspace", err);
        if (sent < 0)
                return sent;
        if (paths_has(&ret->sent, ".git/cofferdam-credentials"))
                r = run_short(pod, git_script, path, NULL, err);
        return r < 0 ? error_wrap(err, r, "set up git inside") : 0;
}

/* ---- back ---- */

bool copy_is_race(const char *text) {
        static const char *const known[] = { "file changed as we read it", "File removed before we read it",
                                             "Exiting with failure status due to previous errors" };
        bool any = false;

        while (*text) {
                const size_t n = strcspn(text, "\n");
                bool is_known = n == 0;

                for (size_t i = 0; i < ARRAY_SIZE(known) && !is_known; i++)
                        is_known = memmem(text, n, known[i], strlen(known[i])) != NULL;
                if (!is_known)
                        return false;
                any |= n > 0;
                text += n + (text[n] == '\n');
        }
        return any;
}

/* Removes the directory @name and all below it. */
static void drop_tree(int dir_fd, const char *name) {
        AUTO_FD int fd = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        AUTO_NAMES struct names names = { 0 };

        if (fd < 0) {
                (void) unlinkat(dir_fd, name, 0);
                return;
        }
        if (names_read(fd, &names) == 0)
                for (size_t i = 0; i < names.n; i++) {
                        if (unlinkat(fd, names.v[i], 0) == 0)
                                continue;
                        (void) !fchmodat(fd, names.v[i], 0700, 0);
                        drop_tree(fd, names.v[i]);
                }
        (void) unlinkat(dir_fd, name, AT_REMOVEDIR);
}

/* Return: 0, -EAGAIN (worth another attempt), -errno */
static int receive(const struct remote_pod *pod, const struct copy_back *back, uint64_t deadline_ns,
                   int upper_fd, struct landing_counts *ret, struct error *err) {
        const char *const argv[] = { "sh", "-c", out_script, "sh", back->path, NULL };
        struct landing_options opt = back->landing;
        AUTO_LANDING struct landing *landing = NULL;
        AUTO_REMOTE struct remote remote = REMOTE_INIT;
        struct kube_exec_end end = { 0 };
        struct error why = { 0 };
        int r, read;

        opt.upper_fd = upper_fd;
        opt.sent = &back->report->sent;
        opt.kept = &back->report->kept;
        r = landing_new(&opt, &landing);
        if (r == 0)
                r = remote_open(&remote, pod, argv, false, deadline_ns, err);
        if (r < 0)
                return r;
        read = unpack_stream(remote_read, &remote, landing, &why);
        if (read < 0 && read != -EBADMSG) {
                if (err)
                        *err = remote.err.code ? remote.err : why;
                return read;
        }
        r = remote_finish(&remote, &end, err);
        if (r < 0)
                return r;
        if (end.exit_code != 0) {
                (void) tar_failed(&end, &remote, "export", err);
                return copy_is_race(buf_cstr(&remote.errors)) ? -EAGAIN : -EIO;
        }
        if (read < 0) {
                if (err)
                        *err = why;
                return read;
        }
        return landing_finish(landing, ret, err);
}

static bool is_worth_another(int r) {
        return r == -EAGAIN || r == -ECONNRESET || r == -ETIMEDOUT || r == -ENETUNREACH || r == -EREMOTEIO;
}

static int attempt(const struct remote_pod *pod, const struct copy_back *back, uint64_t deadline_ns,
                   struct landing_counts *ret, struct error *err) {
        AUTO_FD int fd = -1;
        int r;

        drop_tree(back->uppers_fd, NEW_NAME);
        if (mkdirat(back->uppers_fd, NEW_NAME, 0700) < 0)
                return error_set(err, -errno, "export: %s", strerror(errno));
        fd = openat(back->uppers_fd, NEW_NAME, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (fd < 0)
                return error_set(err, -errno, "export: %s", strerror(errno));
        r = receive(pod, back, deadline_ns, fd, ret, err);
        if (r == 0) {
                drop_tree(back->uppers_fd, back->name);
                if (renameat(back->uppers_fd, NEW_NAME, back->uppers_fd, back->name) < 0)
                        r = error_set(err, -errno, "export: %s", strerror(errno));
        }
        if (r < 0)
                drop_tree(back->uppers_fd, NEW_NAME);
        return r;
}

/* ---- the commit ---- */

static void take_commit(const char *text, size_t len, char ret[COPY_HEAD_MAX + 1]) {
        const size_t n = strspn(text, "0123456789abcdef");

        ret[0] = '\0';
        if (n > len || n < 40 || n > COPY_HEAD_MAX)
                return;
        memcpy(ret, text, n);
        ret[n] = '\0';
}

/* A file of the workspace with the upper over it. */
static int read_over(int upper_fd, int lower_fd, const char *path, size_t max, struct buf *out) {
        const char *slash = strrchr(path, '/');
        AUTO_FREE char *dir = strndup(path, slash ? (size_t) (slash - path) : 0);
        enum layer_kind kind = LAYER_ABSENT;
        AUTO_FD int dir_fd = -1;
        AUTO_FD int fd = -1;

        if (!dir)
                return -ENOMEM;
        dir_fd = open_beneath(upper_fd, *dir ? dir : ".", O_PATH | O_DIRECTORY, 0);
        if (dir_fd >= 0 && layer_lookup(dir_fd, slash ? slash + 1 : path, &kind, NULL) == 0 &&
            kind != LAYER_ABSENT)
                return kind == LAYER_FILE ? file_read_at(dir_fd, slash ? slash + 1 : path, max, out)
                                          : -ENOENT;
        fd = open_beneath(lower_fd, path, O_RDONLY | O_NONBLOCK, 0);
        return fd < 0 ? fd : file_read(fd, max, out);
}

/* HEAD as the host will have it when all of the upper lands. */
static void landed_head(int uppers_fd, const char *name, int lower_fd, char ret[COPY_HEAD_MAX + 1]) {
        AUTO_FD int upper = openat(uppers_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        AUTO_BUF struct buf head = { 0 }, ref = { 0 }, packed = { 0 };
        AUTO_FREE char *path = NULL;
        const char *at;

        ret[0] = '\0';
        if (upper < 0 || read_over(upper, lower_fd, ".git/HEAD", REF_FILE_MAX, &head) < 0)
                return;
        if (strncmp(buf_cstr(&head), "ref: ", 5) != 0) {
                take_commit(buf_cstr(&head), head.len, ret);
                return;
        }
        head.data[5 + strcspn(head.data + 5, "\n")] = '\0';
        if (buf_fmt(&ref, ".git/%s", head.data + 5) < 0 || member_path(buf_cstr(&ref), &path, NULL) < 0)
                return;
        if (read_over(upper, lower_fd, path, REF_FILE_MAX, &packed) == 0) {
                take_commit(buf_cstr(&packed), packed.len, ret);
                return;
        }
        packed.len = 0;
        if (read_over(upper, lower_fd, ".git/packed-refs", PACKED_REFS_MAX, &packed) < 0)
                return;
        for (at = buf_cstr(&packed); *at; at += strcspn(at, "\n"), at += *at == '\n') {
                const size_t n = strspn(at, "0123456789abcdef");
                const size_t len = strlen(head.data + 5);

                if (at[n] == ' ' && strncmp(at + n + 1, head.data + 5, len) == 0 &&
                    (at[n + 1 + len] == '\n' || !at[n + 1 + len])) {
                        take_commit(at, n, ret);
                        return;
                }
        }
}

/* Before the archive: what it then lacks was lost on the way. A workspace may have none. */
static int inside_head(const struct remote_pod *pod, const char *path, char ret[COPY_HEAD_MAX + 1],
                       struct error *err) {
        AUTO_BUF struct buf head = { 0 };
        const int r = run_short(pod, head_script, path, &head, err);

        if (r < 0 && r != -EIO)
                return error_wrap(err, r, "export");
        take_commit(buf_cstr(&head), head.len, ret);
        return 0;
}

int copy_out(const struct remote_pod *pod, const struct copy_back *back, struct copy_result *ret,
             struct error *err) {
        const uint64_t deadline_ns = clock_ns() + pod->copy_ms * 1000000;
        struct copy_result result = { .attempts = 0 };
        int r;

        for (;;) {
                if (err)
                        *err = (struct error){ 0 };
                result.attempts++;
                r = inside_head(pod, back->path, result.head, err);
                if (r == 0)
                        r = attempt(pod, back, deadline_ns, &result.counts, err);
                if (r == 0 || !is_worth_another(r) || result.attempts >= COPY_ATTEMPTS)
                        break;
                (void) nanosleep(&(struct timespec){ .tv_sec = 1 << (result.attempts - 1) }, NULL);
        }
        if (r < 0)
                return r;
        landed_head(back->uppers_fd, back->name, back->landing.lower_fd, result.landed);
        *ret = result;
        return 0;
}

int copy_refresh(const struct remote_pod *pod, const char *path, const char *rel, const void *data,
                 size_t len, struct error *err) {
        /* $1: the workspace, $2: the file; its directory exists, and is none that a link leads to */
        static const char script[] =
                "umask 077; cd \"$1\" || exit 2\n"
                "d=$(dirname \"$2\"); [ \"$(cd \"$d\" && pwd -P)\" = \"$(pwd -P)${d:+/$d}\" ] || "
                "[ \"$d\" = . ] || exit 3\n"
                "[ ! -d \"$2\" ] || exit 4\n"
                "t=\"$d/.cofferdam-new.$$\"; trap 'rm -f \"$t\"' EXIT\n"
                "cat >\"$t\" && mv -f \"$t\" \"$2\"\n";
        const char *const argv[] = { "sh", "-c", script, "sh", path, rel, NULL };
        const struct kube_exec_request request = {
                .ns = pod->ns, .pod = pod->pod, .container = pod->container, .argv = argv, .has_stdin = true
        };
        const struct buf input = { .data = (char *) (uintptr_t) data, .len = len };
        AUTO_FREE char *clean = NULL;
        AUTO_BUF struct buf errors = { 0 };
        struct kube_exec_end end = { 0 };
        const char *why = "it is not the name of a file";
        int r;

        r = member_path(rel, &clean, &why);
        if (r < 0 || !*clean || strcmp(clean, rel) != 0)
                return error_set(err, -EINVAL, "refresh '%s': %s", ESC(rel), why);
        r = kube_exec_collect(pod->kube, &request, &input, REF_FILE_MAX, SHORT_MS, NULL, &errors, &end, err);
        if (r < 0)
                return error_wrap(err, r, "refresh '%s'", ESC(rel));
        return end.exit_code == 0
                       ? 0
                       : error_set(err, -EIO, "refresh '%s': sh inside the sandbox ended with %d: %s",
                                   ESC(rel), end.exit_code, ESC(buf_cstr(&errors)));
}
