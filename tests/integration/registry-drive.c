/*
 * registry-drive.c - one registry as a program: one line in, one line out; dead watches come as lines of
 * their own
 *
 * put RUN STEP SECONDS VALUE [SOURCE] | get TOKEN | revoke ID | revoke-run RUN | purge | watch ID | trouble
 * The database is IRONFLOW_AUTH_PROXY_DATABASE_URL, or memory; the keys are IRONFLOW_SECRET_KEYS,
 * of which IRONFLOW_SECRET_ACTIVE_KEY_VERSION seals.
 */
#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "auth/registry.h"
#include "runtime/base/clock.h"
#include "runtime/base/parse.h"

enum { WORDS_MAX = 6, LINE_MAX_BYTES = 4096 };

static const char *const results[REGISTRY_RESULT_COUNT] = {
        [REGISTRY_OK] = "ok",
        [REGISTRY_UNKNOWN] = "unknown",
        [REGISTRY_REVOKED] = "revoked",
        [REGISTRY_EXPIRED] = "expired",
        [REGISTRY_UNAVAILABLE] = "unavailable",
};

static void __attribute__((format(printf, 1, 2))) say(const char *fmt, ...) {
        va_list ap;

        va_start(ap, fmt);
        (void) vprintf(fmt, ap);
        va_end(ap);
        (void) putchar('\n');
        (void) fflush(stdout);
}

static char put_token[TOKEN_LEN + 1], put_id[TOKEN_ID_LEN + 1];

static void on_put(void *data, struct registry_answer *a) {
        (void) data;
        say("%s %s %s", results[a->result], put_token, put_id);
}

static void on_get(void *data, struct registry_answer *a) {
        const struct grant *g = a->grant;

        (void) data;
        if (g)
                say("ok %s %s %s %s", g->run, g->step, g->credential->value, g->source ? g->source : "-");
        else
                say("%s", results[a->result]);
}

static void on_count(void *data, struct registry_answer *a) {
        (void) data;
        say("%s %llu", results[a->result], (unsigned long long) a->count);
}

static void on_dead(void *data, enum registry_result why) {
        say("dead %s %s", (const char *) data, results[why]);
}

static struct grant *grant_of(char *const *words) {
        struct grant *g = calloc(1, sizeof(*g));
        uint64_t seconds = 0;

        if (!g || parse_u64(words[3], 0, 100000, &seconds) < 0 || token_new(put_token, put_id) < 0)
                return grant_free(g);
        memcpy(g->id, put_id, sizeof(g->id));
        g->run = strdup(words[1]);
        g->step = strdup(words[2]);
        g->source = words[5] ? strdup(words[5]) : NULL;
        g->expires_at = (uint64_t) time(NULL) + seconds;
        g->credential = calloc(1, sizeof(*g->credential));
        g->credential->kind = CREDENTIAL_MODEL_API_KEY;
        g->credential->inject = INJECT_COUNT;
        g->credential->value = strdup(words[4]);
        return g;
}

static const void *command(struct registry *registry, char **words) {
        char id[TOKEN_ID_LEN + 1];
        char trouble[REGISTRY_TROUBLE_MAX];

        if (strcmp(words[0], "put") == 0 && words[4])
                return registry_put(registry, grant_of(words), on_put, NULL);
        if (strcmp(words[0], "get") == 0 && words[1] && token_id(words[1], strlen(words[1]), id))
                return registry_get(registry, id, on_get, NULL);
        if (strcmp(words[0], "revoke") == 0 && words[1] && token_id_valid(words[1]))
                return registry_revoke(registry, words[1], on_count, NULL);
        if (strcmp(words[0], "revoke-run") == 0 && words[1])
                return registry_revoke_run(registry, words[1], on_count, NULL);
        if (strcmp(words[0], "purge") == 0)
                return registry_purge(registry, on_count, NULL);
        if (strcmp(words[0], "watch") == 0 && words[1] && token_id_valid(words[1])) {
                say("watching");
                return registry_watch(registry, words[1], (uint64_t) time(NULL) + 3600, on_dead,
                                      strdup(words[1]));
        }
        if (strcmp(words[0], "trouble") == 0) {
                registry_trouble(registry, trouble);
                say("%s", trouble);
                return registry;
        }
        return NULL;
}

static bool line(struct registry *registry) {
        char text[LINE_MAX_BYTES], *words[WORDS_MAX + 1] = { NULL }, *rest = text;
        size_t n = 0;

        if (!fgets(text, sizeof(text), stdin))
                return false;
        text[strcspn(text, "\n")] = 0;
        for (char *word; n < WORDS_MAX && (word = strsep(&rest, " "));)
                words[n++] = word;
        if (!command(registry, words))
                say("what?");
        return true;
}

int main(void) {
        const struct registry_conf conf = { .database_url = getenv("IRONFLOW_AUTH_PROXY_DATABASE_URL"),
                                            .keys = getenv("IRONFLOW_SECRET_KEYS"),
                                            .active_key = getenv("IRONFLOW_SECRET_ACTIVE_KEY_VERSION") };
        AUTO_REGISTRY struct registry *registry = NULL;
        struct error err = { 0 };

        (void) setvbuf(stdin, NULL, _IONBF, 0);
        if (registry_open(&conf, &registry, &err) < 0) {
                say("%s", err.msg);
                return 1;
        }
        say("ready");
        for (;;) {
                struct pollfd fds[] = { { .fd = STDIN_FILENO, .events = POLLIN },
                                        { .fd = registry_fd(registry), .events = POLLIN } };

                if (poll(fds, ARRAY_SIZE(fds), -1) < 0 && errno != EINTR)
                        return 1;
                if (fds[1].revents)
                        registry_dispatch(registry);
                if (fds[0].revents && !line(registry))
                        return 0;
        }
}
