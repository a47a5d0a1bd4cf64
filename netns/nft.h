/*
 * nft.h - messages of nftables about one table of family inet: chains, rules, and the expressions we use
 */
#pragma once

#include <stdint.h>

#include "netns/netlink.h"

/** struct nft_table - where messages go; @name is borrowed */
struct nft_table {
        struct netlink_buf *buf;
        const char *name;
        size_t rule, element, data; /* where what is being written began */
};

/** nft_batch_begin(), nft_batch_end() - around all messages: all of them take effect, or none. Tables, chains
 * and rules are acknowledged; the kernel does not answer the end before Linux 6.10. */
void nft_batch_begin(struct nft_table *t);
void nft_batch_end(struct nft_table *t);

/** nft_table_add() - the table itself. @flags: NFT_TABLE_F_* */
void nft_table_add(struct nft_table *t, uint32_t flags);

/** nft_chain_add() - a chain at a hook. @type: "nat", "filter"; @hook: NF_INET_*; what no rule decides passes
 */
void nft_chain_add(struct nft_table *t, const char *name, const char *type, uint32_t hook, int priority);

/** nft_rule_begin(), nft_rule_end() - a rule behind the others of @chain; the expressions come between */
void nft_rule_begin(struct nft_table *t, const char *chain);
void nft_rule_end(struct nft_table *t);

/** nft_meta_is() - go on when NFT_META_* @key is these @len bytes */
void nft_meta_is(struct nft_table *t, uint32_t key, const void *data, size_t len);

/** nft_bytes_are() - go on when the packet has them, @at bytes into the header @base (NFT_PAYLOAD_*) */
void nft_bytes_are(struct nft_table *t, uint32_t base, uint32_t at, const void *data, size_t len);

/** nft_byte_from() - go on when that byte of the header @base is at least @least */
void nft_byte_from(struct nft_table *t, uint32_t base, uint32_t at, uint8_t least);

/** nft_state_is_new() - go on when the packet belongs to no connection that is known */
void nft_state_is_new(struct nft_table *t);

/** nft_verdict() - @code: NF_ACCEPT, NF_DROP */
void nft_verdict(struct nft_table *t, uint32_t code);

/** nft_redirect() - from here on it goes to @port of this host (loopback, for what is made here) */
void nft_redirect(struct nft_table *t, uint16_t port);

/** nft_log() - tell who listens to the NFLOG group */
void nft_log(struct nft_table *t, uint16_t group);

/** nft_reject() - drop it, and answer with a port-unreachable */
void nft_reject(struct nft_table *t);

/** nft_masquerade() - from here on it comes from an address of the interface that it leaves by */
void nft_masquerade(struct nft_table *t);
