/*
 * Unix sockets of the host in what is shown of it. Neither a read-only mount nor a network namespace keeps
 * anybody from connecting to a socket by its path, and who answers is a service of the host. So what listens
 * at the start is covered.
 *
 * Not covered: a socket that is bound later or was bound by a relative path, and FIFOs, which nothing lists.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "drivers/native/parts.h"
#include "drivers/native/setup.h"
#include "fs/walk.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/escape.h"
#include "runtime/base/path.h"

enum { SOCKETS_MAX = 1024, LINE_FIELDS = 7 /* before the path */ };

/* The path of a line of /proc/net/unix (proc(5)); NULL: it has none in the file system. */
static const char *path_of(char *line) {
        for (int i = 0; i < LINE_FIELDS; i++) {
                line += strspn(line, " ");
                line += strcspn(line, " ");
        }
        line += strspn(line, " ");
        line[strcspn(line, "\n")] = '\0';
        return *line == '/' ? line : NULL;
}

static int add(struct sockets *list, const char *dir, const char *rest) {
        char **grown;
        int r;

        if (list->n >= SOCKETS_MAX)
                return -E2BIG;
        grown = reallocarray(list->paths, list->n + 1, sizeof(*grown));
        if (!grown)
                return -ENOMEM;
        list->paths = grown;
        r = path_join(dir, rest, &grown[list->n]);
        if (r == 0)
                list->n++;
        return r;
}

/* Where the socket at the host's @path would be seen inside: the host's root, and regions without a guard. */
static int add_places(struct sockets *list, const struct driver_plan *plan, const char *path) {
        AUTO_WALK struct walk at = WALK_INIT;
        struct stat st;
        int r = 0;

        if (walk_path(path, &at) < 0 || fstat(at.fd, &st) < 0 || !S_ISSOCK(st.st_mode))
                return 0; /* gone, or its name is relative to a root that is not ours */
        if (os_shows(at.real))
                r = add(list, "/", at.real + 1);
        for (size_t i = 0; r == 0 && plan->rungs.no_guard && i < plan->n_regions; i++) {
                const struct native_region *region = &plan->regions[i];
                const char *rest = region->overlay ? NULL : path_below(at.real, region->pin.real);

                if (rest)
                        r = add(list, region->target, rest);
        }
        return r;
}

int sockets_list(const struct driver_plan *plan, struct sockets *ret, struct error *err) {
        CLEANUP(sockets_free) struct sockets list = { 0 };
        FILE *file = fopen("/proc/net/unix", "re");
        AUTO_FREE char *line = NULL;
        size_t size = 0;
        int r = 0;

        if (!file) /* a kernel without unix sockets has none to cover */
                return errno == ENOENT ? 0 : error_set(err, -errno, "/proc/net/unix: %s", strerror(errno));
        while (r == 0 && getline(&line, &size, file) > 0) {
                const char *path = path_of(line);

                if (path)
                        r = add_places(&list, plan, path);
        }
        (void) fclose(file);
        if (r < 0)
                return error_set(err, r, "the host's unix sockets in what is shown: %s",
                                 r == -E2BIG ? "there are more than 1024" : strerror(-r));
        *ret = list;
        list = (struct sockets){ 0 };
        return 0;
}

void sockets_free(struct sockets *list) {
        for (size_t i = 0; i < list->n; i++)
                free(list->paths[i]);
        free(list->paths);
        *list = (struct sockets){ 0 };
}

int stage_sockets(struct setup *s, struct error *err) {
        for (size_t i = 0; i < s->sockets.n; i++) {
                const int r = hide(s, s->sockets.paths[i] + 1);

                if (r < 0 && r != -ENOTDIR)
                        return error_set(err, r, "cover the socket '%s': %s", ESC(s->sockets.paths[i]),
                                         strerror(-r));
        }
        return 0;
}
