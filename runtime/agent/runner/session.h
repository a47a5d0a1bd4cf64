/*
 * session.h - conversations: checked when they come from outside, made shorter when they are too long
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

enum {
        SESSION_PRESERVE = 6, /* messages at the end that a compaction keeps, unless the task says */
        SESSION_DIGEST_MAX = 64 * 1024,  /* bytes of what is summarised */
        SESSION_SUMMARY_MAX = 16 * 1024, /* bytes of a summary */
        SESSION_RESULT_KEPT = 1024,      /* bytes of a tool's result that a hard compaction keeps */
        SESSION_MESSAGES_MAX = 100000,
};

/**
 * session_repair() - what of @messages can be sent: objects with a role and content, each tool_use answered
 * by the next message, nothing answered that was not asked
 * @ret_dropped: how many were dropped or made up
 * Return: new reference, NULL when out of memory.
 */
json_t *session_repair(const json_t *messages, size_t *ret_dropped);

/**
 * session_answer() - add the answer to @tool_use_id, which waits in the last assistant message
 * Return: 0, -ENOENT (nothing waits under that id), -ENOMEM.
 */
int session_answer(json_t *messages, const char *tool_use_id, const char *answer)
        __attribute__((warn_unused_result));

/**
 * session_split() - where the part begins that a compaction keeps: at an assistant message, so that no answer
 * is without its question
 * Return: index; 1 or less: there is nothing between the first message and it.
 */
size_t session_split(const json_t *messages, size_t preserve);

/** session_digest() - messages 1..@end-1 as text, each cut, all of it SESSION_DIGEST_MAX at most. Return:
 * owned. */
char *session_digest(const json_t *messages, size_t end);

/**
 * session_compact() - the first message with @summary behind it, then what begins at @split
 * Return: new reference, NULL when out of memory.
 */
json_t *session_compact(const json_t *messages, size_t split, const char *summary);

/** session_cut_results() - results of tools over SESSION_RESULT_KEPT are cut with a marker. Return: how many,
 * -ENOMEM. */
int session_cut_results(json_t *messages);
