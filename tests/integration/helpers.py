"""One system call made by another process, which is stopped for it: what its filter says. x86-64, as root.

Usage: helpers.py PID NUMBER [ARG...]. Prints the answer, "errno N", "returned N" or "killed by N".
"""
import ctypes
import os
import sys
import time

libc = ctypes.CDLL(None, use_errno=True)
libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
libc.ptrace.restype = ctypes.c_long
SINGLESTEP, GETREGS, SETREGS, ATTACH, DETACH = 9, 12, 13, 16, 17
WALL = 0x40000000
NAMES = ("r15 r14 r13 r12 rbp rbx r11 r10 r9 r8 rax rcx rdx rsi rdi orig_rax rip cs eflags rsp ss fs_base gs_base ds es fs gs").split()


class Regs(ctypes.Structure):
    _fields_ = [(n, ctypes.c_ulonglong) for n in NAMES]


def ptrace(what, pid, address=None, data=None):
    if libc.ptrace(what, pid, address, data) < 0:
        sys.exit(f"ptrace {what}: {os.strerror(ctypes.get_errno())}")


def stopped_in_a_call(pid, regs):
    ptrace(ATTACH, pid)
    os.waitpid(pid, WALL)
    ptrace(GETREGS, pid, None, ctypes.byref(regs))
    with open(f"/proc/{pid}/mem", "rb") as mem:
        mem.seek(regs.rip - 2)
        return mem.read(2) == b"\x0f\x05"


def main():
    pid, nr, args = int(sys.argv[1]), int(sys.argv[2]), [int(a) for a in sys.argv[3:]]
    before, regs = Regs(), Regs()
    end = time.monotonic() + 30
    while not stopped_in_a_call(pid, before):
        ptrace(DETACH, pid)  # it had something to do at that moment
        if time.monotonic() > end:
            sys.exit("it does not wait in a system call")
        time.sleep(0.05)
    ctypes.pointer(regs)[0] = before
    regs.rip, regs.rax, regs.orig_rax = before.rip - 2, nr, ctypes.c_ulonglong(-1).value
    for name, value in zip(("rdi", "rsi", "rdx", "r10", "r8", "r9"), args):
        setattr(regs, name, value & (1 << 64) - 1)
    ptrace(SETREGS, pid, None, ctypes.byref(regs))
    ptrace(SINGLESTEP, pid)
    status = os.waitpid(pid, WALL)[1]
    if os.WIFSIGNALED(status):
        print("killed by", os.WTERMSIG(status))
        return
    ptrace(GETREGS, pid, None, ctypes.byref(regs))
    ptrace(SETREGS, pid, None, ctypes.byref(before))  # it asks again what it was asking
    ptrace(DETACH, pid)
    value = ctypes.c_longlong(regs.rax).value
    print("errno" if value < 0 else "returned", abs(value))


main()
