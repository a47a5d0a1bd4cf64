/* cofferdam explain: which rule decides about a path, and what it says; from the rules and the judge
 * themselves. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/review.h"
#include "cli/verbs.h"
#include "drivers/driver.h"
#include "fs/admit.h"
#include "fs/explain.h"
#include "fs/rules-json.h"
#include "netns/policy.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/escape.h"
#include "runtime/base/json.h"
#include "runtime/base/log.h"
#include "runtime/base/path.h"
#include "runtime/base/sys.h"
#include "runtime/spec/flags.h"
#include "runtime/spec/resolve.h"

enum { LINKS_MAX = 40, JSON_PATH_MAX = 1 << 18 };

static const char *const op_names[EXPLAIN_OP_COUNT] = {
        [EXPLAIN_READ] = "read",     [EXPLAIN_WRITE] = "write",         [EXPLAIN_CREATE] = "create",
        [EXPLAIN_MKDIR] = "mkdir",   [EXPLAIN_SYMLINK] = "symlink",     [EXPLAIN_UNLINK] = "unlink",
        [EXPLAIN_RENAME] = "rename", [EXPLAIN_RENAME_TO] = "rename-to", [EXPLAIN_LINK] = "link",
        [EXPLAIN_CHMOD] = "chmod",
};

/* The word for programs, and the one for people. */
static const struct {
        const char *name, *text;
} results[EXPLAIN_RESULT_COUNT] = {
        [EXPLAIN_YES] = { "yes", "yes" },
        [EXPLAIN_HOST] = { "host", "yes, the host has it at once" },
        [EXPLAIN_UPPER] = { "run", "yes, the run has it until it lands" },
        [EXPLAIN_HELD] = { "held", "held: the run has it until 'cofferdam apply'" },
        [EXPLAIN_JUDGED] = { "judged", "the content decides: the host has it at once, or it is held" },
        [EXPLAIN_REFUSED] = { "refused", "fails" },
};

static const char *const action_names[GUARD_DO_COUNT] = {
        [GUARD_ALLOW] = "allow", [GUARD_HOLD] = "hold", [GUARD_PROTECT] = "protect", [GUARD_HIDE] = "hide"
};

struct options {
        bool json;
        const char *host; /* NULL: the question is about a path */
};

/** struct question - what is asked, and of whom */
struct question {
        const struct options *o;
        const char *asked; /* the path, borrowed */
        int op;            /* -1: all */
        json_t *plan;      /* driver_ops.describe(), owned */
        struct review review;
};

static void question_deinit(struct question *q) {
        json_decref(q->plan);
        review_deinit(&q->review);
}

/** struct place - the region of a path, opened; path: where the path led */
struct place {
        const json_t *row; /* borrowed; NULL: no region serves it */
        const char *tmpfs; /* target of the tmpfs that serves it, borrowed */
        bool bypass;       /* it is in a directory that the guard does not serve */
        struct explain_region region;
        char *path;       /* absolute, inside; owned */
        const char *rest; /* of @path, in the region */
};

static void place_deinit(struct place *p) {
        p->region.rules = rules_free(p->region.rules);
        p->region.lower_fd = fd_close(p->region.lower_fd);
        p->region.upper_fd = fd_close(p->region.upper_fd);
        free(p->path);
        *p = (struct place){ .region = { .lower_fd = -1, .upper_fd = -1 } };
}

static const char *text_of(const json_t *row, const char *name) {
        return json_string_value(json_object_get(row, name));
}

/* ---- places ---- */

/* The source of a region when it is what the plan or run has recorded; -1: it cannot be looked at. */
static int open_source(const json_t *row, bool is_file) {
        const char *source = text_of(row, "source");
        AUTO_FD int fd = source ? open(source, O_PATH | O_CLOEXEC) : -1;
        struct stat st;

        if (fd < 0 || fstat(fd, &st) < 0 || S_ISDIR(st.st_mode) == is_file ||
            (uint64_t) json_integer_value(json_object_get(row, "ino")) != st.st_ino ||
            (uint64_t) json_integer_value(json_object_get(row, "dev")) != st.st_dev) {
                log_warn(
                        "'%s' is not what the run has recorded, or cannot be read: shown as if it were empty",
                        source ? ESC(source) : "?");
                return -1;
        }
        return TAKE_FD(fd);
}

static int open_upper(const struct question *q, const json_t *row) {
        char name[24];
        int fd;

        if (q->review.dir.upper_fd < 0)
                return -1;
        (void) snprintf(name, sizeof(name), "%" JSON_INTEGER_FORMAT,
                        json_integer_value(json_object_get(row, "index")));
        fd = open_beneath(q->review.dir.upper_fd, name, O_RDONLY | O_DIRECTORY, 0);
        return fd < 0 ? -1 : fd;
}

static int kind_of(const json_t *row, enum region_kind *ret) {
        const char *word = text_of(row, "kind");

        for (int i = 0; word && i < REGION_KIND_COUNT; i++) {
                *ret = (enum region_kind) i;
                if (strcmp(word, region_kind_name(*ret)) == 0)
                        return 0;
        }
        return -EINVAL;
}

/* Opens the region @row into @place. */
static int place_open(const struct question *q, const json_t *row, struct place *place, struct error *err) {
        struct explain_region *r = &place->region;
        const char *source = text_of(row, "source"), *target = text_of(row, "target");
        const char *engine = text_of(row, "engine");

        place->row = row;
        if (kind_of(row, &r->kind) < 0)
                return error_set(err, -EINVAL, "the state of the run is damaged, or of another version");
        r->is_file = json_is_true(json_object_get(row, "file"));
        r->kernel = engine && strcmp(engine, "overlay") == 0;
        r->lower_fd = open_source(row, r->is_file);
        r->upper_fd = open_upper(q, row);
        r->host_root = source && target && strcmp(source, target) == 0 ? source : NULL;
        return rules_from_json(json_object_get(row, "rules"), &r->rules, err);
}

/* Which of the targets in @list holds @path, innermost first. Return: its row, NULL: none. */
static const json_t *innermost(const json_t *list, const char *path, size_t *best_len) {
        const json_t *best = NULL;

        for (size_t i = 0; i < json_array_size(list); i++) {
                const json_t *row = json_array_get(list, i);
                const char *target = json_is_string(row) ? json_string_value(row) : text_of(row, "target");

                if (target && path_below(path, target) && (!best || strlen(target) > *best_len)) {
                        best = row;
                        *best_len = strlen(target);
                }
        }
        return best;
}

/* What serves @path. @place: owned by the caller, emptied first. */
static int place_find(const struct question *q, const char *path, struct place *place, struct error *err) {
        size_t region_len = 0, tmpfs_len = 0, bypass_len = 0;
        const json_t *row = innermost(json_object_get(q->plan, "regions"), path, &region_len);
        const json_t *tmpfs = innermost(json_object_get(q->plan, "tmpfs"), path, &tmpfs_len);
        const json_t *bypass = innermost(json_object_get(q->plan, "bypass"), path, &bypass_len);
        int r = 0;

        if (row && place->row != row) {
                place_deinit(place);
                r = place_open(q, row, place, err);
        }
        if (!row || (tmpfs && tmpfs_len > region_len)) {
                place_deinit(place);
                place->tmpfs = json_string_value(tmpfs);
        }
        if (bypass && bypass_len >= region_len && bypass_len >= tmpfs_len)
                place_deinit(place);
        else
                bypass = NULL;
        place->bypass = bypass != NULL;
        free(place->path);
        place->path = strdup(path);
        if (!place->path)
                return error_set(err, -ENOMEM, "out of memory");
        place->rest = place->row ? path_below(place->path, text_of(place->row, "target")) : NULL;
        return r;
}

/** struct walk - a path being followed */
struct walk {
        struct buf done; /* absolute, without symlinks; "" is the root */
        struct buf rest; /* what is still to be walked */
        unsigned int links;
};

static void walk_deinit(struct walk *w) {
        buf_deinit(&w->done);
        buf_deinit(&w->rest);
}

/* Puts the target of a symlink in front of the rest. */
static int walk_link(struct walk *w, const char *target, struct error *err) {
        AUTO_BUF struct buf rest = { 0 };

        if (++w->links > LINKS_MAX)
                return error_set(err, -ELOOP, "too many symbolic links");
        if (buf_fmt(&rest, "%s/%s", target, buf_cstr(&w->rest)) < 0)
                return error_set(err, -ENOMEM, "out of memory");
        if (*target == '/')
                w->done.len = 0;
        buf_deinit(&w->rest);
        w->rest = TAKE(rest, (struct buf){ 0 });
        return 0;
}

/* Cuts the first component off the rest. Return: it, owned; NULL: none is left. */
static char *walk_next(struct walk *w) {
        const char *text = buf_cstr(&w->rest);
        const size_t skip = strspn(text, "/"), n = strcspn(text + skip, "/");
        char *name = n ? strndup(text + skip, n) : NULL;

        if (name) {
                memmove(w->rest.data, text + skip + n, w->rest.len - skip - n + 1);
                w->rest.len -= skip + n;
        }
        return name;
}

static void walk_up(struct walk *w) {
        while (w->done.len > 0 && w->done.data[--w->done.len] != '/')
                ;
        if (w->done.data)
                w->done.data[w->done.len] = '\0';
}

/* Goes on by one component; the last one is not followed. */
static int walk_step(const struct question *q, struct walk *w, const char *name, struct place *place,
                     struct error *err) {
        const size_t before = w->done.len;
        CLEANUP(explanation_deinit) struct explanation e = { 0 };
        int r;

        if (strcmp(name, ".") == 0)
                return 0;
        if (strcmp(name, "..") == 0) {
                walk_up(w);
                return 0;
        }
        if (buf_fmt(&w->done, "/%s", name) < 0)
                return error_set(err, -ENOMEM, "out of memory");
        r = place_find(q, w->done.data, place, err);
        if (r < 0 || !place->row || strspn(buf_cstr(&w->rest), "/") == w->rest.len)
                return r;
        r = explain_look(&place->region, place->rest, &e);
        if (r < 0)
                return error_set(err, r, "look at '%s': %s", ESC(w->done.data), strerror(-r));
        if (!e.link)
                return 0;
        w->done.len = before;
        w->done.data[before] = '\0';
        return walk_link(w, e.link, err);
}

/* Where the path leads once the links on the way are followed. */
static int follow(const struct question *q, struct place *place, struct error *err) {
        const char *workspace = text_of(q->plan, "workspace");
        CLEANUP(walk_deinit) struct walk w = { .done.max = PATH_MAX, .rest.max = (size_t) 2 * PATH_MAX };
        int r;

        r = *q->asked == '/' ? buf_str(&w.rest, q->asked)
                             : buf_fmt(&w.rest, "%s/%s", workspace ? workspace : "/", q->asked);
        if (r < 0)
                return error_set(err, -ENAMETOOLONG, "'%s' is too long", ESC(q->asked));
        while (r == 0) {
                AUTO_FREE char *name = walk_next(&w);

                if (!name)
                        break;
                r = walk_step(q, &w, name, place, err);
        }
        return r < 0 ? r : place_find(q, w.done.len ? w.done.data : "/", place, err);
}

/* ---- answers ---- */

static const char *type_name(mode_t type) {
        static const struct {
                mode_t type;
                const char *name;
        } names[] = { { 0, "nothing" },       { S_IFREG, "file" }, { S_IFDIR, "directory" },
                      { S_IFLNK, "symlink" }, { S_IFIFO, "fifo" }, { S_IFSOCK, "socket" } };

        for (size_t i = 0; i < ARRAY_SIZE(names); i++)
                if (names[i].type == type)
                        return names[i].name;
        return "device";
}

static json_t *rule_json(const struct rules *rules, struct rules_verdict v) {
        AUTO_BUF struct buf from = { 0 };
        struct rule_def def = { 0 };
        const char *group;

        if (!rules || v.rule < 0 || !rules_def(rules, (size_t) v.rule, &def))
                return json_pack("{s:n,s:s,s:s}", "pattern", "do", action_names[v.action], "from",
                                 v.rule < -1 ? "a limit of the guard" : "no rule matches");
        group = def.builtin && !def.from ? rules_builtin_group(def.path) : NULL;
        if (buf_fmt(&from, "%s%s", def.from ? "" : "built-in: ",
                    def.from ? def.from
                    : group  ? group
                             : "?") < 0)
                return NULL;
        return json_pack("{s:o,s:s,s:o}", "pattern", json_from_bytes(def.path, JSON_PATH_MAX), "do",
                         action_names[v.action], "from", json_from_bytes(buf_cstr(&from), JSON_PATH_MAX));
}

static json_t *op_json(enum explain_result result, int error) {
        const char *name = error ? strerrorname_np(error) : NULL;

        return json_pack("{s:s,s:s*}", "result", results[result].name, "errno", name);
}

/* The operations that are asked for. @ret_refused: whether the last of them is refused. */
static json_t *ops_json(const struct question *q, const struct place *place, const struct explanation *e,
                        bool *ret_refused) {
        json_t *list = json_object();

        for (int i = 0; list && i < EXPLAIN_OP_COUNT; i++) {
                const enum explain_op op = (enum explain_op) i;
                enum explain_result result;
                int error;

                if (q->op >= 0 ? q->op != i : !explain_applies(e, op))
                        continue;
                result = explain_op(&place->region, place->rest, e, op, &error);
                *ret_refused = result == EXPLAIN_REFUSED;
                if (json_object_set_new(list, op_names[i], op_json(result, error)) < 0) {
                        json_decref(list);
                        return NULL;
                }
        }
        return list;
}

static json_t *judge_json(const struct explanation *e) {
        if (!e->judged)
                return NULL;
        return json_pack("{s:s,s:o*}", "verdict",
                         !e->type   ? "absent"
                         : e->lands ? "lands"
                                    : "held",
                         "reason",
                         e->type && !e->lands ? json_from_bytes(buf_cstr(&e->reason), JSON_PATH_MAX) : NULL);
}

/* What a region says. */
static json_t *answer_region(const struct question *q, const struct place *place, bool *ret_refused,
                             struct error *err) {
        CLEANUP(explanation_deinit) struct explanation e = { 0 };
        const json_t *row = place->row;
        struct rules_verdict v;
        int r;

        r = explain_look(&place->region, place->rest, &e);
        if (r < 0) {
                (void) error_set(err, r, "look at '%s': %s", ESC(place->path), strerror(-r));
                return NULL;
        }
        v = explain_verdict(&place->region, place->rest, e.type);
        return json_pack("{s:o,s:o,s:s,s:{s:O,s:O,s:O,s:O,s:O},s:s,s:s*,s:o*,s:o,s:o*,s:o}", "asked",
                         json_from_bytes(q->asked, JSON_PATH_MAX), "path",
                         json_from_bytes(place->path, JSON_PATH_MAX), "served_by", "region", "region",
                         "index", json_object_get(row, "index"), "target", json_object_get(row, "target"),
                         "source", json_object_get(row, "source"), "kind", json_object_get(row, "kind"),
                         "role", json_object_get(row, "role"), "type", type_name(e.type), "version",
                         !e.type  ? NULL
                         : e.held ? "run"
                                  : "host",
                         "link", e.link ? json_from_bytes(e.link, JSON_PATH_MAX) : NULL, "rule",
                         rule_json(place->region.rules, v), "judge", judge_json(&e), "ops",
                         ops_json(q, place, &e, ret_refused));
}

/* Where no region is: the sandbox's own memory, a bypass, or the root of the host, read-only. */
static json_t *answer_elsewhere(const struct question *q, const struct place *place, bool *ret_refused) {
        const bool mine = place->tmpfs != NULL, writable = mine || place->bypass;
        json_t *ops = json_object();

        for (int i = 0; ops && i < EXPLAIN_OP_COUNT; i++) {
                const bool reads = i == EXPLAIN_READ;

                if (q->op >= 0 && q->op != i)
                        continue;
                *ret_refused = !reads && !writable;
                (void) json_object_set_new(ops, op_names[i],
                                           op_json(reads      ? EXPLAIN_YES
                                                   : mine     ? EXPLAIN_UPPER
                                                   : writable ? EXPLAIN_HOST
                                                              : EXPLAIN_REFUSED,
                                                   reads || writable ? 0 : EROFS));
        }
        return json_pack("{s:o,s:o,s:s,s:o}", "asked", json_from_bytes(q->asked, JSON_PATH_MAX), "path",
                         json_from_bytes(place->path, JSON_PATH_MAX), "served_by",
                         mine            ? "tmpfs"
                         : place->bypass ? "bypass"
                                         : "root",
                         "ops", ops);
}

static void print_ops(const json_t *ops, bool tmpfs) {
        const char *op;
        const json_t *row;

        json_object_foreach((json_t *) (uintptr_t) ops, op, row) {
                const char *word = text_of(row, "result"), *error = text_of(row, "errno");
                const char *text = word;

                for (size_t i = 0; i < ARRAY_SIZE(results); i++)
                        if (strcmp(word, results[i].name) == 0)
                                text = results[i].text;
                if (tmpfs && strcmp(word, "run") == 0)
                        text = "yes, until the sandbox ends";
                printf("  %-10s %s%s%s\n", op, text, error ? " with " : "", error ? error : "");
        }
}

static void print_region(const json_t *answer) {
        const json_t *region = json_object_get(answer, "region"), *rule = json_object_get(answer, "rule"),
                     *judge = json_object_get(answer, "judge");
        const char *version = text_of(answer, "version"), *link = text_of(answer, "link"),
                   *reason = text_of(judge, "reason"), *pattern = text_of(rule, "pattern");

        printf("  %-10s %s region %s (%s) of the host's %s\n", "served by", text_of(region, "kind"),
               ESC(text_of(region, "target")), text_of(region, "role"), ESC(text_of(region, "source")));
        printf("  %-10s %s%s%s%s%s\n", "now", text_of(answer, "type"), link ? " to " : "",
               link ? ESC(link) : "", version ? ", the version of the " : "", version ? version : "");
        printf("  %-10s %s%s%s (%s)\n", "rule", text_of(rule, "do"), pattern ? " " : "",
               pattern ? pattern : "", text_of(rule, "from"));
        if (judge && !reason)
                printf("  %-10s %s\n", "judge",
                       strcmp(text_of(judge, "verdict"), "lands") == 0 ? "what is there may land"
                                                                       : "decides about what will be there");
        if (reason)
                printf("  %-10s what is there is held: %s\n", "judge", ESC(reason));
}

static void print_answer(const json_t *answer) {
        const char *served = text_of(answer, "served_by");
        const bool tmpfs = strcmp(served, "tmpfs") == 0;

        printf("%s\n", ESC(text_of(answer, "path")));
        if (strcmp(served, "region") == 0)
                print_region(answer);
        else
                printf("  %-10s %s\n", "served by",
                       tmpfs ? "memory of the sandbox, gone with it"
                       : strcmp(served, "bypass") == 0
                               ? "the host's own directory: a bypass, no rule holds in it"
                               : "the root of the host, read-only, as far as it is shown");
        print_ops(json_object_get(answer, "ops"), tmpfs);
}

static int explain(const struct question *q, struct error *err) {
        CLEANUP(place_deinit) struct place place = { .region = { .lower_fd = -1, .upper_fd = -1 } };
        AUTO_JSON json_t *answer = NULL;
        bool refused = false;
        int r;

        r = follow(q, &place, err);
        if (r < 0)
                return r;
        answer = place.row ? answer_region(q, &place, &refused, err) : answer_elsewhere(q, &place, &refused);
        if (!answer)
                return err->code ? err->code : error_set(err, -ENOMEM, "out of memory");
        if (q->o->json) {
                if (json_dumpf(answer, stdout, JSON_INDENT(2)) < 0)
                        return error_set(err, -ENOMEM, "out of memory");
                (void) putchar('\n');
        } else {
                print_answer(answer);
        }
        return q->op >= 0 && refused;
}

/* ---- hosts ---- */

static int host_policy(const struct question *q, struct policy **ret, struct error *err) {
        const json_t *const network = json_object_get(q->plan, "network"), *rules;
        const char *mode = text_of(network, "mode"), *preset = text_of(network, "preset");
        const bool deny = mode && strcmp(mode, "denylist") == 0;
        AUTO_FREE const char **texts = NULL;
        size_t n;

        rules = json_object_get(network, "rules");
        n = json_array_size(rules);
        texts = calloc(n + 1, sizeof(*texts));
        if (!texts)
                return error_set(err, -ENOMEM, "out of memory");
        for (size_t i = 0; i < n; i++) {
                texts[i] = json_string_value(json_array_get(rules, i));
                if (!texts[i])
                        return error_set(err, -EINVAL,
                                         "the state of the run is damaged, or of another version");
        }
        return policy_new(rules ? (deny ? NETWORK_DENYLIST : NETWORK_ALLOWLIST) : NETWORK_NONE,
                          preset && *preset ? preset : NULL, texts, n, ret, err);
}

static json_t *host_answer(const struct question *q, const struct policy *policy, const struct host *host,
                           uint16_t port, const struct policy_verdict *v) {
        const bool ok = v->reason == POLICY_OK;
        const char *const preset = policy_rule_preset(policy, v->rule);
        const char *const mode = text_of(json_object_get(q->plan, "network"), "mode");
        const bool none = mode && strcmp(mode, "none") == 0, open = mode && strcmp(mode, "open") == 0;
        char reason[128];

        (void) snprintf(reason, sizeof(reason), "%s%s%s",
                        none ? "the run has no network but its own loopback" : policy_reason_text(v),
                        v->reason == POLICY_ADDRESS ? ": " : "",
                        v->reason == POLICY_ADDRESS ? v->special : "");
        return json_pack("{s:s,s:i,s:s*,s:b,s:s,s:s*,s:s*,s:s*}", "host", host->name, "port", (int) port,
                         "mode", mode, "allowed", ok, "reason", reason, "rule",
                         v->rule == POLICY_NO_RULE ? NULL : policy_rule_text(policy, v->rule), "preset",
                         preset, "protocols",
                         !ok              ? NULL
                         : v->raw || open ? "any"
                                          : "TLS, HTTP");
}

static void print_host_answer(const json_t *answer, const struct host *host) {
        const char *rule = text_of(answer, "rule"), *preset = text_of(answer, "preset");
        const char *mode = text_of(answer, "mode");
        const bool ok = json_is_true(json_object_get(answer, "allowed"));
        const bool rules = mode && (strcmp(mode, "allowlist") == 0 || strcmp(mode, "denylist") == 0);

        printf("%s port %d\n", host->name, (int) json_integer_value(json_object_get(answer, "port")));
        printf("  network %s\n", mode ? ESC(mode) : "open");
        if (rule)
                printf("  rule    %s%s%s%s\n", ESC(rule), preset ? " (preset " : "", preset ? preset : "",
                       preset ? ")" : "");
        else if (rules)
                printf("  rule    no rule matches\n");
        printf("  connect %s\n", ok ? "yes" : ESC(text_of(answer, "reason")));
        if (ok && host_is_alias(host) && rule)
                printf("  it is 127.0.0.1, then ::1, of the host\n");
        else if (ok && rules && host->kind == HOST_NAME)
                printf("  the addresses it resolves to are decided again, before one of them is dialled\n");
}

/* Return: 0 allowed, 1 refused, -errno. */
static int explain_host(struct question *q, struct error *err) {
        AUTO_POLICY struct policy *policy = NULL;
        AUTO_JSON json_t *answer = NULL;
        struct policy_verdict v = { .rule = POLICY_NO_RULE };
        const char *mode = text_of(json_object_get(q->plan, "network"), "mode");
        struct host host;
        uint16_t port;
        int r;

        if (strchr(q->o->host, '/'))
                return error_set(err, -EINVAL, "--host '%s': want NAME[:PORT], not a URL or a path",
                                 ESC(q->o->host));
        r = host_parse_authority(q->o->host, strlen(q->o->host), 443, &host, &port, err);
        if (r < 0)
                return error_wrap(err, r, "--host '%s'", ESC(q->o->host));
        r = host_policy(q, &policy, err);
        if (r < 0)
                return r;
        if (mode && strcmp(mode, "open") != 0)
                v = policy_host(policy, &host, port);
        answer = host_answer(q, policy, &host, port, &v);
        if (!answer)
                return error_set(err, -ENOMEM, "out of memory");
        if (!q->o->json)
                print_host_answer(answer, &host);
        else if (json_dumpf(answer, stdout, JSON_INDENT(2)) == 0)
                (void) putchar('\n');
        return v.reason != POLICY_OK;
}

/* ---- the question ---- */

/* Whether a word names a file with a specification, not a run. */
static bool is_spec_file(const char *word) {
        static const char *const ends[] = { ".yaml", ".yml", ".json" };

        for (size_t i = 0; i < ARRAY_SIZE(ends); i++) {
                const size_t n = strlen(word), m = strlen(ends[i]);

                if (n > m && strcmp(word + n - m, ends[i]) == 0)
                        return true;
        }
        return strchr(word, '/') != NULL;
}

static int find_op(const char *word) {
        for (int i = 0; i < EXPLAIN_OP_COUNT; i++)
                if (strcmp(word, op_names[i]) == 0)
                        return i;
        return -1;
}

/* [RUN|SPEC] PATH [OP] */
static int read_words(struct question *q, int argc, char **argv, int next, const char **ret_whose,
                      struct error *err) {
        int n = argc - next;

        *ret_whose = NULL;
        for (int i = next; i < argc; i++)
                if (strncmp(argv[i], "--", 2) == 0 && strcmp(argv[next - 1], "--") != 0)
                        return error_set(err, -EINVAL,
                                         "explain: '%s' comes too late: options stand before RUN, and words "
                                         "that begin with '-' behind '--'",
                                         ESC(argv[i]));
        if (q->o->host) {
                if (n > 1)
                        return error_set(err, -EINVAL,
                                         "explain: --host takes no path: cofferdam explain --host "
                                         "NAME[:PORT] [RUN|SPEC]");
                *ret_whose = n == 1 ? argv[next] : NULL;
                return 0;
        }
        q->op = n > 1 ? find_op(argv[argc - 1]) : -1;
        if (n == 3 && q->op < 0)
                return error_set(
                        err, -EINVAL,
                        "explain: unknown operation '%s': read, write, create, mkdir, symlink, unlink, "
                        "rename, rename-to, link or chmod",
                        ESC(argv[argc - 1]));
        n -= q->op >= 0;
        if (n < 1 || n > 2)
                return error_set(
                        err, -EINVAL,
                        "explain: say which path, or --host NAME: cofferdam explain [RUN|SPEC] PATH [OP]");
        if (n == 2)
                *ret_whose = argv[next];
        q->asked = argv[next + n - 1];
        return *q->asked ? 0 : error_set(err, -EINVAL, "explain: the path is empty");
}

static int plan_of_run(const struct ctx *ctx, const char *run, struct question *q, struct error *err) {
        int r;

        r = review_open(ctx, run, REVIEW_CHANGED, &q->review, err);
        if (r < 0)
                return r;
        q->plan = json_incref(json_object_get(q->review.state, "plan"));
        return q->plan ? 0 : error_set(err, -EINVAL, "the state of run %s has no plan", q->review.dir.id);
}

static int plan_of_spec(const struct ctx *ctx, const struct flags *flags, struct question *q,
                        struct error *err) {
        AUTO_SPEC struct spec *spec = NULL;
        const struct driver_ops *driver;
        struct driver_plan *plan = NULL;
        int r;

        r = spec_resolve(ctx, flags, &spec, err);
        if (r < 0)
                return r;
        driver = driver_find(spec->driver ? spec->driver : "auto");
        if (!driver)
                return error_set(err, -ENOTSUP, "driver '%s' is not in this build; use --driver native",
                                 ESC(spec->driver ? spec->driver : "auto"));
        r = driver->plan(ctx, spec, &plan, err);
        if (r < 0)
                return r;
        q->plan = driver->describe(plan);
        (void) driver->plan_free(plan);
        return q->plan ? 0 : error_set(err, -ENOMEM, "out of memory");
}

static int set_host(void *arg, const char *value, struct error *err) {
        (void) err;
        ((struct options *) arg)->host = value;
        return 0;
}

static const struct flag_option explain_options[] = {
        { "host", 0, "NAME[:PORT]", set_host,
          "Ask the rules of the network about a host, in place of a path" },
        { "json", 0, NULL, NULL, "Print one JSON object", offsetof(struct options, json) },
};

static const struct flag_set explain_flags = {
        .usage = "cofferdam explain [OPTIONS] [RUN|SPEC] PATH [OP]",
        .summary = "Say which rule of the guard decides about PATH, and what becomes of OP, or with "
                   "--host whether a host may be connected to.",
        .options = explain_options,
        .n_options = ARRAY_SIZE(explain_options),
        .spec = true,
};

static int answer(const struct ctx *ctx, struct flags *flags, const char *whose, struct question *q) {
        struct error err = { 0 };
        int r;

        if (whose && is_spec_file(whose))
                flags->specs[flags->n_specs++] = whose;
        r = whose && !is_spec_file(whose) ? plan_of_run(ctx, whose, q, &err)
                                          : plan_of_spec(ctx, flags, q, &err);
        if (r == 0)
                r = q->o->host ? explain_host(q, &err) : explain(q, &err);
        if (r < 0)
                log_error("%s", err.msg);
        return r ? EXIT_FAILED : EXIT_OK;
}

static int help(void) {
        AUTO_BUF struct buf text = { 0 };

        if (flags_help(&explain_flags, &text) < 0)
                return EXIT_FAILED;
        (void) fputs(buf_cstr(&text), stdout);
        return EXIT_OK;
}

int verb_explain(const struct ctx *ctx, int argc, char **argv) {
        AUTO_FLAGS struct flags *flags = NULL;
        struct options o = { 0 };
        CLEANUP(question_deinit) struct question q = { .o = &o, .review = REVIEW_INIT };
        struct error err = { 0 };
        const char *whose = NULL;
        int r;

        r = flags_parse(&explain_flags, argc, argv, &o, &flags, &err);
        if (r == 0 && flags->help)
                return help();
        if (r == 0)
                r = read_words(&q, argc, argv, flags->next, &whose, &err);
        if (r < 0) {
                log_error("%s", err.msg);
                return EXIT_USAGE;
        }
        return answer(ctx, flags, whose, &q);
}
