#include "drivers/native/seccomp-show.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "drivers/native/seccomp-profile.h"
#include "drivers/native/seccomp.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/json.h"

enum { ANSWER_MAX = 32 };

static const char allow[] = "allow";

/* What both say: the table's word where it refuses, else the profile's. */
static void answer(const struct seccomp_rule *rule, const struct seccomp_options *opt,
                   const struct profile *profile, char out[static ANSWER_MAX]) {
        const char *word = seccomp_rule_answer(rule, opt);

        (void) snprintf(out, ANSWER_MAX, "%s", word);
        if (!profile)
                return;
        if (strcmp(word, allow) == 0) {
                profile_answer(profile, rule, out, ANSWER_MAX);
        } else if (strcmp(word, SECCOMP_BY_ARGUMENTS) == 0) {
                profile_answer(profile, rule, out, ANSWER_MAX);
                if (strcmp(out, allow) == 0)
                        (void) snprintf(out, ANSWER_MAX, "%s", word);
        }
}

/* The profile says it where the table leaves it to the profile. */
static const char *reason(const struct seccomp_rule *rule, const struct seccomp_options *opt,
                          const struct profile *profile) {
        return profile && strcmp(seccomp_rule_answer(rule, opt), allow) == 0 ? "the profile" : rule->why;
}

int seccomp_show(const struct spec *spec, json_t **ret, struct error *err) {
        const bool given = strcmp(spec->security.seccomp, SECCOMP_DEFAULT) != 0;
        const struct seccomp_options opt = {
                .nested_userns = spec->security.nested_userns,
                .no_setid = spec->workspace.n_bypass > 0,
                .floor = given,
        };
        AUTO_PROFILE struct profile profile = { 0 };
        AUTO_JSON json_t *calls = json_array();
        int r;

        r = given ? profile_read(spec->security.seccomp, &profile, err) : 0;
        if (r < 0)
                return r;
        for (size_t i = 0; i < n_seccomp_rules; i++) {
                const struct seccomp_rule *rule = &seccomp_rules[i];
                char text[ANSWER_MAX];

                if (rule->nr[SECCOMP_HOST] == SECCOMP_NO_NR)
                        continue;
                answer(rule, &opt, given ? &profile : NULL, text);
                (void) json_array_append_new(calls,
                                             json_pack("{s:s,s:i,s:s,s:s}", "name", rule->name, "number",
                                                       rule->nr[SECCOMP_HOST], "answer", text, "why",
                                                       reason(rule, &opt, given ? &profile : NULL)));
        }
        *ret = json_pack("{s:o?,s:s,s:I,s:O}", "profile",
                         given ? json_from_bytes(spec->security.seccomp, PATH_MAX) : NULL, "default",
                         "ENOSYS", "skipped", (json_int_t) profile.n_skipped, "calls", calls);
        return *ret ? 0 : error_set(err, -ENOMEM, "out of memory");
}
