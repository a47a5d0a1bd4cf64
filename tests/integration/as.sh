#!/usr/bin/env bash
# Runs one integration script as root or as an ordinary user: as.sh root|user SCRIPT [PATTERN...]
# From root, the user is 'cofftest' (made by ./dev test), who gets a copy of what the scripts need: the checkout may
# lie where only its owner can go. From a user, root is sudo without a password.
set -u
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
top=$(cd "$here/../.." && pwd)
role=${1?} script=${2?}
name=$(basename "$script" .sh).sh
script=tests/integration/$name
[ -e "$top/$script" ] || script=$(cd "$top" && echo tests/*/"$name")
shift 2
: "${COFFERDAM:=$top/build/cofferdam}" "${COFFERDAM_SHARED:=$top/../shared}" "${COFFERDAM_HELPERS:=$top/build/tests/integration}"
: "${COFFERDAM_POSIX:=$top/build/tests/posix}" "${COFFERDAM_SERVERS:=$top/build/servers}"
# nohup and some CI runners ignore signals, which a shell cannot undo
vars=(--default-signal COFFERDAM_LONG="${COFFERDAM_LONG-}" COFFERDAM_SEED="${COFFERDAM_SEED-}" COFFERDAM_POINTS="${COFFERDAM_POINTS-}" COFFERDAM_K8S="${COFFERDAM_K8S-}" K8S_LAB="${K8S_LAB-}" COFFERDAM_PROGRAMS="${COFFERDAM_PROGRAMS-}" COFFERDAM_LOGS="${COFFERDAM_LOGS-}" COFFERDAM_DRIVERS="${COFFERDAM_DRIVERS-}"
        COFFERDAM_MUST_WORK="${COFFERDAM_MUST_WORK-}" LC_ALL=C.UTF-8)
paths=(COFFERDAM="$COFFERDAM" COFFERDAM_SHARED="$COFFERDAM_SHARED" COFFERDAM_HELPERS="$COFFERDAM_HELPERS"
        COFFERDAM_POSIX="$COFFERDAM_POSIX" COFFERDAM_SERVERS="$COFFERDAM_SERVERS")

skip_all() {
        echo "1..0 # SKIP $*"
        exit 0
}

stage() {
        stage=$(mktemp -d /tmp/cofferdam-stage.XXXXXX) || exit 99
        trap 'rm -rf "$stage"' EXIT
        trap 'exit 143' INT TERM HUP
        chmod 755 "$stage"
        mkdir -p "$stage/top/build" "$stage/shared" "$stage/helpers" "$stage/posix"
        tar -C "$top" --exclude='./build*' --exclude=./.git -cf - . | tar -C "$stage/top" -xf -
        cp -L "$COFFERDAM" "$stage/top/build/cofferdam"
        cp "$COFFERDAM_HELPERS"/{at-call,cow-model,deny,fold-mount,git-judge,guard-mount,make-name,own-resolver,proxy-serve,swap,try-calls} "$stage/helpers/"
        for service in "$(dirname "$(readlink -f "$COFFERDAM")")"/../libexec/cofferdam-*; do
                [ -e "$service" ] || continue
                mkdir -p "$stage/top/libexec"
                cp -L "$service" "$stage/top/libexec/"
        done
        # what is built with them
        for helper in registry-drive libclock-shim.so kube-drive; do
                [ ! -e "$COFFERDAM_HELPERS/$helper" ] || cp "$COFFERDAM_HELPERS/$helper" "$stage/helpers/"
        done
        if [[ $name =~ ^(mcp|agent).sh$ ]] && [ -d "$COFFERDAM_SERVERS/mcp" ]; then
                mkdir "$stage/servers"
                cp -r "$COFFERDAM_SERVERS/mcp" "$stage/servers/"
        fi
        # ./dev run finds what it would build: all of it takes minutes
        [ "$name" != demo.sh ] || echo 'build all: phony' >"$stage/top/build/build.ninja"
        find "$COFFERDAM_POSIX" -maxdepth 1 -type f -perm -u+x -exec cp {} "$stage/posix/" \;
        case $name in net* | proxy* | auth-proxy* | image*) [ ! -d "$COFFERDAM_SERVERS" ] || cp -r "$COFFERDAM_SERVERS" "$stage/servers" ;; esac
        if [[ $name =~ ^(auth-run|kube-manifest).sh$ ]] && [ -d "$COFFERDAM_SERVERS/npm" ]; then
                mkdir "$stage/servers"
                cp -r "$COFFERDAM_SERVERS/npm" "$stage/servers/"
        fi
        if [ "$(basename "$script" .sh)" = library ]; then
                built=$(dirname "$COFFERDAM") # or the directory the link in it leads to
                [ -e "$built/meson-private" ] || built=$(dirname "$built")
                DESTDIR=$stage/top/installed meson install -C "$built" --no-rebuild --quiet || exit 99
        fi
        for part in cases bench; do
                [ ! -d "$COFFERDAM_SHARED/$part" ] || cp -r "$COFFERDAM_SHARED/$part" "$stage/shared/"
        done
        chown -R cofftest: "$stage/top"
}

case $role:$(id -u) in
root:0 | user:[1-9]*)
        exec env "${vars[@]}" "${paths[@]}" "$top/$script" "$@"
        ;;
root:*)
        sudo -n true 2>/dev/null || skip_all 'needs root: sudo asks for a password'
        exec sudo -n env "${vars[@]}" "${paths[@]}" "$top/$script" "$@"
        ;;
user:0)
        id cofftest >/dev/null 2>&1 || skip_all "no user 'cofftest': ./dev test makes it"
        stage
        cd /
        setpriv --reuid cofftest --regid cofftest --init-groups --inh-caps=-all env -i "${vars[@]}" \
                HOME=/home/cofftest USER=cofftest LOGNAME=cofftest SHELL=/bin/bash PATH=/usr/local/bin:/usr/bin:/bin \
                COFFERDAM="$stage/top/build/cofferdam" COFFERDAM_SHARED="$stage/shared" \
                COFFERDAM_HELPERS="$stage/helpers" COFFERDAM_POSIX="$stage/posix" COFFERDAM_SERVERS="$stage/servers" \
                "$stage/top/$script" "$@"
        ;;
*)
        echo "usage: as.sh root|user SCRIPT [PATTERN...]" >&2
        exit 2
        ;;
esac
