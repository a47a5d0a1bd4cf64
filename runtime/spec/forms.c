#include "runtime/spec/forms.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/buf.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/escape.h"
#include "runtime/base/file.h"
#include "runtime/base/path.h"
#include "runtime/spec/list.h"
#include "runtime/spec/merge.h"
#include "runtime/spec/narrow.h"
#include "runtime/spec/refuse.h"

static int form_rule(struct spec *spec, enum guard_do action, const char *text, const struct source *src,
                     struct error *err) {
        int r;

        r = list_add_rule(spec, action, text, src, err);
        return r < 0 ? r : merge_note(spec, key_find(SECTION_GUARD, "rules"), NULL, src, err);
}

static int form_hold(struct spec *spec, const char *text, const struct source *src, struct error *err) {
        return form_rule(spec, GUARD_HOLD, text, src, err);
}

static int form_protect(struct spec *spec, const char *text, const struct source *src, struct error *err) {
        return form_rule(spec, GUARD_PROTECT, text, src, err);
}

static int form_hide(struct spec *spec, const char *text, const struct source *src, struct error *err) {
        return form_rule(spec, GUARD_HIDE, text, src, err);
}

static int form_allow_write(struct spec *spec, const char *text, const struct source *src,
                            struct error *err) {
        return form_rule(spec, GUARD_ALLOW, text, src, err);
}

static int form_cache(struct spec *spec, const char *text, const struct source *src, struct error *err) {
        int r;

        r = list_add_cache(spec, text, src, err);
        return r < 0 ? r : merge_note(spec, key_find(SECTION_ROOT, "mounts"), NULL, src, err);
}

/* One line as docker reads it: blanks before it do not count, '#' begins a comment, no quotes, no escapes. */
static int env_line(struct spec *spec, char *line, const struct source *src, const struct source *repository,
                    struct error *err) {
        AUTO_FREE char *name = NULL, *key = NULL;
        bool denied;

        line += strspn(line, " \t");
        if (!*line || *line == '#')
                return 0;
        name = strndup(line, strcspn(line, "="));
        if (!name || asprintf(&key, "env.%s", name) < 0) {
                key = NULL;
                return error_set(err, -ENOMEM, "out of memory");
        }
        denied = narrow_env_denied(name);
        if (repository && (denied || !strchr(line, '=')))
                return refusal_add(spec, REFUSAL_ENV, repository, NULL, key,
                                   denied ? "programs take orders or credentials from it"
                                          : "only the operator may pass a variable on from the caller's "
                                            "environment",
                                   "--env NAME=VALUE") < 0
                               ? error_set(err, -ENOMEM, "out of memory")
                               : 0;
        return merge_text(spec, key_find(SECTION_ROOT, "env"), line, src, err);
}

/* Whether a repository has a say in the file: it, or a link to it, lies in the workspace. */
static bool is_the_repositorys(const struct spec *spec, const char *path) {
        const char *slash = strrchr(path, '/');
        AUTO_FREE char *workspace = realpath(spec->workspace.source ? spec->workspace.source : ".", NULL);
        AUTO_FREE char *parent = strndup(slash ? path : ".", slash ? (size_t) (slash - path) + 1 : 1);
        AUTO_FREE char *dir = parent ? realpath(parent, NULL) : NULL, *end = realpath(path, NULL);

        return !workspace || !dir || !end || path_below(dir, workspace) || path_below(end, workspace);
}

static int env_lines(struct spec *spec, const char *path, char *text, const struct source *src,
                     struct error *err) {
        const struct source repository = { .tier = TIER_REPOSITORY, .file = path };
        const bool narrow = is_the_repositorys(spec, path);
        unsigned n = 0;

        for (char *rest = text; rest;) {
                char *line = strsep(&rest, "\n");
                const size_t len = strlen(line);
                int r;

                n++;
                if (len > 0 && line[len - 1] == '\r')
                        line[len - 1] = '\0';
                r = env_line(spec, line, src, narrow ? &repository : NULL, err);
                if (r < 0)
                        return error_wrap(err, r, "%s:%u", ESC(path), n);
        }
        return 0;
}

static int form_env_file(struct spec *spec, const char *path, const struct source *src, struct error *err) {
        AUTO_BUF struct buf text = { 0 };
        size_t bom;
        int r;

        r = file_read_at(AT_FDCWD, path, DOC_FILE_MAX, &text);
        if (r < 0)
                return source_error(src, NULL, err, r, "%s: %s", ESC(path),
                                    r == -EINVAL  ? "not a regular file"
                                    : r == -EFBIG ? "larger than 1 MiB"
                                                  : strerror(-r));
        if (memchr(text.data, '\0', text.len) || !utf8_valid(text.data, text.len))
                return source_error(src, NULL, err, -EINVAL, "%s: not a text file in UTF-8", ESC(path));
        bom = strncmp(text.data, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
        return env_lines(spec, path, text.data + bom, src, err);
}

static int network_rule(struct spec *spec, const char *sign, const char *text, const struct source *src,
                        struct error *err) {
        AUTO_BUF struct buf rule = { 0 };

        if (*text == '!')
                return source_error(src, NULL, err, -EINVAL, "'%s': write it without '!', with %s", ESC(text),
                                    *sign ? "--deny" : "--deny in place of --allow");
        if (!*text)
                return source_error(src, NULL, err, -EINVAL, "must not be empty");
        if (buf_fmt(&rule, "%s%s", sign, text) < 0)
                return error_set(err, -ENOMEM, "out of memory");
        return merge_text(spec, key_find(SECTION_NETWORK, "rules"), buf_cstr(&rule), src, err);
}

static int form_allow(struct spec *spec, const char *text, const struct source *src, struct error *err) {
        return network_rule(spec, "", text, src, err);
}

static int form_deny(struct spec *spec, const char *text, const struct source *src, struct error *err) {
        return network_rule(spec, "!", text, src, err);
}

static const struct form forms[] = {
        { "hold", "GLOB", SECTION_GUARD, "rules", form_hold,
          "writes to these paths are kept in the run until 'cofferdam apply'" },
        { "protect", "GLOB", SECTION_GUARD, "rules", form_protect, "these paths cannot be written" },
        { "hide", "GLOB", SECTION_GUARD, "rules", form_hide, "these paths are not there" },
        { "allow-write", "GLOB", SECTION_GUARD, "rules", form_allow_write,
          "writes to these paths land at once, whatever an earlier rule says" },
        { "cache", "PATH[:HOW]", SECTION_ROOT, "mounts", form_cache,
          "a host directory that is shown at the same place; what is written to it is kept in the run, with "
          "'PATH:tmpfs' in memory until its end, with 'PATH:shared' it goes to the host, with 'PATH:ro' it "
          "fails" },
        { "env-file", "FILE", SECTION_ROOT, "env", form_env_file,
          "variables from a file of NAME=VALUE lines" },
        { "allow", "RULE", SECTION_NETWORK, "rules", form_allow, "a host the work may connect to" },
        { "deny", "RULE", SECTION_NETWORK, "rules", form_deny, "a host the work may not connect to" },
};

const struct form *forms_table(size_t *ret_n) {
        *ret_n = ARRAY_SIZE(forms);
        return forms;
}
