#include "netns/dns.h"

#include <errno.h>
#include <string.h>

enum {
        HEADER = 12,
        FLAG_QR = 0x80,
        FLAG_RD = 0x01,
        FLAG_RA = 0x80, /* in the second byte of the flags */
        OPCODE_MASK = 0x78,
        NAME_WIRE_MAX = 255,
        LABEL_MAX = 63,
};

static uint16_t get16(const uint8_t *p) {
        return (uint16_t) (p[0] << 8 | p[1]);
}

static uint8_t *put16(uint8_t *p, uint16_t v) {
        p[0] = (uint8_t) (v >> 8);
        p[1] = (uint8_t) v;
        return p + 2;
}

/* Reads the name at @p into @text with dots. Return: bytes of the name, 0: malformed; *ret_plain: no label
 * has a dot. */
static size_t read_name(const uint8_t *p, size_t len, char text[NAME_WIRE_MAX], size_t *ret_text,
                        bool *ret_plain) {
        size_t at = 0, n = 0;

        *ret_plain = true;
        while (at < len && p[at] != 0) {
                const size_t label = p[at];

                /* no pointers: there is nothing before a question that one could point to */
                if (label > LABEL_MAX || at + 1 + label >= len || at + 1 + label >= NAME_WIRE_MAX)
                        return 0;
                if (n > 0)
                        text[n++] = '.';
                memcpy(text + n, p + at + 1, label);
                if (memchr(p + at + 1, '.', label))
                        *ret_plain = false;
                n += label;
                at += 1 + label;
        }
        if (at >= len)
                return 0;
        *ret_text = n;
        return at + 1;
}

static int refuse(enum dns_rcode rcode, enum dns_rcode *ret_rcode) {
        *ret_rcode = rcode;
        return -EINVAL;
}

int dns_question_parse(const uint8_t *buf, size_t len, struct dns_question *ret, enum dns_rcode *ret_rcode) {
        char text[NAME_WIRE_MAX];
        size_t name, text_len = 0;
        bool plain;

        if (len < HEADER || len > DNS_QUESTION_MAX || (buf[2] & FLAG_QR))
                return -EBADMSG;
        *ret = (struct dns_question){ .id = get16(buf), .recursion = buf[2] & FLAG_RD };
        if (buf[2] & OPCODE_MASK)
                return refuse(DNS_NOTIMP, ret_rcode);
        if (get16(buf + 4) != 1 || get16(buf + 6) != 0)
                return refuse(DNS_FORMERR, ret_rcode);
        name = read_name(buf + HEADER, len - HEADER, text, &text_len, &plain);
        if (name == 0 || len - HEADER - name < 4)
                return refuse(DNS_FORMERR, ret_rcode);
        ret->wire_len = name + 4;
        memcpy(ret->wire, buf + HEADER, ret->wire_len);
        ret->type = get16(buf + HEADER + name);
        ret->class = get16(buf + HEADER + name + 2);
        if (ret->class != DNS_CLASS_IN)
                return refuse(DNS_REFUSED, ret_rcode);
        ret->has_host = plain && host_parse(text, text_len, &ret->host, NULL) == 0;
        return 0;
}

/* One record for the name of the question. Return: past it. */
static uint8_t *put_record(uint8_t *p, uint16_t type, uint32_t ttl, const uint8_t *data, uint16_t len) {
        p = put16(p, 0xc000 | HEADER); /* a pointer to the question's name */
        p = put16(p, type);
        p = put16(p, DNS_CLASS_IN);
        p = put16(p, (uint16_t) (ttl >> 16));
        p = put16(p, (uint16_t) ttl);
        p = put16(p, len);
        memcpy(p, data, len);
        return p + len;
}

size_t dns_answer_write(const struct dns_question *q, enum dns_rcode rcode, const struct addr *addrs,
                        size_t n, uint32_t ttl, uint8_t *out) {
        const bool v4 = q->type == DNS_TYPE_A;
        const uint16_t bytes = v4 ? 4 : 16;
        const size_t record = 12 + (size_t) bytes;
        uint8_t *p = out;
        uint16_t count = 0;

        p = put16(p, q->id);
        *p++ = (uint8_t) (FLAG_QR | (q->recursion ? FLAG_RD : 0));
        *p++ = (uint8_t) (FLAG_RA | rcode);
        p = put16(p, q->wire_len > 0);
        memset(p, 0, 6);
        p += 6;
        memcpy(p, q->wire, q->wire_len);
        p += q->wire_len;
        if (!v4 && q->type != DNS_TYPE_AAAA)
                n = 0; /* the name exists, records of that type do not */
        for (size_t i = 0; i < n && rcode == DNS_OK; i++) {
                if (addr_is_ipv4(&addrs[i]) != v4 || (size_t) (p - out) + record > DNS_MESSAGE_MAX)
                        continue;
                p = put_record(p, q->type, ttl, addrs[i].b + (v4 ? 12 : 0), bytes);
                count++;
        }
        (void) put16(out + 6, count);
        return (size_t) (p - out);
}
