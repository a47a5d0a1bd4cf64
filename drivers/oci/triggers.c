/*
 * triggers.c - instructions that an image has for whoever builds on it (ONBUILD)
 *
 * docker and buildah say them. podman does not, so the configuration is taken out of what it saves: that
 * reads the image once, beside a build that does so too. It is bytes of whoever made the image, and the
 * engines read it by a library that does not tell large letters from small ones and takes the last of two
 * keys; so it is not parsed here, but searched.
 */
#include "drivers/oci/triggers.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "drivers/driver.h"
#include "drivers/oci/cli.h"
#include "drivers/oci/oci.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/escape.h"

enum { LOOK_MS = 30000, PULL_MS = 600000, SAVE_MS = 600000, ESCAPE_LEN = 6 /* \u006f */ };

/* The next character of a JSON text, small; an escaped one of ASCII counts as itself. */
static char next_char(const char **p) {
        unsigned long code = (unsigned char) **p;

        if (strncasecmp(*p, "\\u00", 4) == 0 && strspn(*p + 4, "0123456789abcdefABCDEF") >= 2) {
                const char digits[] = { (*p)[4], (*p)[5], '\0' };

                code = strtoul(digits, NULL, 16);
                *p += ESCAPE_LEN;
                return code >= 'A' && code <= 'Z' ? (char) (code + 'a' - 'A')
                       : code == '"'              ? ' '
                                                  : (char) code;
        }
        *p += 1;
        return code >= 'A' && code <= 'Z' ? (char) (code + 'a' - 'A') : (char) code;
}

/* Whether the key begins at @p; where its value does, then. */
static const char *value_at(const char *p) {
        static const char key[] = "onbuild\"", blanks[] = " \t\r\n";

        for (size_t i = 0; key[i]; i++)
                if (!*p || next_char(&p) != key[i])
                        return NULL;
        p += strspn(p, blanks);
        return *p == ':' ? p + 1 + strspn(p + 1, blanks) : NULL;
}

bool triggers_in(const char *json) {
        for (; *json; json++) {
                const char *value = value_at(json);

                if (value && strncmp(value, "null", 4) != 0 &&
                    (*value != '[' || value[1 + strspn(value + 1, " \t\r\n")] != ']'))
                        return true;
        }
        return false;
}

/* Words to a call. */
static int call(const struct ctx *ctx, const char *const *words, int timeout_ms, struct buf *ret,
                struct error *err) {
        AUTO_CLI_ARGS struct cli_args args = { .n = 0 };

        for (; *words; words++)
                cli_add(&args, "%s", *words);
        args.wide = timeout_ms > LOOK_MS;
        return oci_call(ctx, &args, timeout_ms, ret, err);
}

static bool is_there(const struct ctx *ctx, const char *engine, const char *image) {
        const char *const engines[] = { engine, "image", "inspect", "--", image, NULL };
        const char *const buildahs[] = { engine, "inspect", "--type", "image", "--", image, NULL };

        return call(ctx, strcmp(engine, "buildah") == 0 ? buildahs : engines, LOOK_MS, NULL, NULL) == 0;
}

static int get(const struct ctx *ctx, const char *engine, const char *image, struct error *err) {
        const char *const words[] = { engine, "pull", "--quiet", "--", image, NULL };
        int r;

        if (is_there(ctx, engine, image))
                return 0;
        r = call(ctx, words, PULL_MS, NULL, err);
        return r == 0 || r == DRIVER_HOST_LACKS || r == -ETIMEDOUT || r == DRIVER_FULL
                       ? r
                       : error_wrap(err, DRIVER_NO_IMAGE, "build: base image '%s'", ESC(image));
}

/* How many, as docker or buildah tell; "0". */
static int told(const struct ctx *ctx, const char *engine, const char *image, bool *ret_some,
                struct error *err) {
        const char *const docker[] = { engine, "image", "inspect", "--format", "{{len .Config.OnBuild}}",
                                       "--",   image,   NULL };
        const char *const buildah[] = { engine,  "inspect",  "--type",
                                        "image", "--format", "{{len .Docker.Config.OnBuild}}",
                                        "--",    image,      NULL };
        AUTO_BUF struct buf out = { 0 };
        const int r = call(ctx, strcmp(engine, "buildah") == 0 ? buildah : docker, LOOK_MS, &out, err);

        *ret_some = strncmp(buf_cstr(&out), "0", 1) != 0 || strspn(buf_cstr(&out) + 1, "\n") + 1 != out.len;
        return r;
}

static int saved(const struct ctx *ctx, const char *engine, const char *image, bool *ret_some,
                 struct error *err) {
        /* what comes last is the list of what came */
        static const char script[] = "\"$0\" save --quiet --format docker-archive -- \"$1\" | "
                                     "tar -x -O -f - --wildcards '*.json'";
        const char *const words[] = { "sh", "-c", script, engine, image, NULL };
        AUTO_BUF struct buf out = { 0 };
        int r;

        r = call(ctx, words, SAVE_MS, &out, err);
        if (r < 0)
                return r;
        if (strlen(buf_cstr(&out)) != out.len || !strstr(buf_cstr(&out), "\"RepoTags\""))
                return error_set(err, -EIO, "no configuration in what %s saves", engine);
        *ret_some = triggers_in(buf_cstr(&out));
        return 0;
}

int triggers_check(const struct ctx *ctx, const char *engine, const char *image, struct error *err) {
        bool some = true;
        int r;

        r = get(ctx, engine, image, err);
        if (r < 0)
                return r;
        r = strcmp(engine, "podman") == 0 ? saved(ctx, engine, image, &some, err)
                                          : told(ctx, engine, image, &some, err);
        if (r < 0)
                return error_wrap(err, r, "build: triggers of the base image '%s'", ESC(image));
        if (some)
                return error_set(err, -EPERM,
                                 "build: base image '%s' of the repository's Dockerfile has triggers "
                                 "(ONBUILD), which nobody here has seen: build the image yourself and use "
                                 "--image",
                                 ESC(image));
        return 0;
}
