/*
 * args.c - the command line that makes a container
 *
 * Hardened: read-only root, no capability, no new privileges, the engine's own list of system calls, a bound
 * of processes, a user, temporary file systems of ours for all that can be written.
 *
 * The engines split what they are told at commas and colons, each in its own way and some versions
 * differently, so no path with both ever reaches them. What the run mounts does not reach them at all: they
 * get empty places to mount on, and two binds of ours.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "drivers/native/net.h"
#include "drivers/native/parts.h"
#include "drivers/oci/oci.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/escape.h"
#include "runtime/base/path.h"

enum {
        NPROC_MAX = 32768,   /* podman itself gives no more */
        USUAL_RANGE = 65536, /* of /etc/subuid */
};

static int cannot_tell(const char *path, const char *program, struct error *err) {
        return error_set(err, -EINVAL,
                         "'%s': %s cannot be told of a path with a control character, a quote, a backslash, "
                         "or both ',' and ':': rename it, or use --driver native",
                         ESC(path), program);
}

static bool can_be_told(const char *path) {
        for (const char *p = path; *p; p++)
                if ((unsigned char) *p < ' ' || *p == 0x7f || *p == '"' || *p == '\\')
                        return false;
        return !strchr(path, ',') || !strchr(path, ':');
}

static int add_bind(struct cli_args *args, const char *program, const char *source, const char *target,
                    bool readonly, struct error *err) {
        const bool comma = strchr(source, ',') || strchr(target, ',');

        if (!can_be_told(source) || !can_be_told(target) ||
            (comma && (strchr(source, ':') || strchr(target, ':'))))
                return cannot_tell(can_be_told(source) ? target : source, program, err);
        if (comma)
                cli_add_pair(args, "--volume", "%s:%s:%s", source, target, readonly ? "ro" : "rw");
        else
                cli_add_pair(args, "--mount", "type=bind,source=%s,target=%s%s", source, target,
                             readonly ? ",readonly" : "");
        return 0;
}

int oci_bind(struct cli_args *args, const char *program, const char *source, const char *target,
             struct error *err) {
        return add_bind(args, program, source, target, true, err);
}

/* What podman would copy into it from the image stays there: it is ours. */
static const char *empty(const char *program) {
        return strcmp(program, "podman") == 0 ? ",notmpcopyup" : "";
}

/* An empty place that can be mounted on. */
static int add_point(struct cli_args *args, const char *program, const char *target, bool is_file,
                     struct error *err) {
        if (is_file)
                return oci_bind(args, program, "/dev/null", target, err);
        if (!can_be_told(target))
                return cannot_tell(target, program, err);
        if (strchr(target, ':'))
                cli_add_pair(args, "--mount", "type=tmpfs,destination=%s,tmpfs-size=65536%s", target,
                             empty(program));
        else
                cli_add_pair(args, "--tmpfs", "%s:rw,nosuid,nodev,size=64k,mode=0755%s", target,
                             empty(program));
        return 0;
}

/* Whether the absolute @path lies in something that is mounted. */
static bool is_covered(const struct driver_plan *plan, const char *path) {
        for (size_t i = 0; i < plan->n_places; i++)
                if (path_below(path, plan->places[i].target))
                        return true;
        return false;
}

/* Where nobody enters, the engine mounts all there is. */
static int add_place(const struct driver_plan *plan, const struct native_place *p, struct cli_args *args,
                     struct error *err) {
        const char *const program = plan->oci->program;
        const struct native_tmpfs *tmpfs;

        if (p->region >= 0) {
                const struct native_region *r = &plan->regions[p->region];

                return add_bind(args, program, r->pin.real, r->target, r->kind == REGION_RO, err);
        }
        tmpfs = &plan->tmpfs[p->tmpfs];
        if (!can_be_told(tmpfs->target) || strchr(tmpfs->target, ':'))
                return cannot_tell(tmpfs->target, program, err);
        cli_add_pair(args, "--tmpfs", "%s:rw,exec,nosuid,nodev,size=%llu,mode=%o,uid=%u,gid=%u",
                     tmpfs->target, (unsigned long long) tmpfs->size_bytes, tmpfs->mode, plan->id.inside_uid,
                     plan->id.inside_gid);
        return 0;
}

static int add_places(const struct driver_plan *plan, struct cli_args *args, struct error *err) {
        int r = 0;

        for (size_t i = 0; r == 0 && i < plan->n_places; i++)
                r = add_place(plan, &plan->places[i], args, err);
        return r;
}

static int add_points(const struct driver_plan *plan, struct cli_args *args, struct error *err) {
        int r = 0;

        for (size_t i = 0; r == 0 && i < plan->n_files; i++)
                if (!is_covered(plan, plan->files[i].target))
                        r = add_point(args, plan->oci->program, plan->files[i].target, true, err);

        for (size_t i = 0; r == 0 && i < plan->n_places; i++) {
                const struct native_place *p = &plan->places[i];

                if (!place_cover(plan, i))
                        r = add_point(args, plan->oci->program, p->target,
                                      p->region >= 0 && plan->regions[p->region].is_file, err);
        }
        return r;
}

/* podman gives each container what it believes the machine allows; the caller may have less to give. */
static void add_ulimits(struct cli_args *args) {
        struct rlimit files, procs;

        if (getrlimit(RLIMIT_NOFILE, &files) < 0 || getrlimit(RLIMIT_NPROC, &procs) < 0)
                return;
        if (procs.rlim_max > NPROC_MAX)
                procs.rlim_max = NPROC_MAX;
        if (procs.rlim_cur > procs.rlim_max)
                procs.rlim_cur = procs.rlim_max;
        cli_add_pair(args, "--ulimit", "nofile=%llu:%llu", (unsigned long long) files.rlim_cur,
                     (unsigned long long) files.rlim_max);
        cli_add_pair(args, "--ulimit", "nproc=%llu:%llu", (unsigned long long) procs.rlim_cur,
                     (unsigned long long) procs.rlim_max);
}

static void add_limits(const struct driver_plan *plan, struct cli_args *args) {
        const struct cgroup_limits *g = &plan->limits.group;
        const unsigned long long memory = g->memory_bytes, milli = g->cpu_milli;

        if (!plan->limits.engine) /* it would warn that it limits nothing */
                return;
        cli_add_pair(args, "--pids-limit", "%llu", (unsigned long long) (g->pids ? g->pids : OCI_PIDS));
        if (memory) {
                cli_add_pair(args, "--memory", "%llu", memory);
                cli_add_pair(args, "--memory-swap", "%llu", memory);
        }
        if (milli)
                cli_add_pair(args, "--cpus", "%llu.%03llu", milli / 1000, milli % 1000);
}

void oci_label(struct cli_args *args, const char *state_dir) {
        cli_add_pair(args, "--label", OCI_MANAGED_LABEL "=" OCI_MANAGED_BY);
        cli_add_pair(args, "--label", OCI_STATE_LABEL "=%s", state_dir);
}

static void add_labels(const struct driver_plan *plan, const char *run_id, struct cli_args *args) {
        oci_label(args, plan->oci->state_dir);
        cli_add_pair(args, "--label", OCI_RUN_LABEL "=%s", run_id);
        cli_add_pair(args, "--label", OCI_ROOT_LABEL "=%s",
                     plan->oci->root_run ? plan->oci->root_run : run_id);
        cli_add_pair(args, "--label", OCI_STEP_LABEL "=%s", plan->oci->step);
        if (plan->oci->life_s)
                cli_add_pair(args, "--label", OCI_EXPIRES_LABEL "=%llu",
                             (unsigned long long) time(NULL) + plan->oci->life_s);
}

void oci_harden(struct cli_args *args, const char *program) {
        cli_add(args, "--read-only");
        cli_add_pair(args, "--cap-drop", "ALL");
        cli_add_pair(args, "--security-opt", "no-new-privileges");
        cli_add_pair(args, "--log-driver", "none");
        cli_add(args, "--no-healthcheck"); /* a program of the image, beside ours and before it */
        cli_add(args, "--init=false");     /* an engine may be told to put a process before ours */
        cli_add_pair(args, "--workdir", "/");
        /* an engine may be told to share them with the host, and shares that of version 1 of control groups
         */
        cli_add_pair(args, "--cgroupns", "private");
        cli_add_pair(args, "--ipc", "private");
        if (strcmp(program, "podman") == 0) {
                cli_add_pair(args, "--pid", "private"); /* docker has no word for it */
                cli_add_pair(args, "--uts", "private");
                cli_add(args, "--read-only-tmpfs=false");
                cli_add_pair(args, "--image-volume",
                             "ignore"); /* docker makes them: see freeze() in inject.c */
                add_ulimits(args);
        }
}

/* @id inside is the caller, the others are of his range, in order. */
static void add_map(struct cli_args *args, const char *option, unsigned int id) {
        if (id > 0)
                cli_add_pair(args, option, "0:1:%u", id);
        cli_add_pair(args, option, "%u:0:1", id);
        if (id + 1 < USUAL_RANGE)
                cli_add_pair(args, option, "%u:%u:%u", id + 1, id + 1, USUAL_RANGE - id - 1);
}

static void add_user(const struct driver_plan *plan, struct cli_args *args) {
        const struct native_id *id = &plan->id;

        cli_add_pair(args, "--user", "%u:%u", id->inside_uid, id->inside_gid);
        if (plan->network != NETWORK_OPEN)
                cli_add_pair(args, "--network", "none");
        /* root inside is the caller already where nothing else is said */
        if (!plan->oci->rootless || (id->inside_uid == 0 && id->inside_gid == 0))
                return;
        if (id->inside_uid != 0 && id->inside_gid != 0) {
                cli_add_pair(args, "--userns", "keep-id:uid=%u,gid=%u", id->inside_uid, id->inside_gid);
                return;
        }
        add_map(args, "--uidmap", id->inside_uid); /* keep-id of podman 4.3 does not do with one that is 0 */
        add_map(args, "--gidmap", id->inside_gid);
}

int oci_args(const struct driver_plan *plan, const struct start_request *req, const char *run_dir,
             const char *exe, struct cli_args *args, struct error *err) {
        const char *const program = plan->oci->program;
        AUTO_FREE char *ctl = NULL;
        int r;

        if (asprintf(&ctl, "%s/ctl", run_dir) < 0)
                return error_set(err, -ENOMEM, "out of memory");
        cli_add(args, "%s", program);
        cli_add(args, "run");
        if (!req->first) /* it stays without a command: DOC in launch.c */
                cli_add(args, "--detach");
        cli_add(args, "--rm");
        cli_add_pair(args, "--pull", "never");
        cli_add_pair(args, "--name", OCI_NAME "%s", req->run_id);
        add_labels(plan, req->run_id, args);
        oci_harden(args, program);
        add_user(plan, args);
        add_limits(plan, args);
        /* whoever works inside makes mount points in it before the first command, and nobody after that */
        cli_add_pair(args, "--tmpfs", OCI_DIR ":rw,nosuid,nodev,size=4m,mode=%s%s",
                     plan->oci->outside ? "0755" : "0777", empty(program));
        r = oci_bind(args, program, ctl, OCI_CTL, err);
        if (r == 0)
                r = oci_bind(args, program, exe, OCI_INIT, err);
        if (r == 0)
                r = plan->oci->outside ? add_places(plan, args, err) : add_points(plan, args, err);
        if (r == 0 && req->n_secrets > 0)
                r = add_point(args, program, SECRET_DIR, false, err);
        if (r < 0)
                return r;
        cli_add_pair(args, "--entrypoint", OCI_INIT);
        cli_add(args, "--");
        cli_add(args, "%s", plan->oci->image_id);
        cli_add(args, OCI_WORD);
        return 0;
}
