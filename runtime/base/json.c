#include "runtime/base/json.h"

#include <string.h>

#include "runtime/base/escape.h"

json_t *json_from_bytes(const char *s, size_t max) {
        const size_t len = strlen(s), room = 4 * len + 64;
        AUTO_FREE char *out = NULL;

        if (len <= max && utf8_valid(s, len))
                return json_stringn(s, len);
        out = malloc(room);
        if (!out)
                return NULL;
        (void) escape_str(s, out, room);
        if (strlen(out) > max) {
                size_t cut = max;

                while (cut > 0 && (out[cut] & 0xc0) == 0x80)
                        cut--;
                (void) snprintf(out + cut, room - cut, "... (%zu bytes)", len);
        }
        return json_string(out);
}

bool json_modest(const char *text, size_t len, size_t depth_max, size_t nests_max, size_t *ret) {
        size_t depth = 0, all = 0;
        bool quoted = false;

        for (size_t i = 0; i < len && depth <= depth_max && all <= nests_max; i++) {
                if (quoted && text[i] == '\\')
                        i++;
                else if (text[i] == '"')
                        quoted = !quoted;
                else if (!quoted && (text[i] == '{' || text[i] == '[')) {
                        depth++;
                        all++;
                } else if (!quoted && (text[i] == '}' || text[i] == ']') && depth > 0)
                        depth--;
        }
        if (ret)
                *ret = all;
        return depth <= depth_max && all <= nests_max;
}
