/*
 * calls - what every call of the file system says, as a transcript
 *
 *   calls make DIR [TOPIC...]     make the fixtures
 *   calls run DIR [TOPIC...]      make the calls
 *                                 -TOPIC: all but that one
 *   calls wait                    until standard input ends
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "transcript.h"

/* named, or not named with a dash in front of it when nothing else is */
static bool wanted(const char *name, char **topics) {
        bool all = true;

        for (; *topics; topics++) {
                if (**topics == '-' && strcmp(*topics + 1, name) == 0)
                        return false;
                if (strcmp(*topics, name) == 0)
                        return true;
                all = all && **topics == '-';
        }
        return all;
}

static int run_topic(const struct topic *t, bool making) {
        int fd;

        if (making && mkdir(t->name, 0755) < 0)
                return -1;
        fd = open(t->name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (fd < 0)
                return -1;
        transcript_begin(making, fd);
        t->run();
        return close(fd);
}

static int run_topics(const struct topic *t, int base_fd, bool making, char **topics) {
        for (; t->name; t++) {
                if (!wanted(t->name, topics))
                        continue;
                if (fchdir(base_fd) < 0 || run_topic(t, making) < 0) {
                        perror(t->name);
                        return -1;
                }
        }
        return 0;
}

int main(int argc, char **argv) {
        const struct topic *const groups[] = { topics_names, topics_rights, topics_files, topics_limits };
        const bool making = argc > 2 && strcmp(argv[1], "make") == 0;
        char c = '.';
        int fd;

        if (argc == 2 && strcmp(argv[1], "wait") == 0) /* topic running */
                return write(1, &c, 1) != 1 || read(0, &c, 1) != 0;
        if (argc < 3 || (!making && strcmp(argv[1], "run") != 0)) {
                (void) fprintf(stderr, "usage: calls make|run DIR [TOPIC...]\n");
                return 2;
        }
        (void) umask(022);
        fd = open(argv[2], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (fd < 0) {
                perror(argv[2]);
                return 1;
        }
        for (size_t i = 0; i < sizeof(groups) / sizeof(groups[0]); i++)
                if (run_topics(groups[i], fd, making, argv + 3) < 0)
                        return 1;
        return fflush(stdout) != 0;
}
