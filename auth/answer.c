#include "auth/answer.h"

#include "runtime/base/cleanup.h"
#include "runtime/base/json.h"

static const struct {
        unsigned int status;
        const char *reason;
} reasons[] = {
        { 200, "OK" },
        { 201, "Created" },
        { 202, "Accepted" },
        { 204, "No Content" },
        { 206, "Partial Content" },
        { 301, "Moved Permanently" },
        { 302, "Found" },
        { 303, "See Other" },
        { 304, "Not Modified" },
        { 307, "Temporary Redirect" },
        { 308, "Permanent Redirect" },
        { 400, "Bad Request" },
        { 401, "Unauthorized" },
        { 403, "Forbidden" },
        { 404, "Not Found" },
        { 405, "Method Not Allowed" },
        { 408, "Request Timeout" },
        { 409, "Conflict" },
        { 413, "Content Too Large" },
        { 417, "Expectation Failed" },
        { 422, "Unprocessable Content" },
        { 429, "Too Many Requests" },
        { 431, "Request Header Fields Too Large" },
        { 500, "Internal Server Error" },
        { 502, "Bad Gateway" },
        { 503, "Service Unavailable" },
        { 504, "Gateway Timeout" },
        { 529, "Overloaded" },
};

const char *answer_reason(unsigned int status) {
        for (size_t i = 0; i < ARRAY_SIZE(reasons); i++) {
                if (reasons[i].status == status)
                        return reasons[i].reason;
        }
        return "";
}

int answer_write(struct buf *out, const struct answer *a, bool head_only, bool keep) {
        int r;

        r = buf_fmt(out, "HTTP/1.1 %u %s\r\n", a->status, answer_reason(a->status));
        if (r == 0 && a->allow)
                r = buf_fmt(out, "Allow: %s\r\n", a->allow);
        if (r == 0 && a->type)
                r = buf_fmt(out, "Content-Type: %s\r\n", a->type);
        if (r == 0 && a->status != 204)
                r = buf_fmt(out, "Content-Length: %zu\r\n", a->body_len);
        if (r == 0)
                r = buf_str(out, "Cache-Control: no-store\r\n");
        if (r == 0)
                r = buf_str(out, keep ? "\r\n" : "Connection: close\r\n\r\n");
        if (r == 0 && !head_only && a->body_len > 0)
                r = buf_add(out, a->body, a->body_len);
        return r;
}

char *answer_error(const char *kind, const char *message) {
        AUTO_JSON json_t *json =
                json_pack("{s:s, s:{s:s, s:s}}", "type", "error", "error", "type", kind, "message", message);

        return json ? json_dumps(json, JSON_COMPACT) : NULL;
}
