/*
 * native.h - the native driver: user, mount, pid, ipc, uts, cgroup and network namespaces around a
 * FUSE-served workspace
 */
#pragma once

#include "drivers/driver.h"

struct oci;

extern const struct driver_ops driver_native;

/** INIT_WORD - the first word for native_init(); nobody types it */
#define INIT_WORD "@init"

/** native_init() - pid 1 of a sandbox, after sealed_exec() has executed it. Never returns. */
_Noreturn void native_init(void);

/** native_plan(), native_plan_free(), native_describe() - see struct driver_ops */
int native_plan(const struct ctx *ctx, const struct spec *spec, struct driver_plan **ret, struct error *err);
struct driver_plan *native_plan_free(struct driver_plan *plan);
json_t *native_describe(const struct driver_plan *plan);

/** native_plan_oci() - the plan of a run in a container. @oci: consumed, also on failure. Return: as
 * native_plan() */
int native_plan_oci(const struct ctx *ctx, const struct spec *spec, struct oci *oci, struct driver_plan **ret,
                    struct error *err);

/** native_start() and so on - see struct driver_ops; also for sandboxes that an engine makes (drivers/oci/)
 */
int native_start(const struct driver_plan *plan, const struct start_request *req, struct sandbox **ret,
                 struct error *err);
json_t *native_report(const struct sandbox *sandbox);
int native_exec(struct sandbox *sandbox, const struct exec_request *req, struct error *err);
int native_signal(struct sandbox *sandbox, uint32_t id, int sig, bool group);
int native_set_network(struct sandbox *sandbox, const char *preset, const char *const *rules, size_t n,
                       struct error *err);
int native_refresh_file(struct sandbox *sandbox, const struct file_secret *secret, struct error *err);
size_t native_poll(struct sandbox *sandbox, struct pollfd *fds);
void native_dispatch(struct sandbox *sandbox, const struct pollfd *fds, size_t n);
struct sandbox *native_stop(struct sandbox *sandbox);
