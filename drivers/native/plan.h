/*
 * plan.h - what the native driver decided before anything was created; filled by plan.c and its helpers
 *
 * Everything here is made unprivileged and without a side effect on the host; sandbox.c only carries it out.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "drivers/native/image-root.h"
#include "drivers/native/limits.h"
#include "drivers/native/seccomp-profile.h"
#include "fs/guard.h"
#include "fs/pin.h"
#include "netns/policy.h"
#include "netns/proxy.h"
#include "runtime/base/buf.h"
#include "runtime/base/ctx.h"
#include "runtime/base/error.h"
#include "runtime/spec/spec.h"

enum {
        PLAN_REGIONS_MAX = 128, /* served subtrees of a run */
        PLAN_BYPASS_MAX = 32,
        PLAN_SEEDS_MAX = 256,
        PLAN_ENV_MAX = 4096,
        PLAN_DEGRADED_MAX = 16, /* the workspace's engine, its cache, each rung */
};

struct oci; /* drivers/oci/oci.h */

/** struct native_id - who works: on the host and inside */
struct native_id {
        uid_t host_uid, inside_uid;
        gid_t host_gid, inside_gid;
        bool switch_user; /* root caller with --user: every process of the run becomes host_uid first */
        bool mapped;      /* more ids than one are mapped: root_maps() */
        char *name;       /* user name inside; owned */
        char *home;       /* absolute, normalized; owned */
        char *shell;      /* exists inside; owned */
};

/** enum region_role - why a region is there; for describe() */
enum region_role {
        ROLE_WORKSPACE,
        ROLE_GIT_DIR,
        ROLE_BIND,
        ROLE_OVERLAY,
        ROLE_CACHE,
        ROLE_HOME, /* home.persist */
        ROLE_TOOLCHAIN,
        ROLE_COUNT
};

/** struct native_region - one served subtree */
struct native_region {
        struct pin pin;
        char *target; /* absolute path inside; owned */
        enum region_kind kind;
        enum region_role role;
        bool is_file;
        bool overlay;   /* the kernel's overlayfs takes the writes; the file server is its lower only */
        bool in_memory; /* what is written is kept in a tmpfs of the sandbox's */
        uint64_t memory_bytes; /* size of that, 0: the kernel's default */
        bool memory_common;    /* it is one for all regions that say so */
        char engine_why[256];  /* why overlayfs does not serve it; "" otherwise */
        struct rules *rules;   /* NULL: everything allowed */
        bool rules_shared;     /* borrowed from the plan, else owned */
        const char *base;      /* see struct region; static, NULL: none */
        enum on_source_change on_change;
        bool exclusive;  /* cache: exclusive: until another writer is seen */
        bool host_state; /* nobody named it: host_state or a toolchain */
};

/** struct native_bypass - a directory of the workspace that the guard does not serve: bound as it is */
struct native_bypass {
        int fd;       /* O_PATH, owned */
        char *path;   /* below the workspace; owned */
        char *source; /* absolute, without symlinks; owned */
        char *target; /* inside; owned */
};

/** struct native_tmpfs - a private file system in memory */
struct native_tmpfs {
        char *target;        /* owned */
        uint64_t size_bytes; /* 0: the kernel's default */
        mode_t mode;
};

/** struct native_place - one entry of the mount order: parents before children */
struct native_place {
        const char *target; /* borrowed from the region or tmpfs */
        int region;         /* index, or -1 */
        int tmpfs;          /* index, or -1 */
        int bypass;         /* index, or -1 */
};

/** struct native_seed - a host file or directory that is copied in */
struct native_seed {
        int fd; /* open for reading, owned */
        bool is_dir;
        char *source, *target; /* owned */
        mode_t mode;           /* of files without the owner's execute bit */
        uint64_t bytes;        /* regular file: size when it was planned */
        uint64_t bytes_max, files_max;
};

/** struct native_file - a file written by us */
struct native_file {
        char *target; /* owned */
        char *data;   /* owned */
        size_t len;
        mode_t mode;
};

enum { PLAN_TMPFS_MAX = 64, PLAN_FILES_MAX = 16 };

/** struct native_degraded - what was asked for and is not done */
struct native_degraded {
        const char *wanted, *got; /* static */
        char reason[256];
};

/** struct native_rungs - what the host lacks and the run does without (rungs.c); only with isolation: degrade
 */
struct native_rungs {
        bool no_userns;  /* real root works as itself, without capabilities */
        bool no_guard;   /* no FUSE: regions are mounts of the kernel's, no rule holds inside */
        bool no_overlay; /* with no_guard: nothing but temporary file systems can be written */
        bool no_proc;    /* /proc is empty */
        bool no_netns;   /* only unix sockets can be made */
        bool no_cgroup;  /* limits are those of each process */
};

/** struct driver_plan - the whole decision */
struct driver_plan {
        const struct ctx *ctx;    /* borrowed, outlives the plan */
        struct pin_memo *memo;    /* while the plan is made; owned */
        struct pin_policy policy; /* what may be pinned; borrowed from the caller and the specification */
        struct image_root *root;  /* NULL: the host's, or an engine's; owned */
        struct native_id id;
        const char *workspace; /* target of region 0, borrowed from it */
        bool host_state;       /* auto, and the home is the operator's */
        bool home_planted;     /* HOME leads into what the run can write */
        char home_why[128];    /* why nothing of the home is shown or seeded unasked; "" when it may be */
        enum network_mode network;
        struct policy *net_policy; /* allowlist, denylist; owned */
        bool net_leads;    /* programs that know of no proxy are led to it: all their connections, or */
        bool net_by_ports; /* those to these ports of addresses that stand for names */
        uint16_t net_ports[PROXY_PORTS_MAX];
        size_t n_net_ports;
        json_t *net_preset, *net_rules; /* what it was made of; owned */
        bool uplink;                    /* open: a network namespace of its own, with a way out */
        char uplink_why[256];           /* open: why not */
        char *resolv_conf;              /* the host's is of no use inside: what is shown; owned, NULL */
        struct native_limits limits;
        uint64_t disk_max;                 /* limits.disk, 0: none */
        bool overlay_asked, overlay_works; /* what the probe said, once it was asked */
        char overlay_why[256];
        struct native_rungs rungs;
        struct native_degraded degraded[PLAN_DEGRADED_MAX];
        size_t n_degraded;
        struct native_region regions[PLAN_REGIONS_MAX];
        size_t n_regions;
        struct rules *toolchain_rules; /* of all toolchains that need no others; owned */
        struct native_tmpfs tmpfs[PLAN_TMPFS_MAX];
        size_t n_tmpfs;
        struct native_bypass bypass[PLAN_BYPASS_MAX];
        size_t n_bypass;
        struct native_place places[PLAN_REGIONS_MAX + PLAN_TMPFS_MAX + PLAN_BYPASS_MAX];
        size_t n_places;
        struct native_seed seeds[PLAN_SEEDS_MAX];
        size_t n_seeds;
        struct native_file files[PLAN_FILES_MAX];
        size_t n_files;
        char **env; /* NULL-terminated, owned */
        size_t n_env;
        struct oci *oci; /* a container engine makes the sandbox (drivers/oci/); owned, NULL: we do */
        bool nested_userns;
        struct profile_program profile; /* of the operator's file; len 0: none */
};
