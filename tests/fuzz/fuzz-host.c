/*
 * fuzz-host.c - hosts as requests, certificates' names, DNS questions and rules give them
 *
 * Input: a host, with or without a port. What is accepted has to be canonical: a second reading changes
 * nothing.
 */
#include <string.h>

#include "netns/host.h"
#include "tests/fuzz/fuzz.h"

static void check(bool holds) {
        if (!holds)
                __builtin_trap();
}

static void check_host(const struct host *host) {
        struct host again;
        const size_t len = strlen(host->name);

        check(len > 0 && len <= HOST_NAME_BYTES_MAX);
        check(strspn(host->name, "abcdefghijklmnopqrstuvwxyz0123456789-_.:") == len);
        check(host->kind == HOST_ADDR || !strchr(host->name, ':'));
        check(host_parse(host->name, len, &again, NULL) == 0);
        check(again.kind == host->kind && strcmp(again.name, host->name) == 0);
        check(host->kind == HOST_NAME || memcmp(&again.addr, &host->addr, sizeof(again.addr)) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        const char *s = (const char *) data;
        struct host host;
        struct error err = { 0 };
        uint16_t port = 0;

        if (size > 4096)
                return 0;
        if (host_parse(s, size, &host, &err) == 0)
                check_host(&host);
        else
                check(err.code < 0 && *err.msg);
        if (host_parse_authority(s, size, 443, &host, &port, NULL) == 0) {
                check(port > 0);
                check_host(&host);
        }
        return 0;
}
