/*
 * kubernetes.h - the kubernetes driver: a pod for each run, and a copy of the workspace in it
 */
#pragma once

#include "drivers/driver.h"

extern const struct driver_ops driver_kubernetes;

/** kubernetes_is_inside() - whether the caller is a container of a cluster: its service account is there */
bool kubernetes_is_inside(const struct ctx *ctx);
