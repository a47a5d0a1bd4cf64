/*
 * call.c - what the engines answer: their words as codes, and the rows of doctor in place of some
 */
#include <errno.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "drivers/native/probe.h"
#include "drivers/oci/oci.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/escape.h"

int oci_failure(const char *text) {
        static const struct {
                const char *part;
                int code;
        } known[] = {
                { "is already in use", -EEXIST },
                { "cannot connect to the docker daemon", DRIVER_HOST_LACKS },
                { "is the docker daemon running", DRIVER_HOST_LACKS },
                { "error during connect", DRIVER_HOST_LACKS },
                { "permission denied while trying to connect", DRIVER_HOST_LACKS },
                { "no space left on device", DRIVER_FULL },
                { "no such image", DRIVER_NO_IMAGE },
                { "image not known", DRIVER_NO_IMAGE },
                { "unable to find image", DRIVER_NO_IMAGE },
                { "manifest unknown", DRIVER_NO_IMAGE },
                { "pull access denied", DRIVER_NO_IMAGE },
                { "did not resolve to an alias", DRIVER_NO_IMAGE },
                { "invalid reference format", DRIVER_NO_IMAGE },
                { "no such container", -ESRCH },
                { "no container with name or id", -ESRCH },
        };

        for (size_t i = 0; i < ARRAY_SIZE(known); i++)
                if (strcasestr(text, known[i].part))
                        return known[i].code;
        return -EIO;
}

const char *oci_words(const char *text) {
        const char *line = strrchr(text, '\n');

        line = line ? line + 1 : text;
        /* docker ends with a hint; what happened stands before it */
        if (strncmp(line, "See 'docker", 11) == 0 || strncmp(line, "Run 'docker", 11) == 0)
                line = text;
        if (strncmp(line, "Error: ", 7) == 0)
                line += 7;
        return line;
}

/* What podman of a user needs of its surroundings, and says in words that mend nothing. Return: as
 * no_engine()
 */
static int no_surroundings(const struct ctx *ctx, const char *said, struct error *err) {
        const char *const runtime = ctx_getenv(ctx, "XDG_RUNTIME_DIR");
        struct probe_row row;

        if (runtime && *runtime && access(runtime, W_OK | X_OK) < 0 &&
            probe_one(ctx, "podman_storage", &row) != PROBE_OK)
                return probe_refusal(&row, err);
        if ((strcasestr(said, "subuid") || strcasestr(said, "newuidmap") ||
             strcasestr(said, "UIDs or GIDs")) &&
            probe_one(ctx, "uid_ranges", &row) != PROBE_OK)
                return error_set(err, DRIVER_HOST_LACKS, "podman: %s; remedy: %s; podman system migrate",
                                 row.evidence, row.remedy);
        return 0;
}

/* The row of doctor that says why, in place of what is in @err; without one that stays. */
static int no_engine(const struct ctx *ctx, const char *program, const char *said, struct error *err) {
        const bool docker = strcmp(program, "docker") == 0;
        const char *const keys[] = { docker ? "docker_client" : "podman_client",
                                     docker ? "docker_daemon" : "podman_runtime" };
        struct probe_row row;

        for (size_t i = 0; i < ARRAY_SIZE(keys); i++)
                if (probe_one(ctx, keys[i], &row) != PROBE_OK)
                        return probe_refusal(&row, err);
        return docker || ctx->uid == 0 ? 0 : no_surroundings(ctx, said, err);
}

int oci_ended(const struct ctx *ctx, const struct cli_args *args, int r, const struct cli_result *result,
              struct error *err) {
        if (r == -ENOENT || r == -EACCES)
                return no_engine(ctx, args->v[0], "", err);
        if (r < 0)
                return r;
        r = oci_failure(result->err);
        if ((r == DRIVER_HOST_LACKS || r == -EIO) && no_engine(ctx, args->v[0], result->err, err) < 0)
                return DRIVER_HOST_LACKS;
        if (!*result->err)
                return error_set(err, r, "%s %s: exit status %d, and not a word", args->v[0], args->v[1],
                                 result->exit_code);
        return error_set(err, r, "%s %s: %s", args->v[0], args->v[1], ESC(oci_words(result->err)));
}

int oci_call(const struct ctx *ctx, const struct cli_args *args, int timeout_ms, struct buf *ret_out,
             struct error *err) {
        AUTO_CLI_RESULT struct cli_result result = { 0 };
        const int r = cli_run(ctx, args, timeout_ms, &result, err);

        if (r < 0 || result.exit_code != 0)
                return oci_ended(ctx, args, r, &result, err);
        if (ret_out)
                *ret_out = TAKE(result.out, (struct buf){ 0 });
        return 0;
}
