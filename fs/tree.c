#include "fs/tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "fs/judge.h"
#include "fs/names.h"
#include "fs/upper.h"
#include "fs/wide.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/sys.h"

static int open_list(int dir_fd, const char *name) {
        return dir_fd < 0 ? -ENOENT : open_beneath(dir_fd, name, O_RDONLY | O_DIRECTORY, 0);
}

static bool is_temp(const char *name) {
        return strncmp(name, LAYER_TEMP_PREFIX, sizeof(LAYER_TEMP_PREFIX) - 1) == 0;
}

/* whether the upper directory shows something of its own. Return: 1, 0, -errno. */
static int upper_shows(int upper_fd) {
        AUTO_NAMES struct names names = { 0 };
        int r = names_read(upper_fd, &names);

        for (size_t i = 0; r == 0 && i < names.n; i++) {
                enum layer_kind kind = LAYER_ABSENT;

                if (is_temp(names.v[i]))
                        continue;
                r = layer_lookup(upper_fd, names.v[i], &kind, NULL);
                if (r == 0 && kind != LAYER_WHITEOUT && kind != LAYER_ABSENT)
                        r = 1;
        }
        return r;
}

/* whether the lower directory has an entry that the upper does not delete */
static int lower_shows(int lower_fd, int upper_fd) {
        AUTO_NAMES struct names names = { 0 };
        int r = names_read(lower_fd, &names);

        for (size_t i = 0; r == 0 && i < names.n; i++) {
                enum layer_kind kind = LAYER_ABSENT;

                if (upper_fd >= 0)
                        r = layer_lookup(upper_fd, names.v[i], &kind, NULL);
                if (r == 0 && kind != LAYER_WHITEOUT)
                        r = 1;
        }
        return r;
}

int tree_is_empty(const struct spot *spot) {
        const bool merged = spot->kind == LAYER_ABSENT || spot->kind == LAYER_DIR;
        AUTO_WIDE struct wide wide = WIDE_INIT;
        AUTO_FD int upper = -1;
        AUTO_FD int lower = merged ? spot_open_lower(spot) : -1;
        int r = 0;

        if (spot->kind != LAYER_ABSENT) {
                r = wide_init(&wide, spot->upper, spot->name, S_IRUSR | S_IXUSR);
                if (r == 0)
                        r = upper = open_list(spot->upper, spot->name);
                if (r < 0)
                        return r;
                r = 0;
        }
        if (lower < 0 && lower != -1 && lower != -ENOENT && lower != -ENOTDIR && lower != -ELOOP)
                return TAKE(lower, -1);
        if (upper >= 0)
                r = upper_shows(upper);
        if (r == 0 && lower >= 0)
                r = lower_shows(lower, upper);
        return r < 0 ? r : !r;
}

int tree_purge_upper(const struct spot *spot) {
        AUTO_WIDE struct wide wide = WIDE_INIT;
        AUTO_NAMES struct names names = { 0 };
        AUTO_FD int fd = -1;
        int r = wide_init(&wide, spot->upper, spot->name, S_IRWXU);

        if (r < 0)
                return r == -ENOENT ? 0 : r;
        fd = open_list(spot->upper, spot->name);
        if (fd < 0)
                return fd == -ENOENT ? 0 : TAKE(fd, -1);
        r = names_read(fd, &names);
        for (size_t i = 0; r == 0 && i < names.n; i++)
                if (unlinkat(fd, names.v[i], 0) < 0)
                        r = errno == EISDIR || errno == EPERM ? -ENOTEMPTY : -errno;
        if (r == 0 && unlinkat(spot->upper, spot->name, AT_REMOVEDIR) < 0)
                r = -errno;
        upper_changed(spot->server, spot->parent->region);
        return r;
}

/** struct comparing - a walk for tree_same_rules() */
struct comparing {
        struct rules *rules;
        unsigned int left; /* entries that may still be looked at */
        bool moved;        /* what was judged by its content would be judged otherwise there */
};

static int compare(struct comparing *c, int dir_fd, rules_state from, rules_state to, unsigned int depth);

static int compare_entry(struct comparing *c, int dir_fd, const char *name, rules_state from, rules_state to,
                         unsigned int depth) {
        const size_t len = strlen(name);
        const rules_state a = rules_step(c->rules, from, name, len), b = rules_step(c->rules, to, name, len);
        enum guard_do action;
        struct facts facts;
        int r;

        if (a == b && !c->moved)
                return 1; /* and everything below */
        r = facts_at(dir_fd, name, &facts);
        if (r < 0)
                return r;
        action = rules_verdict(c->rules, a, facts.st.st_mode).action;
        if (rules_verdict(c->rules, b, facts.st.st_mode).action != action)
                return 0;
        /* held by another rule, or in another place: what landed under the old name may not under the new one
         */
        if (!S_ISDIR(facts.st.st_mode))
                return action != GUARD_HOLD;
        {
                AUTO_FD int fd = open_list(dir_fd, name);

                return fd < 0 ? TAKE(fd, -1) : compare(c, fd, a, b, depth + 1);
        }
}

static int compare(struct comparing *c, int dir_fd, rules_state from, rules_state to, unsigned int depth) {
        AUTO_NAMES struct names names = { 0 };
        int r = 1;

        if (depth >= TREE_WALK_DEPTH)
                return 0;
        r = names_read(dir_fd, &names);
        if (r < 0)
                return r;
        r = 1;
        for (size_t i = 0; r == 1 && i < names.n; i++) {
                if (c->left-- == 0)
                        return 0;
                r = compare_entry(c, dir_fd, names.v[i], from, to, depth);
        }
        return r;
}

bool tree_same_place(const struct spot *from, const struct spot *to) {
        AUTO_BUF struct buf a = { 0 }, b = { 0 }, x = { 0 }, y = { 0 };

        if (!from->region->rules)
                return true;
        if (spot_path(from, &a) < 0 || spot_path(to, &b) < 0 ||
            upper_judge_path(from->region, buf_cstr(&a), &x) < 0 ||
            upper_judge_path(to->region, buf_cstr(&b), &y) < 0)
                return false;
        return judge_same_place(buf_cstr(&x), buf_cstr(&y));
}

int tree_same_rules(const struct spot *from, const struct spot *to) {
        struct comparing c = { .rules = from->region->rules,
                               .left = TREE_WALK_MAX,
                               .moved = !tree_same_place(from, to) };
        int r = 1;

        if (!c.rules || (from->states.seen == to->states.seen && !c.moved))
                return 1;
        {
                AUTO_FD int fd = open_list(from->lower, from->name);

                if (fd >= 0)
                        r = compare(&c, fd, from->states.seen, to->states.seen, 0);
                else if (fd != -ENOENT)
                        return TAKE(fd, -1);
        }
        if (r == 1 && from->kind == LAYER_DIR) {
                AUTO_FD int fd = open_list(from->upper, from->name);

                if (fd >= 0)
                        r = compare(&c, fd, from->states.seen, to->states.seen, 0);
        }
        return r;
}

/** struct guarding - a walk for tree_may_move() */
struct guarding {
        struct rules *rules;
        unsigned int left;
};

static bool is_guarded(const struct guarding *g, rules_state state, mode_t type) {
        const enum guard_do action = rules_verdict(g->rules, state, type).action;

        return action == GUARD_PROTECT || action == GUARD_HIDE;
}

/* @lower: the directory is one of the lower: what is hidden there is not seen and stays so */
static int guard_level(struct guarding *g, int dir_fd, bool lower, rules_state from, rules_state to,
                       unsigned int depth) {
        AUTO_NAMES struct names names = { 0 };
        int r = depth >= TREE_WALK_DEPTH ? -EXDEV : names_read(dir_fd, &names);

        for (size_t i = 0; r == 0 && i < names.n; i++) {
                const size_t len = strlen(names.v[i]);
                const rules_state a = rules_step(g->rules, from, names.v[i], len),
                                  b = rules_step(g->rules, to, names.v[i], len);
                struct facts facts;

                if (a == b)
                        continue; /* and everything below */
                if (g->left-- == 0)
                        return -EXDEV;
                r = facts_at(dir_fd, names.v[i], &facts);
                if (r < 0)
                        return r;
                if (rules_verdict(g->rules, a, facts.st.st_mode).action == GUARD_PROTECT ||
                    (!is_guarded(g, a, facts.st.st_mode) && is_guarded(g, b, facts.st.st_mode)))
                        return -EROFS;
                if (S_ISDIR(facts.st.st_mode) &&
                    !(lower && rules_verdict(g->rules, a, facts.st.st_mode).action == GUARD_HIDE)) {
                        AUTO_FD int fd = open_list(dir_fd, names.v[i]);

                        r = fd < 0 ? TAKE(fd, -1) : guard_level(g, fd, lower, a, b, depth + 1);
                }
        }
        return r;
}

int tree_may_move(const struct spot *from, const struct spot *to) {
        struct guarding g = { .rules = from->region->rules, .left = TREE_WALK_MAX };
        int r = 0;

        if (!g.rules || (from->states.seen == to->states.seen && from->states.seen == from->states.lower))
                return 0;
        if (from->kind == LAYER_ABSENT || from->kind == LAYER_DIR) {
                AUTO_FD int fd = spot_open_lower(from);

                if (fd >= 0)
                        r = guard_level(&g, fd, true, from->states.lower, to->states.seen, 0);
                else if (fd != -ENOENT)
                        return TAKE(fd, -1);
        }
        if (r == 0 && from->kind != LAYER_ABSENT) {
                AUTO_FD int fd = open_list(from->upper, from->name);

                r = fd < 0 ? TAKE(fd, -1) : guard_level(&g, fd, false, from->states.seen, to->states.seen, 0);
        }
        return r;
}
