/*
 * make.h - building JSON in which nothing is left out because memory was short
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>

#include "kubernetes/manifest/plan.h"

/** struct make - one object being built; once something failed, the result is NULL */
struct make {
        const struct kube_plan *plan;
        bool failed;
};

/** make_put() - @obj[@key] = @value, which is consumed; NULL fails @m */
void make_put(struct make *m, json_t *obj, const char *key, json_t *value);

/** make_text() - @obj[@key] = @text; NULL: left out */
void make_text(struct make *m, json_t *obj, const char *key, const char *text);

/** make_add() - append @value, which is consumed; NULL fails @m */
void make_add(struct make *m, json_t *array, json_t *value);

/** make_list() - @obj[@key] = @array (consumed), unless it is empty */
void make_list(struct make *m, json_t *obj, const char *key, json_t *array);

/** make_pairs() - an object of names and values */
json_t *make_pairs(struct make *m, const struct kube_pair *pairs, size_t n);

/** make_done() - @obj (consumed), or NULL when anything failed */
json_t *make_done(struct make *m, json_t *obj) __attribute__((warn_unused_result));

/** make_metadata() - name, namespace, labels, annotation of expiry, owner
 * @name: NULL: none, for the template of a Job */
json_t *make_metadata(struct make *m, enum kube_component component, const char *name, int64_t expires_at);

/** make_pod_spec() - spec of a Pod or of a Job's template */
json_t *make_pod_spec(struct make *m);

/** make_volumes() - the volumes of @m's plan and their mounts, in the same order
 * @mounts: array, filled */
json_t *make_volumes(struct make *m, json_t *mounts);

/** make_command() - argv of the container: the plan's, behind what has to be put in place first */
json_t *make_command(struct make *m);

/** make_disk_milli() - what all emptyDirs of the pod may hold together, in thousandths of bytes */
uint64_t make_disk_milli(const struct kube_plan *plan);

/** make_home_size(), make_tmp_size() - the emptyDirs' sizes */
const char *make_home_size(const struct kube_plan *plan);
const char *make_tmp_size(const struct kube_plan *plan);
