#include "runtime/spec/flags.h"

#include <assert.h>
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/cleanup.h"
#include "runtime/base/escape.h"
#include "runtime/base/suggest.h"
#include "runtime/spec/forms.h"
#include "runtime/spec/keys.h"
#include "runtime/spec/merge.h"

enum { NAME_LEN = 64, NAMES_MAX = 160 };
enum own { OWN_NONE, OWN_HELP, OWN_SPEC, OWN_TIER };

/* One option, whichever table it is from. */
struct option {
        const char *name;
        char letter;
        const char *metavar; /* NULL: no value, or for a key of type bool an optional one after '=' */
        const char *help;
        const struct key *key;
        const struct form *form;
        const struct flag_option *own;
        enum own builtin;
};

struct flag_use {
        const struct key *key;
        const struct form *form; /* NULL: the key's own option */
        const char *text;
};

/* The @i-th option of @set. Return: false when there are no more. */
static bool option_at(const struct flag_set *set, size_t i, struct option *ret) {
        static const struct option builtin[] = {
                { .name = "help", .letter = 'h', .help = "show this text", .builtin = OWN_HELP },
                { .name = "spec",
                  .letter = 's',
                  .metavar = "FILE",
                  .builtin = OWN_SPEC,
                  .help = "specification in YAML or JSON, see cofferdam.yaml(5); several merge left to "
                          "right" },
                { .name = "tier",
                  .metavar = "WHO",
                  .builtin = OWN_TIER,
                  .help = "who wrote the specification: operator (default) or workflow, which may set less" },
        };
        const size_t n_builtin = set->spec ? ARRAY_SIZE(builtin) : 1;
        size_t n_forms, n_keys = set->spec ? spec_key_count() : 0;
        const struct form *forms = forms_table(&n_forms);

        n_forms = set->spec ? n_forms : 0;
        if (i < set->n_options) {
                const struct flag_option *o = &set->options[i];

                *ret = (struct option){ o->name, o->letter, o->metavar, o->help, .own = o };
                return true;
        }
        i -= set->n_options;
        if (i < n_builtin) {
                *ret = builtin[i];
                return true;
        }
        i -= n_builtin;
        if (i < n_keys) { /* a key without an option has no name here */
                const struct key *k = &spec_keys[i];

                *ret = (struct option){ k->flag, k->letter, k->metavar, k->help, .key = k };
                return true;
        }
        i -= n_keys;
        if (i >= n_forms)
                return false;
        *ret = (struct option){ forms[i].name, 0, forms[i].metavar, forms[i].help, .form = &forms[i] };
        ret->key = key_find(forms[i].section, forms[i].key);
        return true;
}

static bool option_find(const struct flag_set *set, const char *name, char letter, struct option *ret) {
        struct option o;

        for (size_t i = 0; option_at(set, i, &o); i++) {
                if ((name && o.name && strcmp(o.name, name) == 0) || (letter && o.letter == letter)) {
                        *ret = o;
                        return true;
                }
        }
        return false;
}

static int unknown_option(const struct flag_set *set, const char *name, struct error *err) {
        const char *names[NAMES_MAX], *near;
        struct option o;
        size_t n = 0;

        for (size_t i = 0; option_at(set, i, &o); i++) {
                assert(n < NAMES_MAX);
                if (o.name)
                        names[n++] = o.name;
        }
        near = suggest_name(name, names, n);
        if (near)
                return error_set(err, -EINVAL, "unknown option '--%s': did you mean '--%s'?", ESC(name),
                                 near);
        return error_set(err, -EINVAL, "unknown option '--%s': see --help", ESC(name));
}

struct parser {
        const struct flag_set *set;
        int argc;
        char **argv;
        int i; /* of the word that is next */
        void *arg;
        struct flags *flags;
        struct error *err;
};

static int set_tier(struct parser *p, const char *value) {
        if (strcmp(value, "operator") == 0)
                p->flags->spec_tier = TIER_FLAG;
        else if (strcmp(value, "workflow") == 0)
                p->flags->spec_tier = TIER_WORKFLOW;
        else
                return error_set(p->err, -EINVAL, "option '--tier': '%s' must be operator or workflow",
                                 ESC(value));
        return 0;
}

/* @value: NULL when the option was given without one */
static int option_use(struct parser *p, const struct option *o, const char *value) {
        int r;

        if (o->own && !o->own->set) {
                *(bool *) ((char *) p->arg + o->own->on) = true;
                return 0;
        }
        if (o->own) {
                r = o->own->set(p->arg, value, p->err);
                return r < 0 ? error_wrap(p->err, r, "option '--%s'", o->name) : 0;
        }
        switch (o->builtin) {
        case OWN_HELP:
                p->flags->help = true;
                return 0;
        case OWN_SPEC:
                p->flags->specs[p->flags->n_specs++] = value;
                return 0;
        case OWN_TIER:
                return set_tier(p, value);
        case OWN_NONE:
                break;
        }
        p->flags->uses[p->flags->n_uses++] = (struct flag_use){ o->key, o->form, value ? value : "true" };
        return 0;
}

/* @value: what stands behind '=', or NULL: then the next word is taken when the option needs one */
static int option_with_value(struct parser *p, const struct option *o, const char *shown, const char *value) {
        const bool optional = o->key && !o->form && o->key->type == KEY_BOOL;

        if (o->metavar && !value) {
                if (p->i >= p->argc)
                        return error_set(p->err, -EINVAL, "option '%s' needs a value: %s", shown, o->metavar);
                value = p->argv[p->i++];
        }
        if (!o->metavar && value && !optional)
                return error_set(p->err, -EINVAL, "option '%s' takes no value", shown);
        return option_use(p, o, value);
}

/* "--no-keep" says "--keep=false" */
static int negated_option(struct parser *p, const char *name, const char *value) {
        struct option o;

        if (strncmp(name, "no-", 3) != 0 || !option_find(p->set, name + 3, 0, &o) || !o.key || o.form ||
            o.key->type != KEY_BOOL)
                return unknown_option(p->set, name, p->err);
        if (value)
                return error_set(p->err, -EINVAL, "option '--%s' takes no value", name);
        return option_use(p, &o, "false");
}

static int long_option(struct parser *p, const char *word) {
        const char *equals = strchr(word, '=');
        const size_t n = equals ? (size_t) (equals - word) : strlen(word);
        char name[NAME_LEN], shown[NAME_LEN + 2];
        struct option o;

        if (n >= sizeof(name))
                return error_set(p->err, -EINVAL, "unknown option '--%.32s...': see --help", ESC(word));
        memcpy(name, word, n);
        name[n] = '\0';
        if (!option_find(p->set, name, 0, &o))
                return negated_option(p, name, equals ? equals + 1 : NULL);
        (void) snprintf(shown, sizeof(shown), "--%s", name);
        return option_with_value(p, &o, shown, equals ? equals + 1 : NULL);
}

/* "-it", "-eNAME=VALUE", "-w=DIR", "-w DIR" */
static int short_options(struct parser *p, const char *word) {
        while (*word) {
                const char letter[2] = { *word++ };
                const char shown[3] = { '-', letter[0] };
                struct option o;
                int r;

                if (!option_find(p->set, NULL, letter[0], &o))
                        return error_set(p->err, -EINVAL, "unknown option '-%s': see --help", ESC(letter));
                if (o.metavar && *word)
                        return option_with_value(p, &o, shown, word + (*word == '='));
                r = option_with_value(p, &o, shown, NULL);
                if (r < 0)
                        return r;
        }
        return 0;
}

static int parse_words(struct parser *p) {
        while (p->i < p->argc && !p->flags->help) {
                const char *word = p->argv[p->i];
                int r;

                if (word[0] != '-' || word[1] == '\0')
                        return 0;
                p->i++;
                if (strcmp(word, "--") == 0)
                        return 0;
                r = word[1] == '-' ? long_option(p, word + 2) : short_options(p, word + 1);
                if (r < 0)
                        return r;
        }
        return 0;
}

int flags_parse(const struct flag_set *set, int argc, char **argv, void *arg, struct flags **ret,
                struct error *err) {
        AUTO_FLAGS struct flags *flags = calloc(1, sizeof(*flags));
        struct parser p = { set, argc, argv, .i = 1, arg, flags, err };
        size_t words = 1;
        int r;

        if (!flags)
                return error_set(err, -ENOMEM, "out of memory");
        for (int i = 1; i < argc; i++) /* "-abc" is up to three */
                words += strlen(argv[i]);
        flags->spec_tier = TIER_FLAG;
        flags->uses = calloc(words, sizeof(*flags->uses));
        flags->specs = calloc((size_t) argc + 1, sizeof(*flags->specs));
        if (!flags->uses || !flags->specs)
                return error_set(err, -ENOMEM, "out of memory");
        r = parse_words(&p);
        if (r < 0)
                return r;
        flags->next = p.i;
        *ret = TAKE_PTR(flags);
        return 0;
}

struct flags *flags_free(struct flags *flags) {
        if (flags) {
                free(flags->uses);
                free(flags->specs);
                free(flags);
        }
        return NULL;
}

/* What later options are judged by. */
static int apply_workspace(const struct flags *flags, struct spec *spec, const struct spec_env_view *view,
                           struct error *err) {
        const struct key *key = key_find(SECTION_WORKSPACE, "source");
        const struct source src = { .tier = TIER_FLAG, .origin = "--workspace", .view = view };
        int r = 0;

        for (size_t i = 0; r == 0 && i < flags->n_uses; i++)
                if (!flags->uses[i].form && flags->uses[i].key == key)
                        r = merge_text(spec, key, flags->uses[i].text, &src, err);
        return r;
}

int flags_apply(const struct flags *flags, struct spec *spec, const struct spec_env_view *view,
                struct error *err) {
        const int failed = apply_workspace(flags, spec, view, err);

        if (failed < 0)
                return failed;
        for (size_t i = 0; i < flags->n_uses; i++) {
                const struct flag_use *use = &flags->uses[i];
                char origin[NAME_LEN];
                const struct source src = { .tier = TIER_FLAG, .origin = origin, .view = view };
                int r;

                (void) snprintf(origin, sizeof(origin), "--%s", use->form ? use->form->name : use->key->flag);
                if (merge_yields(spec, use->key, use->text))
                        continue;
                if (use->form)
                        r = use->form->apply(spec, use->text, &src, err);
                else
                        r = merge_text(spec, use->key, use->text, &src, err);
                if (r < 0)
                        return r;
        }
        return 0;
}

/* The key "network.mode"; NULL: there is none. */
static const struct key *key_by_path(const char *path) {
        for (size_t i = 0; i < spec_key_count(); i++) {
                char text[KEY_PATH_LEN];

                if (strcmp(key_path(&spec_keys[i], text), path) == 0)
                        return &spec_keys[i];
        }
        return NULL;
}

int flags_say(struct spec *spec, const char *name, const char *value, const struct spec_env_view *view,
              struct error *err) {
        static const struct flag_set set = { .spec = true };
        const struct source src = { .tier = TIER_FLAG, .origin = name, .view = view };
        struct option o = { .key = key_by_path(name) };

        if (!o.key && (!option_find(&set, name, 0, &o) || !o.key))
                return error_set(err, -EINVAL, "'%s' is neither a key such as 'network.mode' nor an option",
                                 ESC(name));
        if (merge_yields(spec, o.key, value))
                return 0;
        return o.form ? o.form->apply(spec, value, &src, err) : merge_text(spec, o.key, value, &src, err);
}

void flags_names(const struct flag_set *set,
                 void (*each)(void *arg, const char *name, char letter, const char *metavar), void *arg) {
        struct option o;

        for (size_t i = 0; option_at(set, i, &o); i++)
                if (o.name)
                        each(arg, o.name, o.letter, o.metavar);
}

enum { HELP_COLUMN = 30, HELP_WIDTH = 79 };

/* A sentence begins with a capital, but a value that is explained ("none: ...") is written as it is. */
static char help_initial(const char *text) {
        return text[strcspn(text, " :")] == ':' || *text == '/' ? *text
                                                                : (char) toupper((unsigned char) *text);
}

/* @text from column @indent on, broken at blanks, and the end of its last line. @col: where the line is. */
static int help_wrap(struct buf *out, const char *text, size_t col, size_t indent) {
        const char *start = text;
        int r = 0;

        while (r == 0 && *text) {
                const size_t n = strcspn(text, " ");

                if (col > indent && col + 1 + n > HELP_WIDTH) {
                        r = buf_str(out, "\n");
                        col = 0;
                }
                if (r == 0)
                        r = col > indent ? buf_str(out, " ") : buf_fmt(out, "%*s", (int) (indent - col), "");
                col = (col > indent ? col + 1 : indent) + n;
                if (r == 0)
                        r = buf_add(out, text, n);
                if (r == 0 && text == start && n > 0)
                        out->data[out->len - n] = help_initial(text);
                text += n + strspn(text + n, " ");
        }
        return r == 0 ? buf_str(out, "\n") : r;
}

static int help_option(struct buf *out, const struct option *o) {
        const bool on =
                o->key && !o->form && o->key->type == KEY_BOOL && strcmp(o->key->fallback, "true") == 0;
        char head[96];
        const size_t n =
                (size_t) snprintf(head, sizeof(head), "  %c%c%c --%s%s%s%s", o->letter ? '-' : ' ',
                                  o->letter ? o->letter : ' ', o->letter ? ',' : ' ', on ? "[no-]" : "",
                                  o->name, o->metavar ? " " : "", o->metavar ? o->metavar : "");
        int r;

        r = buf_str(out, head);
        if (r == 0 && n + 2 > HELP_COLUMN)
                r = buf_str(out, "\n");
        return r < 0 ? r : help_wrap(out, o->help, n + 2 > HELP_COLUMN ? 0 : n, HELP_COLUMN);
}

/* Options of this version; what later versions act on is in the manual. */
static bool is_shown(const struct option *o) {
        return o->name && !(o->key && o->key->instead);
}

int flags_help(const struct flag_set *set, struct buf *out) {
        struct option o;
        int r;

        r = buf_fmt(out, "Usage: %s\n\n", set->usage);
        if (r == 0)
                r = help_wrap(out, set->summary, 0, 0);
        if (r == 0)
                r = buf_str(out, "\nOptions\n");
        for (size_t i = 0; r == 0 && option_at(set, i, &o); i++)
                if (is_shown(&o))
                        r = help_option(out, &o);
        if (r == 0 && set->spec)
                r = buf_str(out, "\nEach option has a key in the specification: see cofferdam.yaml(5).\n");
        return r;
}
