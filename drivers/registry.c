#include <string.h>

#include "drivers/driver.h"
#include "drivers/kubernetes/kubernetes.h"
#include "drivers/native/native.h"
#include "drivers/noop/noop.h"
#include "drivers/oci/oci.h"
#include "runtime/base/cleanup.h"

enum { N_CHOICES = 3 }; /* the others are never picked, only named */

/* in order of preference */
static const struct driver_ops *const drivers[] = { &driver_native,     &driver_podman, &driver_docker,
                                                    &driver_kubernetes, &driver_noop,   &driver_landlock };
static const char *const names[] = { "auto", "native", "podman", "docker", "kubernetes", "noop" };

const struct driver_ops *driver_find(const char *name) {
        for (size_t i = 0; i < ARRAY_SIZE(drivers); i++)
                if (strcmp(name, "auto") == 0 || strcmp(name, drivers[i]->name) == 0)
                        return drivers[i];
        return NULL;
}

const struct driver_ops *driver_choose(const struct ctx *ctx, const struct spec *spec, struct error *err) {
        struct error first = { 0 }, why;

        /* in a pod, with the image that a pod needs: the cluster's walls, not some inside of one */
        if (kubernetes_is_inside(ctx) && spec->image && driver_kubernetes.probe(ctx, spec, &first) == 0)
                return &driver_kubernetes;
        for (size_t i = 0; i < N_CHOICES; i++) {
                int r;

                why = (struct error){ 0 };
                r = drivers[i]->probe(ctx, spec, &why);
                if (r == 0)
                        return drivers[i];
                if (!first.code && r != -ENOTSUP)
                        first = why;
        }
        if (err)
                *err = first;
        return NULL;
}

const struct driver_ops *driver_at(size_t i) {
        return i < ARRAY_SIZE(drivers) ? drivers[i] : NULL;
}

const char *driver_failure(int r) {
        static const struct {
                int r;
                const char *code;
        } codes[] = {
                { -EINVAL, "SPEC_INVALID" },
                { -ENOTSUP, "CAPABILITY_UNSUPPORTED" },
                { DRIVER_HOST_LACKS, "SANDBOX_DRIVER_UNAVAILABLE" },
                { DRIVER_NO_IMAGE, "IMAGE_UNAVAILABLE" },
                { DRIVER_FULL, "SANDBOX_CAPACITY" },
                { -ETIMEDOUT, "SANDBOX_SETUP_TIMEOUT" },
        };

        for (size_t i = 0; i < ARRAY_SIZE(codes); i++)
                if (codes[i].r == r)
                        return codes[i].code;
        return "SANDBOX_SETUP_FAILED";
}

const char *const *driver_names(size_t *ret_n) {
        *ret_n = ARRAY_SIZE(names);
        return names;
}
