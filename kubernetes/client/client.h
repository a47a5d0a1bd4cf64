/*
 * client.h - the Kubernetes REST API: one request after the other, typed failures, everything bounded
 *
 * A client belongs to one thread and is not to be used on both sides of a fork. Its calls block, at most for
 * their timeouts; a descriptor can end them all (kube_set_stop()). Watches of the same client go on being
 * read while a call waits.
 *
 * Failures of every function that talks to the server:
 *
 *   -EACCES        401: the credentials are missing, wrong or expired (they are loaded again once before
 * this) -EPERM         403 -ENOENT        404 -EEXIST        409 AlreadyExists -EBUSY         409 of any
 * other reason: somebody changed it meanwhile, or a precondition (uid) does not hold -ESTALE        410, a
 * resourceVersion that is too old -EINVAL        400, 405, 413, 415, 422 and other 4xx: the request itself
 *   -EAGAIN        429, still after the attempts
 *   -EREMOTEIO     5xx, still after the attempts
 *   -ENETUNREACH   not connected: name, connection refused, proxy; nothing was sent
 *   -EKEYREJECTED  TLS: the server's certificate or ours
 *   -ECONNRESET    the connection broke in the middle: the request may or may not have been carried out
 *   -ETIMEDOUT     the same, by time
 *   -EBADMSG       not the JSON of an API server, nested too deeply, or with too many parts
 *   -EFBIG         an answer above its bound
 *   -ECANCELED     the stop descriptor
 *   -ENOMEM
 *
 * The message has the server's own (Status.message) in one line. What was refused in 429 and 5xx is tried
 * again with Retry-After or a growing pause, for every method; what broke in the middle, for GET, PUT, PATCH
 * and DELETE. A POST that broke in the middle is tried again by kube_create() only, which then knows its
 * object.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kubernetes/client/kubeconfig.h"
#include "kubernetes/client/status.h"
#include "runtime/base/buf.h"
#include "runtime/base/error.h"

struct kube; /* opaque */

/** enum kube_kind - what there are paths for */
enum kube_kind {
        KUBE_NAMESPACE,
        KUBE_NODE,
        KUBE_POD,
        KUBE_CONFIGMAP,
        KUBE_SECRET,
        KUBE_PVC,
        KUBE_SERVICEACCOUNT,
        KUBE_EVENT,
        KUBE_JOB,
        KUBE_NETWORKPOLICY,
        KUBE_LEASE,
        KUBE_KIND_COUNT
};

enum {
        KUBE_ANSWER_BYTES_MAX = 32 << 20, /* of one answer that is JSON */
        KUBE_LIST_MAX = 100000,           /* objects of one list */
        KUBE_LIST_BYTES_MAX = 256 << 20,  /* of all its pages */
        KUBE_LIST_PAGES_MAX = 500,
        KUBE_CALL_MS = 30000, /* one attempt of a call */
        KUBE_CONNECT_MS = 10000,
        KUBE_ATTEMPTS = 5,         /* of one call, the first included */
        KUBE_PAUSE_MS_MAX = 30000, /* between two, whatever Retry-After says */
};

/** struct kube_request - any call at all; everything borrowed */
struct kube_request {
        const char *method;       /* "GET", "POST", ... */
        const char *path;         /* "/api/v1/..."; names in it went through kube_path() or are ours */
        const char *query;        /* "a=b&c=d", escaped; NULL: none */
        const char *content_type; /* of @body; NULL: application/json */
        const json_t *body;       /* NULL: none */
        unsigned timeout_ms;      /* one attempt; 0: KUBE_CALL_MS */
        unsigned attempts;        /* 0: KUBE_ATTEMPTS */
};

/** struct kube_select - which objects of a kind; NULL members: all. Borrowed. */
struct kube_select {
        const char *name;   /* this one */
        const char *labels; /* a label selector: "a=b,c!=d" */
        const char *fields; /* a field selector: "status.phase=Failed" */
};

/** struct kube_delete - how to delete; {0}: as the server does by default */
struct kube_delete {
        const char *uid;         /* only the object with this uid, else -EBUSY */
        const char *propagation; /* "Background", "Foreground", "Orphan" */
        bool has_grace;          /* @grace_s counts */
        unsigned grace_s;        /* 0: at once */
};

/**
 * kube_open() - a client of the cluster that @config names; nothing is sent yet
 * @config: consumed on success
 * @ret: caller frees with kube_free()
 * Return: 0, -EINVAL (certificate or key data that OpenSSL does not take are seen at the first call),
 * -ENOMEM.
 */
int kube_open_consume(struct kube_config *config, struct kube **ret, struct error *err)
        __attribute__((warn_unused_result));

/** kube_free() - ends what runs, without waiting. Return: NULL. */
struct kube *kube_free(struct kube *kube);
DEFINE_AUTO(struct kube, kube, kube_free)
#define AUTO_KUBE CLEANUP(auto_kube)

/** kube_set_stop() - from now on, whatever waits ends with -ECANCELED when @fd is readable (a signalfd, a
 * pipe, a pidfd); it is not read. Borrowed; -1: nothing. */
void kube_set_stop(struct kube *kube, int fd);

/** kube_config_of() - the configuration, borrowed */
const struct kube_config *kube_config_of(const struct kube *kube);

/** kube_failure() - about the last failure of @kube, borrowed until its next call */
const struct kube_failure *kube_failure(const struct kube *kube);

/** kube_kind_name() - "pods", "jobs", as RBAC writes them; static */
const char *kube_kind_name(enum kube_kind kind);

/** kube_kind_group() - "", "batch", ...: the API group; static */
const char *kube_kind_group(enum kube_kind kind);

/**
 * kube_path() - append the path of an object or collection: "/api/v1/namespaces/NS/pods/NAME/SUB"
 * @ns:   NULL: the namespace of the configuration; not used by kinds without namespace
 * @name: NULL: the collection. Percent-encoded; "", "." and ".." are -EINVAL
 * @sub:  "log", "exec", "status"; NULL: none
 */
int kube_path(const struct kube *kube, enum kube_kind kind, const char *ns, const char *name, const char *sub,
              struct buf *out, struct error *err) __attribute__((warn_unused_result));

/** kube_query_add() - append "key=value" to a query, percent-encoded. Return: 0, -ENOMEM, -E2BIG. */
int kube_query_add(struct buf *query, const char *key, const char *value) __attribute__((warn_unused_result));

/**
 * kube_call() - one request with its attempts
 * @ret: the answer, new reference; NULL: not wanted. Of DELETE it is the object or a Status.
 */
int kube_call(struct kube *kube, const struct kube_request *request, json_t **ret, struct error *err)
        __attribute__((warn_unused_result));

/** kube_get() - one object. @ret: new reference. */
int kube_get(struct kube *kube, enum kube_kind kind, const char *ns, const char *name, json_t **ret,
             struct error *err) __attribute__((warn_unused_result));

/**
 * kube_list() - all objects that @select names, in pages
 * @select: NULL: all of the namespace
 * @ret: array, new reference
 * @ret_version: resourceVersion of the list, owned; NULL: not wanted
 * A list that went stale between two pages is begun again. Return: 0, or as above.
 */
int kube_list(struct kube *kube, enum kube_kind kind, const char *ns, const struct kube_select *select,
              json_t **ret, char **ret_version, struct error *err) __attribute__((warn_unused_result));

/**
 * kube_create() - make an object
 * @object: with metadata.name
 * @ret: as the server has it (metadata.uid), new reference; NULL: not wanted
 *
 * When an attempt broke in the middle and the next says AlreadyExists, the object is read: with our labels
 * and annotations on it, it is ours and a success. Return: 0, or as above.
 */
int kube_create(struct kube *kube, enum kube_kind kind, const char *ns, const json_t *object, json_t **ret,
                struct error *err) __attribute__((warn_unused_result));

/** kube_replace() - PUT; with metadata.resourceVersion in it, -EBUSY when it was changed. @ret: NULL allowed.
 */
int kube_replace(struct kube *kube, enum kube_kind kind, const char *ns, const char *name,
                 const json_t *object, json_t **ret, struct error *err) __attribute__((warn_unused_result));

/** kube_patch() - merge patch (RFC 7386). @ret: NULL allowed. */
int kube_patch(struct kube *kube, enum kube_kind kind, const char *ns, const char *name, const json_t *patch,
               json_t **ret, struct error *err) __attribute__((warn_unused_result));

/**
 * kube_delete() - ask for the end of an object; it may take its time, see kube_wait_gone()
 * @how: NULL: the defaults
 * A conflict while it is still the one that was meant is tried again.
 * Return: 0 (also when it is being deleted already), -ENOENT, -EBUSY (another uid), or as above.
 */
int kube_delete(struct kube *kube, enum kube_kind kind, const char *ns, const char *name,
                const struct kube_delete *how, struct error *err) __attribute__((warn_unused_result));

/**
 * kube_allowed() - SelfSubjectAccessReview: whether we may
 * @ns: NULL: the namespace of the configuration; "": in all, or a kind without namespace
 * @subresource: "" or "exec", "log", ...
 */
int kube_allowed(struct kube *kube, const char *ns, const char *verb, const char *group, const char *resource,
                 const char *subresource, bool *ret, struct error *err) __attribute__((warn_unused_result));

/** kube_version() - gitVersion of the server into @ret, and minor as a number (0: not understood) */
int kube_version(struct kube *kube, char ret[64], unsigned *ret_minor, struct error *err)
        __attribute__((warn_unused_result));
