/* cofferdam export: the workspace as the sandbox sees it, as a directory or a tar stream. */
#include "fs/export.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/review.h"
#include "cli/verbs.h"
#include "fs/copy.h"
#include "fs/names.h"
#include "fs/pathfd.h"
#include "fs/tar.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/escape.h"
#include "runtime/base/json.h"
#include "runtime/base/log.h"
#include "runtime/run/region.h"
#include "runtime/spec/flags.h"

enum { SKIPPED_MAX = 100, JSON_NAME_MAX = 4096, DEPTH_MAX = 4096 };

static const struct flag_set export_flags = {
        .usage = "cofferdam export [OPTIONS] RUN [DIRECTORY|-]",
        .summary =
                "Write the workspace as the run sees it to a new or empty directory, or as tar to standard "
                "output.",
};

/** struct target - where it goes, and what was written */
struct target {
        int dir_fd; /* -1: tar */
        bool made;  /* the directory was not there */
        struct tar tar;
        uint64_t files, bytes, skipped;
        json_t *names; /* of what was skipped, owned */
};

static int finish_fd(int fd, const struct stat *st) {
        if (geteuid() == 0 && fchown(fd, st->st_uid, st->st_gid) < 0)
                return -errno;
        if (fchmod(fd, st->st_mode & 01777) < 0)
                return -errno;
        return copy_times(st, fd);
}

static int put_file(int dir_fd, const char *name, const struct export_entry *e) {
        AUTO_FD int fd = openat(dir_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
        int r;

        if (fd < 0)
                return -errno;
        r = copy_data(e->fd, fd, (uint64_t) e->st.st_size);
        if (r == 0)
                r = copy_xattrs(e->fd, fd);
        return r < 0 ? r : finish_fd(fd, &e->st);
}

static int put_link(int dir_fd, const char *name, const struct export_entry *e) {
        const struct timespec times[2] = { e->st.st_atim, e->st.st_mtim };

        if (symlinkat(e->link, dir_fd, name) < 0 || utimensat(dir_fd, name, times, AT_SYMLINK_NOFOLLOW) < 0)
                return -errno;
        return geteuid() == 0 && fchownat(dir_fd, name, e->st.st_uid, e->st.st_gid, AT_SYMLINK_NOFOLLOW) < 0
                       ? -errno
                       : 0;
}

static int put_in_dir(const struct target *t, const struct export_entry *e) {
        const char *name;
        AUTO_FD int dir = pathfd_open_parent(t->dir_fd, e->path, &name);

        if (dir < 0)
                return dir;
        if (S_ISDIR(e->st.st_mode))
                return mkdirat(dir, name, 0700) < 0 ? -errno : 0;
        return e->link ? put_link(dir, name, e) : put_file(dir, name, e);
}

static int put(const struct export_entry *e, void *arg) {
        struct target *t = arg;
        const int r = t->dir_fd >= 0 ? put_in_dir(t, e) : tar_put(&t->tar, e);

        if (r < 0) {
                log_error("write '%s': %s", ESC(e->path), strerror(-r));
                return r;
        }
        t->files++;
        t->bytes += S_ISREG(e->st.st_mode) ? (uint64_t) e->st.st_size : 0;
        return 0;
}

/* A directory is closed and dated when all is in it. */
static int leave(const struct export_entry *e, void *arg) {
        const struct target *t = arg;
        const char *name;
        AUTO_FD int dir = -1, fd = -1;
        int r;

        if (t->dir_fd < 0)
                return 0;
        dir = pathfd_open_parent(t->dir_fd, e->path, &name);
        fd = dir < 0 ? -1 : openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        r = fd < 0 ? -errno : finish_fd(fd, &e->st);
        if (r < 0)
                log_error("finish '%s': %s", ESC(e->path), strerror(-r));
        return r;
}

static int skip(const char *path, int error, void *arg) {
        struct target *t = arg;

        log_warn("skipped '%s': %s", ESC(path),
                 error ? strerror(-error) : "neither file, directory nor symlink");
        if (t->skipped++ >= SKIPPED_MAX)
                return 0;
        return json_array_append_new(t->names, json_from_bytes(path, JSON_NAME_MAX)) < 0 ? -ENOMEM : 0;
}

/* Opens, or makes, the directory @path, which must be empty. Return: descriptor, -errno with a message. */
static int open_target(const char *path, bool *ret_made, struct error *err) {
        AUTO_NAMES struct names names = { 0 };
        AUTO_FD int fd = -1;
        int r;

        *ret_made = mkdir(path, 0777) == 0;
        if (!*ret_made && errno != EEXIST)
                return error_set(err, -errno, "make directory '%s': %s", ESC(path), strerror(errno));
        fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        r = fd < 0 ? -errno : names_read(fd, &names);
        if (r < 0)
                return error_set(err, r, "open '%s': %s", ESC(path), strerror(-r));
        if (names.n > 0)
                return error_set(err, -ENOTEMPTY, "'%s' is not empty: name a new directory", ESC(path));
        return TAKE_FD(fd);
}

/* Whether @dir_fd is @above or lies below it. Return: 1, 0, -errno. */
static int is_below(int dir_fd, int above) {
        AUTO_FD int fd = fcntl(dir_fd, F_DUPFD_CLOEXEC, 0);
        struct stat st, last = { 0 }, want;

        if (fd < 0 || fstat(above, &want) < 0)
                return -errno;
        for (int i = 0; i < DEPTH_MAX; i++) {
                int up;

                if (fstat(fd, &st) < 0)
                        return -errno;
                if (st.st_dev == want.st_dev && st.st_ino == want.st_ino)
                        return 1;
                if (i > 0 && st.st_dev == last.st_dev && st.st_ino == last.st_ino)
                        return 0;
                last = st;
                up = openat(fd, "..", O_PATH | O_DIRECTORY | O_CLOEXEC);
                if (up < 0)
                        return -errno;
                (void) close(fd);
                fd = up;
        }
        return -ELOOP;
}

/* What is written into the workspace would be read again, without end. */
static int check_place(const struct target *t, const struct run_region *region, struct error *err) {
        const int r = t->dir_fd < 0 ? 0 : is_below(t->dir_fd, region->lower_fd);

        if (r < 0)
                return error_set(err, r, "look above the directory: %s", strerror(-r));
        return r ? error_set(err, -EINVAL, "the directory lies in the workspace: name one outside of it") : 0;
}

static int write_all_of(const struct review *review, struct target *t, struct error *err) {
        AUTO_RUN_REGION struct run_region region = RUN_REGION_INIT;
        const json_t *row = json_array_get(run_regions(review->state), 0);
        struct export_options opt = { .put = put, .leave = leave, .skip = skip, .arg = t };
        int r;

        if (!row)
                return error_set(err, -ENOENT, "run %s has no workspace", review->dir.id);
        r = run_region_open(&review->dir, row, RUN_SOURCE_EMPTY, &region, err);
        if (r == 0)
                r = check_place(t, &region, err);
        if (r < 0)
                return r;
        opt.layers = (struct diff_layers){ region.upper_fd, region.lower_fd, region.kernel };
        opt.rules = region.rules.rules;
        r = export_walk(&opt, err);
        return r < 0 || t->dir_fd >= 0 ? r : tar_end(&t->tar);
}

static void tell(const struct review *review, const struct target *t, int r) {
        struct events events;
        AUTO_FD int fd = -1;

        if (run_is_alive(review->state)) /* its supervisor writes the stream */
                return;
        fd = review_events(review, &events);
        events_emit(&events, r < 0 ? "sandbox_workspace_export_failed" : "workspace_exported",
                    json_pack("{s:I,s:I,s:O}", "files", (json_int_t) t->files, "bytes", (json_int_t) t->bytes,
                              "skipped", t->names));
        (void) fd; /* closed here */
}

static int export(const struct review *review, const char *to) {
        AUTO_JSON json_t *names = json_array();
        struct target t = { .dir_fd = -1, .tar = { .fd = STDOUT_FILENO }, .names = names };
        AUTO_FD int dir = -1;
        struct error err = { 0 };
        int r;

        if (strcmp(to, "-") != 0) {
                dir = open_target(to, &t.made, &err);
                if (dir < 0) {
                        log_error("%s", err.msg);
                        return EXIT_FAILED;
                }
                t.dir_fd = dir;
        }
        r = write_all_of(review, &t, &err);
        tell(review, &t, r);
        if (r == 0)
                return t.skipped > 0 ? EXIT_FAILED : EXIT_OK;
        if (t.made)
                (void) rmdir(to); /* when nothing was written */
        log_error("%s", err.code ? err.msg : strerror(-r));
        return EXIT_FAILED;
}

int verb_export(const struct ctx *ctx, int argc, char **argv) {
        AUTO_REVIEW struct review review = REVIEW_INIT;
        AUTO_FLAGS struct flags *flags = NULL;
        struct error err = { 0 };
        const char *to;

        if (flags_parse(&export_flags, argc, argv, NULL, &flags, &err) < 0) {
                log_error("%s", err.msg);
                return EXIT_USAGE;
        }
        if (flags->help)
                return review_help(&export_flags);
        if (flags->next >= argc || flags->next + 2 < argc) {
                log_error("export: want a RUN, and a DIRECTORY or '-': see 'cofferdam export --help'");
                return EXIT_USAGE;
        }
        to = flags->next + 1 < argc ? argv[flags->next + 1] : "-";
        if (strcmp(to, "-") == 0 && isatty(STDOUT_FILENO)) {
                log_error("export: a tar stream is nothing for a terminal: name a DIRECTORY, or redirect it");
                return EXIT_USAGE;
        }
        if (review_open(ctx, argv[flags->next], REVIEW_CHANGED, &review, &err) < 0) {
                log_error("%s", err.msg);
                return EXIT_FAILED;
        }
        return export(&review, to);
}
