/*
 * upgrade.h - a connection to the server that has become a WebSocket: for exec.c only
 */
#pragma once

#include <sys/types.h>

#include "kubernetes/client/transfer.h"

struct upgrade; /* opaque */

/**
 * upgrade_open() - connect, ask for a WebSocket
 * @protocols: offered, comma-separated, the best first
 * @ret: caller frees with upgrade_free()
 *
 * Blocks, at most KUBE_CALL_MS. Return: 0; -EPROTONOSUPPORT: none of @protocols (with a message, but worth
 * another attempt); or as client.h says.
 */
int upgrade_open(struct kube *kube, const char *path, const char *query, const char *protocols, bool again,
                 struct upgrade **ret, struct error *err) __attribute__((warn_unused_result));

/** upgrade_free() - cuts the connection. Return: NULL. */
struct upgrade *upgrade_free(struct upgrade *upgrade);
DEFINE_AUTO(struct upgrade, upgrade, upgrade_free)
#define AUTO_UPGRADE CLEANUP(auto_upgrade)

/** upgrade_protocol() - the one that the server chose, borrowed */
const char *upgrade_protocol(const struct upgrade *upgrade);

/** upgrade_fd() - its socket, to poll */
int upgrade_fd(const struct upgrade *upgrade);

/** upgrade_recv() - Return: bytes, 0: the end, -EAGAIN, -ECONNRESET */
ssize_t upgrade_recv(struct upgrade *upgrade, void *buf, size_t len) __attribute__((warn_unused_result));

/** upgrade_send() - Return: bytes, -EAGAIN, -ECONNRESET */
ssize_t upgrade_send(struct upgrade *upgrade, const void *buf, size_t len)
        __attribute__((warn_unused_result));
