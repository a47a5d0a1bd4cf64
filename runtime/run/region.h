/*
 * region.h - a region of a run that is over, opened from the rows of its state (run_regions())
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "fs/explain.h"
#include "fs/pin.h"
#include "runtime/run/state.h"

/** struct run_region - descriptors owned; strings borrowed from the row */
struct run_region {
        uint32_t index;
        int upper_fd;
        int lower_fd;                /* -1: the source is not what it was */
        bool kernel;                 /* see struct diff_layers */
        struct explain_region rules; /* for verdict_change(); its rules are owned */
};
#define RUN_REGION_INIT \
        { .upper_fd = -1, .lower_fd = -1 }

/** enum run_source - what to do when the source is not the directory that it was */
enum run_source {
        RUN_SOURCE_SAME,  /* -ESTALE, or why it cannot be opened */
        RUN_SOURCE_MAYBE, /* lower_fd -1; @err says why */
        RUN_SOURCE_ANY,   /* take what is there */
        RUN_SOURCE_EMPTY, /* as SAME, and a region that holds nothing has upper_fd -1 */
};

/**
 * run_region_source() - open the directory that a region lies over, when its path still leads to the object
 * that the run worked on
 * @any: whatever the path leads to. Return: descriptor for reading, -ESTALE, -EINVAL, -errno with a message.
 */
int run_region_source(const json_t *row, bool any, struct error *err) __attribute__((warn_unused_result));

/**
 * run_region_changed() - whether the path of the region's source leads to something else than the run worked
 * on
 * @ret: filled then
 */
bool run_region_changed(const json_t *row, struct pin_change *ret);

/**
 * run_region_open() - open what the region holds and what it lies over
 * Return: 0, -ENOENT (it holds nothing), -ESTALE, -EINVAL (the state is damaged), -errno with a message.
 */
int run_region_open(const struct run_dir *dir, const json_t *row, enum run_source source,
                    struct run_region *ret, struct error *err) __attribute__((warn_unused_result));

void run_region_deinit(struct run_region *region);
#define AUTO_RUN_REGION __attribute__((cleanup(run_region_deinit)))
