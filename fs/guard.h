/*
 * guard.h - the FUSE server of a run (fsd): regions, each a pinned host directory under rules
 *
 * The server runs on the host side as the caller, without capabilities. Its mount lives in the sandbox's
 * mount namespace only; the root directory of the mount holds one directory per region, named by its index
 * ("0", "1").
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "fs/pin.h"
#include "fs/rules.h"
#include "runtime/base/error.h"

/** enum region_kind - where changes that the rules allow go: the host; the upper, until a command ends; the
 * upper, until they are applied; nowhere */
enum region_kind { REGION_DIRECT, REGION_STAGED, REGION_COW, REGION_RO, REGION_KIND_COUNT };

/** region_kind_copies() - whether everything that changes goes to the upper, also where no rule holds it */
static inline bool region_kind_copies(enum region_kind kind) {
        return kind == REGION_STAGED || kind == REGION_COW;
}

/** struct region - one served subtree; descriptors are borrowed and must stay open while the server runs */
struct region {
        const char *name; /* for messages: the target path */
        int root_fd;      /* O_PATH descriptor of the pinned directory or regular file */
        bool is_file;     /* root_fd is a regular file: the region "N" is that file */
        enum region_kind kind;
        bool below_overlay;  /* the kernel's overlayfs lies over it: NOTICE_LOWER_CHANGED tells of changes on
                                the host, since its caches believe that there are none */
        struct rules *rules; /* NULL: everything allowed */
        const char
                *base;   /* stands in front of every path for the judge, as rules_rebase() has it; NULL: "" */
        struct pin *pin; /* of @root_fd, looked at again while the server runs; NULL: never; changes when a
                            file is followed */
        enum on_source_change on_change; /* when the path leads elsewhere. stop: ESTALE, but a file that an
                                            editor replaces is followed; pin: served as before */
        bool exclusive; /* a directory; names and attributes are remembered until another writer is seen */
        int upper_fd;   /* directory that takes held files, of a staged or cow region all changes; -1: none
                           (then  they are EROFS) */
};

/** struct guard_config - all the server knows */
struct guard_config {
        const struct region *regions;
        size_t n_regions;
        uid_t host_uid, inside_uid; /* the caller, as the host and as the sandbox's user namespace see it */
        gid_t host_gid, inside_gid;
        uint32_t timeout_ms; /* entry, attribute and negative timeouts: cache shared 1000 */
        size_t nodes_max;    /* objects remembered at a time, about; 0: TRIM_NODES_MAX of trim.h */
        int exclusive_fd; /* guard_exclusive_open(), borrowed, for regions that are; negative: there are none
                           */
        uint64_t disk_max, inodes_max; /* what all uppers of staged and cow regions may hold together; 0: no
                                          limit, of inodes: one for each 4 KiB of disk_max */
        int notice_fd;                 /* SOCK_SEQPACKET for struct guard_notice; -1: none */
};

enum guard_notice_type {
        NOTICE_HELD,
        NOTICE_DENIED,
        NOTICE_SOURCE_CHANGED,
        NOTICE_LOWER_CHANGED,
        NOTICE_NOT_ALONE, /* an exclusive region is served as a shared one from now on; detail: why */
        NOTICE_QUOTA,     /* limits.disk is used up; rule: the key, detail: its bytes */
        NOTICE_TYPE_COUNT
};
enum { NOTICE_PATH_MAX = 1024, NOTICE_TEXT_MAX = 256 };

/**
 * struct guard_notice - one fact for the supervisor; the first of each (path, type), and counts are kept by
 * the server
 * Of a source that changed: @op is the action ("stop", "pin", and "follow" when the supervisor tells it),
 * @path the source, @rule what it was, @detail what it is. "ask" wants a struct guard_successor sent back at
 * once.
 */
struct guard_notice {
        uint32_t type;                /* enum guard_notice_type */
        uint32_t region;              /* index */
        char op[16];                  /* "create", "write", "rename", ... */
        char rule[NOTICE_TEXT_MAX];   /* pattern text of the rule that decided */
        char detail[NOTICE_TEXT_MAX]; /* what judge_content() said; "" when it was not asked */
        char path[NOTICE_PATH_MAX];   /* relative to the region, cut at the end; bytes from inside */
};

/** guard_exclusive_open() - what exclusive regions are watched with; by the process that will serve. Return:
 * owned descriptor, -ENOSYS and the like: not here. */
int guard_exclusive_open(void) __attribute__((warn_unused_result));

/** guard_exclusive_can() - whether the directory @dir_fd (O_PATH) can be watched. Return: 0, -EREMOTE (other
 * machines may write), -errno. */
int guard_exclusive_can(int dir_fd) __attribute__((warn_unused_result));
/** guard_exclusive_explain() - why not, from the code of one of both */
void guard_exclusive_explain(int r, char *ret, size_t size);

/**
 * guard_confine() - give up what the server does not need, before it hears of a mount
 * The process can from now on only make the calls of a file server, on files below the regions' roots and
 * uppers (landlock; Linux 5.19). Sets no_new_privs; a call beyond the list ends the process. Capabilities are
 * the caller's to drop before. Return: 0, -ENOMEM, -errno.
 */
int guard_confine(const struct guard_config *config, struct error *err) __attribute__((warn_unused_result));

/**
 * struct guard_successor - the supervisor's answer to "ask": whether the file that took the place of a
 * region's may be served, and the descriptors to do it with: O_PATH, and if the user may, O_RDONLY and O_RDWR
 */
struct guard_successor {
        uint32_t region;
        int32_t result; /* 0, -ESTALE: no, another -errno: it could not be told */
        uint64_t dev, ino;
        int64_t btime_ns;
};

/**
 * guard_serve() - answer the kernel until the file system is unmounted
 * @fuse_fd: /dev/fuse descriptor of a mounted file system, consumed
 * Starts threads; the calling process must not fork any more. Blocks. SIGTERM and SIGHUP end the service:
 * whoever waits for an answer is let go.
 * Return: 0 (unmounted); -EINTR (a signal) and -EBUSY (unmounted, but a host file system does not answer):
 * threads are left that use @config, the process has to end; -errno.
 */
int guard_serve(const struct guard_config *config, int fuse_fd, struct error *err)
        __attribute__((warn_unused_result));
