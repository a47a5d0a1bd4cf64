/*
 * doctor.h - what doctor found, and the two shapes of its report
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "drivers/native/probe.h"
#include "runtime/base/ctx.h"
#include "runtime/base/error.h"
#include "runtime/spec/flags.h"

enum check_status { CHECK_PASS, CHECK_WARN, CHECK_FAIL, CHECK_STATUS_COUNT };

/** struct check - one question of --strict and its answer */
struct check {
        const char *name; /* static */
        enum check_status status;
        char message[ERROR_MSG_MAX];
};

enum { CHECKS_MAX = 24, CLUSTER_ROWS_MAX = 5 };

/** struct report - everything doctor found */
struct report {
        struct probe_row rows[PROBE_ROWS_MAX + CLUSTER_ROWS_MAX];
        size_t n_rows;
        struct check checks[CHECKS_MAX]; /* with --strict */
        size_t n_checks;
        bool planned;         /* --strict has looked for a driver of the run: */
        const char *driver;   /* it, static; NULL: none serves it */
        char spread_key[320]; /* of the specification, with --strict; "": none */
        bool cloud;           /* for a Kubernetes cluster: this host need not be able to run anything */
};

/** report_row() - the row with that key, borrowed; NULL: there is none */
const struct probe_row *report_row(const struct report *report, const char *key);

/** report_failures() - how many required rows are missing, plus the checks that failed */
size_t report_failures(const struct report *report);

/** report_driver() - the driver that the run of --strict, else one by itself, takes; NULL: none serves it
 * here. Static. */
const char *report_driver(const struct report *report);

/**
 * report_strict() - what a run of the specification on the command line would need: fills report->checks
 * @flags: of a flag_set with the options of the specification
 * Rows that such a run does without stop being required. Plans the run and starts nothing.
 */
void report_strict(const struct ctx *ctx, const struct flags *flags, struct report *report);

/**
 * report_cluster() - ask the cluster: rows after those of probe_all()
 * @probe_image: with sh and nc, for two pods that prove its network; NULL: not proved
 * Executes cofferdam-kubernetes where probe_all() found a server; a minute at most, with @probe_image four.
 */
void report_cluster(const struct ctx *ctx, const char *probe_image, struct report *report);

/** report_print() - the table to standard output, within 80 columns */
void report_print(const struct report *report);

/** report_json() - new reference; NULL: no memory */
json_t *report_json(const struct ctx *ctx, const struct report *report) __attribute__((warn_unused_result));
