/*
 * fuzz-main.c - replays a corpus without libFuzzer, so that plain `meson test` keeps every known input
 * working
 *
 * Usage: fuzz-<noun> CORPUS... - each a file or a directory of files; also replays the empty input. Fails
 * when there was no file at all: a corpus that was lost must not look like one that passed.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "runtime/base/cleanup.h"
#include "runtime/base/file.h"
#include "tests/fuzz/fuzz.h"

enum { INPUT_MAX_BYTES = 4 << 20 };

/* the parser gets a block of exactly the input's size, so that a sanitizer sees one byte too many */
static int replay_bytes(const void *data, size_t size) {
        AUTO_FREE uint8_t *exact = calloc(1, size > 0 ? size : 1);

        if (!exact)
                return -ENOMEM;
        if (size > 0)
                memcpy(exact, data, size);
        (void) LLVMFuzzerTestOneInput(exact, size);
        return 0;
}

static int replay_file(int dir_fd, const char *name, size_t *count) {
        AUTO_BUF struct buf content = { 0 };
        int r;

        r = file_read_at(dir_fd, name, INPUT_MAX_BYTES, &content);
        if (r < 0)
                return r;
        (*count)++;
        return replay_bytes(content.data, content.len);
}

static int replay_dir(const char *path, size_t *count) {
        AUTO_FD int dir_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        struct dirent **names = NULL;
        int n, r = 0;

        if (dir_fd < 0)
                return -errno;
        n = scandir(path, &names, NULL, alphasort);
        if (n < 0)
                return -errno;
        for (int i = 0; i < n; i++) {
                AUTO_FREE struct dirent *name = names[i];

                if (r == 0 && name->d_name[0] != '.')
                        r = replay_file(dir_fd, name->d_name, count);
                if (r < 0)
                        (void) fprintf(stderr, "%s/%s: %s\n", path, name->d_name, strerror(-r));
        }
        free(names);
        return r;
}

static int replay_path(const char *path, size_t *count) {
        struct stat st;

        if (stat(path, &st) < 0)
                return -errno;
        return S_ISDIR(st.st_mode) ? replay_dir(path, count) : replay_file(AT_FDCWD, path, count);
}

int main(int argc, char **argv) {
        size_t count = 0;
        int r;

        r = replay_bytes(NULL, 0);
        for (int i = 1; r == 0 && i < argc; i++)
                r = replay_path(argv[i], &count);
        if (r < 0) {
                (void) fprintf(stderr, "fuzz replay: %s\n", strerror(-r));
                return 1;
        }
        printf("replayed %zu inputs\n", count);
        return count > 0 ? 0 : 1;
}
