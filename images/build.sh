#!/usr/bin/env bash
# build.sh [--variant debian|busybox] [--suite NAME] [--name NAME] FILE - the base image, from packages of Debian
# FILE becomes an archive as docker and podman load it, and `cofferdam image import` takes it. Needs no privilege:
# debian takes mmdebstrap, busybox the program busybox, linked statically (busybox-static).
# The packages of the variant debian are in base/packages.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
variant=debian suite=bookworm name=cofferdam-base:latest
usage() { sed -n '2,5s/^# //p' "$0" >&2; }
while [ $# -gt 1 ]; do
        case $1 in
        --variant) variant=$2 ;;
        --suite) suite=$2 ;;
        --name) name=$2 ;;
        *)
                usage
                exit 2
                ;;
        esac
        shift 2
done
if [ $# != 1 ] || [[ $1 == -* ]]; then
        usage
        exit 2
fi
out=$(realpath -m "$1")
need() {
        command -v "$1" >/dev/null || {
                echo "build.sh: no $1: install $2" >&2
                exit 1
        }
}

work=$(mktemp -d)
trap 'chmod -R u+rwX "$work"; rm -rf "$work"' EXIT

# everything is root's, and as old as SOURCE_DATE_EPOCH: the same input is the same image
pack() { tar --sort=name --owner=0 --group=0 --numeric-owner --mtime="@${SOURCE_DATE_EPOCH:-0}" "$@"; }

busybox_root() {
        local root=$work/root name
        need busybox busybox-static
        mkdir -p "$root"/{bin,etc,home,root,tmp,usr/bin,var/tmp}
        chmod 700 "$root/root"
        chmod 1777 "$root/tmp" "$root/var/tmp"
        cp -L "$(command -v busybox)" "$root/bin/busybox"
        for name in $(busybox --list); do [ "$name" = busybox ] || ln -s busybox "$root/bin/$name"; done
        echo root:x:0:0:root:/root:/bin/sh >"$root/etc/passwd"
        echo root:x:0: >"$root/etc/group"
        pack -C "$root" -cf "$work/layer.tar" .
}

debian_root() {
        local packages
        need mmdebstrap mmdebstrap
        packages=$(grep -v '^#' "$here/base/packages" | paste -sd,)
        mmdebstrap --quiet --variant=minbase --include="$packages" --dpkgopt='path-exclude=/usr/share/doc/*' \
                --dpkgopt='path-exclude=/usr/share/man/*' "$suite" "$work/layer.tar"
}

case $variant in
busybox) busybox_root ;;
debian) debian_root ;;
*)
        echo "build.sh: --variant $variant: want debian or busybox" >&2
        exit 2
        ;;
esac

case $(uname -m) in
x86_64) arch=amd64 ;;
aarch64) arch=arm64 ;;
*) arch=$(uname -m) ;;
esac
id=sha256:$(sha256sum "$work/layer.tar" | cut -d' ' -f1)
printf '{"architecture":"%s","os":"linux","config":{"Env":["PATH=%s"],"Cmd":["/bin/sh"]},"rootfs":{"type":"layers","diff_ids":["%s"]}}' \
        "$arch" /usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin "$id" >"$work/config.json"
printf '[{"Config":"config.json","RepoTags":["%s"],"Layers":["layer.tar"]}]' "$name" >"$work/manifest.json"
pack -C "$work" -cf "$out.part" manifest.json config.json layer.tar
mv "$out.part" "$out"
