#!/usr/bin/env bash
# What programs expect of a file system: the same programs run on the bare directory and in the guard's regions, under
# the same user, namespaces and mount options, and must say the same, errno by errno. deviations.txt is what may differ.
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/../integration/lib.sh"

POSIX=${COFFERDAM_POSIX-$TOP/build/tests/posix}
PATH=$T/bin:$PATH
cp "$HELPERS/guard-mount" "$T/bin/"
find "$POSIX" -maxdepth 1 -type f -perm -u+x -exec cp {} "$T/bin/" \;

# the user inside: the caller's own number, and the other kind
own=$(id -u)
if [ "$own" = 0 ]; then ids="0 1000"; else ids="$own 0"; fi

# options_of REGION: guard-mount's
options_of() {
        case $1 in
        bare) echo -B ;;
        direct) ;;
        exclusive) echo -x ;;
        ruled) echo -b ;;
        cow) echo -c ;;
        staged) echo -s ;;
        esac
}

# in_region REGION ID DIR CMD...: CMD with DIR served so
in_region() {
        local region=$1 id=$2 dir=$3 rc=0
        shift 3
        mkdir -p "$dir.upper"
        # shellcheck disable=SC2046 # options
        timeout -k 5 "${LIMIT:-300}" guard-mount $(options_of "$region") -I "$id" -u "$dir.upper" "$dir" -- "$@" || rc=$?
        [ "$rc" != 77 ] || skip 'no user namespaces or no /dev/fuse here'
        return "$rc"
}

# calls_say REGION ID HOW: the transcript, in $W/REGION.said. HOW: the fixtures are made outside, or inside
calls_say() {
        local dir=$W/$1
        mkdir "$dir"
        if [ "$3" = outside ]; then
                calls make "$dir"
                in_region "$1" "$2" "$dir" calls run . >"$dir.said"
        else # nobody inside makes a file with a set-id bit
                in_region "$1" "$2" "$dir" sh -c 'calls make . -set-id && exec calls run . -set-id' >"$dir.said"
        fi
}

# bare_says ID HOW: the bare directory's transcript, made once, in $bare
bare_says() {
        bare=$T/bare-$1-$2
        [ -e "$bare" ] && return
        calls_say bare "$1" "$2"
        [ "$(wc -l <bare.said)" -gt 8000 ] || fail "the transcript is short"
        mv bare.said "$bare"
}

# calls_same REGION HOW ID...
calls_same() {
        local region=$1 how=$2 id
        shift 2
        for id in "$@"; do
                bare_says "$id" "$how"
                calls_say "$region" "$id" "$how"
                python3 "$TOP/tests/posix/compare.py" "$region" "$TOP/tests/posix/deviations.txt" "$bare" "$region.said"
                chmod -R u+rwX . && rm -rf ./*
        done
}

# shellcheck disable=SC2086 # two numbers
calls_everywhere() {
        local region same='says what it says on the bare directory'
        for region in direct cow; do
                t "$region: every call on what the host made $same" calls_same $region outside $ids
                t "$region: every call on what the work made $same" calls_same $region inside $ids
        done
        for region in exclusive ruled staged; do
                t "$region: every call on what the host made $same" calls_same $region outside "$own"
        done
        t "exclusive: every call on what the work made $same" calls_same exclusive inside "$own"
}

calls_everywhere

# Directories of the lower are not renamed there (EXDEV), upon which little of these topics is the same; what the work
# made is renamed.
lower_stays='-slashes -rename -rename-odd -rename-tree -sticky'

# overlay_same HOW: the kernel's overlayfs over what the guard serves, in a whole sandbox
overlay_same() {
        local run="./calls.bin run . $lower_stays" rc=0
        mkdir d bare
        [ "$1" = outside ] || run='./calls.bin make . -set-id && exec ./calls.bin run . -set-id'
        # shellcheck disable=SC2086 # names of topics
        [ "$1" != outside ] || { calls make d $lower_stays && calls make bare $lower_stays; }
        cp "$T/bin/calls" d/calls.bin
        cp "$T/bin/calls" bare/calls.bin
        sandbox --workspace "$W/d" --workspace-mode cow --engine overlay -- sh -c "$run" >overlay.said 2>errors || rc=$?
        case $rc:$(cat errors) in
        0:*) ;;
        *overlay*) skip "no overlay here: $(tail -n 1 errors)" ;;
        *) fail "$(cat errors)" ;;
        esac
        in_region bare "$own" "$W/bare" sh -c "$run" >bare.said
        [ "$(wc -l <bare.said)" -gt 4000 ] || fail 'the transcript is short'
        python3 "$TOP/tests/posix/compare.py" overlay "$TOP/tests/posix/deviations.txt" bare.said overlay.said
}

t 'overlay: calls on what the host made say what they say on the bare directory' overlay_same outside
t 'overlay: every call on what the work made says what it says on the bare directory' overlay_same inside

# what is read is what was written, whatever the way: on files that the host made, so that cow has to copy them
exercised() {
        local seed=$((RANDOM * 32768 + RANDOM)) operations=10000
        [ -z "${COFFERDAM_LONG-}" ] || operations=1000000
        echo "exercise run $seed $operations"
        mkdir d
        (cd d && exercise make "$seed")
        LIMIT=1500 in_region "$1" "$own" "$W/d" exercise run "$seed" "$operations"
}

# the checks of procs.c hold on the bare directory, and in a region
processes() {
        mkdir d
        in_region "$1" "$own" "$W/d" procs
}

processes_everywhere() {
        local region
        for region in bare direct exclusive cow; do
                t "$region: locks, mappings, appends and events of several processes" processes $region
                t "$region: random reads and writes agree with memory" exercised $region
        done
        t 'staged: random reads and writes agree with memory' exercised staged
}

processes_everywhere

# tree_in REGION LIMIT_OF_DESCRIPTORS WHAT...: trees.c, the server under the same limit
tree_in() {
        local region=$1 limit=$2
        shift 2
        mkdir d
        [ "$1" != stable ] || (cd d && trees make)
        ulimit -n "$limit"
        LIMIT=1500 in_region "$region" "$own" "$W/d" trees "$@"
}

# how many hard links there can be is what the file system below says
links_same() {
        local bare
        mkdir d
        bare=$(LIMIT=1500 in_region bare "$own" "$W/d" trees links "$2")
        [[ $bare == *links:* ]] || fail "no answer: $bare"
        eq "$bare" "$(LIMIT=1500 in_region "$1" "$own" "$W/d" trees links "$2")"
}

trees_everywhere() {
        local region many=3000 descriptors=64 links=300
        [ -z "${COFFERDAM_LONG-}" ] || many=1000000 descriptors=1024 links=65535
        for region in direct cow; do
                t "$region: names that stay are listed once while others come and go" tree_in $region 64 stable
                t "$region: $many files with $descriptors descriptors" tree_in $region $descriptors many $many
                t "$region: 1000 levels" tree_in $region 64 deep 1000
                t "$region: $links hard links" links_same $region $links
        done
}

trees_everywhere

# several programs at once, in the mode that maps a file between them
sqlite_wal() {
        need_command sqlite3
        mkdir d
        # shellcheck disable=SC2016 # for the shell inside
        in_region "$1" "$own" "$W/d" bash -ec '
                db() { sqlite3 -cmd ".timeout 60000" t.db "$@"; }
                db "pragma journal_mode=wal; create table t(who, n);" >/dev/null
                for who in 1 2 3 4; do
                        for ((n = 0; n < 15; n++)); do
                                echo "insert into t values($who, $n);"; echo "select count(*) from t;"
                        done | sqlite3 -cmd ".timeout 60000" t.db >"out$who" & pids+=($!)
                done
                for pid in "${pids[@]}"; do wait "$pid"; done
                db "select count(*), count(distinct who) from t; pragma integrity_check; pragma journal_mode;" >said
                printf "60|4\nok\nwal\n" | diff - said
                for who in 1 2 3 4; do sort -nc "out$who"; done'
        [ "$1" = cow ] || eq '60' "$(sqlite3 d/t.db 'select count(*) from t')" 'rows on the host'
}

# what a mapping inside writes is on the host when msync returns; what the host writes is seen inside within the
# time that attributes are kept, by whoever asks for them
mapped_by_both() {
        mkdir d
        printf '%4096s' '' >d/f
        in_region direct "$own" "$W/d" python3 -c '
import mmap, os, time
f = open("f", "r+b"); m = mmap.mmap(f.fileno(), 4096)
assert m[1:2] == b" "
m[0:1] = b"I"; m.flush(); open("inside", "w").close()
while not os.path.exists("outside"): time.sleep(0.01)
end = time.monotonic() + 1.5
while True: # who asks after that time sees it, however late the machine lets him ask
    began = time.monotonic(); os.stat("f")
    if m[1:2] == b"O": break
    assert began < end, "not seen"
    time.sleep(0.02)
assert m[0:1] == b"I" and os.pread(f.fileno(), 2, 0) == b"IO"' &
        wait_for 60 test -e d/inside || fail 'nothing inside'
        eq I "$(head -c 1 d/f)" 'the host'
        printf O | dd of=d/f bs=1 seek=1 conv=notrunc status=none
        : >d/outside
        wait $!
        eq IO "$(head -c 2 d/f)" 'the host'
}

for region in direct exclusive cow; do t "$region: SQLite in WAL mode from several processes" sqlite_wal $region; done
t 'direct: a mapping inside and a writer outside' mapped_by_both

finish
