/*
 * migrations.h - the statements that make the tables of a database, made from the folder auth/migrations
 */
#pragma once

/* migration N is entry N - 1; a database says in auth_proxy_schema which it has seen */
extern const char *const migrations[];
extern const unsigned int migrations_count;
