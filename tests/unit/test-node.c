#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "fs/node.h"
#include "fs/slots.h"
#include "runtime/base/cleanup.h"

static struct facts facts_of(uint64_t dev, uint64_t ino, mode_t type) {
        return (struct facts){
                .st = { .st_dev = dev, .st_ino = ino, .st_mode = type | 0644, .st_nlink = 1 }
        };
}

/** struct fixture - a table with one region, optionally under rules */
struct fixture {
        struct rules *rules;
        struct table *table;
        struct node *root;
};

static void fixture_init(struct fixture *f, const struct rule_def *defs, size_t n) {
        const struct facts root = facts_of(1, 2, S_IFDIR);

        *f = (struct fixture){ 0 };
        if (n)
                assert_int_equal(rules_new(defs, n, false, &f->rules, NULL), 0);
        assert_int_equal(table_new(&f->rules, &root, 1, &f->table), 0);
        f->root = f->table->roots[0];
}

static void fixture_deinit(struct fixture *f) {
        f->table = table_free(f->table);
        f->rules = rules_free(f->rules);
}

/* looks @name up; Return: the node, kept alive by that lookup */
static struct node *enter(struct fixture *f, struct node *parent, const char *name, uint64_t ino,
                          mode_t type) {
        const struct facts facts = facts_of(1, ino, type);
        uint64_t shown = 0;
        const uint64_t id = node_enter(f->table, parent, name, &facts, NODE_LOWER, &shown);

        assert_true(id >= SLOTS_FIRST);
        return slots_get(&f->table->ids, id);
}

static void path_is(struct fixture *f, const struct node *node, const char *want) {
        AUTO_BUF struct buf path = { 0 };

        table_lock(f->table);
        assert_int_equal(node_path(f->table, node, &path), 0);
        table_unlock(f->table);
        assert_string_equal(buf_cstr(&path), want);
}

static enum guard_do action_of(struct fixture *f, struct node *node) {
        struct rules_verdict v;

        table_lock(f->table);
        v = node_verdict(f->table, node, NULL);
        table_unlock(f->table);
        return v.action;
}

static void slots_reject_what_was_not_given(void **state) {
        static const uint64_t bad[] = { 0, 1, 5, UINT64_MAX, UINT64_C(1) << 63, SLOTS_FIRST + 3 };
        struct slots s = { 0 };
        int objects[3] = { 0 };
        uint64_t ids[3];

        (void) state;
        for (size_t i = 0; i < 3; i++)
                ids[i] = slots_add(&s, &objects[i]);
        for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
                assert_null(slots_get(&s, bad[i]));
        slots_del(&s, ids[1]);
        assert_null(slots_get(&s, ids[1]));
        slots_del(&s, ids[0]);
        assert_ptr_equal(slots_get(&s, ids[2]), &objects[2]);
        assert_int_equal(slots_add(&s, &objects[0]), ids[0]); /* last given back, first used */
        assert_int_equal(slots_add(&s, &objects[1]), ids[1]);
        assert_ptr_equal(slots_get(&s, ids[1]), &objects[1]);
        slots_deinit(&s);
}

static void node_enter_shares_hard_links(void **state) {
        struct fixture f;
        struct node *a, *b;

        (void) state;
        fixture_init(&f, NULL, 0);
        a = enter(&f, f.root, "a", 10, S_IFREG);
        b = enter(&f, f.root, "b", 10, S_IFREG);
        assert_ptr_equal(a, b);
        assert_int_equal(a->nlookup, 2);
        path_is(&f, a, "b"); /* the name seen last */
        table_lock(f.table);
        node_unname(f.table, f.root, "b", false);
        table_unlock(f.table);
        path_is(&f, a, "a");
        fixture_deinit(&f);
}

static void node_enter_tells_reused_inodes_apart(void **state) {
        static const struct {
                mode_t type;
                int64_t btime_ns;
                bool same;
        } cases[] = {
                { S_IFREG, 5, true }, { S_IFREG, 0, true }, { S_IFREG, 6, false }, { S_IFDIR, 5, false }
        };

        (void) state;
        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
                struct facts first = facts_of(1, 10, S_IFREG), second = facts_of(1, 10, cases[i].type);
                struct fixture f;
                uint64_t a, b, ino;

                fixture_init(&f, NULL, 0);
                first.btime_ns = 5;
                second.btime_ns = cases[i].btime_ns;
                a = node_enter(f.table, f.root, "a", &first, NODE_LOWER, &ino);
                b = node_enter(f.table, f.root, "a", &second, NODE_LOWER, &ino);
                assert_int_equal(a == b, cases[i].same);
                fixture_deinit(&f);
        }
}

static void node_forget_frees_parents_last(void **state) {
        struct fixture f;
        struct node *dir, *file;
        uint64_t dir_id, file_id;

        (void) state;
        fixture_init(&f, NULL, 0);
        dir = enter(&f, f.root, "d", 10, S_IFDIR);
        file = enter(&f, dir, "f", 11, S_IFREG);
        dir_id = dir->id;
        file_id = file->id;
        node_forget(f.table, dir_id, 1);
        assert_ptr_equal(slots_get(&f.table->ids, dir_id), dir); /* the file's name needs it */
        path_is(&f, file, "d/f");
        node_forget(f.table, file_id, 100); /* more than there were: no underflow */
        assert_null(slots_get(&f.table->ids, file_id));
        assert_null(slots_get(&f.table->ids, dir_id));
        assert_int_equal(f.table->n_names, 0);
        assert_int_equal(f.table->n_nodes, 1);
        node_forget(f.table, file_id, 1); /* a number that is not in use */
        node_forget(f.table, f.root->id, 1000);
        path_is(&f, f.root, "");
        fixture_deinit(&f);
}

static void node_unname_gone_is_not_found_again(void **state) {
        struct fixture f;
        struct node *old, *young;

        (void) state;
        fixture_init(&f, NULL, 0);
        old = enter(&f, f.root, "a", 10, S_IFREG);
        table_lock(f.table);
        node_unname(f.table, f.root, "a", true);
        table_unlock(f.table);
        young = enter(&f, f.root, "b", 10, S_IFREG); /* the host gave the number away again */
        assert_ptr_not_equal(old, young);
        {
                AUTO_BUF struct buf path = { 0 };

                table_lock(f.table);
                assert_int_equal(node_path(f.table, old, &path), -ESTALE);
                table_unlock(f.table);
        }
        fixture_deinit(&f);
}

static void node_move_changes_rules_below(void **state) {
        static const struct rule_def defs[] = { { .path = "/held/**", .action = GUARD_HOLD } };
        struct fixture f;
        struct node *dir, *sub, *file;

        (void) state;
        fixture_init(&f, defs, 1);
        dir = enter(&f, f.root, "plain", 10, S_IFDIR);
        sub = enter(&f, dir, "sub", 11, S_IFDIR);
        file = enter(&f, sub, "f", 12, S_IFREG);
        assert_int_equal(action_of(&f, file), GUARD_ALLOW);
        table_lock(f.table);
        assert_int_equal(node_move(f.table, f.root, "plain", f.root, "held"), 0);
        table_unlock(f.table);
        assert_int_equal(action_of(&f, file), GUARD_HOLD);
        path_is(&f, file, "held/sub/f");
        fixture_deinit(&f);
}

static void node_verdict_is_the_strictest(void **state) {
        static const struct rule_def defs[] = { { .path = "/held", .action = GUARD_HOLD },
                                                { .path = "/kept", .action = GUARD_PROTECT } };
        static const struct {
                const char *names[3];
                enum guard_do want;
        } cases[] = {
                { { "a", "b" }, GUARD_ALLOW },         { { "a", "held" }, GUARD_HOLD },
                { { "held", "a" }, GUARD_HOLD },       { { "held", "kept", "a" }, GUARD_PROTECT },
                { { "kept", "held" }, GUARD_PROTECT },
        };

        (void) state;
        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
                struct fixture f;
                struct node *node = NULL;

                fixture_init(&f, defs, 2);
                for (size_t k = 0; k < 3 && cases[i].names[k]; k++)
                        node = enter(&f, f.root, cases[i].names[k], 10, S_IFREG);
                assert_int_equal(action_of(&f, node), cases[i].want);
                fixture_deinit(&f);
        }
}

static void node_verdict_fails_closed_without_a_path(void **state) {
        static const struct rule_def defs[] = { { .path = "/held", .action = GUARD_HOLD } };
        struct fixture f;
        struct node *dir, *file;

        (void) state;
        fixture_init(&f, defs, 1);
        dir = enter(&f, f.root, "d", 10, S_IFDIR);
        file = enter(&f, dir, "f", 11, S_IFREG);
        table_lock(f.table);
        node_unname(f.table, f.root, "d", false);
        f.table->epoch++;
        table_unlock(f.table);
        assert_int_equal(action_of(&f, file), GUARD_PROTECT);
        fixture_deinit(&f);
}

static void node_path_is_bounded(void **state) {
        struct fixture f;
        struct node *dir;
        int r = 0;

        (void) state;
        fixture_init(&f, NULL, 0);
        dir = f.root;
        for (uint64_t i = 0; r == 0; i++) {
                AUTO_BUF struct buf path = { 0 };

                dir = enter(&f, dir, "nn", 10 + i, S_IFDIR);
                table_lock(f.table);
                r = node_path(f.table, dir, &path); /* far beyond PATH_MAX */
                table_unlock(f.table);
                assert_true(r == 0 ? path.len == 3 * i + 2 : i == NODE_DEPTH_MAX);
        }
        assert_int_equal(r, -ELOOP);
        fixture_deinit(&f);
}

/* the host can move directories so that what is remembered of them is a ring */
static void node_path_survives_rings(void **state) {
        struct fixture f;
        struct node *a, *b;
        AUTO_BUF struct buf path = { 0 };

        (void) state;
        fixture_init(&f, NULL, 0);
        a = enter(&f, f.root, "a", 10, S_IFDIR);
        b = enter(&f, a, "b", 11, S_IFDIR);
        assert_ptr_equal(enter(&f, b, "a", 10, S_IFDIR), a); /* a was moved below b */
        table_lock(f.table);
        assert_true(node_path(f.table, a, &path) < 0);
        table_unlock(f.table);
        assert_ptr_equal(enter(&f, f.root, "b", 11, S_IFDIR), b); /* and is found where it is */
        path_is(&f, a, "b/a");
        fixture_deinit(&f);
}

static void node_fold_ino_never_collides(void **state) {
        static const struct {
                uint64_t dev, ino;
        } objects[] = {
                { 1, 2 },
                { 1, 3 },
                { 7, 2 },
                { 7, 3 },
                { 8, 2 },
                { 1, UINT64_C(1) << 48 },
                { 1, (UINT64_C(1) << 48) + 2 },
                { 7, UINT64_MAX },
                { 8, (UINT64_C(1) << 48) - 1 },
        };
        uint64_t shown[ARRAY_SIZE(objects)];
        struct fixture f;

        (void) state;
        fixture_init(&f, NULL, 0);
        for (size_t i = 0; i < ARRAY_SIZE(objects); i++) {
                shown[i] = node_fold_ino(f.table, objects[i].dev, objects[i].ino);
                for (size_t k = 0; k < i; k++)
                        assert_true(shown[k] != shown[i]);
        }
        assert_true(shown[1] == 3); /* the first device's numbers are the host's */
        assert_true(node_fold_ino(f.table, 7, 2) == shown[2]);
        fixture_deinit(&f);
}

static void table_grows(void **state) {
        struct fixture f;
        char name[16];

        (void) state;
        fixture_init(&f, NULL, 0);
        for (unsigned int i = 0; i < 3000; i++) {
                (void) snprintf(name, sizeof(name), "%u", i);
                (void) enter(&f, f.root, name, 100 + i, S_IFREG);
        }
        for (unsigned int i = 0; i < 3000; i++) {
                struct node *child;

                (void) snprintf(name, sizeof(name), "%u", i);
                table_lock(f.table);
                child = node_child(f.table, f.root, name);
                table_unlock(f.table);
                assert_non_null(child);
                assert_int_equal(child->host, 100 + i);
        }
        fixture_deinit(&f);
}

int main(void) {
        static const struct CMUnitTest tests[] = {
                cmocka_unit_test(slots_reject_what_was_not_given),
                cmocka_unit_test(node_enter_shares_hard_links),
                cmocka_unit_test(node_enter_tells_reused_inodes_apart),
                cmocka_unit_test(node_forget_frees_parents_last),
                cmocka_unit_test(node_unname_gone_is_not_found_again),
                cmocka_unit_test(node_move_changes_rules_below),
                cmocka_unit_test(node_verdict_is_the_strictest),
                cmocka_unit_test(node_verdict_fails_closed_without_a_path),
                cmocka_unit_test(node_path_is_bounded),
                cmocka_unit_test(node_path_survives_rings),
                cmocka_unit_test(node_fold_ino_never_collides),
                cmocka_unit_test(table_grows),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
