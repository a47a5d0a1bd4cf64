/*
 * native.h - the native driver: user, mount, pid, ipc, uts, cgroup and network namespaces around a
 * FUSE-served workspace
 */
#pragma once

#include "drivers/driver.h"

extern const struct driver_ops driver_native;

/** INIT_WORD - the first word for native_init(); nobody types it */
#define INIT_WORD "@init"

/** native_init() - pid 1 of a sandbox, after sealed_exec() has executed it. Never returns. */
_Noreturn void native_init(void);

/** native_plan(), native_plan_free(), native_describe() - see struct driver_ops */
int native_plan(const struct ctx *ctx, const struct spec *spec, struct driver_plan **ret, struct error *err);
struct driver_plan *native_plan_free(struct driver_plan *plan);
json_t *native_describe(const struct driver_plan *plan);
