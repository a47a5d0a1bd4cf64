/*
 * remote.h - one command in the sandbox whose streams are read and written here
 */
#pragma once

#include <sys/types.h>

#include "kubernetes/client/exec.h"
#include "kubernetes/life/life.h"

enum { REMOTE_OUT_MAX = 1 << 20, REMOTE_ERR_MAX = 64 << 10 };

/** struct remote_pod - where commands go; borrowed */
struct remote_pod {
        struct kube *kube;
        const char *ns, *pod, *container;
        uint64_t copy_ms; /* how long the workspace may take to go there, or to come back */
};

/** struct remote - embedded; REMOTE_INIT is none */
struct remote {
        struct kube_exec *exec; /* owned */
        struct buf out;         /* of stdout, not read yet */
        size_t taken;           /* bytes of @out that were */
        struct buf errors;      /* of stderr, at most REMOTE_ERR_MAX, the rest is dropped */
        uint64_t deadline_ns;   /* of clock_ns() */
        bool ended;
        struct error err; /* of the failure that ended it */
};
#define REMOTE_INIT \
        { .exec = NULL }

/**
 * remote_open() - start @argv; it stays where it is until remote_deinit()
 * @deadline_ns: of clock_ns(): then everything below is -ETIME, whatever comes meanwhile
 * Return: as kube_exec_open().
 */
int remote_open(struct remote *remote, const struct remote_pod *pod, const char *const *argv, bool has_stdin,
                uint64_t deadline_ns, struct error *err) __attribute__((warn_unused_result));

/** remote_write() - a pack_sink: all of @len to its stdin. Return: 0, -EPIPE (it ended), as kube_exec_step().
 */
int remote_write(void *remote, const void *data, size_t len);

/** remote_read() - an unpack_source: what it wrote. Return: bytes; 0: it has ended; as kube_exec_step(). */
ssize_t remote_read(void *remote, const void **ret);

/** remote_finish() - close its stdin and wait for its end; what it still writes is dropped
 * Return: 0 (@ret is set), as kube_exec_step(). */
int remote_finish(struct remote *remote, struct kube_exec_end *ret, struct error *err)
        __attribute__((warn_unused_result));

void remote_deinit(struct remote *remote);
#define AUTO_REMOTE __attribute__((cleanup(remote_deinit)))
