/*
 * tier.h - who said a value of the specification
 */
#pragma once

/* who said a value; higher wins over lower, see docs/adr and cofferdam.yaml(5) "Precedence" */
enum spec_tier {
        TIER_BUILTIN,
        TIER_REPOSITORY,
        TIER_CONFIG,
        TIER_ENVIRONMENT,
        TIER_WORKFLOW,
        TIER_FLAG,
        TIER_COUNT
};
