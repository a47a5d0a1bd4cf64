#include "netns/nft.h"

#include <arpa/inet.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_conntrack_common.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netlink.h>

static void begin(struct nft_table *t, uint16_t type, uint16_t flags) {
        const struct nfgenmsg head = { .nfgen_family = NFPROTO_INET, .version = NFNETLINK_V0 };

        netlink_begin(t->buf, (uint16_t) (NFNL_SUBSYS_NFTABLES << 8 | type), (uint16_t) (flags | NLM_F_ACK),
                      &head, sizeof(head));
}

static void batch(struct nft_table *t, uint16_t type) {
        const struct nfgenmsg head = { .version = NFNETLINK_V0, .res_id = htons(NFNL_SUBSYS_NFTABLES) };

        netlink_begin(t->buf, type, 0, &head, sizeof(head));
}

void nft_batch_begin(struct nft_table *t) {
        batch(t, NFNL_MSG_BATCH_BEGIN);
}

void nft_batch_end(struct nft_table *t) {
        batch(t, NFNL_MSG_BATCH_END);
}

void nft_table_add(struct nft_table *t, uint32_t flags) {
        begin(t, NFT_MSG_NEWTABLE, NLM_F_CREATE | NLM_F_EXCL);
        netlink_put_text(t->buf, NFTA_TABLE_NAME, t->name);
        netlink_put_be32(t->buf, NFTA_TABLE_FLAGS, flags);
}

void nft_chain_add(struct nft_table *t, const char *name, const char *type, uint32_t hook, int priority) {
        size_t nest;

        begin(t, NFT_MSG_NEWCHAIN, NLM_F_CREATE | NLM_F_EXCL);
        netlink_put_text(t->buf, NFTA_CHAIN_TABLE, t->name);
        netlink_put_text(t->buf, NFTA_CHAIN_NAME, name);
        nest = netlink_nest(t->buf, NFTA_CHAIN_HOOK);
        netlink_put_be32(t->buf, NFTA_HOOK_HOOKNUM, hook);
        netlink_put_be32(t->buf, NFTA_HOOK_PRIORITY, (uint32_t) priority);
        netlink_end(t->buf, nest);
        netlink_put_text(t->buf, NFTA_CHAIN_TYPE, type);
}

void nft_rule_begin(struct nft_table *t, const char *chain) {
        begin(t, NFT_MSG_NEWRULE, NLM_F_CREATE | NLM_F_APPEND);
        netlink_put_text(t->buf, NFTA_RULE_TABLE, t->name);
        netlink_put_text(t->buf, NFTA_RULE_CHAIN, chain);
        t->rule = netlink_nest(t->buf, NFTA_RULE_EXPRESSIONS);
}

void nft_rule_end(struct nft_table *t) {
        netlink_end(t->buf, t->rule);
}

static void expr_begin(struct nft_table *t, const char *name) {
        t->element = netlink_nest(t->buf, NFTA_LIST_ELEM);
        netlink_put_text(t->buf, NFTA_EXPR_NAME, name);
        t->data = netlink_nest(t->buf, NFTA_EXPR_DATA);
}

static void expr_end(struct nft_table *t) {
        netlink_end(t->buf, t->data);
        netlink_end(t->buf, t->element);
}

static void put_value(struct nft_table *t, uint16_t type, const void *data, size_t len) {
        const size_t nest = netlink_nest(t->buf, type);

        netlink_put(t->buf, NFTA_DATA_VALUE, data, len);
        netlink_end(t->buf, nest);
}

/* Goes on when register 1 is to these bytes as @op says. */
static void expr_cmp(struct nft_table *t, uint32_t op, const void *data, size_t len) {
        expr_begin(t, "cmp");
        netlink_put_be32(t->buf, NFTA_CMP_SREG, NFT_REG_1);
        netlink_put_be32(t->buf, NFTA_CMP_OP, op);
        put_value(t, NFTA_CMP_DATA, data, len);
        expr_end(t);
}

static void expr_is(struct nft_table *t, const void *data, size_t len) {
        expr_cmp(t, NFT_CMP_EQ, data, len);
}

void nft_meta_is(struct nft_table *t, uint32_t key, const void *data, size_t len) {
        expr_begin(t, "meta");
        netlink_put_be32(t->buf, NFTA_META_KEY, key);
        netlink_put_be32(t->buf, NFTA_META_DREG, NFT_REG_1);
        expr_end(t);
        expr_is(t, data, len);
}

static void expr_payload(struct nft_table *t, uint32_t base, uint32_t at, size_t len) {
        expr_begin(t, "payload");
        netlink_put_be32(t->buf, NFTA_PAYLOAD_DREG, NFT_REG_1);
        netlink_put_be32(t->buf, NFTA_PAYLOAD_BASE, base);
        netlink_put_be32(t->buf, NFTA_PAYLOAD_OFFSET, at);
        netlink_put_be32(t->buf, NFTA_PAYLOAD_LEN, (uint32_t) len);
        expr_end(t);
}

void nft_bytes_are(struct nft_table *t, uint32_t base, uint32_t at, const void *data, size_t len) {
        expr_payload(t, base, at, len);
        expr_is(t, data, len);
}

void nft_byte_from(struct nft_table *t, uint32_t base, uint32_t at, uint8_t least) {
        expr_payload(t, base, at, sizeof(least));
        expr_cmp(t, NFT_CMP_GTE, &least, sizeof(least));
}

void nft_state_is_new(struct nft_table *t) {
        const uint32_t known = NF_CT_STATE_BIT(IP_CT_ESTABLISHED) | NF_CT_STATE_BIT(IP_CT_RELATED), none = 0;

        expr_begin(t, "ct");
        netlink_put_be32(t->buf, NFTA_CT_KEY, NFT_CT_STATE);
        netlink_put_be32(t->buf, NFTA_CT_DREG, NFT_REG_1);
        expr_end(t);
        expr_begin(t, "bitwise");
        netlink_put_be32(t->buf, NFTA_BITWISE_SREG, NFT_REG_1);
        netlink_put_be32(t->buf, NFTA_BITWISE_DREG, NFT_REG_1);
        netlink_put_be32(t->buf, NFTA_BITWISE_LEN, sizeof(known));
        put_value(t, NFTA_BITWISE_MASK, &known, sizeof(known));
        put_value(t, NFTA_BITWISE_XOR, &none, sizeof(none));
        expr_end(t);
        expr_is(t, &none, sizeof(none));
}

void nft_verdict(struct nft_table *t, uint32_t code) {
        size_t data, verdict;

        expr_begin(t, "immediate");
        netlink_put_be32(t->buf, NFTA_IMMEDIATE_DREG, NFT_REG_VERDICT);
        data = netlink_nest(t->buf, NFTA_IMMEDIATE_DATA);
        verdict = netlink_nest(t->buf, NFTA_DATA_VERDICT);
        netlink_put_be32(t->buf, NFTA_VERDICT_CODE, code);
        netlink_end(t->buf, verdict);
        netlink_end(t->buf, data);
        expr_end(t);
}

void nft_redirect(struct nft_table *t, uint16_t port) {
        const uint16_t be = htons(port);

        expr_begin(t, "immediate");
        netlink_put_be32(t->buf, NFTA_IMMEDIATE_DREG, NFT_REG_1);
        put_value(t, NFTA_IMMEDIATE_DATA, &be, sizeof(be));
        expr_end(t);
        expr_begin(t, "redir");
        netlink_put_be32(t->buf, NFTA_REDIR_REG_PROTO_MIN, NFT_REG_1);
        expr_end(t);
}

void nft_log(struct nft_table *t, uint16_t group) {
        expr_begin(t, "log");
        netlink_put_be16(t->buf, NFTA_LOG_GROUP, group);
        expr_end(t);
}

void nft_reject(struct nft_table *t) {
        const uint8_t code = NFT_REJECT_ICMPX_PORT_UNREACH;

        expr_begin(t, "reject");
        netlink_put_be32(t->buf, NFTA_REJECT_TYPE, NFT_REJECT_ICMPX_UNREACH);
        netlink_put(t->buf, NFTA_REJECT_ICMP_CODE, &code, sizeof(code));
        expr_end(t);
}

void nft_masquerade(struct nft_table *t) {
        expr_begin(t, "masq");
        expr_end(t);
}
