/*
 * copied.h - the workspace of a driver that works on a copy: pinned, and under the rules that its changes
 * will land by
 */
#pragma once

#include <jansson.h>

#include "fs/pin.h"
#include "fs/rules.h"
#include "runtime/base/ctx.h"
#include "runtime/spec/spec.h"

/** struct copied - region 0 of a run; everything owned */
struct copied {
        struct pin pin;
        char *target;        /* path inside */
        struct rules *rules; /* NULL: everything allowed */
        bool comes_back;     /* false: workspace.mode ro */
        json_t *row;         /* for "regions" of describe() */
};
#define COPIED_INIT \
        { .pin = PIN_INIT }

/**
 * copied_init() - pin the workspace of @spec and compile its rules
 * What would be written at once (direct) is staged: a copy has nothing to land before it comes back.
 * @ret: after COPIED_INIT; copied_deinit() is due in any case
 * Return: as the plan() of a driver.
 */
int copied_init(const struct ctx *ctx, const struct spec *spec, struct copied *ret, struct error *err)
        __attribute__((warn_unused_result));
void copied_deinit(struct copied *copied);
