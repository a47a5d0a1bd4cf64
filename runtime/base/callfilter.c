#include "runtime/base/callfilter.h"

#include <assert.h>
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "runtime/base/cleanup.h"

#if defined(__x86_64__)
#define THIS_ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define THIS_ARCH AUDIT_ARCH_AARCH64
#else
#error "callfilter.c: no AUDIT_ARCH for this architecture"
#endif
static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the low half of an argument comes first");

/* a leaf of the tree has at least half of LEAF_CALLS rows, and costs a return and two jumps */
enum { INSNS_PER_CALL = 6, INSNS_FRAME = 5, LEAF_CALLS = 4, INSNS_PER_LEAF = 3 };

/** struct program - instructions so far */
struct program {
        struct sock_filter insns[CALLFILTER_CALLS_MAX * (INSNS_PER_CALL + INSNS_PER_LEAF) + INSNS_FRAME];
        unsigned short len;
        uint32_t otherwise;
};

static void emit(struct program *p, uint16_t code, uint32_t k, uint8_t yes, uint8_t no) {
        p->insns[p->len++] = (struct sock_filter){ .code = code, .jt = yes, .jf = no, .k = k };
}

static void emit_return(struct program *p, uint32_t answer) {
        emit(p, BPF_RET | BPF_K, answer, 0, 0);
}

static void emit_number(struct program *p) {
        emit(p, BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr), 0, 0);
}

static void emit_call(struct program *p, const struct callfilter_call *c) {
        const uint32_t low = (uint32_t) (offsetof(struct seccomp_data, args) + c->arg * sizeof(uint64_t));

        if (c->answer != CALL_ALLOW_IF) {
                emit(p, BPF_JMP | BPF_JEQ | BPF_K, (uint32_t) c->nr, 0, 1);
                emit_return(p, c->answer == CALL_ALLOW ? SECCOMP_RET_ALLOW : SECCOMP_RET_ERRNO | ENOSYS);
                return;
        }
        emit(p, BPF_JMP | BPF_JEQ | BPF_K, (uint32_t) c->nr, 0, 5);
        emit(p, BPF_LD | BPF_W | BPF_ABS, low, 0, 0);
        emit(p, BPF_ALU | BPF_AND | BPF_K, c->mask, 0, 0);
        emit(p, BPF_JMP | BPF_JEQ | BPF_K, c->value, 0, 1);
        emit_return(p, SECCOMP_RET_ALLOW);
        emit_number(p);
}

/* By number; rows of one number stay in their order. */
static void sort(struct callfilter_call *rows, size_t n) {
        for (size_t i = 1; i < n; i++) {
                const struct callfilter_call row = rows[i];
                size_t k = i;

                for (; k > 0 && rows[k - 1].nr > row.nr; k--)
                        rows[k] = rows[k - 1];
                rows[k] = row;
        }
}

/* The first row of a number near the middle, 0: there is only one number. */
static size_t middle(const struct callfilter_call *rows, size_t n) {
        size_t mid = n / 2;

        while (mid > 0 && rows[mid].nr == rows[mid - 1].nr)
                mid--;
        return mid;
}

/*
 * A search tree: when a program is loaded the kernel runs it once per number, to remember what is always
 * allowed, which is what loading costs. x32 numbers are above all rows.
 */
static void emit_rows(struct program *p, const struct callfilter_call *rows, // NOLINT(misc-no-recursion)
                      size_t n) {
        const size_t mid = middle(rows, n);
        size_t jump;

        if (n <= LEAF_CALLS || mid == 0) {
                for (size_t i = 0; i < n; i++)
                        emit_call(p, &rows[i]);
                emit_return(p, p->otherwise);
                return;
        }
        emit(p, BPF_JMP | BPF_JGE | BPF_K, (uint32_t) rows[mid].nr, 0, 1);
        jump = p->len;
        emit(p, BPF_JMP | BPF_JA, 0, 0, 0);
        emit_rows(p, rows, mid);
        p->insns[jump].k = (uint32_t) (p->len - jump - 1);
        emit_rows(p, rows + mid, n - mid);
}

int callfilter_load(const struct callfilter_call *calls, size_t n, enum callfilter_else otherwise) {
        struct callfilter_call rows[CALLFILTER_CALLS_MAX];
        struct program p = { .otherwise = otherwise == CALL_ELSE_KILL ? SECCOMP_RET_KILL_PROCESS
                                                                      : SECCOMP_RET_ERRNO | EPERM };
        struct sock_fprog prog = { .filter = p.insns };

        if (n > CALLFILTER_CALLS_MAX)
                return -E2BIG;
        memcpy(rows, calls, n * sizeof(*calls));
        sort(rows, n);
        emit(&p, BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch), 0, 0);
        emit(&p, BPF_JMP | BPF_JEQ | BPF_K, THIS_ARCH, 1, 0);
        emit_return(&p, SECCOMP_RET_KILL_PROCESS);
        emit_number(&p);
        emit_rows(&p, rows, n);
        prog.len = p.len;
        if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
                return -errno;
        return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &prog) < 0 ? -errno : 0;
}

static int load_lists(const struct confinement *c) {
        struct callfilter_call all[CALLFILTER_CALLS_MAX];
        size_t n = 0;

        for (size_t i = 0; i < CONFINEMENT_LISTS_MAX; i++) {
                if (c->lists[i].n > CALLFILTER_CALLS_MAX - n)
                        return -E2BIG;
                if (c->lists[i].n > 0)
                        memcpy(all + n, c->lists[i].calls, c->lists[i].n * sizeof(*all));
                n += c->lists[i].n;
        }
        return callfilter_load(all, n, c->otherwise);
}

int confine_process(const struct confinement *c, struct error *err) {
        const struct rlimit none = { 0 };
        int r = 0;

        if (setrlimit(RLIMIT_CORE, &none) < 0)
                return error_set(err, -errno, "RLIMIT_CORE: %s", strerror(errno));
        if (c->places)
                r = landlock_confine(c->places, c->n_places, c->connects);
        if (r < 0 && r != -ENOTSUP)
                return error_set(err, r, "landlock: %s", strerror(-r));
        r = load_lists(c);
        return r < 0 ? error_set(err, r, "seccomp: %s", strerror(-r)) : 0;
}
