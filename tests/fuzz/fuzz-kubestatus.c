/*
 * fuzz-kubestatus.c - what an API server says: lines of a watch, and Status objects of refusals
 */
#include <string.h>

#include "kubernetes/client/watch.h"
#include "runtime/base/json.h"
#include "tests/fuzz/fuzz.h"

static void check(bool holds) {
        if (!holds)
                __builtin_trap();
}

static unsigned depth_of(const json_t *j) {
        unsigned deepest = 0;
        const char *key;
        json_t *value;
        size_t i;

        if (json_is_object(j)) {
                json_object_foreach((json_t *) (uintptr_t) j, key, value) {
                        const unsigned d = depth_of(value);

                        deepest = d > deepest ? d : deepest;
                }
        } else if (json_is_array(j)) {
                json_array_foreach(j, i, value) {
                        const unsigned d = depth_of(value);

                        deepest = d > deepest ? d : deepest;
                }
        } else {
                return 0;
        }
        return deepest + 1;
}

static void check_failure(int http, const uint8_t *data, size_t size) {
        struct kube_failure failure;

        kube_failure_read(http, (const char *) data, size, &failure);
        check(failure.http == http && failure.retry_s <= 3600);
        check(memchr(failure.message, '\0', sizeof(failure.message)) &&
              memchr(failure.reason, '\0', sizeof(failure.reason)));
        check(!strpbrk(failure.message, "\n\r\x1b") && !strpbrk(failure.reason, "\n\r\x1b"));
        check(kube_failure_errno(&failure) < 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        const uint8_t *end = data + size;

        if (size > 1 << 20)
                return 0;
        check_failure(409, data, size);
        check_failure(503, data, size);
        while (data < end) {
                const uint8_t *line_end = memchr(data, '\n', (size_t) (end - data));
                const size_t len = (size_t) ((line_end ? line_end : end) - data);
                struct kube_watch_event event = { 0 };

                if (kube_watch_parse((const char *) data, len, &event) == 0) {
                        struct kube_failure failure;

                        check(json_is_object(event.object) && depth_of(event.object) <= KUBE_DEPTH_MAX);
                        check(memchr(event.type, '\0', sizeof(event.type)) != NULL);
                        kube_failure_read_json(0, event.object, &failure);
                        check(failure.http == 0 || (failure.http >= 100 && failure.http < 600));
                        json_decref(event.object);
                }
                data += len + (line_end != NULL);
        }
        return 0;
}
