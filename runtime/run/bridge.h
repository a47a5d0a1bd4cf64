/*
 * bridge.h - connections to a loopback port are carried to the service, byte by byte
 *
 * The listening socket is in the sandbox's network namespace, or on the host's loopback when the sandbox has
 * no other; the service is the host's. Nothing of what passes is looked at.
 */
#pragma once

#include "netns/loop.h"

enum { BRIDGE_TUNNELS_MAX = 256 };

struct bridge;

/**
 * bridge_new() - @place: of service_connect(), borrowed; @ret: owned, bridge_free(). Return: 0, -ENOMEM.
 */
int bridge_new(struct loop *loop, const char *place, struct bridge **ret) __attribute__((warn_unused_result));

/** bridge_free() - and all its connections; NULL allowed. Return: NULL. */
struct bridge *bridge_free(struct bridge *bridge);

/** bridge_listen_consume() - take connections from @fd, one at most. Return: 0, -EBUSY, -errno. */
int bridge_listen_consume(struct bridge *bridge, int fd) __attribute__((warn_unused_result));
