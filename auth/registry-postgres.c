/*
 * DOC: theory of operation
 *
 * One table, one row a token (auth/migrations). The credential is sealed (seal.h) and bound to every other
 * field that decides about it: a row whose expiry, run, step or source was changed does not open. Whoever
 * reads the database, a copy of it or its log of writes has neither a token nor a credential.
 */
#include <assert.h>
#include <endian.h>
#include <errno.h>
#include <string.h>

#include "auth/migrations.h"
#include "auth/postgres.h"
#include "auth/registry-backend.h"
#include "auth/seal.h"
#include "runtime/base/buf.h"
#include "runtime/base/json.h"
#include "runtime/base/parse.h"

/* of pg_advisory_xact_lock(): "cofferda" */
#define LOCK_OF_MIGRATION 7165071084166079585LL

enum { THREADS = 4, MIGRATION_MS = 30000, NUMBER_MAX = 24 };

struct place {
        char *url;
        struct seal *seal;
};

struct session {
        const struct place *place;
        struct postgres *pg;
        const char *trouble; /* of the row, not of the database; NULL: none */
};

static void place_free(void *arg) {
        struct place *place = arg;

        if (!place)
                return;
        if (place->url)
                token_clear(place->url, strlen(place->url));
        free(place->url);
        (void) seal_free(place->seal);
        free(place);
}

static void auto_place(struct place **place) {
        place_free(*place);
}

static void session_free(void *arg) {
        struct session *s = arg;

        if (s)
                (void) postgres_free(s->pg);
        free(s);
}

static void *session(void *arg, int stop_fd) {
        struct session *s = calloc(1, sizeof(*s));

        if (!s)
                return NULL;
        s->place = arg;
        s->pg = postgres_new(s->place->url, stop_fd);
        if (s->pg)
                return s;
        free(s);
        return NULL;
}

static const char *trouble(const void *arg) {
        const struct session *s = arg;

        return s->trouble ? s->trouble : postgres_trouble(s->pg);
}

static PGresult *ask(struct session *s, const char *sql, const struct postgres_value *values, size_t n) {
        s->trouble = NULL;
        return postgres_ask(s->pg, sql, values, n);
}

static const char *number(uint64_t n, char text[NUMBER_MAX]) {
        (void) snprintf(text, NUMBER_MAX, "%llu", (unsigned long long) n);
        return text;
}

/* what a sealed credential is bound to; lengths keep two texts from running into each other */
static int bound_to(const struct grant *grant, struct buf *buf) {
        int r = buf_fmt(buf, "%s %llu %zu:%s %zu:%s %s", grant->id, (unsigned long long) grant->expires_at,
                        strlen(grant->run), grant->run, strlen(grant->step), grant->step,
                        grant->source ? grant->source : "");

        /* a row of an earlier version has none, and opens */
        return r == 0 && grant->group ? buf_fmt(buf, " %zu:%s", strlen(grant->group), grant->group) : r;
}

static int seal_grant(const struct seal *seal, const struct grant *grant, uint8_t **ret, size_t *ret_len) {
        AUTO_JSON json_t *json = credential_json(grant->credential);
        AUTO_BUF struct buf bound = { 0 };
        AUTO_FREE char *text = NULL;
        size_t len;
        int r;

        text = json ? json_dumps(json, JSON_COMPACT) : NULL;
        if (!text)
                return -ENOMEM;
        len = strlen(text);
        r = bound_to(grant, &bound);
        if (r == 0)
                r = seal_close(seal, buf_cstr(&bound), text, len, ret, ret_len);
        token_clear(text, len);
        return r;
}

static enum registry_result put(void *arg, const struct grant *grant) {
        struct session *s = arg;
        AUTO_PGRESULT PGresult *result = NULL;
        AUTO_FREE uint8_t *sealed = NULL;
        char expires[NUMBER_MAX];
        size_t len = 0;

        if (seal_grant(s->place->seal, grant, &sealed, &len) < 0) {
                s->trouble = "a credential cannot be sealed";
                return REGISTRY_UNAVAILABLE;
        }
        /* a conflict is a statement that was repeated: nobody else has this ID */
        result = ask(
                s,
                "INSERT INTO auth_proxy_token (id, run, step, source, expires_at, credential, token_group)"
                " VALUES ($1, $2, $3, $4, $5::bigint, $6::bytea, $7) ON CONFLICT (id) DO NOTHING",
                (const struct postgres_value[]){ { .data = grant->id },
                                                 { .data = grant->run },
                                                 { .data = grant->step },
                                                 { .data = grant->source },
                                                 { .data = number(grant->expires_at, expires) },
                                                 { .data = sealed, .len = len },
                                                 { .data = grant->group } },
                7);
        return result ? REGISTRY_OK : REGISTRY_UNAVAILABLE;
}

enum {
        COLUMN_RUN,
        COLUMN_STEP,
        COLUMN_SOURCE,
        COLUMN_EXPIRES,
        COLUMN_CREDENTIAL,
        COLUMN_GROUP,
        COLUMN_COUNT
};

static char *column_text(const PGresult *result, int column) {
        return strndup(PQgetvalue(result, 0, column), (size_t) PQgetlength(result, 0, column));
}

static struct grant *row_grant(const PGresult *result, const char *id) {
        AUTO_GRANT struct grant *grant = calloc(1, sizeof(*grant));
        uint64_t expires;

        if (!grant || PQnfields(result) != COLUMN_COUNT ||
            PQgetlength(result, 0, COLUMN_EXPIRES) != sizeof(expires))
                return NULL;
        memcpy(&expires, PQgetvalue(result, 0, COLUMN_EXPIRES), sizeof(expires));
        grant->expires_at = be64toh(expires);
        (void) snprintf(grant->id, sizeof(grant->id), "%s", id);
        grant->run = column_text(result, COLUMN_RUN);
        grant->step = column_text(result, COLUMN_STEP);
        if (!PQgetisnull(result, 0, COLUMN_SOURCE)) {
                grant->source = column_text(result, COLUMN_SOURCE);
                if (!grant->source)
                        return NULL;
        }
        if (!PQgetisnull(result, 0, COLUMN_GROUP)) {
                grant->group = column_text(result, COLUMN_GROUP);
                if (!grant->group)
                        return NULL;
        }
        return grant->run && grant->step ? TAKE_PTR(grant) : NULL;
}

static int open_credential(const struct seal *seal, const PGresult *result, struct grant *grant) {
        AUTO_JSON json_t *json = NULL;
        AUTO_BUF struct buf bound = { 0 };
        AUTO_FREE char *text = NULL;
        size_t len = 0;
        int r;

        r = bound_to(grant, &bound);
        if (r < 0)
                return r;
        r = seal_open(seal, buf_cstr(&bound), (const uint8_t *) PQgetvalue(result, 0, COLUMN_CREDENTIAL),
                      (size_t) PQgetlength(result, 0, COLUMN_CREDENTIAL), &text, &len);
        if (r < 0)
                return r;
        json = json_loadb(text, len, JSON_REJECT_DUPLICATES, NULL);
        token_clear(text, len);
        return credential_parse(json, &grant->credential, NULL);
}

static enum registry_result get(void *arg, const char *id, uint64_t now, struct grant **ret) {
        struct session *s = arg;
        AUTO_PGRESULT PGresult *result = NULL;
        AUTO_GRANT struct grant *grant = NULL;
        int r;

        result = ask(s,
                     "SELECT run, step, source, expires_at, credential, token_group FROM auth_proxy_token"
                     " WHERE id = $1",
                     (const struct postgres_value[]){ { .data = id } }, 1);
        if (!result)
                return REGISTRY_UNAVAILABLE;
        if (PQntuples(result) == 0)
                return REGISTRY_UNKNOWN;
        if (PQgetisnull(result, 0, COLUMN_CREDENTIAL))
                return REGISTRY_REVOKED;
        grant = row_grant(result, id);
        if (!grant)
                return REGISTRY_UNAVAILABLE;
        if (grant->expires_at <= now)
                return REGISTRY_EXPIRED;
        r = open_credential(s->place->seal, result, grant);
        if (r == 0) {
                *ret = TAKE_PTR(grant);
                return REGISTRY_OK;
        }
        s->trouble =
                r == -ENOKEY
                        ? "a token was sealed with a key that is not in IRONFLOW_SECRET_KEYS"
                        : "a row does not open: it was changed, or sealed with another key of that version";
        return REGISTRY_UNAVAILABLE;
}

static enum registry_result revoke_where(struct session *s, const char *sql, const char *what, uint64_t now,
                                         uint64_t *ret) {
        AUTO_PGRESULT PGresult *result = NULL;
        char text[NUMBER_MAX];

        result = ask(s, sql,
                     (const struct postgres_value[]){ { .data = what }, { .data = number(now, text) } }, 2);
        if (!result || parse_u64(PQcmdTuples(result), 0, UINT64_MAX, ret) < 0)
                return REGISTRY_UNAVAILABLE;
        return REGISTRY_OK;
}

static enum registry_result revoke_one(void *arg, const char *id, uint64_t now, uint64_t *ret) {
        return revoke_where(arg,
                            "UPDATE auth_proxy_token SET revoked_at = $2::bigint, credential = NULL"
                            " WHERE id = $1 AND revoked_at IS NULL AND expires_at > $2::bigint",
                            id, now, ret);
}

static enum registry_result revoke_run(void *arg, const char *run, uint64_t now, uint64_t *ret) {
        return revoke_where(
                arg,
                "UPDATE auth_proxy_token SET revoked_at = $2::bigint, credential = NULL"
                " WHERE (run = $1 OR token_group = $1) AND revoked_at IS NULL AND expires_at > $2::bigint",
                run, now, ret);
}

static enum registry_result purge(void *arg, uint64_t now, uint64_t *ret) {
        AUTO_PGRESULT PGresult *result = NULL;
        char text[NUMBER_MAX];
        uint64_t count;

        result = ask(arg,
                     "WITH gone AS (DELETE FROM auth_proxy_token WHERE expires_at <= $1::bigint RETURNING "
                     "revoked_at)"
                     " SELECT count(*) FILTER (WHERE revoked_at IS NULL) FROM gone",
                     (const struct postgres_value[]){ { .data = number(now, text) } }, 1);
        if (!result || PQntuples(result) != 1 || PQgetlength(result, 0, 0) != sizeof(count))
                return REGISTRY_UNAVAILABLE;
        memcpy(&count, PQgetvalue(result, 0, 0), sizeof(count));
        *ret = be64toh(count);
        return REGISTRY_OK;
}

static int by_id(const void *a, const void *b) {
        const struct registry_asked *x = a, *y = b;

        return memcmp(x->id, y->id, sizeof(x->id));
}

/* "{id,id,...}" */
static int array_of(const struct registry_asked *asked, size_t n, struct buf *buf) {
        int r = 0;

        for (size_t i = 0; i < n && r == 0; i++)
                r = buf_fmt(buf, "%c%s", i ? ',' : '{', asked[i].id);
        return r == 0 ? buf_str(buf, "}") : r;
}

static enum registry_result alive(void *arg, struct registry_asked *asked, size_t n) {
        AUTO_PGRESULT PGresult *result = NULL;
        AUTO_BUF struct buf ids = { 0 };

        if (array_of(asked, n, &ids) < 0)
                return REGISTRY_UNAVAILABLE;
        result =
                ask(arg, "SELECT id FROM auth_proxy_token WHERE id = ANY ($1::text[]) AND revoked_at IS NULL",
                    (const struct postgres_value[]){ { .data = buf_cstr(&ids) } }, 1);
        if (!result)
                return REGISTRY_UNAVAILABLE;
        qsort(asked, n, sizeof(*asked), by_id);
        for (size_t i = 0; i < n; i++)
                asked[i].why = REGISTRY_REVOKED;
        for (int i = 0; i < PQntuples(result); i++) {
                struct registry_asked key = { 0 }, *found;

                (void) snprintf(key.id, sizeof(key.id), "%.*s", PQgetlength(result, i, 0),
                                PQgetvalue(result, i, 0));
                found = bsearch(&key, asked, n, sizeof(*asked), by_id);
                if (found)
                        found->why = REGISTRY_OK;
        }
        return REGISTRY_OK;
}

static uint64_t count(const void *arg) {
        (void) arg;
        return 0;
}

const struct registry_ops registry_postgres_ops = {
        .threads = THREADS,
        .session = session,
        .session_free = session_free,
        .put = put,
        .get = get,
        .revoke = revoke_one,
        .revoke_run = revoke_run,
        .purge = purge,
        .alive = alive,
        .trouble = trouble,
        .count = count,
        .free = place_free,
};

static bool run(struct postgres *pg, const char *sql) {
        AUTO_PGRESULT PGresult *result = postgres_run(pg, sql, MIGRATION_MS);

        return result != NULL;
}

/* one number, 0 for none */
static bool number_of(struct postgres *pg, const char *sql, uint64_t *ret) {
        AUTO_PGRESULT PGresult *result = postgres_run(pg, sql, MIGRATION_MS);

        *ret = 0;
        return result && (PQntuples(result) == 0 || PQgetisnull(result, 0, 0) ||
                          parse_u64(PQgetvalue(result, 0, 0), 0, INT32_MAX, ret) == 0);
}

/* within a transaction that holds the lock: two that start at once do not both make the tables */
static bool bring_up(struct postgres *pg, uint64_t *ret_version) {
        uint64_t present;
        char sql[128];

        (void) snprintf(sql, sizeof(sql), "SELECT pg_advisory_xact_lock(%lld)", LOCK_OF_MIGRATION);
        if (!run(pg, "BEGIN") || !run(pg, sql) ||
            !number_of(pg, "SELECT count(*) WHERE to_regclass('auth_proxy_schema') IS NOT NULL", &present))
                return false;
        if (!present && !run(pg, "CREATE TABLE auth_proxy_schema (version integer PRIMARY KEY,"
                                 " applied_at timestamptz NOT NULL DEFAULT now())"))
                return false;
        if (!number_of(pg, "SELECT max(version) FROM auth_proxy_schema", ret_version))
                return false;
        for (uint64_t i = *ret_version; i < migrations_count; i++) {
                (void) snprintf(sql, sizeof(sql), "INSERT INTO auth_proxy_schema (version) VALUES (%llu)",
                                (unsigned long long) i + 1);
                if (!run(pg, migrations[i]) || !run(pg, sql))
                        return false;
        }
        return run(pg, "COMMIT");
}

static int migrate(const struct place *place, struct error *err) {
        AUTO_POSTGRES struct postgres *pg = postgres_new(place->url, -1);
        uint64_t version = 0;

        if (!pg)
                return error_set(err, -ENOMEM, "out of memory");
        if (!bring_up(pg, &version))
                return error_set(err, -ECONNREFUSED,
                                 "IRONFLOW_AUTH_PROXY_DATABASE_URL: %s; try the URL with psql, and see that "
                                 "its user may "
                                 "create tables",
                                 postgres_trouble(pg));
        if (version > migrations_count)
                return error_set(err, -EPROTO,
                                 "IRONFLOW_AUTH_PROXY_DATABASE_URL: the tables are of version %llu, this "
                                 "program knows "
                                 "up to %u; use the newer program",
                                 (unsigned long long) version, migrations_count);
        return 0;
}

int registry_postgres_new(const struct registry_conf *conf, void **ret, struct error *err) {
        __attribute__((cleanup(auto_place))) struct place *place = NULL;
        int r;

        if (!conf->keys)
                return error_set(
                        err, -EINVAL,
                        "IRONFLOW_AUTH_PROXY_DATABASE_URL is set but no encryption key is configured: set "
                        "IRONFLOW_SECRET_KEYS, for instance to 1:$(openssl rand -hex 32)");
        place = calloc(1, sizeof(*place));
        if (!place)
                return error_set(err, -ENOMEM, "out of memory");
        r = seal_open_keys(conf->keys, &place->seal, err);
        if (r < 0)
                return error_wrap(err, r, "IRONFLOW_SECRET_KEYS");
        r = conf->active_key ? seal_activate(place->seal, conf->active_key, err) : 0;
        if (r < 0)
                return error_wrap(err, r, "IRONFLOW_SECRET_ACTIVE_KEY_VERSION");
        place->url = strdup(conf->database_url);
        if (!place->url)
                return error_set(err, -ENOMEM, "out of memory");
        r = migrate(place, err);
        if (r < 0)
                return r;
        *ret = TAKE_PTR(place);
        return 0;
}
