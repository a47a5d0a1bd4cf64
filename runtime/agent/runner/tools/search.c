/*
 * glob, grep, workspace_grep: they run in a process of their own, because patterns and directories come from
 * outside: it has a time and a memory of its own to waste, and is killed
 */
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <poll.h>
#include <regex.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/agent/runner/tools.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/clock.h"
#include "runtime/base/escape.h"
#include "runtime/base/file.h"
#include "runtime/base/path.h"
#include "runtime/base/sys.h"

enum {
        SEARCH_MS = 60000,
        SEARCH_MEMORY = 512 << 20, /* bytes of address space over what is in use */
        DEPTH_MAX = 64,
        BRACES_MAX = 64,
        RESULTS_MAX = 1000,
        GREP_FILE_MAX = 16 << 20,
        LINE_SHOWN_MAX = 500,
        PATTERN_MAX = 1024,
};

static const uint64_t MS = 1000000;

/** struct search - what is looked for, in the process that looks */
struct search {
        const struct tool_env *env;
        const json_t *input;
        int root;                /* the directory that is searched */
        char *globs[BRACES_MAX]; /* alternatives of the glob; n_globs 0: all files */
        size_t n_globs;
        regex_t regex;
        const char *fixed; /* instead of @regex */
        bool icase, names_only, counts, contents;
        json_int_t limit, context, n, skipped;
        int out;               /* where results go */
        char prefix[PATH_MAX]; /* of what is printed */
};

/* --- patterns ------------------------------------------------------------------------------------------- */

/* "a{b,c}d" as "abd", "acd"; nested braces too. Return: 0, -E2BIG, -ENOMEM. */
static int expand(struct search *s, const char *pattern, int depth) {
        const char *open = strchr(pattern, '{'), *close = open, *at;
        int level = 0;

        for (; close && *close; close++) {
                level += *close == '{';
                level -= *close == '}';
                if (level == 0)
                        break;
        }
        if (!open || !*close || depth > 8) {
                if (s->n_globs == BRACES_MAX)
                        return -E2BIG;
                s->globs[s->n_globs] = strdup(pattern);
                return s->globs[s->n_globs] ? (s->n_globs++, 0) : -ENOMEM;
        }
        for (at = open + 1; at <= close; at++) {
                char one[PATTERN_MAX * 2];
                const char *start = at;
                int r;

                for (level = 0; at < close && (level > 0 || *at != ','); at++)
                        level += (*at == '{') - (*at == '}');
                (void) snprintf(one, sizeof(one), "%.*s%.*s%s", (int) (open - pattern), pattern,
                                (int) (at - start), start, close + 1);
                r = expand(s, one, depth + 1);
                if (r < 0)
                        return r;
        }
        return 0;
}

/* Component by component; "**" is any number of them. */
static bool match(const char *pattern, const char *path, int budget) {
        const char *slash = strchr(pattern, '/'), *next = strchr(path, '/');
        char p[PATTERN_MAX * 2], c[NAME_MAX + 1];

        if (budget == 0)
                return false;
        if (strncmp(pattern, "**", 2) == 0 && (pattern[2] == '/' || !pattern[2])) {
                if (!pattern[2] || match(pattern + 3, path, budget - 1))
                        return true;
                return next && match(pattern, next + 1, budget - 1);
        }
        (void) snprintf(p, sizeof(p), "%.*s", slash ? (int) (slash - pattern) : (int) strlen(pattern),
                        pattern);
        (void) snprintf(c, sizeof(c), "%.*s", next ? (int) (next - path) : (int) strlen(path), path);
        if (fnmatch(p, c, 0) != 0)
                return false;
        if (!slash || !next)
                return !slash && !next;
        return match(slash + 1, next + 1, budget - 1);
}

/* A pattern without a slash is of names, as everywhere. */
static bool wanted(const struct search *s, const char *path) {
        for (size_t i = 0; i < s->n_globs; i++) {
                if (match(s->globs[i], strchr(s->globs[i], '/') ? path : path_basename(path), DEPTH_MAX * 2))
                        return true;
        }
        return s->n_globs == 0;
}

/* --- results -------------------------------------------------------------------------------------------- */

__attribute__((format(printf, 2, 3))) static void say(struct search *s, const char *fmt, ...) {
        va_list args;

        va_start(args, fmt);
        (void) vdprintf(s->out, fmt, args);
        va_end(args);
}

static bool hit(const struct search *s, const char *line, size_t len, char *room) {
        if (s->fixed && s->icase) {
                memcpy(room, line, len);
                room[len] = '\0';
                return strcasestr(room, s->fixed) != NULL;
        }
        if (s->fixed)
                return memmem(line, len, s->fixed, strlen(s->fixed)) != NULL;
        memcpy(room, line, len);
        room[len] = '\0';
        return regexec(&s->regex, room, 0, NULL, 0) == 0;
}

static void show(struct search *s, const char *path, json_int_t n, char mark, const char *line, size_t len) {
        const size_t shown = len > LINE_SHOWN_MAX ? LINE_SHOWN_MAX : len;

        say(s, "%s%s%c%lld%c%.*s%s\n", s->prefix, path, mark, (long long) n, mark, (int) shown, line,
            shown < len ? "[...]" : "");
}

/** struct scan - a file that is being looked through */
struct scan {
        const char *lines[64]; /* the last ones: up to @context of them are shown before a hit */
        size_t lens[64];
        json_int_t n, hits, after, shown;
};

static void scan_line(struct search *s, const char *path, struct scan *f, const char *line, size_t len,
                      char *room) {
        f->n++;
        f->lines[f->n % 64] = line;
        f->lens[f->n % 64] = len;
        if (hit(s, line, len, room)) {
                f->hits++;
                for (json_int_t i = f->n - s->context; s->contents && i < f->n; i++) {
                        if (i > f->shown && i > 0)
                                show(s, path, i, '-', f->lines[i % 64], f->lens[i % 64]);
                }
                if (s->contents) {
                        show(s, path, f->n, ':', line, len);
                        s->n++;
                        f->shown = f->n;
                }
                f->after = s->context;
        } else if (s->contents && f->after > 0) {
                show(s, path, f->n, '-', line, len);
                f->shown = f->n;
                f->after--;
        }
}

/* @fd: opened without following a link; what has its name now may be another */
static void grep_file(struct search *s, int fd, const char *path) {
        AUTO_BUF struct buf text = { 0 };
        AUTO_FREE char *room = NULL;
        struct scan f = { 0 };
        const char *at, *end;
        struct stat st;

        if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || file_read(fd, GREP_FILE_MAX, &text) < 0 ||
            is_binary(text.data, text.len)) {
                s->skipped++;
                return;
        }
        room = malloc(text.len + 1);
        if (!room)
                return;
        end = text.data + text.len;
        for (at = text.data; at < end && s->n < s->limit; at++) {
                const char *lf = memchr(at, '\n', (size_t) (end - at));
                size_t len = lf ? (size_t) (lf - at) : (size_t) (end - at);

                scan_line(s, path, &f, at, len > 0 && at[len - 1] == '\r' ? len - 1 : len, room);
                at += len;
                if (s->names_only && f.hits > 0)
                        break;
        }
        if (f.hits == 0 || s->contents)
                return;
        s->n++;
        if (s->counts)
                say(s, "%s%s:%lld\n", s->prefix, path, (long long) f.hits);
        else
                say(s, "%s%s\n", s->prefix, path);
}

/* --- the walk ------------------------------------------------------------------------------------------- */

static int not_dots(const struct dirent *e) {
        return strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0 && strcmp(e->d_name, ".git") != 0;
}

static void walk(struct search *s, int dir, const char *path, int depth);

static void visit(struct search *s, int dir, const char *name, const char *path, int depth) {
        struct stat st;

        if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
                return;
        if (S_ISDIR(st.st_mode)) {
                AUTO_FD int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

                if (fd >= 0)
                        walk(s, fd, path, depth + 1);
                return;
        }
        if (!wanted(s, path))
                return;
        if (!s->fixed && !s->names_only && !s->counts && !s->contents) { /* glob */
                say(s, "%s%s\n", s->prefix, path);
                s->n++;
        } else if (S_ISREG(st.st_mode)) {
                AUTO_FD int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);

                if (fd >= 0)
                        grep_file(s, fd, path);
                else
                        s->skipped++;
        }
}

static void walk(struct search *s, int dir, const char *path, int depth) {
        struct dirent **list = NULL;
        const int n = depth > DEPTH_MAX ? 0 : scandirat(dir, ".", &list, not_dots, alphasort);

        for (int i = 0; i < n; i++) {
                char below[PATH_MAX];

                if (s->n < s->limit && snprintf(below, sizeof(below), "%s%s%s", path, *path ? "/" : "",
                                                list[i]->d_name) < (int) sizeof(below))
                        visit(s, dir, list[i]->d_name, below, depth);
                free(list[i]);
        }
        free(list);
}

/* --- the process ---------------------------------------------------------------------------------------- */

static int prepare(struct search *s, const char *pattern, struct error *err) {
        char why[128];
        int r;

        if (s->fixed || !pattern)
                return 0;
        r = regcomp(&s->regex, pattern, REG_EXTENDED | REG_NOSUB | (s->icase ? REG_ICASE : 0));
        if (r == 0)
                return 0;
        (void) regerror(r, &s->regex, why, sizeof(why));
        return error_set(err, -EINVAL, "the pattern is no extended regular expression: %s", why);
}

/* In the child. Return: exit status. */
static int look(struct search *s, const char *pattern, bool single) {
        struct rlimit room = { SEARCH_MEMORY, SEARCH_MEMORY };
        struct error err = { 0 };

        (void) setrlimit(RLIMIT_DATA, &room);
        (void) setrlimit(RLIMIT_CORE, &(struct rlimit){ 0 });
        if (prepare(s, pattern, &err) < 0) {
                say(s, "%s", err.msg);
                return 2;
        }
        if (single)
                grep_file(s, s->root, "");
        else
                walk(s, s->root, "", 0);
        if (s->n >= s->limit)
                say(s, "[more than %lld: narrow it down, or raise limit]\n", (long long) s->limit);
        return 0;
}

static int collect(struct tool_env *env, int fd, struct child *c, struct output *out) {
        const uint64_t deadline = clock_ns() + SEARCH_MS * MS;
        char room[16384];
        ssize_t n = 1;

        while (n != 0) {
                struct pollfd p = { .fd = fd, .events = POLLIN };
                int r = wire_poll(env->wire, &p, 1, deadline);

                if (r <= 0)
                        return r < 0 ? r : -ETIMEDOUT;
                n = read(fd, room, sizeof(room));
                if (n < 0)
                        return -errno;
                if (n > 0 && output_add(out, room, (size_t) n) < 0)
                        return -ENOMEM;
        }
        while (!child_ended(c)) {
                struct pollfd p = { .fd = c->pidfd, .events = POLLIN };
                const int r = wire_poll(env->wire, &p, 1, deadline);

                if (r <= 0)
                        return r < 0 ? r : -ETIMEDOUT;
        }
        return 0;
}

static int answer(struct child *c, int r, const struct output *out, struct tool_result *ret) {
        AUTO_BUF struct buf text = { 0 };
        char how[64];

        if (r == -EPIPE || r == -ENOMEM)
                return r;
        if (r < 0 || WIFSIGNALED(c->status))
                return tool_fail(ret, "the search was ended: %s",
                                 r == -ETIMEDOUT ? "it took too long"
                                 : r < 0         ? strerror(-r)
                                                 : child_status_text(c->status, how));
        if (output_text(out, &text) < 0)
                return -ENOMEM;
        ret->error = WEXITSTATUS(c->status) != 0;
        if (text.len == 0)
                return tool_text(ret, "[nothing found]", 15);
        return tool_text(ret, text.data, text.len);
}

static int search(struct search *s, const char *pattern, bool single, struct tool_result *ret) {
        AUTO_OUTPUT struct output out = { 0 };
        AUTO_FD int from = -1, to = -1;
        struct child c = { .pidfd = -1 };
        int pair[2], r;

        if (pipe2(pair, O_CLOEXEC) < 0)
                return tool_fail(ret, "search: %s", strerror(errno));
        from = pair[0];
        to = pair[1];
        s->out = to;
        c.pid = sys_clone(0, &c.pidfd);
        if (c.pid < 0)
                return tool_fail(ret, "search: %s", strerror(-c.pid));
        if (c.pid == 0)
                _exit(look(s, pattern, single));
        to = fd_close(to);
        r = collect(s->env ? (struct tool_env *) (uintptr_t) s->env : NULL, from, &c, &out);
        if (!child_ended(&c)) {
                (void) kill(c.pid, SIGKILL);
                (void) waitpid(c.pid, &c.status, 0);
                c.pidfd = fd_close(c.pidfd);
        }
        return answer(&c, r, &out, ret);
}

/* --- tools ---------------------------------------------------------------------------------------------- */

/* Opens where to look. Return: 1: it is a file, to be searched by its path; 0; -errno with its sentence. */
static int open_root(struct search *s, struct error *err) {
        const char *path = arg_str(s->input, "path", "."), *below;
        struct stat st;

        below = work_path(s->env, path, err);
        if (!below)
                return -EXDEV;
        s->root = work_open(s->env, path, O_RDONLY, 0, err);
        if (s->root < 0)
                return s->root;
        if (fstat(s->root, &st) < 0)
                return error_set(err, -errno, "'%s': %s", ESC(path), strerror(errno));
        if (!S_ISDIR(st.st_mode) && !S_ISREG(st.st_mode))
                return error_set(err, -ENOTDIR, "'%s' is neither a directory nor a regular file", ESC(path));
        if (strcmp(below, ".") != 0)
                (void) snprintf(s->prefix, sizeof(s->prefix), "%s%s", below,
                                S_ISDIR(st.st_mode) && below[strlen(below) - 1] != '/' ? "/" : "");
        return S_ISREG(st.st_mode);
}

static void search_deinit(struct search *s) {
        s->root = fd_close(s->root);
        for (size_t i = 0; i < s->n_globs; i++)
                free(s->globs[i]);
}

static int run(struct search *s, const char *glob, const char *pattern, struct tool_result *ret) {
        struct error err = { 0 };
        int r;

        if (strlen(glob) > PATTERN_MAX || (pattern && strlen(pattern) > PATTERN_MAX))
                return tool_fail(ret, "the pattern is longer than %d bytes", PATTERN_MAX);
        if (*glob && (r = expand(s, glob, 0)) < 0)
                return r == -E2BIG ? tool_fail(ret, "the braces have more than %d alternatives", BRACES_MAX)
                                   : r;
        r = open_root(s, &err);
        if (r < 0)
                return tool_fail(ret, "%s", err.msg);
        return search(s, pattern, r == 1, ret);
}

int tool_glob(struct tool_env *env, const json_t *input, struct tool_result *ret) {
        CLEANUP(search_deinit)
        struct search s = {
                .env = env, .input = input, .root = -1, .limit = arg_int(input, "limit", RESULTS_MAX)
        };
        const char *pattern = arg_str(input, "pattern", ""), *below = work_path(env, pattern, NULL);

        if (!below)
                return tool_fail(ret, "'%s' is not below the work directory", ESC(pattern));
        return run(&s, *pattern == '/' ? below : pattern, NULL, ret);
}

int tool_grep(struct tool_env *env, const json_t *input, struct tool_result *ret) {
        const char *mode = arg_str(input, "output_mode", "content");
        CLEANUP(search_deinit)
        struct search s = { .env = env,
                            .input = input,
                            .root = -1,
                            .icase = arg_bool(input, "ignore_case", false),
                            .names_only = strcmp(mode, "files_with_matches") == 0,
                            .counts = strcmp(mode, "count") == 0,
                            .contents = strcmp(mode, "content") == 0,
                            .context = arg_int(input, "context", 0),
                            .limit = arg_int(input, "limit", RESULTS_MAX) };

        return run(&s, arg_str(input, "glob", ""), arg_str(input, "pattern", ""), ret);
}

/* All of the workspace, for a text as it is. */
int tool_workspace_grep(struct tool_env *env, const json_t *input, struct tool_result *ret) {
        CLEANUP(search_deinit)
        struct search s = { .env = env,
                            .input = input,
                            .root = -1,
                            .contents = true,
                            .fixed = arg_str(input, "query", ""),
                            .icase = arg_bool(input, "ignore_case", false),
                            .limit = arg_int(input, "limit", RESULTS_MAX) };

        return run(&s, arg_str(input, "glob", ""), NULL, ret);
}
