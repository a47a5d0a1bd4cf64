/*
 * addr.h - IP addresses in one form: 16 bytes, IPv4 as ::ffff:a.b.c.d
 *
 * Both families have one representation, so that no check can be passed by spelling an IPv4 address as
 * IPv6.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

enum { ADDR_TEXT_MAX = 46 }; /* INET6_ADDRSTRLEN */

/** struct addr - network byte order; IPv4 is mapped */
struct addr {
        uint8_t b[16];
};

/** struct cidr - all addresses whose first @bits (0..128; IPv4: 96..128) are those of @addr; the rest is zero
 */
struct cidr {
        struct addr addr;
        unsigned int bits;
};

/** addr_is_ipv4() - whether @a is IPv4, mapped or not */
bool addr_is_ipv4(const struct addr *a);

/** addr_from_ipv4() - @v in host byte order */
struct addr addr_from_ipv4(uint32_t v);

/**
 * addr_parse() - the usual spellings only: dotted quad in decimal, or RFC 4291 text without brackets or zone
 * @len: bytes of @s, which needs no terminator
 * Return: 0, -EINVAL.
 */
int addr_parse(const char *s, size_t len, struct addr *ret) __attribute__((warn_unused_result));

/** addr_text() - the canonical spelling (RFC 5952, dotted quad for IPv4). Return: @out. */
const char *addr_text(const struct addr *a, char out[ADDR_TEXT_MAX]);

/** addr_from_sock() - the address of an AF_INET or AF_INET6 socket address. Return: 0, -EAFNOSUPPORT. */
int addr_from_sock(const struct sockaddr *sa, struct addr *ret) __attribute__((warn_unused_result));

/** addr_to_sock() - @a and @port (host byte order) to connect(2) to. Return: length. */
socklen_t addr_to_sock(const struct addr *a, uint16_t port, struct sockaddr_storage *ret);

/**
 * cidr_parse() - "ADDRESS/BITS", the address as for addr_parse()
 * Return: 0, -EINVAL (no address, no number), -ERANGE (too many bits), -EDOM (bits set beyond the prefix).
 */
int cidr_parse(const char *s, size_t len, struct cidr *ret) __attribute__((warn_unused_result));

/** cidr_has() - whether @a is in @net */
bool cidr_has(const struct cidr *net, const struct addr *a);

/** addr_mask() - @a with all but the first @bits cleared */
struct addr addr_mask(const struct addr *a, unsigned int bits);

/**
 * addr_special() - what kind of address no public name should resolve to @a is
 *
 * Loopback, private, link-local (cloud metadata), shared (CGNAT), unspecified, multicast, broadcast,
 * reserved, documentation and benchmark ranges (IANA special-purpose registries), in IPv4, IPv6, and IPv4
 * inside of mapped, compatible and NAT64 (64:ff9b::/96) addresses. 6to4, Teredo and local-use NAT64 are
 * special as a whole.
 *
 * @ret_bits: NULL, or the length of the special range around @a; untouched for an ordinary address
 * Return: a noun phrase such as "a private address", static; NULL for an ordinary address.
 */
const char *addr_special(const struct addr *a, unsigned int *ret_bits);

/**
 * addr_is_host() - whether a connection to @a stays on this host: 127.0.0.0/8, ::1, and 0.0.0.0/8 and ::,
 * which Linux takes for itself; also IPv4 inside of compatible and NAT64 addresses
 */
bool addr_is_host(const struct addr *a);
