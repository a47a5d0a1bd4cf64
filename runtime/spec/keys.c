/*
 * DOC: theory of operation
 *
 * One row per key. The readers (yaml.c, jsontree.c, merge.c), the flags (flags.c), the help text, the schema
 * (schema.c) and the manual are driven by these rows; a test compares the generated files with the tables.
 * A row with @instead is a key that later versions act on: it is read and checked like any other, and refused
 * by spec_validate() unless it says what this version does anyway (@fallback).
 */
#include "runtime/spec/keys.h"

#include <assert.h>
#include <string.h>

#include "runtime/base/cleanup.h"
#include "runtime/base/suggest.h"
#include "runtime/spec/check.h"

#define AT(field) .offset = (int) offsetof(struct spec, field)
#define LIST(array, n) \
        .offset = (int) offsetof(struct spec, array), .count_offset = (int) offsetof(struct spec, n)
#define NOWHERE         .offset = KEY_NO_STORE
#define IN(item, field) .offset = (int) offsetof(struct item, field)
#define NAMES_MAX       160

static_assert(sizeof(enum spec_mode) == sizeof(unsigned int), "KEY_ENUM is stored as unsigned int");
static_assert((int) SECTION_COUNT == (int) ITEM_RULE, "items follow the sections");

static const struct word mode_words[] = {
        [MODE_NONE] = { .name = "none", .trust = TRUST_OPERATOR },
        [MODE_AUTO] = { .name = "auto" },
        [MODE_INLINE] = { .name = "inline" },
        [MODE_COUNT] = { 0 },
};
static const struct word driver_words[] = {
        { .name = "auto" },
        { .name = "native" },
        { .name = "docker" },
        { .name = "podman" },
        { .name = "kubernetes" },
        { .name = "noop", .trust = TRUST_OPERATOR },
        { 0 },
};
static const struct word isolation_words[] = {
        [ISOLATION_STRICT] = { .name = "strict" },
        [ISOLATION_DEGRADE] = { .name = "degrade" },
        [ISOLATION_COUNT] = { 0 },
};
static const struct word workspace_mode_words[] = {
        [WORKSPACE_DIRECT] = { .name = "direct" },
        [WORKSPACE_STAGED] = { .name = "staged" },
        [WORKSPACE_COW] = { .name = "cow" },
        [WORKSPACE_RO] = { .name = "ro" },
        [WORKSPACE_MODE_COUNT] = { 0 },
};
static const struct word cache_words[] = {
        [CACHE_SHARED] = { .name = "shared" },
        [CACHE_EXCLUSIVE] = { .name = "exclusive" },
        [CACHE_MODE_COUNT] = { 0 },
};
static const struct word engine_words[] = {
        [ENGINE_AUTO] = { .name = "auto" },
        [ENGINE_FUSE] = { .name = "fuse" },
        [ENGINE_OVERLAY] = { .name = "overlay" },
        [WORKSPACE_ENGINE_COUNT] = { 0 },
};
static const struct word source_change_words[] = {
        [SOURCE_CHANGE_STOP] = { .name = "stop" },
        [SOURCE_CHANGE_PIN] = { .name = "pin" },
        [SOURCE_CHANGE_COUNT] = { 0 },
};
static const struct word land_words[] = {
        [LAND_COMMAND] = { .name = "command" },
        [LAND_SUCCESS] = { .name = "success" },
        [LAND_STOP] = { .name = "stop" },
        [LAND_COUNT] = { 0 },
};
static const struct word upper_words[] = {
        [MOUNT_UPPER_DISK] = { .name = "disk" },
        [MOUNT_UPPER_TMPFS] = { .name = "tmpfs" },
        [MOUNT_UPPER_COUNT] = { 0 },
};
static const struct word host_state_words[] = {
        [HOST_STATE_AUTO] = { .name = "auto" },
        [HOST_STATE_NONE] = { .name = "none" },
        [HOST_STATE_COUNT] = { 0 },
};
static const struct word network_words[] = {
        [NETWORK_NONE] = { .name = "none" },
        [NETWORK_ALLOWLIST] = { .name = "allowlist" },
        [NETWORK_DENYLIST] = { .name = "denylist" },
        [NETWORK_OPEN] = { .name = "open" },
        [NETWORK_MODE_COUNT] = { 0 },
};
static const struct word do_words[] = {
        [GUARD_ALLOW] = { .name = "allow" },
        [GUARD_HOLD] = { .name = "hold" },
        [GUARD_PROTECT] = { .name = "protect" },
        [GUARD_HIDE] = { .name = "hide" },
        [GUARD_DO_COUNT] = { 0 },
};
static const struct word mount_words[] = {
        [MOUNT_BIND] = { .name = "bind" },
        [MOUNT_TMPFS] = { .name = "tmpfs" },
        [MOUNT_OVERLAY] = { .name = "overlay" },
        [MOUNT_CACHE] = { .name = "cache" },
        [MOUNT_TYPE_COUNT] = { 0 },
};

static const struct word model_auth_words[] = {
        [MODEL_AUTH_NONE] = { .name = "none" },
        [MODEL_AUTH_PROXIED] = { .name = "proxied" },
        [MODEL_AUTH_COUNT] = { 0 },
};
static const struct word as_words[] = {
        { .name = "proxied" },
        { .name = "file" },
        { .name = "env" },
        { 0 },
};

const struct key spec_keys[] = {
        { SECTION_ROOT, "version", KEY_NUMBER, AT(version), .min = 1, .max = 1, .fallback = "1",
          .help = "version of this format" },
        { SECTION_ROOT, "mode", KEY_ENUM, AT(mode), .words = mode_words, .fallback = "auto", .flag = "mode",
          .metavar = "MODE", .trust = TRUST_WORKFLOW,
          .help = "auto: isolate, or degrade and say so; inline: exactly this or refuse; none: no sandbox" },
        { SECTION_ROOT, "driver", KEY_WORD, AT(driver), .words = driver_words, .fallback = "auto",
          .flag = "driver", .letter = 'd', .metavar = "NAME", .trust = TRUST_WORKFLOW,
          .help = "who builds the sandbox; noop: nobody, commands run on the host" },
        { SECTION_ROOT, "isolation", KEY_ENUM, AT(isolation), .words = isolation_words, .fallback = "strict",
          .flag = "isolation", .metavar = "LEVEL", .trust = TRUST_WORKFLOW,
          .help = "strict: refuse when the host cannot do what was asked; degrade: do with less and say so" },
        { SECTION_ROOT, "name", KEY_STRING, AT(name), .max = 64, .check = check_name, .flag = "name",
          .metavar = "NAME", .trust = TRUST_WORKFLOW,
          .help = "a name for the run, for diff, apply and discard" },
        { SECTION_ROOT, "image", KEY_STRING, AT(image), .min = 1, .check = check_image, .flag = "image",
          .metavar = "REF", .help = "root of the sandbox: an image" },
        { SECTION_ROOT, "rootfs", KEY_PATH, AT(rootfs), .flag = "rootfs", .metavar = "DIR",
          .trust = TRUST_WORKFLOW, .help = "root of the sandbox: a directory that holds a root file system" },
        { SECTION_ROOT, "repository", KEY_BOOL, AT(repository), .fallback = "true", .flag = "repository",
          .trust = TRUST_WORKFLOW,
          .help = "the workspace's .cofferdam.yaml and devcontainer.json say how to work on it, as far as a "
                  "repository may" },
        { SECTION_ROOT, "host_root", KEY_BOOL, AT(host_root), .fallback = "false", .flag = "host-root",
          .trust = TRUST_WORKFLOW,
          .help = "root of the sandbox: the host's, read-only; what happens anyway when no other is given" },
        { SECTION_ROOT, "user", KEY_STRING, AT(user), .max = 64, .check = check_user, .flag = "user",
          .letter = 'u', .metavar = "UID[:GID]|NAME", .trust = TRUST_WORKFLOW,
          .help = "who the command is; not given: the user of the image, else the caller" },
        { SECTION_ROOT, "keep", KEY_BOOL, AT(keep), .fallback = "false", .flag = "keep",
          .trust = TRUST_WORKFLOW,
          .help = "keep the run's directory at its end also when it holds no changes" },
        { SECTION_ROOT, "host_state", KEY_ENUM, AT(host_state), .words = host_state_words, .fallback = "auto",
          .flag = "host-state", .metavar = "WHICH", .trust = TRUST_WORKFLOW,
          .help = "auto: git settings of the caller that run nothing, and ~/.claude.json, are seeded, and "
                  "caches of package managers are shown; none: git name and e-mail only" },
        { SECTION_ROOT, "mounts", KEY_MOUNTS, LIST(mounts, n_mounts), .max = 256, .flag = "mount",
          .metavar = "STRING",
          .help = "a further mount: type=bind|tmpfs|overlay|cache, source=, target=, readonly, size=, "
                  "upper=, joined by commas; or type=pvc|configmap|secret, as kubernetes.volumes has it" },
        { SECTION_ROOT, "allow_sensitive", KEY_PATHS, LIST(allow_sensitive, n_allow_sensitive), .max = 64,
          .flag = "allow-sensitive", .metavar = "PATH", .trust = TRUST_OPERATOR,
          .help = "a bind source that is refused by default, allowed by its exact path" },
        { SECTION_ROOT, "env", KEY_ENV, LIST(env, n_env), .max = 4096, .flag = "env", .letter = 'e',
          .metavar = "NAME[=VALUE]",
          .help = "a variable for the command; without a value it is taken from the caller's environment" },
        { SECTION_ROOT, "post_create", KEY_STRING, AT(post_create), .min = 1, .flag = "post-create",
          .metavar = "SNIPPET", .max = 65536,
          .help = "shell commands to run once, inside, before the first command" },
        { SECTION_ROOT, "secrets", KEY_SECRETS, LIST(secrets, n_secrets), .max = SECRETS_MAX,
          .flag = "secret", .metavar = "NAME=SOURCE,...", .trust = TRUST_OPERATOR,
          .help = "a credential that stays outside: the command gets a token in its place, and a relay that "
                  "puts "
                  "the credential into requests to the hosts" },
        { SECTION_ROOT, "model_auth", KEY_ENUM, AT(model_auth), .words = model_auth_words, .fallback = "none",
          .flag = "model-auth", .metavar = "HOW", .trust = TRUST_WORKFLOW,
          .help = "proxied: ANTHROPIC_BASE_URL and ANTHROPIC_AUTH_TOKEN lead to a relay, and the caller's "
                  "CLAUDE_CODE_OAUTH_TOKEN, else ANTHROPIC_API_KEY, stays outside" },

        { SECTION_BUILD, "dockerfile", KEY_PATH, AT(build.dockerfile),
          .help = "file to build the image from, inside 'context'; not given: Dockerfile" },
        { SECTION_BUILD, "context", KEY_PATH, AT(build.context),
          .help = "directory the build may read; not given: that of 'dockerfile'" },
        { SECTION_BUILD, "args", KEY_ENV, LIST(build.args, build.n_args), .max = 256,
          .help = "build arguments by name; without a value one is taken from the caller's environment" },
        { SECTION_BUILD, "target", KEY_STRING, AT(build.target), .min = 1, .max = 128, .check = check_stage,
          .help = "the stage to stop at; not given: the last" },

        { SECTION_WORKSPACE, "source", KEY_PATH, AT(workspace.source), .flag = "workspace", .letter = 'w',
          .metavar = "DIR", .trust = TRUST_WORKFLOW,
          .help = "the directory to work on; not given: the current one" },
        { SECTION_WORKSPACE, "target", KEY_TARGET, AT(workspace.target), .flag = "workspace-target",
          .metavar = "DIR", .trust = TRUST_WORKFLOW, .help = "its path inside; not given: the same path" },
        { SECTION_WORKSPACE, "mode", KEY_ENUM, AT(workspace.mode), .words = workspace_mode_words,
          .fallback = "direct", .flag = "workspace-mode", .metavar = "MODE", .trust = TRUST_WORKFLOW,
          .help = "direct: writes land at once, but for the guard's rules; staged: they are kept in the run "
                  "and land when the command ends, but for the guard's rules; cow: they are kept until they "
                  "are applied; ro: read-only" },
        { SECTION_WORKSPACE, "cache", KEY_ENUM, AT(workspace.cache), .words = cache_words,
          .fallback = "shared", .trust = TRUST_WORKFLOW,
          .help = "shared: others may edit on the host at the same time; exclusive: the run is the only "
                  "writer, and nothing is asked twice until another one is seen" },
        { SECTION_WORKSPACE, "engine", KEY_ENUM, AT(workspace.engine), .words = engine_words,
          .fallback = "auto", .flag = "engine", .metavar = "NAME", .trust = TRUST_WORKFLOW,
          .help = "what takes the writes of a staged or cow workspace: the guard (fuse), or the kernel "
                  "(overlay), which is faster and judges nothing before it lands" },
        { SECTION_WORKSPACE, "land", KEY_ENUM, AT(workspace.land), .words = land_words, .fallback = "command",
          .flag = "land", .metavar = "WHEN", .trust = TRUST_WORKFLOW,
          .help = "when allowed changes of a staged workspace reach the host" },
        { SECTION_WORKSPACE, "on_source_change", KEY_ENUM, AT(workspace.on_source_change),
          .words = source_change_words, .fallback = "pin", .trust = TRUST_WORKFLOW,
          .help = "when the path leads to something else on the host: pin: go on with the directory of the "
                  "start; stop: end the run" },
        { SECTION_WORKSPACE, "bypass", KEY_DIRS, LIST(workspace.bypass, workspace.n_bypass), .max = 32,
          .flag = "bypass", .metavar = "DIR", .trust = TRUST_OPERATOR,
          .help = "a directory of the workspace, by its path below it, that the guard does not serve: it is "
                  "bound as it is, no rule holds in it" },

        { SECTION_GUARD, "rules", KEY_RULES, LIST(guard.rules, guard.n_rules), .max = 1024,
          .help = "what happens to writes, by path; the last match wins" },
        { SECTION_GUARD, "defaults", KEY_BOOL, AT(guard.defaults), .fallback = "true",
          .flag = "guard-defaults", .trust = TRUST_WORKFLOW, .help = "the built-in rules come first" },

        { SECTION_HOME, "size", KEY_SIZE, AT(home.size), .min = 65536, .max = 1ULL << 42, .unit = "bytes",
          .fallback = "1Gi", .flag = "home-size", .metavar = "SIZE", .trust = TRUST_WORKFLOW,
          .help = "what the home can hold" },
        { SECTION_HOME, "seed", KEY_SEEDS, LIST(home.seeds, home.n_seeds), .max = 256, .flag = "seed",
          .metavar = "PATH[:TARGET]", .trust = TRUST_WORKFLOW,
          .help = "a host file or directory that is copied into the home before the start" },
        { SECTION_HOME, "seed_max", KEY_SIZE, AT(home.seed_max), .min = 1, .max = 1ULL << 40, .unit = "bytes",
          .fallback = "16Mi", .trust = TRUST_WORKFLOW, .help = "how large one seed may be" },
        { SECTION_HOME, "seed_files", KEY_NUMBER, AT(home.seed_files), .min = 1, .max = 1000000,
          .fallback = "4096", .trust = TRUST_WORKFLOW, .help = "how many files one seed may have" },
        { SECTION_HOME, "persist", KEY_PATHS, LIST(home.persist, home.n_persist), .max = 64,
          .trust = TRUST_WORKFLOW,
          .help = "a directory of the caller's home that is shown; changes are kept in the run until they "
                  "are "
                  "applied" },
        { SECTION_HOME, "toolchains", KEY_BOOL, AT(home.toolchains), .fallback = "true", .flag = "toolchains",
          .trust = TRUST_WORKFLOW,
          .help = "toolchains of the caller's home that are in PATH are shown, read-only" },

        { SECTION_TMP, "size", KEY_SIZE, AT(tmp.size), .min = 65536, .max = 1ULL << 42, .unit = "bytes",
          .fallback = "512Mi", .flag = "tmp-size", .metavar = "SIZE", .trust = TRUST_WORKFLOW,
          .help = "what /tmp can hold" },

        { SECTION_NETWORK, "mode", KEY_ENUM, AT(network.mode), .words = network_words, .fallback = "none",
          .flag = "network", .metavar = "MODE", .trust = TRUST_WORKFLOW,
          .help = "none: only the sandbox's own loopback; allowlist: and what the rules allow, through a "
                  "proxy; denylist: and what no rule denies; open: the host's network" },
        { SECTION_NETWORK, "preset", KEY_STRING, AT(network.preset), .min = 1, .flag = "preset",
          .metavar = "NAME[,NAME...]", .trust = TRUST_WORKFLOW,
          .help = "lists of allowed names that come with cofferdam, before the rules: default, none, "
                  "package-registries, code-hosts, model-apis" },
        { SECTION_NETWORK, "rules", KEY_HOSTS, LIST(network.rules, network.n_rules), .max = 32768,
          .trust = TRUST_WORKFLOW,
          .help = "a host that is allowed, or with '!' denied; the last match wins" },
        { SECTION_NETWORK, "transparent", KEY_BOOL, AT(network.transparent), .fallback = "true",
          .flag = "transparent", .trust = TRUST_WORKFLOW,
          .help = "with an allowlist or denylist: programs that ignore proxy variables are led through the "
                  "proxy too" },

        { SECTION_LIMITS, "memory", KEY_SIZE, AT(limits.memory), .min = 1 << 20, .max = 1ULL << 50,
          .unit = "bytes", .flag = "memory", .metavar = "SIZE", .trust = TRUST_WORKFLOW,
          .help = "memory of all processes together" },
        { SECTION_LIMITS, "cpus", KEY_STRING, AT(limits.cpus), .max = 16, .check = check_cpus, .flag = "cpus",
          .metavar = "N", .trust = TRUST_WORKFLOW, .help = "processors' worth of time, such as 1.5" },
        { SECTION_LIMITS, "pids", KEY_NUMBER, AT(limits.pids), .min = 2, .max = 4194304, .flag = "pids",
          .metavar = "N", .trust = TRUST_WORKFLOW,
          .help = "processes and threads at the same time, the sandbox's first one included" },
        { SECTION_LIMITS, "disk", KEY_SIZE, AT(limits.disk), .min = 65536, .max = 1ULL << 50, .unit = "bytes",
          .flag = "disk", .metavar = "SIZE", .trust = TRUST_WORKFLOW,
          .help = "what the run may hold of changes in staged and cow regions, and a file for each 4 KiB "
                  "of it; not given: what the disk has" },
        { SECTION_LIMITS, "open_files", KEY_NUMBER, AT(limits.open_files), .min = 64, .max = 1 << 30,
          .trust = TRUST_WORKFLOW, .help = "descriptors of one process" },
        { SECTION_LIMITS, "file_size", KEY_SIZE, AT(limits.file_size), .min = 1, .max = 1ULL << 62,
          .unit = "bytes", .trust = TRUST_WORKFLOW, .help = "size of one file" },
        { SECTION_LIMITS, "timeout", KEY_DURATION, AT(limits.timeout_ms), .min = 1000, .max = 31536000000,
          .unit = "ms", .flag = "timeout", .metavar = "DURATION", .trust = TRUST_WORKFLOW,
          .help = "how long the run may take before it is ended, exit code 124; not given: as long as it "
                  "will" },

        { SECTION_SECURITY, "seccomp", KEY_STRING, AT(security.seccomp), .min = 1, .fallback = "default",
          .check = check_seccomp, .trust = TRUST_OPERATOR,
          .help = "the system call filter: default, or the absolute path of a profile in the OCI's "
                  "JSON form" },
        { SECTION_SECURITY, "nested_userns", KEY_BOOL, AT(security.nested_userns), .fallback = "false",
          .trust = TRUST_OPERATOR,
          .help = "the command may make user namespaces, and in them mounts and other namespaces, and finds "
                  "/dev/fuse: for a sandbox inside. More of the kernel can be reached" },
        { SECTION_SECURITY, "no_new_privs", KEY_BOOL, AT(security.no_new_privs), .fallback = "true",
          .trust = TRUST_OPERATOR, .instead = "use 'true'",
          .help = "set-user-ID and file capabilities have no effect" },

        { SECTION_AUTH_PROXY, "url", KEY_STRING, AT(auth_proxy.url), .min = 1, .check = check_service,
          .flag = "auth-proxy", .metavar = "URL", .trust = TRUST_OPERATOR,
          .help = "a service that holds the credentials: http://HOST:PORT or unix:PATH; not given: one of "
                  "the run's own, except for driver kubernetes, whose pods ask this one themselves" },
        { SECTION_AUTH_PROXY, "admin_url", KEY_STRING, AT(auth_proxy.admin_url), .min = 1,
          .check = check_service, .trust = TRUST_OPERATOR,
          .help = "where it issues tokens, with the key in IRONFLOW_AUTH_PROXY_ADMIN_KEY; not given: the "
                  "same" },
        { SECTION_AUTH_PROXY, "options", KEY_STRING, AT(auth_proxy.options), .min = 1,
          .trust = TRUST_OPERATOR,
          .help = "options of cofferdam-auth-proxy for the run's own one, separated by blanks" },

        { SECTION_KUBERNETES, "kubeconfig", KEY_PATH, AT(kubernetes.kubeconfig), .trust = TRUST_OPERATOR,
          .help = "file that says which cluster; not given: KUBECONFIG, ~/.kube/config, or the service "
                  "account of the pod that cofferdam is in" },
        { SECTION_KUBERNETES, "context", KEY_STRING, AT(kubernetes.context), .min = 1,
          .trust = TRUST_OPERATOR, .help = "context of that file; not given: its current one" },
        { SECTION_KUBERNETES, "namespace", KEY_STRING, AT(kubernetes.ns), .min = 1, .trust = TRUST_WORKFLOW,
          .help = "where everything is made; not given: that of the context" },
        { SECTION_KUBERNETES, "sandboxed", KEY_BOOL, AT(kubernetes.sandboxed), .fallback = "true",
          .trust = TRUST_OPERATOR,
          .help = "user 10001, read-only root, no capabilities, seccomp, no token of a service account, no "
                  "secret in clear text; false: none of it" },
        { SECTION_KUBERNETES, "allow_writable_root", KEY_BOOL, AT(kubernetes.allow_writable_root),
          .fallback = "false", .trust = TRUST_WORKFLOW,
          .help = "of a sandboxed pod: its root can be written" },
        { SECTION_KUBERNETES, "home_size", KEY_STRING, AT(kubernetes.home_size), .min = 1,
          .trust = TRUST_WORKFLOW,
          .help = "of a sandboxed pod: what /home/claude can hold, as Kubernetes writes it; not given: 1Gi" },
        { SECTION_KUBERNETES, "tmp_size", KEY_STRING, AT(kubernetes.tmp_size), .min = 1,
          .trust = TRUST_WORKFLOW, .help = "of a sandboxed pod: what /tmp can hold; not given: 512Mi" },
        { SECTION_KUBERNETES, "workspace_size", KEY_STRING, AT(kubernetes.workspace_size), .min = 1,
          .fallback = "10Gi", .trust = TRUST_WORKFLOW, .help = "what the workspace can hold" },
        { SECTION_KUBERNETES, "deadline_margin", KEY_DURATION, AT(kubernetes.deadline_margin_ms), .min = 1000,
          .max = 31536000000, .unit = "ms", .fallback = "60s", .trust = TRUST_WORKFLOW,
          .help = "of a sandboxed pod: how long after limits.timeout the cluster ends it, if nobody else "
                  "did" },
        { SECTION_KUBERNETES, "active_deadline", KEY_DURATION, AT(kubernetes.active_deadline_ms), .min = 1000,
          .max = 31536000000, .unit = "ms", .trust = TRUST_WORKFLOW,
          .help = "when the cluster ends it, outright" },
        { SECTION_KUBERNETES, "run_as_user", KEY_NUMBER, AT(kubernetes.run_as_user), .min = 1,
          .max = 2147483647, .trust = TRUST_WORKFLOW,
          .help = "of a sandboxed pod: user, group and fsGroup in place of 10001, never 0" },
        { SECTION_KUBERNETES, "service_account", KEY_STRING, AT(kubernetes.service_account), .min = 1,
          .trust = TRUST_OPERATOR, .help = "its token is mounted" },
        { SECTION_KUBERNETES, "runtime_class", KEY_STRING, AT(kubernetes.runtime_class), .min = 1,
          .trust = TRUST_WORKFLOW, .help = "RuntimeClass such as gvisor; not given: the cluster's default" },
        { SECTION_KUBERNETES, "egress_profile", KEY_STRING, AT(kubernetes.egress_profile), .min = 1,
          .trust = TRUST_WORKFLOW, .help = "label that network policies of the cluster select by" },
        { SECTION_KUBERNETES, "env_from_secret", KEY_TEXTS,
          LIST(kubernetes.env_from_secret, kubernetes.n_env_from_secret), .max = 256, .trust = TRUST_OPERATOR,
          .help = "a variable whose value is in a Secret of the namespace: NAME=SECRET/KEY" },
        { SECTION_KUBERNETES, "credentials_secret", KEY_STRING, AT(kubernetes.credentials_secret), .min = 1,
          .trust = TRUST_OPERATOR, .help = "SECRET/KEY that becomes ~/.claude/.credentials.json" },
        { SECTION_KUBERNETES, "volumes", KEY_TEXTS, LIST(kubernetes.volumes, kubernetes.n_volumes),
          .max = 256, .trust = TRUST_OPERATOR,
          .help = "a volume: type=pvc, configmap, secret, scratch or host, source=, target=, sub_path=, "
                  "key=, size=, class=, name=, readonly, joined by commas" },
        { SECTION_KUBERNETES, "claude_profiles", KEY_TEXTS, LIST(kubernetes.profiles, kubernetes.n_profiles),
          .max = 256, .trust = TRUST_OPERATOR,
          .help = "a ConfigMap whose files are copied into ~/.claude, or below it: CONFIGMAP[:SUBDIR]" },
        { SECTION_KUBERNETES, "managed_settings_presets", KEY_ENV,
          LIST(kubernetes.presets, kubernetes.n_presets), .max = 256, .trust = TRUST_OPERATOR,
          .help = "ConfigMaps with managed-settings.json by name" },
        { SECTION_KUBERNETES, "managed_settings", KEY_STRING, AT(kubernetes.managed_settings), .min = 1,
          .trust = TRUST_WORKFLOW, .help = "which of managed_settings_presets is mounted" },
        { SECTION_KUBERNETES, "sessions_volume", KEY_STRING, AT(kubernetes.sessions_volume), .min = 1,
          .trust = TRUST_OPERATOR,
          .help = "of a sandboxed pod: a claim for ~/.claude/projects, which must exist" },
        { SECTION_KUBERNETES, "environment_volume", KEY_TARGET, AT(kubernetes.environment_volume),
          .trust = TRUST_WORKFLOW,
          .help = "where a claim is mounted that outlives the pod; made when resume_environment names none" },
        { SECTION_KUBERNETES, "environment_size", KEY_STRING, AT(kubernetes.environment_size), .min = 1,
          .fallback = "10Gi", .trust = TRUST_WORKFLOW, .help = "of a claim that is made" },
        { SECTION_KUBERNETES, "environment_storage_class", KEY_STRING,
          AT(kubernetes.environment_storage_class), .min = 1, .trust = TRUST_WORKFLOW,
          .help = "of a claim that is made; not given: the cluster's default" },
        { SECTION_KUBERNETES, "environment_ttl", KEY_DURATION, AT(kubernetes.environment_ttl_ms), .min = 1000,
          .max = 31536000000, .unit = "ms", .fallback = "168h", .trust = TRUST_WORKFLOW,
          .help = "how long after its last use the claim may be reaped" },
        { SECTION_KUBERNETES, "resume_environment", KEY_STRING, AT(kubernetes.resume_environment), .min = 1,
          .trust = TRUST_WORKFLOW, .help = "the claim of an earlier run to go on with" },
        { SECTION_KUBERNETES, "node_selector", KEY_ENV,
          LIST(kubernetes.node_selector, kubernetes.n_node_selector), .max = 256, .trust = TRUST_OPERATOR,
          .help = "labels that the node must have" },
        { SECTION_KUBERNETES, "tolerations", KEY_TEXTS,
          LIST(kubernetes.tolerations, kubernetes.n_tolerations), .max = 256, .trust = TRUST_OPERATOR,
          .help = "taints that the node may have: KEY[=VALUE]:EFFECT, several joined by commas" },
        { SECTION_KUBERNETES, "spread_key", KEY_STRING, AT(kubernetes.spread_key), .min = 1,
          .trust = TRUST_OPERATOR,
          .help = "label of nodes over whose values runs are spread where possible, such as "
                  "topology.kubernetes.io/zone" },
        { SECTION_KUBERNETES, "cpu_request", KEY_STRING, AT(kubernetes.cpu_request), .min = 1,
          .trust = TRUST_WORKFLOW, .help = "what a node must have free; not given: limits.cpus" },
        { SECTION_KUBERNETES, "memory_request", KEY_STRING, AT(kubernetes.memory_request), .min = 1,
          .trust = TRUST_WORKFLOW, .help = "what a node must have free; not given: limits.memory" },
        { SECTION_KUBERNETES, "disk_request", KEY_STRING, AT(kubernetes.disk_request), .min = 1,
          .trust = TRUST_WORKFLOW, .help = "what a node must have free; not given: 1Gi" },
        { SECTION_KUBERNETES, "image_pull_policy", KEY_STRING, AT(kubernetes.image_pull_policy), .min = 1,
          .fallback = "IfNotPresent", .trust = TRUST_WORKFLOW, .help = "Always, IfNotPresent or Never" },
        { SECTION_KUBERNETES, "image_pull_secrets", KEY_TEXTS,
          LIST(kubernetes.image_pull_secrets, kubernetes.n_image_pull_secrets), .max = 256,
          .trust = TRUST_OPERATOR, .help = "Secrets with credentials of registries" },
        { SECTION_KUBERNETES, "labels", KEY_ENV, LIST(kubernetes.labels, kubernetes.n_labels), .max = 256,
          .trust = TRUST_WORKFLOW, .help = "further labels of the pod" },
        { SECTION_KUBERNETES, "managed_by", KEY_STRING, AT(kubernetes.managed_by), .min = 1,
          .fallback = "ironflow", .trust = TRUST_OPERATOR,
          .help = "value of app.kubernetes.io/managed-by, by which gc finds what is ours" },
        { SECTION_KUBERNETES, "label_domain", KEY_STRING, AT(kubernetes.label_domain), .min = 1,
          .fallback = "ironflow.io", .trust = TRUST_OPERATOR,
          .help = "domain of the labels run-id, root-run-id, step, egress-profile and of the annotation "
                  "expires-at" },
        { SECTION_KUBERNETES, "run_id", KEY_STRING, AT(kubernetes.run_id), .min = 1, .trust = TRUST_WORKFLOW,
          .help = "value of the label run-id; not given: the run's own" },
        { SECTION_KUBERNETES, "root_run_id", KEY_STRING, AT(kubernetes.root_run_id), .min = 1,
          .trust = TRUST_WORKFLOW, .help = "value of the label root-run-id; not given: run_id" },
        { SECTION_KUBERNETES, "step", KEY_STRING, AT(kubernetes.step), .min = 1, .trust = TRUST_WORKFLOW,
          .help = "value of the label step; a pod of an earlier attempt of the same step of the same run is "
                  "removed first" },
        { SECTION_KUBERNETES, "owner_pod", KEY_STRING, AT(kubernetes.owner_pod), .min = 1,
          .trust = TRUST_OPERATOR, .help = "NAME/UID of a pod with which everything ends" },
        { SECTION_KUBERNETES, "previous_attempt_timeout", KEY_DURATION,
          AT(kubernetes.previous_attempt_timeout_ms), .min = 1000, .max = 31536000000, .unit = "ms",
          .fallback = "60s", .trust = TRUST_WORKFLOW,
          .help = "how long to wait for the end of an earlier attempt" },
        { SECTION_KUBERNETES, "start_timeout", KEY_DURATION, AT(kubernetes.start_timeout_ms), .min = 1000,
          .max = 31536000000, .unit = "ms", .fallback = "10m", .trust = TRUST_WORKFLOW,
          .help = "how long the pod may take until it runs: no node has room for it, its image is fetched" },
        { SECTION_KUBERNETES, "copy_timeout", KEY_DURATION, AT(kubernetes.copy_timeout_ms), .min = 1000,
          .max = 31536000000, .unit = "ms", .fallback = "30m", .trust = TRUST_WORKFLOW,
          .help = "how long the workspace may take to go into the pod, and to come back; what has not come "
                  "back then is lost" },
        { SECTION_KUBERNETES, "network_policy", KEY_BOOL, AT(kubernetes.network_policy), .fallback = "false",
          .trust = TRUST_OPERATOR,
          .help = "make a NetworkPolicy for the run; needs a right that the worker usually has not" },
};

const struct key item_keys[] = {
        { ITEM_RULE, "path", KEY_STRING, IN(spec_rule, path), .check = check_glob, .metavar = "GLOB",
          .help = "gitignore-like pattern below the workspace" },
        { ITEM_RULE, "do", KEY_ENUM, IN(spec_rule, action), .words = do_words, .metavar = "WHAT",
          .help = "allow: as the workspace; hold: visible inside, lands by apply; protect: no writes; hide: "
                  "not "
                  "there" },

        { ITEM_SEED, "from", KEY_PATH, IN(spec_seed, from), .metavar = "PATH",
          .help = "host file or directory" },
        { ITEM_SEED, "to", KEY_TARGET, IN(spec_seed, to), .metavar = "PATH",
          .help = "path inside the home; not given: the same" },
        { ITEM_SEED, "mode", KEY_OCTAL, IN(spec_seed, mode), .max = 0777, .fallback = "0600",
          .metavar = "MODE", .help = "permissions of the copy" },

        { ITEM_MOUNT, "type", KEY_ENUM, IN(spec_mount, type), .words = mount_words, .metavar = "TYPE",
          .help = "bind: a host path; tmpfs: an empty directory in memory; overlay: a host directory whose "
                  "changes are kept in the run; cache: the same, at the same path" },
        { ITEM_MOUNT, "source", KEY_PATH, IN(spec_mount, source), .metavar = "PATH", .help = "host path" },
        { ITEM_MOUNT, "target", KEY_TARGET, IN(spec_mount, target), .metavar = "PATH",
          .help = "path inside; a cache: not given, the same" },
        { ITEM_MOUNT, "readonly", KEY_BOOL, IN(spec_mount, readonly), .fallback = "false",
          .help = "no writes through this mount" },
        { ITEM_MOUNT, "size", KEY_SIZE, IN(spec_mount, size), .min = 65536, .max = 1ULL << 42,
          .unit = "bytes", .metavar = "SIZE", .help = "what a tmpfs, or an upper in memory, can hold" },
        { ITEM_MOUNT, "upper", KEY_ENUM, IN(spec_mount, upper), .words = upper_words, .fallback = "disk",
          .metavar = "WHERE",
          .help = "of an overlay or cache: changes are kept in the run (disk), or in memory until its end "
                  "(tmpfs)" },
        { ITEM_MOUNT, "shared", KEY_BOOL, IN(spec_mount, shared), .fallback = "false",
          .help = "of a cache: writes go to the host at once" },
        { ITEM_MOUNT, "on_source_change", KEY_ENUM, IN(spec_mount, on_source_change),
          .words = source_change_words, .fallback = "stop", .metavar = "WHAT",
          .help = "when the path of a bind leads to something else on the host: stop: end the run, but "
                  "follow "
                  "an editor that replaces a file; pin: go on with what was there at the start" },

        { ITEM_SECRET, "name", KEY_STRING, IN(spec_secret, name), .check = check_secret_name,
          .help = "what logs call it, and the variable that gets the token; NAME_URL gets the relay. As "
                  "file: "
                  "its name in /run/secrets" },
        { ITEM_SECRET, "env", KEY_STRING, IN(spec_secret, env), .check = check_secret_env,
          .help = "the variable, when it is another; as file: a variable that gets the path" },
        { ITEM_SECRET, "from", KEY_TAGGED, IN(spec_secret, from), .check = check_secret_from,
          .help = "where the credential is on the host: {env: NAME} or {file: PATH}" },
        { ITEM_SECRET, "as", KEY_WORD, IN(spec_secret, as), .words = as_words, .fallback = "proxied",
          .help = "how it reaches the command: proxied: a token stands for it; file: a file in /run/secrets, "
                  "which nobody inside can write and 'cofferdam secret' replaces; env: a variable" },
        { ITEM_SECRET, "path", KEY_TARGET, IN(spec_secret, path),
          .help = "as file: a link to it at this path inside, in the home or /tmp" },
        { ITEM_SECRET, "inject", KEY_TAGGED, IN(spec_secret, inject), .check = check_secret_inject,
          .fallback = "bearer",
          .help = "how it is put into a request: bearer, private_token, x_api_key, {basic: {username: NAME}} "
                  "or "
                  "{header: NAME}" },
        { ITEM_SECRET, "hosts", KEY_JOINED, IN(spec_secret, hosts), .max = 65536, .check = check_secret_hosts,
          .help = "the only hosts it is sent to, by name; *.DOMAIN is all below a domain" },

        { ITEM_ENV, "name", KEY_STRING, IN(spec_env, name), .max = 256, .check = check_env_name,
          .help = "name of the variable" },
        { ITEM_ENV, "value", KEY_STRING, IN(spec_env, value), .max = CHECK_ENV_MAX, .check = check_env_value,
          .secret = true, .help = "its value" },

        { ITEM_PATH, "path", KEY_PATH, .offset = 0, .help = "host path" },
        { ITEM_DIR, "path", KEY_STRING, .offset = 0, .check = check_below, .help = "relative path" },
        { ITEM_TEXT, "text", KEY_STRING, .offset = 0, .min = 1, .help = "one text" },
        { ITEM_HOST, "rule", KEY_STRING, .offset = 0, .max = 512, .check = check_glob,
          .help = "[!]HOST[:PORT|:*][/tcp]" },
};

static const struct {
        const char *name;
        const char *help;
} sections[] = {
        [SECTION_ROOT] = { "", "the specification of a run" },
        [SECTION_BUILD] = { "build", "root of the sandbox: an image built from a Dockerfile" },
        [SECTION_WORKSPACE] = { "workspace", "the directory that is worked on" },
        [SECTION_GUARD] = { "guard", "what the work may do to the workspace" },
        [SECTION_HOME] = { "home", "the home directory inside, in memory" },
        [SECTION_TMP] = { "tmp", "/tmp inside, in memory" },
        [SECTION_NETWORK] = { "network", "what the work can reach" },
        [SECTION_LIMITS] = { "limits", "how much the work may use" },
        [SECTION_SECURITY] = { "security", "what the kernel forbids" },
        [SECTION_AUTH_PROXY] = { "auth_proxy", "who holds the credentials that stay outside" },
        [SECTION_KUBERNETES] = { "kubernetes", "what driver kubernetes makes; other drivers do without" },
        [ITEM_RULE] = { "rule", "one rule of the guard" },
        [ITEM_SEED] = { "seed", "one file or directory to copy" },
        [ITEM_MOUNT] = { "mount", "one mount" },
        [ITEM_SECRET] = { "secret", "one credential" },
        [ITEM_ENV] = { "variable", "one variable" },
        [ITEM_PATH] = { "path", "one path" },
        [ITEM_DIR] = { "directory", "one directory" },
        [ITEM_HOST] = { "rule", "one rule of the network" },
        [ITEM_TEXT] = { "text", "one text" },
};
static_assert(ARRAY_SIZE(sections) == ITEM_END, "sections[] and enum section differ");

size_t spec_key_count(void) {
        return ARRAY_SIZE(spec_keys);
}

size_t item_key_count(void) {
        return ARRAY_SIZE(item_keys);
}

const char *section_name(enum section section) {
        return sections[section].name;
}

const char *section_help(enum section section) {
        return sections[section].help;
}

static const struct key *key_table(enum section section, size_t *ret_n) {
        const bool item = section >= ITEM_RULE;

        *ret_n = item ? ARRAY_SIZE(item_keys) : ARRAY_SIZE(spec_keys);
        return item ? item_keys : spec_keys;
}

const struct key *key_find(enum section section, const char *name) {
        size_t n;
        const struct key *keys = key_table(section, &n);

        for (size_t i = 0; i < n; i++)
                if (keys[i].section == section && strcmp(keys[i].name, name) == 0)
                        return &keys[i];
        return NULL;
}

const char *key_nearest(enum section section, const char *name) {
        const char *names[NAMES_MAX];
        size_t n, n_names = 0;
        const struct key *keys = key_table(section, &n);

        static_assert(ARRAY_SIZE(spec_keys) + SECTION_COUNT <= NAMES_MAX, "raise NAMES_MAX");
        static_assert(ARRAY_SIZE(item_keys) <= NAMES_MAX, "raise NAMES_MAX");
        for (size_t i = 0; i < n; i++)
                if (keys[i].section == section)
                        names[n_names++] = keys[i].name;
        for (size_t i = SECTION_ROOT + 1; section == SECTION_ROOT && i < SECTION_COUNT; i++)
                names[n_names++] = sections[i].name;
        return suggest_name(name, names, n_names);
}

const struct key *key_by_flag(const char *name) {
        for (size_t i = 0; i < ARRAY_SIZE(spec_keys); i++)
                if (spec_keys[i].flag && strcmp(spec_keys[i].flag, name) == 0)
                        return &spec_keys[i];
        return NULL;
}

size_t key_index(const struct key *key) {
        assert(key >= spec_keys && key < spec_keys + ARRAY_SIZE(spec_keys));
        return (size_t) (key - spec_keys);
}

const char *key_path(const struct key *key, char out[static KEY_PATH_LEN]) {
        const char *section = sections[key->section].name;

        (void) snprintf(out, KEY_PATH_LEN, "%s%s%s", section, *section ? "." : "", key->name);
        return out;
}

bool key_is_list(const struct key *key) {
        return key->type >= KEY_RULES && key->type < KEY_TREE;
}

int word_find(const struct word *words, const char *text) {
        for (int i = 0; words[i].name; i++)
                if (strcmp(words[i].name, text) == 0)
                        return i;
        return -1;
}

enum spec_trust trust_of(enum spec_tier tier) {
        static const enum spec_trust trusts[] = {
                [TIER_BUILTIN] = TRUST_OPERATOR,  [TIER_REPOSITORY] = TRUST_REPOSITORY,
                [TIER_CONFIG] = TRUST_OPERATOR,   [TIER_ENVIRONMENT] = TRUST_OPERATOR,
                [TIER_WORKFLOW] = TRUST_WORKFLOW, [TIER_FLAG] = TRUST_OPERATOR,
        };

        static_assert(ARRAY_SIZE(trusts) == TIER_COUNT, "trusts[] and enum spec_tier differ");
        return trusts[tier];
}
