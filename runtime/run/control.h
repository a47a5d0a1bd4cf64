/*
 * control.h - the control socket of a run that lives on: where exec, stop and the others find its supervisor
 *
 * A SOCK_SEQPACKET socket "control" in the run directory (mode 0700), so that it is found, protected and
 * removed with the run. Nothing in a sandbox can name it: the state directory is never shown there.
 */
#pragma once

#include "runtime/base/error.h"
#include "runtime/run/state.h"

/** control_listen() - make the socket of this process's run. Return: owned descriptor (non-blocking), -errno
 * with a message. */
int control_listen(const struct run_dir *dir, struct error *err) __attribute__((warn_unused_result));

/**
 * control_accept() - the next client, whose user ID must be ours or root's
 * Return: owned descriptor; -EPERM (another user: refused), -EAGAIN, -errno.
 */
int control_accept(int listen_fd) __attribute__((warn_unused_result));

/** control_connect() - to the supervisor of a run. Return: owned descriptor; -ESRCH (it does not live, or was
 * not started with 'start'), -errno, with a message. */
int control_connect(const struct run_dir *dir, struct error *err) __attribute__((warn_unused_result));

/**
 * control_stop() - end a run that lives and wait for its last word
 * @grace_s: seconds between SIGTERM and SIGKILL
 * Return: 0 (also when it had ended already), -errno with a message.
 */
int control_stop(const struct run_dir *dir, int grace_s, struct error *err)
        __attribute__((warn_unused_result));

/** control_close() - take no more clients: close @listen_fd (-1: nothing) and remove the name */
void control_close(const struct run_dir *dir, int listen_fd);
