#include "fs/workers.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "fs/server.h"
#include "runtime/base/cleanup.h"

enum {
        WORKER_STACK = 8 << 20, /* only what is touched costs memory */
        TICK_MS = 20,           /* a worker that has not come back for one to two of them is away */
        WIND_DOWN_TICKS = 50,
};

char *server_reply_buffer(struct server *s) {
        struct worker *w = pthread_getspecific(s->worker);

        if (w && !w->reply)
                w->reply = malloc(SERVER_IO_MAX);
        return w ? w->reply : NULL;
}

/* ---- turns ---- */

/*
 * The kernel wakes the worker that has waited longest, so with many waiting each request is answered by
 * another thread, on another CPU, with cold caches: measured on two CPUs, a round trip with four waiting
 * takes two to four times as long as with one. So one waits (two, where there are more CPUs), and a worker
 * that is about to do what may take long passes its turn on.
 */
static unsigned int count_turns(void) {
        cpu_set_t cpus;

        return sched_getaffinity(0, sizeof(cpus), &cpus) == 0 && CPU_COUNT(&cpus) > 2 ? 2 : 1;
}

static void give_turn(struct worker *w) {
        if (atomic_exchange(&w->reads, false))
                (void) sem_post(&w->server->workers.turns);
}

void server_yield_turn(struct server *s) {
        struct worker *w = pthread_getspecific(s->worker);

        if (w)
                give_turn(w);
}

static void take_turn(struct worker *w) {
        while (!w->reads)
                w->reads = sem_wait(&w->server->workers.turns) == 0; /* else EINTR */
}

/* ---- a worker ---- */

/* not pthread_kill(3): in a process made by clone(2) the library has the number of the parent's thread */
static void signal_steward(const struct workers *all) {
        (void) syscall(SYS_tgkill, all->pid, all->steward, SIGUSR1);
}

static void wake_steward(struct workers *all) {
        if (all->asleep && atomic_exchange(&all->asleep, false))
                signal_steward(all);
}

int server_answer(struct worker *w) {
        struct fuse_session *se = w->server->session;
        const int r = fuse_session_receive_buf(se, &w->request);

        if (r == -EINTR || r == -EAGAIN)
                return 1;
        if (r <= 0)
                return r;
        w->serial++;
        wake_steward(&w->server->workers);
        if (!watch_refuses(w->server, w->request.mem, w->request.size, w->fd))
                fuse_session_process_buf(se, &w->request);
        w->serial++;
        return r;
}

static void *work(void *arg) {
        struct worker *w = arg;
        struct fuse_session *se = w->server->session;

        (void) pthread_setspecific(w->server->worker, w);
        while (!fuse_session_exited(se)) {
                take_turn(w);
                if (server_answer(w) <= 0)
                        break;
        }
        fuse_session_exit(se);
        give_turn(w); /* the next one finds the session ended */
        free(TAKE_PTR(w->request.mem));
        free(TAKE_PTR(w->reply));
        w->ended = true;
        signal_steward(&w->server->workers);
        return NULL;
}

/* a channel of its own spares the threads a common lock in the kernel; without one they share */
static int clone_channel(int fuse_fd) {
        uint32_t master = (uint32_t) fuse_fd;
        AUTO_FD int fd = open("/dev/fuse", O_RDWR | O_CLOEXEC);

        if (fd < 0 || ioctl(fd, FUSE_DEV_IOC_CLONE, &master) < 0)
                return fcntl(fuse_fd, F_DUPFD_CLOEXEC, 3);
        return TAKE_FD(fd);
}

/* what is as deep as the tree needs up to NODE_DEPTH_MAX frames; the caller's limit may be far below that */
static int start_thread(struct worker *w) {
        pthread_attr_t attr;
        int r;

        r = pthread_attr_init(&attr);
        if (r != 0)
                return -r;
        r = pthread_attr_setstacksize(&attr, WORKER_STACK);
        if (r == 0)
                r = pthread_create(&w->thread, &attr, work, w);
        (void) pthread_attr_destroy(&attr);
        return -r;
}

static int start_worker(struct server *s, int fuse_fd) {
        struct workers *all = &s->workers;
        struct worker *w = &all->list[all->n];
        int r;

        w->server = s;
        w->fd = all->n ? clone_channel(fuse_fd) : fuse_fd;
        if (w->fd < 0)
                return -errno;
        r = start_thread(w);
        if (r == 0)
                all->n++;
        else if (w->fd != fuse_fd)
                w->fd = fd_close(w->fd);
        return r;
}

/* ---- the steward ---- */

/** struct look - what one look at the workers found */
struct look {
        unsigned int away, ended;
        bool quiet; /* nothing happened since the last look, and nothing is under way */
};

static struct look look_at(struct workers *all) {
        struct look l = { .quiet = true };

        for (unsigned int i = 0; i < all->n; i++) {
                struct worker *w = &all->list[i];
                const uint32_t serial = (uint32_t) w->serial;

                l.ended += w->ended;
                l.quiet = l.quiet && serial == w->seen && !(serial & 1);
                if (serial == w->seen && (serial & 1)) {
                        l.away++;
                        give_turn(w);
                }
                w->seen = serial;
        }
        return l;
}

/*
 * Waits for a signal: a tick long, or, when there is nothing to watch, until a worker gets a request.
 * Return: its number, 0: none came.
 */
static int await(struct workers *all, bool quiet, const sigset_t *signals) {
        const struct timespec tick = { .tv_nsec = TICK_MS * 1000000L };
        int sig;

        all->asleep = quiet;
        if (quiet && !look_at(all).quiet)
                all->asleep = false; /* one came in between */
        sig = all->asleep ? sigwaitinfo(signals, NULL) : sigtimedwait(signals, NULL, &tick);
        all->asleep = false;
        return sig < 0 ? 0 : sig;
}

/*
 * The descriptors of a process are gone when its last thread is, and one that waits for a host file system
 * that does not answer cannot be killed. Until then the kernel would have the work's processes wait for us,
 * so the channels go first, by number: a thread must not find another file under it.
 */
static void cut_off(struct server *s) {
        const int nothing = server_region(s, 0)->root_fd; /* O_PATH: can be neither read nor written */

        for (unsigned int i = 0; i < s->workers.n; i++)
                (void) dup3(nothing, s->workers.list[i].fd, O_CLOEXEC);
}

static int watch(struct server *s, int fuse_fd, const sigset_t *signals) {
        struct workers *all = &s->workers;
        struct look l = { 0 };

        for (unsigned int winding_down = 0; l.ended < all->n; l = look_at(all)) {
                const int sig = await(all, l.quiet, signals);

                trim_check(s);
                if (sig == SIGTERM || sig == SIGHUP) {
                        cut_off(s);
                        return -EINTR;
                }
                if (fuse_session_exited(s->session) && winding_down++ > WIND_DOWN_TICKS)
                        return -EBUSY;
                if (l.away == all->n && all->n < WORKERS_MAX && start_worker(s, fuse_fd) < 0)
                        l.away = 0; /* in a tick again */
        }
        for (unsigned int i = 0; i < all->n; i++)
                (void) pthread_join(all->list[i].thread, NULL);
        for (unsigned int i = 1; i < all->n; i++)
                all->list[i].fd = fd_close(all->list[i].fd);
        return 0;
}

void workers_block_signals(sigset_t *ret) {
        (void) sigemptyset(ret);
        (void) sigaddset(ret, SIGTERM);
        (void) sigaddset(ret, SIGHUP);
        (void) sigaddset(ret, SIGUSR1);
        (void) pthread_sigmask(SIG_BLOCK, ret, NULL);
}

int workers_run(struct server *s, int fuse_fd) {
        struct workers *all = &s->workers;
        sigset_t signals;
        int r = 0;

        workers_block_signals(&signals);
        all->pid = getpid();
        all->steward = (pid_t) syscall(SYS_gettid);
        (void) sem_init(&all->turns, 0, count_turns());
        while (r == 0 && all->n < WORKERS_FIRST)
                r = start_worker(s, fuse_fd);
        if (all->n == 0)
                return r;
        r = watch(s, fuse_fd, &signals); /* fewer than wanted will do */
        if (r == 0)
                (void) sem_destroy(&all->turns);
        return r;
}
