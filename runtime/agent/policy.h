/*
 * policy.h - which tools a node may call: "ACTION: TOOL" or "ACTION: TOOL(PATTERN)", deny wins
 *
 * TOOL and PATTERN are globs: '*' is any text, '?' one byte. TOOL is compared with each identity of the tool
 * (its advertised name and the names of an MCP tool), PATTERN with the argument that says what the call is
 * about (permission_subject()). Where a rule allows something, what no rule allows is denied; a policy that
 * denies only, allows the rest.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "runtime/base/error.h"

enum {
        POLICY_RULES_MAX = 1024,
        POLICY_RULE_MAX = 4096, /* bytes */
};

struct permission;

/**
 * permission_new() - a policy from the data of a permission_policy: {"rules": ["deny: bash(rm *)", ..]}
 * @data: NULL or JSON null: no rules
 * @ret: owned, permission_free(); written on success only
 * An unknown key or action, and a rule that says nothing, are errors: half a policy is none.
 * Return: 0, -EINVAL, -E2BIG, -ENOMEM, with a message that names the rule.
 */
int permission_new(const json_t *data, struct permission **ret, struct error *err)
        __attribute__((warn_unused_result));

/** permission_add() - the rules of @data behind those of @p. Return: as permission_new(); @p is unchanged
 * then. */
int permission_add(struct permission *p, const json_t *data, struct error *err)
        __attribute__((warn_unused_result));

/** permission_free() - NULL allowed. Return: NULL. */
struct permission *permission_free(struct permission *p);

/** struct identity - the names that one tool has; borrowed */
struct identity {
        const char *names[3]; /* the advertised one, mcp__SERVER__TOOL, mcp.SERVER.TOOL; NULL: none */
};

/**
 * permission_allows() - whether the tool may be called with @input
 * @p: NULL: everything
 * @input: NULL: none
 * @ret_rule: the rule that decided, or why none did; borrowed from @p or static; NULL allowed
 * Return: false also when out of memory.
 */
bool permission_allows(const struct permission *p, const struct identity *tool, const json_t *input,
                       const char **ret_rule);

/**
 * permission_denies_tool() - whether the tool is denied whatever its input: it need not be advertised then
 * @ret_rule: as above
 */
bool permission_denies_tool(const struct permission *p, const struct identity *tool, const char **ret_rule);

/** permission_json() - the rules as the data of a permission_policy; new reference, NULL: out of memory */
json_t *permission_json(const struct permission *p) __attribute__((warn_unused_result));

/** permission_is_closed() - whether what no rule allows is denied; NULL: it is not */
bool permission_is_closed(const struct permission *p);

/** permission_is_empty() - whether there is no rule; NULL: there is none */
bool permission_is_empty(const struct permission *p);

/**
 * permission_subject() - what @input is about: its "command", "file_path", "path", "url" or "pattern", the
 * first that is a text, else all of it as compact JSON. Return: owned; NULL: out of memory.
 */
char *permission_subject(const json_t *input) __attribute__((warn_unused_result));

/** permission_glob() - whether @text is what @glob describes; at most the product of both lengths in steps */
bool permission_glob(const char *glob, const char *text);
