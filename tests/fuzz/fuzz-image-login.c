/*
 * fuzz-image-login.c - a file of logins, what a program answers, and a token
 */
#include <string.h>

#include "image/authfile.h"
#include "image/registry.h"
#include "runtime/base/json.h"
#include "tests/fuzz/fuzz.h"

/* None of it ends a header. */
static void check(const char *s) {
        if (s && strpbrk(s, "\r\n"))
                __builtin_trap();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        const struct ref ref = { .registry = (char[]){ "localhost:5000" }, .repo = (char[]){ "a/b" } };
        const char *const text = (const char *) data;
        AUTO_LOGIN struct login login = { 0 }, answer = { 0 };
        AUTO_FREE char *token = NULL;
        AUTO_JSON json_t *doc = NULL;

        if (size > 65536)
                return 0;
        doc = json_loadb(text, size, 0, NULL);
        if (json_is_object(doc) && authfile_read(doc, &ref, &login, NULL) == 0) {
                check(login.user);
                check(login.password);
                check(login.identity_token);
                if (login.helper && strpbrk(login.helper, "/ \n"))
                        __builtin_trap();
        }
        if (helper_answer(text, size, &answer) == 0) {
                check(answer.user);
                check(answer.password);
        }
        if (token_answer(text, size, &token) == 0 && strpbrk(token, " \r\n"))
                __builtin_trap();
        return 0;
}
