#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "cli/doctor.h"
#include "drivers/driver.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/json.h"
#include "runtime/spec/resolve.h"

enum { COLUMNS = 80, COLUMN_STATE = 18, COLUMN_TEXT = 28 };

static const char *const status_names[] = { "pass", "warn", "fail" };
static_assert(ARRAY_SIZE(status_names) == CHECK_STATUS_COUNT, "status_names[] and enum check_status differ");

const struct probe_row *report_row(const struct report *report, const char *key) {
        for (size_t i = 0; i < report->n_rows; i++)
                if (strcmp(report->rows[i].key, key) == 0)
                        return &report->rows[i];
        return NULL;
}

static size_t missing_rows(const struct report *report) {
        size_t n = 0;

        for (size_t i = 0; i < report->n_rows && !report->cloud; i++)
                n += report->rows[i].required && report->rows[i].state == PROBE_MISSING;
        return n;
}

/* Of the missing rows, those that were not tried: another one's remedy is theirs. */
static size_t untried_rows(const struct report *report) {
        size_t n = 0;

        for (size_t i = 0; i < report->n_rows && !report->cloud; i++)
                n += report->rows[i].required && report->rows[i].state == PROBE_MISSING &&
                     !report->rows[i].remedy[0];
        return n;
}

static void print_verdict(const struct report *report) {
        const size_t failed = report_failures(report) - untried_rows(report);

        if (report->cloud) {
                const struct probe_row *server = report_row(report, "kubernetes_server");

                printf("\n%s\n", failed ? "Checks failed for a Kubernetes cluster."
                                 : server && server->state == PROBE_OK
                                         ? "Nothing speaks against this Kubernetes cluster."
                                         : "No Kubernetes cluster can be reached from here.");
                return;
        }
        if (failed == 0 && report->n_checks > 0) {
                printf("\nSuch a run starts here.\n");
                return;
        }
        if (failed == 0) {
                printf("\nEverything that a native run requires works here.\n");
                return;
        }
        printf("\n%zu required %s failed: %s refused here.\n", failed, failed == 1 ? "check" : "checks",
               report->n_checks > 0 ? "such a run is" : "runs in strict isolation are");
}

size_t report_failures(const struct report *report) {
        size_t n = missing_rows(report);

        for (size_t i = 0; i < report->n_checks; i++)
                n += report->checks[i].status == CHECK_FAIL;
        return n;
}

static bool native_serves(const struct report *report) {
        return driver_find("native") && missing_rows(report) == 0;
}

const char *report_driver(const struct report *report) {
        if (report->planned)
                return report->driver;
        return native_serves(report) ? "native" : NULL;
}

/* Words of @text from column @at on, the following lines indented to @indent; ends the line. */
static void print_wrapped(const char *text, int at, int indent) {
        int column = at;

        while (*text) {
                const int len = (int) strcspn(text, " ");

                if (column > indent && column + len > COLUMNS) {
                        printf("\n%*s", indent, "");
                        column = indent;
                }
                printf("%.*s", len, text);
                column += len;
                text += len;
                if (*text) { /* the space itself, unless the next word goes to the next line */
                        text++;
                        if (column + 1 + (int) strcspn(text, " ") <= COLUMNS) {
                                printf(" ");
                                column++;
                        } else {
                                column = COLUMNS;
                        }
                }
        }
        printf("\n");
}

static void print_detail(const char *label, const char *text) {
        if (!text[0])
                return;
        printf("%*s%s: ", COLUMN_STATE, "", label);
        print_wrapped(text, COLUMN_STATE + (int) strlen(label) + 2, COLUMN_STATE + 2);
}

/* @above: the row with details that was printed last, or NULL: what it said is not said again */
static void print_row(const struct probe_row *row, const struct probe_row *above) {
        const bool same_effect = above && strcmp(above->effect, row->effect) == 0;
        const bool same_remedy = above && strcmp(above->remedy, row->remedy) == 0;

        printf("%-*s%-*s", COLUMN_STATE, row->name, COLUMN_TEXT - COLUMN_STATE, probe_state_name(row->state));
        print_wrapped(row->evidence, COLUMN_TEXT, COLUMN_TEXT);
        print_detail("effect", same_effect ? "" : row->effect);
        print_detail("remedy", row->remedy[0] && same_remedy ? "as above" : row->remedy);
}

static void print_check(const struct check *check) {
        printf("%-*s%-*s", COLUMN_STATE, check->name, COLUMN_TEXT - COLUMN_STATE,
               status_names[check->status]);
        print_wrapped(check->message, COLUMN_TEXT, COLUMN_TEXT);
}

void report_print(const struct report *report) {
        const struct probe_row *above = NULL;

        for (size_t i = 0; i < report->n_rows; i++) {
                print_row(&report->rows[i], above);
                if (report->rows[i].remedy[0])
                        above = &report->rows[i];
        }
        if (report->n_checks > 0)
                printf("\n");
        for (size_t i = 0; i < report->n_checks; i++)
                print_check(&report->checks[i]);
        print_verdict(report);
}

static json_t *rows_json(const struct report *report) {
        AUTO_JSON json_t *rows = json_array();

        for (size_t i = 0; i < report->n_rows; i++) {
                const struct probe_row *r = &report->rows[i];
                json_t *const row =
                        json_pack("{s:s, s:s, s:s, s:b, s:o, s:s, s:s}", "key", r->key, "name", r->name,
                                  "state", probe_state_name(r->state), "required", (int) r->required,
                                  "evidence", json_from_bytes(r->evidence, sizeof(r->evidence)), "effect",
                                  r->effect, "remedy", r->remedy);

                if (!row || json_array_append_new(rows, row) < 0)
                        return NULL;
        }
        return TAKE_PTR(rows);
}

static json_t *checks_json(const struct report *report) {
        AUTO_JSON json_t *checks = json_array();

        for (size_t i = 0; i < report->n_checks; i++) {
                const struct check *c = &report->checks[i];
                json_t *const check =
                        json_pack("{s:s, s:s, s:o}", "name", c->name, "status", status_names[c->status],
                                  "message", json_from_bytes(c->message, sizeof(c->message)));

                if (!check || json_array_append_new(checks, check) < 0)
                        return NULL;
        }
        return TAKE_PTR(checks);
}

static bool row_ok(const struct report *report, const char *key) {
        const struct probe_row *row = report_row(report, key);

        return row && row->state == PROBE_OK;
}

/* In order of preference. */
static json_t *drivers_json(const struct report *report) {
        json_t *list = json_array();

        if (native_serves(report))
                (void) json_array_append_new(list, json_string("native"));
        if (row_ok(report, "podman_client") && row_ok(report, "podman_runtime"))
                (void) json_array_append_new(list, json_string("podman"));
        if (row_ok(report, "docker_client") && row_ok(report, "docker_daemon"))
                (void) json_array_append_new(list, json_string("docker"));
        return list;
}

/* what the driver that was selected can do of the features that specifications ask for; on the host all that
 * can be done is to run a command. @engine: there is one that builds */
static json_t *capabilities_json(const char *driver, bool engine) {
        const bool walls = driver && strcmp(driver, "noop") != 0;

        return json_pack("{s:b, s:b, s:b, s:b, s:b, s:b}", "image", walls, "build", walls && engine, "mounts",
                         walls, "network_policy", walls, "post_create", driver != NULL, "remote_user", walls);
}

static const char *program_path(char *buf, size_t size) {
        const ssize_t n = readlink("/proc/self/exe", buf, size - 1);

        buf[n > 0 ? n : 0] = 0;
        return buf;
}

static const char *container_runtime(const struct report *report) {
        if (row_ok(report, "docker_client"))
                return "docker";
        return row_ok(report, "podman_client") ? "podman" : "";
}

/* The mode of a run whose command line says none; what the environment and the files of the caller say about
 * it may be wrong. */
static json_t *default_mode(const struct ctx *ctx) {
        AUTO_SPEC struct spec *spec = NULL;
        AUTO_JSON json_t *dump = NULL;
        const struct flags nothing = { 0 };
        const char *value, *tier;
        char text[ERROR_MSG_MAX + 16];
        struct error err = { 0 };

        if (spec_resolve(ctx, &nothing, &spec, &err) < 0) {
                (void) snprintf(text, sizeof(text), "INVALID: %s", err.msg);
                return json_from_bytes(text, sizeof(text));
        }
        dump = spec_dump(spec);
        value = json_string_value(json_object_get(json_object_get(dump, "mode"), "value"));
        tier = json_string_value(json_object_get(json_object_get(dump, "mode"), "tier"));
        if (!value || !tier)
                return NULL;
        return json_sprintf("%s%s", value,
                            strcmp(tier, "built-in") == 0 ? " (built-in sandbox-by-default)" : "");
}

/* Why there is no driver: what is missing first. */
static json_t *driver_error(const struct report *report) {
        for (size_t i = 0; i < report->n_rows && !report->cloud; i++) {
                const struct probe_row *r = &report->rows[i];
                char text[sizeof(r->evidence) + 32];

                if (!r->required || r->state != PROBE_MISSING)
                        continue;
                (void) snprintf(text, sizeof(text), "%s: %s", r->name, r->evidence);
                return json_from_bytes(text, sizeof(text));
        }
        return json_string("no driver of this build serves here");
}

static const char *linkage_of(const struct report *report) {
        const struct probe_row *row = report_row(report, "binary");

        if (!row || strncmp(row->evidence, "unknown", strlen("unknown")) == 0)
                return "unknown";
        return row->state == PROBE_OK ? "static" : "dynamic";
}

json_t *report_json(const struct ctx *ctx, const struct report *report) {
        const char *const driver = report_driver(report);
        const char *const linkage = linkage_of(report);
        char program[4096];
        struct utsname name = { 0 };
        AUTO_JSON json_t *root = NULL;

        (void) uname(&name);
        (void) program_path(program, sizeof(program));
        root = json_pack("{s:s, s:s, s:s, s:s, s:o, s:s, s:o, s:s, s:o, s:s, s:o}", "host",
                         ctx_getenv(ctx, "KUBERNETES_SERVICE_HOST") ? "cloud" : "local", "os", "linux",
                         "arch", name.machine, "container_runtime", container_runtime(report),
                         "sandbox_default", default_mode(ctx), "selected_driver", driver ? driver : "",
                         "available_drivers", drivers_json(report), "scheduling_policy", "", "iterion_binary",
                         json_from_bytes(program, sizeof(program)), "iterion_binary_link", linkage,
                         "capabilities", capabilities_json(driver, *container_runtime(report) != 0));
        if (!root || json_object_set_new(root, "version", json_string(COFFERDAM_VERSION)) < 0 ||
            json_object_set_new(root, "failures", json_integer((json_int_t) report_failures(report))) < 0 ||
            json_object_set_new(root, "target", json_string(report->cloud ? "cloud" : "local")) < 0 ||
            json_object_set_new(root, "rows", rows_json(report)) < 0)
                return NULL;
        if (!driver && json_object_set_new(root, "driver_error", driver_error(report)) < 0)
                return NULL;
        if (report->n_checks > 0 && json_object_set_new(root, "checks", checks_json(report)) < 0)
                return NULL;
        return TAKE_PTR(root);
}
