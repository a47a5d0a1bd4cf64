#!/usr/bin/env bash
# What a person does on the host while the work looks: seen inside within a second, and never half
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/lib.sh"

g() {
        local rc=0
        "$HELPERS/guard-mount" "$W" -- "$@" || rc=$?
        [ "$rc" != 77 ] || skip 'no user namespaces or no FUSE'
        return "$rc"
}

# watched BEFORE CHECK EDIT: inside, BEFORE runs (Python), then CHECK is asked until it is true, at least each 10 ms, so
# that what the kernel has cached is as new as can be when EDIT happens on the host. What is asked is asked all the time:
# an entry that nobody looks at has timed out anyway.
watched() {
        g python3 -c "
import mmap, os, time
$1
def seen():
    $2
assert not seen(), 'before anything happened'
open('ready', 'w').close()
end = time.time() + 20
while not seen():
    assert time.time() < end, 'never seen'
    time.sleep(0.01)
print(time.time())
" >"$T/seen" &
        local inside=$!
        wait_for 20 test -e ready
        sleep 0.3
        (eval "$3")
        local edited
        edited=$(date +%s.%N)
        wait "$inside" || fail "not seen: $3"
        # half a second for a machine that is busy
        awk -v a="$edited" -v b="$(cat "$T/seen")" 'BEGIN { exit !(b - a < 1.5) }' || fail "seen after $(cat "$T/seen") - $edited s"
}

content() {
        echo one >f
        watched '' "return open('f').read() == 'two\n'" 'echo two >f' # of the same size
}
content_open() {
        echo one >f
        watched "f = os.open('f', os.O_RDONLY)" "return os.pread(f, 9, 0) == b'two\n'" 'echo two >f'
}
size() {
        echo one >f
        watched '' "return os.stat('f').st_size == 9" 'echo more! >>f; truncate -s 9 f'
}
mode() {
        echo one >f
        watched '' "return os.stat('f').st_mode & 0o777 == 0o640" 'chmod 640 f'
}
new_name() { watched '' "return os.path.exists('new')" 'touch new'; }
new_in_list() { watched '' "return 'new' in os.listdir('.')" 'touch new'; }
deleted() {
        touch f
        watched '' "return not os.path.exists('f')" 'rm f'
}
replaced() {
        echo one >f
        watched '' "return open('f').read() == 'second\n'" 'echo second >tmp; mv tmp f'
}
directory_moved() {
        mkdir -p d/sub
        echo one >d/sub/f
        watched '' "return not os.path.exists('d/sub/f') and open('e/sub/f').read() == 'one\n'" 'mv d e'
}
directory_swapped() {
        mkdir d e
        echo one >d/f
        echo two >e/f
        watched '' "return open('d/f').read() == 'two\n'" 'mv d x; mv e d; mv x e'
}
# a mapping has the kernel's pages; they go when somebody asks for the file's attributes
mapped() {
        head -c 65536 /dev/zero | tr '\0' a >f
        watched "f = os.open('f', os.O_RDONLY); m = mmap.mmap(f, 65536, prot=mmap.PROT_READ)" \
                "os.stat('f'); return m[0] == ord('b') and m[65535] == ord('b')" 'tr a b <f >tmp; cat tmp >f'
}

# Files of many pages, of which some are cached, are written anew on the host in one go; whoever opens one then reads it
# as it was, or as it is, but not in part. Red when the kernel is told to keep its pages whatever the file's time says.
never_torn() {
        local round
        for round in 1 2 3 4 5 6 7 8; do
                head -c 262144 /dev/zero | tr '\0' a >f$round
        done
        mkfifo "$T/go"
        exec 7<>"$T/go"
        g python3 -c "
import os
for i in range(1, 9):
    name = 'f%d' % i
    with open(name, 'rb') as f:
        os.posix_fadvise(f.fileno(), 0, 0, os.POSIX_FADV_RANDOM)
        assert f.read(4096) == b'a' * 4096
    os.stat(name)
    open('ready%d' % i, 'w').close()
    input() # a name would be looked up a second later
    got = set(open(name, 'rb').read())
    assert len(got) == 1, 'torn: %s' % got
" <&7 &
        local inside=$!
        for round in 1 2 3 4 5 6 7 8; do
                wait_for 20 test -e ready$round || fail 'ended early'
                head -c 262144 /dev/zero | tr '\0' b | dd of=f$round conv=notrunc bs=262144 iflag=fullblock status=none
                echo >&7
        done
        wait "$inside"
}

# pages of what the work itself wrote are kept: read back without a question to the host
own_pages_stay() {
        g python3 -c "
import os
data = os.urandom(1 << 20)
with open('f', 'wb') as f:
    f.write(data)
for _ in range(3):
    with open('f', 'rb') as f:
        assert f.read() == data
"
        eq 1048576 "$(stat -c %s f)"
}

t 'content of the same size' content
t 'content of an open file' content_open
t 'a size' size
t 'a mode' mode
t 'a new name' new_name
t 'a new name in a listing' new_in_list
t 'a deleted name' deleted
t 'a file that is replaced' replaced
t 'a directory that is moved' directory_moved
t 'a directory that takes the place of another' directory_swapped
t 'a mapping' mapped
t 'a file is old or new, not half of each' never_torn
t 'what the work wrote is what it reads' own_pages_stay
finish
