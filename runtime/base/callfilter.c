#include "runtime/base/callfilter.h"

#include <assert.h>
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
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

enum { INSNS_PER_CALL = 6, INSNS_FRAME = 5 };

/** struct program - instructions so far */
struct program {
        struct sock_filter insns[CALLFILTER_CALLS_MAX * INSNS_PER_CALL + INSNS_FRAME];
        unsigned short len;
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

/* One row after the other: the kernel runs the program once per number and remembers "always allowed", so
 * only the rows with an argument cost something at each call. x32 numbers are in no row. */
int callfilter_load(const struct callfilter_call *calls, size_t n) {
        struct program p = { .len = 0 };
        struct sock_fprog prog = { .filter = p.insns };

        if (n > CALLFILTER_CALLS_MAX)
                return -E2BIG;
        emit(&p, BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch), 0, 0);
        emit(&p, BPF_JMP | BPF_JEQ | BPF_K, THIS_ARCH, 1, 0);
        emit_return(&p, SECCOMP_RET_KILL_PROCESS);
        emit_number(&p);
        for (size_t i = 0; i < n; i++)
                emit_call(&p, &calls[i]);
        emit_return(&p, SECCOMP_RET_KILL_PROCESS);
        prog.len = p.len;
        if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
                return -errno;
        return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &prog) < 0 ? -errno : 0;
}
