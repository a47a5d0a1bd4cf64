#!/usr/bin/env bash
# libcofferdam as others see it: installed, found with pkg-config, compiled against, run
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/lib.sh"

# as.sh has installed it for an ordinary user
D=$TOP/installed
if [ ! -d "$D" ]; then
        D=$T/installed
        built=$(dirname "${COFFERDAM:-$TOP/build/cofferdam}") # or the directory the link in it leads to
        [ -e "$built/meson-private" ] || built=$(dirname "$built")
        DESTDIR=$D meson install -C "$built" --no-rebuild --quiet >"$T/install.log" 2>&1 ||
                { cat "$T/install.log"; exit 99; }
fi
LIB=$(dirname "$(find "$D" -name libcofferdam.so)")
export PKG_CONFIG_SYSROOT_DIR=$D PKG_CONFIG_PATH=$LIB/pkgconfig LD_LIBRARY_PATH=$LIB

# compile SOURCE RESULT [OPTION...]
compile() {
        local source=$1 result=$2
        shift 2
        # shellcheck disable=SC2046 # words
        cc -Wall -Wextra -Werror "$@" $(pkg-config --cflags libcofferdam) "$source" -o "$result" \
                $(pkg-config --libs libcofferdam) || fail "compile $source"
}

installed_files() {
        local h
        h=$(cd "$D" && find . -name '*.h')
        eq 1 "$(wc -l <<<"$h")" 'headers'
        pkg-config --exists libcofferdam
        eq "$("$C" version | sed 's/.* //')" "$(pkg-config --modversion libcofferdam)"
        cmp "$C" "$D$(pkg-config --variable=program libcofferdam | sed "s|^$D||")"
        # what it needs of the system is no more than it reads documents with
        eq 'libc.so.6 libjansson.so.4 libyaml-0.so.2' \
                "$(readelf -d "$LIB/libcofferdam.so" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' | sort | tr '\n' ' ' | sed 's/ $//')"
}

header_is_c_and_cxx() {
        local std h
        h=$(find "$D" -name cofferdam.h)
        need_command c++
        for std in c99 c11 gnu17; do
                echo '#include <cofferdam.h>' | cc -x c -std=$std -pedantic -Wall -Wextra -Wstrict-prototypes -Werror -fsyntax-only -I"$(dirname "$h")" - || fail $std
        done
        for std in c++11 c++17; do
                echo '#include <cofferdam.h>' | c++ -x c++ -std=$std -pedantic -Wall -Wextra -Werror -fsyntax-only -I"$(dirname "$h")" - || fail $std
        done
}

# Red when a function is added to or taken from the map without the list, or its version changes: the list only grows.
symbols_are_listed() {
        nm -D --defined-only "$LIB/libcofferdam.so" | awk '$2 == "T" { print $3 }' | LC_ALL=C sort >have
        diff "$TOP/tests/assets/library/symbols.txt" have || fail 'symbols'
        grep -oE '\bcofferdam_[a-z_]+\(' "$TOP/runtime/lib/cofferdam.h" | tr -d '(' | LC_ALL=C sort -u >declared
        sed 's/@.*//' have | diff declared - || fail 'the header declares what is not there, or the reverse'
}

# A library that prints, exits, forks or changes signals would have to import the function for it.
imports_nothing_of_the_process() {
        local names
        names='exit|_exit|abort|fork|vfork|pthread_create|signal|sigaction|sigprocmask|pthread_sigmask|chdir|fchdir|umask|setenv|putenv|unsetenv|clearenv|setrlimit64|prctl|printf|vprintf|__printf_chk|puts|putchar|fputs|fwrite|perror|dprintf|stdout|stderr|kill|raise|secure_getenv'
        nm -D -u "$LIB/libcofferdam.so" | sed 's/.* //; s/@.*//' >imports
        ! grep -xE "$names" imports || fail 'imports'
}

example() {
        compile "$TOP/docs/examples/steps.c" steps -std=c11 -D_POSIX_C_SOURCE=200809L
        mkdir ws
        status 3 env STEPS_PROGRAM="$C" ./steps "$W/ws" 'echo one >f; mkdir -p .git/hooks; echo x >.git/hooks/pre-commit' \
                'cat f; echo two >&2' 'exit 3' 'echo never' >out 2>err
        has "$(cat out)" $'one\ntwo'
        has "$(cat out)" 'waits for review: A .git/hooks/pre-commit'
        has "$(cat out)" ': sandbox_finished'
        lacks "$(cat out)" never
        eq '' "$(cat err)" stderr
        eq one "$(cat ws/f)"
        [ ! -e ws/.git/hooks/pre-commit ] || fail 'a held file is on the host'
        "$C" rm -f "$(sed -n 's/^run //p' out)" >rm.out
}

# use_in WORKSPACE TEST
use_in() {
        [ -x "$T/library-use" ] || compile "$TOP/tests/integration/library-use.c" "$T/library-use" -std=gnu17 -D_GNU_SOURCE -pthread
        timeout -k 5 120 "$T/library-use" "$2" "$C" "$T/state/cofferdam" "$1" </dev/null >out 2>&1
}

user_of_library() {
        mkdir ws
        use_in "$W/ws" "$1"
}

# One object with the names of the interface and no other: those inside are words that others use, too.
static_library() {
        local line
        nm -g --defined-only "$LIB/libcofferdam.a" 2>/dev/null | awk '$2 == "T" { print $3 }' | LC_ALL=C sort >have
        sed 's/@.*//' "$TOP/tests/assets/library/symbols.txt" | diff - have || fail 'names'
        eq '' "$(nm -g --defined-only "$LIB/libcofferdam.a" | awk 'NF == 3 && $2 != "T"')" 'other names'
        line=$(pkg-config --static --libs libcofferdam)
        # shellcheck disable=SC2046,SC2086 # words
        cc -static $(pkg-config --cflags libcofferdam) -D_POSIX_C_SOURCE=200809L "$TOP/docs/examples/steps.c" -o steps $line
        mkdir ws
        status 0 env -u LD_LIBRARY_PATH STEPS_PROGRAM="$C" ./steps "$W/ws" 'echo static' >out
        has "$(cat out)" static
        "$C" rm -f "$(sed -n 's/^run //p' out)" >rm.out
}

# use TEST: of library-use.c; the library itself says nothing
use() {
        user_of_library "$1" || fail "$(cat out)"
        eq '' "$(cat out)" 'what was printed'
}

values() { HOME=/leaked LEAKED=yes XDG_STATE_HOME=/leaked XDG_CONFIG_HOME=/leaked use values; }
# the shell says that it was killed
# Field by field what a command of the command line has: credentials, capabilities, filters, signals, limits, session,
# descriptors. Red when engine.c leaves the signals as they are.
same_walls() {
        cat >look.sh <<'END'
grep -E '^(Umask|Uid|Gid|Groups|Cap|NoNewPrivs|Seccomp|Sig(Blk|Ign|Cgt))' /proc/self/status
cat /proc/self/limits /proc/self/oom_score_adj
ls /proc/self/fd
[ "$(cut -d' ' -f6 /proc/$$/stat)" = $$ ] && echo leads
pwd
env | grep -v COFFERDAM_RUN_ID | sort
echo end
END
        "$C" start --name walls -w "$W" >id
        { "$C" exec walls sh look.sh && "$C" run -w "$W" sh look.sh; } </dev/null 2>&1 | cat >want
        use_in "$W" walls >/dev/null || fail "$(cat out)"
        diff want out || fail 'walls'
        eq 2 "$(grep -c '^end$' out)"
        eq 2 "$(grep -c '^leads$' out)"
        "$C" stop -t 0 walls >/dev/null
        "$C" rm -f "$(cat id)" >/dev/null
}

host_dies() {
        (user_of_library die) 2>/dev/null && fail 'it lives'
        eq '' "$(cat out)" 'what was printed'
        wait_for 60 none_live 'sleep 4322' || fail 'the command outlives its owner'
}

t 'one header, one pkg-config file, the program beside it' installed_files
t 'the header is C and C++' header_is_c_and_cxx
t 'symbols are those of the list, with a version' symbols_are_listed
t 'it can neither print nor exit nor touch signals' imports_nothing_of_the_process
t 'the example' example
t 'the static library' static_library
t 'commands: exit codes, environment, directory, signals, waits' use commands
t 'structures of callers of other versions' use sizes
t 'a terminal' use terminal
t 'files as streams' use files
t 'freeing ends what was started' use free
t 'the end of the process ends its run' host_dies
t 'the end of the process between is told' use lost
t 'a run that the caller cannot take ends' use starved
t 'lists, reports, events' use reports
t 'diff, apply, discard' use changes
t 'verbs of the command line' use verbs
t 'mistakes have a text and a code' use mistakes
t 'a context of values' values
t 'signals, umask, directory, environment and children of the caller' use surroundings
t 'the walls are those of the command line' same_walls
t 'a caller that waits for every child' use reaper
t 'no descriptor of the caller reaches a run' use descriptors
t 'twenty threads at once, with locks held' use threads
finish
