/*
 * sources.h - the supervisor looks again at the sources of a run's regions, and answers the file server
 */
#pragma once

#include "drivers/driver.h"
#include "drivers/native/plan.h"

/** struct sources - of one sandbox */
struct sources {
        const struct driver_plan *plan;
        const struct sandbox_callbacks *callbacks;
        void *arg;
        struct pin pins[PLAN_REGIONS_MAX]; /* the plan's, as files were followed; borrowed */
        char told[PLAN_REGIONS_MAX]
                 [NOTICE_TEXT_MAX + 8]; /* the last change of each: action and what is now */
};

/** sources_init() - everything is borrowed */
void sources_init(struct sources *s, const struct driver_plan *plan,
                  const struct sandbox_callbacks *callbacks, void *arg);

/**
 * sources_check() - look at all of them; changes are told through the callback for notices
 * Blocks (file system). Return: 0, -ESTALE: the run has to end, with a message.
 */
int sources_check(struct sources *s, struct error *err);

/**
 * sources_notice() - a NOTICE_SOURCE_CHANGED of the file server, checked for its form
 * @sock: where an answer goes, see struct guard_successor
 */
void sources_notice(struct sources *s, const struct guard_notice *notice, int sock);
