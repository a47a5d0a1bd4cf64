/*
 * fuzz-message.c - what a client of a run's control socket says: a message, then the bytes of its block
 *
 * What is accepted has the size, the type and the terminated strings that message.h promises; the strings of
 * an accepted block fill it exactly.
 */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "runtime/base/cleanup.h"
#include "runtime/base/fdpass.h"
#include "runtime/base/file.h"
#include "runtime/run/message.h"
#include "tests/fuzz/fuzz.h"

static void check(bool holds) {
        if (!holds)
                __builtin_trap();
}

static void check_block(int fd, const struct block_size *size) {
        AUTO_BLOCK struct block b = { 0 };
        const int r = block_read(fd, size, &b);
        size_t bytes;

        check(r == 0 || r == -EPROTO);
        if (r < 0)
                return;
        check(b.argv[0] && !b.argv[size->argc] && !b.env[size->envc]);
        bytes = strlen(b.cwd) + 1;
        for (uint32_t i = 0; i < size->argc; i++)
                bytes += strlen(b.argv[i]) + 1;
        for (uint32_t i = 0; i < size->envc; i++)
                bytes += strlen(b.env[i]) + 1;
        check(bytes == size->bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        const size_t head = size < sizeof(struct run_msg) ? size : sizeof(struct run_msg);
        AUTO_FD int ours = -1, theirs = -1, block = -1;
        int pair[2], fds[RUN_MSG_FDS_MAX];
        struct run_msg msg;
        size_t n = 0;
        int r;

        if (head == 0 || fdpass_pair(pair) < 0)
                return 0;
        ours = pair[0];
        theirs = pair[1];
        block = memfd_create("block", MFD_CLOEXEC);
        check(block >= 0 && write_all(block, data + head, size - head) == 0);
        check(fdpass_send(ours, data, head, &block, 1) == 0);
        r = run_msg_recv_fds(theirs, &msg, fds, &n);
        check(r == 0 || r == -EPROTO);
        check(r < 0 || (head == sizeof(msg) && n == 1 && msg.type < RUN_MSG_TYPE_COUNT));
        if (r == 0) {
                check(strlen(msg.run_id) < sizeof(msg.run_id) && strlen(msg.text) < sizeof(msg.text) &&
                      strlen(msg.failure_code) < sizeof(msg.failure_code));
                if (msg.size.bytes <= 1 << 20) /* above that the allocation is all that is new */
                        check_block(fds[0], &msg.size);
                (void) fd_close(fds[0]);
        }
        return 0;
}
