/*
 * postgres.h - one connection to PostgreSQL, made when needed and never waited for longer than said
 *
 * libpq is used through its functions that do not block, with a deadline for each step; only the look-up of
 * the server's name blocks. What the server says is never shown: it may hold names and values.
 */
#pragma once

#include <libpq-fe.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/base/cleanup.h"

struct postgres;

enum {
        POSTGRES_ANSWER_MS = 4000,
        POSTGRES_CONNECT_MS = 3000,
        POSTGRES_AGAIN_MS = 200,
        POSTGRES_TROUBLE_MAX = 128
};

/**
 * struct postgres_value - a parameter; @data NULL: the NULL of SQL
 * @len: of @data, which is binary; 0: @data is a string
 */
struct postgres_value {
        const void *data;
        size_t len;
};

/**
 * postgres_new() - a connection that is not made yet
 * @url:     borrowed for its whole life
 * @stop_fd: borrowed; when it is readable, waiting ends; -1: none
 * Return: owned, NULL when out of memory.
 */
struct postgres *postgres_new(const char *url, int stop_fd) __attribute__((warn_unused_result));

/** postgres_free() - closes it; NULL allowed. Return: NULL. */
struct postgres *postgres_free(struct postgres *postgres);
DEFINE_AUTO(struct postgres, postgres, postgres_free)
#define AUTO_POSTGRES CLEANUP(auto_postgres)

/**
 * postgres_ask() - one statement with parameters; results are binary
 * Connects when it is not connected (not more often than every POSTGRES_AGAIN_MS after a failure), and once
 * more when the connection turns out to be dead: a statement may be executed twice. Blocks,
 * POSTGRES_CONNECT_MS and POSTGRES_ANSWER_MS at most.
 *
 * Return: owned, PQclear(); NULL: see postgres_trouble().
 */
PGresult *postgres_ask(struct postgres *postgres, const char *sql, const struct postgres_value *values,
                       size_t n) __attribute__((warn_unused_result));

/**
 * postgres_run() - statements without parameters on the connection there is, or on a new one; never repeated
 * @wait_ms: how long at most
 * Return: owned result of the last one, NULL: see postgres_trouble(); the connection is closed then.
 */
PGresult *postgres_run(struct postgres *postgres, const char *sql, uint64_t wait_ms)
        __attribute__((warn_unused_result));

/** postgres_trouble() - why there was no answer, "" after one; borrowed until the next question. */
const char *postgres_trouble(const struct postgres *postgres);

static inline void auto_pgresult(PGresult **result) {
        PQclear(*result);
        *result = NULL;
}
#define AUTO_PGRESULT CLEANUP(auto_pgresult)
