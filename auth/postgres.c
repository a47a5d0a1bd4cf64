#include "auth/postgres.h"

#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdbool.h>
#include <string.h>

#include "runtime/base/clock.h"

enum { VALUES_MAX = 8 };

struct postgres {
        const char *url;
        int stop_fd;
        PGconn *conn;
        uint64_t again_ns; /* no attempt to connect before */
        char trouble[POSTGRES_TROUBLE_MAX];
};

struct postgres *postgres_new(const char *url, int stop_fd) {
        struct postgres *pg = calloc(1, sizeof(*pg));

        if (!pg)
                return NULL;
        pg->url = url;
        pg->stop_fd = stop_fd;
        return pg;
}

static void disconnect(struct postgres *pg) {
        PQfinish(pg->conn);
        pg->conn = NULL;
}

struct postgres *postgres_free(struct postgres *pg) {
        if (pg)
                disconnect(pg);
        free(pg);
        return NULL;
}

const char *postgres_trouble(const struct postgres *pg) {
        return pg->trouble;
}

static void __attribute__((format(printf, 2, 3))) trouble(struct postgres *pg, const char *fmt, ...) {
        va_list ap;

        va_start(ap, fmt);
        (void) vsnprintf(pg->trouble, sizeof(pg->trouble), fmt, ap);
        va_end(ap);
}

/* libpq prints notices to stderr when nobody takes them */
static void drop_notice(void *arg, const char *message) {
        (void) arg;
        (void) message;
}

/* Return: whether the connection is ready for @events before @until_ns */
static bool ready(struct postgres *pg, short events, uint64_t until_ns) {
        struct pollfd fds[] = { { .fd = PQsocket(pg->conn), .events = events },
                                { .fd = pg->stop_fd, .events = POLLIN } };

        for (;;) {
                const uint64_t now = clock_ns();
                const int wait_ms = now >= until_ns ? 0 : (int) ((until_ns - now) / 1000000) + 1;
                const int n = poll(fds, ARRAY_SIZE(fds), wait_ms);

                if (n > 0)
                        return !fds[1].revents;
                if (n == 0 || errno != EINTR)
                        return false;
        }
}

static bool connect_until(struct postgres *pg, uint64_t until_ns) {
        const char *const names[] = { "dbname", "application_name", "client_encoding", NULL };
        const char *const values[] = { pg->url, "cofferdam-auth-proxy", "UTF8", NULL };
        PostgresPollingStatusType status = PGRES_POLLING_WRITING;

        pg->conn = PQconnectStartParams(names, values, 1);
        if (!pg->conn || PQstatus(pg->conn) == CONNECTION_BAD)
                return false;
        (void) PQsetNoticeProcessor(pg->conn, drop_notice, NULL);
        while (status != PGRES_POLLING_OK) {
                if (status == PGRES_POLLING_FAILED ||
                    !ready(pg, status == PGRES_POLLING_READING ? POLLIN : POLLOUT, until_ns))
                        return false;
                status = PQconnectPoll(pg->conn);
        }
        return PQsetnonblocking(pg->conn, 1) == 0;
}

static bool connected(struct postgres *pg) {
        const uint64_t now = clock_ns();

        if (pg->conn)
                return true;
        if (now < pg->again_ns)
                return false; /* pg->trouble is the last one's */
        if (connect_until(pg, now + POSTGRES_CONNECT_MS * 1000000ULL))
                return true;
        disconnect(pg);
        trouble(pg, "the database does not accept connections");
        pg->again_ns = clock_ns() + POSTGRES_AGAIN_MS * 1000000ULL;
        return false;
}

/* Return: owned, the last result; NULL when there is none in time */
static PGresult *collect(struct postgres *pg, uint64_t until_ns) {
        AUTO_PGRESULT PGresult *last = NULL;

        for (int left = 1; left != 0;) {
                left = PQflush(pg->conn);
                if (left < 0 || !ready(pg, left ? POLLIN | POLLOUT : POLLIN, until_ns) ||
                    !PQconsumeInput(pg->conn))
                        return NULL;
        }
        for (;;) {
                PGresult *next;

                while (PQisBusy(pg->conn))
                        if (!ready(pg, POLLIN, until_ns) || !PQconsumeInput(pg->conn))
                                return NULL;
                next = PQgetResult(pg->conn);
                if (!next)
                        return TAKE_PTR(last);
                if (PQresultStatus(last) != PGRES_FATAL_ERROR || !last) {
                        PQclear(last);
                        last = next;
                } else {
                        PQclear(next); /* the first error is the one to show */
                }
        }
}

/* what came back, judged; consumes @result. On failure the connection is closed: the next question gets a new
 * one. */
static PGresult *judged(struct postgres *pg, PGresult *result, bool *ret_dead) {
        const ExecStatusType status = PQresultStatus(result);
        const char *state;

        if (result && (status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK)) {
                pg->trouble[0] = 0;
                return result;
        }
        *ret_dead = PQstatus(pg->conn) == CONNECTION_BAD;
        state = result ? PQresultErrorField(result, PG_DIAG_SQLSTATE) : NULL;
        if (state && !*ret_dead)
                trouble(pg, "the database refused a statement: SQLSTATE %.5s", state);
        else if (*ret_dead)
                trouble(pg, "the database closed the connection");
        else
                trouble(pg, "the database took too long to answer");
        PQclear(result);
        disconnect(pg);
        return NULL;
}

static PGresult *ask_once(struct postgres *pg, const char *sql, const struct postgres_value *values, size_t n,
                          bool *ret_dead) {
        const uint64_t until = clock_ns() + POSTGRES_ANSWER_MS * 1000000ULL;
        const char *data[VALUES_MAX] = { NULL };
        int lengths[VALUES_MAX] = { 0 }, formats[VALUES_MAX] = { 0 };
        PGresult *result = NULL;

        for (size_t i = 0; i < n && i < VALUES_MAX; i++) {
                data[i] = values[i].data;
                lengths[i] = (int) values[i].len;
                formats[i] = values[i].len > 0;
        }
        if (PQsendQueryParams(pg->conn, sql, (int) n, NULL, data, lengths, formats, 1))
                result = collect(pg, until);
        return judged(pg, result, ret_dead);
}

PGresult *postgres_ask(struct postgres *pg, const char *sql, const struct postgres_value *values, size_t n) {
        for (;;) {
                const bool fresh = !pg->conn;
                bool dead = false;
                PGresult *result;

                if (!connected(pg))
                        return NULL;
                result = ask_once(pg, sql, values, n, &dead);
                if (result || !dead || fresh)
                        return result;
        }
}

PGresult *postgres_run(struct postgres *pg, const char *sql, uint64_t wait_ms) {
        PGresult *result = NULL;
        bool dead;

        if (!connected(pg))
                return NULL;
        if (PQsendQuery(pg->conn, sql))
                result = collect(pg, clock_ns() + wait_ms * 1000000);
        return judged(pg, result, &dead);
}
