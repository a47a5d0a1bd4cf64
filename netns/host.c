#include "netns/host.h"

#include <errno.h>
#include <idn2.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/cleanup.h"
#include "runtime/base/escape.h"
#include "runtime/base/parse.h"

enum { INPUT_MAX = 1024 }; /* UTF-8 of a name that may become 253 bytes, with room */

static void auto_idn(uint8_t **p) {
        idn2_free(*p);
        *p = NULL;
}

/* --- IPv4 as inet_aton(3) reads it ---------------------------------------------------------------------- */

static int digit_of(char c, unsigned int base) {
        int v = -1;

        if (c >= '0' && c <= '9')
                v = c - '0';
        else if (c >= 'a' && c <= 'f')
                v = c - 'a' + 10;
        return v >= 0 && v < (int) base ? v : -1;
}

/* One part; "0x" alone is 0, as browsers and inet_aton have it. */
static int parse_part(const char *s, size_t len, uint64_t *ret) {
        unsigned int base = 10;
        uint64_t v = 0;

        if (len > 1 && s[0] == '0') {
                base = s[1] == 'x' ? 16 : 8;
                s += base == 16 ? 2 : 1;
                len -= base == 16 ? 2 : 1;
        } else if (len == 0) {
                return -EINVAL;
        }
        for (size_t i = 0; i < len; i++) {
                const int d = digit_of(s[i], base);

                if (d < 0)
                        return -EINVAL;
                v = v * base + (uint64_t) d;
                if (v > UINT32_MAX)
                        return -ERANGE;
        }
        *ret = v;
        return 0;
}

static int parse_ipv4(const char *s, struct addr *ret) {
        uint64_t parts[4], v = 0;
        size_t n = 0;

        for (;;) {
                const size_t len = strcspn(s, ".");

                if (n == ARRAY_SIZE(parts) || parse_part(s, len, &parts[n]) < 0)
                        return -EINVAL;
                n++;
                if (!s[len])
                        break;
                s += len + 1;
        }
        for (size_t i = 0; i + 1 < n; i++) {
                if (parts[i] > 255)
                        return -EINVAL;
                v = v << 8 | parts[i];
        }
        if (parts[n - 1] >> (8 * (5 - n)))
                return -EINVAL;
        v = v << (8 * (5 - n)) | parts[n - 1];
        *ret = addr_from_ipv4((uint32_t) v);
        return 0;
}

/* All digits, or a hexadecimal number: whoever resolves such a name may take it for IPv4. */
static bool ends_in_number(const char *name) {
        const char *dot = strrchr(name, '.');
        const char *last = dot ? dot + 1 : name;

        if (last[0] == '0' && last[1] == 'x')
                return last[2 + strspn(last + 2, "0123456789abcdef")] == '\0';
        return last[strspn(last, "0123456789")] == '\0';
}

/* --- names ---------------------------------------------------------------------------------------------- */

static int check_label(const char *s, size_t len, struct error *err) {
        if (len == 0)
                return error_set(err, -EINVAL, "a host with an empty label");
        if (len > HOST_LABEL_BYTES_MAX)
                return error_set(err, -EINVAL, "a label of more than %d bytes", HOST_LABEL_BYTES_MAX);
        if (s[0] == '-' || s[len - 1] == '-')
                return error_set(err, -EINVAL, "a label that begins or ends with '-'");
        for (size_t i = 0; i < len; i++) {
                const char c = s[i];

                if ((c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' && c != '_')
                        return error_set(err, -EINVAL, "a byte that no host has: '%s'",
                                         ESC(((char[]){ c, 0 })));
        }
        return 0;
}

static int check_name(const char *name, struct error *err) {
        for (;;) {
                const size_t len = strcspn(name, ".");
                const int r = check_label(name, len, err);

                if (r < 0 || !name[len])
                        return r;
                name += len + 1;
        }
}

/* Lower-cases ASCII in place and says what else there is. */
static void fold(char *s, bool *ret_ascii, bool *ret_alabel) {
        bool start = true;

        *ret_ascii = true;
        *ret_alabel = false;
        for (; *s; s++) {
                if (*s >= 'A' && *s <= 'Z')
                        *s = (char) (*s - 'A' + 'a');
                if ((unsigned char) *s >= 0x80)
                        *ret_ascii = false;
                if (start && strncasecmp(s, "xn--", 4) == 0)
                        *ret_alabel = true;
                start = *s == '.';
        }
}

/* @name to A-labels, in place; @size bytes of room. */
static int to_ascii(char *name, size_t size, struct error *err) {
        CLEANUP(auto_idn) uint8_t *out = NULL;
        const int r = idn2_lookup_u8((const uint8_t *) name, &out, IDN2_NFC_INPUT | IDN2_NONTRANSITIONAL);
        size_t len;

        if (r == IDN2_MALLOC)
                return error_set(err, -ENOMEM, "out of memory");
        if (r != IDN2_OK)
                return error_set(err, -EINVAL, "not a name of IDNA 2008: %s", idn2_strerror(r));
        len = strlen((const char *) out);
        if (len >= size)
                return error_set(err, -EINVAL, "longer than %d bytes", HOST_NAME_BYTES_MAX);
        memcpy(name, out, len + 1);
        return 0;
}

/* A-labels are looked at too: idn2 refuses one that is not the A-label of what it decodes to. */
static int canonical_name(char *name, size_t size, struct error *err) {
        bool ascii, alabel;

        fold(name, &ascii, &alabel);
        return ascii && !alabel ? 0 : to_ascii(name, size, err);
}

static int parse_name(const char *s, size_t len, struct host *ret, struct error *err) {
        struct host host = { .kind = HOST_NAME };
        char name[INPUT_MAX];
        size_t n;
        int r;

        if (len >= sizeof(name))
                return error_set(err, -EINVAL, "longer than %d bytes", HOST_NAME_BYTES_MAX);
        memcpy(name, s, len);
        name[len] = '\0';
        r = canonical_name(name, sizeof(name), err);
        if (r < 0)
                return r;
        n = strlen(name);
        if (n > 0 && name[n - 1] == '.')
                name[--n] = '\0';
        if (n > HOST_NAME_BYTES_MAX)
                return error_set(err, -EINVAL, "longer than %d bytes", HOST_NAME_BYTES_MAX);
        r = check_name(name, err);
        if (r < 0)
                return r;
        if (ends_in_number(name)) {
                if (parse_ipv4(name, &host.addr) < 0)
                        return error_set(err, -EINVAL,
                                         "neither a name nor an IPv4 address: it ends in a number");
                host.kind = HOST_ADDR;
                (void) addr_text(&host.addr, host.name);
        } else {
                memcpy(host.name, name, n + 1);
        }
        *ret = host;
        return 0;
}

static int parse_ipv6(const char *s, size_t len, struct host *ret, struct error *err) {
        struct host host = { .kind = HOST_ADDR };

        if (!memchr(s, ':', len) || addr_parse(s, len, &host.addr) < 0)
                return error_set(err, -EINVAL, "%s",
                                 memchr(s, '%', len) ? "an address with a zone" : "not an IPv6 address");
        (void) addr_text(&host.addr, host.name);
        *ret = host;
        return 0;
}

int host_parse(const char *s, size_t len, struct host *ret, struct error *err) {
        if (len == 0)
                return error_set(err, -EINVAL, "an empty host");
        if (memchr(s, '\0', len))
                return error_set(err, -EINVAL, "a host with a NUL byte");
        if (s[0] == '[' && s[len - 1] == ']')
                return parse_ipv6(s + 1, len - 2, ret, err);
        if (memchr(s, ':', len))
                return parse_ipv6(s, len, ret, err);
        return parse_name(s, len, ret, err);
}

bool host_is_alias(const struct host *host) {
        return strcmp(host->name, HOST_ALIAS) == 0;
}

static int parse_port(const char *s, size_t len, uint16_t *ret, struct error *err) {
        char text[6] = { 0 };
        uint64_t port;

        if (len >= sizeof(text) || len == 0)
                return error_set(err, -EINVAL, "a port is a number from 1 to 65535");
        memcpy(text, s, len);
        if (strlen(text) != len || parse_u64(text, 1, UINT16_MAX, &port) < 0)
                return error_set(err, -EINVAL, "a port is a number from 1 to 65535");
        *ret = (uint16_t) port;
        return 0;
}

int host_parse_authority(const char *s, size_t len, uint16_t default_port, struct host *ret,
                         uint16_t *ret_port, struct error *err) {
        const char *colon = memrchr(s, ':', len), *bracket = memrchr(s, ']', len);
        uint16_t port = default_port;
        struct host host;
        size_t n = len;
        int r;

        if (colon && (!bracket || colon > bracket)) {
                n = (size_t) (colon - s);
                r = parse_port(colon + 1, len - n - 1, &port, err);
                if (r < 0)
                        return r;
        }
        if (port == 0)
                return error_set(err, -EINVAL, "a host without a port");
        if (n > 0 && s[0] != '[' && memchr(s, ':', n))
                return error_set(err, -EINVAL, "an IPv6 address without brackets");
        r = host_parse(s, n, &host, err);
        if (r < 0)
                return r;
        *ret = host;
        *ret_port = port;
        return 0;
}
