/*
 * The resolver inside: answers for names, from the rules alone. Nothing is looked up here and nothing is
 * passed on, so a question carries no data out; the proxy looks a name up when it is connected to.
 */
#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "netns/conn.h"
#include "netns/dns.h"

enum { QUESTIONS = 64 /* at a time, before others get their turn */ };

/* Whether the work may connect to the name on a port that is led here. @ret: why not. */
static bool is_allowed(const struct proxy *proxy, const struct host *host, struct policy_verdict *ret) {
        const struct policy *policy = proxy->config.policy;

        if (proxy->redirected)
                return policy_somewhere(policy, host, ret);
        for (size_t i = 0; i < proxy->n_ports; i++) {
                *ret = policy_host(policy, host, proxy->ports[i]);
                if (ret->reason == POLICY_OK)
                        return true;
        }
        return false;
}

/* Of the tree that has names for addresses. */
static bool is_arpa(const struct host *host) {
        const char *dot = strrchr(host->name, '.');

        return dot && strcmp(dot, ".arpa") == 0;
}

static enum dns_rcode answer_host(struct proxy *proxy, const struct dns_question *q, struct addr ret[2],
                                  size_t *ret_n) {
        struct policy_verdict v = { .rule = POLICY_NO_RULE };

        *ret_n = 0;
        if (!q->has_host) {
                blocked_note(proxy->log, "(no name of a host)", 0, "a question that names no host", NULL);
                return DNS_NXDOMAIN;
        }
        if (q->host.kind != HOST_NAME)
                return DNS_NXDOMAIN;
        if (q->type == DNS_TYPE_PTR) /* no way to connect: no news; but what exists does so for every type */
                return !is_arpa(&q->host) && is_allowed(proxy, &q->host, &v) ? DNS_OK : DNS_NXDOMAIN;
        if (strcmp(q->host.name, proxy->self.name) == 0) {
                ret[0] = names_own(false);
                ret[1] = names_own(true);
                *ret_n = proxy->six ? 2 : 1;
                return DNS_OK;
        }
        if (!is_allowed(proxy, &q->host, &v)) {
                blocked_note(proxy->log, q->host.name, 0, policy_reason_text(&v),
                             v.rule == POLICY_NO_RULE ? NULL
                                                      : policy_rule_text(proxy->config.policy, v.rule));
                return DNS_NXDOMAIN;
        }
        if (names_address(proxy->names, &q->host, loop_now(proxy->loop), ret) < 0)
                return DNS_SERVFAIL;
        *ret_n = proxy->six ? 2 : 1;
        return DNS_OK;
}

size_t stub_answer(struct proxy *proxy, const uint8_t *data, size_t len, uint8_t *out) {
        enum dns_rcode rcode = DNS_OK;
        struct dns_question q;
        struct addr addrs[2];
        size_t n = 0;
        int r;

        r = dns_question_parse(data, len, &q, &rcode);
        if (r == -EBADMSG)
                return 0;
        if (r < 0)
                blocked_note(proxy->log, "(no name of a host)", 0, "a question that is not answered here",
                             NULL);
        else
                rcode = answer_host(proxy, &q, addrs, &n);
        return dns_answer_write(&q, rcode, addrs, n, NAMES_TTL_S, out);
}

void stub_event(struct loop_watch *watch, uint32_t events) {
        struct proxy *proxy = ((struct listener *) watch)->proxy;
        uint8_t data[DNS_QUESTION_MAX], out[DNS_MESSAGE_MAX];

        (void) events;
        for (int i = 0; i < QUESTIONS; i++) {
                struct sockaddr_storage from;
                socklen_t from_len = sizeof(from);
                size_t answer;
                const ssize_t n = recvfrom(watch->fd, data, sizeof(data), MSG_DONTWAIT | MSG_TRUNC,
                                           (struct sockaddr *) &from, &from_len);

                if (n < 0)
                        return;
                answer = (size_t) n <= sizeof(data) ? stub_answer(proxy, data, (size_t) n, out) : 0;
                if (answer > 0) /* or it asks again */
                        (void) sendto(watch->fd, out, answer, MSG_NOSIGNAL | MSG_DONTWAIT,
                                      (const struct sockaddr *) &from, from_len);
        }
}
