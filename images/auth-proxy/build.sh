#!/usr/bin/env bash
# build.sh EXECUTABLE TAG [TOOL [OPTION...]] - an image of the auth proxy
# EXECUTABLE is a cofferdam-auth-proxy for this machine's libraries, which are copied in with it, and the certificate
# authorities that this machine trusts. TOOL is podman (the default) or buildah, with options of its own.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
executable=${1?want: build.sh EXECUTABLE TAG [TOOL [OPTION...]]} tag=${2?want a tag, such as cofferdam-auth-proxy:1}
shift 2
[ $# -gt 0 ] || set -- podman
authorities=/etc/ssl/certs/ca-certificates.crt
[ -e "$authorities" ] || {
        echo "build.sh: no $authorities: install ca-certificates" >&2
        exit 1
}

context=$(mktemp -d)
trap 'rm -rf "$context"' EXIT
root=$context/root
mkdir -p "$root"/{etc/ssl/certs,tmp,usr/libexec}
cp "$here/Containerfile" "$context/"
cp -L "$executable" "$root/usr/libexec/cofferdam-auth-proxy"
cp -L "$authorities" "$root$authorities"
echo 'auth-proxy:x:10002:10002::/:/nonexistent' >"$root/etc/passwd"
echo 'auth-proxy:x:10002:' >"$root/etc/group"
echo 'hosts: files dns' >"$root/etc/nsswitch.conf"
while read -r library; do
        mkdir -p "$root${library%/*}"
        cp -L "$library" "$root$library"
done < <(ldd "$executable" | grep -oE '/[^ ]+' | sort -u)
chmod -R u=rwX,go=rX "$context"

case $1 in
*podman) tool=("$@" build -q) ;;
*) tool=("$@" bud -q) ;;
esac
"${tool[@]}" --tag "$tag" --file "$context/Containerfile" "$context"
