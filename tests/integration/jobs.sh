#!/usr/bin/env bash
# Real jobs work unchanged inside
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/lib.sh"

own_build() {
        tar -C "$TOP" --exclude='./build*' --exclude=./.git -cf - . | tar --no-same-owner -xf -
        # what the tests need, without optimization: the fastest that is a build of all kinds of steps
        timeout -k 5 1200 "$C" run -- sh -c 'meson setup --buildtype=debug b >log 2>&1 && ninja -C b -j2 cli/cofferdam.stamp >>log 2>&1 &&
                meson test -C b --suite unit >>log 2>&1' ||
                fail "$(tail -n 30 log)"
        [ -x b/cofferdam ] || fail 'no executable on the host'
        eq "$("$C" version)" "$(b/cofferdam version)"
}

git_flow() {
        git init -q --bare origin.git -b main
        sandbox -e GIT_AUTHOR_NAME -e GIT_AUTHOR_EMAIL -e GIT_COMMITTER_NAME -e GIT_COMMITTER_EMAIL -- sh -ec '
                git clone -q origin.git w 2>/dev/null && cd w
                git switch -qc main 2>/dev/null || true
                for i in 1 2 3; do echo $i >f$i; git add f$i; git commit -qm c$i; done
                git push -q -u origin main
                git switch -qc topic HEAD~1
                echo t >t; git add t; git commit -qm topic
                git rebase -q main
                git worktree add -q ../w2 main
                cd ../w2; echo w2 >x; git add x; git commit -qm w2; git stash list; git log --oneline | wc -l >../n
                cd ../w; git merge -q main; git gc -q; git fsck' || fail 'git inside'
        eq 4 "$(cat n)" commits
        git -C w fsck 2>&1 || fail 'fsck on the host'
        eq '' "$(git -C w status --porcelain)"
        eq topic "$(git -C w log -1 --format=%s topic 2>/dev/null | grep -o topic || git -C w branch --show-current)"
        # an address on this machine is not what git would fetch from by itself: the config waits for a look
        has "$("$C" diff --held)" w/.git/config
        "$C" apply || fail 'apply'
        eq origin "$(git -C w config branch.main.remote)"
        eq "$W/origin.git" "$(git -C w config remote.origin.url)"
}

npm_install() {
        need_command npm
        timeout 60 npm view is-odd version >/dev/null 2>&1 || skip 'offline: no answer from the npm registry'
        local proxy args=() var
        for var in HTTP_PROXY HTTPS_PROXY http_proxy https_proxy NO_PROXY no_proxy NODE_EXTRA_CA_CERTS SSL_CERT_FILE; do
                [ -z "${!var-}" ] || args+=(-e "$var")
        done
        proxy=$(npm config get registry)
        sandbox --network open "${args[@]}" -e "npm_config_registry=$proxy" -- sh -c \
                'npm init -y >/dev/null && npm install --no-audit --no-fund is-odd && node -e "console.log(require(\"is-odd\")(3))"' >out 2>&1 ||
                fail "$(tail -n 20 out)"
        eq true "$(tail -n 1 out)"
        [ -f node_modules/is-odd/package.json ] || fail 'nothing on the host'
}

python_venv() {
        [ -x /usr/bin/python3 ] || skip 'no python3 on this machine'
        sandbox -- sh -ec '/usr/bin/python3 -m venv v; v/bin/python -c "import sys; print(sys.prefix)"; v/bin/pip --version' >out 2>&1 || fail "$(tail out)"
        eq "$W/v" "$(head -n 1 out)"
        v/bin/python -c 'print(1)' || fail 'the environment does not work on the host'
}

# people keep their tools in the home; what PATH finds outside must be found inside, and their credentials not
toolchain_in_home() {
        mkdir -p "$HOME/.nvm/versions/node/v1/bin" "$HOME/.nvm/versions/node/v1/lib" "$HOME/.cargo/bin" "$HOME/.local/bin" "$HOME/tools/bin"
        echo 'echo "lib of node"' >"$HOME/.nvm/versions/node/v1/lib/l"
        # shellcheck disable=SC2016
        printf '#!/bin/sh\n. "$(dirname "$0")/../lib/l"\n' >"$HOME/.nvm/versions/node/v1/bin/mynode"
        printf '#!/bin/sh\necho cargo\n' >"$HOME/.cargo/bin/mycargo"
        echo 'token = "canary"' >"$HOME/.cargo/credentials.toml"
        printf '#!/bin/sh\necho local\n' >"$HOME/.local/bin/mylocal"
        printf '#!/bin/sh\necho other\n' >"$HOME/tools/bin/myother"
        chmod +x "$HOME"/.nvm/versions/node/v1/bin/* "$HOME"/.cargo/bin/* "$HOME"/.local/bin/* "$HOME"/tools/bin/*
        export PATH=$HOME/.nvm/versions/node/v1/bin:$HOME/.cargo/bin:$HOME/.local/bin:$HOME/tools/bin:$PATH
        eq 'lib of node' "$(sandbox -- mynode)"
        eq cargo "$(sandbox -- sh -c mycargo)"
        eq local "$(sandbox -- mylocal)"
        eq other "$(sandbox -- myother)"
        eq '' "$(sandbox -- sh -c 'cat ~/.cargo/credentials.toml' 2>/dev/null)" credentials
        sandbox -- sh -c 'echo x >~/.cargo/bin/evil' 2>/dev/null && fail 'a toolchain of the host is writable'
        [ ! -e "$HOME/.cargo/bin/evil" ] || fail 'written to the host'
        rm -rf "$HOME/.nvm" "$HOME/.cargo" "$HOME/.local" "$HOME/tools"
}

c_project() {
        local i
        {
                echo 'OBJ :=' $(seq -f 'f%g.o' 150)
                # shellcheck disable=SC2016
                printf 'prog: $(OBJ) main.o\n\t$(CC) -o $@ $^\n$(OBJ) main.o: all.h\nclean:\n\trm -f *.o prog\n'
        } >Makefile
        for i in $(seq 150); do
                echo "int f$i(int x);"
        done >all.h
        for i in $(seq 150); do printf '#include "all.h"\n#include <stdio.h>\nint f%d(int x) { return x + %d; }\n' "$i" "$i" >"f$i.c"; done
        { printf '#include "all.h"\n#include <stdio.h>\nint main(void) { int s = 0;\n'; for i in $(seq 150); do echo "s = f$i(s);"; done; printf 'printf("%%d\\n", s); return 0; }\n'; } >main.c
        sandbox -- sh -c 'make -s -j2 && ./prog' >out 2>&1 || fail "$(tail out)"
        eq 11325 "$(tail -n 1 out)"
        eq 11325 "$(./prog)" 'on the host'
        has "$(sandbox -- make -j2)" 'up to date'
        touch f7.c
        sandbox -- make -j2 >again
        eq 2 "$(grep -cE '^(cc|gcc)' again)" 'commands after touching one file on the host'
        sandbox -- make -s clean
        eq '' "$(find . -name '*.o')"
}

small_files() {
        sandbox -- sh -ec '
                mkdir src; cd src
                awk "BEGIN { for (d = 0; d < 200; d++) { dir = \"d\" d; system(\"mkdir \" dir); for (i = 0; i < 100; i++) { f = dir \"/f\" i; print d, i > f; close(f) } } }"
                cd ..; tar -cf all.tar src; mkdir out; tar -C out -xf all.tar; diff -r src out/src; find out -type f | wc -l; rm -rf src out' >n || fail 'inside'
        eq 20000 "$(cat n)"
        eq 20000 "$(tar -tf all.tar | grep -c '/f')" 'files in the archive'
        eq '' "$(ls -d src out 2>/dev/null)" 'left by rm -rf'
}

sqlite_wal() {
        need_command sqlite3
        # shellcheck disable=SC2016
        sandbox -- sh -ec 'sqlite3 db "PRAGMA journal_mode=WAL; CREATE TABLE t(i);" >mode
                for w in 1 2 3; do (i=0; while [ $i -lt 50 ]; do sqlite3 -cmd ".timeout 20000" db "INSERT INTO t VALUES($i)"; i=$((i+1)); done) & done; wait
                sqlite3 db "SELECT count(*) FROM t; PRAGMA integrity_check"' >out 2>&1 || fail "$(cat out)"
        eq wal "$(cat mode)"
        eq '150 ok' "$(tr '\n' ' ' <out | sed 's/ $//')"
        eq 150 "$(sqlite3 db 'SELECT count(*) FROM t')" 'on the host'
}

editor_saves() {
        printf 'one\ntwo\n' >text
        chmod 640 text
        sandbox -- sh -ec 'sed -i s/one/ONE/ text
                perl -pi.bak -e s/two/TWO/ text
                cp text .text.swp; echo three >>.text.swp; sync .text.swp; mv .text.swp text; cat text' >out || fail 'inside'
        eq 'ONE TWO three' "$(tr '\n' ' ' <text | sed 's/ $//')"
        eq 'text text.bak' "$(find . -maxdepth 1 -name '*text*' -printf '%f\n' | sort | tr '\n' ' ' | sed 's/ $//')"
        # the other way round: a person edits while the run looks
        sandbox -- sh -c 'cat text >/dev/null; : >ready; i=0; while ! grep -q edited text && [ $i -lt 600 ]; do sleep 0.1; i=$((i+1)); done; grep -c edited text' >seen &
        wait_for 60 test -e ready
        sed -i 's/three/edited/' text
        wait
        eq 1 "$(cat seen)" 'an edit of the host is seen inside'
}

t 'this project builds and passes its unit tests' own_build
t 'git clone, commit, rebase, worktree, push' git_flow
t 'npm install' npm_install
t 'python venv' python_venv
t 'a toolchain in the home is found by PATH' toolchain_in_home
t 'make -j2 of 150 files' c_project
t 'tar and rm of 20 000 files' small_files
t 'SQLite in WAL mode' sqlite_wal
t 'an editor saves by rename' editor_saves
finish
