/*
 * Another policy for the network of a run that lives. The egress process compiles it and answers; until then
 * the old one decides, and if it does not compile, after that too. What the run says of its rules follows the
 * answer.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/buf.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/json.h"
#include "runtime/run/supervise.h"

enum { RULES_SHOWN_MAX_BYTES = EVENT_MAX_BYTES / 4 };

json_t *network_shown(json_t *network) {
        const json_t *const rules = json_object_get(network, "rules");
        const size_t total = json_array_size(rules);
        AUTO_JSON json_t *first = json_array(), *shown = json_copy(network);
        size_t bytes = 0, n = 0;

        for (; n < total; n++) {
                json_t *const rule = json_array_get(rules, n);

                bytes += json_dumpb(rule, NULL, 0, JSON_ENCODE_ANY) + 1;
                if (bytes > RULES_SHOWN_MAX_BYTES)
                        break;
                (void) json_array_append(first, rule);
        }
        if (n < total) {
                (void) json_object_set(shown, "rules", first);
                (void) json_object_set_new(shown, "rules_left_out", json_integer((json_int_t) (total - n)));
        }
        return TAKE_PTR(shown);
}

static json_t *network_of(const struct supervisor *s) {
        return json_object_get(json_object_get(s->record.state, "plan"), "network");
}

/* The presets of the run and the new ones; NULL: out of memory. */
static json_t *merge_presets(const json_t *old, const char *added) {
        const char *const had = json_string_value(old);

        if (!had || !*had || !*added)
                return json_string(had && *had ? had : added);
        return json_sprintf("%s,%s", had, added);
}

/* What the run's rules become. @block: "add" or "replace" and the rules, with the presets for a directory. */
static json_t *merge_policy(const json_t *network, const struct block *block, bool replace) {
        json_t *rules = replace ? json_array() : json_copy(json_object_get(network, "rules"));
        json_t *preset = merge_presets(replace ? NULL : json_object_get(network, "preset"), block->cwd);

        for (char **rule = block->argv + 1; rules && *rule; rule++)
                if (json_array_append_new(rules, json_string(*rule)) < 0) { /* not UTF-8, or no memory */
                        json_decref(rules);
                        rules = NULL;
                }
        return json_pack("{s:o,s:o}", "preset", preset, "rules", rules);
}

static int send_policy(struct supervisor *s, const json_t *policy, struct error *err) {
        const json_t *const rules = json_object_get(policy, "rules");
        const char *const preset = json_string_value(json_object_get(policy, "preset"));
        const size_t n = json_array_size(rules);
        AUTO_FREE const char **texts = calloc(n + 1, sizeof(*texts));

        if (!texts)
                return error_set(err, -ENOMEM, "out of memory");
        for (size_t i = 0; i < n; i++)
                texts[i] = json_string_value(json_array_get(rules, i));
        return s->args->driver->set_network(s->sandbox, *preset ? preset : NULL, texts, n, err);
}

int network_change(struct supervisor *s, const struct block *block, struct error *err) {
        const bool replace = strcmp(block->argv[0], "replace") == 0;
        json_t *const network = network_of(s);
        AUTO_JSON json_t *policy = NULL;
        int r;

        if (!s->args->driver->set_network || !json_object_get(network, "rules"))
                return error_set(err, -ENOTSUP,
                                 "the network of this run has no rules: they are for --network allowlist or "
                                 "denylist");
        if (s->network_next)
                return error_set(err, -EBUSY, "its rules are just being changed by another: try again");
        policy = merge_policy(network, block, replace);
        if (!policy)
                return error_set(err, -EINVAL, "a rule or preset is not text in UTF-8");
        r = send_policy(s, policy, err);
        if (r == 0)
                s->network_next = TAKE_PTR(policy);
        return r;
}

void network_answer(struct supervisor *s, const struct egress_notice *notice) {
        AUTO_JSON json_t *policy = TAKE_PTR(s->network_next), *shown = NULL;

        if (!policy)
                return; /* nobody has asked */
        if (notice->kind == EGRESS_REPLACED) {
                (void) json_object_update(network_of(s), policy);
                (void) run_state_store(s->args->dir, s->record.state, false, NULL);
                shown = network_shown(policy);
                events_emit(&s->record.events, "network_policy_changed",
                            json_pack("{s:O,s:O,s:O*}", "preset", json_object_get(shown, "preset"), "rules",
                                      json_object_get(shown, "rules"), "rules_left_out",
                                      json_object_get(shown, "rules_left_out")));
        }
        commands_network_changed(s, notice->kind == EGRESS_REPLACED ? NULL : notice->reason);
}
