/*
 * trees - directories that are large, deep, or change while they are read
 *
 *   trees make              what "stable" finds in a lower layer
 *   trees stable            names that stay are listed once while others come and go; telldir, seekdir
 *   trees many N            N files in directories of a thousand: made, listed, looked at, removed
 *   trees deep N            a tree of N levels: made, walked up and down, removed
 *   trees links N           hard links to one file, up to N: how many there can be
 */
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "expect.h"

enum { STAY = 700, CHURN = 60, PASSES = 20, PER_DIRECTORY = 1000, SEEKS = 50 };

static void touch_at(int dir_fd, const char *name) {
        const int fd = openat(dir_fd, name, O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0644);

        EXPECT(fd >= 0 && close(fd) == 0);
}

/* ---- a directory that changes ---- */

static void make_stay(void) {
        for (int i = 0; i < STAY; i++) {
                char name[16];

                (void) snprintf(name, sizeof(name), "stay%d", i);
                touch_at(AT_FDCWD, name);
        }
}

/* until it is killed */
static void churn(void) {
        for (unsigned int i = 0;; i++) {
                char name[16], other[16];

                (void) snprintf(name, sizeof(name), "go%u", i % CHURN);
                (void) snprintf(other, sizeof(other), "went%u", i % CHURN);
                touch_at(AT_FDCWD, name);
                EXPECT(rename(name, other) == 0 && unlink(other) == 0);
        }
}

/* Return: how many names that stay were seen; each of them once */
static int list_once(DIR *d) {
        static unsigned char seen[STAY];
        struct dirent *e;
        int n = 0;

        memset(seen, 0, sizeof(seen));
        errno = 0;
        while ((e = readdir(d))) {
                if (strncmp(e->d_name, "stay", 4) == 0) {
                        const long i = strtol(e->d_name + 4, NULL, 10);

                        EXPECT(i >= 0 && i < STAY && seen[i] == 0);
                        seen[i] = 1;
                        n++;
                }
        }
        EXPECT(errno == 0);
        return n;
}

/* a position leads back to the name that came after it, also when names around it are gone since */
static void seek_back(DIR *d) {
        static long at[STAY + CHURN + 2];
        static char names[STAY + CHURN + 2][256];
        struct dirent *e;
        size_t n = 0;

        rewinddir(d);
        for (;;) {
                const long pos = telldir(d);

                e = readdir(d);
                if (!e || n == sizeof(at) / sizeof(at[0]))
                        break;
                if (strncmp(e->d_name, "stay", 4) != 0)
                        continue;
                at[n] = pos;
                (void) snprintf(names[n++], sizeof(names[0]), "%s", e->d_name);
        }
        EXPECT(n == STAY);
        for (size_t i = 0; i < SEEKS; i++) {
                const size_t k = i * 7919 % n;

                seekdir(d, at[k]);
                do
                        e = readdir(d);
                while (e && strncmp(e->d_name, "stay", 4) != 0);
                EXPECT(e && strcmp(e->d_name, names[k]) == 0);
        }
}

/* all that is read is removed while it is read: nothing is left, nothing was skipped */
static void remove_while_reading(DIR *d) {
        struct dirent *e;
        int n = 0;

        rewinddir(d);
        while ((e = readdir(d)))
                if (strncmp(e->d_name, "stay", 4) == 0) {
                        EXPECT(unlink(e->d_name) == 0);
                        n++;
                }
        EXPECT(n == STAY);
        rewinddir(d);
        EXPECT(list_once(d) == 0);
}

static void run_stable(long n) {
        struct stat st;
        pid_t pid;
        DIR *d;

        (void) n;
        if (stat("stay0", &st) < 0) /* else the host has made them */
                make_stay();
        d = opendir(".");
        EXPECT(d);
        pid = fork();
        EXPECT(pid >= 0);
        if (pid == 0)
                churn();
        for (int i = 0; i < PASSES; i++) {
                DIR *fresh = opendir(".");

                EXPECT(fresh && list_once(fresh) == STAY && closedir(fresh) == 0);
                rewinddir(d);
                EXPECT(list_once(d) == STAY);
                seek_back(d);
        }
        EXPECT(kill(pid, SIGKILL) == 0 && waitpid(pid, NULL, 0) == pid);
        remove_while_reading(d);
        EXPECT(closedir(d) == 0);
}

/* ---- many ---- */

static long count_names(const char *path) {
        DIR *d = opendir(path);
        struct dirent *e;
        long n = 0;

        EXPECT(d);
        errno = 0;
        while ((e = readdir(d)))
                n += e->d_name[0] != '.';
        EXPECT(errno == 0 && closedir(d) == 0);
        return n;
}

static void each_of(long n, void (*act)(const char *path, long i)) {
        for (long i = 0; i < n; i++) {
                char path[64];

                (void) snprintf(path, sizeof(path), "d%ld/file-%ld", i / PER_DIRECTORY, i);
                act(path, i);
        }
}

static void make_file(const char *path, long i) {
        if (i % PER_DIRECTORY == 0) {
                char dir[32];

                (void) snprintf(dir, sizeof(dir), "d%ld", i / PER_DIRECTORY);
                EXPECT(mkdir(dir, 0755) == 0);
        }
        touch_at(AT_FDCWD, path);
}

static void look_at_file(const char *path, long i) {
        struct stat st;

        (void) i;
        EXPECT(stat(path, &st) == 0 && S_ISREG(st.st_mode));
}

static void remove_file(const char *path, long i) {
        char dir[32];

        (void) snprintf(dir, sizeof(dir), "d%ld", i / PER_DIRECTORY);
        EXPECT(unlink(path) == 0 && (i % PER_DIRECTORY != PER_DIRECTORY - 1 || rmdir(dir) == 0));
}

static void run_many(long n) {
        long listed = 0;

        n -= n % PER_DIRECTORY;
        each_of(n, make_file);
        for (long i = 0; i < n / PER_DIRECTORY; i++) {
                char dir[32];

                (void) snprintf(dir, sizeof(dir), "d%ld", i);
                listed += count_names(dir);
        }
        EXPECT(listed == n);
        each_of(n, look_at_file);
        each_of(n, remove_file);
        EXPECT(count_names(".") == 0);
}

/* ---- deep ---- */

static void run_deep(long n) {
        char path[PATH_MAX];
        long up;
        int fd = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

        for (long i = 0; i < n; i++) {
                char name[32];
                int next;

                (void) snprintf(name, sizeof(name), "level-%ld", i);
                EXPECT(mkdirat(fd, name, 0755) == 0);
                next = openat(fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
                EXPECT(next >= 0 && close(fd) == 0);
                fd = next;
        }
        touch_at(fd, "bottom");
        EXPECT(faccessat(fd, "bottom", F_OK, 0) == 0 && renameat(fd, "bottom", fd, "end") == 0 &&
               fchdir(fd) == 0);
        EXPECT(getcwd(path, sizeof(path)) || errno == ENAMETOOLONG || errno == ERANGE);
        EXPECT(unlink("end") == 0 && close(fd) == 0);
        for (up = n - 1; up >= 0; up--) {
                char name[32];

                (void) snprintf(name, sizeof(name), "level-%ld", up);
                EXPECT(chdir("..") == 0 && access(name, X_OK) == 0 && rmdir(name) == 0);
        }
        EXPECT(count_names(".") == 0);
}

/* ---- links ---- */

static void run_links(long n) {
        char name[32] = "link-0";
        struct stat st;
        long i;

        touch_at(AT_FDCWD, name);
        EXPECT(mkdir("l", 0755) == 0);
        for (i = 1; i < n; i++) {
                (void) snprintf(name, sizeof(name), "l/link-%ld", i);
                if (link("link-0", name) < 0)
                        break;
        }
        (void) printf("%ld links: %s\n", i, i < n ? strerrorname_np(errno) : "enough");
        EXPECT(stat("link-0", &st) == 0 && (long) st.st_nlink == i && count_names("l") == i - 1);
        for (long k = 1; k < i; k++) {
                (void) snprintf(name, sizeof(name), "l/link-%ld", k);
                EXPECT(unlink(name) == 0);
        }
        EXPECT(stat("link-0", &st) == 0 && st.st_nlink == 1 && unlink("link-0") == 0 && rmdir("l") == 0);
}

int main(int argc, char **argv) {
        static const struct {
                const char *name;
                void (*run)(long n);
        } runs[] = {
                { "stable", run_stable }, { "many", run_many }, { "deep", run_deep }, { "links", run_links }
        };

        if (argc == 2 && strcmp(argv[1], "make") == 0) {
                make_stay();
                return 0;
        }
        for (size_t i = 0; argc > 1 && i < sizeof(runs) / sizeof(runs[0]); i++)
                if (strcmp(argv[1], runs[i].name) == 0) {
                        runs[i].run(argc > 2 ? strtol(argv[2], NULL, 10) : 0);
                        return 0;
                }
        (void) fprintf(stderr, "usage: trees make|stable | trees many|deep|links N\n");
        return 2;
}
