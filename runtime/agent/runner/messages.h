/*
 * messages.h - one call of a model by the Messages API, streamed
 */
#pragma once

#include <jansson.h>
#include <stdint.h>

#include "runtime/agent/runner/http.h"

enum {
        MODEL_REQUEST_BYTES_MAX = 32 * 1024 * 1024, /* what the relay passes on */
        MODEL_ANSWER_BYTES_MAX = 64 * 1024 * 1024,
        MODEL_BLOCKS_MAX = 512,
        MODEL_DEPTH_MAX = 96,    /* levels of JSON: the launcher takes them inside its own */
        MODEL_NESTS_MAX = 50000, /* arrays and objects of an answer, those of plain events not counted */
        MODEL_CITATIONS_MAX = 1000,
        MODEL_REASON_MAX = 512,
};

/** struct model - where and as whom it is asked; strings borrowed, NULL: not set */
struct model {
        struct http_net net;
        const char *base_url; /* NULL: https://api.anthropic.com */
        const char *token;    /* Authorization: Bearer */
        const char *api_key;  /* x-api-key */
        uint64_t head_ms;     /* until the head of an answer; 0: 300 s */
        uint64_t idle_ms;     /* between bytes of it; 0: 120 s */
};

/** struct model_usage - tokens, as the server counts them */
struct model_usage {
        uint64_t input, output, cache_creation, cache_read;
};

/** enum model_outcome - what came of a call */
enum model_outcome {
        MODEL_DONE,
        MODEL_AGAIN,    /* may go well another time: @reason, @status, @retry_after_ms */
        MODEL_OVERFLOW, /* the conversation is too long for the model */
        MODEL_REFUSED,  /* will not go better: @reason */
};

/** struct model_answer - filled by model_call(); model_answer_deinit() it */
struct model_answer {
        json_t *content; /* owned array of blocks, thinking with its signatures; only for MODEL_DONE */
        json_t *invalid; /* owned: id of a tool_use whose input was no JSON object -> what it was */
        char stop_reason[48];
        struct model_usage usage; /* also of calls that failed on the way */
        unsigned int status;      /* of HTTP, 0: none came */
        uint64_t retry_after_ms;  /* 0: the server did not say */
        char reason[MODEL_REASON_MAX];
};

/**
 * model_call() - send @request ("stream" is added) and read all of the answer
 * Blocks. Return: enum model_outcome; -EPIPE (the launcher is gone), -ENOMEM.
 */
int model_call(const struct model *m, json_t *request, struct model_answer *ret, struct error *err)
        __attribute__((warn_unused_result));

/** model_answer_deinit() - frees what is kept */
void model_answer_deinit(struct model_answer *a);
#define AUTO_ANSWER CLEANUP(model_answer_deinit)

/** struct model_stream - an answer so far; fields are private to messages.c and its tests */
struct model_stream;
/** model_stream_new() - Return: owned, NULL: out of memory. */
struct model_stream *model_stream_new(struct model_answer *a);
/**
 * model_stream_event() - take one event of the answer
 * Return: 0; 1: the answer is complete; -EPROTO (@a has the reason: not what the API sends); -ECANCELED (the
 * server reports an error, @a has its reason and status as if it had been one of HTTP); -ENOMEM.
 */
int model_stream_event(struct model_stream *s, const char *data, size_t len)
        __attribute__((warn_unused_result));
/** model_stream_free() - Return: NULL. */
struct model_stream *model_stream_free(struct model_stream *s);
