#include "cli/review.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/verbs.h"
#include "fs/apply.h"
#include "fs/names.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/escape.h"
#include "runtime/base/file.h"
#include "runtime/base/json.h"
#include "runtime/base/log.h"
#include "runtime/base/sys.h"
#include "runtime/run/changes.h"
#include "runtime/run/region.h"
#include "runtime/spec/flags.h"

enum { JSON_PATH_MAX = 1 << 18, RULE_SHOWN_MAX = 48 };

void review_deinit(struct review *review) {
        json_decref(review->state);
        review->state = NULL;
        run_dir_deinit(&review->dir);
}

int review_help(const struct flag_set *set) {
        AUTO_BUF struct buf text = { 0 };

        if (flags_help(set, &text) < 0)
                return EXIT_FAILED;
        (void) fputs(buf_cstr(&text), stdout);
        return EXIT_OK;
}

bool review_words(const struct flag_set *set, int argc, char **argv, void *options, struct review_words *ret,
                  int *ret_code) {
        AUTO_FLAGS struct flags *flags = NULL;
        struct error err = { 0 };
        int at;

        *ret_code = EXIT_USAGE;
        if (flags_parse(set, argc, argv, options, &flags, &err) < 0) {
                log_error("%s", err.msg);
                return false;
        }
        if (flags->help) {
                *ret_code = review_help(set);
                return false;
        }
        at = flags->next;
        *ret = (struct review_words){ 0 };
        if (at < argc && strcmp(argv[at - 1], "--") != 0)
                ret->run = argv[at++];
        for (int i = at; ret->run && i < argc && strcmp(argv[i], "--") != 0; i++)
                if (argv[i][0] == '-') {
                        log_error("%s: '%s' comes too late: options stand before RUN, and paths that begin "
                                  "with "
                                  "'-' behind '--'",
                                  argv[0], ESC(argv[i]));
                        return false;
                }
        at += ret->run && at < argc && strcmp(argv[at], "--") == 0;
        ret->paths = argv + at;
        ret->n_paths = (size_t) (argc - at);
        return true;
}

static int open_one(const struct ctx *ctx, const char *id, enum review_pick pick, struct review *ret,
                    struct error *err) {
        int r;

        r = run_dir_open(ctx, id, &ret->dir, err);
        if (r < 0)
                return r;
        r = run_state_load(&ret->dir, &ret->state, err);
        return pick == REVIEW_DROP ? 0 : r;
}

static bool is_picked(const struct review *review, enum review_pick pick) {
        uint32_t region;

        if (pick == REVIEW_PENDING)
                return apply_pending(review->dir.fd, &region, NULL) != 0;
        return run_changes_count(&review->dir, review->state, 1) > 0;
}

struct candidate {
        char id[RUN_ID_LEN + 1];
        struct timespec when;
};

static int newest_first(const void *a, const void *b) {
        const struct timespec *x = &((const struct candidate *) a)->when,
                              *y = &((const struct candidate *) b)->when;

        if (x->tv_sec != y->tv_sec)
                return x->tv_sec < y->tv_sec ? 1 : -1;
        return x->tv_nsec < y->tv_nsec ? 1 : x->tv_nsec > y->tv_nsec ? -1 : 0;
}

/* All runs, the newest first. @ret: owned array. */
static int list_runs(int runs_fd, struct candidate **ret, size_t *ret_n) {
        AUTO_NAMES struct names names = { 0 };
        AUTO_FREE struct candidate *list = NULL;
        size_t n = 0;
        int r;

        r = names_read(runs_fd, &names);
        if (r < 0)
                return r;
        list = calloc(names.n + 1, sizeof(*list));
        if (!list)
                return -ENOMEM;
        for (size_t i = 0; i < names.n; i++) {
                struct stat st;

                if (strlen(names.v[i]) != RUN_ID_LEN ||
                    fstatat(runs_fd, names.v[i], &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISDIR(st.st_mode))
                        continue;
                memcpy(list[n].id, names.v[i], RUN_ID_LEN + 1);
                list[n++].when = st.st_ctim;
        }
        qsort(list, n, sizeof(*list), newest_first);
        *ret = TAKE_PTR(list);
        *ret_n = n;
        return 0;
}

static const char *workspace_of(const json_t *state) {
        const json_t *rows = run_regions(state);

        for (size_t i = 0; i < json_array_size(rows); i++) {
                const json_t *row = json_array_get(rows, i);
                const char *role = json_string_value(json_object_get(row, "role"));

                if (role && strcmp(role, "workspace") == 0)
                        return json_string_value(json_object_get(row, "source"));
        }
        return NULL;
}

void review_workspace(const struct review *review, const char *ret[2]) {
        const json_t *row = json_array_get(run_regions(review->state), 0);

        ret[0] = json_string_value(json_object_get(row, "source"));
        ret[1] = json_string_value(json_object_get(row, "target"));
}

/* Whether the caller stands in @dir or below it, however its path is spelled. */
static bool is_here(const struct ctx *ctx, const char *dir) {
        struct stat want, got;
        char path[PATH_MAX];

        if (!dir || !ctx->cwd || strlen(ctx->cwd) >= sizeof(path) || stat(dir, &want) < 0)
                return false;
        memcpy(path, ctx->cwd, strlen(ctx->cwd) + 1);
        for (;;) {
                char *slash = strrchr(path, '/');

                if (stat(path, &got) == 0 && got.st_dev == want.st_dev && got.st_ino == want.st_ino)
                        return true;
                if (!slash || !path[1])
                        return false;
                slash[slash == path] = '\0';
        }
}

/* @elsewhere: a run of another directory, which nobody meant who did not name it; no state: there is none */
static int none_here(enum review_pick pick, const struct review *elsewhere, struct error *err) {
        const char *what = pick == REVIEW_PENDING ? "has an apply that was cut off" : "holds changes";
        const char *dir = workspace_of(elsewhere->state);

        if (!elsewhere->state)
                return error_set(err, -ENOENT, "no run %s", what);
        return error_set(err, -ENOENT, "no run of this directory %s; to take run %s of '%s', name it", what,
                         elsewhere->dir.id, ESC(dir ? dir : "?"));
}

static int open_latest(const struct ctx *ctx, enum review_pick pick, struct review *ret, struct error *err) {
        AUTO_RUN_DIR struct run_dir any = RUN_DIR_INIT;
        AUTO_REVIEW struct review elsewhere = REVIEW_INIT;
        AUTO_FREE struct candidate *list = NULL;
        size_t n = 0;
        int r;

        r = run_dir_open(ctx, NULL, &any, err);
        if (r == 0)
                r = list_runs(any.runs_fd, &list, &n);
        for (size_t i = 0; r == 0 && i < n; i++) {
                AUTO_REVIEW struct review one = REVIEW_INIT;

                if (open_one(ctx, list[i].id, REVIEW_CHANGED, &one, NULL) < 0 || !is_picked(&one, pick))
                        continue;
                if (is_here(ctx, workspace_of(one.state))) {
                        *ret = TAKE(one, (struct review) REVIEW_INIT);
                        return 0;
                }
                if (!elsewhere.state)
                        elsewhere = TAKE(one, (struct review) REVIEW_INIT);
        }
        if (r < 0 && r != -ENOENT)
                return error_set(err, r, "read the runs in '%s': %s", ESC(ctx->state_dir), strerror(-r));
        return none_here(pick, &elsewhere, err);
}

int review_open(const struct ctx *ctx, const char *id, enum review_pick pick, struct review *ret,
                struct error *err) {
        AUTO_REVIEW struct review one = REVIEW_INIT;
        int r;

        if (!ctx->state_dir)
                return error_set(err, -ENOENT,
                                 "no home directory for the state of runs: set HOME or XDG_STATE_HOME");
        if (!id)
                return open_latest(ctx, pick, ret, err);
        r = open_one(ctx, id, pick, &one, err);
        if (r == 0)
                *ret = TAKE(one, (struct review) REVIEW_INIT);
        return r;
}

int review_lock(struct review *review, const char *verb, struct error *err) {
        if (run_is_alive(review->state))
                return error_set(err, -EBUSY, "run %s is alive: %s it when it has ended", review->dir.id,
                                 verb);
        if (flock(review->dir.fd, LOCK_EX | LOCK_NB) == 0)
                return 0;
        if (errno == EWOULDBLOCK)
                return error_set(err, -EBUSY, "run %s is starting, or another apply or discard works on it",
                                 review->dir.id);
        return error_set(err, -errno, "lock run %s: %s", review->dir.id, strerror(errno));
}

int review_events(const struct review *review, struct events *ret) {
        *ret = (struct events){ .run_id = review->dir.id, .file_fd = -1, .sink_fd = -1 };
        return events_reopen(review->dir.fd, ret);
}

static bool holds_nothing(int upper_fd) {
        AUTO_NAMES struct names names = { 0 };

        return names_read(upper_fd, &names) == 0 && names.n == 0;
}

bool review_is_empty(const struct review *review) {
        AUTO_NAMES struct names names = { 0 };

        if (names_read(review->dir.upper_fd, &names) < 0)
                return false;
        for (size_t i = 0; i < names.n; i++) {
                AUTO_FD int fd = open_beneath(review->dir.upper_fd, names.v[i], O_RDONLY | O_DIRECTORY, 0);

                if (fd < 0 || !holds_nothing(fd))
                        return false;
        }
        return true;
}

/* "" for the workspace, else the target with a slash. */
static int make_prefix(const json_t *row, struct buf *out) {
        const char *role = json_string_value(json_object_get(row, "role"));
        const char *target = json_string_value(json_object_get(row, "target"));

        if (!target || !role || strcmp(role, "workspace") == 0)
                return 0;
        return buf_fmt(out, "%s/", target);
}

static int each(const struct review *review, const json_t *row, enum run_source source, review_fn fn,
                void *arg, struct error *err) {
        AUTO_RUN_REGION struct run_region opened = RUN_REGION_INIT;
        AUTO_BUF struct buf prefix = { 0 };
        const char *kind = json_string_value(json_object_get(row, "kind"));
        struct review_region region;
        struct error why = { 0 };
        int r;

        r = run_region_open(&review->dir, row, source, &opened, &why);
        if (r == -ENOENT && !why.code)
                return 0;
        if (r < 0)
                return error_set(err, r, "%s", why.msg);
        if (why.code)
                log_warn("%s; shown as if the host had nothing", why.msg);
        r = make_prefix(row, &prefix);
        if (r < 0)
                return error_set(err, r, "out of memory");
        region = (struct review_region){ .index = opened.index,
                                         .prefix = buf_cstr(&prefix),
                                         .upper_fd = opened.upper_fd,
                                         .lower_fd = opened.lower_fd,
                                         .kernel = opened.kernel,
                                         .direct = kind && strcmp(kind, "direct") == 0,
                                         .rules = &opened.rules };
        return fn(&region, arg, err);
}

int review_each(const struct review *review, bool lenient, bool any_source, review_fn fn, void *arg,
                struct error *err) {
        const json_t *rows = run_regions(review->state);
        int r = 0;

        for (size_t i = 0; r == 0 && i < json_array_size(rows); i++)
                r = each(review, json_array_get(rows, i),
                         lenient      ? RUN_SOURCE_MAYBE
                         : any_source ? RUN_SOURCE_ANY
                                      : RUN_SOURCE_SAME,
                         fn, arg, err);
        return r;
}

static int add_escaped(struct buf *out, const char *s) {
        const size_t size = 4 * strlen(s) + 8;
        AUTO_FREE char *text = malloc(size);

        return text ? buf_str(out, escape_str(s, text, size)) : -ENOMEM;
}

int review_line(const struct review_region *region, const struct change *change, bool raw, struct buf *out) {
        int r;

        r = buf_fmt(out, "%c%s ", change_letter(change->kind), change->conflict ? "!" : "");
        if (r == 0)
                r = raw ? buf_str(out, region->prefix) : add_escaped(out, region->prefix);
        if (r == 0 && change->from)
                r = raw ? buf_str(out, change->from) : add_escaped(out, change->from);
        if (r == 0 && change->from)
                r = buf_str(out, " -> ");
        if (r == 0 && change->from)
                r = raw ? buf_str(out, region->prefix) : add_escaped(out, region->prefix);
        if (r == 0)
                r = raw ? buf_str(out, change->path) : add_escaped(out, change->path);
        return r;
}

static const char *type_name(mode_t mode) {
        static const struct {
                mode_t type;
                const char *name;
        } types[] = { { S_IFREG, "file" },
                      { S_IFDIR, "directory" },
                      { S_IFLNK, "symlink" },
                      { S_IFIFO, "fifo" },
                      { S_IFSOCK, "socket" } };

        for (size_t i = 0; i < ARRAY_SIZE(types); i++)
                if ((mode & S_IFMT) == types[i].type)
                        return types[i].name;
        return "device";
}

json_t *review_change(const struct review_region *region, const struct change *change) {
        const char kind[2] = { change_letter(change->kind), '\0' };
        AUTO_BUF struct buf path = { 0 }, from = { 0 };
        char mode[8];

        if (buf_fmt(&path, "%s%s", region->prefix, change->path) < 0)
                return NULL;
        (void) snprintf(mode, sizeof(mode), "%04o", change->mode & 07777U);
        if (change->from && buf_fmt(&from, "%s%s", region->prefix, change->from) < 0)
                return NULL;
        return json_pack("{s:s,s:o,s:o*,s:i,s:s,s:s,s:I,s:b,s:s*}", "kind", kind, "path",
                         json_from_bytes(buf_cstr(&path), JSON_PATH_MAX), "from",
                         change->from ? json_from_bytes(buf_cstr(&from), JSON_PATH_MAX) : NULL, "region",
                         (int) region->index, "type", type_name(change->mode), "mode", mode, "size",
                         (json_int_t) change->size, "conflict", change->conflict, "error",
                         change->error ? strerror(-change->error) : NULL);
}

/* in the words of the specification */
static const char *const actions[GUARD_DO_COUNT] = {
        [GUARD_ALLOW] = "allow", [GUARD_HOLD] = "hold", [GUARD_PROTECT] = "protect", [GUARD_HIDE] = "hide"
};

int review_flag(const struct verdict *verdict, struct buf *out) {
        const char *reason = verdict->reason, *more = "";
        char rule[VERDICT_TEXT_MAX];

        (void) snprintf(rule, sizeof(rule), "%s", verdict->rule);
        if (strlen(rule) > RULE_SHOWN_MAX) { /* a built-in list of names fills three lines */
                rule[RULE_SHOWN_MAX - 3] = '\0';
                more = "...";
        }
        return buf_fmt(out, "  [%s: %s%s%s%s]", actions[verdict->action], ESC(rule), more,
                       *reason ? ": " : "", reason);
}

int review_flag_json(const struct verdict *verdict, json_t *row) {
        if (json_object_set_new(row, "action", json_string(actions[verdict->action])) < 0)
                return -ENOMEM;
        if (verdict->action == GUARD_ALLOW)
                return 0;
        return json_object_set_new(row, "rule", json_from_bytes(verdict->rule, VERDICT_TEXT_MAX * 4)) < 0 ||
                               json_object_set_new(row, "reason",
                                                   json_from_bytes(verdict->reason, VERDICT_TEXT_MAX * 4)) < 0
                       ? -ENOMEM
                       : 0;
}
