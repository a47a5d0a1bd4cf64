#include "fs/gitkeys.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "fs/gitconfig.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/escape.h"

enum { TEXT_MAX = 2048, NAMES_MAX = 1024, REMOTES_BYTES_MAX = 16384, WANTED_BYTES_MAX = 262144 };

#define LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
#define DIGITS  "0123456789"

/* --- values ------------------------------------------------------------------------------------------ */

static bool is_one_of(const char *value, const char *const *words) {
        for (; value && *words; words++) {
                if (strcasecmp(value, *words) == 0)
                        return true;
        }
        return false;
}

static bool is_bool(const char *sub, const char *value) {
        static const char *const words[] = { "true", "false", "yes", "no", "on", "off", "1", "0", "", NULL };

        (void) sub;
        return !value || is_one_of(value, words);
}

/* Not empty, at most TEXT_MAX bytes of @set, not to be mistaken for an option. */
static bool is_made_of(const char *s, const char *set) {
        const size_t n = s ? strspn(s, set) : 0;

        return n > 0 && n <= TEXT_MAX && s[n] == '\0' && *s != '-';
}

static bool is_text(const char *sub, const char *value) {
        (void) sub;
        if (!value || *value == '-' || strlen(value) > TEXT_MAX)
                return false;
        for (; *value; value++) {
                if ((unsigned char) *value < ' ' || *value == 0x7f)
                        return false;
        }
        return true;
}

static bool is_digits(const char *sub, const char *value) {
        (void) sub;
        return is_made_of(value, DIGITS) && strlen(value) < 8;
}

static bool is_version(const char *sub, const char *value) {
        static const char *const words[] = { "0", "1", NULL };

        (void) sub;
        return is_one_of(value, words);
}

static bool is_always_or_bool(const char *sub, const char *value) {
        return is_bool(sub, value) || strcasecmp(value, "always") == 0;
}

static bool is_hash_name(const char *sub, const char *value) {
        static const char *const words[] = { "sha1", "sha256", NULL };

        (void) sub;
        return is_one_of(value, words);
}

static bool is_tag_option(const char *sub, const char *value) {
        (void) sub;
        return value && (strcmp(value, "--tags") == 0 || strcmp(value, "--no-tags") == 0);
}

/* Not "!command" (CVE-2019-19604). */
static bool is_update(const char *sub, const char *value) {
        static const char *const words[] = { "checkout", "merge", "rebase", "none", NULL };

        (void) sub;
        return is_one_of(value, words);
}

static bool is_ignore(const char *sub, const char *value) {
        static const char *const words[] = { "all", "dirty", "untracked", "none", NULL };

        (void) sub;
        return is_one_of(value, words);
}

static bool is_on_demand_or_bool(const char *sub, const char *value) {
        return is_bool(sub, value) || strcasecmp(value, "on-demand") == 0;
}

static bool is_rebase(const char *sub, const char *value) {
        static const char *const words[] = { "merges", "interactive", NULL };

        return is_bool(sub, value) || is_one_of(value, words);
}

/* When which tasks are due; whether anything is run at all is in the person's own configuration. */
static bool is_strategy(const char *sub, const char *value) {
        static const char *const words[] = { "none", "incremental", NULL };

        (void) sub;
        return is_one_of(value, words);
}

static bool is_base(const char *sub, const char *value) {
        (void) sub;
        return value && strcmp(value, "base") == 0;
}

static bool is_cleanup(const char *sub, const char *value) {
        static const char *const words[] = { "whitespace", "verbatim", "scissors", "strip", "default", NULL };

        (void) sub;
        return is_one_of(value, words);
}

/* A part of a name between slashes (git-check-ref-format(1)) */
static bool is_ref_part(const char *s, size_t n) {
        return n > 0 && *s != '.' && s[n - 1] != '.' && !(n >= 5 && memcmp(s + n - 5, ".lock", 5) == 0);
}

/* The @len bytes at @s; "*" where @star says so. */
static bool is_ref_text(const char *s, size_t len, bool star) {
        const char *const set = star ? " ~^:?[\\" : " ~^:?*[\\";

        if (len == 0 || strcspn(s, set) < len || memmem(s, len, "..", 2) || memmem(s, len, "@{", 2))
                return false;
        for (;;) {
                const char *slash = memchr(s, '/', len);
                const size_t n = slash ? (size_t) (slash - s) : len;

                if (!is_ref_part(s, n))
                        return false;
                if (!slash)
                        return true;
                s += n + 1;
                len -= n + 1;
        }
}

/* A branch name, also with a remote in front. */
static bool is_ref_name(const char *sub, const char *value) {
        return is_text(sub, value) && is_ref_text(value, strlen(value), false);
}

static bool is_full_ref(const char *sub, const char *value) {
        return is_ref_name(sub, value) && strncmp(value, "refs/", 5) == 0;
}

static bool is_branch_or_dot(const char *sub, const char *value) {
        return is_ref_name(sub, value) || (value && strcmp(value, ".") == 0);
}

/* Of refs/, to refs/: a fetch writes nowhere else. */
static bool is_refspec(const char *sub, const char *value) {
        const char *colon;
        size_t n;

        if (!is_text(sub, value))
                return false;
        value += *value == '+' || *value == '^';
        colon = strchr(value, ':');
        n = colon ? (size_t) (colon - value) : strlen(value);
        if (strncmp(value, "refs/", 5) != 0 || !is_ref_text(value, n, true))
                return false;
        return !colon ||
               (strncmp(colon + 1, "refs/", 5) == 0 && is_ref_text(colon + 1, strlen(colon + 1), true));
}

static bool is_host(const char *s, size_t len) {
        return len > 0 && len < 256 && *s != '-' && *s != '.' && strspn(s, LETTERS DIGITS ".-_") >= len;
}

/* "[user[:password]@]host[:port]" of @len bytes */
static bool is_authority(const char *s, size_t len) {
        const char *at = memrchr(s, '@', len);
        size_t host;

        if (at) {
                if (at == s || *s == '-' || strspn(s, LETTERS DIGITS "._~+-:%") < (size_t) (at - s))
                        return false;
                len -= (size_t) (at + 1 - s);
                s = at + 1;
        }
        host = strcspn(s, ":/");
        if (host < len && s[host] == ':') {
                const size_t digits = strspn(s + host + 1, DIGITS);

                return is_host(s, host) && digits > 0 && host + 1 + digits == len;
        }
        return is_host(s, len);
}

/* "[user@]host:path", which git reads so when the colon comes before any slash and no helper is meant. */
static bool is_scp(const char *url) {
        const char *colon = strchr(url, ':'), *at;

        if (!colon || *url == '-' || strcspn(url, "/") < (size_t) (colon - url) || colon[1] == ':' ||
            colon[1] == '-' || !colon[1])
                return false;
        at = memchr(url, '@', (size_t) (colon - url));
        if (at && (at == url || strspn(url, LETTERS DIGITS "._+-") < (size_t) (at - url)))
                return false;
        url = at ? at + 1 : url;
        return is_host(url, (size_t) (colon - url));
}

/*
 * https, ssh and scp-like addresses. Not: ext:: and other helpers (they run programs), file:// and local
 * paths (git then runs upload-pack and the hooks and config of a repository that the work may have made),
 * git:// and http:// (not authenticated), encoded line ends (CVE-2020-5260), a host or path that reads as an
 * option (CVE-2017-1000117).
 */
static bool is_url(const char *sub, const char *value) {
        static const char *const schemes[] = { "https://", "ssh://" };

        (void) sub;
        if (!is_made_of(value, LETTERS DIGITS "-._~:/?#@!$&'()*+,;=%") || strstr(value, "::") ||
            strcasestr(value, "%0a") || strcasestr(value, "%0d") || strstr(value, "%00"))
                return false;
        for (size_t i = 0; i < ARRAY_SIZE(schemes); i++) {
                const size_t n = strlen(schemes[i]);

                if (strncmp(value, schemes[i], n) == 0)
                        return is_authority(value + n, strcspn(value + n, "/?#"));
        }
        return !strstr(value, "://") && is_scp(value);
}

/* Also relative to the superproject's remote: git never takes the file transport for it unasked
 * (protocol.allow in git-config(1)). An empty part could end up as another host
 * (git 1a3609e402). */
static bool is_module_url(const char *sub, const char *value) {
        if (is_url(sub, value))
                return true;
        return is_made_of(value, LETTERS DIGITS "-._~/+") && !strstr(value, "//") &&
               (strncmp(value, "./", 2) == 0 || strncmp(value, "../", 3) == 0);
}

/* Relative, plain components, none that begins with a dot: not ".git" in any spelling. */
static bool is_module_path(const char *sub, const char *value) {
        if (!is_text(sub, value) || !*value || strchr(value, '\\') || strchr(value, '~'))
                return false;
        for (;;) {
                const size_t n = strcspn(value, "/");

                if (n == 0 || *value == '.' || *value == '-')
                        return false;
                if (value[n] == '\0')
                        return true;
                value += n + 1;
        }
}

/* --- keys -------------------------------------------------------------------------------------------- */

#define ANY_CONFIG (GITKEYS_CONFIG | GITKEYS_MODULE)

static const struct gitkeys_row safe_keys[] = {
        { ANY_CONFIG, "core", false, "bare", "boolean", is_bool },
        { ANY_CONFIG, "core", false, "repositoryformatversion", "0 or 1", is_version },
        { ANY_CONFIG, "core", false, "filemode", "boolean", is_bool },
        { ANY_CONFIG, "core", false, "logallrefupdates", "boolean or always", is_always_or_bool },
        { ANY_CONFIG, "core", false, "ignorecase", "boolean", is_bool },
        { ANY_CONFIG, "core", false, "precomposeunicode", "boolean", is_bool },
        { ANY_CONFIG, "core", false, "symlinks", "boolean", is_bool },
        /* written by git sparse-checkout */
        { ANY_CONFIG, "core", false, "sparsecheckout", "boolean", is_bool },
        { ANY_CONFIG, "core", false, "sparsecheckoutcone", "boolean", is_bool },
        { ANY_CONFIG, "index", false, "sparse", "boolean", is_bool },
        { ANY_CONFIG, "extensions", false, "objectformat", "sha1 or sha256", is_hash_name },
        { ANY_CONFIG, "extensions", false, "worktreeconfig", "boolean", is_bool },
        { ANY_CONFIG, "remote", true, "url", "an https, ssh or scp-like address", is_url },
        { ANY_CONFIG, "remote", true, "pushurl", "an https, ssh or scp-like address", is_url },
        { ANY_CONFIG, "remote", true, "fetch", "refspec of refs/", is_refspec },
        { ANY_CONFIG, "remote", true, "tagopt", "--tags or --no-tags", is_tag_option },
        /* written by gh */
        { ANY_CONFIG, "remote", true, "gh-resolved", "base", is_base },
        { ANY_CONFIG, "branch", true, "remote", "a remote of the same file", is_text },
        { ANY_CONFIG, "branch", true, "merge", "a ref below refs/", is_full_ref },
        { ANY_CONFIG, "branch", true, "rebase", "boolean, merges or interactive", is_rebase },
        /* written by editors */
        { ANY_CONFIG, "branch", true, "vscode-merge-base", "branch name", is_ref_name },
        { ANY_CONFIG, "branch", true, "gh-merge-base", "branch name", is_ref_name },
        { ANY_CONFIG, "submodule", true, "url", "an https, ssh or scp-like address", is_url },
        { ANY_CONFIG, "submodule", true, "active", "boolean", is_bool },
        { ANY_CONFIG, "submodule", true, "update", "checkout, merge, rebase or none", is_update },
        { ANY_CONFIG, "submodule", false, "active", "text", is_text },
        { ANY_CONFIG, "user", false, "name", "text", is_text },
        { ANY_CONFIG, "user", false, "email", "text", is_text },
        /* written by git maintenance start and register */
        { ANY_CONFIG, "maintenance", false, "auto", "boolean", is_bool },
        { ANY_CONFIG, "maintenance", false, "strategy", "none or incremental", is_strategy },
        { ANY_CONFIG, "init", false, "defaultbranch", "branch name", is_ref_name },
        /* written by git submodule; has to be the way to the submodule's place: is_worktree() */
        { GITKEYS_MODULE, "core", false, "worktree", "the way back to the submodule's place", is_text },

        { GITKEYS_MODULES, "submodule", true, "path", "relative path, no part begins with '.' or '-'",
          is_module_path },
        { GITKEYS_MODULES, "submodule", true, "url", "an https, ssh, scp-like or relative address",
          is_module_url },
        { GITKEYS_MODULES, "submodule", true, "update", "checkout, merge, rebase or none", is_update },
        { GITKEYS_MODULES, "submodule", true, "branch", "branch name or '.'", is_branch_or_dot },
        { GITKEYS_MODULES, "submodule", true, "ignore", "all, dirty, untracked or none", is_ignore },
        { GITKEYS_MODULES, "submodule", true, "shallow", "boolean", is_bool },
        { GITKEYS_MODULES, "submodule", true, "fetchrecursesubmodules", "boolean or on-demand",
          is_on_demand_or_bool },

        { GITKEYS_SEQUENCER, "options", false, "no-commit", "boolean", is_bool },
        { GITKEYS_SEQUENCER, "options", false, "edit", "boolean", is_bool },
        { GITKEYS_SEQUENCER, "options", false, "allow-empty", "boolean", is_bool },
        { GITKEYS_SEQUENCER, "options", false, "allow-empty-message", "boolean", is_bool },
        { GITKEYS_SEQUENCER, "options", false, "drop-redundant-commits", "boolean", is_bool },
        { GITKEYS_SEQUENCER, "options", false, "keep-redundant-commits", "boolean", is_bool },
        { GITKEYS_SEQUENCER, "options", false, "signoff", "boolean", is_bool },
        { GITKEYS_SEQUENCER, "options", false, "record-origin", "boolean", is_bool },
        { GITKEYS_SEQUENCER, "options", false, "allow-ff", "boolean", is_bool },
        { GITKEYS_SEQUENCER, "options", false, "allow-rerere-auto", "boolean", is_bool },
        { GITKEYS_SEQUENCER, "options", false, "mainline", "number", is_digits },
        { GITKEYS_SEQUENCER, "options", false, "default-msg-cleanup", "a cleanup mode", is_cleanup },
};

const struct gitkeys_row *gitkeys_table(size_t *ret_n) {
        *ret_n = ARRAY_SIZE(safe_keys);
        return safe_keys;
}

/* Names of remotes, branches and submodules become paths below .git. */
static bool is_subsection(const char *section, const char *sub) {
        const char *p = sub;

        if (strlen(sub) > NAMES_MAX || !is_text(NULL, sub) || *sub == '/' || strchr(sub, '\\'))
                return false;
        if (strcmp(section, "remote") == 0 && !is_made_of(sub, LETTERS DIGITS "._/+-"))
                return false;
        for (; p; p = strchr(p, '/')) { /* no "..": CVE-2018-11235 */
                p += *p == '/';
                if (strncmp(p, "..", strcspn(p, "/")) == 0 || strncmp(p, ".", strcspn(p, "/")) == 0)
                        return false;
        }
        return true;
}

/** struct judging - a file on the way through gitconfig_parse() */
struct judging {
        unsigned int file;
        size_t up;
        struct buf *reason;
        bool held;
        struct buf *unsafe; /* receives "key\0" and "=value\0" of each unsafe key; NULL: not wanted */
        struct buf remotes; /* "name\n" of each remote that has an address; names have no line end */
        struct buf wanted;  /* "key\tname\n" of each remote that a branch names */
};

static void hold(struct judging *j, const char *text) {
        const bool more = j->held;

        j->held = true;
        if (!j->reason || (more && strstr(buf_cstr(j->reason), text)))
                return;
        if (buf_fmt(j->reason, "%s%s", more ? ", " : "", ESC(text)) < 0)
                return; /* its ceiling is reached: the first keys are enough to go by */
}

static int keep(struct buf *out, const char *key, const char *value) {
        int r;

        r = buf_add(out, key, strlen(key) + 1);
        if (r == 0 && value)
                r = buf_str(out, "=");
        return r == 0 && value ? buf_add(out, value, strlen(value) + 1) : r;
}

static const struct gitkeys_row *find_row(unsigned int file, const char *section, bool sub,
                                          const char *name) {
        for (size_t i = 0; i < ARRAY_SIZE(safe_keys); i++) {
                const struct gitkeys_row *row = &safe_keys[i];

                if (row->files & file && row->subsection == sub && strcmp(row->section, section) == 0 &&
                    strcmp(row->name, name) == 0)
                        return row;
        }
        return NULL;
}

/* What git submodule writes: up to the directory that holds ".git", and down to the submodule's place. */
static bool is_worktree(const struct judging *j, const char *value) {
        for (size_t i = 0; i < j->up; i++) {
                if (strncmp(value, "../", 3) != 0)
                        return false;
                value += 3;
        }
        return j->up > 0 && is_module_path(NULL, value);
}

/* What has to be known before the end: which remotes there are, and which are named. */
static int note(struct judging *j, const struct gitkeys_row *row, const char *key, const char *sub,
                const char *value) {
        if (strcmp(row->section, "remote") == 0 && strcmp(row->name, "url") == 0)
                return buf_fmt(&j->remotes, "\n%s\n", sub);
        if (strcmp(row->section, "branch") == 0 && strcmp(row->name, "remote") == 0 &&
            strcmp(value, ".") != 0)
                return buf_fmt(&j->wanted, "%s\t\n%s\n", key, value);
        return 0;
}

/* Splits @copy of a key in place: section, subsection (NULL: none), name. */
static void split_key(char *copy, char **ret_sub, char **ret_name) {
        char *first = strchr(copy, '.'), *last = strrchr(copy, '.');

        *first = '\0';
        *last = '\0';
        *ret_sub = first == last ? NULL : first + 1;
        *ret_name = last + 1;
}

static int judge_key(const char *key, const char *value, void *arg) {
        AUTO_FREE char *copy = strdup(key);
        struct judging *j = arg;
        const struct gitkeys_row *row;
        char *sub, *name;
        bool safe;

        if (!copy)
                return -ENOMEM;
        split_key(copy, &sub, &name);
        row = find_row(j->file, copy, sub != NULL, name);
        safe = row && row->safe(sub, value) && (!sub || is_subsection(copy, sub));
        if (safe && row->files == GITKEYS_MODULE && !is_worktree(j, value))
                safe = false;
        if (safe)
                return note(j, row, key, sub, value);
        hold(j, key);
        return j->unsafe ? keep(j->unsafe, key, value) : 0;
}

/* Each remote that a branch names has an address in this file: else git takes the name for a path or address.
 */
static int judge_branches(struct judging *j) {
        char *p = j->wanted.data;
        int r = 0;

        while (p && *p && r == 0) {
                char *tab = strchr(p, '\t'), *end = strchr(tab + 2, '\n');
                const char saved = end[1];

                *tab = '\0';
                end[1] = '\0';
                if (!strstr(buf_cstr(&j->remotes), tab + 1)) {
                        hold(j, p);
                        r = j->unsafe ? keep(j->unsafe, p, tab + 1) : 0;
                }
                end[1] = saved;
                p = end + 1;
        }
        return r;
}

static void judging_deinit(struct judging *j) {
        buf_deinit(&j->remotes);
        buf_deinit(&j->wanted);
}

bool gitkeys_judge(unsigned int file, size_t up, const char *data, size_t len, struct buf *reason) {
        CLEANUP(judging_deinit)
        struct judging j = {
                .file = file,
                .up = up,
                .reason = reason,
                .remotes.max = REMOTES_BYTES_MAX, /* searched once per wanted one */
                .wanted.max = WANTED_BYTES_MAX,
        };
        struct error err = { 0 };
        int r;

        r = gitconfig_parse(data, len, judge_key, &j, &err);
        if (r < 0) {
                hold(&j, err.code ? err.msg : strerror(-r));
                return false;
        }
        r = judge_branches(&j);
        return r == 0 && !j.held;
}

static int collect_unsafe(unsigned int file, size_t up, const char *data, size_t len, struct buf *out) {
        CLEANUP(judging_deinit)
        struct judging j = {
                .file = file,
                .up = up,
                .unsafe = out,
                .remotes.max = REMOTES_BYTES_MAX,
                .wanted.max = WANTED_BYTES_MAX,
        };

        int r;

        r = gitconfig_parse(data, len, judge_key, &j, NULL);
        return r < 0 ? r : judge_branches(&j);
}

bool gitkeys_same_unsafe(unsigned int file, size_t up, const char *a, size_t a_len, const char *b,
                         size_t b_len) {
        AUTO_BUF struct buf in_a = { 0 }, in_b = { 0 };

        if (collect_unsafe(file, up, a, a_len, &in_a) < 0 || collect_unsafe(file, up, b, b_len, &in_b) < 0)
                return false;
        return in_a.len == in_b.len && (in_a.len == 0 || memcmp(in_a.data, in_b.data, in_a.len) == 0);
}
