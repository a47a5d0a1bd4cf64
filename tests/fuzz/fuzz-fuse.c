/*
 * fuzz-fuse.c - messages from /dev/fuse, as whoever has taken over the work could make the kernel send them
 * and worse, to a server over a small tree with rules
 *
 * Input: records of an operation's number, a node, the length of a body (two bytes) and the body. The node
 * and the handles in a body are indices of what the server has named so far when they are below REFERENCES,
 * else taken as they are. The operation RAW stands for a message that is sent as it is, header and all.
 *
 * Traps when a message gets no answer or two, an answer is not what it says it is, a byte of a file outside
 * the region or of a hidden one is in an answer, anything outside the region has changed, or what rules keep
 * from the host is on the host.
 */
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <linux/fuse.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fs/hosttree.h"
#include "fs/names.h"
#include "fs/request.h"
#include "fs/server.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/file.h"
#include "runtime/base/sys.h"
#include "tests/fuzz/fuzz.h"

enum {
        RECORDS_MAX = 64,
        REFERENCES = 32,
        RAW = 0xff,
        MESSAGE_MAX = 70000,
        SIZE_MAX_ASKED = 1 << 16,
        FILES_OPEN = 16,
        DISGUISE = 0x2d
};
#define CANARY "canary-of-the-host-8c1f"
#define SECRET "hidden-by-a-rule-55d0"
#define KEPT   "kept-as-it-was"

static const struct rule_def defs[] = {
        { .path = "held", .action = GUARD_HOLD },
        { .path = "held-dir/**", .action = GUARD_HOLD },
        { .path = "**/.git/config", .action = GUARD_HOLD, .builtin = true },
        { .path = "protected", .action = GUARD_PROTECT },
        { .path = "hidden", .action = GUARD_HIDE },
        { .path = "hidden-dir", .action = GUARD_HIDE },
};

/** struct world - made once: base/{canary,inside/{region,upper}} */
struct world {
        char base[64];
        int base_fd, inside_fd, region_fd, upper_fd;
        struct stat was[3]; /* base, inside, canary */
};

/** struct session - one input's server */
struct session {
        struct server server;
        struct worker worker;
        int kernel; /* our end of the channel */
        uint64_t nodes[REFERENCES], handles[REFERENCES];
        size_t n_nodes, n_handles;
        uint64_t unique;
};

static void check(bool holds) {
        if (!holds)
                __builtin_trap();
}

/* ---- the tree ---- */

static int make_accessible(const char *path, const struct stat *st, int type, struct FTW *ftw) {
        (void) ftw;
        (void) st;
        return type == FTW_D || type == FTW_DNR ? (void) chmod(path, 0700), 0 : 0;
}

static void clear_dir(int fd, const char *path) {
        AUTO_NAMES struct names names = { 0 };

        (void) nftw(path, make_accessible, FILES_OPEN, FTW_PHYS);
        check(names_read(fd, &names) == 0);
        for (size_t i = 0; i < names.n; i++)
                check(hosttree_remove(fd, names.v[i]) == 0);
}

static void put(int fd, const char *name, const char *text) {
        AUTO_FD int file = openat(fd, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

        check(file >= 0 && write_all(file, text, strlen(text)) == 0);
}

static void make_tree(const struct world *w) {
        static const char *const dirs[] = { "dir", "dir/sub", "held-dir", "hidden-dir", ".git" };
        static const char *const files[] = { "file", "dir/file", "held", "held-dir/file", "protected" };
        char link[128];

        for (size_t i = 0; i < ARRAY_SIZE(dirs); i++)
                check(mkdirat(w->region_fd, dirs[i], 0755) == 0);
        for (size_t i = 0; i < ARRAY_SIZE(files); i++)
                put(w->region_fd, files[i], KEPT);
        put(w->region_fd, "hidden", SECRET);
        put(w->region_fd, "hidden-dir/file", SECRET);
        put(w->region_fd, ".git/config", "[core]\n\tbare = false\n");
        (void) snprintf(link, sizeof(link), "%.63s/canary", w->base);
        check(symlinkat(link, w->region_fd, "absolute") == 0);
        check(symlinkat("../../canary", w->region_fd, "dir/up") == 0);
        check(symlinkat("..", w->region_fd, "parent") == 0);
        check(mkfifoat(w->region_fd, "fifo", 0600) == 0);
}

static void remember(const struct world *w, struct stat was[3]) {
        check(fstat(w->base_fd, &was[0]) == 0 && fstat(w->inside_fd, &was[1]) == 0 &&
              fstatat(w->base_fd, "canary", &was[2], AT_SYMLINK_NOFOLLOW) == 0);
}

static struct world the_world = { .base_fd = -1 };

static void remove_world(void) {
        clear_dir(the_world.base_fd, the_world.base);
        (void) rmdir(the_world.base);
}

static struct world *get_world(void) {
        struct world *w = &the_world;

        if (w->base_fd >= 0)
                return w;
        (void) signal(SIGPIPE, SIG_IGN);
        (void) umask(0);
        (void) snprintf(w->base, sizeof(w->base), "/tmp/fuzz-fuse.XXXXXX");
        check(mkdtemp(w->base) != NULL);
        w->base_fd = open(w->base, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        put(w->base_fd, "canary", CANARY);
        check(mkdirat(w->base_fd, "inside", 0755) == 0 && mkdirat(w->base_fd, "inside/region", 0755) == 0 &&
              mkdirat(w->base_fd, "inside/upper", 0755) == 0);
        w->inside_fd = openat(w->base_fd, "inside", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        w->region_fd = openat(w->inside_fd, "region", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        w->upper_fd = openat(w->inside_fd, "upper", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        check(w->region_fd >= 0 && w->upper_fd >= 0);
        remember(w, w->was);
        (void) atexit(remove_world);
        return w;
}

static bool unchanged(const struct stat *a, const struct stat *b) {
        return a->st_ino == b->st_ino && a->st_mode == b->st_mode && a->st_nlink == b->st_nlink &&
               a->st_size == b->st_size && memcmp(&a->st_mtim, &b->st_mtim, sizeof(a->st_mtim)) == 0 &&
               memcmp(&a->st_ctim, &b->st_ctim, sizeof(a->st_ctim)) == 0;
}

static void check_kept(const struct world *w, const char *name, const char *text) {
        AUTO_BUF struct buf now = { 0 };

        check(file_read_at(w->region_fd, name, 4096, &now) == 0);
        check(now.len == strlen(text) && memcmp(now.data, text, now.len) == 0);
}

static int check_object(const char *path, const struct stat *st, int type, struct FTW *ftw) {
        (void) path;
        (void) type;
        (void) ftw;
        check(!S_ISCHR(st->st_mode) && !S_ISBLK(st->st_mode) && !(st->st_mode & S_ISUID));
        check(S_ISDIR(st->st_mode) || !(st->st_mode & S_ISGID));
        return 0;
}

static void check_world(const struct world *w) {
        char region[sizeof(w->base) + 16];
        struct stat now[3];

        remember(w, now);
        for (int i = 0; i < 3; i++)
                check(unchanged(&w->was[i], &now[i]));
        check_kept(w, "held", KEPT);
        check_kept(w, "held-dir/file", KEPT);
        check_kept(w, "protected", KEPT);
        check_kept(w, "hidden", SECRET);
        check_kept(w, "hidden-dir/file", SECRET);
        (void) snprintf(region, sizeof(region), "%.63s/inside/region", w->base);
        (void) nftw(region, check_object, FILES_OPEN, FTW_PHYS);
}

/* ---- the kernel's part ---- */

static void learn(struct session *se, uint32_t opcode, const char *body, size_t len) {
        const struct fuse_entry_out *entry = (const void *) body;
        const struct fuse_open_out *open = (const void *) body;

        switch (opcode) {
        case FUSE_CREATE:
                open = (const void *) (entry + 1);
                if (len >= sizeof(*entry) + sizeof(*open) && se->n_handles < REFERENCES)
                        se->handles[se->n_handles++] = open->fh;
                __attribute__((fallthrough));
        case FUSE_LOOKUP:
        case FUSE_MKNOD:
        case FUSE_MKDIR:
        case FUSE_SYMLINK:
        case FUSE_LINK:
                /* inode numbers of the first device are shown as they are */
                for (int i = 0; len >= sizeof(*entry) && i < 3; i++)
                        check(entry->attr.ino != the_world.was[i].st_ino);
                if (len >= sizeof(*entry) && entry->nodeid && se->n_nodes < REFERENCES)
                        se->nodes[se->n_nodes++] = entry->nodeid;
                break;
        case FUSE_OPEN:
                if (len >= sizeof(*open) && se->n_handles < REFERENCES)
                        se->handles[se->n_handles++] = open->fh;
                break;
        default:
                break;
        }
}

/* By hand, and on bytes that are disguised: libFuzzer would learn what memmem(3) looks for, and write it
 * itself. */
static bool contains(const char *text, size_t n, const char *part) {
        const size_t len = strlen(part);

        for (size_t i = 0; len <= n && i <= n - len; i++) {
                size_t k = 0;

                while (k < len && (text[i + k] ^ DISGUISE) == (part[k] ^ DISGUISE))
                        k++;
                if (k == len)
                        return true;
        }
        return false;
}

static void check_answer(struct session *se, const struct fuse_in_header *in, bool wanted) {
        static _Alignas(8) char reply[2 * SERVER_IO_MAX];
        const struct fuse_out_header *out = (const void *) reply;
        const ssize_t n = recv(se->kernel, reply, sizeof(reply), MSG_DONTWAIT);
        char more;

        if (!wanted) {
                check(n < 0 && errno == EAGAIN);
                return;
        }
        check(n >= (ssize_t) sizeof(*out) && out->len == (uint32_t) n && out->unique == in->unique);
        check(out->error <= 0 && out->error > -4096 && (out->error == 0 || n == sizeof(*out)));
        check(!contains(reply, (size_t) n, CANARY) && !contains(reply, (size_t) n, SECRET));
        check(recv(se->kernel, &more, 1, MSG_DONTWAIT) < 0);
        if (out->error == 0)
                learn(se, in->opcode, reply + sizeof(*out), (size_t) n - sizeof(*out));
}

/* Return: whether the session goes on */
static bool exchange(struct session *se, const void *message, size_t len) {
        struct fuse_in_header in = { 0 };
        int r;

        memcpy(&in, message, len < sizeof(in) ? len : sizeof(in));
        check(send(se->kernel, message, len, 0) == (ssize_t) len);
        r = server_answer(&se->worker);
        check_answer(se, &in, len >= sizeof(in) && request_wants_reply(&in));
        return r > 0 && !fuse_session_exited(se->server.session);
}

static void put_reference(char *body, size_t len, size_t at, const uint64_t *known, size_t n) {
        uint64_t v;

        if (len < at + sizeof(v))
                return;
        memcpy(&v, body + at, sizeof(v));
        if (v < REFERENCES && n > 0)
                memcpy(body + at, &known[v % n], sizeof(v));
}

/* the machine's disk and time are not what is tested */
static void put_limit(char *body, size_t len, size_t at, uint64_t max, size_t width) {
        uint64_t v = 0;

        if (len < at + width)
                return;
        memcpy(&v, body + at, width);
        v %= max;
        memcpy(body + at, &v, width);
}

static void complete(const struct session *se, uint32_t opcode, char *body, size_t len) {
        switch (opcode) {
        case FUSE_READ:
        case FUSE_READDIR:
        case FUSE_READDIRPLUS:
                put_limit(body, len, offsetof(struct fuse_read_in, size), SIZE_MAX_ASKED, sizeof(uint32_t));
                __attribute__((fallthrough));
        case FUSE_WRITE:
        case FUSE_RELEASE:
        case FUSE_RELEASEDIR:
        case FUSE_FSYNC:
        case FUSE_FSYNCDIR:
        case FUSE_FLUSH:
        case FUSE_LSEEK:
                put_reference(body, len, 0, se->handles, se->n_handles);
                break;
        case FUSE_FALLOCATE:
                put_reference(body, len, 0, se->handles, se->n_handles);
                put_limit(body, len, offsetof(struct fuse_fallocate_in, offset), SIZE_MAX_ASKED,
                          sizeof(uint64_t));
                put_limit(body, len, offsetof(struct fuse_fallocate_in, length), SIZE_MAX_ASKED,
                          sizeof(uint64_t));
                break;
        case FUSE_GETXATTR:
        case FUSE_LISTXATTR:
                put_limit(body, len, 0, SIZE_MAX_ASKED + 1, sizeof(uint32_t));
                break;
        case FUSE_COPY_FILE_RANGE:
                put_reference(body, len, offsetof(struct fuse_copy_file_range_in, fh_in), se->handles,
                              se->n_handles);
                put_reference(body, len, offsetof(struct fuse_copy_file_range_in, nodeid_out), se->nodes,
                              se->n_nodes);
                put_reference(body, len, offsetof(struct fuse_copy_file_range_in, fh_out), se->handles,
                              se->n_handles);
                put_limit(body, len, offsetof(struct fuse_copy_file_range_in, len), SIZE_MAX_ASKED,
                          sizeof(uint64_t));
                break;
        case FUSE_SETATTR:
        case FUSE_GETATTR:
                put_reference(body, len, 8, se->handles, se->n_handles);
                break;
        case FUSE_LINK:
        case FUSE_RENAME:
        case FUSE_RENAME2:
                put_reference(body, len, 0, se->nodes, se->n_nodes);
                break;
        case FUSE_BATCH_FORGET:
                put_reference(body, len, sizeof(struct fuse_batch_forget_in), se->nodes, se->n_nodes);
                break;
        default:
                break;
        }
}

/* Sends the record at the start of @data. Return: bytes used, 0: the end */
static size_t send_record(struct session *se, const uint8_t *data, size_t size) {
        static _Alignas(8) char message[MESSAGE_MAX];
        struct fuse_in_header in = { .opcode = data[0], .uid = getuid(), .gid = getgid(), .pid = 1 };
        const size_t said = size < 4 ? 0 : data[2] | (size_t) data[3] << 8;
        const size_t len = size < 4 || said > size - 4 ? 0 : said;

        if (size < 4)
                return 0;
        if (data[0] == RAW) {
                memcpy(message, data + 4, len);
                return len == 0 || exchange(se, message, len) ? 4 + len : 0;
        }
        in.len = (uint32_t) (sizeof(in) + len);
        in.unique = ++se->unique;
        in.nodeid = data[1] < REFERENCES ? se->nodes[data[1] % se->n_nodes] : data[1];
        memcpy(message, &in, sizeof(in));
        memcpy(message + sizeof(in), data + 4, len);
        complete(se, in.opcode, message + sizeof(in), len);
        return exchange(se, message, in.len) ? 4 + len : 0;
}

/* what every kernel begins with, and the region's root */
static void begin(struct session *se) {
        struct {
                struct fuse_in_header in;
                struct fuse_init_in init;
        } first = { .in = { .len = sizeof(first), .opcode = FUSE_INIT, .unique = ++se->unique },
                    .init = { .major = 7, .minor = 38, .flags = 0x73fffffb & ~(uint32_t) FUSE_INIT_EXT } };
        const uint8_t root[] = { FUSE_LOOKUP, 0, 2, 0, '0', 0 };

        se->nodes[se->n_nodes++] = FUSE_ROOT_ID;
        check(exchange(se, &first, sizeof(first)));
        check(send_record(se, root, sizeof(root)) == sizeof(root) && se->n_nodes == 2);
}

static void run(const struct world *w, struct rules *rules, const uint8_t *data, size_t size) {
        const struct region region = { .name = "region",
                                       .root_fd = w->region_fd,
                                       .kind = REGION_DIRECT,
                                       .rules = rules,
                                       .upper_fd = w->upper_fd };
        const struct guard_config config = { .regions = &region,
                                             .n_regions = 1,
                                             .host_uid = getuid(),
                                             .inside_uid = getuid(),
                                             .host_gid = getgid(),
                                             .inside_gid = getgid(),
                                             .exclusive_fd = -1,
                                             .timeout_ms = 1000,
                                             .notice_fd = -1 };
        struct session se = { .worker = { .fd = -1 } };
        int ends[2];
        const int room = 4 * SERVER_IO_MAX;

        check(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) == 0);
        (void) setsockopt(ends[1], SOL_SOCKET, SO_SNDBUF, &room, sizeof(room));
        se.kernel = ends[0];
        check(server_init(&se.server, &config, ends[1], NULL) == 0);
        se.worker.server = &se.server;
        se.worker.fd = ends[1];
        check(pthread_setspecific(se.server.worker, &se.worker) == 0);
        begin(&se);
        for (size_t i = 0, used = 1; i < RECORDS_MAX && size > 0 && used > 0; i++) {
                used = send_record(&se, data, size);
                data += used;
                size -= used;
        }
        server_deinit(&se.server);
        free(se.worker.request.mem);
        free(se.worker.reply);
        (void) fd_close(se.kernel);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        struct world *w = get_world();
        AUTO_RULES struct rules *rules = NULL;
        char path[sizeof(w->base) + 16];

        if (size > MESSAGE_MAX - 100)
                return 0;
        check(rules_new(defs, ARRAY_SIZE(defs), false, &rules, NULL) == 0);
        (void) snprintf(path, sizeof(path), "%.63s/inside/upper", w->base);
        clear_dir(w->upper_fd, path);
        (void) snprintf(path, sizeof(path), "%.63s/inside/region", w->base);
        clear_dir(w->region_fd, path);
        (void) fchmod(w->region_fd, 0755);
        make_tree(w);
        run(w, rules, data, size);
        check_world(w);
        return 0;
}
