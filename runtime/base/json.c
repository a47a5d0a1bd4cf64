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
