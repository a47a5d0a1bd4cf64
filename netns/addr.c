#include "netns/addr.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <string.h>

#include "runtime/base/cleanup.h"
#include "runtime/base/parse.h"

static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };

bool addr_is_ipv4(const struct addr *a) {
        return memcmp(a->b, mapped, sizeof(mapped)) == 0;
}

struct addr addr_from_ipv4(uint32_t v) {
        struct addr a;
        const uint32_t net = htonl(v);

        memcpy(a.b, mapped, sizeof(mapped));
        memcpy(a.b + 12, &net, sizeof(net));
        return a;
}

int addr_parse(const char *s, size_t len, struct addr *ret) {
        char text[ADDR_TEXT_MAX];
        struct in_addr v4;
        struct addr a;

        if (len >= sizeof(text) || memchr(s, '\0', len))
                return -EINVAL;
        memcpy(text, s, len);
        text[len] = '\0';
        if (inet_pton(AF_INET, text, &v4) == 1)
                a = addr_from_ipv4(ntohl(v4.s_addr));
        else if (inet_pton(AF_INET6, text, a.b) != 1)
                return -EINVAL;
        *ret = a;
        return 0;
}

const char *addr_text(const struct addr *a, char out[ADDR_TEXT_MAX]) {
        const bool v4 = addr_is_ipv4(a);

        /* cannot fail: the family is known and the buffer is large enough */
        (void) inet_ntop(v4 ? AF_INET : AF_INET6, v4 ? a->b + 12 : a->b, out, ADDR_TEXT_MAX);
        return out;
}

int addr_from_sock(const struct sockaddr *sa, struct addr *ret) {
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;

        if (sa->sa_family == AF_INET) {
                memcpy(&v4, sa, sizeof(v4));
                *ret = addr_from_ipv4(ntohl(v4.sin_addr.s_addr));
                return 0;
        }
        if (sa->sa_family != AF_INET6)
                return -EAFNOSUPPORT;
        memcpy(&v6, sa, sizeof(v6));
        memcpy(ret->b, &v6.sin6_addr, sizeof(ret->b));
        return 0;
}

socklen_t addr_to_sock(const struct addr *a, uint16_t port, struct sockaddr_storage *ret) {
        struct sockaddr_in v4 = { .sin_family = AF_INET, .sin_port = htons(port) };
        struct sockaddr_in6 v6 = { .sin6_family = AF_INET6, .sin6_port = htons(port) };

        memset(ret, 0, sizeof(*ret));
        if (addr_is_ipv4(a)) {
                memcpy(&v4.sin_addr, a->b + 12, 4);
                memcpy(ret, &v4, sizeof(v4));
                return sizeof(v4);
        }
        memcpy(&v6.sin6_addr, a->b, sizeof(a->b));
        memcpy(ret, &v6, sizeof(v6));
        return sizeof(v6);
}

struct addr addr_mask(const struct addr *a, unsigned int bits) {
        struct addr out = *a;

        for (unsigned int i = 0; i < sizeof(out.b); i++) {
                const unsigned int kept = bits > 8 * i ? bits - 8 * i : 0;

                if (kept < 8)
                        out.b[i] = (uint8_t) (out.b[i] & ~(0xffU >> kept));
        }
        return out;
}

bool cidr_has(const struct cidr *net, const struct addr *a) {
        const struct addr masked = addr_mask(a, net->bits);

        return memcmp(&masked, &net->addr, sizeof(masked)) == 0;
}

int cidr_parse(const char *s, size_t len, struct cidr *ret) {
        const char *slash = memchr(s, '/', len);
        char digits[4] = { 0 };
        struct cidr net;
        struct addr masked;
        uint64_t bits;
        size_t n, base;
        int r;

        if (!slash || addr_parse(s, (size_t) (slash - s), &net.addr) < 0)
                return -EINVAL;
        n = len - (size_t) (slash - s) - 1;
        if (n == 0 || n >= sizeof(digits))
                return -EINVAL;
        memcpy(digits, slash + 1, n);
        /* "::ffff:10.0.0.0/104" is IPv6 text and counts in IPv6 bits */
        base = memchr(s, ':', (size_t) (slash - s)) ? 0 : 96;
        r = parse_u64(digits, 0, 128 - base, &bits);
        if (r < 0)
                return r;
        net.bits = (unsigned int) (base + bits);
        masked = addr_mask(&net.addr, net.bits);
        if (memcmp(&masked, &net.addr, sizeof(masked)) != 0)
                return -EDOM;
        *ret = net;
        return 0;
}

struct range {
        uint8_t b[16];
        uint8_t bits;
        const char *what;
};

#define V4(a, c, d, e, n, text) \
        { .b = { [10] = 0xff, 0xff, (a), (c), (d), (e) }, .bits = 96 + (n), .what = (text) }

static const struct range specials[] = {
        V4(127, 0, 0, 0, 8, "a loopback address"),
        V4(10, 0, 0, 0, 8, "a private address"),
        V4(172, 16, 0, 0, 12, "a private address"),
        V4(192, 168, 0, 0, 16, "a private address"),
        V4(169, 254, 0, 0, 16, "a link-local address"), /* 169.254.169.254 is cloud metadata */
        V4(100, 64, 0, 0, 10, "a shared address"),      /* RFC 6598; Alibaba's metadata is 100.100.100.200 */
        V4(0, 0, 0, 0, 8, "an unspecified address"),    /* Linux connects 0.0.0.0 to itself */
        V4(255, 255, 255, 255, 32, "the broadcast address"),
        V4(224, 0, 0, 0, 4, "a multicast address"),
        V4(240, 0, 0, 0, 4, "a reserved address"),
        V4(192, 0, 0, 0, 24, "a reserved address"), /* 192.0.0.192 is Oracle's metadata */
        V4(192, 0, 2, 0, 24, "a documentation address"),
        V4(198, 51, 100, 0, 24, "a documentation address"),
        V4(203, 0, 113, 0, 24, "a documentation address"),
        V4(198, 18, 0, 0, 15, "a benchmark address"),
        V4(192, 88, 99, 0, 24, "a 6to4 relay address"),
        V4(168, 63, 129, 16, 32,
           "a cloud platform's address"), /* Azure's WireServer, the only public one of its kind */
        { { [15] = 1 }, 128, "a loopback address" },
        { { 0 }, 128, "an unspecified address" },
        { { 0xfc }, 7, "a private address" }, /* fd00:ec2::254 is AWS metadata */
        { { 0xfe, 0x80 }, 10, "a link-local address" },
        { { 0xfe, 0xc0 }, 10, "a site-local address" },
        { { 0xff }, 8, "a multicast address" },
        { { 0x01 }, 8, "a discard address" }, /* 100::/64, in a block that holds nothing else */
        { { 0x20, 0x01 }, 23, "a protocol assignment address" }, /* Teredo, benchmark, ORCHID, DRIP */
        { { 0x20, 0x01, 0x0d, 0xb8 }, 32, "a documentation address" },
        { { 0x3f, 0xff }, 20, "a documentation address" },
        { { 0x20, 0x02 }, 16, "a 6to4 address" },
        { { 0x5f }, 16, "a segment routing address" },
        { { 0x00, 0x64, 0xff, 0x9b, 0x00, 0x01 }, 48, "a local NAT64 address" },
};

/* The IPv4 address that a translator or an old stack would make of @a. */
static bool embedded_ipv4(const struct addr *a, struct addr *ret) {
        static const uint8_t nat64[12] = { 0x00, 0x64, 0xff, 0x9b }, compatible[12] = { 0 };

        if (memcmp(a->b, nat64, 12) != 0 && memcmp(a->b, compatible, 12) != 0)
                return false;
        memcpy(ret->b, mapped, sizeof(mapped));
        memcpy(ret->b + 12, a->b + 12, 4);
        return true;
}

static const struct range *special_range(const struct addr *a) {
        for (size_t i = 0; i < ARRAY_SIZE(specials); i++) {
                struct cidr net = { .bits = specials[i].bits };

                memcpy(net.addr.b, specials[i].b, sizeof(net.addr.b));
                if (cidr_has(&net, a))
                        return &specials[i];
        }
        return NULL;
}

const char *addr_special(const struct addr *a, unsigned int *ret_bits) {
        const struct range *range = special_range(a);
        struct addr inner;

        if (!range && embedded_ipv4(a, &inner))
                range = special_range(&inner); /* its bits count from the same place */
        if (range && ret_bits)
                *ret_bits = range->bits;
        return range ? range->what : NULL;
}

bool addr_is_host(const struct addr *a) {
        static const struct cidr own[] = {
                { { { [10] = 0xff, 0xff, 127 } }, 104 },
                { { { [10] = 0xff, 0xff, 0 } }, 104 },
                { { { [15] = 1 } }, 128 },
                { { { 0 } }, 128 },
        };
        struct addr inner;

        for (size_t i = 0; i < ARRAY_SIZE(own); i++)
                if (cidr_has(&own[i], a))
                        return true;
        return embedded_ipv4(a, &inner) && addr_is_host(&inner);
}
