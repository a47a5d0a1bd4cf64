#include "runtime/spec/spec.h"

#include <errno.h>
#include <stdlib.h>

int spec_new(struct spec **ret, struct error *err) {
        struct spec *spec = calloc(1, sizeof(*spec));

        if (!spec)
                return error_set(err, -ENOMEM, "out of memory");
        *ret = spec;
        return 0;
}

struct spec *spec_free(struct spec *spec) {
        free(spec);
        return NULL;
}
