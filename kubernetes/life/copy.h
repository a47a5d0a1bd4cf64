/*
 * copy.h - the workspace into the sandbox and back
 */
#pragma once

#include "kubernetes/life/remote.h"
#include "kubernetes/workspace/landing.h"
#include "kubernetes/workspace/pack.h"

enum { COPY_HEAD_MAX = 64, COPY_ATTEMPTS = 5 };

/** copy_in() - fill @path inside with the directory @lower_fd; a helper for stored credentials is set up.
 * @ret: what went, for copy_out(); freed by the caller. Return: 0, -EIO (tar inside failed), -errno. */
int copy_in(const struct remote_pod *pod, const char *path, int lower_fd, struct rules *rules,
            struct pack_report *ret, struct error *err) __attribute__((warn_unused_result));

/** struct copy_back - copy_out(); borrowed */
struct copy_back {
        const char *path;                 /* of the workspace inside */
        int uppers_fd;                    /* directory that gets the upper */
        const char *name;                 /* called so in it; what has that name is replaced when it worked */
        const struct pack_report *report; /* of copy_in() */
        struct landing_options landing;   /* all but upper_fd, sent and kept */
};

/** struct copy_result - what came back */
struct copy_result {
        struct landing_counts counts;
        unsigned int attempts;
        char head[COPY_HEAD_MAX + 1];   /* commit that was checked out inside; "" when there is none */
        char landed[COPY_HEAD_MAX + 1]; /* what the workspace with the upper over it says */
};

/**
 * copy_out() - bring the workspace back, as an upper
 * Tried again when tar inside said nothing but that files changed under it, and when the connection was lost:
 * each attempt begins anew, and a failed one leaves nothing. Blocks, at most @pod->copy_ms and a minute.
 * Return: 0, -EIO (tar inside failed), -ETIME (it took too long), -errno.
 */
int copy_out(const struct remote_pod *pod, const struct copy_back *back, struct copy_result *ret,
             struct error *err) __attribute__((warn_unused_result));

/** copy_refresh() - replace a file of the workspace inside, in one step, with mode 0600
 * @rel: relative and clean (member_path()); the value goes over stdin. Return: 0, -EINVAL, -EIO, -errno. */
int copy_refresh(const struct remote_pod *pod, const char *path, const char *rel, const void *data,
                 size_t len, struct error *err) __attribute__((warn_unused_result));

/** copy_is_race() - whether tar's standard error @text says nothing but that files changed while they were
 * read; for tests */
bool copy_is_race(const char *text);
