#include "auth/registry-backend.h"

#include <stdlib.h>
#include <string.h>

struct grant *grant_free(struct grant *grant) {
        if (!grant)
                return NULL;
        free(grant->run);
        free(grant->step);
        free(grant->group);
        free(grant->source);
        (void) credential_free(grant->credential);
        free(grant);
        return NULL;
}

struct grant *grant_dup(const struct grant *grant) {
        AUTO_GRANT struct grant *copy = calloc(1, sizeof(*copy));

        if (!copy)
                return NULL;
        memcpy(copy->id, grant->id, sizeof(copy->id));
        copy->expires_at = grant->expires_at;
        copy->run = strdup(grant->run);
        copy->step = strdup(grant->step);
        copy->group = grant->group ? strdup(grant->group) : NULL;
        copy->source = grant->source ? strdup(grant->source) : NULL;
        copy->credential = credential_dup(grant->credential);
        if (!copy->run || !copy->step || !copy->credential || (grant->source && !copy->source) ||
            (grant->group && !copy->group))
                return NULL;
        return TAKE_PTR(copy);
}
