/*
 * static.c - what OpenSSL refers to and a static executable does not have
 *
 * It loads engines and providers as shared objects, and asks the name service switch for names, in calls that
 * are not made here: stream.c looks names up. glibc's would load shared objects of the image, which have to
 * fit the glibc that this was linked with (record 001); with these nothing of an image is loaded.
 */
#include <netdb.h>
#include <stddef.h>

/* in the place of dlopen(3), by --wrap: glibc's own is linked in any case, for iconv(3) */
void *__wrap_dlopen(const char *file, int mode);
void *__wrap_dlopen(const char *file, int mode) {
        (void) file;
        (void) mode;
        return NULL;
}

int getaddrinfo(const char *node, const char *service, const struct addrinfo *hints, struct addrinfo **ret) {
        (void) node;
        (void) service;
        (void) hints;
        (void) ret;
        return EAI_FAIL;
}

void freeaddrinfo(struct addrinfo *list) {
        (void) list;
}

struct hostent *gethostbyname(const char *name) {
        (void) name;
        return NULL;
}

int getnameinfo(const struct sockaddr *addr, socklen_t len, char *host, socklen_t host_size, char *service,
                socklen_t service_size, int flags) {
        (void) addr;
        (void) len;
        (void) host;
        (void) host_size;
        (void) service;
        (void) service_size;
        (void) flags;
        return EAI_FAIL;
}
