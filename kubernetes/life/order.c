#include "kubernetes/life/order.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "kubernetes/manifest/plan.h"
#include "runtime/base/buf.h"
#include "runtime/base/file.h"
#include "runtime/base/json.h"
#include "runtime/base/parse.h"

enum { ORDER_BYTES_MAX = 16 << 20 };

int order_read(int fd, struct order *ret, struct error *err) {
        AUTO_BUF struct buf text = { 0 };
        AUTO_JSON json_t *json = NULL;
        struct order o = { 0 };
        json_int_t now = 0, previous = 0, ready = 0, bytes = 0, copy = 0;
        json_error_t why;
        int same = 0, back = 1;
        int r;

        if (lseek(fd, 0, SEEK_SET) < 0)
                return error_set(err, -errno, "order: %s", strerror(errno));
        r = file_read(fd, ORDER_BYTES_MAX, &text);
        if (r < 0)
                return error_set(err, r, "order: %s", strerror(-r));
        json = json_loadb(buf_cstr(&text), text.len, JSON_REJECT_DUPLICATES, &why);
        if (!json ||
            json_unpack_ex(json, &why, 0,
                           "{s?s,s?s,s?s,s?s,s?s,s:o,s:o,s:s,s:s,s?s,s?o,s?s,s?s,s?s,s?s,s:I,s?I,s?I,s?I,s?s,"
                           "s?b,s?b,s?o,s?I,s?o,s?o}",
                           "context", &o.context, "file", &o.file, "ns", &o.ns, "managed_by", &o.managed_by,
                           "domain", &o.domain, "objects", &o.objects, "pod", &o.pod, "pod_name", &o.pod_name,
                           "container", &o.container, "extend_claim", &o.extend_claim, "extend_patch",
                           &o.extend_patch, "owner_name", &o.owner_name, "owner_uid", &o.owner_uid,
                           "previous", &o.previous, "what", &o.what, "now_s", &now, "previous_ms", &previous,
                           "ready_ms", &ready, "copy_ms", &copy, "workspace", &o.workspace, "same_path",
                           &same, "comes_back", &back, "rules", &o.rules, "bytes_max", &bytes, "secret",
                           &o.secret, "secret_files", &o.secret_files) < 0)
                return error_set(err, -EINVAL, "order: %s", why.text);
        o.now_s = now;
        o.previous_ms = previous > 0 ? (uint64_t) previous : 60000;
        o.ready_ms = ready > 0 ? (uint64_t) ready : 600000;
        o.copy_ms = copy > 0 ? (uint64_t) copy : 1800000;
        o.bytes_max = bytes > 0 ? (uint64_t) bytes : 0;
        o.same_path = same != 0;
        o.comes_back = back != 0;
        o.json = TAKE_PTR(json);
        *ret = o;
        return 0;
}

void order_deinit(struct order *order) {
        json_decref(order->json);
        order->json = NULL;
}

/* Moves the annotation of one object by @by seconds. */
static int date_object(json_t *object, const char *key, int64_t by) {
        json_t *annotations = json_object_get(json_object_get(object, "metadata"), "annotations");
        const char *text = json_string_value(json_object_get(annotations, key));
        char moved[32];
        uint64_t at;

        if (!text || parse_u64(text, 0, INT64_MAX / 2, &at) < 0)
                return 0;
        (void) snprintf(moved, sizeof(moved), "%" PRId64, (int64_t) at + by);
        return json_object_set_new(annotations, key, json_string(moved)) < 0 ? -ENOMEM : 0;
}

int order_date(struct order *order, int64_t now_s) {
        const int64_t by = now_s - order->now_s;
        char key[320];
        size_t i;
        json_t *row;
        int r;

        (void) snprintf(key, sizeof(key), "%s/expires-at",
                        order->domain ? order->domain : KUBE_DEFAULT_DOMAIN);
        r = date_object(order->pod, key, by);
        json_array_foreach(order->objects, i, row) {
                if (r == 0)
                        r = date_object(json_object_get(row, "object"), key, by);
        }
        if (r == 0 && order->secret)
                r = date_object(order->secret, key, by);
        if (r == 0 && order->extend_patch)
                r = date_object(order->extend_patch, key, by);
        if (r == 0)
                order->now_s = now_s;
        return r;
}
