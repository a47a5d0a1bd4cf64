/*
 * fuzz-image-layer.c - the archive of a layer, unpacked beside a canary
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "image/layer.h"
#include "image/remove.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/file.h"
#include "tests/fuzz/fuzz.h"

static void check(bool holds) {
        if (!holds)
                __builtin_trap();
}

/* What layer_name() makes of any name stays below. */
static void check_name(const uint8_t *data, size_t size) {
        AUTO_FREE char *name = strndup((const char *) data, size), *out = malloc(LAYER_PATH_MAX + 1);

        if (!name || !out || layer_name(name, out) < 0)
                return;
        check(*out != '/' && strlen(out) <= LAYER_PATH_MAX && !strstr(out, "//"));
        check(strcmp(out, "..") != 0 && strncmp(out, "../", 3) != 0 && !strstr(out, "/../"));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        char path[] = "/tmp/fuzz-image-layer.XXXXXX";
        AUTO_FD int top = -1, dir = -1, archive = -1;
        struct layer_result result = { 0 };
        struct error err = { 0 };
        struct stat st;

        if (size > 65536)
                return 0;
        check_name(data, size);
        check(mkdtemp(path) != NULL);
        top = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        archive = memfd_create("layer", MFD_CLOEXEC);
        check(top >= 0 && archive >= 0 && mkdirat(top, "fs", 0755) == 0 && mkdirat(top, "canary", 0755) == 0);
        check(write_all(archive, data, size) == 0 && lseek(archive, 0, SEEK_SET) == 0);
        dir = openat(top, "fs", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (layer_apply(&(struct layer_request){ .archive_fd = archive,
                                                 .dir_fd = dir,
                                                 .limits = { 1 << 20, 1000 } },
                        &result, &err) == 0)
                check(result.bytes <= 1 << 20 && digest_valid(result.diff_id));
        else
                check(*err.msg && !strchr(err.msg, '\n'));
        /* there is what was there before, and it is empty */
        check(fstat(top, &st) == 0 && st.st_nlink == 4 && unlinkat(top, "canary", AT_REMOVEDIR) == 0);
        check(remove_tree_at(top, "fs") == 0 && rmdir(path) == 0);
        return 0;
}
