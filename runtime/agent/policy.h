/*
 * policy.h - which tools a node may call: "ACTION: TOOL" or "ACTION: TOOL(PATTERN)", deny wins
 *
 * TOOL and PATTERN are globs: '*' is any text, '?' one byte. TOOL is compared with each identity of the tool
 * (its advertised name and the names of an MCP tool), PATTERN with the argument that says what the call is
 * about (policy_subject()). Where a rule allows something, what no rule allows is denied; a policy that
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

struct policy;

/**
 * policy_new() - a policy from the data of a permission_policy: {"rules": ["deny: bash(rm *)", ..]}
 * @data: NULL or JSON null: no rules
 * @ret: owned, policy_free(); written on success only
 * An unknown key or action, and a rule that says nothing, are errors: half a policy is none.
 * Return: 0, -EINVAL, -E2BIG, -ENOMEM, with a message that names the rule.
 */
int policy_new(const json_t *data, struct policy **ret, struct error *err)
        __attribute__((warn_unused_result));

/** policy_add() - the rules of @data behind those of @p. Return: as policy_new(); @p is unchanged then. */
int policy_add(struct policy *p, const json_t *data, struct error *err) __attribute__((warn_unused_result));

/** policy_free() - NULL allowed. Return: NULL. */
struct policy *policy_free(struct policy *p);

/** struct identity - the names that one tool has; borrowed */
struct identity {
        const char *names[3]; /* the advertised one, mcp__SERVER__TOOL, mcp.SERVER.TOOL; NULL: none */
};

/**
 * policy_allows() - whether the tool may be called with @input
 * @p: NULL: everything
 * @input: NULL: none
 * @ret_rule: the rule that decided, or why none did; borrowed from @p or static; NULL allowed
 * Return: false also when out of memory.
 */
bool policy_allows(const struct policy *p, const struct identity *tool, const json_t *input,
                   const char **ret_rule);

/**
 * policy_denies_tool() - whether the tool is denied whatever its input: it need not be advertised then
 * @ret_rule: as above
 */
bool policy_denies_tool(const struct policy *p, const struct identity *tool, const char **ret_rule);

/** policy_json() - the rules as the data of a permission_policy; new reference, NULL: out of memory */
json_t *policy_json(const struct policy *p) __attribute__((warn_unused_result));

/** policy_is_empty() - whether there is no rule; NULL: there is none */
bool policy_is_empty(const struct policy *p);

/**
 * policy_subject() - what @input is about: its "command", "file_path", "path", "url" or "pattern", the first
 * that is a text, else all of it as compact JSON. Return: owned; NULL: out of memory.
 */
char *policy_subject(const json_t *input) __attribute__((warn_unused_result));

/** glob_match() - whether @text is what @glob describes; at most the product of both lengths in steps */
bool glob_match(const char *glob, const char *text);
