#include "kubernetes/client/status.h"

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <string.h>

#include "runtime/base/escape.h"
#include "runtime/base/json.h"

enum { PAUSE_MAX_S = 3600 };

int kube_json_parse(const char *text, size_t len, json_t **ret) {
        json_error_t why;
        json_t *j;

        if (len == 0 || !json_modest(text, len, KUBE_DEPTH_MAX, KUBE_NESTS_MAX, NULL))
                return -EBADMSG;
        j = json_loadb(text, len, JSON_REJECT_DUPLICATES, &why);
        if (!j)
                return json_error_code(&why) == json_error_out_of_memory ? -ENOMEM : -EBADMSG;
        *ret = j;
        return 0;
}

const char *kube_json_text(const json_t *object, ...) {
        const char *key;
        va_list keys;

        va_start(keys, object);
        while (object && (key = va_arg(keys, const char *)))
                object = json_object_get(object, key);
        va_end(keys);
        return json_string_value(object);
}

static void keep(char *to, size_t size, const char *text) {
        (void) escape_str(text ? text : "", to, size);
}

void kube_failure_read_json(int http, const json_t *status, struct kube_failure *ret) {
        const json_t *code = json_object_get(status, "code");
        const json_t *pause = json_object_get(json_object_get(status, "details"), "retryAfterSeconds");

        *ret = (struct kube_failure){ .http = http };
        if (http == 0 && json_is_integer(code) && json_integer_value(code) >= 100 &&
            json_integer_value(code) < 600)
                ret->http = (int) json_integer_value(code);
        if (json_is_integer(pause) && json_integer_value(pause) > 0)
                ret->retry_s = json_integer_value(pause) > PAUSE_MAX_S ? PAUSE_MAX_S
                                                                       : (unsigned) json_integer_value(pause);
        keep(ret->reason, sizeof(ret->reason), kube_json_text(status, "reason", NULL));
        keep(ret->message, sizeof(ret->message), kube_json_text(status, "message", NULL));
}

void kube_failure_read(int http, const char *body, size_t len, struct kube_failure *ret) {
        AUTO_JSON json_t *status = NULL;
        char text[KUBE_MESSAGE_MAX] = { 0 };

        if (kube_json_parse(body, len, &status) == 0 && json_is_object(status)) {
                kube_failure_read_json(http, status, ret);
                return;
        }
        *ret = (struct kube_failure){ .http = http };
        /* a proxy's page, or plain text of the server */
        if (len > 0)
                memcpy(text, body, len < sizeof(text) ? len : sizeof(text) - 1);
        for (size_t n = strlen(text); n > 0 && (text[n - 1] == '\n' || text[n - 1] == '\r'); n--)
                text[n - 1] = '\0';
        keep(ret->message, sizeof(ret->message), text);
}

int kube_failure_errno(const struct kube_failure *failure) {
        static const struct {
                int http, code;
        } codes[] = { { 401, -EACCES },    { 403, -EPERM },  { 404, -ENOENT },
                      { 408, -ETIMEDOUT }, { 410, -ESTALE }, { 429, -EAGAIN } };

        if (failure->http >= 200 && failure->http < 300)
                return 0;
        if (failure->http == 409)
                return strcmp(failure->reason, "AlreadyExists") == 0 ? -EEXIST : -EBUSY;
        for (size_t i = 0; i < ARRAY_SIZE(codes); i++)
                if (codes[i].http == failure->http)
                        return codes[i].code;
        if (failure->http >= 500)
                return -EREMOTEIO;
        return failure->http >= 400 ? -EINVAL : -EBADMSG;
}
