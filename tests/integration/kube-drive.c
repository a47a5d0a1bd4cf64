/*
 * kube-drive - the client of kubernetes/client/ by hand, for scripts
 *
 * Usage: kube-drive [--context NAME] [--kubeconfig FILE] [--in-cluster DIR] [--ns NAS] COMMAND ARG...; see
 * commands[]. Prints what came; a failure is "errno-name: message" on standard error, and exit code 1.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kubernetes/client/exec.h"
#include "kubernetes/client/logs.h"
#include "kubernetes/client/watch.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/clock.h"
#include "runtime/base/file.h"
#include "runtime/base/json.h"

struct drive {
        struct kube *kube;
        const char *ns;
        int argc;
        char **argv;
        struct error err;
};

static enum kube_kind kind_of(const char *name) {
        for (unsigned k = 0; k < KUBE_KIND_COUNT; k++)
                if (strcmp(kube_kind_name(k), name) == 0)
                        return k;
        (void) fprintf(stderr, "no kind '%s'\n", name);
        exit(2);
}

static void show(const json_t *j) {
        (void) json_dumpf(j, stdout, JSON_COMPACT | JSON_SORT_KEYS | JSON_ENCODE_ANY);
        (void) putchar('\n');
        (void) fflush(stdout);
}

static const char *arg(const struct drive *d, int i) {
        return i < d->argc ? d->argv[i] : NULL;
}

static int do_get(struct drive *d) {
        AUTO_JSON json_t *j = NULL;
        int r = kube_get(d->kube, kind_of(d->argv[0]), d->ns, d->argv[1], &j, &d->err);

        if (r == 0)
                show(j);
        return r;
}

static int do_list(struct drive *d) {
        const struct kube_select select = { .labels = arg(d, 1), .fields = arg(d, 2) };
        AUTO_FREE char *version = NULL;
        AUTO_JSON json_t *all = NULL;
        const json_t *one;
        size_t i;
        int r = kube_list(d->kube, kind_of(d->argv[0]), d->ns, &select, &all, &version, &d->err);

        if (r < 0)
                return r;
        json_array_foreach(all, i, one) {
                puts(kube_json_text(one, "metadata", "name", NULL));
        }
        return 0;
}

static json_t *input(void) {
        json_error_t why;
        json_t *j = json_loadf(stdin, 0, &why);

        if (!j) {
                (void) fprintf(stderr, "stdin: %s\n", why.text);
                exit(2);
        }
        return j;
}

static int do_create(struct drive *d) {
        AUTO_JSON json_t *object = input(), *made = NULL;
        int r = kube_create(d->kube, kind_of(d->argv[0]), d->ns, object, &made, &d->err);

        if (r == 0)
                puts(kube_json_text(made, "metadata", "uid", NULL));
        return r;
}

static int do_replace(struct drive *d) {
        AUTO_JSON json_t *object = input();

        return kube_replace(d->kube, kind_of(d->argv[0]), d->ns, d->argv[1], object, NULL, &d->err);
}

static int do_patch(struct drive *d) {
        AUTO_JSON json_t *object = input();

        return kube_patch(d->kube, kind_of(d->argv[0]), d->ns, d->argv[1], object, NULL, &d->err);
}

static int do_delete(struct drive *d) {
        const struct kube_delete how = { .uid = arg(d, 2), .has_grace = arg(d, 3) != NULL };

        return kube_delete(d->kube, kind_of(d->argv[0]), d->ns, d->argv[1], &how, &d->err);
}

static int do_allowed(struct drive *d) {
        bool yes = false;
        int r = kube_allowed(d->kube, d->ns, d->argv[0], d->argv[1], d->argv[2], d->argv[3], &yes, &d->err);

        if (r == 0)
                puts(yes ? "yes" : "no");
        return r;
}

static int do_version(struct drive *d) {
        char version[64];
        unsigned minor = 0;
        int r = kube_version(d->kube, version, &minor, &d->err);

        if (r == 0)
                printf("%s %u\n", version, minor);
        return r;
}

static int do_where(struct drive *d) {
        const struct kube_config *c = kube_config_of(d->kube);

        printf("%s\n%s\n%s\n", kube_config_origin(c), kube_config_server(c), kube_config_namespace(c));
        return 0;
}

static uint64_t in_seconds(const char *s) {
        return clock_ns() + (uint64_t) strtoul(s, NULL, 10) * 1000000000;
}

static int do_watch(struct drive *d) {
        static const char *const words[] = { "ADDED", "MODIFIED", "DELETED" };
        const struct kube_select select = { .labels = arg(d, 2), .name = arg(d, 3) };
        AUTO_KUBE_WATCH struct kube_watch *w = NULL;
        const uint64_t end = in_seconds(d->argv[1]);
        int r = kube_watch_open(d->kube, kind_of(d->argv[0]), d->ns, &select, &w, &d->err);

        while (r == 0) {
                AUTO_JSON json_t *object = NULL;
                enum kube_event event = KUBE_ADDED;
                const char *phase;

                r = kube_watch_next(w, end, &event, &object, &d->err);
                if (r < 0)
                        break;
                phase = kube_json_text(object, "status", "phase", NULL);
                printf("%s %s %s\n", words[event], kube_json_text(object, "metadata", "name", NULL),
                       phase ? phase : "-");
                (void) fflush(stdout);
        }
        return r == -ETIMEDOUT ? 0 : r;
}

static int do_gone(struct drive *d) {
        return kube_wait_gone(d->kube, kind_of(d->argv[0]), d->ns, d->argv[1], arg(d, 3),
                              in_seconds(d->argv[2]), &d->err);
}

static int do_logs(struct drive *d) {
        AUTO_BUF struct buf out = { 0 };
        bool truncated = false;
        int r = kube_logs(d->kube, d->ns, d->argv[0], NULL, (size_t) strtoul(d->argv[1], NULL, 10), &out,
                          &truncated, &d->err);

        if (r == 0)
                (void) fwrite(buf_cstr(&out), 1, out.len, stdout);
        return r;
}

static int print(void *unused, const void *data, size_t len) {
        (void) unused;
        return write_all(1, data, len);
}

static int do_follow(struct drive *d) {
        return kube_logs_follow(d->kube, d->ns, d->argv[0], NULL, print, NULL, in_seconds(d->argv[1]),
                                &d->err);
}

/* options: i stdin, t terminal of 24x80, f FRAME; the exit code is the command's */
static int do_exec(struct drive *d) {
        const struct kube_exec_request q = {
                .ns = d->ns,
                .pod = d->argv[0],
                .argv = (const char *const *) (d->argv + 2),
                .tty = strchr(d->argv[1], 't') != NULL,
                .size = { 24, 80, 0, 0 },
                .frame = getenv("FRAME"),
        };
        const char *seconds = getenv("SECONDS_MAX");
        const struct kube_exec_stdio stdio = {
                .in = strchr(d->argv[1], 'i') ? 0 : -1,
                .out = 1,
                .err = 2,
                .resize = -1,
                .deadline_ns = seconds ? in_seconds(seconds) : 0,
        };
        struct kube_exec_end end;
        int r = kube_exec_run(d->kube, &q, &stdio, &end, &d->err);

        if (r < 0)
                return r;
        if (!end.started)
                (void) fprintf(stderr, "not started: %s\n", end.message);
        exit(end.exit_code);
}

/* many short ones on one client: TIMES */
static int do_collect(struct drive *d) {
        const struct kube_exec_request q = { .ns = d->ns,
                                             .pod = d->argv[0],
                                             .argv = (const char *const *) (d->argv + 2),
                                             .frame = getenv("FRAME") };
        AUTO_BUF struct buf in = { 0 };
        int r = 0;

        if (file_read(0, 64 << 20, &in) < 0)
                return -EIO;
        for (unsigned long n = strtoul(d->argv[1], NULL, 10); r == 0 && n > 0; n--) {
                AUTO_BUF struct buf out = { 0 };
                struct kube_exec_end end;

                r = kube_exec_collect(d->kube, &q, in.len > 0 ? &in : NULL, 8 << 20, 60000, &out, &out, &end,
                                      &d->err);
                if (r == 0)
                        printf("%d %.*s\n", end.exit_code, (int) (out.len < 200 ? out.len : 200),
                               buf_cstr(&out));
        }
        return r;
}

static const struct {
        const char *name;
        int args; /* at least */
        int (*run)(struct drive *d);
} commands[] = {
        { "get", 2, do_get },         /* KIND NAME */
        { "list", 1, do_list },       /* KIND [LABELS [FIELDS]] */
        { "create", 1, do_create },   /* KIND <object */
        { "replace", 2, do_replace }, /* KIND NAME <object */
        { "patch", 2, do_patch },     /* KIND NAME <patch */
        { "delete", 2, do_delete },   /* KIND NAME [UID [now]] */
        { "allowed", 4, do_allowed }, /* VERB GROUP RESOURCE SUBRESOURCE */
        { "watch", 2, do_watch },     /* KIND SECONDS [LABELS [NAME]] */
        { "gone", 3, do_gone },       /* KIND NAME SECONDS [UID] */
        { "logs", 2, do_logs },       /* POD BYTES */
        { "follow", 2, do_follow },   /* POD SECONDS */
        { "exec", 3, do_exec },       /* POD OPTIONS COMMAND... */
        { "collect", 3, do_collect }, /* POD TIMES COMMAND... */
        { "version", 0, do_version }, { "where", 0, do_where },
};

static int run(struct drive *d, const char *word) {
        for (size_t i = 0; i < ARRAY_SIZE(commands); i++)
                if (strcmp(commands[i].name, word) == 0 && d->argc >= commands[i].args)
                        return commands[i].run(d);
        (void) fprintf(stderr, "no command '%s', or too few arguments\n", word);
        exit(2);
}

int main(int argc, char **argv) {
        struct kube_config_from from = { .environ = (const char *const *) environ };
        AUTO_KUBE_CONFIG struct kube_config *config = NULL;
        struct drive d = { 0 };
        int r;

        (void) signal(SIGPIPE, SIG_IGN);
        argv++;
        argc--;
        for (; argc > 2 && strncmp(*argv, "--", 2) == 0; argv += 2, argc -= 2) {
                if (strcmp(*argv, "--context") == 0)
                        from.context = argv[1];
                else if (strcmp(*argv, "--kubeconfig") == 0)
                        from.file = argv[1];
                else if (strcmp(*argv, "--ns") == 0)
                        d.ns = argv[1];
                else if (strcmp(*argv, "--in-cluster") == 0)
                        from.in_cluster = (from.account_dir = argv[1]);
        }
        if (argc < 1)
                return 2;
        d.argc = argc - 1;
        d.argv = argv + 1;
        r = kube_config_load(&from, &config, &d.err);
        if (r == 0)
                r = kube_open_consume(config, &d.kube, &d.err);
        if (r == 0) {
                config = NULL;
                r = run(&d, *argv);
        }
        if (r < 0)
                (void) fprintf(stderr, "%s: %s\n", strerrorname_np(-r), d.err.msg);
        (void) kube_free(d.kube);
        return r < 0 ? 1 : 0;
}
