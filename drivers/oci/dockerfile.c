/*
 * DOC: theory of operation
 *
 * The engines read Dockerfiles differently: which character continues a line is said by a comment, bodies of
 * "<<EOF" are known to some, variables are put in place here or there. So this is no parser. Every line is
 * taken for an instruction, together with whatever may continue it by either character, and what decides must
 * be literal: a variable, a quote or a backslash there is refused too.
 *
 * Base images may have triggers (ONBUILD), which are looked at in the images: dockerfile_bases() names all
 * that any engine could take for one, for each value that a variable could have. A name of a stage is passed
 * over only when it can be nobody's image: one word, which registries keep for themselves.
 */
#include "drivers/oci/dockerfile.h"

#include <errno.h>
#include <string.h>
#include <strings.h>

#include "runtime/base/buf.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/escape.h"
#include "runtime/spec/check.h"

enum {
        LINES_MAX =
                500,    /* of one instruction: each line is read as often as lines before it may lead to it */
        BASES_MAX = 64, /* names with each value of their variables */
        VARIABLES_MAX = 4,
        NAME_MAX_LEN = 512,
};

static const char blanks[] = " \t\v\f\r", not_literal[] = "$\"'\\`";
static const char because_file[] =
        "an image has to come from a registry, and its name to begin with what it is";

static size_t line_len(const char *p) {
        return strcspn(p, "\n");
}

static const char *next_line(const char *p) {
        p += line_len(p);
        return *p ? p + 1 : p;
}

/* The line at @p with those that may continue it. */
static int join(const char *p, struct buf *out) {
        bool first = true;

        for (int lines = 0; *p; p = next_line(p), first = false) {
                const size_t lead = strspn(p, blanks);
                size_t n = line_len(p);
                int r;

                if (++lines > LINES_MAX)
                        return -E2BIG;
                if (!first && (lead == n || p[lead] == '#'))
                        continue; /* within an instruction these are nothing */
                while (n > 0 && strchr(blanks, p[n - 1]))
                        n--;
                if (n == 0 || !strchr("\\`", p[n - 1]))
                        return buf_add(out, p, n);
                r = buf_add(out, p, n - 1);
                if (r < 0)
                        return r;
        }
        return 0;
}

/* The next word of *@p, which ends behind it; its length in *@ret_len. */
static const char *word(const char **p, size_t *ret_len) {
        const char *start = *p + strspn(*p, blanks);

        *ret_len = strcspn(start, blanks);
        *p = start + *ret_len;
        return start;
}

static bool is_word(const char *text, size_t len, const char *name) {
        return len == strlen(name) && strncasecmp(text, name, len) == 0;
}

static bool holds(const char *text, size_t len, const char *any) {
        return strcspn(text, any) < len;
}

/* Transports and files are told by what stands before the first ':'. */
static const char *image_wrong(const char *text) {
        const size_t n = strcspn(text, ":/$\"'\\`");

        if (text[n] == '\0' || strchr(blanks, text[n]) || n > strcspn(text, blanks) || text[n] == '/')
                return NULL;
        return text[n] != ':' || image_names_file(text) ? because_file : NULL;
}

/* An option of RUN */
static const char *run_wrong(const char *text, size_t len) {
        static const char *const keys[] = { "from", "id=", "source", "src", ".." };
        char copy[512];

        if (len >= sizeof(copy) || strncasecmp(text, "--mount=", 8) != 0 || holds(text, len, not_literal))
                return "RUN may have no option but a plain --mount";
        memcpy(copy, text, len);
        copy[len] = '\0';
        for (size_t i = 0; i < ARRAY_SIZE(keys); i++)
                if (strcasestr(copy, keys[i]))
                        return "a --mount of RUN may have no source and no id";
        return NULL;
}

/* An option of COPY or ADD */
static const char *copy_wrong(const char *text, size_t len) {
        if (strncasecmp(text, "--from=", 7) == 0)
                return image_wrong(text + 7);
        if (strncasecmp(text, "--chown=", 8) == 0 || strncasecmp(text, "--chmod=", 8) == 0)
                return NULL;
        return holds(text, len, not_literal) ? "options have to be literal" : NULL;
}

/* Why the instruction cannot be; NULL: it can. */
static const char *instruction_wrong(const char *p) {
        const char *name, *w, *why = NULL;
        size_t n, len;
        bool from, run, add;

        p += strcspn(p, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"); /* blanks beyond ASCII */
        do
                name = word(&p, &n);
        while (is_word(name, n, "ONBUILD"));
        from = is_word(name, n, "FROM");
        run = is_word(name, n, "RUN");
        add = is_word(name, n, "ADD");
        if (!from && !run && !add && !is_word(name, n, "COPY"))
                return NULL;
        for (w = word(&p, &len); !why && strncmp(w, "--", 2) == 0; w = word(&p, &len))
                why = from ? NULL : run ? run_wrong(w, len) : copy_wrong(w, len);
        if (!why && from)
                why = image_wrong(w);
        if (!why && add && strpbrk(w, ":$\\"))
                why = "ADD may not fetch: use COPY for files, with names that hold no ':', '$' or backslash";
        return why;
}

/* "syntax=IMAGE": a program that reads the file in the engine's place. */
static const char *comment_wrong(const char *p) {
        p += strspn(p, "#/{ \t\"");
        if (strncasecmp(p, "syntax", 6) != 0)
                return NULL;
        p += 6 + strspn(p + 6, " \t\"");
        if (*p != '=' && *p != ':')
                return NULL;
        p += 1 + strspn(p + 1, " \t");
        return strncmp(p, "docker/dockerfile", 17) == 0 ? NULL : "it may be read by docker/dockerfile only";
}

int dockerfile_check(const char *text, size_t len, struct error *err) {
        unsigned line = 1;

        if (memchr(text, '\0', len))
                return error_set(err, -EPERM, "build: the repository's Dockerfile holds a NUL");
        for (const char *p = text; *p; p = next_line(p), line++) {
                AUTO_BUF struct buf whole = { 0 };
                const char *start = p + strspn(p, blanks), *why;
                const int r = join(p, &whole);

                if (r < 0)
                        return error_set(err, r, "build: line %u of the repository's Dockerfile: %s", line,
                                         r == -E2BIG ? "goes on for more than 500 lines" : strerror(-r));
                why = comment_wrong(start);
                if (!why && *start != '#')
                        why = instruction_wrong(buf_cstr(&whole));
                if (why)
                        return error_set(err, -EPERM,
                                         "build: line %u of the repository's Dockerfile: %s; or build the "
                                         "image yourself "
                                         "and use --image",
                                         line, why);
        }
        return 0;
}

/* ---- base images ---- */

/** struct bases - a walk over what is built on */
struct bases {
        const char *text;
        const struct spec_env *args;
        size_t n_args;
        dockerfile_base_fn *fn;
        void *arg;
        unsigned int n;
        struct error *err;
};

/** struct base - a name whose variables are being put in place */
struct base {
        struct bases *all;
        const char *rest; /* what is not in it yet */
        size_t rest_len;
        char name[NAME_MAX_LEN];
        size_t len;
        unsigned int variables;
};

static int refuse(const struct bases *all, const char *what, const char *why) {
        return error_set(all->err, -EPERM,
                         "build: base image '%s' of the repository's Dockerfile: %s; or build the image "
                         "yourself and use --image",
                         ESC(what), why);
}

/* For each line that may be one of @instruction: what follows it. */
typedef int line_fn(const char *rest, void *arg);

static int each_line(const char *text, const char *instruction, line_fn *fn, void *arg) {
        int r = 0;

        for (const char *p = text; r == 0 && *p; p = next_line(p)) {
                AUTO_BUF struct buf whole = { 0 };
                const char *const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
                const char *words = p + strcspn(p, letters), *name;
                size_t n;

                if (p[strspn(p, blanks)] == '#' || words >= p + line_len(p) ||
                    strncasecmp(words, instruction, 1) != 0)
                        continue; /* what it goes on with, without a letter before, is a line too */
                r = join(p, &whole);
                words = buf_cstr(&whole);
                words += strcspn(words, letters);
                name = word(&words, &n);
                if (r == 0 && is_word(name, n, instruction))
                        r = fn(words, arg);
        }
        return r;
}

static int expand(struct base *base);

static int with_value(const struct base *base, const char *value, size_t len) {
        struct base copy = *base;

        if (copy.len + len >= sizeof(copy.name))
                return refuse(base->all, base->name, "its name is too long");
        memcpy(copy.name + copy.len, value, len);
        copy.len += len;
        return expand(&copy);
}

/** struct variable - one of a name, whose values are being looked for */
struct variable {
        const struct base *base; /* goes on behind it */
        const char *name;
        size_t len;
        unsigned int values;
};

/* Engines take quotes and backslashes out of names too, and split words at every blank that Unicode has:
 * whether a line of ARG can be read without. */
static bool has_plain_names(const char *rest) {
        for (const char *p = rest; *p; p++)
                if ((unsigned char) *p >= 0x80)
                        return false;
        for (const char *p = rest; *p;) {
                size_t n;
                const char *w = word(&p, &n);
                const size_t name = strcspn(w, "=");

                if (name < n && holds(w, name, not_literal))
                        return false;
        }
        return true;
}

/* NAME=VALUE: one value more. Quotes around all of it are nothing. */
static int of_arg_line(const char *rest, void *arg) {
        struct variable *v = arg;
        int r = 0;

        if (!has_plain_names(rest))
                return refuse(v->base->all, rest, "the names of variables have to be literal");
        for (const char *p = rest; r == 0 && *p;) {
                size_t n;
                const char *w = word(&p, &n);

                if (n <= v->len || strncmp(w, v->name, v->len) != 0 || w[v->len] != '=')
                        continue;
                w += v->len + 1;
                n -= v->len + 1;
                if (n >= 2 && (*w == '"' || *w == '\'') && w[n - 1] == *w) {
                        w++;
                        n -= 2;
                }
                if (holds(w, n, not_literal))
                        return refuse(v->base->all, w, "the value of a variable has to be literal");
                v->values++;
                r = with_value(v->base, w, n);
        }
        return r;
}

/* An engine that sees no ARG puts nothing in its place. Whether that is a name, too. */
static bool fits_empty(const struct base *base) {
        const char before = base->len > 0 ? base->name[base->len - 1] : '/';

        return !strchr("/:@", before) || (base->rest_len > 0 && !strchr("/:@-.", *base->rest));
}

/* What the caller says takes the place of what the file says. */
static int each_value(struct variable *v) {
        const struct bases *const all = v->base->all;
        int r = 0;

        for (size_t i = 0; r == 0 && i < all->n_args; i++)
                if (strlen(all->args[i].name) == v->len && strncmp(all->args[i].name, v->name, v->len) == 0) {
                        v->values++;
                        r = with_value(v->base, all->args[i].value, strlen(all->args[i].value));
                }
        if (r == 0 && v->values == 0)
                r = each_line(all->text, "ARG", of_arg_line, v);
        return r == 0 && v->values > 0 && fits_empty(v->base) ? with_value(v->base, "", 0) : r;
}

/* Variables that engines have values for, whatever the file says. */
static bool is_the_engines(const char *name, size_t len) {
        return strncmp(name, "TARGET", 6) == 0 || strncmp(name, "BUILD", 5) == 0 ||
               strncmp(name, "SOURCE_", 7) == 0 || (len > 6 && strncasecmp(name + len - 6, "_proxy", 6) == 0);
}

/* $NAME or ${NAME} at the beginning of what is left */
static int put_variable(struct base *base) {
        static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_";
        const bool braces = base->rest_len > 1 && base->rest[1] == '{';
        struct variable v = { .base = base, .name = base->rest + 1 + braces };
        int r;

        v.len = strspn(v.name, letters);
        if (v.len == 0 || (braces && v.name[v.len] != '}') || ++base->variables > VARIABLES_MAX)
                return refuse(base->all, base->rest, "variables are written $NAME or ${NAME}");
        if (is_the_engines(v.name, v.len))
                return refuse(base->all, v.name, "the engine has a value of its own for that");
        base->rest_len -= (size_t) (v.name + v.len + braces - base->rest);
        base->rest = v.name + v.len + braces;
        r = each_value(&v);
        return r == 0 && v.values == 0 ? refuse(base->all, v.name, "the variable has no value") : r;
}

static int expand(struct base *base) {
        while (base->rest_len > 0 && *base->rest != '$') {
                if (base->len + 1 >= sizeof(base->name))
                        return refuse(base->all, base->name, "its name is too long");
                base->name[base->len++] = *base->rest++;
                base->rest_len--;
        }
        base->name[base->len] = '\0';
        if (base->rest_len > 0)
                return put_variable(base);
        if (check_image(base->name) || image_names_file(base->name))
                return refuse(base->all, base->name, because_file);
        if (++base->all->n > BASES_MAX)
                return refuse(base->all, base->name, "more than 64 names");
        return base->all->fn(base->name, base->all->arg, base->all->err);
}

/** struct stage - a name that may be one of a stage */
struct stage {
        const char *name;
        size_t len;
        bool found;
};

static int of_stage_line(const char *rest, void *arg) {
        struct stage *stage = arg;
        size_t n = 0;

        for (const char *p = rest, *w = word(&p, &n); n > 0; w = word(&p, &n))
                if (is_word(w, n, "AS")) {
                        w = word(&p, &n);
                        stage->found =
                                stage->found || (n == stage->len && strncasecmp(w, stage->name, n) == 0);
                }
        return 0;
}

/* Of nobody's registry but the engine's own: no '/', '.' or ':'. */
static int is_stage(const struct bases *all, const char *name, size_t len, bool *ret) {
        struct stage stage = { name, len, holds(name, len, "/.:@$") };
        int r = 0;

        *ret = is_word(name, len, "scratch");
        if (*ret || stage.found)
                return 0;
        r = each_line(all->text, "FROM", of_stage_line, &stage);
        *ret = stage.found;
        return r;
}

static const char *const own_platform[] = { "--platform=$BUILDPLATFORM", "--platform=${BUILDPLATFORM}",
                                            "--platform=$TARGETPLATFORM", "--platform=${TARGETPLATFORM}" };

static int no_value(const char *rest, void *arg) {
        (void) arg;
        return strstr(rest, "PLATFORM") || !has_plain_names(rest) ? -EPERM : 0;
}

/* What is pulled for a look is what is built on: no other platform's. */
static int check_platform(const struct bases *all, const char *text, size_t len) {
        bool fine = false;

        for (size_t i = 0; i < ARRAY_SIZE(own_platform); i++)
                fine = fine || (len == strlen(own_platform[i]) && strncmp(text, own_platform[i], len) == 0);
        for (size_t i = 0; fine && i < all->n_args; i++)
                fine = !strstr(all->args[i].name, "PLATFORM");
        if (fine)
                fine = each_line(all->text, "ARG", no_value, NULL) == 0;
        return fine ? 0 : refuse(all, text, "it has to be one of this machine's platform");
}

static int of_from_line(const char *rest, void *arg) {
        struct bases *all = arg;
        struct base base = { .all = all };
        const char *w;
        bool stage = false;
        size_t n;
        int r = 0;

        if (++all->n > BASES_MAX)
                return refuse(all, rest, "more than 64 names");
        for (w = word(&rest, &n); r == 0 && strncmp(w, "--", 2) == 0; w = word(&rest, &n))
                r = check_platform(all, w, n);
        if (r == 0)
                r = is_stage(all, w, n, &stage);
        if (r < 0 || stage || n == 0)
                return r;
        base.rest = w;
        base.rest_len = n;
        return expand(&base);
}

int dockerfile_bases(const char *text, const struct spec_env *args, size_t n_args, dockerfile_base_fn *fn,
                     void *arg, struct error *err) {
        struct bases all = { text, args, n_args, fn, arg, 0, err };

        return each_line(text, "FROM", of_from_line, &all);
}
