/*
 * DOC: theory of operation
 *
 * The tables give one answer per system call. compile() lays the answers out by number, joins neighbours with
 * the same answer into ranges and writes a binary search over the ranges: loading a filter costs about 2 us
 * per instruction and the kernel caches "always allowed" per number, so a short program is the fast one.
 * After the tree come the checks of arguments and then the returns; jumps only go forward (a rule of BPF).
 *
 * The architecture is looked at first: a 32-bit call has other numbers, and nothing is known about them.
 * x32 calls share the architecture with x86-64 and carry bit 30, so they fall into "above every number".
 *
 * The work chooses every number and argument. A check reads as many bits as the kernel does: where the kernel
 * takes an int, only the low half counts (TIOCSTI with high bits set is TIOCSTI); where it takes a long, both
 * halves are compared. Nothing behind a pointer is looked at. The constants that the checks name are the same
 * on both architectures.
 */
#include "drivers/native/seccomp.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/personality.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "runtime/base/cleanup.h"

/* jump targets: an answer, a check, or a step inside a check */
enum label {
        TO_NEXT, /* the following instruction */
        TO_ALLOW,
        TO_EPERM,
        TO_ENOSYS,
        TO_EAFNOSUPPORT,
        TO_EPROTONOSUPPORT,
        TO_KILL,
        TO_CLONE,
        TO_UNSHARE,
        TO_IOCTL,
        TO_SOCKET,
        TO_INET,
        TO_NETLINK,
        TO_SOCKETPAIR,
        TO_PERSONALITY,
        TO_MODE1,
        TO_MODE2,
        TO_MODE3,
        TO_OPEN,
        TO_OPENAT,
        TO_COUNT
};

/* flags of clone(2) and unshare(2) that make no namespace */
#define CLONE_HARMLESS                                                                                    \
        (CSIGNAL | CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_PIDFD | CLONE_PTRACE |       \
         CLONE_VFORK | CLONE_PARENT | CLONE_THREAD | CLONE_SYSVSEM | CLONE_SETTLS | CLONE_PARENT_SETTID | \
         CLONE_CHILD_CLEARTID | CLONE_DETACHED | CLONE_UNTRACED | CLONE_CHILD_SETTID | (unsigned) CLONE_IO)
#define UNSHARE_HARMLESS     (CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM)
#define PERSONALITY_HARMLESS ((unsigned) PER_LINUX32 | (unsigned) UNAME26 | (unsigned) ADDR_NO_RANDOMIZE)

#ifndef TIOCLINUX
#define TIOCLINUX 0x541C
#endif
#ifndef IPPROTO_MPTCP
#define IPPROTO_MPTCP 262
#endif

#define ARG_LOW(n)  (uint32_t)(offsetof(struct seccomp_data, args) + (n) * sizeof(uint64_t))
#define ARG_HIGH(n) (ARG_LOW(n) + (uint32_t) sizeof(uint32_t))
static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "ARG_LOW and ARG_HIGH are for little endian");

#define LOAD        (BPF_LD | BPF_W | BPF_ABS)
#define AND         (BPF_ALU | BPF_AND | BPF_K)
#define EQUAL       (BPF_JMP | BPF_JEQ | BPF_K)
#define ANY_BIT     (BPF_JMP | BPF_JSET | BPF_K)
#define MAKES_FILE  (O_CREAT | (O_TMPFILE & ~O_DIRECTORY))
#define SETID       (S_ISUID | S_ISGID)
#define SOCKET_TYPE 0xf /* SOCK_TYPE_MASK of the kernel */
#define OLD_PACKET  10  /* SOCK_PACKET, which turns AF_INET into AF_PACKET */

/** struct check - one instruction of an argument check; rows of one label follow each other */
struct check {
        enum label label; /* TO_NEXT: continues the row above */
        uint16_t code;
        uint32_t k;
        enum label yes, no; /* of conditional jumps */
};

/* a jump goes forward only, so a row stands above the labels it names */
static const struct check checks[] = {
        { TO_CLONE, LOAD, ARG_LOW(0) }, /* the kernel cuts the flags of clone(2) to 32 bits */
        { TO_NEXT, ANY_BIT, ~(uint32_t) CLONE_HARMLESS, TO_EPERM, TO_ALLOW },

        { TO_UNSHARE, LOAD, ARG_HIGH(0) },
        { TO_NEXT, ANY_BIT, UINT32_MAX, TO_EPERM, TO_NEXT },
        { TO_NEXT, LOAD, ARG_LOW(0) },
        { TO_NEXT, ANY_BIT, ~(uint32_t) UNSHARE_HARMLESS, TO_EPERM, TO_ALLOW },

        { TO_IOCTL, LOAD, ARG_LOW(1) },
        { TO_NEXT, EQUAL, TIOCSTI, TO_EPERM, TO_NEXT },
        { TO_NEXT, EQUAL, TIOCLINUX, TO_EPERM, TO_NEXT },
        { TO_NEXT, EQUAL, TIOCSETD, TO_EPERM, TO_ALLOW },

        { TO_PERSONALITY, LOAD, ARG_LOW(0) },
        { TO_NEXT, EQUAL, UINT32_MAX, TO_ALLOW, TO_NEXT }, /* asks only */
        { TO_NEXT, ANY_BIT, ~PERSONALITY_HARMLESS, TO_EPERM, TO_ALLOW },

        { TO_OPEN, LOAD, ARG_LOW(1) }, /* without these flags the mode is whatever is in the register */
        { TO_NEXT, ANY_BIT, MAKES_FILE, TO_MODE2, TO_ALLOW },
        { TO_OPENAT, LOAD, ARG_LOW(2) },
        { TO_NEXT, ANY_BIT, MAKES_FILE, TO_MODE3, TO_ALLOW },
        { TO_MODE1, LOAD, ARG_LOW(1) },
        { TO_NEXT, ANY_BIT, SETID, TO_EPERM, TO_ALLOW },
        { TO_MODE2, LOAD, ARG_LOW(2) },
        { TO_NEXT, ANY_BIT, SETID, TO_EPERM, TO_ALLOW },
        { TO_MODE3, LOAD, ARG_LOW(3) },
        { TO_NEXT, ANY_BIT, SETID, TO_EPERM, TO_ALLOW },

        { TO_SOCKETPAIR, LOAD, ARG_LOW(0) },
        { TO_NEXT, EQUAL, AF_UNIX, TO_ALLOW, TO_EAFNOSUPPORT },

        { TO_SOCKET, LOAD, ARG_LOW(0) },
        { TO_NEXT, EQUAL, AF_UNIX, TO_ALLOW, TO_NEXT },
        { TO_NEXT, EQUAL, AF_INET, TO_INET, TO_NEXT },
        { TO_NEXT, EQUAL, AF_INET6, TO_INET, TO_NEXT },
        { TO_NEXT, EQUAL, AF_NETLINK, TO_NETLINK, TO_EAFNOSUPPORT },
        { TO_INET, LOAD, ARG_LOW(1) },
        { TO_NEXT, AND, SOCKET_TYPE },
        { TO_NEXT, EQUAL, OLD_PACKET, TO_EAFNOSUPPORT, TO_NEXT },
        { TO_NEXT, LOAD, ARG_LOW(2) }, /* others load modules with a history of exploits */
        { TO_NEXT, EQUAL, IPPROTO_ICMP, TO_ALLOW, TO_NEXT },
        { TO_NEXT, EQUAL, IPPROTO_TCP, TO_ALLOW, TO_NEXT },
        { TO_NEXT, EQUAL, IPPROTO_UDP, TO_ALLOW, TO_NEXT },
        { TO_NEXT, EQUAL, IPPROTO_ICMPV6, TO_ALLOW, TO_NEXT },
        { TO_NEXT, EQUAL, IPPROTO_MPTCP, TO_ALLOW, TO_NEXT },
        { TO_NETLINK, LOAD, ARG_LOW(2) }, /* 0: NETLINK_ROUTE, and the protocol of plain socket() calls */
        { TO_NEXT, EQUAL, 0, TO_ALLOW, TO_EPROTONOSUPPORT },
};

static const struct {
        enum label label;
        uint32_t value;
} returns[] = {
        { TO_ALLOW, SECCOMP_RET_ALLOW },
        { TO_EPERM, SECCOMP_RET_ERRNO | EPERM },
        { TO_ENOSYS, SECCOMP_RET_ERRNO | ENOSYS },
        { TO_EAFNOSUPPORT, SECCOMP_RET_ERRNO | EAFNOSUPPORT },
        { TO_EPROTONOSUPPORT, SECCOMP_RET_ERRNO | EPROTONOSUPPORT },
        { TO_KILL, SECCOMP_RET_KILL_PROCESS },
};

static const struct {
        enum label plain, nested; /* without and with nested_userns */
        enum label no_setid;      /* TO_NEXT: the same */
        bool open;                /* a profile may allow it */
} targets[] = {
        [SECCOMP_ENOSYS] = { TO_ENOSYS, TO_ENOSYS, .open = true },
        [SECCOMP_ALLOW] = { TO_ALLOW, TO_ALLOW },
        [SECCOMP_EPERM] = { TO_EPERM, TO_EPERM, .open = true },
        [SECCOMP_NEVER] = { TO_EPERM, TO_EPERM },
        [SECCOMP_NEVER_ENOSYS] = { TO_ENOSYS, TO_ENOSYS },
        [SECCOMP_NESTED_EPERM] = { TO_EPERM, TO_ALLOW },
        [SECCOMP_NESTED_ENOSYS] = { TO_ENOSYS, TO_ALLOW },
        [SECCOMP_CHECK_CLONE] = { TO_CLONE, TO_ALLOW },
        [SECCOMP_CHECK_UNSHARE] = { TO_UNSHARE, TO_ALLOW },
        [SECCOMP_CHECK_IOCTL] = { TO_IOCTL, TO_IOCTL },
        [SECCOMP_CHECK_SOCKET] = { TO_SOCKET, TO_SOCKET },
        [SECCOMP_CHECK_SOCKETPAIR] = { TO_SOCKETPAIR, TO_SOCKETPAIR },
        [SECCOMP_CHECK_PERSONALITY] = { TO_PERSONALITY, TO_PERSONALITY, .open = true },
        [SECCOMP_SETID_MODE1] = { TO_ALLOW, TO_ALLOW, TO_MODE1 },
        [SECCOMP_SETID_MODE2] = { TO_ALLOW, TO_ALLOW, TO_MODE2 },
        [SECCOMP_SETID_OPEN] = { TO_ALLOW, TO_ALLOW, TO_OPEN },
        [SECCOMP_SETID_OPENAT] = { TO_ALLOW, TO_ALLOW, TO_OPENAT },
        [SECCOMP_SETID_ENOSYS] = { TO_ALLOW, TO_ALLOW, TO_ENOSYS },
};
static_assert(ARRAY_SIZE(targets) == SECCOMP_ACTION_COUNT, "targets[] and enum seccomp_action differ");

/** struct range - neighbouring numbers with the same target; it ends where the next one starts */
struct range {
        uint32_t first;
        enum label to;
};

/** struct assembler - a program whose jumps still name labels */
struct assembler {
        struct {
                uint16_t code;
                uint32_t k;
                enum label yes, no;
                uint8_t skip; /* with yes == TO_NEXT: instructions to pass over */
        } insns[SECCOMP_PROGRAM_MAX];
        size_t len;             /* may pass SECCOMP_PROGRAM_MAX: then nothing more was written */
        size_t place[TO_COUNT]; /* instruction of each label */
        struct range ranges[SECCOMP_NR_MAX + 1];
        size_t n_ranges;
};

static size_t emit(struct assembler *a, uint16_t code, uint32_t k, enum label yes, enum label no) {
        const size_t at = a->len++;

        if (at < SECCOMP_PROGRAM_MAX) {
                a->insns[at].code = code;
                a->insns[at].k = k;
                a->insns[at].yes = yes;
                a->insns[at].no = no;
        }
        return at;
}

static enum label target_of(enum seccomp_action action, const struct seccomp_options *opt) {
        if (opt->no_setid && targets[action].no_setid != TO_NEXT)
                return targets[action].no_setid;
        if (opt->unix_only && action == SECCOMP_CHECK_SOCKET)
                return TO_SOCKETPAIR; /* which asks the same */
        if (opt->floor && targets[action].open)
                return TO_ALLOW;
        return opt->nested_userns ? targets[action].nested : targets[action].plain;
}

/* fill @a->ranges from the table; the last range is everything from SECCOMP_NR_MAX on */
static void make_ranges(struct assembler *a, enum seccomp_arch arch, const struct seccomp_options *opt) {
        enum label to[SECCOMP_NR_MAX + 1];

        for (size_t nr = 0; nr <= SECCOMP_NR_MAX; nr++)
                to[nr] = TO_ENOSYS;
        for (size_t i = 0; i < n_seccomp_rules; i++) {
                const int nr = seccomp_rules[i].nr[arch];

                if (nr != SECCOMP_NO_NR)
                        to[nr] = target_of(seccomp_rules[i].action, opt);
        }
        for (uint32_t nr = 0; nr <= SECCOMP_NR_MAX; nr++)
                if (nr == 0 || to[nr] != to[nr - 1])
                        a->ranges[a->n_ranges++] = (struct range){ nr, to[nr] };
}

/* binary search over ranges[lo..hi]; recursion is as deep as the tree: below 10 */
static void emit_search(struct assembler *a, size_t lo, size_t hi) { // NOLINT(misc-no-recursion)
        const size_t mid = (lo + hi + 1) / 2;
        size_t at;

        if (lo == hi) { /* only when all numbers have one answer */
                (void) emit(a, BPF_JMP | BPF_JA, 0, a->ranges[lo].to, TO_NEXT);
                return;
        }
        at = emit(a, BPF_JMP | BPF_JGE | BPF_K, a->ranges[mid].first, TO_NEXT, TO_NEXT);
        if (mid - lo > 1)
                emit_search(a, lo, mid - 1);
        else if (at < SECCOMP_PROGRAM_MAX)
                a->insns[at].no = a->ranges[lo].to;
        if (mid == hi) {
                if (at < SECCOMP_PROGRAM_MAX)
                        a->insns[at].yes = a->ranges[hi].to;
                return;
        }
        if (at < SECCOMP_PROGRAM_MAX)
                a->insns[at].skip = (uint8_t) (a->len - at - 1);
        emit_search(a, mid, hi);
}

static void emit_checks(struct assembler *a) {
        for (size_t i = 0; i < ARRAY_SIZE(checks); i++) {
                const struct check *c = &checks[i];

                if (c->label != TO_NEXT)
                        a->place[c->label] = a->len;
                (void) emit(a, c->code, c->k, c->yes, c->no);
        }
        for (size_t i = 0; i < ARRAY_SIZE(returns); i++) {
                a->place[returns[i].label] = a->len;
                (void) emit(a, BPF_RET | BPF_K, returns[i].value, TO_NEXT, TO_NEXT);
        }
}

/* distance of a jump at @at to @to; labels lie ahead and a program has at most 256 instructions */
static uint8_t distance(const struct assembler *a, size_t at, enum label to, uint8_t skip) {
        if (to == TO_NEXT)
                return skip;
        assert(a->place[to] > at);
        return (uint8_t) (a->place[to] - at - 1);
}

static void link_jumps(const struct assembler *a, struct seccomp_program *ret) {
        for (size_t i = 0; i < a->len; i++) {
                struct sock_filter *insn = &ret->insns[i];

                *insn = (struct sock_filter){ .code = a->insns[i].code, .k = a->insns[i].k };
                if (BPF_CLASS(insn->code) != BPF_JMP)
                        continue;
                insn->jt = distance(a, i, a->insns[i].yes, a->insns[i].skip);
                insn->jf = distance(a, i, a->insns[i].no, 0);
                if (BPF_OP(insn->code) == BPF_JA)
                        *insn = (struct sock_filter){ .code = insn->code, .k = insn->jt };
        }
        ret->len = a->len;
}

int seccomp_filter_compile(enum seccomp_arch arch, const struct seccomp_options *opt,
                           struct seccomp_program *ret, struct error *err) {
        static const uint32_t audit[] = {
                [SECCOMP_X86_64] = AUDIT_ARCH_X86_64, [SECCOMP_AARCH64] = AUDIT_ARCH_AARCH64
        };
        AUTO_FREE struct assembler *a = calloc(1, sizeof(*a));

        if (!a)
                return error_set(err, -ENOMEM, "out of memory");
        make_ranges(a, arch, opt);
        (void) emit(a, LOAD, offsetof(struct seccomp_data, arch), TO_NEXT, TO_NEXT);
        (void) emit(a, EQUAL, audit[arch], TO_NEXT, TO_KILL);
        (void) emit(a, LOAD, offsetof(struct seccomp_data, nr), TO_NEXT, TO_NEXT);
        emit_search(a, 0, a->n_ranges - 1);
        emit_checks(a);
        if (a->len > SECCOMP_PROGRAM_MAX)
                return error_set(err, -E2BIG, "seccomp: the filter needs %zu instructions, at most %d fit",
                                 a->len, SECCOMP_PROGRAM_MAX);
        link_jumps(a, ret);
        return 0;
}

int filter_load(const struct sock_filter *insns, size_t len) {
        const struct sock_fprog prog = {
                .len = (unsigned short) len,
                .filter = (struct sock_filter *) (uintptr_t) insns, /* the kernel only reads it */
        };

        return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &prog) < 0 ? -errno : 0;
}

int seccomp_filter_load(const struct seccomp_program *program) {
        return filter_load(program->insns, program->len);
}

const char *seccomp_rule_answer(const struct seccomp_rule *rule, const struct seccomp_options *opt) {
        const enum label to = target_of(rule->action, opt);

        return to == TO_ALLOW    ? "allow"
               : to == TO_EPERM  ? "EPERM"
               : to == TO_ENOSYS ? "ENOSYS"
                                 : SECCOMP_BY_ARGUMENTS;
}
