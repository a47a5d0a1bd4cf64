/*
 * fuzz-image-ref.c - the name of an image
 */
#include <stdlib.h>
#include <string.h>

#include "runtime/base/cleanup.h"
#include "runtime/spec/ref.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        AUTO_FREE char *text = strndup((const char *) data, size);
        AUTO_REF struct ref ref = { 0 }, again = { 0 };
        struct error err = { 0 };

        if (size > 4096 || !text)
                return 0;
        if (ref_parse(text, &ref, &err) < 0) {
                if (!ref_wrong(text) || !*err.msg || strchr(err.msg, '\n') || ref.text)
                        __builtin_trap();
                return 0;
        }
        /* what it means in full means the same; nothing of it could leave a URL's path or a header */
        if (ref_wrong(text) || ref_parse(ref.text, &again, &err) < 0 || strcmp(again.text, ref.text) != 0 ||
            (!ref.tag && !ref.digest))
                __builtin_trap();
        for (const char *s = ref.text; *s; s++)
                if (*s <= ' ' || *s >= 0x7f || strchr("?#%\\\"'<>", *s))
                        __builtin_trap();
        if (strstr(ref.repo, "..") || *ref.repo == '/' || strstr(ref.repo, "//"))
                __builtin_trap();
        return 0;
}
