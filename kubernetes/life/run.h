/*
 * run.h - the process of one run: makes its pod, watches it, brings the workspace back and ends everything
 *
 * Started by drivers/kubernetes with the descriptors below. It speaks in messages of one JSON object over
 * RUN_SOCK (SOCK_SEQPACKET): {"t":"ready"|"failed"|"lost"|"warn"|"skipped"|"exported"|"phase", ..}. A message
 * to it, or the end of the socket, is the order to stop: the workspace is exported and everything deleted.
 */
#pragma once

enum { RUN_SOCK = 3, RUN_ORDER = 4, RUN_UPPERS = 5, RUN_LOWER = 6, RUN_SECRETS = 7, RUN_TEXT_MAX = 60 << 10 };

/** command_life() / command_serve() / command_exec() / command_secret() / command_refresh() / command_reap()
 * / command_release() - commands of kubernetes/main.c; messages are written */
int command_life(int argc, char **argv, const char *const *environ_);
int command_serve(int argc, char **argv, const char *const *environ_);
int command_exec(int argc, char **argv, const char *const *environ_);
int command_secret(int argc, char **argv, const char *const *environ_);
int command_refresh(int argc, char **argv, const char *const *environ_);
int command_reap(int argc, char **argv, const char *const *environ_);
int command_release(int argc, char **argv, const char *const *environ_);
