#!/usr/bin/env bash
# export: the workspace as the run sees it, to a directory and as tar
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/lib.sh"

newest() { find "$XDG_STATE_HOME/cofferdam/runs" -mindepth 1 -maxdepth 1 -printf '%C@ %f\n' | sort -rn | sed -n '1s/.* //p'; }

# held COMMAND: a cow run on $W that keeps what COMMAND did; its ID in $R
held() {
        "$C" run --workspace-mode cow --engine "${ENGINE:-fuse}" --keep -- sh -ec "$1"
        R=$(newest)
}

# tree DIR: everything of a directory in lines
tree() { (cd "$1" && find . -mindepth 1 ! -path './.git*' -printf '%P %y %m %l %s %T@\n' | sort; find . -type f ! -path './.git*' -print0 | sort -z | xargs -r0 sha256sum); }

sample() {
        mkdir -p dir/sub gone 'odd name'
        echo 1 >dir/f
        echo 2 >dir/sub/g
        echo 3 >gone/h
        echo 4 >"odd name/$(printf 'x\ny')"
        chmod 640 dir/f
        ln -s ../../etc/passwd dir/link
        touch -d '2001-02-03 04:05:06.789' dir/sub/g
}

# what a command inside sees is what is exported. Red when a whiteout, an opaque directory or a redirect is not read.
as_seen() {
        ENGINE=$1
        [ "$1" = fuse ] || "$C" run --workspace-mode cow --engine overlay -- true 2>"$T/why" || {
                echo "# skipped: $(tail -1 "$T/why")"
                return 0
        }
        sample
        mkdir -m 777 "$T/seen$1"
        held 'rm -r gone; mv dir moved 2>/dev/null || { cp -a dir moved; rm -r dir; }; echo more >>moved/f; rm moved/sub/g; echo new >moved/sub/n; mkdir gone; echo a >gone/a
                ln -s f moved/l2; truncate -s 8M hole; echo end >>hole; chmod 700 moved/sub'
        status 0 "$C" export "$R" "$T/out$1"
        eq 'gone hole moved odd name ' "$(cd "$T/out$1" && printf '%s ' *)"
        eq a "$(cat "$T/out$1/gone/a")"
        [ ! -e "$T/out$1/gone/h" ] || fail 'hidden by an opaque directory'
        eq $'1\nmore' "$(cat "$T/out$1/moved/f")"
        eq 640 "$(stat -c %a "$T/out$1/moved/f")"
        eq 700 "$(stat -c %a "$T/out$1/moved/sub")"
        eq ../../etc/passwd "$(readlink "$T/out$1/moved/link")"
        eq n "$(ls "$T/out$1/moved/sub")"
        [ "$(stat -c %b "$T/out$1/hole")" -lt 1000 ] || fail 'holes are filled'
        # as tar
        mkdir "$T/tar$1"
        status 0 "$C" export "$R" - >"$T/x.tar"
        tar -C "$T/tar$1" -xpf "$T/x.tar"
        eq "$(tree "$T/out$1")" "$(tree "$T/tar$1")" 'tar and directory differ'
        [ "$(stat -c %s "$T/x.tar")" -lt 1000000 ] || fail 'holes are written out'
        eq 0 "$(($(stat -c %s "$T/x.tar") % 10240))"
        python3 -c 'import sys, tarfile
names = [m.name for m in tarfile.open(sys.argv[1])]
assert "odd name/x\ny" in names and "moved/f" in names, names' "$T/x.tar"
        "$C" export "$R" - | cmp - "$T/x.tar"
        eq 1 "$(cat dir/f)" 'the host'
}

long_and_odd_names() {
        local long
        long=$(printf 'n%.0s' $(seq 200))
        mkdir -p "$long/$long"
        printf 'caf\xe9' >"$long/$long/$(printf 'b\xff=\n1 x')"
        ln -s "$long/$long" far
        touch -d '1969-12-31 23:59:58.5 UTC' far2
        held 'echo x >new'
        "$C" export "$R" | tar -C "$(mktemp -d -p "$T")" -xvf - >"$T/list"
        mkdir "$T/o2"
        "$C" export "$R" | tar -C "$T/o2" -xpf -
        status 0 "$C" export "$R" "$T/o3"
        eq "$(tree "$T/o3")" "$(tree "$T/o2")"
        eq "$(printf 'caf\xe9')" "$(cat "$T/o2/$long/$long/"b*)"
}

# what is written would be read again. Red, with 256 directories in each other, without check_place()
not_into_itself() {
        sample
        held 'echo x >new'
        local to
        for to in out dir/out "$PWD/out" gone; do
                [ "$to" != gone ] || rm gone/h
                status 1 "$C" export "$R" "$to" 2>err
                has "$(cat err)" 'name one outside'
        done
        mkdir -p "$T/link"
        ln -s "$PWD/dir" "$T/link/to"
        status 1 "$C" export "$R" "$T/link/to/out" 2>err
        [ ! -e out ] && [ ! -e dir/out ] && [ -d gone ] || fail 'something was left, or removed'
        status 0 "$C" export "$R" "$PWD-beside"
        eq x "$(cat "$PWD-beside/new")"
        rm -r "$PWD-beside"
}

hostile_things() {
        mkdir d
        mkfifo d/fifo
        echo x >suid
        chmod 4755 suid
        held 'ln -s /etc d/etc; mkfifo pipe; mkdir -p deep; echo y >deep/f; chmod 0 deep/f'
        status 1 "$C" export "$R" "$T/h" 2>err
        has "$(cat err)" "skipped 'd/fifo'"
        has "$(cat err)" "skipped 'pipe'"
        eq 755 "$(stat -c %a "$T/h/suid")"
        eq /etc "$(readlink "$T/h/d/etc")"
        eq y "$(chmod 600 "$T/h/deep/f" && cat "$T/h/deep/f")"
        status 1 "$C" export "$R" "$T/h" 2>err
        has "$(cat err)" 'not empty'
        ln -s /nowhere "$T/dangling"
        status 1 "$C" export "$R" "$T/dangling" 2>err
        grep -q '"workspace_exported"' "$XDG_STATE_HOME/cofferdam/runs/$R/events.jsonl" || fail 'no event'
        status 2 "$C" export
        status 1 "$C" export ffffffffffff "$T/none"
        [ ! -e "$T/none" ] || fail 'made a directory for nothing'
}

# red when is_hidden() is left out
hidden_is_absent() {
        mkdir d
        echo s >d/secret
        echo o >d/open
        "$C" run --workspace-mode cow --keep --hide '/d/secret' -- sh -c 'mv d e; echo x >n'
        R=$(newest)
        "$C" export "$R" "$T/hid"
        eq '' "$(find "$T/hid" -name secret)"
        eq x "$(cat "$T/hid/n")"
        ! "$C" export "$R" | grep -a secret || fail 'in the tar'
}

t 'fuse: as the run sees it' as_seen fuse
t 'overlay: as the run sees it' as_seen overlay
t 'long and odd names' long_and_odd_names
t 'hostile things' hostile_things
t 'not into the workspace itself' not_into_itself
t 'hidden names are absent' hidden_is_absent
finish
