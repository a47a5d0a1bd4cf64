#!/usr/bin/env bash
# Test suites of ten programs, on the host and in each driver: as many tests pass inside as outside. By hand, since it
# takes hours: COFFERDAM_PROGRAMS=1 tests/integration/as.sh user programs [PROGRAM...]
# COFFERDAM_DRIVERS: in which of them (default: native podman docker). A line is printed as each suite ends.
# What they are built with is installed by COFFERDAM_PROGRAMS=1 ./dev setup.
# shellcheck disable=SC2054,SC2034,SC2046,SC2016,SC2031,SC2317 # suites are named by their programs, functions too
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/../integration/lib.sh"
# shellcheck source=tests/integration/engine-lib.sh
. "$(dirname "$0")/../integration/engine-lib.sh"

[ "${COFFERDAM_PROGRAMS-}" ] || {
        echo '1..0 # SKIP opt-in: COFFERDAM_PROGRAMS=1 runs the test suites of ten programs in each driver'
        exit 0
}
# a root without programs, where the host's are shown: the same ones everywhere
make_image() {
        local root=$E/image name
        [ ! -e "$E/image.tar" ] || return 0
        mkdir -p "$root/etc" "$root/usr/local/bin" "$root/proc" "$root/dev" "$root/tmp"
        for name in bin sbin lib lib64; do ln -s "usr/$name" "$root/$name"; done
        cp /etc/passwd /etc/group /etc/nsswitch.conf /etc/services /etc/protocols "$root/etc/"
        tar -C "$root" -cf "$E/image.tar" .
}
bare=()
[ "$(id -u)" != 0 ] || bare=(setpriv --bounding-set=-all --inh-caps=-all)
shown=(--image busy:1 --mount type=bind,source=/usr,target=/usr,readonly --mount type=bind,source=/etc/alternatives,target=/etc/alternatives,readonly)
drivers=()
sources=$T/sources

# The sources of Debian, checked by apt-get with Debian's key.
fetch() {
        mkdir -p "$sources/lists/partial" "$sources/cache/archives/partial"
        echo "deb-src [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] http://deb.debian.org/debian $(. /etc/os-release && echo "$VERSION_CODENAME") main" \
                >"$sources/list"
        local options=(-q -o "Dir::Etc::sourcelist=$sources/list" -o Dir::Etc::sourceparts=/dev/null
                -o "Dir::State::lists=$sources/lists" -o "Dir::Cache=$sources/cache")
        (cd "$sources" && apt-get "${options[@]}" update && apt-get "${options[@]}" source --download-only "$@") >"$T/fetch" 2>&1
}

# Each program: build_X where its sources are, on the host; suite_X is shell that runs inside too; counts read its log.
build_jq() { autoreconf -fi && ./configure --disable-docs --disable-maintainer-mode && make; }
suite_jq='make check'
build_gzip() { ./configure && make; }
suite_gzip='make check'
build_sed() { ./configure && make; }
suite_sed='make check'
build_tar() { ./configure && make && make -C tests testsuite; }
suite_tar='make check'
build_sqlite3() { ./configure --with-tcl=/usr/lib/tcl8.6 && make testfixture; }
suite_sqlite3='for t in select1 insert update delete index trans lock attach alter func expr join vacuum wal wal2 pragma pager1 collate1 savepoint tempdb; do ./testfixture test/$t.test; done'
build_lua51() { make linux MYLIBS="-Wl,-E -ldl -lreadline -lncurses"; }
suite_lua51='for t in test/*.lua; do case $t in *readonly* | *life*) continue ;; esac; if src/lua $t </dev/null >/dev/null 2>&1; then echo "PASS: $t"; else echo "FAIL: $t"; fi; done'
build_zlib() { ./configure && make; }
suite_zlib='make test'
build_git() { make NO_TCLTK=1 NO_GETTEXT=1 NO_CURL=1 NO_EXPAT=1 NO_PYTHON=1 all; }
suite_git='cd t && for t in t00[0-4][0-9]-*.sh t0050-*.sh; do sh ./$t; done'
build_busybox() { make defconfig && sed -i "s/^CONFIG_TC=y/# CONFIG_TC is not set/" .config && make; }
# it leaves a file of whoever was first in the /tmp of the host, which root without capabilities cannot write
suite_busybox='cd testsuite && SKIP_KNOWN_BUGS=1 ./runtest; rm -f /tmp/passwd'
build_bash() { ./configure --without-bash-malloc && make; }
suite_bash='make -k tests'

# what differs, by the names that suites give, and why
declare -A differs=(
        # nothing in a workspace gets such a bit: cofferdam-guard(7); the host's name, which an engine writes to /etc/hosts
        [busybox]='cpio restores suid/sgid bits|hostname-d-works'
        # the configuration of a repository is held, so that no rename carries it elsewhere, and git does not copy: EXDEV
        [git]='re-init to move gitdir'
)

# passed PROGRAM FILE: how many lines of the log say that a test passed; the suites say it in their own ways
passed() {
        if [ "${differs[$1]-}" ]; then
                sed -Ei "/${differs[$1]//\//\\/}/d" "$2"
        fi
        case $1 in
        tar) grep -cE '^ *[0-9]+: .* ok$' "$2" ;;
        sqlite3) sed -n 's/^\([0-9]*\) errors out of \([0-9]*\) tests.*/\2 \1/p' "$2" | awk '{ n += $1 - $2 } END { print n + 0 }' ;;
        zlib) grep -c 'test OK' "$2" ;;
        git) grep -c '^ok ' "$2" ;;
        bash) awk '/^run-/ { n++ } /^[<>]/ { bad++ } END { print n + 0, bad + 0, "lines differ" }' "$2" ;;
        *) grep -cE '^ ?(PASS|ok)\b' "$2" ;;
        esac
}

unpacked() {
        local source=$1
        [ "$1" != lua51 ] || source=lua5.1
        # of lua, what its authors wrote: Debian's build is one for libraries
        dpkg-source --no-check $([ "$1" = lua51 ] && echo --skip-patches) -x "$sources/$source"_*.dsc "$W/$1"
}

as_inside='
import os, signal, sys
for s in (signal.SIGPIPE, signal.SIGXFSZ):
    signal.signal(s, signal.SIG_DFL)
os.closerange(3, 4096)
os.execvp(sys.argv[1], sys.argv[1:])'

compare() {
        local name=$1 driver suite=suite_$1 wanted="" got options differ="" began
        unpacked "$name" >build.log 2>&1 || fail "unpack: $(tail -n 5 build.log)"
        (cd "$name" && "build_$name") >build.log 2>&1 </dev/null || fail "build: $(tail -n 20 build.log)"
        mv "$name" built
        for driver in host "${drivers[@]}"; do # each at the path that the suite was configured for
                rm -rf "$name"
                cp -a built "$name"
                began=$SECONDS options=() # its own failures are compared, too
                [ "$driver" = host ] || [ "$driver" = native ] || options=("${shown[@]}")
                if [ "$driver" = host ]; then
                        # as in a sandbox: no descriptors but three (bash's suite shows the number of the next one), no capability,
                        # for which suites of a root look, and no signal that is ignored, as Python does with two
                        (cd "$name" && timeout 3600 "${bare[@]}" python3 -c "$as_inside" \
                                bash -c "${!suite}") >host.log 2>&1 </dev/null || true
                else
                        timeout 3600 "$C" run --driver "$driver" "${options[@]}" --name "$name" -w "$W/$name" -- bash -c "${!suite}" >"$driver.log" 2>&1 </dev/null || true
                        "$C" rm -f "$name" >/dev/null 2>&1 || true # what the guard held of it
                fi
                got=$(passed "$name" "$driver.log")
                echo "# $name: $driver: $got in $((SECONDS - began)) s" >&3
                if [ "$driver" = host ]; then
                        wanted=$got
                        case $wanted in '' | 0*) fail "nothing passes on the host: $(tail -n 20 host.log)" ;; esac
                elif [ "$wanted" != "$got" ]; then
                        diff <(verdicts host.log) <(verdicts "$driver.log") | head -n 40
                        differ+=" $driver: want $wanted, got $got."
                fi
        done
        rm -rf "$name" built
        [ -z "${COFFERDAM_LOGS-}" ] || { mkdir -p "$COFFERDAM_LOGS/$name" && cp ./*.log "$COFFERDAM_LOGS/$name/"; }
        [ -z "$differ" ] || fail "$differ"
}
verdicts() { grep -E '^ ?(PASS|FAIL|ok|not ok|[0-9 ]+:)' "$1" | sed 's/  *ok$/ ok/'; }

for engine in ${COFFERDAM_DRIVERS:-native podman docker}; do
        if [ "$engine" = native ] || (engine_ready "$engine") >"$T/out" 2>&1 </dev/null; then drivers+=("$engine"); else echo "# $engine: $(cat "$T/skip" "$T/out" 2>/dev/null)"; fi
        rm -f "$T/skip"
done
exec 3>&1
fetch jq gzip sed tar sqlite3 lua5.1 zlib git busybox bash || {
        echo "1..0 # SKIP offline: no sources: $(tail -n 1 "$T/fetch")"
        exit 0
}
for name in jq gzip sed tar sqlite3 lua51 zlib git busybox bash; do t "$name" compare "$name"; done
finish
