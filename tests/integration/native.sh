#!/usr/bin/env bash
# What the native driver builds: users, seeds, mounts, toolchains, linked worktrees, the host's abstract sockets
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/lib.sh"

is_root() { [ "$(id -u)" = 0 ]; }

another_uid() {
        if is_root; then chown 4242:77 .; fi
        sandbox -u 4242:77 -- sh -c 'id -u; id -g; id -un; echo ~; touch made; stat -c %u:%g made ~' >out
        eq '4242 77 u4242 /home/u4242 4242:77 4242:77' "$(tr '\n' ' ' <out | sed 's/ $//')"
        if is_root; then eq 4242:77 "$(stat -c %u:%g made)"; else eq "$(id -u):$(id -g)" "$(stat -c %u:%g made)"; fi
}
# root's run as another user leaves him nothing of root: no group, no file
another_uid_of_root() {
        is_root || skip 'only root can'
        chmod 755 "$T" .
        echo secret >for-root
        chmod 600 for-root
        sandbox -u 4242:77 -- sh -c 'cat for-root; grep ^Groups: /proc/self/status' >out 2>err || true
        eq 'Groups:' "$(tr -d '[:space:]' <out)"
        has "$(cat err)" 'Permission denied'
}
an_unknown_name() {
        status 125 sandbox -u no-such-user -- true 2>err || status 2 sandbox -u no-such-user -- true 2>err
        has "$(cat err)" no-such-user
}
passwd_entry() {
        eq 'u4242:x:4242:77::/home/u4242:/bin/sh' "$(sandbox -u 4242:77 -- getent passwd 4242)"
        eq "$(id -un)" "$(sandbox -- id -un)"
}

seeds() {
        mkdir -p "$HOME/dir/sub"
        echo one >"$HOME/dir/sub/a"
        ln -sf /etc/passwd "$HOME/dir/link"
        printf '#!/bin/sh\n' >"$HOME/dir/prog"
        chmod 755 "$HOME/dir/prog"
        sandbox --events "$T/events" --seed "$HOME/dir" --seed "$HOME/dir/sub/a:$HOME/x/y" -- \
                sh -c 'cat ~/dir/sub/a ~/x/y; [ ! -L ~/dir/link ]; test -x ~/dir/prog; echo changed >~/dir/sub/a; stat -c %a ~/x/y' >out
        eq 'one one 600' "$(tr '\n' ' ' <out | sed 's/ $//')"
        eq one "$(cat "$HOME/dir/sub/a")" 'the seed on the host'
        has "$(grep '"type":"sandbox_started"' "$T/events")" \
                "\"mode\":\"auto\",\"tier\":\"built-in\",\"root\":\"host\",\"workspace\":\"$W\",\"network\":\"none\""
        grep '"type":"host_state_seeded"' "$T/events" >seeded
        has "$(cat seeded)" '"kind":"directory","files":2,"bytes":14,"sha256":""'
        has "$(cat seeded)" "\"kind\":\"file\",\"files\":1,\"bytes\":4,\"sha256\":\"$(sha256sum <"$HOME/dir/sub/a" | cut -c1-64)\""
        mkdir many
        (cd many && seq 4097 | xargs touch)
        status 125 "$C" run --seed "$W/many:$HOME/many" -- true 2>err
        eq "cofferdam: seed '$W/many' is larger than 16777216 bytes or 4096 files: use --mount, or raise home.seed_max and home.seed_files" "$(cat err)"
        rm many/1
        sandbox --seed "$W/many:$HOME/many" -- sh -c 'ls ~/many | grep -c .' >out
        eq 4096 "$(cat out)" 'as many as may be'
}

agent_state() {
        echo '{"a":1}' >"$HOME/.claude.json"
        eq '{"a":1} 600' "$(sandbox -- sh -c 'echo "$(cat ~/.claude.json) $(stat -c %a ~/.claude.json)"')"
        eq gone "$(sandbox --host-state none -- sh -c 'cat ~/.claude.json 2>/dev/null || echo gone')"
        rm "$HOME/.claude.json"
}

readonly_mount() {
        mkdir "$T/data"
        echo x >"$T/data/f"
        sandbox --mount "type=bind,source=$T/data,target=/data,readonly" -- \
                sh -c 'cat /data/f; echo y >/data/g; [ -w /data ] && echo writable; true' >out 2>err
        eq x "$(cat out)"
        has "$(cat err)" 'Read-only file system'
        eq f "$(ls "$T/data")" 'what is on the host'
}
writable_mount() {
        mkdir "$T/rw"
        sandbox --mount "type=bind,source=$T/rw,target=/srv/rw" -- sh -c 'echo y >/srv/rw/g; ls -A /srv'
        eq y "$(cat "$T/rw/g")"
}
# a mount point is made in memory only
no_place_for_a_mount() {
        mkdir "$T/src"
        status 125 sandbox --mount "type=bind,source=$T/src,target=$W/not/there" -- true 2>err
        has "$(cat err)" "$W/not/there"
        eq err "$(ls -A)" 'the workspace'
        status 125 sandbox --mount "type=bind,source=$T/src,target=/usr/no-such-dir" -- true 2>err
        [ ! -e /usr/no-such-dir ]
}

toolchain_prefix() {
        mkdir -p "$HOME/tool/bin" "$HOME/tool/lib" "$HOME/private"
        echo part >"$HOME/tool/lib/part"
        # shellcheck disable=SC2016
        printf '#!/bin/sh\ncat "${0%%/*}/../lib/part"\n' >"$HOME/tool/bin/my-tool"
        chmod 755 "$HOME/tool/bin/my-tool"
        eq part "$(PATH=$HOME/tool/bin:$PATH sandbox -- my-tool)"
        eq '' "$(PATH=$HOME/tool/bin:$PATH sandbox -- sh -c 'ls -d ~/private 2>/dev/null; echo x 2>/dev/null >~/tool/lib/new')"
        [ ! -e "$HOME/tool/lib/new" ]
}

linked_worktree() {
        need_command git
        git init -q main
        git -C main commit -q --allow-empty -m one
        git -C main worktree add -q -b side ../wt 2>/dev/null
        git -C main worktree add -q -b other ../other 2>/dev/null
        cd wt
        sandbox -e GIT_AUTHOR_NAME -e GIT_AUTHOR_EMAIL -e GIT_COMMITTER_NAME -e GIT_COMMITTER_EMAIL -- sh -c '
                echo x >f && git add f && git commit -q -m two && git status --short
                common=$(git rev-parse --git-common-dir)
                echo evil >"$common/worktrees/wt/commondir"; echo evil >"$common/worktrees/other/HEAD"
                echo evil >"$common/hooks/post-checkout"; echo evil >"$common/HEAD"' >out 2>err || true
        eq two "$(git log -1 --format=%s)"
        eq '' "$(grep -rl evil ../main/.git || true)" 'what the work planted'
}
# the file that names the directory is the work's: it does not decide what is served
forged_worktree() {
        mkdir -p victim/.git/worktrees/x wt
        echo secret >victim/.git/config
        echo "$W/elsewhere/.git" >victim/.git/worktrees/x/gitdir
        echo "gitdir: $W/victim/.git/worktrees/x" >wt/.git
        cd wt
        eq '' "$(sandbox -- cat "$W/victim/.git/config" 2>/dev/null)"
}

abstract_socket() {
        need_command python3
        cat >probe.py <<'PY'
import socket, subprocess, sys
name = "\0cofferdam-test-" + sys.argv[1]
ear = socket.socket(socket.AF_UNIX)
ear.bind(name)
ear.listen(1)
code = "import socket,sys\ntry:\n socket.socket(socket.AF_UNIX).connect(chr(0)+sys.argv[1])\n print('reached')\nexcept OSError: print('refused')"
sys.exit(subprocess.call(sys.argv[2:] + ["python3", "-c", code, name[1:]]))
PY
        eq refused "$(python3 probe.py $$ "$C" run --network none --)"
        eq refused "$(python3 probe.py $$ "$C" run --network open --)" 'with the network open (landlock)'
}

# red when guard_confine() or the dropping of capabilities is left out of fsd_main()
fsd_gave_up() {
        local pid found='' out comm state session line
        sandbox -- sh -c 'touch ready; until [ -e end ]; do sleep 0.1; done' &
        out=$!
        wait_for 60 test -e ready
        for pid in $(helper_pids led); do
                look "$pid" && [ "$comm" = cofferdam-fsd ] || continue
                found=$(grep -E '^(CapEff|CapPrm|CapBnd|CapAmb|NoNewPrivs|Seccomp):' "/proc/$pid/status" | tr -d '\t\n')
                has "$(cat "/proc/$pid/limits")" 'Max core file size        0                    0 '
        done
        touch end
        wait "$out"
        if is_root; then
                eq 'CapPrm:0000000000000000CapEff:0000000000000000CapBnd:0000000000000000CapAmb:0000000000000000NoNewPrivs:1Seccomp:2' "$found"
        else
                has "$found" 'CapPrm:0000000000000000CapEff:0000000000000000'
                has "$found" 'NoNewPrivs:1Seccomp:2'
        fi
}

# goes red when start() does not confine the supervisor; the mask is chown, the two dac ones, fowner, fsetid, kill and the
# two of setfsuid(2)
supervisor_gave_up() {
        local pid found='' out comm state session line mask=00000000000000ff
        sandbox -- sh -c 'touch ready; until [ -e end ]; do sleep 0.1; done' &
        out=$!
        wait_for 60 test -e ready
        for pid in $(helper_pids led); do
                look "$pid" && [ "$comm" = cofferdam-fsd ] || continue
                wait_for 60 grep -q 'Seccomp:.*2' "/proc/$session/status" || true # the command may be faster
                found=$(grep -E '^(CapEff|CapPrm|CapInh|NoNewPrivs|Seccomp):' "/proc/$session/status" | tr -d '\t\n')
        done
        touch end
        wait "$out"
        is_root || mask=0000000000000000
        eq "CapInh:0000000000000000CapPrm:${mask}CapEff:${mask}NoNewPrivs:1Seccomp:2" "$found"
}

t 'another uid' another_uid
t 'root as another uid' another_uid_of_root
t 'an unknown name' an_unknown_name
t 'an entry in passwd' passwd_entry
t 'seeds are copies' seeds
t 'settings of an agent come along' agent_state
t 'a read-only mount' readonly_mount
t 'a writable mount' writable_mount
t 'no mount point is made on the host' no_place_for_a_mount
t 'a toolchain with its prefix' toolchain_prefix
t 'a linked worktree' linked_worktree
t 'a forged worktree' forged_worktree
t 'abstract sockets of the host' abstract_socket
t 'the file server gave up what it does not need' fsd_gave_up
t 'the supervisor gave up what it does not need' supervisor_gave_up
finish
