/*
 * swap - put one thing in the place of another, as fast as it goes, until killed or for COUNT rounds
 *
 *   swap exchange A B [COUNT]   renameat2(RENAME_EXCHANGE): A and B are always there
 *   swap link PATH T1 T2 [COUNT] the symlink PATH leads to T1, then to T2; replaced by rename
 *   swap replace PATH SOURCE [COUNT] PATH is replaced nine times by a new file "fine", then by a link to
 * SOURCE swap bind PATH SOURCE [COUNT] SOURCE is bind-mounted over PATH and unmounted (in a mount namespace)
 *
 * Prints "ready" before the first round. An even COUNT leaves everything as it was.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

/** struct swap - the operands */
struct swap {
        const char *path, *a, *b;
        char temp[PATH_MAX];
};

static void check(int r, const char *what) {
        if (r >= 0)
                return;
        (void) fprintf(stderr, "swap: %s: %s\n", what, strerror(errno));
        exit(errno == EPERM ? 77 : 1);
}

static void exchange(struct swap *s, unsigned long round) {
        (void) round;
        check(renameat2(AT_FDCWD, s->path, AT_FDCWD, s->a, RENAME_EXCHANGE), "exchange");
}

static void relink(struct swap *s, unsigned long round) {
        check(symlink(round % 2 ? s->a : s->b, s->temp), "symlink");
        check(rename(s->temp, s->path), "rename");
}

static void replace(struct swap *s, unsigned long round) {
        if (round % 10 == 9) {
                check(link(s->a, s->temp), "link");
        } else {
                const int fd = open(s->temp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

                check(fd, "create");
                check(write(fd, "fine\n", 5) == 5 ? 0 : -1, "write");
                check(close(fd), "close");
        }
        check(rename(s->temp, s->path), "rename");
}

static void rebind(struct swap *s, unsigned long round) {
        if (round % 2 == 0)
                check(mount(s->a, s->path, NULL, MS_BIND, NULL), "mount");
        else
                check(umount2(s->path, MNT_DETACH), "umount");
}

static const struct {
        const char *name;
        int operands;
        void (*step)(struct swap *s, unsigned long round);
} ways[] = {
        { "exchange", 2, exchange },
        { "link", 3, relink },
        { "replace", 2, replace },
        { "bind", 2, rebind },
};

int main(int argc, char **argv) {
        struct swap s = { 0 };
        unsigned long count = ULONG_MAX;
        size_t way = 0;

        while (way < 4 && !(argc > 1 && strcmp(argv[1], ways[way].name) == 0))
                way++;
        if (way == 4 || argc < 2 + ways[way].operands || argc > 3 + ways[way].operands) {
                (void) fprintf(stderr, "usage: swap exchange|link|replace|bind PATH A [B] [COUNT]\n");
                return 2;
        }
        s.path = argv[2];
        s.a = argv[3];
        s.b = ways[way].operands > 2 ? argv[4] : NULL;
        if (argc == 3 + ways[way].operands)
                count = strtoul(argv[argc - 1], NULL, 10);
        (void) snprintf(s.temp, sizeof(s.temp), "%s.swap", s.path);
        (void) puts("ready");
        (void) fflush(stdout);
        for (unsigned long i = 0; i < count; i++)
                ways[way].step(&s, i);
        return 0;
}
