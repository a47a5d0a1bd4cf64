/*
 * services.c - names of ports, which are never asked for here
 *
 * c-ares refers to them for callers that give or want a service name. We do neither; glibc's would bring the
 * name service switch into the static executable (record 001), these keep it out.
 */
#include <netdb.h>
#include <stddef.h>

struct servent *getservbyname(const char *name, const char *proto) {
        (void) name;
        (void) proto;
        return NULL;
}

int getservbyport_r(int port, const char *proto, struct servent *ret, char *buf, size_t size,
                    struct servent **result) {
        (void) port;
        (void) proto;
        (void) ret;
        (void) buf;
        (void) size;
        *result = NULL;
        return 0;
}
