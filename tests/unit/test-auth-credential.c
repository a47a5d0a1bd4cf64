#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "auth/credential.h"
#include "runtime/base/json.h"
#include "runtime/spec/secretrules.h"

#define VALUE "value-of-the-test"

static int parse(const char *text, struct credential **ret, struct error *err) {
        AUTO_JSON json_t *json =
                json_loads(text, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL | JSON_DECODE_ANY, NULL);

        if (!json)
                fail_msg("not JSON: %s", text);
        return credential_parse(json, ret, err);
}

static void credential_parse_reads_each_shape(void **state) {
        static const struct {
                const char *text;
                enum credential_kind kind;
                enum credential_inject inject;
                const char *arg;
        } rows[] = {
                { "{'kind':'oauth_token','value':'" VALUE "'}", CREDENTIAL_MODEL_OAUTH, INJECT_COUNT, NULL },
                { "{'kind':'api_key','value':'" VALUE "'}", CREDENTIAL_MODEL_API_KEY, INJECT_COUNT, NULL },
                { "{'name':'N','value':'" VALUE "','injection':'bearer','hosts':['A.Example.com']}",
                  CREDENTIAL_SECRET, INJECT_BEARER, NULL },
                { "{'name':'N','value':'" VALUE "','injection':'private_token','hosts':['a.example.com']}",
                  CREDENTIAL_SECRET, INJECT_PRIVATE_TOKEN, NULL },
                { "{'name':'N','value':'" VALUE "','injection':'x_api_key','hosts':['a.example.com']}",
                  CREDENTIAL_SECRET, INJECT_X_API_KEY, NULL },
                { "{'name':'N','value':'" VALUE
                  "','injection':{'header':'X-Name'},'hosts':['a.example.com']}",
                  CREDENTIAL_SECRET, INJECT_HEADER, "x-name" },
                { "{'name':'N','value':'" VALUE
                  "','injection':{'basic':{'username':'u'}},'hosts':['a.example.com']}",
                  CREDENTIAL_SECRET, INJECT_BASIC, "u" },
        };

        (void) state;
        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
                AUTO_CREDENTIAL struct credential *c = NULL, *again = NULL, *copy = NULL;
                AUTO_JSON json_t *json = NULL;
                AUTO_FREE char *text = strdup(rows[i].text);
                struct error err = { 0 };

                for (char *s = text; *s; s++)
                        if (*s == '\'')
                                *s = '"';
                assert_int_equal(parse(text, &c, &err), 0);
                assert_int_equal(c->kind, rows[i].kind);
                assert_int_equal(c->inject, rows[i].inject);
                assert_string_equal(c->value, VALUE);
                assert_true(rows[i].arg ? strcmp(c->arg, rows[i].arg) == 0 : !c->arg);
                if (c->kind == CREDENTIAL_SECRET) {
                        assert_int_equal(c->n_hosts, 1);
                        assert_string_equal(c->hosts[0], "a.example.com");
                }
                json = credential_json(c);
                assert_int_equal(credential_parse(json, &again, &err), 0);
                copy = credential_dup(c);
                assert_int_equal(again->inject, c->inject);
                assert_int_equal(copy->inject, c->inject);
                assert_int_equal(copy->n_hosts, c->n_hosts);
                assert_string_equal(copy->value, again->value);
        }
}

/* each is refused, and its message names no value */
static void credential_parse_refuses(void **state) {
        static const char *const rows[] = {
                "[]",
                "1",
                "{}",
                "{'kind':'other','value':'" VALUE "'}",
                "{'kind':'api_key'}",
                "{'kind':'api_key','value':''}",
                "{'kind':'api_key','value':5}",
                "{'kind':'api_key','value':'" VALUE "','name':'N'}",
                "{'kind':'api_key','value':'" VALUE "','injection':'bearer','hosts':['a.b']}",
                "{'kind':'api_key','value':'" VALUE " x'}",
                "{'kind':'api_key','value':'" VALUE "\\n'}",
                "{'kind':'api_key','value':'" VALUE "\\u0000'}",
                "{'kind':'api_key','value':'" VALUE "\\u00e9'}",
                "{'name':'','value':'" VALUE "','injection':'bearer','hosts':['a.b']}",
                "{'name':'a b','value':'" VALUE "','injection':'bearer','hosts':['a.b']}",
                "{'name':'N','value':'" VALUE "','injection':'bearer','hosts':[]}",
                "{'name':'N','value':'" VALUE "','injection':'bearer'}",
                "{'name':'N','value':'" VALUE "','injection':'bearer','hosts':'a.b'}",
                "{'name':'N','value':'" VALUE "','injection':'bearer','hosts':[5]}",
                "{'name':'N','value':'" VALUE "','injection':'bearer','hosts':['a.b\\u0000.c']}",
                "{'name':'N','value':'" VALUE "','injection':'other','hosts':['a.b']}",
                "{'name':'N','value':'" VALUE "','injection':{},'hosts':['a.b']}",
                "{'name':'N','value':'" VALUE
                "','injection':{'header':'a','basic':{'username':'u'}},'hosts':['a.b']}",
                "{'name':'N','value':'" VALUE "','injection':{'header':'X Y'},'hosts':['a.b']}",
                "{'name':'N','value':'" VALUE "','injection':{'header':'X:Y'},'hosts':['a.b']}",
                "{'name':'N','value':'" VALUE "','injection':{'header':''},'hosts':['a.b']}",
                "{'name':'N','value':'" VALUE "','injection':{'header':'Host'},'hosts':['a.b']}",
                "{'name':'N','value':'" VALUE "','injection':{'header':'transfer-encoding'},'hosts':['a.b']}",
                "{'name':'N','value':'" VALUE "','injection':{'basic':{'username':'u:v'}},'hosts':['a.b']}",
                "{'name':'N','value':'" VALUE "','injection':{'basic':{'username':''}},'hosts':['a.b']}",
                "{'name':'N','value':'" VALUE
                "','injection':{'basic':{'username':'u','x':1}},'hosts':['a.b']}",
                "{'name':'N','value':'" VALUE "','injection':{'basic':{}},'hosts':['a.b']}",
                "{'name':'N','value':'" VALUE "','injection':'bearer','hosts':['a.b'],'more':1}",
        };

        (void) state;
        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
                AUTO_FREE char *text = strdup(rows[i]);
                struct credential *c = NULL;
                struct error err = { 0 };

                for (char *s = text; *s; s++)
                        if (*s == '\'')
                                *s = '"';
                if (parse(text, &c, &err) != -EINVAL)
                        fail_msg("accepted: %s", text);
                assert_null(c);
                assert_null(strstr(err.msg, VALUE));
                assert_true(err.msg[0]);
        }
}

static void host_patterns(void **state) {
        static const char *const good[] = {
                "github.com",
                "*.example.com",
                "a-b.c",
                " x.y ",
                "1.a",
                "xn--bcher-kva.example",
                "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa.com"
        };
        static const char *const bad[] = {
                "",
                "*",
                "*.com",
                "a.b:443",
                "https://a.b",
                "a.b/x",
                "10.0.0.1",
                "a..b",
                "-a.com",
                "a-.com",
                "a*.b.com",
                "*.*.b.com",
                ".*github.com",
                "b\xc3\xbc.com",
                "user@host.com",
                "com",
                "*.",
                "a.b.",
                ".a.b",
                "a.1",
                "*.10.0.0.1",
                "a_b.c",
                "a b.c",
                "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa.com"
        };

        (void) state;
        for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
                AUTO_FREE char *host = NULL;

                assert_int_equal(secret_host_canonical(good[i], &host), 0);
        }
        for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
                AUTO_FREE char *host = NULL;

                if (secret_host_canonical(bad[i], &host) != -EINVAL)
                        fail_msg("accepted: %s", bad[i]);
                assert_null(host);
        }
}

static void credential_allows_its_hosts_only(void **state) {
        static const struct {
                const char *entry, *host;
                bool allowed;
        } rows[] = {
                { "github.com", "github.com", true },          { "github.com", "GitHub.COM", true },
                { "github.com", "api.github.com", false },     { "github.com", "github.com.evil.com", false },
                { "github.com", "evilgithub.com", false },     { "github.com", "github.com:443", false },
                { "github.com", "github.com.", false },        { "github.com", "", false },
                { "*.example.com", "a.example.com", true },    { "*.example.com", "A.b.Example.com", true },
                { "*.example.com", "example.com", false },     { "*.example.com", ".example.com", false },
                { "*.example.com", "evilexample.com", false }, { "*.example.com", "*.example.com", false },
                { "*.example.com", "a@b.example.com", false }, { "*.example.com", "127.0.0.1", false },
        };

        (void) state;
        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
                AUTO_FREE char *entry = strdup(rows[i].entry);
                const struct credential c = { .kind = CREDENTIAL_SECRET, .hosts = &entry, .n_hosts = 1 };

                if (credential_allows(&c, rows[i].host, strlen(rows[i].host)) != rows[i].allowed)
                        fail_msg("%s for %s", rows[i].host, rows[i].entry);
        }
}

static void names(void **state) {
        char name[SECRET_NAME_MAX + 2];

        (void) state;
        memset(name, 'x', sizeof(name));
        name[SECRET_NAME_MAX + 1] = 0;
        assert_false(secret_name_valid(name));
        name[SECRET_NAME_MAX] = 0;
        assert_true(secret_name_valid(name));
        assert_true(secret_env_valid("_A1"));
        assert_false(secret_env_valid("1A"));
        assert_false(secret_env_valid("A-B"));
        assert_false(secret_env_valid(""));
        assert_true(header_is_hop_by_hop("Keep-Alive", 10));
        assert_false(header_is_hop_by_hop("Keep-Alive2", 11));
        assert_false(header_is_hop_by_hop("t", 1));
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(credential_parse_reads_each_shape),
                cmocka_unit_test(credential_parse_refuses),
                cmocka_unit_test(host_patterns),
                cmocka_unit_test(credential_allows_its_hosts_only),
                cmocka_unit_test(names),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
