#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>

#include <cmocka.h>

#include "fs/pin.h"
#include "fs/rules.h"
#include "fs/walk.h"
#include "runtime/base/cleanup.h"

/** struct place - a directory made for a test, with a home in it */
struct place {
        char root[PATH_MAX];
        char home[PATH_MAX];
};

static int remove_one(const char *path, const struct stat *st, int flag, struct FTW *ftw) {
        (void) st;
        (void) flag;
        (void) ftw;
        return remove(path);
}

static const char *at(const struct place *p, const char *rel) {
        static char buf[256][PATH_MAX + 64]; /* results stay good for 256 calls */
        static unsigned int next;
        char *out = buf[next++ % ARRAY_SIZE(buf)];

        (void) snprintf(out, sizeof(buf[0]), "%s/%s", p->root, rel);
        return out;
}

static void make_dir(const struct place *p, const char *rel) {
        assert_int_equal(mkdir(at(p, rel), 0700), 0);
}

static void make_file(const struct place *p, const char *rel) {
        AUTO_FD int fd = open(at(p, rel), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

        assert_true(fd >= 0);
}

static void make_link(const struct place *p, const char *target, const char *rel) {
        assert_int_equal(symlink(target, at(p, rel)), 0);
}

static int place_setup(void **state) {
        struct place *p = calloc(1, sizeof(*p));
        char tmp[] = "/tmp/cofferdam-pin-XXXXXX";

        if (!p || !mkdtemp(tmp) || !realpath(tmp, p->root))
                return -1;
        (void) snprintf(p->home, sizeof(p->home), "%.4000s/home", p->root);
        *state = p;
        make_dir(p, "home");
        make_dir(p, "home/.ssh");
        make_file(p, "home/.ssh/id");
        make_file(p, "home/.netrc");
        make_dir(p, "home/.config");
        make_dir(p, "home/ws");
        make_dir(p, "home/ws/a");
        make_file(p, "home/ws/a/f");
        make_dir(p, "state");
        make_dir(p, "state/runs");
        return 0;
}

static int place_teardown(void **state) {
        struct place *p = *state;
        const int r = nftw(p->root, remove_one, 16, FTW_DEPTH | FTW_PHYS);

        free(p);
        return r;
}

static void walk_path_resolves(void **state) {
        const struct place *p = *state;
        static const struct {
                const char *rel, *want; /* NULL: fails with @r */
                unsigned links;
                int r;
        } cases[] = {
                { "home/ws/a", "home/ws/a", 0, 0 },
                { "home//ws/./a/", "home/ws/a", 0, 0 },
                { "home/ws/../ws/a/f", "home/ws/a/f", 0, 0 },
                { "l-rel", "home/ws/a", 1, 0 },
                { "l-abs/f", "home/ws/a/f", 1, 0 },
                { "l-chain/f", "home/ws/a/f", 2, 0 },
                { "l-up", "home", 1, 0 },
                { "l-self", NULL, 0, -ELOOP },
                { "l-loop/x", NULL, 0, -ELOOP },
                { "l-gone", NULL, 0, -ENOENT },
                { "home/none", NULL, 0, -ENOENT },
                { "home/ws/a/f/x", NULL, 0, -ENOTDIR },
                { "l-proc", NULL, 0, -ELOOP },
                { "home/ws/a/f/..", NULL, 0, -ENOTDIR },
        };

        make_link(p, "home/ws/a", "l-rel");
        make_link(p, at(p, "home/ws/a"), "l-abs");
        make_link(p, "l-abs", "l-chain");
        make_link(p, "home/ws/..", "l-up");
        make_link(p, "l-self", "l-self");
        make_link(p, "l-loop2", "l-loop");
        make_link(p, "l-loop", "l-loop2");
        make_link(p, "nothing", "l-gone");
        make_link(p, "/proc/self/cwd", "l-proc");
        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
                AUTO_WALK struct walk w = WALK_INIT;
                const int r = walk_path(at(p, cases[i].rel), &w);

                if (r != cases[i].r)
                        fail_msg("'%s': %d", cases[i].rel, r);
                if (r < 0)
                        assert_null(w.real);
                else
                        assert_string_equal(w.real, at(p, cases[i].want));
                assert_true(r < 0 || w.links == cases[i].links);
        }
}

static void walk_path_rejects(void **state) {
        static char name[PATH_MAX + 16];
        AUTO_WALK struct walk w = WALK_INIT;

        (void) state;
        assert_int_equal(walk_path("", &w), -EINVAL);
        assert_int_equal(walk_path("a", &w), -EINVAL);
        memset(name, 'a', sizeof(name) - 1);
        name[0] = '/';
        assert_int_equal(walk_path(name, &w), -ENAMETOOLONG);
        name[NAME_MAX + 2] = '\0';
        assert_int_equal(walk_path(name, &w), -ENAMETOOLONG);
        assert_int_equal(walk_path("/", &w), 0);
        assert_string_equal(w.real, "/");
}

static void pin_open_records_what_it_found(void **state) {
        const struct place *p = *state;
        const struct pin_policy policy = { .home = p->home };
        AUTO_PIN struct pin pin = PIN_INIT;
        struct pin_change change;
        struct stat st;

        assert_int_equal(pin_open(at(p, "home/ws"), &policy, &pin, NULL), 0);
        assert_int_equal(stat(at(p, "home/ws"), &st), 0);
        assert_int_equal(pin.ino, st.st_ino);
        assert_int_equal(pin.dev, st.st_dev);
        assert_int_equal(pin.type, S_IFDIR);
        assert_int_equal(pin.owner, geteuid());
        assert_true(pin.mnt_id != 0);
        assert_string_equal(pin.path, at(p, "home/ws"));
        assert_int_equal(fcntl(pin.fd, F_GETFD), FD_CLOEXEC);
        assert_int_equal(fcntl(pin.fd, F_GETFL) & O_PATH, O_PATH);
        assert_int_equal(pin_check(&pin, &change), 0);
        assert_int_equal(stat(at(p, "home"), &st), 0);
        assert_int_equal(pin.dir_ino, st.st_ino);
        assert_int_equal(pin.dir_dev, st.st_dev);
}

/* The directory that a place was found in, over "..", links and the root: what sensitive.c climbs from. */
static void walk_path_tells_the_directory(void **state) {
        const struct place *p = *state;
        static const struct {
                const char *path, *dir;
        } cases[] = {
                { "home/ws/a/f", "home/ws/a" },
                { "home/ws/a/..", "home" },
                { "home/ws/a/../a", "home/ws" },
                { "l/f", "home/ws/a" },
                { "home/ws/./a", "home/ws" },
                { "l/../../.ssh/id", "home/.ssh" },
                { "/", "/" },
                { "/..", "/" },
                { "l/../../../home/ws", "home" },
        };

        make_link(p, at(p, "home/ws/a"), "l");
        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
                const bool abs = cases[i].path[0] == '/';
                AUTO_WALK struct walk w = WALK_INIT;
                struct walk_id id;
                struct stat st;

                assert_int_equal(walk_path(abs ? cases[i].path : at(p, cases[i].path), &w), 0);
                assert_int_equal(walk_identify(w.dir_fd, &id), 0);
                assert_int_equal(stat(abs ? cases[i].dir : at(p, cases[i].dir), &st), 0);
                if (id.ino != st.st_ino || id.dev != st.st_dev)
                        fail_msg("'%s' was not found in '%s'", cases[i].path, cases[i].dir);
        }
}

static void pin_open_refuses(void **state) {
        const struct place *p = *state;
        const struct pin_policy policy = { .home = p->home, .state_dir = at(p, "state") };
        const struct {
                const char *path, *says;
                int r;
        } cases[] = {
                { "home/.ssh", "SSH keys", -EPERM },
                { "home/.ssh/id", "is in '", -EPERM },
                { "home/.netrc", "passwords", -EPERM },
                { "l-ssh", "SSH keys", -EPERM },
                { "l-ssh/id", "SSH keys", -EPERM },
                { "home/ws/hard", "passwords", -EPERM },
                { "home/ws/../.ssh", "SSH keys", -EPERM },
                { "state", "cofferdam", -EPERM },
                { "state/runs", "cofferdam", -EPERM },
                { "sock", "a socket", -EPERM },
                { "fifo", "a FIFO", -EPERM },
                { "/proc", "procfs", -EPERM },
                { "/proc/self/status", NULL, -ELOOP },
                { "/proc/1/status", "procfs", -EPERM },
                { "/sys/kernel", "sysfs", -EPERM },
                { "/dev", "devices", -EPERM },
                { "/dev/null", "a character device", -EPERM },
                { "/etc/ssh", NULL, -EPERM },
                { "/etc/shadow", "password hashes", -EPERM },
                { "home/none", "No such file", -ENOENT },
                { "/etc/../dev", "devices", -EPERM },
                { "/root/.ssh", NULL, -EPERM },
        };
        struct sockaddr_un sa = { .sun_family = AF_UNIX };
        AUTO_FD int sock = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

        make_link(p, "home/.ssh", "l-ssh");
        assert_int_equal(link(at(p, "home/.netrc"), at(p, "home/ws/hard")), 0);
        assert_int_equal(mkfifo(at(p, "fifo"), 0600), 0);
        (void) snprintf(sa.sun_path, sizeof(sa.sun_path), "%.80s/sock", p->root);
        assert_int_equal(bind(sock, (const struct sockaddr *) &sa, sizeof(sa)), 0);
        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
                const char *path = cases[i].path[0] == '/' ? cases[i].path : at(p, cases[i].path);
                AUTO_PIN struct pin pin = PIN_INIT;
                struct error err = { 0 };
                const int r = pin_open(path, &policy, &pin, &err);

                if (r == -ENOENT && cases[i].path[0] == '/')
                        continue; /* not on this host */
                if (r == -EACCES && cases[i].path[0] == '/')
                        continue; /* not for this user anyway */
                if (r != cases[i].r || (cases[i].says && !strstr(err.msg, cases[i].says)) ||
                    !strstr(err.msg, path) || strchr(err.msg, '\n'))
                        fail_msg("'%s': %d %s", path, r, err.msg);
                assert_int_equal(pin.fd, -1);
        }
        assert_int_equal(pin_open("rel", &policy, &(struct pin) PIN_INIT, NULL), -EINVAL);
}

static void pin_open_allows_by_name(void **state) {
        const struct place *p = *state;
        const char *const allow_ssh[] = { at(p, "home/.ssh") };
        const char *const allow_id[] = { at(p, "home/.ssh/id") };
        const char *const allow_much[] = { p->home, "/", "/nothing" };
        const struct {
                const char *const *allowed;
                size_t n;
                const char *path;
                int r;
        } cases[] = {
                { allow_ssh, 1, "home/.ssh", 0 },         { allow_ssh, 1, "home/.ssh/id", 0 },
                { allow_id, 1, "home/.ssh/id", 0 },       { allow_id, 1, "home/.ssh", -EPERM },
                { allow_ssh, 1, "home/.netrc", -EPERM },  { allow_much, 3, "home/.ssh", -EPERM },
                { allow_much, 3, "home/.netrc", -EPERM }, { allow_much, 3, "home", 0 },
        };

        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
                const struct pin_policy policy = { .home = p->home,
                                                   .allowed = cases[i].allowed,
                                                   .n_allowed = cases[i].n };
                AUTO_PIN struct pin pin = PIN_INIT;
                const int r = pin_open(at(p, cases[i].path), &policy, &pin, NULL);

                if (r != cases[i].r)
                        fail_msg("row %zu: %d", i, r);
        }
}

static bool has(char **v, size_t n, const char *want) {
        for (size_t i = 0; i < n; i++) {
                if (strcmp(v[i], want) == 0)
                        return true;
        }
        return false;
}

static void free_list(char **v, size_t n) {
        assert_null(v[n]);
        for (size_t i = 0; i < n; i++)
                free(v[i]);
        free(v);
}

/* Whatever HOME says: a project may have set it. Red without own_home. */
static void pin_open_refuses_the_real_home(void **state) {
        const struct place *p = *state;
        const struct pin_policy policy = { .home = "/nowhere", .own_home = p->home };
        AUTO_PIN struct pin pin = PIN_INIT;
        char **v = NULL;
        size_t n = 0;

        assert_int_equal(pin_open(at(p, "home/.ssh/id"), &policy, &pin, NULL), -EPERM);
        assert_int_equal(pin_open(p->home, &policy, &pin, NULL), 0);
        assert_int_equal(pin_hidden(&pin, &policy, &v, &n), 0);
        assert_true(has(v, n, "/.ssh"));
        free_list(v, n);
}

static void pin_open_keeps_links_beneath(void **state) {
        const struct place *p = *state;
        const struct pin_policy policy = { .home = p->home, .beneath = at(p, "home/ws") };
        static const struct {
                const char *path;
                int r;
        } cases[] = {
                { "home/ws/in", 0 },           { "home/ws/in/f", 0 },     { "home/ws/out", -ELOOP },
                { "home/ws/out/ws", 0 },       { "home/ws/abs", -ELOOP }, { "home/ws/a", 0 },
                { "home/ws/sibling", -ELOOP },
        };

        make_dir(p, "home/ws2");
        make_link(p, "a", "home/ws/in");
        make_link(p, "..", "home/ws/out");
        make_link(p, "/etc", "home/ws/abs");
        make_link(p, "../ws2", "home/ws/sibling");
        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
                AUTO_PIN struct pin pin = PIN_INIT;
                const int r = pin_open(at(p, cases[i].path), &policy, &pin, NULL);

                if (r != cases[i].r)
                        fail_msg("'%s': %d", cases[i].path, r);
        }
}

static void pin_at(const struct place *p, const char *rel, struct pin *ret) {
        const struct pin_policy policy = { .home = p->home };

        assert_int_equal(pin_open(at(p, rel), &policy, ret, NULL), 0);
}

static void check_is(const struct pin *pin, int want, const char *says) {
        struct pin_change change = { 0 };
        const int r = pin_check(pin, &change);

        if (r != want || (says && !strstr(change.now, says)))
                fail_msg("%s: %d, was '%s', now '%s'", pin->path, r, change.was, change.now);
        if (r == -ESTALE && strcmp(change.was, change.now) == 0)
                fail_msg("%s: nothing differs in '%s'", pin->path, change.now);
}

static void move(const struct place *p, const char *from, const char *to) {
        assert_int_equal(rename(at(p, from), at(p, to)), 0);
}

static void pin_check_finds_a_swap(void **state) {
        const struct place *p = *state;
        AUTO_PIN struct pin dir = PIN_INIT, link = PIN_INIT, file = PIN_INIT;

        make_link(p, "ws", "home/link");
        make_dir(p, "home/other");
        make_dir(p, "home/other/a");
        pin_at(p, "home/ws/a", &dir);
        pin_at(p, "home/link", &link);
        pin_at(p, "home/ws/a/f", &file);
        check_is(&link, 0, NULL);
        /* the link leads elsewhere, then nowhere, then in a circle */
        assert_int_equal(unlink(at(p, "home/link")), 0);
        make_link(p, "other", "home/link");
        check_is(&link, -ESTALE, "directory ");
        assert_int_equal(unlink(at(p, "home/link")), 0);
        make_link(p, "nowhere", "home/link");
        check_is(&link, -ESTALE, "No such file");
        assert_int_equal(unlink(at(p, "home/link")), 0);
        make_link(p, "link", "home/link");
        check_is(&link, -ESTALE, "Too many");
        /* the file is replaced, then gone, then a directory, then something in the way */
        make_file(p, "home/ws/a/f2");
        move(p, "home/ws/a/f2", "home/ws/a/f");
        check_is(&file, -ESTALE, "file ");
        assert_int_equal(unlink(at(p, "home/ws/a/f")), 0);
        check_is(&file, -ESTALE, "No such file");
        make_dir(p, "home/ws/a/f");
        check_is(&file, -ESTALE, "directory ");
        /* every component above: exchanged for another directory, replaced by a file */
        move(p, "home/ws", "home/ws.old");
        move(p, "home/other", "home/ws");
        check_is(&dir, -ESTALE, "directory ");
        move(p, "home/ws", "home/other");
        make_file(p, "home/ws");
        check_is(&dir, -ESTALE, "Not a directory");
        assert_int_equal(unlink(at(p, "home/ws")), 0);
        move(p, "home/ws.old", "home/ws");
        check_is(&dir, 0, NULL);
        /* a directory becomes a link to itself: the same place */
        move(p, "home/ws/a", "home/ws/b");
        check_is(&dir, -ESTALE, "No such file");
        make_link(p, "b", "home/ws/a");
        check_is(&dir, 0, NULL);
}

/* Red when the owner is not compared. */
static void pin_check_finds_a_new_owner(void **state) {
        const struct place *p = *state;
        AUTO_PIN struct pin dir = PIN_INIT;

        pin_at(p, "home/ws/a", &dir);
        if (chown(at(p, "home/ws/a"), 4242, 4242) < 0) /* root's right, and not in a sandbox of one user */
                skip();
        check_is(&dir, -ESTALE, "owner 4242");
}

/* What cannot be told is not a change: whoever takes a right away has swapped nothing. */
static void pin_check_says_when_it_cannot_tell(void **state) {
        enum { NOBODY = 65534 };
        const struct place *p = *state;
        const bool root = geteuid() == 0;
        AUTO_PIN struct pin dir = PIN_INIT;

        pin_at(p, "home/ws/a", &dir);
        if (root && seteuid(NOBODY) < 0) /* in a sandbox of one user there is no other */
                skip();
        if (root)
                assert_int_equal(seteuid(0), 0);
        assert_int_equal(chmod(at(p, "home/ws"), 0), 0);
        if (root) /* who may do everything */
                assert_int_equal(seteuid(NOBODY), 0);
        check_is(&dir, -EACCES, NULL);
        if (root)
                assert_int_equal(seteuid(0), 0);
        assert_int_equal(chmod(at(p, "home/ws"), 0700), 0);
        check_is(&dir, 0, NULL);
}

static void reopen_is(const struct pin *pin, int want) {
        struct pin_change change = { 0 };
        AUTO_FD int fd = pin_reopen(pin, &change);

        if (want == 0 ? fd < 0 : fd != want)
                fail_msg("%s: %d, was '%s', now '%s'", pin->path, fd, change.was, change.now);
        if (fd < 0)
                fd = -1;
}

/* What a state file has kept: no descriptor holds the object, so its number may have been given anew. Red
 * when birth times or owners are not compared. */
static void pin_reopen_knows_the_object(void **state) {
        const struct place *p = *state;
        AUTO_PIN struct pin dir = PIN_INIT;
        struct pin other;

        pin_at(p, "home/ws/a", &dir);
        reopen_is(&dir, 0);
        other = dir;
        other.mnt_id++; /* of another boot */
        reopen_is(&other, 0);
        other.btime_ns = 0;
        other.owner = (uid_t) -1;
        reopen_is(&other, 0);
        other.owner = 4242;
        reopen_is(&other, -ESTALE);
        other = dir;
        if (dir.btime_ns) {
                other.btime_ns++;
                reopen_is(&other, -ESTALE);
        }
        other = dir;
        other.ino++;
        reopen_is(&other, -ESTALE);
        move(p, "home/ws", "home/moved");
        reopen_is(&dir, -ESTALE);
        make_link(p, "moved", "home/ws"); /* the same object */
        reopen_is(&dir, 0);
}

static void replace(const struct place *p) {
        make_file(p, "home/ws/a/new");
        move(p, "home/ws/a/new", "home/ws/a/f");
}

static void pin_follow_takes_an_editors_file(void **state) {
        const struct place *p = *state;
        const struct pin_policy policy = { .home = p->home };
        AUTO_PIN struct pin file = PIN_INIT;
        const struct timespec step = { .tv_nsec = 2000000 };
        struct stat now, pinned;
        int fd;

        pin_at(p, "home/ws/a/f", &file);
        fd = file.fd;
        for (int i = 0; i < 3; i++) {
                (void) nanosleep(&step, NULL);
                replace(p);
                check_is(&file, -ESTALE, "file ");
                assert_int_equal(pin_follow(&file, &policy), 0);
                assert_int_equal(file.fd, fd);
                assert_int_equal(fcntl(fd, F_GETFD), FD_CLOEXEC);
                assert_int_equal(stat(at(p, "home/ws/a/f"), &now), 0);
                assert_int_equal(fstat(fd, &pinned), 0);
                assert_int_equal(now.st_ino, pinned.st_ino);
                check_is(&file, 0, NULL);
        }
}

/* Each row is red when is_successor() or sensitive_check() loses the part that is about it. */
static void pin_follow_takes_nothing_else(void **state) {
        const struct place *p = *state;
        const struct pin_policy policy = { .home = p->home, .state_dir = at(p, "home/ws/a/f") };
        const struct pin_policy plain = { .home = p->home };
        AUTO_PIN struct pin file = PIN_INIT, dir = PIN_INIT;
        struct stat st;

        pin_at(p, "home/ws/a/f", &file);
        pin_at(p, "home/ws/a", &dir);
        assert_int_equal(pin_follow(&dir, &plain), -ESTALE); /* not a file */
        move(p, "home/ws/a/f", "home/old");
        assert_int_equal(pin_follow(&file, &plain), -ESTALE); /* nothing */
        make_dir(p, "home/ws/a/f");
        assert_int_equal(pin_follow(&file, &plain), -ESTALE);
        assert_int_equal(rmdir(at(p, "home/ws/a/f")), 0);
        make_file(p, "home/other");
        make_link(p, "../../other", "home/ws/a/f"); /* a link */
        assert_int_equal(pin_follow(&file, &plain), -ESTALE);
        assert_int_equal(unlink(at(p, "home/ws/a/f")), 0);
        assert_int_equal(link(at(p, "home/other"), at(p, "home/ws/a/f")), 0); /* a file of two names */
        assert_int_equal(pin_follow(&file, &plain), -ESTALE);
        assert_int_equal(unlink(at(p, "home/other")), 0);
        assert_int_equal(pin_follow(&file, &policy), -ESTALE);        /* a place that is refused */
        if (chown(at(p, "home/ws/a/f"), 4242, 4242) == 0) {           /* as above */
                assert_int_equal(pin_follow(&file, &plain), -ESTALE); /* by somebody else */
                assert_int_equal(chown(at(p, "home/ws/a/f"), 0, 0), 0);
        }
        move(p, "home/ws/a", "home/ws/moved"); /* the same name in another directory */
        make_dir(p, "home/ws/a");
        make_file(p, "home/ws/a/f");
        assert_int_equal(pin_follow(&file, &plain), -ESTALE);
        /* through all of it the old file stayed */
        assert_int_equal(fstat(file.fd, &st), 0);
        assert_int_equal(st.st_ino, file.ino);
        assert_int_equal(stat(at(p, "home/old"), &st), 0);
        assert_int_equal(st.st_ino, file.ino);
}

static void hidden_of(const char *path, const struct pin_policy *policy, char ***ret, size_t *ret_n) {
        AUTO_PIN struct pin pin = PIN_INIT;

        assert_int_equal(pin_open(path, policy, &pin, NULL), 0);
        assert_int_equal(pin_hidden(&pin, policy, ret, ret_n), 0);
}

static void pin_hidden_lists_children(void **state) {
        const struct place *p = *state;
        const char *const allowed[] = { at(p, "home/.ssh") };
        struct pin_policy policy = { .home = p->home, .state_dir = at(p, "home/{st*te}") };
        char **v = NULL;
        size_t n = 0;

        hidden_of(p->home, &policy, &v, &n);
        assert_true(has(v, n, "/.ssh"));
        assert_true(has(v, n, "/.config/gcloud")); /* does not exist yet */
        assert_true(has(v, n, "/\\{st\\*te\\}"));
        assert_false(has(v, n, "/.ssh/id"));
        free_list(v, n);

        hidden_of(at(p, "home/.config"), &policy, &v, &n);
        assert_true(has(v, n, "/gcloud"));
        free_list(v, n);

        policy.allowed = allowed;
        policy.n_allowed = 1;
        hidden_of(p->home, &policy, &v, &n);
        assert_false(has(v, n, "/.ssh"));
        assert_true(has(v, n, "/.aws"));
        free_list(v, n);

        hidden_of(at(p, "home/ws"), &policy, &v, &n);
        assert_int_equal(n, 0);
        free_list(v, n);

        hidden_of("/", &policy, &v, &n);
        assert_true(has(v, n, "/proc"));
        assert_true(has(v, n, "/home/*/.ssh"));
        assert_true(has(v, n, "/root/.ssh"));
        assert_true(n < RULES_MAX / 2);
        free_list(v, n);
}

/* A place of the list that is a link into the pinned directory is hidden where it really is. */
static void pin_hidden_follows_links(void **state) {
        const struct place *p = *state;
        const struct pin_policy policy = { .home = p->home };
        char **v = NULL;
        size_t n = 0;

        make_dir(p, "home/ws/keys");
        make_link(p, "ws/keys", "home/.aws");
        hidden_of(at(p, "home/ws"), &policy, &v, &n);
        assert_int_equal(n, 1);
        assert_string_equal(v[0], "/keys");
        free_list(v, n);
}

static void pin_hidden_gives_patterns(void **state) {
        const struct place *p = *state;
        const struct pin_policy policy = { .home = p->home };
        struct rule_def defs[RULES_MAX];
        AUTO_RULES struct rules *rules = NULL;
        char **v = NULL;
        size_t n = 0;

        hidden_of(p->home, &policy, &v, &n);
        assert_true(n > 20 && n < RULES_MAX);
        for (size_t i = 0; i < n; i++)
                defs[i] = (struct rule_def){ .path = v[i], .action = GUARD_HIDE };
        assert_int_equal(rules_new(defs, n, false, &rules, NULL), 0);
        assert_int_equal(rules_path(rules, ".ssh/id", S_IFREG).action, GUARD_HIDE);
        assert_int_equal(rules_path(rules, "ws/.ssh", S_IFDIR).action, GUARD_ALLOW);
        assert_int_equal(rules_path(rules, ".config", S_IFLNK).action, GUARD_PROTECT);
        free_list(v, n);
}

/* A mount namespace of the process's own; for who has no privileges in a user namespace where he is himself.
 */
static int own_mounts(void) {
        const uid_t uid = geteuid();

        if (uid != 0) {
                AUTO_FILE FILE *map = NULL;

                if (unshare(CLONE_NEWUSER) < 0)
                        return -errno;
                map = fopen("/proc/self/uid_map", "we");
                if (!map || fprintf(map, "%u %u 1", uid, uid) < 0 || fflush(map) != 0)
                        return -errno;
        }
        if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
                return -errno;
        return 0;
}

/* What is mounted over the source or over a directory above it, be it the very same directory. */
static int check_mounts(const struct place *p, const struct pin *whole) {
        AUTO_PIN struct pin pin = PIN_INIT;
        const struct pin_policy policy = { .home = p->home };
        static const char *const over[] = { "home/ws/a", "home/ws", "home" };
        struct pin_change change;

        if (pin_check(whole, &change) != 0 || umount2(at(p, "whole"), MNT_DETACH) < 0 ||
            pin_check(whole, &change) != -ESTALE)
                return 4;
        if (pin_open(at(p, "home/ws/a"), &policy, &pin, NULL) < 0)
                return 5;
        for (size_t i = 0; i < ARRAY_SIZE(over); i++) {
                if (mount(at(p, over[i]), at(p, over[i]), NULL, MS_BIND, NULL) < 0)
                        return 6;
                if (pin_check(&pin, &change) != -ESTALE) /* only the mount differs */
                        return 7;
                if (umount2(at(p, over[i]), MNT_DETACH) < 0 || pin_check(&pin, &change) != 0)
                        return 8;
                if (mount("none", at(p, over[i]), "tmpfs", 0, NULL) < 0 ||
                    pin_check(&pin, &change) != -ESTALE || umount2(at(p, over[i]), MNT_DETACH) < 0)
                        return 9;
        }
        return pin_check(&pin, &change) == 0 ? 0 : 10;
}

/* Bind mounts need a mount namespace of their own: done in a child. Return: 77: not possible. */
static int check_aliases(const struct place *p) {
        const struct pin_policy policy = { .home = p->home };
        AUTO_PIN struct pin pin = PIN_INIT;
        char **v = NULL;
        size_t n = 0;

        if (own_mounts() < 0 || mount(at(p, "home/.ssh"), at(p, "alias"), NULL, MS_BIND, NULL) < 0 ||
            mount(p->home, at(p, "whole"), NULL, MS_BIND, NULL) < 0)
                return 77;
        if (pin_open(at(p, "alias"), &policy, &pin, NULL) != -EPERM ||
            pin_open(at(p, "alias/id"), &policy, &pin, NULL) != -EPERM ||
            pin_open(at(p, "whole/.ssh"), &policy, &pin, NULL) != -EPERM)
                return 1;
        if (pin_open(at(p, "whole"), &policy, &pin, NULL) != 0 || pin_hidden(&pin, &policy, &v, &n) != 0)
                return 2;
        if (!has(v, n, "/.ssh") || !has(v, n, "/.config/gcloud"))
                return 3;
        free_list(v, n);
        return check_mounts(p, &pin);
}

static void pin_open_sees_through_bind_mounts(void **state) {
        const struct place *p = *state;
        int status;
        pid_t pid;

        make_dir(p, "alias");
        make_dir(p, "whole");
        pid = fork();
        assert_true(pid >= 0);
        if (pid == 0)
                _exit(check_aliases(p));
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFEXITED(status));
        if (WEXITSTATUS(status) == 77)
                skip();
        assert_int_equal(WEXITSTATUS(status), 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, place_setup, place_teardown)

int main(void) {
        static const struct CMUnitTest tests[] = {
                TEST(walk_path_resolves),
                TEST(walk_path_rejects),
                TEST(walk_path_tells_the_directory),
                TEST(pin_open_records_what_it_found),
                TEST(pin_open_refuses),
                TEST(pin_open_allows_by_name),
                TEST(pin_open_refuses_the_real_home),
                TEST(pin_open_keeps_links_beneath),
                TEST(pin_check_finds_a_swap),
                TEST(pin_check_finds_a_new_owner),
                TEST(pin_check_says_when_it_cannot_tell),
                TEST(pin_reopen_knows_the_object),
                TEST(pin_follow_takes_an_editors_file),
                TEST(pin_follow_takes_nothing_else),
                TEST(pin_hidden_lists_children),
                TEST(pin_hidden_follows_links),
                TEST(pin_hidden_gives_patterns),
                TEST(pin_open_sees_through_bind_mounts),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
