#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "auth/token.h"

static void token_new_is_random_and_has_its_id(void **state) {
        char a[TOKEN_LEN + 1], b[TOKEN_LEN + 1], id_a[TOKEN_ID_LEN + 1], id_b[TOKEN_ID_LEN + 1],
                again[TOKEN_ID_LEN + 1];

        (void) state;
        assert_int_equal(token_new(a, id_a), 0);
        assert_int_equal(token_new(b, id_b), 0);
        assert_int_equal(strlen(a), TOKEN_LEN);
        assert_memory_equal(a, "ifap_", 5);
        assert_int_equal(strspn(a + 5, "0123456789abcdef"), 64);
        assert_string_not_equal(a, b);
        assert_string_not_equal(id_a, id_b);
        assert_true(token_id_valid(id_a));
        assert_null(strstr(a, id_a));
        assert_true(token_id(a, TOKEN_LEN, again));
        assert_string_equal(id_a, again);
}

static void token_id_is_the_sha256_of_the_whole_token(void **state) {
        static const char token[] = "ifap_0000000000000000000000000000000000000000000000000000000000000000";
        char id[TOKEN_ID_LEN + 1];

        (void) state;
        assert_true(token_id(token, sizeof(token) - 1, id));
        /* printf ifap_000... | sha256sum */
        assert_string_equal(id, "e4c7bedc10a15783cfafa7175e298647df708e166057665715b0037c3b83292a");
}

static void token_id_refuses_what_is_no_token(void **state) {
        static const char *const bad[] = {
                "",
                "ifap_",
                "ifap_000000000000000000000000000000000000000000000000000000000000000",   /* one less */
                "ifap_00000000000000000000000000000000000000000000000000000000000000000", /* one more */
                "ifap_000000000000000000000000000000000000000000000000000000000000000G",
                "ifap_00000000000000000000000000000000000000000000000000000000000000AB", /* upper case */
                "IFAP_0000000000000000000000000000000000000000000000000000000000000000",
                "sk-ant00000000000000000000000000000000000000000000000000000000000000",
                " ifap_000000000000000000000000000000000000000000000000000000000000000",
        };
        char id[TOKEN_ID_LEN + 1] = "untouched";

        (void) state;
        for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
                assert_false(token_id(bad[i], strlen(bad[i]), id));
        assert_false(token_id("ifap_0000000000000000000000000000000\0"
                              "0000000000000000000000000000000",
                              TOKEN_LEN, id));
        assert_string_equal(id, "untouched");
}

static void token_id_valid_takes_64_lower_digits(void **state) {
        char id[TOKEN_ID_LEN + 2];

        (void) state;
        memset(id, 'a', sizeof(id));
        id[TOKEN_ID_LEN] = 0;
        assert_true(token_id_valid(id));
        id[0] = 'A';
        assert_false(token_id_valid(id));
        id[0] = '/';
        assert_false(token_id_valid(id));
        id[0] = 'a';
        id[TOKEN_ID_LEN] = 'a';
        id[TOKEN_ID_LEN + 1] = 0;
        assert_false(token_id_valid(id));
        id[TOKEN_ID_LEN - 1] = 0;
        assert_false(token_id_valid(id));
        assert_false(token_id_valid(""));
}

static void token_key_equal_compares_all_of_it(void **state) {
        (void) state;
        assert_true(token_key_equal("abc", 3, "abc", 3));
        assert_true(token_key_equal("", 0, "", 0));
        assert_false(token_key_equal("abc", 3, "abd", 3));
        assert_false(token_key_equal("abc", 3, "abcd", 4));
        assert_false(token_key_equal("abc", 3, "ab", 2));
        assert_false(token_key_equal("a\0b", 3, "a\0c", 3));
        assert_false(token_key_equal("", 0, "a", 1));
}

static void token_clear_overwrites(void **state) {
        char secret[] = "secret";

        (void) state;
        token_clear(secret, sizeof(secret));
        for (size_t i = 0; i < sizeof(secret); i++)
                assert_int_equal(secret[i], 0);
        token_clear(NULL, 5);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(token_new_is_random_and_has_its_id),
                cmocka_unit_test(token_id_is_the_sha256_of_the_whole_token),
                cmocka_unit_test(token_id_refuses_what_is_no_token),
                cmocka_unit_test(token_id_valid_takes_64_lower_digits),
                cmocka_unit_test(token_key_equal_compares_all_of_it),
                cmocka_unit_test(token_clear_overwrites),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
