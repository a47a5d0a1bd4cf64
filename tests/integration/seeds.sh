#!/usr/bin/env bash
# Seeds: what changes while it is copied, limits, modes, what is told; host_state; a home that the operator did not choose
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/lib.sh"

cp "$HELPERS/swap" "$T/bin/"
export PATH=$T/bin:$PATH

# entries FILE TYPE: its entries, one "KIND SOURCE TARGET BYTES SHA256" a line
entries() {
        python3 - "$1" "$2" <<'PY'
import json, sys
for line in open(sys.argv[1]):
    e = json.loads(line)
    if e['type'] == sys.argv[2]:
        for r in e['data']['entries']:
            print(r['kind'], r['source'], r['target'], r.get('bytes', '-'), r.get('sha256', '-'))
PY
}

a_file_each() {
        mkdir -p "$HOME/d/sub"
        echo one >"$HOME/d/a"
        echo two >"$HOME/d/sub/b c"
        printf x >"$HOME/single"
        sandbox --events "$T/ev" --seed "$HOME/d" --seed "$HOME/single:$HOME/in/it" -- true
        entries "$T/ev" host_state_seeded | sort >got
        sum() { sha256sum <"$1" | cut -c1-64; }
        sort >want <<END
directory $HOME/d $HOME/d 8 
file $HOME/d/a $HOME/d/a 4 $(sum "$HOME/d/a")
file $HOME/d/sub/b c $HOME/d/sub/b c 4 $(sum "$HOME/d/sub/b c")
file $HOME/single $HOME/in/it 1 $(sum "$HOME/single")
END
        diff want got
        rm -r "$HOME/d" "$HOME/single" "$T/ev"
}
# thousands of files: no event is cut
many_files() {
        mkdir "$HOME/many"
        (cd "$HOME/many" && seq -f 'a-name-of-some-length-%g' 2000 | xargs touch)
        sandbox --events "$T/ev" --seed "$HOME/many" -- true
        eq 2001 "$(entries "$T/ev" host_state_seeded | grep -c .)" entries
        lacks "$(cat "$T/ev")" truncated
        [ "$(awk '{ if (length > n) n = length } END { print n }' "$T/ev")" -lt 65536 ] || fail 'too long a line'
        rm -r "$HOME/many" "$T/ev"
}

limits() {
        head -c 1000 /dev/zero >"$HOME/k"
        mkdir -p "$HOME/two"
        head -c 600 /dev/zero | tee "$HOME/two/a" >"$HOME/two/b"
        max() { echo "{\"version\":1,\"home\":{\"$1\":$2}}" >"$W/spec.json"; }
        max seed_max '"999B"'
        status 125 sandbox --spec spec.json --seed "$HOME/k" -- true 2>err
        has "$(cat err)" "seed '$HOME/k' has 1000 bytes, at most 999 are copied"
        status 125 sandbox --spec spec.json --seed "$HOME/two" -- true 2>err
        has "$(cat err)" "seed '$HOME/two' is larger than 999 bytes"
        max seed_max '"1200B"'
        sandbox --spec spec.json --seed "$HOME/k" --seed "$HOME/two" -- sh -c '[ $(cat ~/k ~/two/a ~/two/b | wc -c) = 2200 ]'
        max seed_files 1
        status 125 sandbox --spec spec.json --seed "$HOME/two" -- true 2>err
        has "$(cat err)" 'or 1 files'
        sandbox --spec spec.json --seed "$HOME/k" -- true
        rm -r "$HOME/k" "$HOME/two"
}

modes() {
        mkdir "$HOME/d"
        echo a >"$HOME/d/plain"
        echo a >"$HOME/d/prog"
        chmod 4755 "$HOME/d/prog"
        chmod 666 "$HOME/d/plain"
        cat >spec.json <<END
{"version":1,"home":{"seed":[{"from":"$HOME/d","to":"$HOME/e/f","mode":"0640"},{"from":"$HOME/d/plain","to":"$HOME/g","mode":"0400"}]}}
END
        sandbox --spec spec.json -- sh -c 'cd && stat -c "%n %a %u" e e/f e/f/plain e/f/prog g' >out
        eq "e 755 $(id -u) e/f 755 $(id -u) e/f/plain 640 $(id -u) e/f/prog 740 $(id -u) g 400 $(id -u)" "$(xargs <out)"
        rm -r "$HOME/d"
}

nothing_back() {
        mkdir "$HOME/d"
        echo a | tee "$HOME/d/f" >"$HOME/g"
        before=$(cd "$HOME" && find . -exec stat -c '%n %i %Z %s' {} + | sort)
        sandbox --seed "$HOME/d" --seed "$HOME/g" -- sh -c 'cd && echo b >d/f && rm g && mkdir g d/new && chmod 700 d'
        eq "$before" "$(cd "$HOME" && find . -exec stat -c '%n %i %Z %s' {} + | sort)" 'the home on the host'
        rm -r "$HOME/d" "$HOME/g"
}

# entries that are now a file, now something else: what is copied is the file or nothing, and nobody waits. Red when the
# entry is opened by name, following links; with a FIFO, when it is opened without O_NONBLOCK and before it is looked at
racing_entries() {
        local what i
        mkdir -p "$HOME/.ssh" "$HOME/d/sub"
        echo canary | tee "$HOME/.ssh/f" >"$HOME/secret"
        mkdir "$HOME/dir" && echo canary >"$HOME/dir/f"
        for what in fifo link socket dir dirlink; do
                echo fine >"$HOME/d/f"
                echo fine >"$HOME/d/sub/f"
                case $what in
                fifo) mkfifo "$HOME/other" ;;
                link) ln -s "$HOME/secret" "$HOME/other" ;;
                socket) python3 -c "import os,socket; os.chdir('$HOME'); socket.socket(socket.AF_UNIX).bind('other')" ;;
                dir) mkdir "$HOME/other" ;;
                dirlink) ln -s "$HOME/.ssh" "$HOME/other" ;;
                esac
                local name=f
                [ "$what" != dirlink ] || name=sub
                swap exchange "$HOME/d/$name" "$HOME/other" >swapping &
                local swapper=$!
                wait_for 60 grep -q ready swapping
                for ((i = 0; i < 8; i++)); do
                        timeout 100 "$C" run --seed "$HOME/d" -- sh -c 'cat ~/d/f ~/d/sub/f; [ ! -L ~/d/f ]; [ ! -p ~/d/f ]' >>out 2>/dev/null ||
                                [ $? != 124 ] || fail "$what: it hangs"
                done
                kill "$swapper"
                wait "$swapper" 2>/dev/null || true
                rm -rf "$HOME/other" "$HOME/d/f" "$HOME/d/sub"
                mkdir "$HOME/d/sub"
        done
        lacks "$(cat out)" canary
        has "$(cat out)" fine
        rm -r "$HOME/d" "$HOME/.ssh" "$HOME/secret" "$HOME/dir"
}

# the seed itself, replaced and grown
racing_seed() {
        local i rc
        mkdir -p "$HOME/.ssh"
        echo canary >"$HOME/.ssh/f"
        echo fine >"$HOME/fine"
        ln -s fine "$HOME/s"
        swap link "$HOME/s" "$HOME/fine" "$HOME/.ssh/f" >swapping &
        local swapper=$!
        wait_for 60 grep -q ready swapping
        for ((i = 0; i < 30; i++)); do
                rc=0
                timeout 100 "$C" run --seed "$HOME/s" -- sh -c 'cat ~/s' >>out 2>/dev/null || rc=$?
                case $rc in 0 | 125) ;; *) fail "start $i: $rc" ;; esac
        done
        kill "$swapper"
        lacks "$(cat out)" canary
        has "$(cat out)" fine
        rm -r "$HOME/.ssh" "$HOME/s" "$HOME/fine"
}
growing() {
        local rc=0 end=$((SECONDS + 12)) large=0 i
        (while [ $SECONDS -lt $end ] && [ ! -e stop ]; do head -c 2000000 /dev/zero; done >"$HOME/log") &
        for ((i = 0; i < 10; i++)); do
                rc=0
                timeout 100 "$C" run --seed "$HOME/log" -- sh -c '[ $(stat -c %s ~/log) -le 16777216 ]' 2>err || rc=$?
                case $rc in
                0) ;;
                125) has "$(cat err)" "seed '$HOME/log'" && large=1 ;;
                *) fail "$rc: $(cat err)" ;;
                esac
        done
        touch stop
        wait
        [ "$large" = 1 ] || fail 'it did not grow'
        rm "$HOME/log"
}

# the state of agents comes in as seeds; what such a name leads to does not
agent_links() {
        mkdir -p "$HOME/.ssh" "$HOME/.claude" "$HOME/dots"
        echo canary >"$HOME/.ssh/id"
        echo agent >"$HOME/.claude/settings.json"
        echo dots >"$HOME/dots/c"
        eq agent "$(sandbox --seed "$HOME/.claude/settings.json" -- sh -c 'cat ~/.claude/settings.json')"
        ln -s "$HOME/.ssh/id" "$HOME/.claude/key"
        ln -s "$HOME/.ssh/id" "$HOME/.claude.json"
        ln -s "$HOME/.ssh" "$HOME/.claude-x"
        for s in .claude/key .claude.json .claude-x .claude-x/id; do
                status 125 sandbox --seed "$HOME/$s" -- true 2>err
                has "$(cat err)" 'SSH keys' "$s"
        done
        rm "$HOME/.claude.json"
        ln -s dots/c "$HOME/.claude.json"
        eq dots "$(sandbox --seed "$HOME/.claude.json" -- sh -c 'cat ~/.claude.json')" 'a link of the operator'
        # in a directory that is copied, links are not
        sandbox --seed "$HOME/.claude" -- sh -c '[ ! -e ~/.claude/key ] && [ ! -L ~/.claude/key ] && cat ~/.claude/settings.json'
        rm -r "$HOME/.ssh" "$HOME/.claude" "$HOME/dots" "$HOME/.claude.json" "$HOME/.claude-x"
}

# host_state FILE KEY: a key of sandbox_host_state_mounted
host_state() {
        python3 - "$1" "$2" <<'PY'
import json, sys
for line in open(sys.argv[1]):
    e = json.loads(line)
    if e['type'] == 'sandbox_host_state_mounted': print(json.dumps(e['data'].get(sys.argv[2])))
PY
}

# auto: agent file, git settings and caches of the home; none: git name and e-mail, by environment
auto_and_none() {
        export PATH=/usr/local/bin:/usr/bin:/bin # no toolchain
        echo '{}' >"$HOME/.claude.json"
        mkdir -p "$HOME/.npm"
        echo cached >"$HOME/.npm/f"
        printf '[user]\n\tname = Ann\n\temail = a@b.example\n[pull]\n\trebase = true\n[alias]\n\tx = !id\n' >"$HOME/.gitconfig"
        unset GIT_AUTHOR_NAME GIT_AUTHOR_EMAIL GIT_COMMITTER_NAME GIT_COMMITTER_EMAIL
        sandbox --events ev -- sh -c 'cd; cat .claude.json .npm/f; grep -c . .gitconfig; grep -q alias .gitconfig || echo none; echo "${GIT_AUTHOR_NAME-unset}"' >out
        eq '{} cached' "$(head -n 2 out | xargs)"
        eq 'none unset' "$(tail -n 2 out | xargs)"
        eq 'true "built-in" null' "$(host_state ev enabled) $(host_state ev tier) $(host_state ev home_not_mounted)"
        has "$(entries ev sandbox_host_state_mounted)" "directory $HOME/.npm $HOME/.npm"
        has "$(entries ev host_state_seeded)" "file $HOME/.claude.json $HOME/.claude.json 3 "
        rm ev
        sandbox --host-state none --events ev -- sh -c 'cd; ls -A; echo "$GIT_AUTHOR_NAME $GIT_COMMITTER_EMAIL"; git config pull.rebase; git config commit.gpgsign' >out || true
        eq 'Ann a@b.example false' "$(xargs <out)"
        eq 'false "flag" "host_state is none"' "$(host_state ev enabled) $(host_state ev tier) $(host_state ev home_not_mounted)"
        eq '' "$(entries ev sandbox_host_state_mounted)$(entries ev host_state_seeded)"
        rm -r "$HOME/.claude.json" "$HOME/.npm" "$HOME/.gitconfig"
}

# what a .env of the project sets, whether a launcher read it or --env-file does. Red without home_planted
planted_home() {
        export PATH=/usr/local/bin:/usr/bin:/bin
        mkdir -p evil/.npm evil/.config/git xdg/git
        echo planted >evil/.claude.json
        echo planted >evil/.npm/f
        printf '[user]\n\tname = planted\n' | tee evil/.gitconfig >xdg/git/config
        unset GIT_AUTHOR_NAME GIT_AUTHOR_EMAIL GIT_COMMITTER_NAME GIT_COMMITTER_EMAIL
        HOME=$W/evil sandbox --workspace-target /ws --events ev -- sh -c 'git config user.name; env | grep GIT_AUTHOR; true' >out
        lacks "$(cat out)" planted
        eq false "$(host_state ev enabled)"
        has "$(host_state ev home_not_mounted)" 'HOME leads into'
        eq '' "$(entries ev sandbox_host_state_mounted)$(entries ev host_state_seeded)"
        XDG_CONFIG_HOME=$W/xdg sandbox -- sh -c 'git config user.name; true' >out
        lacks "$(cat out)" planted
        # inside it is HOME, and nothing else of the host's
        printf 'HOME=%s\nXDG_CONFIG_HOME=%s\n' "$W/evil" "$W/xdg" >.env
        rm ev
        sandbox --events ev --env-file .env -- sh -c 'echo "$HOME"; cat ~/.claude.json' >out
        eq "$W/evil planted" "$(xargs <out)"
        eq 'true' "$(host_state ev enabled)"
        lacks "$(entries ev sandbox_host_state_mounted)$(entries ev host_state_seeded)" evil
        # red without is_the_repositorys(): what is a repository's file gives no orders, by whatever way it is named
        printf 'ANTHROPIC_BASE_URL=evil\nCALLERS\nFINE=1\n' | tee .env >"$T/own.env"
        ln -s "$T/own.env" link.env
        mkdir -p sub
        for said in "$W/.env -w ." "../.env -w .." link.env; do
                if [[ $said == ../* ]]; then cd sub; fi
                # shellcheck disable=SC2086 # words
                CALLERS=secret sandbox --events "$W/ev2" --env-file $said -- sh -c 'echo "[$ANTHROPIC_BASE_URL][$CALLERS]$FINE"' >"$W/out"
                cd "$W"
                eq '[][]1' "$(cat out)" "$said"
                has "$(grep sandbox_env_denied ev2)" ANTHROPIC_BASE_URL
                rm ev2
        done
        CALLERS=own sandbox --env-file "$T/own.env" -- sh -c 'echo "[$ANTHROPIC_BASE_URL][$CALLERS]$FINE"' >out
        eq '[evil][own]1' "$(cat out)"
}
t 'an entry for each file' a_file_each
t 'an entry for each of thousands of files' many_files
t 'limits of a seed' limits
t 'modes of a seed' modes
t 'nothing is written back' nothing_back
t 'entries that are swapped while they are copied' racing_entries
t 'a seed that is swapped' racing_seed
t 'a seed that grows' growing
t 'host state auto and none' auto_and_none
t 'a home that the project chose' planted_home
t 'links from an agent directory' agent_links
finish
