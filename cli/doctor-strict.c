#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/doctor.h"
#include "drivers/driver.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/escape.h"
#include "runtime/base/json.h"
#include "runtime/run/engine.h"
#include "runtime/spec/resolve.h"

static void add_check(struct report *report, const char *name, enum check_status status,
                      const char *message) {
        struct check *c = &report->checks[report->n_checks++];

        c->name = name;
        c->status = status;
        (void) snprintf(c->message, sizeof(c->message), "%s", message);
}

/* What the run goes without is said of its row, too: it is no failure of the host. */
static void lower_row(struct probe_row *row) {
        row->required = false;
        if (row->state == PROBE_MISSING)
                row->state = PROBE_DEGRADED;
}

/* A run in the host's network needs none of its own. */
static void relax_rows(struct report *report, const struct spec *spec) {
        static const char *const keys[] = { "net_namespace", "loopback" };

        for (size_t i = 0; i < report->n_rows && spec->network.mode == NETWORK_OPEN; i++)
                for (size_t k = 0; k < ARRAY_SIZE(keys); k++)
                        if (strcmp(report->rows[i].key, keys[k]) == 0)
                                lower_row(&report->rows[i]);
}

/* What the kernel cannot keep apart in the host's network. */
static void check_network(struct report *report, const struct spec *spec) {
        const struct probe_row *landlock = report_row(report, "landlock");

        if (spec->network.mode != NETWORK_OPEN || !landlock)
                return;
        if (landlock->state == PROBE_OK)
                add_check(report, "network", CHECK_PASS,
                          "open: landlock keeps abstract sockets of the host away");
        else
                add_check(report, "network", CHECK_WARN, landlock->effect);
}

/* What only a control group can keep, but for a run that does without; fewer processes than root's all others
 * do by a resource limit, too. */
static void check_limits(struct report *report, const struct spec *spec) {
        const bool pids = spec->limits.pids != 0 && getuid() == 0;
        const struct probe_row *cgroup = report_row(report, "cgroup");
        char text[ERROR_MSG_MAX];

        if (!cgroup || spec->isolation == ISOLATION_DEGRADE ||
            (!spec->limits.memory && !spec->limits.cpus && !pids))
                return;
        if (cgroup->state == PROBE_OK) {
                add_check(report, "limits", CHECK_PASS, "kept by a control group");
                return;
        }
        (void) snprintf(text, sizeof(text), "no control group: %s; or --isolation degrade", cgroup->remedy);
        add_check(report, "limits", CHECK_FAIL, text);
}

/* The rungs of the ladder that the run takes. */
static void check_rungs(struct report *report, const struct driver_ops *driver,
                        const struct driver_plan *plan) {
        AUTO_JSON json_t *text = driver->describe(plan);
        const json_t *const rows = json_object_get(text, "degraded");

        for (size_t i = 0; i < json_array_size(rows) && report->n_checks < CHECKS_MAX; i++) {
                const json_t *const row = json_array_get(rows, i);
                char message[ERROR_MSG_MAX];

                (void) snprintf(message, sizeof(message), "%s instead of %s: %s",
                                json_string_value(json_object_get(row, "got")),
                                json_string_value(json_object_get(row, "wanted")),
                                ESC(json_string_value(json_object_get(row, "reason"))));
                add_check(report, "without", CHECK_WARN, message);
        }
}

static const struct driver_ops *check_driver(const struct ctx *ctx, struct report *report,
                                             const struct spec *spec) {
        const char *const name = spec->mode == MODE_NONE ? "noop" : spec->driver ? spec->driver : "auto";
        struct error err = { 0 };
        const struct driver_ops *driver =
                strcmp(name, "auto") == 0 ? driver_choose(ctx, spec, &err) : driver_find(name);
        char text[ERROR_MSG_MAX];

        if (!driver && err.code) {
                add_check(report, "driver", CHECK_FAIL, err.msg);
                return NULL;
        }
        if (!driver) {
                (void) snprintf(text, sizeof(text), "'%s' is not in this build; use --driver native",
                                ESC(name));
                add_check(report, "driver", CHECK_FAIL, text);
                return NULL;
        }
        if (driver->probe(ctx, spec, &err) < 0) {
                add_check(report, "driver", CHECK_FAIL, err.msg);
                return NULL;
        }
        (void) snprintf(text, sizeof(text), "%s serves here", driver->name);
        add_check(report, "driver", CHECK_PASS, text);
        return driver;
}

/* Which namespace an open network would be in. Return: whether it is the run's own. */
static bool check_namespace(struct report *report, const struct driver_ops *driver,
                            const struct driver_plan *plan) {
        AUTO_JSON json_t *described = driver->describe(plan);
        const json_t *network = json_object_get(described, "network");
        const char *name = json_string_value(json_object_get(network, "namespace"));
        const char *why = json_string_value(json_object_get(network, "why"));
        char text[ERROR_MSG_MAX];

        if (name && strcmp(name, "own") == 0) {
                add_check(report, "network", CHECK_PASS,
                          "open: a namespace of its own, whose packets leave as the host's");
                return true;
        }
        (void) snprintf(text, sizeof(text), "open: the host's namespace: %s", why ? ESC(why) : "");
        if (name)
                add_check(report, "network", CHECK_PASS, text);
        return false;
}

/* A plan that fails for a row that is missing says so in the row's words: one failure, one remedy. */
static void count_once(struct report *report, const struct error *err) {
        for (size_t i = 0; i < report->n_rows; i++) {
                struct probe_row *row = &report->rows[i];
                struct error same = { 0 };

                if (row->required && row->state == PROBE_MISSING && row->remedy[0] &&
                    probe_refusal(row, &same) < 0 && strstr(err->msg, same.msg))
                        row->required = false;
        }
}

/* Resolves the workspace, mounts, seeds and toolchains; starts nothing. @ret_driver: in, out: who it falls
 * to. Return: as check_namespace(). */
static bool check_plan(const struct ctx *ctx, struct report *report, const struct driver_ops **ret_driver,
                       const struct spec *spec) {
        const struct driver_ops *driver = *ret_driver;
        struct driver_plan *plan = NULL;
        struct error err = { 0 };
        char text[ERROR_MSG_MAX];
        bool own;

        if (spec->image && strcmp(driver->name, "native") != 0) { /* which may take as long as a pull takes */
                add_check(report, "plan", CHECK_WARN,
                          "the image is not looked for, and nothing that depends on it");
                return false;
        }
        if (run_plan(ctx, spec, &driver, &plan, &err) < 0) {
                add_check(report, "plan", CHECK_FAIL, err.msg);
                count_once(report, &err);
                report->driver = NULL;
                return false;
        }
        *ret_driver = driver;
        report->driver = driver->name;
        if (strcmp(driver->name, "native") != 0 && spec->isolation == ISOLATION_DEGRADE)
                add_check(report, "driver", CHECK_WARN,
                          "no sandbox can be made: a fence of landlock and seccomp is");
        check_rungs(report, driver, plan);
        own = check_namespace(report, driver, plan);
        (void) driver->plan_free(plan);
        for (size_t i = 0; spec->isolation == ISOLATION_DEGRADE && i < report->n_rows; i++)
                lower_row(&report->rows[i]); /* the plan looked at them, see rungs.c */
        (void) snprintf(text, sizeof(text), "workspace %s and everything that is asked for can be shown",
                        ESC(spec->workspace.source));
        add_check(report, "plan", CHECK_PASS, text);
        return own;
}

/* Credentials that tokens are to take the place of. */
static void check_secrets(const struct ctx *ctx, struct report *report, const struct driver_ops *driver,
                          const struct spec *spec) {
        struct error err = { 0 };

        if (run_check_secrets(ctx, spec, driver, &err) < 0)
                add_check(report, "secrets", CHECK_FAIL, err.msg);
        else if (spec->n_secrets > 0 || spec->model_auth == MODEL_AUTH_PROXIED)
                add_check(report, "secrets", CHECK_PASS, "found; nobody was asked for tokens");
}

/* What a pod cannot have of this host. */
static void check_pod(struct report *report, const struct spec *spec) {
        static const char pass[] = "nothing in it needs this host";
        const size_t before = report->n_checks;
        char text[ERROR_MSG_MAX];

        for (size_t i = 0; i < spec->n_mounts && report->n_checks < CHECKS_MAX - 4; i++) {
                if (spec->mounts[i].type == MOUNT_TMPFS)
                        continue;
                (void) snprintf(text, sizeof(text),
                                "mounts[%zu]: a pod has no directory '%.100s' of this host", i,
                                ESC(spec->mounts[i].source ? spec->mounts[i].source : ""));
                add_check(report, "pod", CHECK_FAIL, text);
        }
        if (spec->user && spec->user[strspn(spec->user, "0123456789:")])
                add_check(report, "pod", CHECK_FAIL, "user: a pod needs numbers: UID or UID:GID");
        if (spec->workspace.n_bypass > 0)
                add_check(report, "pod", CHECK_FAIL, "workspace.bypass: the workspace of a pod is a copy");
        if (spec->host_root)
                add_check(report, "pod", CHECK_FAIL, "host_root: a pod needs an image");
        if (report->n_checks == before)
                add_check(report, "pod", CHECK_PASS, pass);
}

/* Told from a laptop, without a driver: the specification, and whether there is a cluster. */
static void check_cloud(struct report *report, const struct spec *spec) {
        const struct probe_row *context = report_row(report, "kubernetes_context");
        const struct probe_row *server = report_row(report, "kubernetes_server");

        add_check(
                report, "driver", CHECK_WARN,
                "kubernetes: the specification is checked here, and no pod is made: its server has the last "
                "word");
        if (context)
                add_check(report, "cluster context", context->state == PROBE_OK ? CHECK_PASS : CHECK_WARN,
                          context->evidence);
        if (server)
                add_check(report, "cluster server", server->state == PROBE_OK ? CHECK_PASS : CHECK_WARN,
                          server->evidence);
        check_pod(report, spec);
        if (spec->kubernetes.spread_key)
                (void) snprintf(report->spread_key, sizeof(report->spread_key), "%s",
                                spec->kubernetes.spread_key);
}

void report_strict(const struct ctx *ctx, const struct flags *flags, struct report *report) {
        AUTO_SPEC struct spec *spec = NULL;
        const struct driver_ops *driver;
        struct error err = { 0 };
        bool own = false;

        if (spec_resolve(ctx, flags, &spec, &err) < 0) {
                add_check(report, "specification", CHECK_FAIL, err.msg);
                return;
        }
        add_check(report, "specification", CHECK_PASS, "valid");
        if (report->cloud) {
                check_cloud(report, spec);
                return;
        }
        relax_rows(report, spec);
        driver = check_driver(ctx, report, spec);
        report->planned = true;
        report->driver = driver ? driver->name : NULL;
        if (driver)
                own = check_plan(ctx, report, &driver, spec);
        if (driver)
                check_secrets(ctx, report, driver, spec);
        if (driver && strcmp(driver->name, "native") == 0)
                check_limits(report, spec);
        if (!own)
                check_network(report, spec);
}
