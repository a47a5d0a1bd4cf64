/*
 * status.h - what a server says when it refuses: HTTP status and Status object, as one typed failure
 */
#pragma once

#include <jansson.h>
#include <stddef.h>

enum {
        KUBE_DEPTH_MAX = 128,    /* nesting of JSON from a server; CRDs reach 40 */
        KUBE_NESTS_MAX = 500000, /* arrays and objects in one answer; a page of 500 pods has half of them */
        KUBE_MESSAGE_MAX = 600,  /* bytes of a server's message that are kept */
};

/**
 * struct kube_failure - what the server said about a call that failed
 * @http:    status code; 0: there was no answer
 * @retry_s: what Status.details.retryAfterSeconds says; 0: nothing
 * @reason:  Status.reason ("NotFound", "Forbidden", "AlreadyExists", "Expired", ...); "" when there was none
 * @message: Status.message, one line, escaped; the beginning of the body when it is no Status
 */
struct kube_failure {
        int http;
        unsigned retry_s;
        char reason[64];
        char message[KUBE_MESSAGE_MAX];
};

/**
 * kube_failure_read() - from an answer
 * @http: its status code
 * @body: any bytes; NULL when @len is 0
 */
void kube_failure_read(int http, const char *body, size_t len, struct kube_failure *ret);

/** kube_failure_read_json() - the same from a Status that was parsed already; its code counts when @http is 0
 */
void kube_failure_read_json(int http, const json_t *status, struct kube_failure *ret);

/** kube_failure_errno() - the negative errno of client.h for it; 0 when @failure->http is 2xx */
int kube_failure_errno(const struct kube_failure *failure);

/**
 * kube_json_parse() - JSON from a server, bounded in depth and parts before it is parsed
 * @ret: new reference
 * Return: 0, -EBADMSG (not JSON, beyond KUBE_DEPTH_MAX or KUBE_NESTS_MAX, or a key twice), -ENOMEM.
 */
int kube_json_parse(const char *text, size_t len, json_t **ret) __attribute__((warn_unused_result));

/** kube_json_text() - the string at a path such as "metadata", "name"; NULL-terminated. Borrowed; NULL: not
 * there. */
const char *kube_json_text(const json_t *object, ...) __attribute__((sentinel));
