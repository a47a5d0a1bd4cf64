/*
 * DOC: theory of operation
 *
 * cofferdam-image pulls, imports and keeps the images of the native driver; `cofferdam image` executes it.
 * What speaks with the network (http.c, registry.c) has no hand in unpacking, and what unpacks (layer.c) has
 * no network: that is a process of its own, confined before it reads a byte. Digests are compared before.
 */
#include <curl/curl.h>
#include <errno.h>
#include <locale.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "image/fetch.h"
#include "image/verbs.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/escape.h"
#include "runtime/base/log.h"
#include "runtime/base/parse.h"
#include "runtime/base/suggest.h"
#include "runtime/lib/caller.h"

enum { WAIT_MAX_MS = 24 * 3600 * 1000 };

static int set_platform(void *arg, const char *value, struct error *err) {
        struct image_options *o = arg;

        free(o->platform_text);
        o->platform_text = strdup(value);
        if (!o->platform_text || platform_parse(o->platform_text, &o->platform) < 0)
                return error_set(err, -EINVAL, "want OS/ARCH or OS/ARCH/VARIANT, as linux/arm64");
        return 0;
}

static int set_ca_file(void *arg, const char *value, struct error *err) {
        (void) err;
        ((struct image_options *) arg)->ca_file = value;
        return 0;
}

static int set_authfile(void *arg, const char *value, struct error *err) {
        (void) err;
        ((struct image_options *) arg)->authfile = value;
        return 0;
}

static int size_fault(int r, struct error *err) {
        return error_set(err, -EINVAL,
                         r == -EDOM ? "has no unit: write 10G or 10Gi" : "want a size such as 10Gi");
}

static int set_max_size(void *arg, const char *value, struct error *err) {
        const int r = parse_size(value, 1, INT64_MAX, &((struct image_options *) arg)->limits.bytes);

        return r < 0 ? size_fault(r, err) : 0;
}

static int set_keep(void *arg, const char *value, struct error *err) {
        const int r = parse_size(value, 0, INT64_MAX, &((struct image_options *) arg)->keep_bytes);

        return r < 0 ? size_fault(r, err) : 0;
}

static int set_unused(void *arg, const char *value, struct error *err) {
        uint64_t ms;

        if (parse_duration_ms(value, 0, INT64_MAX, &ms) < 0)
                return error_set(err, -EINVAL, "want a duration such as 720h");
        ((struct image_options *) arg)->unused_s = ms / 1000;
        return 0;
}

static int set_wait(void *arg, const char *value, struct error *err) {
        return parse_duration_ms(value, 0, WAIT_MAX_MS, &((struct image_options *) arg)->wait_ms) < 0
                       ? error_set(err, -EINVAL, "want a duration of at most 24h, such as 10m")
                       : 0;
}

static int set_parallel(void *arg, const char *value, struct error *err) {
        return parse_u64(value, 1, FETCH_PARALLEL_MAX, &((struct image_options *) arg)->parallel) < 0
                       ? error_set(err, -EINVAL, "want 1 to %d", FETCH_PARALLEL_MAX)
                       : 0;
}

#define ON(field) offsetof(struct image_options, field)
#define OPTION_REGISTRY                                                                                    \
        { "authfile", 0, "FILE", set_authfile, "Logins; else those of podman and docker" },                \
                { "ca-file", 0, "FILE", set_ca_file, "Certificates (PEM) of who vouches for registries" }, \
                { "insecure",  0, NULL, NULL, "Speak plain HTTP where there is no TLS, with any host",     \
                  ON(insecure) },                                                                          \
        {                                                                                                  \
                "parallel", 0, "N", set_parallel, "Layers at a time; default 4"                            \
        }
#define OPTION_UNPACK                                                                                \
        { "max-size", 0, "SIZE", set_max_size, "What the files of a layer may take; default 64Gi" }, \
                { "platform", 0, "OS/ARCH", set_platform,                                            \
                  "Of an image for several; default: this machine's" },                              \
                { "wait", 0, "DURATION", set_wait,                                                   \
                  "For another process at the same that does not get on; default 5m" },              \
        {                                                                                            \
                "quiet", 'q', NULL, NULL, "Say nothing of the progress", ON(quiet)                   \
        }

static const struct flag_option pull_options[] = {
        OPTION_REGISTRY,
        OPTION_UNPACK,
        { "missing", 0, NULL, NULL, "Only what is not here yet", ON(missing) },
};
static const struct flag_option import_options[] = { OPTION_UNPACK };
static const struct flag_option json_options[] = {
        { "json", 0, NULL, NULL, "One JSON array, in one line", ON(json) },
};
static const struct flag_option gc_options[] = {
        { "keep", 0, "SIZE", set_keep,
          "Also the images that were used longest ago, until the rest is smaller" },
        { "unused", 0, "DURATION", set_unused, "Also the images that no run used for so long, as 720h" },
};

/** struct word - what stands behind `cofferdam image` */
static const struct word {
        const char *name;
        int (*run)(struct image_call *call);
        struct flag_set flags;
        int least, most; /* words */
        const char *wants;
} words[] = {
        { "pull",
          image_pull,
          { "cofferdam image pull [OPTIONS] NAME...", "Fetch images from their registries.", pull_options,
            ARRAY_SIZE(pull_options) },
          1,
          1000,
          "a name, as docker.io/library/debian:12" },
        { "import",
          image_import,
          { "cofferdam image import [OPTIONS] FILE|DIR [NAME]",
            "Take an image, or a root file system, from an archive or a directory.", import_options,
            ARRAY_SIZE(import_options) },
          1,
          2,
          "a file or directory" },
        { "ls",
          image_ls,
          { "cofferdam image ls [OPTIONS]", "List the images that are here.", json_options,
            ARRAY_SIZE(json_options) },
          0,
          0,
          "" },
        { "rm",
          image_rm,
          { "cofferdam image rm [OPTIONS] NAME...", "Remove images, by name, digest or id.", NULL, 0 },
          1,
          1000,
          "a name or digest" },
        { "gc",
          image_gc,
          { "cofferdam image gc [OPTIONS]",
            "Remove what killed pulls left, images without a name, and layers of no image.", gc_options,
            ARRAY_SIZE(gc_options) },
          0,
          0,
          "" },
        { "inspect",
          image_inspect,
          { "cofferdam image inspect [OPTIONS] NAME...", "All that is known of images, as JSON.", NULL, 0 },
          1,
          1000,
          "a name or digest" },
        /* for the native driver */
        { "root",
          image_root,
          { "cofferdam image root [OPTIONS] NAME", "What a run needs of an image, as JSON.", pull_options,
            ARRAY_SIZE(pull_options) },
          1,
          1,
          "a name or digest" },
};

static int print(const char *text) {
        return fputs(text, stdout) >= 0 && fflush(stdout) == 0 ? CODE_OK : CODE_FAILED;
}

static const char usage[] = "Usage: cofferdam image pull|import|ls|rm|gc|inspect [OPTIONS] [NAME...]\n"
                            "Images, as roots of sandboxes: cofferdam run --image NAME -- COMMAND.\n"
                            "\n"
                            "  pull      fetch images from their registries\n"
                            "  import    take one from an archive or a directory\n"
                            "  ls        list those that are here\n"
                            "  rm        remove some\n"
                            "  gc        remove what is not used\n"
                            "  inspect   all that is known of some, as JSON\n"
                            "\n"
                            "  -h, --help   this help; 'cofferdam image pull --help' and so on say more\n";

static const struct word *find_word(int argc, char **argv, int *ret_code) {
        const char *names[ARRAY_SIZE(words)];
        const char *near;

        *ret_code = CODE_USAGE;
        if (argc < 2) {
                log_error(
                        "image: say what: pull, import, ls, rm, gc or inspect; see 'cofferdam image --help'");
                return NULL;
        }
        if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
                *ret_code = print(usage);
                return NULL;
        }
        for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
                names[i] = words[i].name;
                if (strcmp(argv[1], words[i].name) == 0)
                        return &words[i];
        }
        near = suggest_name(argv[1], names, ARRAY_SIZE(words));
        log_error("image: unknown word '%s'%s%s%s: see 'cofferdam image --help'", ESC(argv[1]),
                  near ? ": did you mean '" : "", near ? near : "", near ? "'?" : "");
        return NULL;
}

/* Reads the options behind the word. Return: whether to go on. */
static bool read_options(const struct word *word, int argc, char **argv, struct image_call *call,
                         int *ret_code) {
        AUTO_FLAGS struct flags *flags = NULL;
        AUTO_BUF struct buf help = { 0 };
        struct error err = { 0 };

        *ret_code = CODE_USAGE;
        if (flags_parse(&word->flags, argc, argv, &call->o, &flags, &err) < 0) {
                log_error("image %s", err.msg);
                return false;
        }
        if (flags->help) {
                *ret_code = flags_help(&word->flags, &help) == 0 ? print(buf_cstr(&help)) : CODE_FAILED;
                return false;
        }
        call->argc = argc - flags->next;
        call->argv = argv + flags->next;
        if (call->argc < word->least || call->argc > word->most) {
                if (call->argc < word->least)
                        log_error("image %s: wants %s: see 'cofferdam image %s --help'", word->name,
                                  word->wants, word->name);
                else
                        log_error("image %s: unexpected word '%s': see 'cofferdam image %s --help'",
                                  word->name, ESC(call->argv[word->most]), word->name);
                return false;
        }
        return true;
}

/* A variable that is set to nothing is not set. */
static const char *variable(const struct ctx *ctx, const char *name) {
        const char *value = ctx_getenv(ctx, name);

        return value && *value ? value : NULL;
}

static void read_environment(struct image_call *call) {
        const struct ctx *ctx = call->ctx;

        call->path = variable(ctx, "PATH");
        call->auth = (struct authfile_env){ .explicit = call->o.authfile,
                                            .runtime_dir = variable(ctx, "XDG_RUNTIME_DIR"),
                                            .config_dir = variable(ctx, "XDG_CONFIG_HOME"),
                                            .docker_dir = variable(ctx, "DOCKER_CONFIG"),
                                            .home = ctx->home };
        if (!call->auth.explicit)
                call->auth.explicit = variable(ctx, "REGISTRY_AUTH_FILE");
        if (!call->o.ca_file)
                call->o.ca_file = variable(ctx, "SSL_CERT_FILE");
}

int main(int argc, char **argv) {
        struct image_call call = { .o = { .parallel = 4,
                                          .wait_ms = LOCK_WAIT_DEFAULT_S * UINT64_C(1000),
                                          .limits = { UINT64_C(1) << 36, LAYER_ENTRIES_MAX },
                                          .unused_s = UINT64_MAX,
                                          .keep_bytes = UINT64_MAX } };
        const struct word *word;
        struct caller caller;
        int code;

        (void) setlocale(LC_CTYPE, "C.UTF-8"); /* names in archives are UTF-8, or bytes */
        (void) signal(SIGPIPE, SIG_IGN);
        word = find_word(argc, argv, &code);
        if (!word)
                return code;
        caller_init(&caller);
        call.ctx = &caller.ctx;
        call.o.platform = manifest_platform();
        if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
                return CODE_FAILED;
        if (read_options(word, argc - 1, argv + 1, &call, &code)) {
                read_environment(&call);
                code = word->run(&call);
        }
        if (fflush(stdout) != 0)
                code = CODE_FAILED;
        free(call.o.platform_text);
        curl_global_cleanup();
        caller_deinit(&caller);
        return code;
}
