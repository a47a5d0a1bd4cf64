/*
 * transfer.h - one HTTP request on libcurl's multi handle: for the files of client/ only
 */
#pragma once

#include <curl/curl.h>
#include <stdbool.h>
#include <stdint.h>

#include "kubernetes/client/client.h"

/** struct transfer - a request that runs, or has ended; from transfer_start() to transfer_free() */
struct transfer {
        struct kube *kube;
        CURL *easy;
        struct curl_slist *headers, *connect_to;
        char *body, *url;
        bool (*sink)(void *arg, const char *data, size_t len); /* false: too much, end it */
        void *arg;
        bool added, done;
        CURLcode result;
        char why[CURL_ERROR_SIZE];
};

/** struct transfer_how - what a request is; borrowed until transfer_start() returns, but @sink's @arg */
struct transfer_how {
        const char *method, *path, *query, *content_type;
        const json_t *body;
        unsigned timeout_ms; /* 0: none */
        bool again;          /* with credentials asked for anew */
        bool (*sink)(void *arg, const char *data, size_t len);
        void *arg;
};

/** transfer_start() - Return: 0, -ENOMEM, -EKEYREJECTED and what kube_credential_get() says. */
int transfer_start(struct kube *kube, const struct transfer_how *how, struct transfer **ret,
                   struct error *err) __attribute__((warn_unused_result));

/** transfer_free() - Return: NULL. */
struct transfer *transfer_free(struct transfer *transfer);
DEFINE_AUTO(struct transfer, transfer, transfer_free)
#define AUTO_TRANSFER CLEANUP(auto_transfer)

/** transfer_set_request() - method, body, sink and timeout; after transfer_equip(). Return: 0, -ENOMEM. */
int transfer_set_request(struct transfer *transfer, const struct transfer_how *how)
        __attribute__((warn_unused_result));

/** transfer_http() - status code so far; 0: none yet */
int transfer_http(const struct transfer *transfer);

/** transfer_retry_s() - Retry-After of the answer in seconds, 0: none */
unsigned transfer_retry_s(const struct transfer *transfer);

/**
 * transfer_error() - why a transfer that is done had no answer
 * Return: 0 (it had one), or one of client.h, -ENETUNREACH ... -EFBIG.
 */
int transfer_error(const struct transfer *transfer, struct error *err);

/** transfer_equip() - URL, credentials, TLS and proxy for @easy: for handles that are not a transfer's too */
int transfer_equip(struct transfer *transfer, const char *path, const char *query, bool again,
                   struct error *err) __attribute__((warn_unused_result));

/** transfer_new() - without a request; for transfer_equip(). Return: 0, -ENOMEM. */
int transfer_new(struct kube *kube, struct transfer **ret, struct error *err)
        __attribute__((warn_unused_result));

/**
 * kube_turn() - let everything that runs go on, until something moves
 * @deadline_ns: wait no longer; 0: do not wait
 * Return: 0, -ECANCELED (the stop descriptor), -ENOMEM and the like of libcurl.
 */
int kube_turn(struct kube *kube, uint64_t deadline_ns, struct error *err) __attribute__((warn_unused_result));

/** kube_turn_with() - kube_turn(), and until one of @n descriptors more is ready; @more[i].revents is set */
int kube_turn_with(struct kube *kube, struct curl_waitfd *more, unsigned n, uint64_t deadline_ns,
                   struct error *err) __attribute__((warn_unused_result));

/** transfer_add() - let it run. Return: 0, -ENOMEM. */
int transfer_add(struct transfer *transfer) __attribute__((warn_unused_result));

/** kube_exec_known() - the version of the exec protocol that the server spoke last; 0: not known */
int kube_exec_known(const struct kube *kube);

/** kube_exec_learn() - remember it */
void kube_exec_learn(struct kube *kube, int version);

/** kube_pause() - kube_turn() for @ms. Return: 0, -ECANCELED. */
int kube_pause(struct kube *kube, unsigned ms, struct error *err) __attribute__((warn_unused_result));

/** kube_pause_ms() - before attempt @attempt (1: the second one), of which the server said to wait @retry_s
 */
unsigned kube_pause_ms(unsigned attempt, unsigned retry_s);

/** kube_refused() - keep what the server said as kube_failure(). Return: its errno, with the message in @err.
 */
int kube_refused(struct kube *kube, const struct kube_failure *failure, const char *method, const char *path,
                 struct error *err);

/** kube_stop_fd() - the stop descriptor, or -1 */
int kube_stop_fd(const struct kube *kube);

/** kube_config_mutable() - the configuration, for credentials */
struct kube_config *kube_config_mutable(struct kube *kube);
