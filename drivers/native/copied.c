#include "drivers/copied.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "drivers/native/parts.h"
#include "fs/rules-json.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/escape.h"
#include "runtime/base/json.h"

enum { PATH_JSON_MAX = 4096 };

void copied_deinit(struct copied *c) {
        pin_deinit(&c->pin);
        c->rules = rules_free(c->rules);
        free(TAKE_PTR(c->target));
        json_decref(TAKE_PTR(c->row));
}

static json_t *row_of(const struct copied *c, enum workspace_mode mode) {
        return json_pack("{s:i,s:o,s:o,s:s,s:s,s:s,s:s,s:b,s:I,s:I,s:I,s:I,s:o*}", "index", 0, "source",
                         json_from_bytes(c->pin.path, PATH_JSON_MAX), "target",
                         json_from_bytes(c->target, PATH_JSON_MAX), "kind",
                         mode == WORKSPACE_COW  ? "cow"
                         : mode == WORKSPACE_RO ? "ro"
                                                : "staged",
                         "role", "workspace", "on_source_change", "pin", "engine", "copy", "file", 0, "dev",
                         (json_int_t) c->pin.dev, "ino", (json_int_t) c->pin.ino, "btime_ns",
                         (json_int_t) c->pin.btime_ns, "owner", (json_int_t) c->pin.owner, "rules",
                         rules_to_json(c->rules));
}

int copied_init(const struct ctx *ctx, const struct spec *spec, struct copied *ret, struct error *err) {
        AUTO_FREE struct driver_plan *plan = calloc(1, sizeof(*plan));
        const char *source = spec->workspace.source ? spec->workspace.source : ctx->cwd;
        const struct region_request req = { .source = source,
                                            .target = spec->workspace.target,
                                            .kind = spec->workspace.mode == WORKSPACE_RO ? REGION_RO
                                                                                         : REGION_STAGED,
                                            .role = ROLE_WORKSPACE,
                                            .builtin_rules = true };
        int r;

        if (!plan)
                return error_set(err, -ENOMEM, "out of memory");
        if (!source || strcmp(source, "/") == 0)
                return error_set(err, -EINVAL,
                                 "workspace: go to the project's directory or give --workspace DIR");
        plan->ctx = ctx;
        plan->memo = pin_memo_new();
        plan->policy = (struct pin_policy){ .home = ctx->home,
                                            .own_home = ctx->passwd_home,
                                            .state_dir = ctx->state_dir,
                                            .memo = plan->memo,
                                            .allowed = (const char *const *) spec->allow_sensitive,
                                            .n_allowed = spec->n_allow_sensitive };
        r = region_add(plan, spec, &req, false, err);
        plan->memo = pin_memo_free(plan->memo);
        if (r < 0)
                return error_wrap(err, r, "workspace");
        ret->pin = TAKE(plan->regions[0].pin, (struct pin) PIN_INIT);
        ret->target = TAKE_PTR(plan->regions[0].target);
        ret->rules = TAKE_PTR(plan->regions[0].rules);
        ret->comes_back = spec->workspace.mode != WORKSPACE_RO;
        if (!S_ISDIR(ret->pin.type))
                return error_set(err, -ENOTDIR,
                                 "workspace '%s' is a file: give its directory with --workspace",
                                 ESC(ret->pin.path));
        ret->row = row_of(ret, spec->workspace.mode);
        return ret->row ? 0 : error_set(err, -ENOMEM, "out of memory");
}
