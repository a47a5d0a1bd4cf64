/*
 * spec.h - the run specification: what a sandbox shall be, independent of who builds it
 *
 * Filled from YAML, JSON and flags through one const key table (keys.h); see cofferdam.yaml(5).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "runtime/base/error.h"
#include "runtime/spec/kubernetes.h"
#include "runtime/spec/tier.h"

enum spec_mode { MODE_NONE, MODE_AUTO, MODE_INLINE, MODE_COUNT };
enum workspace_mode { WORKSPACE_DIRECT, WORKSPACE_STAGED, WORKSPACE_COW, WORKSPACE_RO, WORKSPACE_MODE_COUNT };
enum cache_mode { CACHE_SHARED, CACHE_EXCLUSIVE, CACHE_MODE_COUNT };
enum host_state { HOST_STATE_AUTO, HOST_STATE_NONE, HOST_STATE_COUNT };
enum network_mode { NETWORK_NONE, NETWORK_ALLOWLIST, NETWORK_DENYLIST, NETWORK_OPEN, NETWORK_MODE_COUNT };
enum isolation { ISOLATION_STRICT, ISOLATION_DEGRADE, ISOLATION_COUNT };
enum mount_type { MOUNT_BIND, MOUNT_TMPFS, MOUNT_OVERLAY, MOUNT_CACHE, MOUNT_TYPE_COUNT };
enum mount_upper { MOUNT_UPPER_DISK, MOUNT_UPPER_TMPFS, MOUNT_UPPER_COUNT };
enum land_when { LAND_COMMAND, LAND_SUCCESS, LAND_STOP, LAND_COUNT };
enum workspace_engine { ENGINE_AUTO, ENGINE_FUSE, ENGINE_OVERLAY, WORKSPACE_ENGINE_COUNT };
enum on_source_change { SOURCE_CHANGE_STOP, SOURCE_CHANGE_PIN, SOURCE_CHANGE_COUNT };
enum model_auth { MODEL_AUTH_NONE, MODEL_AUTH_PROXIED, MODEL_AUTH_COUNT };
enum guard_do { GUARD_ALLOW, GUARD_HOLD, GUARD_PROTECT, GUARD_HIDE, GUARD_DO_COUNT };

/** struct spec_rule - one guard rule, in the order given (last match wins) */
struct spec_rule {
        char *path; /* gitignore-like glob, owned */
        enum guard_do action;
        enum spec_tier tier;
        char *from; /* "FILE:LINE" or "--OPTION": where it was said, owned */
};

/** struct spec_seed - a host file copied into the home */
struct spec_seed {
        char *from;    /* host path; "~/" already expanded, absolute; owned */
        char *to;      /* absolute path inside the home, or NULL: the same place below the home; owned */
        uint32_t mode; /* permission bits, default 0600 */
        enum spec_tier tier;
};

/** struct spec_mount - a further mount */
struct spec_mount {
        enum mount_type type;
        char *source; /* absolute host path, NULL for tmpfs; owned */
        char *target; /* absolute, normalized; owned */
        bool readonly;
        bool shared;                            /* cache: written through */
        enum mount_upper upper;                 /* overlay, cache: where changes are kept */
        uint64_t size;                          /* bytes of a tmpfs or an upper in memory, 0 = default */
        enum on_source_change on_source_change; /* bind only */
        enum spec_tier tier;
};

/** struct spec_secret - a credential: a token stands for it inside (auth/credential.h), or it comes inside as
 * a file or a variable */
struct spec_secret {
        char *name;   /* what the service's log calls it; secret_name_valid() */
        char *env;    /* variable for the token or value, NULL: @name; file: for its path, NULL: none */
        char *from;   /* "env:NAME" or "file:PATH" of the host */
        char *as;     /* "proxied", "file" or "env" */
        char *path;   /* file: a further place for it, absolute; NULL: none */
        char *inject; /* "bearer", "private_token", "x_api_key", "basic:USER" or "header:NAME" */
        char *hosts;  /* "HOST[,HOST...]"; proxied only */
        enum spec_tier tier;
};

/** struct spec - a resolved specification; all pointers owned, NULL = not given */
struct spec {
        uint64_t version; /* 1 */
        enum spec_mode mode;
        char *driver; /* one of the words of the key table */
        char *image;  /* reference of the sandbox's root as container engines write it; NULL: none */
        char *rootfs; /* absolute host path; NULL: none */
        struct {
                char *dockerfile; /* absolute host path; NULL: "Dockerfile" in @context */
                char *context;    /* absolute host path; NULL: the directory of @dockerfile */
                struct spec_env *args;
                size_t n_args;
                char *target; /* stage to stop at; NULL: the last */
        } build;
        bool repository; /* the files of the workspace that speak of its sandbox are read */
        bool host_root;  /* the host's root was asked for by name */
        char *name;
        char *user; /* "UID[:GID]" or a name */
        enum isolation isolation;
        bool keep;
        struct {
                char *source; /* absolute host path; NULL: the current directory */
                char *target; /* absolute; NULL: the same path */
                enum workspace_mode mode;
                enum cache_mode cache;
                enum workspace_engine engine;
                enum land_when land;
                char **bypass; /* relative paths of directories that the guard does not serve */
                size_t n_bypass;
                enum on_source_change on_source_change;
        } workspace;
        struct {
                struct spec_rule *rules;
                size_t n_rules;
                bool defaults; /* the built-in list comes first */
        } guard;
        struct {
                uint64_t size;       /* bytes */
                uint64_t seed_max;   /* bytes of one seed */
                uint64_t seed_files; /* files of one seed */
                struct spec_seed *seeds;
                size_t n_seeds;
                char **persist; /* absolute host paths */
                size_t n_persist;
                bool toolchains;
        } home;
        enum host_state host_state;
        struct {
                uint64_t size; /* bytes */
        } tmp;
        struct spec_mount *mounts;
        size_t n_mounts;
        size_t n_cluster_mounts; /* of kubernetes.volumes, those that were asked for as mounts */
        struct spec_secret *secrets;
        size_t n_secrets;
        enum model_auth model_auth;
        struct {
                char *url; /* of the service, "http://HOST:PORT" or "unix:PATH"; NULL: one of the run's own */
                char *admin_url; /* where tokens are issued; NULL: as @url */
                char *options;   /* of the run's own, separated by blanks */
        } auth_proxy;
        struct spec_env *env;
        size_t n_env;
        struct {
                enum network_mode mode;
                char *preset; /* names with commas between them */
                char **rules; /* see netns/policy.h, not read here */
                size_t n_rules;
                bool transparent; /* programs that know of no proxy reach it too */
        } network;
        struct {
                uint64_t disk;   /* bytes that the run may hold of changes, 0: any number */
                uint64_t memory; /* bytes, 0: any number; so for the others */
                char *cpus;      /* "1.5"; NULL: all */
                uint64_t pids;
                uint64_t open_files; /* of one process */
                uint64_t file_size;  /* bytes, of one file */
                uint64_t timeout_ms; /* 0: none */
        } limits;
        char *post_create; /* for /bin/sh -c */
        struct {
                char *seccomp; /* "default" */
                bool nested_userns;
                bool no_new_privs;
        } security;
        struct spec_kubernetes kubernetes;
        char **allow_sensitive; /* refused bind sources that the operator allows by exact path */
        size_t n_allow_sensitive;
        struct spec_refusal *refused; /* what the repository asked for and does not get: refuse.h */
        size_t n_refused;
        enum spec_tier *tier_of; /* per key of spec_keys[]: who said it; owned, spec_key_count() entries */
};

/**
 * struct spec_env_view - what the reader may know of the caller (getenv happens in cli only)
 * @home: absolute home directory of the operator, for "~/"; NULL when there is none; borrowed
 * @cwd:  absolute current directory, for relative host paths; NULL when it was deleted; borrowed
 */
struct spec_env_view {
        const char *home;
        const char *cwd;
};

/** spec_new() - the built-in defaults. @ret: caller frees with spec_free(). Return: 0, -ENOMEM. */
int spec_new(struct spec **ret, struct error *err) __attribute__((warn_unused_result));

/** spec_copy() - a deep copy. @ret: caller frees with spec_free(). Return: 0, -ENOMEM. */
int spec_copy(const struct spec *spec, struct spec **ret, struct error *err)
        __attribute__((warn_unused_result));

/** spec_free() - accepts NULL and half-built objects. Return: NULL. */
struct spec *spec_free(struct spec *spec);

/** spec_tier_name() - the word for @tier in messages and dumps. Static. */
const char *spec_tier_name(enum spec_tier tier);

/**
 * spec_merge_file() - read a YAML or JSON file over @spec
 * @path: a regular file; the name decides: *.json is JSON, everything else YAML
 * @tier: TIER_CONFIG, TIER_WORKFLOW or TIER_FLAG (a --spec of the operator); a key that the tier may not set
 * is an error that names key, file and line
 * @spec: changed on success only
 * Scalars replace, lists append (rules, seeds, mounts), env merges by name.
 * Return: 0, -EINVAL (syntax, unknown or duplicate key, bad value, wrong type, not a regular file),
 * -EPERM (tier), -EFBIG (above 1 MiB), -ENOTSUP (a form this build cannot do), -errno of the open.
 */
int spec_merge_file(struct spec *spec, const char *path, enum spec_tier tier,
                    const struct spec_env_view *view, struct error *err) __attribute__((warn_unused_result));

/**
 * spec_merge_bytes() - spec_merge_file() of bytes that are read already
 * @name: of the file, for messages and for the choice between YAML and JSON
 */
int spec_merge_bytes(struct spec *spec, const char *name, const char *data, size_t len, enum spec_tier tier,
                     const struct spec_env_view *view, struct error *err) __attribute__((warn_unused_result));

/**
 * spec_validate() - the checks across keys that need no host: legal combinations, targets, names
 * Return: 0, -EINVAL, or -ENOTSUP for what no driver of this build can do: "CAPABILITY_UNSUPPORTED: KEY:
 * ...".
 */
int spec_validate(const struct spec *spec, const struct spec_env_view *view, struct error *err)
        __attribute__((warn_unused_result));

/** secret_is() - whether @secret reaches the command as @as */
bool secret_is(const struct spec_secret *secret, const char *as);

/** SECRET_DIR - where secrets that are files are, by their names */
#define SECRET_DIR "/run/secrets"
enum { SECRETS_MAX = 64 };

/** spec_shadowed() - what would disappear below a mount at @target, in words; static. NULL: nothing of ours.
 */
const char *spec_shadowed(const char *target, const struct spec_env_view *view);

#define AUTO_SPEC __attribute__((cleanup(auto_spec)))
static inline void auto_spec(struct spec **p) {
        *p = spec_free(*p);
}
