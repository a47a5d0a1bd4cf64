/* read_image, and base64 */
#include <errno.h>
#include <string.h>

#include "runtime/agent/runner/tools.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/escape.h"
#include "runtime/base/json.h"

int base64_add(struct buf *out, const void *data, size_t len) {
        static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        const unsigned char *s = data;
        int r = 0;

        for (size_t i = 0; r == 0 && i < len; i += 3) {
                const unsigned int v = (unsigned int) s[i] << 16 |
                                       (i + 1 < len ? (unsigned int) s[i + 1] << 8 : 0) |
                                       (i + 2 < len ? s[i + 2] : 0);
                const char four[] = { digits[v >> 18 & 63], digits[v >> 12 & 63],
                                      i + 1 < len ? digits[v >> 6 & 63] : '=',
                                      i + 2 < len ? digits[v & 63] : '=' };

                r = buf_add(out, four, sizeof(four));
        }
        return r;
}

static const char *media_type(const struct buf *b) {
        static const struct {
                const char *type, *magic;
                size_t len, at;
        } kinds[] = { { "image/png", "\x89PNG\r\n\x1a\n", 8, 0 },
                      { "image/jpeg", "\xff\xd8\xff", 3, 0 },
                      { "image/gif", "GIF87a", 6, 0 },
                      { "image/gif", "GIF89a", 6, 0 },
                      { "image/webp", "WEBP", 4, 8 } };

        for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
                if (b->len >= kinds[i].at + kinds[i].len &&
                    memcmp(b->data + kinds[i].at, kinds[i].magic, kinds[i].len) == 0)
                        return kinds[i].type;
        }
        return NULL;
}

int tool_read_image(struct tool_env *env, const json_t *input, struct tool_result *ret) {
        const char *path = arg_str(input, "path", ""), *type;
        AUTO_BUF struct buf bytes = { 0 }, text = { 0 };
        struct error err = { 0 };

        if (work_read(env, path, TOOL_IMAGE_MAX, &bytes, &err) < 0)
                return tool_fail(ret, "%s", err.msg);
        type = media_type(&bytes);
        if (!type)
                return tool_fail(ret, "'%s' is no PNG, JPEG, GIF or WebP", ESC(path));
        if (base64_add(&text, bytes.data, bytes.len) < 0)
                return -ENOMEM;
        ret->content = json_pack("[{s:s,s:{s:s,s:s,s:s}}]", "type", "image", "source", "type", "base64",
                                 "media_type", type, "data", text.data);
        return ret->content ? 0 : -ENOMEM;
}
