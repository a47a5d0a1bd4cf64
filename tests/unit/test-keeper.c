/*
 * test-keeper.c - what brings a credential inside, what is a place of a service and what it may answer, and
 * what the keeper can still do
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "runtime/base/cleanup.h"
#include "runtime/base/json.h"
#include "runtime/run/exposed.h"
#include "runtime/run/keeper.h"
#include "runtime/run/service.h"

#define SECRET "value-of-the-test"

static const char *const environ_of_caller[] = { "GH=" SECRET, "OTHER=x" SECRET, "PLAIN=y",
                                                 "ANTHROPIC_API_KEY=sk-ant-1", NULL };
static const struct ctx ctx = { .environ = environ_of_caller };

static int check(const char *name, const char *value, const char *inject, enum model_auth model,
                 struct error *err) {
        CLEANUP(credentials_deinit) struct credentials credentials = { 0 };
        AUTO_FREE char *n = strdup(name), *v = value ? strdup(value) : NULL, *i = strdup(inject);
        struct spec_env env = { .name = n, .value = v };
        struct spec_secret secret = { .name = (char[]){ "GH" }, .from = (char[]){ "env:GH" }, .inject = i };
        const struct spec spec = { .env = &env,
                                   .n_env = 1,
                                   .secrets = &secret,
                                   .n_secrets = 1,
                                   .model_auth = model,
                                   .host_state = HOST_STATE_NONE };

        assert_true(credentials_wanted(&spec));
        assert_int_equal(credentials_read(&ctx, &spec, &credentials, err), 0);
        return exposed_check(&ctx, &spec, &credentials, err);
}

static void exposed_check_names_what_holds_it(void **state) {
        static const struct {
                const char *name, *value, *inject;
                enum model_auth model;
                int r;
        } rows[] = {
                { "PLAIN", NULL, "bearer", MODEL_AUTH_NONE, 0 },
                { "NOT_SET", NULL, "bearer", MODEL_AUTH_NONE, 0 },
                { "GHX", "z", "bearer", MODEL_AUTH_NONE, 0 },
                { "GH", "z", "bearer", MODEL_AUTH_NONE, -EPERM },
                { "GH_URL", "z", "bearer", MODEL_AUTH_NONE, -EPERM },
                { "OTHER", NULL, "bearer", MODEL_AUTH_NONE, -EPERM },
                { "ANY", "Bearer " SECRET, "bearer", MODEL_AUTH_NONE, -EPERM },
                { "ANTHROPIC_BASE_URL", "z", "bearer", MODEL_AUTH_NONE, 0 },
                { "ANTHROPIC_BASE_URL", "z", "bearer", MODEL_AUTH_PROXIED, -EPERM },
                { "ANTHROPIC_API_KEY", NULL, "bearer", MODEL_AUTH_PROXIED, -EPERM },
                { "CLAUDE_CODE_OAUTH_TOKEN", "z", "bearer", MODEL_AUTH_PROXIED, -EPERM },
                { "ANY", "sk-ant-another", "bearer", MODEL_AUTH_PROXIED, -EPERM },
                { "ANY", "sk-ant-another", "bearer", MODEL_AUTH_NONE, 0 },
                { "GIT_CONFIG_COUNT", "0", "bearer", MODEL_AUTH_NONE, 0 },
                { "GIT_CONFIG_COUNT", "0", "basic:u", MODEL_AUTH_NONE, -EINVAL },
        };

        (void) state;
        for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
                struct error err = { 0 };

                if (check(rows[i].name, rows[i].value, rows[i].inject, rows[i].model, &err) != rows[i].r)
                        fail_msg("%s=%s: %s", rows[i].name, rows[i].value ? rows[i].value : "", err.msg);
                assert_null(strstr(err.msg, SECRET));
                assert_true(rows[i].r == 0 || strstr(err.msg, rows[i].name));
        }
}

static void service_connect_stays_on_this_machine(void **state) {
        static const char *const bad[] = { "",
                                           "unix:",
                                           "http://",
                                           "http://127.0.0.1",
                                           "http://10.0.0.1:80",
                                           "http://example.org:80",
                                           "http://127.0.0.1:0",
                                           "http://127.0.0.1:65536",
                                           "http://[::2]:80",
                                           "https://127.0.0.1:80",
                                           "http://0.0.0.0:80",
                                           "http://128.0.0.1:80" };

        (void) state;
        for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
                if (service_connect(bad[i], 100) >= 0)
                        fail_msg("connected to '%s'", bad[i]);
        assert_int_equal(service_connect("unix:/nonexistent/x", 100), -ENOENT);
}

struct server {
        int fd;
        const char *answer;
        char asked[4096];
};

static void *serve(void *arg) {
        struct server *s = arg;
        AUTO_FD int fd = accept4(s->fd, NULL, NULL, SOCK_CLOEXEC);
        const ssize_t n = fd >= 0 ? recv(fd, s->asked, sizeof(s->asked) - 1, 0) : -1;

        s->asked[n > 0 ? n : 0] = '\0';
        if (fd >= 0)
                (void) send(fd, s->answer, strlen(s->answer), MSG_NOSIGNAL);
        return NULL;
}

/* what the answer makes of a request for a token */
static int issue(const char *answer, struct service_token *ret, struct error *err) {
        AUTO_JSON json_t *request = json_pack("{s:s}", "credential", SECRET);
        struct server server = { .answer = answer };
        struct sockaddr_un sa = { .sun_family = AF_UNIX };
        char dir[] = "/tmp/test-keeper.XXXXXX", place[64];
        const struct service service = { place, "the-key-of-the-test", 500 };
        pthread_t thread;
        int r;

        assert_non_null(mkdtemp(dir));
        (void) snprintf(sa.sun_path, sizeof(sa.sun_path), "%s/s", dir);
        (void) snprintf(place, sizeof(place), "unix:%s", sa.sun_path);
        server.fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        assert_int_equal(bind(server.fd, (const struct sockaddr *) &sa, sizeof(sa)), 0);
        assert_int_equal(listen(server.fd, 1), 0);
        assert_int_equal(pthread_create(&thread, NULL, serve, &server), 0);
        r = service_issue(&service, request, ret, err);
        (void) pthread_join(thread, NULL);
        (void) close(server.fd);
        (void) unlink(sa.sun_path);
        (void) rmdir(dir);
        assert_non_null(strstr(server.asked, "POST /admin/v1/tokens HTTP/1.1\r\n"));
        assert_non_null(strstr(server.asked, "Authorization: Bearer the-key-of-the-test\r\n"));
        return r;
}

static void service_issue_believes_what_it_can_check(void **state) {
        static const struct {
                const char *answer;
                int r;
                const char *says;
        } rows[] = {
                { "HTTP/1.1 201 Created\r\nContent-Length: 24\r\n\r\n{\"id\":\"ab\",\"token\":\"cd\"} ", 0,
                  "" },
                { "HTTP/1.1 201 Created\r\n\r\n{\"id\":\"ab\",\"token\":\"cd\"}", 0, "" },
                { "HTTP/1.1 200 OK\r\nContent-Length: 24\r\n\r\n{\"id\":\"ab\",\"token\":\"cd\"} ", -EPROTO,
                  "HTTP 200" },
                { "HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n", -EACCES,
                  "IRONFLOW_AUTH_PROXY_ADMIN_KEY" },
                { "HTTP/1.1 503 No\r\nContent-Length: 4\r\n\r\nbusy", -EPROTO, "HTTP 503: busy" },
                { "HTTP/1.1 201 Created\r\nContent-Length: 30\r\n\r\n{\"id\":\"ab\",\"token\":\"cd\"} ",
                  -EPROTO, "unreachable" },
                { "HTTP/1.1 201 Created\r\nContent-Length: 2\r\n\r\n{}", -EPROTO,
                  "no token that can be used" },
                { "HTTP/1.1 201 Created\r\n\r\n{\"id\":\"a/b\",\"token\":\"cd\"}", -EPROTO,
                  "no token that can be used" },
                { "HTTP/1.1 201 Created\r\n\r\n{\"id\":\"ab\",\"token\":\"c\\nd\"}", -EPROTO,
                  "no token that can be used" },
                { "HTTP/1.1 201 Created\r\n\r\n{\"id\":\"\",\"token\":\"cd\"}", -EPROTO,
                  "no token that can be used" },
                { "HTTP/1.1 201 Created\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n{}", -EPROTO,
                  "unreachable" },
                { "nonsense\r\n\r\n", -EPROTO, "unreachable" },
                { "", -EPROTO, "unreachable" },
        };

        (void) state;
        for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
                struct service_token token = { 0 };
                struct error err = { 0 };

                if (issue(rows[i].answer, &token, &err) != rows[i].r || !strstr(err.msg, rows[i].says))
                        fail_msg("row %zu: %s", i, err.msg);
                assert_null(strstr(err.msg, SECRET));
                assert_null(strstr(err.msg, "key-of-the-test"));
                if (rows[i].r == 0) {
                        assert_string_equal(token.token, "cd");
                        assert_string_equal(token.id, "ab");
                }
        }
}

/* red when keeper_confine() does nothing */
static void keeper_can_do_little(void **state) {
        int status = 0;
        pid_t pid;

        (void) state;
        pid = fork();
        assert_true(pid >= 0);
        if (pid == 0) {
                const int tcp = keeper_confine(NULL) == 0 ? socket(AF_INET, SOCK_STREAM, 0) : -1;

                if (tcp < 0)
                        _exit(1);
                if (open("/etc/passwd", O_RDONLY | O_CLOEXEC) >= 0 || errno != EPERM)
                        _exit(2);
                if (execl("/bin/true", "true", NULL) < 0 && errno != EPERM)
                        _exit(3);
                if (fork() >= 0 || errno != EPERM)
                        _exit(4);
                if (socket(AF_NETLINK, SOCK_RAW, 0) >= 0 || errno != EPERM)
                        _exit(5);
                if (mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED)
                        _exit(6);
                _exit(0);
        }
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), 0);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(exposed_check_names_what_holds_it),
                cmocka_unit_test(service_connect_stays_on_this_machine),
                cmocka_unit_test(service_issue_believes_what_it_can_check),
                cmocka_unit_test(keeper_can_do_little),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
