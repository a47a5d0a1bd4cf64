/*
 * watch.h - what happens to objects, without a hole
 *
 * A watch begins with a list: each object that is there is an ADDED. Then it follows the server from the
 * list's resourceVersion. Bookmarks move that on; a connection that was cut, or was silent for too long, is
 * made again from there; when the server has forgotten the version (410, as status or in the stream),
 * everything is listed again, and the differences come as events: so the caller sees a consistent state,
 * whatever breaks. The same state twice in a row is possible.
 */
#pragma once

#include <jansson.h>
#include <stdint.h>

#include "kubernetes/client/client.h"

struct kube_watch; /* opaque; belongs to its client, and must be freed before it */

enum kube_event { KUBE_ADDED, KUBE_MODIFIED, KUBE_DELETED, KUBE_EVENT_COUNT };

enum {
        KUBE_WATCH_LINE_MAX = 4 << 20,   /* bytes of one event: an object is at most 1.5 MiB in etcd */
        KUBE_WATCH_OBJECTS_MAX = 100000, /* followed by one watch */
};

/**
 * kube_watch_open() - list, and begin to watch
 * @ns:     NULL: the namespace of the configuration
 * @select: copied; NULL: all of the kind
 * @ret:    caller frees with kube_watch_free()
 * Return: 0, or as client.h says.
 */
int kube_watch_open(struct kube *kube, enum kube_kind kind, const char *ns, const struct kube_select *select,
                    struct kube_watch **ret, struct error *err) __attribute__((warn_unused_result));

/** kube_watch_free() - Return: NULL. */
struct kube_watch *kube_watch_free(struct kube_watch *watch);
DEFINE_AUTO(struct kube_watch, kube_watch, kube_watch_free)
#define AUTO_KUBE_WATCH CLEANUP(auto_kube_watch)

/**
 * kube_watch_next() - the next event; blocks
 * @deadline_ns: of clock_ns(); what is there already is still given after it
 * @ret: what happened
 * @ret_object: new reference; of KUBE_DELETED the last state that is known
 * Return: 0, -ETIMEDOUT (the deadline; the watch goes on), -EPERM, -EACCES (a right was taken away),
 * -ECANCELED, -EREMOTEIO, -ENETUNREACH and the like (the server was not there for a minute of attempts),
 * -EFBIG, -ENOMEM.
 */
int kube_watch_next(struct kube_watch *watch, uint64_t deadline_ns, enum kube_event *ret, json_t **ret_object,
                    struct error *err) __attribute__((warn_unused_result));

/**
 * kube_wait_gone() - wait until an object is no more, or is another
 * @uid: of the one that is to go; NULL: any of that name
 * Return: 0, -ETIMEDOUT, or as kube_watch_next().
 */
int kube_wait_gone(struct kube *kube, enum kube_kind kind, const char *ns, const char *name, const char *uid,
                   uint64_t deadline_ns, struct error *err) __attribute__((warn_unused_result));

/* --- the parser, for tests and fuzzing --- */

/**
 * struct kube_watch_event - one line of a watch stream
 * @type:   "ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR"
 * @object: new reference
 */
struct kube_watch_event {
        char type[16];
        json_t *object;
};

/**
 * kube_watch_parse() - one line, without its end
 * @ret: caller drops ret->object
 * Return: 0, -EBADMSG (not an event, or nested more deeply than KUBE_DEPTH_MAX), -ENOMEM.
 */
int kube_watch_parse(const char *line, size_t len, struct kube_watch_event *ret)
        __attribute__((warn_unused_result));
