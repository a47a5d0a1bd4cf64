/*
 * keeper.h - the process that holds the credentials of a run
 *
 * It outlives every other process of the run by as long as it takes to revoke the run's tokens: it sees the
 * end of file of its socket, whoever died.
 */
#pragma once

#include <jansson.h>
#include <sys/types.h>

#include "runtime/base/ctx.h"
#include "runtime/base/error.h"
#include "runtime/spec/spec.h"

/* what is sent to it, each one byte */
enum keeper_word {
        KEEPER_LISTEN = 'L', /* with a socket that listens on DRIVER_RELAY_PORT inside */
        KEEPER_END = 'E',    /* revoke, and say when it is done */
};

/* File of the run's directory, there before the first token and until all are revoked: where the service
 * that issues them revokes them.
 * None: the service is the run's own and ends with it. */
#define KEEPER_SERVICE_FILE "token-service"

enum { KEEPER_END_MS = 5000 };

/** struct keeper_args - borrowed */
struct keeper_args {
        const struct ctx *ctx;
        const struct spec *spec;
        const char *run_id;
        int run_dir_fd;
        bool own_loopback; /* the sandbox has a loopback of its own, whose socket is sent; else the host's is
                              used */
        bool elsewhere;    /* the sandbox is on another machine and asks the service itself */
        int sock;          /* SOCK_SEQPACKET */
        int answer_fd;     /* a memory file: what it says of the start, as JSON */
};

/**
 * keeper_main() - the body of a forked process
 * Writes {"env": [..], "tokens": [{"name", "id"}], "names": [..]}, or {"failure_code", "text"}, to @answer_fd
 * and sends one byte; answers KEEPER_END with one byte for each token: '1' revoked, '0' not. Return: exit
 * status for _exit().
 */
int keeper_main(const struct keeper_args *args);

/**
 * keeper_check() - whether the keeper would find all credentials, the key, or the program of the auth proxy
 * Contacts nobody and starts nothing. @elsewhere: as in keeper_args. Return: 0, -EINVAL, -EPERM, -ENOENT...,
 * each with a message.
 */
int keeper_check(const struct ctx *ctx, const struct spec *spec, bool elsewhere, struct error *err)
        __attribute__((warn_unused_result));

/** keeper_confine() - its list of system calls, for good; once it has the tokens. Return: 0 or -errno. */
int keeper_confine(struct error *err) __attribute__((warn_unused_result));
