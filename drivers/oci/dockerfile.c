/*
 * DOC: theory of operation
 *
 * The engines read Dockerfiles differently: which character continues a line is said by a comment, bodies of
 * "<<EOF" are known to some, variables are put in place here or there. So this is no parser. Every line is
 * taken for an instruction, together with whatever may continue it by either character, and what decides must
 * be literal: a variable, a quote or a backslash there is refused too. Base images may have triggers
 * (ONBUILD), which are not seen.
 */
#include "drivers/oci/dockerfile.h"

#include <errno.h>
#include <string.h>
#include <strings.h>

#include "runtime/base/buf.h"
#include "runtime/base/cleanup.h"
#include "runtime/spec/check.h"

enum {
        LINES_MAX = 500 /* of one instruction: each line is read as often as lines before it may lead to it */
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
