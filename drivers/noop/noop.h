/*
 * noop.h - the driver that isolates nothing: commands run on the host, as the caller, in the workspace
 *
 * Only the operator can name it (--driver noop, --mode none), and it is said at the start, in the events and
 * by inspect. It is there so that whoever runs everything through cofferdam can switch isolation off for one
 * run and keeps runs, exec, events, logs and limits of time.
 */
#pragma once

#include "drivers/driver.h"

extern const struct driver_ops driver_noop;

/* the same processes behind fence.h: the last rung of the ladder, which nobody can name */
extern const struct driver_ops driver_landlock;
