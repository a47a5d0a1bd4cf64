/* cofferdam logs: what detached commands said. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/runs.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/escape.h"
#include "runtime/base/file.h"
#include "runtime/base/log.h"
#include "runtime/base/parse.h"
#include "runtime/base/sys.h"
#include "runtime/run/follow.h"

struct options {
        bool follow, errors;
};

static const struct flag_option options[] = {
        { "follow", 'f', NULL, NULL, "Go on until the run has ended", offsetof(struct options, follow) },
        { "stderr", 0, NULL, NULL, "Standard error instead of standard output",
          offsetof(struct options, errors) },
};

static const struct flag_set flags = {
        .usage = "cofferdam logs [OPTIONS] RUN [EXEC]",
        .summary = "Print what a command of 'cofferdam exec --detach' said; EXEC is the number it printed.",
        .options = options,
        .n_options = ARRAY_SIZE(options),
};

static int put(const char *data, size_t len, void *arg) {
        (void) arg;
        return write_all(STDOUT_FILENO, data, len);
}

/* The number of the last detached command, when none was given. */
static int latest(int log_fd, const char *suffix, uint64_t *ret) {
        AUTO_DIR DIR *d = NULL;
        const struct dirent *e;
        int fd = openat(log_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

        d = fd < 0 ? NULL : fdopendir(fd);
        if (!d)
                return fd < 0 ? -errno : (fd_close(fd), -ENOMEM);
        *ret = 0;
        while ((e = readdir(d))) {
                char number[16];
                const size_t n = strcspn(e->d_name, ".");
                uint64_t id;

                if (n >= sizeof(number) || strcmp(e->d_name + n, suffix) != 0)
                        continue;
                memcpy(number, e->d_name, n);
                number[n] = '\0';
                if (parse_u64(number, 1, UINT32_MAX, &id) == 0 && id > *ret)
                        *ret = id;
        }
        return *ret ? 0 : -ENOENT;
}

/* @id: of the command; 0: the last one. */
static int print_log(const struct run_dir *dir, const struct options *o, uint64_t id, struct error *err) {
        const char *suffix = o->errors ? ".err" : ".out";
        AUTO_FD int log_fd = -1, pidfd = -1;
        char name[32], old[40];
        int r;

        log_fd = open_beneath(dir->fd, "log", O_RDONLY | O_DIRECTORY, 0);
        r = log_fd < 0 ? log_fd : id ? 0 : latest(log_fd, suffix, &id);
        if (r == -ENOENT)
                return error_set(err, r, "run %s has no logs: 'cofferdam exec --detach' makes them", dir->id);
        if (o->follow)
                pidfd = follow_pidfd(dir); /* none: it has ended, what is there is all */
        (void) snprintf(name, sizeof(name), "%" PRIu64 "%s", id, suffix);
        (void) snprintf(old, sizeof(old), "%s.1", name);
        if (r == 0)
                r = follow_file(log_fd, old, -1, put, NULL);
        if (r == 0 || r == -ENOENT)
                r = follow_file(log_fd, name, pidfd < 0 ? -1 : pidfd, put, NULL);
        if (r == -ENOENT)
                return error_set(err, r, "run %s has no log of command %" PRIu64, dir->id, id);
        return r < 0 ? error_set(err, r, "log of run %s: %s", dir->id, strerror(-r)) : 0;
}

int verb_logs(const struct ctx *ctx, int argc, char **argv) {
        AUTO_RUN_DIR struct run_dir dir = RUN_DIR_INIT;
        struct options o = { 0 };
        struct error err = { 0 };
        uint64_t id = 0;
        int next, code, r;

        if (!runs_words(&flags, argc, argv, &o, &next, &code))
                return code;
        if (next >= argc || next + 2 < argc) {
                log_error("want a run, and perhaps the number of a command: %s", flags.usage);
                return EXIT_USAGE;
        }
        if (next + 1 < argc && parse_u64(argv[next + 1], 1, UINT32_MAX, &id) < 0) {
                log_error("'%s': want the number of a command", ESC(argv[next + 1]));
                return EXIT_USAGE;
        }
        r = run_dir_open(ctx, argv[next], &dir, &err);
        if (r == 0)
                r = print_log(&dir, &o, id, &err);
        return r < 0 ? runs_complain(&err) : EXIT_OK;
}
