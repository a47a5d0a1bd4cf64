#include "runtime/spec/check.h"

#include <stdint.h>
#include <string.h>

#include "runtime/base/cleanup.h"
#include "runtime/base/parse.h"
#include "runtime/spec/ref.h"
#include "runtime/spec/secretrules.h"

static const char digits[] = "0123456789";
static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";

static bool only(const char *text, const char *more) {
        for (; *text; text++)
                if (!strchr(digits, *text) && !strchr(letters, *text) && !strchr(more, *text))
                        return false;
        return true;
}

const char *check_name(const char *text) {
        if (*text && strlen(text) <= 64 && *text != '.' && *text != '-' && only(text, "_.-"))
                return NULL;
        return "must be 1 to 64 letters, digits, '_', '.' or '-', and not begin with '.' or '-'";
}

/* The last number is "no id" for the kernel. */
static bool is_id(const char *text) {
        uint64_t id;

        return strlen(text) <= 10 && parse_u64(text, 0, UINT32_MAX - 1, &id) == 0;
}

const char *check_user(const char *text) {
        const char *colon = strchr(text, ':');
        char uid[16];

        if (colon) {
                const size_t n = (size_t) (colon - text);

                if (n < sizeof(uid)) {
                        memcpy(uid, text, n);
                        uid[n] = '\0';
                        if (is_id(uid) && is_id(colon + 1))
                                return NULL;
                }
        } else if (is_id(text)) {
                return NULL;
        } else if (*text && strlen(text) <= 32 && (*text == '_' || strchr(letters, *text)) &&
                   only(text, "_.-")) {
                return NULL;
        }
        return "must be UID, UID:GID (0 to 4294967294) or the name of an account";
}

/* "oci:DIR" and the like */
static bool has_transport(const char *text) {
        static const char *const transports[] = { "atomic",        "containers-storage",
                                                  "dir",           "docker-archive",
                                                  "docker-daemon", "oci",
                                                  "oci-archive",   "ostree",
                                                  "sif",           "tarball" };
        const size_t n = strcspn(text, ":/");

        for (size_t i = 0; text[n] == ':' && i < ARRAY_SIZE(transports); i++)
                if (strlen(transports[i]) == n && strncmp(text, transports[i], n) == 0)
                        return true;
        return false;
}

const char *check_image(const char *text) {
        if (*text == '-' || strlen(text) > REF_TEXT_MAX || !only(text, "_.-:/@+"))
                return "must be letters, digits, '_', '.', '-', ':', '/', '@' or '+', and not begin with '-'";
        return has_transport(text) ? NULL : ref_wrong(text);
}

bool image_names_file(const char *text) {
        const size_t n = strcspn(text, ":/");

        return text[n] == ':' ? has_transport(text) || text[n + 1] == '/' : *text == '/' || *text == '.';
}

const char *check_stage(const char *text) {
        return *text != '-' && only(text, "_.-") ? NULL : "must be letters, digits, '_', '.' or '-'";
}

const char *check_env_name(const char *text) {
        if (!*text)
                return "must not be empty: NAME=VALUE";
        for (; *text; text++)
                if ((unsigned char) *text <= ' ' || *text == 0x7f || *text == '=')
                        return "must not contain '=', blanks or control characters";
        return NULL;
}

const char *check_env_value(const char *text) {
        return strchr(text, '\n') ? "must be one line" : NULL;
}

const char *check_glob(const char *text) {
        if (!*text)
                return "must not be empty";
        return strpbrk(text, "\r\n") ? "must be one line" : NULL;
}

const char *check_below(const char *text) {
        static const char wrong[] = "must be a relative path without '.' and '..', on one line";

        if (!*text || *text == '/' || strpbrk(text, "\r\n"))
                return wrong;
        for (const char *p = text; p; p = strchr(p, '/')) {
                size_t n;

                p += *p == '/';
                n = strcspn(p, "/");
                if (n == 0 || (n <= 2 && strspn(p, ".") >= n))
                        return wrong;
        }
        return NULL;
}

const char *check_seccomp(const char *text) {
        return strcmp(text, "default") == 0 || (*text == '/' && !strpbrk(text, "\r\n"))
                       ? NULL
                       : "must be 'default' or the absolute path of a profile";
}

const char *check_cpus(const char *text) {
        const size_t whole = strspn(text, digits), first = strspn(text, "0."); /* digit that counts */
        const char *rest = text + whole;

        if (*rest == '.')
                rest += 1 + strspn(rest + 1, digits);
        if (whole >= 1 && whole <= 4 && !*rest && first < strlen(text) && first <= whole + 2 &&
            text[strlen(text) - 1] != '.' && strlen(text) <= whole + 4)
                return NULL;
        return "must be a number such as 2 or 1.5, 0.01 or more"; /* a quota of 1 ms is the kernel's least */
}

const char *check_secret_name(const char *text) {
        return secret_name_valid(text) ? NULL : "must be 1 to 64 letters, digits, '_', '.' or '-'";
}

const char *check_secret_env(const char *text) {
        return secret_env_valid(text) ? NULL : "must be letters, digits and '_', and not begin with a digit";
}

const char *check_secret_from(const char *text) {
        if ((strncmp(text, "env:", 4) == 0 && secret_env_valid(text + 4)) || strncmp(text, "file:/", 6) == 0)
                return NULL;
        return "must be env:VARIABLE, or file: and an absolute path";
}

const char *check_secret_inject(const char *text) {
        static const char *const plain[] = { "bearer", "private_token", "x_api_key" };

        for (size_t i = 0; i < ARRAY_SIZE(plain); i++)
                if (strcmp(text, plain[i]) == 0)
                        return NULL;
        if (strncmp(text, "basic:", 6) == 0)
                return secret_user_valid(text + 6)
                               ? NULL
                               : "must have a user name of printable characters without ':'";
        if (strncmp(text, "header:", 7) == 0)
                return secret_header_refused(text + 7)
                               ? "must name a header that is neither malformed nor managed by the relay"
                               : NULL;
        return "must be bearer, private_token, x_api_key, basic:USER or header:NAME";
}

const char *check_secret_hosts(const char *text) {
        for (;;) {
                const size_t n = strcspn(text, ",");
                AUTO_FREE char *host = strndup(text, n), *canonical = NULL;

                if (!host || secret_host_canonical(host, &canonical) < 0)
                        return "must be host names or *.domain, without scheme, port or path";
                if (!text[n])
                        return NULL;
                text += n + 1;
        }
}

const char *check_service(const char *text) {
        const char *host = text + 7, *colon;
        uint64_t port;

        if (strncmp(text, "unix:", 5) == 0)
                return text[5] == '/' ? NULL
                                      : "must have an absolute path behind 'unix:', such as "
                                        "unix:/run/auth-proxy.sock";
        if (strncmp(text, "http://", 7) == 0) {
                colon = strrchr(host, ':');
                if (colon && colon > host && strcspn(host, "/@?#%\\") == strlen(host) &&
                    parse_u64(colon + 1, 1, 65535, &port) == 0)
                        return NULL;
        }
        return "must be http://HOST:PORT or unix: and an absolute path; in front of a service that speaks "
               "TLS, let a "
               "tunnel of this host end it";
}
