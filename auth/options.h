/*
 * options.h - the command line and the environment of the service
 */
#pragma once

#include "auth/server.h"
#include "runtime/base/buf.h"
#include "runtime/base/error.h"

/** struct options - what the service was started with; owned strings */
struct options {
        char *listen, *admin_listen; /* @admin_listen NULL: the same place */
        char *tls_cert, *tls_key;    /* both or none */
        char *ca_file;
        char *database_url, *secret_keys, *active_key, *admin_key, *notify_socket;
        char *model_host, *model_prefix;
        uint16_t model_port;
        uint64_t idle_ms, drain_ms, max_clients, max_per_token;
        struct upstream_conf upstream;
        bool help;
};

/**
 * options_parse() - read both; what is secret is erased where it was found
 * @argv: of main(): a value of --database-url is overwritten
 * @env:  of main(): the values of secret variables are overwritten
 * @ret:  zeroed by the caller, freed with options_deinit() also after a failure
 * Return: 0, -EINVAL (a usage error; one line that names the option or variable, never a secret), -ENOMEM.
 */
int options_parse(int argc, char **argv, char **env, struct options *ret, struct error *err)
        __attribute__((warn_unused_result));
void options_deinit(struct options *options);

/** options_help() - the help text. Return: 0, -ENOMEM. */
int options_help(struct buf *out) __attribute__((warn_unused_result));
