#include "runtime/run/state.h"

const json_t *run_regions(const json_t *state) {
        const json_t *regions = json_object_get(state, "regions");

        return json_is_array(regions) ? regions : NULL;
}
