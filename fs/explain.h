/*
 * explain.h - what the guard says of one name, asked without a server; the same rules, judge and admission
 */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "fs/guard.h"
#include "runtime/base/buf.h"

enum explain_op {
        EXPLAIN_READ,
        EXPLAIN_WRITE,
        EXPLAIN_CREATE,
        EXPLAIN_MKDIR,
        EXPLAIN_SYMLINK,
        EXPLAIN_UNLINK,
        EXPLAIN_RENAME, /* away to a name that no rule speaks of */
        EXPLAIN_RENAME_TO,
        EXPLAIN_LINK, /* a second name for it, one that no rule speaks of */
        EXPLAIN_CHMOD,
        EXPLAIN_OP_COUNT
};

/** enum explain_result - what becomes of an operation */
enum explain_result {
        EXPLAIN_YES,     /* read */
        EXPLAIN_HOST,    /* the host has it at once */
        EXPLAIN_UPPER,   /* the run has it, as all changes of such a region */
        EXPLAIN_HELD,    /* the run keeps it, for a rule says so */
        EXPLAIN_JUDGED,  /* the content decides: host or held */
        EXPLAIN_REFUSED, /* fails */
        EXPLAIN_RESULT_COUNT
};

/** struct explain_region - a region; everything borrowed */
struct explain_region {
        enum region_kind kind;
        bool is_file;
        bool kernel;         /* the kernel's overlayfs takes the changes, and asks no rule */
        struct rules *rules; /* NULL: everything allowed */
        const char *
                host_root; /* absolute path of the root when the work and the host have the same, else NULL */
        int lower_fd;      /* the source, -1: it cannot be looked at */
        int upper_fd;      /* what a run holds, -1: nothing */
};

/** struct explanation - a name of a region */
struct explanation {
        mode_t type;       /* S_IFMT bits, 0: there is none */
        bool held;         /* what is there is the run's version */
        char *link;        /* target of a symlink, owned */
        bool judged;       /* content decides about it */
        bool lands;        /* judged: what the judge says of the content that is there */
        bool goes;         /* judged: whether the host loses the file when the work removes it */
        struct buf reason; /* judged and not lands */
};

/**
 * explain_look() - what is at @path of the region
 * @path: relative, normal, no component but the last may be a symlink; "": the root
 * @ret:  caller clears with explanation_deinit(), also on failure
 * Blocks (reads what is judged). Return: 0, -errno.
 */
int explain_look(const struct explain_region *region, const char *path, struct explanation *ret)
        __attribute__((warn_unused_result));

void explanation_deinit(struct explanation *e);

/** explain_verdict() - the rule for @path as an object of type @type; 0: a regular file */
struct rules_verdict explain_verdict(const struct explain_region *region, const char *path, mode_t type);

/** explain_applies() - whether the operation makes sense for what is there */
bool explain_applies(const struct explanation *e, enum explain_op op);

/**
 * explain_op() - what becomes of @op at @path
 * @ret_errno: why it is refused, positive; 0 otherwise
 */
enum explain_result explain_op(const struct explain_region *region, const char *path,
                               const struct explanation *e, enum explain_op op, int *ret_errno);
