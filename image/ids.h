/*
 * ids.h - which owners the files of an image can have here
 */
#pragma once

#include <stdint.h>
#include <sys/types.h>

#include "runtime/base/ctx.h"
#include "runtime/base/error.h"

/** enum ids_kind - from the fullest view of an image to the poorest */
enum ids_kind {
        IDS_OWN,    /* root: the ids of the image are those of the host */
        IDS_RANGE,  /* 0 is the caller, the others are of /etc/subuid and /etc/subgid */
        IDS_SINGLE, /* everything is the caller's */
        IDS_KIND_COUNT
};

/** struct ids - by which rule, and where ranges begin */
struct ids {
        enum ids_kind kind;
        uint32_t uid_first, uid_n, gid_first, gid_n; /* of IDS_RANGE: of 1 and what follows */
        uint32_t max;                                /* the highest id an image can have */
        const char *path;                            /* PATH; borrowed */
        char why[128];                               /* of IDS_SINGLE: what is missing; "" otherwise */
};

/** ids_find() - what this caller has */
void ids_find(const struct ctx *ctx, const char *path, struct ids *ret);

/** ids_name() - "own", "range", "single" */
const char *ids_name(enum ids_kind kind);

/**
 * ids_run() - call @fn in a process of its own that has all these ids, and full rights over them
 * @fn: its return value and message are those of this function; what else it leaves behind it has to put into
 *      shared memory
 * It is killed with its parent. Forks; blocks. Return: of @fn; -EPERM (the ids cannot be had), -EIO (it was
 * killed).
 */
int ids_run(const struct ids *ids, int (*fn)(void *arg, struct error *err), void *arg, struct error *err)
        __attribute__((warn_unused_result));

/** shared_new() - @size zeroed bytes that children share; unmapped with the process. Return: NULL. */
void *shared_new(size_t size) __attribute__((warn_unused_result));
