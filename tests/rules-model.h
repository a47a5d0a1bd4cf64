/*
 * rules-model.h - what a list of rules means, said a second time and as plainly as possible: no automaton, no
 * states; used to check fs/rules.c. Exponential on hostile patterns: for short ones only.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "fs/rules.h"

/* One component against a pattern of literals, '*' and '?'. */
static inline bool model_glob(const char *p, size_t n, const char *s, size_t len) {
        if (n == 0)
                return len == 0;
        if (*p == '*')
                return model_glob(p + 1, n - 1, s, len) || (len > 0 && model_glob(p, n, s + 1, len - 1));
        return len > 0 && (*p == '?' || *p == *s) && model_glob(p + 1, n - 1, s + 1, len - 1);
}

/* A whole pattern against a whole path; @nothing: "**" at the end takes no component at all. */
static inline bool model_match(const char *p, const char *s) {
        const size_t pn = strcspn(p, "/"), sn = strcspn(s, "/");
        const char *p_rest = p + pn + (p[pn] == '/'), *s_rest = s + sn + (s[sn] == '/');
        const bool deep = pn == 2 && p[0] == '*' && p[1] == '*';

        if (!*p)
                return !*s;
        if (deep && !*p_rest)
                return *s != '\0';
        if (deep)
                return model_match(p_rest, s) || (*s && model_match(p, s_rest));
        return *s && model_glob(p, pn, s, sn) && model_match(p_rest, s_rest);
}

/* Whether the pattern, without braces, classes and backslashes, matches the path or one of its parents. */
static inline bool model_covers(const char *pattern, const char *path) {
        char full[512], part[512];
        size_t at = 0;

        (void) snprintf(full, sizeof(full), "%s%s", strchr(pattern, '/') ? "" : "**/",
                        pattern + (*pattern == '/'));
        while (path[at]) {
                at += strcspn(path + at, "/");
                (void) snprintf(part, sizeof(part), "%.*s", (int) at, path);
                if (model_match(full, part))
                        return true;
                at += path[at] == '/';
        }
        return false;
}

/* The last of the rules, all about every type of node, that matches. */
static inline int model_verdict(const struct rule_def *defs, size_t n, const char *path) {
        for (size_t i = n; i > 0; i--) {
                if (model_covers(defs[i - 1].path, path))
                        return (int) i - 1;
        }
        return -1;
}
