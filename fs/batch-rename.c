/* Directories that the work renamed, renamed on the host. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>

#include "fs/batch-parts.h"
#include "fs/moves.h"
#include "fs/pathfd.h"
#include "fs/transaction.h"
#include "runtime/base/buf.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/path.h"
#include "runtime/base/sys.h"

/* Whether @name in @dir_fd is the directory that entry @i renames. Return: 1, 0, -errno; @ret_exists: whether
 * there is anything. */
static int is_source(const struct batch *b, size_t i, int dir_fd, const char *name, bool *ret_exists) {
        struct stat st;

        *ret_exists = fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0;
        if (!*ret_exists)
                return errno == ENOENT ? 0 : -errno;
        return S_ISDIR(st.st_mode) && st.st_ino == b->journal->entries[i].lower.ino;
}

/* Lets other renamed directories of the upper that stand for something below @from do so below @to. */
static int redirect_others(const struct batch *b, const char *from, const char *to) {
        AUTO_MOVES struct moves moves = { 0 };
        int r;

        r = moves_read(b->opt->upper_fd, &moves);
        for (size_t i = 0; r == 0 && i < moves.n; i++) {
                const char *rest = path_below(moves.v[i].from, from);
                AUTO_BUF struct buf path = { 0 };
                const char *name;
                AUTO_FD int parent = -1, fd = -1;

                if (!rest || !*rest)
                        continue;
                parent = pathfd_open_parent(b->opt->upper_fd, moves.v[i].path, &name);
                fd = parent < 0 ? parent : open_beneath(parent, name, O_RDONLY | O_DIRECTORY, 0);
                r = fd < 0 ? fd : buf_fmt(&path, "%s/%s", to, rest);
                if (r == 0)
                        r = moves_set(fd, buf_cstr(&path));
        }
        return r;
}

/* The upper's directory of entry @i stands for the host's @from, NULL: for that of its own name. */
static int redirect(const struct batch *b, size_t i, const char *from) {
        struct stat st;
        AUTO_FD int upper = batch_open_upper_parent(b, i, &st);
        AUTO_FD int fd = upper < 0 ? upper : open_beneath(upper, b->slots[i].name, O_RDONLY | O_DIRECTORY, 0);

        return fd < 0 ? fd : moves_set(fd, from);
}

/* Whether the directory may be where it is now, with all that it holds now: what somebody has put into it
 * since the caller was asked would otherwise come under a name that a rule is about. */
static bool may_stay(const struct batch *b, size_t i) {
        const struct journal_entry *e = &b->journal->entries[i];
        const struct slot *slot = &b->slots[i];
        struct stat upper, lower;
        AUTO_FD int dir = batch_open_upper_parent(b, i, &upper);
        const struct change c = {
                .kind = CHANGE_RENAMED,
                .path = e->path,
                .from = e->from,
                .lower_path = e->path,
                .again = true,
                .mode = S_IFDIR,
                .upper = &upper,
                .lower = &lower,
                .upper_dir = dir,
                .lower_dir = slot->dir_fd,
        };

        return dir >= 0 && fstatat(slot->dir_fd, slot->name, &lower, AT_SYMLINK_NOFOLLOW) == 0 &&
               apply_choose(b->opt, &c) != APPLY_LEAVE;
}

static int rename_on_host(const struct batch *b, size_t i) {
        const struct slot *slot = &b->slots[i];
        const char *old;
        AUTO_FD int from = pathfd_open_parent(b->opt->lower_fd, b->journal->entries[i].from, &old);
        bool exists;
        int r;

        r = from < 0 ? from : is_source(b, i, from, old, &exists);
        if (r < 1)
                return r < 0 ? r : -ESTALE;
        r = batch_check_parent(b, i);
        if (r < 0)
                return r;
        batch_step(b, "rename directory");
        if (renameat2(from, old, slot->dir_fd, slot->name, RENAME_NOREPLACE) < 0)
                return -errno;
        if (is_source(b, i, slot->dir_fd, slot->name, &exists) == 1 && batch_check_parent(b, i) == 0 &&
            may_stay(b, i))
                return 0;
        /* the host put another one there between the look and the rename, or something into it */
        return renameat2(slot->dir_fd, slot->name, from, old, RENAME_NOREPLACE) < 0 ? -errno : -ESTALE;
}

int batch_commit_rename(const struct batch *b, size_t i) {
        const struct journal_entry *e = &b->journal->entries[i];
        bool exists;
        int r;

        r = is_source(b, i, b->slots[i].dir_fd, b->slots[i].name, &exists);
        if (r == 0)
                r = exists ? -EEXIST : rename_on_host(b, i);
        if (r < 0)
                return r;
        batch_step(b, "redirect others");
        r = redirect_others(b, e->from, e->path);
        if (r == 0)
                r = batch_adopt_dir(b, i, b->slots[i].name);
        batch_step(b, "redirect");
        return r < 0 ? r : redirect(b, i, NULL);
}

int batch_undo_rename(const struct batch *b, size_t i) {
        const struct journal_entry *e = &b->journal->entries[i];
        const struct slot *slot = &b->slots[i];
        const char *old;
        AUTO_FD int to = pathfd_open_parent(b->opt->lower_fd, e->from, &old);
        bool exists;
        int r;

        r = is_source(b, i, slot->dir_fd, slot->name, &exists);
        if (r < 0 || (r == 1 && to < 0))
                return r < 0 ? r : to;
        batch_step(b, "undo rename");
        if (r == 1 && renameat2(slot->dir_fd, slot->name, to, old, RENAME_NOREPLACE) < 0)
                return errno == EEXIST ? -ESTALE : -errno;
        /* undone before, and the batches before it too: it went further back with a parent */
        if (to < 0 || is_source(b, i, to, old, &exists) != 1)
                return 0;
        r = redirect(b, i, e->from);
        return r < 0 ? r : redirect_others(b, e->path, e->from);
}
