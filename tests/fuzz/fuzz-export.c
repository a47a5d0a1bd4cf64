/*
 * fuzz-export.c - the archive that a sandbox's copy of the workspace is: whatever it says, nothing appears
 * outside the upper, no set-id bit, no hard link, no device, no git configuration or hook, and no symbolic
 * link that leaves
 */
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kubernetes/workspace/member.h"
#include "kubernetes/workspace/unpack.h"
#include "runtime/base/cleanup.h"
#include "tests/fuzz/fuzz.h"

static char root[64] = "/tmp/cofferdam-fuzz-XXXXXX";
static size_t root_len, outside;

struct input {
        const uint8_t *data;
        size_t left;
};

static void check(bool holds) {
        if (!holds)
                __builtin_trap();
}

static ssize_t more(void *arg, const void **ret) {
        struct input *in = arg;
        const size_t n = in->left < 4096 ? in->left : 4096;

        *ret = in->data;
        in->data += n;
        in->left -= n;
        return (ssize_t) n;
}

static int look(const char *path, const struct stat *st, int type, struct FTW *at) {
        const char *rel = path + root_len;
        char target[PATH_MAX];
        ssize_t n;

        (void) type;
        (void) at;
        if (strncmp(rel, "/upper/", 7) != 0) {
                outside++;
                return 0;
        }
        rel += 7;
        check(S_ISREG(st->st_mode) || S_ISDIR(st->st_mode) || S_ISLNK(st->st_mode));
        check((st->st_mode & 07000) == 0 && !member_excluded(rel));
        check(S_ISDIR(st->st_mode) || st->st_nlink == 1);
        if (S_ISLNK(st->st_mode)) {
                n = readlink(path, target, sizeof(target) - 1);
                check(n > 0);
                target[n] = '\0';
                check(member_link_stays(rel, target, "/ws"));
        }
        return 0;
}

static int drop(const char *path, const struct stat *st, int type, struct FTW *at) {
        (void) st;
        (void) type;
        if (at->level > 0)
                (void) !remove(path);
        return 0;
}

static void clean(void) {
        (void) nftw(root, drop, 32, FTW_DEPTH | FTW_PHYS);
        (void) rmdir(root);
}

static void begin(void) {
        check(mkdtemp(root) != NULL);
        root_len = strlen(root);
        check(atexit(clean) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        AUTO_FD int dir = -1, upper = -1, lower = -1;
        AUTO_LANDING struct landing *l = NULL;
        struct landing_options opt = { .root = "/ws", .limits = { 1 << 20, 1000 } };
        struct input in = { data, size };
        struct landing_counts counts;

        if (root_len == 0)
                begin();
        dir = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        check(dir >= 0 && mkdirat(dir, "lower", 0700) == 0 && mkdirat(dir, "upper", 0700) == 0 &&
              mkdirat(dir, "lower/.git", 0700) == 0 && symlinkat("../..", dir, "lower/escape") == 0);
        upper = openat(dir, "upper", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        lower = openat(dir, "lower", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        opt.upper_fd = upper;
        opt.lower_fd = lower;
        check(landing_new(&opt, &l) == 0);
        if (unpack_stream(more, &in, l, NULL) == 0)
                check(landing_finish(l, &counts, NULL) == 0 && counts.bytes <= opt.limits.bytes_max &&
                      counts.members <= opt.limits.members_max);
        l = landing_free(l);
        outside = 0;
        (void) nftw(root, look, 32, FTW_PHYS);
        check(outside == 5); /* the root, both directories, .git and the link */
        (void) nftw(root, drop, 32, FTW_DEPTH | FTW_PHYS);
        return 0;
}
