/*
 * steps.c - one sandbox, many steps: what an orchestrator does with libcofferdam
 *
 *      cc steps.c $(pkg-config --cflags --libs libcofferdam) -o steps
 *      ./steps WORKSPACE 'make' 'make test'
 *
 * Runs each step with sh in the same sandbox over WORKSPACE, shows what it said, and at the end what happened
 * and what waits for review. The exit code is that of the first step that failed.
 */
#include <cofferdam.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static int complain(const struct cofferdam *c, const char *what) {
        fprintf(stderr, "steps: %s: %s [%s]\n", what, cofferdam_error(c), cofferdam_failure_code(c));
        return 125;
}

/* One step; what it says goes to a pipe. Its exit code, or 125. */
static int step(struct cofferdam *c, struct cofferdam_run *run, const char *line) {
        const char *const argv[] = { "sh", "-c", line, NULL };
        struct cofferdam_result result = { .size = sizeof(result) };
        struct cofferdam_command *command = NULL;
        struct cofferdam_exec *exec = NULL;
        char chunk[4096];
        int out[2], r;
        ssize_t n;

        if (pipe(out) < 0)
                return 125;
        r = cofferdam_command_new(c, argv, &command);
        if (r == 0)
                r = cofferdam_command_stdio(command, 1, out[1]);
        if (r == 0)
                r = cofferdam_command_stdio(command, 2, out[1]);
        if (r == 0)
                r = cofferdam_exec(run, command, &exec);
        close(out[1]); /* the command has its own now */
        while (r == 0 && (n = read(out[0], chunk, sizeof(chunk))) > 0)
                fwrite(chunk, 1, (size_t) n, stdout);
        close(out[0]);
        if (r == 0)
                r = cofferdam_exec_wait(exec, -1, &result);
        cofferdam_exec_free(exec);
        cofferdam_command_free(command);
        if (r < 0)
                return complain(c, line);
        if (result.failure_code[0])
                fprintf(stderr, "steps: %s: %s\n", line, result.text);
        return result.exit_code;
}

static int on_event(const struct cofferdam_event *event, void *arg) {
        (void) arg;
        printf("event %llu: %s\n", (unsigned long long) event->seq, event->type);
        return 0;
}

static int on_change(const struct cofferdam_change *change, void *arg) {
        (void) arg;
        printf("waits for review: %c %s\n", change->kind, change->path);
        return 0;
}

static int steps(struct cofferdam *c, const char *workspace, char **lines) {
        struct cofferdam_spec *spec = NULL;
        struct cofferdam_run *run = NULL;
        int r, code = 0;

        r = cofferdam_spec_new(c, &spec);
        if (r == 0)
                r = cofferdam_spec_set(spec, "workspace.source", workspace);
        if (r == 0)
                r = cofferdam_spec_text(spec, "steps.yaml", "network: { mode: none }\nkeep: true\n");
        if (r == 0)
                r = cofferdam_start(c, spec, STDERR_FILENO, &run);
        cofferdam_spec_free(spec);
        if (r < 0)
                return complain(c, "start");
        for (; *lines && code == 0; lines++)
                code = step(c, run, *lines);
        fflush(stdout);
        if (cofferdam_stop(run, 10) < 0)
                code = complain(c, "stop");
        if (cofferdam_events(run, 0, 0, NULL, on_event, NULL) < 0)
                code = complain(c, "events");
        if (cofferdam_diff(run, NULL, on_change, NULL) < 0)
                code = complain(c, "diff");
        printf("run %s\n", cofferdam_run_id(run));
        cofferdam_run_close(run);
        return code;
}

int main(int argc, char **argv) {
        struct cofferdam *c = NULL;
        int code;

        if (argc < 3) {
                fprintf(stderr, "usage: steps WORKSPACE STEP...\n");
                return 2;
        }
        if (cofferdam_new_from_environment(&c) < 0)
                return 125;
        if (getenv("STEPS_PROGRAM")) /* a cofferdam that is not where the library was built for */
                cofferdam_set(c, "program", getenv("STEPS_PROGRAM"));
        code = steps(c, argv[1], argv + 2);
        cofferdam_free(c);
        return code;
}
