#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "auth/registry.h"

static uint64_t the_time = 1000;

static uint64_t the_clock(void) {
        return the_time;
}

static struct registry *with_registry(void) {
        const struct registry_conf conf = { .now = the_clock };
        struct registry *registry = NULL;

        the_time = 1000;
        assert_int_equal(registry_open(&conf, &registry, NULL), 0);
        return registry;
}

/* what a callback has seen */
struct seen {
        int times;
        enum registry_result result;
        uint64_t count;
        struct grant *grant;
};

static void on_answer(void *data, struct registry_answer *answer) {
        struct seen *seen = data;

        seen->times++;
        seen->result = answer->result;
        seen->count = answer->count;
        seen->grant = TAKE_PTR(answer->grant);
}

static void on_dead(void *data, enum registry_result why) {
        struct seen *seen = data;

        seen->times++;
        seen->result = why;
}

static bool readable(const struct registry *registry, int ms) {
        struct pollfd fd = { .fd = registry_fd(registry), .events = POLLIN };

        return poll(&fd, 1, ms) == 1;
}

static struct seen answered(struct registry *registry, struct seen *seen, const struct registry_call *call) {
        assert_non_null(call);
        assert_int_equal(seen->times, 0); /* never from within the call */
        assert_true(readable(registry, 1000));
        registry_dispatch(registry);
        assert_int_equal(seen->times, 1);
        return *seen;
}

static struct grant *a_grant(const char *run, uint64_t expires_at, char token[TOKEN_LEN + 1]) {
        struct grant *grant = calloc(1, sizeof(*grant));

        assert_non_null(grant);
        assert_int_equal(token_new(token, grant->id), 0);
        grant->run = strdup(run);
        grant->step = strdup("step");
        grant->source = strdup("10.1.2.3");
        grant->expires_at = expires_at;
        grant->credential = calloc(1, sizeof(*grant->credential));
        grant->credential->kind = CREDENTIAL_MODEL_API_KEY;
        grant->credential->inject = INJECT_COUNT;
        grant->credential->value = strdup("value");
        return grant;
}

static void put(struct registry *registry, const char *run, uint64_t expires_at, char id[TOKEN_ID_LEN + 1]) {
        char token[TOKEN_LEN + 1];
        struct seen seen = { 0 };
        struct grant *grant = a_grant(run, expires_at, token);

        assert_true(token_id(token, TOKEN_LEN, id));
        assert_string_equal(id, grant->id);
        assert_int_equal(answered(registry, &seen, registry_put(registry, grant, on_answer, &seen)).result,
                         REGISTRY_OK);
}

static enum registry_result get(struct registry *registry, const char *id) {
        struct seen seen = { 0 };

        (void) answered(registry, &seen, registry_get(registry, id, on_answer, &seen));
        assert_true((seen.result == REGISTRY_OK) == (seen.grant != NULL));
        (void) grant_free(seen.grant);
        return seen.result;
}

static uint64_t revoke_it(struct registry *registry, const char *id) {
        struct seen seen = { 0 };

        assert_int_equal(answered(registry, &seen, registry_revoke(registry, id, on_answer, &seen)).result,
                         REGISTRY_OK);
        return seen.count;
}

static void registry_gives_what_was_put(void **state) {
        AUTO_REGISTRY struct registry *registry = with_registry();
        char id[TOKEN_ID_LEN + 1];
        struct seen seen = { 0 };

        (void) state;
        assert_false(readable(registry, 0));
        put(registry, "run/1", 2000, id);
        (void) answered(registry, &seen, registry_get(registry, id, on_answer, &seen));
        assert_int_equal(seen.result, REGISTRY_OK);
        assert_string_equal(seen.grant->id, id);
        assert_string_equal(seen.grant->run, "run/1");
        assert_string_equal(seen.grant->step, "step");
        assert_string_equal(seen.grant->source, "10.1.2.3");
        assert_string_equal(seen.grant->credential->value, "value");
        assert_int_equal(seen.grant->expires_at, 2000);
        (void) grant_free(seen.grant);
        assert_false(readable(registry, 0));
}

static void registry_tells_unknown_revoked_and_expired_apart(void **state) {
        AUTO_REGISTRY struct registry *registry = with_registry();
        char id[TOKEN_ID_LEN + 1], other[TOKEN_ID_LEN + 1], late[TOKEN_ID_LEN + 1];

        (void) state;
        put(registry, "run", 1002, id);
        put(registry, "run", 1002, other);
        put(registry, "run", 1001, late);
        assert_int_equal(get(registry, "0000000000000000000000000000000000000000000000000000000000000000"),
                         REGISTRY_UNKNOWN);
        assert_int_equal(revoke_it(registry, id), 1);
        assert_int_equal(get(registry, id), REGISTRY_REVOKED);
        assert_int_equal(revoke_it(registry, id), 0);
        assert_int_equal(registry_count(registry), 2);
        the_time = 1001; /* the very second */
        assert_int_equal(get(registry, late), REGISTRY_EXPIRED);
        assert_int_equal(get(registry, other), REGISTRY_OK);
        the_time = 1002;
        assert_int_equal(revoke_it(registry, other), 0);
}

static void registry_revokes_a_run(void **state) {
        AUTO_REGISTRY struct registry *registry = with_registry();
        char a[TOKEN_ID_LEN + 1], b[TOKEN_ID_LEN + 1], c[TOKEN_ID_LEN + 1], old[TOKEN_ID_LEN + 1];
        struct seen seen = { 0 };

        (void) state;
        put(registry, "one", 2000, a);
        put(registry, "one", 2000, b);
        put(registry, "one", 1001, old);
        put(registry, "two", 2000, c);
        the_time = 1001;
        (void) answered(registry, &seen, registry_revoke_run(registry, "one", on_answer, &seen));
        assert_int_equal(seen.count, 2);
        assert_int_equal(get(registry, a), REGISTRY_REVOKED);
        assert_int_equal(get(registry, b), REGISTRY_REVOKED);
        assert_int_equal(get(registry, c), REGISTRY_OK);
        seen = (struct seen){ 0 };
        (void) answered(registry, &seen, registry_revoke_run(registry, "none", on_answer, &seen));
        assert_int_equal(seen.count, 0);
}

static void registry_purges_what_has_expired(void **state) {
        AUTO_REGISTRY struct registry *registry = with_registry();
        char a[TOKEN_ID_LEN + 1], b[TOKEN_ID_LEN + 1], c[TOKEN_ID_LEN + 1];
        struct seen seen = { 0 };

        (void) state;
        put(registry, "run", 1001, a);
        put(registry, "run", 1001, b);
        put(registry, "run", 1002, c);
        assert_int_equal(revoke_it(registry, b), 1);
        the_time = 1001;
        (void) answered(registry, &seen, registry_purge(registry, on_answer, &seen));
        assert_int_equal(seen.count, 1); /* the revoked one does not count */
        assert_int_equal(get(registry, a), REGISTRY_UNKNOWN);
        assert_int_equal(get(registry, b), REGISTRY_UNKNOWN);
        assert_int_equal(get(registry, c), REGISTRY_OK);
}

static void registry_forgets_a_call(void **state) {
        AUTO_REGISTRY struct registry *registry = with_registry();
        char id[TOKEN_ID_LEN + 1];
        struct seen seen = { 0 };

        (void) state;
        put(registry, "run", 2000, id);
        registry_forget(registry, registry_revoke(registry, id, on_answer, &seen));
        registry_dispatch(registry);
        assert_int_equal(seen.times, 0);
        assert_int_equal(get(registry, id), REGISTRY_REVOKED); /* what was asked for happened */
        registry_forget(registry, NULL);
}

/* red when submit() does not look after a revocation */
static void registry_watch_ends_with_its_token(void **state) {
        AUTO_REGISTRY struct registry *registry = with_registry();
        char a[TOKEN_ID_LEN + 1], b[TOKEN_ID_LEN + 1];
        struct seen one = { 0 }, two = { 0 }, three = { 0 }, late = { 0 }, ended = { 0 };
        struct registry_watch *watches[5];

        (void) state;
        put(registry, "run", 2000, a);
        put(registry, "run", 1500, b);
        watches[0] = registry_watch(registry, a, 2000, on_dead, &one);
        watches[1] = registry_watch(registry, a, 2000, on_dead, &two);
        watches[2] = registry_watch(registry, b, 1500, on_dead, &three);
        watches[3] = registry_unwatch(registry, registry_watch(registry, a, 2000, on_dead, &ended));
        assert_int_equal(revoke_it(registry, a), 1);
        registry_dispatch(registry);
        assert_int_equal(one.times, 1);
        assert_int_equal(one.result, REGISTRY_REVOKED);
        assert_int_equal(two.times, 1);
        assert_int_equal(three.times, 0);
        assert_int_equal(ended.times, 0);
        watches[4] = registry_watch(registry, a, 2000, on_dead, &late); /* it was dead before */
        assert_true(readable(registry, 1000));
        registry_dispatch(registry);
        assert_int_equal(late.times, 1);
        assert_int_equal(one.times, 1);
        the_time = 1500;
        for (int i = 0; i < 100 && three.times == 0; i++) {
                assert_true(readable(registry, 1000)); /* the clock of the registry */
                registry_dispatch(registry);
        }
        assert_int_equal(three.times, 1);
        assert_int_equal(three.result, REGISTRY_EXPIRED);
        for (size_t i = 0; i < 5; i++)
                watches[i] = registry_unwatch(registry, watches[i]);
        registry_dispatch(registry);
        if (readable(registry, 250)) /* one tick at most, which stops the clock */
                registry_dispatch(registry);
        assert_false(readable(registry, 250)); /* nothing ticks without watches */
}

static void registry_closes_with_work_left(void **state) {
        struct registry *registry = with_registry();
        char id[TOKEN_ID_LEN + 1];
        struct seen seen = { 0 };

        (void) state;
        put(registry, "run", 2000, id);
        assert_non_null(registry_get(registry, id, on_answer, &seen));
        assert_non_null(registry_watch(registry, id, 2000, on_dead, &seen));
        (void) registry_close(registry);
        assert_int_equal(seen.times, 0);
}

/* more calls than are allowed are answered, with no */
static void registry_bounds_its_calls(void **state) {
        AUTO_REGISTRY struct registry *registry = with_registry();
        static struct seen seen[REGISTRY_CALLS_MAX + 1];
        char id[TOKEN_ID_LEN + 1];

        (void) state;
        put(registry, "run", 2000, id);
        for (size_t i = 0; i <= REGISTRY_CALLS_MAX; i++)
                assert_non_null(registry_revoke(registry, id, on_answer, &seen[i]));
        registry_dispatch(registry);
        assert_int_equal(seen[0].count, 1);
        assert_int_equal(seen[REGISTRY_CALLS_MAX - 1].result, REGISTRY_OK);
        assert_int_equal(seen[REGISTRY_CALLS_MAX].result, REGISTRY_UNAVAILABLE);
}

static void registry_needs_a_key_for_a_database(void **state) {
        static const struct {
                struct registry_conf conf;
                int r;
                const char *says;
        } rows[] = {
                { { .database_url = "postgresql:///x?host=/nonexistent" },
                  -EINVAL,
                  "set IRONFLOW_SECRET_KEYS" },
                { { .database_url = "postgresql:///x?host=/nonexistent", .keys = "1:zz" },
                  -EINVAL,
                  "IRONFLOW_SECRET_KEYS: entry 1" },
                { { .database_url = "postgresql:///x?host=/nonexistent",
                    .keys = "1:000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f",
                    .active_key = "2" },
                  -EINVAL,
                  "IRONFLOW_SECRET_ACTIVE_KEY_VERSION: no key of that version" },
                { { .database_url = "postgresql://u:hidden-password@/x?host=/nonexistent",
                    .keys = "1:000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f" },
                  -ECONNREFUSED,
                  "IRONFLOW_AUTH_PROXY_DATABASE_URL: the database does not accept connections" },
        };

        (void) state;
        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
                struct registry *registry = NULL;
                struct error err = { 0 };

                assert_int_equal(registry_open(&rows[i].conf, &registry, &err), rows[i].r);
                assert_null(registry);
                if (!strstr(err.msg, rows[i].says))
                        fail_msg("%s", err.msg);
                assert_null(strstr(err.msg, "hidden"));
                assert_null(strstr(err.msg, "nonexistent"));
        }
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(registry_gives_what_was_put),
                cmocka_unit_test(registry_tells_unknown_revoked_and_expired_apart),
                cmocka_unit_test(registry_revokes_a_run),
                cmocka_unit_test(registry_purges_what_has_expired),
                cmocka_unit_test(registry_forgets_a_call),
                cmocka_unit_test(registry_watch_ends_with_its_token),
                cmocka_unit_test(registry_closes_with_work_left),
                cmocka_unit_test(registry_bounds_its_calls),
                cmocka_unit_test(registry_needs_a_key_for_a_database),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
