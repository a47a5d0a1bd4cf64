#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "auth/seal.h"

#define KEY_A "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"
#define KEY_B "FFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFF"

static const char text[] = "{\"name\":\"T\",\"value\":\"a-secret-of-the-test\"}";

static struct seal *ring(const char *keys) {
        struct error err = { 0 };
        struct seal *seal = NULL;

        if (seal_open_keys(keys, &seal, &err) < 0)
                fail_msg("%s", err.msg);
        return seal;
}

static int opens(const char *keys, const char *bound, const uint8_t *sealed, size_t len) {
        AUTO_SEAL struct seal *seal = ring(keys);
        AUTO_FREE char *got = NULL;
        size_t got_len = 0;
        int r;

        r = seal_open(seal, bound, sealed, len, &got, &got_len);
        if (r == 0) {
                assert_int_equal(got_len, sizeof(text) - 1);
                assert_string_equal(got, text);
        } else
                assert_null(got);
        return r;
}

static void seal_opens_what_it_closed(void **state) {
        AUTO_SEAL struct seal *seal = ring("1:" KEY_A);
        AUTO_FREE uint8_t *a = NULL, *b = NULL;
        size_t a_len = 0, b_len = 0;

        (void) state;
        assert_int_equal(seal_close(seal, "id", text, sizeof(text) - 1, &a, &a_len), 0);
        assert_int_equal(seal_close(seal, "id", text, sizeof(text) - 1, &b, &b_len), 0);
        assert_int_equal(a_len, sizeof(text) - 1 + SEAL_OVERHEAD);
        assert_int_equal(opens("1:" KEY_A, "id", a, a_len), 0);
        assert_int_equal(opens("1:" KEY_A, "id", b, b_len), 0);
        assert_memory_not_equal(a + 4, b + 4, 12); /* never the same nonce */
        assert_memory_not_equal(a + 16, b + 16, 16);
        assert_null(memmem(a, a_len, "secret", 6));
        assert_null(memmem(a, a_len, "value", 5));
}

/* every bit counts; red when seal_open() does not ask for the tag */
static void seal_refuses_any_changed_byte(void **state) {
        AUTO_SEAL struct seal *seal = ring("1:" KEY_A);
        AUTO_FREE uint8_t *sealed = NULL;
        size_t len = 0;

        (void) state;
        assert_int_equal(seal_close(seal, "id", text, sizeof(text) - 1, &sealed, &len), 0);
        for (size_t i = 0; i < len; i++) {
                sealed[i] ^= 1;
                assert_int_equal(opens("1:" KEY_A, "id", sealed, len), i < 4 ? -ENOKEY : -EBADMSG);
                sealed[i] ^= 1;
        }
        for (size_t n = 0; n < len; n++)
                assert_int_equal(opens("1:" KEY_A, "id", sealed, n), -EBADMSG);
        assert_int_equal(opens("1:" KEY_A, "id", sealed, len), 0);
}

static void seal_opens_only_where_it_belongs(void **state) {
        AUTO_SEAL struct seal *seal = ring("1:" KEY_A);
        AUTO_FREE uint8_t *sealed = NULL;
        size_t len = 0;

        (void) state;
        assert_int_equal(seal_close(seal, "id of one", text, sizeof(text) - 1, &sealed, &len), 0);
        assert_int_equal(opens("1:" KEY_A, "id of another", sealed, len), -EBADMSG);
        assert_int_equal(opens("1:" KEY_A, "", sealed, len), -EBADMSG);
        assert_int_equal(opens("1:" KEY_B, "id of one", sealed, len), -EBADMSG);
        assert_int_equal(opens("2:" KEY_A, "id of one", sealed, len), -ENOKEY);
}

static void seal_keys_rotate(void **state) {
        AUTO_SEAL struct seal *old = ring("1:" KEY_A), *both = ring(" 2:" KEY_B " , 1:" KEY_A "\n");
        AUTO_FREE uint8_t *before = NULL, *after = NULL;
        size_t before_len = 0, after_len = 0;

        (void) state;
        assert_int_equal(seal_close(old, "id", text, sizeof(text) - 1, &before, &before_len), 0);
        assert_int_equal(seal_close(both, "id", text, sizeof(text) - 1, &after, &after_len), 0);
        assert_int_equal(opens("2:" KEY_B ",1:" KEY_A, "id", before, before_len), 0);
        assert_int_equal(opens("2:" KEY_B ",1:" KEY_A, "id", after, after_len), 0);
        assert_int_equal(opens("2:" KEY_B, "id", after, after_len), 0); /* the first one seals */
        assert_int_equal(opens("2:" KEY_B, "id", before, before_len), -ENOKEY);
        assert_int_equal(opens("1:" KEY_A, "id", after, after_len), -ENOKEY);
}

static void seal_keys_seal_by_their_version(void **state) {
        static const char *const bad[] = { "", " 1", "1 ", "3", "0", "-1", "1x", "2147483648", KEY_A };
        AUTO_SEAL struct seal *seal = ring("1:" KEY_A ",2:" KEY_B);
        AUTO_FREE uint8_t *sealed = NULL, *again = NULL;
        size_t len = 0;

        (void) state;
        assert_int_equal(seal_activate(seal, "2", NULL), 0);
        for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
                struct error err = { 0 };

                assert_int_equal(seal_activate(seal, bad[i], &err), -EINVAL);
                assert_true(*err.msg);
                assert_null(strstr(err.msg, "0203"));
        }
        assert_int_equal(seal_close(seal, "id", text, sizeof(text) - 1, &sealed, &len), 0);
        assert_int_equal(opens("2:" KEY_B, "id", sealed, len), 0);
        assert_int_equal(opens("1:" KEY_A, "id", sealed, len), -ENOKEY);
        assert_int_equal(seal_activate(seal, "1", NULL), 0);
        assert_int_equal(seal_close(seal, "id", text, sizeof(text) - 1, &again, &len), 0);
        assert_int_equal(opens("1:" KEY_A, "id", again, len), 0);
}

static void seal_keys_are_refused_without_being_shown(void **state) {
        static const struct {
                const char *keys, *says;
        } bad[] = {
                { "", "entry 1" },
                { KEY_A, "entry 1: want VERSION:KEY" },
                { "1:" KEY_A "0", "entry 1: the key is not" },
                { "1:000102", "entry 1: the key is not" },
                { "0:" KEY_A, "entry 1: the version" },
                { "2147483648:" KEY_A, "entry 1: the version" },
                { "99999999999999:" KEY_A, "entry 1" },
                { "x:" KEY_A, "entry 1: the version" },
                { "1:" KEY_A ",1:" KEY_B, "entry 2: the version is the one of entry 1" },
                { "1:" KEY_A ",", "entry 2" },
                { "1:" KEY_A " 2:" KEY_B, "entry 1: no comma" },
                { "1:g00102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f",
                  "entry 1: the key is not" },
                { "1:" KEY_A ",2:secretsecret", "entry 2: the key is not" },
        };

        (void) state;
        for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
                struct error err = { 0 };
                struct seal *seal = NULL;

                assert_int_equal(seal_open_keys(bad[i].keys, &seal, &err), -EINVAL);
                assert_null(seal);
                if (!strstr(err.msg, bad[i].says))
                        fail_msg("%zu: '%s' lacks '%s'", i, err.msg, bad[i].says);
                assert_null(strstr(err.msg, "0203"));
                assert_null(strstr(err.msg, "secret"));
        }
}

static void seal_keys_are_sixteen_at_most(void **state) {
        char keys[(SEAL_KEYS_MAX + 1) * 80] = "";
        struct error err = { 0 };
        struct seal *seal = NULL;

        (void) state;
        for (int i = 1; i <= SEAL_KEYS_MAX + 1; i++) {
                const size_t len = strlen(keys);

                (void) snprintf(keys + len, sizeof(keys) - len, "%s%d:%s", i > 1 ? "," : "", i, KEY_A);
                assert_int_equal(seal_open_keys(keys, &seal, &err), i <= SEAL_KEYS_MAX ? 0 : -EINVAL);
                seal = seal_free(seal);
        }
}

static void seal_takes_texts_up_to_its_size(void **state) {
        AUTO_SEAL struct seal *seal = ring("1:" KEY_A);
        AUTO_FREE char *big = calloc(1, SEAL_MAX), *got = NULL;
        AUTO_FREE uint8_t *sealed = NULL, *none = NULL;
        size_t len = 0, got_len = 0;

        (void) state;
        assert_int_equal(seal_close(seal, "", big, SEAL_MAX - SEAL_OVERHEAD + 1, &none, &len), -E2BIG);
        assert_null(none);
        assert_int_equal(seal_close(seal, "", big, SEAL_MAX - SEAL_OVERHEAD, &sealed, &len), 0);
        assert_int_equal(seal_open(seal, "", sealed, len, &got, &got_len), 0);
        assert_int_equal(got_len, SEAL_MAX - SEAL_OVERHEAD);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(seal_opens_what_it_closed),
                cmocka_unit_test(seal_refuses_any_changed_byte),
                cmocka_unit_test(seal_opens_only_where_it_belongs),
                cmocka_unit_test(seal_keys_rotate),
                cmocka_unit_test(seal_keys_seal_by_their_version),
                cmocka_unit_test(seal_keys_are_refused_without_being_shown),
                cmocka_unit_test(seal_keys_are_sixteen_at_most),
                cmocka_unit_test(seal_takes_texts_up_to_its_size),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
