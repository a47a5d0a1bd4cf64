#include "runtime/agent/placement.h"

#include <assert.h>
#include <string.h>

#include "runtime/base/cleanup.h"

static const struct row {
        const char *name;
        enum placement placement;
        const char *reason;
} rows[] = {
#define ROW(name, placement, reason) { #name, PLACEMENT_##placement, reason },
        PLACEMENT_ROWS(ROW)
#undef ROW
};
static_assert(ARRAY_SIZE(rows) == PLACEMENT_ROW_COUNT, "rows[] and enum differ");
static_assert(PLACEMENT_REFUSED == 0, "what is forgotten must be refused");

static const char *const names[] = {
        [PLACEMENT_REFUSED] = "refused",
        [PLACEMENT_SANDBOX] = "sandbox",
        [PLACEMENT_LAUNCHER] = "launcher",
};
static_assert(ARRAY_SIZE(names) == PLACEMENT_COUNT, "names[] and enum differ");

const char *placement_name(enum placement placement) {
        return names[placement];
}

const char *placement_listed(enum placement_row row) {
        return rows[row].name;
}

static bool separator(char c) {
        return c == '.' || c == '_';
}

/* Behind "mcp" and a separator stand at least three bytes, with a separator strictly inside them. */
bool placement_is_mcp(const char *name) {
        enum { HEAD = 4, REST_MIN = 3 };
        const size_t len = strlen(name);

        if (len < HEAD + REST_MIN || strncmp(name, "mcp", 3) != 0 || !separator(name[3]))
                return false;
        for (size_t i = HEAD + 1; i + 1 < len; i++)
                if (separator(name[i]))
                        return true;
        return false;
}

static const struct row *find(const char *name) {
        for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
                if (strcmp(name, rows[i].name) == 0)
                        return &rows[i];
        return NULL;
}

bool placement_has_row(const char *name) {
        return find(name) != NULL;
}

enum placement placement_of(const char *name, const char **ret_reason) {
        const struct row *row = find(name);

        if (ret_reason && row)
                *ret_reason = row->reason;
        else if (ret_reason)
                *ret_reason = placement_is_mcp(name) ? "is served by the operator's servers"
                                                     : "is no tool that is known";
        if (row)
                return row->placement;
        return placement_is_mcp(name) ? PLACEMENT_LAUNCHER : PLACEMENT_REFUSED;
}
