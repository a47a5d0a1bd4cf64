/*
 * DOC: theory of operation
 *
 * Stage: each file, link or directory that replaces something is made under a temporary name next to its
 * target. Commit: it takes its name by renameat2(2): RENAME_NOREPLACE where nothing may be there,
 * RENAME_EXCHANGE where something is replaced - then what came out is compared with what was expected, and
 * put back when the host changed it in between. Deletions are renamed away and compared. Renamed directories
 * are renamed. So no version that nobody reviewed is ever lost, without a lock. The old versions keep their
 * temporary names until all batches have landed: until then everything can go back. Finish looks at each once
 * more and removes it.
 *
 * After a crash the inode numbers tell how far each entry came: the target is the staged object (landed), the
 * temporary name is (not yet), or neither (it was refused, or the host moved on).
 *
 * An attacker may control: every name, link and content in the upper (not its origin records), and what is
 * at any place of the host's tree that another sandbox may write to. Hence descriptors only, no links
 * followed, each parent pinned at stage and compared at commit.
 */
#include "fs/batch-parts.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fs/copy.h"
#include "fs/hosttree.h"
#include "fs/pathfd.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/sys.h"

/** struct there - what fstatat(2) says of a name */
struct there {
        bool exists;
        struct stat st;
};

void batch_init(struct batch *b, const struct apply_options *opt, struct journal *journal) {
        b->opt = opt;
        b->journal = journal;
        for (size_t i = 0; i < JOURNAL_ENTRIES_MAX; i++)
                b->slots[i] = (struct slot){ .dir_fd = -1, .file_fd = -1 };
}

void batch_deinit(struct batch *b) {
        for (size_t i = 0; i < JOURNAL_ENTRIES_MAX; i++) {
                b->slots[i].file_fd = fd_close(b->slots[i].file_fd);
                b->slots[i].dir_fd = fd_close(b->slots[i].dir_fd);
        }
}

void batch_step(const struct batch *b, const char *what) {
        if (b->opt->step)
                b->opt->step(what, b->opt->step_arg);
}

static bool is_fatal(int r) {
        return r == -ENOMEM || r == -EMFILE || r == -ENFILE;
}

/* Notes how an entry ended. Return: 0, or @r when going on is senseless. */
static int settle(struct slot *slot, int r, enum slot_state good) {
        if (is_fatal(r))
                return r;
        slot->state = r < 0 ? SLOT_REFUSED : good;
        slot->why = r < 0 ? r : 0;
        return 0;
}

static int look(int dir_fd, const char *name, struct there *ret) {
        ret->exists = fstatat(dir_fd, name, &ret->st, AT_SYMLINK_NOFOLLOW) == 0;
        return ret->exists || errno == ENOENT ? 0 : -errno;
}

static int pin_parent(struct batch *b, size_t i) {
        const int fd = pathfd_open_parent(b->opt->lower_fd, b->journal->entries[i].path, &b->slots[i].name);

        if (fd < 0)
                return fd;
        b->slots[i].dir_fd = fd;
        return 0;
}

/* Whether the pinned parent is still what the path leads to. Return: 0, -ESTALE, -errno. */
int batch_check_parent(const struct batch *b, size_t i) {
        const char *name;
        struct stat now, pinned;
        AUTO_FD int fd = pathfd_open_parent(b->opt->lower_fd, b->journal->entries[i].path, &name);

        if (fd < 0)
                return fd;
        if (fstat(fd, &now) < 0 || fstat(b->slots[i].dir_fd, &pinned) < 0)
                return -errno;
        return now.st_dev == pinned.st_dev && now.st_ino == pinned.st_ino ? 0 : -ESTALE;
}

/* Keeps the owner of what is replaced; what is new belongs to who made it. Only root can; others need not. */
static void keep_owner(int fd, const struct slot *slot, const struct stat *upper) {
        struct there old;
        const struct stat *from = look(slot->dir_fd, slot->name, &old) == 0 && old.exists ? &old.st : upper;

        if (fchown(fd, from->st_uid, from->st_gid) < 0)
                (void) !fchown(fd, (uid_t) -1, from->st_gid);
}

static int fill_file(int from_fd, const struct stat *st, int to_fd, const struct slot *slot) {
        int r;

        r = copy_data(from_fd, to_fd, (uint64_t) st->st_size);
        if (r == 0)
                r = copy_xattrs(from_fd, to_fd);
        if (r < 0)
                return r;
        keep_owner(to_fd, slot, st);
        if (fchmod(to_fd, st->st_mode & 0777) < 0)
                return -errno;
        return copy_times(st, to_fd);
}

static int stage_file(struct slot *slot, const char *tmp, int upper_dir, const struct stat *st) {
        struct stat now;
        AUTO_FD int from = layer_open_read(upper_dir, slot->name);
        AUTO_FD int to = -1;
        int r;

        if (from < 0)
                return from;
        if (fstat(from, &now) < 0)
                return -errno;
        if (!S_ISREG(now.st_mode) || now.st_ino != st->st_ino)
                return -ESTALE;
        to = openat(slot->dir_fd, tmp, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
        if (to < 0)
                return -errno;
        r = fill_file(from, st, to, slot);
        if (r == 0)
                slot->file_fd = TAKE_FD(to);
        return r;
}

static int stage_symlink(struct slot *slot, const char *tmp, int upper_dir, const struct stat *st) {
        const struct timespec times[2] = { st->st_atim, st->st_mtim };
        char target[PATH_MAX];
        const ssize_t n = readlinkat(upper_dir, slot->name, target, sizeof(target) - 1);

        if (n < 0)
                return -errno;
        target[n] = '\0';
        if (symlinkat(target, slot->dir_fd, tmp) < 0)
                return -errno;
        return utimensat(slot->dir_fd, tmp, times, AT_SYMLINK_NOFOLLOW) < 0 ? -errno : 0;
}

/* Makes a directory like the one of the upper, but open to us until all is below it. */
static int make_dir(const struct slot *slot, const char *name, const struct stat *st) {
        struct stat made;
        AUTO_FD int fd = -1;

        if (mkdirat(slot->dir_fd, name, 0700) < 0)
                return -errno;
        fd = openat(slot->dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (fd < 0 || fstat(fd, &made) < 0)
                return -errno;
        if (made.st_uid != geteuid()) /* swapped for somebody else's */
                return -ESTALE;
        keep_owner(fd, slot, st);
        return fchmod(fd, (st->st_mode & 01777) | 0700 | (made.st_mode & S_ISGID)) < 0 ? -errno : 0;
}

static int stage_dir(struct slot *slot, const char *tmp, int upper_dir, const struct stat *st) {
        (void) upper_dir;
        return make_dir(slot, tmp, st);
}

/* Opens the upper directory of entry @i and checks that the upper object is the one of the plan. */
int batch_open_upper_parent(const struct batch *b, size_t i, struct stat *ret_st) {
        const struct journal_entry *e = &b->journal->entries[i];
        const char *name;
        AUTO_FD int fd = pathfd_open_parent(b->opt->upper_fd, e->path, &name);

        if (fd < 0)
                return fd;
        if (fstatat(fd, name, ret_st, AT_SYMLINK_NOFOLLOW) < 0)
                return -errno;
        return layer_origin_same(&e->upper, ret_st) ? TAKE_FD(fd) : -ESTALE;
}

static int stage_put(struct batch *b, size_t i) {
        static const struct {
                mode_t type;
                int (*make)(struct slot *slot, const char *tmp, int upper_dir, const struct stat *st);
        } makers[] = { { S_IFREG, stage_file }, { S_IFLNK, stage_symlink }, { S_IFDIR, stage_dir } };
        struct slot *slot = &b->slots[i];
        char tmp[JOURNAL_TEMP_MAX];
        struct there made = { 0 };
        struct stat st;
        AUTO_FD int upper = batch_open_upper_parent(b, i, &st);
        int r = -EOPNOTSUPP;

        if (upper < 0)
                return upper;
        journal_temp_name(b->journal, i, tmp);
        batch_step(b, "stage");
        for (size_t k = 0; k < ARRAY_SIZE(makers); k++)
                if ((st.st_mode & S_IFMT) == makers[k].type)
                        r = makers[k].make(slot, tmp, upper, &st);
        if (r == 0)
                r = look(slot->dir_fd, tmp, &made);
        if (r == 0 && !made.exists)
                r = -ESTALE;
        if (r < 0) {
                (void) !hosttree_remove(slot->dir_fd, tmp);
                return r;
        }
        b->journal->entries[i].staged_ino = made.st.st_ino;
        return 0;
}

/* Notes in the upper which directory of the host, now called @name, the upper one of entry @i stands for. */
int batch_adopt_dir(const struct batch *b, size_t i, const char *name) {
        const struct slot *slot = &b->slots[i];
        struct layer_origin origin;
        struct there lower;
        struct stat st;
        AUTO_FD int upper = batch_open_upper_parent(b, i, &st);
        int r;

        if (upper < 0)
                return upper;
        r = look(slot->dir_fd, name, &lower);
        if (r < 0)
                return r;
        if (!lower.exists || !S_ISDIR(lower.st.st_mode))
                return -ESTALE;
        origin = layer_origin_of(&lower.st);
        return layer_claim(upper, slot->name, &origin);
}

/* Whether the host's directory @name is the one that the upper's was made to. */
static bool is_adopted(const struct batch *b, size_t i, const char *name) {
        struct layer_origin origin = { 0 };
        struct there lower;
        struct stat st;
        AUTO_FD int upper = batch_open_upper_parent(b, i, &st);

        return upper >= 0 && look(b->slots[i].dir_fd, name, &lower) == 0 && lower.exists &&
               layer_origin_at(upper, b->slots[i].name, &origin) == 0 && origin.ino == lower.st.st_ino;
}

/* The upper's directory stands for none of the host. */
static int disown_dir(const struct batch *b, size_t i) {
        struct stat st;
        AUTO_FD int upper = batch_open_upper_parent(b, i, &st);

        return upper < 0 ? upper : layer_claim(upper, b->slots[i].name, &(struct layer_origin){ 0 });
}

/* Made and adopted under the temporary name, so that it is known at any time whether we made it. */
static int stage_mkdir(struct batch *b, size_t i) {
        const struct slot *slot = &b->slots[i];
        const int fd = slot->dir_fd;
        char tmp[JOURNAL_TEMP_MAX];
        struct there target;
        struct stat st;
        AUTO_FD int upper = batch_open_upper_parent(b, i, &st);
        int r;

        if (upper < 0)
                return upper;
        r = look(fd, slot->name, &target);
        if (r < 0 || target.exists)
                return r < 0 ? r : -EEXIST;
        journal_temp_name(b->journal, i, tmp);
        batch_step(b, "mkdir");
        r = make_dir(slot, tmp, &st);
        if (r < 0)
                return r;
        batch_step(b, "adopt");
        r = batch_adopt_dir(b, i, tmp);
        batch_step(b, "name directory");
        if (r == 0 && renameat2(fd, tmp, fd, slot->name, RENAME_NOREPLACE) < 0)
                r = errno == EINVAL && renameat(fd, tmp, fd, slot->name) == 0 ? 0 : -errno;
        if (r == 0)
                return 0;
        (void) unlinkat(fd, tmp, AT_REMOVEDIR);
        (void) !disown_dir(b, i);
        return r;
}

static int stage_nothing(struct batch *b, size_t i) {
        (void) b;
        (void) i;
        return 0;
}

/*
 * Makes the staged files durable, all at once: the first sync writes what the file system's journal has of
 * the others, too.
 */
static void sync_files(struct batch *b) {
        for (size_t i = 0; i < b->journal->n; i++) {
                struct slot *slot = &b->slots[i];
                char tmp[JOURNAL_TEMP_MAX];

                if (slot->file_fd >= 0 && fsync(slot->file_fd) < 0) {
                        slot->why = -errno;
                        slot->state = SLOT_REFUSED;
                        journal_temp_name(b->journal, i, tmp);
                        (void) !hosttree_remove(slot->dir_fd, tmp);
                        b->journal->entries[i].staged_ino = 0;
                }
                slot->file_fd = fd_close(slot->file_fd);
        }
}

int batch_stage(struct batch *b) {
        static int (*const stagers[])(struct batch * b, size_t i) = {
                [JOURNAL_MKDIR] = stage_mkdir,     [JOURNAL_PUT] = stage_put,
                [JOURNAL_DELETE] = stage_nothing,  [JOURNAL_RENAME] = stage_nothing,
                [JOURNAL_REFUSED] = stage_nothing,
        };
        static_assert(ARRAY_SIZE(stagers) == JOURNAL_OP_COUNT, "stagers[] and enum journal_op differ");

        for (size_t i = 0; i < b->journal->n; i++) {
                const enum journal_op op = b->journal->entries[i].op;
                int r;

                r = pin_parent(b, i);
                if (r == 0)
                        r = stagers[op](b, i);
                r = settle(&b->slots[i], r, op == JOURNAL_MKDIR ? SLOT_LANDED : SLOT_STAGED);
                if (r < 0)
                        return r;
        }
        batch_step(b, "sync files");
        sync_files(b);
        return 0;
}

void batch_rollback(struct batch *b) {
        for (size_t i = 0; i < b->journal->n; i++) {
                const bool dir = b->journal->entries[i].op == JOURNAL_MKDIR;
                char tmp[JOURNAL_TEMP_MAX];

                if (b->slots[i].dir_fd < 0 && pin_parent(b, i) < 0)
                        continue;
                journal_temp_name(b->journal, i, tmp);
                batch_step(b, "rollback");
                (void) !hosttree_remove(b->slots[i].dir_fd, tmp);
                if (dir && !is_adopted(b, i, b->slots[i].name))
                        (void) !disown_dir(b, i);
        }
}

/* Whether the object that is at @st, renamed since, is the expected one (a rename changes the ctime). */
static bool is_expected(const struct layer_origin *want, const struct stat *st) {
        const struct layer_origin now = layer_origin_of(st);

        if (want->ino != now.ino || want->mode != now.mode)
                return false;
        return S_ISDIR(now.mode) || (want->size == now.size && want->mtime_ns == now.mtime_ns);
}

/* Whether the directory may go with all that it holds. */
static int check_tree(const struct batch *b, size_t i, const char *name, const struct stat *st) {
        if (!S_ISDIR(st->st_mode))
                return 0;
        return hosttree_check(b->slots[i].dir_fd, name,
                              b->journal->force ? INT64_MAX : b->journal->entries[i].since_ns);
}

/* Whether what was renamed to the temporary name may be removed. */
static int check_old(const struct batch *b, size_t i, const char *tmp, const struct stat *st) {
        if (!b->journal->force && !is_expected(&b->journal->entries[i].lower, st))
                return -ESTALE;
        return check_tree(b, i, tmp, st);
}

/* Removes the temporary name when it is the staged object's, not that of somebody's version. */
static void drop_staged(const struct batch *b, size_t i, const char *tmp) {
        struct there at;

        batch_step(b, "remove staged");
        if (look(b->slots[i].dir_fd, tmp, &at) == 0 && at.exists &&
            at.st.st_ino == b->journal->entries[i].staged_ino)
                (void) !hosttree_remove(b->slots[i].dir_fd, tmp);
}

/* The staged object has its name; what it replaced, if anything, has the temporary one: was it that? */
static int verify_put(const struct batch *b, size_t i, const char *tmp) {
        const struct slot *slot = &b->slots[i];
        struct there old;
        int r;

        r = look(slot->dir_fd, tmp, &old);
        if (r < 0 || !old.exists)
                return r;
        r = check_old(b, i, tmp, &old.st);
        if (r < 0) {
                batch_step(b, "exchange back");
                if (renameat2(slot->dir_fd, tmp, slot->dir_fd, slot->name, RENAME_EXCHANGE) < 0)
                        return -errno;
                drop_staged(b, i, tmp);
        }
        return r;
}

/* Whether the object is what it was when the apply was planned. Another name of it may have landed meanwhile:
 * that one is called something else until all have, and the change time is that of the renaming. */
static bool is_planned(const struct layer_origin *want, const struct stat *st) {
        return layer_origin_same(want, st) ||
               (st->st_nlink > 1 && !S_ISDIR(st->st_mode) && is_expected(want, st));
}

static int check_target(const struct batch *b, size_t i, const struct there *target) {
        const struct journal_entry *e = &b->journal->entries[i];

        if (!b->journal->force) {
                if (target->exists != (e->lower.ino != 0))
                        return -ESTALE;
                if (target->exists && !is_planned(&e->lower, &target->st))
                        return -ESTALE;
        }
        return target->exists ? check_tree(b, i, b->slots[i].name, &target->st) : 0;
}

/* Gives the staged object its name. Return: 0, -ESTALE (the host was faster), -errno. */
static int swap_in(const struct batch *b, size_t i, const char *tmp, const struct there *target) {
        const struct slot *slot = &b->slots[i];
        const int fd = slot->dir_fd;

        batch_step(b, "rename");
        if (renameat2(fd, tmp, fd, slot->name, target->exists ? RENAME_EXCHANGE : RENAME_NOREPLACE) == 0)
                return 0;
        if (errno == ENOENT || errno == EEXIST)
                return -ESTALE;
        /* file systems without these flags: the check above and this rename are all there is */
        if (errno == EINVAL)
                return renameat(fd, tmp, fd, slot->name) < 0 ? -errno : 0;
        return -errno;
}

/* Takes the name away from the staged object again; what it replaced, if anything, has the temporary one. */
static void swap_out(const struct batch *b, size_t i, const char *tmp) {
        const struct slot *slot = &b->slots[i];
        const int fd = slot->dir_fd;

        batch_step(b, "exchange back");
        if (renameat2(fd, tmp, fd, slot->name, RENAME_EXCHANGE) < 0 && errno == ENOENT)
                (void) renameat2(fd, slot->name, fd, tmp, RENAME_NOREPLACE);
}

/* The staged object has not landed. Return: 0: it has now, -errno. */
static int land(const struct batch *b, size_t i, const char *tmp, const struct there *target) {
        int r;

        r = batch_check_parent(b, i);
        if (r == 0)
                r = check_target(b, i, target);
        if (r == 0)
                r = swap_in(b, i, tmp, target);
        if (r == 0) {
                r = batch_check_parent(b, i); /* renamed in between, the name is one that nobody looked at */
                if (r == 0)
                        return verify_put(b, i, tmp);
                swap_out(b, i, tmp);
        }
        drop_staged(b, i, tmp);
        return r;
}

static int commit_put(const struct batch *b, size_t i) {
        const struct journal_entry *e = &b->journal->entries[i];
        const struct slot *slot = &b->slots[i];
        char tmp[JOURNAL_TEMP_MAX];
        struct there staged = { 0 }, target = { 0 };
        int r;

        if (e->staged_ino == 0)
                return -ESTALE;
        journal_temp_name(b->journal, i, tmp);
        r = look(slot->dir_fd, tmp, &staged);
        if (r == 0)
                r = look(slot->dir_fd, slot->name, &target);
        if (r < 0)
                return r;
        if (target.exists && target.st.st_ino == e->staged_ino)
                return verify_put(b, i, tmp);
        if (staged.exists && staged.st.st_ino == e->staged_ino)
                return land(b, i, tmp, &target);
        /* cut off earlier; then the host replaced what had landed: the old version is nobody's any more */
        if (staged.exists && target.exists && check_old(b, i, tmp, &staged.st) == 0)
                (void) !hosttree_remove(slot->dir_fd, tmp);
        return -ESTALE;
}

/* What is to be deleted has the temporary name: was it that? */
static int verify_delete(const struct batch *b, size_t i, const char *tmp, const struct stat *st) {
        const struct slot *slot = &b->slots[i];
        const int r = check_old(b, i, tmp, st);

        if (r < 0) {
                batch_step(b, "rename back");
                if (renameat2(slot->dir_fd, tmp, slot->dir_fd, slot->name, RENAME_NOREPLACE) < 0)
                        return -errno;
        }
        return r;
}

static int move_away(const struct batch *b, size_t i, const char *tmp) {
        const struct slot *slot = &b->slots[i];
        const int fd = slot->dir_fd;

        batch_step(b, "rename away");
        if (renameat2(fd, slot->name, fd, tmp, RENAME_NOREPLACE) == 0)
                return 0;
        if (errno != EINVAL) /* a file system without the flag: nobody else knows the name */
                return -errno;
        return renameat(fd, slot->name, fd, tmp) < 0 ? -errno : 0;
}

static int commit_delete(const struct batch *b, size_t i) {
        const struct slot *slot = &b->slots[i];
        char tmp[JOURNAL_TEMP_MAX];
        struct there old = { 0 }, target = { 0 };
        int r;

        journal_temp_name(b->journal, i, tmp);
        r = look(slot->dir_fd, tmp, &old);
        if (r == 0 && old.exists)
                return verify_delete(b, i, tmp, &old.st);
        if (r == 0)
                r = look(slot->dir_fd, slot->name, &target);
        if (r < 0 || !target.exists)
                return r;
        r = batch_check_parent(b, i);
        if (r == 0)
                r = check_target(b, i, &target);
        if (r == 0)
                r = move_away(b, i, tmp);
        if (r == 0)
                r = look(slot->dir_fd, tmp, &old);
        return r < 0 ? r : verify_delete(b, i, tmp, &old.st);
}

static int commit_mkdir(const struct batch *b, size_t i) {
        return is_adopted(b, i, b->slots[i].name) ? 0 : -EEXIST;
}

static int commit_refused(const struct batch *b, size_t i) {
        (void) b;
        (void) i;
        return -ESTALE;
}

static int commit_entry(struct batch *b, size_t i) {
        static int (*const committers[])(const struct batch *b, size_t i) = {
                [JOURNAL_MKDIR] = commit_mkdir,     [JOURNAL_PUT] = commit_put,
                [JOURNAL_DELETE] = commit_delete,   [JOURNAL_RENAME] = batch_commit_rename,
                [JOURNAL_REFUSED] = commit_refused,
        };
        static_assert(ARRAY_SIZE(committers) == JOURNAL_OP_COUNT, "committers[] and enum journal_op differ");
        struct slot *slot = &b->slots[i];
        int r = 0;

        if (slot->state == SLOT_REFUSED || slot->state == SLOT_LANDED)
                return 0;
        if (slot->dir_fd < 0)
                r = pin_parent(b, i);
        if (r == 0)
                r = committers[b->journal->entries[i].op](b, i);
        return settle(slot, r, SLOT_LANDED);
}

/* Makes the renames of this batch survive a power failure. */
static int sync_parents(const struct batch *b) {
        ino_t last = 0;

        for (size_t i = 0; i < b->journal->n; i++) {
                struct stat st;

                if (b->slots[i].dir_fd < 0 || fstat(b->slots[i].dir_fd, &st) < 0 || st.st_ino == last)
                        continue;
                last = st.st_ino;
                if (fsync(b->slots[i].dir_fd) < 0 && errno != EINVAL && errno != EROFS)
                        return -errno;
        }
        return 0;
}

int batch_commit(struct batch *b) {
        int r;

        for (size_t i = 0; i < b->journal->n; i++) {
                r = commit_entry(b, i);
                if (r < 0)
                        return r;
        }
        batch_step(b, "sync");
        return sync_parents(b);
}

/* ---- when all have landed ---- */

/* The host's directory is one that we made: the upper's, which hid what was there before, hides nothing of
 * it. */
static void reveal(const struct batch *b, size_t i) {
        const char *name = b->slots[i].name;
        enum layer_kind kind = LAYER_ABSENT;
        struct stat st;
        AUTO_FD int upper = batch_open_upper_parent(b, i, &st);
        AUTO_FD int fd = -1;

        if (upper < 0 || layer_lookup(upper, name, &kind, &st) < 0 || kind != LAYER_OPAQUE_DIR)
                return;
        batch_step(b, "reveal");
        fd = open_beneath(upper, name, O_RDONLY | O_DIRECTORY, 0);
        if (fd >= 0)
                (void) !layer_clear_opaque(fd, NULL, 0, 0);
}

/* Takes what landed out of the upper, unless the upper is not what it was. */
static void clean(const struct batch *b, size_t i) {
        struct stat st;
        AUTO_FD int upper = batch_open_upper_parent(b, i, &st);

        if (upper < 0)
                return;
        batch_step(b, "clean");
        if (S_ISDIR(st.st_mode))
                (void) !batch_adopt_dir(b, i, b->slots[i].name);
        else
                (void) !unlinkat(upper, b->slots[i].name, 0);
        if (S_ISDIR(st.st_mode))
                reveal(b, i);
}

static int finish_entry(const struct batch *b, size_t i) {
        const struct journal_entry *e = &b->journal->entries[i];
        const struct slot *slot = &b->slots[i];
        char tmp[JOURNAL_TEMP_MAX];
        struct there old = { 0 };
        int r;

        if (e->op == JOURNAL_MKDIR)
                reveal(b, i);
        if (e->op != JOURNAL_PUT && e->op != JOURNAL_DELETE)
                return 0;
        journal_temp_name(b->journal, i, tmp);
        r = look(slot->dir_fd, tmp, &old);
        if (r == 0 && old.exists)
                r = e->op == JOURNAL_PUT ? verify_put(b, i, tmp) : verify_delete(b, i, tmp, &old.st);
        if (r < 0)
                return r;
        batch_step(b, "remove old");
        if (old.exists)
                r = hosttree_remove(slot->dir_fd, tmp);
        if (r == 0)
                clean(b, i);
        return r;
}

int batch_finish(struct batch *b) {
        for (size_t i = 0; i < b->journal->n; i++) {
                struct slot *slot = &b->slots[i];
                int r = 0;

                if (slot->state == SLOT_REFUSED || b->journal->entries[i].op == JOURNAL_REFUSED)
                        continue;
                if (slot->dir_fd < 0)
                        r = pin_parent(b, i);
                if (r == 0)
                        r = finish_entry(b, i);
                r = settle(slot, r, SLOT_LANDED);
                if (r < 0)
                        return r;
        }
        return 0;
}

/* ---- the way back ---- */

static int undo_mkdir(const struct batch *b, size_t i, const char *tmp) {
        const struct slot *slot = &b->slots[i];

        (void) !hosttree_remove(slot->dir_fd, tmp);
        if (is_adopted(b, i, slot->name)) {
                batch_step(b, "undo mkdir");
                if (unlinkat(slot->dir_fd, slot->name, AT_REMOVEDIR) < 0)
                        return errno == ENOTEMPTY || errno == EEXIST ? -ESTALE : -errno;
        }
        return disown_dir(b, i);
}

/* Whether what landed is still what has the name, as it landed. */
static bool is_ours(const struct journal_entry *e, const struct there *target) {
        if (!target->exists || target->st.st_ino != e->staged_ino)
                return false;
        return !S_ISREG(target->st.st_mode) || ((uint64_t) target->st.st_size == e->upper.size &&
                                                layer_origin_of(&target->st).mtime_ns == e->upper.mtime_ns);
}

/* What is back has another change time: the upper's record follows, or it would look like a conflict. */
static void renew_record(const struct batch *b, size_t i) {
        const struct slot *slot = &b->slots[i];
        struct there back;
        struct layer_origin origin;
        struct stat st;
        AUTO_FD int upper = batch_open_upper_parent(b, i, &st);

        if (upper < 0 || look(slot->dir_fd, slot->name, &back) < 0 || !back.exists ||
            !is_expected(&b->journal->entries[i].lower, &back.st))
                return;
        origin = layer_origin_of(&back.st);
        (void) !layer_claim(upper, slot->name, &origin);
}

static int undo_put(const struct batch *b, size_t i, const char *tmp) {
        const struct journal_entry *e = &b->journal->entries[i];
        const struct slot *slot = &b->slots[i];
        const int fd = slot->dir_fd;
        struct there old = { 0 }, target = { 0 };
        int r;

        r = look(fd, tmp, &old);
        if (r == 0)
                r = look(fd, slot->name, &target);
        if (r < 0)
                return r;
        if (b->journal->phase == JOURNAL_STAGE || (old.exists && old.st.st_ino == e->staged_ino)) {
                renew_record(b, i); /* it had not landed, or is back */
                return old.exists ? hosttree_remove(fd, tmp) : 0;
        }
        if (!is_ours(e, &target))
                return old.exists ? -ESTALE : 0;
        batch_step(b, "undo put");
        if (!old.exists)
                r = renameat(fd, slot->name, fd, tmp) < 0 ? -errno : 0;
        else if (renameat2(fd, tmp, fd, slot->name, RENAME_EXCHANGE) < 0)
                r = errno == EINVAL && renameat(fd, tmp, fd, slot->name) == 0 ? 0 : -errno;
        batch_step(b, "undo remove");
        if (r == 0)
                renew_record(b, i);
        return r < 0 ? r : hosttree_remove(fd, tmp);
}

static int undo_delete(const struct batch *b, size_t i, const char *tmp) {
        const struct slot *slot = &b->slots[i];
        struct there old = { 0 };
        int r;

        r = look(slot->dir_fd, tmp, &old);
        if (r < 0)
                return r;
        batch_step(b, "undo delete");
        if (old.exists && renameat2(slot->dir_fd, tmp, slot->dir_fd, slot->name, RENAME_NOREPLACE) < 0)
                return errno == EEXIST ? -ESTALE : -errno;
        renew_record(b, i);
        return 0;
}

static int undo_rename(const struct batch *b, size_t i, const char *tmp) {
        (void) tmp;
        return batch_undo_rename(b, i);
}

static int undo_nothing(const struct batch *b, size_t i, const char *tmp) {
        (void) b;
        (void) i;
        (void) tmp;
        return 0;
}

int batch_undo(struct batch *b) {
        static int (*const undoers[])(const struct batch *b, size_t i, const char *tmp) = {
                [JOURNAL_MKDIR] = undo_mkdir,     [JOURNAL_PUT] = undo_put,
                [JOURNAL_DELETE] = undo_delete,   [JOURNAL_RENAME] = undo_rename,
                [JOURNAL_REFUSED] = undo_nothing,
        };
        static_assert(ARRAY_SIZE(undoers) == JOURNAL_OP_COUNT, "undoers[] and enum journal_op differ");
        int r;

        for (size_t i = b->journal->n; i-- > 0;) {
                char tmp[JOURNAL_TEMP_MAX];

                journal_temp_name(b->journal, i, tmp);
                r = b->slots[i].dir_fd < 0 ? pin_parent(b, i) : 0;
                if (r == 0)
                        r = undoers[b->journal->entries[i].op](b, i, tmp);
                else if (r == -ENOENT || r == -ENOTDIR || r == -ELOOP)
                        r = 0; /* nothing of ours is in a directory that is not there, or not any more */
                r = settle(&b->slots[i], r, SLOT_STAGED);
                if (r < 0)
                        return r;
        }
        return sync_parents(b);
}
