/*
 * keys.h - every key of the specification, once: readers, flags, help, man page and schema follow this table
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/spec/spec.h"

/* the first block are mappings of the specification, the second the mappings in its lists */
enum section {
        SECTION_ROOT,
        SECTION_BUILD,
        SECTION_WORKSPACE,
        SECTION_GUARD,
        SECTION_HOME,
        SECTION_TMP,
        SECTION_NETWORK,
        SECTION_LIMITS,
        SECTION_SECURITY,
        SECTION_AUTH_PROXY,
        SECTION_KUBERNETES,
        SECTION_COUNT,

        ITEM_RULE = SECTION_COUNT,
        ITEM_SEED,
        ITEM_MOUNT,
        ITEM_SECRET,
        ITEM_ENV,
        ITEM_PATH,
        ITEM_DIR,
        ITEM_HOST,
        ITEM_TEXT,
        ITEM_END,
};

enum key_type {
        KEY_BOOL,
        KEY_ENUM,     /* unsigned int, index into the words */
        KEY_WORD,     /* char *, one of the words */
        KEY_STRING,   /* char * */
        KEY_NUMBER,   /* uint64_t */
        KEY_SIZE,     /* uint64_t, bytes */
        KEY_DURATION, /* uint64_t, milliseconds */
        KEY_OCTAL,    /* uint32_t, permission bits */
        KEY_PATH,     /* char *, host path: "~/" expanded, made absolute, ".." kept */
        KEY_TARGET,   /* char *, path inside: absolute, without "..", normalized */
        KEY_JOINED,   /* char *, texts joined by ','; in a file also a list of them */
        KEY_TAGGED,   /* char *, "WORD" or "WORD:TEXT"; in a file also {WORD: TEXT}, {WORD: {NAME: TEXT}} */
        KEY_RULES,    /* from here on: lists, array pointer and count */
        KEY_SEEDS,
        KEY_MOUNTS,
        KEY_SECRETS,
        KEY_ENV,
        KEY_PATHS,
        KEY_DIRS,  /* relative paths below the workspace */
        KEY_HOSTS, /* rules of the network; what they mean is for netns/policy.h */
        KEY_TEXTS, /* texts; what they mean is for who uses them */
        KEY_TREE,  /* any form, not stored: known, but beyond this version */
        KEY_TYPE_COUNT
};

/* who may set a key or a word; see spec.h for the tiers */
enum spec_trust { TRUST_REPOSITORY, TRUST_WORKFLOW, TRUST_OPERATOR, TRUST_COUNT };

/** struct word - one value of an enumeration */
struct word {
        const char *name;      /* NULL ends the list */
        const char *instead;   /* this version cannot do it: what to do; NULL: it can */
        enum spec_trust trust; /* who may say it */
};

enum { KEY_NO_STORE = -1, KEY_PATH_LEN = 64 };

/** struct key - one key */
struct key {
        enum section section;
        const char *name;
        enum key_type type;
        int offset;           /* of the value in struct spec or the item; KEY_NO_STORE */
        int count_offset;     /* lists: of the number of items */
        uint64_t min;         /* numbers: inclusive, in the unit; strings: bytes */
        uint64_t max;         /* 0 for strings: KEY_STRING_MAX */
        const char *unit;     /* "bytes", "ms" or NULL */
        const char *fallback; /* the built-in value as one would write it; NULL: not given */
        const struct word *words;
        const char *(*check)(const char *text); /* NULL, or what is wrong: "must be ..." */
        const char *flag;                       /* long option without "--"; NULL: none */
        char letter;                            /* short option or 0 */
        const char *metavar;                    /* of the value in help; NULL for bool */
        enum spec_trust trust;
        const char *instead; /* this version cannot do it (but the fallback): what to do */
        bool secret;         /* the value never appears in a message or a dump */
        const char *help;    /* one sentence without a final stop */
};

enum { KEY_STRING_MAX = 4096 };

extern const struct key spec_keys[];
extern const struct key item_keys[];

/** spec_key_count() - entries of spec_keys[] and of spec.tier_of */
size_t spec_key_count(void);
/** item_key_count() - entries of item_keys[] */
size_t item_key_count(void);

/** section_name() - "" for the root, "workspace", ...; items: what one is called ("rule"). Static. */
const char *section_name(enum section section);
/** section_help() - one sentence. Static. */
const char *section_help(enum section section);

/** key_find() - the key @name of @section; NULL: there is none */
const struct key *key_find(enum section section, const char *name);
/** key_nearest() - the name in @section (keys and, at the root, sections) nearest to @name, or NULL */
const char *key_nearest(enum section section, const char *name);
/** key_by_flag() - the key of the long option @name, or NULL */
const struct key *key_by_flag(const char *name);
/** key_index() - the place of a key of spec_keys[] in spec.tier_of */
size_t key_index(const struct key *key);
/** key_path() - "network.mode"; written to @out. Return: @out. */
const char *key_path(const struct key *key, char out[static KEY_PATH_LEN]);
/** key_is_list() - whether values are added instead of replaced */
bool key_is_list(const struct key *key);
/** word_find() - the index of @text in @words, -1: none */
int word_find(const struct word *words, const char *text);
/** trust_of() - how far a tier is trusted */
enum spec_trust trust_of(enum spec_tier tier);
