#!/usr/bin/env bash
# What a person does on the host while the work looks: seen inside within a second, and never half
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/lib.sh"

# options of guard-mount
OPTIONS=()

g() {
        local rc=0
        "$HELPERS/guard-mount" "${OPTIONS[@]}" "$W" -- "$@" || rc=$?
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
def check():
    $2
def seen(): # an edit may be of several steps, with nothing there in between
    try:
        return check()
    except FileNotFoundError:
        return False
assert not seen(), 'before anything happened'
open('ready', 'w').close()
end = time.time() + 60
last = began = time.time()
while not seen():
    last = began
    assert last < end, 'never seen'
    time.sleep(0.01)
    began = time.time()
print(last) # when the last one was asked that did not see it: how long it took to be told is the machine's
" >"$T/seen" 2>"$T/notices" &
        local inside=$!
        wait_for 60 test -e ready || fail "$(cat "$T/notices")"
        sleep 0.3
        (eval "$3")
        local edited
        edited=$(date +%s.%N)
        wait "$inside" || fail "not seen: $3: $(tail -n 3 "$T/notices")"
        # half a second for a machine that is busy
        awk -v a="$edited" -v b="$(cat "$T/seen")" 'BEGIN { exit !(b - a < 1.5) }' || fail "not seen at $(cat "$T/seen"), edited at $edited"
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
                "os.stat('f'); return m[0] == ord('b') and m[65535] == ord('b')" 'tr a b <f >tmp; cat tmp 1<>f' # without a moment in which it is short: a mapping ends with SIGBUS there
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
                wait_for 60 test -e ready$round || fail 'ended early'
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

# ---- cache: exclusive ----
#
# The same edits, and who has not the kernel for himself is told. Each of these is red when sole_end() does not sweep,
# or sole_watch() does nothing.
exclusive() {
        OPTIONS=(-x -n)
        "$@"
        wait_for 60 grep -q not-alone "$T/notices" || fail 'nothing was told'
}

server_of() { cut -d' ' -f1 "/proc/$1/task/$1/children"; }

# Nobody is asked: the server is stopped, and what was looked at 2 s before is there still. Red with the timeouts of
# cache: shared.
remembered() {
        local i asked=0
        mkdir d
        for i in 1 2 3; do echo $i >d/f$i; done
        mkfifo "$T/go2"
        exec 7<>"$T/go2"
        "$HELPERS/guard-mount" -x -n "$W" -- python3 -c "
import os
import sys, time
def look():
    return [os.stat('d/f%d' % i).st_size for i in (1, 2, 3)], os.stat('d').st_mode & 0o777
look()
time.sleep(1.2) # a directory is remembered once it was asked for again
open('ready', 'w').close()
look()
sys.stdin.readline()
print(*look())
" <&7 >"$T/said" 2>"$T/notices" &
        local mount=$!
        wait_for 60 test -e ready || fail "$(cat "$T/notices")"
        sleep 2
        kill -STOP "$(server_of "$mount")"
        echo >&7
        wait_for 60 test -s "$T/said" || asked=1
        kill -CONT "$(server_of "$mount")"
        wait "$mount"
        eq 0 "$asked" 'questions to the server'
        eq '[2, 2, 2] 493' "$(cat "$T/said")"
        eq '' "$(cat "$T/notices")" 'notices'
}

# All ways of changing something are the run's own doing. Red when is_foreign() does not look at the process.
alone_while_working() {
        OPTIONS=(-x -n)
        g sh -ec '
git init -q r && cd r && seq 1 500 | while read -r i; do echo $i >f$i; done
git add . && git commit -qm f && git gc -q && git checkout -qb b && git mv f1 g1 && git commit -qam g && git checkout -q master 2>/dev/null || git checkout -q main
cd .. && python3 -c "
import mmap, os
f = os.open(\"m\", os.O_RDWR | os.O_CREAT); os.ftruncate(f, 8192); m = mmap.mmap(f, 8192); m[0:3] = b\"abc\"; m.flush(); m.close()
os.link(\"m\", \"n\"); os.chmod(\"m\", 0o600); os.utime(\"n\"); os.symlink(\"m\", \"s\"); os.rename(\"n\", \"o\"); os.mkfifo(\"p\")
os.posix_fallocate(f, 0, 65536); os.copy_file_range(f, f, 4096, 0, 16384); os.setxattr(\"m\", \"user.a\", b\"b\"); os.unlink(\"o\")
os.mkdir(\"d\"); os.rename(\"d\", \"e\"); os.rmdir(\"e\")
"
printf "all: a.o b.o\n\tcat a.o b.o >all\n%%.o: %%.c\n\tcp \$< \$@\n" >Makefile && echo a >a.c && echo b >b.c && make -s && touch a.c && make -s
' 2>"$T/notices"
        lacks "$(cat "$T/notices")" not-alone
        git -C r fsck --strict
        eq '1 a b' "$(cat r/f1 all | xargs)"
}

# A name of the file that is not in the region is not watched: the file is asked for as if it were shared.
linked_elsewhere() {
        OPTIONS=(-x -n)
        echo one >"$T/elsewhere"
        ln -f "$T/elsewhere" f
        watched '' "return os.stat('f').st_size == 9" "echo more! >>$T/elsewhere; truncate -s 9 $T/elsewhere"
        lacks "$(cat "$T/notices")" not-alone
        rm "$T/elsewhere"
}

# somebody who writes by way of a mapping is noticed when he lets go of it
mapped_by_host() {
        head -c 4096 /dev/zero | tr '\0' a >f
        watched "f = os.open('f', os.O_RDONLY)" "return os.pread(f, 1, 0) == b'b'" 'python3 -c "
import mmap, os
m = mmap.mmap(os.open(\"f\", os.O_RDWR), 4096); m[0:1] = b\"b\"; m.close()"'
}

ready_or_over() { [ -e ready ] || ! kill -0 "$1" 2>/dev/null; }

# More directories than may be watched: said, and an edit in one that is not is seen.
no_more_marks() {
        mkdir d1 d2 d3 d4
        echo one >d4/f
        cat >"$T/inside.py" <<'EOF'
import os, time
for i in range(1, 5):
    os.listdir('d%d' % i)
assert os.stat('d4/f').st_size == 4
open('ready', 'w').close()
end = time.time() + 60
while os.stat('d4/f').st_size == 4:
    assert time.time() < end, 'never seen'
    time.sleep(0.01)
EOF
        unshare -Ur true 2>/dev/null || skip 'no user namespaces'
        unshare -Ur sh -c "echo 3 >/proc/sys/user/max_fanotify_marks || exit 77
exec '$HELPERS/guard-mount' -x -n '$W' -- python3 '$T/inside.py'" 2>"$T/notices" &
        local inside=$! rc=0
        wait_for 60 ready_or_over "$inside" || true
        if [ ! -e ready ]; then
                wait "$inside" || rc=$?
                [ "$rc" != 77 ] || skip 'no limit of marks for a user namespace here'
                fail "$(cat "$T/notices")"
        fi
        wait_for 60 grep -q 'more directories than fs.fanotify.max_user_marks allows' "$T/notices" || fail 'nothing was told'
        echo more >>d4/f
        wait "$inside"
}

# ---- runs ----

# alone [OPTION...] -- CMD...: a run that has asked for cache: exclusive; its events in $T/events
alone() {
        echo 'workspace: {cache: exclusive}' >"$T/exclusive.yaml"
        rm -f "$T/events"
        sandbox -s "$T/exclusive.yaml" --events "$T/events" "$@"
}
degraded() { grep '"sandbox_degraded"' "$T/events" 2>/dev/null || true; }

# another_run VERB-OPTION...: a run that lives in the current directory, in $id
another_run() { id=$("$C" start "$@") || fail 'start'; }

run_works_alone() {
        alone -- sh -ec '
git init -q r && cd r && seq 1 300 | while read -r i; do echo $i >f$i; done && git add . && git commit -qm f && git gc -q
printf "all: a.o\n\tcp a.o all\na.o: a.c\n\tcp a.c a.o\n" >Makefile && echo a >a.c && make -s && touch a.c && make -s'
        eq '' "$(degraded)" 'degraded'
        git -C r fsck --strict
        git -C r diff --exit-code
        eq '300 a' "$(cat r/f300 r/all | xargs)"
}

# an editor
run_is_told() {
        echo one >f
        alone -- sh -c 'cat f && touch ready && until grep -q two f; do sleep 0.05; done; cp f g' >"$T/out1" &
        local run=$!
        wait_for 60 test -e ready || fail 'not started'
        echo two >f
        wait "$run"
        eq two "$(cat g)"
        has "$(degraded)" '"wanted":"cache exclusive","got":"cache shared","reason":"another program changed '"'f'"
}

# Red when overlap() looks one way only, or writes() at nothing.
run_is_refused() {
        local id where
        mkdir -p a/b
        cd a
        another_run
        for where in . b ..; do
                status 125 alone --workspace "$where" -- true 2>err
                has "$(cat err)" "run $id writes in '$W/a'"
                has "$(cat err)" 'stop it, use shared'
        done
        mkdir ../c # beside it is nobody
        alone --workspace ../c -- true
        alone --isolation degrade -- sh -c 'echo works >file' 2>err
        eq works "$(cat file)"
        has "$(cat err)" "degraded: cache shared instead of cache exclusive: run $id"
        has "$(degraded)" "run $id writes in"
        "$C" stop -t 0 "$id"
        alone -- true
        another_run --workspace-mode ro # writes nothing
        alone -- true
        "$C" stop -t 0 "$id"
}

# a later run is not kept out; it is a writer like any other
later_run() {
        alone -- sh -c 'touch ready && until test -e finished; do sleep 0.05; done' &
        local run=$!
        wait_for 60 test -e ready || fail 'not started'
        sandbox -- touch finished
        wait "$run"
        has "$(degraded)" "made 'finished'"
}

# Both look at the same moment: one has to see the other. Red when alone_look() takes no lock.
two_at_once() {
        local i n
        echo 'workspace: {cache: exclusive}' >"$T/exclusive.yaml"
        for i in 1 2 3; do
                "$C" start -s "$T/exclusive.yaml" >"$T/id1" 2>"$T/err1" &
                "$C" start -s "$T/exclusive.yaml" >"$T/id2" 2>"$T/err2" || true
                wait $! || true
                n=$(cat "$T/id1" "$T/id2" | wc -l)
                "$C" stop -t 0 "$(cat "$T/id1" "$T/id2" | head -n 1)"
                eq 1 "$n" "runs that started: $(cat "$T"/err1 "$T"/err2)"
        done
}

# what was written is on the host, whoever dies; fsync or not
killed() {
        alone -- python3 -c "
import os, time
f = os.open('f', os.O_CREAT | os.O_WRONLY)
for i in range(1000):
    os.write(f, b'0123456789')
os.fsync(f)
os.write(f, b'the end')
os.mkdir('ready')
time.sleep(100)" &
        local run=$!
        wait_for 60 test -e ready || fail 'not started'
        for pid in $(ours); do kill -KILL "$pid" 2>/dev/null || true; done # some end with another
        wait "$run" || true
        eq 10007 "$(stat -c %s f)"
}

# other machines write to it unseen
not_local() {
        [ "$(stat -f -c %T /proc)" = proc ] && [ "$(id -u)" = 0 ] || skip 'only root can make such a mount'
        status 125 unshare -m sh -c "mount -t 9p none '$W' 2>/dev/null || mount -t hugetlbfs none '$W' || exit 77
'$C' run -s '$T/exclusive.yaml' --workspace '$W' -- true" 2>err
        has "$(cat err)" 'workspace.cache: exclusive is not possible here'
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

t 'exclusive: what was looked at is there without the server' remembered
t 'exclusive: whatever the work does, it is alone' alone_while_working
t 'exclusive: content of the same size' exclusive content
t 'exclusive: content of an open file' exclusive content_open
t 'exclusive: a size' exclusive size
t 'exclusive: a mode' exclusive mode
t 'exclusive: a new name' exclusive new_name
t 'exclusive: a new name in a listing' exclusive new_in_list
t 'exclusive: a deleted name' exclusive deleted
t 'exclusive: a file that is replaced' exclusive replaced
t 'exclusive: a directory that is moved' exclusive directory_moved
t 'exclusive: a directory that takes the place of another' exclusive directory_swapped
t 'exclusive: a mapping' exclusive mapped
t 'exclusive: a store into a mapping of the host' exclusive mapped_by_host
t 'exclusive: a file with a name elsewhere' linked_elsewhere
t 'exclusive: more directories than can be watched' no_more_marks
t 'run: alone, and everything is on the host' run_works_alone
t 'run: an editor ends it, with an event' run_is_told
t 'run: refused or shared where another run writes' run_is_refused
t 'run: a later run ends it' later_run
t 'run: two that start at once' two_at_once
t 'run: what was written stays when all of it is killed' killed
t 'run: a file system that others may write to' not_local
finish
