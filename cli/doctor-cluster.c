/* What the program that talks to clusters says of one: rows of the report (kubernetes/client/doctor.c). */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/doctor.h"
#include "runtime/base/buf.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/clock.h"
#include "runtime/base/escape.h"
#include "runtime/base/json.h"
#include "runtime/base/libexec.h"

enum { ANSWER_BYTES_MAX = 1 << 20, ANSWER_S = 60, PROVE_S = 240, WORDS_MAX = 8 };

static const struct {
        const char *key, *name;
} known[] = {
        { "kubernetes_api", "cluster API" },           { "kubernetes_rights", "cluster rights" },
        { "kubernetes_pod_security", "cluster pods" }, { "kubernetes_network_policy", "cluster network" },
        { "kubernetes_spread", "cluster spread" },
};

static_assert(ARRAY_SIZE(known) <= CLUSTER_ROWS_MAX, "CLUSTER_ROWS_MAX is too small");

static pid_t spawn(const struct ctx *ctx, char *const argv[], int *ret_fd) {
        int fds[2];
        pid_t pid;

        if (pipe2(fds, O_CLOEXEC) < 0)
                return -errno;
        pid = fork();
        if (pid == 0) {
                const int null = open("/dev/null", O_RDWR | O_CLOEXEC);

                (void) dup2(null, STDIN_FILENO);
                (void) dup2(fds[1], STDOUT_FILENO);
                _exit(libexec_exec(argv[0], argv, (char *const *) (const void *) ctx->environ) == -ENOENT
                              ? 127
                              : 126);
        }
        (void) close(fds[1]);
        *ret_fd = fds[0];
        return pid < 0 ? -errno : pid;
}

/* All that comes until @deadline. Return: 0, -ETIMEDOUT, -E2BIG, -errno. */
static int read_answer(int fd, uint64_t deadline, struct buf *out) {
        char part[4096];

        for (;;) {
                struct pollfd p = { .fd = fd, .events = POLLIN };
                const uint64_t now = clock_ns();
                ssize_t n;
                int r;

                if (now >= deadline)
                        return -ETIMEDOUT;
                if (poll(&p, 1, (int) ((deadline - now) / 1000000) + 1) <= 0)
                        continue;
                n = read(fd, part, sizeof(part));
                if (n == 0)
                        return 0;
                r = n > 0 ? buf_add(out, part, (size_t) n) : errno == EINTR ? 0 : -errno;
                if (r < 0)
                        return r;
        }
}

static void copy_text(char *to, size_t size, const json_t *row, const char *key) {
        const char *text = json_string_value(json_object_get(row, key));

        (void) escape_str(text ? text : "", to, size);
}

static void take_row(const json_t *from, struct report *report) {
        static const char *const states[] = { "ok", "degraded", "missing" };
        const char *key = json_string_value(json_object_get(from, "key"));
        const char *state = json_string_value(json_object_get(from, "state"));
        struct probe_row row = { .state = PROBE_MISSING };

        for (size_t i = 0; key && i < ARRAY_SIZE(known); i++)
                if (strcmp(known[i].key, key) == 0) {
                        row.key = known[i].key;
                        row.name = known[i].name;
                }
        for (size_t i = 0; state && i < ARRAY_SIZE(states); i++)
                if (strcmp(states[i], state) == 0)
                        row.state = (enum probe_state) i;
        if (!row.key || report->n_rows == ARRAY_SIZE(report->rows))
                return;
        copy_text(row.evidence, sizeof(row.evidence), from, "evidence");
        copy_text(row.effect, sizeof(row.effect), from, "effect");
        copy_text(row.remedy, sizeof(row.remedy), from, "remedy");
        report->rows[report->n_rows++] = row;
}

static void no_answer(struct report *report, const char *why, const char *remedy) {
        struct probe_row row = { .name = known[0].name, .key = known[0].key, .state = PROBE_DEGRADED };

        (void) snprintf(row.evidence, sizeof(row.evidence), "%s", why);
        (void) snprintf(row.effect, sizeof(row.effect), "not known what the cluster can do");
        (void) snprintf(row.remedy, sizeof(row.remedy), "%s", remedy);
        if (report->n_rows < ARRAY_SIZE(report->rows))
                report->rows[report->n_rows++] = row;
}

static void take_rows(const struct buf *answer, struct report *report) {
        AUTO_JSON json_t *rows = json_loadb(buf_cstr(answer), answer->len, JSON_REJECT_DUPLICATES, NULL);
        const json_t *row;
        size_t i;

        if (!json_is_array(rows)) {
                no_answer(report, "cofferdam-kubernetes failed; its message is on standard error", "");
                return;
        }
        json_array_foreach(rows, i, row) {
                take_row(row, report);
        }
}

void report_cluster(const struct ctx *ctx, const char *probe_image, struct report *report) {
        const struct probe_row *server = report_row(report, "kubernetes_server");
        char program[] = "cofferdam-kubernetes", verb[] = "doctor", prove[] = "--prove-network",
             spread[] = "--spread-key";
        AUTO_FREE char *image = probe_image ? strdup(probe_image) : NULL;
        char *argv[WORDS_MAX] = { program, verb };
        AUTO_BUF struct buf answer = { .max = ANSWER_BYTES_MAX };
        AUTO_FD int fd = -1;
        int n = 2, status = 0, r;
        pid_t pid;

        if (!server || server->state != PROBE_OK || (probe_image && !image))
                return;
        if (image) {
                argv[n++] = prove;
                argv[n++] = image;
        }
        if (report->spread_key[0]) {
                argv[n++] = spread;
                argv[n++] = report->spread_key;
        }
        pid = spawn(ctx, argv, &fd);
        if (pid < 0) {
                no_answer(report, strerror(-pid), "");
                return;
        }
        r = read_answer(fd, clock_ns() + (image ? PROVE_S : ANSWER_S) * UINT64_C(1000000000), &answer);
        if (r < 0)
                (void) kill(pid, SIGTERM); /* it removes its probe pods */
        while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
                ;
        if (r < 0)
                no_answer(report, "no answer in time", "look at the network, a proxy or VPN");
        else if (WIFEXITED(status) && WEXITSTATUS(status) == 127)
                no_answer(report, "cofferdam-kubernetes is not installed: nothing was asked of the server",
                          "install it, or build where libcurl, OpenSSL, libarchive and wslay have their "
                          "development files");
        else
                take_rows(&answer, report);
}
