/*
 * procs - several processes and one file system: locks, shared mappings, appends, events
 *
 *   procs [CHECK...]     in an empty current directory; 0: all of it holds
 */
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>

#include "expect.h"

enum { WORKERS = 4, ROUNDS = 300, BLOCK_MS = 150 };

/* ---- a child that takes orders ---- */

/** struct child - a process that does what one byte says and answers with its errno */
struct child {
        pid_t pid;
        int to, from;
};

static int obey(int fd, char order) {
        struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 10, .l_len = 10 };
        int r = -1;

        switch (order) {
        case 'e':
                r = flock(fd, LOCK_EX | LOCK_NB);
                break;
        case 's':
                r = flock(fd, LOCK_SH | LOCK_NB);
                break;
        case 'u':
                r = flock(fd, LOCK_UN);
                break;
        case 'w':
                r = fcntl(fd, F_SETLK, &lock);
                break;
        case 'W':
                r = fcntl(fd, F_SETLKW, &lock);
                break;
        case 'r':
                lock.l_type = F_RDLCK;
                r = fcntl(fd, F_SETLK, &lock);
                break;
        case 'n':
                lock.l_type = F_UNLCK;
                r = fcntl(fd, F_SETLK, &lock);
                break;
        case 'o':
                r = fcntl(fd, F_OFD_SETLK, &lock);
                break;
        case 'O':
                lock.l_type = F_UNLCK;
                r = fcntl(fd, F_OFD_SETLK, &lock);
                break;
        case 'c':
                r = close(open("f", O_RDWR | O_CLOEXEC));
                break; /* POSIX: drops all locks of the process */
        case '2':
                lock.l_start = 30;
                r = fcntl(fd, F_SETLKW, &lock);
                break;
        default:
                break;
        }
        return r < 0 ? errno : 0;
}

static struct child child_start(int inherited) {
        int to[2], from[2];
        struct child c;

        EXPECT(pipe2(to, O_CLOEXEC) == 0 && pipe2(from, O_CLOEXEC) == 0);
        c.pid = fork();
        EXPECT(c.pid >= 0);
        if (c.pid == 0) {
                const int fd = inherited >= 0 ? inherited : open("f", O_RDWR | O_CREAT | O_CLOEXEC, 0644);
                char order;

                (void) close(to[1]);
                EXPECT(fd >= 0);
                while (read(to[0], &order, 1) == 1) {
                        const int e = obey(fd, order);

                        EXPECT(write(from[1], &e, sizeof(e)) == sizeof(e));
                }
                _exit(0);
        }
        (void) close(to[0]);
        (void) close(from[1]);
        c.to = to[1];
        c.from = from[0];
        return c;
}

static void child_order(const struct child *c, char order) {
        EXPECT(write(c->to, &order, 1) == 1);
}

static int child_answer(const struct child *c, int timeout_ms) {
        struct pollfd p = { .fd = c->from, .events = POLLIN };
        int e;

        if (poll(&p, 1, timeout_ms) <= 0)
                return -1; /* it waits */
        EXPECT(read(c->from, &e, sizeof(e)) == sizeof(e));
        return e;
}

static int child_do(const struct child *c, char order) {
        child_order(c, order);
        return child_answer(c, 60000);
}

static int child_end(struct child *c, int signal) {
        int status;

        if (signal)
                EXPECT(kill(c->pid, signal) == 0);
        (void) close(c->to);
        EXPECT(waitpid(c->pid, &status, 0) == c->pid);
        (void) close(c->from);
        return signal ? WTERMSIG(status) == signal : status == 0;
}

static void note_signal(int signal) {
        (void) signal;
}

/* Blocking calls are interrupted by SIGALRM: no SA_RESTART. Again and again, for one can come before the
 * call. */
static void alarm_in(unsigned int ms) {
        const struct sigaction act = { .sa_handler = note_signal };
        const struct timeval time = { .tv_usec = (suseconds_t) ms * 1000 };
        const struct itimerval when = { .it_value = time, .it_interval = time };

        EXPECT(sigaction(SIGALRM, &act, NULL) == 0 && setitimer(ITIMER_REAL, &when, NULL) == 0);
}

static void alarm_over(void) {
        const struct itimerval never = { 0 };

        EXPECT(setitimer(ITIMER_REAL, &never, NULL) == 0);
}

/* ---- locks ---- */

static void flock_between_processes(void) {
        const int fd = open("f", O_RDWR | O_CREAT | O_CLOEXEC, 0644);
        struct child c = child_start(-1);

        EXPECT(child_do(&c, 'e') == 0);
        EXPECT(expect_fails(flock(fd, LOCK_EX | LOCK_NB), EWOULDBLOCK));
        EXPECT(expect_fails(flock(fd, LOCK_SH | LOCK_NB), EWOULDBLOCK));
        EXPECT(child_do(&c, 's') == 0 && flock(fd, LOCK_SH | LOCK_NB) == 0);
        EXPECT(child_do(&c, 'e') == EWOULDBLOCK && flock(fd, LOCK_UN) == 0 && child_do(&c, 'e') == 0);
        alarm_in(BLOCK_MS);
        EXPECT(expect_fails(flock(fd, LOCK_EX), EINTR));
        alarm_over();
        EXPECT(child_end(&c, SIGKILL) && flock(fd, LOCK_EX | LOCK_NB) == 0);
        (void) close(fd);
}

static void flock_belongs_to_the_open_file(void) {
        int a = open("f", O_RDWR | O_CREAT | O_CLOEXEC, 0644), b = open("f", O_RDWR | O_CLOEXEC),
            dup_a = fcntl(a, F_DUPFD_CLOEXEC, 3);
        struct child c = child_start(a);

        EXPECT(flock(a, LOCK_EX | LOCK_NB) == 0 && expect_fails(flock(b, LOCK_EX | LOCK_NB), EWOULDBLOCK));
        EXPECT(flock(dup_a, LOCK_EX | LOCK_NB) == 0 && child_do(&c, 'e') == 0);
        (void) close(a);
        (void) close(dup_a); /* the child has it still */
        EXPECT(expect_fails(flock(b, LOCK_EX | LOCK_NB), EWOULDBLOCK));
        EXPECT(child_end(&c, 0) && flock(b, LOCK_EX | LOCK_NB) == 0);
        (void) close(b);
}

static void posix_locks_between_processes(void) {
        struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 15, .l_len = 1 };
        const int fd = open("f", O_RDWR | O_CREAT | O_CLOEXEC, 0644);
        struct child c = child_start(-1);

        EXPECT(child_do(&c, 'w') == 0 && expect_fails(fcntl(fd, F_SETLK, &lock), EAGAIN));
        EXPECT(fcntl(fd, F_GETLK, &lock) == 0 && lock.l_type == F_WRLCK && lock.l_pid == c.pid);
        EXPECT(lock.l_start == 10 && lock.l_len == 10);
        lock = (struct flock){ .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 0, .l_len = 10 };
        EXPECT(fcntl(fd, F_SETLK, &lock) == 0); /* beside it */
        lock.l_start = 15;
        alarm_in(BLOCK_MS);
        EXPECT(expect_fails(fcntl(fd, F_SETLKW, &lock), EINTR));
        alarm_over();
        EXPECT(child_do(&c, 'r') == 0);
        lock.l_type = F_RDLCK;
        EXPECT(fcntl(fd, F_SETLK, &lock) == 0 && child_do(&c, 'w') == EAGAIN);
        EXPECT(child_do(&c, 'c') == 0); /* closing any descriptor gives all back */
        lock.l_type = F_WRLCK;
        EXPECT(fcntl(fd, F_SETLK, &lock) == 0);
        lock.l_type = F_UNLCK;
        EXPECT(fcntl(fd, F_SETLK, &lock) == 0 && child_do(&c, 'w') == 0 && child_end(&c, SIGKILL));
        lock.l_type = F_WRLCK;
        EXPECT(fcntl(fd, F_SETLK, &lock) == 0); /* died with its locks */
        (void) close(fd);
}

static void posix_lock_waits(void) {
        struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 10, .l_len = 10 };
        const int fd = open("f", O_RDWR | O_CREAT | O_CLOEXEC, 0644);
        struct child c = child_start(-1);
        int told = -1, r;

        EXPECT(fcntl(fd, F_SETLK, &lock) == 0);
        child_order(&c, 'W');
        EXPECT(child_answer(&c, BLOCK_MS) == -1);
        lock.l_type = F_UNLCK;
        EXPECT(fcntl(fd, F_SETLK, &lock) == 0 && child_answer(&c, 60000) == 0);
        /* it has 10, we take 30, it waits for 30, and we for 10: who is the last is told */
        lock = (struct flock){ .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 30, .l_len = 10 };
        EXPECT(fcntl(fd, F_SETLK, &lock) == 0);
        child_order(&c, '2');
        EXPECT(child_answer(&c, BLOCK_MS) == -1);
        lock.l_start = 10;
        alarm_in(BLOCK_MS);
        do {
                r = fcntl(fd, F_SETLKW, &lock) < 0 ? errno : 0;
                told = child_answer(&c, 0);
        } while (r == EINTR && told == -1);
        alarm_over();
        EXPECT(r == EDEADLK || told == EDEADLK);
        EXPECT(close(fd) == 0 && (told == EDEADLK || child_answer(&c, 60000) == 0) && child_end(&c, 0));
}

static void ofd_locks(void) {
        struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 10, .l_len = 10 };
        int a = open("f", O_RDWR | O_CREAT | O_CLOEXEC, 0644), b = open("f", O_RDWR | O_CLOEXEC);
        struct child c = child_start(a);

        EXPECT(fcntl(a, F_OFD_SETLK, &lock) == 0 && expect_fails(fcntl(b, F_OFD_SETLK, &lock), EAGAIN));
        EXPECT(fcntl(b, F_OFD_GETLK, &lock) == 0 && lock.l_type == F_WRLCK && lock.l_pid == -1);
        EXPECT(child_do(&c, 'o') == 0); /* the open file is the same */
        lock = (struct flock){ .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 10, .l_len = 10 };
        EXPECT(expect_fails(fcntl(b, F_SETLK, &lock), EAGAIN)); /* and against the other kind */
        (void) close(a);
        EXPECT(expect_fails(fcntl(b, F_OFD_SETLK, &lock), EAGAIN));
        EXPECT(child_do(&c, 'O') == 0 && fcntl(b, F_OFD_SETLK, &lock) == 0);
        EXPECT(child_do(&c, 'o') == EAGAIN && child_end(&c, 0));
        (void) close(b);
}

static void lock_of_a_renamed_file(void) {
        const int fd = open("f", O_RDWR | O_CREAT | O_CLOEXEC, 0644);
        struct child c = child_start(-1);
        int other;

        EXPECT(child_do(&c, 'e') == 0 && rename("f", "g") == 0);
        other = open("g", O_RDWR | O_CLOEXEC);
        EXPECT(expect_fails(flock(other, LOCK_EX | LOCK_NB), EWOULDBLOCK) && unlink("g") == 0);
        EXPECT(expect_fails(flock(fd, LOCK_EX | LOCK_NB), EWOULDBLOCK) && child_end(&c, 0));
        EXPECT(flock(fd, LOCK_EX | LOCK_NB) == 0);
        (void) close(other);
        (void) close(fd);
}

/* ---- many at once ---- */

static void in_workers(void (*work)(int worker)) {
        pid_t pids[WORKERS];

        for (int i = 0; i < WORKERS; i++) {
                pids[i] = fork();
                EXPECT(pids[i] >= 0);
                if (pids[i] == 0) {
                        work(i);
                        _exit(0);
                }
        }
        for (int i = 0; i < WORKERS; i++) {
                int status;

                EXPECT(waitpid(pids[i], &status, 0) == pids[i] && status == 0);
        }
}

static void count_in_mapping(int worker) {
        const int fd = open("f", O_RDWR | O_CLOEXEC);
        atomic_uint *map = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

        EXPECT(map != MAP_FAILED && close(fd) == 0);
        for (int i = 0; i < ROUNDS * 100; i++)
                (void) atomic_fetch_add(&map[i % 2 * 1024], 1);
        EXPECT(munmap(map, 8192) == 0 || worker < 0);
}

static void shared_mapping(void) {
        const int fd = open("f", O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
        unsigned int a = 0, b = 0;

        EXPECT(ftruncate(fd, 8192) == 0);
        in_workers(count_in_mapping);
        EXPECT(pread(fd, &a, sizeof(a), 0) == sizeof(a) && pread(fd, &b, sizeof(b), 4096) == sizeof(b));
        EXPECT(a == WORKERS * ROUNDS * 50 && b == a);
        EXPECT(close(fd) == 0);
}

/* what one writes the other maps, and the other way round */
static void mapping_and_write(void) {
        const int fd = open("f", O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
        volatile char *map;
        char c = 0;
        pid_t pid;
        int status;

        EXPECT(ftruncate(fd, 4096) == 0);
        map = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        EXPECT(map != MAP_FAILED && map[5] == 0);
        pid = fork();
        if (pid == 0) {
                const int own = open("f", O_RDWR | O_CLOEXEC);

                EXPECT(pwrite(own, "x", 1, 5) == 1);
                _exit(0);
        }
        EXPECT(waitpid(pid, &status, 0) == pid && status == 0 && map[5] == 'x');
        map[6] = 'y';
        EXPECT(pread(fd, &c, 1, 6) == 1 && c == 'y');
        EXPECT(munmap((void *) (uintptr_t) map, 4096) == 0 && close(fd) == 0);
}

static void append_lines(int worker) {
        const int fd = open("f", O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
        char line[64];

        for (int i = 0; i < ROUNDS; i++) {
                const int n = snprintf(line, sizeof(line), "%d:%0*d\n", worker, 10 + i % 40, i);

                EXPECT(write(fd, line, (size_t) n) == n);
        }
}

static void appends_are_whole(void) {
        int next[WORKERS] = { 0 };
        char line[80];
        FILE *in;

        (void) unlink("f");
        in_workers(append_lines);
        in = fopen("f", "re");
        EXPECT(in);
        while (fgets(line, sizeof(line), in)) {
                const int worker = line[0] - '0';

                EXPECT(worker >= 0 && worker < WORKERS && line[1] == ':');
                EXPECT(strtol(line + 2, NULL, 10) == next[worker] &&
                       strlen(line) == (size_t) (13 + next[worker] % 40));
                next[worker]++;
        }
        for (int i = 0; i < WORKERS; i++)
                EXPECT(next[i] == ROUNDS);
        (void) fclose(in);
}

static void add_one(void) {
        const int fd = open("count", O_RDWR | O_CREAT | O_CLOEXEC, 0644);
        uint32_t n = 0;

        EXPECT(pread(fd, &n, sizeof(n), 0) >= 0);
        n++;
        EXPECT(pwrite(fd, &n, sizeof(n), 0) == sizeof(n) && close(fd) == 0);
}

static void count_under_lock_files(int worker) {
        char own[16];

        (void) snprintf(own, sizeof(own), "own%d", worker);
        for (int i = 0; i < ROUNDS / 10; i++) {
                int fd;

                while ((fd = open("lock", O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0644)) < 0)
                        EXPECT(errno == EEXIST);
                EXPECT(close(fd) == 0);
                add_one();
                EXPECT(unlink("lock") == 0);
                while (mkdir("lock", 0755) < 0)
                        EXPECT(errno == EEXIST);
                add_one();
                EXPECT(rmdir("lock") == 0);
                while (symlink(own, "lock") < 0)
                        EXPECT(errno == EEXIST);
                add_one();
                EXPECT(unlink("lock") == 0);
        }
}

static void lock_files(void) {
        uint32_t n = 0;
        int fd;

        in_workers(count_under_lock_files);
        fd = open("count", O_RDONLY | O_CLOEXEC);
        EXPECT(read(fd, &n, sizeof(n)) == sizeof(n) && n == 3 * WORKERS * (ROUNDS / 10) && close(fd) == 0);
}

/* a name that is replaced by rename is there at any time, old or new, and whole */
static void replace_and_read(int worker) {
        char text[200], name[16];

        (void) snprintf(name, sizeof(name), "new%d", worker);
        for (int i = 0; i < ROUNDS; i++) {
                const int fd =
                        open(worker ? name : "f",
                             worker ? O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC : O_RDONLY | O_CLOEXEC, 0644);

                EXPECT(fd >= 0);
                if (worker) {
                        memset(text, 'a' + i % 26, sizeof(text));
                        EXPECT(write(fd, text, sizeof(text)) == sizeof(text) && rename(name, "f") == 0);
                } else {
                        EXPECT(read(fd, text, sizeof(text)) == sizeof(text));
                        for (size_t k = 1; k < sizeof(text); k++)
                                EXPECT(text[k] == text[0]);
                }
                EXPECT(close(fd) == 0);
        }
}

static void replaced_by_rename(void) {
        const int fd = open("f", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
        char text[200];

        memset(text, 'z', sizeof(text));
        EXPECT(write(fd, text, sizeof(text)) == sizeof(text) && close(fd) == 0);
        in_workers(replace_and_read);
}

static void create_and_remove(int worker) {
        for (int i = 0; i < ROUNDS; i++) {
                const int fd = open("f", (worker & 1 ? O_RDWR : O_RDONLY) | O_CREAT | O_CLOEXEC, 0644);
                struct stat st;

                EXPECT(fd >= 0 && fstat(fd, &st) == 0);
                EXPECT(worker & 1 ? pwrite(fd, "x", 1, 0) == 1 : st.st_size <= 1);
                EXPECT(close(fd) == 0);
                EXPECT(worker == 3 || unlink("f") == 0 || errno == ENOENT);
        }
}

static void created_and_removed(void) {
        (void) unlink("f");
        in_workers(create_and_remove);
}

/* ---- the rest ---- */

static void watch_names(void) {
        static const struct {
                uint32_t mask;
                const char *name;
        } want[] = {
                { IN_CREATE, "x" },
                { IN_OPEN, "x" },
                { IN_MODIFY, "x" },
                { IN_CLOSE_WRITE, "x" },
                { IN_ATTRIB, "x" },
                { IN_MOVED_FROM, "x" },
                { IN_MOVED_TO, "y" },
                { IN_DELETE, "y" },
                { IN_CREATE | IN_ISDIR, "d" },
                { IN_DELETE | IN_ISDIR, "d" },
                { IN_CREATE, "l" },
                { IN_DELETE, "l" },
        };
        const int fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
        char buf[4096] __attribute__((aligned(8)));
        const struct inotify_event *e;
        ssize_t n;
        size_t i = 0;
        int f;

        EXPECT(mkdir("w", 0755) == 0 &&
               inotify_add_watch(fd, "w", IN_ALL_EVENTS & ~(IN_ACCESS | IN_CLOSE_NOWRITE)) >= 0);
        f = open("w/x", O_CREAT | O_RDWR | O_CLOEXEC, 0644);
        EXPECT(write(f, "x", 1) == 1 && close(f) == 0 && chmod("w/x", 0600) == 0 &&
               rename("w/x", "w/y") == 0);
        EXPECT(unlink("w/y") == 0 && mkdir("w/d", 0755) == 0 && rmdir("w/d") == 0);
        EXPECT(symlink("t", "w/l") == 0 && unlink("w/l") == 0);
        n = read(fd, buf, sizeof(buf));
        EXPECT(n > 0);
        for (char *p = buf; p < buf + n; p += sizeof(*e) + e->len, i++) {
                e = (const struct inotify_event *) (void *) p;
                if (i >= sizeof(want) / sizeof(want[0]) || e->mask != want[i].mask ||
                    strcmp(e->name, want[i].name) != 0)
                        (void) fprintf(stderr, "event %zu: %x %s\n", i, e->mask, e->len ? e->name : "");
                EXPECT(i < sizeof(want) / sizeof(want[0]) && e->mask == want[i].mask &&
                       strcmp(e->name, want[i].name) == 0);
        }
        EXPECT(i == sizeof(want) / sizeof(want[0]) && close(fd) == 0);
}

static void fifo_and_socket(void) {
        const struct sockaddr_un addr = { .sun_family = AF_UNIX, .sun_path = "sock" };
        const int server = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0),
                  client = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        char c = 0;
        pid_t pid;
        int fd, status;

        EXPECT(mkfifo("fifo", 0644) == 0);
        pid = fork();
        if (pid == 0) {
                fd = open("fifo", O_WRONLY | O_CLOEXEC);
                _exit(write(fd, "x", 1) == 1 ? 0 : 9);
        }
        fd = open("fifo", O_RDONLY | O_CLOEXEC);
        EXPECT(read(fd, &c, 1) == 1 && c == 'x' && waitpid(pid, &status, 0) == pid && status == 0 &&
               close(fd) == 0);
        EXPECT(bind(server, (const struct sockaddr *) &addr, sizeof(addr)) == 0 && listen(server, 1) == 0);
        EXPECT(connect(client, (const struct sockaddr *) &addr, sizeof(addr)) == 0);
        EXPECT(expect_fails(bind(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0),
                                 (const struct sockaddr *) &addr, sizeof(addr)),
                            EADDRINUSE));
        EXPECT(close(client) == 0 && close(server) == 0 && unlink("sock") == 0);
}

static const struct check checks[] = {
#define C(name) \
        { #name, name }
        C(flock_between_processes),
        C(flock_belongs_to_the_open_file),
        C(posix_locks_between_processes),
        C(posix_lock_waits),
        C(ofd_locks),
        C(lock_of_a_renamed_file),
        C(shared_mapping),
        C(mapping_and_write),
        C(appends_are_whole),
        C(lock_files),
        C(replaced_by_rename),
        C(created_and_removed),
        C(watch_names),
        C(fifo_and_socket),
#undef C
};

int main(int argc, char **argv) {
        (void) alarm(0);
        for (size_t i = 0; i < sizeof(checks) / sizeof(checks[0]); i++) {
                int wanted = argc == 1;

                for (int k = 1; k < argc; k++)
                        wanted |= strcmp(argv[k], checks[i].name) == 0;
                if (!wanted)
                        continue;
                checks[i].run();
                (void) printf("%s\n", checks[i].name);
                (void) fflush(stdout);
        }
        return 0;
}
