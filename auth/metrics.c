#include "auth/metrics.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/cleanup.h"

enum { NAME_MAX_BYTES = 64 };

struct row {
        char secret[NAME_MAX_BYTES + 1];
        uint64_t n[RELAY_RESULT_COUNT];
};

struct metrics {
        struct row *rows;
        size_t n;
};

struct metrics *metrics_new(void) {
        return calloc(1, sizeof(struct metrics));
}

struct metrics *metrics_free(struct metrics *metrics) {
        if (metrics)
                free(metrics->rows);
        free(metrics);
        return NULL;
}

static struct row *find(struct metrics *m, const char *secret) {
        for (size_t i = 0; i < m->n; i++) {
                if (strcmp(m->rows[i].secret, secret) == 0)
                        return &m->rows[i];
        }
        return NULL;
}

static struct row *row_of(struct metrics *m, const char *secret) {
        struct row *rows, *row = find(m, secret);

        if (!row && m->n >= METRICS_SECRETS_MAX) {
                secret = "<other>";
                row = find(m, secret);
        }
        if (row)
                return row;
        rows = reallocarray(m->rows, m->n + 1, sizeof(*rows));
        if (!rows)
                return NULL;
        m->rows = rows;
        rows[m->n] = (struct row){ 0 };
        memcpy(rows[m->n].secret, secret, strnlen(secret, NAME_MAX_BYTES));
        return &rows[m->n++];
}

void metrics_count(struct metrics *metrics, const char *secret, enum relay_result result) {
        struct row *row = row_of(metrics, secret);

        if (row)
                row->n[result]++;
}

/* Several results may have the same name: their numbers are added up where the first one stands. */
static int write_row(const struct row *row, struct buf *out) {
        int r = 0;

        for (size_t i = 0; r == 0 && i < RELAY_RESULT_COUNT; i++) {
                const char *name = relay_answer_of((enum relay_result) i)->metric;
                uint64_t sum = 0;
                bool first = true;

                for (size_t k = 0; k < RELAY_RESULT_COUNT; k++) {
                        if (strcmp(relay_answer_of((enum relay_result) k)->metric, name) != 0)
                                continue;
                        first = first && k >= i;
                        sum += row->n[k];
                }
                if (first && sum > 0)
                        r = buf_fmt(out,
                                    "ironflow_auth_proxy_requests_total{secret=\"%s\",result=\"%s\"} %llu\n",
                                    row->secret, name, (unsigned long long) sum);
        }
        return r;
}

int metrics_text(const struct metrics *metrics, struct buf *out) {
        int r;

        r = buf_str(out, "# HELP ironflow_auth_proxy_requests_total Requests to the secret relay, by secret "
                         "and result.\n# TYPE ironflow_auth_proxy_requests_total counter\n");
        for (size_t i = 0; r == 0 && i < metrics->n; i++)
                r = write_row(&metrics->rows[i], out);
        return r;
}
