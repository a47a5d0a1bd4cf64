#include <string.h>

#include "drivers/native/parts.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/path.h"

/*
 * What is shown of the host's root. An allow-list: a directory that nobody thought of is absent, not exposed.
 * /etc, /usr and the rest are what programs need to start; of /var only what tools read.
 */
static const char *const dirs[] = {
        "bin",
        "etc",
        "gnu",
        "lib",
        "lib32",
        "lib64",
        "libx32",
        "nix/store",
        "nix/var/nix/profiles",
        "opt",
        "sbin",
        "snap",
        "usr",
        "home/linuxbrew/.linuxbrew",
        "var/cache/fontconfig",
        "var/cache/man",
        "var/lib/alternatives",
        "var/lib/ca-certificates",
        "var/lib/dpkg",
        "var/lib/gems",
        "var/lib/ghc",
        "var/lib/pacman",
        "var/lib/rpm",
        "var/lib/sgml-base",
        "var/lib/texmf",
        "var/lib/xml-core",
};

const char *const *os_dirs(size_t *ret_n) {
        *ret_n = ARRAY_SIZE(dirs);
        return dirs;
}

bool os_shows(const char *path) {
        if (*path != '/')
                return false;
        for (size_t i = 0; i < ARRAY_SIZE(dirs); i++) {
                const size_t n = strlen(dirs[i]);

                if (strncmp(path + 1, dirs[i], n) == 0 && (path[n + 1] == '/' || path[n + 1] == '\0'))
                        return true;
        }
        return false;
}
