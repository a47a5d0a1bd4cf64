#!/usr/bin/env bash
# What the work and an image try against our own parts of a container: its first process and the program that it is, ways to
# the supervisor and the proxy, the files that are put in it, the places where things are mounted
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=tests/integration/engine-lib.sh
. "$(dirname "$0")/engine-lib.sh"
usr=(--mount 'type=bind,source=/usr,target=/usr,readonly')

# prepared ENGINE
prepared() {
        need_command python3
        engine_ready "$1"
        cp "$here/engine-escapes.py" .
        chmod 777 .
}

# The first process: nothing of it is read or written, no signal reaches it, and it serves the next command.
# Red without PR_SET_DUMPABLE in confine() (drivers/oci/inside.c) and open_score() (drivers/native/init.c)
keeps_its_first_process() { # ENGINE USER
        local id
        prepared "$1"
        id=$("$C" start -d "$1" --image busy:1 "${usr[@]}" -u "$2")
        eq end "$(timeout 60 "$C" exec "$id" -- python3 engine-escapes.py first 2>&1)"
        eq alive "$(timeout 60 "$C" exec "$id" -- echo alive)" 'the next command'
        "$C" stop -t 0 "$id" >/dev/null
        has "$("$C" events "$id" | tail -n 1)" '"failure_code":""'
        "$C" rm "$id" >/dev/null
}

# It lies in the container, where everybody may execute it; the bind is read-only, whoever is root inside.
# Red when oci_bind() is told to write, and freeze() leaves binds as they are (drivers/oci)
keeps_its_program() { # ENGINE USER
        local before
        prepared "$1"
        before=$(stat -c '%a %u %g %s %Y %h' "$C"; sha256sum "$C")
        eq end "$(boxed "$1" "${usr[@]}" -u "$2" -- python3 engine-escapes.py executable 2>&1)"
        eq "$before" "$(stat -c '%a %u %g %s %Y %h' "$C"; sha256sum "$C")" 'the executable of the host'
}

# No socket leads to the supervisor or past the proxy; the proxy's own cannot be taken over.
# Red when container_start() leaves the socket
shows_no_socket() { # ENGINE USER
        prepared "$1"
        eq end "$(boxed "$1" "${usr[@]}" -u "$2" --network allowlist --allow a.example -- python3 engine-escapes.py sockets 2>&1)"
}

# What is put in a container can be changed by no name, also as root inside. Red without seal() (drivers/oci/inject.c)
keeps_its_files() { # ENGINE USER
        prepared "$1"
        echo secret >"$T/source"
        eq 'secret end' "$(boxed "$1" "${usr[@]}" -u "$2" --secret "A=file:$T/source,as=file" -- python3 engine-escapes.py files 2>&1 | xargs)"
}

# Variables of an image are for its programs; ours reads none of them. Red when that is linked dynamically
takes_no_orders_of_variables() {
        local name changes=(--change 'ENV LD_TRACE_LOADED_OBJECTS=1' --change 'USER app')
        for name in LD_PRELOAD=/evil.so LD_AUDIT=/evil.so LD_LIBRARY_PATH=/evil BASH_ENV=/evil.sh ENV=/evil.sh GLIBC_TUNABLES=glibc.malloc.check=3 \
                COFFERDAM_SPEC=/evil.yaml COFFERDAM_DRIVER=noop XDG_STATE_HOME=/evil HOME=/evil PATH=/evil:/bin; do
                changes+=(--change "ENV $name")
        done
        prepared "$1"
        mkdir evil
        printf '#!/bin/sh\ntouch "%s/touched"\n' "$W" >evil.sh
        for name in sh mount id cat true; do cp evil.sh "evil/$name"; done
        chmod 755 evil.sh evil/*
        cp evil.sh evil.so
        cp "$E/image.tar" evil.tar
        tar -rf evil.tar ./evil ./evil.sh ./evil.so
        "$1" import "${changes[@]}" evil.tar evil:1 >out 2>&1 || fail "$(cat out)"
        eq 'fine 1' "$(boxed "$1" --image evil:1 -- /bin/busybox sh -c '/bin/busybox echo fine $LD_TRACE_LOADED_OBJECTS')"
        [ ! -e touched ] || fail 'a program of the image was started'
}

# image_with ENGINE NAME [PATH TARGET]...: busy:1 with links in place of what is there
image_with() {
        local engine=$1 name=$2
        shift 2
        python3 - "$E/image.tar" links.tar "$@" <<'PY'
import sys, tarfile
source, made, *links = sys.argv[1:]
links = dict(zip(links[::2], links[1::2]))
with tarfile.open(source) as old, tarfile.open(made, "w") as new:
    for m in old:
        path = m.name.removeprefix("./")
        if not any(path == link or path.startswith(link + "/") for link in links):
            new.addfile(m, old.extractfile(m) if m.isreg() else None)
    for path, to in links.items():
        m = tarfile.TarInfo("./" + path)
        m.type, m.linkname = tarfile.SYMTYPE, to
        new.addfile(m)
PY
        "$engine" import --change 'ENV PATH=/bin' links.tar "$name" >said 2>&1 || fail "import: $(cat said)"
}
# Places of ours that are links in the image: the run is refused, or everything is where it should be.
# Red when mnt_point() follows links (drivers/native/mnt.c), or podman copies what the image has in our places
follows_no_link() {
        local rc links worked=0
        prepared "$1"
        echo secret >"$T/source"
        echo hidden >key
        mkdir -p "$T/elsewhere"
        while read -r links; do
                rc=0
                # shellcheck disable=SC2086 # words
                image_with "$1" links:1 $links
                boxed "$1" --image links:1 --hide key --secret "A=file:$T/source,as=file" -- sh -c '
                        cat /run/secrets/A
                        for dir in / /etc /run /run/cofferdam /run/cofferdam/ctl /run/cofferdam/fuse /run/secrets /proc /usr /var; do
                                ! touch "$dir/x" 2>/dev/null || echo "writable: $dir"
                        done
                        for dir in /run/cofferdam/fuse /run/cofferdam/aside /cofferdam; do ls -A $dir 2>/dev/null; done
                        [ ! -e key ] || echo "it is seen"
                        touch ./made ~/made && echo end' >out 2>err || rc=$?
                echo "$rc: $links: $(cat out err)"
                case $rc in
                0)
                        eq 'secret end' "$(xargs <out)" "$links"
                        rm made
                        worked=$((worked + 1))
                        ;;
                125)
                        [ ! -s out ] || fail "$links: $(cat out)"
                        eq 1 "$(wc -l <err)" "$links: $(cat err)"
                        ;;
                *) fail "$links: $rc: $(cat out err)" ;;
                esac
                eq '' "$(containers "$1")$(ls "$XDG_STATE_HOME/cofferdam/runs")$(ls -A "$T/elsewhere")" "left of '$links'"
        done <<X
run /
run/cofferdam /tmp
run/cofferdam/fuse /tmp run/cofferdam/aside /etc run/cofferdam/passwd $T/elsewhere/passwd run/cofferdam/ctl/init /bin/sh
run/secrets /etc
etc /proc
etc/hosts $T/elsewhere/hosts
tmp /etc
tmp /proc/1/root$T/elsewhere
var /run
dev /tmp
proc /tmp
X
        [ "$worked" -gt 1 ] || fail "only $worked could be run"
}

for engine in podman docker; do
        t "$engine: its first process, as root inside" keeps_its_first_process $engine 0:0
        t "$engine: the program that it is, as root inside" keeps_its_program $engine 0:0
        t "$engine: sockets of the supervisor and the proxy, as root inside" shows_no_socket $engine 0:0
        t "$engine: files that are put in it, as root inside" keeps_its_files $engine 0:0
        t "$engine: its first process, as a user" keeps_its_first_process $engine 1000:1000
        t "$engine: the program that it is, as a user" keeps_its_program $engine 1000:1000
        t "$engine: sockets of the supervisor and the proxy, as a user" shows_no_socket $engine 1000:1000
        t "$engine: files that are put in it, as a user" keeps_its_files $engine 1000:1000
        t "$engine: variables of the image for our program" takes_no_orders_of_variables $engine
        t "$engine: links of the image at our places" follows_no_link $engine
done
finish
